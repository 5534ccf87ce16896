//! A file to be brought up to date.

use deltic_tree::{Meta, RelPath};

use crate::limits::LARGE_FILE_BYTES;
use crate::message::FileNo;
use crate::receiver::tree::beside::AlternateEntry;
use crate::report::{Action, Differs};

/// A file to be brought up to date.
#[derive(Debug)]
pub(crate) struct FileCandidate {
    pub(crate) file: FileNo,
    pub(crate) path: RelPath,
    /// The metadata from the list; the transfer has newer metadata.
    pub(crate) meta: Meta,
    /// The metadata of the old version, if there is one.
    pub(crate) old: Option<Meta>,
    /// The entry that was found at the file's path, of any kind.
    pub(crate) seen: Option<Meta>,
    pub(crate) differs: Differs,
    /// True if the contents are known to differ.
    pub(crate) compared: bool,
    /// The version in an alternate to match against, if there is no old version.
    pub(crate) beside: Option<AlternateEntry>,
    /// True if the file is to be searched for in the index of moved files.
    pub(crate) may_have_moved: bool,
    /// Path of a file that arrived in this run and may have the same content.
    pub(crate) repeats: Option<RelPath>,
}

impl FileCandidate {
    /// Length in bytes of the longer version, for which an attempt may have to hold an index.
    pub(crate) fn longer_len(&self) -> u64 {
        let beside = self.beside.as_ref().map_or(0, |beside| beside.is.len);
        self.old.as_ref().map_or(beside, |old| old.len).max(self.meta.len)
    }

    /// True if the version in the alternate may equal the new version.
    pub(crate) fn is_alternate_candidate(&self, checksum: bool) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.may_have_content(checksum, &self.meta))
    }

    /// The action to report. A file with a version in an alternate is not reported as new.
    pub(crate) fn action(&self) -> Action {
        let is_new = self.old.is_none() && self.beside.is_none();
        if is_new { Action::Created } else { Action::Updated }
    }

    /// The offset at which the tail begins: the length of the old version.
    pub(crate) fn tail_start(&self) -> u64 {
        self.old.as_ref().map_or(0, |old| old.len)
    }

    pub(crate) fn is_large(&self) -> bool {
        self.longer_len() > LARGE_FILE_BYTES
    }
}

/// A wanted file that is settled.
#[derive(Debug)]
pub(crate) struct SettledFile {
    pub(crate) candidate: FileCandidate,
    pub(crate) end: FileOutcome,
    /// True if the source grew while it was read, or a program has the source open for writing.
    pub(crate) is_restless: bool,
}

/// The outcome of a wanted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOutcome {
    /// The file failed. An excused failure does not prevent deletions.
    Failed { is_excused: bool },
    /// The file was up to date.
    Same,
    /// The file was put in place.
    Replaced,
}
