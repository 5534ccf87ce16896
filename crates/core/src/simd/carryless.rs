//! Products without carries, of whole rows of bytes: what the keyed sum is made of.
//!
//! A number is a polynomial over GF(2), its lowest bit the coefficient of `x^0`; bytes are little-endian. An
//! algorithm is a [`Kernel`], generic over [`Carryless`], whose implementations are witnesses as those of
//! [`Simd`](super::Simd) are:
//!
//! ```text
//! keyed.rs  ── impl Kernel ──►  Witness::run  ── picks ──►  Portable | Pclmul | Vpclmul256 | Vpclmul512 | Pmull
//! ```
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

/// Bytes in a [`Row`].
pub(crate) const ROW_BYTES: usize = 64;

/// Operands of one step: four pairs of words of 64 bits.
pub(crate) type Row = [u8; ROW_BYTES];

/// Carry-less multiplication.
pub(crate) trait Carryless: Copy {
    /// A polynomial of degree below 128: an element of GF(2^128).
    type Element: Copy;
    /// Sums of products of pairs, spread over as many elements as suits the machine.
    type Sums: Copy;

    /// The element with these coefficients.
    fn element(self, bits: u128) -> Self::Element;

    /// Its coefficients.
    fn bits(self, a: Self::Element) -> u128;

    /// The sum of two elements.
    fn add(self, a: Self::Element, b: Self::Element) -> Self::Element;

    /// `terms` added up, each one the product of its two, modulo `x^128 + x^7 + x^2 + x + 1`.
    fn dot<const N: usize>(self, terms: [(Self::Element, Self::Element); N]) -> Self::Element;

    /// No products yet.
    fn nothing(self) -> Self::Sums;

    /// `sums`, and for each pair of words in `row ^ key` the product of the two.
    fn add_pairs(self, sums: Self::Sums, row: &Row, key: &Row) -> Self::Sums;

    /// All of `sums` in one. A product has no more than 127 bits: nothing is reduced.
    fn total(self, sums: Self::Sums) -> Self::Element;
}

/// An algorithm over carry-less products.
pub(crate) trait Kernel {
    /// Result of the search.
    type Output;

    /// Runs it. Implementations are `#[inline(always)]`: only inside of the caller may they use its instructions.
    fn run<C: Carryless>(self, carryless: C) -> Self::Output;
}

/// Declares [`Witness`]: a variant for each way to multiply, the fastest last, with the type that proves it and its
/// name.
macro_rules! witnesses {
    ($($(#[$there:meta])* $variant:ident($type:ty) = $name:literal,)+) => {
        /// A way to multiply that this machine has: each was detected.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Witness {
            $($(#[$there])* $variant($type)),+
        }

        impl Witness {
            /// All that this machine has, the fastest last. The portable one is first, and always there.
            pub(crate) fn detect_all() -> Vec<Self> {
                let mut all = Vec::new();
                $($(#[$there])* all.extend(<$type>::detect().map(Self::$variant));)+
                all
            }

            /// Its name.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $($(#[$there])* Self::$variant(_) => $name),+
                }
            }

            /// Runs `kernel`, compiled for the instructions.
            #[inline]
            pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                match self {
                    $($(#[$there])* Self::$variant(witness) => witness.run(kernel)),+
                }
            }
        }
    };
}

witnesses! {
    Portable(Portable) = "portable",
    #[cfg(target_arch = "x86_64")]
    Pclmul(x86::Pclmul) = "pclmul",
    #[cfg(target_arch = "x86_64")]
    Vpclmul256(x86::Vpclmul256) = "vpclmul256",
    #[cfg(target_arch = "x86_64")]
    Vpclmul512(x86::Vpclmul512) = "vpclmul512",
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
    Pmull(arm::Pmull) = "pmull",
}

/// Declares the witness of some features, and how a kernel is compiled for them.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little")
))]
macro_rules! witness {
    ($(#[$doc:meta])* $name:ident($inner:ty = $value:expr), $detected:ident $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $name($inner);

        impl $name {
            /// A witness, if the processor has all the features.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::$detected!($feature))&&+).then_some(Self($value))
            }

            /// Runs `kernel`, compiled for the features.
            #[inline]
            pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                $(#[target_feature(enable = $feature)])+
                fn featured<K: Kernel>(carryless: $name, kernel: K) -> K::Output {
                    kernel.run(carryless)
                }
                // SAFETY: `self` comes from `detect` alone, which saw every feature that `featured` is compiled for.
                unsafe { featured(self, kernel) }
            }
        }
    };
}

/// Plain Rust, four bits at a time. Needs nothing, so anyone may make one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portable;

impl Portable {
    const fn detect() -> Option<Self> {
        Some(Self)
    }

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl Carryless for Portable {
    type Element = u128;
    type Sums = u128;

    fn element(self, bits: u128) -> u128 {
        bits
    }

    fn bits(self, a: u128) -> u128 {
        a
    }

    fn add(self, a: u128, b: u128) -> u128 {
        a ^ b
    }

    fn dot<const N: usize>(self, terms: [(u128, u128); N]) -> u128 {
        let (mut low, mut high) = (0, 0);
        for (a, b) in terms {
            let (a, b) = ([a as u64, (a >> 64) as u64], [b as u64, (b >> 64) as u64]);
            let middle = multiply(a[0], b[1]) ^ multiply(a[1], b[0]);
            low ^= multiply(a[0], b[0]) ^ middle << 64;
            high ^= multiply(a[1], b[1]) ^ middle >> 64;
        }
        // x^128 is x^7 + x^2 + x + 1. What leaves the 128 bits a second time has seven bits at most.
        let folded = |high: u128| high ^ high << 1 ^ high << 2 ^ high << 7;
        low ^ folded(high) ^ folded(high >> 127 ^ high >> 126 ^ high >> 121)
    }

    fn nothing(self) -> u128 {
        0
    }

    fn add_pairs(self, sums: u128, row: &Row, key: &Row) -> u128 {
        let pairs = row.as_chunks().0.iter().zip(key.as_chunks().0);
        pairs.fold(sums, |sums, (row, key)| {
            let pair = u128::from_le_bytes(*row) ^ u128::from_le_bytes(*key);
            sums ^ multiply(pair as u64, (pair >> 64) as u64)
        })
    }

    fn total(self, sums: u128) -> u128 {
        sums
    }
}

/// The product of two polynomials: four bits of `b` at a time, each by one look at the multiples of `a`.
fn multiply(a: u64, b: u64) -> u128 {
    let mut multiples = [0; 16];
    for n in 1..multiples.len() {
        multiples[n] = multiples[n / 2] << 1 ^ if n % 2 == 1 { u128::from(a) } else { 0 };
    }
    let digits = (0..u64::BITS).step_by(4).rev().map(|n| (b >> n & 15) as usize);
    digits.fold(0, |product, digit| product << 4 ^ multiples[digit])
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::x86::ops;
    use super::{Carryless, Kernel, Row};

    witness! {
        /// The processor multiplies two words.
        Pclmul(() = ()), is_x86_feature_detected "pclmulqdq"
    }
    witness! {
        /// The processor multiplies two words in each half of 32 bytes.
        Vpclmul256(Pclmul = Pclmul(())), is_x86_feature_detected "avx2", "pclmulqdq", "vpclmulqdq"
    }
    witness! {
        /// The processor multiplies two words in each quarter of 64 bytes.
        Vpclmul512(Pclmul = Pclmul(())), is_x86_feature_detected "avx512f", "avx2", "pclmulqdq", "vpclmulqdq"
    }

    impl Pclmul {
        /// Sixteen bytes of a row.
        #[inline(always)]
        fn load(self, row: &Row, quarter: usize) -> __m128i {
            let bytes = &row.as_chunks::<16>().0[quarter];
            // SAFETY: the bytes are there; SSE2 is in the baseline of x86-64, and loads unaligned.
            unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
        }

        ops! {
            // The low word of `pair` times its high word.
            fn pair(self, pair: __m128i) -> __m128i { _mm_clmulepi64_si128::<0x10>(pair, pair) }
            fn xor(self, a: __m128i, b: __m128i) -> __m128i { _mm_xor_si128(a, b) }
            // The 256 bits of `[low, middle * x^64, high * x^128]` modulo x^128 + x^7 + x^2 + x + 1.
            fn reduce(self, low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
                let rest = _mm_cvtsi64_si128(0x87);
                // What the highest word stands for lies where the middle does.
                let middle = self.xor(middle, _mm_clmulepi64_si128::<0x01>(high, rest));
                // So does the word above it, which joins the word that is left of `high`.
                let left = self.xor(_mm_move_epi64(high), _mm_srli_si128::<8>(middle));
                let low = self.xor(low, _mm_slli_si128::<8>(middle));
                self.xor(low, _mm_clmulepi64_si128::<0x00>(left, rest))
            }
        }
    }

    impl Carryless for Pclmul {
        type Element = __m128i;
        type Sums = __m128i;

        ops! {
            fn element(self, bits: u128) -> __m128i {
                _mm_set_epi64x((bits >> 64) as i64, bits as i64)
            }
            fn bits(self, a: __m128i) -> u128 {
                let words = [a, _mm_unpackhi_epi64(a, a)].map(|word| _mm_cvtsi128_si64(word));
                u128::from(words[0].cast_unsigned()) | u128::from(words[1].cast_unsigned()) << 64
            }
            fn nothing(self) -> __m128i { _mm_setzero_si128() }
        }

        #[inline(always)]
        fn add(self, a: __m128i, b: __m128i) -> __m128i {
            self.xor(a, b)
        }

        #[inline(always)]
        fn total(self, sums: __m128i) -> __m128i {
            sums
        }

        #[inline(always)]
        fn dot<const N: usize>(self, terms: [(__m128i, __m128i); N]) -> __m128i {
            let [mut low, mut middle, mut high] = [self.nothing(); 3];
            for (a, b) in terms {
                // SAFETY: `self` witnesses PCLMULQDQ; the intrinsic touches no memory.
                let products = unsafe {
                    [
                        _mm_clmulepi64_si128::<0x00>(a, b),
                        _mm_clmulepi64_si128::<0x01>(a, b),
                        _mm_clmulepi64_si128::<0x10>(a, b),
                        _mm_clmulepi64_si128::<0x11>(a, b),
                    ]
                };
                low = self.xor(low, products[0]);
                middle = self.xor(middle, self.xor(products[1], products[2]));
                high = self.xor(high, products[3]);
            }
            self.reduce(low, middle, high)
        }

        #[inline(always)]
        fn add_pairs(self, sums: __m128i, row: &Row, key: &Row) -> __m128i {
            (0..4).fold(sums, |sums, n| {
                self.xor(sums, self.pair(self.xor(self.load(row, n), self.load(key, n))))
            })
        }
    }

    /// Elements that a wider witness takes from the narrow one in it.
    macro_rules! elements_of_pclmul {
        () => {
            type Element = __m128i;

            #[inline(always)]
            fn element(self, bits: u128) -> __m128i {
                self.0.element(bits)
            }

            #[inline(always)]
            fn bits(self, a: __m128i) -> u128 {
                self.0.bits(a)
            }

            #[inline(always)]
            fn add(self, a: __m128i, b: __m128i) -> __m128i {
                self.0.xor(a, b)
            }

            #[inline(always)]
            fn dot<const N: usize>(self, terms: [(__m128i, __m128i); N]) -> __m128i {
                self.0.dot(terms)
            }
        };
    }

    impl Vpclmul256 {
        /// Half a row.
        #[inline(always)]
        fn load(self, row: &Row, half: usize) -> __m256i {
            let bytes = &row.as_chunks::<32>().0[half];
            // SAFETY: the bytes are there; `self` witnesses AVX2, which loads unaligned.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        }

        ops! {
            fn pair(self, pair: __m256i) -> __m256i { _mm256_clmulepi64_epi128::<0x10>(pair, pair) }
            fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        }
    }

    impl Carryless for Vpclmul256 {
        type Sums = __m256i;

        elements_of_pclmul!();

        ops! {
            fn nothing(self) -> __m256i { _mm256_setzero_si256() }
            fn total(self, sums: __m256i) -> __m128i {
                self.0.xor(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums))
            }
        }

        #[inline(always)]
        fn add_pairs(self, sums: __m256i, row: &Row, key: &Row) -> __m256i {
            (0..2).fold(sums, |sums, n| {
                self.xor(sums, self.pair(self.xor(self.load(row, n), self.load(key, n))))
            })
        }
    }

    impl Vpclmul512 {
        #[inline(always)]
        fn load(self, row: &Row) -> __m512i {
            // SAFETY: a row has the bytes; `self` witnesses AVX-512F, which loads unaligned.
            unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
        }
    }

    impl Carryless for Vpclmul512 {
        type Sums = __m512i;

        elements_of_pclmul!();

        ops! {
            fn nothing(self) -> __m512i { _mm512_setzero_si512() }
            fn total(self, sums: __m512i) -> __m128i {
                let (low, high) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
                let half = _mm256_xor_si256(low, high);
                self.0.xor(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
            }
            fn add_pairs(self, sums: __m512i, row: &Row, key: &Row) -> __m512i {
                let pairs = _mm512_xor_si512(self.load(row), self.load(key));
                _mm512_xor_si512(sums, _mm512_clmulepi64_epi128::<0x10>(pairs, pairs))
            }
        }
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
mod arm {
    use std::arch::aarch64::*;

    use super::{Carryless, Kernel, Row};

    witness! {
        /// The processor multiplies two words.
        Pmull(() = ()), is_aarch64_feature_detected "neon", "aes"
    }

    /// Compiled for the features itself: the intrinsics are inlined into nothing less.
    #[inline]
    #[target_feature(enable = "neon", enable = "aes")]
    fn multiply(a: u64, b: u64) -> uint64x2_t {
        vreinterpretq_u64_p128(vmull_p64(a, b))
    }

    /// Declares methods that are made of intrinsics.
    macro_rules! ops {
        ($(fn $name:ident($self:ident$(, $arg:ident: $type:ty)*) -> $out:ty $body:block)+) => { $(
            #[inline(always)]
            fn $name($self$(, $arg: $type)*) -> $out {
                // SAFETY: `$self` is a witness of the features of all that is called here; nothing of it touches
                // memory.
                unsafe { $body }
            }
        )+ };
    }

    impl Pmull {
        /// Sixteen bytes of a row.
        #[inline(always)]
        fn load(self, row: &Row, quarter: usize) -> uint64x2_t {
            let bytes = &row.as_chunks::<16>().0[quarter];
            // SAFETY: the bytes are there; `self` witnesses NEON, which loads bytes unaligned.
            unsafe { vreinterpretq_u64_u8(vld1q_u8(bytes.as_ptr())) }
        }

        ops! {
            fn multiply(self, a: u64, b: u64) -> uint64x2_t { multiply(a, b) }
            fn low(self, a: uint64x2_t) -> u64 { vgetq_lane_u64::<0>(a) }
            fn high(self, a: uint64x2_t) -> u64 { vgetq_lane_u64::<1>(a) }
            // The 256 bits of `[low, middle * x^64, high * x^128]` modulo x^128 + x^7 + x^2 + x + 1, as x86 has it.
            fn reduce(self, low: uint64x2_t, middle: uint64x2_t, high: uint64x2_t) -> uint64x2_t {
                let middle = self.add(middle, self.multiply(self.high(high), 0x87));
                let left = self.low(high) ^ self.high(middle);
                let low = self.add(low, vextq_u64::<1>(vdupq_n_u64(0), middle));
                self.add(low, self.multiply(left, 0x87))
            }
        }
    }

    impl Carryless for Pmull {
        type Element = uint64x2_t;
        type Sums = uint64x2_t;

        ops! {
            fn element(self, bits: u128) -> uint64x2_t {
                vcombine_u64(vcreate_u64(bits as u64), vcreate_u64((bits >> 64) as u64))
            }
            fn add(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t { veorq_u64(a, b) }
            fn nothing(self) -> uint64x2_t { vdupq_n_u64(0) }
        }

        #[inline(always)]
        fn bits(self, a: uint64x2_t) -> u128 {
            u128::from(self.low(a)) | u128::from(self.high(a)) << 64
        }

        #[inline(always)]
        fn total(self, sums: uint64x2_t) -> uint64x2_t {
            sums
        }

        #[inline(always)]
        fn dot<const N: usize>(self, terms: [(uint64x2_t, uint64x2_t); N]) -> uint64x2_t {
            let [mut low, mut middle, mut high] = [self.nothing(); 3];
            for (a, b) in terms {
                let (a, b) = ([self.low(a), self.high(a)], [self.low(b), self.high(b)]);
                low = self.add(low, self.multiply(a[0], b[0]));
                middle = self.add(middle, self.multiply(a[0], b[1]));
                middle = self.add(middle, self.multiply(a[1], b[0]));
                high = self.add(high, self.multiply(a[1], b[1]));
            }
            self.reduce(low, middle, high)
        }

        #[inline(always)]
        fn add_pairs(self, sums: uint64x2_t, row: &Row, key: &Row) -> uint64x2_t {
            (0..4).fold(sums, |sums, n| {
                let pair = self.add(self.load(row, n), self.load(key, n));
                self.add(sums, self.multiply(self.low(pair), self.high(pair)))
            })
        }
    }
}
