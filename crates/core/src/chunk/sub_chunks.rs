//! Chunk sums without a second look at the bytes: ParaSync's parallel chunking (§3.1, figure 8).
//!
//! ```text
//! 1. for each segment, by any thread:  where the hash would cut, whatever the sizes, and the sum of each sub-chunk
//!                                      between two such candidates
//! 2. sub-chunks in order, by one:      chunk's sum = concat of its sub-chunks' sums
//!                                      cut where a chunk ends with a candidate and has its minimum, and at every maximum
//! ```
//!
//! What differs from the paper, and why:
//!
//! 1. Candidates do not depend on where a segment begins: the window before it is read as well.
//! 2. A maximum may fall into a sub-chunk, of which the paper does not speak. So the first stage also ends sub-chunks at
//!    marks: where a chunker that began at the segment's first byte would cut at its maximum. After a few chunks its
//!    boundaries are the file's (law 2), and so are these maxima. Before that, the second stage asks for the sum of the
//!    sub-chunk's front, and derives that of its back: few bytes, since sub-chunks longer than [`MARK_BYTES`] are marked
//!    as well.
//! 3. The sum of a segment's last bytes is a sub-chunk of its own, so the stages need no barrier between them: the second
//!    one takes segments as they come.
//! 4. Equation 1 holds with [`Crc32c::concat`], not as published: see there.
//!
//! The first stage judges every byte. A chunker in one stage skips minima, and so does [`Stitch`](super::Stitch), which
//! sums a few bytes twice instead: it is the faster one, for every chunker.

use std::collections::VecDeque;
use std::ops::Range;

use super::Sizes;
use crate::weak::Crc32c;

/// What [`TwoStage::sub_chunks`](super::TwoStage::sub_chunks) found in a segment, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubChunks(Vec<SubChunk>);

/// Bytes that lie in one chunk, but for a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubChunk {
    len: u32,
    sum: Crc32c,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The hash would cut.
    Candidate,
    /// Nothing would, but perhaps the maximum.
    Mark,
}

/// Sub-chunks in the making.
pub(super) struct Queue<'a> {
    /// What is not in one yet.
    rest: &'a [u8],
    /// Where that starts.
    at: u64,
    found: Vec<SubChunk>,
}

impl<'a> Queue<'a> {
    /// Sub-chunks of the segment `data`, which starts at `at`.
    pub(super) const fn new(data: &'a [u8], at: u64) -> Self {
        Self { rest: data, at, found: Vec::new() }
    }

    /// Ends one where the hash would cut.
    pub(super) fn candidate(&mut self, end: u64) {
        self.mark(end);
        if let Some(last) = self.found.last_mut() {
            last.end = End::Candidate;
        }
    }

    /// Ends one anyway.
    pub(super) fn mark(&mut self, end: u64) {
        let (bytes, rest) = self.rest.split_at((end - self.at) as usize);
        let sub_chunk = |piece: &[u8]| SubChunk {
            len: piece.len() as u32,
            sum: Crc32c::of(piece),
            end: End::Mark,
        };
        self.found.extend(bytes.chunks(MARK_BYTES).map(sub_chunk));
        (self.rest, self.at) = (rest, end);
    }

    /// All of them.
    pub(super) fn finish(self) -> SubChunks {
        SubChunks(self.found)
    }
}

/// A chunk's length in bytes, and its sum.
pub type Summed = (u32, Crc32c);

/// Merges the sub-chunks of a file's segments into its chunks (laws 2 and 3).
///
/// What [`Merge::push`] and [`Merge::split`] return are all chunks that became certain, in order. While
/// [`Merge::unknown`] has a range, nothing does but by its sum; more may be pushed meanwhile, and waits.
#[derive(Clone, Debug)]
pub struct Merge {
    sizes: Sizes,
    /// Where the open chunk starts.
    start: u64,
    /// What of it is merged, in bytes: less than the maximum.
    len: u32,
    sum: Crc32c,
    waiting: VecDeque<SubChunk>,
}

impl Merge {
    pub(super) const fn new(sizes: Sizes) -> Self {
        Self { sizes, start: 0, len: 0, sum: Crc32c::EMPTY, waiting: VecDeque::new() }
    }

    /// Takes the sub-chunks of the next segment. All segments come, in order.
    #[must_use = "these chunks are not told again"]
    pub fn push(&mut self, next: &SubChunks) -> Vec<Summed> {
        self.waiting.extend(&next.0);
        self.release()
    }

    /// Bytes whose sum is needed before anything else is certain: a maximum falls behind them, into a sub-chunk.
    #[must_use]
    pub fn unknown(&self) -> Option<Range<u64>> {
        self.waiting.front()?;
        let start = self.start + u64::from(self.len);
        Some(start..self.start + u64::from(self.sizes.max()))
    }

    /// Takes the sum of [`Merge::unknown`].
    ///
    /// # Panics
    /// If nothing is unknown.
    #[must_use = "these chunks are not told again"]
    pub fn split(&mut self, front: Crc32c) -> Vec<Summed> {
        let cut = self.waiting.front_mut().expect("a sub-chunk waits to be split");
        let len = self.sizes.max() - self.len;
        cut.len -= len;
        // whole = front x^|back| + back, so back = front x^|back| + whole.
        cut.sum = front.concat(cut.sum, cut.len.into());
        self.waiting.push_front(SubChunk { len, sum: front, end: End::Mark });
        self.release()
    }

    /// The last chunk, which the end of the file cuts short, if there is one.
    ///
    /// # Panics
    /// If something is unknown.
    #[must_use = "this chunk is not told again"]
    pub fn finish(self) -> Option<Summed> {
        assert!(self.waiting.is_empty(), "what is unknown has its answer");
        (self.len > 0).then_some((self.len, self.sum))
    }

    /// Merges up to the first sub-chunk that a maximum falls into.
    fn release(&mut self) -> Vec<Summed> {
        let (min, max) = (self.sizes.min(), self.sizes.max());
        let mut chunks = Vec::new();
        while let Some(next) = self.waiting.pop_front_if(|next| self.len + next.len <= max) {
            self.sum = self.sum.concat(next.sum, next.len.into());
            self.len += next.len;
            if self.len == max || (next.end == End::Candidate && self.len >= min) {
                chunks.push((self.len, self.sum));
                self.start += u64::from(self.len);
                (self.len, self.sum) = (0, Crc32c::EMPTY);
            }
        }
        chunks
    }
}

/// Longest sub-chunk: what is read again for one maximum is less.
const MARK_BYTES: usize = 2 << 10;
