//! SSE4.1, AVX2 and AVX-512 (with its byte instructions).
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

use std::arch::x86_64::*;

use super::{Gear, Kernel, Simd};

/// Declares the witness of some features, and how a kernel is compiled for them.
macro_rules! witness {
    ($(#[$doc:meta])* $name:ident needs $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) struct $name(());

        impl $name {
            /// A witness, if the processor has all the features.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::is_x86_feature_detected!($feature))&&+).then_some(Self(()))
            }

            /// Runs `kernel`, compiled for the features.
            #[inline]
            pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                #[inline]
                $(#[target_feature(enable = $feature)])+
                fn featured<K: Kernel>(simd: $name, kernel: K) -> K::Output {
                    kernel.run(simd)
                }
                // SAFETY: `self` comes from `detect` alone, which saw every feature that `featured` is compiled for.
                unsafe { featured(self, kernel) }
            }
        }
    };
}

/// Declares a method of [`Simd`] that is made of intrinsics.
macro_rules! ops {
    ($(fn $name:ident($self:ident$(, $arg:ident: $type:ty)*) -> $out:ty $body:block)+) => { $(
        #[inline(always)]
        fn $name($self$(, $arg: $type)*) -> $out {
            // SAFETY: `$self` witnesses the features of every intrinsic here; none of them touches memory.
            unsafe { $body }
        }
    )+ };
}

witness! {
    /// The processor has vectors of 16 bytes, with maxima and byte shuffles.
    Sse needs "ssse3", "sse4.1", "popcnt"
}
witness! {
    /// The processor has vectors of 32 bytes.
    Avx2 needs "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}
witness! {
    /// The processor has vectors of 64 bytes.
    Avx512 needs "avx512f", "avx512bw", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}

impl Simd for Sse {
    type Vector = __m128i;
    type Table = __m128i;
    type Gear = Gear<__m128i>;

    const LANES: usize = 16;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m128i {
        assert!(bytes.len() >= Self::LANES, "a vector is loaded whole");
        // SAFETY: the bytes are there; SSE2 is in the features that `self` witnesses, and loads unaligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m128i {
        self.load(bytes)
    }

    ops! {
        fn splat(self, byte: u8) -> __m128i { _mm_set1_epi8(byte.cast_signed()) }
        fn max(self, a: __m128i, b: __m128i) -> __m128i { _mm_max_epu8(a, b) }
        fn min(self, a: __m128i, b: __m128i) -> __m128i { _mm_min_epu8(a, b) }
        fn xor(self, a: __m128i, b: __m128i) -> __m128i { _mm_xor_si128(a, b) }
        fn ge(self, a: __m128i, b: __m128i) -> u64 { self.eq(_mm_max_epu8(a, b), a) }
        fn eq(self, a: __m128i, b: __m128i) -> u64 { _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u64 }
        fn highest(self, a: __m128i) -> u8 {
            // The one minimum across lanes that there is: of eight numbers of sixteen bits.
            let flipped = _mm_xor_si128(a, _mm_set1_epi8(-1));
            !(_mm_cvtsi128_si32(lowest(flipped)) as u8)
        }
        fn lowest(self, a: __m128i) -> u8 { _mm_cvtsi128_si32(lowest(a)) as u8 }
        fn low_nibbles(self, table: __m128i, a: __m128i) -> __m128i {
            _mm_shuffle_epi8(table, _mm_and_si128(a, _mm_set1_epi8(15)))
        }
        fn high_nibbles(self, table: __m128i, a: __m128i) -> __m128i {
            _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16::<4>(a), _mm_set1_epi8(15)))
        }
        fn new_gear(self) -> Gear<__m128i> { Gear::new(_mm_setzero_si128()) }
    }

    #[inline(always)]
    fn gear(self, state: &mut Gear<__m128i>, ones: __m128i) -> __m128i {
        // SAFETY: as for the other intrinsics.
        unsafe {
            let double = |v| _mm_add_epi8(v, v);
            let twos = _mm_add_epi8(ones, double(_mm_alignr_epi8::<15>(ones, state.ones)));
            let fours = _mm_add_epi8(twos, double(double(_mm_alignr_epi8::<14>(twos, state.twos))));
            let shifted = _mm_slli_epi16::<4>(_mm_and_si128(
                _mm_alignr_epi8::<12>(fours, state.fours),
                _mm_set1_epi8(15),
            ));
            *state = Gear { ones, twos, fours };
            _mm_add_epi8(fours, shifted)
        }
    }
}

/// The smallest byte, in lane 0.
#[inline(always)]
unsafe fn lowest(a: __m128i) -> __m128i {
    // SAFETY: the caller has SSE4.1.
    unsafe { _mm_minpos_epu16(_mm_min_epu8(a, _mm_srli_epi16::<8>(a))) }
}

impl Simd for Avx2 {
    type Vector = __m256i;
    type Table = __m256i;
    type Gear = Gear<__m256i>;

    const LANES: usize = 32;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m256i {
        assert!(bytes.len() >= Self::LANES, "a vector is loaded whole");
        // SAFETY: the bytes are there; AVX is in the features that `self` witnesses, and loads unaligned.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: sixteen bytes are there; `self` witnesses AVX2.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    ops! {
        fn splat(self, byte: u8) -> __m256i { _mm256_set1_epi8(byte.cast_signed()) }
        fn max(self, a: __m256i, b: __m256i) -> __m256i { _mm256_max_epu8(a, b) }
        fn min(self, a: __m256i, b: __m256i) -> __m256i { _mm256_min_epu8(a, b) }
        fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn ge(self, a: __m256i, b: __m256i) -> u64 { self.eq(_mm256_max_epu8(a, b), a) }
        fn eq(self, a: __m256i, b: __m256i) -> u64 {
            u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)).cast_unsigned())
        }
        fn highest(self, a: __m256i) -> u8 {
            let flipped = _mm256_xor_si256(a, _mm256_set1_epi8(-1));
            !self.lowest(flipped)
        }
        fn lowest(self, a: __m256i) -> u8 {
            let half = _mm_min_epu8(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            _mm_cvtsi128_si32(lowest(half)) as u8
        }
        fn low_nibbles(self, table: __m256i, a: __m256i) -> __m256i {
            _mm256_shuffle_epi8(table, _mm256_and_si256(a, _mm256_set1_epi8(15)))
        }
        fn high_nibbles(self, table: __m256i, a: __m256i) -> __m256i {
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(a), _mm256_set1_epi8(15));
            _mm256_shuffle_epi8(table, high)
        }
        fn new_gear(self) -> Gear<__m256i> { Gear::new(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    fn gear(self, state: &mut Gear<__m256i>, ones: __m256i) -> __m256i {
        // SAFETY: as for the other intrinsics.
        unsafe {
            let double = |v| _mm256_add_epi8(v, v);
            // The upper half of what was before and the lower half of what is now.
            let middle = |now, before| _mm256_permute2x128_si256::<0x21>(before, now);
            let behind = _mm256_alignr_epi8::<15>(ones, middle(ones, state.ones));
            let twos = _mm256_add_epi8(ones, double(behind));
            let behind = _mm256_alignr_epi8::<14>(twos, middle(twos, state.twos));
            let fours = _mm256_add_epi8(twos, double(double(behind)));
            let behind = _mm256_alignr_epi8::<12>(fours, middle(fours, state.fours));
            let shifted = _mm256_slli_epi16::<4>(_mm256_and_si256(behind, _mm256_set1_epi8(15)));
            *state = Gear { ones, twos, fours };
            _mm256_add_epi8(fours, shifted)
        }
    }
}

impl Simd for Avx512 {
    type Vector = __m512i;
    type Table = __m512i;
    type Gear = Gear<__m512i>;

    const LANES: usize = 64;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m512i {
        assert!(bytes.len() >= Self::LANES, "a vector is loaded whole");
        // SAFETY: the bytes are there; AVX-512F is in the features that `self` witnesses, and loads unaligned.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m512i {
        // SAFETY: sixteen bytes are there; `self` witnesses AVX-512F.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    ops! {
        fn splat(self, byte: u8) -> __m512i { _mm512_set1_epi8(byte.cast_signed()) }
        fn max(self, a: __m512i, b: __m512i) -> __m512i { _mm512_max_epu8(a, b) }
        fn min(self, a: __m512i, b: __m512i) -> __m512i { _mm512_min_epu8(a, b) }
        fn xor(self, a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn ge(self, a: __m512i, b: __m512i) -> u64 { _mm512_cmpge_epu8_mask(a, b) }
        fn eq(self, a: __m512i, b: __m512i) -> u64 { _mm512_cmpeq_epi8_mask(a, b) }
        fn highest(self, a: __m512i) -> u8 { !self.lowest(_mm512_xor_si512(a, _mm512_set1_epi8(-1))) }
        fn lowest(self, a: __m512i) -> u8 {
            let half = _mm256_min_epu8(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a));
            let low = _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
            _mm_cvtsi128_si32(lowest(low)) as u8
        }
        fn low_nibbles(self, table: __m512i, a: __m512i) -> __m512i {
            _mm512_shuffle_epi8(table, _mm512_and_si512(a, _mm512_set1_epi8(15)))
        }
        fn high_nibbles(self, table: __m512i, a: __m512i) -> __m512i {
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(a), _mm512_set1_epi8(15));
            _mm512_shuffle_epi8(table, high)
        }
        fn new_gear(self) -> Gear<__m512i> { Gear::new(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    fn gear(self, state: &mut Gear<__m512i>, ones: __m512i) -> __m512i {
        // SAFETY: as for the other intrinsics.
        unsafe {
            let double = |v| _mm512_add_epi8(v, v);
            // The last quarter of what was before and the first three of what is now.
            let middle = |now, before| _mm512_alignr_epi64::<6>(now, before);
            let behind = _mm512_alignr_epi8::<15>(ones, middle(ones, state.ones));
            let twos = _mm512_add_epi8(ones, double(behind));
            let behind = _mm512_alignr_epi8::<14>(twos, middle(twos, state.twos));
            let fours = _mm512_add_epi8(twos, double(double(behind)));
            let behind = _mm512_alignr_epi8::<12>(fours, middle(fours, state.fours));
            let shifted = _mm512_slli_epi16::<4>(_mm512_and_si512(behind, _mm512_set1_epi8(15)));
            *state = Gear { ones, twos, fours };
            _mm512_add_epi8(fours, shifted)
        }
    }
}
