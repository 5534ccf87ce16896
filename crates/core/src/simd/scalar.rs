//! Vectors of one byte: the algorithms as the papers write them, for machines without vectors.

use super::vector::{Kernel, Simd};

/// A witness that needs no CPU feature, so anybody may create one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Scalar;

impl Scalar {
    /// Returns a witness; every machine has bytes.
    pub(super) const fn detect() -> Option<Self> {
        Some(Self)
    }

    /// Runs `kernel`.
    #[inline(always)]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl Simd for Scalar {
    type Vector = u8;
    type Table = [u8; 16];
    type TermSums = ScalarTermSums;

    const LANES: usize = 1;

    #[inline(always)]
    fn splat(self, byte: u8) -> u8 {
        byte
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> u8 {
        bytes[0]
    }

    #[inline(always)]
    fn max(self, a: u8, b: u8) -> u8 {
        a.max(b)
    }

    #[inline(always)]
    fn min(self, a: u8, b: u8) -> u8 {
        a.min(b)
    }

    #[inline(always)]
    fn xor(self, a: u8, b: u8) -> u8 {
        a ^ b
    }

    #[inline(always)]
    fn and(self, a: u8, b: u8) -> u8 {
        a & b
    }

    #[inline(always)]
    fn or(self, a: u8, b: u8) -> u8 {
        a | b
    }

    #[inline(always)]
    fn ge(self, a: u8, b: u8) -> u64 {
        u64::from(a >= b)
    }

    #[inline(always)]
    fn eq(self, a: u8, b: u8) -> u64 {
        u64::from(a == b)
    }

    #[inline(always)]
    fn highest(self, a: u8) -> u8 {
        a
    }

    #[inline(always)]
    fn lowest(self, a: u8) -> u8 {
        a
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> [u8; 16] {
        *bytes
    }

    #[inline(always)]
    fn look_up_by_low_nibble(self, table: [u8; 16], a: u8) -> u8 {
        table[usize::from(a & 15)]
    }

    #[inline(always)]
    fn look_up_by_high_nibble(self, table: [u8; 16], a: u8) -> u8 {
        table[usize::from(a >> 4)]
    }

    #[inline(always)]
    fn zero(self) -> ScalarTermSums {
        ScalarTermSums::default()
    }

    #[inline(always)]
    fn sums(self, before: &mut ScalarTermSums, one: u8) -> [u8; 2] {
        let two = one.wrapping_add(before.one.rotate_left(1));
        let four = two.wrapping_add(((before.twos >> 8) as u8).rotate_left(2));
        let eight = four.wrapping_add(((before.fours >> 24) as u8).rotate_left(4));
        let sixteen = eight.wrapping_add(((before.eights >> 56) as u8).rotate_left(1));
        before.one = one;
        before.twos = before.twos << 8 | u16::from(two);
        before.fours = before.fours << 8 | u32::from(four);
        before.eights = before.eights << 8 | u64::from(eight);
        [eight, sixteen]
    }
}

/// The last terms and sums, one in each byte, the latest lowest: one term, two sums of two, four of four, eight
/// of eight.
#[derive(Clone, Copy, Default)]
pub(super) struct ScalarTermSums {
    one: u8,
    twos: u16,
    fours: u32,
    eights: u64,
}
