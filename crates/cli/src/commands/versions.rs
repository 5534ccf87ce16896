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
        Some(ago) => version_at(&file.versions(&credentials)?, ago.start(), &args.url)?,
        None => args.version.unwrap_or_default(),
    };
    Ok(file.restore(&credentials, version)?)
}

/// Returns the version that the file at `url` had at a time: the first one that was replaced or deleted later.
///
/// # Errors
/// No version was replaced since that time, or the server lists only versions that were replaced later.
fn version_at(versions: &[KeptVersion], time: i64, url: &str) -> Result<u64> {
    let is_later = |kept: &&KeptVersion| kept.replaced >= time;
    ensure!(
        versions.len() < MAX_LISTED_VERSIONS || !versions.iter().all(|kept| is_later(&kept)),
        "{url}: the newest {MAX_LISTED_VERSIONS} versions are all younger; name an older one by --version"
    );
    // Times are whole seconds; the names of versions are in order within a second too.
    let later = versions.iter().filter(is_later).filter_map(|kept| kept.version.parse().ok());
    later.min().with_context(|| format!("{url}: no version was replaced or deleted since then"))
}

/// Most versions of a file that a server lists, the newest ones.
const MAX_LISTED_VERSIONS: usize = 1_000;

/// Returns the address of a file on a server, and the credentials for that server.
fn file(url: &str, login: &LoginArgs) -> Result<(Address, Credentials)> {
    let address = address_of(url)?;
    ensure!(!address.path.is_empty(), "{url}: name a file in the volume");
    let credentials = credentials(&address, login)?;
    Ok((address, credentials))
}
