//! Parallel chunking: segments are cut independently and joined to the chunks of one pass (docs/laws.md, 2;
//! chunk invariability in ParaSync §2.3).
//!
//! ```text
//! cut a segment:  mine = first byte of this segment, theirs = first byte of the next segment
//!                 until mine == theirs:
//!                     the smaller of the two = end of the chunk that starts there;  sum the chunk if it is mine
//!
//! join, in order: at = end of the final chunks, a boundary
//!                 if a chunk of the next run starts at `at`:  all chunks from there on are final
//!                 else there is a seam:  cut from `at` on, as a segment up to the start of that run's next chunk
//! ```
//!
//! 1. A chunker is stateless (law 1): two passes that share one boundary share all later boundaries. A segment is
//!    cut as if a chunk began at its first byte, so its chunks are right after its first true boundary. That
//!    holds for every chunker; the merge of ParaSync needs a hash of a window (see
//!    [`SubChunks`](super::SubChunks)).
//! 2. The job of one segment also follows the boundaries of the next segment, until both share a boundary.
//!    Cutting is cheap compared with summing, and the next segment's chunks are summed by another job. Then
//!    runs join without reading the bytes again. Only the few chunks between the end of the segment and that
//!    boundary are summed twice.
//! 3. In low-entropy data boundaries may realign late or never. Then the bytes after the segment do not
//!    suffice, and the seam is cut in jobs of its own, one after the other. The chunks stay the same.
//! 4. No threads, no files: [`FileSegments`] says what to read, [`Segment::cut`] runs on any thread,
//!    [`SegmentStitcher`] sees no bytes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;

use super::{AtEnd, Chunker, ChunkerSpec};

/// The segments of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSegments {
    file_len: u64,
    segment_len: u64,
    overlap: u64,
}

impl FileSegments {
    /// Splits a file of `file_len` bytes into segments of at least `segment_len` bytes.
    ///
    /// The length is rounded up to a multiple of the longest chunk. Then fixed chunks and most holes need no
    /// seam. Each segment reads four maximal chunks beyond its end, so `segment_len` should be at least 64
    /// maximal chunks and at least 1 MiB.
    #[must_use]
    pub fn new(spec: &ChunkerSpec, file_len: u64, segment_len: u64) -> Self {
        let max_len = u64::from(spec.max_len());
        let segment_len = segment_len.max(1).next_multiple_of(max_len);
        Self { file_len, segment_len, overlap: OVERLAP_CHUNKS * max_len }
    }

    /// The segments, in order.
    pub fn iter(&self) -> impl Iterator<Item = Segment> + use<> {
        let all = *self;
        (0..).map_while(move |n| all.get(n))
    }

    /// Segment number `n`, counted from 0.
    #[must_use]
    pub fn get(&self, n: u64) -> Option<Segment> {
        let start = n.checked_mul(self.segment_len).filter(|start| *start < self.file_len)?;
        let end = self.file_len.min(start.saturating_add(self.segment_len));
        Some(self.segment(start..end, self.overlap))
    }

    /// Maximum number of bytes that a segment or a seam reads.
    #[must_use]
    pub const fn most_read(&self) -> u64 {
        self.segment_len + self.overlap
    }

    fn segment(&self, own: Range<u64>, overlap: u64) -> Segment {
        let read_end = self.file_len.min(own.end + overlap);
        let at_end = if read_end == self.file_len { AtEnd::Yes } else { AtEnd::No };
        Segment { own, read_end, at_end }
    }

    /// The segment from `start` to `end`, where `end` is a chunk boundary of the next segment. A seam reads far
    /// ahead, because boundaries that did not realign early may not realign soon.
    fn seam(&self, start: u64, end: u64) -> Segment {
        let read_len = self.most_read().max(end - start);
        self.segment(start..end, read_len - (end - start))
    }
}

/// A job of chunking: a byte range of a file, and bytes after the range that may be needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The byte range of the segment. The next segment begins at its end.
    pub own: Range<u64>,
    /// End offset of the bytes to read, from the start of the range.
    pub read_end: u64,
    /// `Yes` if the file ends at `read_end`.
    pub at_end: AtEnd,
}

impl Segment {
    /// Number of bytes to read, from the start of the range.
    #[must_use]
    pub const fn read_len(&self) -> usize {
        (self.read_end - self.own.start) as usize
    }

    /// Cuts `data`, the bytes to read, as if a chunk began at the first byte. Stops at a boundary that the next
    /// segment has too, or at the end of `data`. Passes each chunk to `sum` at once, while its bytes are in the
    /// CPU cache.
    ///
    /// `data` may be shorter than [`Segment::read_len`] only if the file shrank; then there are fewer chunks.
    pub fn cut<T>(
        &self,
        chunker: &impl Chunker,
        data: &[u8],
        sum: impl FnMut(&[u8]) -> T,
    ) -> SegmentChunks<T> {
        let Ok(run) = self.cut_source(chunker, &mut InMemory(data), sum);
        run
    }

    /// As [`Segment::cut`], reading bytes into `buffer` on demand. `read` receives a file offset and a
    /// slice to fill. The slices are small enough to be cut and summed in the CPU cache.
    ///
    /// # Errors
    /// The first error of `read`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Segment::read_len`].
    pub fn cut_while_reading<T, E>(
        &self,
        chunker: &impl Chunker,
        buffer: &mut [u8],
        read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
        sum: impl FnMut(&[u8]) -> T,
    ) -> Result<SegmentChunks<T>, E> {
        let buffer = &mut buffer[..self.read_len()];
        let mut source = OnDemand { buffer, have: 0, start: self.own.start, read };
        self.cut_source(chunker, &mut source, sum)
    }

    fn cut_source<T, S: SegmentSource>(
        &self,
        chunker: &impl Chunker,
        source: &mut S,
        mut sum: impl FnMut(&[u8]) -> T,
    ) -> Result<SegmentChunks<T>, S::Error> {
        let enough = self.at_end.least_to_cut(chunker);
        let mut run = SegmentChunks { start: self.own.start, ends: Vec::new(), sums: Vec::new() };
        let (mut mine, mut theirs) = (0, (self.own.end - self.own.start) as usize);
        while mine != theirs {
            let at = mine.min(theirs);
            while source.bytes().len() < at + chunker.max_len() && source.more()? {}
            let data = source.bytes();
            if data.len() < at + enough {
                break;
            }
            let rest = &data[at..];
            let len = chunker.cut(rest);
            if mine < theirs {
                mine += len;
                run.ends.push(self.own.start + mine as u64);
                run.sums.push(sum(&rest[..len]));
            } else {
                theirs += len;
            }
        }
        Ok(run)
    }
}

/// Source of the bytes of a segment.
trait SegmentSource {
    type Error;

    /// The bytes read so far, from the start of the segment.
    fn bytes(&self) -> &[u8];

    /// Reads more bytes. Returns false at the end of the segment.
    fn more(&mut self) -> Result<bool, Self::Error>;
}

/// A segment that is in memory already.
struct InMemory<'a>(&'a [u8]);

impl SegmentSource for InMemory<'_> {
    type Error = Infallible;

    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn more(&mut self) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Bytes that are read on demand.
struct OnDemand<'a, R> {
    buffer: &'a mut [u8],
    have: usize,
    /// File offset of the first byte.
    start: u64,
    read: R,
}

impl<E, R: FnMut(u64, &mut [u8]) -> Result<(), E>> SegmentSource for OnDemand<'_, R> {
    type Error = E;

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.have]
    }

    fn more(&mut self) -> Result<bool, E> {
        let end = self.buffer.len().min(self.have + PIECE_BYTES);
        let room = &mut self.buffer[self.have..end];
        if room.is_empty() {
            return Ok(false);
        }
        (self.read)(self.start + self.have as u64, room)?;
        self.have = end;
        Ok(true)
    }
}

/// The chunks of a segment, found as if a chunk began at the segment's first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentChunks<T> {
    start: u64,
    /// End offsets of the chunks, ascending.
    ends: Vec<u64>,
    /// The sum of each chunk.
    sums: Vec<T>,
}

impl<T> SegmentChunks<T> {
    /// Makes the chunks of a segment that begins at `start`, from the length and the sum of each chunk, in order.
    #[must_use]
    pub fn from_lens(start: u64, chunks: impl IntoIterator<Item = (u32, T)>) -> Self {
        let mut end = start;
        let chunk = |(len, sum)| {
            end += u64::from(len);
            (end, sum)
        };
        let (ends, sums) = chunks.into_iter().map(chunk).unzip();
        Self { start, ends, sums }
    }

    /// File offset of the first byte.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// End offset of the last chunk, or the start if there is no chunk.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// The number of chunks that end at or before `at`, and whether `at` is a chunk boundary.
    fn split(&self, at: u64) -> (usize, bool) {
        let before = self.ends.partition_point(|end| *end <= at);
        let last = before.checked_sub(1).map_or(self.start, |n| self.ends[n]);
        (before, last == at)
    }
}

/// Joins the chunks of segments to the chunks of one pass over the file (law 2).
///
/// [`SegmentStitcher::push`] and [`SegmentStitcher::fill_seam`] return all chunks that became final, in order.
/// While [`SegmentStitcher::seam`] returns a segment (a *seam*), more chunks become final only when the chunks of
/// the seam are passed to `fill_seam`. Further segments may be pushed meanwhile.
#[derive(Clone, Debug)]
pub struct SegmentStitcher<T> {
    segments: FileSegments,
    /// End offset of the final chunks.
    at: u64,
    waiting: VecDeque<SegmentChunks<T>>,
}

impl<T> SegmentStitcher<T> {
    /// Creates a stitcher for `segments`.
    #[must_use]
    pub const fn new(segments: FileSegments) -> Self {
        Self { segments, at: 0, waiting: VecDeque::new() }
    }

    /// Takes the chunks of the next segment. Every segment must be pushed, in order. Returns the chunks that
    /// became final.
    #[must_use = "these chunks are not returned again"]
    pub fn push(&mut self, run: SegmentChunks<T>) -> Vec<T> {
        self.waiting.push_back(run);
        self.release()
    }

    /// Takes the chunks of the segment that [`SegmentStitcher::seam`] returned. Returns the chunks that became
    /// final.
    ///
    /// # Panics
    /// If the run does not begin at the end of the final chunks.
    #[must_use = "these chunks are not returned again"]
    pub fn fill_seam(&mut self, run: SegmentChunks<T>) -> Vec<T> {
        assert_eq!(run.start, self.at, "a seam starts at the end of the final chunks");
        self.waiting.push_front(run);
        self.release()
    }

    /// The bytes to read and cut next, if no chunk of the next segment begins at the end of the final chunks.
    #[must_use]
    pub fn seam(&self) -> Option<Segment> {
        let next = self.waiting.front()?;
        let (before, _) = next.split(self.at);
        // No chunk of this run starts at the end of the final chunks, or the run would not wait.
        let end = if self.at < next.start { next.start } else { next.ends[before] };
        Some(self.segments.seam(self.at, end))
    }

    /// End offset of the final chunks. All chunks are final once this is the length of the file.
    #[must_use]
    pub const fn final_end(&self) -> u64 {
        self.at
    }

    fn release(&mut self) -> Vec<T> {
        let mut certain = Vec::new();
        while let Some(run) = self.waiting.front_mut() {
            let (before, starts) = run.split(self.at);
            if starts {
                certain.extend(run.sums.drain(before..));
                self.at = run.end();
            }
            if self.at < run.end() {
                break;
            }
            self.waiting.pop_front();
        }
        certain
    }
}

/// Number of bytes to read at a time; a buffer and its source fit in the L2 cache.
const PIECE_BYTES: usize = 128 << 10;

/// Number of maximal chunks to read after a segment. Boundaries of the sieve realign by then, except in one of
/// 70 segments in executable files, and one of 500 in random bytes (docs/decisions/0015).
const OVERLAP_CHUNKS: u64 = 4;
