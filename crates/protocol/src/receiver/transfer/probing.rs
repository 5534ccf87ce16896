//! Probes in long runs of missing chunks: a few gaps show whether the old bytes in place of the run are useful.
//!
//! Sums of old bytes cost one byte for sixteen. If most of the old content was replaced or changed, no old block is
//! found and all sums were sent for nothing. So for a long run a few short gaps are requested first, its *probes*,
//! and the other gaps wait. Once a probe copied more from the old bytes than its sums cost, the whole run is sent as
//! deltas. If no probe did, the run is sent as it is.
//!
//! 1. The ends of a run are requested at once and prove nothing: their chunks hold some old bytes in any case. If few
//!    old bytes lie between the neighbours, the last part is as long as these. An end where the run continues is left
//!    out.
//! 2. No other gap of this file or another waits for a probe.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::gap::{ChunkGap, gap_bytes};
use super::gaps::OldPlaces;
use super::table::GroupTable;

/// The treatment of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapTreatment {
    /// Requested as a delta at once.
    Told,
    /// Requested as a delta at once, to show whether the old bytes are useful.
    Probe,
    /// Waits for the result of the probes.
    Waits,
}

/// Gaps that wait for probes, by the first chunks of the runs.
#[derive(Debug, Default)]
pub(super) struct WaitingGaps(HashMap<u32, ProbedRun>);

/// The waiting gaps of a run, and the number of probes that have not arrived.
#[derive(Debug)]
struct ProbedRun {
    gaps: VecDeque<ChunkGap>,
    probes: usize,
}

impl WaitingGaps {
    /// Makes gaps wait for `probes` probes of the run that starts at `run`.
    pub(super) fn hold_for_probes(&mut self, run: u32, gaps: VecDeque<ChunkGap>, probes: usize) {
        if !gaps.is_empty() {
            self.0.insert(run, ProbedRun { gaps, probes });
        }
    }

    /// Takes the result of a probe of this run. Returns the gaps that no longer wait. If no probe was useful, these
    /// gaps lose their old bytes.
    pub(super) fn take_probe_result(&mut self, run: u32, was_of_use: bool) -> VecDeque<ChunkGap> {
        let Some(held) = self.0.get_mut(&run) else { return VecDeque::new() };
        held.probes -= 1;
        if !was_of_use && held.probes > 0 {
            return VecDeque::new();
        }
        let mut gaps = self.0.remove(&run).map(|held| held.gaps).unwrap_or_default();
        if !was_of_use {
            gaps.iter_mut().for_each(|gap| gap.old.clear());
        }
        gaps
    }
}

impl GroupTable {
    /// Cuts a run of chunks into gaps; only a gap of a single chunk may be longer than allowed.
    fn cut_into_gaps(&self, run: Range<u32>) -> Vec<Range<u32>> {
        let (mut gaps, mut first) = (Vec::new(), run.start);
        for chunk in run.clone() {
            if chunk > first
                && self.chunk_start(chunk + 1) - self.chunk_start(first) > self.limits.gap_bytes()
            {
                gaps.push(first..chunk);
                first = chunk;
            }
        }
        if first < run.end {
            gaps.push(first..run.end);
        }
        gaps
    }

    /// Cuts a run of chunks into gaps, each with its treatment.
    pub(super) fn gaps_with_treatment(
        &self,
        run: Range<u32>,
        old_places: &OldPlaces<'_>,
    ) -> Vec<(Range<u32>, GapTreatment)> {
        let first =
            if old_places.run.start == self.chunk_start(run.start) { FIRST_CHUNKS } else { 0 };
        let last = if old_places.between.1.is_some() { LAST_CHUNKS } else { 0 };
        let end = run
            .end
            .saturating_sub(last)
            .min(self.start_of_last_bytes(&run, old_places.few_old_bytes()));
        let inner = (run.start + first).min(run.end)..end.max(run.start);
        let told = |chunks: Range<u32>| {
            self.cut_into_gaps(chunks).into_iter().map(|gap| (gap, GapTreatment::Told))
        };
        match self.cut_with_probes(&inner, old_places) {
            Some(probed) => {
                let (first, last) = (run.start..inner.start, inner.end..run.end);
                told(first).chain(probed).chain(told(last)).collect()
            }
            None => told(run).collect(),
        }
    }

    /// Returns the first chunk of a run that ends in the run's last `bytes`.
    fn start_of_last_bytes(&self, run: &Range<u32>, bytes: u64) -> u32 {
        let from = self.chunk_start(run.end).saturating_sub(bytes);
        run.clone()
            .rev()
            .find(|chunk| self.chunk_start(chunk + 1) <= from)
            .map_or(run.start, |chunk| chunk + 1)
    }

    /// Cuts the inner part of a run into probes and waiting gaps. Returns `None` if the probes would not be a small
    /// share of the old bytes.
    fn cut_with_probes(
        &self,
        inner: &Range<u32>,
        old_places: &OldPlaces<'_>,
    ) -> Option<Vec<(Range<u32>, GapTreatment)>> {
        if inner.is_empty() {
            return None;
        }
        let (mut parts, mut at) = (Vec::new(), inner.start);
        let waits = |chunks: Range<u32>| {
            self.cut_into_gaps(chunks).into_iter().map(|gap| (gap, GapTreatment::Waits))
        };
        let faced =
            |gap: &Range<u32>| gap_bytes(&old_places.between_neighbours(&self.bytes_of(gap)));
        for probe in self.pick_probes(inner, old_places) {
            // Chunks longer than a gap have no old bytes in their places.
            if probe.start >= at && faced(&probe) > 0 {
                parts.extend(waits(at..probe.start));
                at = probe.end;
                parts.push((probe, GapTreatment::Probe));
            }
        }
        parts.extend(waits(at..inner.end));
        let told =
            |role| parts.iter().filter(|part| part.1 == role).map(|(gap, _)| faced(gap)).sum();
        let (waiting, probes): (u64, u64) = (told(GapTreatment::Waits), told(GapTreatment::Probe));
        (probes > 0 && waiting > WORTH_BYTES.max(WORTH * probes)).then_some(parts)
    }

    /// Picks probes all over the run if the drift between the neighbours is small. Otherwise picks probes at the ends
    /// of the run, because the place in the old version is less certain further from a neighbour.
    fn pick_probes(&self, inner: &Range<u32>, old_places: &OldPlaces<'_>) -> Vec<Range<u32>> {
        let len =
            |chunks: Range<u32>| self.chunk_start(chunks.end) - self.chunk_start(chunks.start);
        let up_to = |start: u32, bytes| {
            let end = (start + 1..inner.end).find(|end| len(start..*end) >= bytes);
            start..end.unwrap_or(inner.end)
        };
        if old_places.growth_between().is_some_and(|drift| drift <= PROBE_BYTES) {
            let place =
                |nth| inner.start + (inner.end - inner.start) * (2 * nth + 1) / (2 * PROBES);
            return (0..PROBES).map(|nth| up_to(place(nth), PROBE_BYTES)).collect();
        }
        let last = inner.clone().rev().find(|start| len(*start..inner.end) >= END_PROBE_BYTES);
        vec![up_to(inner.start, END_PROBE_BYTES), last.unwrap_or(inner.start)..inner.end]
    }
}

/// Number of chunks requested at once at the start of a run, because they may begin with old bytes.
const FIRST_CHUNKS: u32 = 1;
/// Number of chunks requested at once at the end of a run, because they may hold old bytes. After this many chunks, new
/// chunk boundaries meet old chunk boundaries.
const LAST_CHUNKS: u32 = 4;
/// Length in bytes of a probe in the new version, without its last chunk.
const PROBE_BYTES: u64 = 4 << 10;
/// Length in bytes of a probe at an end of a run, where the old bytes may lie at a distance.
const END_PROBE_BYTES: u64 = 16 << 10;
/// Number of probes in a run that is probed all over.
const PROBES: u32 = 6;
/// Probes are worth a round trip if the old bytes of the waiting gaps are more than this many times the old bytes of
/// the probes.
const WORTH: u64 = 3;
/// Probes are worth a round trip if the waiting gaps have more than this number of old bytes.
const WORTH_BYTES: u64 = 192 << 10;
