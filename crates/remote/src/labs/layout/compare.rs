//! Compares the layouts of two versions, and grades the evidence.

use std::collections::HashSet;
use std::ops::Range;

use deltic_core::stored::SumStrength;

use super::parts::{Layout, LayoutPart, PartContent, StorageId, UnitSums};
use crate::sums::ContentSum;

/// Byte ranges in which two versions may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Ranges of the new version that may differ: ascending, disjoint, not adjacent.
    pub differs: Vec<Range<u64>>,
    /// The weakest evidence among the equal ranges; `None` if no range is equal.
    pub by: Option<SumStrength>,
}

impl Comparison {
    /// Number of bytes that may differ.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.differs.iter().map(|range| range.end - range.start).sum()
    }

    fn take(&mut self, range: Range<u64>, same: Option<SumStrength>) {
        match (same, self.differs.last_mut()) {
            (Some(strength), _) => {
                self.by = Some(self.by.map_or(strength, |weakest| weakest.min(strength)));
            }
            (None, Some(last)) if last.end == range.start => last.end = range.end,
            (None, _) => self.differs.push(range),
        }
    }
}

impl Layout {
    /// Compares this version with `old`.
    ///
    /// Bytes at the same offset are equal if they lie at the same place in storage, are zeros, or have equal checksums
    /// of one algorithm. A chunk with a checksum of its own may lie at any offset of `old`.
    #[must_use]
    pub fn differing(&self, old: &Self) -> Comparison {
        let mut found = Comparison::default();
        let weakest = self.identities.min(old.identities);
        let one_history = self.history == old.history;
        let chunks: HashSet<_> = old.parts.iter().filter_map(chunk).collect();
        let mut before = old.parts().peekable();
        for (start, part) in self.parts() {
            let end = start + part.len;
            if let Some(chunk) = chunk(part).filter(|chunk| chunks.contains(chunk)) {
                found.take(start..end, Some(chunk.1.algorithm.strength()));
                continue;
            }
            let mut at = start;
            while at < end {
                while before.next_if(|(from, old)| from + old.len <= at).is_some() {}
                let (len, same) = match before.peek() {
                    Some((from, was)) => {
                        let here = PartOffset { part, offset: at - start };
                        here.same(PartOffset { part: was, offset: at - from }, weakest, one_history)
                    }
                    None => (end - at, None),
                };
                found.take(at..at + len, same);
                at += len;
            }
        }
        found
    }
}

/// An offset in a part.
#[derive(Clone, Copy)]
struct PartOffset<'a> {
    part: &'a LayoutPart,
    offset: u64,
}

impl PartOffset<'_> {
    /// The identity of the extent in storage, and the offset in that extent.
    fn place(self) -> Option<([u64; 3], u64)> {
        self.part.id.map(|StorageId { of, from }| (of, from + self.offset))
    }

    /// Bytes of the part from the offset to the end.
    const fn left(self) -> u64 {
        self.part.len - self.offset
    }

    /// Compares the bytes at this offset with those at `old`. Returns the number of bytes compared, never 0, and the
    /// strongest evidence that these bytes are equal.
    ///
    /// `weakest` is the strength of equal storage places, and of zeros. `one_history` is true if both layouts have the
    /// same history.
    fn same(
        self,
        old: Self,
        weakest: SumStrength,
        one_history: bool,
    ) -> (u64, Option<SumStrength>) {
        let most = self.left().min(old.left());
        let is_here = one_history && self.place().is_some_and(|place| old.place() == Some(place));
        let by_place = is_here.then_some(weakest);
        if by_place == Some(SumStrength::Proof) {
            return (most, by_place);
        }
        let (len, by_sums) = self.same_by_sums(old, most, weakest);
        (len, by_place.max(by_sums))
    }

    /// Compares up to `most` bytes by checksums, or as zeros.
    fn same_by_sums(
        self,
        old: Self,
        most: u64,
        weakest: SumStrength,
    ) -> (u64, Option<SumStrength>) {
        match (&self.part.content, &old.part.content) {
            (PartContent::Zero, PartContent::Zero) => (most, Some(weakest)),
            (PartContent::Units(units), PartContent::Units(was)) if units.are_like(was) => {
                let [here, there] = [self.unit(units), old.unit(was)];
                let is_same = here.sum.is_some() && here == there;
                (here.left.min(most), is_same.then(|| units.algorithm.strength()))
            }
            (PartContent::Encoded(how, sum), PartContent::Encoded(was_how, was)) => {
                let starts = (self.offset, old.offset, self.part.len) == (0, 0, old.part.len);
                let is_same = starts && (how, sum) == (was_how, was);
                (most, is_same.then(|| sum.algorithm.strength()))
            }
            _ => (most, None),
        }
    }

    /// The rest of the unit at this offset.
    fn unit(self, units: &UnitSums) -> UnitRest<'_> {
        let bytes = u64::from(units.bytes);
        let into = self.offset % bytes;
        let len = bytes.min(self.part.len - (self.offset - into));
        let sum = units.sum(self.offset / bytes).filter(|_| into == 0);
        UnitRest { sum, left: len - into }
    }
}

/// The rest of a unit, in bytes; and the unit's checksum if the rest is the whole unit.
#[derive(PartialEq, Eq)]
struct UnitRest<'a> {
    sum: Option<&'a [u8]>,
    left: u64,
}

/// Length and checksum of a part with a checksum of all bytes.
fn chunk(part: &LayoutPart) -> Option<(u64, &ContentSum)> {
    match &part.content {
        PartContent::Whole(sum) => Some((part.len, sum)),
        _ => None,
    }
}
