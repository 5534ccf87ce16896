//! Messages of a connection: a channel number, as a varint (LEB128), and bytes of that channel.
//!
//! A message without bytes ends the channel's stream in its direction. Channel 0 carries
//! [control messages](crate::control), each in one message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Most bytes of a channel in one message. Long messages are efficient, but delay other channels.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Most bytes of a channel number.
pub const MAX_NUMBER_BYTES: usize = 5;

/// Error of a message that does not start with a channel number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message has no valid channel number")]
pub struct BadMessage;

/// Splits a message into the channel number and the bytes of the channel.
///
/// # Errors
/// [`BadMessage`] if the channel number is truncated, too large, or not in its shortest form.
pub fn decode(mut message: Bytes) -> Result<(u32, Bytes), BadMessage> {
    let (mut number, mut shift) = (0_u32, 0);
    loop {
        if !message.has_remaining() || shift >= 7 * MAX_NUMBER_BYTES {
            return Err(BadMessage);
        }
        let byte = message.get_u8();
        let part = u32::from(byte & 0x7f);
        number |=
            part.checked_shl(shift as u32).filter(|set| set >> shift == part).ok_or(BadMessage)?;
        shift += 7;
        if byte & 0x80 == 0 {
            // A number must be in its shortest form.
            return if part == 0 && shift > 7 { Err(BadMessage) } else { Ok((number, message)) };
        }
    }
}

/// Returns a message with these bytes of a channel.
#[must_use]
pub fn encode(mut channel: u32, bytes: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(MAX_NUMBER_BYTES + bytes.len());
    while channel >= 0x80 {
        message.put_u8(channel as u8 | 0x80);
        channel >>= 7;
    }
    message.put_u8(channel as u8);
    message.put_slice(bytes);
    message.freeze()
}

/// The stream that this end sends on a channel.
#[derive(Debug)]
pub struct Outgoing {
    channel: u32,
    has_ended: bool,
}

impl Outgoing {
    /// Returns the stream to send on `channel`.
    #[must_use]
    pub const fn new(channel: u32) -> Self {
        Self { channel, has_ended: false }
    }

    /// Returns a message with the first of `bytes`, as many as fit, and their number. `None` if `bytes` is empty, since
    /// a message without bytes would end the stream.
    #[must_use]
    pub fn message(&self, bytes: &[u8]) -> Option<(Bytes, usize)> {
        let len = bytes.len().min(MAX_MESSAGE_BYTES);
        (len > 0).then(|| (encode(self.channel, &bytes[..len]), len))
    }

    /// Returns the message that ends the stream. `None` if [`sent_end`](Self::sent_end) was called before.
    #[must_use]
    pub fn end(&self) -> Option<Bytes> {
        (!self.has_ended).then(|| encode(self.channel, b""))
    }

    /// Notes that the message of [`end`](Self::end) was sent.
    pub const fn sent_end(&mut self) {
        self.has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_round_trip(number: u32, bytes: Vec<u8>) {
            let message = encode(number, &bytes);
            prop_assert_eq!(decode(message).unwrap(), (number, Bytes::from(bytes)));
        }

        #[test]
        fn whatever_comes_is_a_message_in_one_form_or_none(bytes: Vec<u8>) {
            if let Ok((number, rest)) = decode(Bytes::from(bytes.clone())) {
                prop_assert_eq!(encode(number, &rest), Bytes::from(bytes));
            }
        }
    }

    #[test]
    fn numbers_are_varints() {
        assert_eq!(&encode(1, b"x")[..], b"\x01x");
        assert_eq!(&encode(300, b"")[..], b"\xac\x02");
        for bad in
            [&b""[..], b"\x80", b"\x80\x00", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x01"]
        {
            assert_eq!(decode(Bytes::copy_from_slice(bad)), Err(BadMessage), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_leaves_in_messages_within_the_bound_and_ends_once() {
        let mut outgoing = Outgoing::new(7);
        let bytes = vec![1; MAX_MESSAGE_BYTES + 3];
        let (message, len) = outgoing.message(&bytes).unwrap();
        assert_eq!((message.len(), len), (MAX_MESSAGE_BYTES + 1, MAX_MESSAGE_BYTES));
        let (message, len) = outgoing.message(&bytes[len..]).unwrap();
        assert_eq!((&message[..], len), (&[7, 1, 1, 1][..], 3));
        assert_eq!(outgoing.message(b""), None, "a message without bytes is the end");
        assert_eq!(outgoing.end().as_deref(), Some(&[7][..]));
        outgoing.sent_end();
        assert_eq!(outgoing.end(), None);
    }
}
