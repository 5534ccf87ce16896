//! Operations on vectors of bytes, and algorithms over them: the traits.

/// A vector of bytes and what chunkers do with it. Lane 0 holds the first byte.
///
/// Operations of one instruction set. An answer of one bit for each lane has lane 0 in bit 0, and zeros past the last
/// lane.
pub(crate) trait Simd: Copy {
    /// Bytes, as many as there are lanes.
    type Vector: Copy;
    /// Sixteen bytes to look up.
    type Table: Copy;
    /// State that [`Simd::sums`] keeps of the vectors before.
    type Before: Copy;

    /// Bytes in a vector: a power of two, at most [`MAX_LANES`].
    const LANES: usize;

    /// The same byte in each lane.
    fn splat(self, byte: u8) -> Self::Vector;

    /// The first bytes of `bytes`, of which there must be enough.
    fn load(self, bytes: &[u8]) -> Self::Vector;

    /// Asks for `bytes` to be brought near, where there is such an instruction. They will be read soon.
    #[inline(always)]
    fn prefetch(self, _bytes: &[u8]) {}

    /// The larger byte of each lane.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The smaller byte of each lane.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The exclusive or of each lane.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The bits that are in both.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The bits that are in either.
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Lanes in which `a >= b`.
    fn ge(self, a: Self::Vector, b: Self::Vector) -> u64;

    /// Lanes in which `a == b`.
    fn eq(self, a: Self::Vector, b: Self::Vector) -> u64;

    /// Lanes in which `a > b`.
    #[inline(always)]
    fn gt(self, a: Self::Vector, b: Self::Vector) -> u64 {
        !self.ge(b, a) & all_lanes(Self::LANES)
    }

    /// The largest byte.
    fn highest(self, a: Self::Vector) -> u8;

    /// The smallest byte.
    fn lowest(self, a: Self::Vector) -> u8;

    /// A table of sixteen bytes.
    fn table(self, bytes: &[u8; 16]) -> Self::Table;

    /// Table entries by the low four bits of each lane.
    fn low_nibbles(self, table: Self::Table, a: Self::Vector) -> Self::Vector;

    /// Table entries by the high four bits of each lane.
    fn high_nibbles(self, table: Self::Table, a: Self::Vector) -> Self::Vector;

    /// State as if zeros had come before.
    fn nothing(self) -> Self::Before;

    /// Sums of the eight and of the sixteen terms up to each lane, by doubling:
    ///
    /// ```text
    /// twos(n)     = ones(n)   + rotate(ones(n - 1), 1)
    /// fours(n)    = twos(n)   + rotate(twos(n - 2), 2)
    /// eights(n)   = fours(n)  + rotate(fours(n - 4), 4)
    /// sixteens(n) = eights(n) + rotate(eights(n - 8), 1)     of eight bits each, rotated towards the higher
    /// ```
    ///
    /// Lanes below 0 are those of the vector before.
    fn sums(self, before: &mut Self::Before, ones: Self::Vector) -> [Self::Vector; 2];
}

/// Most lanes of any vector.
pub(crate) const MAX_LANES: usize = 64;

/// A bit for each of so many lanes.
#[inline(always)]
pub(crate) const fn all_lanes(lanes: usize) -> u64 {
    u64::MAX >> (MAX_LANES - lanes)
}

/// State that most instruction sets keep of the vector before, for [`Simd::sums`].
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[derive(Clone, Copy)]
pub(super) struct Before<V> {
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
impl<V: Copy> Before<V> {
    /// Before the first byte; `zero` has no term in any lane.
    #[inline(always)]
    pub(super) const fn new(zero: V) -> Self {
        Self { ones: zero, twos: zero, fours: zero, eights: zero }
    }
}

/// An algorithm over vectors of any length.
pub(crate) trait Kernel {
    /// Result of the operation.
    type Output;

    /// Runs it. Implementations are `#[inline(always)]`: only inside of the caller may they use its instructions.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}
