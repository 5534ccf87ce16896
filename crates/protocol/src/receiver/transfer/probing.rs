//! Long runs of chunks that old lacks: what faces them is told where some of it turns out to be of use.
//!
//! Sums of old cost a byte for sixteen. Where much was put in place of what was there, or nearly nothing is as it was,
//! no block of old is found, and all of them were sent for nothing. So of a long run a few short gaps are asked for
//! first, its *probes*, and the others wait. Once a probe made of old more than its sums cost, all of the run is sent
//! against old; when none did, all comes as it is.
//!
//! 1. The ends of a run, where it does not go on, are sent at once and prove nothing: of the chunks there some bytes
//!    are old ones whatever lies between. Where old has little between the neighbours, its last part is as long.
//! 2. No other gap waits, of this file or another: only what was found to belong to the run.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::gap::{Gap, bytes_of};
use super::gaps::Facings;
use super::table::Table;

/// The fate of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Told against old at once.
    Told,
    /// The same, and shows whether old is of use.
    Probe,
    /// Waits for what the probes show.
    Waits,
}

/// Gaps that wait for the probes of their runs, by the first chunks of these.
#[derive(Debug, Default)]
pub(super) struct Waiting(HashMap<u32, Run>);

/// The gaps of a run that wait, and how many of its probes have not come.
#[derive(Debug)]
struct Run {
    gaps: VecDeque<Gap>,
    probes: usize,
}

impl Waiting {
    /// Lets these wait for so many probes of the run that starts at `run`.
    pub(super) fn hold(&mut self, run: u32, gaps: VecDeque<Gap>, probes: usize) {
        if !gaps.is_empty() {
            self.0.insert(run, Run { gaps, probes });
        }
    }

    /// A probe of this run came: what need not wait any more, and how it is to be told.
    pub(super) fn release(&mut self, run: u32, was_of_use: bool) -> VecDeque<Gap> {
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

impl Table {
    /// Cuts a run of chunks into gaps, none longer than allowed unless it is a single chunk.
    fn gaps_of(&self, run: Range<u32>) -> Vec<Range<u32>> {
        let (mut gaps, mut first) = (Vec::new(), run.start);
        for chunk in run.clone() {
            if chunk > first
                && self.place_of(chunk + 1) - self.place_of(first) > self.limits.gap_bytes()
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

    /// Cuts a run of chunks into gaps, and says what is done with each.
    pub(super) fn parts_of(
        &self,
        run: Range<u32>,
        facings: &Facings<'_>,
    ) -> Vec<(Range<u32>, Role)> {
        let first = if facings.run.start == self.place_of(run.start) { FIRST_CHUNKS } else { 0 };
        let last = if facings.between.1.is_some() { LAST_CHUNKS } else { 0 };
        let end = run.end.saturating_sub(last).min(self.end_before(&run, facings.few_between()));
        let inner = (run.start + first).min(run.end)..end.max(run.start);
        let told =
            |chunks: Range<u32>| self.gaps_of(chunks).into_iter().map(|gap| (gap, Role::Told));
        match self.probed(&inner, facings) {
            Some(probed) => {
                let (first, last) = (run.start..inner.start, inner.end..run.end);
                told(first).chain(probed).chain(told(last)).collect()
            }
            None => told(run).collect(),
        }
    }

    /// The first chunk of a run that ends in its last `bytes`.
    fn end_before(&self, run: &Range<u32>, bytes: u64) -> u32 {
        let from = self.place_of(run.end).saturating_sub(bytes);
        run.clone()
            .rev()
            .find(|chunk| self.place_of(chunk + 1) <= from)
            .map_or(run.start, |chunk| chunk + 1)
    }

    /// The inner part of a run cut into probes and what waits for them, where they are little of what would be told.
    fn probed(&self, inner: &Range<u32>, facings: &Facings<'_>) -> Option<Vec<(Range<u32>, Role)>> {
        if inner.is_empty() {
            return None;
        }
        let (mut parts, mut at) = (Vec::new(), inner.start);
        let waits =
            |chunks: Range<u32>| self.gaps_of(chunks).into_iter().map(|gap| (gap, Role::Waits));
        let faced = |gap: &Range<u32>| bytes_of(&facings.of(&self.bytes_of(gap)));
        for probe in self.probes(inner, facings) {
            // Long chunks are more than a gap may have, and face nothing.
            if probe.start >= at && faced(&probe) > 0 {
                parts.extend(waits(at..probe.start));
                at = probe.end;
                parts.push((probe, Role::Probe));
            }
        }
        parts.extend(waits(at..inner.end));
        let told =
            |role| parts.iter().filter(|part| part.1 == role).map(|(gap, _)| faced(gap)).sum();
        let (waiting, probes): (u64, u64) = (told(Role::Waits), told(Role::Probe));
        (probes > 0 && waiting > WORTH_BYTES.max(WORTH * probes)).then_some(parts)
    }

    /// Picks the places that show most: all over the run, if what faces each place is known; else at its ends, for the
    /// further from a neighbour, the less is known of what moved.
    fn probes(&self, inner: &Range<u32>, facings: &Facings<'_>) -> Vec<Range<u32>> {
        let len = |chunks: Range<u32>| self.place_of(chunks.end) - self.place_of(chunks.start);
        let up_to = |start: u32, bytes| {
            let end = (start + 1..inner.end).find(|end| len(start..*end) >= bytes);
            start..end.unwrap_or(inner.end)
        };
        if facings.drift().is_some_and(|drift| drift <= PROBE_BYTES) {
            let place =
                |nth| inner.start + (inner.end - inner.start) * (2 * nth + 1) / (2 * PROBES);
            return (0..PROBES).map(|nth| up_to(place(nth), PROBE_BYTES)).collect();
        }
        let last = inner.clone().rev().find(|start| len(*start..inner.end) >= END_PROBE_BYTES);
        vec![up_to(inner.start, END_PROBE_BYTES), last.unwrap_or(inner.start)..inner.end]
    }
}

/// Chunks at the start of a run that may begin with bytes of old.
const FIRST_CHUNKS: u32 = 1;
/// Chunks at its end that may be old ones in part: as many as it takes until chunks of new end where those of old do.
const LAST_CHUNKS: u32 = 4;
/// Length of a probe in bytes of new, but for its last chunk.
const PROBE_BYTES: u64 = 4 << 10;
/// The same of one at an end, where what faces it may lie some way off.
const END_PROBE_BYTES: u64 = 16 << 10;
/// Probes of one run, all over it.
const PROBES: u32 = 6;
/// Probes are worth a round trip where so many times as much waits for them.
const WORTH: u64 = 3;
/// Bytes of old that must wait, at least.
const WORTH_BYTES: u64 = 192 << 10;
