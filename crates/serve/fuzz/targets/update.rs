//! Fuzzes updates of files that a client sends over a WebSocket.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Here::once().update(bytes));
