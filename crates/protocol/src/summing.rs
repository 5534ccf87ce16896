//! Cuts and sums one version of a file, with the work shared among threads as the strategy says (ParaSync §2.3,
//! §3.1).
//!
//! ```text
//! Parallel::No          one segment after another: cut, sum
//! Parallel::SsCdc       bits of possible chunk ends of all segments at once; then chunks; then sums, one segment after
//!                       another
//! Parallel::SkippedMinima   the same with lists in place of bits
//! Parallel::SubChunks   possible chunk ends of all segments at once, with sums of the bytes between; merged in order
//! Parallel::Regions     all segments at once, cut and summed separately; stitched in order
//! ```
//!
//! In every mode the sums come out in the order of the file and equal those of a single pass (laws 2 and 3).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use deltic_core::chunk::{
    BoundaryBits, BoundaryWalk, ChunkerSpec, JudgeScope, MergeRequest, MergedChunk, Segment,
    SegmentChunks, SsCdc, SubChunkMerge, SubChunks, TwoStage,
};
use deltic_core::strategy::ParallelMode;
use deltic_core::{Crc32c, Isa, StrongSum};

use crate::cutting::{CutPart, FileCutting};
use crate::limits::{MAX_SUMS, SEGMENT_BYTES};
use crate::sums::Sum;

/// A portion of a version to be cut or summed: one piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Portion {
    /// Cut about one segment from this offset, and sum the chunks that later bytes cannot change.
    From(u64),
    /// Set a bit for each possible chunk end in these bytes ([`SsCdc::boundaries`]).
    Boundaries(Range<u64>),
    /// Find possible chunk ends in these bytes, without sums ([`TwoStage::sub_chunks`]).
    Ends(Range<u64>, JudgeScope),
    /// Find possible chunk ends in these bytes, with sums of the bytes between.
    SubChunks(Range<u64>, JudgeScope),
    /// Sum consecutive chunks of these lengths from this offset.
    Chunks(u64, Vec<u32>),
    /// Cut a segment as if a chunk started with the segment, and sum the chunks.
    Segment(Segment),
    /// Hash these bytes for the file's digest, without cutting.
    Digest(Range<u64>),
}

/// Result of a portion.
#[derive(Debug)]
pub enum Summed {
    /// Sums of [`Portion::From`] and [`Portion::Chunks`]; no sums for [`Portion::Digest`]. True at the end of the
    /// file.
    Chunks(Vec<Sum>, bool),
    /// Chunks of [`Portion::Segment`], with their sums.
    Segment(SegmentChunks<Sum>),
    /// Bits of [`Portion::Boundaries`].
    Boundaries(BoundaryBits),
    /// Sub-chunks of [`Portion::Ends`] and [`Portion::SubChunks`], with the strong sums of possible chunks if
    /// requested.
    SubChunks(SubChunks<StrongSum>),
}

/// Portion that a result belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SumStep {
    Turn,
    /// The bytes that the digest takes next.
    Digest,
    Part(CutPart),
    Segment(u64),
    Judged,
    Front,
    /// Chunks from this number on, which still lack strong sums.
    Unnamed(u64),
}

impl SumStep {
    /// True if `summed` is the kind of result that this step yields.
    pub(crate) const fn accepts_result(self, summed: &Summed) -> bool {
        match self {
            Self::Segment(_) => matches!(summed, Summed::SubChunks(_) | Summed::Boundaries(_)),
            Self::Judged => matches!(summed, Summed::SubChunks(_)),
            Self::Part(_) => matches!(summed, Summed::Segment(_)),
            Self::Turn | Self::Digest | Self::Front | Self::Unnamed(_) => {
                matches!(summed, Summed::Chunks(..))
            }
        }
    }
}

/// A version of a file while it is summed.
#[derive(Debug)]
pub(crate) struct FileSummation {
    len: u64,
    /// End of the chunks with returned sums.
    given: u64,
    /// True while a portion is under way that must run alone.
    out: bool,
    complete: bool,
    stages: Option<Box<SumStages>>,
    cutting: Option<Box<FileCutting<Sum>>>,
}

impl FileSummation {
    /// Prepares the sums of a version of `len` bytes, with strong sums of all chunks if `strong` is set.
    pub(crate) fn new(
        parallel: ParallelMode,
        spec: &ChunkerSpec,
        len: u64,
        strong: Option<deltic_core::StrongKind>,
    ) -> Self {
        let merge = match parallel {
            _ if len == 0 => None,
            ParallelMode::SsCdc => {
                SsCdc::new(spec, Isa::SCALAR).map(|stages| SecondStage::Bits(stages.walk()))
            }
            ParallelMode::SkippedMinima | ParallelMode::SubChunks => {
                TwoStage::new(spec).map(|stages| SecondStage::SubChunks(stages.merge()))
            }
            _ => None,
        };
        let stages = merge.map(|merge| SumStages {
            len,
            parallel,
            names: strong.is_some(),
            next: 0,
            joined: 0,
            early: BTreeMap::new(),
            merge: Some(merge),
            gathered: 0,
            asked: false,
            end: 0,
            count: 0,
            certain: VecDeque::new(),
            first: 0,
            unnamed: VecDeque::new(),
        });
        let is_long = parallel == ParallelMode::Regions && len >= LEAST_SHARED_BYTES;
        let cutting = is_long.then(|| Box::new(FileCutting::new(spec, len)));
        let stages = stages.map(Box::new);
        Self { len, given: 0, out: false, complete: false, stages, cutting }
    }

    /// True if no portion hashes the file while it is cut.
    pub(crate) fn hashes_separately(&self) -> bool {
        self.cutting.is_some()
    }

    /// Returns the next portion that may be processed now.
    pub(crate) fn next(&mut self) -> Option<(SumStep, Portion)> {
        if let Some(cutting) = &mut self.cutting {
            let (part, segment) = cutting.next()?;
            return Some((SumStep::Part(part), Portion::Segment(segment)));
        }
        if let Some(stages) = &mut self.stages {
            if let Some(next) = stages.next() {
                return Some(next);
            }
            let lens = (!self.out).then(|| stages.next_chunk_lens()).flatten()?;
            self.out = true;
            return Some((SumStep::Turn, Portion::Chunks(self.given, lens)));
        }
        if self.out || self.complete {
            return None;
        }
        self.out = true;
        Some((SumStep::Turn, Portion::From(self.given)))
    }

    /// Takes the result of a portion. Returns all sums that have become final, in order.
    pub(crate) fn take_result(&mut self, step: SumStep, summed: Summed) -> Vec<Sum> {
        self.out &= step != SumStep::Turn;
        let sums = match (&mut self.stages, summed) {
            (None, Summed::Chunks(sums, at_end)) => {
                self.complete = at_end;
                sums
            }
            (None, Summed::Segment(run)) => self.merge_segment(step, run),
            (Some(stages), summed) => stages.take_result(step, summed),
            (None, Summed::SubChunks(_) | Summed::Boundaries(_)) => Vec::new(),
        };
        self.given += sums.iter().map(|sum| u64::from(sum.len)).sum::<u64>();
        self.complete |= self.stages.is_some() && self.given == self.len;
        sums
    }

    fn merge_segment(&mut self, step: SumStep, run: SegmentChunks<Sum>) -> Vec<Sum> {
        let (Some(cutting), SumStep::Part(part)) = (&mut self.cutting, step) else {
            return Vec::new();
        };
        let sums = cutting.take_chunks(part, run);
        self.complete = cutting.is_complete();
        sums
    }

    /// True once all sums were returned.
    pub(crate) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the bytes that gather instructions judged since the last call.
    pub(crate) fn take_gathered(&mut self) -> u64 {
        self.stages.as_mut().map_or(0, |stages| std::mem::take(&mut stages.gathered))
    }

    /// True if the version has more chunks than either end sends or keeps.
    pub(crate) fn has_too_many_chunks(&self) -> bool {
        self.stages.as_ref().is_some_and(|stages| stages.count > MAX_SUMS as u64)
    }
}

/// Two stages: possible chunk ends in any order, then the chunks in sequence.
#[derive(Debug)]
struct SumStages {
    len: u64,
    /// [`ParallelMode::SsCdc`], [`ParallelMode::SkippedMinima`] or [`ParallelMode::SubChunks`].
    parallel: ParallelMode,
    /// Compute strong sums too.
    names: bool,
    /// Numbers of the next segment to request, and of the next segment to join.
    next: u64,
    joined: u64,
    /// Runs that arrived before an earlier run.
    early: BTreeMap<u64, Summed>,
    /// `None` once all chunks are known.
    merge: Option<SecondStage>,
    /// Bytes that gather instructions judged.
    gathered: u64,
    /// True while work that the merge requested is under way.
    asked: bool,
    /// End offset and number of the chunks known so far.
    end: u64,
    count: u64,
    /// Chunks not yet returned; true once all their sums are there.
    certain: VecDeque<(Sum, bool)>,
    /// Number of the first chunk in `certain`.
    first: u64,
    /// Runs of chunks that lack strong sums: number of the first chunk, offset, lengths.
    unnamed: VecDeque<(u64, u64, Vec<u32>)>,
}

/// The second stage: from possible chunk ends to chunks.
#[derive(Debug)]
enum SecondStage {
    Bits(BoundaryWalk),
    SubChunks(SubChunkMerge<StrongSum>),
}

impl SecondStage {
    fn request(&self) -> Option<MergeRequest> {
        match self {
            Self::Bits(_) => None,
            Self::SubChunks(merge) => merge.request(),
        }
    }

    fn finish(self) -> Option<MergedChunk<StrongSum>> {
        match self {
            Self::Bits(walk) => walk.finish().map(unsummed),
            Self::SubChunks(merge) => merge.finish(),
        }
    }
}

/// Makes a chunk without sums.
const fn unsummed(len: u32) -> MergedChunk<StrongSum> {
    MergedChunk { len, sum: Crc32c::EMPTY, whole: None }
}

impl SumStages {
    /// True if sums are computed only when all chunks are known.
    fn defers(&self) -> bool {
        self.parallel != ParallelMode::SubChunks
    }

    fn next(&mut self) -> Option<(SumStep, Portion)> {
        if let Some((no, start, lens)) = self.unnamed.pop_front() {
            return Some((SumStep::Unnamed(no), Portion::Chunks(start, lens)));
        }
        let ask = self.merge.as_ref().filter(|_| !self.asked).and_then(SecondStage::request);
        if let Some(ask) = ask {
            self.asked = true;
            return Some(match ask {
                MergeRequest::Sum(front) => {
                    let lens = vec![(front.end - front.start) as u32];
                    (SumStep::Front, Portion::Chunks(front.start, lens))
                }
                MergeRequest::Judge(rest) => {
                    (SumStep::Judged, self.portion(rest, JudgeScope::Every))
                }
            });
        }
        let start = self.next * STAGE_BYTES;
        if start >= self.len || self.next >= self.joined + AHEAD {
            return None;
        }
        self.next += 1;
        let segment = start..self.len.min(start + STAGE_BYTES);
        Some((SumStep::Segment(self.next - 1), self.portion(segment, JudgeScope::AsCut)))
    }

    const fn portion(&self, segment: Range<u64>, judge: JudgeScope) -> Portion {
        match self.parallel {
            ParallelMode::SsCdc => Portion::Boundaries(segment),
            ParallelMode::SkippedMinima => Portion::Ends(segment, judge),
            _ => Portion::SubChunks(segment, judge),
        }
    }

    /// Returns the lengths of the next chunks for one thread to sum, once all chunks are known.
    fn next_chunk_lens(&self) -> Option<Vec<u32>> {
        if !self.defers() || self.merge.is_some() {
            return None;
        }
        let (mut lens, mut bytes) = (Vec::new(), 0);
        for (Sum { len, .. }, _) in &self.certain {
            if bytes >= SEGMENT_BYTES {
                break;
            }
            lens.push(*len);
            bytes += u64::from(*len);
        }
        (!lens.is_empty()).then_some(lens)
    }

    fn take_result(&mut self, step: SumStep, summed: Summed) -> Vec<Sum> {
        match (step, summed) {
            (SumStep::Segment(number), found) => {
                self.early.insert(number, found);
            }
            (SumStep::Judged, Summed::SubChunks(found)) => {
                self.asked = false;
                self.continue_merge(|merge| merge.judge(found));
            }
            (SumStep::Front, Summed::Chunks(sums, _)) => {
                self.asked = false;
                let front = Crc32c::new(sums.first().map_or(0, |sum| sum.weak));
                self.continue_merge(|merge| merge.split(front));
            }
            (SumStep::Unnamed(no), Summed::Chunks(sums, _)) => {
                self.fill_sums((no - self.first) as usize, sums)
            }
            (SumStep::Turn, Summed::Chunks(sums, _)) => self.fill_sums(0, sums),
            _ => {}
        }
        while let Some(found) = self.early.remove(&self.joined) {
            self.joined += 1;
            match found {
                Summed::SubChunks(found) => self.continue_merge(|merge| merge.push(found)),
                Summed::Boundaries(bits) => self.continue_walk(&bits),
                Summed::Chunks(..) | Summed::Segment(_) => {}
            }
        }
        self.finish();
        let known = self.certain.iter().take_while(|(_, known)| *known).count();
        self.first += known as u64;
        self.certain.drain(..known).map(|(sum, _)| sum).collect()
    }

    /// Continues the merge.
    fn continue_merge(
        &mut self,
        with: impl FnOnce(&mut SubChunkMerge<StrongSum>) -> Vec<MergedChunk<StrongSum>>,
    ) {
        let defers = self.defers();
        let Some(SecondStage::SubChunks(merge)) = &mut self.merge else { return };
        let mut chunks = with(merge);
        // Without sums, no sum of a front is needed.
        while defers && matches!(merge.request(), Some(MergeRequest::Sum(_))) {
            chunks.append(&mut merge.split(Crc32c::EMPTY));
        }
        self.add_final_chunks(chunks);
    }

    /// Continues the walk over the bits of possible chunk ends.
    fn continue_walk(&mut self, bits: &BoundaryBits) {
        self.gathered += bits.gathered();
        let Some(SecondStage::Bits(walk)) = &mut self.merge else { return };
        let mut lens = Vec::new();
        walk.take(bits, &mut lens);
        self.add_final_chunks(lens.into_iter().map(unsummed).collect());
    }

    /// Ends the last chunk at the end of the file.
    fn finish(&mut self) {
        let all = self.joined * STAGE_BYTES >= self.len;
        let done = |merge: &mut SecondStage| all && merge.request().is_none();
        if let Some(merge) = self.merge.take_if(done) {
            self.add_final_chunks(merge.finish().into_iter().collect());
        }
    }

    /// Adds chunks that have become final.
    fn add_final_chunks(&mut self, chunks: Vec<MergedChunk<StrongSum>>) {
        for MergedChunk { len, sum, whole } in chunks {
            let known = !self.defers() && (!self.names || whole.is_some());
            if !known && !self.defers() {
                self.note_missing_strong_sum(len);
            }
            let strong = whole.unwrap_or(StrongSum::NONE);
            self.certain.push_back((Sum { len, weak: sum.get(), strong }, known));
            (self.end, self.count) = (self.end + u64::from(len), self.count + 1);
        }
    }

    /// Notes that the next chunk, of `len` bytes, lacks its strong sum.
    fn note_missing_strong_sum(&mut self, len: u32) {
        let (no, start) = (self.count, self.end);
        match self.unnamed.back_mut() {
            Some((first, _, lens))
                if *first + lens.len() as u64 == no && lens.len() < MOST_UNNAMED =>
            {
                lens.push(len);
            }
            _ => self.unnamed.push_back((no, start, vec![len])),
        }
    }

    fn fill_sums(&mut self, at: usize, sums: Vec<Sum>) {
        for (place, sum) in self.certain.iter_mut().skip(at).zip(sums) {
            *place = (sum, true);
        }
    }
}

/// Shortest file that is cut in regions, in bytes: 4 segments.
const LEAST_SHARED_BYTES: u64 = 4 * SEGMENT_BYTES;
/// Most segments of one version that are requested and not yet joined.
const AHEAD: u64 = 16;
/// Most chunks in one piece of work that computes strong sums.
const MOST_UNNAMED: usize = 64;
/// Bytes that the first stage takes at a time: many more than are judged byte by byte, and no more than a cache
/// holds.
const STAGE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use deltic_core::chunk::cut_all;
    use deltic_core::{AtEnd, Strategy, StrongKind, WeakKind};

    use super::*;

    const KINDS: [&str; 4] = ["random", "a hole", "random with holes", "one block again and again"];

    fn bytes(kind: &str, len: usize) -> Vec<u8> {
        let mut state = len as u64;
        let mut random = |len: usize| -> Vec<u8> {
            let next = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..len).map(next).collect()
        };
        match kind {
            "random" => random(len),
            "a hole" => vec![0; len],
            "random with holes" => {
                let mut bytes = random(len);
                let step = len / 7 + 1;
                (1..7)
                    .step_by(2)
                    .for_each(|n| bytes[(n * step).min(len)..((n + 1) * step).min(len)].fill(0));
                bytes
            }
            _ => random(1 << 10).into_iter().cycle().take(len).collect(),
        }
    }

    fn sum(strong: Option<StrongKind>, chunk: &[u8]) -> Sum {
        let strong = strong.map_or(StrongSum::NONE, |strong| strong.sum_of(None, chunk));
        Sum { len: chunk.len() as u32, weak: WeakKind::Crc32c.of(chunk), strong }
    }

    /// Processes a portion as a thread does.
    fn done(
        spec: &ChunkerSpec,
        data: &[u8],
        strong: Option<StrongKind>,
        portion: Portion,
    ) -> Summed {
        let stages = || TwoStage::new(spec).expect("two stages");
        let part = |range: &Range<u64>| &data[range.start as usize..range.end as usize];
        match portion {
            Portion::From(_) | Portion::Digest(_) => panic!("a file that is long is shared"),
            Portion::Segment(segment) => {
                let bytes = part(&(segment.own.start..segment.read_end));
                Summed::Segment(segment.cut(&spec.build(), bytes, |chunk| sum(strong, chunk)))
            }
            Portion::Chunks(start, lens) => {
                let mut at = start;
                let sums = lens.into_iter().map(|len| {
                    at += u64::from(len);
                    sum(strong, part(&(at - u64::from(len)..at)))
                });
                Summed::Chunks(sums.collect(), false)
            }
            Portion::Boundaries(range) => {
                let stages = SsCdc::new(spec, Isa::best()).expect("two stages");
                Summed::Boundaries(stages.boundaries(&range, part(&TwoStage::read(&range))))
            }
            Portion::Ends(range, judge) => {
                let none = (|_: &[u8]| Crc32c::EMPTY, |_: &[u8]| None);
                let bytes = part(&TwoStage::read(&range));
                Summed::SubChunks(stages().sub_chunks(&range, bytes, judge, none))
            }
            Portion::SubChunks(range, judge) => {
                let sums = (Crc32c::of, |chunk: &[u8]| Some(strong?.sum_of(None, chunk)));
                let bytes = part(&TwoStage::read(&range));
                Summed::SubChunks(stages().sub_chunks(&range, bytes, judge, sums))
            }
        }
    }

    /// Laws 2 and 4: the sums equal a single pass, in order, whichever thread is done first.
    #[test]
    fn law4_sums_do_not_depend_on_who_is_done_first() {
        let (mut dice, mut most_at_once) = (1u64, 0);
        for (kind, len) in KINDS.into_iter().flat_map(|kind| {
            [1, 4096, STAGE_BYTES - 1, STAGE_BYTES, 5_000_001].map(|len| (kind, len))
        }) {
            let data = bytes(kind, len as usize);
            for (name, strong) in [
                ("pdsync", None),
                ("pdsync-skip", None),
                ("parasync", None),
                ("parasync", Some(StrongKind::Blake3)),
                ("skysync-c", None),
                ("skysync-f", Some(StrongKind::Sha256)),
            ] {
                if name.starts_with("skysync") && (len < LEAST_SHARED_BYTES) {
                    continue;
                }
                let strategy = Strategy::by_name(name).expect("a preset");
                let spec = strategy.chunker(len, None);
                let mut expected = Vec::new();
                cut_all(&spec.build(), &data, AtEnd::Yes, |chunk| {
                    expected.push(sum(strong, chunk))
                });
                let mut summation = FileSummation::new(strategy.parallel, &spec, len, strong);
                let (mut under_way, mut sums) = (Vec::new(), Vec::new());
                loop {
                    under_way.extend(std::iter::from_fn(|| summation.next()));
                    most_at_once = most_at_once.max(under_way.len());
                    if under_way.is_empty() {
                        break;
                    }
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let lucky = (dice >> 33) as usize % under_way.len();
                    let (step, portion) = under_way.swap_remove(lucky);
                    let summed = done(&spec, &data, strong, portion);
                    assert!(step.accepts_result(&summed), "{step:?}");
                    sums.extend(summation.take_result(step, summed));
                }
                assert!(summation.is_complete(), "{name}, {kind}, {len}");
                assert!(sums == expected, "{name}, {kind}, {len}: {} chunks", sums.len());
            }
        }
        assert!(most_at_once > 3, "{most_at_once} at once");
    }

    /// The phases of pdsync: no sum is computed before all ends are known, and then one thread computes the sums.
    #[test]
    fn sums_of_two_stages_wait_for_all_ends_and_are_taken_in_turn() {
        ["pdsync", "pdsync-skip"].into_iter().for_each(sums_wait_for_all_ends);
    }

    fn sums_wait_for_all_ends(name: &str) {
        let strategy = Strategy::by_name(name).expect("a preset");
        let data = bytes("random", 5_000_001);
        let spec = strategy.chunker(data.len() as u64, None);
        let mut summation = FileSummation::new(strategy.parallel, &spec, data.len() as u64, None);
        let mut first = Vec::new();
        loop {
            first.extend(std::iter::from_fn(|| summation.next()));
            let Some((step, portion)) = first.pop() else { break };
            let sums_ends = matches!(portion, Portion::Boundaries(_) | Portion::Ends(..));
            assert!(sums_ends || first.is_empty(), "{portion:?} beside {first:?}");
            let sums = summation.take_result(step, done(&spec, &data, None, portion));
            assert!(sums.is_empty() || !sums_ends);
        }
        assert!(summation.is_complete());
    }
}
