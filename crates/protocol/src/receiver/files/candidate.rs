//! A file that is to be brought up to date.

use deltic_tree::{Meta, RelPath};

use crate::limits::LARGE_FILE_BYTES;
use crate::message::FileNo;
use crate::receiver::tree::beside::Beside;
use crate::report::{Action, Differs};

/// A file that is to be brought up to date.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) file: FileNo,
    pub(crate) path: RelPath,
    /// The metadata as listed; the transfer has it fresh.
    pub(crate) meta: Meta,
    /// The old version's, if there is one.
    pub(crate) old: Option<Meta>,
    /// The entry that stood in its place, of any kind.
    pub(crate) seen: Option<Meta>,
    pub(crate) differs: Differs,
    /// True where the contents are known to differ.
    pub(crate) compared: bool,
    /// The version of a reference directory to match against; only where there is no old version.
    pub(crate) beside: Option<Beside>,
    /// True where it is to be looked for in the chart.
    pub(crate) may_have_moved: bool,
    /// A file that came in this run and may be the same.
    pub(crate) repeats: Option<RelPath>,
}

impl Candidate {
    /// The longer of its versions, in bytes: what an attempt may have to hold an index of.
    pub(crate) fn weight(&self) -> u64 {
        let beside = self.beside.as_ref().map_or(0, |beside| beside.is.len);
        self.old.as_ref().map_or(beside, |old| old.len).max(self.meta.len)
    }

    /// True where the version of a reference directory may be the new one itself.
    pub(crate) fn is_beside(&self, checksum: bool) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.may_be_it(checksum, &self.meta))
    }

    /// The action to report. A file is not new where a reference directory has another version of it.
    pub(crate) fn action(&self) -> Action {
        let is_new = self.old.is_none() && self.beside.is_none();
        if is_new { Action::Created } else { Action::Updated }
    }

    /// The place where the tail begins: behind what is there.
    pub(crate) fn tail_from(&self) -> u64 {
        self.old.as_ref().map_or(0, |old| old.len)
    }

    pub(crate) fn is_large(&self) -> bool {
        self.weight() > LARGE_FILE_BYTES
    }
}

/// A file that was wanted and is settled.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) candidate: Candidate,
    pub(crate) end: End,
    /// True if the source grew while it was read, or a program has the source open for writing.
    pub(crate) is_restless: bool,
}

/// The end of a file that was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The file does not come; deletions need not wait for one that is excused.
    Failed { is_excused: bool },
    /// The file was there already.
    Same,
    /// The file came.
    Replaced,
}
