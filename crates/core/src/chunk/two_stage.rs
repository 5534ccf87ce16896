//! Chunking in two stages: the method of SS-CDC ([`ss_cdc`](super::ss_cdc)) and of ParaSync
//! ([`sub_chunks`](super::sub_chunks)) to share the work on one file among threads.
//!
//! ```text
//! 1. all candidates of the hash in the whole file, ignoring the sizes:          in any order, so in vector lanes
//! 2. from candidate to candidate: cut at or past the minimum, and at every maximum:     in order, but little work
//! ```
//!
//! 1. The window of a candidate past the minimum lies within its chunk, so the chunks are the same as in one
//!    stage.
//! 2. A first stage that judges every byte costs much of the gain of vectors and threads, so production code
//!    does not use two stages: they exist to compare the papers.

use std::ops::Range;

use super::crc::{CrcChunker, CrcHash};
use super::gear::{GearChunker, GearHash, NormalisationLevel};
use super::rolling::{RollingHash, first};
use super::sub_chunks::{SubChunkMerge, SubChunkQueue, SubChunks};
use super::{Algorithm, ChunkerSpec, Sizes};
use crate::weak::Crc32c;

/// Finds the chunks of a file in memory: first the candidates of the hash, then the boundaries.
#[derive(Clone, Copy, Debug)]
pub struct TwoStage {
    pub(super) hash: StageHash,
    pub(super) sizes: Sizes,
}

/// The positions of a segment that the first stage tests for candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeScope {
    /// Tests every position of the segment.
    Every,
    /// Tests every position until the boundaries are assumed to be boundaries of the file (`MEET_CHUNKS`). After
    /// that, skips the bytes below the minimum of each chunk, as a one-stage chunker does. If the assumption proves
    /// wrong, [`SubChunkMerge`] requests the rest again.
    AsCut,
}

/// The rolling hash and its threshold.
#[derive(Clone, Copy, Debug)]
pub(super) enum StageHash {
    Crc { limit: u32 },
    Gear { limit: u64 },
}

impl TwoStage {
    /// The two-stage form of CRC, or of Gear without normalised sizes: both have one threshold for all lengths. `None`
    /// for other algorithms.
    #[must_use]
    pub fn new(spec: &ChunkerSpec) -> Option<Self> {
        let ChunkerSpec::ByContent(algorithm, sizes) = *spec else { return None };
        let hash = match algorithm {
            Algorithm::Crc => StageHash::Crc { limit: CrcChunker::new(sizes).limit() },
            Algorithm::Gear => {
                StageHash::Gear { limit: GearChunker::new(sizes, NormalisationLevel::Zero).limit() }
            }
            _ => return None,
        };
        Some(Self { hash, sizes })
    }

    /// The byte range to read for `segment`: the segment and the window before, so that candidates do not
    /// depend on the start of the segment.
    #[must_use]
    pub const fn read(segment: &Range<u64>) -> Range<u64> {
        segment.start.saturating_sub(WINDOW as u64)..segment.end
    }

    /// First stage of ParaSync, which may run on any thread: the candidates of a segment, and sums of the bytes
    /// between them.
    ///
    /// - `data` holds the bytes of [`TwoStage::read`].
    /// - `of_part` sums a part; it may be a constant if the caller does not need these sums.
    /// - `of_chunk` computes other sums of a byte run that is assumed to be a whole chunk.
    pub fn sub_chunks<T>(
        &self,
        segment: &Range<u64>,
        data: &[u8],
        judge: JudgeScope,
        (of_part, mut of_chunk): (impl FnMut(&[u8]) -> Crc32c, impl FnMut(&[u8]) -> Option<T>),
    ) -> SubChunks<T> {
        let start = Self::read(segment).start;
        let own = &data[(segment.start - start) as usize..];
        let mut queue = SubChunkQueue::new(own, segment.start, of_part);
        let mut walk = ChunkWalk::new(self.sizes, segment.start);
        let meet = u64::from(self.sizes.max()) * MEET_CHUNKS;
        let (mut ends, mut assumes) = (self.ends(segment), false);
        let assume_from = match judge {
            JudgeScope::Every => u64::MAX,
            // The first chunk of the file needs no assumption.
            JudgeScope::AsCut if segment.start == 0 => {
                assumes = true;
                0
            }
            JudgeScope::AsCut => segment.start + meet,
        };
        while !assumes && let Some(found) = self.next(data, ends.clone()) {
            ends.start = found + 1;
            let end = start + found as u64;
            walk.cut_maximum_chunks(end, &mut |chunk| queue.mark(chunk.end));
            queue.candidate(end);
            walk.offer(end, &mut |_| ());
            if walk.start == end && end >= assume_from {
                queue.assume();
                assumes = true;
            }
        }
        while assumes
            && let Some((end, is_candidate)) = self.cut(data, start, walk.start..segment.end)
        {
            queue.chunk(end, is_candidate, &mut of_chunk);
            walk.start = end;
        }
        walk.cut_maximum_chunks(segment.end, &mut |chunk| queue.mark(chunk.end));
        queue.mark(segment.end);
        queue.finish(segment.end)
    }

    /// The end of the chunk that begins at `open.start`, if it ends within `open`, and whether the hash cuts
    /// there. `start` is the file offset of `data`.
    fn cut(&self, data: &[u8], start: u64, open: Range<u64>) -> Option<(u64, bool)> {
        let max_end = open.start + u64::from(self.sizes.max());
        let ends = open.start + u64::from(self.sizes.min())..max_end.min(open.end + 1);
        let at = |end: u64| end.saturating_sub(start) as usize;
        match self.next(data, at(ends.start)..at(ends.end)) {
            Some(found) => Some((start + found as u64, true)),
            None => (max_end <= open.end).then_some((max_end, false)),
        }
    }

    /// The first candidate in `ends`.
    fn next(&self, data: &[u8], ends: Range<usize>) -> Option<usize> {
        if ends.is_empty() {
            return None;
        }
        match self.hash {
            StageHash::Crc { limit } => first::<CrcHash, _>(data, ends, limit),
            StageHash::Gear { limit } => first::<GearHash, _>(data, ends, limit),
        }
    }

    /// Starts the second stage of ParaSync.
    #[must_use]
    pub const fn merge<T>(&self) -> SubChunkMerge<T> {
        SubChunkMerge::new(self.sizes)
    }

    /// The range of possible boundaries of a segment, as offsets from the first byte that is read.
    fn ends(&self, segment: &Range<u64>) -> Range<usize> {
        let start = Self::read(segment).start;
        let first = (segment.start + 1).max(self.sizes.min().into());
        (first - start) as usize..(segment.end + 1).saturating_sub(start) as usize
    }
}

/// State of the second stage, which chooses chunk boundaries among the candidates.
struct ChunkWalk {
    sizes: Sizes,
    /// Start of the open chunk.
    start: u64,
}

impl ChunkWalk {
    const fn new(sizes: Sizes, start: u64) -> Self {
        Self { sizes, start }
    }

    /// Takes the next candidate boundary, `end`. Cuts chunks of maximum length before `end`, then cuts at `end`
    /// unless the chunk would be too short. Passes each chunk to `each`.
    fn offer(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
        self.cut_maximum_chunks(end, each);
        if end - self.start >= self.sizes.min().into() {
            self.cut(end, each);
        }
    }

    /// Cuts chunks of maximum length until the open chunk can end at `end`.
    fn cut_maximum_chunks(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
        let max = u64::from(self.sizes.max());
        while end - self.start > max {
            self.cut(self.start + max, each);
        }
    }

    fn cut(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
        each(self.start..end);
        self.start = end;
    }
}

/// Distance from the start of a segment, in maximal chunks, after which its boundaries are assumed to be
/// boundaries of the file. The assumption fails for one in fifty segments of executable files and random bytes
/// (docs/decisions/0015).
const MEET_CHUNKS: u64 = 4;
/// Longest window of a hash, in bytes.
pub(super) const WINDOW: usize = <CrcHash as RollingHash<4>>::WINDOW;
