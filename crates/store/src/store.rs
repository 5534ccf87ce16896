//! Trees that are changed.

use deltic_tree::{EntryType, Meta, Name, RelPath};

use crate::{
    Commit, Keep, Listing, NamePair, OneName, Posix, Rebuild, Replaces, Respell, Resumed,
    StoreError, Version,
};

/// A tree that can be changed: what a receiver holds.
///
/// Whatever puts an entry in place does so also where some of its attributes cannot be set, and ends with
/// [`StoreError::Unset`] then.
pub trait Store: Posix {
    /// A new version of a file of this store, in the making.
    type Rebuild: Rebuild<Snapshot = Self::Snapshot>;

    /// What is at `path` itself (symlinks are not followed), if anything.
    ///
    /// # Errors
    /// Where that cannot be said: a missing parent directory is `None`, not an error.
    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError>;

    /// [`Store::look`] at each of `paths`; cheaper where those of one directory follow each other.
    fn look_all(&self, paths: &[RelPath]) -> Vec<Result<Option<Meta>, StoreError>> {
        paths.iter().map(|path| self.look(path)).collect()
    }

    /// Starts a new version of `len` bytes for `path`; its directory exists.
    ///
    /// # Errors
    /// Where nothing can be staged.
    fn create(&self, path: &RelPath, len: u64) -> Result<Self::Rebuild, StoreError>;

    /// Creates a version of which only `data` bytes are data: no room is reserved for its holes.
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

    /// Puts whole new versions in place, each as [`Store::create`], a write and a commit do, but for a leftover where
    /// it fails: cheaper where those of one directory follow each other.
    ///
    /// # Errors
    /// Of each, in order, those of the three.
    fn replace_all(
        &self,
        files: &[Whole<'_>],
        keep: Keep,
    ) -> Vec<Result<Option<Version>, StoreError>> {
        files.iter().map(|file| self.replace(file, keep)).collect()
    }

    /// The same with one.
    ///
    /// # Errors
    /// Those of the three.
    fn replace(&self, file: &Whole<'_>, keep: Keep) -> Result<Option<Version>, StoreError> {
        let rebuild = self.create(file.path, file.bytes.len() as u64)?;
        rebuild.write(0, file.bytes)?;
        rebuild.commit(file.commit(keep))
    }

    /// Finds what unfinished rebuilds of `path` left behind, newest first: sources of bytes, of no proven content.
    ///
    /// While a snapshot of this list lives, no other process takes or sweeps it. A commit of `path` removes them all.
    ///
    /// # Errors
    /// Where the staging directory exists and cannot be read.
    fn leftovers(&self, path: &RelPath) -> Result<Vec<Self::Snapshot>, StoreError> {
        let _ = path;
        Ok(Vec::new())
    }

    /// Goes on with the newest unfinished rebuild of `path` that is `len` bytes long and of which something was noted.
    /// A staged file that may have changed since it was noted is passed over: somebody wrote to it, or the machine
    /// started anew.
    ///
    /// # Errors
    /// Where the staging directory exists and cannot be read.
    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self::Rebuild>>, StoreError> {
        let _ = (path, len);
        Ok(None)
    }

    /// Makes sure that `path` is a directory in which its owner may work until [`Store::set_meta`].
    ///
    /// The directory above it is there. `will` is the metadata that `path` will get, as far as it is known. Afterwards:
    ///
    /// - Anything else that was at `path` is replaced.
    /// - A new directory is closed to all but its owner, or has its mode at once, if no modes are kept. `set_meta`
    ///   gives it its final mode.
    /// - An old directory that was closed to its owner is open to it; `set_meta` gives it back the mode that it had.
    ///   It permits nobody anything that `will` does not.
    /// - Owner and group are those of `will`, if the directory was there or no modes are kept. Entries that are made in
    ///   it get the group that they would get in the finished directory.
    /// - Extended attributes and ACLs are those of `will`: they need not be set again.
    ///
    /// # Errors
    /// Where it cannot be made; [`StoreError::Unset`] where it was made, and lacks attributes or ACLs.
    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError>;

    /// Gives the entry at `path` what `keep` names of `meta`, and the owner, the group and the time of the last read
    /// that it has; a symlink takes no mode and no ACL.
    ///
    /// A directory that this store made gets a mode in any case: without [`Keep::modes`] that of `meta` less the umask.
    ///
    /// # Errors
    /// Where there is no such entry; [`StoreError::Unset`] of what could not be set of it, when all else is.
    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError>;

    /// The entries of `dir` as [`Tree::list_some`](crate::Tree::list_some) has them first, but for names that `keep`
    /// admits: nothing is looked at that is one of these. What is left is for
    /// [`Tree::list_some`](crate::Tree::list_some).
    ///
    /// # Errors
    /// As [`Tree::list`](crate::Tree::list).
    fn list_but(&self, dir: &RelPath, keep: &dyn Fn(&Name) -> bool) -> Result<Listing, StoreError> {
        let mut listing = self.list(dir)?;
        listing.retain(|entry| !keep(&entry.name));
        Ok(listing)
    }

    /// Renames entries of `dir` to the listed spelling, on file systems that take several spellings for one name. A
    /// dry run renames nothing.
    ///
    /// Returns the former names of these entries. The caller must not remove these names: each is an entry of a
    /// listed name, and some file systems cannot rename the entry.
    ///
    /// # Errors
    /// Where `dir` cannot be listed, or a listed name is found there and no entry is known that it may be.
    fn respell(&self, dir: &RelPath, respell: &Respell<'_>) -> Result<Vec<Name>, StoreError> {
        let _ = (dir, respell);
        Ok(Vec::new())
    }

    /// Answers if two names of `dir` are one name to the file system.
    ///
    /// # Errors
    /// Where the file system cannot be asked.
    fn one_name(&self, dir: &RelPath, pair: &NamePair<'_>) -> Result<OneName, StoreError> {
        let _ = (dir, pair);
        Ok(OneName::No)
    }

    /// Removes `path` and all below it that the filter admits, or some of that; follows no symlink. There may be
    /// millions of names: while a call [goes on](Removed::goes_on), the same call takes the next of them.
    ///
    /// What the files of rules of directories protect by now stays, and perhaps also what they protected when they were
    /// listed. Perishable rules count for `path` itself only.
    ///
    /// # Errors
    /// What kept the name itself. Names below it stay each for its own reason, and it with them: the others are removed
    /// all the same.
    fn remove(&self, path: &RelPath, going: Going) -> Result<Removed, StoreError>;

    /// How many names [`Store::remove`] would remove in all, if it were called now; what gives way counts itself in any
    /// case.
    ///
    /// # Errors
    /// As for [`Store::remove`].
    fn would_remove(&self, path: &RelPath, gives_way: bool) -> Result<u64, StoreError> {
        let mut names = 0;
        loop {
            let some = self.remove(path, Going { gives_way, dry_run: true, ..Going::default() })?;
            names += some.gone.len() as u64;
            if !some.goes_on {
                let goes = some.gone.last().is_some_and(|(last, _)| last == path);
                return Ok(names + u64::from(gives_way && !goes));
            }
        }
    }

    /// Removes each of these: cheaper where those of one directory follow each other.
    ///
    /// # Errors
    /// Of each, in order, those of [`Store::remove`].
    fn remove_all(&self, names: &[(RelPath, Going)]) -> Vec<Result<Removed, StoreError>> {
        names.iter().map(|(path, going)| self.remove(path, *going)).collect()
    }

    /// Makes every change so far durable: what a run does before it says that it succeeded.
    ///
    /// # Errors
    /// The first directory that could not be flushed.
    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes every staged file that no living process holds, also those that a next run could resume from: what a
    /// *complete* run does at its end. Returns how many.
    ///
    /// # Errors
    /// The first of those that stayed.
    fn sweep(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// How [`Store::remove`] is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Going {
    /// Something else is to be in its place: it is replaced and not deleted, and what the filter says of the name
    /// itself does not count.
    pub gives_way: bool,
    /// What would go is told, and nothing does.
    pub dry_run: bool,
    /// No more names than these go in a call; what gives way is none of them.
    pub most: u64,
}

impl Default for Going {
    fn default() -> Self {
        Self { gives_way: false, dry_run: false, most: u64::MAX }
    }
}

/// What a call of [`Store::remove`] did.
#[derive(Debug, Default)]
pub struct Removed {
    /// Names that went, and what they were: some hundreds at most. A directory comes behind all that was in it.
    pub gone: Vec<(RelPath, EntryType)>,
    /// Why others stayed. [`StoreError::Protected`], [`StoreError::Refilled`] and [`StoreError::KeepsOld`] are told
    /// once, at the end, of the name itself.
    pub stayed: Vec<StoreError>,
    /// True if there is more to be removed.
    pub goes_on: bool,
}

/// A whole new version of a file, at hand.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Where it goes.
    pub path: &'a RelPath,
    /// All of its bytes.
    pub bytes: &'a [u8],
    /// The sender's metadata of it.
    pub meta: &'a Meta,
    /// What [`Store::look`] saw in its place.
    pub seen: Option<&'a Meta>,
}

impl<'a> Whole<'a> {
    /// What puts it in place.
    #[must_use]
    pub(crate) fn commit<S>(&self, keep: Keep) -> Commit<'a, S> {
        let replaces = self.seen.map_or(Replaces::Nothing, Replaces::Seen);
        Commit { meta: self.meta, keep, replaces }
    }
}

/// When bytes and names are safe from a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Files are flushed before they get their name, directories at [`Store::flush`].
    #[default]
    Run,
    /// Nothing is flushed.
    None,
}
