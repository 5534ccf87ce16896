//! Copies and literals that make the new version from the old, and a check for complete coverage (law 5).

use std::collections::BTreeMap;

use crate::span::Span;

/// Maximum length of a run that [`CopyRuns`] merges, in bytes.
pub const MAX_RUN_BYTES: u32 = 8 << 20;

/// A copy or a literal. Operations are independent: every order gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaOp {
    /// Copies bytes from the old version.
    Copy {
        /// Byte range in the old version.
        old: Span,
        /// Byte offset in the new version.
        new_start: u64,
    },
    /// Writes bytes that the sender transmits.
    Literal {
        /// Byte range in the new version.
        new: Span,
    },
}

/// Reason why [`WriteCover::add`] refuses a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// A byte of the run is covered already.
    #[error("bytes from {start} overlap an earlier write")]
    Overlap {
        /// First byte of the refused run.
        start: u64,
    },
    /// The run ends past the end of the file.
    #[error("bytes from {start} reach beyond the end of the file")]
    BeyondEnd {
        /// First byte of the refused run.
        start: u64,
    },
}

/// Tracks the bytes of the new version that are written. Law 5: writes cover each byte exactly once, in any
/// order.
///
/// Memory grows with the number of gaps, not with the number of writes.
#[derive(Clone, Debug)]
pub struct WriteCover {
    len: u64,
    missing: u64,
    /// Covered runs: start to end. Runs neither touch nor overlap.
    runs: BTreeMap<u64, u64>,
}

impl WriteCover {
    /// An empty cover of a file of `len` bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self { len, missing: len, runs: BTreeMap::new() }
    }

    /// Marks `len` bytes from `start` as written. An error leaves the cover unchanged.
    ///
    /// # Errors
    /// [`CoverError::Overlap`] if a byte is covered already, [`CoverError::BeyondEnd`] if the run ends past the
    /// end of the file.
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

    /// Number of bytes that are not covered.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.missing
    }
}

/// Merges copies that are adjacent in the old version and in the new, up to [`MAX_RUN_BYTES`].
#[derive(Clone, Debug, Default)]
pub struct CopyRuns {
    open: Option<(Span, u64)>,
}

impl CopyRuns {
    /// Creates a merger that has not taken any copy yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { open: None }
    }

    /// Takes the next copy. Returns the previous run if this copy does not extend it.
    pub fn push(&mut self, old: Span, new_start: u64) -> Option<DeltaOp> {
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

    /// Closes and returns the open run. The next copy starts a new run.
    pub fn finish(&mut self) -> Option<DeltaOp> {
        self.open.take().map(|(old, new_start)| DeltaOp::Copy { old, new_start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_adjacent_in_old_and_new_merge() {
        let mut runs = CopyRuns::new();
        assert_eq!(runs.push(Span::new(0, 10), 100), None);
        assert_eq!(runs.push(Span::new(10, 5), 110), None);
        let first = DeltaOp::Copy { old: Span::new(0, 15), new_start: 100 };
        assert_eq!(runs.push(Span::new(15, 5), 116), Some(first));
        let second = DeltaOp::Copy { old: Span::new(15, 5), new_start: 116 };
        assert_eq!(runs.push(Span::new(21, 9), 121), Some(second));
        let third = DeltaOp::Copy { old: Span::new(21, 9), new_start: 121 };
        assert_eq!(runs.finish(), Some(third));
        assert_eq!(runs.finish(), None);
    }

    #[test]
    fn a_merged_run_has_a_longest_length() {
        let mut runs = CopyRuns::new();
        assert_eq!(runs.push(Span::new(0, MAX_RUN_BYTES - 1), 0), None);
        assert_eq!(
            runs.push(Span::new(u64::from(MAX_RUN_BYTES) - 1, 1), u64::from(MAX_RUN_BYTES) - 1),
            None
        );
        let full = DeltaOp::Copy { old: Span::new(0, MAX_RUN_BYTES), new_start: 0 };
        assert_eq!(runs.push(Span::new(MAX_RUN_BYTES.into(), 1), MAX_RUN_BYTES.into()), Some(full));
    }

    #[test]
    fn a_refused_run_changes_nothing() {
        let mut cover = WriteCover::new(10);
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
