//! Literals as they travel: without their long runs of zeros, and compressed as the user asked, or where that makes a
//! transfer shorter (NetSync §4.4).

use std::sync::Mutex;
use std::time::Instant;

use deltic_core::strategy::{Codec, Compression, Link};
use deltic_core::zeros::take_out;
use deltic_protocol::message::{Payload, Sparse};

use super::lock;
use crate::monitor::{Stage, within};

/// zstd's own default: higher levels cost more time than a fast network saves.
const ZSTD_LEVEL: i32 = 3;
/// Payloads between two of which one is compressed and decompressed to see what that would be worth: content changes within
/// a file.
const TRIED_EVERY: u32 = 32;

/// Packs the payloads of one session.
#[derive(Debug)]
pub(super) struct Packing {
    /// Where it is by cost, and both ends can: what they have to cross.
    link: Option<Link>,
    tried: Mutex<Tried>,
    /// Whether zeros are left out.
    zeros: bool,
}

/// What zstd did to a payload of late.
#[derive(Debug, Default)]
struct Tried {
    codec: Option<Codec>,
    ago: u32,
}

impl Packing {
    /// For a link of which nothing may be known: then nothing is compressed that the user did not ask to be.
    pub(super) fn new(compression: Compression, link: Option<Link>) -> Self {
        let by_cost = compression == Compression::ByCost;
        Self { link: link.filter(|_| by_cost), tried: Mutex::default(), zeros: false }
    }

    /// The same between ends that may leave zeros out, or not.
    pub(super) fn without_zeros(self, zeros: bool) -> Self {
        Self { zeros, ..self }
    }

    /// The bytes as they travel; at the level that is `asked` for, if the user wants them compressed.
    pub(super) fn pack(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        match self.link.filter(|_| asked.is_none()) {
            None => self.pack_as_asked(bytes, asked),
            Some(link) => self.cheaper(link, bytes),
        }
    }

    /// The same whatever the link is.
    pub(super) fn pack_as_asked(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        if !self.zeros {
            return packed(bytes, asked);
        }
        let (runs, rest) = within(Stage::Pack, || take_out(bytes));
        if runs.is_empty() {
            return packed(rest, asked);
        }
        let (zstd, rest) = squeezed(rest, asked);
        Payload::Sparse(Sparse { runs, rest, zstd })
    }

    fn cheaper(&self, link: Link, bytes: Vec<u8>) -> Payload {
        let Some(codec) = self.known() else {
            let codec = within(Stage::Pack, || measured(&bytes));
            *lock(&self.tried) = Tried { codec: Some(codec), ago: 0 };
            return self.as_told(link, bytes, codec);
        };
        self.as_told(link, bytes, codec)
    }

    /// What zstd is worth, unless that is to be seen again.
    fn known(&self) -> Option<Codec> {
        let mut tried = lock(&self.tried);
        tried.ago += 1;
        tried.codec.filter(|_| tried.ago < TRIED_EVERY)
    }

    fn as_told(&self, link: Link, bytes: Vec<u8>, codec: Codec) -> Payload {
        let codecs = [Codec::NONE, codec];
        let best = link.fastest(bytes.len() as u64, &codecs);
        packed(bytes, (best == Some(&codecs[1])).then_some(ZSTD_LEVEL))
    }
}

/// The level of zstd for what the user's `asked`; 0 leaves it to us.
pub(crate) const fn level(asked: u32) -> i32 {
    if asked == 0 { ZSTD_LEVEL } else { asked as i32 }
}

/// The bytes as they travel, compressed at a level if there is one.
pub(crate) fn packed(bytes: Vec<u8>, level: Option<i32>) -> Payload {
    match squeezed(bytes, level) {
        (true, frame) => Payload::Zstd(frame),
        (false, bytes) => Payload::Plain(bytes),
    }
}

/// The bytes, as one zstd frame where a level is given and that is shorter; whether they are.
fn squeezed(bytes: Vec<u8>, level: Option<i32>) -> (bool, Vec<u8>) {
    let Some(level) = level else { return (false, bytes) };
    match within(Stage::Pack, || zstd::bulk::compress(&bytes, level)) {
        Ok(frame) if frame.len() < bytes.len() => (true, frame),
        _ => (false, bytes),
    }
}

/// What zstd does to these bytes, there and back.
fn measured(bytes: &[u8]) -> Codec {
    let start = Instant::now();
    let Ok(frame) = zstd::bulk::compress(bytes, ZSTD_LEVEL) else { return Codec::NONE };
    let compressing = start.elapsed();
    if zstd::bulk::decompress(&frame, bytes.len()).is_err() {
        return Codec::NONE;
    }
    let (len, both) = (bytes.len() as f64, start.elapsed());
    Codec {
        ratio: frame.len() as f64 / len,
        compressed_per_second: len / compressing.as_secs_f64(),
        decompressed_per_second: len / (both - compressing).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hands::receiving::unpacked;

    fn link(bits_per_second: u64) -> Option<Link> {
        Some(Link { bits_per_second, round_trip: Duration::ZERO })
    }

    /// A link that takes a second for a kilobyte, and one that takes no time at all: whatever machine this is.
    #[test]
    fn what_compresses_is_compressed_for_a_slow_link_alone() {
        let (text, noise) = (b"new from old, ".repeat(2000), noise());
        let is_packed = |packing: &Packing, bytes: &[u8]| {
            matches!(packing.pack(bytes.to_vec(), None), Payload::Zstd(_))
        };
        let (slow, fast) = (link(8000), link(u64::MAX));
        let by_cost = |link| Packing::new(Compression::ByCost, link);
        assert!(is_packed(&by_cost(slow), &text));
        assert!(!is_packed(&by_cost(fast), &text));
        assert!(!is_packed(&by_cost(None), &text), "nothing is known");
        assert!(!is_packed(&by_cost(slow), &noise));
        assert!(!is_packed(&Packing::new(Compression::AsAsked, slow), &text));
        assert!(
            matches!(by_cost(fast).pack(text, Some(ZSTD_LEVEL)), Payload::Zstd(_)),
            "it was asked for"
        );
    }

    #[test]
    fn content_that_changes_is_tried_again() {
        let packing = Packing::new(Compression::ByCost, link(8000));
        let text = b"new from old, ".repeat(2000);
        assert!(matches!(packing.pack(noise(), None), Payload::Plain(_)));
        let packed = (0..TRIED_EVERY).map(|_| packing.pack(text.clone(), None));
        assert!(packed.into_iter().any(|payload| matches!(payload, Payload::Zstd(_))));
    }

    #[test]
    fn zeros_are_left_out_and_the_rest_is_compressed_if_that_was_asked_for() {
        let packing = Packing::new(Compression::AsAsked, None).without_zeros(true);
        let bytes = [noise(), vec![0; 70_000], b"new from old, ".repeat(2000)].concat();
        for asked in [None, Some(ZSTD_LEVEL)] {
            let payload = packing.pack(bytes.clone(), asked);
            let Payload::Sparse(sparse) = &payload else { panic!("{payload:?}") };
            assert_eq!((sparse.runs.len(), sparse.zstd), (1, asked.is_some()));
            assert!(sparse.rest.len() <= bytes.len() - 70_000);
            assert_eq!(unpacked(&payload, bytes.len()).as_deref(), Some(&bytes[..]));
            assert_eq!(unpacked(&payload, bytes.len() - 1), None);
        }
        let payload = packing.pack(vec![0; 70_000], Some(ZSTD_LEVEL));
        let Payload::Sparse(sparse) = &payload else { panic!("{payload:?}") };
        assert!(sparse.rest.is_empty() && !sparse.zstd);
        assert!(matches!(packing.pack(noise(), None), Payload::Plain(_)));
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
