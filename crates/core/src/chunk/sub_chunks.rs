//! Chunk sums combined from sub-chunk sums: ParaSync's parallel chunking (§3.1, figure 8).
//!
//! ```text
//! 1. for each segment, on any thread:  all candidates of the hash, ignoring the sizes, and the sum of each sub-chunk
//!                                      between two candidates
//! 2. in order, on one thread:           sum of a chunk = concat of its sub-chunk sums;
//!                                      cut at a candidate at or past the minimum, and at every maximum
//! ```
//!
//! Differences from the paper, and why:
//!
//! 1. Candidates do not depend on the start of a segment: the window before the segment is read too.
//! 2. A maximum may fall inside a sub-chunk; the paper leaves this case open. So the first stage also ends
//!    sub-chunks at marks: where a chunker started at the first byte of the segment would cut at its maximum.
//!    After a few chunks these boundaries are the boundaries of the file (law 2), and so are the maxima. Before
//!    that, the second stage asks for the sum of the front part of a sub-chunk and derives the sum of the rest.
//!    That concerns few bytes, because sub-chunks longer than [`MARK_BYTES`] are marked too.
//! 3. The last bytes of a segment are a sub-chunk of their own. So the stages need no barrier: the second stage
//!    takes segments as they finish.
//! 4. Equation 1 holds for [`Crc32c::concat`], not as published; see there.
//! 5. A first stage that judges every byte takes twice the time of a one-stage chunker, which skips minima. So
//!    the first stage skips minima too, from the point where its boundaries should be the boundaries of the
//!    file (law 2 again). From there each sub-chunk is a chunk, and other sums of the chunk are computed while
//!    its bytes are in the CPU cache. If the second stage does not reach that boundary, it requests all
//!    candidates of the rest of the segment ([`MergeRequest::Judge`]).

use std::collections::VecDeque;
use std::ops::Range;

use super::Sizes;
use crate::weak::Crc32c;

/// The sub-chunks of one segment, in order, from [`TwoStage::sub_chunks`](super::TwoStage::sub_chunks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubChunks<T> {
    found: Vec<SubChunk<T>>,
    /// End of the segment.
    end: u64,
}

/// A run of bytes without a candidate inside; only a maximum may cut inside this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubChunk<T> {
    len: u32,
    sum: Crc32c,
    end: SubChunkEnd,
    /// The sum of the sub-chunk, if the sub-chunk is assumed to be a whole chunk.
    whole: Option<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubChunkEnd {
    /// A candidate boundary of the hash.
    Candidate,
    /// A candidate boundary after which the rest of the segment was tested as if a chunk of the file began here.
    Assumed,
    /// A position without a candidate, possibly a maximum.
    Mark,
}

/// Collects the sub-chunks of a segment.
pub(super) struct SubChunkQueue<'a, T, F> {
    /// Bytes that are in no sub-chunk yet.
    rest: &'a [u8],
    /// File offset of `rest`.
    at: u64,
    of_part: F,
    found: Vec<SubChunk<T>>,
}

impl<'a, T, F: FnMut(&[u8]) -> Crc32c> SubChunkQueue<'a, T, F> {
    /// Starts the sub-chunks of the segment `data`, at file offset `at`.
    pub(super) const fn new(data: &'a [u8], at: u64, of_part: F) -> Self {
        Self { rest: data, at, of_part, found: Vec::new() }
    }

    /// Ends a sub-chunk at a candidate of the hash.
    pub(super) fn candidate(&mut self, end: u64) {
        self.mark(end);
        self.set_last_end(SubChunkEnd::Candidate);
    }

    /// Marks the last end as assumed: the rest is tested as if a chunk of the file began there.
    pub(super) fn assume(&mut self) {
        self.set_last_end(SubChunkEnd::Assumed);
    }

    /// Ends a sub-chunk that is assumed to be a chunk.
    pub(super) fn chunk(
        &mut self,
        end: u64,
        is_candidate: bool,
        of_chunk: &mut impl FnMut(&[u8]) -> Option<T>,
    ) {
        let bytes = self.take(end);
        let (len, sum, whole) = (bytes.len() as u32, (self.of_part)(bytes), of_chunk(bytes));
        let end = if is_candidate { SubChunkEnd::Candidate } else { SubChunkEnd::Mark };
        self.found.push(SubChunk { len, sum, end, whole });
    }

    /// Ends a sub-chunk at a position that is not a candidate.
    pub(super) fn mark(&mut self, end: u64) {
        for piece in self.take(end).chunks(MARK_BYTES) {
            let (len, sum) = (piece.len() as u32, (self.of_part)(piece));
            self.found.push(SubChunk { len, sum, end: SubChunkEnd::Mark, whole: None });
        }
    }

    /// Returns all sub-chunks of the segment, which ends at `end`.
    pub(super) fn finish(self, end: u64) -> SubChunks<T> {
        SubChunks { found: self.found, end }
    }

    fn take(&mut self, end: u64) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at((end - self.at) as usize);
        (self.rest, self.at) = (rest, end);
        bytes
    }

    fn set_last_end(&mut self, end: SubChunkEnd) {
        if let Some(last) = self.found.last_mut() {
            last.end = end;
        }
    }
}

/// A chunk of the file, merged from sub-chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedChunk<T> {
    /// Length in bytes.
    pub len: u32,
    /// CRC-32C of the chunk.
    pub sum: Crc32c,
    /// The sum of the whole chunk from the first stage, if the first stage assumed this chunk.
    pub whole: Option<T>,
}

/// Information that the second stage needs to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeRequest {
    /// The CRC-32C of this byte range, for [`SubChunkMerge::split`]: a maximum falls inside a sub-chunk.
    Sum(Range<u64>),
    /// All sub-chunks of this byte range, for [`SubChunkMerge::judge`]: an assumed boundary is not a boundary.
    Judge(Range<u64>),
}

/// Merges the sub-chunks of a file's segments to chunks (laws 2 and 3).
///
/// [`SubChunkMerge::push`], [`SubChunkMerge::split`] and [`SubChunkMerge::judge`] return all chunks that became
/// final, in order. While [`SubChunkMerge::request`] returns a request, only its answer makes more chunks final.
/// Further segments may be pushed meanwhile.
#[derive(Clone, Debug)]
pub struct SubChunkMerge<T> {
    sizes: Sizes,
    /// File offset of the open chunk.
    start: u64,
    /// Number of merged bytes of the open chunk, less than the maximum.
    len: u32,
    sum: Crc32c,
    whole: Option<T>,
    waiting: VecDeque<SubChunk<T>>,
    /// End offsets of the waiting segments.
    segment_ends: VecDeque<u64>,
    /// True if the open chunk does not end at an assumed boundary.
    assumption_failed: bool,
}

impl<T> SubChunkMerge<T> {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            start: 0,
            len: 0,
            sum: Crc32c::EMPTY,
            whole: None,
            waiting: VecDeque::new(),
            segment_ends: VecDeque::new(),
            assumption_failed: false,
        }
    }

    /// Takes the sub-chunks of the next segment. Every segment must be pushed, in order. Returns the chunks
    /// that became final.
    #[must_use = "these chunks are not returned again"]
    pub fn push(&mut self, next: SubChunks<T>) -> Vec<MergedChunk<T>> {
        self.waiting.extend(next.found);
        self.segment_ends.push_back(next.end);
        self.release()
    }

    /// The information that is needed before more chunks become final.
    #[must_use]
    pub fn request(&self) -> Option<MergeRequest> {
        self.waiting.front()?;
        let at = self.at();
        if self.assumption_failed {
            let end = self
                .segment_ends
                .front()
                .expect("every waiting sub-chunk belongs to a waiting segment");
            return Some(MergeRequest::Judge(at..*end));
        }
        Some(MergeRequest::Sum(at..self.start + u64::from(self.sizes.max())))
    }

    /// Takes the sum requested by [`MergeRequest::Sum`].
    ///
    /// # Panics
    /// If no sub-chunk waits.
    #[must_use = "these chunks are not returned again"]
    pub fn split(&mut self, front: Crc32c) -> Vec<MergedChunk<T>> {
        let cut = self.waiting.front_mut().expect("a sub-chunk waits to be split");
        let len = self.sizes.max() - self.len;
        cut.len -= len;
        // whole = front x^|back| + back, so back = front x^|back| + whole.
        cut.sum = front.concat(cut.sum, cut.len.into());
        cut.whole = None;
        self.waiting.push_front(SubChunk { len, sum: front, end: SubChunkEnd::Mark, whole: None });
        self.release()
    }

    /// Takes the sub-chunks requested by [`MergeRequest::Judge`].
    ///
    /// # Panics
    /// If they do not end with the first waiting segment.
    #[must_use = "these chunks are not returned again"]
    pub fn judge(&mut self, again: SubChunks<T>) -> Vec<MergedChunk<T>> {
        assert_eq!(
            self.segment_ends.front(),
            Some(&again.end),
            "the sub-chunks end with the segment"
        );
        let mut left = again.end - self.at();
        while left > 0 {
            let doubted =
                self.waiting.pop_front().expect("a waiting segment has sub-chunks up to its end");
            left -= u64::from(doubted.len);
        }
        again.found.into_iter().rev().for_each(|found| self.waiting.push_front(found));
        self.assumption_failed = false;
        self.release()
    }

    /// Ends the file. Returns the last chunk, which may be shorter than the minimum, or `None` for an empty
    /// rest.
    ///
    /// # Panics
    /// If a request is open.
    #[must_use = "this chunk is not returned again"]
    pub fn finish(self) -> Option<MergedChunk<T>> {
        assert!(self.waiting.is_empty(), "every request is answered");
        (self.len > 0).then_some(MergedChunk { len: self.len, sum: self.sum, whole: self.whole })
    }

    /// File offset of the first byte that is not merged.
    fn at(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Merges up to the first sub-chunk with a maximum inside, or up to an assumed boundary that is not a
    /// boundary.
    fn release(&mut self) -> Vec<MergedChunk<T>> {
        let (min, max) = (self.sizes.min(), self.sizes.max());
        let mut chunks = Vec::new();
        while !self.assumption_failed
            && let Some(next) = self.waiting.pop_front_if(|next| self.len + next.len <= max)
        {
            self.whole = next.whole.filter(|_| self.len == 0);
            self.sum = self.sum.concat(next.sum, next.len.into());
            self.len += next.len;
            let at = self.at();
            let mut ended = false;
            while let Some(end) = self.segment_ends.pop_front_if(|end| *end <= at) {
                ended = end == at;
            }
            let is_candidate = next.end != SubChunkEnd::Mark;
            if self.len == max || is_candidate && self.len >= min {
                chunks.push(MergedChunk { len: self.len, sum: self.sum, whole: self.whole.take() });
                self.start += u64::from(self.len);
                (self.len, self.sum) = (0, Crc32c::EMPTY);
            } else if next.end == SubChunkEnd::Assumed {
                // The assumption does not concern the next segment.
                self.assumption_failed = !ended;
            }
        }
        chunks
    }
}

/// Length of the longest sub-chunk. Less than this is read again for one maximum.
const MARK_BYTES: usize = 2 << 10;
