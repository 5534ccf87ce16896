//! FastCDC (Xia et al. 2016), without and with normalised sizes.
//!
//! ```text
//! hash(i) = sum over k in 0..i - (min - 1) of  GEAR[data[i - 1 - k]] << k       (mod 2^64; at most 64 bytes reach it)
//! cut     = as for gear, by this hash
//! ```
//!
//! 1. As in the paper nothing is hashed before the minimum, not even to warm up: the hash is cold at the first end,
//!    and a cut within 64 bytes of the minimum depends on where the chunk began. That saves 64 bytes of work in each
//!    chunk and costs a little of how soon boundaries meet again after an edit; see [`Gear`](super::Gear).
//! 2. Table, levels and criterion are those of [`Gear`](super::Gear), so what differs is the cold hash alone. The
//!    paper's masks spread their bits; by the highest bits all of the window is judged just as well.
//! 3. The byte judged is the last of its chunk; in the paper it is the first of the next.
//! 4. In a run of one byte a cold hash takes 64 values on its way to the last one. At a mean of 8 KiB none of them
//!    cuts; at a smaller one some may, though not those of zeros, and then the run makes chunks hardly longer than
//!    the minimum.

use super::gear::Limits;
use super::{Chunker, Level, Sizes};

/// Cuts where a gear hash that begins at the minimum is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastCdc(Limits);

impl FastCdc {
    /// A chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes, level: Level) -> Self {
        Self(Limits::new(sizes, level))
    }
}

impl Chunker for FastCdc {
    fn max_len(&self) -> usize {
        self.0.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        self.0.cut(data, |_, _| COLD)
    }
}

/// The hash of nothing.
const COLD: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_early(level: Level, avg: u32) -> Vec<u8> {
        let sizes = Sizes::new(512, avg, 4 * avg).unwrap();
        let (chunker, max) = (FastCdc::new(sizes, level), 4 * avg as usize);
        (0..=255).filter(|byte| chunker.cut(&vec![*byte; max]) < max).collect()
    }

    #[test]
    fn a_run_of_one_byte_is_cut_at_the_maximum_but_for_few_bytes_and_a_small_mean() {
        assert_eq!(cut_early(Level::Two, 8192), []);
        assert_eq!(cut_early(Level::Zero, 8192), []);
        assert_eq!(cut_early(Level::Two, 1024), [111]);
        let many = cut_early(Level::Zero, 1024);
        assert!(many.len() == 19 && !many.contains(&0) && !many.contains(&255), "{many:?}");
    }
}
