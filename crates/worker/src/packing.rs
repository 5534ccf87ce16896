//! Compression of the payloads of a session, shared by its threads.

use std::sync::Mutex;

use deltic_core::strategy::{CodecModel, LinkModel};
use deltic_engine::pack::{CodecTrial, PayloadPacker, measured, pack_for};
use deltic_protocol::message::Payload;

use crate::Clock;
use crate::lock::lock;
use crate::stage::{Stage, within};

/// Compresses payloads. Recent measurements tell if compression pays.
#[derive(Debug)]
pub(super) struct Packer {
    packing: PayloadPacker,
    tried: Mutex<CodecTrial>,
    /// Clock that measures the speed of compression.
    clock: Option<Clock>,
}

impl Packer {
    /// Makes a packer that measures the speed of compression with `clock`. Without a clock, payloads are compressed
    /// only at a requested level.
    pub(super) fn new(packing: PayloadPacker, clock: Option<Clock>) -> Self {
        Self { packing, tried: Mutex::default(), clock }
    }

    /// Compresses bytes at the level `asked`, or at a level chosen for the speed of the `link`.
    pub(super) fn pack(
        &self,
        bytes: Vec<u8>,
        asked: Option<i32>,
        link: Option<LinkModel>,
    ) -> Payload {
        let Some(link) = self.packing.by_cost(asked, link) else {
            return self.pack_as_asked(bytes, asked);
        };
        within(Stage::Pack, || {
            let known = lock(&self.tried).codec();
            let codec = known.unwrap_or_else(|| self.tried_now(&bytes));
            pack_for(link, bytes, codec)
        })
    }

    /// Compresses bytes at the level `asked`. Without a level, the bytes stay uncompressed.
    pub(super) fn pack_as_asked(&self, bytes: Vec<u8>, asked: Option<i32>) -> Payload {
        within(Stage::Pack, || self.packing.pack_as_asked(bytes, asked))
    }

    fn tried_now(&self, bytes: &[u8]) -> CodecModel {
        let codec = self.clock.map_or(CodecModel::NONE, |clock| measured(bytes, clock));
        lock(&self.tried).note(codec);
        codec
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use deltic_core::strategy::CompressionChoice;

    use super::*;

    /// A clock on which each reading is a millisecond after the last one.
    fn clock() -> Duration {
        static NOW: AtomicU64 = AtomicU64::new(0);
        Duration::from_millis(NOW.fetch_add(1, Ordering::Relaxed))
    }

    fn packer(compression: CompressionChoice) -> Packer {
        Packer::new(PayloadPacker::new(compression, false), Some(clock))
    }

    /// At least one payload of this many is measured.
    const MANY: usize = 32;

    fn link(bits_per_second: u64) -> Option<LinkModel> {
        Some(LinkModel { bits_per_second, round_trip: Duration::ZERO })
    }

    /// Uses a link that takes a second for a kilobyte and a link that takes no time. So the speed of the machine does
    /// not matter.
    #[test]
    fn text_is_compressed_for_a_slow_link_alone() {
        let (text, noise) = (b"new from old, ".repeat(2000), noise());
        let is_packed = |packing: &Packer, bytes: &[u8], link| {
            matches!(packing.pack(bytes.to_vec(), None, link), Payload::Zstd(_))
        };
        let (slow, fast) = (link(8000), link(u64::MAX));
        let by_cost = || packer(CompressionChoice::ByCost);
        assert!(is_packed(&by_cost(), &text, slow));
        assert!(!is_packed(&by_cost(), &text, fast));
        assert!(!is_packed(&by_cost(), &text, None), "nothing is known");
        assert!(!is_packed(&by_cost(), &noise, slow));
        assert!(!is_packed(&packer(CompressionChoice::AsAsked), &text, slow));
        let asked = by_cost().pack(text.clone(), Some(3), fast);
        assert!(matches!(asked, Payload::Zstd(_)), "it was asked for");
        let changing = by_cost();
        let packed = [slow, fast, slow].map(|link| is_packed(&changing, &text, link));
        assert_eq!(packed, [true, false, true], "each payload goes by the link of its time");
    }

    #[test]
    fn content_that_changes_is_tried_again() {
        let packing = packer(CompressionChoice::ByCost);
        let text = b"new from old, ".repeat(2000);
        assert!(matches!(packing.pack(noise(), None, link(8000)), Payload::Plain(_)));
        let packed = (0..MANY).map(|_| packing.pack(text.clone(), None, link(8000)));
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
