//! `deltic agent`: the far end of a sync, started by `deltic sync` over the remote shell.
//!
//! What goes wrong is told over the connection and printed by the other end, once; here only the exit code says it.

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

use crate::exit::Exit;
use crate::output;

/// The words of `deltic agent`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// Be one more stream of a session that is served here
    ///
    /// Which one, and what lets the stream join, are the first bytes of standard input.
    #[arg(long)]
    join: bool,
}

/// Serves one session on standard input and output, or leads them to one.
pub(crate) fn run(args: Args) -> Exit {
    if stdin().is_terminal() {
        output::complain(
            "agent: speaks to a program, not to a person",
            Some(
                "`deltic sync` starts it on the other machine; to try a connection, run `ssh HOST deltic --version`",
            ),
        );
        return Exit::Usage;
    }
    let ended = if args.join { deltic_net::join() } else { deltic_net::agent(socket_dirs()) };
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
