//! `deltic agent`: the far end of a sync, started by `deltic sync` over the remote shell.
//!
//! Errors travel over the connection, and the other end prints them once; this end only sets the exit code.

use std::io::{IsTerminal, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_net::Restriction;
use deltic_net::rates::RateLimits;
use deltic_net::restrict::Access;
use deltic_tree::path::printable;

use crate::args::agent::{AgentArgs, AgentSessionArgs, parse_agent_command};
use crate::plan::cache;
use crate::report::exit::Exit;
use crate::report::output;

/// Serves one session on standard input and output, or joins both to a running session.
pub(crate) fn run(args: &AgentArgs) -> Exit {
    if stdin().is_terminal() {
        output::complain(
            "agent: standard input is a terminal, not a program",
            Some(
                "`deltic sync` starts the agent on the other machine; to test a connection, \
                 run `ssh HOST deltic --version`",
            ),
        );
        return Exit::Usage;
    }
    deltic_net::walls::hide_memory();
    let Some(dir) = &args.restrict else {
        return serve(&args.session, args.session.limits(), None);
    };
    let command = std::env::var_os(ORIGINAL_COMMAND);
    let session = match command.as_deref().map(|command| (command, parse_agent_command(command))) {
        None => args.session.clone(),
        Some((_, Some(session))) => session,
        Some((command, None)) => {
            let command = printable(command.as_bytes());
            let command = deltic_tree::path::shortened(&command);
            output::complain(
                &format!("agent: restricted to a directory: `{command}` is not run here"),
                Some("this key is only for `deltic sync`"),
            );
            return Exit::Unsupported;
        }
    };
    match restriction(dir, args) {
        // The holder of the key may ask for less than the owner of the key allows, not for more.
        Ok(restriction) => {
            let limits = args.session.limits().stricter_of(session.limits());
            serve(&session, limits, Some(restriction))
        }
        Err(error) => {
            let (dir, why) = (printable(dir.as_os_str().as_bytes()), deltic_net::reason(&error));
            output::complain(&format!("agent: --restrict {dir}: {why}"), None);
            Exit::Selection
        }
    }
}

fn serve(session: &AgentSessionArgs, limits: RateLimits, restriction: Option<Restriction>) -> Exit {
    if session.examine {
        return super::doctor::answer(restriction.as_ref(), &limits);
    }
    let serve = || deltic_net::run_agent(socket_dirs(), limits, cache::dir(), restriction);
    let ended = if session.join { deltic_net::join_session() } else { serve() };
    match ended {
        Ok(()) => Exit::Success,
        Err(error) => Exit::from(&error),
    }
}

fn restriction(dir: &Path, args: &AgentArgs) -> std::io::Result<Restriction> {
    let access = match (args.ro, args.wo) {
        (true, _) => Access::Read,
        (false, true) => Access::Write,
        (false, false) => Access::Both,
    };
    Restriction::confine(dir, access, args.no_delete, cache::dir().as_deref())
}

/// The environment variable in which sshd puts the requested command, if the key has a forced command.
const ORIGINAL_COMMAND: &str = "SSH_ORIGINAL_COMMAND";

/// Returns the directories for sockets: the user's runtime directory, if any, and the temporary directory.
fn socket_dirs() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.into_iter().filter(|dir| dir.is_absolute()).chain([std::env::temp_dir()]).collect()
}
