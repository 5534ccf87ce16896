//! New versions of files, out of sight until they are whole.

use std::ops::Range;

use deltic_tree::meta::EXECUTE_BITS;
use deltic_tree::{Kind, Meta, RelPath};

use crate::{Snapshot, StoreError, Version};

/// A new version of a file, invisible until [`Rebuild::commit`].
///
/// Spans arrive in any order and from any thread. Dropped without commit, what was written stays behind as a
/// leftover for the next attempt; what was merely copied, or spoiled by a failed write, goes.
pub trait Rebuild: Resumable + Send + Sync + 'static {
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
    /// [`StoreError::Full`] among others; the rebuild is spoiled then, but what [wants room](StoreError::wants_room)
    /// may be written again.
    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// The same of bytes that were read from old versions, all of them or `content` says what else. A caller that puts
    /// many short spans together writes them at once, and where whole pages begin and end.
    ///
    /// # Errors
    /// As [`Rebuild::write`].
    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        let _ = content;
        self.write(new_start, bytes)
    }

    /// Makes zeros of these bytes: a hole, if the store has holes, which takes no time however long the hole is. A
    /// store without holes writes zeros.
    ///
    /// # Errors
    /// As [`Rebuild::write`].
    fn clear(&self, span: Range<u64>) -> Result<(), StoreError> {
        let zeros = vec![0; ZEROS_BYTES.min(span.end.saturating_sub(span.start)) as usize];
        let mut at = span.start;
        while at < span.end {
            let len = (span.end - at).min(ZEROS_BYTES);
            self.write_old(at, &zeros[..len as usize], Content::Old)?;
            at += len;
        }
        Ok(())
    }

    /// True if [`Rebuild::copy`] may share the blocks of this span, or has nothing to do for it. Where it does not,
    /// reading and writing is no slower.
    fn may_share(&self, from: &Self::Snapshot, old: &Range<u64>, new_start: u64) -> bool {
        let _ = (from, old, new_start);
        false
    }

    /// Makes this the file at its path, in one step; at [`Posix::land`](crate::Posix::land) where commits wait for
    /// that. A file that changes where it is takes more steps than one. Tells which version it is now, if it was put in
    /// place as a whole, was flushed, and that can be relied on, as [`Snapshot::identity`] has it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where the path does not hold what `commit` says it replaces; [`StoreError::Unset`]
    /// where it does now, but for attributes that could not be set.
    fn commit(self, commit: Commit<'_, Self::Snapshot>) -> Result<Option<Version>, StoreError>;

    /// Gives up, and leaves nothing behind.
    ///
    /// # Errors
    /// Where the staged file cannot be removed.
    fn discard(self) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        drop(self);
        Ok(())
    }
}

/// Zeros that are written at a time.
const ZEROS_BYTES: u64 = 256 << 10;

/// What of a rebuild outlives the run that began it. A store that keeps nothing of it implements no method.
pub trait Resumable {
    /// Notes something of what is written by now, for whoever resumes this rebuild. It survives the process, not the
    /// machine; nobody but the owner can read it, and it goes with the staged file.
    ///
    /// # Errors
    /// Where it cannot be written: then nothing can be noted of this rebuild any more.
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let _ = bytes;
        Err(StoreError::Unsupported { what: "notes of a transfer", path: RelPath::root() })
    }

    /// Says that these bytes are staged. Of a file that changes in place, the bytes that stay where they are are not: a
    /// note of them would not hold for whoever resumes.
    fn has_staged(&self, span: &Range<u64>) -> bool {
        let _ = span;
        true
    }

    /// Takes it that these bytes are staged: a rebuild that is resumed cannot tell them from its holes.
    fn resume_with(&self, span: Range<u64>) {
        let _ = span;
    }

    /// Reads back what is staged, from `start` on; fewer bytes at its end.
    ///
    /// # Errors
    /// Where the staged file cannot be read.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let _ = (start, buf);
        Err(StoreError::Unsupported { what: "unfinished files", path: RelPath::root() })
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

impl<'a, S> Commit<'a, S> {
    /// The same of a store that this one is made of, where `inner` is its form of a version.
    pub(crate) fn map<T>(self, inner: impl FnOnce(&'a S) -> &'a T) -> Commit<'a, T> {
        let Self { meta, keep, replaces } = self;
        let replaces = match replaces {
            Replaces::Nothing => Replaces::Nothing,
            Replaces::Version(old) => Replaces::Version(inner(old)),
            Replaces::Seen(meta) => Replaces::Seen(meta),
        };
        Commit { meta, keep, replaces }
    }
}

/// What a commit expects to find at its path; anything else there is a [`StoreError::Conflict`].
#[derive(Debug)]
pub enum Replaces<'a, S> {
    /// Nothing is there.
    Nothing,
    /// Exactly this version, which the new one was derived from.
    Version(&'a S),
    /// What [`Store::look`](crate::Store::look) saw: any kind of entry; of a directory only that it is one, and it must
    /// be empty by now.
    Seen(&'a Meta),
}

/// A rebuild that goes on where a killed run was interrupted.
#[derive(Debug)]
pub struct Resumed<R> {
    /// As if it had never been dropped.
    pub rebuild: R,
    /// What [`Resumable::note`] was told, in order; the last of it may be missing.
    pub notes: Vec<Vec<u8>>,
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
    /// True if times of such entries are set.
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
