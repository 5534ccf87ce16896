//! Where bytes live: trees that are read, trees that are changed, and files rebuilt out of sight.
//!
//! The law of this crate is *old is safe*: nothing changes at a destination before [`Rebuild::commit`], and a commit
//! is one rename. Calls block and are made from worker threads.

pub mod conformance;
mod error;
pub mod faulty;
pub mod filter;
pub mod memory;
mod version;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deltic_tree::meta::EXECUTE_BITS;
use deltic_tree::names::SortedNames;
use deltic_tree::{Entry, EntryType, Kind, Meta, Name, RelPath};

pub use error::{Cause, StoreError, Unset, reason};
pub use filter::Filter;
pub use version::{Version, VersionToken};

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
    /// [`Listing::rest`]; then, for those, the next ones. So what is held of a huge directory are names, and few entries.
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

    /// The version of the regular file at each of `paths`, without opening it; `None` where that cannot be relied on, as
    /// [`Snapshot::identity`] has it. Cheaper where those of one directory follow each other.
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

    /// Removes the file or link at `path`, which has arrived elsewhere, if it `is` still what was listed.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where it is not; then it stays.
    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError>;
}

/// How [`Store::remove`] is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Going {
    /// Something else is to be in its place: it is replaced and not deleted, and what the filter says of the name itself does
    /// not count.
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
    /// Why others stayed. [`StoreError::Protected`], [`StoreError::Refilled`] and [`StoreError::KeepsOld`] are told once, at the
    /// end, of the name itself.
    pub stayed: Vec<StoreError>,
    /// Whether there is more to be removed.
    pub goes_on: bool,
}

/// What a directory holds, and what of it could not be seen.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries, sorted by the bytes of their names.
    pub entries: Vec<Entry>,
    /// For each entry, where that was asked for and can be said: the version that was listed, if it is a file of which one
    /// can be relied on.
    pub versions: Vec<Option<Version>>,
    /// One error for each entry that is missing above; nothing may be deleted on the word of a listing with errors.
    pub errors: Vec<StoreError>,
    /// What is not as it was asked for, though nothing is missing above.
    pub warnings: Vec<String>,
    /// Whether the directory may hold other names, which were not asked for.
    pub partial: bool,
    /// Whether one of the directories that were named as this one, with all below, has nothing in it: most likely what belongs
    /// there is not mounted.
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

/// One version of a file, held open.
pub trait Snapshot: Send + Sync + 'static {
    /// What the file was when it was opened.
    fn meta(&self) -> &Meta;

    /// Fills `buf` with the bytes from `start`; returns less than its length only at the end of the file.
    ///
    /// # Errors
    /// Where the bytes cannot be read; [`StoreError::Short`] where they end before the length that [`Self::meta`] says,
    /// as of files that a kernel makes up when they are read.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError>;

    /// Checks that what was read so far is of one version.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the file is not what was opened any more.
    fn check_unchanged(&self) -> Result<(), StoreError>;

    /// The same, after as long as a change may take to show that was under way when it was opened: what was read until then is
    /// of one version.
    ///
    /// # Errors
    /// As [`Snapshot::check_unchanged`].
    fn check_settled(&self) -> Result<(), StoreError> {
        self.check_unchanged()
    }

    /// Length in bytes that the file has by now, as far as it can be written to where it is.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn len_now(&self) -> Result<u64, StoreError> {
        Ok(self.meta().len)
    }

    /// Whether it is what was opened but for names that it got since, which hide whether it changed besides.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn only_got_names(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Whether the file has other names.
    fn has_other_names(&self) -> bool {
        false
    }

    /// Whether this is that version, which can be relied on.
    fn is(&self, version: Version) -> bool {
        let _ = version;
        false
    }

    /// What no other version has, of this file or of another one, now or later; `None` where that cannot be relied on.
    fn identity(&self) -> Option<Version> {
        None
    }
}

/// A tree that can be changed: what a receiver holds.
///
/// Whatever puts an entry in place does so also where some of its attributes cannot be set, and ends with [`StoreError::Unset`]
/// then.
pub trait Store: Tree {
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

    /// Takes a symlink at `path` for the directory that it leads to, from now on, and says what that directory is; nothing
    /// where the link leads to none, or the store keeps no links. Until then no link is followed.
    ///
    /// # Errors
    /// Where that cannot be said, or the link leads out of the store.
    fn keep_dirlink(&self, _path: &RelPath) -> Result<Option<Meta>, StoreError> {
        Ok(None)
    }

    /// Starts a new version of `len` bytes for `path`; its directory exists.
    ///
    /// # Errors
    /// Where nothing can be staged.
    fn create(&self, path: &RelPath, len: u64) -> Result<Self::Rebuild, StoreError>;

    /// Puts whole new versions in place, each as [`Store::create`], a write and a commit do, but for a leftover where it
    /// fails: cheaper where those of one directory follow each other.
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

    /// What unfinished rebuilds of `path` left behind, newest first: sources of bytes, of no proven content.
    ///
    /// While a snapshot of this list lives, no other process takes or sweeps it. A commit of `path` removes them all.
    ///
    /// # Errors
    /// Where the staging directory exists and cannot be read.
    fn leftovers(&self, path: &RelPath) -> Result<Vec<Self::Snapshot>, StoreError>;

    /// Goes on with the newest unfinished rebuild of `path` that is `len` bytes long and of which something was noted. Not
    /// one whose staged file may not hold any more what it held when that was noted: changed by somebody since, or written
    /// before the machine started anew.
    ///
    /// # Errors
    /// Where the staging directory exists and cannot be read.
    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self::Rebuild>>, StoreError>;

    /// Makes sure that `path` is a directory in which its owner may work until [`Store::set_meta`], which gives a new one
    /// its mode and an old one that was closed to its owner the one it had; replaces anything else. Of what it `will` get, as
    /// far as that is known, it has its owner and group at once, where it was there or no modes are kept, and what is made in
    /// it the group that it would get in such a directory. An old one lets nobody do any more what it will not; a new one
    /// whose mode is not kept has it at once, and its owner may work in it. Either has its extended attributes and ACLs at
    /// once, so that these need not be set again in the end.
    ///
    /// # Errors
    /// Where it cannot be made; [`StoreError::Unset`] where it was, and lacks attributes or ACLs.
    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError>;

    /// Puts a symlink to `target` at `path`, in one step, in place of anything but a full directory.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] for a full directory.
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError>;

    /// Puts the FIFO, socket or device that `meta` describes at `path`, in one step, in place of anything but a full
    /// directory.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] for a full directory, [`StoreError::Denied`] where we may not make devices.
    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError>;

    /// Makes `path` another name of what the tree of `from` has at its path and that `is`, which is no directory, in one
    /// step, in place of what `seen` says. A store without links makes an equal entry.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where `from` has something else there by now, [`StoreError::Conflict`] where this store has;
    /// and where the system cannot link it.
    fn link(
        &self,
        path: &RelPath,
        from: (&Self, &RelPath),
        is_and_seen: (&Meta, Option<&Meta>),
    ) -> Result<(), StoreError>;

    /// Gives the entry at `path` what `keep` names of `meta`, and the owner, the group and the time of the last read that it
    /// has; a symlink takes no mode and no ACL.
    ///
    /// A directory that this store made gets a mode in any case: without [`Keep::modes`] that of `meta` less the umask.
    ///
    /// # Errors
    /// Where there is no such entry; [`StoreError::Unset`] of what could not be set of it, when all else is.
    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError>;

    /// The entries of `dir` as [`Tree::list_some`] has them first, but for names that `keep` admits: nothing is looked at that
    /// is one of these. What is left is for [`Tree::list_some`].
    ///
    /// # Errors
    /// As [`Tree::list`].
    fn list_but(&self, dir: &RelPath, keep: &dyn Fn(&Name) -> bool) -> Result<Listing, StoreError> {
        let mut listing = self.list(dir)?;
        listing.retain(|entry| !keep(&entry.name));
        Ok(listing)
    }

    /// Removes `path` and all below it that the filter admits, or some of that; follows no symlink. There may be millions of
    /// names: while a call [goes on](Removed::goes_on), the same call takes the next of them.
    ///
    /// What the files of rules of directories protect by now stays, and perhaps also what they protected when they were
    /// listed. Perishable rules count for `path` itself only.
    ///
    /// # Errors
    /// What kept the name itself. Names below it stay each for its own reason, and it with them: the others are removed all the
    /// same.
    fn remove(&self, path: &RelPath, going: Going) -> Result<Removed, StoreError>;

    /// How many names [`Store::remove`] would remove in all, if it were called now; what gives way counts itself in any case.
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

    /// Has `path` wait with a new version that waits at `leader` for [`land`](Self::land): it becomes another name of that, in
    /// place of what is `seen`. Whether one waits there; if not, nothing is done.
    ///
    /// # Errors
    /// Where the system cannot link it.
    fn link_waiting(
        &self,
        path: &RelPath,
        leader: &RelPath,
        seen: Option<&Meta>,
    ) -> Result<bool, StoreError> {
        let _ = (path, leader, seen);
        Ok(false)
    }

    /// Gives every new version its name whose commit waits for this, in the order of their commits; what failed. One is let go
    /// where by now something else is that `is_same`: that is asked of the new version and of what is there. A store that does not
    /// let commits wait has nothing to do.
    fn land(&self, is_same: &dyn Fn(&Meta, &Meta) -> bool) -> Vec<(RelPath, StoreError)> {
        let _ = is_same;
        Vec::new()
    }

    /// Makes every change so far durable: what a run does before it says that it succeeded.
    ///
    /// # Errors
    /// The first directory that could not be flushed.
    fn flush(&self) -> Result<(), StoreError>;

    /// Removes every staged file that no living process holds, also those that a next run could resume from: what a
    /// *complete* run does at its end. Returns how many.
    ///
    /// # Errors
    /// The first of those that stayed.
    fn sweep(&self) -> Result<u64, StoreError>;
}

/// A new version of a file, invisible until [`Rebuild::commit`].
///
/// Spans arrive in any order and from any thread. Dropped without commit, what was written stays behind as a
/// leftover for the next attempt; what was merely copied, or spoiled by a failed write, goes.
pub trait Rebuild: Send + Sync + 'static {
    /// A version to copy from.
    type Snapshot: Snapshot;

    /// Copies the bytes `old` of `from` to `new_start`.
    ///
    /// # Errors
    /// [`StoreError::Changed`] where `from` is not the version any more that it was when opened.
    fn copy(
        &self,
        from: &Self::Snapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError>;

    /// Writes `bytes` at `new_start`.
    ///
    /// # Errors
    /// [`StoreError::Full`] among others; the rebuild is spoiled then, but what [wants room](StoreError::wants_room) may be
    /// written again.
    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// The same of bytes that were read from old versions, all of them or `content` says what else. A caller that puts
    /// many short spans together writes them at once, and where whole pages begin and end.
    ///
    /// # Errors
    /// As [`Rebuild::write`].
    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError>;

    /// Whether [`Rebuild::copy`] may share the blocks of this span, or has nothing to do for it. Where it does not, reading
    /// and writing is no slower.
    fn may_share(&self, from: &Self::Snapshot, old: &Range<u64>, new_start: u64) -> bool;

    /// Notes something of what is written by now, for whoever resumes this rebuild. It survives the process, not the
    /// machine; nobody but the owner can read it, and it goes with the staged file.
    ///
    /// # Errors
    /// Where it cannot be written: then nothing can be noted of this rebuild any more.
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Whether these bytes are staged. Of a file that changes where it is, what lies where it lay is not: a note that it is
    /// in place would not hold for whoever resumes.
    fn has_staged(&self, span: &Range<u64>) -> bool;

    /// Takes it that these bytes are staged: of a rebuild that is resumed, which cannot tell them from its holes.
    fn resume_with(&self, span: Range<u64>);

    /// Reads back what is staged, from `start` on; fewer bytes at its end.
    ///
    /// # Errors
    /// Where the staged file cannot be read.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError>;

    /// Makes this the file at its path, in one step; at [`Store::land`] where commits wait for that. A file that changes
    /// where it is takes more steps than one. Tells which version it is now, if it was put in place as a whole, was flushed, and
    /// that can be relied on, as [`Snapshot::identity`] has it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where the path does not hold what `commit` says it replaces; [`StoreError::Unset`] where it
    /// does now, but for attributes that could not be set.
    fn commit(self, commit: Commit<'_, Self::Snapshot>) -> Result<Option<Version>, StoreError>;

    /// Gives up, and leaves nothing behind.
    ///
    /// # Errors
    /// Where the staged file cannot be removed.
    fn discard(self) -> Result<(), StoreError>;
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
    pub fn commit<S>(&self, keep: Keep) -> Commit<'a, S> {
        let replaces = self.seen.map_or(Replaces::Nothing, Replaces::Seen);
        Commit { meta: self.meta, keep, replaces }
    }
}

/// What bytes are that were put together of old versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing else: another attempt loses nothing without them.
    Old,
    /// There are bytes between them that were sent.
    OldAndSent,
}

/// A rebuild that goes on where a killed run was interrupted.
#[derive(Debug)]
pub struct Resumed<R> {
    /// As if it had never been dropped.
    pub rebuild: R,
    /// What [`Rebuild::note`] was told, in order; the last of it may be missing.
    pub notes: Vec<Vec<u8>>,
}

/// What a commit gives the file besides its bytes, and what it takes the place of.
#[derive(Debug)]
pub struct Commit<'a, S> {
    /// The sender's metadata of the new version.
    pub meta: &'a Meta,
    /// Which of it the file gets.
    pub keep: Keep,
    /// What is at the path until then.
    pub replaces: Replaces<'a, S>,
}

/// What a commit expects to find at its path; anything else there is a [`StoreError::Conflict`].
#[derive(Debug)]
pub enum Replaces<'a, S> {
    /// Nothing is there.
    Nothing,
    /// Exactly this version, which the new one was derived from.
    Version(&'a S),
    /// What [`Store::look`] saw: any kind of entry; of a directory only that it is one, and it must be empty by now.
    Seen(&'a Meta),
}

/// Which metadata is carried over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Permission bits; without it a new file gets the sender's less the umask, an old one stays as it is.
    pub modes: bool,
    /// Without [`Self::modes`]: whether files may be executed.
    pub executability: bool,
    /// Modification times.
    pub times: bool,
    /// Those of directories, and when they were read, stay out.
    pub omit_dir_times: bool,
    /// Those of symlinks, and when they were read, stay out.
    pub omit_link_times: bool,
    /// ACLs: what the sender's entry does not have, ours loses.
    pub acls: bool,
    /// Extended attributes, as far as this store looks at them: what the sender's entry does not have, ours loses.
    pub xattrs: bool,
}

impl Keep {
    /// Whether times of such entries are set.
    #[must_use]
    pub fn times_of(self, kind: &Kind) -> bool {
        match kind {
            Kind::Dir => !self.omit_dir_times,
            Kind::Symlink(_) => !self.omit_link_times,
            _ => true,
        }
    }

    /// The mode of a new entry, or of one whose old version had `old_mode`.
    #[must_use]
    pub fn mode_of_new(self, meta: &Meta, old_mode: Option<u32>, umask: u32) -> u32 {
        match old_mode {
            _ if self.modes => meta.mode & 0o7777,
            // What its old content was trusted with its new one is not.
            Some(old) if meta.is_file() => self.executable(meta, old) & 0o777,
            Some(old) => old & 0o7777,
            None => meta.mode & !umask & 0o777,
        }
    }

    /// `old`, made executable or not as the sender's is.
    #[must_use]
    pub fn executable(self, meta: &Meta, old: u32) -> u32 {
        match (meta.mode & EXECUTE_BITS != 0, old & EXECUTE_BITS != 0) {
            _ if !self.executability || !meta.is_file() => old,
            (false, _) => old & !EXECUTE_BITS,
            (true, true) => old,
            // Whoever may read it.
            (true, false) => old | (old & 0o444) >> 2,
        }
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

/// The name of staging directories, at any depth: never listed, never a target.
pub const STAGING_NAME: &[u8] = b".deltic";

/// Whether a directory of this name is one: a user has one of his own, `.deltic-UID`, where the first is another user's.
#[must_use]
pub fn is_staging_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(STAGING_NAME) else { return false };
    let number = rest.strip_prefix(b"-");
    let is_user = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    rest.is_empty() || number.is_some_and(is_user)
}

/// Refuses paths into staging directories.
///
/// # Errors
/// [`StoreError::BadName`].
pub fn check_path(action: &'static str, path: &RelPath) -> Result<(), StoreError> {
    if path.components().any(is_staging_name) {
        return Err(StoreError::BadName { action, path: path.clone() });
    }
    Ok(())
}

/// What `mutex` protects. Each lock here covers one simple change, so a panic elsewhere leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
