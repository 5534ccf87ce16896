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
//! 5. The first stage is also there by segments, for threads. Sums of chunks are left to who knows the chunks, after the
//!    second stage: that is what ParaSync does better ([`TwoStage::sub_chunks`]).

use std::ops::Range;

use super::crc::{Crc, WindowCrc};
#[cfg(target_arch = "x86_64")]
use super::gathered::Scan;
use super::gear::{Gear, GearHash, Level};
use super::rolling::{Rolling, first};
use super::sub_chunks::{Merge, Queue, SubChunks};
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
        let (mut walk, mut candidates) = (Walk::new(self.sizes, 0), Vec::new());
        let mut each = |chunk| lens.push(len_of(&chunk));
        for ends in pieces(self.sizes.min() as usize..data.len()) {
            self.first_stage(data, ends, &mut candidates);
            candidates.drain(..).for_each(|end| walk.offer(end as u64, &mut each));
        }
        walk.finish(data.len() as u64, &mut each);
    }

    /// The bytes of a file that `segment` is judged by: its own, and a window before them, so that its candidates do not
    /// depend on where it begins.
    #[must_use]
    pub const fn read(segment: &Range<u64>) -> Range<u64> {
        segment.start.saturating_sub(WINDOW as u64)..segment.end
    }

    /// The first stage of a segment, for any thread: appends the offsets of its candidates, rising. `data` are the bytes
    /// of [`TwoStage::read`].
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

    /// ParaSync's first stage of a segment, for any thread: candidates, and sums of what lies between them. `data` are the
    /// bytes of [`TwoStage::read`].
    #[must_use]
    pub fn sub_chunks(&self, segment: &Range<u64>, data: &[u8]) -> SubChunks {
        let start = Self::read(segment).start;
        let mut queue = Queue::new(&data[(segment.start - start) as usize..], segment.start);
        let (mut walk, mut candidates) = (Walk::new(self.sizes, segment.start), Vec::new());
        for ends in pieces(self.ends(segment)) {
            self.first_stage(data, ends, &mut candidates);
            for end in candidates.drain(..).map(|end| start + end as u64) {
                walk.fill(end, &mut |chunk| queue.mark(chunk.end));
                queue.candidate(end);
                walk.offer(end, &mut |_| ());
            }
        }
        walk.fill(segment.end, &mut |chunk| queue.mark(chunk.end));
        queue.mark(segment.end);
        queue.finish()
    }

    /// ParaSync's second stage.
    #[must_use]
    pub const fn merge(&self) -> Merge {
        Merge::new(self.sizes)
    }

    /// Where chunks may end in a segment, counted from the first byte that is read for it.
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
    /// Where the open chunk starts.
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
/// Bytes before a byte that a hash behind it depends on, at most.
const WINDOW: usize = <Crc as Rolling<4>>::WINDOW;
