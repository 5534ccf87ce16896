//! Whole sessions in memory as a program, for machines that cannot run tests: `tools/wasm-suite.mjs` runs it.
//!
//! A browser's machine has no standard output. What it has is an exit code: the number of sessions that ended well.

mod cases;
mod memory;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cases::check() {
        Ok(passed) => ExitCode::from(passed),
        Err(why) => {
            // Spelled out before the end, for whoever reads the memory of a machine that has no words.
            let words = format!("suite: {why}\n");
            panic!("{words}");
        }
    }
}
