//! `deltic versions` and `deltic restore`: list and restore old versions that a server keeps.

use anyhow::{Result, ensure};
use deltic_serve::client::{Address, Credentials, KeptVersion};

use crate::args::server::{LoginArgs, RestoreArgs, VersionsArgs};
use crate::plan::server::{address_of, credentials};
use crate::report::numbers::counted;
use crate::report::output::Output;
use crate::words::zone::Zone;

/// Prints the versions of a file.
pub(crate) fn list(args: &VersionsArgs) -> Result<()> {
    let (file, credentials) = file(&args.url, &args.login)?;
    let mut output = Output::stdout();
    for KeptVersion { version, replaced, bytes } in file.versions(&credentials)? {
        let (when, bytes) = (Zone::here().format_time(replaced), counted(bytes, "byte"));
        output.line(format!("{version:<20} {when}  {bytes}"));
    }
    Ok(output.finish()?)
}

/// Restores a version of a file.
pub(crate) fn restore(args: &RestoreArgs) -> Result<()> {
    let (file, credentials) = file(&args.url, &args.login)?;
    Ok(file.restore(&credentials, args.version)?)
}

/// Returns the address of a file on a server, and the credentials for that server.
fn file(url: &str, login: &LoginArgs) -> Result<(Address, Credentials)> {
    let address = address_of(url)?;
    ensure!(!address.path.is_empty(), "{url}: name a file in the volume");
    let credentials = credentials(&address, login)?;
    Ok((address, credentials))
}
