//! New versions of files, which are staged in files that users do not see, until the new versions are complete.

use std::ops::Range;

use deltic_tree::{Kind, Meta, RelPath};

use crate::{Snapshot, StoreError, Version};

/// A new version of a file, invisible until [`Rebuild::commit`].
///
/// Spans arrive in any order and from any thread. If a rebuild is dropped without a commit, its staged file stays as a
/// leftover for the next attempt. The staged file is removed if it has copied bytes only, or a write failed.
pub trait Rebuild: Resumable + Send + Sync + 'static {
    /// A version that bytes can be copied from.
    type Snapshot: Snapshot;

    /// Copies the bytes `old` of `from` to offset `new_start`.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if `from` is no longer the version that was opened.
    fn copy(
        &self,
        from: &Self::Snapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError>;

    /// Writes `bytes` at offset `new_start`.
    ///
    /// # Errors
    /// [`StoreError::Full`] among others. After an error the rebuild must be dropped; only a write that failed for
    /// [want of room](StoreError::wants_room) may be repeated.
    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError>;

    /// Writes bytes that were read from old versions, at offset `new_start`. `content` says whether sent bytes are
    /// among them. A caller that gathers many short spans writes all of them at once, aligned to whole pages.
    ///
    /// # Errors
    /// As [`Rebuild::write`].
    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        let _ = content;
        self.write(new_start, bytes)
    }

    /// Fills `span` with zeros. A store with holes makes a hole, which is quick for any length; other stores write
    /// zeros.
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

    /// True if [`Rebuild::copy`] may share the blocks of this span, or the span is already in place. If false, reading
    /// and writing the bytes is no slower than a copy.
    fn may_share(&self, from: &Self::Snapshot, old: &Range<u64>, new_start: u64) -> bool {
        let _ = (from, old, new_start);
        false
    }

    /// Notes the origin of the bytes `span`, which are written by other calls: the bytes of the replaced version from
    /// `old` on, or bytes that are not from the replaced version (`None`). A store may keep a map of the change with
    /// the file. A store that keeps no maps ignores the call.
    fn note_origin(&self, span: Range<u64>, old: Option<u64>) {
        let _ = (span, old);
    }

    /// Puts the file in place at its path, in one step; or at [`Posix::land`](crate::Posix::land) if commits are
    /// delayed. A file that is changed in place takes more than one step.
    ///
    /// Returns the new version if the file was put in place as a whole and flushed, and versions are reliable (see
    /// [`Snapshot::identity`]).
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the entry at the path differs from the entry that `commit` replaces;
    /// [`StoreError::AttributesNotSet`] if the file is in place, but some attributes could not be set.
    fn commit(self, commit: Commit<'_, Self::Snapshot>) -> Result<Option<Version>, StoreError>;

    /// Removes the staged file and leaves nothing behind.
    ///
    /// # Errors
    /// If the staged file cannot be removed.
    fn discard(self) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        drop(self);
        Ok(())
    }
}

/// Most zeros written by one call, in bytes.
const ZEROS_BYTES: u64 = 256 << 10;

/// State of a rebuild that outlives the run. A store that keeps no such state implements no method.
pub trait Resumable {
    /// Appends a note about the bytes written so far, for a later run that resumes this rebuild. Notes survive the
    /// process, but not a reboot. Only the owner can read them; they are removed with the staged file.
    ///
    /// # Errors
    /// If the note cannot be written. No further note can be added to this rebuild then.
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let _ = bytes;
        Err(StoreError::Unsupported { what: "notes of a transfer", path: RelPath::root() })
    }

    /// True if the bytes of `span` are staged. False for bytes that keep their position in a file that is changed in
    /// place: a note about such bytes would not hold for the run that resumes.
    fn has_staged(&self, span: &Range<u64>) -> bool {
        let _ = span;
        true
    }

    /// Marks `span` as staged in a resumed rebuild, since the store cannot distinguish staged bytes from holes.
    fn mark_staged(&self, span: Range<u64>) {
        let _ = span;
    }

    /// Reads staged bytes from offset `start` on. Returns fewer bytes only at the end.
    ///
    /// # Errors
    /// If the staged file cannot be read.
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let _ = (start, buf);
        Err(StoreError::Unsupported { what: "unfinished files", path: RelPath::root() })
    }
}

/// Origin of bytes that were assembled from old versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Old versions only: another attempt can assemble the bytes again, so losing them costs no traffic.
    Old,
    /// Old versions, with sent bytes in between.
    OldAndSent,
}

/// Arguments of a commit: the metadata of the new version, and the entry that the new version replaces.
#[derive(Debug)]
pub struct Commit<'a, S> {
    /// The sender's metadata of the new version.
    pub meta: &'a Meta,
    /// Attributes of `meta` that the file gets.
    pub keep: Keep,
    /// Entry that is expected at the path.
    pub replaces: Replaces<'a, S>,
}

impl<'a, S> Commit<'a, S> {
    /// Converts the commit for an inner store, where `inner` returns the inner snapshot.
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

/// Entry that a commit expects at its path. Any other entry there is a [`StoreError::Conflict`].
#[derive(Debug)]
pub enum Replaces<'a, S> {
    /// No entry.
    Nothing,
    /// Exactly this version, from which the new version was derived.
    Version(&'a S),
    /// An entry of any type, as seen by [`Store::look`](crate::Store::look). A directory is compared by type only,
    /// and must be empty by the time of the commit.
    Seen(&'a Meta),
}

impl<'a, S> Replaces<'a, S> {
    /// Returns the entry that was seen at the path, if any.
    #[must_use]
    pub fn seen(seen: Option<&'a Meta>) -> Self {
        seen.map_or(Self::Nothing, Self::Seen)
    }
}

/// A rebuild that continues a killed run.
#[derive(Debug)]
pub struct Resumed<R> {
    /// The rebuild, as if it had never been dropped.
    pub rebuild: R,
    /// Notes of [`Resumable::note`], in order. The last notes may be missing.
    pub notes: Vec<Vec<u8>>,
}

/// Attributes that a store sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Permission bits. Without this, a new file gets the sender's bits less the umask, an old file keeps its bits.
    pub modes: bool,
    /// Execute permission of files, for use without [`Self::modes`].
    pub executability: bool,
    /// Modification times.
    pub times: bool,
    /// Leaves out modification and access times of directories.
    pub omit_dir_times: bool,
    /// Leaves out modification and access times of symlinks.
    pub omit_link_times: bool,
    /// ACLs. An ACL that the sender's entry lacks is removed.
    pub acls: bool,
    /// Extended attributes within the scope of this store. An attribute that the sender's entry lacks is removed.
    pub xattrs: bool,
}

impl Keep {
    /// True if times of entries of this kind are set.
    #[must_use]
    pub fn times_of(self, kind: &Kind) -> bool {
        match kind {
            Kind::Dir => !self.omit_dir_times,
            Kind::Symlink(_) => !self.omit_link_times,
            _ => true,
        }
    }

    /// Returns the mode of a new entry, or of an entry that replaces an old one with `old_mode`.
    #[must_use]
    pub fn mode_of_new(self, meta: &Meta, old_mode: Option<u32>, umask: u32) -> u32 {
        match old_mode {
            _ if self.modes => meta.mode & 0o7777,
            // The setuid, setgid and sticky bits were granted to the old content, not to the new content.
            Some(old) if meta.is_file() => self.mode_with_execute(meta, old) & 0o777,
            Some(old) => old & 0o7777,
            None => meta.mode & !umask & 0o777,
        }
    }

    /// Returns `old` with execute permission as in the sender's file; unchanged without [`Self::executability`].
    #[must_use]
    pub fn mode_with_execute(self, meta: &Meta, old: u32) -> u32 {
        if self.executability && meta.is_file() { meta.mode_with_execute(old) } else { old }
    }
}
