//! The staged new version of a local file, and the order of writes that makes a commit safe.

mod changed;
mod in_place;
mod staged;

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use deltic_tree::meta::Inode;
use deltic_tree::{Meta, RelPath};
use rustix::fs::{self, FlockOperation, Stat};
use rustix::io::Errno;

use self::changed::FileChange;
use super::finished::{Expected, Finished};
use super::inplace::Changing;
use super::partial::Other;
use super::state::StoreState;
use crate::attributes::attrs::{Attrs, NewMode, On};
use crate::attributes::metadata::read_meta_of;
use crate::bytes::copy::{DevicePair, End, read_in_parts};
use crate::bytes::holes::{Under, copy_sparse, write_sparse, zero_range};
use crate::bytes::room::{Reserve, Room, reserve_all};
use crate::bytes::write_back;
use crate::handles::place::{COMMIT, Place};
use crate::handles::stat::{file_type, inode_of};
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use crate::kernel::read_write::{read_at, write_at};
use crate::read::snapshot::LocalSnapshot;
use crate::roots::quota::{FileSize, Reserved};
use crate::staging::log::{Log, remove_log};
use crate::staging::stage::{Logged, StageOwner, Staged, Stages};
use deltic_store::{
    Commit, Content, Rebuild, Resumable, Resumed, Snapshot, StoreError, Unset, Version,
};

/// A staged new version of a local file.
#[derive(Debug)]
pub struct LocalRebuild {
    store: Arc<StoreState>,
    path: RelPath,
    staged: Staged,
    inode: Inode,
    len: u64,
    log: Mutex<Log>,
    room: Room,
    /// Content of the staged file before the first write.
    under: Under,
    /// Lock that lets one thread write at a time. The kernel allows only one writer of a file, and other threads would
    /// spin.
    turn: Mutex<()>,
    /// The existing file, if the file is changed in place (`--inplace`).
    changing: Option<Changing>,
    /// Number of bytes written to the staged file.
    written: AtomicU64,
    fate: Mutex<Fate>,
    /// True if the staged file stays when the rebuild is dropped.
    is_kept: bool,
    /// Space reserved for the new version.
    reserved: Reserved,
    change: FileChange,
}

/// Bytes after which write-back of a durable file starts, while more bytes arrive. So the flush before the commit has
/// little to do. Neither a machine with little memory nor a flush of another file waits for more than twice as many
/// bytes.
const WRITE_BACK_BYTES: u64 = 4 << 20;

/// Bytes after which a durable file is flushed, on systems that cannot write back a range. A flush is costly, because
/// it writes more than the file.
const FLUSH_EVERY_BYTES: u64 = 16 << 20;

/// Fate of the staged file when the rebuild is dropped. A later value overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Removed: the file holds no sent bytes yet.
    Worthless,
    /// Kept: the file saves the next attempt some traffic.
    Worthwhile,
    /// Removed: a write failed, so the content is unknown, or the disk is full.
    Spoiled,
    /// Gone: the file has left the staging directory.
    Gone,
}

impl LocalRebuild {
    pub(crate) fn new(
        store: Arc<StoreState>,
        path: &RelPath,
        size: FileSize,
    ) -> Result<Self, StoreError> {
        let len = size.len;
        let place = Place::parent_of(&store.root, "create", path)?;
        let changing = Self::open_if_in_place(&store, &place)?;
        let reserved = store.reserve_size(&place, size)?;
        let staged = store.growing_stages().create_staged(&place).map_err(|error| match error {
            // The user may change the file, but create no file in the directory.
            StoreError::Denied { path, source, .. } if changing.is_some() => {
                StoreError::Denied { action: "stage (-T DIR does so elsewhere)", path, source }
            }
            error => error,
        })?;
        let inode = inode_of(&fs::fstat(&staged.file).at("create", path)?);
        let change = FileChange::by(store.commits.author.as_ref());
        let under = if store.writing.preallocate { Under::Blocks } else { Under::Hole };
        let rebuild = Self {
            room: Self::allocation_policy(&store, &staged, len, changing.as_ref()),
            store,
            path: path.clone(),
            staged,
            inode,
            len,
            log: Mutex::new(Log::Unwritten),
            under,
            turn: Mutex::default(),
            changing,
            written: AtomicU64::new(0),
            fate: Mutex::new(Fate::Worthless),
            is_kept: false,
            reserved,
            change,
        };
        fs::ftruncate(&rebuild.staged.file, len).at("create", path)?;
        if rebuild.store.writing.preallocate && rebuild.changing.is_none() {
            reserve_all(&rebuild.staged.file, 0, len).at("allocate", path)?;
        }
        rebuild.reserved.count_allocated(&rebuild.staged.file).at("create", path)?;
        Ok(rebuild)
    }

    /// Opens the existing file at `place`, if the file is to be changed in place.
    fn open_if_in_place(store: &StoreState, place: &Place) -> Result<Option<Changing>, StoreError> {
        let changing = if store.writing.inplace { Changing::open_changing(place)? } else { None };
        Ok(changing.filter(|changing| store.may_change(changing.version())))
    }

    /// Keeps space reserved for the first `bytes` of the file only. A new file has space reserved for its whole length:
    /// a writer that may take hours reserves space piece by piece.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room for more bytes.
    pub fn reserve_only(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.reserved.resize(&self.path, bytes)
    }

    /// Keeps space reserved for the first `bytes` of the file only, which are on the disk already.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room for more bytes. A full disk is no error.
    pub fn reserve_written(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.reserved.resize_written(&self.path, bytes)
    }

    /// Resumes the staged file that an earlier attempt left for `path`.
    pub(crate) fn resume(
        store: Arc<StoreState>,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<Self>>, StoreError> {
        let place = Place::parent_of(&store.root, "resume", path)?;
        let partial = store.writing.partial_dir.as_ref();
        let shown = partial.and_then(|partial| partial.inode_in_partial(&place));
        let found = store.growing_stages().resume(&place, len, shown)?;
        found
            .map(|found| Self::resume_logged(store, &place, FileSize::without_holes(len), found))
            .transpose()
    }

    /// Returns the rebuild of a staged file that was `found` for `place`. Reserves the data of `size` in quotas that have
    /// no reservation for the file.
    fn resume_logged(
        store: Arc<StoreState>,
        place: &Place,
        size: FileSize,
        found: Logged,
    ) -> Result<Resumed<Self>, StoreError> {
        let (Logged { staged, log, notes }, FileSize { len, data }) = (found, size);
        let stat = fs::fstat(&staged.file).at("resume", &place.path)?;
        let (inode, reserved) = (inode_of(&stat), store.replace_reservation(place, &stat, data)?);
        let changing = Self::open_if_in_place(&store, place)?;
        let change = FileChange::by(store.commits.author.as_ref());
        let rebuild = Self {
            room: Self::allocation_policy(&store, &staged, len, changing.as_ref()),
            store,
            path: place.path.clone(),
            staged,
            inode,
            len,
            log: Mutex::new(log),
            under: Under::Blocks,
            turn: Mutex::default(),
            changing,
            written: AtomicU64::new(0),
            fate: Mutex::new(Fate::Worthwhile),
            is_kept: false,
            reserved,
            change,
        };
        Ok(Resumed { rebuild, notes })
    }

    /// Returns the policy for allocating blocks in advance. Nothing is allocated for a file with holes, or for bytes
    /// that will be copied into an existing file.
    fn allocation_policy(
        store: &StoreState,
        staged: &Staged,
        len: u64,
        changing: Option<&Changing>,
    ) -> Room {
        let holes = store.writing.sparse || changing.is_some();
        let reserve = if holes { Reserve::Nothing } else { Reserve::Worthwhile };
        Room::of(&staged.file, len, reserve)
    }

    fn set_fate(&self, fate: Fate) {
        let mut own = lock(&self.fate);
        let first = *own < Fate::Worthwhile && fate == Fate::Worthwhile;
        *own = fate.max(*own);
        drop(own);
        if first {
            self.link_partial(Other::Stays);
        }
    }

    /// Links the staged file into the partial directory, if the run has one.
    fn link_partial(&self, other: Other) {
        if self.store.writing.partial_dir.is_some()
            && let Ok(place) = Place::parent_of(&self.store.root, "show", &self.path)
            && let Ok(dir) = self.stages().open_dir_of(&self.staged.home)
        {
            self.store.link_partial(&place, &dir, &self.staged.name, other);
        }
    }

    /// Removes the link that [`Self::link_partial`] made.
    fn remove_partial(&self) {
        if self.store.writing.partial_dir.is_some()
            && let Ok(place) = Place::parent_of(&self.store.root, "hide", &self.path)
        {
            // The partial directory is no part of the tree. A link that stays there can be matched against.
            let _ = self.store.remove_partial(&place, self.inode);
        }
    }

    fn stages(&self) -> &Stages {
        self.store.stages_of(self.staged.whose)
    }

    fn check_span(&self, start: u64, len: u64) -> Result<(), StoreError> {
        let fits = start.checked_add(len).is_some_and(|end| end <= self.len);
        if fits { Ok(()) } else { Err(store_error("write", &self.path, Errno::FBIG)) }
    }

    /// Writes to the staged file.
    fn write_staged(&self, start: u64, bytes: &[u8]) -> Result<(), Errno> {
        let file = self.staged.file.as_fd();
        let turn = lock(&self.turn);
        if self.store.writing.sparse {
            write_sparse(file, start, bytes, self.under)?;
        } else {
            write_at(file, start, bytes)?;
        }
        drop(turn);
        self.reserved.note_written(bytes.len() as u64);
        if let Some(changing) = &self.changing {
            changing.note_staged(start..start + bytes.len() as u64);
        }
        Ok(())
    }

    /// Sets the metadata of the staged file and flushes the file. After a failed flush the file is spoiled: bytes may
    /// be lost, and a second flush would not report that. Returns the metadata that could not be set.
    fn finish_attributes(
        &self,
        commit: &Commit<'_, LocalSnapshot>,
        place: &Place,
        old: Option<Stat>,
    ) -> Result<Unset, StoreError> {
        let file = &self.staged.file;
        let old_mode = old.filter(|stat| file_type(stat).is_file());
        let old_mode = old_mode.map(|stat| self.mode_of(place, &stat));
        let rules = self.store.attribute_rules(commit.keep);
        let heritage = self.store.makes.heritage(place).at(COMMIT, &self.path)?;
        let mode = NewMode { old: old_mode, umask: self.store.makes.umask, heritage };
        let unset = Attrs::of_new(commit.meta, rules, mode).set(On::Open(file.as_fd()));
        let flushed = self.store.touched.flush_file(file).at("flush", &self.path);
        flushed.inspect_err(|_| self.set_fate(Fate::Spoiled))?;
        Ok(unset)
    }

    /// Returns the mode of the file at `place`; under `--fake-super` the mode in the note.
    fn mode_of(&self, place: &Place, stat: &Stat) -> u32 {
        let look = || read_meta_of(&place.dir, &place.name, self.store.see.without_optional()).ok();
        let noted = self.store.see.fake_super.then(look).flatten();
        noted.map_or(stat.st_mode, |meta| meta.mode)
    }

    /// Starts write-back whenever enough bytes were written. The last flush reports the errors.
    fn write_back(&self, written: u64) -> Result<(), StoreError> {
        let by_range = self.store.touched.system().writes_back_by_range();
        let step = if by_range { WRITE_BACK_BYTES } else { FLUSH_EVERY_BYTES };
        let before = self.written.fetch_add(written, Ordering::Relaxed);
        // A file that is changed in place is flushed by that change.
        let lasts = self.store.touched.is_durable() && self.changing.is_none();
        if !lasts || before / step == (before + written) / step {
            return Ok(());
        }
        let file = self.staged.file.as_fd();
        let written = if by_range { write_back::advance(file) } else { fs::fdatasync(file) };
        written.at("flush", &self.path).inspect_err(|_| self.set_fate(Fate::Spoiled))
    }

    /// Copies the staged file to another staging directory, from which a rename to `place` works, if no rename works
    /// from the present directory. That is so if `--temp-dir` is on another file system, or if staging began before a
    /// rename was refused.
    fn move_to_staging_of(&mut self, place: &Place) -> Result<(), StoreError> {
        if self.stages().is_reachable_from(&self.staged.home, place)? {
            return Ok(());
        }
        let staged = self.store.stages_of(StageOwner::Own).create_staged(place)?;
        let inode = inode_of(&fs::fstat(&staged.file).at("create", &self.path)?);
        let away = std::mem::replace(&mut self.staged, staged);
        *lock(&self.log) = Log::Unwritten;
        let from = End { file: away.file.as_fd(), device: self.inode.device };
        self.inode = inode;
        let to = End { file: self.staged.file.as_fd(), device: inode.device };
        fs::ftruncate(to.file, self.len).at("create", &self.path)?;
        if self.store.writing.preallocate {
            reserve_all(to.file, 0, self.len).at("allocate", &self.path)?;
        }
        let moved = if self.store.writing.sparse {
            copy_sparse(from.file, self.len, to.file, self.under)
        } else {
            self.store.copier.copy_range(from, 0..self.len, to, 0)
        };
        let whole =
            moved.at("copy to", &self.path).inspect_err(|_| self.set_fate(Fate::Spoiled))?;
        if !whole {
            self.set_fate(Fate::Spoiled);
            return Err(store_error("copy to", &self.path, Errno::INVAL));
        }
        self.store.stages_of(away.whose).discard_in(&away.home, &away.name);
        Ok(())
    }

    /// Returns the staged file as a version that only lacks a name.
    fn as_finished(&self, meta: &Meta, expected: Expected) -> Finished {
        let Staged { home, whose, name, .. } = &self.staged;
        Finished {
            path: self.path.clone(),
            home: home.clone(),
            whose: *whose,
            name: name.clone(),
            inode: self.inode,
            is_noted: !matches!(*lock(&self.log), Log::Unwritten),
            meta: (meta.is_file() && meta.more.is_none()).then(|| meta.clone()),
            expected,
        }
    }
}

impl Resumable for LocalRebuild {
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let Staged { file, home, name, .. } = &self.staged;
        let dir = || self.stages().open_dir_of(home);
        let noted = lock(&self.log).append_note(dir, file, name, bytes);
        noted.at("note what is written of", &self.path)
    }

    fn has_staged(&self, span: &Range<u64>) -> bool {
        self.changing.as_ref().is_none_or(|changing| changing.has_staged(span))
    }

    fn mark_staged(&self, span: Range<u64>) {
        if let Some(changing) = &self.changing {
            changing.note_staged(span);
        }
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        match &self.changing {
            Some(changing) => changing.read_at(&self.staged.file, start, buf),
            None => read_at(self.staged.file.as_fd(), start, buf),
        }
        .at("read", &self.path)
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
            return Err(store_error("copy to", &self.path, Errno::INVAL));
        }
        self.check_span(new_start, old.end - old.start)?;
        if let Some(changing) = &self.changing
            && changing.is_in_place(from, &old, new_start)
        {
            // An interrupted run with another source may have staged other bytes there.
            changing.remove_staged(&old);
            return from.check_unchanged();
        }
        let (start, new_end) = (old.start, new_start + (old.end - old.start));
        let source = End { file: from.as_fd(), device: from.stamp().device() };
        let to = End { file: self.staged.file.as_fd(), device: self.inode.device };
        self.room.reserve(&self.staged.file, new_start..new_end);
        let copied = || {
            let runs = match &self.changing {
                Some(changing) => {
                    changing.remove_staged(&(new_start..new_end));
                    changing.differing_ranges_of_file(source.file, old.clone(), new_start)?
                }
                None => Some(std::iter::once(new_start..new_end).collect()),
            };
            let Some(runs) = runs else { return Ok(false) };
            for run in runs {
                let old_at = |at: u64| start + (at - new_start);
                let old = old_at(run.start)..old_at(run.end);
                let whole = if self.store.writing.sparse {
                    let put = |at, bytes: &[u8]| self.write_staged(new_start + (at - start), bytes);
                    read_in_parts(source.file, old, put)
                } else {
                    self.store.copier.copy_range(source, old, to, run.start)
                };
                if let Some(changing) = &self.changing {
                    changing.note_staged(run);
                }
                if !whole? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let whole =
            copied().at("copy to", &self.path).inspect_err(|_| self.set_fate(Fate::Spoiled))?;
        // Checked after each copy, so that old versions need not stay open until the commit.
        from.check_unchanged()?;
        self.write_back(new_end - new_start)?;
        if whole { Ok(()) } else { Err(store_error("copy to", &self.path, Errno::INVAL)) }
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_span(new_start, bytes.len() as u64)?;
        let written = self.write_staged(new_start, bytes);
        self.set_fate(if written.is_ok() { Fate::Worthwhile } else { Fate::Spoiled });
        written.at("write", &self.path)?;
        self.write_back(bytes.len() as u64)
    }

    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        self.check_span(new_start, bytes.len() as u64)?;
        self.room.reserve(&self.staged.file, new_start..new_start + bytes.len() as u64);
        if content == Content::OldAndSent {
            return self.write(new_start, bytes);
        }
        let written = || {
            let Some(changing) = &self.changing else { return self.write_staged(new_start, bytes) };
            changing.remove_staged(&(new_start..new_start + bytes.len() as u64));
            let part = |at: u64| (at - new_start) as usize;
            let mut runs = changing.differing_ranges(new_start, bytes)?.into_iter();
            runs.try_for_each(|run| {
                self.write_staged(run.start, &bytes[part(run.start)..part(run.end)])
            })
        };
        written().at("write", &self.path).inspect_err(|_| self.set_fate(Fate::Spoiled))?;
        self.write_back(bytes.len() as u64)
    }

    fn clear(&self, span: Range<u64>) -> Result<(), StoreError> {
        self.check_span(span.start, span.end.saturating_sub(span.start))?;
        // A staged file without written bytes is all zeros, even on a file system without holes.
        if self.under == Under::Blocks || self.written.load(Ordering::Relaxed) > 0 {
            let turn = lock(&self.turn);
            let cleared =
                zero_range(self.staged.file.as_fd(), span.clone()).at("write", &self.path);
            drop(turn);
            cleared.inspect_err(|_| self.set_fate(Fate::Spoiled))?;
        }
        self.changing.iter().for_each(|changing| changing.note_staged(span.clone()));
        Ok(())
    }

    fn may_share(&self, from: &LocalSnapshot, old: &Range<u64>, new_start: u64) -> bool {
        if self.changing.as_ref().is_some_and(|changing| changing.is_in_place(from, old, new_start))
        {
            return true;
        }
        let devices = DevicePair { from: from.stamp().device(), to: self.inode.device };
        self.room.may_be_shared() && self.store.copier.may_share(devices, old, new_start)
    }

    fn note_origin(&self, span: Range<u64>, old: Option<u64>) {
        self.change.add(span, old);
    }

    fn commit(mut self, commit: Commit<'_, LocalSnapshot>) -> Result<Option<Version>, StoreError> {
        if *lock(&self.fate) == Fate::Spoiled {
            return Err(store_error(COMMIT, &self.path, Errno::IO));
        }
        let place = Place::parent_of(&self.store.root, COMMIT, &self.path)?;
        let checked = self.store.commits.replaceable.check(&self.path, || {
            LocalSnapshot::open(&place.dir, &place.name, &self.path, self.store.see)
        })?;
        let expected = match (Expected::expected_of(&commit.replaces), checked) {
            // Another version may look the same.
            (Expected::Seen(_), Some(checked)) => Expected::Version(checked.stamp()),
            (expected, _) => expected,
        };
        self.reserved.take_name(&self.path, matches!(expected, Expected::Nothing))?;
        if let Some(changing) = self.changing.take() {
            // No version is known: the times are set last, so writes of other programs would not show in the times.
            let changed = self.change_in_place(&changing, &commit, &place, &expected);
            std::mem::take(&mut self.reserved).convert_if_put(&changed);
            self.store.report_if_put(&self.path, &changed);
            return changed.map(|()| None);
        }
        let old = expected.check_replaced(&place, &self.store)?;
        if self.store.writing.delay {
            expected.check_can_be_placed(&place)?;
        }
        self.move_to_staging_of(&place)?;
        self.note_change(&commit, &place, old.as_ref());
        let unset = self.finish_attributes(&commit, &place, old)?;
        let finished = self.as_finished(commit.meta, expected);
        if self.store.writing.delay {
            self.set_fate(Fate::Gone);
            std::mem::take(&mut self.reserved).move_to_file(self.inode, &self.store.space.ledger);
            lock(&self.store.commits.delayed)
                .add_version(finished, commit.meta.hard_link().is_some())?;
            return unset.of(&self.path).map(|()| None);
        }
        let landed = finished.place_staged(&self.store, &place)?;
        self.set_fate(Fate::Gone);
        std::mem::take(&mut self.reserved).convert_to_used();
        unset.of(&self.path).map(|()| self.store.version_in_place(landed, &self.staged.file))
    }

    fn discard(self) -> Result<(), StoreError> {
        self.set_fate(Fate::Gone);
        let dir = self.stages().open_dir_of(&self.staged.home).at("discard", &self.path)?;
        self.store.space.ledger.free_pending(&dir, &self.staged.name);
        remove_log(&dir, &self.staged.name);
        self.remove_partial();
        dir.remove_file(&self.staged.name).at("discard", &self.path)
    }
}

impl Drop for LocalRebuild {
    fn drop(&mut self) {
        let Staged { home, name, .. } = &self.staged;
        let fate = *lock(&self.fate);
        match fate {
            Fate::Gone => {}
            Fate::Worthless | Fate::Worthwhile
                if self.is_kept || fate == Fate::Worthwhile && !self.store.commits.one_shot =>
            {
                self.link_partial(Other::Goes);
                std::mem::take(&mut self.reserved)
                    .move_to_file(self.inode, &self.store.space.ledger);
                // Closing the file unlocks it too, unless a child process that is being started shares the handle.
                let _ = fs::flock(&self.staged.file, FlockOperation::Unlock);
                self.stages().note_leftover(&self.path, home, name.clone());
            }
            Fate::Worthless | Fate::Worthwhile | Fate::Spoiled => {
                if fate == Fate::Spoiled {
                    self.remove_partial();
                }
                // The sweep removes the file if this fails.
                self.stages().discard_in(home, name);
            }
        }
    }
}
