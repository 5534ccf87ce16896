//! SSE4.1, AVX2, and AVX-512 with the extensions of Ice Lake and Zen 4.
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

use std::arch::x86_64::*;

use super::vector::{Kernel, Simd, TermSums};

/// Declares the witness type of some CPU features, and a function that runs kernels compiled for these features.
macro_rules! witness {
    ($(#[$doc:meta])* $name:ident needs $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $name(());

        impl $name {
            /// Returns a witness if the CPU has all features.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::is_x86_feature_detected!($feature))&&+).then_some(Self(()))
            }

            /// Runs `kernel`, compiled for these features.
            #[inline]
            pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                #[inline]
                $(#[target_feature(enable = $feature)])+
                fn run_with_features<K: Kernel>(simd: $name, kernel: K) -> K::Output {
                    kernel.run(simd)
                }
                // SAFETY: `self` comes from `detect` alone, which saw every feature that `run_with_features` is compiled for.
                unsafe { run_with_features(self, kernel) }
            }
        }
    };
}

/// Declares methods that consist of intrinsics, for a witness or a type that holds one.
macro_rules! ops {
    ($(fn $name:ident($self:ident$(, $arg:ident: $type:ty)*) -> $out:ty $body:block)+) => { $(
        #[inline(always)]
        fn $name($self$(, $arg: $type)*) -> $out {
            // SAFETY: `$self` is or holds a witness of the features of each intrinsic here; none of them
            // accesses memory.
            unsafe { $body }
        }
    )+ };
}

pub(super) use ops;

witness! {
    /// A witness of SSE4.1: vectors of 16 bytes, with maxima and byte shuffles.
    Sse needs "ssse3", "sse4.1", "popcnt"
}
witness! {
    /// A witness of AVX2: vectors of 32 bytes.
    Avx2 needs "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}
witness! {
    /// A witness of AVX-512: vectors of 64 bytes.
    Avx512 needs "avx512f", "avx512bw", "avx512vbmi", "gfni", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt"
}

impl Simd for Sse {
    type Vector = __m128i;
    type Table = __m128i;
    type TermSums = TermSums<__m128i>;

    const LANES: usize = 16;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m128i {
        assert!(bytes.len() >= Self::LANES, "a load needs a whole vector of bytes");
        // SAFETY: `bytes` has 16 bytes; the features that `self` witnesses include SSE2, which loads unaligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8]) {
        prefetch(bytes);
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
        fn and(self, a: __m128i, b: __m128i) -> __m128i { _mm_and_si128(a, b) }
        fn or(self, a: __m128i, b: __m128i) -> __m128i { _mm_or_si128(a, b) }
        fn ge(self, a: __m128i, b: __m128i) -> u64 { self.eq(_mm_max_epu8(a, b), a) }
        fn eq(self, a: __m128i, b: __m128i) -> u64 { _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u64 }
        fn highest(self, a: __m128i) -> u8 {
            // SSE has one minimum across lanes, of eight 16-bit numbers.
            let flipped = _mm_xor_si128(a, _mm_set1_epi8(-1));
            !(_mm_cvtsi128_si32(lowest(flipped)) as u8)
        }
        fn lowest(self, a: __m128i) -> u8 { _mm_cvtsi128_si32(lowest(a)) as u8 }
        fn look_up_by_low_nibble(self, table: __m128i, a: __m128i) -> __m128i {
            _mm_shuffle_epi8(table, _mm_and_si128(a, _mm_set1_epi8(15)))
        }
        fn look_up_by_high_nibble(self, table: __m128i, a: __m128i) -> __m128i {
            _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16::<4>(a), _mm_set1_epi8(15)))
        }
        fn zero(self) -> TermSums<__m128i> { TermSums::new(_mm_setzero_si128()) }
    }

    #[inline(always)]
    fn sums(self, before: &mut TermSums<__m128i>, ones: __m128i) -> [__m128i; 2] {
        // SAFETY: `self` witnesses SSSE3, which includes all intrinsics here; none accesses memory.
        unsafe {
            let behind = _mm_alignr_epi8::<15>(ones, before.ones);
            let twos = _mm_add_epi8(ones, self.turned_by_one(behind));
            let behind = _mm_alignr_epi8::<14>(twos, before.twos);
            let turned =
                self.select(0b1111_1100, _mm_slli_epi16::<2>(behind), _mm_srli_epi16::<6>(behind));
            let fours = _mm_add_epi8(twos, turned);
            let behind = _mm_alignr_epi8::<12>(fours, before.fours);
            let turned =
                self.select(0b1111_0000, _mm_slli_epi16::<4>(behind), _mm_srli_epi16::<4>(behind));
            let eights = _mm_add_epi8(fours, turned);
            let behind = _mm_alignr_epi8::<8>(eights, before.eights);
            *before = TermSums { ones, twos, fours, eights };
            [eights, _mm_add_epi8(eights, self.turned_by_one(behind))]
        }
    }
}

/// Prefetches the cache lines of `bytes`.
#[inline(always)]
fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        // SAFETY: every CPU with vectors has SSE, and a prefetch has no visible effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// The smallest byte, in lane 0.
#[inline(always)]
unsafe fn lowest(a: __m128i) -> __m128i {
    // SAFETY: the caller has SSE4.1.
    unsafe { _mm_minpos_epu16(_mm_min_epu8(a, _mm_srli_epi16::<8>(a))) }
}

impl Sse {
    ops! {
        // SSE has no shift of bytes: doubles each byte, and adds one if the highest bit is lost.
        fn turned_by_one(self, a: __m128i) -> __m128i {
            _mm_sub_epi8(_mm_add_epi8(a, a), _mm_cmplt_epi8(a, _mm_setzero_si128()))
        }
        // The bits of `a` where `mask` is one, else the bits of `b`.
        fn select(self, mask: u8, a: __m128i, b: __m128i) -> __m128i {
            let mask = self.splat(mask);
            _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b))
        }
    }
}

impl Simd for Avx2 {
    type Vector = __m256i;
    type Table = __m256i;
    type TermSums = TermSums<__m256i>;

    const LANES: usize = 32;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m256i {
        assert!(bytes.len() >= Self::LANES, "a load needs a whole vector of bytes");
        // SAFETY: `bytes` has 32 bytes; the features that `self` witnesses include AVX, which loads unaligned.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8]) {
        prefetch(bytes);
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: `bytes` has sixteen bytes; `self` witnesses AVX2.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    ops! {
        fn splat(self, byte: u8) -> __m256i { _mm256_set1_epi8(byte.cast_signed()) }
        fn max(self, a: __m256i, b: __m256i) -> __m256i { _mm256_max_epu8(a, b) }
        fn min(self, a: __m256i, b: __m256i) -> __m256i { _mm256_min_epu8(a, b) }
        fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn and(self, a: __m256i, b: __m256i) -> __m256i { _mm256_and_si256(a, b) }
        fn or(self, a: __m256i, b: __m256i) -> __m256i { _mm256_or_si256(a, b) }
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
        fn look_up_by_low_nibble(self, table: __m256i, a: __m256i) -> __m256i {
            _mm256_shuffle_epi8(table, _mm256_and_si256(a, _mm256_set1_epi8(15)))
        }
        fn look_up_by_high_nibble(self, table: __m256i, a: __m256i) -> __m256i {
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(a), _mm256_set1_epi8(15));
            _mm256_shuffle_epi8(table, high)
        }
        fn zero(self) -> TermSums<__m256i> { TermSums::new(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    fn sums(self, before: &mut TermSums<__m256i>, ones: __m256i) -> [__m256i; 2] {
        // SAFETY: `self` witnesses AVX2, which includes all intrinsics here; none accesses memory.
        unsafe {
            // The upper half of the previous vector and the lower half of the current one.
            let middle = |now, before| _mm256_permute2x128_si256::<0x21>(before, now);
            let behind = _mm256_alignr_epi8::<15>(ones, middle(ones, before.ones));
            let twos = _mm256_add_epi8(ones, self.turned_by_one(behind));
            let behind = _mm256_alignr_epi8::<14>(twos, middle(twos, before.twos));
            let turned = self.select(
                0b1111_1100,
                _mm256_slli_epi16::<2>(behind),
                _mm256_srli_epi16::<6>(behind),
            );
            let fours = _mm256_add_epi8(twos, turned);
            let behind = _mm256_alignr_epi8::<12>(fours, middle(fours, before.fours));
            let turned = self.select(
                0b1111_0000,
                _mm256_slli_epi16::<4>(behind),
                _mm256_srli_epi16::<4>(behind),
            );
            let eights = _mm256_add_epi8(fours, turned);
            let behind = _mm256_alignr_epi8::<8>(eights, middle(eights, before.eights));
            *before = TermSums { ones, twos, fours, eights };
            [eights, _mm256_add_epi8(eights, self.turned_by_one(behind))]
        }
    }
}

impl Avx2 {
    ops! {
        // As for SSE.
        fn turned_by_one(self, a: __m256i) -> __m256i {
            _mm256_sub_epi8(_mm256_add_epi8(a, a), _mm256_cmpgt_epi8(_mm256_setzero_si256(), a))
        }
        fn select(self, mask: u8, a: __m256i, b: __m256i) -> __m256i {
            let mask = self.splat(mask);
            _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b))
        }
    }
}

impl Simd for Avx512 {
    type Vector = __m512i;
    type Table = __m512i;
    type TermSums = TermSums<__m512i>;

    const LANES: usize = 64;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m512i {
        assert!(bytes.len() >= Self::LANES, "a load needs a whole vector of bytes");
        // SAFETY: `bytes` has 64 bytes; the features that `self` witnesses include AVX-512F, which loads
        // unaligned.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8]) {
        prefetch(bytes);
    }

    #[inline(always)]
    fn table(self, bytes: &[u8; 16]) -> __m512i {
        // SAFETY: `bytes` has sixteen bytes; `self` witnesses AVX-512F.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    ops! {
        fn splat(self, byte: u8) -> __m512i { _mm512_set1_epi8(byte.cast_signed()) }
        fn max(self, a: __m512i, b: __m512i) -> __m512i { _mm512_max_epu8(a, b) }
        fn min(self, a: __m512i, b: __m512i) -> __m512i { _mm512_min_epu8(a, b) }
        fn xor(self, a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn and(self, a: __m512i, b: __m512i) -> __m512i { _mm512_and_si512(a, b) }
        fn or(self, a: __m512i, b: __m512i) -> __m512i { _mm512_or_si512(a, b) }
        fn ge(self, a: __m512i, b: __m512i) -> u64 { _mm512_cmpge_epu8_mask(a, b) }
        fn eq(self, a: __m512i, b: __m512i) -> u64 { _mm512_cmpeq_epi8_mask(a, b) }
        fn highest(self, a: __m512i) -> u8 { !self.lowest(_mm512_xor_si512(a, _mm512_set1_epi8(-1))) }
        fn lowest(self, a: __m512i) -> u8 {
            let half = _mm256_min_epu8(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a));
            let low = _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
            _mm_cvtsi128_si32(lowest(low)) as u8
        }
        fn look_up_by_low_nibble(self, table: __m512i, a: __m512i) -> __m512i {
            // Six bits select an entry; the table has the sixteen bytes four times, so no bits need to be
            // cleared.
            _mm512_permutexvar_epi8(a, table)
        }
        fn look_up_by_high_nibble(self, table: __m512i, a: __m512i) -> __m512i {
            _mm512_permutexvar_epi8(_mm512_srli_epi16::<4>(a), table)
        }
        fn zero(self) -> TermSums<__m512i> { TermSums::new(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    fn sums(self, before: &mut TermSums<__m512i>, ones: __m512i) -> [__m512i; 2] {
        let turned = self.turned(0x8001_0204_0810_2040, self.behind(1, ones, before.ones));
        let twos = self.add(ones, turned);
        let turned = self.turned(0x4080_0102_0408_1020, self.behind(2, twos, before.twos));
        let fours = self.add(twos, turned);
        let turned = self.turned(0x1020_4080_0102_0408, self.behind(4, fours, before.fours));
        let eights = self.add(fours, turned);
        let turned = self.turned(0x8001_0204_0810_2040, self.behind(8, eights, before.eights));
        *before = TermSums { ones, twos, fours, eights };
        [eights, self.add(eights, turned)]
    }
}

impl Avx512 {
    ops! {
        fn add(self, a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi8(a, b) }
        fn behind(self, lanes: u8, now: __m512i, before: __m512i) -> __m512i {
            // Indices below 64 select lanes of the previous vector.
            let from = _mm512_sub_epi8(self.load(&LANES_OF_NOW), self.splat(lanes));
            _mm512_permutex2var_epi8(before, from, now)
        }
        fn turned(self, matrix: u64, a: __m512i) -> __m512i {
            _mm512_gf2p8affine_epi64_epi8::<0>(a, _mm512_set1_epi64(matrix.cast_signed()))
        }
    }
}

/// The indices of the second vector's lanes in a permutation of two vectors.
static LANES_OF_NOW: [u8; 64] = {
    let mut lanes = [0; 64];
    let mut n = 0;
    while n < lanes.len() {
        lanes[n] = 64 + n as u8;
        n += 1;
    }
    lanes
};
