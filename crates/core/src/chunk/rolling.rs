//! Hashes of the last bytes, and the search for the first one that ends a chunk.
//!
//! ```text
//! for end in ends:  hash = roll(hash, data[end - 1], data[end - 1 - WINDOW])
//!                   if hash ends a chunk: answer end
//! ```
//!
//! What the search does differently: a hash waits for the one before it, through a look-up in a table, while most of
//! the processor idles. A hash depends on its window alone, though, so some lanes of hashes roll side by side, each
//! over its own stretch of the same block and warmed up over the window before it. The first lane that found an end
//! wins; what the others saw behind it is thrown away. Ends are the same as one after the other.

use std::ops::Range;

/// A hash of a window of bytes that slides, and in how many lanes it is searched for: as many as registers hold.
pub(super) trait Rolling<const LANES: usize> {
    /// The hash.
    type Hash: Copy + Default;

    /// Bytes that it depends on.
    const WINDOW: usize;
    /// Bytes of a lane's stretch: many windows, for each is warmed up, but few to throw away.
    const STRETCH: usize;

    /// The hash with one more byte.
    fn enter(hash: Self::Hash, byte: u8) -> Self::Hash;

    /// The hash one byte further: `leaves` lies a window before `enters`.
    fn roll(hash: Self::Hash, enters: u8, leaves: u8) -> Self::Hash;

    /// True if a chunk ends where the hash is this.
    fn ends(hash: Self::Hash, limit: Self::Hash) -> bool;
}

/// Result of a search.
pub(super) enum Found<H> {
    /// The first end.
    End(usize),
    /// None; this is the last hash.
    Nothing(H),
}

impl<H> Found<H> {
    /// The first end.
    pub(super) fn end(self) -> Option<usize> {
        match self {
            Self::End(end) => Some(end),
            Self::Nothing(_) => None,
        }
    }
}

/// The length of the first chunk of `data`: the least from `min` on that the hash ends, else `max`, or all there is.
pub(super) fn cut<R: Rolling<LANES>, const LANES: usize>(
    data: &[u8],
    min: usize,
    max: usize,
    limit: R::Hash,
) -> usize {
    let data = &data[..data.len().min(max)];
    let end = (data.len() > min).then(|| first::<R, LANES>(data, min..data.len(), limit));
    end.flatten().unwrap_or(data.len())
}

/// The first of `ends` that ends a chunk, where the window before each lies in `data`.
pub(super) fn first<R: Rolling<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    limit: R::Hash,
) -> Option<usize> {
    let hash = warm_up::<R, LANES>(data, ends.start);
    search::<R, LANES>(data, ends, hash, limit).end()
}

/// The hash of the window right before the last byte of `..end`.
pub(super) fn warm_up<R: Rolling<LANES>, const LANES: usize>(data: &[u8], end: usize) -> R::Hash {
    let window = &data[end - 1 - R::WINDOW..end - 1];
    window.iter().fold(R::Hash::default(), |hash, byte| R::enter(hash, *byte))
}

/// Does as [`first`], with the hash before the first of `ends`.
#[inline(never)]
pub(super) fn search<R: Rolling<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    mut hash: R::Hash,
    limit: R::Hash,
) -> Found<R::Hash> {
    let mut at = ends.start;
    while ends.end - at >= LANES * R::STRETCH {
        let block = &data[at - 1 - R::WINDOW..][..R::WINDOW + LANES * R::STRETCH];
        match in_lanes::<R, LANES>(block, hash, limit) {
            Found::End(n) => return Found::End(at + n),
            Found::Nothing(last) => hash = last,
        }
        at += LANES * R::STRETCH;
    }
    for end in at..ends.end {
        hash = R::roll(hash, data[end - 1], data[end - 1 - R::WINDOW]);
        if R::ends(hash, limit) {
            return Found::End(end);
        }
    }
    Found::Nothing(hash)
}

/// Searches behind each byte of `block`, counted from 0, that has a window before it.
#[inline(always)]
fn in_lanes<R: Rolling<LANES>, const LANES: usize>(
    block: &[u8],
    hash: R::Hash,
    limit: R::Hash,
) -> Found<R::Hash> {
    assert_eq!(block.len(), R::WINDOW + LANES * R::STRETCH, "no index needs a check");
    let mut hashes = [R::Hash::default(); LANES];
    for n in 0..R::WINDOW {
        for (lane, hash) in hashes.iter_mut().enumerate().skip(1) {
            *hash = R::enter(*hash, block[lane * R::STRETCH + n]);
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
    found.map_or(Found::Nothing(hashes[LANES - 1]), Found::End)
}

/// The first lane that found an end.
#[cold]
fn first_lane<R: Rolling<LANES>, const LANES: usize>(
    hashes: [R::Hash; LANES],
    limit: R::Hash,
) -> Option<usize> {
    hashes.iter().position(|hash| R::ends(*hash, limit))
}
