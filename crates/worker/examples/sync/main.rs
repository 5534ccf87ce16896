//! Runs whole sessions in memory, on platforms without a test runner: `tools/wasm-suite.mjs` runs this program.
//!
//! A WebAssembly module in a browser has no standard output. The exit code is the number of sessions that succeeded.

mod cases;
mod ends;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cases::check() {
        Ok(passed) => ExitCode::from(passed),
        Err(why) => {
            // The message is formatted before the panic, so that it can be read in the module's memory.
            let words = format!("suite: {why}\n");
            panic!("{words}");
        }
    }
}
