//! The options of `deltic doctor` and `deltic install`, which work on another machine.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::headings::TRAVEL;
use super::server::LoginArgs;
use super::settings::SettingArgs;
use crate::words::shell::ShellWords;

/// Check the connection to another machine or a server, and suggest fixes
///
/// Connects, finds deltic there, compares versions and clocks, tests the file system of the directory, and sends a
/// small file there and back. All test files are removed. Of a server: address, key, token, rights and quota.
#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_EXAMPLES, args_override_self = true)]
pub(crate) struct DoctorArgs {
    /// `[user@]host[:path]`, the URL of a server, or a local directory with a slash in its path
    #[arg(value_name = "HOST")]
    pub(crate) place: OsString,
    /// Print events for programs, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure the link: a round trip, and the rate in each direction. Takes a few seconds, at full rate
    #[arg(long)]
    pub(crate) link: bool,
    /// Use this remote shell, with its options
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh", help_heading = TRAVEL)]
    pub(crate) rsh: ShellWords,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    #[arg(help_heading = TRAVEL)]
    pub(crate) deltic_path: OsString,
    /// Servers.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Settings.
    #[command(flatten)]
    pub(crate) _settings: SettingArgs,
}

/// Copy this program to another machine, over the remote shell
///
/// The path there is ~/.local/bin/deltic, or --to. Both machines must have the same architecture. The copy must run
/// once before it replaces an older program, in one step; after a failure the older program stays.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL_EXAMPLES, args_override_self = true)]
pub(crate) struct InstallArgs {
    /// The machine to install on: `[user@]host`
    #[arg(value_name = "HOST", value_parser = host)]
    pub(crate) host: String,
    /// Install to this file, or into this directory (existing, or with a trailing slash) [default: ~/.local/bin/deltic]
    #[arg(long, value_name = "PATH")]
    pub(crate) to: Option<OsString>,
    /// Copy this program instead of the running one, for another architecture
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// Use this remote shell, with its options
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh", help_heading = TRAVEL)]
    pub(crate) rsh: ShellWords,
    /// Settings.
    #[command(flatten)]
    pub(crate) _settings: SettingArgs,
}

/// Parses a host; a colon behind the host is dropped.
pub(crate) fn host(word: &str) -> Result<String, &'static str> {
    let host = word.strip_suffix(':').unwrap_or(word);
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    if host.starts_with('@') {
        return Err("no user before the '@'; `@NAME` is a profile of sync, watch and verify");
    }
    if name.contains(':') && name.parse::<Ipv6Addr>().is_err() {
        return Err("a path after HOST is not taken here; use --to PATH");
    }
    match name.is_empty() || name.starts_with('-') || host.starts_with('-') || host.contains('/') {
        true => Err("not a host"),
        false => Ok(host.to_owned()),
    }
}

const DOCTOR_EXAMPLES: &str = "\
EXAMPLES:
  deltic doctor backup
      check deltic and the home directory on 'backup'
  deltic doctor me@backup:/srv/photos
      check another directory
  deltic doctor --link backup
      measure the rate of the link too; the next sync starts with the measured rate
  deltic doctor /mnt/usb
      test the file system of a local directory

EXIT CODES:
  0 no check failed; else the exit code of a sync: 2 no common protocol, 3 the directory cannot be used,
  14 no remote shell, 127 no deltic on the other machine, 255 the remote shell does not connect";

const INSTALL_EXAMPLES: &str = "\
EXAMPLES:
  deltic install backup
      copy this program to ~/.local/bin/deltic on 'backup'
  deltic install --to /usr/local/bin/ root@backup
      install for all users
  deltic install --binary target/aarch64-unknown-linux-musl/release/deltic pi
      for another architecture; `make static` builds it

EXIT CODES:
  0 installed; 3 no program to copy; 4 the program does not run there; 11 the program could not be written;
  other codes as `deltic sync`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_user_and_a_colon_behind_it() {
        assert_eq!(host("me@h:").as_deref(), Ok("me@h"));
        for word in ["", ":", "-x", "me@", "me@-x", "@h", "a/b"] {
            assert!(host(word).is_err(), "{word}");
        }
    }
}
