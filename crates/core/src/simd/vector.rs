//! Traits for operations on vectors of bytes, and for algorithms on vectors.

/// Operations of one instruction set on vectors of bytes. Lane 0 holds the first byte. In a result with one bit
/// for each lane, lane 0 is bit 0, and bits past the last lane are zero.
pub(crate) trait Simd: Copy {
    /// A vector of bytes.
    type Vector: Copy;
    /// A table of sixteen bytes.
    type Table: Copy;
    /// State that [`Simd::sums`] keeps of earlier vectors.
    type TermSums: Copy;

    /// Number of bytes in a vector: a power of two, at most [`MAX_LANES`].
    const LANES: usize;

    /// A vector with `byte` in each lane.
    fn splat(self, byte: u8) -> Self::Vector;

    /// Loads the first [`Self::LANES`] bytes of `bytes`, which must not be shorter.
    fn load(self, bytes: &[u8]) -> Self::Vector;

    /// Prefetches `bytes`, if the machine has such an instruction.
    #[inline(always)]
    fn prefetch(self, _bytes: &[u8]) {}

    /// Lane-wise maximum.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Lane-wise minimum.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Lane-wise exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Bitwise and.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Bitwise or.
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// A bit mask of the lanes with `a >= b`.
    fn ge(self, a: Self::Vector, b: Self::Vector) -> u64;

    /// A bit mask of the lanes with `a == b`.
    fn eq(self, a: Self::Vector, b: Self::Vector) -> u64;

    /// A bit mask of the lanes with `a > b`.
    #[inline(always)]
    fn gt(self, a: Self::Vector, b: Self::Vector) -> u64 {
        !self.ge(b, a) & all_lanes(Self::LANES)
    }

    /// The largest byte of a vector.
    fn highest(self, a: Self::Vector) -> u8;

    /// The smallest byte of a vector.
    fn lowest(self, a: Self::Vector) -> u8;

    /// Loads a table of sixteen bytes.
    fn table(self, bytes: &[u8; 16]) -> Self::Table;

    /// Table entries, indexed by the low four bits of each lane.
    fn look_up_by_low_nibble(self, table: Self::Table, a: Self::Vector) -> Self::Vector;

    /// Table entries, indexed by the high four bits of each lane.
    fn look_up_by_high_nibble(self, table: Self::Table, a: Self::Vector) -> Self::Vector;

    /// The state at the start, with zeros as earlier terms.
    fn zero(self) -> Self::TermSums;

    /// Sums of the eight and of the sixteen terms up to each lane, by doubling:
    ///
    /// ```text
    /// twos(n)     = ones(n)   + rotate(ones(n - 1), 1)
    /// fours(n)    = twos(n)   + rotate(twos(n - 2), 2)
    /// eights(n)   = fours(n)  + rotate(fours(n - 4), 4)
    /// sixteens(n) = eights(n) + rotate(eights(n - 8), 1)     of eight bits each, rotated towards the higher
    /// ```
    ///
    /// Lanes below 0 belong to the previous vector.
    fn sums(self, before: &mut Self::TermSums, ones: Self::Vector) -> [Self::Vector; 2];
}

/// Maximum number of lanes of a vector.
pub(crate) const MAX_LANES: usize = 64;

/// A bit mask of the first `lanes` lanes.
#[inline(always)]
pub(crate) const fn all_lanes(lanes: usize) -> u64 {
    u64::MAX >> (MAX_LANES - lanes)
}

/// State of [`Simd::sums`] after the previous vector, for most instruction sets.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[derive(Clone, Copy)]
pub(crate) struct TermSums<V> {
    pub(super) ones: V,
    pub(super) twos: V,
    pub(super) fours: V,
    pub(super) eights: V,
}

#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
impl<V: Copy> TermSums<V> {
    /// The state before the first byte. `zero` is a vector of zeros.
    #[inline(always)]
    pub(super) const fn new(zero: V) -> Self {
        Self { ones: zero, twos: zero, fours: zero, eights: zero }
    }
}

/// An algorithm over vectors of any length.
pub(crate) trait Kernel {
    /// Result of the algorithm.
    type Output;

    /// Runs the algorithm. Implementations must be `#[inline(always)]`, because only code inlined into the
    /// caller is compiled with its CPU features.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}
