//! Frames of a WebSocket of somebody who is known.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Here::once().over_socket(bytes));
