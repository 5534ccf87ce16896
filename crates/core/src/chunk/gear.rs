//! Gear chunks (Ddelta, Xia et al. 2014), and with normalised sizes, after FastCDC (its 2020 version; the presets of
//! DESIGN §1 build on it).
//!
//! ```text
//! hash(i)  = sum over k in 0..64 of  GEAR[data[i - 1 - k]] << k         (mod 2^64; the 64 bytes before i)
//! cut      = the least i in min..=avg with hash(i) <= strict,
//!            else the least i in avg+1..max with hash(i) <= loose,
//!            else max, or the end of the file
//!
//! level 0: strict = loose = (2^64 - 1) / (avg - min)
//! level 2: strict = 2^64 / avg / 4 - 1,  loose = 2^64 / avg * 4 - 1
//! ```
//!
//! What differs from the papers, and why:
//!
//! 1. The hash is warmed up over the bytes before `min`. A cut then depends on 64 bytes of content, never on where the
//!    chunk began, so boundaries re-align after an edit as soon as one candidate is shared (DESIGN §6). To hash all bytes
//!    from the chunk's start, as Ddelta does, finds the same cuts: what lies further back has left the hash.
//! 2. The judged bits are the hash's highest, which all of the window reaches, and they are judged by one comparison. So
//!    without levels the hash cuts once in `avg - min` bytes, always where they are equal, and the mean on random bytes
//!    is `avg`; with a mask of the bits of `avg` it is `min + avg`.
//! 3. Two bytes are one step of the hash. Its chain of dependent operations is what limits the speed: the next but one
//!    hash is `4 * hash + (2 * GEAR[a] + GEAR[b])`, where the bracket waits for nothing.

use super::{Chunker, Sizes};

/// How strongly lengths are drawn to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Not at all: one criterion.
    Zero,
    /// Two bits more before the mean and two fewer after it: FastCDC's level 2.
    Two,
}

/// Cuts where a gear hash of the last 64 bytes is small.
#[derive(Clone, Copy, Debug)]
pub struct Gear(Limits);

impl Gear {
    /// A chunker for chunks of `sizes`.
    #[must_use]
    pub const fn new(sizes: Sizes, level: Level) -> Self {
        Self(Limits::new(sizes, level))
    }
}

impl Chunker for Gear {
    fn max_len(&self) -> usize {
        self.0.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        self.0.cut(data, |skipped| {
            let warm_up = &skipped[skipped.len() - WINDOW..];
            warm_up.iter().fold(0, |hash, byte| roll(hash, *byte))
        })
    }
}

/// What a gear hash is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    min: usize,
    avg: usize,
    pub(super) max: usize,
    /// A hash up to here cuts, up to the mean.
    strict: u64,
    /// A hash up to here cuts, past the mean.
    loose: u64,
}

impl Limits {
    pub(super) const fn new(sizes: Sizes, level: Level) -> Self {
        let bits = sizes.avg().trailing_zeros();
        let (strict, loose) = match level {
            Level::Zero => (u64::MAX / sizes.wait() as u64, u64::MAX / sizes.wait() as u64),
            Level::Two => (u64::MAX >> (bits + 2), u64::MAX >> (bits - 2)),
        };
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        Self { min: min as usize, avg: avg as usize, max: max as usize, strict, loose }
    }

    /// The length of the first chunk of `data`; `start` tells the hash of the bytes that no chunk ends in.
    #[inline(always)]
    pub(super) fn cut(&self, data: &[u8], start: impl Fn(&[u8]) -> u64) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min {
            return data.len();
        }
        // An end may be behind byte min - 1.
        let hash = start(&data[..self.min - 1]);
        let (near, far) = data.split_at(self.avg.min(data.len()));
        match search(hash, &near[self.min - 1..], self.strict) {
            Found::Cut(n) => self.min - 1 + n,
            Found::Nothing(hash) => match search(hash, far, self.loose) {
                Found::Cut(n) => near.len() + n,
                Found::Nothing(_) => data.len(),
            },
        }
    }
}

enum Found {
    /// The hash after this many bytes is within the limit.
    Cut(usize),
    /// No hash is; this is the last.
    Nothing(u64),
}

/// Rolls `hash` over `bytes` until it is within `limit`.
#[inline]
fn search(mut hash: u64, bytes: &[u8], limit: u64) -> Found {
    let (steps, tail) = bytes.as_chunks::<STEP>();
    for (n, step) in steps.iter().enumerate() {
        let (pairs, _) = step.as_chunks::<2>();
        for (m, [a, b]) in pairs.iter().enumerate() {
            let ahead = GEAR_DOUBLED[usize::from(*a)].wrapping_add(GEAR[usize::from(*b)]);
            if roll(hash, *a) <= limit {
                return Found::Cut(n * STEP + 2 * m + 1);
            }
            hash = (hash << 2).wrapping_add(ahead);
            if hash <= limit {
                return Found::Cut(n * STEP + 2 * m + 2);
            }
        }
    }
    for (n, byte) in tail.iter().enumerate() {
        hash = roll(hash, *byte);
        if hash <= limit {
            return Found::Cut(steps.len() * STEP + n + 1);
        }
    }
    Found::Nothing(hash)
}

pub(super) fn roll(hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(GEAR[usize::from(byte)])
}

/// Bytes that a hash depends on: each moves one bit up per byte that follows.
const WINDOW: usize = u64::BITS as usize;
/// Bytes per turn of the inner loop.
const STEP: usize = 16;

/// One random number per byte value: SplitMix64 from [`SEED`].
static GEAR: [u64; 256] = table(0);
/// The same, shifted as for the byte before the last.
static GEAR_DOUBLED: [u64; 256] = table(1);

/// The first seed after "deltic" in ASCII for which a run of any one byte value is cut at `max`, for all [`Sizes`]:
/// holes and padding make few chunks.
const SEED: u64 = 0x6465_6c74_6975;

const fn table(shift: u32) -> [u64; 256] {
    let mut table = [0; 256];
    let mut state = SEED;
    let mut byte = 0;
    while byte < table.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[byte] = (mixed ^ (mixed >> 31)) << shift;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_depends_on_the_window_alone() {
        let gear = Gear::new(Sizes::new(512, 1024, 8192).unwrap(), Level::Two);
        let data: Vec<u8> =
            (0..8192u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
        let cut = gear.cut(&data);
        assert!((512..8192).contains(&cut), "{cut}");
        let mut other = vec![7; cut - WINDOW];
        other.extend_from_slice(&data[cut - WINDOW..]);
        assert_eq!(gear.cut(&other), cut);
    }
}
