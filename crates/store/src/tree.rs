//! Trees that are read, and what a directory holds.

use std::path::PathBuf;

use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, Meta, RelPath};

use crate::{Snapshot, StoreError, Version};

/// A tree that can be read: what a sender holds.
pub trait Tree: Send + Sync + 'static {
    /// A version of a file of this tree.
    type Snapshot: Snapshot;

    /// Where `path` is, from the root of this machine's file system; nothing of a tree that is not in it.
    fn full_path(&self, _path: &RelPath) -> Option<PathBuf> {
        None
    }

    /// The entries of `dir` that the filter admits, sorted by the bytes of their names; never the staging directory.
    ///
    /// The files of rules that directories bring are read on the way.
    ///
    /// # Errors
    /// Where `dir` as a whole cannot be listed; trouble with one entry is in [`Listing::errors`].
    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError>;

    /// [`Tree::list`] by parts: of a directory of very many names the first entries, and the names that are left in
    /// [`Listing::rest`]; then, for those, the next ones. So what is held of a huge directory are names, and few
    /// entries.
    ///
    /// # Errors
    /// As [`Tree::list`].
    fn list_some(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        match rest {
            None => self.list(dir),
            // Nothing was left.
            Some(_) => Ok(Listing::default()),
        }
    }

    /// The first part of [`Tree::list_some`], with what can be told of the [versions](Listing::versions) of files.
    ///
    /// # Errors
    /// As [`Tree::list`].
    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_some(dir, None)
    }

    /// The version of the regular file at each of `paths`, without opening it; `None` where that cannot be relied on,
    /// as [`Snapshot::identity`] has it. Cheaper where those of one directory follow each other.
    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        vec![None; paths.len()]
    }

    /// Holds the present version of the regular file at `path`; never blocks on a FIFO.
    ///
    /// # Errors
    /// [`StoreError::NotAFile`] for anything but a regular file.
    fn open(&self, path: &RelPath) -> Result<Self::Snapshot, StoreError>;

    /// [`Tree::open`] of each of `paths`, when it is asked for: those that were dropped before are held open no more.
    /// Cheaper where those of one directory follow each other.
    fn open_all(
        &self,
        paths: &[RelPath],
    ) -> impl Iterator<Item = Result<Self::Snapshot, StoreError>> {
        paths.iter().map(|path| self.open(path))
    }

    /// True if its storage may [tell](Snapshot::extents) where bytes of files lie.
    fn tells_extents(&self) -> bool {
        false
    }

    /// Removes the file or link at `path`, which has arrived elsewhere, if it `is` still what was listed.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where it is not; then it stays.
    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        let _ = is;
        Err(StoreError::Unsupported { what: "removed sources", path: path.clone() })
    }
}

/// What a directory holds, and what of it could not be seen.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries, sorted by the bytes of their names.
    pub entries: Vec<Entry>,
    /// For each entry, where that was asked for and can be said: the version that was listed, if it is a file of which
    /// one can be relied on.
    pub versions: Vec<Option<Version>>,
    /// One error for each entry that is missing above; nothing may be deleted on the word of a listing with errors.
    pub errors: Vec<StoreError>,
    /// What is not as it was asked for, though nothing is missing above.
    pub warnings: Vec<String>,
    /// True if the directory may hold other names, which were not asked for.
    pub partial: bool,
    /// True if one of the directories that were named as this one, with all below, has nothing in it: most likely what
    /// belongs there is not mounted.
    pub is_empty_source: bool,
    /// Directories that were named and are not asked for.
    pub skipped: Vec<RelPath>,
    /// The directory that is written to, which takes no part.
    pub destination: Option<RelPath>,
    /// Names behind the last entry that were not looked at, where it is [by parts](Tree::list_some).
    pub rest: Option<Box<SortedNames>>,
}

impl Listing {
    /// Leaves out what `stays` does not admit.
    pub fn retain(&mut self, stays: impl FnMut(&Entry) -> bool) {
        let stay: Vec<bool> = self.entries.iter().map(stays).collect();
        let (mut entries, mut versions) = (stay.iter(), stay.iter());
        self.entries.retain(|_| entries.next() == Some(&true));
        self.versions.retain(|_| versions.next() == Some(&true));
    }
}
