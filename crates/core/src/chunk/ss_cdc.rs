//! SS-CDC as published (Ni et al. 2019; VectorCDC §3, ParaSync §2.3): two stages with a bit for each byte between.
//!
//! ```text
//! 1. for each segment, on any thread:  hash the window at every byte; set the byte's bit if the hash ends a chunk
//! 2. in order, on one thread:          skip the minimum; cut at the first bit that is set, else at the maximum
//! ```
//!
//! 1. The first stage skips no minimum. [`TwoStage::sub_chunks`] with [`JudgeScope::AsCut`](super::JudgeScope) does.
//! 2. With AVX2 and AVX-512 each lane of a vector rolls over a region of its own, and bytes and table entries are
//!    gathered. Without gathers, and at the end of a segment, the portable search of one-stage chunkers sets the
//!    bits. On some processors gathers are slower than this search.
//! 3. The bits of a segment are an array of their own, and the second stage takes segments in order. So the array
//!    takes an eighth of the segments that are waiting, and not of the file.
//! 4. Sums of chunks need both stages first; ParaSync improves on that ([`sub_chunks`](super::sub_chunks)).

use std::ops::Range;

use super::crc::CrcHash;
#[cfg(target_arch = "x86_64")]
use super::gathered::GatherScan;
use super::gear::GearHash;
use super::rolling::{RollingHash, first};
use super::two_stage::{StageHash, TwoStage, WINDOW};
use super::{ChunkerSpec, Sizes};
use crate::simd::Isa;
#[cfg(target_arch = "x86_64")]
use crate::simd::gather::Gathers;

/// Finds the chunks of a file as SS-CDC does: a bit for each possible end, then the chunks.
#[derive(Clone, Copy, Debug)]
pub struct SsCdc {
    hash: StageHash,
    sizes: Sizes,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no gather instructions"))]
    isa: Isa,
}

impl SsCdc {
    /// The form of CRC, or of Gear without normalised sizes: both have one threshold for all lengths. `None` for
    /// other algorithms.
    #[must_use]
    pub fn new(spec: &ChunkerSpec, isa: Isa) -> Option<Self> {
        TwoStage::new(spec).map(|TwoStage { hash, sizes }| Self { hash, sizes, isa })
    }

    /// Appends the lengths of all chunks of the file `data`.
    pub fn cuts(&self, data: &[u8], lens: &mut Vec<u32>) {
        let mut walk = self.walk();
        walk.take(&self.boundaries(&(0..data.len() as u64), data), lens);
        lens.extend(walk.finish());
    }

    /// First stage of a segment; may run on any thread. `data` holds the bytes of [`TwoStage::read`].
    #[must_use]
    pub fn boundaries(&self, segment: &Range<u64>, data: &[u8]) -> BoundaryBits {
        let read_start = TwoStage::read(segment).start;
        let first = (segment.start + 1).max(WINDOW as u64 + 1) - read_start;
        let end = (segment.end + 1).saturating_sub(read_start) as usize;
        let mut bits = BoundaryBits::new(segment.clone(), (segment.start - read_start) as usize);
        for at in (first as usize..end).step_by(PIECE) {
            let ends = at..end.min(at + PIECE);
            if ends.len() < PIECE || !self.gather(data, at, &mut bits) {
                match self.hash {
                    StageHash::Crc { limit } => every::<CrcHash, _>(data, ends, limit, &mut bits),
                    StageHash::Gear { limit } => every::<GearHash, _>(data, ends, limit, &mut bits),
                }
            }
        }
        bits
    }

    /// Starts the second stage.
    #[must_use]
    pub const fn walk(&self) -> BoundaryWalk {
        BoundaryWalk { sizes: self.sizes, start: 0, end: 0 }
    }

    #[cfg(not(target_arch = "x86_64"))]
    const fn gather(&self, _: &[u8], _: usize, _: &mut BoundaryBits) -> bool {
        false
    }

    /// Judges a piece by gathers. Returns false if the machine has no gather instructions.
    #[cfg(target_arch = "x86_64")]
    fn gather(&self, data: &[u8], at: usize, bits: &mut BoundaryBits) -> bool {
        /// Judges the piece by this hash, with these words.
        macro_rules! scan {
            ($hash:ty, $words:ident, $limit:ident) => {{
                let (words, limit) = ($words, $limit);
                self.isa.run(GatherScan::<$hash, _, _> { words, data, at, limit, bits: &mut *bits })
            }};
        }
        match (self.hash, self.isa.gathers()) {
            (_, None) => return false,
            (StageHash::Crc { limit }, Some(Gathers::Avx2(words, _))) => {
                scan!(CrcHash, words, limit)
            }
            (StageHash::Crc { limit }, Some(Gathers::Avx512(words, _))) => {
                scan!(CrcHash, words, limit)
            }
            (StageHash::Gear { limit }, Some(Gathers::Avx2(_, words))) => {
                scan!(GearHash, words, limit)
            }
            (StageHash::Gear { limit }, Some(Gathers::Avx512(_, words))) => {
                scan!(GearHash, words, limit)
            }
        }
        bits.gathered += PIECE as u64;
        true
    }
}

/// A bit for each byte of a segment: set if a chunk may end with this byte, by the hash alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundaryBits {
    segment: Range<u64>,
    /// Number of bytes before the segment in the data that the first stage reads.
    before: usize,
    words: Vec<u64>,
    gathered: u64,
}

impl BoundaryBits {
    fn new(segment: Range<u64>, before: usize) -> Self {
        let words = (segment.end - segment.start).div_ceil(WORD) as usize;
        Self { segment, before, words: vec![0; words], gathered: 0 }
    }

    /// Number of bytes that gather instructions judged.
    #[must_use]
    pub const fn gathered(&self) -> u64 {
        self.gathered
    }

    /// The possible ends of chunks, file offsets.
    pub fn ends(&self) -> impl Iterator<Item = u64> {
        let first = move |from: u64| self.first(from..u64::MAX);
        std::iter::successors(first(0), move |end| first(end + 1))
    }

    /// Marks a possible end, as an offset in the data that the first stage reads.
    #[inline(always)]
    pub(super) fn set(&mut self, end: usize) {
        let bit = end - 1 - self.before;
        self.words[bit / WORD as usize] |= 1 << (bit % WORD as usize);
    }

    /// The first possible end in `ends`, file offsets.
    fn first(&self, ends: Range<u64>) -> Option<u64> {
        let bit_of = |end: u64| {
            end.clamp(self.segment.start + 1, self.segment.end + 1) - self.segment.start - 1
        };
        let (mut bit, stop) = (bit_of(ends.start), bit_of(ends.end));
        while bit < stop {
            let word = self.words[(bit / WORD) as usize] >> (bit % WORD);
            if word != 0 {
                let found = bit + u64::from(word.trailing_zeros());
                return (found < stop).then_some(self.segment.start + found + 1);
            }
            bit = (bit / WORD + 1) * WORD;
        }
        None
    }
}

/// The second stage of SS-CDC: takes the bits of all segments in order.
#[derive(Clone, Copy, Debug)]
pub struct BoundaryWalk {
    sizes: Sizes,
    /// Start of the open chunk.
    start: u64,
    /// End of the segments so far.
    end: u64,
}

impl BoundaryWalk {
    /// Takes the bits of the next segment. Appends the lengths of the chunks that end in the segment.
    pub fn take(&mut self, bits: &BoundaryBits, lens: &mut Vec<u32>) {
        self.end = bits.segment.end;
        loop {
            let longest = self.start + u64::from(self.sizes.max());
            // Bits of earlier segments were examined when they came.
            let found = bits.first(self.start + u64::from(self.sizes.min())..longest);
            let Some(end) = found.or_else(|| (longest <= self.end).then_some(longest)) else {
                return;
            };
            lens.push((end - self.start) as u32);
            self.start = end;
        }
    }

    /// Ends the file. Returns the length of the last chunk, which may be shorter than the minimum, or `None` for an
    /// empty rest.
    #[must_use]
    pub const fn finish(self) -> Option<u32> {
        if self.start < self.end { Some((self.end - self.start) as u32) } else { None }
    }
}

/// Marks each possible end in `ends`. After each of them the window is hashed from its start again, which is cheap
/// because they are rare.
fn every<R: RollingHash<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    limit: R::Hash,
    bits: &mut BoundaryBits,
) {
    let mut at = ends.start;
    while at < ends.end
        && let Some(end) = first::<R, LANES>(data, at..ends.end, limit)
    {
        bits.set(end);
        at = end + 1;
    }
}

/// Number of bits of a word.
const WORD: u64 = u64::BITS as u64;
/// Number of bytes that gathers judge at a time: a region for each of sixteen lanes.
pub(super) const PIECE: usize = 16 * REGION;
/// Number of bytes of one lane. An odd multiple of 256: at a power of two all regions would share a few cache sets.
pub(super) const REGION: usize = 17 << 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Algorithm;

    /// Gathers judge all but the rest of a segment, wherever the processor has gathers.
    #[test]
    fn gathers_judge_whole_pieces() {
        let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).unwrap();
        let data: Vec<u8> =
            (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for algorithm in [Algorithm::Crc, Algorithm::Gear] {
            let spec = ChunkerSpec::ByContent(algorithm, sizes);
            for isa in Isa::available() {
                let stages = SsCdc::new(&spec, isa).unwrap();
                let bits = stages.boundaries(&(0..1 << 20), &data);
                let pieces = if isa.name().starts_with("avx") { 15 } else { 0 };
                assert_eq!(bits.gathered(), pieces * PIECE as u64, "{algorithm:?} {isa:?}");
            }
        }
    }

    /// The bits of each instruction set, against the hash of each window alone: no minimum is skipped.
    #[test]
    fn law4_each_window_is_judged() {
        let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).unwrap();
        let (spec, len) = (ChunkerSpec::ByContent(Algorithm::Crc, sizes), PIECE + 12_345);
        let mut random = 7u32;
        let mut byte = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        let data: Vec<u8> = (0..len).map(|_| byte()).collect();
        let hash = |end: usize| {
            data[end - WINDOW..end].iter().fold(0, |hash, byte| CrcHash::add_byte(hash, *byte))
        };
        let limit = super::super::crc::CrcChunker::new(sizes).limit();
        let ends = (WINDOW + 1..=len).filter(|end| hash(*end) >= limit);
        let wanted: Vec<u64> = ends.map(|end| end as u64).collect();
        assert!(wanted.windows(2).any(|ends| ends[1] - ends[0] < 4 << 10), "{wanted:?}");
        for isa in Isa::available() {
            let bits = SsCdc::new(&spec, isa).unwrap().boundaries(&(0..len as u64), &data);
            assert_eq!(bits.ends().collect::<Vec<_>>(), wanted, "{isa:?}");
        }
    }

    #[test]
    fn the_first_bit_lies_within_the_asked_ends() {
        let mut bits = BoundaryBits::new(1000..1300, 100);
        for end in [1001, 1064, 1065, 1300] {
            bits.set(end - 900);
        }
        let table = [
            (0..5000, Some(1001)),
            (1002..1064, None),
            (1002..1065, Some(1064)),
            (1065..1300, Some(1065)),
            (1066..1300, None),
            (1066..1301, Some(1300)),
            (1301..9000, None),
            (0..1001, None),
        ];
        for (ends, first) in table {
            assert_eq!(bits.first(ends.clone()), first, "{ends:?}");
        }
    }
}
