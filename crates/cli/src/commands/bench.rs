//! `deltic bench`: hands its words to the program `deltic-bench`, as cargo does with its subcommands.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use deltic_net::reason;

use crate::report::exit::Exit;
use crate::report::output;

/// Measure what the parts of a sync cost on this machine and your data
///
/// Runs the program deltic-bench, which is installed apart from deltic: the one
/// beside this program, else the one in PATH.
///
///   deltic bench --help                             what can be measured
///   deltic bench chunk                              all chunkers on random bytes
///   deltic bench sync                               whole syncs, on files made for it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, disable_help_flag = true)]
pub(crate) struct Args {
    /// The words of deltic-bench
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the other program; returns where that is not possible.
pub(crate) fn run(args: &Args) -> Exit {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(&args.words).exec();
    let missing = error.kind() == ErrorKind::NotFound;
    let hint = missing.then_some("build it with `cargo build --release -p deltic-bench`, and put it beside deltic or into PATH");
    output::complain(&format!("cannot start {}: {}", program.display(), reason(&error)), hint);
    Exit::Start
}

const PROGRAM: &str = "deltic-bench";
