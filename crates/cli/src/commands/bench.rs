//! `deltic bench`: passes its arguments to the program `deltic-bench`, as cargo does for subcommands.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use deltic_net::reason;

use crate::args::tools::BenchArgs;
use crate::report::exit::Exit;
use crate::report::output;

/// Executes `deltic-bench` in this process; returns only on errors.
pub(crate) fn run(args: &BenchArgs) -> Exit {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(&args.words).exec();
    let missing = error.kind() == ErrorKind::NotFound;
    let hint = missing.then_some(
        "run `cargo build --release -p deltic-bench`, and move the program beside deltic",
    );
    output::complain(&format!("cannot start {}: {}", program.display(), reason(&error)), hint);
    Exit::Start
}

const PROGRAM: &str = "deltic-bench";
