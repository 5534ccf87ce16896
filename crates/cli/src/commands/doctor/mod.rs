//! `deltic doctor`: checks the connection to another machine and a directory there, or to a server, and says how to fix
//! problems.

mod abilities;
mod answer;
mod findings;
mod link;
mod probe;
mod server;
mod transfer;
mod way;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use deltic_net::plan::Remote;
use deltic_serve::client::Address;

use self::abilities::DirFeatures;
use self::findings::Findings;
use self::way::RemoteDir;
use super::version::BUILD;
use crate::args::far::{DoctorArgs, host};
use crate::report::exit::Exit;
use crate::words::place::ParsedOperand;

pub(super) use self::answer::answer;

/// Runs all checks that do not depend on a failed check.
pub(crate) fn run(args: &DoctorArgs) -> Exit {
    let mut findings = Findings::new(args.json);
    findings.ok("this machine", &BUILD.to_string());
    if args.link && is_without_remote_shell(&args.place) {
        let mend = "name a machine that ssh reaches: `deltic doctor HOST --link`";
        findings.fail(
            Exit::Usage,
            "link",
            "--link measures the link of a remote shell",
            Some(mend),
        );
        return findings.finish();
    }
    if Address::looks_like(args.place.as_bytes()) {
        server::examine(args, &mut findings);
        return findings.finish();
    }
    match target(&args.place) {
        Ok(ParsedOperand::Local(path)) => {
            findings.abilities(&DirFeatures::of(&path));
        }
        Ok(ParsedOperand::Remote { host, path }) => {
            let remote = Remote {
                shell: args.rsh.0.clone(),
                program: args.deltic_path.clone(),
                options: Vec::new(),
            };
            RemoteDir { remote, host: host.unwrap_or_default(), path }
                .examine(args.link, &mut findings);
        }
        Err(why) => findings.fail(Exit::Usage, "operand", &why, Some("see `deltic doctor --help`")),
    }
    findings.finish()
}

/// True for the address of a server, and for a local directory.
fn is_without_remote_shell(place: &OsStr) -> bool {
    Address::looks_like(place.as_bytes()) || matches!(target(place), Ok(ParsedOperand::Local(_)))
}

/// Parses the operand; a word without a colon or a slash is a host.
fn target(word: &OsStr) -> Result<ParsedOperand, String> {
    let text = word.as_bytes();
    if text.contains(&b':') || text.contains(&b'/') || text == b"." {
        let place = ParsedOperand::parse(word).map_err(|error| error.to_string())?;
        return match place {
            ParsedOperand::Remote { host: None, .. } => {
                Err("a host is missing before the colon".into())
            }
            place => Ok(place),
        };
    }
    let host = host(&word.to_string_lossy()).map_err(str::to_owned)?;
    Ok(ParsedOperand::Remote { host: Some(host), path: ".".into() })
}
