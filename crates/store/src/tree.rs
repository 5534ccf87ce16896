//! Trees that can be read, and listings of directories.

use std::path::PathBuf;

use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, Meta, RelPath};

use crate::{Snapshot, StoreError, Version};

/// A tree that can be read, as used by a sender.
pub trait Tree: Send + Sync + 'static {
    /// A version of a file of this tree.
    type Snapshot: Snapshot;

    /// Returns the absolute path of `path` on this machine, `None` if the tree is not part of its file system.
    fn full_path(&self, _path: &RelPath) -> Option<PathBuf> {
        None
    }

    /// Lists the entries of `dir` that the filter admits, sorted by the bytes of their names, without the staging
    /// directory.
    ///
    /// Rules files in the directories are read on the way.
    ///
    /// # Errors
    /// If `dir` as a whole cannot be listed. Errors with single entries are in [`Listing::errors`].
    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError>;

    /// Lists a directory in parts. The first call, without `rest`, returns the first entries of a huge directory and
    /// the remaining names in [`Listing::rest`]. Further calls take these names as `rest` and return the next entries.
    /// So all names are in memory, but only few entries.
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
            // The first part was the whole listing.
            Some(_) => Ok(Listing::default()),
        }
    }

    /// Lists as [`Tree::list_some`], for a caller that needs no ACLs and no extended attributes: the entries may lack
    /// both.
    ///
    /// # Errors
    /// As [`Tree::list`].
    fn list_stat(
        &self,
        dir: &RelPath,
        rest: Option<Box<SortedNames>>,
    ) -> Result<Listing, StoreError> {
        self.list_some(dir, rest)
    }

    /// Returns the first part of [`Tree::list_some`], with the known [versions](Listing::versions) of files.
    ///
    /// # Errors
    /// As [`Tree::list`].
    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.list_some(dir, None)
    }

    /// Returns the version of the regular file at each of `paths`, without opening the file. `None` if versions are not
    /// reliable, as for [`Snapshot::identity`]. Cheaper if paths of one directory are adjacent.
    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        vec![None; paths.len()]
    }

    /// Opens the present version of the regular file at `path`. Never blocks on a FIFO.
    ///
    /// # Errors
    /// [`StoreError::NotAFile`] for anything but a regular file.
    fn open(&self, path: &RelPath) -> Result<Self::Snapshot, StoreError>;

    /// Returns an iterator that calls [`Tree::open`] for each of `paths` in turn. A caller that drops each snapshot
    /// before the next holds one file open. Cheaper if paths of one directory are adjacent.
    fn open_all(
        &self,
        paths: &[RelPath],
    ) -> impl Iterator<Item = Result<Self::Snapshot, StoreError>> {
        paths.iter().map(|path| self.open(path))
    }

    /// True if the file system of this tree may have [extents](Snapshot::extents) of files.
    fn tells_extents(&self) -> bool {
        false
    }

    /// Removes the file or link at `path` after its transfer, if the entry still matches the listed metadata `is`.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the entry does not match. The entry then stays.
    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        let _ = is;
        Err(StoreError::Unsupported { what: "removed sources", path: path.clone() })
    }
}

/// Entries of a directory, and errors with other entries.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries, sorted by the bytes of their names.
    pub entries: Vec<Entry>,
    /// For each entry the listed version, `None` unless the entry is a file with a reliable version. Empty if
    /// versions were not requested or the store has none.
    pub versions: Vec<Option<Version>>,
    /// Errors, one for each entry that is missing in `entries`. A listing with errors must not cause any deletion.
    pub errors: Vec<StoreError>,
    /// Warnings about faults that leave no entry out, such as an ignored rules file.
    pub warnings: Vec<String>,
    /// True if the directory may hold names that were not requested.
    pub partial: bool,
    /// True if this listing has a recursive source argument that is an empty directory, most likely a mount point
    /// without its file system.
    pub is_empty_source: bool,
    /// Named directories that are left out because directories were not requested.
    pub skipped: Vec<RelPath>,
    /// Path of the destination directory of the run, which is not listed.
    pub destination: Option<RelPath>,
    /// Names after the last entry that were not examined yet, if the directory is listed [in parts](Tree::list_some).
    pub rest: Option<Box<SortedNames>>,
}

impl Listing {
    /// Drops the entries for which `stays` is false, with their versions.
    pub fn retain(&mut self, stays: impl FnMut(&Entry) -> bool) {
        let stay: Vec<bool> = self.entries.iter().map(stays).collect();
        let (mut entries, mut versions) = (stay.iter(), stay.iter());
        self.entries.retain(|_| entries.next() == Some(&true));
        self.versions.retain(|_| versions.next() == Some(&true));
    }
}
