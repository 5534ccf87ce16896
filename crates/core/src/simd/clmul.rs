//! Products of polynomials modulo the CRC-32C polynomial, by carry-less multiplication on x86-64 and aarch64.
//!
//! A `u32` is a polynomial of degree below 32 over GF(2) in the bit order of CRC-32C: the highest bit is `x^0`.
//! The carry-less product of two such words has 63 bits, and bit 62 is `x^0`. The CRC instruction takes 64
//! bits, whose bit 63 is `x^0`, so the instruction sees the product times `x`. The reduction multiplies by
//! `x^32` as well:
//!
//! ```text
//! multiply(a, b) = a * b * x^33   (mod P)        one multiplication, one CRC instruction
//! ```
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

/// A witness: the CPU has the instructions of this file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clmul(());

impl Clmul {
    /// Returns a witness if the CPU has the instructions.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        arch::is_detected().then_some(Self(()))
    }

    /// The product of `first` and all `factors`, times `x^33` for each factor.
    #[inline]
    pub(crate) fn product(self, first: u32, factors: impl Iterator<Item = u32>) -> u32 {
        // SAFETY: a Clmul is made by detect() alone, where is_detected() saw each feature that arch::product enables.
        unsafe { arch::product(first, factors) }
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    };

    #[inline]
    pub(super) fn is_detected() -> bool {
        is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.2")
    }

    #[target_feature(enable = "pclmulqdq,sse4.2")]
    pub(super) fn product(first: u32, factors: impl Iterator<Item = u32>) -> u32 {
        let mut product = u64::from(first);
        for factor in factors {
            let a = _mm_cvtsi64_si128(product.cast_signed());
            let b = _mm_cvtsi64_si128(i64::from(factor));
            let wide = _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b));
            product = _mm_crc32_u64(0, wide.cast_unsigned());
        }
        product as u32
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::aarch64::{__crc32cd, vmull_p64};
    use std::arch::is_aarch64_feature_detected;

    #[inline]
    pub(super) fn is_detected() -> bool {
        is_aarch64_feature_detected!("aes") && is_aarch64_feature_detected!("crc")
    }

    #[target_feature(enable = "aes,crc")]
    pub(super) fn product(first: u32, factors: impl Iterator<Item = u32>) -> u32 {
        let mut product = first;
        for factor in factors {
            let wide = vmull_p64(u64::from(product), u64::from(factor));
            product = __crc32cd(0, wide as u64);
        }
        product
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    pub(super) fn is_detected() -> bool {
        false
    }

    pub(super) unsafe fn product(_: u32, _: impl Iterator<Item = u32>) -> u32 {
        unreachable!("nothing was detected")
    }
}
