//! MAXP, local maxima (Bjørner et al., "Content-dependent chunking for differential compression: the local maximum
//! approach", 2010), of bytes, as VectorCDC's authors have it: no hash, only comparisons.
//!
//! ```text
//! peak(p) = data[p] >= each of the window bytes before it, and > each of the window bytes behind it
//! cut     = p + 1 for the least p >= max(min - 1, window) with peak(p) and p + window < max, within the file,
//!           else max, or the end of the file
//! ```
//!
//! Choices where the paper is silent:
//!
//! 1. A peak is the last byte of its chunk.
//! 2. `window` follows from the mean, in whole numbers alone, so that all machines agree; see [`window`].
//! 3. Of equal bytes the last is the peak. A run of one byte has none and makes the longest chunks.
//! 4. All of the window must be within `max` and the file: a cut there depends on what the other side may not see
//!    alike.
//!
//! While `min > window` a cut depends on the bytes around it and on nothing else, so boundaries meet again right after
//! an edit. No other hashless chunker here has that.
//!
//! The code also climbs. Of a window only the largest byte can be a peak, where that last comes up. It is
//! one if nothing as large follows; the bytes before it, which were skipped, are looked at only then. Once the byte is
//! 255, the search for another goes backwards from the window's end, and all before that one is never looked at.

use super::{Chunker, Sizes};
use crate::simd::search::{Extreme, Wanted};
use crate::simd::{Isa, Kernel, Simd};

/// Cuts behind a byte that is the largest far around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maxp {
    window: usize,
    /// The first byte that may be a peak.
    first: usize,
    max: usize,
    isa: Isa,
}

impl Maxp {
    /// A chunker for chunks of `sizes`, with the instructions of `isa`.
    pub(super) fn new(sizes: Sizes, isa: Isa) -> Self {
        let window = window(sizes) as usize;
        Self { window, first: window.max(sizes.min() as usize - 1), max: sizes.max() as usize, isa }
    }
}

/// The least window that makes random bytes wait for a peak as long as the mean asks for.
///
/// A random byte is 255 and has none such in the window behind it at a rate of `e^(-window / 256) / 256`; lower peaks
/// add a term. Between two peaks there is a window at least, and that much sooner the next one comes:
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

impl Chunker for Maxp {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        self.isa.run(Cut { window: self.window, first: self.first, data })
    }
}

struct Cut<'a> {
    window: usize,
    first: usize,
    data: &'a [u8],
}

impl Kernel for Cut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { window, first, data } = self;
        let mut from = first;
        while let Some((at, top)) = climb(simd, data, from, window) {
            let skipped = &data[from.min(at - window)..from];
            if top == u8::MAX || Wanted::Above(top).find(simd, skipped).is_none() {
                return at + 1;
            }
            // Each byte of the window behind has this larger one before it.
            from = at + window + 1;
        }
        data.len()
    }
}

/// The first byte at or behind `from` with none as large in the window behind it, but for those that have a larger one
/// before them; and its value.
#[inline(always)]
fn climb<S: Simd>(simd: S, data: &[u8], from: usize, window: usize) -> Option<(usize, u8)> {
    let (mut at, mut top) = (from, *data.get(from)?);
    let mut seen = from + 1;
    loop {
        let end = at + window + 1;
        let fresh = data.get(seen..end)?;
        let Some(mut n) = Wanted::AtLeast(top).find_last(simd, fresh) else {
            return Some((at, top));
        };
        let before = &fresh[..n];
        if fresh[n] != u8::MAX && Wanted::Above(fresh[n]).find(simd, before).is_some() {
            let best = Extreme::Max.of(simd, before);
            n = Wanted::Only(best).find_last(simd, before).expect("it is of these");
        }
        (at, top, seen) = (seen + n, fresh[n], end);
    }
}

/// Unity, in the fixed-point numbers that [`window`] counts with.
const ONE: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        Sizes::new(512, 1024, 4096).unwrap()
    }

    fn assert_cut(data: &[u8], expected: usize) {
        for isa in Isa::available() {
            assert_eq!(Maxp::new(sizes(), isa).cut(data), expected, "{isa:?}");
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
    fn a_peak_has_none_larger_before_it_and_none_as_large_behind_it() {
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
    fn a_skipped_byte_counts_against_a_peak() {
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
    fn a_window_is_seen_whole() {
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
    fn windows_grow_with_the_mean_alone() {
        let window = |min, avg, max| window(Sizes::new(min, avg, max).unwrap());
        assert_eq!(window(512, 512, 512), 1);
        for avg in [1024, 8192, 1 << 19] {
            assert!(window(512, avg, 1 << 19) < 2400, "{avg}");
            assert!(window(512, avg, avg) == window(512, avg, 1 << 19));
        }
    }
}
