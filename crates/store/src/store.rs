//! Trees that can be changed.

use deltic_tree::{EntryType, Meta, Name, RelPath};

use crate::{
    Commit, Keep, Listing, NamePair, OneName, Posix, Rebuild, Replaces, Respell, Resumed,
    StoreError, Version,
};

/// A tree that can be changed, as used by a receiver.
///
/// Calls that put an entry in place do so even if some attributes cannot be set. They then return
/// [`StoreError::AttributesNotSet`].
pub trait Store: Posix {
    /// An unfinished new version of a file of this store.
    type Rebuild: Rebuild<Snapshot = Self::Snapshot>;

    /// Returns the metadata of the entry at `path`, `None` if there is no entry. Does not follow symlinks.
    ///
    /// # Errors
    /// If the entry cannot be examined. A missing parent directory is `None`, not an error.
    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError>;

    /// Calls [`Store::look`] for each of `paths`. Cheaper if paths of one directory are adjacent.
    fn look_all(&self, paths: &[RelPath]) -> Vec<Result<Option<Meta>, StoreError>> {
        paths.iter().map(|path| self.look(path)).collect()
    }

    /// Starts a new version of `len` bytes for `path`. The parent directory must exist.
    ///
    /// # Errors
    /// If no file can be staged.
    fn create(&self, path: &RelPath, len: u64) -> Result<Self::Rebuild, StoreError>;

    /// Starts a new version with `data` bytes of data. No space is reserved for its holes.
    ///
    /// # Errors
    /// As [`Store::create`].
    fn create_sparse(
        &self,
        path: &RelPath,
        len: u64,
        data: u64,
    ) -> Result<Self::Rebuild, StoreError> {
        let _ = data;
        self.create(path, len)
    }

    /// Puts complete new versions in place, each as [`Store::create`], a write and a commit would. Cheaper if files
    /// of one directory are adjacent. A failed file need not leave a leftover.
    ///
    /// # Errors
    /// One result for each file, in order, with the errors of `create`, `write` and `commit`.
    fn replace_all(
        &self,
        files: &[Whole<'_>],
        keep: Keep,
    ) -> Vec<Result<Option<Version>, StoreError>> {
        files.iter().map(|file| self.replace(file, keep)).collect()
    }

    /// Puts one complete new version in place, as [`Store::create`], a write and a commit do.
    ///
    /// # Errors
    /// The errors of `create`, `write` and `commit`.
    fn replace(&self, file: &Whole<'_>, keep: Keep) -> Result<Option<Version>, StoreError> {
        let rebuild = self.create(file.path, file.bytes.len() as u64)?;
        rebuild.write(0, file.bytes)?;
        rebuild.commit(file.commit(keep))
    }

    /// Returns the leftovers of unfinished rebuilds of `path`, newest first. Leftovers are sources of bytes; their
    /// content is not verified.
    ///
    /// While a snapshot of this list lives, no other process takes or sweeps that leftover. A commit of `path` removes
    /// all leftovers.
    ///
    /// # Errors
    /// If the staging directory exists and cannot be read.
    fn leftovers(&self, path: &RelPath) -> Result<Vec<Self::Snapshot>, StoreError> {
        let _ = path;
        Ok(Vec::new())
    }

    /// Resumes the newest unfinished rebuild of `path` that is `len` bytes long and has notes. A staged file that may
    /// have changed since its last note is skipped: another program wrote to the file, or the machine was rebooted.
    ///
    /// # Errors
    /// If the staging directory exists and cannot be read.
    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self::Rebuild>>, StoreError> {
        let _ = (path, len);
        Ok(None)
    }

    /// Ensures that `path` is a directory whose owner may list, enter and change it until [`Store::set_meta`].
    ///
    /// The parent directory must exist. `will` is the metadata that `path` will get, as far as it is known.
    /// Afterwards:
    ///
    /// - Any other entry that was at `path` is replaced.
    /// - A new directory is accessible to its owner only. If no modes are kept, the new directory has its final mode at
    ///   once. `set_meta` gives it its final mode.
    /// - An old directory whose mode denied access to its owner is opened to the owner; `set_meta` restores the old
    ///   mode. The directory grants no user a permission that `will` does not grant.
    /// - Owner and group are those of `will`, if the directory existed or no modes are kept. Entries that are created
    ///   in it get the group that they would get in the finished directory.
    /// - Extended attributes and ACLs are those of `will`: they need not be set again.
    ///
    /// # Errors
    /// If the directory cannot be created; [`StoreError::AttributesNotSet`] if the directory exists, but lacks attributes or
    /// ACLs.
    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError>;

    /// Sets the attributes of the entry at `path` that `keep` names to the values in `meta`. Owner, group and access
    /// time are set if `meta` has them. Mode and ACL of a symlink are not set.
    ///
    /// A directory that this store created gets a mode in any case: without [`Keep::modes`] that of `meta` less the
    /// umask.
    ///
    /// # Errors
    /// If there is no such entry; [`StoreError::AttributesNotSet`] with the attributes that could not be set, after all others.
    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError>;

    /// Lists the entries of `dir` except the names for which `keep` is true, which are not examined. Of a large
    /// directory, returns the first part; [`Tree::list_some`](crate::Tree::list_some) returns the rest.
    ///
    /// # Errors
    /// As [`Tree::list`](crate::Tree::list).
    fn list_but(&self, dir: &RelPath, keep: &dyn Fn(&Name) -> bool) -> Result<Listing, StoreError> {
        let mut listing = self.list(dir)?;
        listing.retain(|entry| !keep(&entry.name));
        Ok(listing)
    }

    /// Renames entries of `dir` to the listed spelling, on file systems where several spellings find one entry. A dry
    /// run renames nothing.
    ///
    /// Returns the former names of these entries. The caller must not remove these names: each finds the entry of a
    /// listed name, and some file systems cannot rename the entry.
    ///
    /// # Errors
    /// If `dir` cannot be listed, or a listed name is found there and no candidate for its entry is known.
    fn respell(&self, dir: &RelPath, respell: &Respell<'_>) -> Result<Vec<Name>, StoreError> {
        let _ = (dir, respell);
        Ok(Vec::new())
    }

    /// Checks whether the file system treats two names of `dir` as the same name.
    ///
    /// # Errors
    /// If the file system cannot be examined.
    fn one_name(&self, dir: &RelPath, pair: &NamePair<'_>) -> Result<OneName, StoreError> {
        let _ = (dir, pair);
        Ok(OneName::No)
    }

    /// Removes `path` and all entries below it that the filter admits, or some of these. Follows no symlink. There
    /// may be millions of names: while a result [goes on](RemoveResult::goes_on), the caller repeats the call for the
    /// next names.
    ///
    /// Names that the present rules files protect stay. Names that were protected when the directories were listed may
    /// stay as well. Perishable rules apply to `path` itself only.
    ///
    /// # Errors
    /// The reason why `path` itself cannot be removed. Each name below that cannot be removed stays for its own
    /// reason, and so does `path`; all others are removed.
    fn remove(&self, path: &RelPath, going: RemoveOptions) -> Result<RemoveResult, StoreError>;

    /// Counts the names that [`Store::remove`] would remove in all, if called now. With `gives_way`, `path` itself
    /// always counts.
    ///
    /// # Errors
    /// As [`Store::remove`].
    fn would_remove(&self, path: &RelPath, gives_way: bool) -> Result<u64, StoreError> {
        let mut names = 0;
        loop {
            let some = self.remove(
                path,
                RemoveOptions { gives_way, dry_run: true, ..RemoveOptions::default() },
            )?;
            names += some.gone.len() as u64;
            if !some.goes_on {
                let goes = some.gone.last().is_some_and(|(last, _)| last == path);
                return Ok(names + u64::from(gives_way && !goes));
            }
        }
    }

    /// Calls [`Store::remove`] for each of `names`. Cheaper if names of one directory are adjacent.
    ///
    /// # Errors
    /// One result for each name, in order, with the errors of [`Store::remove`].
    fn remove_all(
        &self,
        names: &[(RelPath, RemoveOptions)],
    ) -> Vec<Result<RemoveResult, StoreError>> {
        names.iter().map(|(path, going)| self.remove(path, *going)).collect()
    }

    /// Makes all changes durable. A run calls this before it reports success.
    ///
    /// # Errors
    /// The first directory that could not be flushed.
    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes every staged file that no living process holds, even if a next run could resume it. A *complete* run
    /// calls this at its end. Returns the number of removed files.
    ///
    /// # Errors
    /// The first file that could not be removed.
    fn sweep(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// Options of [`Store::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveOptions {
    /// True if another entry will replace `path`. This is no deletion, so filter rules for the name itself do not
    /// apply.
    pub gives_way: bool,
    /// Reports the names that would be removed, and removes nothing.
    pub dry_run: bool,
    /// Most names removed by one call. With `gives_way`, `path` itself does not count.
    pub most: u64,
}

impl Default for RemoveOptions {
    fn default() -> Self {
        Self { gives_way: false, dry_run: false, most: u64::MAX }
    }
}

/// Result of a call of [`Store::remove`].
#[derive(Debug, Default)]
pub struct RemoveResult {
    /// Removed names and their types, some hundreds at most. A directory comes after all its entries.
    pub gone: Vec<(RelPath, EntryType)>,
    /// Reasons why other names stayed. [`StoreError::Protected`], [`StoreError::NewEntriesAppeared`] and
    /// [`StoreError::HoldsBackups`] are reported once, at the end, for `path` itself.
    pub stayed: Vec<StoreError>,
    /// True if more names are to be removed by further calls.
    pub goes_on: bool,
}

/// A complete new version of a file, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Path of the file.
    pub path: &'a RelPath,
    /// The whole content of the file.
    pub bytes: &'a [u8],
    /// The sender's metadata of the file.
    pub meta: &'a Meta,
    /// Metadata of the present entry at `path`, as seen by [`Store::look`].
    pub seen: Option<&'a Meta>,
}

impl<'a> Whole<'a> {
    /// Returns the commit that puts the file in place.
    #[must_use]
    pub(crate) fn commit<S>(&self, keep: Keep) -> Commit<'a, S> {
        Commit { meta: self.meta, keep, replaces: Replaces::seen(self.seen) }
    }
}

/// Level of protection against a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Flushes a file before the rename into place, and directories at [`Store::flush`].
    #[default]
    Run,
    /// Flushes neither files nor directories.
    None,
}
