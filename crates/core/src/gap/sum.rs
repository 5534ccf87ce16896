//! The sum of a block: a polynomial over its words, which rolls and needs no vectors.
//!
//! ```text
//! word(i)      = w ^ (w >> 32)  of  w = bytes[i..i + 8], little endian; zeros behind the last byte
//! hash(block)  = sum over j in 0..m of  word(8 j) * K^(m - j)    (mod 2^64), m words
//! sum(block)   = its highest 24 bits, or 16
//! hash(i + 8)  = (hash(i) + word(i + 8 m)) * K - word(i) * K^(m + 1)
//! ```
//!
//! 1. Words, not bytes: a multiplication for eight of them. Every machine has that multiplication, WebAssembly too.
//! 2. A word moves by eight bytes, a window by one. So eight hashes roll side by side, each for its own remainder of
//!    the position by eight. None waits for another: a step costs less than a multiplication takes.
//! 3. A product modulo 2^64 carries upwards only: a change in the highest byte of a word would reach the highest byte
//!    of the hash alone. The shift brings it into the middle too, from where it reaches all bits that are kept. For
//!    the same reason the last word has a factor.
//! 4. K is 5 modulo 8, so its powers repeat after 2^62 steps only. All its other bits come from the session's seed:
//!    who does not know it cannot look for blocks that collide, but for those that do under every K. There are such,
//!    made of two words in a Thue-Morse sequence, 1 KiB or more of it: a file of them costs its owner a resend.

use std::array::from_fn;

use super::BlockLen;
use crate::constants::split_mix;

/// The polynomial of all sums of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Polynomial {
    /// `K^n`.
    powers: [u64; LANES + 1],
    /// Bits that a sum keeps.
    mask: u32,
}

impl Polynomial {
    /// The polynomial of a session's seed, for blocks of this length.
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

    /// The sum of a block. Where fewer bits travel the lowest ones are zero.
    #[inline]
    pub(super) fn sum(&self, block: &[u8]) -> u32 {
        shortened(self.hash(block)) & self.mask
    }

    /// The hash of a block: as many sums side by side as there are words in a strip, joined in the end.
    #[inline]
    fn hash(&self, block: &[u8]) -> u64 {
        let (strips, rest) = block.as_chunks::<STRIP>();
        let mut lanes = [0u64; LANES];
        for strip in strips {
            let (words, _) = strip.as_chunks();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = lane.wrapping_mul(self.powers[LANES]).wrapping_add(folded(*word));
            }
        }
        let terms = lanes.iter().zip(self.powers[1..].iter().rev());
        let hash =
            terms.fold(0u64, |hash, (lane, power)| hash.wrapping_add(lane.wrapping_mul(*power)));
        self.go_on(hash, rest)
    }

    /// The hash of a block that ends with the few bytes `rest`, from that of what is before them.
    #[inline]
    fn go_on(&self, hash: u64, rest: &[u8]) -> u64 {
        let (words, last) = rest.as_chunks();
        let hash = words.iter().fold(hash, |hash, word| self.next(hash, *word));
        if last.is_empty() {
            return hash;
        }
        let mut word = [0; WORD];
        word[..last.len()].copy_from_slice(last);
        self.next(hash, word)
    }

    #[inline]
    fn next(&self, hash: u64, word: [u8; WORD]) -> u64 {
        hash.wrapping_add(folded(word)).wrapping_mul(self.powers[1])
    }
}

/// The sums of all windows of one length, whole strips of it, as many at a time as there are words in a strip.
#[derive(Clone, Debug)]
pub(super) struct Rolling {
    /// `K`.
    step: u64,
    /// `-K^(m + 1)`.
    gone: u64,
    /// Bits that a sum keeps.
    mask: u32,
    /// Hashes of windows that start at consecutive bytes.
    hashes: [u64; LANES],
}

impl Rolling {
    /// Hashes of the first windows of `len` bytes in `data`, which has them all.
    pub(super) fn new(polynomial: &Polynomial, data: &[u8], len: usize) -> Self {
        let step = polynomial.powers[1];
        Self {
            step,
            gone: step.wrapping_pow((len / WORD) as u32 + 1).wrapping_neg(),
            mask: polynomial.mask,
            hashes: from_fn(|n| polynomial.hash(&data[n..n + len])),
        }
    }

    /// The sums of these windows.
    #[inline(always)]
    pub(super) fn sums(&self) -> [u32; LANES] {
        let mut sums = [0; LANES];
        for (sum, hash) in sums.iter_mut().zip(self.hashes) {
            *sum = shortened(hash) & self.mask;
        }
        sums
    }

    /// Goes on by as many bytes as there are windows: what `out` starts with leaves them, what `incoming` starts with
    /// joins them.
    #[inline(always)]
    pub(super) fn roll(&mut self, out: &[u8; REACH], incoming: &[u8; REACH]) {
        for (n, hash) in self.hashes.iter_mut().enumerate() {
            *hash = hash
                .wrapping_add(folded(word(incoming, n)))
                .wrapping_mul(self.step)
                .wrapping_add(folded(word(out, n)).wrapping_mul(self.gone));
        }
    }
}

#[inline(always)]
fn word(bytes: &[u8; REACH], at: usize) -> [u8; WORD] {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[at..at + WORD]);
    word
}

#[inline(always)]
const fn folded(word: [u8; WORD]) -> u64 {
    let word = u64::from_le_bytes(word);
    word ^ word >> 32
}

#[inline(always)]
const fn shortened(hash: u64) -> u32 {
    (hash >> (u64::BITS - SUM_BITS)) as u32
}

/// Bytes of a word.
const WORD: usize = 8;
/// Words of a strip, and windows that roll side by side: enough that no multiplication waits for another.
pub(super) const LANES: usize = 8;
/// Bytes of a strip.
pub(super) const STRIP: usize = WORD * LANES;
/// Bytes that the words at so many consecutive positions reach over.
pub(super) const REACH: usize = LANES + WORD;
/// Bits of a sum, where all of them travel.
pub(super) const SUM_BITS: u32 = 8 * super::SUM_BYTES as u32;
