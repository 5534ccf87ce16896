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
//! 4. The stages take turns over pieces of the file, so there is no bit for each byte: candidates of a piece are a
//!    short list.
//! 5. The first stage is also there by segments, for threads. Sums of chunks are left to who knows the chunks, after
//!    the second stage: that is what ParaSync does better ([`TwoStage::sub_chunks`]).

use std::ops::Range;

use super::crc::{Crc, WindowCrc};
#[cfg(target_arch = "x86_64")]
use super::gathered::Scan;
use super::gear::{Gear, GearHash, Level};
use super::rolling::{Rolling, first};
use super::sub_chunks::{Merge, Queue, SubChunks};
use super::{Algorithm, ChunkerSpec, Sizes};
use crate::simd::Isa;
use crate::weak::Crc32c;

/// Finds the chunks of a whole file in memory, candidates first.
#[derive(Clone, Copy, Debug)]
pub struct TwoStage {
    hash: Hash,
    sizes: Sizes,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing to gather with"))]
    isa: Isa,
}

/// Ends that the first stage of a segment judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// All.
    Every,
    /// All, until the boundaries that were found must be those of the file; behind, only those that chunks from there
    /// on can have, as a chunker in one stage does. Where they were not the file's after all, [`Merge`] asks again.
    AsCut,
}

/// Hash that is rolled, and the bound that it must reach.
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
        let (mut walk, mut candidates) = (Walk::new(self.sizes, 0), Vec::new());
        let mut each = |chunk| lens.push(len_of(&chunk));
        for ends in pieces(self.sizes.min() as usize..data.len()) {
            self.first_stage(data, ends, &mut candidates);
            candidates.drain(..).for_each(|end| walk.offer(end as u64, &mut each));
        }
        walk.finish(data.len() as u64, &mut each);
    }

    /// The bytes of a file that `segment` is judged by: its own, and a window before them, so that its candidates do
    /// not depend on where it begins.
    #[must_use]
    pub const fn read(segment: &Range<u64>) -> Range<u64> {
        segment.start.saturating_sub(WINDOW as u64)..segment.end
    }

    /// The first stage of a segment, for any thread: appends the offsets of its candidates, rising. `data` are the
    /// bytes of [`TwoStage::read`].
    pub fn candidates(&self, segment: &Range<u64>, data: &[u8], candidates: &mut Vec<u64>) {
        let start = Self::read(segment).start;
        let mut found = Vec::new();
        for ends in pieces(self.ends(segment)) {
            self.first_stage(data, ends, &mut found);
            candidates.extend(found.drain(..).map(|end| start + end as u64));
        }
    }

    /// The second stage: appends the lengths of all chunks of a file of `len` bytes with these candidates.
    pub fn choose(&self, candidates: impl IntoIterator<Item = u64>, len: u64, lens: &mut Vec<u32>) {
        let mut walk = Walk::new(self.sizes, 0);
        let mut each = |chunk| lens.push(len_of(&chunk));
        candidates.into_iter().for_each(|end| walk.offer(end, &mut each));
        walk.finish(len, &mut each);
    }

    /// ParaSync's first stage of a segment, for any thread: candidates, and sums of what lies between them. `data`
    /// are the bytes of [`TwoStage::read`]. The first of `sums` is of any bytes, and may be always the same if nobody
    /// wants it; the second is what else is wanted of a whole chunk, once it is thought to be one.
    pub fn sub_chunks<T>(
        &self,
        segment: &Range<u64>,
        data: &[u8],
        judge: Judge,
        (of_part, mut of_chunk): (impl FnMut(&[u8]) -> Crc32c, impl FnMut(&[u8]) -> Option<T>),
    ) -> SubChunks<T> {
        let start = Self::read(segment).start;
        let own = &data[(segment.start - start) as usize..];
        let mut queue = Queue::new(own, segment.start, of_part);
        let mut walk = Walk::new(self.sizes, segment.start);
        let meet = u64::from(self.sizes.max()) * MEET_CHUNKS;
        let (mut ends, mut assumes) = (self.ends(segment), false);
        let assume_from = match judge {
            Judge::Every => u64::MAX,
            // The file's first chunk is no assumption.
            Judge::AsCut if segment.start == 0 => {
                assumes = true;
                0
            }
            Judge::AsCut => segment.start + meet,
        };
        while !assumes && let Some(found) = self.next(data, ends.clone()) {
            ends.start = found + 1;
            let end = start + found as u64;
            walk.fill(end, &mut |chunk| queue.mark(chunk.end));
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
        walk.fill(segment.end, &mut |chunk| queue.mark(chunk.end));
        queue.mark(segment.end);
        queue.finish(segment.end)
    }

    /// End of the chunk that starts where `open` does, if that is within `open`, and whether the hash says so. `data`
    /// starts at `start`.
    fn cut(&self, data: &[u8], start: u64, open: Range<u64>) -> Option<(u64, bool)> {
        let max_end = open.start + u64::from(self.sizes.max());
        let ends = open.start + u64::from(self.sizes.min())..max_end.min(open.end + 1);
        let at = |end: u64| end.saturating_sub(start) as usize;
        match self.next(data, at(ends.start)..at(ends.end)) {
            Some(found) => Some((start + found as u64, true)),
            None => (max_end <= open.end).then_some((max_end, false)),
        }
    }

    /// The first of `ends` that the hash would cut at.
    fn next(&self, data: &[u8], ends: Range<usize>) -> Option<usize> {
        if ends.is_empty() {
            return None;
        }
        match self.hash {
            Hash::Crc { limit } => first::<Crc, _>(data, ends, limit),
            Hash::Gear { limit } => first::<GearHash, _>(data, ends, limit),
        }
    }

    /// ParaSync's second stage.
    #[must_use]
    pub const fn merge<T>(&self) -> Merge<T> {
        Merge::new(self.sizes)
    }

    /// Range in which chunks may end in a segment, counted from the first byte that is read for it.
    fn ends(&self, segment: &Range<u64>) -> Range<usize> {
        let start = Self::read(segment).start;
        let first = (segment.start + 1).max(self.sizes.min().into());
        (first - start) as usize..(segment.end + 1).saturating_sub(start) as usize
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
struct Walk {
    sizes: Sizes,
    /// Start of the open chunk.
    start: u64,
}

impl Walk {
    const fn new(sizes: Sizes, start: u64) -> Self {
        Self { sizes, start }
    }

    /// Cuts at `end`, behind all before it, if the sizes allow it. Tells each chunk.
    fn offer(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
        self.fill(end, each);
        if end - self.start >= self.sizes.min().into() {
            self.cut(end, each);
        }
    }

    fn finish(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
        self.fill(end, each);
        if self.start < end {
            self.cut(end, each);
        }
    }

    /// Cuts at maxima, as long as `end` lies beyond one.
    fn fill(&mut self, end: u64, each: &mut impl FnMut(Range<u64>)) {
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

const fn len_of(chunk: &Range<u64>) -> u32 {
    (chunk.end - chunk.start) as u32
}

/// Parts of `ends` that the first stage takes at a time.
fn pieces(ends: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = ends.end;
    ends.step_by(PIECE).map(move |at| at..end.min(at + PIECE))
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
/// Distance behind a segment's start from which its boundaries are taken for the file's, in longest chunks: in files
/// of programs and in random bytes they are, but for one segment in fifty (docs/decisions/0015).
const MEET_CHUNKS: u64 = 4;
/// Bytes before a byte that a hash behind it depends on, at most.
const WINDOW: usize = <Crc as Rolling<4>>::WINDOW;
