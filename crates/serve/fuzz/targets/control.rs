//! Messages of a WebSocket: their channels, and what is said in channel 0.
#![no_main]

use deltic_serve::channel::{decode, encode};
use deltic_serve::control::{FromClient, FromServer, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((channel, rest)) = decode(bytes.to_vec().into()) {
        assert_eq!(&encode(channel, &rest)[..], bytes);
    }
    let _ = (parse::<FromClient>(bytes), parse::<FromServer>(bytes));
});
