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

/// A sum of the hashes of a search, taken in the same loop: FastFP ([`summing`](super::summing)).
pub(super) trait ByProduct<H>: Copy + Default {
    /// Takes the hash of the window that ends at `end`.
    fn take(&mut self, end: usize, hash: H);

    /// Adds the sum of other hashes.
    fn add(&mut self, other: Self);
}

/// No by-product.
#[derive(Clone, Copy, Default)]
pub(super) struct NoSum;

impl<H> ByProduct<H> for NoSum {
    #[inline(always)]
    fn take(&mut self, _: usize, _: H) {}

    #[inline(always)]
    fn add(&mut self, _: Self) {}
}

/// State of a search.
pub(super) struct RollState<H, B> {
    /// The hash before the next position, while no boundary was found.
    pub(super) hash: H,
    /// The sum of the hashes up to the next position, or up to the boundary.
    pub(super) sum: B,
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
    search::<R, NoSum, LANES>(data, ends, &mut RollState { hash, sum: NoSum }, limit)
}

/// The hash of the window that ends one byte before `end`.
pub(super) fn warm_up<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    end: usize,
) -> R::Hash {
    let window = &data[end - 1 - R::WINDOW..end - 1];
    window.iter().fold(R::Hash::default(), |hash, byte| R::add_byte(hash, *byte))
}

/// The first boundary in `ends`. `state` has the hash before the first of these positions, and the sum so far; both are
/// continued.
#[inline(never)]
pub(super) fn search<R: RollingHash<LANES>, B: ByProduct<R::Hash>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    state: &mut RollState<R::Hash, B>,
    limit: R::Hash,
) -> Option<usize> {
    let mut at = ends.start;
    while ends.end - at >= LANES * R::STRETCH {
        let found = in_lanes::<R, B, LANES>(data, at, state, limit);
        if found.is_some() {
            return found;
        }
        at += LANES * R::STRETCH;
    }
    for end in at..ends.end {
        state.hash = R::roll(state.hash, data[end - 1], data[end - 1 - R::WINDOW]);
        state.sum.take(end, state.hash);
        if R::ends(state.hash, limit) {
            return Some(end);
        }
    }
    None
}

/// Searches a stretch for each lane, from position `at`.
#[inline(always)]
fn in_lanes<R: RollingHash<LANES>, B: ByProduct<R::Hash>, const LANES: usize>(
    data: &[u8],
    at: usize,
    state: &mut RollState<R::Hash, B>,
    limit: R::Hash,
) -> Option<usize> {
    // A block of this length needs no bounds checks.
    let block = &data[at - 1 - R::WINDOW..][..R::WINDOW + LANES * R::STRETCH];
    let (mut hashes, mut sums) = ([R::Hash::default(); LANES], [B::default(); LANES]);
    for n in 0..R::WINDOW {
        for (lane, hash) in hashes.iter_mut().enumerate().skip(1) {
            *hash = R::add_byte(*hash, block[lane * R::STRETCH + n]);
        }
    }
    hashes[0] = state.hash;
    let (mut open, mut found) = (LANES, None);
    for n in 0..R::STRETCH {
        for (lane, (hash, sum)) in hashes.iter_mut().zip(&mut sums).enumerate() {
            let leaves = lane * R::STRETCH + n;
            *hash = R::roll(*hash, block[leaves + R::WINDOW], block[leaves]);
            sum.take(at + leaves, *hash);
        }
        if hashes.iter().any(|hash| R::ends(*hash, limit))
            && let Some(lane) = first_lane::<R, LANES>(hashes, limit).filter(|lane| *lane < open)
        {
            (open, found) = (lane, Some((at + lane * R::STRETCH + n, sums[lane])));
            if lane == 0 {
                break;
            }
        }
    }
    state.hash = hashes[LANES - 1];
    // Lanes before the boundary rolled to their ends.
    sums[..open].iter().for_each(|sum| state.sum.add(*sum));
    found.map(|(end, sum)| {
        state.sum.add(sum);
        end
    })
}

/// The first lane with a hash that ends a chunk.
#[cold]
fn first_lane<R: RollingHash<LANES>, const LANES: usize>(
    hashes: [R::Hash; LANES],
    limit: R::Hash,
) -> Option<usize> {
    hashes.iter().position(|hash| R::ends(*hash, limit))
}
