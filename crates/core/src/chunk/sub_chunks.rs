//! Chunk sums without a second look at the bytes: ParaSync's parallel chunking (§3.1, figure 8).
//!
//! ```text
//! 1. for each segment, by any thread:  where the hash would cut, whatever the sizes, and the sum of each sub-chunk
//!                                      between two such candidates
//! 2. sub-chunks in order, by one:      chunk's sum = concat of its sub-chunks' sums
//!                                      cut where a chunk ends with a candidate and has its minimum, and at every maximum
//! ```
//!
//! Differences from the paper, and why:
//!
//! 1. Candidates do not depend on where a segment begins: the window before it is read as well.
//! 2. A maximum may fall into a sub-chunk, of which the paper does not speak. So the first stage also ends sub-chunks
//!    at marks: where a chunker that began at the segment's first byte would cut at its maximum. After a few chunks
//!    its boundaries are the file's (law 2), and so are these maxima. Before that, the second stage asks for the sum
//!    of the sub-chunk's front, and derives that of its back: few bytes, since sub-chunks longer than [`MARK_BYTES`]
//!    are marked as well.
//! 3. The sum of a segment's last bytes is a sub-chunk of its own, so the stages need no barrier between them: the
//!    second one takes segments as they come.
//! 4. Equation 1 holds with [`Crc32c::concat`], not as published: see there.
//!
//! 5. A first stage that judges every byte takes twice the time of a chunker in one stage, which skips minima. So it
//!    does that too, from where its boundaries must be the file's (law 2 again); there each sub-chunk is a chunk, and
//!    whatever else is wanted of chunks is taken of it while it is in the cache. If the second stage does not come to
//!    that boundary, it asks for the rest of the segment to be judged again, byte by byte ([`Ask::Judge`]).

use std::collections::VecDeque;
use std::ops::Range;

use super::Sizes;
use crate::weak::Crc32c;

/// Sub-chunks that [`TwoStage::sub_chunks`](super::TwoStage::sub_chunks) found in a segment, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubChunks<T> {
    found: Vec<SubChunk<T>>,
    /// End of the segment.
    end: u64,
}

/// Bytes that lie in one chunk, but for a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubChunk<T> {
    len: u32,
    sum: Crc32c,
    end: End,
    /// Sum of a whole chunk, if it is thought to be one.
    whole: Option<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The hash would cut.
    Candidate,
    /// A chunk would, and the rest of the segment was judged as if it did.
    Assumed,
    /// No chunk would, but perhaps the maximum.
    Mark,
}

/// Sub-chunks in the making.
pub(super) struct Queue<'a, T, F> {
    /// Bytes that are in no sub-chunk yet.
    rest: &'a [u8],
    /// Start of those bytes.
    at: u64,
    of_part: F,
    found: Vec<SubChunk<T>>,
}

impl<'a, T, F: FnMut(&[u8]) -> Crc32c> Queue<'a, T, F> {
    /// Sub-chunks of the segment `data`, which starts at `at`.
    pub(super) const fn new(data: &'a [u8], at: u64, of_part: F) -> Self {
        Self { rest: data, at, of_part, found: Vec::new() }
    }

    /// Ends one where the hash would cut.
    pub(super) fn candidate(&mut self, end: u64) {
        self.mark(end);
        self.end_is(End::Candidate);
    }

    /// Judges the rest as if a chunk of the file started there.
    pub(super) fn assume(&mut self) {
        self.end_is(End::Assumed);
    }

    /// Ends one that is thought to be a chunk.
    pub(super) fn chunk(
        &mut self,
        end: u64,
        is_candidate: bool,
        of_chunk: &mut impl FnMut(&[u8]) -> Option<T>,
    ) {
        let bytes = self.take(end);
        let (len, sum, whole) = (bytes.len() as u32, (self.of_part)(bytes), of_chunk(bytes));
        let end = if is_candidate { End::Candidate } else { End::Mark };
        self.found.push(SubChunk { len, sum, end, whole });
    }

    /// Ends one anyway.
    pub(super) fn mark(&mut self, end: u64) {
        for piece in self.take(end).chunks(MARK_BYTES) {
            let (len, sum) = (piece.len() as u32, (self.of_part)(piece));
            self.found.push(SubChunk { len, sum, end: End::Mark, whole: None });
        }
    }

    /// All of them, in a segment that ends there.
    pub(super) fn finish(self, end: u64) -> SubChunks<T> {
        SubChunks { found: self.found, end }
    }

    fn take(&mut self, end: u64) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at((end - self.at) as usize);
        (self.rest, self.at) = (rest, end);
        bytes
    }

    fn end_is(&mut self, end: End) {
        if let Some(last) = self.found.last_mut() {
            last.end = end;
        }
    }
}

/// A chunk that was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged<T> {
    /// Its length in bytes.
    pub len: u32,
    /// Sum of its bytes.
    pub sum: Crc32c,
    /// Sum that the first stage took of it besides, if it was thought to be a chunk there.
    pub whole: Option<T>,
}

/// Answer that the second stage cannot go on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The sum of these bytes, for [`Merge::split`]: a maximum falls behind them, into a sub-chunk.
    Sum(Range<u64>),
    /// The sub-chunks of these bytes, with every end judged, for [`Merge::judge`]: a boundary was assumed that is none.
    Judge(Range<u64>),
}

/// Merges the sub-chunks of a file's segments into its chunks (laws 2 and 3).
///
/// [`Merge::push`], [`Merge::split`] and [`Merge::judge`] return all chunks that became certain, in order. While
/// [`Merge::asks`] for something, nothing does but by the answer; more may be pushed meanwhile, and waits.
#[derive(Clone, Debug)]
pub struct Merge<T> {
    sizes: Sizes,
    /// Start of the open chunk.
    start: u64,
    /// Bytes of it that are merged: less than the maximum.
    len: u32,
    sum: Crc32c,
    whole: Option<T>,
    waiting: VecDeque<SubChunk<T>>,
    /// Ends of the segments that wait.
    segment_ends: VecDeque<u64>,
    /// A boundary was assumed where the open chunk does not end.
    doubts: bool,
}

impl<T> Merge<T> {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            start: 0,
            len: 0,
            sum: Crc32c::EMPTY,
            whole: None,
            waiting: VecDeque::new(),
            segment_ends: VecDeque::new(),
            doubts: false,
        }
    }

    /// Takes the sub-chunks of the next segment. All segments come, in order.
    #[must_use = "these chunks are not told again"]
    pub fn push(&mut self, next: SubChunks<T>) -> Vec<Merged<T>> {
        self.waiting.extend(next.found);
        self.segment_ends.push_back(next.end);
        self.release()
    }

    /// Answer that is needed before anything else is certain.
    #[must_use]
    pub fn asks(&self) -> Option<Ask> {
        self.waiting.front()?;
        let at = self.at();
        if self.doubts {
            let end = self.segment_ends.front().expect("what waits is of a segment that waits");
            return Some(Ask::Judge(at..*end));
        }
        Some(Ask::Sum(at..self.start + u64::from(self.sizes.max())))
    }

    /// Takes the sum that it asks for.
    ///
    /// # Panics
    /// If nothing waits.
    #[must_use = "these chunks are not told again"]
    pub fn split(&mut self, front: Crc32c) -> Vec<Merged<T>> {
        let cut = self.waiting.front_mut().expect("a sub-chunk waits to be split");
        let len = self.sizes.max() - self.len;
        cut.len -= len;
        // whole = front x^|back| + back, so back = front x^|back| + whole.
        cut.sum = front.concat(cut.sum, cut.len.into());
        cut.whole = None;
        self.waiting.push_front(SubChunk { len, sum: front, end: End::Mark, whole: None });
        self.release()
    }

    /// Takes the sub-chunks that it asks for.
    ///
    /// # Panics
    /// If they do not end where a segment does that waits.
    #[must_use = "these chunks are not told again"]
    pub fn judge(&mut self, again: SubChunks<T>) -> Vec<Merged<T>> {
        assert_eq!(self.segment_ends.front(), Some(&again.end), "the rest of the segment");
        let mut left = again.end - self.at();
        while left > 0 {
            let doubted = self.waiting.pop_front().expect("a segment waits to its end");
            left -= u64::from(doubted.len);
        }
        again.found.into_iter().rev().for_each(|found| self.waiting.push_front(found));
        self.doubts = false;
        self.release()
    }

    /// The last chunk, which the end of the file cuts short, if there is one.
    ///
    /// # Panics
    /// If something is asked for.
    #[must_use = "this chunk is not told again"]
    pub fn finish(self) -> Option<Merged<T>> {
        assert!(self.waiting.is_empty(), "what is asked for has its answer");
        (self.len > 0).then_some(Merged { len: self.len, sum: self.sum, whole: self.whole })
    }

    /// Start of the bytes that are not merged.
    fn at(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Merges up to the first sub-chunk that a maximum falls into, or to a boundary that was assumed and is none.
    fn release(&mut self) -> Vec<Merged<T>> {
        let (min, max) = (self.sizes.min(), self.sizes.max());
        let mut chunks = Vec::new();
        while !self.doubts
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
            let is_candidate = next.end != End::Mark;
            if self.len == max || is_candidate && self.len >= min {
                chunks.push(Merged { len: self.len, sum: self.sum, whole: self.whole.take() });
                self.start += u64::from(self.len);
                (self.len, self.sum) = (0, Crc32c::EMPTY);
            } else if next.end == End::Assumed {
                // Behind a segment's last byte nothing was judged by that.
                self.doubts = !ended;
            }
        }
        chunks
    }
}

/// Longest sub-chunk: what is read again for one maximum is less.
const MARK_BYTES: usize = 2 << 10;
