//! A sieve: hash-based chunks at the speed of hashless ones. Ours; no paper has it.
//!
//! Gear hashes find boundaries by content alone, so they re-align right after an edit, but their table look-ups keep
//! vector units out (VectorCDC §3). Hashless chunkers fit vector units, but cut by what lies far back. This one has both:
//!
//! ```text
//! term(b) = LOW[b & 15] xor HIGH[b >> 4]                                        (eight bits; never 0)
//! gear(i) = sum over k in 0..8 of  term(data[i - 1 - k]) << k                   (mod 2^8;  the 8 bytes before i)
//! hash(i) = sum over j in 0..4 of  KEY[j] * data[i - 32 + 8 j ..][..8] as u64   (mod 2^64; the 32 bytes before i)
//! cut     = the least i in min..=avg  with gear(i) == 0 and hash(i) < limit / 4,
//!           else the least i in avg+1..max  with gear(i) == 0 and hash(i) < limit * 4,
//!           else max, or the end of the file                                    where limit = 2^64 * 2^8 / avg
//! ```
//!
//! 1. Sixteen-byte tables are what every vector unit can look up in a register, and eight bits are what a lane holds: all
//!    lanes' gear hashes take a dozen instructions, by doubling: of one byte, of two, of four, of eight.
//! 2. One position in 256 passes. Only there the second hash is taken, so it may be a good one: the mean can be any, and
//!    no common run of eight bytes decides on its own.
//! 3. As in normalised chunking (FastCDC) a cut is less likely before the mean and more likely behind it.
//! 4. In a run of one byte `gear` is `255 * term`, which is never 0: holes and padding make the longest chunks.

use super::{Chunker, Sizes};
use crate::simd::search::padded;
use crate::simd::{Isa, Kernel, Simd, all_lanes};

/// Cuts where a gear hash of the last 8 bytes is zero and a hash of the last 32 is small.
#[derive(Clone, Copy, Debug)]
pub struct Sieve {
    min: usize,
    avg: usize,
    max: usize,
    /// A hash below cuts, up to the mean.
    strict: u64,
    /// A hash up to here cuts, past the mean.
    loose: u64,
    isa: Isa,
}

impl Sieve {
    /// A chunker for chunks of `sizes`, with the instructions of `isa`.
    #[must_use]
    pub fn new(sizes: Sizes, isa: Isa) -> Self {
        let bits = sizes.avg().trailing_zeros() - SIEVE_BITS;
        Self {
            min: sizes.min() as usize,
            avg: sizes.avg() as usize,
            max: sizes.max() as usize,
            strict: u64::MAX >> (bits + NORMALISATION),
            loose: u64::MAX >> bits.saturating_sub(NORMALISATION),
            isa,
        }
    }

    /// Whether a chunk ends at `end`, where the sieve let it pass.
    #[inline(always)]
    fn ends(&self, data: &[u8], end: usize) -> bool {
        let (words, _) = data[end - WINDOW..end].as_chunks::<8>();
        let terms = words.iter().zip(KEYS);
        let hash = terms.fold(0u64, |sum, (word, key)| {
            sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(key))
        });
        hash <= if end <= self.avg { self.strict } else { self.loose }
    }
}

impl Chunker for Sieve {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min { data.len() } else { self.isa.run(Cut { sieve: self, data }) }
    }
}

struct Cut<'a> {
    sieve: &'a Sieve,
    /// More than the minimum, at most the maximum.
    data: &'a [u8],
}

impl Kernel for Cut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { sieve, data } = self;
        let (low, high) = (simd.table(&LOW), simd.table(&HIGH));
        let zero = simd.splat(0);
        let mut state = simd.new_gear();
        let mut passed = |bytes: &[u8]| {
            let bytes = simd.load(bytes);
            let terms = simd.xor(simd.low_nibbles(low, bytes), simd.high_nibbles(high, bytes));
            simd.eq(simd.gear(&mut state, terms), zero)
        };
        // An end may be behind byte min - 1. What lies before only warms up.
        let first = sieve.min - 1;
        for warm_up in data[first - WARM_UP.max(S::LANES)..first].chunks_exact(S::LANES) {
            passed(warm_up);
        }
        let ends = |at: usize, mut passed: u64| {
            while passed != 0 {
                let end = at + passed.trailing_zeros() as usize + 1;
                if sieve.ends(data, end) {
                    return Some(end);
                }
                passed &= passed - 1;
            }
            None
        };
        // The last byte's end is an end anyway.
        let last = data.len() - 1;
        let vectors = data[first..last].chunks_exact(S::LANES);
        let rest = vectors.remainder();
        let mut at = first;
        for bytes in vectors {
            let passed = passed(bytes);
            if passed != 0
                && let Some(end) = ends(at, passed)
            {
                return end;
            }
            at += S::LANES;
        }
        if !rest.is_empty()
            && let Some(end) = ends(at, passed(&padded(rest)) & all_lanes(rest.len()))
        {
            return end;
        }
        data.len()
    }
}

/// Bytes that the gear hash depends on.
const WARM_UP: usize = 8;
/// One position in two to this many passes the sieve.
const SIEVE_BITS: u32 = 8;
/// Bytes that the hash depends on.
const WINDOW: usize = 32;
/// Bits more before the mean and fewer after it: FastCDC's level 2.
const NORMALISATION: u32 = 2;

/// What the low four bits of a byte say.
const LOW: [u8; 16] = nibbles(0);
/// What the high four bits of a byte say; no value is also in [`LOW`], so no byte's term is 0.
const HIGH: [u8; 16] = nibbles(1);
/// Odd numbers for the words of the window.
const KEYS: [u64; WINDOW / 8] = [mix(4) | 1, mix(5) | 1, mix(6) | 1, mix(7) | 1];
/// The first seed after "deltic" in ASCII for which [`LOW`] and [`HIGH`] share nothing and do not repeat themselves.
const SEED: u64 = 0x6465_6c74_6965;

const fn nibbles(half: u64) -> [u8; 16] {
    let low = mix(2 * half).to_le_bytes();
    let high = mix(2 * half + 1).to_le_bytes();
    let mut table = [0; 16];
    let mut n = 0;
    while n < 8 {
        table[n] = low[n];
        table[n + 8] = high[n];
        n += 1;
    }
    table
}

/// SplitMix64's answer number `n`, counted from 0.
const fn mix(n: u64) -> u64 {
    let state = SEED.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
