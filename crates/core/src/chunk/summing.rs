//! FastFP as a by-product of the Gear hash that cuts the file (NetSync §4.2, algorithm 1).
//!
//! ```text
//! for end in ends:  hash = 2 hash + GEAR[data[end - 1]]
//!                   fastfp += hash                                  (FastFP(+L): where L divides end)
//!                   if hash ends a chunk: return (end, fastfp)
//! ```
//!
//! The loop is the search of [`rolling`](super::rolling), with the same lanes: each lane sums its own hashes. Two
//! parts of a chunk need more than the loop, because FastFP is of all bytes of a chunk
//! ([`WeakKind::FastFp`], choice 1):
//!
//! 1. FastCDC does not hash the bytes below the minimum. FastFP of these bytes is a plain sum without a chain of
//!    dependent steps.
//! 2. FastCDC's hash is cold at the minimum. FastFP is linear in the hash: what the skipped bytes add to the first
//!    31 hashes is added after the loop.
//!
//! LastFP needs no loop: the hash of the last bytes is computed again.

use super::fastcdc::COLD;
use super::gear::{GearLimits, NormalisationLevel};
use super::rolling::{ByProduct, NoSum};
use super::{Algorithm, AtEnd, ChunkerSpec};
use crate::weak::{FASTFP_STRIDE, FASTFP_WINDOW, WeakKind, last_gear_hash};

/// Cuts as FastCDC does, with the weak sum of each chunk as a by-product.
#[derive(Clone, Copy, Debug)]
pub struct SummingChunker {
    limits: GearLimits,
    kind: WeakKind,
}

impl SummingChunker {
    /// Returns a chunker for FastCDC and a weak sum of Gear hashes; `None` for other chunkers and sums.
    #[must_use]
    pub fn new(spec: &ChunkerSpec, kind: WeakKind) -> Option<Self> {
        let level = match spec {
            ChunkerSpec::ByContent(Algorithm::FastCdc, _) => NormalisationLevel::Zero,
            ChunkerSpec::ByContent(Algorithm::FastCdcNc, _) => NormalisationLevel::Two,
            _ => return None,
        };
        let is_of_gear =
            matches!(kind, WeakKind::FastFp | WeakKind::FastFpStride | WeakKind::LastFp);
        let ChunkerSpec::ByContent(_, sizes) = *spec else { return None };
        is_of_gear.then(|| Self { limits: GearLimits::new(sizes, level), kind })
    }

    /// Cuts `data` as [`cut_all`](super::cut_all) does, and passes each chunk and its weak sum to `each`.
    pub fn cut_all(&self, data: &[u8], at_end: AtEnd, mut each: impl FnMut(&[u8], u32)) -> usize {
        let enough = if at_end == AtEnd::Yes { 1 } else { self.limits.max };
        let mut rest = data;
        while rest.len() >= enough {
            let (len, sum) = self.cut(rest);
            let (chunk, after) = rest.split_at(len);
            each(chunk, sum);
            rest = after;
        }
        data.len() - rest.len()
    }

    /// Length and weak sum of the first chunk of `data`, as [`Chunker::cut`](super::Chunker::cut).
    #[must_use]
    pub fn cut(&self, data: &[u8]) -> (usize, u32) {
        match self.kind {
            WeakKind::FastFp => self.cut_summing::<1>(data),
            WeakKind::FastFpStride => self.cut_summing::<FASTFP_STRIDE>(data),
            kind => {
                let (len, _) = self.limits.cut(data, |_, _| COLD, NoSum);
                (len, kind.of(&data[..len]))
            }
        }
    }

    fn cut_summing<const STRIDE: usize>(&self, data: &[u8]) -> (usize, u32) {
        let (len, mut sum) = self.limits.cut(data, |_, _| COLD, FastFpSum::<STRIDE>::default());
        let (chunk, skipped) = (&data[..len], self.limits.min - 1);
        if len <= self.limits.min {
            return (len, self.kind.of(chunk));
        }
        let before = &data[..skipped];
        let mut warmth = last_gear_hash(before);
        for end in skipped + 1..=len.min(skipped + FASTFP_WINDOW - 1) {
            warmth <<= 1;
            sum.take(end, warmth.into());
        }
        let whole = before.len() - before.len() % STRIDE;
        sum.add(FastFpSum(self.kind.of(&before[..whole])));
        if !len.is_multiple_of(STRIDE) {
            sum.add(FastFpSum(last_gear_hash(chunk)));
        }
        (len, sum.0)
    }
}

/// FastFP(+L) for L = `STRIDE`; FastFP for 1.
#[derive(Clone, Copy, Default)]
struct FastFpSum<const STRIDE: usize>(u32);

impl<const STRIDE: usize> ByProduct<u64> for FastFpSum<STRIDE> {
    #[inline(always)]
    fn take(&mut self, end: usize, hash: u64) {
        if end.is_multiple_of(STRIDE) {
            self.add(Self(hash as u32));
        }
    }

    #[inline(always)]
    fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}
