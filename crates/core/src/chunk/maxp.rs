//! MAXP, local maxima of byte values, as in VectorCDC: comparisons instead of a hash (Bjørner et al.,
//! "Content-dependent chunking for differential compression: the local maximum approach", 2010).
//!
//! ```text
//! peak(p) = data[p] >= each of the `window` bytes before, and data[p] > each of the `window` bytes after
//! cut     = p + 1 for the least p >= max(min - 1, window) with peak(p) and p + window < max, within the file,
//!           else max, or the end of the file
//! ```
//!
//! Choices where the paper is silent:
//!
//! 1. A peak is the last byte of its chunk.
//! 2. `window` follows from the average by integer arithmetic, so that all machines agree; see [`window`].
//! 3. Of equal bytes the last is the peak. A run of one byte value has no peak and makes maximal chunks.
//! 4. The whole window must lie within `max` and the file. Otherwise a cut would depend on bytes that the other
//!    side may not have.
//!
//! While `min > window`, a cut depends only on the bytes around it, so boundaries realign right after an edit.
//! No other chunker without a hash has this property here.
//!
//! The code climbs. In a window only the largest byte, at its last occurrence, can be a peak. This byte is a
//! peak if no byte as large follows in its window; the skipped bytes before it are checked only then. Once the
//! byte is 255, the search goes backwards from the end of the window and never reads the bytes before the last
//! 255.

use super::{Chunker, Sizes};
use crate::simd::search::{Extreme, WantedBytes};
use crate::simd::{Isa, Kernel, Simd};

/// Cuts after local maxima.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxpChunker {
    window: usize,
    /// Offset of the first possible peak.
    first: usize,
    max: usize,
    isa: Isa,
}

impl MaxpChunker {
    /// Creates a chunker for chunks of `sizes` with the instructions of `isa`.
    pub(super) fn new(sizes: Sizes, isa: Isa) -> Self {
        let window = window(sizes) as usize;
        Self { window, first: window.max(sizes.min() as usize - 1), max: sizes.max() as usize, isa }
    }
}

/// The smallest window for which the expected distance to a peak in random bytes meets the average.
///
/// A random byte is 255 and has no 255 in the window after it with probability `e^(-window / 256) / 256`; lower
/// peaks add a term. Two peaks are at least a window apart, which shortens the wait for the next peak:
///
/// ```text
/// wait = 256 * (e^(window / 256) - e^(-window / 256)) - window
/// ```
const fn window(sizes: Sizes) -> u32 {
    let (mut window, mut rise, mut fall) = (1, ONE, ONE);
    loop {
        rise += rise / 255;
        fall -= fall / 256;
        let first = if sizes.min() > window { sizes.min() } else { window + 1 };
        let wait = ((rise - fall) / (ONE / 256)).saturating_sub(window as u64);
        if first as u64 + wait >= sizes.avg() as u64 {
            return window;
        }
        window += 1;
    }
}

impl Chunker for MaxpChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        self.isa.run(MaxpCut { window: self.window, first: self.first, data })
    }
}

struct MaxpCut<'a> {
    window: usize,
    first: usize,
    data: &'a [u8],
}

impl Kernel for MaxpCut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { window, first, data } = self;
        let mut from = first;
        while let Some((at, top)) = climb(simd, data, from, window) {
            let skipped = &data[from.min(at - window)..from];
            if top == u8::MAX || WantedBytes::Above(top).find(simd, skipped).is_none() {
                return at + 1;
            }
            // The peak's larger byte rules out every byte of this window.
            from = at + window + 1;
        }
        data.len()
    }
}

/// Finds the first candidate peak at or after `from`: a byte larger than all bytes in the window that follows.
/// Skips bytes that follow a larger byte. Returns the offset and the value.
#[inline(always)]
fn climb<S: Simd>(simd: S, data: &[u8], from: usize, window: usize) -> Option<(usize, u8)> {
    let (mut at, mut top) = (from, *data.get(from)?);
    let mut seen = from + 1;
    loop {
        let end = at + window + 1;
        let fresh = data.get(seen..end)?;
        let Some(mut n) = WantedBytes::AtLeast(top).find_last(simd, fresh) else {
            return Some((at, top));
        };
        let before = &fresh[..n];
        if fresh[n] != u8::MAX && WantedBytes::Above(fresh[n]).find(simd, before).is_some() {
            let best = Extreme::Max.extreme_byte(simd, before);
            n = WantedBytes::Only(best)
                .find_last(simd, before)
                .expect("the largest byte is in the window");
        }
        (at, top, seen) = (seen + n, fresh[n], end);
    }
}

/// The number 1 in the fixed-point arithmetic of [`window`].
const ONE: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        Sizes::new(512, 1024, 4096).unwrap()
    }

    fn assert_cut(data: &[u8], expected: usize) {
        for isa in Isa::available() {
            assert_eq!(MaxpChunker::new(sizes(), isa).cut(data), expected, "{isa:?}");
        }
    }

    #[test]
    fn a_run_of_one_byte_is_cut_at_the_maximum() {
        for byte in [0, 1, 7, 254, 255] {
            assert_cut(&[byte; 5000], 4096);
        }
    }

    #[test]
    fn a_peak_ends_its_chunk_in_every_lane() {
        for at in 511..800 {
            for top in [9, 255] {
                let mut data = [7; 5000];
                data[at] = top;
                assert_cut(&data, at + 1);
            }
        }
    }

    #[test]
    fn a_peak_exceeds_its_window_and_equals_at_most_earlier_bytes() {
        let window = window(sizes()) as usize;
        for at in [600, 615, 616, 617, 631, 632, 633, 663, 664, 665].map(|at| at + window) {
            for top in [9, 255] {
                let mut data = [7; 5000];
                data[at] = top;
                data[at - window] = top;
                assert_cut(&data, at + 1);
                data[at - window - 1] = top;
                data[at - window] = 7;
                assert_cut(&data, at - window);
                data[at] = top - 1;
                assert_cut(&data, at - window);
                data[at + window] = top - 1;
                data[at + window + 1] = top - 1;
                assert_cut(&data, at - window);
            }
            let mut data = [7; 5000];
            (data[at], data[at + window]) = (9, 9);
            assert_cut(&data, at + window + 1);
            (data[at + window], data[at + window + 1]) = (7, 9);
            assert_cut(&data, at + 1);
            (data[0], data[at - window]) = (255, 8);
            assert_cut(&data, at + 1);
        }
    }

    #[test]
    fn a_larger_skipped_byte_rules_out_a_peak() {
        let window = window(sizes()) as usize;
        assert!(window < 511);
        for at in 511..511 + window {
            let mut data = [7; 5000];
            (data[510], data[at]) = (9, 8);
            assert_cut(&data, 4096);
            data[510] = 8;
            assert_cut(&data, at + 1);
        }
    }

    #[test]
    fn a_peak_needs_its_whole_window() {
        let window = window(sizes()) as usize;
        let mut data = [7; 4096];
        data[3000] = 9;
        assert_cut(&data[..3000 + window + 1], 3001);
        assert_cut(&data[..3000 + window], 3000 + window);
        data = [7; 4096];
        data[4096 - window] = 9;
        assert_cut(&data, 4096);
    }

    #[test]
    fn windows_depend_on_the_average_only() {
        let window = |min, avg, max| window(Sizes::new(min, avg, max).unwrap());
        assert_eq!(window(512, 512, 512), 1);
        for avg in [1024, 8192, 1 << 19] {
            assert!(window(512, avg, 1 << 19) < 2400, "{avg}");
            assert!(window(512, avg, avg) == window(512, avg, 1 << 19));
        }
    }
}
