//! `deltic agent`: the far end of a sync, started by `deltic sync` over the remote shell.
//!
//! What goes wrong is told over the connection and printed by the other end, once; here only the exit code says it.

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

use crate::cache;
use crate::exit::Exit;
use crate::output;
use crate::rate::Rate;

/// The words of `deltic agent`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
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
    if args.examine {
        return super::doctor::answer();
    }
    let bwlimit = args.bwlimit.and_then(Rate::limit);
    let serve = || deltic_net::agent(socket_dirs(), bwlimit, cache::dir());
    let ended = if args.join { deltic_net::join() } else { serve() };
    match ended {
        Ok(()) => Exit::Success,
        Err(error) => Exit::from(&error),
    }
}

/// Where a socket may be made: in the user's own directory for such, if there is one.
fn socket_dirs() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.into_iter().filter(|dir| dir.is_absolute()).chain([std::env::temp_dir()]).collect()
}
