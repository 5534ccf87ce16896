//! SeqCDC in increasing mode (Middleware 2024): comparisons of adjacent bytes instead of a hash.
//!
//! ```text
//! at = min, ups = downs = 0
//! while at < max and within the file:
//!     if data[at] > data[at - 1]:  ups += 1;  if ups == LENGTH:  cut = at + 1
//!     if data[at] < data[at - 1]:  ups = 0, downs += 1;  if downs == TRIGGER:  downs = 0, at += skip
//!     at += 1
//! otherwise cut = max, or the end of the file
//! ```
//!
//! Choices where the paper is silent:
//!
//! 1. The byte that completes the sequence is the last of its chunk.
//! 2. The first comparison is of byte `min` with the byte before.
//! 3. Equal neighbours count neither as up nor as down, as in the authors' code. So a run of one byte value
//!    makes maximal chunks.
//! 4. `LENGTH` and `TRIGGER` are the paper's. `skip` follows from the average: the number of random bytes up to
//!    a sequence of `LENGTH`, and of skips before, are known.
//!
//! The code differs from the paper's loop:
//!
//! 1. The code takes [`STEPS`] comparisons at once, one bit each, on vectors of any width. "`LENGTH` ups since
//!    the last down" is one shift and one addition for each up; the carry runs through equal neighbours.
//! 2. The code prefetches memory, because hardware prefetchers do not follow the skips.
//!
//! A cut depends on the end of earlier skips, so on the whole chunk from `min` on.

use super::{Chunker, Sizes};
use crate::simd::search::read_ahead;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};

/// Cuts after a sequence of rising bytes. Skips bytes where most bytes fall.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeqChunker {
    min: usize,
    max: usize,
    skip: usize,
    isa: Isa,
}

impl SeqChunker {
    /// Creates a chunker for chunks of `sizes` with the instructions of `isa`.
    pub(super) fn new(sizes: Sizes, isa: Isa) -> Self {
        let rest = (sizes.avg() - sizes.min()).saturating_sub(RANDOM_WAIT_BYTES);
        let skip = rest * 100 / SKIPS_IN_100_WAITS;
        Self { min: sizes.min() as usize, max: sizes.max() as usize, skip: skip as usize, isa }
    }
}

impl Chunker for SeqChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        self.isa.run(SeqCut { min: self.min, skip: self.skip, data })
    }
}

struct SeqCut<'a> {
    min: usize,
    skip: usize,
    data: &'a [u8],
}

impl Kernel for SeqCut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { min, skip, data } = self;
        read_ahead(simd, data, 0..min);
        let mut at = min;
        let (mut ups, mut downs) = (0, 0);
        while at < data.len() {
            let steps = StepBits::load(simd, &data[at - 1..]);
            let risen = steps.ends_of_rises(ups);
            let fallen = steps.down.count_ones();
            if downs + fallen >= TRIGGER {
                let last = nth_one(steps.down, TRIGGER - downs - 1);
                if risen & ((1 << last) - 1) == 0 {
                    at += last as usize + 1 + skip;
                    read_ahead(simd, data, at - skip..at);
                    (ups, downs) = (0, 0);
                    continue;
                }
            }
            if risen != 0 {
                return at + risen.trailing_zeros() as usize + 1;
            }
            ups = steps.ups_at_end(ups);
            downs += fallen;
            at += STEPS;
        }
        data.len()
    }
}

/// A bit for each pair of adjacent bytes. Equal neighbours have neither bit.
struct StepBits {
    up: u64,
    down: u64,
}

impl StepBits {
    /// The first steps in `bytes`, which has at least two bytes. Steps past the end count as equal.
    #[inline(always)]
    fn load<S: Simd>(simd: S, bytes: &[u8]) -> Self {
        if let Some(bytes) = bytes.first_chunk() {
            return Self::load_all(simd, bytes);
        }
        let mut padded = [bytes[bytes.len() - 1]; STEPS + 1];
        padded[..bytes.len()].copy_from_slice(bytes);
        Self::load_all(simd, &padded)
    }

    #[inline(always)]
    fn load_all<S: Simd>(simd: S, bytes: &[u8; STEPS + 1]) -> Self {
        let (mut not_up, mut not_down) = (0u64, 0u64);
        // Rotated, not shifted: for shifted halves LLVM uses a vector of flags and processes each flag alone.
        for n in (0..STEPS).step_by(S::LANES) {
            let (before, here) = (simd.load(&bytes[n..]), simd.load(&bytes[n + 1..]));
            not_up = (not_up | simd.ge(before, here)).rotate_right(S::LANES as u32);
            not_down = (not_down | simd.ge(here, before)).rotate_right(S::LANES as u32);
        }
        Self { up: !not_up, down: !not_down }
    }

    /// A bit mask of the steps that end a chunk: ups with at least [`LENGTH`] ups since the last down. `ups` is the
    /// number of ups before these steps.
    #[inline(always)]
    fn ends_of_rises(&self, ups: u32) -> u64 {
        let equal = !(self.up | self.down);
        let mut risen = self.up;
        for before in 1..LENGTH {
            // The previous steps. A run of equal steps begins after such a step or not; the carry passes this
            // bit through the run.
            let behind = risen << 1 | u64::from(ups >= before);
            let carried = equal.wrapping_add(behind & equal);
            risen = self.up & (behind | carried);
        }
        risen
    }

    /// Returns the number of ups (bytes larger than the byte before) since the last down, after the steps in `self`;
    /// `ups` is the number before these steps. The result is below [`LENGTH`], because no step has ended a chunk.
    #[inline(always)]
    fn ups_at_end(&self, ups: u32) -> u32 {
        match self.down.checked_ilog2() {
            Some(last) => (self.up >> last).count_ones(),
            None => ups + self.up.count_ones(),
        }
    }
}

/// The position of the bit of `bits` with `n` one bits below it.
#[inline(always)]
fn nth_one(mut bits: u64, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}

/// Number of consecutive ups that end a chunk.
const LENGTH: u32 = 5;
/// Number of downs, not necessarily consecutive, that cause a skip.
const TRIGGER: u32 = 50;
/// Number of steps in one word.
const STEPS: usize = MAX_LANES;

/// Mean number of random bytes, without skipped bytes, until [`LENGTH`] ups in a row.
const RANDOM_WAIT_BYTES: u32 = 870;
/// Mean number of skips in that time, times 100.
const SKIPS_IN_100_WAITS: u32 = 825;

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        Sizes::new(512, 2048, 4096).unwrap()
    }

    fn assert_cut(data: &[u8], expected: usize) {
        for isa in Isa::available() {
            assert_eq!(SeqChunker::new(sizes(), isa).cut(data), expected, "{isa:?}");
        }
    }

    #[test]
    fn a_run_of_one_byte_is_cut_at_the_maximum() {
        for byte in [0, 1, 7, 254, 255] {
            assert_cut(&[byte; 5000], 4096);
        }
    }

    /// Bytes of 7, then from `at` on rising bytes, each repeated `wide` times.
    fn sevens_then_rising(at: usize, wide: usize) -> Vec<u8> {
        let rise = |n: usize| 8 + ((n - at) / wide).min(4) as u8;
        (0..5000).map(|n| if n < at { 7 } else { rise(n) }).collect()
    }

    #[test]
    fn a_rise_ends_its_chunk_in_every_lane() {
        for at in 512..800 {
            for wide in [1, 2, 15, 16, 17, 63, 64, 65, 130] {
                assert_cut(&sevens_then_rising(at, wide), at + 4 * wide + 1);
            }
        }
        assert_cut(&sevens_then_rising(511, 1), 4096);
    }

    #[test]
    fn a_fall_ends_a_rise() {
        for at in 512..800 {
            for wide in [2, 17, 64] {
                let mut data = sevens_then_rising(at, wide);
                data[at + 3 * wide + 1] = 0;
                assert_cut(&data, 4096);
            }
        }
    }

    #[test]
    fn many_falls_skip_the_next_bytes() {
        let skip = SeqChunker::new(sizes(), Isa::SCALAR).skip;
        assert!(skip > 65);
        for first in 512..600 {
            let mut data = vec![7; 5000];
            let falls = first + 2 * TRIGGER as usize;
            for byte in data[first..falls].iter_mut().step_by(2) {
                *byte = 8;
            }
            for start in falls..falls + skip {
                data[falls..].copy_from_slice(&sevens_then_rising(start, 1)[falls..]);
                assert_cut(&data, 4096);
            }
            data[falls..].copy_from_slice(&sevens_then_rising(falls + skip, 1)[falls..]);
            assert_cut(&data, falls + skip + LENGTH as usize);
            data[first] = 7;
            data[falls..].copy_from_slice(&sevens_then_rising(falls, 1)[falls..]);
            assert_cut(&data, falls + LENGTH as usize);
        }
    }
}
