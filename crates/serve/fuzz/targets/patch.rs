//! Fuzzes deltas that a client sends for a file.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| Here::once().ask("POST /v1/volumes/photos/files/dir/file?as=patch", bytes));
