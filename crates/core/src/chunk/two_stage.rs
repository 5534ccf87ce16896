//! Chunks in two stages (SS-CDC, Ni et al. 2019; VectorCDC §3): the papers' way to put hashes on vectors.
//!
//! ```text
//! 1. every end of the whole file that the hash would cut at, whatever the sizes:     no order, so in lanes
//! 2. from candidate to candidate: cut where a chunk has its minimum, and at every maximum:     in order, but little work
//! ```
//!
//! 1. A window of a candidate past the minimum lies in its chunk, so the chunks are those of the chunker in one stage.
//! 2. The first stage cannot skip what lies below a minimum, and that is much of the gain of the vectors.
//! 3. With AVX-512, each lane rolls over a region of its own; bytes and table entries are gathered. Gathers are slow on
//!    some processors: there the first stage of any other instruction set, which searches as chunkers in one stage do,
//!    is the faster one. Neither catches up with one stage, so nothing here uses two: they are for the papers'
//!    comparison.
//! 4. The stages take turns over pieces of the file, so there is no bit for each byte: candidates of a piece are a short
//!    list.

use std::ops::Range;

use super::crc::{Crc, WindowCrc};
#[cfg(target_arch = "x86_64")]
use super::gathered::Scan;
use super::gear::{Gear, GearHash, Level};
use super::rolling::{Rolling, first};
use super::{Algorithm, ChunkerSpec, Sizes};
use crate::simd::Isa;

/// Finds the chunks of a whole file in memory, candidates first.
#[derive(Clone, Copy, Debug)]
pub struct TwoStage {
    hash: Hash,
    sizes: Sizes,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing to gather with"))]
    isa: Isa,
}

/// What is rolled, and how high or low it must be.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Crc { limit: u32 },
    Gear { limit: u64 },
}

impl TwoStage {
    /// The two stages of a chunker with one criterion throughout: CRC, or gear without levels.
    #[must_use]
    pub fn new(spec: &ChunkerSpec, isa: Isa) -> Option<Self> {
        let ChunkerSpec::ByContent(algorithm, sizes) = *spec else { return None };
        let hash = match algorithm {
            Algorithm::Crc => Hash::Crc { limit: WindowCrc::new(sizes).limit() },
            Algorithm::Gear => Hash::Gear { limit: Gear::new(sizes, Level::Zero).limit() },
            _ => return None,
        };
        Some(Self { hash, sizes, isa })
    }

    /// Appends the lengths of all chunks of the file `data`.
    pub fn cuts(&self, data: &[u8], lens: &mut Vec<u32>) {
        let mut walk = Walk { sizes: self.sizes, start: 0, lens };
        let mut candidates = Vec::new();
        let mut at = self.sizes.min() as usize;
        while at < data.len() {
            let ends = at..data.len().min(at + PIECE);
            at = ends.end;
            self.first_stage(data, ends, &mut candidates);
            candidates.drain(..).for_each(|end| walk.offer(end));
        }
        walk.finish(data.len());
    }

    fn first_stage(&self, data: &[u8], ends: Range<usize>, candidates: &mut Vec<usize>) {
        #[cfg(target_arch = "x86_64")]
        if ends.len() == PIECE && self.in_words(data, ends.start, candidates) {
            candidates.sort_unstable();
            return;
        }
        match self.hash {
            Hash::Crc { limit } => every::<Crc, _>(data, ends, limit, candidates),
            Hash::Gear { limit } => every::<GearHash, _>(data, ends, limit, candidates),
        }
    }

    /// Finds all candidates of a piece, in no order, if there are instructions to gather with.
    #[cfg(target_arch = "x86_64")]
    fn in_words(&self, data: &[u8], start: usize, candidates: &mut Vec<usize>) -> bool {
        use crate::simd::gather::{Words, Words32, Words64};
        let Some((words32, words64)) = self.isa.words() else { return false };
        match self.hash {
            Hash::Crc { limit } => {
                for at in (start..start + PIECE).step_by(Words32::LANES * REGION) {
                    self.isa.run(Scan::<Crc, _, _> { words: words32, data, at, limit, candidates });
                }
            }
            Hash::Gear { limit } => {
                for at in (start..start + PIECE).step_by(Words64::LANES * REGION) {
                    self.isa.run(Scan::<GearHash, _, _> {
                        words: words64,
                        data,
                        at,
                        limit,
                        candidates,
                    });
                }
            }
        }
        true
    }
}

/// The second stage: the chunks so far.
struct Walk<'a> {
    sizes: Sizes,
    /// Where the open chunk starts.
    start: usize,
    lens: &'a mut Vec<u32>,
}

impl Walk<'_> {
    /// Cuts at `end`, behind all before it, if the sizes allow it.
    fn offer(&mut self, end: usize) {
        self.fill(end);
        if end - self.start >= self.sizes.min() as usize {
            self.cut(end);
        }
    }

    fn finish(&mut self, end: usize) {
        self.fill(end);
        if self.start < end {
            self.cut(end);
        }
    }

    /// Cuts at maxima, as long as `end` lies beyond one.
    fn fill(&mut self, end: usize) {
        let max = self.sizes.max() as usize;
        while end - self.start > max {
            self.cut(self.start + max);
        }
    }

    fn cut(&mut self, end: usize) {
        self.lens.push((end - self.start) as u32);
        self.start = end;
    }
}

/// Appends each of `ends` that the hash would cut at. Each costs a window to warm up over again: they are rare.
fn every<R: Rolling<LANES>, const LANES: usize>(
    data: &[u8],
    ends: Range<usize>,
    limit: R::Hash,
    candidates: &mut Vec<usize>,
) {
    let mut at = ends.start;
    while let Some(end) =
        (at < ends.end).then(|| first::<R, LANES>(data, at..ends.end, limit)).flatten()
    {
        candidates.push(end);
        at = end + 1;
    }
}

/// Ends of which the stages take turns: regions for all lanes, once for words of 32 bits and twice for those of 64.
const PIECE: usize = 16 * REGION;
/// Ends of one lane after the other. An odd multiple of 256: regions at a power of two would all lie in the same few
/// lines of a cache.
pub(super) const REGION: usize = 17 << 8;
