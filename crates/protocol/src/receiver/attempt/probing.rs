//! Long runs of chunks that old lacks: what faces them is told where some of it turns out to be of use.
//!
//! Sums of old cost a byte for sixteen. Where much was put in place of what was there, or nearly nothing is as it was, no
//! block of old is found, and all of them were told for nothing. So of a long run a few short gaps are asked for first, its
//! *probes*, and the others wait. Once a probe made of old more than its sums cost, all of the run is told against old;
//! when none did, all comes as it is.
//!
//! 1. The ends of a run are told at once and prove nothing: of the chunks there some bytes are old ones whatever lies
//!    between.
//! 2. No other gap waits, of this file or another: only what was found to belong to the run.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::limits::GAP_BYTES;

use super::Attempt;
use super::facing::Facings;
use super::mending::Gap;

/// What is done with a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is told against old at once.
    Told,
    /// The same, and shows whether old is of use.
    Probe,
    /// It waits for what the probes show.
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
            gaps.iter_mut().for_each(Gap::comes_as_it_is);
        }
        gaps
    }
}

impl Attempt {
    /// A run of chunks as gaps, and what is done with each.
    pub(super) fn parts_of(
        &self,
        run: Range<u32>,
        facings: &Facings<'_>,
    ) -> Vec<(Range<u32>, Role)> {
        let inner = (run.start + FIRST_CHUNKS).min(run.end)
            ..run.end.saturating_sub(LAST_CHUNKS).max(run.start);
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

    /// The inner part of a run cut into probes and what waits for them, where they are little of what would be told.
    fn probed(&self, inner: &Range<u32>, facings: &Facings<'_>) -> Option<Vec<(Range<u32>, Role)>> {
        if inner.is_empty() {
            return None;
        }
        let gaps = self.gaps_of(inner.clone());
        let bytes = |gap: &Range<u32>| -> u64 {
            facings.of(&self.bytes_of(gap)).iter().map(|span| u64::from(span.len)).sum()
        };
        let faced: Vec<_> = gaps.iter().filter(|gap| bytes(gap) > 0).cloned().collect();
        let (probe_bytes, probes) = match facings.drift() {
            // Only whole gaps face all of the bytes that they may have been.
            Some(drift) if (PROBE_BYTES + 1..=GAP_BYTES).contains(&drift) => (GAP_BYTES, 2),
            _ => (PROBE_BYTES, PROBES),
        };
        let chunks: Vec<u32> = faced.iter().cloned().flatten().collect();
        let starts = (0..probes).map(|nth| chunks.get((2 * nth + 1) * chunks.len() / (2 * probes)));
        let mut starts = starts.flatten().copied().peekable();
        let mut parts = Vec::new();
        for gap in gaps {
            let mut at = gap.start;
            while let Some(start) = starts.next_if(|start| *start < gap.end) {
                let start = if probe_bytes == GAP_BYTES { gap.start } else { start };
                if start < at {
                    continue;
                }
                if start > at {
                    parts.push((at..start, Role::Waits));
                }
                let is_enough =
                    |end: &u32| self.place_of(*end) - self.place_of(start) >= probe_bytes;
                at = (start + 1..gap.end).find(is_enough).unwrap_or(gap.end);
                parts.push((start..at, Role::Probe));
            }
            if at < gap.end {
                parts.push((at..gap.end, Role::Waits));
            }
        }
        let told = |role| -> u64 {
            parts.iter().filter(|part| part.1 == role).map(|(gap, _)| bytes(gap)).sum()
        };
        let is_worth_it = told(Role::Waits) > WORTH * told(Role::Probe).max(WORTH_BYTES);
        is_worth_it.then_some(parts)
    }
}

/// Chunks at the start of a run that may begin with bytes of old.
const FIRST_CHUNKS: u32 = 1;
/// Chunks at its end that may be old ones in part: as many as it takes until chunks of new end where those of old do.
const LAST_CHUNKS: u32 = 4;
/// How long a probe is, in bytes of new, but for its last chunk.
const PROBE_BYTES: u64 = 4 << 10;
/// Probes of one run.
const PROBES: usize = 6;
/// How many times as much as the probes must wait for them, so that they are worth a round trip.
const WORTH: u64 = 3;
/// Probes count as so many bytes of old at least.
const WORTH_BYTES: u64 = 64 << 10;
