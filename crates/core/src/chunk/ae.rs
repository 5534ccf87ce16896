//! AE, Asymmetric Extremum chunking (INFOCOM 2015; VectorCDC §4.3): comparisons instead of a hash.
//!
//! ```text
//! at  = the first byte that exceeds all earlier bytes of the chunk, and that no byte of the next `window` bytes exceeds
//! cut = at + 1 + window, else max, or the end of the file
//! ```
//!
//! *Exceeds* means "is larger" (AE-Max) or "is smaller" (AE-Min). The paper leaves some points open; we chose:
//!
//! 1. The last byte of the window is the last byte of its chunk.
//! 2. `window = avg - 256`, and at least `min - 1`. Random bytes reach the extreme value after 256 bytes on
//!    average, so the average chunk has `avg` bytes. No chunk is shorter than `min`.
//! 3. Of equal bytes the first is the extreme byte: a run of one byte value makes chunks of `window + 1` bytes.
//! 4. A chunk ends at `max` at the latest, or at the end of the file.
//!
//! The code differs from the loop of the paper:
//!
//! 1. The code searches whole windows, not single bytes. Only the extreme byte of a window matters, at its
//!    first occurrence: earlier bytes of the window are exceeded by it. The next window begins where the last
//!    one ended.
//! 2. Nothing exceeds 255 (AE-Min: 0), so the bytes after such a byte need not be read.
//!
//! A cut depends on the whole chunk before it, as with RAM.

use super::{Chunker, Sizes};
use crate::simd::search::WantedBytes;
use crate::simd::{Isa, Kernel, Simd};

pub(super) use crate::simd::search::Extreme;

/// Cuts one window after a byte that exceeds all earlier bytes and all bytes of its window.
#[derive(Clone, Copy, Debug)]
pub(super) struct AeChunker {
    extreme: Extreme,
    window: usize,
    max: usize,
    isa: Isa,
}

impl AeChunker {
    /// Creates a chunker for chunks of `sizes` with the instructions of `isa`.
    pub(super) fn new(extreme: Extreme, sizes: Sizes, isa: Isa) -> Self {
        Self { extreme, window: sizes.window() as usize, max: sizes.max() as usize, isa }
    }
}

impl Chunker for AeChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        self.isa.run(AeCut { extreme: self.extreme, window: self.window, data })
    }
}

struct AeCut<'a> {
    extreme: Extreme,
    window: usize,
    /// Bytes of the chunk, between 1 and the maximum.
    data: &'a [u8],
}

impl Kernel for AeCut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { extreme, window, data } = self;
        let (mut at, mut top) = (0, data[0]);
        let mut seen = 1;
        loop {
            let end = at + 1 + window;
            if end >= data.len() {
                return data.len();
            }
            if top == extreme.extreme_value() {
                return end;
            }
            let fresh = &data[seen..end];
            let best = extreme.extreme_byte(simd, fresh);
            if !extreme.exceeds(best, top) {
                return end;
            }
            at = seen
                + WantedBytes::Only(best)
                    .find(simd, fresh)
                    .expect("the extreme byte is in the window");
            (top, seen) = (best, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: (u32, u32, u32) = (512, 1024, 4096);
    const WINDOW: usize = 768;

    fn cuts(extreme: Extreme, data: &[u8]) -> Vec<usize> {
        let sizes = Sizes::new(SIZES.0, SIZES.1, SIZES.2).unwrap();
        Isa::available().iter().map(|isa| AeChunker::new(extreme, sizes, *isa).cut(data)).collect()
    }

    fn assert_cut(data: &[u8], expected: usize) {
        let flipped: Vec<u8> = data.iter().map(|byte| !byte).collect();
        for (extreme, data) in [(Extreme::Max, data), (Extreme::Min, &flipped)] {
            for found in cuts(extreme, data) {
                assert_eq!(found, expected, "{extreme:?}");
            }
        }
    }

    #[test]
    fn a_run_of_one_byte_is_cut_after_its_first_window() {
        for byte in [0, 1, 7, 254, 255] {
            assert_cut(&[byte; 5000], WINDOW + 1);
        }
    }

    #[test]
    fn the_first_of_equal_largest_bytes_counts_in_every_lane() {
        for at in 0..300 {
            for top in [9, 255] {
                let mut data = [7; 5000];
                data[at] = top;
                data[at + 1..at + 200].fill(top - 1);
                data[at + 300] = top;
                assert_cut(&data, at + 1 + WINDOW);
            }
        }
    }

    #[test]
    fn a_larger_byte_counts_up_to_the_last_byte_of_the_window() {
        for around in [0, 15, 16, 17, 31, 32, 33, 63, 64, 65] {
            let mut data = [7; 5000];
            data[around] = 8;
            data[around + WINDOW] = 9;
            assert_cut(&data, around + WINDOW + 1 + WINDOW);
            data.swap(around + WINDOW, around + WINDOW + 1);
            assert_cut(&data, around + 1 + WINDOW);
        }
    }

    #[test]
    fn rising_bytes_end_at_the_maximum() {
        let data: Vec<u8> = (0..5000).map(|n| (n / 20) as u8).collect();
        assert_cut(&data, 4096);
        assert_cut(&data[..3000], 3000);
    }
}
