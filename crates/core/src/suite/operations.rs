//! Test of vector operations: each operation of [`Simd`] is compared with the same operation on bytes.

use super::inputs::random;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd, all_lanes};

/// Compares all vector operations of `isa` with operations on bytes.
///
/// # Errors
/// The name of the first operation that differs.
pub fn check_operations(isa: Isa) -> Result<(), &'static str> {
    let [mut a, mut b] = [1, 2].map(|seed| random(seed, 64 * MAX_LANES));
    // Some bytes are equal, and some have a misleading sign bit.
    for (n, (a, b)) in a.iter_mut().zip(&mut b).enumerate().filter(|(n, _)| n % 3 == 0) {
        *a = [*a, 0, 127, 128, 255][n / 3 % 5];
        *b = [*a, 128, 255, 0, 127][n / 15 % 5];
    }
    let pairs = a.chunks_exact(MAX_LANES).zip(b.chunks_exact(MAX_LANES));
    pairs.into_iter().try_for_each(|(a, b)| isa.run(VectorOperations { a, b }))
}

struct VectorOperations<'a> {
    /// Test bytes, as many as the longest vector has.
    a: &'a [u8],
    /// Test bytes, as many as the longest vector has.
    b: &'a [u8],
}

impl Kernel for VectorOperations<'_> {
    type Output = Result<(), &'static str>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<(), &'static str> {
        let Self { a, b } = self;
        let (va, vb) = (simd.load(a), simd.load(b));
        let all = all_lanes(S::LANES);
        let is = |vector: S::Vector, byte: &dyn Fn(usize) -> u8| {
            let bytes: [u8; MAX_LANES] = std::array::from_fn(byte);
            simd.eq(vector, simd.load(&bytes)) == all
        };
        let mask = |bit: &dyn Fn(usize) -> bool| {
            (0..S::LANES).fold(0, |mask, n| mask | u64::from(bit(n)) << n)
        };
        let table: [u8; 16] = std::array::from_fn(|n| b[n]);
        let nibbles = simd.table(&table);
        let (low, high) =
            (simd.look_up_by_low_nibble(nibbles, va), simd.look_up_by_high_nibble(nibbles, va));
        let mut before = simd.zero();
        simd.sums(&mut before, va);
        let [eights, sixteens] = simd.sums(&mut before, vb);
        let terms = [[0; 15].as_slice(), &a[..S::LANES], &b[..S::LANES]].concat();
        let sum = |n: usize, count: usize| {
            let end = 16 + S::LANES + n % S::LANES;
            doubled(&terms[end - count..end])
        };
        let (highest, lowest) = (a[..S::LANES].iter().max(), a[..S::LANES].iter().min());
        let checks = [
            ("eq", simd.eq(va, vb) == mask(&|n| a[n] == b[n])),
            ("ge", simd.ge(va, vb) == mask(&|n| a[n] >= b[n])),
            ("gt", simd.gt(va, vb) == mask(&|n| a[n] > b[n])),
            ("splat", is(simd.splat(a[0]), &|_| a[0])),
            ("max", is(simd.max(va, vb), &|n| a[n].max(b[n]))),
            ("min", is(simd.min(va, vb), &|n| a[n].min(b[n]))),
            ("xor", is(simd.xor(va, vb), &|n| a[n] ^ b[n])),
            ("and", is(simd.and(va, vb), &|n| a[n] & b[n])),
            ("or", is(simd.or(va, vb), &|n| a[n] | b[n])),
            ("highest", Some(&simd.highest(va)) == highest),
            ("lowest", Some(&simd.lowest(va)) == lowest),
            ("low nibbles", is(low, &|n| table[usize::from(a[n] % 16)])),
            ("high nibbles", is(high, &|n| table[usize::from(a[n] / 16)])),
            ("eights", is(eights, &|n| sum(n, 8))),
            ("sixteens", is(sixteens, &|n| sum(n, 16))),
        ];
        checks.into_iter().find(|(_, right)| !right).map_or(Ok(()), |(name, _)| Err(name))
    }
}

/// The sum by halves: the earlier half is rotated by half the number of terms, but by one bit for eight terms.
fn doubled(terms: &[u8]) -> u8 {
    if let [term] = terms {
        return *term;
    }
    let (earlier, later) = terms.split_at(terms.len() / 2);
    let turn = if earlier.len() == 8 { 1 } else { earlier.len() as u32 };
    doubled(later).wrapping_add(doubled(earlier).rotate_left(turn))
}
