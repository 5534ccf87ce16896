//! Fuzzes all bytes of a connection. `TOKEN` in the input is replaced by the server's token.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let here = Here::once();
    here.converse(&here.with_token(bytes));
});
