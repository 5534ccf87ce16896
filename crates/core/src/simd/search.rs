//! The two phases that all hashless chunkers share: Extreme Byte Search and Range Scan (VectorCDC §4.1, §4.2).
//!
//! Parameters of these searches are data, not closures: a closure that is called more than once may stay a function,
//! and that one would be
//! compiled without the features of the instruction set.

use std::ops::Range;

use super::vector::{MAX_LANES, Simd, all_lanes};

/// Order in which bytes exceed others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    /// Larger ones.
    Max,
    /// Smaller ones.
    Min,
}

impl Extreme {
    /// The byte that no other exceeds.
    #[inline(always)]
    pub(crate) const fn utmost(self) -> u8 {
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

    /// The extreme byte of `data`, which is not empty: a tree of lane-wise extremes (§4.1).
    ///
    /// The extreme of `data`. The search ends behind the first block that holds the utmost byte.
    #[inline(always)]
    pub(crate) fn of<S: Simd>(self, simd: S, data: &[u8]) -> u8 {
        let lanes = self.lanes(simd, data);
        match self {
            Self::Max => simd.highest(lanes),
            Self::Min => simd.lowest(lanes),
        }
    }

    /// Lane-wise extremes; those of a part of `data` that holds the utmost byte, or else of all of it.
    #[inline(always)]
    fn lanes<S: Simd>(self, simd: S, data: &[u8]) -> S::Vector {
        if data.len() < S::LANES {
            return simd.load(&padded(data));
        }
        // The last vector, and the last block, may overlap what was seen: an extreme does not mind.
        let Some(last) = data.len().checked_sub(S::LANES * TREE) else {
            let mut found = simd.load(&data[data.len() - S::LANES..]);
            for bytes in data.chunks_exact(S::LANES) {
                found = self.pick(simd, found, simd.load(bytes));
            }
            return found;
        };
        let utmost = simd.splat(self.utmost());
        let mut found = simd.load(data);
        for block in data.chunks_exact(S::LANES * TREE) {
            found = self.pick(simd, found, self.tree(simd, block));
            if simd.eq(found, utmost) != 0 {
                return found;
            }
        }
        self.pick(simd, found, self.tree(simd, &data[last..]))
    }

    /// The lane-wise extremes of as many vectors as meet in one tree.
    #[inline(always)]
    fn tree<S: Simd>(self, simd: S, block: &[u8]) -> S::Vector {
        let mut leaves = [simd.load(block); TREE];
        for (leaf, bytes) in leaves.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *leaf = simd.load(bytes);
        }
        let mut width = TREE / 2;
        while width > 0 {
            for n in 0..width {
                leaves[n] = self.pick(simd, leaves[n], leaves[n + width]);
            }
            width /= 2;
        }
        leaves[0]
    }

    #[inline(always)]
    fn pick<S: Simd>(self, simd: S, a: S::Vector, b: S::Vector) -> S::Vector {
        match self {
            Self::Max => simd.max(a, b),
            Self::Min => simd.min(a, b),
        }
    }
}

/// Bytes to search for.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// This one.
    Only(u8),
    /// This one and larger ones.
    AtLeast(u8),
    /// Larger ones.
    Above(u8),
}

impl Wanted {
    /// First place in `data` that has one: packed scanning (§4.2).
    #[inline(always)]
    pub(crate) fn find<S: Simd>(self, simd: S, data: &[u8]) -> Option<usize> {
        if data.len() < S::LANES {
            return self.within(simd, data).map(first);
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
        // The last vector may overlap what was seen: there is none in that.
        at = data.len() - S::LANES;
        let found = self.mask(simd, &data[at..]);
        (found != 0).then(|| at + first(found))
    }

    /// Last place in `data` that has one.
    #[inline(always)]
    pub(crate) fn find_last<S: Simd>(self, simd: S, data: &[u8]) -> Option<usize> {
        if data.len() < S::LANES {
            return self.within(simd, data).map(last);
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

    /// Places in `data`, which is shorter than a vector, if there are any.
    #[inline(always)]
    fn within<S: Simd>(self, simd: S, data: &[u8]) -> Option<u64> {
        if data.is_empty() {
            return None;
        }
        let found = self.mask(simd, &padded(data)) & all_lanes(data.len());
        (found != 0).then_some(found)
    }

    /// Places in each vector of a block; all zero if there is none.
    #[inline(always)]
    fn masks<S: Simd>(self, simd: S, block: &[u8]) -> [u64; UNROLLED] {
        let mut found = [0; UNROLLED];
        for (found, bytes) in found.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *found = self.mask(simd, bytes);
        }
        // One branch for the usual answer.
        if found.iter().fold(0, |any, found| any | found) == 0 { [0; UNROLLED] } else { found }
    }

    /// Places in the first vector of `bytes`.
    #[inline(always)]
    fn mask<S: Simd>(self, simd: S, bytes: &[u8]) -> u64 {
        let bytes = simd.load(bytes);
        match self {
            Self::Only(byte) => simd.eq(bytes, simd.splat(byte)),
            Self::AtLeast(byte) => simd.ge(bytes, simd.splat(byte)),
            Self::Above(byte) => simd.gt(bytes, simd.splat(byte)),
        }
    }
}

/// Asks for what lies some way behind the bytes `at`, if `data` goes on there: processors do that by themselves only
/// for who leaves nothing out.
#[inline(always)]
pub(crate) fn read_ahead<S: Simd>(simd: S, data: &[u8], at: Range<usize>) {
    let end = (at.end + AHEAD).min(data.len());
    simd.prefetch(&data[(at.start + AHEAD).min(end)..end]);
}

/// The lowest lane of some.
#[inline(always)]
const fn first(lanes: u64) -> usize {
    lanes.trailing_zeros() as usize
}

/// The highest lane of some.
#[inline(always)]
const fn last(lanes: u64) -> usize {
    lanes.ilog2() as usize
}

/// `data`, shorter than a vector and not empty, and its first byte as often as there is room.
#[inline(always)]
pub(crate) fn padded(data: &[u8]) -> [u8; MAX_LANES] {
    let mut bytes = [data[0]; MAX_LANES];
    bytes[..data.len()].copy_from_slice(data);
    bytes
}

/// Vectors whose extremes meet in one tree: enough to keep all load ports busy.
const TREE: usize = 8;
/// Bytes between what is read and what is asked for: about what is passed while memory answers.
const AHEAD: usize = 4096;
/// Vectors searched between two branches.
const UNROLLED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, Kernel};

    /// The largest byte, the smallest, and where 9 comes first and last.
    struct All<'a>(&'a [u8]);

    impl Kernel for All<'_> {
        type Output = ([u8; 2], [Option<usize>; 2]);

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Self::Output {
            let Self(data) = self;
            (
                [Extreme::Max.of(simd, data), Extreme::Min.of(simd, data)],
                [Wanted::Only(9).find(simd, data), Wanted::Above(8).find_last(simd, data)],
            )
        }
    }

    #[test]
    fn a_byte_is_found_in_every_lane_of_every_length() {
        let lens = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 511, 512, 700];
        for isa in Isa::available() {
            for len in lens {
                let mut data = vec![7; len];
                assert_eq!(isa.run(All(&data)), ([7, 7], [None, None]), "{isa:?} {len}");
                for at in 0..len {
                    data[at] = 9;
                    let smallest = if len == 1 { 9 } else { 7 };
                    let expected = ([9, smallest], [Some(at), Some(at)]);
                    assert_eq!(isa.run(All(&data)), expected, "{isa:?} {len} {at}");
                    data[at] = 0;
                    let (extremes, found) = isa.run(All(&data));
                    assert_eq!((extremes[1], found), (0, [None, None]), "{isa:?} {len} {at}");
                    data[at] = 7;
                }
                (data[0], data[len - 1]) = (9, 9);
                let (_, found) = isa.run(All(&data));
                assert_eq!(found, [Some(0), Some(len - 1)], "{isa:?} {len}");
            }
        }
    }
}
