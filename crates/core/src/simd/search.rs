//! The two phases that chunkers without a hash share: Extreme Byte Search and Range Scan (VectorCDC §4.1,
//! §4.2).
//!
//! Parameters of these searches are data, not closures. A closure that is called more than once may not be
//! inlined, and is then compiled without the CPU features of the instruction set.

use std::ops::Range;

use super::vector::{MAX_LANES, Simd, all_lanes};

/// Order of bytes: larger bytes exceed smaller bytes, or the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    /// Larger bytes exceed smaller bytes.
    Max,
    /// Smaller bytes exceed larger bytes.
    Min,
}

impl Extreme {
    /// The extreme value: 255 or 0. No byte exceeds this value.
    #[inline(always)]
    pub(crate) const fn extreme_value(self) -> u8 {
        match self {
            Self::Max => u8::MAX,
            Self::Min => u8::MIN,
        }
    }

    /// True if `a` exceeds `b`.
    #[inline(always)]
    pub(crate) const fn exceeds(self, a: u8, b: u8) -> bool {
        match self {
            Self::Max => a > b,
            Self::Min => a < b,
        }
    }

    /// The extreme byte of `data`, which must not be empty, by a tree of lane-wise extremes (§4.1). The search
    /// stops after the first block with the [utmost](Self::extreme_value) byte value.
    #[inline(always)]
    pub(crate) fn extreme_byte<S: Simd>(self, simd: S, data: &[u8]) -> u8 {
        self.extreme_byte_within(simd, data, SearchReach::ToUtmost)
    }

    /// The extreme byte of `data`, which must not be empty, by a search that reads as far as `reach` tells.
    #[inline(always)]
    pub(crate) fn extreme_byte_within<S: Simd>(
        self,
        simd: S,
        data: &[u8],
        reach: SearchReach,
    ) -> u8 {
        let lanes = self.lane_extremes(simd, data, reach);
        match self {
            Self::Max => simd.highest(lanes),
            Self::Min => simd.lowest(lanes),
        }
    }

    /// Lane-wise extremes of `data`, or of a first part of `data` that has the utmost byte value.
    #[inline(always)]
    fn lane_extremes<S: Simd>(self, simd: S, data: &[u8], reach: SearchReach) -> S::Vector {
        if data.len() < S::LANES {
            return simd.load(&padded_to_vector(data));
        }
        // The last vector or block may overlap earlier ones, which does not change an extreme.
        let Some(last) = data.len().checked_sub(S::LANES * TREE) else {
            let mut found = simd.load(&data[data.len() - S::LANES..]);
            for bytes in data.chunks_exact(S::LANES) {
                found = self.pick_extremes(simd, found, simd.load(bytes));
            }
            return found;
        };
        let utmost = simd.splat(self.extreme_value());
        let mut found = simd.load(data);
        for block in data.chunks_exact(S::LANES * TREE) {
            found = self.pick_extremes(simd, found, self.extremes_of_block(simd, block));
            if reach == SearchReach::ToUtmost && simd.eq(found, utmost) != 0 {
                return found;
            }
        }
        self.pick_extremes(simd, found, self.extremes_of_block(simd, &data[last..]))
    }

    /// The lane-wise extremes of the [`TREE`] vectors of `block`.
    #[inline(always)]
    fn extremes_of_block<S: Simd>(self, simd: S, block: &[u8]) -> S::Vector {
        let mut leaves = [simd.load(block); TREE];
        for (leaf, bytes) in leaves.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *leaf = simd.load(bytes);
        }
        let mut width = TREE / 2;
        while width > 0 {
            for n in 0..width {
                leaves[n] = self.pick_extremes(simd, leaves[n], leaves[n + width]);
            }
            width /= 2;
        }
        leaves[0]
    }

    #[inline(always)]
    fn pick_extremes<S: Simd>(self, simd: S, a: S::Vector, b: S::Vector) -> S::Vector {
        match self {
            Self::Max => simd.max(a, b),
            Self::Min => simd.min(a, b),
        }
    }
}

/// The bytes that a search for the extreme byte reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchReach {
    /// The bytes up to the first block with the utmost byte value, which no later byte exceeds.
    ToUtmost,
    /// All bytes, as VectorCDC publishes the search.
    Whole,
}

/// Bytes to search for.
#[derive(Clone, Copy)]
pub(crate) enum WantedBytes {
    /// Bytes equal to this byte.
    Only(u8),
    /// Bytes at least as large as this byte.
    AtLeast(u8),
    /// Bytes larger than this byte.
    Above(u8),
    /// Bytes smaller than this byte.
    Below(u8),
}

impl WantedBytes {
    /// True if `byte` is wanted.
    #[inline(always)]
    pub(crate) const fn wants(self, byte: u8) -> bool {
        match self {
            Self::Only(wanted) => byte == wanted,
            Self::AtLeast(least) => byte >= least,
            Self::Above(limit) => byte > limit,
            Self::Below(limit) => byte < limit,
        }
    }

    /// The first position of a wanted byte in `data`, by packed scanning (VectorCDC §4.2).
    #[inline(always)]
    pub(crate) fn find<S: Simd>(self, simd: S, data: &[u8]) -> Option<usize> {
        if data.len() < S::LANES {
            return self.mask_of_short(simd, data).map(first);
        }
        let blocks = data.chunks_exact(S::LANES * UNROLLED);
        let rest = blocks.remainder();
        let mut at = 0;
        for block in blocks {
            let found = self.masks(simd, block);
            if let Some(n) = found.iter().position(|found| *found != 0) {
                return Some(at + n * S::LANES + first(found[n]));
            }
            at += block.len();
        }
        for bytes in rest.chunks_exact(S::LANES) {
            let found = self.mask(simd, bytes);
            if found != 0 {
                return Some(at + first(found));
            }
            at += S::LANES;
        }
        // The last vector may overlap earlier ones, which have no wanted byte.
        at = data.len() - S::LANES;
        let found = self.mask(simd, &data[at..]);
        (found != 0).then(|| at + first(found))
    }

    /// The last position of a wanted byte in `data`.
    #[inline(always)]
    pub(crate) fn find_last<S: Simd>(self, simd: S, data: &[u8]) -> Option<usize> {
        if data.len() < S::LANES {
            return self.mask_of_short(simd, data).map(last);
        }
        let blocks = data.rchunks_exact(S::LANES * UNROLLED);
        let rest = blocks.remainder();
        let mut at = data.len();
        for block in blocks {
            at -= block.len();
            let found = self.masks(simd, block);
            if let Some(n) = found.iter().rposition(|found| *found != 0) {
                return Some(at + n * S::LANES + last(found[n]));
            }
        }
        for bytes in rest.rchunks_exact(S::LANES) {
            at -= S::LANES;
            let found = self.mask(simd, bytes);
            if found != 0 {
                return Some(at + last(found));
            }
        }
        let found = self.mask(simd, data);
        (found != 0).then(|| last(found))
    }

    /// A bit mask of the wanted bytes in `data`, which is shorter than a vector. `None` if there are none.
    #[inline(always)]
    fn mask_of_short<S: Simd>(self, simd: S, data: &[u8]) -> Option<u64> {
        if data.is_empty() {
            return None;
        }
        let found = self.mask(simd, &padded_to_vector(data)) & all_lanes(data.len());
        (found != 0).then_some(found)
    }

    /// A bit mask of the wanted bytes for each vector of a block.
    #[inline(always)]
    fn masks<S: Simd>(self, simd: S, block: &[u8]) -> [u64; UNROLLED] {
        let mut found = [0; UNROLLED];
        for (found, bytes) in found.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *found = self.mask(simd, bytes);
        }
        // One branch for the usual case of no wanted byte.
        if found.iter().fold(0, |any, found| any | found) == 0 { [0; UNROLLED] } else { found }
    }

    /// A bit mask of the wanted bytes in the first vector of `bytes`.
    #[inline(always)]
    fn mask<S: Simd>(self, simd: S, bytes: &[u8]) -> u64 {
        let bytes = simd.load(bytes);
        match self {
            Self::Only(byte) => simd.eq(bytes, simd.splat(byte)),
            Self::AtLeast(byte) => simd.ge(bytes, simd.splat(byte)),
            Self::Above(byte) => simd.gt(bytes, simd.splat(byte)),
            Self::Below(byte) => simd.gt(simd.splat(byte), bytes),
        }
    }
}

/// Prefetches the bytes some distance after the range `at`. Hardware prefetchers do not follow skips.
#[inline(always)]
pub(crate) fn read_ahead<S: Simd>(simd: S, data: &[u8], at: Range<usize>) {
    let end = (at.end + AHEAD).min(data.len());
    simd.prefetch(&data[(at.start + AHEAD).min(end)..end]);
}

/// The lowest lane of a bit mask.
#[inline(always)]
const fn first(lanes: u64) -> usize {
    lanes.trailing_zeros() as usize
}

/// The highest lane of a bit mask.
#[inline(always)]
const fn last(lanes: u64) -> usize {
    lanes.ilog2() as usize
}

/// `data`, not empty and shorter than a vector, filled up with its first byte.
#[inline(always)]
pub(crate) fn padded_to_vector(data: &[u8]) -> [u8; MAX_LANES] {
    let mut bytes = [data[0]; MAX_LANES];
    bytes[..data.len()].copy_from_slice(data);
    bytes
}

/// Number of vectors in one tree: enough to keep all load ports busy.
const TREE: usize = 8;
/// Prefetch distance in bytes: about as much as is processed during one memory access.
const AHEAD: usize = 4096;
/// Number of vectors between two branches.
const UNROLLED: usize = 4;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::simd::{Isa, Kernel};

    /// Computes the largest byte, the smallest byte, and the first and last position of 9.
    struct AllSearches<'a>(&'a [u8]);

    impl Kernel for AllSearches<'_> {
        type Output = ([u8; 2], [Option<usize>; 2]);

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Self::Output {
            let Self(data) = self;
            (
                [Extreme::Max.extreme_byte(simd, data), Extreme::Min.extreme_byte(simd, data)],
                [
                    WantedBytes::Only(9).find(simd, data),
                    WantedBytes::Above(8).find_last(simd, data),
                ],
            )
        }
    }

    thread_local! {
        static LOADED: Cell<usize> = const { Cell::new(0) };
    }

    /// Vectors of one byte that count the bytes they load.
    #[derive(Clone, Copy)]
    struct CountingLoads;

    impl Simd for CountingLoads {
        type Vector = u8;
        type Table = ();
        type TermSums = ();

        const LANES: usize = 1;

        fn splat(self, byte: u8) -> u8 {
            byte
        }
        fn load(self, bytes: &[u8]) -> u8 {
            LOADED.set(LOADED.get() + 1);
            bytes[0]
        }
        fn max(self, a: u8, b: u8) -> u8 {
            a.max(b)
        }
        fn min(self, a: u8, b: u8) -> u8 {
            a.min(b)
        }
        fn ge(self, a: u8, b: u8) -> u64 {
            u64::from(a >= b)
        }
        fn eq(self, a: u8, b: u8) -> u64 {
            u64::from(a == b)
        }
        fn highest(self, a: u8) -> u8 {
            a
        }
        fn lowest(self, a: u8) -> u8 {
            a
        }
        fn xor(self, _: u8, _: u8) -> u8 {
            unreachable!("no search calls xor")
        }
        fn and(self, _: u8, _: u8) -> u8 {
            unreachable!("no search calls and")
        }
        fn or(self, _: u8, _: u8) -> u8 {
            unreachable!("no search calls or")
        }
        fn table(self, _: &[u8; 16]) {}
        fn look_up_by_low_nibble(self, (): (), _: u8) -> u8 {
            unreachable!("no search has tables")
        }
        fn look_up_by_high_nibble(self, (): (), _: u8) -> u8 {
            unreachable!("no search has tables")
        }
        fn zero(self) {}
        fn sums(self, (): &mut (), _: u8) -> [u8; 2] {
            unreachable!("no search has sums")
        }
    }

    #[test]
    fn a_published_search_reads_all_bytes_and_ours_stops_at_the_utmost() {
        let mut data = vec![7; 1000];
        for (extreme, utmost) in [(Extreme::Max, 255), (Extreme::Min, 0)] {
            data[3] = utmost;
            let loads = |reach| {
                LOADED.set(0);
                assert_eq!(extreme.extreme_byte_within(CountingLoads, &data, reach), utmost);
                LOADED.get()
            };
            assert!(loads(SearchReach::Whole) >= data.len(), "{extreme:?}");
            assert!(loads(SearchReach::ToUtmost) < 4 * TREE, "{extreme:?}");
        }
    }

    #[test]
    fn a_byte_is_found_in_every_lane_of_every_length() {
        let lens = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 511, 512, 700];
        for isa in Isa::available() {
            for len in lens {
                let mut data = vec![7; len];
                assert_eq!(isa.run(AllSearches(&data)), ([7, 7], [None, None]), "{isa:?} {len}");
                for at in 0..len {
                    data[at] = 9;
                    let smallest = if len == 1 { 9 } else { 7 };
                    let expected = ([9, smallest], [Some(at), Some(at)]);
                    assert_eq!(isa.run(AllSearches(&data)), expected, "{isa:?} {len} {at}");
                    data[at] = 0;
                    let (extremes, found) = isa.run(AllSearches(&data));
                    assert_eq!((extremes[1], found), (0, [None, None]), "{isa:?} {len} {at}");
                    data[at] = 7;
                }
                (data[0], data[len - 1]) = (9, 9);
                let (_, found) = isa.run(AllSearches(&data));
                assert_eq!(found, [Some(0), Some(len - 1)], "{isa:?} {len}");
            }
        }
    }
}
