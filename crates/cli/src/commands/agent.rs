//! `deltic agent`: the far end of a sync, started by `deltic sync` over the remote shell.
//!
//! What goes wrong is told over the connection and printed by the other end, once; here only the exit code says it.

use std::io::{IsTerminal, stdin};

use crate::exit::Exit;
use crate::output;

/// Serves one session on standard input and output.
pub(crate) fn run() -> Exit {
    if stdin().is_terminal() {
        output::complain(
            "agent: speaks to a program, not to a person",
            Some(
                "`deltic sync` starts it on the other machine; to try a connection, run `ssh HOST deltic --version`",
            ),
        );
        return Exit::Usage;
    }
    match deltic_net::agent() {
        Ok(()) => Exit::Success,
        Err(error) => Exit::from(&error),
    }
}
