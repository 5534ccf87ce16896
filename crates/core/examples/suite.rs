//! The suite of all chunkers' forms as a program, for machines that cannot run tests: `tools/wasm-suite.mjs` runs it.
//!
//! A browser's machine has no standard output. What it has is an exit code: the number of chunkers that passed.

use std::process::ExitCode;

use deltic_core::Isa;
use deltic_core::suite::{check, check_operations, specs};

fn main() -> ExitCode {
    match suite() {
        Ok(passed) => ExitCode::from(passed),
        Err(why) => {
            // Spelled out before the end, for whoever reads the memory of a machine that has no words.
            let words = format!("suite: {why}\n");
            panic!("{words}");
        }
    }
}

fn suite() -> Result<u8, String> {
    let isas = Isa::available();
    if isas == [Isa::SCALAR] {
        return Err("this machine, or this build, has no vectors".into());
    }
    for isa in isas {
        check_operations(isa).map_err(|operation| format!("{isa:?}: {operation}"))?;
    }
    specs().try_fold(0, |passed, spec| {
        check(&spec).map_err(|mismatch| mismatch.to_string())?;
        Ok(passed + 1)
    })
}
