//! Fuzzes the bodies of requests. The first byte of the input chooses the request, the rest is the body.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [which, body @ ..] = bytes else { return };
    let request = REQUESTS[usize::from(*which) % REQUESTS.len()];
    Here::once().ask(request, body);
});

const REQUESTS: &[&str] = &[
    "POST /v1/tokens",
    "POST /v1/tickets",
    "POST /v1/streams",
    "PUT /v1/volumes/photos/files/dir/new",
    "POST /v1/volumes/photos/files/dir/file?as=delta",
    "POST /v1/volumes/photos/files/dir/file?as=match",
];
