//! Gaps: unmatched runs of the new version, sent as deltas against the old bytes in their places
//! (docs/decisions/0018).
//!
//! A whole chunk costs thousands of bytes, but an edit costs hundreds. Both neighbours of a gap in the new version
//! are mostly found in the old one. The old bytes between these neighbours are an earlier version of the gap. So the
//! sender gets short sums of small blocks of the old bytes, and answers with copies from them and literals. The
//! fingerprints of the chunks prove the result; wrong chunks are requested again as they are.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use deltic_core::{GapSums, Index, Span};

use crate::error::PeerError;
use crate::message::GapLine;
use crate::receiver::ask::{GapPatch, Mended, OldGap};

use super::gap::{ChunkGap, GapPayload, gap_bytes};
use super::keeping::KeptChunks;
use super::old::OldVersions;
use super::probing::{GapTreatment, WaitingGaps};
use super::table::{ArrivalForm, GroupSlot, GroupState, GroupTable};

/// The gaps of a transfer.
#[derive(Debug, Default)]
pub(super) struct TransferGaps {
    /// Gaps found and not yet surveyed.
    found: VecDeque<ChunkGap>,
    /// Gaps of long runs that wait for the result of probes.
    waiting: WaitingGaps,
    /// The last run of chunks that the sender listed, if the run may continue in the next group.
    open: Option<Range<u32>>,
    /// The beginning of the last run that was cut, if the run may continue. The rest of the run has the same neighbour
    /// in front.
    last_run: Option<RunStart>,
    /// Requested gaps, by their first chunks. `surveyed` counts the gaps that are being surveyed.
    asked: HashMap<u32, ChunkGap>,
    surveyed: u64,
    worth: SumsWorth,
}

/// The beginning of a run that was cut before the end was known.
#[derive(Clone, Copy, Debug)]
struct RunStart {
    /// The first chunk after the part that was cut.
    end: u32,
    /// Offset of the run's first byte in the new version.
    start: u64,
    /// The offset in the old versions after the neighbour in front of the run.
    from: Option<u64>,
}

/// The state of the old versions: the index, the chunks of an interrupted transfer, and the lengths.
#[derive(Clone, Copy)]
pub(super) struct KnownContent<'a> {
    pub(super) index: &'a Index,
    pub(super) kept: &'a KeptChunks,
    pub(super) old: &'a OldVersions,
}

/// Returns the probable number of edits in a gap of `chunks` chunks.
///
/// One edit changes one or two chunks. A longer row of changed chunks comes from several edits, and in a long row each
/// chunk has several edits.
const fn probable_edits(chunks: u32) -> u32 {
    match chunks {
        0..=2 => 1,
        3..=4 => 2 * chunks,
        5.. => MANY_EDITS * chunks,
    }
}

/// Probable number of edits in each chunk of a long row of changed chunks.
const MANY_EDITS: u32 = 8;
/// Length in bytes above which a run is cut even though the run may continue.
const OPEN_BYTES: u64 = 4 << 20;

impl TransferGaps {
    /// Number of gaps that are requested from the sender, or are being surveyed to be requested.
    pub(super) fn open_count(&self) -> u64 {
        self.surveyed + self.asked.len() as u64
    }

    /// Returns the runs of missing chunks without old bytes in their places, and makes gaps of the other runs.
    /// `lacked` has the runs from `spelled_from` on; the run left open before is added.
    pub(super) fn find_runs(
        &mut self,
        table: &mut GroupTable,
        mut lacked: Vec<Range<u32>>,
        spelled_from: u32,
        known: KnownContent<'_>,
    ) -> Vec<Range<u32>> {
        if let Some(open) = self.open.take() {
            match lacked.first_mut() {
                Some(first) if first.start == open.end => first.start = open.start,
                _ => lacked.insert(0, open),
            }
        }
        let mut rest = Vec::new();
        for run in lacked {
            if ends_before_unknown(table, &run) {
                // The part left open before is already marked as part of a gap.
                let fresh = run.start.max(spelled_from)..run.end;
                fresh.for_each(|chunk| table.assign_to_gap(chunk));
                self.open = Some(run);
                break;
            }
            rest.extend(self.cut_into_gaps(table, run, known, spelled_from));
        }
        rest
    }

    /// Cuts a run into gaps. Returns the parts to be sent as they are: parts from chunk `spelled_from` on, which the
    /// sender listed just now, without old bytes in their places.
    fn cut_into_gaps(
        &mut self,
        table: &mut GroupTable,
        run: Range<u32>,
        known: KnownContent<'_>,
        spelled_from: u32,
    ) -> Vec<Range<u32>> {
        let mut rest = Vec::new();
        let old_places = self.places_in_old(table, &run, known);
        let (first, gaps) = (run.start, table.gaps_with_treatment(run, &old_places));
        let probes = gaps.iter().filter(|(_, role)| *role == GapTreatment::Probe).count();
        let mut waiting = VecDeque::new();
        for (chunks, role) in gaps {
            let bytes = table.bytes_of(&chunks);
            let (len, old) = (bytes.end - bytes.start, old_places.between_neighbours(&bytes));
            if old.is_empty() && chunks.start >= spelled_from {
                rest.push(chunks);
                continue;
            }
            chunks.clone().for_each(|chunk| table.assign_to_gap(chunk));
            let count = chunks.end - chunks.start;
            let edits = if probes > 0 { MANY_EDITS * count } else { probable_edits(count) };
            let probes = (role == GapTreatment::Probe).then_some(first);
            let gap =
                ChunkGap { chunks, len: len as u32, old, edits, known_sums_bytes: None, probes };
            let waits = role == GapTreatment::Waits && !gap.old.is_empty();
            if waits { &mut waiting } else { &mut self.found }.push_back(gap);
        }
        self.waiting.hold_for_probes(first, waiting, probes);
        rest
    }

    /// Returns the places of a run in the old versions; the run may continue a run that was cut before.
    fn places_in_old<'a>(
        &mut self,
        table: &GroupTable,
        run: &Range<u32>,
        known: KnownContent<'a>,
    ) -> OldPlaces<'a> {
        let (mut bytes, mut between) = (table.bytes_of(run), between(table, run, known));
        if let Some(last_run) = self.last_run.filter(|last_run| last_run.end == run.start) {
            (bytes.start, between.0) = (last_run.start, last_run.from);
        }
        self.last_run = Some(RunStart { end: run.end, start: bytes.start, from: between.0 });
        let longest = table.limits.gap_bytes();
        OldPlaces { run: bytes, between, old: known.old, longest }
    }

    /// Takes at most `most` gaps to survey together, with at most `most_bytes` old bytes unless it is a single gap.
    pub(super) fn take_to_survey(&mut self, most: u64, most_bytes: u64) -> Vec<ChunkGap> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(gap) = self.found.front() {
            let old = gap_bytes(&gap.old);
            let is_full = taken.len() as u64 == most || bytes > 0 && bytes + old > most_bytes;
            if is_full || !self.worth.has_room() {
                break;
            }
            bytes += old;
            let Some(mut gap) = self.found.pop_front() else { break };
            if gap.probes.is_none() && !gap.old.is_empty() && self.worth.skips_sums() {
                gap.old.clear();
            }
            self.worth.out += gap.sums_bytes();
            taken.push(gap);
        }
        self.surveyed += taken.len() as u64;
        taken
    }

    /// Takes the sums of surveyed gaps, and returns the lines that request these gaps.
    pub(super) fn request_lines(
        &mut self,
        gaps: Vec<ChunkGap>,
        sums: Vec<GapSums>,
    ) -> Vec<GapLine> {
        self.surveyed -= gaps.len() as u64;
        let mut lines = Vec::with_capacity(gaps.len());
        for (mut gap, sums) in gaps.into_iter().zip(sums) {
            // Sums of code have longer blocks.
            self.worth.out -= gap.sums_bytes();
            gap.known_sums_bytes = Some(sums.sums_bytes());
            self.worth.out += gap.sums_bytes();
            lines.push(GapLine { chunks: gap.chunks.clone(), sums });
            self.asked.insert(gap.chunks.start, gap);
        }
        lines
    }

    /// Takes received gaps; returns the gaps, the patches to rebuild them, and the total length in bytes. Errors:
    /// `Unexpected` for a gap that was not requested, `Limit` for too many bytes.
    pub(super) fn receive(
        &mut self,
        table: &mut GroupTable,
        ranges: &[Range<u32>],
        deltas: &GapPayload,
    ) -> Result<(Vec<ChunkGap>, Vec<GapPatch>, usize), PeerError> {
        self.worth.unpacked += u64::from(deltas.bytes);
        self.worth.packed += deltas.packed;
        let (mut gaps, mut patches, mut bytes) = (Vec::new(), Vec::new(), 0);
        for range in ranges {
            let gap = self.asked.remove(&range.start).filter(|gap| gap.chunks == *range);
            let gap = gap.ok_or(PeerError::Unexpected("a gap that was not requested"))?;
            let pieces =
                gap.chunks.clone().map(|chunk| table.mark_received(chunk, ArrivalForm::Gap));
            let pieces = pieces.collect::<Result<_, _>>()?;
            bytes += gap.len as usize;
            patches.push(GapPatch { old: gap.old.clone(), pieces });
            gaps.push(gap);
        }
        if gaps.is_empty() || bytes > table.limits.mended_bytes() as usize {
            return Err(PeerError::Limit("bytes of gaps"));
        }
        Ok((gaps, patches, bytes))
    }

    /// Takes the rebuilt chunks of a gap, and requests wrong chunks again. Returns the byte ranges written, and the
    /// numbers of copied and of literal bytes.
    pub(super) fn fill_gap(
        &mut self,
        table: &mut GroupTable,
        gap: &ChunkGap,
        mended: Mended,
    ) -> FilledGap {
        let Mended { fingerprints, literal, packed_copies } = mended;
        let named: Vec<_> = gap.chunks.clone().zip(fingerprints).collect();
        let mut filled = FilledGap { literal, ..FilledGap::default() };
        for run in named.chunk_by(|one, next| one.1.is_some() == next.1.is_some()) {
            let chunks = run[0].0..run[run.len() - 1].0 + 1;
            let bytes = table.bytes_of(&chunks);
            if run[0].1.is_none() {
                self.request_as_literals(table, chunks, (bytes.end - bytes.start) as u32);
                continue;
            }
            for (chunk, fingerprint) in run {
                table.note_written(*chunk, fingerprint.expect("all of a run are alike"));
            }
            filled.copied += bytes.end - bytes.start;
            filled.written.push(bytes);
        }
        filled.copied -= literal;
        let saved = self.worth.saved_bytes(filled.copied, packed_copies);
        self.worth.count_gap(saved, gap.sums_bytes());
        if let Some(run) = gap.probes {
            let released =
                self.waiting.take_probe_result(run, is_worth_a_delta(saved, gap.sums_bytes()));
            self.found.extend(released);
        }
        filled
    }

    /// Requests chunks without old bytes after a wrong delta. Deltas may be wrong because the sums of blocks are short.
    fn request_as_literals(&mut self, table: &mut GroupTable, chunks: Range<u32>, len: u32) {
        chunks.clone().for_each(|chunk| table.assign_to_gap(chunk));
        let (old, edits) = (Vec::new(), 0);
        self.found.push_back(ChunkGap {
            chunks,
            len,
            old,
            edits,
            known_sums_bytes: None,
            probes: None,
        });
    }
}

/// Counts what sums of old bytes cost and saved, and decides which gaps are requested with sums.
#[derive(Clone, Copy, Debug, Default)]
struct SumsWorth {
    /// Bytes that copies of old bytes saved on the wire, and bytes of sums, both over the last gaps.
    saved: u64,
    cost: u64,
    /// Bytes of sums for which no delta has arrived.
    out: u64,
    /// Bytes that all copies saved on the wire.
    saved_in_all: u64,
    /// Gaps without sums since the last gap with sums.
    skipped: u32,
    /// Bytes of all deltas, and their length on the wire.
    unpacked: u64,
    packed: u64,
}

impl SumsWorth {
    /// Returns the bytes on the wire that `copied` bytes would have taken as literals. `measured` is the answer for
    /// these bytes if literals are compressed.
    fn saved_bytes(&self, copied: u64, measured: Option<u64>) -> u64 {
        match measured {
            _ if self.packed == self.unpacked => copied,
            Some(measured) => measured,
            None => copied * self.packed / self.unpacked,
        }
    }

    /// Counts a gap. Earlier gaps count less and less.
    const fn count_gap(&mut self, saved: u64, cost: u64) {
        if cost > 0 {
            self.out -= cost;
            self.saved_in_all += saved;
            self.saved = self.saved - self.saved / KEPT_GAPS + saved;
            self.cost = self.cost - self.cost / KEPT_GAPS + cost;
        }
    }

    /// True if sums of another gap may be sent. Before sums have saved bytes, few sums are on their way.
    const fn has_room(&self) -> bool {
        self.out < FIRST_SUMS + self.saved_in_all
    }

    /// True if the next gap is requested without sums, because the sums of recent gaps saved too few bytes for their
    /// size. One gap in every few still gets sums, to measure again.
    const fn skips_sums(&mut self) -> bool {
        if self.cost < LEAST_COST
            || is_worth_a_delta(self.saved, self.cost)
            || self.skipped == SKIPPED_GAPS
        {
            self.skipped = 0;
            return false;
        }
        self.skipped += 1;
        true
    }
}

/// True if sums of `cost` bytes that saved `saved` bytes are worth a delta.
const fn is_worth_a_delta(saved: u64, cost: u64) -> bool {
    saved > cost + cost / 2
}

/// The part of the new version that was written for a rebuilt gap.
#[derive(Debug, Default)]
pub(super) struct FilledGap {
    pub(super) written: Vec<Range<u64>>,
    pub(super) copied: u64,
    pub(super) literal: u64,
}

/// True if the chunks of the group after a run are not known yet. The run may then continue, and the old bytes in its
/// place are not known.
fn ends_before_unknown(table: &GroupTable, run: &Range<u32>) -> bool {
    let next = table.group_of(run.end).map(|no| &table.groups[no]);
    let lacked = |slot: &GroupSlot| matches!(slot.state, GroupState::Lacked | GroupState::Told(_));
    let bytes = table.bytes_of(run);
    next.is_some_and(lacked)
        && bytes.end - bytes.start < OPEN_BYTES
        && u64::from(table.spec.max_len()) <= table.limits.gap_bytes()
}

/// Returns the offset in the old versions after the neighbour before a run of chunks, and the start of the neighbour
/// after the run.
fn between(
    table: &GroupTable,
    run: &Range<u32>,
    known: KnownContent<'_>,
) -> (Option<u64>, Option<u64>) {
    let KnownContent { index, kept, old } = known;
    let before = match run.start.checked_sub(1) {
        Some(chunk) => table.found_in_old(chunk, kept, index).map(|span| span.end()),
        None => old.in_place.then_some(0),
    };
    let is_last = run.end == table.next_chunk && table.covers_file();
    let behind = match is_last {
        true => old.len_in_place(),
        false => table.found_in_old(run.end, kept, index).map(|span| span.start),
    };
    (before, behind)
}

/// Finds the old bytes that correspond to the gaps of a run.
pub(super) struct OldPlaces<'a> {
    /// Byte range of the run in the new version. `between` holds the offsets in the old versions after the neighbour in
    /// front and before the neighbour behind.
    pub(super) run: Range<u64>,
    pub(super) between: (Option<u64>, Option<u64>),
    pub(super) old: &'a OldVersions,
    /// Length of the longest gap in bytes.
    pub(super) longest: u64,
}

impl OldPlaces<'_> {
    /// Number of bytes by which the part between the neighbours has grown or shrunk, if both neighbours are known.
    pub(super) fn growth_between(&self) -> Option<u64> {
        let (from, to) = self.between()?;
        Some((to - from).abs_diff(self.run.end - self.run.start))
    }

    /// Number of old bytes between the neighbours if they are few beside the run, otherwise 0. All of them may belong
    /// to the run's end: after an insertion, new chunk boundaries meet the old ones only some way behind it.
    pub(super) fn few_old_bytes(&self) -> u64 {
        let bytes = self.between().map_or(0, |(from, to)| to - from);
        if bytes <= (self.run.end - self.run.start) / FEW { bytes } else { 0 }
    }

    /// Returns the range of the old versions between the neighbours, if both are known and in order.
    fn between(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.between.0?, self.between.1?);
        (from <= to).then_some((from, to))
    }

    /// True if this run is short enough to be repeated content. If the neighbours of the run are adjacent in the old
    /// version, the content may repeat itself there. Then the bytes next to the last match are the next best
    /// candidate, and at worst the sums of few bytes are sent in vain.
    fn may_be_repeated(&self) -> bool {
        self.run.end - self.run.start <= REPEATED_BYTES
    }

    /// Returns the old bytes between the neighbours of a gap, and no more than may be of use. Far from a neighbour
    /// the drift is unknown: there the gaps of a run wait for probes, and only the neighbour in front counts, if
    /// there is one.
    pub(super) fn between_neighbours(&self, gap: &Range<u64>) -> OldGap {
        let len = gap.end - gap.start;
        let (ahead_of, behind) = (gap.start - self.run.start, self.run.end - gap.end);
        if len > self.longest {
            return Vec::new();
        }
        let between = self.between().filter(|(from, to)| from < to || !self.may_be_repeated());
        if let Some((from, to)) = between
            && self.growth_between().is_some_and(|drift| drift <= len)
        {
            // The insertions or deletions may lie before the gap, or after it.
            let (one, other) = (from + ahead_of, to.saturating_sub(behind + len));
            let start = one.min(other).max(from);
            return nonempty_spans(std::iter::once(start..(one.max(other) + len).min(to)));
        }
        let near = |distance: &u64| *distance < GUESSED_BYTES || self.between.0.is_none();
        // Bytes beyond the other neighbour matched elsewhere: a large insertion has almost no corresponding old
        // bytes. But in repetitive old versions that neighbour may have matched anywhere: for long runs the probes
        // tell.
        let is_long = self.run.end - self.run.start > GUESSED_BYTES;
        let clip = between.filter(|(from, to)| !is_long || to - from > GUESSED_BYTES);
        let after = self.between.0.map(|from| {
            let end = clip.map_or_else(|| self.old.end_of_version_at(from), |(_, to)| to);
            (from + ahead_of).min(end)..(from + ahead_of + len).min(end)
        });
        let before = self.between.1.filter(|_| near(&behind)).map(|to| {
            let start = between.map_or_else(|| self.old.start_of_version_at(to), |(from, _)| from);
            to.saturating_sub(behind + len).max(start)..to.saturating_sub(behind).max(start)
        });
        nonempty_spans(after.into_iter().chain(before))
    }
}

/// Returns the ranges that are not empty; each is at most as long as two gaps.
fn nonempty_spans(ranges: impl IntoIterator<Item = Range<u64>>) -> OldGap {
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    ranges.map(|range| Span::new(range.start, (range.end - range.start) as u32)).collect()
}

/// Largest distance in bytes between a gap and the neighbour after it at which the old bytes before that neighbour
/// are used.
const GUESSED_BYTES: u64 = 1 << 20;
/// Number of gaps after which a gap counts little for [`SumsWorth`].
const KEPT_GAPS: u64 = 16;
/// Gaps without sums between two gaps with sums, while sums do not pay.
const SKIPPED_GAPS: u32 = 7;
/// Bytes of sums that are sent before an answer shows whether sums pay.
const FIRST_SUMS: u64 = 64 << 10;
/// Bytes of sums that must have been sent before gaps are requested without sums.
const LEAST_COST: u64 = 2 << 10;
/// Divisor of a run's length: old bytes between its neighbours are few up to this share.
const FEW: u64 = 16;
/// Most bytes inserted between adjacent neighbours that are still sent as a delta against the bytes beyond the
/// neighbours.
const REPEATED_BYTES: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_sums_do_not_pay_one_gap_of_eight_has_sums() {
        let mut worth = SumsWorth { out: 1 << 20, ..SumsWorth::default() };
        assert!(!worth.skips_sums(), "nothing is known");
        (0..4).for_each(|_| worth.count_gap(1000, 1000));
        let skipped = |worth: &mut SumsWorth| (0..16).filter(|_| worth.skips_sums()).count();
        assert_eq!(skipped(&mut worth), 14);
        (0..4).for_each(|_| worth.count_gap(20_000, 1000));
        assert_eq!(skipped(&mut worth), 0, "sums pay again");
    }

    #[test]
    fn sums_wait_until_the_first_sums_have_saved_bytes() {
        let mut worth = SumsWorth { out: FIRST_SUMS, ..SumsWorth::default() };
        assert!(!worth.has_room());
        worth.count_gap(0, 1000);
        assert!(worth.has_room(), "an answer makes room");
        worth.out = FIRST_SUMS + 5000;
        worth.count_gap(9000, 1000);
        assert!(worth.has_room());
    }

    #[test]
    fn saved_bytes_count_as_they_would_have_been_sent() {
        let mut worth = SumsWorth::default();
        assert_eq!(worth.saved_bytes(900, None), 900);
        (worth.unpacked, worth.packed) = (1000, 1000);
        assert_eq!(worth.saved_bytes(900, Some(10)), 900, "literals are not compressed");
        worth.packed = 500;
        assert_eq!((worth.saved_bytes(900, None), worth.saved_bytes(900, Some(10))), (450, 10));
    }
}
