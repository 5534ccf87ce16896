//! The block sum of gaps: a rolling polynomial over words, fast without vector instructions.
//!
//! ```text
//! word(i)      = w ^ (w >> 32)  of  w = bytes[i..i + 8], little endian; zeros behind the last byte
//! hash(block)  = sum over j in 0..m of  word(8 j) * K^(m - j)    (mod 2^64), m words
//! sum(block)   = its highest 24 bits, or 16
//! hash(i + 8)  = (hash(i) + word(i + 8 m)) * K - word(i) * K^(m + 1)
//! ```
//!
//! 1. The polynomial is over words, not bytes: one multiplication for eight bytes. Every machine has this
//!    multiplication, WebAssembly too.
//! 2. Words are eight bytes apart, windows one byte. So eight hashes roll side by side, one for each remainder
//!    of the position modulo eight. The hashes are independent, so a step takes less than the latency of a
//!    multiplication.
//! 3. A product modulo 2^64 carries upwards only: a change in the highest byte of a word would reach only the
//!    highest byte of the hash. The shift copies that byte to the middle, from where it reaches all bits that
//!    are kept. For the same reason the last word has a factor.
//! 4. K is 5 modulo 8, so its powers have period 2^62. All other bits of K come from the seed of the session:
//!    without the seed nobody can search for colliding blocks, except for blocks that collide under every K.
//!    Such blocks exist: two words in a Thue-Morse sequence of at least 1 KiB. A file of such blocks only costs
//!    its owner another transfer.

use std::array::from_fn;

use super::BlockLen;
use crate::constants::split_mix;

/// The polynomial of all sums of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SumPolynomial {
    /// `K^n` for each n.
    powers: [u64; LANES + 1],
    /// Mask of the bits that a sum keeps.
    mask: u32,
}

impl SumPolynomial {
    /// The polynomial of a session's `seed`, for blocks of length `len`.
    pub(super) const fn new(seed: u64, len: BlockLen) -> Self {
        let k = split_mix(seed, 0) & !7 | 5;
        let mut powers = [1u64; LANES + 1];
        let mut n = 1;
        while n < powers.len() {
            powers[n] = powers[n - 1].wrapping_mul(k);
            n += 1;
        }
        Self { powers, mask: u32::MAX << (SUM_BITS - 8 * len.sum_bytes() as u32) }
    }

    /// The sum of a block. The lowest bits are zero if shorter sums are sent.
    #[inline]
    pub(super) fn sum(&self, block: &[u8]) -> u32 {
        high_bits(self.hash(block)) & self.mask
    }

    /// The hash of a block. Computes one hash for each word of a strip in parallel, and combines the hashes at
    /// the end.
    #[inline]
    fn hash(&self, block: &[u8]) -> u64 {
        let (strips, rest) = block.as_chunks::<STRIP>();
        let mut lanes = [0u64; LANES];
        for strip in strips {
            let (words, _) = strip.as_chunks();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = lane.wrapping_mul(self.powers[LANES]).wrapping_add(fold_word(*word));
            }
        }
        let terms = lanes.iter().zip(self.powers[1..].iter().rev());
        let hash =
            terms.fold(0u64, |hash, (lane, power)| hash.wrapping_add(lane.wrapping_mul(*power)));
        self.extend_hash(hash, rest)
    }

    /// Extends `hash` by the last bytes of a block, fewer than a strip.
    #[inline]
    fn extend_hash(&self, hash: u64, rest: &[u8]) -> u64 {
        let (words, last) = rest.as_chunks();
        let hash = words.iter().fold(hash, |hash, word| self.hash_word(hash, *word));
        if last.is_empty() {
            return hash;
        }
        let mut word = [0; WORD];
        word[..last.len()].copy_from_slice(last);
        self.hash_word(hash, word)
    }

    #[inline]
    fn hash_word(&self, hash: u64, word: [u8; WORD]) -> u64 {
        hash.wrapping_add(fold_word(word)).wrapping_mul(self.powers[1])
    }
}

/// Rolling sums of eight consecutive windows of one length, a multiple of a strip.
#[derive(Clone, Debug)]
pub(super) struct RollingSums {
    /// `K`.
    step: u64,
    /// `-K^(m + 1)`.
    gone: u64,
    /// Mask of the bits that a sum keeps.
    mask: u32,
    /// Hashes of windows that start at consecutive bytes.
    hashes: [u64; LANES],
}

impl RollingSums {
    /// Starts with the first [`LANES`] windows of `len` bytes in `data`.
    pub(super) fn new(polynomial: &SumPolynomial, data: &[u8], len: usize) -> Self {
        let step = polynomial.powers[1];
        Self {
            step,
            gone: step.wrapping_pow((len / WORD) as u32 + 1).wrapping_neg(),
            mask: polynomial.mask,
            hashes: from_fn(|n| polynomial.hash(&data[n..n + len])),
        }
    }

    /// The sums of the current windows.
    #[inline(always)]
    pub(super) fn sums(&self) -> [u32; LANES] {
        let mut sums = [0; LANES];
        for (sum, hash) in sums.iter_mut().zip(self.hashes) {
            *sum = high_bits(hash) & self.mask;
        }
        sums
    }

    /// Advances all windows by [`LANES`] bytes. `out` begins with the bytes that leave, `incoming` with the
    /// bytes that enter.
    #[inline(always)]
    pub(super) fn roll(&mut self, out: &[u8; REACH], incoming: &[u8; REACH]) {
        for (n, hash) in self.hashes.iter_mut().enumerate() {
            *hash = hash
                .wrapping_add(fold_word(word_at(incoming, n)))
                .wrapping_mul(self.step)
                .wrapping_add(fold_word(word_at(out, n)).wrapping_mul(self.gone));
        }
    }
}

#[inline(always)]
fn word_at(bytes: &[u8; REACH], at: usize) -> [u8; WORD] {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[at..at + WORD]);
    word
}

#[inline(always)]
const fn fold_word(word: [u8; WORD]) -> u64 {
    let word = u64::from_le_bytes(word);
    word ^ word >> 32
}

#[inline(always)]
const fn high_bits(hash: u64) -> u32 {
    (hash >> (u64::BITS - SUM_BITS)) as u32
}

/// Length of a word in bytes.
const WORD: usize = 8;
/// Words in a strip, and windows that roll side by side: enough to hide the latency of a multiplication.
pub(super) const LANES: usize = 8;
/// Length of a strip in bytes. A strip is [`LANES`] words, the unit in which blocks are hashed.
pub(super) const STRIP: usize = WORD * LANES;
/// Number of bytes that words at [`LANES`] consecutive offsets cover.
pub(super) const REACH: usize = LANES + WORD;
/// Number of bits of a full-length sum.
pub(super) const SUM_BITS: u32 = 8 * super::SUM_BYTES as u32;
