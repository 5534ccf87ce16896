//! Payloads of literals: long runs of zeros are removed, and the rest is compressed if the user asked or if compression
//! makes the transfer shorter (NetSync §4.4).

use std::borrow::Cow;
use std::time::Duration;

use deltic_core::strategy::{CodecModel, CompressionChoice, LinkModel};
use deltic_core::zeros::{put_back, rest_len, take_out};
use deltic_protocol::limits::MAX_FRAME_BYTES;
use deltic_protocol::message::{Payload, Sparse};

/// The default level of zstd: higher levels cost more time than a fast network saves.
const ZSTD_LEVEL: i32 = 3;
/// The fastest level of zstd that finds repetitions of short strings.
const FASTEST_LEVEL: i32 = 1;
/// Payloads between two measurements of the compression ratio, because content changes within a file.
const TRIED_EVERY: u32 = 32;

/// Packs the payloads of a session.
#[derive(Clone, Copy, Debug)]
pub struct PayloadPacker {
    /// True if the speed of the link decides about compression.
    by_cost: bool,
    /// True if runs of zeros are removed.
    zeros: bool,
}

/// Latest measurement of a codec's ratio and speed.
#[derive(Debug, Default)]
pub struct CodecTrial {
    codec: Option<CodecModel>,
    ago: u32,
}

impl CodecTrial {
    /// Counts a payload. Returns the measured codec, or `None` if a new measurement is due.
    pub fn codec(&mut self) -> Option<CodecModel> {
        self.ago += 1;
        self.codec.filter(|_| self.ago < TRIED_EVERY)
    }

    /// Stores the result of a measurement.
    pub const fn note(&mut self, codec: CodecModel) {
        *self = Self { codec: Some(codec), ago: 0 };
    }
}

impl PayloadPacker {
    /// Creates a packer. `zeros` says whether both ends support sparse payloads.
    #[must_use]
    pub fn new(compression: CompressionChoice, zeros: bool) -> Self {
        Self { by_cost: compression == CompressionChoice::ByCost, zeros }
    }

    /// Returns `link`, as measured by now, if its speed decides about compression. Returns `None` if the level `asked`
    /// for decides, or if no speed is known.
    #[must_use]
    pub fn by_cost(&self, asked: Option<i32>, link: Option<LinkModel>) -> Option<LinkModel> {
        link.filter(|_| self.by_cost && asked.is_none())
    }

    /// Packs bytes with zstd at the level `asked` for, or uncompressed.
    #[must_use]
    pub fn pack_as_asked(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        if !self.zeros {
            return packed(bytes, asked);
        }
        let (runs, rest) = take_out(bytes);
        if runs.is_empty() {
            return packed(rest, asked);
        }
        let (zstd, rest) = squeezed(rest, asked);
        Payload::Sparse(Sparse { runs, rest, zstd })
    }
}

/// Packs bytes, compressed if compression makes the transfer over `link` shorter.
#[must_use]
pub fn pack_for(link: LinkModel, bytes: Vec<u8>, codec: CodecModel) -> Payload {
    let codecs = [CodecModel::NONE, codec];
    let best = link.fastest(bytes.len() as u64, &codecs);
    packed(bytes, (best == Some(&codecs[1])).then_some(ZSTD_LEVEL))
}

/// Converts the user's level to a zstd level; 0 is the default level.
#[must_use]
pub const fn level(asked: u32) -> i32 {
    if asked == 0 { ZSTD_LEVEL } else { asked as i32 }
}

/// Packs bytes, compressed at `level` if the result is shorter.
#[must_use]
pub fn packed(bytes: Vec<u8>, level: Option<i32>) -> Payload {
    match squeezed(bytes, level) {
        (true, frame) => Payload::Zstd(frame),
        (false, bytes) => Payload::Plain(bytes),
    }
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
            put_back(runs, &rest, len)?.into()
        }
    };
    (bytes.len() == len).then_some(bytes)
}

/// Compresses bytes to a zstd frame if `level` is given and the frame is shorter. The first value is true for a frame.
fn squeezed(bytes: Vec<u8>, level: Option<i32>) -> (bool, Vec<u8>) {
    match level.and_then(|level| codec::compress(&bytes, level)) {
        Some(frame) if frame.len() < bytes.len() => (true, frame),
        _ => (false, bytes),
    }
}

/// Returns the length in bytes of `bytes` as a zstd frame of the fastest level. `None` without zstd.
pub(crate) fn fast_packed_len(bytes: &[u8]) -> Option<usize> {
    codec::compress(bytes, FASTEST_LEVEL).map(|frame| frame.len())
}

/// Measures zstd on these bytes: ratio, compression speed and decompression speed. `clock` returns the time since a
/// fixed moment.
#[must_use]
pub fn measured(bytes: &[u8], clock: impl Fn() -> Duration) -> CodecModel {
    let start = clock();
    let Some(frame) = codec::compress(bytes, ZSTD_LEVEL) else { return CodecModel::NONE };
    let compressed = clock();
    if codec::decompress(&frame, bytes.len()).is_none() {
        return CodecModel::NONE;
    }
    let (len, decompressing) = (bytes.len() as f64, clock().saturating_sub(compressed));
    CodecModel {
        ratio: frame.len() as f64 / len,
        compressed_per_second: len / compressed.saturating_sub(start).as_secs_f64(),
        decompressed_per_second: len / decompressing.as_secs_f64(),
    }
}

/// True if zstd is compiled in.
pub const HAS_ZSTD: bool = cfg!(feature = "zstd");

/// zstd, if compiled in.
#[cfg(feature = "zstd")]
mod codec {
    pub(super) fn compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
        zstd::bulk::compress(bytes, level).ok()
    }

    pub(super) fn decompress(frame: &[u8], len: usize) -> Option<Vec<u8>> {
        zstd::bulk::decompress(frame, len).ok()
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
        let packing = PayloadPacker::new(CompressionChoice::AsAsked, true);
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

    fn noise() -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..20_000).map(next).collect()
    }
}
