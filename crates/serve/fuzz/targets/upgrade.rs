//! All that a connection may bring; TOKEN stands for the server's.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let here = Here::once();
    here.converse(&here.with_token(bytes));
});
