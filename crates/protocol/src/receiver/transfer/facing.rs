//! The places of gaps in old: between the same neighbours, or where it would be if nothing had moved since one of them.

use std::ops::Range;

use deltic_core::Span;

use crate::receiver::ask::OldGap;

use super::versions::OldVersions;

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

    /// The place of old between the neighbours, where both are known and still in order.
    fn between(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.between.0?, self.between.1?);
        (from <= to).then_some((from, to))
    }

    /// Whether old may repeat itself where this short run is, which has its neighbours right beside each other: the
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
/// Bytes that may come in between neighbours and are still told against what lies beyond them.
const REPEATED_BYTES: u64 = 128 << 10;
