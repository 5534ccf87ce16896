//! Rolling hashes, and the search for the first hash that ends a chunk.
//!
//! ```text
//! for end in ends:  hash = roll(hash, data[end - 1], data[end - 1 - WINDOW])
//!                   if hash ends a chunk: return end
//! ```
//!
//! The loop differs in one point. Each hash needs the previous hash and a table look-up, so a simple loop
//! leaves most of the CPU idle. But a hash depends on its window only. So several lanes roll side by side, each
//! over its own part of a block, after warming up over the window before this part. The boundary of the first
//! lane with a boundary is returned, and the work of later lanes is dropped. The result is the same as from a
//! sequential search.

use std::ops::Range;

/// A hash of a sliding window of bytes. `LANES` is the number of hashes that fit in registers side by side.
pub(super) trait RollingHash<const LANES: usize> {
    /// Type of a hash.
    type Hash: Copy + Default;

    /// Length of the window in bytes.
    const WINDOW: usize;
    /// Number of bytes of one lane: much longer than the window that each lane hashes in advance, but so short
    /// that little work is dropped.
    const STRETCH: usize;

    /// The hash after one more byte.
    fn add_byte(hash: Self::Hash, byte: u8) -> Self::Hash;

    /// The hash one byte later. `leaves` is the byte one window before `enters`.
    fn roll(hash: Self::Hash, enters: u8, leaves: u8) -> Self::Hash;

    /// True if `hash` ends a chunk.
    fn ends(hash: Self::Hash, limit: Self::Hash) -> bool;
}

/// Result of a search for a boundary.
pub(super) enum BoundarySearch<H> {
    /// The first boundary.
    Found(usize),
    /// No boundary; the hash after the last byte.
    NotFound(H),
}

impl<H> BoundarySearch<H> {
    /// The first boundary, if any.
    pub(super) fn end(self) -> Option<usize> {
        match self {
            Self::Found(end) => Some(end),
            Self::NotFound(_) => None,
        }
    }
}

/// The length of the first chunk of `data`: the first boundary from `min` on, else `max` or the length of
/// `data`.
pub(super) fn cut<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    min: usize,
    max: usize,
    limit: R::Hash,
) -> usize {
    let data = &data[..data.len().min(max)];
    let end = (data.len() > min).then(|| first::<R, LANES>(data, min..data.len(), limit));
    end.flatten().unwrap_or(data.len())
}

/// The first boundary in `ends`. `data` must contain the window before each of them.
pub(super) fn first<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    limit: R::Hash,
) -> Option<usize> {
    let hash = warm_up::<R, LANES>(data, ends.start);
    search::<R, LANES>(data, ends, hash, limit).end()
}

/// The hash of the window that ends one byte before `end`.
pub(super) fn warm_up<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    end: usize,
) -> R::Hash {
    let window = &data[end - 1 - R::WINDOW..end - 1];
    window.iter().fold(R::Hash::default(), |hash, byte| R::add_byte(hash, *byte))
}

/// As [`first`], given the hash before the first of `ends`.
#[inline(never)]
pub(super) fn search<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    mut hash: R::Hash,
    limit: R::Hash,
) -> BoundarySearch<R::Hash> {
    let mut at = ends.start;
    while ends.end - at >= LANES * R::STRETCH {
        let block = &data[at - 1 - R::WINDOW..][..R::WINDOW + LANES * R::STRETCH];
        match in_lanes::<R, LANES>(block, hash, limit) {
            BoundarySearch::Found(n) => return BoundarySearch::Found(at + n),
            BoundarySearch::NotFound(last) => hash = last,
        }
        at += LANES * R::STRETCH;
    }
    for end in at..ends.end {
        hash = R::roll(hash, data[end - 1], data[end - 1 - R::WINDOW]);
        if R::ends(hash, limit) {
            return BoundarySearch::Found(end);
        }
    }
    BoundarySearch::NotFound(hash)
}

/// Searches all positions of `block` after a full window. Returns an offset from the first such
/// position.
#[inline(always)]
fn in_lanes<R: RollingHash<LANES>, const LANES: usize>(
    block: &[u8],
    hash: R::Hash,
    limit: R::Hash,
) -> BoundarySearch<R::Hash> {
    assert_eq!(
        block.len(),
        R::WINDOW + LANES * R::STRETCH,
        "a block of this length needs no bounds checks"
    );
    let mut hashes = [R::Hash::default(); LANES];
    for n in 0..R::WINDOW {
        for (lane, hash) in hashes.iter_mut().enumerate().skip(1) {
            *hash = R::add_byte(*hash, block[lane * R::STRETCH + n]);
        }
    }
    hashes[0] = hash;
    let (mut open, mut found) = (LANES, None);
    for n in 0..R::STRETCH {
        for (lane, hash) in hashes.iter_mut().enumerate() {
            let leaves = lane * R::STRETCH + n;
            *hash = R::roll(*hash, block[leaves + R::WINDOW], block[leaves]);
        }
        if hashes.iter().any(|hash| R::ends(*hash, limit))
            && let Some(lane) = first_lane::<R, LANES>(hashes, limit).filter(|lane| *lane < open)
        {
            (open, found) = (lane, Some(lane * R::STRETCH + n));
            if lane == 0 {
                break;
            }
        }
    }
    found.map_or(BoundarySearch::NotFound(hashes[LANES - 1]), BoundarySearch::Found)
}

/// The first lane with a hash that ends a chunk.
#[cold]
fn first_lane<R: RollingHash<LANES>, const LANES: usize>(
    hashes: [R::Hash; LANES],
    limit: R::Hash,
) -> Option<usize> {
    hashes.iter().position(|hash| R::ends(*hash, limit))
}
