//! Gear chunking (Ddelta, Xia et al. 2014), also with the normalised sizes of FastCDC (2020 version).
//!
//! ```text
//! hash(i)  = sum over k in 0..64 of  GEAR[data[i - 1 - k]] << k         (mod 2^64; the 64 bytes before i)
//! cut      = the least i in min..=avg with hash(i) <= strict,
//!            else the least i in avg+1..max with hash(i) <= loose,
//!            else max, or the end of the file
//!
//! level 0: strict = loose = (2^64 - 1) / (avg - min)
//! level 2: strict = 2^64 / avg / 4 - 1,  loose = 2^64 / avg * 4 - 1
//! ```
//!
//! Differences from the papers, and why:
//!
//! 1. The hash is warmed up over the bytes before `min`. So a cut depends on 64 bytes of content, never on the
//!    start of the chunk, and boundaries realign after an edit at the first shared candidate. Hashing all bytes
//!    from the start of the chunk, as Ddelta does, finds the same cuts: older bytes have left the hash.
//! 2. The criterion compares the highest bits of the hash, which depend on the whole window. Without levels, a
//!    hash cuts with probability `1 / (avg - min)`, and the average chunk of random bytes has `avg` bytes. With
//!    a mask of the bits of `avg` the average is `min + avg`.
//!
//! [`rolling`](super::rolling) searches for the boundary in several lanes.

use super::rolling::{ByProduct, NoSum, RollState, RollingHash, search, warm_up};
use super::{Chunker, Sizes};
use crate::constants::GEAR;

/// Degree of normalisation of chunk lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NormalisationLevel {
    /// The same criterion for all lengths.
    Zero,
    /// Level 2 of FastCDC: two more bits before the average, two fewer bits after the average.
    Two,
}

/// Cuts where a Gear hash of the last 64 bytes is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct GearChunker(GearLimits);

impl GearChunker {
    /// Creates a chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes, level: NormalisationLevel) -> Self {
        Self(GearLimits::new(sizes, level))
    }

    /// The largest hash that cuts before the average.
    pub(super) const fn limit(self) -> u64 {
        self.0.strict
    }
}

impl Chunker for GearChunker {
    fn max_len(&self) -> usize {
        self.0.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        self.0.cut(data, warm_up::<GearHash, _>, NoSum).0
    }
}

/// Thresholds for a Gear hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct GearLimits {
    pub(super) min: usize,
    avg: usize,
    pub(super) max: usize,
    /// The largest hash that cuts up to the average.
    strict: u64,
    /// The largest hash that cuts past the average.
    loose: u64,
}

impl GearLimits {
    pub(super) const fn new(sizes: Sizes, level: NormalisationLevel) -> Self {
        let bits = sizes.avg().trailing_zeros();
        let (strict, loose) = match level {
            NormalisationLevel::Zero => {
                (u64::MAX / sizes.wait() as u64, u64::MAX / sizes.wait() as u64)
            }
            NormalisationLevel::Two => (u64::MAX >> (bits + 2), u64::MAX >> (bits - 2)),
        };
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        Self { min: min as usize, avg: avg as usize, max: max as usize, strict, loose }
    }

    /// The length of the first chunk of `data`, and `sum` of its hashes from the minimum on. `before` returns the hash
    /// before the last byte of `data[..min]` enters.
    #[inline(always)]
    pub(super) fn cut<B: ByProduct<u64>>(
        &self,
        data: &[u8],
        before: impl Fn(&[u8], usize) -> u64,
        sum: B,
    ) -> (usize, B) {
        let data = &data[..data.len().min(self.max)];
        let len = data.len();
        if len <= self.min {
            return (len, sum);
        }
        let far = len.min(self.avg + 1);
        let mut state = RollState { hash: before(data, self.min), sum };
        let found = search::<GearHash, B, _>(data, self.min..far, &mut state, self.strict)
            .or_else(|| search::<GearHash, B, _>(data, far..len, &mut state, self.loose));
        if let Some(end) = found {
            return (end, state.sum);
        }
        state.sum.take(len, GearHash::add_byte(state.hash, data[len - 1]));
        (len, state.sum)
    }
}

/// The Gear hash: the sum of a table entry for each byte, doubled for each following byte.
pub(super) struct GearHash;

impl RollingHash<3> for GearHash {
    type Hash = u64;

    const WINDOW: usize = u64::BITS as usize;
    const STRETCH: usize = 256;

    #[inline(always)]
    fn add_byte(hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(GEAR[usize::from(byte)])
    }

    #[inline(always)]
    fn roll(hash: u64, enters: u8, _leaves: u8) -> u64 {
        Self::add_byte(hash, enters)
    }

    #[inline(always)]
    fn ends(hash: u64, limit: u64) -> bool {
        hash <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_depends_on_the_window_alone() {
        let gear = GearChunker::new(Sizes::new(512, 1024, 8192).unwrap(), NormalisationLevel::Two);
        let data: Vec<u8> =
            (0..8192u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
        let cut = gear.cut(&data);
        assert!((512..8192).contains(&cut), "{cut}");
        let mut other = vec![7; cut - GearHash::WINDOW];
        other.extend_from_slice(&data[cut - GearHash::WINDOW..]);
        assert_eq!(gear.cut(&other), cut);
    }
}
