//! Vectors of words with gather instructions for SS-CDC (AVX2, AVX-512): gathers bytes of distant regions and
//! entries of tables.
#![allow(unsafe_code, reason = "intrinsics: see docs/ARCHITECTURE.md, walls")]

use std::arch::x86_64::*;

use super::x86::{Avx2, Avx512, ops};

/// A vector of words of one width. Lane 0 belongs to the first region.
pub(crate) trait WordVector: Copy {
    /// Word of one lane.
    type Word: Copy;
    /// A vector of words, one in each lane.
    type Vector: Copy;

    /// Number of words in a vector.
    const LANES: usize;
    /// Number of bytes in a word.
    const BYTES: usize;

    /// A vector with `word` in each lane.
    fn splat(self, word: Self::Word) -> Self::Vector;

    /// Lane-wise exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Lane-wise wrapping sum.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Each lane shifted right by one byte.
    fn shift_right_one_byte(self, a: Self::Vector) -> Self::Vector;

    /// A bit mask of the lanes with `a >= b`; lane 0 is the lowest bit.
    fn ge(self, a: Self::Vector, b: Self::Vector) -> u16;

    /// Table entries, indexed by the low byte of each lane.
    fn look_up(self, table: &[Self::Word; 256], a: Self::Vector) -> Self::Vector;

    /// Loads lane n from `data[at + n * stride..]`.
    fn gather(self, data: &[u8], at: usize, stride: usize) -> Self::Vector;
}

/// Gather instructions of the machine.
#[derive(Clone, Copy)]
pub(crate) enum Gathers {
    Avx2(Words32<Avx2>, Words64<Avx2>),
    Avx512(Words32<Avx512>, Words64<Avx512>),
}

/// Words of 32 bits: eight with AVX2, sixteen with AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct Words32<I>(pub(super) I);

/// Words of 64 bits: four with AVX2, eight with AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct Words64<I>(pub(super) I);

impl WordVector for Words32<Avx2> {
    type Word = u32;
    type Vector = __m256i;

    const LANES: usize = 8;
    const BYTES: usize = 4;

    ops! {
        fn splat(self, word: u32) -> __m256i { _mm256_set1_epi32(word.cast_signed()) }
        fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn add(self, a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi32(a, b) }
        fn shift_right_one_byte(self, a: __m256i) -> __m256i { _mm256_srli_epi32::<8>(a) }
        fn ge(self, a: __m256i, b: __m256i) -> u16 {
            let is_larger = _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a);
            _mm256_movemask_ps(_mm256_castsi256_ps(is_larger)) as u16
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u32; 256], a: __m256i) -> __m256i {
        // SAFETY: `self` holds a witness of AVX2; indices are masked to a byte, and the table has an entry for
        // each index.
        unsafe {
            let index = _mm256_and_si256(a, _mm256_set1_epi32(0xff));
            _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), index)
        }
    }

    #[inline(always)]
    fn gather(self, data: &[u8], at: usize, stride: usize) -> __m256i {
        let begin = &data[at..];
        assert!(stride <= MAX_STRIDE && (Self::LANES - 1) * stride + Self::BYTES <= begin.len());
        // SAFETY: `self` holds a witness of AVX2; the word of the last lane ends within `begin`, as asserted,
        // and all offsets fit in 32 bits, signed.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let offsets = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(stride as i32));
            _mm256_i32gather_epi32::<1>(begin.as_ptr().cast(), offsets)
        }
    }
}

impl WordVector for Words64<Avx2> {
    type Word = u64;
    type Vector = __m256i;

    const LANES: usize = 4;
    const BYTES: usize = 8;

    ops! {
        fn splat(self, word: u64) -> __m256i { _mm256_set1_epi64x(word.cast_signed()) }
        fn xor(self, a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn add(self, a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi64(a, b) }
        fn shift_right_one_byte(self, a: __m256i) -> __m256i { _mm256_srli_epi64::<8>(a) }
        fn ge(self, a: __m256i, b: __m256i) -> u16 {
            // AVX2 compares signed words only.
            let sign = _mm256_set1_epi64x(i64::MIN);
            let is_less = _mm256_cmpgt_epi64(_mm256_xor_si256(b, sign), _mm256_xor_si256(a, sign));
            !_mm256_movemask_pd(_mm256_castsi256_pd(is_less)) as u16 & 0b1111
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u64; 256], a: __m256i) -> __m256i {
        // SAFETY: `self` holds a witness of AVX2; indices are masked to a byte, and the table has an entry for
        // each index.
        unsafe {
            let index = _mm256_and_si256(a, _mm256_set1_epi64x(0xff));
            _mm256_i64gather_epi64::<8>(table.as_ptr().cast(), index)
        }
    }

    #[inline(always)]
    fn gather(self, data: &[u8], at: usize, stride: usize) -> __m256i {
        let begin = &data[at..];
        assert!(stride <= MAX_STRIDE && (Self::LANES - 1) * stride + Self::BYTES <= begin.len());
        // SAFETY: `self` holds a witness of AVX2; the word of the last lane ends within `begin`, as asserted,
        // and all offsets fit in 32 bits, signed.
        unsafe {
            let lanes = _mm_setr_epi32(0, 1, 2, 3);
            let offsets = _mm_mullo_epi32(lanes, _mm_set1_epi32(stride as i32));
            _mm256_i32gather_epi64::<1>(begin.as_ptr().cast(), offsets)
        }
    }
}

impl WordVector for Words32<Avx512> {
    type Word = u32;
    type Vector = __m512i;

    const LANES: usize = 16;
    const BYTES: usize = 4;

    ops! {
        fn splat(self, word: u32) -> __m512i { _mm512_set1_epi32(word.cast_signed()) }
        fn xor(self, a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn add(self, a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi32(a, b) }
        fn shift_right_one_byte(self, a: __m512i) -> __m512i { _mm512_srli_epi32::<8>(a) }
        fn ge(self, a: __m512i, b: __m512i) -> u16 { _mm512_cmpge_epu32_mask(a, b) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u32; 256], a: __m512i) -> __m512i {
        // SAFETY: `self` holds a witness of AVX-512F; indices are masked to a byte, and the table has an entry
        // for each index.
        unsafe {
            let index = _mm512_and_si512(a, _mm512_set1_epi32(0xff));
            _mm512_i32gather_epi32::<4>(index, table.as_ptr().cast())
        }
    }

    #[inline(always)]
    fn gather(self, data: &[u8], at: usize, stride: usize) -> __m512i {
        let begin = &data[at..];
        assert!(stride <= MAX_STRIDE && (Self::LANES - 1) * stride + Self::BYTES <= begin.len());
        // SAFETY: `self` holds a witness of AVX-512F; the word of the last lane ends within `begin`, as
        // asserted, and all offsets fit in 32 bits, signed.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let offsets = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride as i32));
            _mm512_i32gather_epi32::<1>(offsets, begin.as_ptr().cast())
        }
    }
}

impl WordVector for Words64<Avx512> {
    type Word = u64;
    type Vector = __m512i;

    const LANES: usize = 8;
    const BYTES: usize = 8;

    ops! {
        fn splat(self, word: u64) -> __m512i { _mm512_set1_epi64(word.cast_signed()) }
        fn xor(self, a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn add(self, a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi64(a, b) }
        fn shift_right_one_byte(self, a: __m512i) -> __m512i { _mm512_srli_epi64::<8>(a) }
        fn ge(self, a: __m512i, b: __m512i) -> u16 { u16::from(_mm512_cmpge_epu64_mask(a, b)) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u64; 256], a: __m512i) -> __m512i {
        // SAFETY: `self` holds a witness of AVX-512F; indices are masked to a byte, and the table has an entry
        // for each index.
        unsafe {
            let index = _mm512_and_si512(a, _mm512_set1_epi64(0xff));
            _mm512_i64gather_epi64::<8>(index, table.as_ptr().cast())
        }
    }

    #[inline(always)]
    fn gather(self, data: &[u8], at: usize, stride: usize) -> __m512i {
        let begin = &data[at..];
        assert!(stride <= MAX_STRIDE && (Self::LANES - 1) * stride + Self::BYTES <= begin.len());
        // SAFETY: `self` holds a witness of AVX-512F and of AVX2, which the 256-bit vectors need; the word of
        // the last lane ends within `begin`, as asserted, and all offsets fit in 32 bits, signed.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let offsets = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(stride as i32));
            _mm512_i32gather_epi64::<1>(offsets, begin.as_ptr().cast())
        }
    }
}

/// Largest stride for which no lane's offset overflows.
const MAX_STRIDE: usize = 1 << 24;
