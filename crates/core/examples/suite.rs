//! The suite of all chunkers as a program for platforms that cannot run tests; `tools/wasm-suite.mjs` runs it.
//!
//! A browser has no standard output. The exit code is the number of chunkers that passed.

use std::process::ExitCode;

use deltic_core::Isa;
use deltic_core::suite::{check, check_operations, specs};

fn main() -> ExitCode {
    match suite() {
        Ok(passed) => ExitCode::from(passed),
        Err(why) => {
            // Formatted before the panic, so that the message can be found in the memory of a platform without
            // output.
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
