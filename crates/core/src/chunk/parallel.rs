//! Segments cut independently, joined to the chunks of one pass (docs/laws.md, 2; chunk invariability in ParaSync
//! §2.3).
//!
//! ```text
//! cut a segment:  mine = its first byte, theirs = the first byte of the next segment
//!                 until mine == theirs:
//!                     the lesser of the two = the end of the chunk that starts there;  sum the chunk if it is mine
//!
//! join, in order: at = where the certain chunks end, and a chunk starts
//!                 if a chunk of the next run starts at `at`:  all from there on are certain
//!                 else a seam is left:  cut from `at` on, as a segment that ends where that run's next chunk starts
//! ```
//!
//! 1. A chunker is memoryless (law 1): two passes that share one boundary share all later ones. So chunks that were
//!    found as if one started at a segment's first byte are right from the first boundary on that is one of the
//!    file's. That holds for every chunker, where ParaSync's merge needs a hash of a window (see
//!    [`SubChunks`](super::SubChunks)).
//! 2. Who cuts a segment follows the next one's boundaries too, until it meets one: cutting is cheap, summing is not,
//!    and whoever sums those chunks does so in another thread. Then runs join without a further look at the bytes,
//!    and what is summed twice is what lies between the segment's end and that boundary: a few chunks.
//! 3. On bytes with little in them boundaries may meet late or never. Then the bytes behind the segment do not suffice,
//!    and the seam is cut on its own, again and again if need be: slower, one after the other, and the same chunks.
//! 4. No thread, no file: [`Segments`] says what to read, [`Segment::cut`] is for any thread, [`Stitch`] sees no bytes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;

use super::{AtEnd, Chunker, ChunkerSpec};

/// The segments of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    file_len: u64,
    segment_len: u64,
    overlap: u64,
}

impl Segments {
    /// Segments of at least `segment_len` bytes for a file of `file_len` bytes.
    ///
    /// Segments are a multiple of the longest chunk: then fixed chunks need no seam, nor do most holes. Four of the
    /// longest chunks are read twice for each segment, so let it have many: 64 of them, or 1 MiB, whichever is more.
    #[must_use]
    pub fn new(spec: &ChunkerSpec, file_len: u64, segment_len: u64) -> Self {
        let max_len = u64::from(spec.max_len());
        let segment_len = segment_len.max(1).next_multiple_of(max_len);
        Self { file_len, segment_len, overlap: OVERLAP_CHUNKS * max_len }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Segment> + use<> {
        let all = *self;
        (0..).map_while(move |n| all.get(n))
    }

    /// Number `n` of them, counted from 0.
    #[must_use]
    pub fn get(&self, n: u64) -> Option<Segment> {
        let start = n.checked_mul(self.segment_len).filter(|start| *start < self.file_len)?;
        let end = self.file_len.min(start.saturating_add(self.segment_len));
        Some(self.segment(start..end, self.overlap))
    }

    /// The most bytes that a segment or a seam reads.
    #[must_use]
    pub const fn most_read(&self) -> u64 {
        self.segment_len + self.overlap
    }

    fn segment(&self, own: Range<u64>, overlap: u64) -> Segment {
        let read_end = self.file_len.min(own.end + overlap);
        let at_end = if read_end == self.file_len { AtEnd::Yes } else { AtEnd::No };
        Segment { own, read_end, at_end }
    }

    /// The segment from `start` to where another's chunk starts. It is read far ahead: boundaries that have not met
    /// yet may not do so soon.
    fn seam(&self, start: u64, end: u64) -> Segment {
        let read_len = self.most_read().max(end - start);
        self.segment(start..end, read_len - (end - start))
    }
}

/// A part of a file to be cut, and the bytes behind it that may be needed: one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its bytes. The next segment starts behind them.
    pub own: Range<u64>,
    /// End of the bytes that are read, from its start.
    pub read_end: u64,
    /// Whole or cut: the file ends at `read_end`, or goes on.
    pub at_end: AtEnd,
}

impl Segment {
    /// Bytes to be read from its start.
    #[must_use]
    pub const fn read_len(&self) -> usize {
        (self.read_end - self.own.start) as usize
    }

    /// Cuts `data`, the bytes to be read, as if a chunk started at the first. Stops at a boundary that the next
    /// segment has as well, or where the bytes end. Each chunk is handed to `sum` at once, while it is in the cache.
    ///
    /// Fewer bytes than to be read give fewer chunks; nobody but a file that shrank may have that.
    pub fn cut<T>(
        &self,
        chunker: &impl Chunker,
        data: &[u8],
        sum: impl FnMut(&[u8]) -> T,
    ) -> SegmentChunks<T> {
        let Ok(run) = self.cut_source(chunker, &mut AtHand(data), sum);
        run
    }

    /// The same of bytes that `read` puts into `buffer` as they are needed. `read` gets an offset in the file and a
    /// slice, which it must fill with the bytes from there on. Pieces are small enough to be cut and summed in the
    /// cache.
    ///
    /// # Errors
    /// Whatever `read` ends with.
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
        let mut source = Arriving { buffer, have: 0, start: self.own.start, read };
        self.cut_source(chunker, &mut source, sum)
    }

    fn cut_source<T, S: Source>(
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

/// The bytes of a segment.
trait Source {
    type Error;

    /// Bytes that are there, from the first on.
    fn bytes(&self) -> &[u8];

    /// Gets more, if there are more.
    fn more(&mut self) -> Result<bool, Self::Error>;
}

/// All of them.
struct AtHand<'a>(&'a [u8]);

impl Source for AtHand<'_> {
    type Error = Infallible;

    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn more(&mut self) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Bytes as they are read.
struct Arriving<'a, R> {
    buffer: &'a mut [u8],
    have: usize,
    /// Start of the bytes in the file.
    start: u64,
    read: R,
}

impl<E, R: FnMut(u64, &mut [u8]) -> Result<(), E>> Source for Arriving<'_, R> {
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

/// Chunks found as if one started at a given byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentChunks<T> {
    start: u64,
    /// Ends of its chunks, rising.
    ends: Vec<u64>,
    /// Sums, one for each chunk.
    sums: Vec<T>,
}

impl<T> SegmentChunks<T> {
    /// The offset of its first byte.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// End of its last chunk, or its start.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// Number of its chunks that end up to `at`, and true if a chunk may start there.
    fn split(&self, at: u64) -> (usize, bool) {
        let before = self.ends.partition_point(|end| *end <= at);
        let last = before.checked_sub(1).map_or(self.start, |n| self.ends[n]);
        (before, last == at)
    }
}

/// Joins the runs of segments to the chunks of one pass over the file (law 2).
///
/// [`Stitch::push`] and [`Stitch::fill_seam`] return all chunks that became certain, in order. While [`Stitch::seam`]
/// has a segment, nothing does but by mending it; more runs may be pushed meanwhile, and wait.
#[derive(Clone, Debug)]
pub struct Stitch<T> {
    segments: Segments,
    /// End of the certain chunks.
    at: u64,
    waiting: VecDeque<SegmentChunks<T>>,
}

impl<T> Stitch<T> {
    /// Joins runs of `segments`.
    #[must_use]
    pub const fn new(segments: Segments) -> Self {
        Self { segments, at: 0, waiting: VecDeque::new() }
    }

    /// Takes the run of the next segment. All segments come, in order.
    #[must_use = "these chunks are not told again"]
    pub fn push(&mut self, run: SegmentChunks<T>) -> Vec<T> {
        self.waiting.push_back(run);
        self.release()
    }

    /// Takes the run of the seam.
    ///
    /// # Panics
    /// If the run does not start where the certain chunks end: it is not that of [`Stitch::seam`].
    #[must_use = "these chunks are not told again"]
    pub fn fill_seam(&mut self, run: SegmentChunks<T>) -> Vec<T> {
        assert_eq!(run.start, self.at, "a seam starts where the certain chunks end");
        self.waiting.push_front(run);
        self.release()
    }

    /// Bytes that must be read and cut again before anything else is certain.
    #[must_use]
    pub fn seam(&self) -> Option<Segment> {
        let next = self.waiting.front()?;
        let (before, _) = next.split(self.at);
        // None of its chunks starts where the certain ones end, or it would not wait.
        let end = if self.at < next.start { next.start } else { next.ends[before] };
        Some(self.segments.seam(self.at, end))
    }

    /// End of the certain chunks. At the end of the file, all are.
    #[must_use]
    pub const fn certain(&self) -> u64 {
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

/// Bytes read at a time: as many as fit into a second-level cache beside their source.
const PIECE_BYTES: usize = 128 << 10;

/// Bytes read behind a segment, in longest chunks. Boundaries of the sieve have met by then, but for one segment in
/// seventy in files of programs, one in five hundred in random bytes (docs/decisions/0015).
const OVERLAP_CHUNKS: u64 = 4;
