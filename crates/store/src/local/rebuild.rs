//! A local file in the making, and the order of writes that makes its commit safe (`RELIABILITY` §3.1).

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use deltic_core::{RelPath, See};
use rustix::fs::{self, FlockOperation, Stat};
use rustix::io::Errno;

use super::attrs::{Attrs, On};
use super::backup::Goes;
use super::copy::{End, write_at};
use super::log::{Log, remove_log};
use super::place::Place;
use super::room::Room;
use super::snapshot::{LocalSnapshot, Version, file_type, inode_of, look_at, read_at};
use super::stage::{Logged, Staged, discard, staging_path};
use super::store::Inner;
use crate::error::At;
use crate::{Commit, Content, Rebuild, Replaces, Resumed, Snapshot, StoreError, lock};

/// A new version of a local file, staged.
#[derive(Debug)]
pub struct LocalRebuild {
    store: Arc<Inner>,
    path: RelPath,
    staged: Staged,
    inode: (u64, u64),
    len: u64,
    log: Mutex<Log>,
    room: Room,
    /// Bytes that were sent for it and written.
    written: AtomicU64,
    fate: Mutex<Fate>,
}

/// How many bytes are written to a file that is to be durable until they are flushed, while more are on their way: the flush
/// before the commit then finds little left to do.
const FLUSH_EVERY_BYTES: u64 = 16 << 20;

/// What becomes of the staged file when its rebuild is dropped; a later fate overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Nothing was sent for it yet: it goes.
    Worthless,
    /// It spares the next attempt some traffic: it stays.
    Worthwhile,
    /// A write failed, and nobody knows what is in it; or the disk is full, and it makes room.
    Spoiled,
    /// It has left the staging directory.
    Gone,
}

impl LocalRebuild {
    pub(super) fn new(store: Arc<Inner>, path: &RelPath, len: u64) -> Result<Self, StoreError> {
        let place = Place::of(&store.root, "create", path)?;
        let staged = store.stages.create(&place)?;
        let inode = inode_of(&fs::fstat(&staged.file).at("create", path)?);
        let rebuild =
            Self::of(store, (path, staged, inode), len, (Log::Unwritten, Fate::Worthless));
        fs::ftruncate(&rebuild.staged.file, len).at("create", &rebuild.path)?;
        Ok(rebuild)
    }

    /// Goes on with what was left behind for `path`.
    pub(super) fn resume(
        store: Arc<Inner>,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self>>, StoreError> {
        let place = Place::of(&store.root, "resume", path)?;
        let Some(Logged { staged, log, notes }) = store.stages.resume(&place, len)? else {
            return Ok(None);
        };
        let inode = inode_of(&fs::fstat(&staged.file).at("resume", path)?);
        let rebuild = Self::of(store, (path, staged, inode), len, (log, Fate::Worthwhile));
        Ok(Some(Resumed { rebuild, notes }))
    }

    fn of(
        store: Arc<Inner>,
        (path, staged, inode): (&RelPath, Staged, (u64, u64)),
        len: u64,
        (log, fate): (Log, Fate),
    ) -> Self {
        let room = Room::of(&staged.file, len);
        let (path, log, fate) = (path.clone(), Mutex::new(log), Mutex::new(fate));
        Self { store, path, staged, inode, len, log, room, written: AtomicU64::new(0), fate }
    }

    fn doom(&self, fate: Fate) {
        let mut own = lock(&self.fate);
        *own = fate.max(*own);
    }

    fn check_span(&self, start: u64, len: u64) -> Result<(), StoreError> {
        let fits = start.checked_add(len).is_some_and(|end| end <= self.len);
        if fits { Ok(()) } else { Err(StoreError::new("write", &self.path, Errno::FBIG)) }
    }

    /// Gives the staged file its mode and times, and flushes it. A failed flush may have lost bytes that a second one
    /// would not miss: it spoils the file.
    fn finish(
        &self,
        commit: &Commit<'_, LocalSnapshot>,
        (place, old): (&Place, Option<Stat>),
    ) -> Result<(), StoreError> {
        let file = &self.staged.file;
        let old_mode = old.filter(|stat| file_type(stat).is_file()).map(|stat| stat.st_mode);
        let keep = (commit.keep, self.store.see.xattrs);
        let heritage = self.store.heritages.of(place).at("commit", &self.path)?;
        let attrs = Attrs::of_new(commit.meta, keep, old_mode, (self.store.umask, heritage));
        attrs.set(On::Open(file.as_fd())).at("set metadata of", &self.path)?;
        if self.store.touched.is_durable() {
            fs::fsync(file).at("flush", &self.path).inspect_err(|_| self.doom(Fate::Spoiled))?;
        }
        Ok(())
    }

    /// Flushes what was written, each time that there is enough of it. It fails as the last flush would.
    fn flush_some(&self, written: u64) -> Result<(), StoreError> {
        let before = self.written.fetch_add(written, Ordering::Relaxed);
        let rounds = |bytes: u64| bytes / FLUSH_EVERY_BYTES;
        if !self.store.touched.is_durable() || rounds(before) == rounds(before + written) {
            return Ok(());
        }
        let flushed = fs::fdatasync(&self.staged.file).at("flush", &self.path);
        flushed.inspect_err(|_| self.doom(Fate::Spoiled))
    }

    /// Checks that `place` holds what the new version is to replace, and says what that is.
    fn check_replaced(
        &self,
        replaces: &Replaces<'_, LocalSnapshot>,
        place: &Place,
    ) -> Result<Option<Stat>, StoreError> {
        let found = place.dir.find(&place.name).at("commit", &self.path)?;
        let expected = match (replaces, found) {
            (Replaces::Nothing, found) => found.is_none(),
            (Replaces::Version(old), Some(stat)) => old.version().is_still(Version::of(&stat)),
            (Replaces::Seen(meta), Some(stat)) if meta.is_dir() => file_type(&stat).is_dir(),
            (Replaces::Seen(meta), Some(_)) => {
                let now = look_at(&place.dir, &place.name, See::default());
                now.at("commit", &self.path)?.is_like(meta)
            }
            (Replaces::Version(_) | Replaces::Seen(_), None) => false,
        };
        if expected { Ok(found) } else { Err(StoreError::Conflict { path: self.path.clone() }) }
    }

    /// Moves the staged file into place, having checked that it is still ours.
    fn land(&self, place: &Place) -> Result<(), StoreError> {
        let dir = self.store.stages.dir(&self.staged.home).at("commit", &self.path)?;
        let staged = dir.stat(&self.staged.name).at("commit", &self.path)?;
        if inode_of(&staged) != self.inode {
            return Err(StoreError::Conflict { path: self.path.clone() });
        }
        place.land(&dir, &self.staged.name).at("commit", &self.path)?;
        self.doom(Fate::Gone);
        if !matches!(*lock(&self.log), Log::Unwritten) {
            remove_log(&dir, &self.staged.name);
        }
        Ok(())
    }
}

impl Rebuild for LocalRebuild {
    type Snapshot = LocalSnapshot;

    fn copy(
        &self,
        from: &LocalSnapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError> {
        if old.start > old.end || old.end > from.meta().len {
            return Err(StoreError::new("copy to", &self.path, Errno::INVAL));
        }
        self.check_span(new_start, old.end - old.start)?;
        let source = End { file: from.as_fd(), device: from.version().device() };
        let target = End { file: self.staged.file.as_fd(), device: self.inode.0 };
        self.room.reserve(&self.staged.file, new_start..new_start + (old.end - old.start));
        let copied = self.store.copier.copy(source, old, target, new_start);
        let whole = copied.at("copy to", &self.path).inspect_err(|_| self.doom(Fate::Spoiled))?;
        // Once per copy, so that nobody has to hold the old versions until the commit.
        from.check_unchanged()?;
        if whole { Ok(()) } else { Err(StoreError::new("copy to", &self.path, Errno::INVAL)) }
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_span(new_start, bytes.len() as u64)?;
        let written = write_at(self.staged.file.as_fd(), new_start, bytes);
        self.doom(if written.is_ok() { Fate::Worthwhile } else { Fate::Spoiled });
        written.at("write", &self.path)?;
        self.flush_some(bytes.len() as u64)
    }

    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        self.check_span(new_start, bytes.len() as u64)?;
        self.room.reserve(&self.staged.file, new_start..new_start + bytes.len() as u64);
        if content == Content::OldAndSent {
            return self.write(new_start, bytes);
        }
        let written = write_at(self.staged.file.as_fd(), new_start, bytes);
        written.at("write", &self.path).inspect_err(|_| self.doom(Fate::Spoiled))
    }

    fn may_share(&self, from: &LocalSnapshot, old: &Range<u64>, new_start: u64) -> bool {
        let devices = (from.version().device(), self.inode.0);
        self.room.may_be_shared() && self.store.copier.may_share(devices, old, new_start)
    }

    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let Staged { file, home, name } = &self.staged;
        let dir = || self.store.stages.dir(home);
        let noted = lock(&self.log).append(dir, (file, name), bytes);
        noted.at("note what is written of", &self.path)
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        read_at(self.staged.file.as_fd(), start, buf).at("read", &self.path)
    }

    fn commit(self, commit: Commit<'_, LocalSnapshot>) -> Result<(), StoreError> {
        let place = Place::of(&self.store.root, "commit", &self.path)?;
        let old = self.check_replaced(&commit.replaces, &place)?;
        self.finish(&commit, (&place, old))?;
        if self.store.touched.is_durable() {
            // Again: a flush takes its time.
            self.check_replaced(&commit.replaces, &place)?;
        }
        self.store.back_up(&place, Goes::Replaced)?;
        self.land(&place)?;
        self.store.touched.add(&place.dir_path);
        if let Ok(staging) = staging_path(&self.staged.home) {
            self.store.touched.add(&staging);
        }
        self.store.stages.clear(&self.path, &self.staged.home);
        Ok(())
    }

    fn discard(self) -> Result<(), StoreError> {
        self.doom(Fate::Gone);
        let dir = self.store.stages.dir(&self.staged.home).at("discard", &self.path)?;
        remove_log(&dir, &self.staged.name);
        dir.remove_file(&self.staged.name).at("discard", &self.path)
    }
}

impl Drop for LocalRebuild {
    fn drop(&mut self) {
        let Staged { home, name, .. } = &self.staged;
        match *lock(&self.fate) {
            Fate::Gone => {}
            Fate::Worthwhile => {
                // Closing does it too, but not while a child that is being started has the handle as well.
                let _ = fs::flock(&self.staged.file, FlockOperation::Unlock);
                self.store.stages.leave(&self.path, home, name.clone());
            }
            Fate::Worthless | Fate::Spoiled => {
                // What stays is litter for the sweep.
                let _ = self.store.stages.dir(home).map(|dir| discard(&dir, name));
            }
        }
    }
}
