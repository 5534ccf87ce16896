//! Messages of a WebSocket: their channels, and what is said in channel 0.
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

/// A control message that an end takes is taken again as we write it.
fn hear(message: &[u8]) {
    if let Ok(heard) = ServerEnd::default().hear(message) {
        // One near the bound may be longer then.
        if let Ok(again) = ServerEnd::default().hear(&heard.message()[1..]) {
            assert_eq!(again, heard);
        }
    }
    if let Ok(heard) = ClientEnd::default().hear(message)
        && let Ok(again) = ClientEnd::default().hear(&heard.message()[1..])
    {
        assert_eq!(again, heard);
    }
}
