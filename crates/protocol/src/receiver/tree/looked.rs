//! Listed entries, and the entries in the same places.

use deltic_tree::{Entry, Meta, RelPath};

use crate::message::FileNo;
use crate::report::Trouble;

/// A listed entry, and the entry in the same place.
#[derive(Debug)]
pub(super) struct LookedEntry {
    pub(super) file: FileNo,
    pub(super) entry: Entry,
    pub(super) old: Result<Option<Meta>, Trouble>,
}

/// A listed entry with its path, and the entry that was found at this path.
#[derive(Debug)]
pub(super) struct PlacedEntry {
    pub(super) file: FileNo,
    pub(super) path: RelPath,
    pub(super) meta: Meta,
    pub(super) seen: Option<Meta>,
}

impl PlacedEntry {
    /// True if a regular file stands at the path.
    pub(super) fn has_old_file(&self) -> bool {
        self.seen.as_ref().is_some_and(Meta::is_file)
    }
}
