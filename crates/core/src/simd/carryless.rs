//! Carry-less multiplication of rows of bytes, the core of the keyed sum.
//!
//! A number is a polynomial over GF(2); its lowest bit is the coefficient of `x^0`, and bytes are
//! little-endian. An algorithm is a [`CarrylessKernel`], generic over [`Carryless`]. The types that implement
//! `Carryless` are witnesses, like those of [`Simd`](super::Simd):
//!
//! ```text
//! keyed.rs  ── impl CarrylessKernel ──►  MultiplierWitness::run  ── picks ──►  Portable | Pclmul | Vpclmul256 | … | Pmull
//! ```
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

/// Length of a [`Row`] in bytes.
pub(crate) const ROW_BYTES: usize = 64;

/// Operands of one step: four pairs of 64-bit words.
pub(crate) type Row = [u8; ROW_BYTES];

/// Carry-less multiplication.
pub(crate) trait Carryless: Copy {
    /// A polynomial of degree below 128: an element of GF(2^128).
    type Element: Copy;
    /// A sum of products of pairs. It consists of as many elements as suit the machine.
    type Sums: Copy;

    /// Converts `bits` to an element; bit `n` is the coefficient of `x^n`.
    fn element(self, bits: u128) -> Self::Element;

    /// Converts an element to its coefficients: the inverse of [`element`](Self::element).
    fn bits(self, a: Self::Element) -> u128;

    /// The sum of two elements.
    fn add(self, a: Self::Element, b: Self::Element) -> Self::Element;

    /// The sum of the products of all pairs in `terms`, modulo `x^128 + x^7 + x^2 + x + 1`.
    fn dot<const N: usize>(self, terms: [(Self::Element, Self::Element); N]) -> Self::Element;

    /// The empty sum.
    fn zero(self) -> Self::Sums;

    /// XORs `row` with `key`, multiplies the two words of each pair, and adds the products to `sums`.
    fn add_pairs(self, sums: Self::Sums, row: &Row, key: &Row) -> Self::Sums;

    /// Adds up all elements of `sums`. A product has at most 127 bits, so no reduction is needed.
    fn total(self, sums: Self::Sums) -> Self::Element;
}

/// An algorithm over carry-less products.
pub(crate) trait CarrylessKernel {
    /// Result of the algorithm.
    type Output;

    /// Runs the algorithm. Implementations must be `#[inline(always)]`, because only code inlined into the
    /// caller is compiled with its CPU features.
    fn run<C: Carryless>(self, carryless: C) -> Self::Output;
}

/// Declares [`MultiplierWitness`]: one variant for each multiplier, the fastest last, with its witness type and name.
macro_rules! witnesses {
    ($($(#[$there:meta])* $variant:ident($type:ty) = $name:literal,)+) => {
        /// Proof that this machine supports a multiplier. Values come only from detection.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum MultiplierWitness {
            $($(#[$there])* $variant($type)),+
        }

        impl MultiplierWitness {
            /// The multipliers of this machine, from portable code to the fastest.
            pub(crate) fn detect_all() -> Vec<Self> {
                let mut all = Vec::new();
                $($(#[$there])* all.extend(<$type>::detect().map(Self::$variant));)+
                all
            }

            /// Name of the multiplier.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $($(#[$there])* Self::$variant(_) => $name),+
                }
            }

            /// Runs `kernel`, compiled for the features of this multiplier.
            #[inline]
            pub(crate) fn run<K: CarrylessKernel>(self, kernel: K) -> K::Output {
                match self {
                    $($(#[$there])* Self::$variant(witness) => witness.run(kernel)),+
                }
            }
        }
    };
}

witnesses! {
    Portable(PortableMultiplier) = "portable",
    #[cfg(target_arch = "x86_64")]
    Pclmul(x86::Pclmul) = "pclmul",
    #[cfg(target_arch = "x86_64")]
    Vpclmul256(x86::Vpclmul256) = "vpclmul256",
    #[cfg(target_arch = "x86_64")]
    Vpclmul512(x86::Vpclmul512) = "vpclmul512",
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
    Pmull(arm::Pmull) = "pmull",
}

/// Declares the witness type of some CPU features, and a function that runs kernels compiled for these features.
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
            /// Returns a witness if the CPU has all features.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::$detected!($feature))&&+).then_some(Self($value))
            }

            /// Runs `kernel`, compiled for these features.
            #[inline]
            pub(super) fn run<K: CarrylessKernel>(self, kernel: K) -> K::Output {
                $(#[target_feature(enable = $feature)])+
                fn run_with_features<K: CarrylessKernel>(carryless: $name, kernel: K) -> K::Output {
                    kernel.run(carryless)
                }
                // SAFETY: `self` comes from `detect` alone, which saw every feature that `run_with_features` is compiled for.
                unsafe { run_with_features(self, kernel) }
            }
        }
    };
}

/// Portable Rust, four bits at a time. Needs no CPU feature, so its constructor is public in the crate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortableMultiplier;

impl PortableMultiplier {
    const fn detect() -> Option<Self> {
        Some(Self)
    }

    fn run<K: CarrylessKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl Carryless for PortableMultiplier {
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
        // x^128 is x^7 + x^2 + x + 1. The second overflow past 128 bits has at most seven bits.
        let folded = |high: u128| high ^ high << 1 ^ high << 2 ^ high << 7;
        low ^ folded(high) ^ folded(high >> 127 ^ high >> 126 ^ high >> 121)
    }

    fn zero(self) -> u128 {
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

/// The product of two polynomials, by a table of the multiples of `a` for each four bits of `b`.
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
    use super::{Carryless, CarrylessKernel, Row};

    witness! {
        /// PCLMULQDQ: one product of 64-bit words for each instruction.
        Pclmul(() = ()), is_x86_feature_detected "pclmulqdq"
    }
    witness! {
        /// VPCLMULQDQ on 32 bytes: two products for each instruction.
        Vpclmul256(Pclmul = Pclmul(())), is_x86_feature_detected "avx2", "pclmulqdq", "vpclmulqdq"
    }
    witness! {
        /// VPCLMULQDQ on 64 bytes: four products for each instruction.
        Vpclmul512(Pclmul = Pclmul(())), is_x86_feature_detected "avx512f", "avx2", "pclmulqdq", "vpclmulqdq"
    }

    impl Pclmul {
        /// Loads sixteen bytes of a row.
        #[inline(always)]
        fn load(self, row: &Row, quarter: usize) -> __m128i {
            let bytes = &row.as_chunks::<16>().0[quarter];
            // SAFETY: `bytes` has 16 bytes; SSE2, in the baseline of x86-64, loads unaligned.
            unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
        }

        ops! {
            // The low word of `pair` times its high word.
            fn multiply_pair(self, pair: __m128i) -> __m128i {
                _mm_clmulepi64_si128::<0x10>(pair, pair)
            }
            fn xor(self, a: __m128i, b: __m128i) -> __m128i { _mm_xor_si128(a, b) }
            // The 256 bits of `[low, middle * x^64, high * x^128]` modulo x^128 + x^7 + x^2 + x + 1.
            fn reduce(self, low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
                let rest = _mm_cvtsi64_si128(0x87);
                // The highest word, reduced, lies at the position of the middle words.
                let middle = self.xor(middle, _mm_clmulepi64_si128::<0x01>(high, rest));
                // The word above it joins the other word of `high`.
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
            fn zero(self) -> __m128i { _mm_setzero_si128() }
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
            let [mut low, mut middle, mut high] = [self.zero(); 3];
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
                self.xor(sums, self.multiply_pair(self.xor(self.load(row, n), self.load(key, n))))
            })
        }
    }

    /// Implements operations on elements by the narrow witness inside a wider one.
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
        /// Loads half a row.
        #[inline(always)]
        fn load(self, row: &Row, half: usize) -> __m256i {
            let bytes = &row.as_chunks::<32>().0[half];
            // SAFETY: `bytes` has 32 bytes; `self` witnesses AVX2, which loads unaligned.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        }

        ops! {
            fn multiply_pair(self, pair: __m256i) -> __m256i {
                _mm256_clmulepi64_epi128::<0x10>(pair, pair)
            }
            fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        }
    }

    impl Carryless for Vpclmul256 {
        type Sums = __m256i;

        elements_of_pclmul!();

        ops! {
            fn zero(self) -> __m256i { _mm256_setzero_si256() }
            fn total(self, sums: __m256i) -> __m128i {
                self.0.xor(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums))
            }
        }

        #[inline(always)]
        fn add_pairs(self, sums: __m256i, row: &Row, key: &Row) -> __m256i {
            (0..2).fold(sums, |sums, n| {
                self.xor(sums, self.multiply_pair(self.xor(self.load(row, n), self.load(key, n))))
            })
        }
    }

    impl Vpclmul512 {
        #[inline(always)]
        fn load(self, row: &Row) -> __m512i {
            // SAFETY: a row has 64 bytes; `self` witnesses AVX-512F, which loads unaligned.
            unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
        }
    }

    impl Carryless for Vpclmul512 {
        type Sums = __m512i;

        elements_of_pclmul!();

        ops! {
            fn zero(self) -> __m512i { _mm512_setzero_si512() }
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

    use super::{Carryless, CarrylessKernel, Row};

    witness! {
        /// PMULL: one product of 64-bit words for each instruction.
        Pmull(() = ()), is_aarch64_feature_detected "neon", "aes"
    }

    /// Compiled for these features itself, because the intrinsics cannot be inlined into code without the
    /// features.
    #[inline]
    #[target_feature(enable = "neon", enable = "aes")]
    fn multiply(a: u64, b: u64) -> uint64x2_t {
        vreinterpretq_u64_p128(vmull_p64(a, b))
    }

    /// Declares methods that consist of intrinsics.
    macro_rules! ops {
        ($(fn $name:ident($self:ident$(, $arg:ident: $type:ty)*) -> $out:ty $body:block)+) => { $(
            #[inline(always)]
            fn $name($self$(, $arg: $type)*) -> $out {
                // SAFETY: `$self` is a witness of the features of all intrinsics called here; none of them
                // accesses memory.
                unsafe { $body }
            }
        )+ };
    }

    impl Pmull {
        /// Loads sixteen bytes of a row.
        #[inline(always)]
        fn load(self, row: &Row, quarter: usize) -> uint64x2_t {
            let bytes = &row.as_chunks::<16>().0[quarter];
            // SAFETY: `bytes` has 16 bytes; `self` witnesses NEON, which loads bytes unaligned.
            unsafe { vreinterpretq_u64_u8(vld1q_u8(bytes.as_ptr())) }
        }

        ops! {
            fn multiply(self, a: u64, b: u64) -> uint64x2_t { multiply(a, b) }
            fn low(self, a: uint64x2_t) -> u64 { vgetq_lane_u64::<0>(a) }
            fn high(self, a: uint64x2_t) -> u64 { vgetq_lane_u64::<1>(a) }
            // The 256 bits of `[low, middle * x^64, high * x^128]` modulo x^128 + x^7 + x^2 + x + 1, as on x86.
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
            fn zero(self) -> uint64x2_t { vdupq_n_u64(0) }
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
            let [mut low, mut middle, mut high] = [self.zero(); 3];
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
