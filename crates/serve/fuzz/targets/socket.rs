//! Frames of a WebSocket of somebody who is known.
#![no_main]

use deltic_serve::server::fuzz::Here;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let here = Here::once();
    here.converse(&[&here.with_token(UPGRADE), bytes].concat());
});

const UPGRADE: &[u8] = b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
    Sec-WebSocket-Protocol: deltic.1\r\nAuthorization: Bearer TOKEN\r\n\r\n";
