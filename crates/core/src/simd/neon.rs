//! NEON, part of the baseline of aarch64. This file is compiled only if the whole program is compiled for NEON.
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

use std::arch::aarch64::*;

use super::vector::{Kernel, Simd, TermSums};

/// A witness: the program is compiled for vectors of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Neon(());

impl Neon {
    /// Returns the witness. NEON is known at compile time, so nothing is detected at run time.
    pub(super) const fn detect() -> Option<Self> {
        Some(Self(()))
    }

    /// Runs `kernel`.
    #[inline(always)]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// Declares functions that consist of intrinsics.
macro_rules! ops {
    ($(fn $name:ident($($arg:tt)*) -> $out:ty $body:block)+) => { $(
        #[inline(always)]
        fn $name($($arg)*) -> $out {
            // SAFETY: the program is compiled for NEON (`mod neon` in mod.rs); no intrinsic here accesses
            // memory.
            unsafe { $body }
        }
    )+ };
}

impl Simd for Neon {
    type Vector = uint8x16_t;
    type Table = uint8x16_t;
    type TermSums = TermSums<uint8x16_t>;

    const LANES: usize = 16;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> uint8x16_t {
        assert!(bytes.len() >= Self::LANES, "a load needs a whole vector of bytes");
        // SAFETY: `bytes` has 16 bytes; the program is compiled for NEON, which loads unaligned.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> uint8x16_t {
        self.load(bytes)
    }

    ops! {
        fn splat(self, byte: u8) -> uint8x16_t { vdupq_n_u8(byte) }
        fn max(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t { vmaxq_u8(a, b) }
        fn min(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t { vminq_u8(a, b) }
        fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t { veorq_u8(a, b) }
        fn and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t { vandq_u8(a, b) }
        fn or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t { vorrq_u8(a, b) }
        fn ge(self, a: uint8x16_t, b: uint8x16_t) -> u64 { bits(vcgeq_u8(a, b)) }
        fn eq(self, a: uint8x16_t, b: uint8x16_t) -> u64 { bits(vceqq_u8(a, b)) }
        fn gt(self, a: uint8x16_t, b: uint8x16_t) -> u64 { bits(vcgtq_u8(a, b)) }
        fn highest(self, a: uint8x16_t) -> u8 { vmaxvq_u8(a) }
        fn lowest(self, a: uint8x16_t) -> u8 { vminvq_u8(a) }
        fn look_up_by_low_nibble(self, table: uint8x16_t, a: uint8x16_t) -> uint8x16_t {
            vqtbl1q_u8(table, vandq_u8(a, vdupq_n_u8(15)))
        }
        fn look_up_by_high_nibble(self, table: uint8x16_t, a: uint8x16_t) -> uint8x16_t {
            vqtbl1q_u8(table, vshrq_n_u8::<4>(a))
        }
        fn zero(self) -> TermSums<uint8x16_t> { TermSums::new(vdupq_n_u8(0)) }
        fn sums(self, before: &mut TermSums<uint8x16_t>, ones: uint8x16_t) -> [uint8x16_t; 2] {
            // A rotation is a shift and an insertion of the bits that were shifted out.
            let behind = vextq_u8::<15>(before.ones, ones);
            let twos = vaddq_u8(ones, vsriq_n_u8::<7>(vshlq_n_u8::<1>(behind), behind));
            let behind = vextq_u8::<14>(before.twos, twos);
            let fours = vaddq_u8(twos, vsriq_n_u8::<6>(vshlq_n_u8::<2>(behind), behind));
            let behind = vextq_u8::<12>(before.fours, fours);
            let eights = vaddq_u8(fours, vsriq_n_u8::<4>(vshlq_n_u8::<4>(behind), behind));
            let behind = vextq_u8::<8>(before.eights, eights);
            let turned = vsriq_n_u8::<7>(vshlq_n_u8::<1>(behind), behind);
            *before = TermSums { ones, twos, fours, eights };
            [eights, vaddq_u8(eights, turned)]
        }
    }
}

ops! {
    // NEON has no bit mask instruction. Most masks are zero, which one narrowing shift detects.
    fn bits(lanes: uint8x16_t) -> u64 {
        let nibbles = vshrn_n_u16::<4>(vreinterpretq_u16_u8(lanes));
        if vget_lane_u64::<0>(vreinterpret_u64_u8(nibbles)) == 0 { 0 } else { weighed(lanes) }
    }
    fn weighed(lanes: uint8x16_t) -> u64 {
        let weights = vcombine_u8(vcreate_u8(WEIGHTS), vcreate_u8(WEIGHTS));
        let weighed = vandq_u8(lanes, weights);
        let pairs = vpaddq_u8(weighed, weighed);
        let fours = vpaddq_u8(pairs, pairs);
        let eights = vpaddq_u8(fours, fours);
        u64::from(vgetq_lane_u16::<0>(vreinterpretq_u16_u8(eights)))
    }
}

/// Weights that combine eight lanes to eight bits.
const WEIGHTS: u64 = 0x8040_2010_0804_0201;
