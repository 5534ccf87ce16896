//! Gaps: runs of new that nothing matched, told against what old has in their places (docs/decisions/0018).
//!
//! A chunk costs thousands of bytes where an edit costs hundreds. But both neighbours of a gap in new are mostly found
//! in old, and between the two old has a gap as well: a former version of the same bytes. So the sender is told what
//! old has there, in short sums of small blocks, and answers with copies from it and literals. The chunks' own
//! fingerprints say whether the result is right; those that are not are asked for as they are.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use deltic_core::{GapSums, Index, Span};

use crate::error::PeerError;
use crate::message::GapLine;
use crate::receiver::ask::{Mended, OldGap, Patch};

use super::gap::{Gap, bytes_of};
use super::keeping::Keeping;
use super::old::OldVersions;
use super::probing::{Role, Waiting};
use super::table::{By, Slot, State, Table};

/// The gaps of one transfer.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Found, and not surveyed.
    found: VecDeque<Gap>,
    /// Gaps of long runs that wait for what others show.
    waiting: Waiting,
    /// The last run that was spelled out, where it may go on.
    open: Option<Range<u32>>,
    /// The beginning of the last run that was told, if it may go on: what follows has the same neighbour in front.
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
    /// The place where old goes on behind the neighbour in front of it.
    from: Option<u64>,
}

/// All that is known of old: its chunks, those that an interrupted transfer left, and its versions.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) index: &'a Index,
    pub(super) kept: &'a Keeping,
    pub(super) old: &'a OldVersions,
}

/// Places in which a gap of so many chunks probably differs.
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

/// Places in which a chunk differs where many do in a row.
const MANY_EDITS: u32 = 8;
/// Bytes of a run that is told, though it may go on.
const OPEN_BYTES: u64 = 4 << 20;

impl Gaps {
    /// Gaps that the sender was asked for, or will be soon.
    pub(super) fn out(&self) -> u64 {
        self.surveyed + self.asked.len() as u64
    }

    /// Sorts runs of chunks that old lacks, those from `spelled_from` on and what was left open before: those that face
    /// something in old become gaps, the others are returned.
    pub(super) fn find(
        &mut self,
        table: &mut Table,
        mut lacked: Vec<Range<u32>>,
        spelled_from: u32,
        known: Known<'_>,
    ) -> Vec<Range<u32>> {
        if let Some(open) = self.open.take() {
            match lacked.first_mut() {
                Some(first) if first.start == open.end => first.start = open.start,
                _ => lacked.insert(0, open),
            }
        }
        let mut rest = Vec::new();
        for run in lacked {
            if goes_on(table, &run) {
                // What was left open before is noted as part of a gap already.
                let fresh = run.start.max(spelled_from)..run.end;
                fresh.for_each(|chunk| table.needs_gap(chunk));
                self.open = Some(run);
                break;
            }
            self.cut(table, run, known, (spelled_from, &mut rest));
        }
        rest
    }

    /// Cuts a run into gaps; what faces nothing and was spelled out just now comes as it is.
    fn cut(
        &mut self,
        table: &mut Table,
        run: Range<u32>,
        known: Known<'_>,
        (spelled_from, rest): (u32, &mut Vec<Range<u32>>),
    ) {
        let facings = self.facings(table, &run, known);
        let (first, gaps) = (run.start, table.parts_of(run, &facings));
        let probes = gaps.iter().filter(|(_, role)| *role == Role::Probe).count();
        let mut waiting = VecDeque::new();
        for (chunks, role) in gaps {
            let bytes = table.bytes_of(&chunks);
            let (len, old) = (bytes.end - bytes.start, facings.of(&bytes));
            if old.is_empty() && chunks.start >= spelled_from {
                rest.push(chunks);
                continue;
            }
            chunks.clone().for_each(|chunk| table.needs_gap(chunk));
            let count = chunks.end - chunks.start;
            let edits = if probes > 0 { MANY_EDITS * count } else { edits(count) };
            let probes = (role == Role::Probe).then_some(first);
            let gap = Gap { chunks, len: len as u32, old, edits, probes };
            let waits = role == Role::Waits && !gap.old.is_empty();
            if waits { &mut waiting } else { &mut self.found }.push_back(gap);
        }
        self.waiting.hold(first, waiting, probes);
    }

    /// The places of the gaps of a run in old; the run may be the rest of one.
    fn facings<'a>(&mut self, table: &Table, run: &Range<u32>, known: Known<'a>) -> Facings<'a> {
        let (mut bytes, mut between) = (table.bytes_of(run), between(table, run, known));
        if let Some(told) = self.told.filter(|told| told.end == run.start) {
            (bytes.start, between.0) = (told.start, told.from);
        }
        self.told = Some(Told { end: run.end, start: bytes.start, from: between.0 });
        let longest = table.limits.gap_bytes();
        Facings { run: bytes, between, old: known.old, longest }
    }

    /// Takes at `most` so many gaps to survey together, which face no more than `most_bytes` unless it is one.
    pub(super) fn take(&mut self, most: u64, most_bytes: u64) -> Vec<Gap> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(gap) = self.found.front() {
            let old = bytes_of(&gap.old);
            if taken.len() as u64 == most || bytes > 0 && bytes + old > most_bytes {
                break;
            }
            bytes += old;
            taken.extend(self.found.pop_front());
        }
        self.surveyed += taken.len() as u64;
        taken
    }

    /// Takes the sums of gaps that were surveyed; the lines that ask for these.
    pub(super) fn ask(&mut self, gaps: Vec<Gap>, sums: Vec<GapSums>) -> Vec<GapLine> {
        self.surveyed -= gaps.len() as u64;
        let line = |(gap, sums): (&Gap, GapSums)| GapLine { chunks: gap.chunks.clone(), sums };
        let lines = gaps.iter().zip(sums).map(line).collect();
        self.asked.extend(gaps.into_iter().map(|gap| (gap.chunks.start, gap)));
        lines
    }

    /// Takes gaps that came: what they are to be rebuilt from, and their length in bytes.
    pub(super) fn receive(
        &mut self,
        table: &mut Table,
        ranges: &[Range<u32>],
    ) -> Result<(Vec<Gap>, Vec<Patch>, usize), PeerError> {
        let (mut gaps, mut patches, mut bytes) = (Vec::new(), Vec::new(), 0);
        for range in ranges {
            let gap = self.asked.remove(&range.start).filter(|gap| gap.chunks == *range);
            let gap = gap.ok_or(PeerError::Unexpected("a gap that was not asked for"))?;
            let pieces = gap.chunks.clone().map(|chunk| table.receive(chunk, By::Gap));
            let pieces = pieces.collect::<Result<_, _>>()?;
            bytes += gap.len as usize;
            patches.push(Patch { old: gap.old.clone(), pieces });
            gaps.push(gap);
        }
        if gaps.is_empty() || bytes > table.limits.mended_bytes() as usize {
            return Err(PeerError::Limit("bytes of gaps"));
        }
        Ok((gaps, patches, bytes))
    }

    /// Notes what was rebuilt of a gap, and what was told wrongly: what was written, and how much of it was copied.
    pub(super) fn fill(&mut self, table: &mut Table, gap: &Gap, mended: Mended) -> Filled {
        let Mended { fingerprints, literal } = mended;
        let named: Vec<_> = gap.chunks.clone().zip(fingerprints).collect();
        let mut filled = Filled { literal, ..Filled::default() };
        for run in named.chunk_by(|one, next| one.1.is_some() == next.1.is_some()) {
            let chunks = run[0].0..run[run.len() - 1].0 + 1;
            let bytes = table.bytes_of(&chunks);
            if run[0].1.is_none() {
                self.find_again(table, chunks, (bytes.end - bytes.start) as u32);
                continue;
            }
            for (chunk, fingerprint) in run {
                table.wrote(*chunk, fingerprint.expect("all of a run are alike"));
            }
            filled.copied += bytes.end - bytes.start;
            filled.written.push(bytes);
        }
        filled.copied -= literal;
        if let Some(run) = gap.probes {
            let released = self.waiting.release(run, gap.was_worth(filled.copied));
            self.found.extend(released);
        }
        filled
    }

    /// Asks for chunks as they are that were told wrongly, because sums of blocks are short.
    fn find_again(&mut self, table: &mut Table, chunks: Range<u32>, len: u32) {
        chunks.clone().for_each(|chunk| table.needs_gap(chunk));
        self.found.push_back(Gap { chunks, len, old: Vec::new(), edits: 0, probes: None });
    }
}

/// The bytes of new that a gap brought.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) written: Vec<Range<u64>>,
    pub(super) copied: u64,
    pub(super) literal: u64,
}

/// True where the group behind a run is still to be spelled out: then the run may be longer, and what faces it is not
/// known.
fn goes_on(table: &Table, run: &Range<u32>) -> bool {
    let next = table.group_of(run.end).map(|no| &table.groups[no]);
    let lacked = |slot: &Slot| matches!(slot.state, State::Lacked | State::Told(_));
    let bytes = table.bytes_of(run);
    next.is_some_and(lacked)
        && bytes.end - bytes.start < OPEN_BYTES
        && u64::from(table.spec.max_len()) <= table.limits.gap_bytes()
}

/// The places where old goes on behind the neighbour before a run of chunks, and where the neighbour behind it starts.
fn between(table: &Table, run: &Range<u32>, known: Known<'_>) -> (Option<u64>, Option<u64>) {
    let Known { index, kept, old } = known;
    let before = match run.start.checked_sub(1) {
        Some(chunk) => table.found_in_old(chunk, kept, index).map(|span| span.end()),
        None => old.in_place.then_some(0),
    };
    let is_last = run.end == table.next_chunk && table.is_told();
    let behind = match is_last {
        true => old.len_in_place(),
        false => table.found_in_old(run.end, kept, index).map(|span| span.start),
    };
    (before, behind)
}

/// The places of the gaps of one run in old.
pub(super) struct Facings<'a> {
    /// The run's bytes in new.
    pub(super) run: Range<u64>,
    pub(super) between: (Option<u64>, Option<u64>),
    pub(super) old: &'a OldVersions,
    /// Longest gap, in bytes.
    pub(super) longest: u64,
}

impl Facings<'_> {
    /// By how many bytes what lies between the neighbours has grown or shrunk, where both are known.
    pub(super) fn drift(&self) -> Option<u64> {
        let (from, to) = self.between()?;
        Some((to - from).abs_diff(self.run.end - self.run.start))
    }

    /// Bytes of old between the neighbours, where these are few beside the run; else 0. All of them may be at the run's
    /// end: chunks of new end where those of old do only some way behind what came in.
    pub(super) fn few_between(&self) -> u64 {
        let bytes = self.between().map_or(0, |(from, to)| to - from);
        if bytes <= (self.run.end - self.run.start) / FEW { bytes } else { 0 }
    }

    /// The place of old between the neighbours, where both are known and still in order.
    fn between(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.between.0?, self.between.1?);
        (from <= to).then_some((from, to))
    }

    /// True if old may repeat itself where this short run is, which has its neighbours right beside each other: the
    /// next best place of what repeats itself is beside the last one. What came in shows that, and little is told in
    /// vain.
    fn may_repeat(&self) -> bool {
        self.run.end - self.run.start <= REPEATED_BYTES
    }

    /// What old has between the neighbours of a gap: of much no more than could be of use. Far from a neighbour nobody
    /// knows how far it moved: there the gaps of a run wait for its probes, and only the neighbour in front counts if
    /// there is one.
    pub(super) fn of(&self, gap: &Range<u64>) -> OldGap {
        let len = gap.end - gap.start;
        let (ahead_of, behind) = (gap.start - self.run.start, self.run.end - gap.end);
        if len > self.longest {
            return Vec::new();
        }
        let between = self.between().filter(|(from, to)| from < to || !self.may_repeat());
        if let Some((from, to)) = between
            && self.drift().is_some_and(|drift| drift <= len)
        {
            // All that came in or went may have done so in front of the gap, or behind it.
            let (one, other) = (from + ahead_of, to.saturating_sub(behind + len));
            let start = one.min(other).max(from);
            return as_spans(std::iter::once(start..(one.max(other) + len).min(to)));
        }
        let near = |distance: &u64| *distance < GUESSED_BYTES || self.between.0.is_none();
        // What lies beyond the other neighbour was found elsewhere: where much came in, next to nothing faces it. But
        // where old repeats itself, that neighbour may have been found anywhere: of long runs the probes tell.
        let is_long = self.run.end - self.run.start > GUESSED_BYTES;
        let clip = between.filter(|(from, to)| !is_long || to - from > GUESSED_BYTES);
        let after = self.between.0.map(|from| {
            let end = clip.map_or_else(|| self.old.end_behind(from), |(_, to)| to);
            (from + ahead_of).min(end)..(from + ahead_of + len).min(end)
        });
        let before = self.between.1.filter(|_| near(&behind)).map(|to| {
            let start = between.map_or_else(|| self.old.start_before(to), |(from, _)| from);
            to.saturating_sub(behind + len).max(start)..to.saturating_sub(behind).max(start)
        });
        as_spans(after.into_iter().chain(before))
    }
}

/// The ranges that are not empty; none is longer than two gaps.
fn as_spans(ranges: impl IntoIterator<Item = Range<u64>>) -> OldGap {
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    ranges.map(|range| Span::new(range.start, (range.end - range.start) as u32)).collect()
}

/// Distance of a gap from the neighbour behind it up to which it is told against what was there before.
const GUESSED_BYTES: u64 = 1 << 20;
/// Bytes of old between two neighbours are few, where the run between them is at least so many times as long.
const FEW: u64 = 16;
/// Bytes that may come in between neighbours and are still told against what lies beyond them.
const REPEATED_BYTES: u64 = 128 << 10;
