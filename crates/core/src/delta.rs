//! From old to new: what to copy, what to write, and whether that is all of new (law 5).

use std::collections::BTreeMap;

use crate::span::Span;

/// Longest run that [`CopyRuns`] merges copies into, in bytes.
pub const MAX_RUN_BYTES: u32 = 8 << 20;

/// A step from old to new. Steps stand on their own: any order gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bytes that old has.
    Copy {
        /// Bytes of old.
        old: Span,
        /// Place in new, in bytes from its start.
        new_start: u64,
    },
    /// Bytes that have to travel.
    Literal {
        /// Place in new.
        new: Span,
    },
}

/// Why bytes cannot be covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// Some of them were covered before.
    #[error("bytes from {start} were written before")]
    Overlap {
        /// First byte of the run that was refused.
        start: u64,
    },
    /// Some of them lie beyond the end.
    #[error("bytes from {start} reach beyond the end of the file")]
    BeyondEnd {
        /// First byte of the run that was refused.
        start: u64,
    },
}

/// Bytes of new that are there already. Law 5: they tile it exactly once, in any order.
///
/// Its memory grows with the number of holes, not of pieces.
#[derive(Clone, Debug)]
pub struct Cover {
    len: u64,
    missing: u64,
    /// Covered runs by start, with their ends; neither touching nor overlapping.
    runs: BTreeMap<u64, u64>,
}

impl Cover {
    /// A cover of `len` bytes, none of which is there.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self { len, missing: len, runs: BTreeMap::new() }
    }

    /// Covers `len` bytes from `start`. Nothing changes on an error.
    ///
    /// # Errors
    /// [`CoverError`] where they overlap with covered ones or reach beyond the end.
    pub fn add(&mut self, start: u64, len: u64) -> Result<(), CoverError> {
        let end = start.checked_add(len).filter(|end| *end <= self.len);
        let end = end.ok_or(CoverError::BeyondEnd { start })?;
        if len == 0 {
            return Ok(());
        }
        let before = self.runs.range(..=start).next_back().map(|(start, end)| (*start, *end));
        let after = self.runs.range(start..).next().map(|(start, end)| (*start, *end));
        if before.is_some_and(|run| run.1 > start) || after.is_some_and(|run| run.0 < end) {
            return Err(CoverError::Overlap { start });
        }
        let joined_start = before.filter(|run| run.1 == start).map_or(start, |run| run.0);
        let joined_end = after.filter(|run| run.0 == end).map_or(end, |run| run.1);
        self.runs.remove(&end);
        self.runs.insert(joined_start, joined_end);
        self.missing -= len;
        Ok(())
    }

    /// True if every byte is covered.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Bytes that are not covered.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.missing
    }
}

/// Merges copies that continue each other in old and in new, up to [`MAX_RUN_BYTES`].
#[derive(Clone, Debug, Default)]
pub struct CopyRuns {
    open: Option<(Span, u64)>,
}

impl CopyRuns {
    /// No run yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { open: None }
    }

    /// Takes the next copy; the run before it, where it does not go on with this copy.
    pub fn push(&mut self, old: Span, new_start: u64) -> Option<Op> {
        if let Some((run, run_new)) = &mut self.open {
            let goes_on =
                run.end() == old.start && run_new.checked_add(run.len.into()) == Some(new_start);
            let merged = run.len.checked_add(old.len).filter(|len| *len <= MAX_RUN_BYTES);
            if let (true, Some(len)) = (goes_on, merged) {
                run.len = len;
                return None;
            }
        }
        let finished = self.finish();
        self.open = Some((old, new_start));
        finished
    }

    /// The run that is still open. The next copy starts a new one.
    pub fn finish(&mut self) -> Option<Op> {
        self.open.take().map(|(old, new_start)| Op::Copy { old, new_start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_merge_where_both_sides_go_on() {
        let mut runs = CopyRuns::new();
        assert_eq!(runs.push(Span::new(0, 10), 100), None);
        assert_eq!(runs.push(Span::new(10, 5), 110), None);
        let first = Op::Copy { old: Span::new(0, 15), new_start: 100 };
        assert_eq!(runs.push(Span::new(15, 5), 116), Some(first));
        let second = Op::Copy { old: Span::new(15, 5), new_start: 116 };
        assert_eq!(runs.push(Span::new(21, 9), 121), Some(second));
        let third = Op::Copy { old: Span::new(21, 9), new_start: 121 };
        assert_eq!(runs.finish(), Some(third));
        assert_eq!(runs.finish(), None);
    }

    #[test]
    fn a_run_has_a_bound() {
        let mut runs = CopyRuns::new();
        assert_eq!(runs.push(Span::new(0, MAX_RUN_BYTES - 1), 0), None);
        assert_eq!(
            runs.push(Span::new(u64::from(MAX_RUN_BYTES) - 1, 1), u64::from(MAX_RUN_BYTES) - 1),
            None
        );
        let full = Op::Copy { old: Span::new(0, MAX_RUN_BYTES), new_start: 0 };
        assert_eq!(runs.push(Span::new(MAX_RUN_BYTES.into(), 1), MAX_RUN_BYTES.into()), Some(full));
    }

    #[test]
    fn a_refused_run_changes_nothing() {
        let mut cover = Cover::new(10);
        cover.add(2, 3).unwrap();
        assert_eq!(cover.add(4, 1), Err(CoverError::Overlap { start: 4 }));
        assert_eq!(cover.add(0, 3), Err(CoverError::Overlap { start: 0 }));
        assert_eq!(cover.add(9, 2), Err(CoverError::BeyondEnd { start: 9 }));
        assert_eq!(cover.add(1, u64::MAX), Err(CoverError::BeyondEnd { start: 1 }));
        assert_eq!(cover.missing(), 7);
        cover.add(5, 5).unwrap();
        cover.add(0, 2).unwrap();
        assert!(cover.is_complete());
    }
}
