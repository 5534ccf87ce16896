//! Sieve chunking: hash-based boundaries at the speed of chunkers without a hash. Our own algorithm.
//!
//! Gear hashes find boundaries by content only, so boundaries realign right after an edit; but table look-ups
//! prevent vectorisation (VectorCDC §3). Chunkers without a hash fit vector units, but their cuts depend on
//! distant bytes. The sieve has both advantages:
//!
//! ```text
//! term(b)     = LOW[b & 15] xor HIGH[b >> 4]                                     of eight bits
//! twos(i)     = term(data[i - 1]) + rotate(term(data[i - 2]), 1)                 (mod 2^8)
//! fours(i)    = twos(i)   + rotate(twos(i - 2), 2)
//! eights(i)   = fours(i)  + rotate(fours(i - 4), 4)
//! sixteens(i) = eights(i) + rotate(eights(i - 8), 1)                             of the 16 bytes before i
//! hash(i)     = sum over j in 0..4 of  KEY[j] * data[i - 32 + 8 j ..][..8] as u64  (mod 2^64; the 32 bytes before i)
//!
//! A position passes the mesh if sixteens(i) and the highest `more` bits of eights(i) are zero. A position is a boundary
//! if, besides, the highest bits of hash(i) are zero: so many that one position in 4 avg is a boundary before the average,
//! and one in avg / 4 after the average.
//!
//! cut         = the first boundary in min..max, else max, or the end of the file
//! ```
//!
//! 1. Every vector unit can look up 16-byte tables in a register, and a lane holds eight bits. The sums of all
//!    lanes take two or three dozen instructions, by doubling.
//! 2. Rotations let every bit depend on all bytes. With shifts, as in a Gear hash, the lowest bits would depend
//!    on the last byte only, and boundaries in text would be as rare as certain letters.
//! 3. At most one position in 256 passes the mesh. Only there the hash is computed, so a strong hash is
//!    affordable: no common 16-byte string decides alone. `more = log2(avg) - 12`, and at least 0, so that the
//!    hash rejects three of four positions even after the average. `more` never exceeds eight bits.
//! 4. The sums cover sixteen bytes, not eight: data with two byte values has only 2^8 strings of eight bytes,
//!    too few for one in 256.
//! 5. As in normalised chunking (FastCDC), a boundary is less likely before the average and more likely after
//!    it.
//! 6. In a run of one byte value `sixteens` is not zero. So holes and padding make maximal chunks.

use std::hint::black_box;

use super::{Chunker, Sizes};
use crate::constants::split_mix;
use crate::simd::search::read_ahead;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};

/// Cuts where sums of the last 16 bytes are zero and a hash of the last 32 bytes is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct SieveChunker {
    min: usize,
    avg: usize,
    max: usize,
    /// The bits of `eights` that must be zero for a position to pass the mesh.
    mesh: u8,
    /// The largest hash of a boundary up to the average.
    strict: u64,
    /// The largest hash of a boundary past the average.
    loose: u64,
    isa: Isa,
}

impl SieveChunker {
    /// Creates a chunker for chunks of `sizes` with the instructions of `isa`.
    pub(super) fn new(sizes: Sizes, isa: Isa) -> Self {
        let bits = sizes.avg().trailing_zeros();
        let more = bits.saturating_sub(SIXTEENS_BITS + NORMALISATION + HASH_BITS);
        let left = bits - SIXTEENS_BITS - more;
        Self {
            min: sizes.min() as usize,
            avg: sizes.avg() as usize,
            max: sizes.max() as usize,
            mesh: !(u8::MAX >> more),
            strict: u64::MAX >> (left + NORMALISATION),
            loose: u64::MAX >> left.saturating_sub(NORMALISATION),
            isa,
        }
    }

    /// The first boundary in `data` among the positions that passed the mesh.
    #[inline(always)]
    fn first_end(&self, data: &[u8], passed: &PassedPositions) -> Option<usize> {
        if passed.any == 0 {
            return None;
        }
        for (n, mut word) in passed.words.into_iter().enumerate() {
            while word != 0 {
                let end = passed.start + n * MAX_LANES + word.trailing_zeros() as usize + 1;
                // Positions past the data come from the padding of the last block.
                if end < data.len() && self.ends(data, end) {
                    return Some(end);
                }
                word &= word - 1;
            }
        }
        None
    }

    /// True if `end`, which passed the mesh, is a boundary.
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

impl Chunker for SieveChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    #[inline]
    fn cut(&self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.max)];
        if data.len() <= self.min {
            data.len()
        } else {
            self.isa.run(SieveCut { sieve: self, data })
        }
    }
}

struct SieveCut<'a> {
    sieve: &'a SieveChunker,
    /// Longer than the minimum, at most the maximum.
    data: &'a [u8],
}

impl Kernel for SieveCut<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { sieve, data } = self;
        let mut mesh = SieveMesh::new(simd, sieve.mesh);
        // The first possible boundary follows byte `min - 1`. Earlier bytes only warm up the sums.
        let first = sieve.min - 1;
        for bytes in data[first - WARM_UP.max(S::LANES)..first].chunks_exact(S::LANES) {
            mesh.sums(mesh.terms(bytes));
        }
        // The end of the data is a boundary in any case.
        let blocks = data[first..data.len() - 1].chunks_exact(BLOCK);
        let rest = blocks.remainder();
        let mut start = first;
        let mut before = PassedPositions { start, words: [0; WORDS], any: 0 };
        for block in blocks {
            // If the chunk ends in this block, the next chunk begins here and skips its minimum.
            let next = start + sieve.min;
            read_ahead(simd, data, next..next + BLOCK);
            let passed = mesh.block(start, block);
            // The branch on a passed position is unpredictable, and a misprediction drops the work begun after
            // it. So a block is checked only after the sums of the next block are under way.
            if let Some(end) = sieve.first_end(data, &before) {
                return end;
            }
            before = passed;
            start += BLOCK;
        }
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let last = mesh.block(start, &last);
        [before, last].iter().find_map(|passed| sieve.first_end(data, passed)).unwrap_or(data.len())
    }
}

/// The positions of a block that passed the first stage (the mesh).
#[derive(Clone, Copy)]
struct PassedPositions {
    /// Start of the block.
    start: usize,
    /// A bit for each position.
    words: [u64; WORDS],
    /// Bitwise OR of all words.
    any: u64,
}

/// First stage of the sieve, one vector after the other.
struct SieveMesh<S: Simd> {
    simd: S,
    low: S::Table,
    high: S::Table,
    bits: S::Vector,
    before: S::TermSums,
}

impl<S: Simd> SieveMesh<S> {
    #[inline(always)]
    fn new(simd: S, bits: u8) -> Self {
        let (low, high) = (simd.table(&LOW), simd.table(&HIGH));
        Self { simd, low, high, bits: simd.splat(bits), before: simd.zero() }
    }

    /// Returns the positions in `block` that pass the first stage. `start` is the position of `block[0]`.
    #[inline(always)]
    fn block(&mut self, start: usize, block: &[u8]) -> PassedPositions {
        let simd = self.simd;
        let mut words = [0; WORDS];
        for (n, group) in block.chunks_exact(S::LANES * UNROLLED).enumerate() {
            // Step by step for all vectors, not vector by vector, to hide the latency of the instructions.
            let mut vectors = [simd.splat(0); UNROLLED];
            for (vector, bytes) in vectors.iter_mut().zip(group.chunks_exact(S::LANES)) {
                *vector = self.terms(bytes);
            }
            for vector in &mut vectors {
                *vector = self.sums(*vector);
            }
            for (m, sums) in vectors.into_iter().enumerate() {
                let at = (n * UNROLLED + m) * S::LANES;
                words[at / MAX_LANES] |= simd.eq(sums, simd.splat(0)) << (at % MAX_LANES);
            }
        }
        // `black_box`, or the compiler would defer these sums until after the branch on the previous block.
        let any = black_box(words.iter().fold(0, |any, word| any | word));
        PassedPositions { start, words, any }
    }

    /// The terms of the first vector of `bytes`.
    #[inline(always)]
    fn terms(&self, bytes: &[u8]) -> S::Vector {
        let simd = self.simd;
        let bytes = simd.load(bytes);
        simd.xor(
            simd.look_up_by_low_nibble(self.low, bytes),
            simd.look_up_by_high_nibble(self.high, bytes),
        )
    }

    /// Sums of the next `terms`. A sum is zero where the position passes.
    #[inline(always)]
    fn sums(&mut self, terms: S::Vector) -> S::Vector {
        let simd = self.simd;
        let [eights, sixteens] = simd.sums(&mut self.before, terms);
        simd.or(sixteens, simd.and(eights, self.bits))
    }
}

/// Number of bytes before the first position on which its sums depend. A vector may be longer.
const WARM_UP: usize = 16;
/// Number of vectors that are processed together.
const UNROLLED: usize = 4;
/// Number of words with one bit for each position of a block, for the longest vectors.
const WORDS: usize = UNROLLED;
/// Number of positions between two branches.
const BLOCK: usize = WORDS * MAX_LANES;
/// Number of bits of `sixteens`.
const SIXTEENS_BITS: u32 = u8::BITS;
/// Minimum number of bits that the hash decides past the average.
const HASH_BITS: u32 = 2;
/// Number of bytes of the hash's window.
const WINDOW: usize = 32;
/// Number of bits added before the average and removed after the average: level 2 of FastCDC.
const NORMALISATION: u32 = 2;

/// Terms by the low four bits of a byte.
const LOW: [u8; 16] = nibbles(0);
/// Terms by the high four bits of a byte. [`LOW`] has none of these values, so no term is 0.
const HIGH: [u8; 16] = nibbles(1);
/// Odd multipliers for the words of the window.
const KEYS: [u64; WINDOW / 8] = [mix(4) | 1, mix(5) | 1, mix(6) | 1, mix(7) | 1];
/// "deltic" in ASCII.
const SEED: u64 = 0x6465_6c74_6963;

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

const fn mix(n: u64) -> u64 {
    split_mix(SEED, n)
}
