//! Payloads of literals: long runs of zeros are removed, and the rest is compressed at a level that the caller chose
//! (NetSync §4.4).

use std::borrow::Cow;

use deltic_core::zeros::{insert_zero_runs, remove_zero_runs, rest_len};
use deltic_protocol::limits::MAX_FRAME_BYTES;
use deltic_protocol::message::{Payload, Sparse};

/// The default level of zstd: higher levels cost more time than a fast network saves.
const ZSTD_LEVEL: i32 = 3;
/// The fastest level of zstd that finds repetitions of short strings.
const FASTEST_LEVEL: i32 = 1;
/// Bytes of the sample that shows whether a frame is compressible.
const SAMPLE_BYTES: usize = 4 << 10;
/// Pieces of the sample, spread over the frame.
const SAMPLE_PIECES: usize = 4;
/// A sample that shrinks by less than this part of its length is incompressible.
const LEAST_SHRINKAGE: usize = 32;

/// Packs the payloads of a session.
#[derive(Clone, Copy, Debug)]
pub struct PayloadPacker {
    /// True if runs of zeros are removed.
    zeros: bool,
}

impl PayloadPacker {
    /// Creates a packer. `zeros` says whether both ends support sparse payloads.
    #[must_use]
    pub const fn new(zeros: bool) -> Self {
        Self { zeros }
    }

    /// Packs bytes with zstd at the level `asked`, or uncompressed for `None`.
    #[must_use]
    pub fn pack_as_asked(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        self.pack_by(bytes, |bytes| compressed(bytes, asked?))
    }

    /// Packs bytes. `compress` gets the bytes outside the removed runs of zeros, possibly no bytes, and returns a
    /// shorter zstd frame or `None`.
    #[must_use]
    pub fn pack_by(
        &self,
        bytes: Vec<u8>,
        compress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Payload {
        let (runs, rest) = if self.zeros { remove_zero_runs(bytes) } else { (Vec::new(), bytes) };
        let frame = compress(&rest);
        let (zstd, rest) = (frame.is_some(), frame.unwrap_or(rest));
        match zstd {
            _ if !runs.is_empty() => Payload::Sparse(Sparse { runs, rest, zstd }),
            true => Payload::Zstd(rest),
            false => Payload::Plain(rest),
        }
    }
}

/// True if a sample of these bytes shrinks. Short frames are not sampled: compressing all of a short frame costs no
/// more than a sample.
#[must_use]
pub fn may_shrink(bytes: &[u8]) -> bool {
    if bytes.len() < 2 * SAMPLE_BYTES {
        return true;
    }
    let piece = SAMPLE_BYTES / SAMPLE_PIECES;
    let apart = (bytes.len() - piece) / (SAMPLE_PIECES - 1);
    let pieces = (0..SAMPLE_PIECES).map(|no| &bytes[no * apart..no * apart + piece]);
    let sample = pieces.collect::<Vec<_>>().concat();
    let frame = codec::compress(&sample, 1);
    frame.is_some_and(|frame| frame.len() + SAMPLE_BYTES / LEAST_SHRINKAGE <= SAMPLE_BYTES)
}

/// Compresses bytes to a zstd frame. Returns `None` if the frame is not shorter.
#[must_use]
pub fn compressed(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    codec::compress(bytes, level).filter(|frame| frame.len() < bytes.len())
}

/// Converts the user's level to a zstd level; 0 is the default level.
#[must_use]
pub const fn level(asked: u32) -> i32 {
    if asked == 0 { ZSTD_LEVEL } else { asked as i32 }
}

/// Packs bytes, compressed at `level` if the result is shorter.
#[must_use]
pub fn packed(bytes: Vec<u8>, level: Option<i32>) -> Payload {
    PayloadPacker::new(false).pack_as_asked(bytes, level)
}

/// Unpacks a payload of exactly `len` bytes. Returns `None` if the payload is invalid.
#[must_use]
pub fn unpacked(payload: &Payload, len: usize) -> Option<Cow<'_, [u8]>> {
    debug_assert!(len <= MAX_FRAME_BYTES, "the machine bounds what a fill may hold");
    let bytes = match payload {
        Payload::Plain(bytes) => Cow::Borrowed(&bytes[..]),
        Payload::Zstd(frame) => codec::decompress(frame, len)?.into(),
        Payload::Sparse(Sparse { runs, rest, zstd }) => {
            let rest_len = rest_len(runs, len)?;
            let rest = match zstd {
                true => codec::decompress(rest, rest_len)?.into(),
                false => Cow::Borrowed(&rest[..]),
            };
            insert_zero_runs(runs, &rest, len)?.into()
        }
    };
    (bytes.len() == len).then_some(bytes)
}

/// Returns the length in bytes of `bytes` as a zstd frame of the fastest level. `None` without zstd.
pub(crate) fn fast_packed_len(bytes: &[u8]) -> Option<usize> {
    codec::compress(bytes, FASTEST_LEVEL).map(|frame| frame.len())
}

/// True if zstd is compiled in.
pub const HAS_ZSTD: bool = cfg!(feature = "zstd");

/// zstd, if compiled in. Each thread keeps its contexts: making one costs more than a short frame.
#[cfg(feature = "zstd")]
mod codec {
    use std::cell::RefCell;

    use zstd::bulk::{Compressor, Decompressor};

    thread_local! {
        /// Compression context of this thread.
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
        /// Decompression context of this thread.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    pub(super) fn compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
        COMPRESSOR.with_borrow_mut(|kept| {
            let mut compressor = kept.take().or_else(|| Compressor::new(level).ok())?;
            compressor.set_compression_level(level).ok()?;
            let frame = compressor.compress(bytes).ok();
            *kept = Some(compressor);
            frame
        })
    }

    pub(super) fn decompress(frame: &[u8], len: usize) -> Option<Vec<u8>> {
        DECOMPRESSOR.with_borrow_mut(|kept| {
            let mut decompressor = kept.take().or_else(|| Decompressor::new().ok())?;
            let bytes = decompressor.decompress(frame, len).ok();
            *kept = Some(decompressor);
            bytes
        })
    }
}

/// Stand-in without zstd: compresses nothing. The end must not [offer](HAS_ZSTD) zstd.
#[cfg(not(feature = "zstd"))]
mod codec {
    pub(super) const fn compress(_: &[u8], _: i32) -> Option<Vec<u8>> {
        None
    }

    pub(super) const fn decompress(_: &[u8], _: usize) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_removed_and_the_rest_is_compressed_if_asked_for() {
        let packing = PayloadPacker::new(true);
        let bytes = [noise(), vec![0; 70_000], b"new from old, ".repeat(2000)].concat();
        for asked in [None, Some(ZSTD_LEVEL)] {
            let payload = packing.pack_as_asked(bytes.clone(), asked);
            let Payload::Sparse(sparse) = &payload else { panic!("{payload:?}") };
            assert_eq!((sparse.runs.len(), sparse.zstd), (1, asked.is_some()));
            assert!(sparse.rest.len() <= bytes.len() - 70_000);
            assert_eq!(unpacked(&payload, bytes.len()).as_deref(), Some(&bytes[..]));
            assert_eq!(unpacked(&payload, bytes.len() - 1), None);
        }
        let payload = packing.pack_as_asked(vec![0; 70_000], Some(ZSTD_LEVEL));
        let Payload::Sparse(sparse) = &payload else { panic!("{payload:?}") };
        assert!(sparse.rest.is_empty() && !sparse.zstd);
        assert!(matches!(packing.pack_as_asked(noise(), None), Payload::Plain(_)));
    }

    #[test]
    fn a_sample_tells_noise_from_text() {
        let text = b"new from old, ".repeat(2000);
        assert!(may_shrink(&text) && !may_shrink(&noise()));
        assert!(may_shrink(&noise()[..SAMPLE_BYTES]), "a short frame is not sampled");
        let mixed = [noise(), text].concat();
        assert!(may_shrink(&mixed), "the sample is spread over the frame");
    }

    #[test]
    fn contexts_serve_every_level_and_survive_bad_frames() {
        let text = b"new from old, ".repeat(2000);
        for level in [1, 19, 3, 1] {
            let frame = compressed(&text, level).unwrap();
            assert_eq!(codec::decompress(&frame[1..], text.len()), None);
            assert_eq!(codec::decompress(&frame, text.len() - 1), None);
            assert_eq!(codec::decompress(&frame, text.len()).as_deref(), Some(&text[..]));
        }
        assert_eq!(compressed(&noise(), 1), None);
        assert_eq!(compressed(b"", 1), None);
    }

    fn noise() -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..20_000).map(next).collect()
    }
}
