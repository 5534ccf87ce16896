//! Stores that are awaited, such as object stores and other stores behind a network.
//!
//! An awaited store cannot rename, and cannot write in the middle of a file. A new version is uploaded in parts, in
//! any order, and becomes visible in one conditional step. [`Blocking`](crate::blocking::Blocking) turns an awaited
//! store into a [`Store`](crate::Store).

use std::ops::Range;

use deltic_tree::{Meta, RelPath};

use crate::{Commit, Going, Keep, Listing, Removed, StoreError, Version};

/// The result of a call that is awaited, on any thread.
pub trait Awaited<T>: Future<Output = Result<T, StoreError>> + Send {}

impl<T, F: Future<Output = Result<T, StoreError>> + Send> Awaited<T> for F {}

/// A tree that is read and changed by awaited calls. Contracts and errors are those of the methods of the same name
/// of [`Tree`](crate::Tree) and [`Store`](crate::Store).
pub trait AsyncStore: Send + Sync + 'static {
    /// A version of a file of this store.
    type Snapshot: AsyncSnapshot;
    /// An unfinished new version of a file of this store.
    type Upload: Upload<Snapshot = Self::Snapshot>;

    /// Lists the entries of `dir`.
    fn list(&self, dir: &RelPath) -> impl Awaited<Listing>;

    /// Opens the present version of the file at `path`.
    fn open(&self, path: &RelPath) -> impl Awaited<Self::Snapshot>;

    /// Returns the metadata of the entry at `path`, `None` if there is no entry.
    fn look(&self, path: &RelPath) -> impl Awaited<Option<Meta>>;

    /// Starts a new version of `len` bytes for `path`.
    fn create(&self, path: &RelPath, len: u64) -> impl Awaited<Self::Upload>;

    /// Makes sure that `path` is a directory.
    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> impl Awaited<()>;

    /// Sets those attributes of the entry at `path` that `keep` names, to the values in `meta`.
    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> impl Awaited<()>;

    /// Removes `path` and all entries below it, or some of these.
    fn remove(&self, path: &RelPath, going: Going) -> impl Awaited<Removed>;
}

/// A version of a file, read by awaited calls.
pub trait AsyncSnapshot: Send + Sync + 'static {
    /// Metadata of the file when it was opened.
    fn meta(&self) -> &Meta;

    /// Reads the bytes of `span`. Returns fewer bytes only at the end of the file.
    fn read(&self, span: Range<u64>) -> impl Awaited<Vec<u8>>;

    /// Fails with [`StoreError::Changed`] if the file is no longer the version that was opened.
    fn check_unchanged(&self) -> impl Awaited<()>;

    /// Returns the version, `None` if versions of this store are not reliable.
    fn identity(&self) -> Option<Version> {
        None
    }
}

/// A new version of a file, invisible until [`Upload::finish`]. An upload that is dropped before leaves nothing
/// behind.
pub trait Upload: Send + Sync + 'static {
    /// A version that the new version may replace.
    type Snapshot;

    /// Length of a part in bytes. Every part starts at a multiple of this length; only the last part may be shorter.
    fn part_bytes(&self) -> usize;

    /// Uploads the part that starts at `start`. Parts come in any order, each once.
    fn put(&self, start: u64, bytes: Vec<u8>) -> impl Awaited<()>;

    /// Puts the uploaded file in place at its path, in one step.
    ///
    /// Fails with [`StoreError::Conflict`] if the entry at the path differs from the entry that `commit` replaces.
    fn finish(self, commit: Commit<'_, Self::Snapshot>) -> impl Awaited<Option<Version>>;
}
