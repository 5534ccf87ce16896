//! Fuzzes the frames of a WebSocket, after a request with a valid token.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Here::once().over_socket(bytes));
