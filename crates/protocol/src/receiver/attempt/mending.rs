//! Gaps: runs of new that nothing matched, told against what old has in their places (DESIGN §2, "two levels").
//!
//! A chunk costs thousands of bytes where an edit costs hundreds. But both neighbours of a gap in new are mostly found in
//! old, and between the two old has a gap as well: a former version of the same bytes. So the sender is told what old has
//! there, in short sums of small blocks, and answers with copies from it and literals. The chunks' own fingerprints say
//! whether the result is right; those that are not are asked for as they are.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use deltic_core::gap::{BlockLen, SHORT_SUM_BYTES};
use deltic_core::{ChunkNo, GapSums, Span};

use crate::error::PeerError;
use crate::limits::{GAP_BYTES, MAX_FRAME_BYTES, MENDED_BYTES};
use crate::message::{FileNo, GapLine, Payload, ToSender};
use crate::receiver::{Facing, Mended, OldGap, Patch, Place, Receiver, Work};
use crate::work::{Handle, Setback, Turn};

use super::facing::{Facings, Parts};
use super::probing::{Role, Waiting};
use super::{Attempt, By, Origin, State};

/// The gaps of one attempt.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Found, and not surveyed.
    found: VecDeque<Gap>,
    /// Those of long runs that wait for what others show.
    waiting: Waiting,
    /// The last run that was spelled out, where it may go on.
    open: Option<Range<u32>>,
    /// Where the last run that was told began, if it may go on: what follows has the same neighbour in front.
    told: Option<Told>,
    /// Being surveyed, or asked for, by their first chunks; those that are asked for have a gap in here.
    asked: HashMap<u32, Gap>,
    surveyed: u64,
}

/// The beginning of a run that was told before its end was known.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// The first chunk that was not told.
    end: u32,
    /// The run's first byte in new.
    start: u64,
    /// Where old goes on behind the neighbour in front of it.
    from: Option<u64>,
}

/// A run of chunks that nothing matched, and what old has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::receiver) struct Gap {
    chunks: Range<u32>,
    len: u32,
    old: OldGap,
    edits: u32,
    /// The run that it shows something of, by its first chunk.
    probes: Option<u32>,
}

impl Gap {
    fn facing(&self) -> Facing {
        Facing { old: self.old.clone(), edits: self.edits }
    }

    /// It is told against nothing.
    pub(super) fn comes_as_it_is(&mut self) {
        self.old.clear();
    }

    /// Whether `copied` bytes of it saved more than the sums of what it was told against cost.
    fn was_worth(&self, copied: u64) -> bool {
        copied * u64::from(BlockLen::MIN) > bytes_of(&self.old) * SHORT_SUM_BYTES as u64
    }
}

/// How many bytes of old these are.
pub(super) fn bytes_of(old: &OldGap) -> u64 {
    old.iter().map(|span| u64::from(span.len)).sum()
}

/// In how many places a gap of so many chunks probably differs.
///
/// One edit spoils a chunk or two. Where more are spoilt in a row it was not one edit, and where many are, there are
/// several in each.
const fn edits(chunks: u32) -> u32 {
    match chunks {
        0..=2 => 1,
        3..=4 => 2 * chunks,
        5.. => MANY_EDITS * chunks,
    }
}

/// In how many places a chunk differs where many do in a row.
const MANY_EDITS: u32 = 8;
/// A run of so many bytes is told, though it may go on.
const OPEN_BYTES: u64 = 4 << 20;

impl Gaps {
    pub(super) fn out(&self) -> u64 {
        self.surveyed + self.asked.len() as u64
    }
}

impl Attempt {
    /// Sorts runs of chunks that old lacks, those from `spelled_from` on and what was left open before: which are gaps
    /// that face one in old is noted, the others are returned.
    pub(super) fn find_gaps(
        &mut self,
        mut lacked: Vec<Range<u32>>,
        spelled_from: u32,
        parts: Parts<'_>,
    ) -> Vec<Range<u32>> {
        if let Some(open) = self.gaps.open.take() {
            match lacked.first_mut() {
                Some(first) if first.start == open.end => first.start = open.start,
                _ => lacked.insert(0, open),
            }
        }
        let mut rest = Vec::new();
        for run in lacked {
            if self.goes_on(&run) {
                // What was left open before is noted as part of a gap already.
                let fresh = run.start.max(spelled_from)..run.end;
                fresh.for_each(|chunk| self.needs_gap(chunk));
                self.gaps.open = Some(run);
                break;
            }
            let facings = self.facings(&run, parts);
            let (first, gaps) = (run.start, self.parts_of(run, &facings));
            let probes = gaps.iter().filter(|(_, role)| *role == Role::Probe).count();
            let mut waiting = VecDeque::new();
            for (chunks, role) in gaps {
                let bytes = self.bytes_of(&chunks);
                let (len, old) = (bytes.end - bytes.start, facings.of(&bytes));
                if old.is_empty() && chunks.start >= spelled_from {
                    rest.push(chunks);
                    continue;
                }
                chunks.clone().for_each(|chunk| self.needs_gap(chunk));
                let count = chunks.end - chunks.start;
                let edits = if probes > 0 { MANY_EDITS * count } else { edits(count) };
                let probes = (role == Role::Probe).then_some(first);
                let gap = Gap { chunks, len: len as u32, old, edits, probes };
                let waits = role == Role::Waits && !gap.old.is_empty();
                if waits { &mut waiting } else { &mut self.gaps.found }.push_back(gap);
            }
            self.gaps.waiting.hold(first, waiting, probes);
        }
        rest
    }

    /// What old has in the places of the gaps of a run, which may be the rest of one.
    fn facings<'a>(&mut self, run: &Range<u32>, parts: Parts<'a>) -> Facings<'a> {
        let (mut bytes, mut between) = (self.bytes_of(run), self.between(run, parts));
        if let Some(told) = self.gaps.told.filter(|told| told.end == run.start) {
            (bytes.start, between.0) = (told.start, told.from);
        }
        self.gaps.told = Some(Told { end: run.end, start: bytes.start, from: between.0 });
        Facings { run: bytes, between, parts }
    }

    /// Whether the group behind a run is still to be spelled out: then the run may be longer, and what faces it is not
    /// known.
    fn goes_on(&self, run: &Range<u32>) -> bool {
        let next = self.group_of(run.end).map(|no| &self.groups[no]);
        let lacked = |slot: &super::Slot| matches!(slot.state, State::Lacked | State::Told(_));
        let bytes = self.bytes_of(run);
        next.is_some_and(lacked)
            && bytes.end - bytes.start < OPEN_BYTES
            && u64::from(self.spec.max_len()) <= GAP_BYTES
    }

    /// A run of chunks as gaps, none longer than allowed unless it is a single chunk.
    pub(super) fn gaps_of(&self, run: Range<u32>) -> Vec<Range<u32>> {
        let (mut gaps, mut first) = (Vec::new(), run.start);
        for chunk in run.clone() {
            if chunk > first && self.place_of(chunk + 1) - self.place_of(first) > GAP_BYTES {
                gaps.push(first..chunk);
                first = chunk;
            }
        }
        if first < run.end {
            gaps.push(first..run.end);
        }
        gaps
    }

    /// Where these chunks are in new, in bytes.
    pub(super) fn bytes_of(&self, chunks: &Range<u32>) -> Range<u64> {
        self.place_of(chunks.start)..self.place_of(chunks.end)
    }

    /// Where old goes on behind the neighbour before a run of chunks, and where the neighbour behind it starts there.
    fn between(&self, run: &Range<u32>, parts: Parts<'_>) -> (Option<u64>, Option<u64>) {
        let before = match run.start.checked_sub(1) {
            Some(chunk) => self.found_in_old(chunk).map(Span::end),
            None => parts.in_place.then_some(0),
        };
        let is_last = run.end == self.next_chunk && self.next_start == self.meta.len;
        let behind = if is_last {
            parts.lens.first().copied().filter(|_| parts.in_place)
        } else {
            self.found_in_old(run.end).map(|span| span.start)
        };
        (before, behind)
    }

    /// Where old has this chunk, if it was found.
    fn found_in_old(&self, chunk: u32) -> Option<Span> {
        let slot = &self.groups[self.group_of(chunk)?];
        let nth = chunk - slot.first_chunk;
        let no: ChunkNo = match &slot.state {
            State::Matched(range) => range.start.plus(nth),
            State::Kept(range) => self.kept.in_old(range.start.plus(nth), self.old.index())?,
            State::Spelled(chunks) => match chunks.get(nth as usize)?.1 {
                Origin::Old(no) => no,
                Origin::Kept(no) => self.kept.in_old(no, self.old.index())?,
                _ => return None,
            },
            State::Open(_) | State::Lacked | State::Told(_) => return None,
        };
        Some(self.old.index().chunk(no).0)
    }

    /// Takes some gaps to survey together.
    fn take_gaps(&mut self, most: u64) -> Vec<Gap> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(gap) = self.gaps.found.front() {
            let old = bytes_of(&gap.old);
            if taken.len() as u64 == most || bytes > 0 && bytes + old > MENDED_BYTES {
                break;
            }
            bytes += old;
            taken.extend(self.gaps.found.pop_front());
        }
        self.gaps.surveyed += taken.len() as u64;
        taken
    }
}

impl Receiver {
    /// Surveys gaps as the window allows, one file's after the other's.
    pub(in crate::receiver) fn survey_more(&mut self) {
        while let Some((handle, most)) = self.cx.load.next_gaps() {
            let Some((_, attempt)) = self.attempt_of(handle) else { continue };
            let gaps = attempt.take_gaps(most);
            if gaps.is_empty() {
                continue;
            }
            self.cx.load.take_gaps(gaps.len());
            self.cx.load.queue_gaps(handle);
            let facing = gaps.iter().map(Gap::facing).collect();
            self.cx.jobs.ask(Work::Survey { handle, gaps: facing }, Place::Survey { handle, gaps });
        }
    }

    pub(in crate::receiver) fn surveyed(
        &mut self,
        handle: Handle,
        gaps: Vec<Gap>,
        sums: Result<Vec<GapSums>, Setback>,
    ) {
        let sums = match sums {
            Ok(sums) => sums,
            Err(setback) => return self.fail(handle, setback),
        };
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        attempt.gaps.surveyed -= gaps.len() as u64;
        let line = |(gap, sums): (&Gap, GapSums)| GapLine { chunks: gap.chunks.clone(), sums };
        let lines = gaps.iter().zip(sums).map(line).collect();
        attempt.gaps.asked.extend(gaps.into_iter().map(|gap| (gap.chunks.start, gap)));
        self.cx.frames.push_back(ToSender::Mend { file, gaps: lines });
    }

    pub(in crate::receiver) fn mended_frame(
        &mut self,
        file: FileNo,
        ranges: &[Range<u32>],
        (bytes, payload): (u32, Payload),
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let path = incoming.candidate.path.clone();
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else {
            return Ok(());
        };
        let (mut gaps, mut patches, mut payload_bytes) = (Vec::new(), Vec::new(), bytes as usize);
        for range in ranges {
            let gap = attempt.gaps.asked.remove(&range.start).filter(|gap| gap.chunks == *range);
            let gap = gap.ok_or(PeerError::Unexpected("a gap that was not asked for"))?;
            let pieces = gap.chunks.clone().map(|chunk| attempt.receive(chunk, By::Gap));
            let pieces = pieces.collect::<Result<_, _>>()?;
            payload_bytes += gap.len as usize;
            patches.push(Patch { old: gap.old.clone(), pieces });
            gaps.push(gap);
        }
        let new_bytes = payload_bytes - bytes as usize;
        let fits = bytes as usize <= MAX_FRAME_BYTES && payload.may_hold(bytes as usize);
        if gaps.is_empty() || new_bytes > MENDED_BYTES as usize || !fits {
            return Err(PeerError::Limit("bytes of gaps"));
        }
        let new = attempt.new_version();
        attempt.jobs += 1;
        self.cx.load.mend_gaps(gaps.len());
        self.cx.ask_to_write(
            Turn::Any,
            Work::Mend { handle, path, new, gaps: patches, bytes, payload },
            Place::Mend { handle, gaps, payload_bytes },
        );
        Ok(())
    }

    pub(in crate::receiver) fn mended(
        &mut self,
        handle: Handle,
        gaps: Vec<Gap>,
        mended: Result<Vec<Mended>, Setback>,
    ) {
        let mended = match mended {
            Ok(mended) => mended,
            Err(setback) => return self.fail(handle, setback),
        };
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        attempt.jobs -= 1;
        // What was rebuilt of a chunk is the sender's if its fingerprint begins as it should.
        let compared = mended.iter().map(|mended| mended.fingerprints.len() as u64).sum();
        for (gap, mended) in gaps.into_iter().zip(mended) {
            attempt.filled(&gap, mended);
        }
        self.cx.counts.add(0, compared);
        self.cx.load.queue_gaps(handle);
        self.advance(file);
    }
}

impl Attempt {
    /// Notes what was rebuilt of a gap and written, and what was told wrongly.
    fn filled(&mut self, gap: &Gap, Mended { fingerprints, literal }: Mended) {
        let named: Vec<_> = gap.chunks.clone().zip(fingerprints).collect();
        let mut written = 0;
        for run in named.chunk_by(|one, next| one.1.is_some() == next.1.is_some()) {
            let chunks = run[0].0..run[run.len() - 1].0 + 1;
            let bytes = self.bytes_of(&chunks);
            let len = bytes.end - bytes.start;
            if run[0].1.is_none() {
                self.found_again(chunks, len as u32);
                continue;
            }
            for (chunk, fingerprint) in run {
                self.wrote(*chunk, fingerprint.expect("all of a run are alike"));
            }
            let covered = self.cover.add(bytes.start, len);
            covered.expect("a gap is received once, in its own place");
            written += len;
        }
        let copied = written - literal;
        self.literal += literal;
        self.matched.bytes += copied;
        if let Some(run) = gap.probes {
            let released = self.gaps.waiting.release(run, gap.was_worth(copied));
            self.gaps.found.extend(released);
        }
    }

    /// These were told wrongly, because sums of blocks are short: they are to come as they are.
    fn found_again(&mut self, chunks: Range<u32>, len: u32) {
        chunks.clone().for_each(|chunk| self.needs_gap(chunk));
        let gap = Gap { chunks, len, old: Vec::new(), edits: 0, probes: None };
        self.gaps.found.push_back(gap);
    }
}
