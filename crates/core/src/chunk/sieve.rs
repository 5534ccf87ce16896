//! A sieve: hash-based chunks at the speed of hashless ones. Ours; no paper has it.
//!
//! Gear hashes find boundaries by content alone, so they re-align right after an edit, but their table look-ups keep
//! vector units out (VectorCDC §3). Hashless chunkers fit vector units, but cut by what lies far back. This one has
//! both:
//!
//! ```text
//! term(b)     = LOW[b & 15] xor HIGH[b >> 4]                                     of eight bits
//! twos(i)     = term(data[i - 1]) + rotate(term(data[i - 2]), 1)                 (mod 2^8)
//! fours(i)    = twos(i)   + rotate(twos(i - 2), 2)
//! eights(i)   = fours(i)  + rotate(fours(i - 4), 4)
//! sixteens(i) = eights(i) + rotate(eights(i - 8), 1)                             of the 16 bytes before i
//! hash(i)     = sum over j in 0..4 of  KEY[j] * data[i - 32 + 8 j ..][..8] as u64  (mod 2^64; the 32 bytes before i)
//!
//! A position passes the mesh if sixteens(i) and the highest `more` bits of eights(i) are zero. It is an end if
//! besides so many highest bits of hash(i) are zero that one in 4 avg is, up to the mean, or one in avg / 4, past it.
//!
//! cut         = the least end in min..max, else max, or the end of the file
//! ```
//!
//! 1. Sixteen-byte tables are what every vector unit can look up in a register, and eight bits are what a lane holds:
//!    the sums of all lanes take two or three dozen instructions, by doubling.
//! 2. Rotations let every bit see all bytes. With shifts, as in a gear hash, the lowest bits would follow the last
//!    byte, and in text the ends would be as rare as its letters have it.
//! 3. One position in 256 or fewer passes. Only there the hash is taken, so it may be a good one: no common run of
//!    sixteen bytes decides on its own. `more = log2(avg) - 12`, and at least 0, so that behind the mean the hash still
//!    decides of four positions for one. No mean is so large that `more` could exceed the eight bits.
//! 4. Sixteen bytes and not eight: data of two byte values has 2^8 different runs of eight, too few for one in 256.
//! 5. As in normalised chunking (FastCDC) an end is less likely before the mean and more likely behind it.
//! 6. In a run of one byte `sixteens` is not zero, whatever the byte: holes and padding make the longest chunks.

use std::hint::black_box;

use super::{Chunker, Sizes};
use crate::constants::split_mix;
use crate::simd::search::read_ahead;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};

/// Cuts where sums of the last 16 bytes are zero and a hash of the last 32 is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sieve {
    min: usize,
    avg: usize,
    max: usize,
    /// The bits of `eights` that are zero where a position passes.
    mesh: u8,
    /// A hash up to here is an end, up to the mean.
    strict: u64,
    /// A hash up to here is an end, past the mean.
    loose: u64,
    isa: Isa,
}

impl Sieve {
    /// A chunker for chunks of `sizes`, with the instructions of `isa`.
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

    /// The first end in `data` among those that passed the mesh.
    #[inline(always)]
    fn first_end(&self, data: &[u8], passed: &Passed) -> Option<usize> {
        if passed.any == 0 {
            return None;
        }
        for (n, mut word) in passed.words.into_iter().enumerate() {
            while word != 0 {
                let end = passed.start + n * MAX_LANES + word.trailing_zeros() as usize + 1;
                // Behind the data there is only what a block was filled up with.
                if end < data.len() && self.ends(data, end) {
                    return Some(end);
                }
                word &= word - 1;
            }
        }
        None
    }

    /// True if a chunk ends at `end`, where the mesh let it pass.
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
        let mut mesh = Mesh::new(simd, sieve.mesh);
        // A chunk may end behind byte min - 1. What lies before only warms up.
        let first = sieve.min - 1;
        for bytes in data[first - WARM_UP.max(S::LANES)..first].chunks_exact(S::LANES) {
            mesh.sums(mesh.terms(bytes));
        }
        // The last byte's end is an end anyway.
        let blocks = data[first..data.len() - 1].chunks_exact(BLOCK);
        let rest = blocks.remainder();
        let mut start = first;
        let mut before = Passed { start, words: [0; WORDS], any: 0 };
        for block in blocks {
            // Where this chunk may end the next one begins, and skips its minimum.
            let next = start + sieve.min;
            read_ahead(simd, data, next..next + BLOCK);
            let passed = mesh.block(start, block);
            // Whether a position passed cannot be foretold, and a wrong guess throws away what was begun behind it. So
            // a block is asked about only when the sums of the next one are under way.
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

/// Positions of a block that the mesh let pass.
#[derive(Clone, Copy)]
struct Passed {
    /// Start of the block.
    start: usize,
    /// A bit for each position.
    words: [u64; WORDS],
    /// All words in one.
    any: u64,
}

/// The sieve's first part, over one vector after the other.
struct Mesh<S: Simd> {
    simd: S,
    low: S::Table,
    high: S::Table,
    bits: S::Vector,
    before: S::Before,
}

impl<S: Simd> Mesh<S> {
    #[inline(always)]
    fn new(simd: S, bits: u8) -> Self {
        let (low, high) = (simd.table(&LOW), simd.table(&HIGH));
        Self { simd, low, high, bits: simd.splat(bits), before: simd.nothing() }
    }

    /// Positions that pass in the next block, which starts at `start`.
    #[inline(always)]
    fn block(&mut self, start: usize, block: &[u8]) -> Passed {
        let simd = self.simd;
        let mut words = [0; WORDS];
        for (n, group) in block.chunks_exact(S::LANES * UNROLLED).enumerate() {
            // Step by step, not vector by vector: each waits for its own steps only.
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
        // Opaque, or the compiler would put all of this off until it is known that no chunk ends in the block before.
        let any = black_box(words.iter().fold(0, |any, word| any | word));
        Passed { start, words, any }
    }

    /// The terms of the first bytes of `bytes`, a vector of them.
    #[inline(always)]
    fn terms(&self, bytes: &[u8]) -> S::Vector {
        let simd = self.simd;
        let bytes = simd.load(bytes);
        simd.xor(simd.low_nibbles(self.low, bytes), simd.high_nibbles(self.high, bytes))
    }

    /// Sums that are zero where a position passes, with the next `terms`.
    #[inline(always)]
    fn sums(&mut self, terms: S::Vector) -> S::Vector {
        let simd = self.simd;
        let [eights, sixteens] = simd.sums(&mut self.before, terms);
        simd.or(sixteens, simd.and(eights, self.bits))
    }
}

/// Bytes before the first position that its sums depend on, and a vector may be longer.
const WARM_UP: usize = 16;
/// Vectors that take each step together.
const UNROLLED: usize = 4;
/// Words with a bit for each position of a block: as many as the longest vectors fill.
const WORDS: usize = UNROLLED;
/// Positions judged between two branches.
const BLOCK: usize = WORDS * MAX_LANES;
/// Bits of `sixteens`.
const SIXTEENS_BITS: u32 = u8::BITS;
/// Bits at least that the hash decides behind the mean.
const HASH_BITS: u32 = 2;
/// Bytes that the hash depends on.
const WINDOW: usize = 32;
/// Bits more before the mean and fewer after it: FastCDC's level 2.
const NORMALISATION: u32 = 2;

/// Terms by the low four bits of a byte.
const LOW: [u8; 16] = nibbles(0);
/// Terms by the high four bits of a byte; no value is also in [`LOW`], so no byte's term is 0.
const HIGH: [u8; 16] = nibbles(1);
/// Odd numbers for the words of the window.
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
