//! Whether literals travel compressed: as the user asked, or where that makes a transfer shorter (NetSync §4.4).

use std::sync::Mutex;
use std::time::Instant;

use deltic_core::strategy::{Codec, Compression, Link};
use deltic_protocol::message::Payload;

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
        Self { link: link.filter(|_| by_cost), tried: Mutex::default() }
    }

    /// The bytes as they travel; at the level that is `asked` for, if the user wants them compressed.
    pub(super) fn pack(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        match self.link.filter(|_| asked.is_none()) {
            None => packed(bytes, asked),
            Some(link) => self.cheaper(link, bytes),
        }
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
    match level {
        Some(level) => compressed(bytes, level),
        None => Payload::Plain(bytes),
    }
}

/// As a zstd frame, unless that is no shorter.
fn compressed(bytes: Vec<u8>, level: i32) -> Payload {
    match within(Stage::Pack, || zstd::bulk::compress(&bytes, level)) {
        Ok(frame) if frame.len() < bytes.len() => Payload::Zstd(frame),
        _ => Payload::Plain(bytes),
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

    fn noise() -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..20_000).map(next).collect()
    }
}
