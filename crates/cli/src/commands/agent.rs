//! `deltic agent`: the far end of a sync, started by `deltic sync` over the remote shell.
//!
//! What goes wrong is told over the connection and printed by the other end, once; here only the exit code says it.

use std::ffi::OsStr;
use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use deltic_net::Restriction;
use deltic_net::restrict::Access;
use deltic_tree::path::printable;

use crate::plan::cache;
use crate::report::exit::Exit;
use crate::report::output;
use crate::words::rate::Rate;

/// The words of `deltic agent`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Keep to this directory: for a key that may do no more
    ///
    /// It is the root for whoever connects: `host:/a` and `host:a` are DIR/a. Paths that lead out are refused, and so is
    /// whatever other command the key is used with. For `command="deltic agent --restrict DIR",restrict` in
    /// authorized_keys.
    #[arg(long, value_name = "DIR")]
    restrict: Option<PathBuf>,
    /// With --restrict: nothing is written
    #[arg(long, requires = "restrict", conflicts_with = "wo")]
    ro: bool,
    /// With --restrict: no file is sent
    #[arg(long, requires = "restrict")]
    wo: bool,
    /// With --restrict: nothing is deleted; files are still replaced by new versions
    #[arg(long, requires = "restrict")]
    no_delete: bool,
}

/// What the other end may ask for.
#[derive(Clone, Debug, clap::Args)]
struct Asked {
    /// Be one more stream of a session that is served here
    ///
    /// Which one, and what lets the stream join, are the first bytes of standard input.
    #[arg(long)]
    join: bool,
    /// Most bytes a second that this end puts on the wire or takes from it, as `deltic sync` has it
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<Rate>,
    /// Say what this program and the directory that standard input names are like; for `deltic doctor`
    #[arg(long, conflicts_with = "join")]
    examine: bool,
}

/// The words behind `agent` of a command that is not ours to trust.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    asked: Asked,
}

/// Serves one session on standard input and output, or leads them to one.
pub(crate) fn run(args: &Args) -> Exit {
    if stdin().is_terminal() {
        output::complain(
            "agent: speaks to a program, not to a person",
            Some(
                "`deltic sync` starts it on the other machine; to try a connection, run `ssh HOST deltic --version`",
            ),
        );
        return Exit::Usage;
    }
    let Some(dir) = &args.restrict else { return serve(&args.asked, args.asked.limit(), None) };
    let command = std::env::var_os(ORIGINAL_COMMAND);
    let asked = match command.as_deref().map(|command| (command, asked(command))) {
        None => args.asked.clone(),
        Some((_, Some(asked))) => asked,
        Some((command, None)) => {
            let command = printable(command.as_bytes());
            let command = deltic_tree::path::shortened(&command);
            output::complain(
                &format!("agent: restricted to a directory: `{command}` is not run here"),
                Some("this key is for `deltic sync` alone"),
            );
            return Exit::Unsupported;
        }
    };
    match restriction(dir, args) {
        // Who holds the key may ask for less than its owner lets through, not for more.
        Ok(restriction) => {
            let limits = [args.asked.limit(), asked.limit()];
            serve(&asked, limits.into_iter().flatten().min(), Some(restriction))
        }
        Err(error) => {
            let (dir, why) = (printable(dir.as_os_str().as_bytes()), deltic_net::reason(&error));
            output::complain(&format!("agent: --restrict {dir}: {why}"), None);
            Exit::Selection
        }
    }
}

fn serve(asked: &Asked, bwlimit: Option<u64>, restriction: Option<Restriction>) -> Exit {
    if asked.examine {
        return super::doctor::answer(restriction.as_ref());
    }
    let serve = || deltic_net::agent(socket_dirs(), (bwlimit, cache::dir()), restriction);
    let ended = if asked.join { deltic_net::join() } else { serve() };
    match ended {
        Ok(()) => Exit::Success,
        Err(error) => Exit::from(&error),
    }
}

impl Asked {
    fn limit(&self) -> Option<u64> {
        self.bwlimit.and_then(Rate::limit)
    }
}

fn restriction(dir: &Path, args: &Args) -> std::io::Result<Restriction> {
    let access = match (args.ro, args.wo) {
        (true, _) => Access::Read,
        (false, true) => Access::Write,
        (false, false) => Access::Both,
    };
    Restriction::begin(dir, (access, args.no_delete), cache::dir().as_deref())
}

/// What the command asks for that the other end wanted to be run, if that is an agent; the name of the program is its own affair.
/// A stream that joins leads to a socket, and that would be outside.
fn asked(command: &OsStr) -> Option<Asked> {
    let words = shlex::split(command.to_str()?)?;
    let [_, agent, options @ ..] = &words[..] else { return None };
    let line = Line::try_parse_from([agent].into_iter().chain(options)).ok()?;
    (agent == "agent" && !line.asked.join).then_some(line.asked)
}

/// Where sshd says what was to be run, if a key has a command of its own.
const ORIGINAL_COMMAND: &str = "SSH_ORIGINAL_COMMAND";

/// Where a socket may be made: in the user's own directory for such, if there is one.
fn socket_dirs() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.into_iter().filter(|dir| dir.is_absolute()).chain([std::env::temp_dir()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_words_of_the_other_end_only_those_of_an_agent_count() {
        let asked = |command: &str| super::asked(OsStr::new(command));
        assert!(asked("deltic agent").is_some());
        assert!(asked("/opt/'my tools'/deltic agent --examine").unwrap().examine);
        assert_eq!(asked("deltic agent --bwlimit=1K").unwrap().limit(), Some(1024));
        for refused in [
            "",
            "deltic",
            "sh",
            "sh -c 'deltic agent'",
            "deltic sync a b",
            "deltic agent --join",
            "deltic agent --restrict /",
            "deltic agent --restrict=/",
            "deltic agent; id",
            "deltic agent extra",
            "deltic agent --help",
            "deltic agent 'open quote",
            "deltic --version",
            "sudo deltic agent",
        ] {
            assert!(asked(refused).is_none(), "{refused}");
        }
    }
}
