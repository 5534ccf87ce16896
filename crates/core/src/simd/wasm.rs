//! Vectors of WebAssembly. Either all code of a module may use vectors or none, so vector instructions are
//! safe. This file is compiled only with `-C target-feature=+simd128`.

use std::arch::wasm32::*;

use super::vector::{Kernel, Simd, TermSums};

/// A witness: the program is compiled for vectors of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Simd128(());

impl Simd128 {
    /// Returns a witness. A machine without these vectors would have refused the program.
    pub(super) const fn detect() -> Option<Self> {
        Some(Self(()))
    }

    /// Runs `kernel`.
    #[inline(always)]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl Simd for Simd128 {
    type Vector = v128;
    type Table = v128;
    type TermSums = TermSums<v128>;

    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, byte: u8) -> v128 {
        u8x16_splat(byte)
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> v128 {
        // The compiler merges the two halves to one load.
        let (halves, _) = bytes[..Self::LANES].as_chunks();
        u64x2(u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]))
    }

    #[inline(always)]
    fn max(self, a: v128, b: v128) -> v128 {
        u8x16_max(a, b)
    }

    #[inline(always)]
    fn min(self, a: v128, b: v128) -> v128 {
        u8x16_min(a, b)
    }

    #[inline(always)]
    fn xor(self, a: v128, b: v128) -> v128 {
        v128_xor(a, b)
    }

    #[inline(always)]
    fn and(self, a: v128, b: v128) -> v128 {
        v128_and(a, b)
    }

    #[inline(always)]
    fn or(self, a: v128, b: v128) -> v128 {
        v128_or(a, b)
    }

    #[inline(always)]
    fn ge(self, a: v128, b: v128) -> u64 {
        u8x16_bitmask(u8x16_ge(a, b)).into()
    }

    #[inline(always)]
    fn eq(self, a: v128, b: v128) -> u64 {
        u8x16_bitmask(u8x16_eq(a, b)).into()
    }

    #[inline(always)]
    fn highest(self, a: v128) -> u8 {
        fold(a, u8x16_max)
    }

    #[inline(always)]
    fn lowest(self, a: v128) -> u8 {
        fold(a, u8x16_min)
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> v128 {
        self.load(bytes)
    }

    #[inline(always)]
    fn look_up_by_low_nibble(self, table: v128, a: v128) -> v128 {
        u8x16_swizzle(table, v128_and(a, u8x16_splat(15)))
    }

    #[inline(always)]
    fn look_up_by_high_nibble(self, table: v128, a: v128) -> v128 {
        u8x16_swizzle(table, u8x16_shr(a, 4))
    }

    #[inline(always)]
    fn zero(self) -> TermSums<v128> {
        TermSums::new(u8x16_splat(0))
    }

    #[inline(always)]
    fn sums(self, before: &mut TermSums<v128>, ones: v128) -> [v128; 2] {
        let behind = u8x16_shuffle::<15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30>(
            before.ones,
            ones,
        );
        let twos = u8x16_add(ones, turned(behind, 1));
        let behind = u16x8_shuffle::<7, 8, 9, 10, 11, 12, 13, 14>(before.twos, twos);
        let fours = u8x16_add(twos, turned(behind, 2));
        let behind = u32x4_shuffle::<3, 4, 5, 6>(before.fours, fours);
        let eights = u8x16_add(fours, turned(behind, 4));
        let behind = u64x2_shuffle::<1, 2>(before.eights, eights);
        *before = TermSums { ones, twos, fours, eights };
        [eights, u8x16_add(eights, turned(behind, 1))]
    }
}

/// Each lane rotated left by `by` bits.
#[inline(always)]
fn turned(a: v128, by: u32) -> v128 {
    v128_or(u8x16_shl(a, by), u8x16_shr(a, u8::BITS - by))
}

/// Combines all lanes by `pick`.
#[inline(always)]
fn fold(a: v128, pick: fn(v128, v128) -> v128) -> u8 {
    let a = pick(a, u64x2_shuffle::<1, 0>(a, a));
    let a = pick(a, u32x4_shuffle::<1, 0, 3, 2>(a, a));
    let a = pick(a, u16x8_shuffle::<1, 0, 3, 2, 5, 4, 7, 6>(a, a));
    u8x16_extract_lane::<0>(pick(a, u16x8_shr(a, 8)))
}
