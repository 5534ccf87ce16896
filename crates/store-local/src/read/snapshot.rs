//! A file of a local tree that is held open.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use deltic_core::{StoredSums, SumKind};
use deltic_tree::{Kind, Meta, MetaMask, Name, RelPath, Timestamp};
use rustix::fs::{self, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::attributes::metadata::{meta_of, read_target};
use crate::attributes::more::Reach;
use crate::attributes::noted;
use crate::bytes::holes::{data_runs, has_holes, read_skipping_holes};
use crate::facts;
use crate::handles::dir::{Dir, WayEnd, proc_path};
use crate::handles::shared::SharedState;
use crate::handles::stat::{Stamp, created, file_type};
use crate::kernel::errno::At;
use crate::kernel::read_write::read_at;
use crate::kernel::system::System;
use crate::kernel::tight::disable_read_ahead;
use crate::read::lease::{self, Writers};
use deltic_store::{Extents, Snapshot, StoreError, Version};

/// A version of a local file, held open.
#[derive(Debug)]
pub struct LocalSnapshot {
    file: OwnedFd,
    path: RelPath,
    meta: Meta,
    stamp: Stamp,
    doubt: Option<Doubt>,
    /// True if new hard links are no change of the file, since this run may create them.
    gets_names: bool,
    has_holes: bool,
    shared: Arc<SharedState>,
}

impl LocalSnapshot {
    /// Opens the regular file `name` of `dir`, at `path`.
    pub(crate) fn open(
        dir: &Dir,
        name: &Name,
        path: &RelPath,
        see: MetaMask,
    ) -> Result<Self, StoreError> {
        Self::open_by(|more| dir.open(name, more), path, see, dir)
    }

    /// Opens the regular file `name` of `dir`, at `path`, following a symlink.
    pub(crate) fn open_behind(
        dir: &Dir,
        name: &Name,
        path: &RelPath,
        see: MetaMask,
    ) -> Result<Self, StoreError> {
        Self::open_by(|more| dir.open_behind(name, more), path, see, dir)
    }

    /// Opens the regular file at the `end` of a resolved path. Errors name `path`.
    pub(crate) fn open_end(
        end: &WayEnd,
        path: &RelPath,
        see: MetaMask,
    ) -> Result<Self, StoreError> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        Self::open_by(|more| end.open_entry(flags | more), path, see, &end.dir)
    }

    fn open_by(
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
        path: &RelPath,
        see: MetaMask,
        dir: &Dir,
    ) -> Result<Self, StoreError> {
        let file = match see.untouched {
            // Only the file's owner may use this flag.
            true => match open(OFlags::RDONLY | OFlags::NOATIME) {
                Err(Errno::PERM) => open(OFlags::RDONLY),
                opened => opened,
            },
            false => open(OFlags::RDONLY),
        };
        let file = file.at("open", path)?;
        let not_a_file = || StoreError::NotAFile { action: "open", path: path.clone() };
        let mut snapshot =
            Self::from_open_file(file, path, dir.shared())?.ok_or_else(not_a_file)?;
        if see.fake_super {
            let stat = fs::fstat(&snapshot.file).at("open", path)?;
            let at = Reach::Followed(proc_path(snapshot.as_fd()));
            let target = || read_target(&snapshot.file);
            noted::apply_note(&at, &stat, &mut snapshot.meta, see.without_optional(), target)
                .at("open", path)?;
        }
        if snapshot.meta.is_file() { Ok(snapshot) } else { Err(not_a_file()) }
    }

    /// Returns a snapshot of `file`; `None` for any other type than a regular file.
    pub(crate) fn from_open_file(
        file: OwnedFd,
        path: &RelPath,
        shared: Arc<SharedState>,
    ) -> Result<Option<Self>, StoreError> {
        let stat = fs::fstat(&file).at("open", path)?;
        let meta = meta_of(&stat, Kind::File, MetaMask::default());
        let (path, stamp) = (path.clone(), Stamp::of(&stat));
        let doubt = Doubt::of(&file, stamp.changed);
        let has_holes = has_holes(&stat);
        disable_read_ahead(&file, stamp.len);
        let gets_names = false;
        let snapshot = Self { file, path, meta, stamp, doubt, gets_names, has_holes, shared };
        Ok(file_type(&stat).is_file().then_some(snapshot))
    }

    /// Returns the snapshot. From now on, new hard links are no change of the file.
    pub(crate) fn allowing_new_names(self) -> Self {
        Self { gets_names: true, ..self }
    }

    /// Returns the time at which the file was created, since 1970, if the file system records it.
    pub(crate) fn created(&self) -> Option<Duration> {
        created(fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns a snapshot of the open `file`; `None` for any other type than a regular file.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_open_file(file: OwnedFd) -> io::Result<Option<Self>> {
        Self::from_open_file(file, &RelPath::root(), Arc::default()).map_err(io::Error::other)
    }

    /// Returns the device addresses of the file's bytes, as any file system reports them: a hint.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file has changed since it was opened.
    pub fn device_addresses(&self) -> Result<Option<facts::Mapped>, StoreError> {
        let mapped = facts::device_addresses(self.as_fd(), self.stamp.len);
        self.check_unchanged()?;
        Ok(mapped)
    }

    /// True if a program of this machine had the file open for writing when this snapshot was opened.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        self.doubt == Some(Doubt::Writer)
    }

    /// Checks that the open file still has the bytes of this version. Unlike
    /// [`check_unchanged`](Snapshot::check_unchanged), this accepts that the file was replaced at its path, or has other
    /// names: the open file keeps its bytes.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the bytes may have changed since the file was opened.
    pub fn check_content(&self) -> Result<(), StoreError> {
        let is_same = self.stamp_now()?.has_content_of(self.stamp)
            && !self.has_writer()
            && writers(self.as_fd()) != Writers::Somebody;
        if is_same { Ok(()) } else { self.check_unchanged() }
    }

    fn stamp_now(&self) -> Result<Stamp, StoreError> {
        fs::fstat(&self.file).map(|stat| Stamp::of(&stat)).at("read", &self.path)
    }

    /// True if both snapshots are of one inode.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.stamp.inode == other.stamp.inode
    }
}

impl Snapshot for LocalSnapshot {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let read = match self.has_holes {
            true => read_skipping_holes(self.as_fd(), start, buf),
            false => read_at(&self.file, start, buf),
        };
        let read = read.at("read", &self.path)?;
        let len = self.stamp.len;
        if read < buf.len() && start + (read as u64) < len {
            self.check_unchanged()?;
            return Err(StoreError::Short { path: self.path.clone(), len });
        }
        Ok(read)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        let now = self.stamp_now()?;
        let is_linked = || self.gets_names && now.is_same_with_more_names(self.stamp);
        if now == self.stamp || is_linked() {
            Ok(())
        } else {
            Err(StoreError::Changed { path: self.path.clone() })
        }
    }

    fn check_settled(&self) -> Result<(), StoreError> {
        self.check_unchanged()?;
        let in_use = || StoreError::InUse { path: self.path.clone() };
        if self.doubt.is_some() { Err(in_use()) } else { Ok(()) }
    }

    fn may_be_written(&self) -> bool {
        self.doubt.is_some()
    }

    fn wait_for_writes(&self) -> bool {
        if let Some(Doubt::Until(end)) = self.doubt {
            thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        self.doubt.is_none() || writers(self.as_fd()) != Writers::Somebody
    }

    fn len_now(&self) -> Result<u64, StoreError> {
        Ok(self.stamp_now()?.len)
    }

    fn only_got_names(&self) -> Result<bool, StoreError> {
        Ok(self.stamp_now()?.is_same_with_more_names(self.stamp))
    }

    fn has_other_names(&self) -> bool {
        self.stamp.names > 1
    }

    fn has_version(&self, version: Version) -> bool {
        self.stamp.version() == version
    }

    fn identity(&self) -> Option<Version> {
        System::keeps_versions(&self.file).then(|| self.stamp.version())
    }

    fn data_runs(&self) -> Result<Option<Vec<Range<u64>>>, StoreError> {
        if !self.has_holes {
            return Ok(None);
        }
        data_runs(self.as_fd(), self.stamp.len).at("read", &self.path)
    }

    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        let extents = facts::extents(self.as_fd(), self.stamp.len, &self.shared.facts);
        self.check_unchanged()?;
        Ok(extents)
    }

    fn missing_extents_reason(&self) -> String {
        facts::missing_extents_reason(self.as_fd(), &self.shared.facts)
    }

    fn sum_kind(&self) -> Option<SumKind> {
        facts::sum_kind(self.as_fd())
    }

    fn stored_sums(&self, range: &Range<u64>) -> Result<Option<StoredSums>, StoreError> {
        let sums = facts::stored_sums(self.as_fd(), range, self.stamp.len, &self.shared.facts);
        self.check_unchanged()?;
        Ok(sums)
    }

    fn verity(&self) -> Option<[u8; 32]> {
        facts::verity_digest(self.as_fd(), self.stamp.len)
    }
}

impl AsFd for LocalSnapshot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reasons why an equal version of a file does not prove equal bytes.
///
/// The kernel sets the time of a write before it copies the bytes. So a write that is under way when the file is opened
/// changes the bytes that are read, but not the version, however long the write takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// A program has the file open for writing.
    Writer,
    /// The file was changed just now. A later change may get the same time, or a program may be writing without the
    /// kernel's knowledge. The doubt ends at this instant.
    Until(Instant),
}

impl Doubt {
    /// Returns the doubt about `file`, which was opened just now.
    fn of(file: &OwnedFd, changed: Timestamp) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = age_of_change(changed, now);
        if age.is_some_and(|age| age > LONGEST_WRITE) {
            return None;
        }
        let writers = writers(file.as_fd());
        if writers == Writers::Somebody {
            return Some(Self::Writer);
        }
        let age = age.filter(|age| *age < UNKNOWN_REST)?;
        let is_known = writers == Writers::Nobody && System::keeps_versions(file);
        let rest = if is_known { TICK } else { UNKNOWN_REST };
        (age < rest).then(|| Self::Until(Instant::now() + (rest - age)))
    }
}

/// Checks if programs have `file` open for writing, as far as the kernel knows.
///
/// On NFS, SMB and FUSE the writer may be on another machine, or behind a program. The kernel refuses leases there for
/// reasons of its own (NFSv4 without a delegation), so a refusal says nothing about writers.
fn writers(file: BorrowedFd<'_>) -> Writers {
    match lease::writers(file) {
        Writers::Somebody if !System::keeps_versions(file) => Writers::Unknown,
        known => known,
    }
}

/// Returns the time since the change of a file; `now` is the time since 1970. Zero if the change is less than five
/// minutes ahead, since the clock of a file server may be a little ahead. `None` if the change is further ahead or
/// before 1970, by a wrong clock.
fn age_of_change(changed: Timestamp, now: Duration) -> Option<Duration> {
    let changed = Duration::new(changed.secs.try_into().ok()?, changed.nanos);
    let is_ahead = changed > now && changed - now < CLOCK_AHEAD;
    if is_ahead { Some(Duration::ZERO) } else { now.checked_sub(changed) }
}

/// Longer than any single write, which has at most two gigabytes. After this time without changes a file is settled,
/// even if a program has the file open for writing.
const LONGEST_WRITE: Duration = Duration::from_hours(24);
/// Longest expected time of a write that the kernel does not report.
const UNKNOWN_REST: Duration = Duration::from_secs(2);
/// Most time by which a file server's clock may be ahead of the local clock.
const CLOCK_AHEAD: Duration = Duration::from_mins(5);
/// Longest step of the clock that sets ctime.
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_file_is_known_by_its_own_clock_alone() {
        let at = |secs, nanos| age_of_change(Timestamp { secs, nanos }, Duration::new(1000, 0));
        assert_eq!(at(999, 951_000_000), Some(Duration::from_millis(49)));
        assert_eq!(at(1000, 0), Some(Duration::ZERO));
        // The clock of a file server is a little ahead.
        assert_eq!((at(1000, 1), at(1299, 0)), (Some(Duration::ZERO), Some(Duration::ZERO)));
        // A wrong clock, or a time before 1970.
        assert_eq!((at(1300, 0), at(i64::MAX, 0), at(-1, 0)), (None, None, None));
    }
}
