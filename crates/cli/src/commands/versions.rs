//! `deltic versions` and `deltic restore`: list and restore old versions that a server keeps.

use anyhow::{Context, Result, ensure};
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
    for kept in file.versions(&credentials)? {
        if args.json {
            output.line(serde_json::to_string(&kept)?);
            continue;
        }
        let KeptVersion { version, replaced, bytes } = kept;
        let (when, bytes) = (Zone::here().format_time(replaced), counted(bytes, "byte"));
        output.line(format!("{version:<20} {when}  {bytes}"));
    }
    Ok(output.finish()?)
}

/// Restores a version of a file.
pub(crate) fn restore(args: &RestoreArgs) -> Result<()> {
    let (file, credentials) = file(&args.url, &args.login)?;
    let version = match args.at {
        Some(ago) => version_at(file.versions(&credentials)?, ago.start())
            .with_context(|| format!("{}: the file has not changed since then", args.url))?,
        None => args.version.unwrap_or_default(),
    };
    Ok(file.restore(&credentials, version)?)
}

/// Returns the version that a file had at a time: the first one that was replaced or deleted later. `None` if the
/// present file is older than that time.
fn version_at(versions: Vec<KeptVersion>, time: i64) -> Option<u64> {
    let later = versions.into_iter().filter(|kept| kept.replaced >= time);
    later.min_by_key(|kept| kept.replaced)?.version.parse().ok()
}

/// Returns the address of a file on a server, and the credentials for that server.
fn file(url: &str, login: &LoginArgs) -> Result<(Address, Credentials)> {
    let address = address_of(url)?;
    ensure!(!address.path.is_empty(), "{url}: name a file in the volume");
    let credentials = credentials(&address, login)?;
    Ok((address, credentials))
}
