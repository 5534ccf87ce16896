//! Chunking by Rabin fingerprints of a sliding window (LBFS, Muthitacharoen et al. 2001).
//!
//! ```text
//! hash(i) = sum over k in 0..48 of  data[i - 1 - k] * x^(8 k)   mod P    (polynomials over GF(2); P has degree 53)
//! cut     = the least i >= min with hash(i) >= limit,
//!           else max, or the end of the file        where limit = 2^53 - 1 - (2^53 - 1) / (avg - min)
//! ```
//!
//! Differences from LBFS, and why:
//!
//! 1. The polynomial is our own: irreducible, and of degree 53, so that one more byte fits in a 64-bit word. Of
//!    several random polynomials this one has the lowest hashes for runs of one byte value.
//! 2. The criterion is a comparison, not a match of 13 bits. So a hash cuts with probability `1 / (avg - min)`,
//!    and the average chunk of random bytes has `avg` bytes; with a mask the average is `min + avg`.
//! 3. High hashes cut. A run of zeros has hash 0, and no run of another byte value has a hash in the highest
//!    1/64. So holes and padding make maximal chunks where the average is that far above the minimum.
//! 4. The window ends with the last byte of the chunk, and lies inside the chunk: the window is shorter than
//!    any minimum. Bytes below `min` are skipped, except for the window.

use super::rolling::{self, RollingHash};
use super::{Chunker, Sizes};

/// Cuts where the Rabin fingerprint of the last 48 bytes is at least `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RabinChunker {
    min: usize,
    max: usize,
    limit: u64,
}

impl RabinChunker {
    /// Creates a chunker for chunks of `sizes`.
    pub(super) const fn new(sizes: Sizes) -> Self {
        let limit = one_in(sizes.wait());
        Self { min: sizes.min() as usize, max: sizes.max() as usize, limit }
    }
}

impl Chunker for RabinChunker {
    fn max_len(&self) -> usize {
        self.max
    }

    fn cut(&self, data: &[u8]) -> usize {
        rolling::cut::<RabinHash, _>(data, self.min, self.max, self.limit)
    }
}

/// The threshold that one in `count` fingerprints reaches.
pub(super) const fn one_in(count: u32) -> u64 {
    let highest = (1 << DEGREE) - 1;
    highest - highest / count as u64
}

/// The window as a polynomial modulo [`POLYNOMIAL`]; the last byte has the lowest powers.
pub(super) struct RabinHash;

impl RollingHash<4> for RabinHash {
    type Hash = u64;

    const WINDOW: usize = 48;
    const STRETCH: usize = 256;

    #[inline(always)]
    fn add_byte(hash: u64, byte: u8) -> u64 {
        let carry = (hash >> (DEGREE - 8)) as u8;
        (hash << 8) ^ CARRIES[usize::from(carry)] ^ u64::from(byte)
    }

    #[inline(always)]
    fn roll(hash: u64, enters: u8, leaves: u8) -> u64 {
        Self::add_byte(hash, enters) ^ LEAVES[usize::from(leaves)]
    }

    #[inline(always)]
    fn ends(hash: u64, limit: u64) -> bool {
        hash >= limit
    }
}

/// The modulus `P`: an irreducible polynomial, as the tests prove.
const POLYNOMIAL: u64 = 0x0025_a5b6_82de_b26d;
const DEGREE: u32 = POLYNOMIAL.ilog2();

/// Reduces a hash after a shift by eight bits: XOR clears the highest eight bits and adds the remainder of
/// these bits modulo `P`.
static CARRIES: [u64; 256] = reduction_table();
/// For each byte value, the remainder to XOR out of the hash when the byte leaves the window.
static LEAVES: [u64; 256] = leaves();

const fn reduction_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let powers = (byte as u64) << DEGREE;
        table[byte] = powers ^ times_x(byte as u64, DEGREE);
        byte += 1;
    }
    table
}

const fn leaves() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = times_x(byte as u64, 8 * RabinHash::WINDOW as u32);
        byte += 1;
    }
    table
}

/// `remainder` times `x^power`, modulo `P`.
const fn times_x(mut remainder: u64, power: u32) -> u64 {
    let mut n = 0;
    while n < power {
        remainder <<= 1;
        remainder ^= POLYNOMIAL * (remainder >> DEGREE);
        n += 1;
    }
    remainder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squared(a: u64) -> u64 {
        (0..DEGREE).filter(|n| a >> n & 1 == 1).fold(0, |sum, n| sum ^ times_x(a, n))
    }

    /// x^(2^d) = x modulo P, where d is the degree of P: so the degrees of all factors divide d, which is
    /// prime. Neither 0 nor 1 is a root, so no factor has degree 1.
    #[test]
    fn the_polynomial_is_irreducible() {
        assert!((2..DEGREE).all(|n| !DEGREE.is_multiple_of(n)), "a prime degree");
        assert_eq!((0..DEGREE).fold(2, |power, _| squared(power)), 2);
        assert_eq!(POLYNOMIAL & 1, 1);
        assert_eq!(POLYNOMIAL.count_ones() % 2, 1);
    }
}
