//! The lines that give another machine access to a server: address, commands and QR code.

use std::fmt::Write;

use deltic_serve::client::{Address, escape};
use deltic_serve::server::announcement::Announcement;
use deltic_serve::token::Token;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

/// A token, and the part of a server that it is for.
pub(super) struct Invitation<'a> {
    pub(super) server: &'a Announcement,
    pub(super) token: &'a Token,
    /// Volume, and the path in the volume, with a slash at the end.
    pub(super) path: String,
    /// True if the token may not write there.
    pub(super) is_read_only: bool,
}

impl Invitation<'_> {
    /// Returns the address with the token, and the commands for the other side. For a terminal, a QR code comes first
    /// if other machines reach the address.
    pub(super) fn text(&self, is_terminal: bool) -> String {
        let Self { server, token, path, is_read_only } = self;
        let place = format!("{}/{}", server.address, escape(path.as_bytes()));
        let pin = server.pin.as_ref().map(|pin| format!("&pin={pin}")).unwrap_or_default();
        let url = format!("{place}#t={}{pin}", token.reveal());
        let is_here = url.parse::<Address>().is_ok_and(|address| address.is_here());
        let mut text = String::from("\n");
        if is_terminal && !is_here {
            text += &qr_code(&url);
        }
        let (who, indent) = if is_here { ("here", "    ") } else { ("elsewhere", "         ") };
        let sync = match is_read_only {
            true => format!("deltic sync -a {place} DIR/"),
            false => format!("deltic sync -a DIR/ {place}"),
        };
        let lines = format!("  {url}\n\n{who}: deltic login '{url}'\n{indent}  {sync}\n");
        text += &lines;
        if is_here {
            // --lan was given, or the settings have TLS.
            let network = match server.pin.is_some() {
                true => "--listen 0.0.0.0:PORT",
                false => "`deltic serve --lan`",
            };
            let line = "Only this machine reaches the address";
            writeln!(text, "{line}; {network} serves the network.").expect("a string takes all");
        }
        text
    }
}

/// Returns the QR code of the address, at the lowest error correction, since screens are read without faults.
fn qr_code(url: &str) -> String {
    let code = QrCode::with_error_correction_level(url.as_bytes(), EcLevel::L);
    let drawn = code.map(|code| code.render::<Dense1x2>().quiet_zone(true).build());
    drawn.map(|drawn| format!("{drawn}\n\n")).unwrap_or_default()
}
