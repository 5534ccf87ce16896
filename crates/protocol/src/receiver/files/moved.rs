//! Files that moved: a file that does not exist at its path may exist elsewhere in the destination, under another
//! name.
//!
//! ```text
//! a file without an old version ──► waits for the chart ──► the queue ──► OpenOld searches the chart
//!     a twin or kin is found ──► an old version like any other: matched against, and never trusted
//!     none is found          ──► the file is sent whole
//! ```
//!
//! The *chart* is the index of moved files: an index of the files in the destination. `ExtendMoveIndex` work adds a few
//! thousand names at a time, once the first file without an old version appears. Files with an old version do not
//! wait for the chart. All names in listed directories are added. The number of other names is bounded by the number
//! of listed names and the bytes of wanted files (docs/decisions/0022).

use std::collections::BTreeMap;

use deltic_core::strategy::Conversation;
use deltic_tree::RelPath;

use crate::limits::MOVED_ABOVE_BYTES;
use crate::message::FileNo;
use crate::options::Options;
use crate::receiver::ask::{FileRelation, LookupWork, MoveIndexExtent, NotListed, ReceiverWork};
use crate::receiver::context::Context;
use crate::receiver::pending::FilePending;

use super::candidate::FileCandidate;

/// Files that may have moved, and the chart: the index of the destination's files.
#[derive(Debug, Default)]
pub(super) struct MovedFiles {
    chart: MoveIndexState,
    /// Files that wait for the chart.
    waiting: BTreeMap<FileNo, FileCandidate>,
    /// Number of names added to the chart.
    names: u64,
    has_files: bool,
    /// Length in bytes of all files to be searched for.
    wanted_bytes: u64,
    twins: GuessCounts,
    kin: GuessCounts,
}

/// Progress of the chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MoveIndexState {
    #[default]
    Blank,
    Drawing,
    Left(NotListed),
}

/// Numbers of right and wrong guesses.
#[derive(Clone, Copy, Debug, Default)]
struct GuessCounts {
    hits: u32,
    misses: u32,
}

impl GuessCounts {
    fn is_used_up(self) -> bool {
        self.misses > MISSES_BORNE.saturating_add(self.hits.saturating_mul(2))
    }
}

/// Number of names to add in each piece of work.
const NAMES_AT_ONCE: u64 = 8 << 10;
/// Number of names outside the listed directories that are added in any case.
const FAR_NAMES: u64 = 16 << 10;
/// Wanted bytes that justify adding another name outside the listed directories: looking up a name on a disk may take
/// as long as sending these bytes.
const BYTES_FOR_NAME: u64 = 64 << 10;
/// Most names outside the listed directories that are added, whatever lengths a sender claims.
const MOST_FAR_NAMES: u64 = 1 << 20;
/// Number of wrong guesses allowed; each right guess allows two more.
const MISSES_BORNE: u32 = 16;
/// Divisor of a file's length: a guess that matched less than this share of the file was wrong.
const HIT_SHARE: u64 = 8;

impl MovedFiles {
    /// Returns the lowest number of a waiting file.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.waiting.keys().next().copied()
    }

    /// Returns the weakest relation by which another file may still serve as an old version. `None` after too many
    /// wrong guesses.
    pub(super) fn weakest_relation(&self) -> Option<FileRelation> {
        match () {
            () if self.twins.is_used_up() => None,
            () if self.kin.is_used_up() => Some(FileRelation::Twin),
            () => Some(FileRelation::Kin),
        }
    }

    /// Counts a guess by `relation` as right or wrong, by the `matched` bytes of a file of `len` bytes.
    pub(super) fn count_guess(&mut self, relation: FileRelation, matched: u64, len: u64) {
        let counts = match relation {
            FileRelation::Repeat => return,
            FileRelation::Twin => &mut self.twins,
            FileRelation::Kin => &mut self.kin,
        };
        let count = if matched >= len / HIT_SHARE { &mut counts.hits } else { &mut counts.misses };
        *count = count.saturating_add(1);
    }
}

impl MovedFiles {
    /// Returns `candidate` at once, unless the file has to wait for the chart.
    pub(super) fn admit_or_hold(
        &mut self,
        options: &Options,
        candidate: FileCandidate,
    ) -> Option<FileCandidate> {
        if !self.may_have_moved(options, &candidate) {
            return Some(candidate);
        }
        self.wanted_bytes = self.wanted_bytes.saturating_add(candidate.meta.len);
        self.waiting.insert(candidate.file, candidate);
        None
    }

    /// True if a file is new and worth a search. Strategies from papers search for nothing: they only serve
    /// comparisons.
    fn may_have_moved(&self, options: &Options, candidate: &FileCandidate) -> bool {
        candidate.old.is_none()
            && candidate.beside.is_none()
            && candidate.meta.len > MOVED_ABOVE_BYTES
            && !options.whole_file
            && !options.dry_run
            && options.strategy.conversation == Conversation::Recipe
            && self.weakest_relation().is_some()
    }

    /// Extends the chart while waiting files may be found in it; afterwards returns these files. The list has `known`
    /// names, and `near` returns the topmost directories of the transfer.
    pub(super) fn extend_index(
        &mut self,
        cx: &mut Context,
        near: impl FnOnce(&Context) -> Vec<RelPath>,
        known: u64,
    ) -> Vec<FileCandidate> {
        if self.waiting.is_empty() || self.chart == MoveIndexState::Drawing {
            return Vec::new();
        }
        let worthwhile = match self.chart {
            MoveIndexState::Blank | MoveIndexState::Left(NotListed::Near) => true,
            MoveIndexState::Left(NotListed::Far) => self.names < self.max_far_names(known),
            MoveIndexState::Left(NotListed::Nothing) | MoveIndexState::Drawing => false,
        };
        if worthwhile {
            let near = if self.chart == MoveIndexState::Blank { near(cx) } else { Vec::new() };
            self.chart = MoveIndexState::Drawing;
            cx.request_work(
                ReceiverWork::Lookup(LookupWork::ExtendMoveIndex { near, names: NAMES_AT_ONCE }),
                FilePending::ExtendMoveIndex,
            );
            return Vec::new();
        }
        // A first copy finds no files in the chart, and need not search.
        let has_files = self.has_files;
        let all = std::mem::take(&mut self.waiting).into_values();
        all.map(|candidate| FileCandidate { may_have_moved: has_files, ..candidate }).collect()
    }

    fn max_far_names(&self, known: u64) -> u64 {
        let worth = self.wanted_bytes / BYTES_FOR_NAME;
        let names = FAR_NAMES.saturating_add(known.saturating_mul(2)).saturating_add(worth);
        names.min(MOST_FAR_NAMES)
    }

    /// Takes the answer to `ExtendMoveIndex` work.
    pub(super) fn take_index_extent(
        &mut self,
        MoveIndexExtent { names, not_listed, has_files }: MoveIndexExtent,
    ) {
        self.names = self.names.saturating_add(names);
        self.chart = MoveIndexState::Left(not_listed);
        self.has_files = has_files;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_raise_the_weakest_relation_and_hits_lower_it() {
        let mut moved = MovedFiles::default();
        for _ in 0..=MISSES_BORNE {
            assert_eq!(moved.weakest_relation(), Some(FileRelation::Kin));
            moved.count_guess(FileRelation::Kin, 0, 100);
        }
        assert_eq!(moved.weakest_relation(), Some(FileRelation::Twin));
        moved.count_guess(FileRelation::Kin, 90, 100);
        assert_eq!(moved.weakest_relation(), Some(FileRelation::Kin));
        for _ in 0..=MISSES_BORNE {
            moved.count_guess(FileRelation::Twin, 0, 100);
        }
        assert_eq!(moved.weakest_relation(), None);
    }
}
