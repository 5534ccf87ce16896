//! The two phases that all hashless chunkers share: Extreme Byte Search and Range Scan (VectorCDC §4.1, §4.2).

use super::{MAX_LANES, Simd, all_lanes};

/// The largest byte of `data`, which is not empty: a tree of lane-wise maxima (§4.1).
///
/// No byte is larger than 255, so the search ends behind the first block that holds one.
#[inline(always)]
pub(crate) fn largest<S: Simd>(simd: S, data: &[u8]) -> u8 {
    simd.highest(extreme(simd, data, simd.splat(u8::MAX), |a, b| simd.max(a, b)))
}

/// The smallest byte of `data`, which is not empty; ends early at a zero.
#[inline(always)]
pub(crate) fn smallest<S: Simd>(simd: S, data: &[u8]) -> u8 {
    simd.lowest(extreme(simd, data, simd.splat(u8::MIN), |a, b| simd.min(a, b)))
}

/// Lane-wise extremes; those of a part of `data` that holds `utmost`, or else of all of it.
#[inline(always)]
fn extreme<S: Simd>(
    simd: S,
    data: &[u8],
    utmost: S::Vector,
    pick: impl Fn(S::Vector, S::Vector) -> S::Vector,
) -> S::Vector {
    if data.len() < S::LANES {
        return simd.load(&padded(data));
    }
    let mut found = simd.load(data);
    let blocks = data.chunks_exact(S::LANES * TREE);
    let rest = blocks.remainder();
    for block in blocks {
        let mut leaves = [found; TREE];
        for (leaf, bytes) in leaves.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *leaf = simd.load(bytes);
        }
        let mut width = TREE / 2;
        while width > 0 {
            for n in 0..width {
                leaves[n] = pick(leaves[n], leaves[n + width]);
            }
            width /= 2;
        }
        found = pick(found, leaves[0]);
        if simd.eq(found, utmost) != 0 {
            return found;
        }
    }
    for bytes in rest.chunks_exact(S::LANES) {
        found = pick(found, simd.load(bytes));
    }
    // The last vector may overlap what was seen: an extreme does not mind.
    pick(found, simd.load(&data[data.len() - S::LANES..]))
}

/// Where `data` first has a byte of which `hits` tells a bit: packed scanning (§4.2).
#[inline(always)]
pub(crate) fn find<S: Simd>(
    simd: S,
    data: &[u8],
    hits: impl Fn(S::Vector) -> u64,
) -> Option<usize> {
    let first = |found: u64| found.trailing_zeros() as usize;
    if data.len() < S::LANES {
        return within(simd, data, hits).map(first);
    }
    let blocks = data.chunks_exact(S::LANES * UNROLLED);
    let rest = blocks.remainder();
    for (block_no, block) in blocks.enumerate() {
        let mut found = [0; UNROLLED];
        for (found, bytes) in found.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *found = hits(simd.load(bytes));
        }
        if found.iter().fold(0, |any, found| any | found) != 0 {
            let n = found.iter().position(|found| *found != 0).unwrap_or_default();
            return Some((block_no * UNROLLED + n) * S::LANES + first(found[n]));
        }
    }
    let done = data.len() - rest.len();
    for (n, bytes) in rest.chunks_exact(S::LANES).enumerate() {
        let found = hits(simd.load(bytes));
        if found != 0 {
            return Some(done + n * S::LANES + first(found));
        }
    }
    // The last vector may overlap what was seen: there are no hits in that.
    let last = data.len() - S::LANES;
    let found = hits(simd.load(&data[last..]));
    (found != 0).then(|| last + first(found))
}

/// Where `data` last has a byte of which `hits` tells a bit.
#[inline(always)]
pub(crate) fn find_last<S: Simd>(
    simd: S,
    data: &[u8],
    hits: impl Fn(S::Vector) -> u64,
) -> Option<usize> {
    let last = |found: u64| found.ilog2() as usize;
    if data.len() < S::LANES {
        return within(simd, data, hits).map(last);
    }
    let blocks = data.rchunks_exact(S::LANES * UNROLLED);
    let rest = blocks.remainder();
    let mut end = data.len();
    for block in blocks {
        end -= block.len();
        let mut found = [0; UNROLLED];
        for (found, bytes) in found.iter_mut().zip(block.chunks_exact(S::LANES)) {
            *found = hits(simd.load(bytes));
        }
        if found.iter().fold(0, |any, found| any | found) != 0 {
            let n = found.iter().rposition(|found| *found != 0).unwrap_or_default();
            return Some(end + n * S::LANES + last(found[n]));
        }
    }
    for bytes in rest.rchunks_exact(S::LANES) {
        end -= S::LANES;
        let found = hits(simd.load(bytes));
        if found != 0 {
            return Some(end + last(found));
        }
    }
    let found = hits(simd.load(data));
    (found != 0).then(|| last(found))
}

/// The hits in `data`, which is shorter than a vector, if there are any.
#[inline(always)]
fn within<S: Simd>(simd: S, data: &[u8], hits: impl Fn(S::Vector) -> u64) -> Option<u64> {
    if data.is_empty() {
        return None;
    }
    let found = hits(simd.load(&padded(data))) & all_lanes(data.len());
    (found != 0).then_some(found)
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
/// Vectors searched between two branches.
const UNROLLED: usize = 4;
