//! Hashes of the last bytes, and the search for the first one that ends a chunk.
//!
//! ```text
//! for end in ends:  hash = roll(hash, data[end - 1], data[end - 1 - WINDOW])
//!                   if hash ends a chunk: answer end
//! ```
//!
//! What the search does differently: a hash waits for the one before it, through a look-up in a table, while most of
//! the processor idles. A hash depends on its window alone, though, so [`LANES`] hashes roll side by side, each over
//! its own stretch of the same block and warmed up over the window before it. The first lane that found an end wins;
//! what the others saw behind it is thrown away. Ends are the same as one after the other.

use std::ops::Range;

/// A hash of a window of bytes that slides.
pub(super) trait Rolling {
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

    /// Whether a chunk ends where the hash is this.
    fn ends(hash: Self::Hash, limit: Self::Hash) -> bool;
}

/// What a search came to.
pub(super) enum Found<H> {
    /// The first end.
    End(usize),
    /// None; this is the last hash.
    Nothing(H),
}

/// The first of `ends` that ends a chunk, where the window before each lies in `data`.
pub(super) fn first<R: Rolling>(data: &[u8], ends: Range<usize>, limit: R::Hash) -> Option<usize> {
    let hash = warm_up::<R>(data, ends.start);
    match search::<R>(data, ends, hash, limit) {
        Found::End(end) => Some(end),
        Found::Nothing(_) => None,
    }
}

/// The hash of the window right before the last byte of `..end`.
pub(super) fn warm_up<R: Rolling>(data: &[u8], end: usize) -> R::Hash {
    let window = &data[end - 1 - R::WINDOW..end - 1];
    window.iter().fold(R::Hash::default(), |hash, byte| R::enter(hash, *byte))
}

/// As [`first`], with the hash before the first of `ends`.
pub(super) fn search<R: Rolling>(
    data: &[u8],
    ends: Range<usize>,
    mut hash: R::Hash,
    limit: R::Hash,
) -> Found<R::Hash> {
    let mut at = ends.start;
    loop {
        let stretch = ((ends.end - at) / LANES).min(R::STRETCH);
        if stretch <= R::WINDOW {
            break;
        }
        match block::<R>(data, at, stretch, hash, limit) {
            Found::Nothing(last) => hash = last,
            found @ Found::End(_) => return found,
        }
        at += LANES * stretch;
    }
    for end in at..ends.end {
        hash = R::roll(hash, data[end - 1], data[end - 1 - R::WINDOW]);
        if R::ends(hash, limit) {
            return Found::End(end);
        }
    }
    Found::Nothing(hash)
}

/// The first of `LANES * stretch` ends from `at` on, in lanes.
#[inline(always)]
fn block<R: Rolling>(
    data: &[u8],
    at: usize,
    stretch: usize,
    hash: R::Hash,
    limit: R::Hash,
) -> Found<R::Hash> {
    let start = |lane: usize| at + lane * stretch;
    let enters: [&[u8]; LANES] = std::array::from_fn(|lane| &data[start(lane) - 1..][..stretch]);
    let leaves: [&[u8]; LANES] =
        std::array::from_fn(|lane| &data[start(lane) - 1 - R::WINDOW..][..stretch]);
    let mut hashes = [hash; LANES];
    warm_lanes::<R>(&leaves, &mut hashes);
    let mut open = LANES;
    let mut found = None;
    for n in 0..stretch {
        for lane in 0..LANES {
            hashes[lane] = R::roll(hashes[lane], enters[lane][n], leaves[lane][n]);
            if R::ends(hashes[lane], limit) && lane < open {
                (open, found) = (lane, Some(start(lane) + n));
            }
        }
        if open == 0 {
            break;
        }
    }
    found.map_or(Found::Nothing(hashes[LANES - 1]), Found::End)
}

/// Rolls all hashes but the first over the windows that `leaves` begin with.
#[inline(always)]
fn warm_lanes<R: Rolling>(leaves: &[&[u8]; LANES], hashes: &mut [R::Hash; LANES]) {
    let windows: [&[u8]; LANES] = leaves.map(|bytes| &bytes[..R::WINDOW]);
    hashes[1..].fill(R::Hash::default());
    for n in 0..R::WINDOW {
        for lane in 1..LANES {
            hashes[lane] = R::enter(hashes[lane], windows[lane][n]);
        }
    }
}

/// Hashes that roll side by side.
const LANES: usize = 4;
