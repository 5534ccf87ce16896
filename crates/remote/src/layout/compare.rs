//! Comparison of two versions by what storage says of them, and the worth of that as evidence.

use std::collections::HashSet;
use std::ops::Range;

use deltic_core::stored::SumStrength;

use super::parts::{Layout, LayoutPart, PartContent, StorageId, UnitSums};
use crate::sums::ContentSum;

/// Ranges in which two versions may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Ranges of the new version that may differ, ascending, none next to another.
    pub differs: Vec<Range<u64>>,
    /// The weakest evidence by which the others are equal; `None` where there are no others.
    pub by: Option<SumStrength>,
}

impl Comparison {
    /// Bytes that may differ.
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
    /// Compares this version with `old`. Bytes at the same place are equal where they lie in the same storage,
    /// are zeros, or have equal sums of one kind. A chunk with a sum of its own may also be elsewhere in `old`.
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
                        here.same(
                            PartOffset { part: was, offset: at - from },
                            (weakest, one_history),
                        )
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

/// A place in a part.
#[derive(Clone, Copy)]
struct PartOffset<'a> {
    part: &'a LayoutPart,
    offset: u64,
}

impl PartOffset<'_> {
    /// The storage that it lies in, and the place there.
    fn place(self) -> Option<([u64; 3], u64)> {
        self.part.id.map(|StorageId { of, from }| (of, from + self.offset))
    }

    /// Bytes of the part from here on.
    const fn left(self) -> u64 {
        self.part.len - self.offset
    }

    /// Says of how many bytes something is said, never 0, and whether they are those at another place: by the stronger
    /// of both kinds of evidence. `weakest` is the strength of equal identities of one history, and of zeros.
    fn same(
        self,
        old: Self,
        (weakest, one_history): (SumStrength, bool),
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

    /// The same by what covers both, of `most` bytes.
    fn same_by_sums(self, old: Self, most: u64, weakest: Strength) -> (u64, Option<Strength>) {
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

    /// The unit that it is in.
    fn unit(self, units: &UnitSums) -> UnitRest<'_> {
        let bytes = u64::from(units.bytes);
        let into = self.offset % bytes;
        let len = bytes.min(self.part.len - (self.offset - into));
        let sum = units.sum(self.offset / bytes).filter(|_| into == 0);
        UnitRest { sum, left: len - into }
    }
}

/// Rest of a unit in bytes, and its sum where the rest is all of it.
#[derive(PartialEq, Eq)]
struct UnitRest<'a> {
    sum: Option<&'a [u8]>,
    left: u64,
}

/// The length and the sum of a part that has one of all its bytes.
fn chunk(part: &LayoutPart) -> Option<(u64, &ContentSum)> {
    match &part.content {
        PartContent::Whole(sum) => Some((part.len, sum)),
        _ => None,
    }
}
