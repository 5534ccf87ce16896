//! Compression of frames in one zstd stream, with the history of the frames before.
//!
//! ```text
//!  frame ─► FrameCompressor ─► CompressedFrame ─► FrameDecompressor ─► frame
//! ```
//!
//! Both ends process the frames in the order of the wire. So a frame is compressed when it is about to be sent, on the
//! session's thread.

use deltic_protocol::PeerError;
use deltic_protocol::compressed::CompressedFrame;
#[cfg(feature = "zstd")]
use deltic_protocol::compressed::HISTORY_LOG;
use deltic_protocol::frame::HEADER_BYTES;

use codec::{Decoder, Encoder};

/// Highest zstd level for frames with a history: at higher levels, one thread is too slow.
pub const HIGHEST_LEVEL: i32 = 9;

/// Bytes after which a history that began anew gives about the ratio of a full history.
const SETTLED_BYTES: u64 = 1 << 20;

/// Compresses the frames of a session. Memory: the history, and the tables of the level; 4 MiB at level 3.
#[derive(Default)]
pub struct FrameCompressor {
    /// The zstd stream, if a stream has begun, and its level.
    stream: Option<(Encoder, i32)>,
    /// Payload bytes in the present stream.
    history: u64,
    /// True after the second stream has begun.
    began_anew: bool,
}

impl FrameCompressor {
    /// Compresses a frame with the frames compressed before as its history. Another level begins without a history.
    /// Returns the compressed frame, whose payload has at most `most` bytes. `None` if zstd fails or the payload would
    /// be longer; then the next frame begins without a history.
    pub fn compress(&mut self, frame: &[u8], level: i32, most: usize) -> Option<Vec<u8>> {
        let (header, payload) = frame.split_at_checked(HEADER_BYTES)?;
        let before = self.stream.take().filter(|(_, of)| *of == level);
        let is_first = before.is_none();
        if is_first {
            self.began_anew = self.history > 0;
            self.history = 0;
        }
        let (mut encoder, _) = before.or_else(|| Some((Encoder::new(level)?, level)))?;
        let part = encoder.compress_and_flush(payload)?;
        let len = payload.len() as u32;
        let compressed = CompressedFrame { is_first, kind: header[0], len, part: &part };
        let compressed = compressed.encode(most)?;
        self.stream = Some((encoder, level));
        self.history += payload.len() as u64;
        Some(compressed)
    }

    /// False while the history is short because the history began anew. The ratios of such frames say little about
    /// later frames, and another new history would cost as much again.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.began_anew || self.history >= SETTLED_BYTES
    }
}

impl std::fmt::Debug for FrameCompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = self.stream.as_ref().map(|(_, level)| level);
        f.debug_struct("FrameCompressor").field("level", &level).finish_non_exhaustive()
    }
}

/// Decompresses the frames of a session. Memory after the first compressed frame: the history, 2 MiB.
#[derive(Default)]
pub(crate) struct FrameDecompressor(Option<Decoder>);

impl FrameDecompressor {
    /// Returns the payload of a compressed frame. The caller has checked the length.
    ///
    /// # Errors
    /// [`PeerError`] if the part is not the next part of the stream, or has another length.
    pub(crate) fn decompress(&mut self, frame: &CompressedFrame<'_>) -> Result<Vec<u8>, PeerError> {
        let before = self.0.take().filter(|_| !frame.is_first);
        let decoder = before.or_else(|| if frame.is_first { Decoder::new() } else { None });
        let payload = decoder.and_then(|mut decoder| {
            let payload = decoder.flushed(frame.part, frame.len as usize)?;
            self.0 = Some(decoder);
            Some(payload)
        });
        payload.ok_or(PeerError::Unexpected("a compressed frame that does not decompress"))
    }
}

/// The zstd streams.
#[cfg(feature = "zstd")]
mod codec {
    use zstd::stream::raw::{self, CParameter, DParameter, InBuffer, Operation, OutBuffer};
    use zstd::zstd_safe::compress_bound;

    use super::HISTORY_LOG;

    /// Bytes of the header of a zstd stream, and of the empty block of a flush.
    const OVERHEAD: usize = 64;

    pub(super) struct Encoder(raw::Encoder<'static>);

    impl Encoder {
        pub(super) fn new(level: i32) -> Option<Self> {
            Self::with_history(level, HISTORY_LOG)
        }

        pub(super) fn with_history(level: i32, log: u32) -> Option<Self> {
            let mut encoder = raw::Encoder::new(level).ok()?;
            encoder.set_parameter(CParameter::WindowLog(log)).ok()?;
            Some(Self(encoder))
        }

        /// Compresses all of `bytes` and flushes the stream.
        pub(super) fn compress_and_flush(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
            let mut part = Vec::with_capacity(compress_bound(bytes.len()) + OVERHEAD);
            let (mut input, mut output) = (InBuffer::around(bytes), OutBuffer::around(&mut part));
            while input.pos() < bytes.len() {
                self.0.run(&mut input, &mut output).ok()?;
            }
            while self.0.flush(&mut output).ok()? > 0 {
                if output.pos() == output.capacity() {
                    return None;
                }
            }
            Some(part)
        }
    }

    pub(super) struct Decoder(raw::Decoder<'static>);

    impl Decoder {
        pub(super) fn new() -> Option<Self> {
            let mut decoder = raw::Decoder::new().ok()?;
            decoder.set_parameter(DParameter::WindowLogMax(HISTORY_LOG)).ok()?;
            Some(Self(decoder))
        }

        /// Decompresses a part to exactly `len` bytes.
        pub(super) fn flushed(&mut self, part: &[u8], len: usize) -> Option<Vec<u8>> {
            // A byte more shows a part that is too long.
            let mut bytes = Vec::with_capacity(len + 1);
            let (mut input, mut output) = (InBuffer::around(part), OutBuffer::around(&mut bytes));
            while input.pos() < part.len() || output.pos() < len {
                let before = (input.pos(), output.pos());
                self.0.run(&mut input, &mut output).ok()?;
                if (input.pos(), output.pos()) == before {
                    return None;
                }
            }
            (bytes.len() == len).then_some(bytes)
        }
    }
}

/// Stand-in without zstd: no frame is compressed or decompressed.
#[cfg(not(feature = "zstd"))]
mod codec {
    pub(super) enum Encoder {}

    impl Encoder {
        pub(super) const fn new(_: i32) -> Option<Self> {
            None
        }

        pub(super) const fn compress_and_flush(&mut self, _: &[u8]) -> Option<Vec<u8>> {
            match *self {}
        }
    }

    pub(super) enum Decoder {}

    impl Decoder {
        pub(super) const fn new() -> Option<Self> {
            None
        }

        pub(super) const fn flushed(&mut self, _: &[u8], _: usize) -> Option<Vec<u8>> {
            match *self {}
        }
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use deltic_protocol::limits::MAX_FRAME_BYTES;

    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_le_bytes();
        [&[21], &len[..3], payload].concat()
    }

    fn received(with: &mut FrameDecompressor, bytes: &[u8]) -> Result<Vec<u8>, PeerError> {
        let frame = CompressedFrame::decode(bytes[0], &bytes[HEADER_BYTES..]);
        let frame = frame.ok().flatten().expect("a compressed frame");
        assert_eq!(frame.kind, 21);
        with.decompress(&frame)
    }

    /// Bytes without repetitions.
    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(next).collect()
    }

    #[test]
    fn frames_come_back_and_repeat_the_history_in_few_bytes() {
        let (mut to, mut from) = (FrameCompressor::default(), FrameDecompressor::default());
        let payloads = [noise(1, 300_000), vec![], noise(2, 1), noise(1, 300_000), vec![7; 90_000]];
        let mut lens = Vec::new();
        for level in [3, 3, 9, 1, 1] {
            for payload in &payloads {
                let bytes = to.compress(&frame(payload), level, MAX_FRAME_BYTES).unwrap();
                assert_eq!(received(&mut from, &bytes), Ok(payload.clone()), "level {level}");
                lens.push(bytes.len());
            }
        }
        assert!(lens[0] > 300_000 && lens[3] < 1000, "{lens:?}");
        assert!(lens[5] < 1000 && lens[10] > 300_000, "a new level begins anew: {lens:?}");
    }

    #[test]
    fn a_history_that_began_anew_is_settled_after_a_mebibyte() {
        let mut to = FrameCompressor::default();
        let frame = frame(&noise(1, 512 << 10));
        let mut settled = |level| {
            to.compress(&frame, level, MAX_FRAME_BYTES).expect("a compressed frame");
            to.is_settled()
        };
        assert!(settled(3) && settled(3), "the first history");
        let later = [6, 6, 6, 3].map(&mut settled);
        assert_eq!(later, [false, true, true, false]);
    }

    #[test]
    fn a_frame_beyond_the_limit_is_not_compressed_and_ends_the_stream() {
        let (mut to, mut from) = (FrameCompressor::default(), FrameDecompressor::default());
        let noise = noise(1, 1000);
        let first = to.compress(&frame(&noise), 3, 2000).unwrap();
        assert_eq!(received(&mut from, &first), Ok(noise.clone()));
        assert_eq!(to.compress(&frame(&self::noise(2, 1000)), 3, 500), None);
        let next = to.compress(&frame(&noise), 3, 2000).unwrap();
        assert_eq!(received(&mut from, &next), Ok(noise));
    }

    #[test]
    fn hostile_parts_are_refused() {
        let mut to = FrameCompressor::default();
        let payload = b"new from old, ".repeat(100);
        let first = to.compress(&frame(&payload), 3, MAX_FRAME_BYTES).unwrap();
        let second = to.compress(&frame(&payload), 3, MAX_FRAME_BYTES).unwrap();
        let refused = |frames: &[&[u8]]| {
            let mut from = FrameDecompressor::default();
            frames.iter().any(|bytes| received(&mut from, bytes).is_err())
        };
        assert!(refused(&[&second]), "a part without its history");
        assert!(!refused(&[&first]) && !refused(&[&first, &second]));
        let mut from = FrameDecompressor::default();
        assert!(received(&mut from, &first).is_ok());
        for (len, part) in [(payload.len() as u32 - 1, &second[8..]), (1 << 20, &second[8..])] {
            let frame = CompressedFrame { is_first: false, kind: 21, len, part };
            assert!(from.decompress(&frame).is_err(), "{len}");
            assert!(received(&mut from, &second).is_err(), "an error ends the stream");
            assert!(received(&mut from, &first).is_ok());
        }
        let mut wide = codec::Encoder::with_history(3, HISTORY_LOG + 1).unwrap();
        let part = wide.compress_and_flush(&payload).unwrap();
        let frame =
            |part| CompressedFrame { is_first: true, kind: 21, len: payload.len() as u32, part };
        assert!(FrameDecompressor::default().decompress(&frame(&part)).is_err(), "a long history");
        assert!(FrameDecompressor::default().decompress(&frame(b"")).is_err());
        assert!(FrameDecompressor::default().decompress(&frame(&[0x28, 0xb5, 0x2f])).is_err());
    }
}
