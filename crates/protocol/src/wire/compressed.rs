//! Frames of literals, compressed with the history of the compressed frames before (docs/protocol.md, "Compressed
//! frames").

use deltic_core::codec::{Put, Reader};

use super::codec::{BadPayload, WireEncoding, read_flags, write_flags};
use super::frame::frame_bytes;
use crate::error::PeerError;

/// Base-2 logarithm of the history of compressed frames in bytes. A receiver keeps no more than this history.
pub const HISTORY_LOG: u32 = 21;

/// A frame as a part of a zstd stream. The parts of a stream travel in order, on the first stream of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedFrame<'a> {
    /// True if a zstd stream begins with this part, without history.
    pub is_first: bool,
    /// Type of the frame.
    pub kind: u8,
    /// Length in bytes of the frame's payload, decompressed.
    pub len: u32,
    /// Part of the zstd stream, flushed: decompresses to the whole payload.
    pub part: &'a [u8],
}

impl<'a> CompressedFrame<'a> {
    /// Type of the frame that holds the part.
    pub const KIND: u8 = 72;

    /// Returns the whole frame. `None` if the payload would exceed `most` bytes.
    #[must_use]
    pub fn encode(&self, most: usize) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(self.part.len() + 8);
        write_flags(&mut payload, [self.is_first]);
        payload.put_u8(self.kind);
        self.len.write_to(&mut payload);
        payload.put_bytes(self.part);
        (payload.len() <= most).then(|| frame_bytes(Self::KIND, |to| to.put_bytes(&payload)))
    }

    /// Decodes a compressed frame; other frames give `None`.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is malformed.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Option<Self>, PeerError> {
        if kind != Self::KIND {
            return Ok(None);
        }
        let mut from = Reader::new(payload);
        let mut head = || {
            let [is_first] = read_flags(&mut from)?;
            Ok((is_first, from.u8()?, from.varint_u32()?))
        };
        let (is_first, kind, len) =
            head().map_err(|bad: BadPayload| bad.in_frame("CompressedFrame"))?;
        Ok(Some(Self { is_first, kind, len, part: from.rest() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEADER_BYTES;

    #[test]
    fn a_frame_keeps_its_bytes_within_its_limit() {
        let frame = CompressedFrame { is_first: true, kind: 21, len: 300, part: b"part" };
        let bytes = frame.encode(8).unwrap();
        assert_eq!(bytes, b"\x48\x08\x00\x00\x01\x15\xac\x02part");
        assert_eq!(frame.encode(7), None);
        let payload = &bytes[HEADER_BYTES..];
        assert_eq!(CompressedFrame::decode(CompressedFrame::KIND, payload), Ok(Some(frame)));
        assert_eq!(CompressedFrame::decode(21, payload), Ok(None));
        for bad in [&b""[..], b"\x01\x15", b"\x02\x15\x00", b"\x00\x15\xff\xff\xff\xff\x7f"] {
            assert!(CompressedFrame::decode(CompressedFrame::KIND, bad).is_err(), "{bad:?}");
        }
    }
}
