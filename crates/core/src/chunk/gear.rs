//! Gear chunks with normalised sizes, after FastCDC (its 2020 version; the presets of DESIGN §1 build on it).
//!
//! ```text
//! hash(i)  = sum over k in 0..64 of  GEAR[data[i - 1 - k]] << k         (mod 2^64; the 64 bytes before i)
//! cut      = the least i in min..=avg with hash(i) < 2^(64 - bits - 2),
//!            else the least i in avg+1..max with hash(i) < 2^(64 - bits + 2),
//!            else max, or the end of the file                           where avg == 2^bits
//! ```
//!
//! What differs from FastCDC, and why:
//!
//! 1. The hash is warmed up over the bytes before `min`. A cut then depends on 64 bytes of content, never on where the
//!    chunk began, so boundaries re-align after an edit as soon as one candidate is shared (DESIGN §6).
//! 2. The judged bits are the hash's highest, which all of the window reaches; "those bits are zero" is one comparison.
//! 3. Two bytes are one step of the hash. Its chain of dependent operations is what limits the speed: the next but one
//!    hash is `4 * hash + (2 * GEAR[a] + GEAR[b])`, where the bracket waits for nothing.

use super::{Chunker, Sizes};

/// Cuts where a gear hash of the last 64 bytes is small.
#[derive(Clone, Copy, Debug)]
pub struct Gear {
    min: usize,
    avg: usize,
    max: usize,
    /// A hash below cuts, up to the mean.
    strict: u64,
    /// A hash below cuts, past the mean.
    loose: u64,
}

impl Gear {
    /// A chunker for chunks of `sizes`.
    #[must_use]
    pub const fn new(sizes: Sizes) -> Self {
        let bits = sizes.avg().trailing_zeros();
        Self {
            min: sizes.min() as usize,
            avg: sizes.avg() as usize,
            max: sizes.max() as usize,
            strict: 1 << (64 - bits - NORMALISATION),
            loose: 1 << (64 - bits + NORMALISATION),
        }
    }
}

impl Chunker for Gear {
    fn max_len(&self) -> usize {
        self.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min {
            return data.len();
        }
        let warm_up = &data[self.min - WINDOW..self.min - 1];
        let hash = warm_up.iter().fold(0, |hash, byte| roll(hash, *byte));
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
    /// The hash after this many bytes is below the limit.
    Cut(usize),
    /// No hash is; this is the last.
    Nothing(u64),
}

/// Rolls `hash` over `bytes` until it is below `limit`.
#[inline]
fn search(mut hash: u64, bytes: &[u8], limit: u64) -> Found {
    let (steps, tail) = bytes.as_chunks::<STEP>();
    for (n, step) in steps.iter().enumerate() {
        let (pairs, _) = step.as_chunks::<2>();
        for (m, [a, b]) in pairs.iter().enumerate() {
            let ahead = GEAR_DOUBLED[usize::from(*a)].wrapping_add(GEAR[usize::from(*b)]);
            if roll(hash, *a) < limit {
                return Found::Cut(n * STEP + 2 * m + 1);
            }
            hash = (hash << 2).wrapping_add(ahead);
            if hash < limit {
                return Found::Cut(n * STEP + 2 * m + 2);
            }
        }
    }
    for (n, byte) in tail.iter().enumerate() {
        hash = roll(hash, *byte);
        if hash < limit {
            return Found::Cut(steps.len() * STEP + n + 1);
        }
    }
    Found::Nothing(hash)
}

fn roll(hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(GEAR[usize::from(byte)])
}

/// Bytes that a hash depends on: each moves one bit up per byte that follows.
const WINDOW: usize = u64::BITS as usize;
/// Bits more before the mean and fewer after it: FastCDC's level 2.
const NORMALISATION: u32 = 2;
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
    fn a_run_of_one_byte_is_cut_at_the_maximum() {
        let gear = Gear::new(Sizes::new(512, 512, 4096).unwrap());
        for byte in 0..=255 {
            assert_eq!(gear.cut(&[byte; 5000]), 4096, "{byte}");
        }
    }

    #[test]
    fn a_cut_depends_on_the_window_alone() {
        let gear = Gear::new(Sizes::new(512, 1024, 8192).unwrap());
        let data: Vec<u8> =
            (0..8192u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
        let cut = gear.cut(&data);
        assert!((512..8192).contains(&cut), "{cut}");
        let mut other = vec![7; cut - WINDOW];
        other.extend_from_slice(&data[cut - WINDOW..]);
        assert_eq!(gear.cut(&other), cut);
    }
}
