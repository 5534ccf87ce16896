//! Fuzzes the messages of a WebSocket: the channels of the messages, and control messages on channel 0.
#![no_main]

use std::time::Duration;

use deltic_carrier::channels::Channels;
use deltic_carrier::ends::{ClientEnd, ServerEnd};
use deltic_carrier::message::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((channel, rest)) = decode(bytes.to_vec().into()) {
        assert_eq!(&encode(channel, &rest)[..], bytes);
        hear(&rest);
    }
    let mut channels = Channels::<(), ()>::default();
    channels.open(1, ()).expect("it is not open");
    channels.open_whole(2, 100, Duration::ZERO, ()).expect("it is not open");
    for message in bytes.split(|byte| *byte == b'\n') {
        let _ = channels.receive(message.to_vec().into());
    }
    assert!(channels.count() <= 2);
});

/// Checks that a control message which an end accepts is the same message after encoding and decoding.
fn hear(message: &[u8]) {
    if let Ok(heard) = ServerEnd::default().parse_message(message) {
        // A message near the limit may exceed the limit after encoding.
        if let Ok(again) = ServerEnd::default().parse_message(&heard.message()[1..]) {
            assert_eq!(again, heard);
        }
    }
    if let Ok(heard) = ClientEnd::default().parse_message(message)
        && let Ok(again) = ClientEnd::default().parse_message(&heard.message()[1..])
    {
        assert_eq!(again, heard);
    }
}
