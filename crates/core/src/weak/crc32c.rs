//! CRC-32C, and concatenation: the sum of two adjacent parts from the sums of the parts (law 3).
//!
//! SkySync (§3.2.1) combines block sums of a storage layer to chunk sums; ParaSync (§3.1) combines sums of
//! sub-chunks. Both append zeros to the first part and XOR: `CRC(a‖b) = CRC(a‖0…0) ^ CRC(b)`. That holds for a
//! bare remainder. The usual CRC starts from all ones and is inverted at the end; for it, the published
//! equation is wrong by the sum of the zeros. The following holds over GF(2) modulo the polynomial P, with
//! `|m|` in bits and `I` for all ones:
//!
//! ```text
//! crc(m)                = I x^|m| + m x^32 + I
//! crc(a‖b)              = I x^(|a|+|b|) + a x^(|b|+32) + b x^32 + I
//! crc(a) x^|b| + crc(b) = I x^(|a|+|b|) + a x^(32+|b|) + I x^|b|
//!                                                      + I x^|b| + b x^32 + I   = crc(a‖b)
//! ```
//!
//! The inversion at the end of `a` becomes the start of `b`, because both are all ones. So the *sum* of `a`,
//! not `a`, is shifted over the zeros, and no correction remains. A store that omits one of the inversions has
//! another sum; undo that before making a [`Crc32c`].
//!
//! `x^|b|` is a product of powers from tables, one table for each byte of the length. Each nonzero byte of the
//! length costs one multiplication: one for most block lengths, two for most chunks, four at most. Sums of
//! bytes come from the `crc32c` crate (docs/decisions/0012).

use crate::constants::CASTAGNOLI;
use std::fmt;

use crate::simd::clmul::Clmul;

/// CRC-32C of a byte string, with both inversions, as in iSCSI, btrfs, HDFS and S3.
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

    /// The sum of this byte string followed by `bytes`.
    #[must_use]
    pub fn append(self, bytes: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, bytes))
    }

    /// The sum with the value `sum`, which includes both inversions.
    #[must_use]
    pub const fn new(sum: u32) -> Self {
        Self(sum)
    }

    /// The value of the sum, with both inversions.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The sum of two byte strings in sequence: that of `self`, then that of `next`, which has `next_len` bytes.
    /// The length may be any number.
    #[inline]
    #[must_use]
    pub fn concat(self, next: Self, next_len: u64) -> Self {
        self.concat_on(ConcatEngine::detect(), next, next_len)
    }

    /// As [`Crc32c::concat`] with an engine that tests and benchmarks choose.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn concat_on(self, engine: ConcatEngine, next: Self, next_len: u64) -> Self {
        Self(engine.product(self.0, powers_of(next_len)) ^ next.0)
    }
}

impl fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Multiplies modulo P, with CPU instructions or with a small table.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ConcatEngine(Option<Clmul>);

impl ConcatEngine {
    /// The fastest engine of this machine.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        Self(Clmul::detect())
    }

    /// The engine that every machine has.
    #[must_use]
    pub const fn portable() -> Self {
        Self(None)
    }

    /// The product of `first` and all `factors`, times `x^33` for each factor, as carry-less multiplication
    /// gives ([`Clmul`]).
    #[inline]
    fn product(self, first: u32, factors: impl Iterator<Item = u32>) -> u32 {
        match self.0 {
            Some(clmul) => clmul.product(first, factors),
            None => factors.fold(first, multiply_portably),
        }
    }
}

/// Multiplies `a` and `b` in portable code: four bits of `b` at a time, from a table of multiples of `a`.
fn multiply_portably(a: u32, b: u32) -> u32 {
    let mut multiples = [0; 16];
    for n in 1..multiples.len() {
        multiples[n] = multiples[n / 2] << 1 ^ if n % 2 == 1 { u64::from(a) } else { 0 };
    }
    let digits = (0..u32::BITS).step_by(4).rev().map(|n| (b >> n & 15) as usize);
    let wide = digits.fold(0, |wide, digit| wide << 4 ^ multiples[digit]);
    // A CRC without its inversions multiplies by x^32 and reduces.
    !crc32c::crc32c_append(!0, &wide.to_le_bytes())
}

/// Factors for [`ConcatEngine::product`] that multiply a sum by `x^(8 * len)`.
#[inline]
fn powers_of(len: u64) -> impl Iterator<Item = u32> {
    let digits = ((len % ORDER) as u32).to_le_bytes();
    let powers = digits.into_iter().zip(&POWERS);
    powers.filter(|(digit, _)| *digit != 0).map(|(digit, table)| table[usize::from(digit)])
}

/// The order of `x` and of `x^8`: P is `x + 1` times a primitive polynomial of degree 31.
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
        // Multiplying the exponent by 256 takes eight squarings.
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
    fn sums_equal_the_test_vectors_of_iscsi() {
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
    fn concatenations_equal_golden_sums() {
        let (a, b) = (Crc32c::of(b"12345"), Crc32c::of(b"6789"));
        let golden = [
            (4, 0xe306_9283),
            (4 << 10, 0xd0a9_e52f),
            (6000, 0x3b52_f5dc),
            (1 << 40, 0x8057_6fb3),
            (u64::MAX, 0x02d3_c463),
        ];
        for (len, sum) in golden {
            for engine in [ConcatEngine::detect(), ConcatEngine::portable()] {
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
