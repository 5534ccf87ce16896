//! rsync's rolling sum (Tridgell and Mackerras 1996), called Adler-32 in the papers (WebR2sync+ §5.2, SkySync
//! §2.2.1).
//!
//! ```text
//! a = sum of data[i]                  (mod 2^16)     data[i] is signed, as in rsync
//! b = sum of (n - i) data[i]          (mod 2^16)     for i in 0..n
//! sum = a + 2^16 b
//! ```
//!
//! There are three sums of this name. zlib's Adler-32 starts `a` at one and is modulo 65521. librsync, the base
//! of SkySync, adds 31 to each byte. rsync adds nothing (its `CHAR_OFFSET` is zero) and takes bytes as signed.
//! This module equals rsync bit for bit: rsync is the baseline of all papers, and its sum is the cheapest of
//! the three to roll.
//!
//! A run of zeros of any length has sum 0. The length of a block must be compared separately.

use std::fmt;

use super::{AdlerRoller, SumRoller};

/// rsync's rolling sum of a byte string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adler(u32);

impl Adler {
    /// The sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        // Sixteen bits suffice for each lane, because sums are modulo 2^16. `sums` holds each lane's part of
        // `a`. `before` accumulates `sums` before each vector: `b` counts each byte LANES times for each vector
        // after it.
        let (vectors, rest) = bytes.as_chunks::<LANES>();
        let (mut sums, mut before) = ([0u16; LANES], [0u16; LANES]);
        for vector in vectors {
            for lane in 0..LANES {
                before[lane] = before[lane].wrapping_add(sums[lane]);
                sums[lane] = sums[lane].wrapping_add(signed(vector[lane]));
            }
        }
        let (mut a, mut b) = (0u16, 0u16);
        for lane in 0..LANES {
            let behind = (LANES - lane) as u16;
            a = a.wrapping_add(sums[lane]);
            b = b.wrapping_add(before[lane].wrapping_mul(LANES as u16));
            b = b.wrapping_add(sums[lane].wrapping_mul(behind));
        }
        for byte in rest {
            a = a.wrapping_add(signed(*byte));
            b = b.wrapping_add(a);
        }
        Self(u32::from(a) | u32::from(b) << 16)
    }

    /// The value of the sum.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The sum of `len` bytes, moved by one byte: `leaves` was the first byte, `enters` follows the last.
    #[must_use]
    pub fn roll(self, leaves: u8, enters: u8, len: u32) -> Self {
        let roll = AdlerRoller::new(len);
        Self(roll.sum(roll.roll(roll.state(self.0), leaves, enters)))
    }
}

impl fmt::Debug for Adler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

const fn signed(byte: u8) -> u16 {
    byte as i8 as u16
}

/// Number of sums side by side: as many as fit in registers of the smallest vectors.
const LANES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_signed_and_sums_start_at_zero() {
        assert_eq!(Adler::of(b"").get(), 0);
        assert_eq!(Adler::of(&[0; 100]).get(), 0);
        assert_eq!(Adler::of(&[1, 2]).get(), 3 | 4 << 16);
        assert_eq!(Adler::of(&[0xff]).get(), 0xffff_ffff);
        assert_eq!(Adler::of(&[0x80, 0x80]).get(), 0xff00 | 0xfe80 << 16);
    }
}
