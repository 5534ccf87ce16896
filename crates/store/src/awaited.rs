//! Stores that are awaited: object stores, and whatever else is a network away.
//!
//! Such a store renames nothing and writes nowhere in the midst of a file. It takes a new version in parts, in any
//! order, and shows it in one conditional step. [`Blocking`](crate::blocking::Blocking) makes a [`Store`](crate::Store)
//! of it.

use std::ops::Range;

use deltic_tree::{Meta, RelPath};

use crate::{Commit, Going, Keep, Listing, Removed, StoreError, Version};

/// The result of a call that is awaited, on any thread.
pub trait Awaited<T>: Future<Output = Result<T, StoreError>> + Send {}

impl<T, F: Future<Output = Result<T, StoreError>> + Send> Awaited<T> for F {}

/// A tree that is read and changed by awaited calls. Contracts and errors are those of the methods of the same name of
/// [`Tree`](crate::Tree) and [`Store`](crate::Store).
pub trait AsyncStore: Send + Sync + 'static {
    /// A version of a file of this store.
    type Snapshot: AsyncSnapshot;
    /// A new version of a file of this store, in the making.
    type Upload: Upload<Snapshot = Self::Snapshot>;

    /// Lists the entries of `dir`.
    fn list(&self, dir: &RelPath) -> impl Awaited<Listing>;

    /// Holds the present version of the file at `path`.
    fn open(&self, path: &RelPath) -> impl Awaited<Self::Snapshot>;

    /// Looks at `path`; nothing where nothing is there.
    fn look(&self, path: &RelPath) -> impl Awaited<Option<Meta>>;

    /// Begins a new version of `len` bytes for `path`.
    fn create(&self, path: &RelPath, len: u64) -> impl Awaited<Self::Upload>;

    /// Makes sure that `path` is a directory.
    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> impl Awaited<()>;

    /// Gives the entry at `path` what `keep` names of `meta`.
    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> impl Awaited<()>;

    /// Removes `path` and all below it, or some of that.
    fn remove(&self, path: &RelPath, going: Going) -> impl Awaited<Removed>;
}

/// One version of a file, which is read by awaited spans.
pub trait AsyncSnapshot: Send + Sync + 'static {
    /// The file when it was opened.
    fn meta(&self) -> &Meta;

    /// Reads the bytes of `span`; fewer only at the end of the file.
    fn read(&self, span: Range<u64>) -> impl Awaited<Vec<u8>>;

    /// Fails with [`StoreError::Changed`] where the file is not what was opened any more.
    fn check_unchanged(&self) -> impl Awaited<()>;

    /// The version, where it can be relied on.
    fn identity(&self) -> Option<Version> {
        None
    }
}

/// A new version of a file, invisible until [`Upload::finish`]. Dropped before that, it leaves nothing.
pub trait Upload: Send + Sync + 'static {
    /// The version that it may take the place of.
    type Snapshot;

    /// Length of a part. All begin at multiples of it, and all but the last are as long.
    fn part_bytes(&self) -> usize;

    /// Puts the part that begins at `start`. Parts come in any order, each once.
    fn put(&self, start: u64, bytes: Vec<u8>) -> impl Awaited<()>;

    /// Makes all parts the file at its path, in one step.
    ///
    /// Fails with [`StoreError::Conflict`] where the path does not hold what `commit` says it replaces.
    fn finish(self, commit: Commit<'_, Self::Snapshot>) -> impl Awaited<Option<Version>>;
}
