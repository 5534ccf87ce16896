//! `deltic login`: keeps the token and the pin for a server.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, ensure};
use deltic_serve::client::{Credentials, VolumeRights};
use deltic_serve::token::Token;

use crate::args::server::LoginCommandArgs;
use crate::plan::server::{Login, Logins, address_of, parsed};
use crate::report::output;

/// Writes a token and a pin for a server to the file of logins.
pub(crate) fn run(args: &LoginCommandArgs) -> Result<()> {
    let address = address_of(&args.url)?;
    let behind = |key: &str| format!("{key}= behind the # of the address");
    let token: Token = match address.in_fragment("t") {
        Some(token) => parsed(token, &behind("t"))?,
        None => parsed(&ask()?, "the token of standard input")?,
    };
    let pin = match (args.pin, address.in_fragment("pin")) {
        (Some(pin), _) => Some(pin),
        (None, pin) => pin.map(|pin| parsed(pin, &behind("pin"))).transpose()?,
    };
    let logins = Logins::read()?;
    let login = Login::new(&token, pin);
    let volumes = address.volumes(&Credentials { token, pin })?;
    let (server, volume) = (address.server(), &address.volume);
    ensure!(
        volume.is_empty() || volumes.iter().any(|served| served.name == *volume),
        "{server}: the token is for no volume named '{volume}'; its volumes: {}",
        volumes.iter().map(shown).collect::<Vec<_>>().join(", ")
    );
    let path = logins.keep(server.clone(), login)?;
    let volumes: Vec<_> = volumes.iter().map(shown).collect();
    let (path, volumes) = (path.display(), volumes.join(", "));
    output::note(&format!("stored the token for {server} in {path}; volumes: {volumes}\n"));
    Ok(())
}

/// Returns a volume's name and the rights of the token there.
fn shown(VolumeRights { name, read, write, .. }: &VolumeRights) -> String {
    match (read, write) {
        (true, false) => format!("{name} (read only)"),
        (false, true) => format!("{name} (write only)"),
        _ => name.clone(),
    }
}

/// Reads a token from standard input, without echo on a terminal.
fn ask() -> Result<String> {
    let input = io::stdin();
    let before = input.is_terminal().then(|| rustix::termios::tcgetattr(&input)).transpose()?;
    if let Some(before) = &before {
        output::note("token: ");
        let mut unseen = before.clone();
        unseen.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(&input, rustix::termios::OptionalActions::Flush, &unseen)?;
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(before) = before {
        rustix::termios::tcsetattr(&input, rustix::termios::OptionalActions::Flush, &before)?;
        output::note("\n");
    }
    read.context("cannot read the token")?;
    Ok(line.trim().to_owned())
}
