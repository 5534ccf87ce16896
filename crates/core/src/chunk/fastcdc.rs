//! FastCDC (Xia et al. 2016), with and without normalised sizes.
//!
//! ```text
//! hash(i) = sum over k in 0..i - (min - 1) of  GEAR[data[i - 1 - k]] << k       (mod 2^64; at most the last 64 bytes)
//! cut     = as for gear, by this hash
//! ```
//!
//! 1. As in the paper, hashing begins at the minimum: the hash is cold at the first candidate, and a cut within
//!    64 bytes of the minimum depends on the start of the chunk. That saves 64 bytes of work in each chunk;
//!    after an edit, boundaries realign slightly later than with [`GearChunker`](super::GearChunker).
//! 2. Table, levels and criterion are those of [`GearChunker`](super::GearChunker), so the cold hash is the
//!    only difference. The masks of the paper spread their bits; the highest bits of the hash cover the whole
//!    window equally well.
//! 3. The judged byte is the last of its chunk; in the paper it is the first byte of the next chunk.
//! 4. In a run of one byte value a cold hash takes 64 values before it is constant. At an average of 8 KiB none
//!    of them cuts. At a smaller average some byte values, but not zero, make chunks hardly longer than the
//!    minimum.

use super::gear::GearLimits;
use super::rolling::NoSum;
use super::{Chunker, NormalisationLevel, Sizes};

/// Cuts where a Gear hash that begins at the minimum is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastCdcChunker(GearLimits);

impl FastCdcChunker {
    /// Creates a chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes, level: NormalisationLevel) -> Self {
        Self(GearLimits::new(sizes, level))
    }
}

impl Chunker for FastCdcChunker {
    fn max_len(&self) -> usize {
        self.0.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        self.0.cut(data, |_, _| COLD, NoSum).0
    }
}

/// The hash of no bytes.
pub(super) const COLD: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_early(level: NormalisationLevel, avg: u32) -> Vec<u8> {
        let sizes = Sizes::new(512, avg, 4 * avg).unwrap();
        let (chunker, max) = (FastCdcChunker::new(sizes, level), 4 * avg as usize);
        (0..=255).filter(|byte| chunker.cut(&vec![*byte; max]) < max).collect()
    }

    #[test]
    fn runs_of_most_byte_values_are_cut_at_the_maximum() {
        assert_eq!(cut_early(NormalisationLevel::Two, 8192), []);
        assert_eq!(cut_early(NormalisationLevel::Zero, 8192), []);
        assert_eq!(cut_early(NormalisationLevel::Two, 1024), [111]);
        let many = cut_early(NormalisationLevel::Zero, 1024);
        assert!(many.len() == 19 && !many.contains(&0) && !many.contains(&255), "{many:?}");
    }
}
