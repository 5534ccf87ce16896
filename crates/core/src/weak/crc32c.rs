//! CRC-32C, and the sum of bytes that follow each other from the sums of the parts (law 3).
//!
//! SkySync (§3.2.1) makes chunk sums of block sums that a storage layer keeps, ParaSync (§3.1) of the sums of
//! sub-chunks that threads found. Both append zeros to the first part and xor: `CRC(a‖b) = CRC(a‖0…0) ^ CRC(b)`. That
//! holds for a bare remainder. The sum that everybody stores starts from all ones and is inverted in the end; with
//! it, the equation as published is wrong by the sum of the zeros. What holds instead, over GF(2) modulo the
//! polynomial P, with `|m|` in bits and `I` for all ones:
//!
//! ```text
//! crc(m)                = I x^|m| + m x^32 + I
//! crc(a‖b)              = I x^(|a|+|b|) + a x^(|b|+32) + b x^32 + I
//! crc(a) x^|b| + crc(b) = I x^(|a|+|b|) + a x^(32+|b|) + I x^|b|
//!                                                      + I x^|b| + b x^32 + I   = crc(a‖b)
//! ```
//!
//! The inversion at the end of `a` becomes the start of `b`, because both are all ones. So the *sum* of `a`, not `a`,
//! is carried over the zeros, and nothing is left to correct. A store that leaves one of the inversions out has
//! another sum: undo that before it becomes a [`Crc32c`].
//!
//! `x^|b|` is a product of powers from tables, one table for each byte of the length. The price is a multiplication
//! for each byte that is not zero: one for most block lengths, two for most chunks, four at most. The digest of bytes
//! is the `crc32c` crate's (docs/decisions/0012).

use crate::constants::CASTAGNOLI;
use std::fmt;

use crate::simd::clmul::Clmul;

/// CRC-32C of some bytes, with both inversions: as iSCSI, btrfs, HDFS and S3 have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Crc32c(u32);

impl Crc32c {
    /// The sum of no bytes.
    pub const EMPTY: Self = Self(0);

    /// The sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32c::crc32c(bytes))
    }

    /// The sum of the bytes of `self` with `bytes` behind them.
    #[must_use]
    pub fn append(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// The sum that was written down as `sum`, with both inversions.
    #[must_use]
    pub const fn new(sum: u32) -> Self {
        Self(sum)
    }

    /// Its value, with both inversions.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The sum of the bytes of `self` with those of `next` behind them, which are `next_len` bytes. Any length will do.
    #[inline]
    #[must_use]
    pub fn concat(self, next: Self, next_len: u64) -> Self {
        self.concat_on(Engine::detect(), next, next_len)
    }

    /// The same on an engine of the caller's choice, for tests and benches.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn concat_on(self, engine: Engine, next: Self, next_len: u64) -> Self {
        Self(engine.product(self.0, powers_of(next_len)) ^ next.0)
    }
}

impl fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Multiplier: instructions of the processor, or a small table.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Engine(Option<Clmul>);

impl Engine {
    /// The fastest that this processor has.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        Self(Clmul::detect())
    }

    /// The one that every processor has.
    #[must_use]
    pub const fn portable() -> Self {
        Self(None)
    }

    /// `first` multiplied by each of `factors` in turn, each time by `x^33` as well: that is what one carry-less
    /// multiplication gives ([`Clmul`]).
    #[inline]
    fn product(self, first: u32, factors: impl Iterator<Item = u32>) -> u32 {
        match self.0 {
            Some(clmul) => clmul.product(first, factors),
            None => factors.fold(first, multiply_portably),
        }
    }
}

/// Four bits of `b` at a time, each by one look at the multiples of `a`.
fn multiply_portably(a: u32, b: u32) -> u32 {
    let mut multiples = [0; 16];
    for n in 1..multiples.len() {
        multiples[n] = multiples[n / 2] << 1 ^ if n % 2 == 1 { u64::from(a) } else { 0 };
    }
    let digits = (0..u32::BITS).step_by(4).rev().map(|n| (b >> n & 15) as usize);
    let wide = digits.fold(0, |wide, digit| wide << 4 ^ multiples[digit]);
    // A digest without its inversions multiplies by x^32 and reduces.
    !crc32c::crc32c_append(!0, &wide.to_le_bytes())
}

/// The factors whose [`Engine::product`] is `x^(8 * len)`.
#[inline]
fn powers_of(len: u64) -> impl Iterator<Item = u32> {
    let digits = ((len % ORDER) as u32).to_le_bytes();
    let powers = digits.into_iter().zip(&POWERS);
    powers.filter(|(digit, _)| *digit != 0).map(|(digit, table)| table[usize::from(digit)])
}

/// `x^n` and `x^(8 * n)` are 1 for this `n` first: P is `x + 1` times a primitive polynomial of degree 31.
const ORDER: u64 = (1 << 31) - 1;

/// `POWERS[k][digit]` is `x^(8 * digit * 256^k - 33)`.
static POWERS: [[u32; 256]; 4] = powers();

const fn powers() -> [[u32; 256]; 4] {
    let mut powers = [[0; 256]; 4];
    let mut step = 1 << (31 - 8);
    let mut k = 0;
    while k < powers.len() {
        let mut power = divide_by_x(1 << 31, 33);
        let mut digit = 0;
        while digit < powers[k].len() {
            powers[k][digit] = power;
            power = multiply(power, step);
            digit += 1;
        }
        // Times 256 for the exponent are eight squares.
        let mut square = 0;
        while square < 8 {
            step = multiply(step, step);
            square += 1;
        }
        k += 1;
    }
    powers
}

/// `a * b` modulo P, a bit at a time.
const fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while b != 0 {
        if b >> 31 == 1 {
            product ^= a;
        }
        a = if a & 1 == 1 { a >> 1 ^ CASTAGNOLI } else { a >> 1 };
        b <<= 1;
    }
    product
}

/// `a / x^n` modulo P.
const fn divide_by_x(mut a: u32, n: u32) -> u32 {
    let mut divided = 0;
    while divided < n {
        a = if a >> 31 == 1 { (a ^ CASTAGNOLI) << 1 | 1 } else { a << 1 };
        divided += 1;
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4, and the check value of every catalogue.
    #[test]
    fn sums_are_those_of_iscsi() {
        let ascending: [u8; 32] = std::array::from_fn(|n| n as u8);
        let descending: [u8; 32] = std::array::from_fn(|n| 31 - n as u8);
        assert_eq!(Crc32c::of(b"123456789").get(), 0xe306_9283);
        assert_eq!(Crc32c::of(&[0; 32]).get(), 0x8a91_36aa);
        assert_eq!(Crc32c::of(&[0xff; 32]).get(), 0x62a8_ab43);
        assert_eq!(Crc32c::of(&ascending).get(), 0x46dd_794e);
        assert_eq!(Crc32c::of(&descending).get(), 0x113f_db5c);
        assert_eq!(Crc32c::of(b""), Crc32c::EMPTY);
    }

    #[test]
    fn concatenations_stay_what_they_were() {
        let (a, b) = (Crc32c::of(b"12345"), Crc32c::of(b"6789"));
        let golden = [
            (4, 0xe306_9283),
            (4 << 10, 0xd0a9_e52f),
            (6000, 0x3b52_f5dc),
            (1 << 40, 0x8057_6fb3),
            (u64::MAX, 0x02d3_c463),
        ];
        for (len, sum) in golden {
            for engine in [Engine::detect(), Engine::portable()] {
                assert_eq!(a.concat_on(engine, b, len).get(), sum, "{len} on {engine:?}");
            }
        }
    }

    #[test]
    fn the_published_equation_is_wrong_by_the_sum_of_the_zeros() {
        let (a, b, zeros) = (b"12345", b"6789", [0; 4]);
        let published = Crc32c::of(&[&a[..], &zeros].concat()).get() ^ Crc32c::of(b).get();
        let whole = Crc32c::of(&[&a[..], b].concat()).get();
        assert_eq!(published ^ Crc32c::of(&zeros).get(), whole);
        assert_ne!(published, whole);
    }

    #[test]
    fn x_to_the_order_is_one() {
        let (mut power, mut square) = (1 << 31, 1 << 30);
        for bit in 0..u64::BITS {
            if ORDER >> bit & 1 == 1 {
                power = multiply(power, square);
            }
            square = multiply(square, square);
        }
        assert_eq!(power, 1 << 31);
    }
}
