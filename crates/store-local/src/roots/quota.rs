//! Quotas: the most bytes and names of a volume, or of the part of a volume that a token is for, and bytes that stay
//! free on a disk (`deltic serve`).
//!
//! A new version reserves its length when it is opened, so that several writers near the limit do not all fail halfway.
//! From then on the new version counts beside the version that it replaces, except for its name. A new version of an
//! entry needs no further name, unless the old version is kept. An unfinished file that stays for a later attempt keeps
//! its reservation. Each step that replaces or removes a name frees the space of that name.
//!
//! Only [`SpaceQuota::recount`] notices changes by other programs; in a part of a volume, also changes by users with
//! other quotas.

mod space;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deltic_store::{Cause, PrivateDir, StoreError};
use deltic_tree::meta::Inode;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, FileType, Stat};
use rustix::io::Errno;

use crate::bytes::holes::bytes_on_disk;
use crate::handles::dir::{Dir, PathBounds, QuotaLimits, Use, VolumeDir, part_path, volume_path};
use crate::handles::place::STAGED_SUFFIX;
use crate::handles::shared::SharedState;
use crate::handles::stat::{file_type, inode_of};
use crate::kernel::errno::{At, LEADS_OUT};
use crate::kernel::lock;

pub(crate) use space::StoreSpace;

/// Used space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Bytes of files, by their lengths.
    pub bytes: u64,
    /// Names of files, directories and links.
    pub files: u64,
}

/// Bytes and names added, minus bytes and names removed. May be negative for a moment: the old version may be
/// subtracted before its replacement is added.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    bytes: i64,
    files: i64,
}

impl Balance {
    fn add(&mut self, more: SpaceUsage) {
        self.bytes = self.bytes.saturating_add_unsigned(more.bytes);
        self.files = self.files.saturating_add_unsigned(more.files);
    }

    fn remove(&mut self, less: SpaceUsage) {
        self.bytes = self.bytes.saturating_sub_unsigned(less.bytes);
        self.files = self.files.saturating_sub_unsigned(less.files);
    }

    fn usage(self) -> SpaceUsage {
        let clamp = |count: i64| u64::try_from(count).unwrap_or_default();
        SpaceUsage { bytes: clamp(self.bytes), files: clamp(self.files) }
    }
}

/// The quota of a volume, or of a part of a volume.
#[derive(Debug)]
pub struct SpaceQuota {
    root: Dir,
    whose: QuotaOwner,
    /// Time of the last count of all files.
    counted: Mutex<Instant>,
    limits: QuotaLimits,
    used: Mutex<Used>,
    disk: Arc<Disk>,
}

/// Owner of a quota: a volume or a token. Only quotas of volumes count old versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotaOwner {
    /// A volume. Old versions count.
    Volume,
    /// A token. Old versions do not count.
    Token,
}

impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volume => "volume",
            Self::Token => "token",
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// Entries in place, and old versions.
    settled: Balance,
    /// New versions that are not in place yet.
    pending: Balance,
}

impl Used {
    fn total(self) -> SpaceUsage {
        let Self { settled, pending } = self;
        let (bytes, files) = (settled.bytes + pending.bytes, settled.files + pending.files);
        Balance { bytes, files }.usage()
    }
}

/// Bytes of a disk that the volumes on the disk have reserved and not written yet.
type Disk = Mutex<u64>;

/// Quotas of volumes, and the reservations of a context.
#[derive(Debug, Default)]
pub(crate) struct SpaceLedger {
    /// Quotas of the volumes, by path.
    volumes: Vec<(PathBuf, Arc<SpaceQuota>)>,
    /// Disks by device.
    disks: Mutex<HashMap<u64, Arc<Disk>>>,
    /// Reservations of unfinished files without a writer, by inode.
    left: Mutex<HashMap<Inode, LeftSpace>>,
}

impl SpaceLedger {
    /// Returns the quotas of these volumes, after a count of their files.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn of(volumes: &[VolumeDir], shared: &Arc<SharedState>) -> Result<Self, Errno> {
        let mut ledger = Self::default();
        for volume in volumes.iter().filter(|volume| volume.quota != QuotaLimits::default()) {
            let path = volume_path(&volume.name);
            let root = Dir::open_start(&path, shared)?.ok_or(LEADS_OUT)?;
            let quota = ledger.of_volume(root, volume.quota)?;
            ledger.volumes.push((path, quota));
        }
        Ok(ledger)
    }

    /// Returns the quota of a volume at `root`, after a count of the files.
    ///
    /// Also reserves space in this quota for unfinished files without a writer, which no other count finds. A run that
    /// resumes such a file reserves space in the quota of the token too.
    fn of_volume(&self, root: Dir, limits: QuotaLimits) -> Result<Arc<SpaceQuota>, Errno> {
        let device = fs::fstat(&root)?.st_dev;
        let disk = Arc::clone(lock(&self.disks).entry(device).or_default());
        let (quota, unfinished) = SpaceQuota::new(root, limits, QuotaOwner::Volume, disk);
        for (inode, bytes) in unfinished {
            lock(&quota.used).pending.add(name_usage(bytes));
            self.note_pending(inode, name_usage(bytes), Arc::clone(&quota));
        }
        Ok(quota)
    }

    /// Returns the quota of the volume that contains `path`, the root of a store.
    pub(crate) fn quota_at(&self, path: &Path, bounds: &PathBounds) -> Option<Arc<SpaceQuota>> {
        let mut volumes = self.volumes.iter();
        volumes
            .find(|(volume, _)| bounds.is_in_volume(path, volume))
            .map(|(_, quota)| Arc::clone(quota))
    }

    /// Notes the reservation of `usage` for the unfinished file `inode`.
    fn note_pending(&self, inode: Inode, usage: SpaceUsage, quota: Arc<SpaceQuota>) {
        let mut all = lock(&self.left);
        let left = all.entry(inode).or_default();
        (left.bytes, left.names) = (usage.bytes, usage.files);
        left.quotas.push(quota);
    }

    /// Returns the reservation of the unfinished file `inode`, if there is one.
    fn take_pending(&self, inode: Inode) -> Option<Reserved> {
        lock(&self.left).remove(&inode).map(LeftSpace::into_reservation)
    }

    /// Frees the space of the unfinished file `name` of `dir`, which is about to be removed.
    pub(crate) fn free_pending(&self, dir: &Dir, name: &Name) {
        if lock(&self.left).is_empty() {
            return;
        }
        let Ok(stat) = dir.stat(name) else { return };
        // Dropping the reservation frees the space.
        drop(self.take_pending(inode_of(&stat)));
    }

    /// Converts the reservation of the unfinished file `inode`, if there is one, to used space: the file is in place.
    pub(crate) fn settle_pending(&self, inode: Inode) {
        if let Some(reserved) = self.take_pending(inode) {
            reserved.convert_to_used();
        }
    }
}

/// Opens the directory `part` in the volume `name`.
fn open_part(name: &Name, part: &RelPath, shared: &Arc<SharedState>) -> Result<Dir, Errno> {
    let path = if part.is_root() { volume_path(name) } else { part_path(name, part) };
    Dir::open_start(&path, shared)?.ok_or(LEADS_OUT)
}

#[derive(Debug, Default)]
struct LeftSpace {
    quotas: Vec<Arc<SpaceQuota>>,
    bytes: u64,
    names: u64,
}

impl LeftSpace {
    /// Converts this space to a reservation whose bytes are all written.
    fn into_reservation(self) -> Reserved {
        let Self { quotas, bytes, names } = self;
        let share = |quota| QuotaShare { quota, bytes, names, unwritten: AtomicU64::new(0) };
        Reserved(quotas.into_iter().map(share).collect())
    }
}

/// Size of a new file. A quota counts the length; a disk needs room for the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSize {
    /// Length in bytes.
    pub(crate) len: u64,
    /// Bytes of data, outside of holes.
    pub(crate) data: u64,
}

impl FileSize {
    /// Returns the size of a file without holes.
    pub(crate) const fn without_holes(len: u64) -> Self {
        Self { len, data: len }
    }
}

impl SpaceQuota {
    /// Returns the quota of `root`, after a count of the files, and the lengths of unfinished files by device and
    /// inode.
    fn new(
        root: Dir,
        limits: QuotaLimits,
        whose: QuotaOwner,
        disk: Arc<Disk>,
    ) -> (Arc<Self>, HashMap<Inode, u64>) {
        let counted = Mutex::new(Instant::now());
        let quota = Arc::new(Self { root, whose, counted, limits, used: Mutex::default(), disk });
        if !quota.is_counting() {
            return (quota, HashMap::new());
        }
        let (settled, unfinished) = quota.count();
        lock(&quota.used).settled.add(settled);
        (quota, unfinished)
    }

    /// Returns the quota of a token for `part` of the volume `name`. All files in the part count, even those of other
    /// users, but not old versions.
    ///
    /// # Errors
    /// The part is no directory, or may not be entered.
    pub(crate) fn of_token(
        name: &Name,
        part: &RelPath,
        limits: QuotaLimits,
        shared: &Arc<SharedState>,
    ) -> Result<Arc<Self>, StoreError> {
        let root = open_part(name, part, shared).at("count", part)?;
        // Unwritten bytes count in the quota of the volume.
        Ok(Self::new(root, limits, QuotaOwner::Token, Arc::default()).0)
    }

    /// Counts all files again if the last count is older than `age`.
    ///
    /// Only one caller counts. Other callers use the previous count meanwhile.
    pub fn recount_after(&self, age: Duration) {
        let is_due = {
            let mut counted = lock(&self.counted);
            let is_due = counted.elapsed() > age;
            if is_due {
                *counted = Instant::now();
            }
            is_due
        };
        if is_due {
            self.recount_now();
        }
    }

    /// True if the counted directory is still the directory of `part` in the volume `name`.
    #[must_use]
    pub fn is_still_dir_of(&self, name: &Name, part: &RelPath) -> bool {
        let there = open_part(name, part, &self.root.shared()).and_then(|dir| fs::fstat(&dir));
        let is = fs::fstat(&self.root);
        is.and_then(|is| Ok(inode_of(&is) == inode_of(&there?))).unwrap_or(false)
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> QuotaLimits {
        self.limits
    }

    /// Returns the used and reserved space, if a limit requires counting.
    #[must_use]
    pub fn usage(&self) -> Option<SpaceUsage> {
        self.is_counting().then(|| lock(&self.used).total())
    }

    /// Counts all files again.
    pub fn recount(&self) {
        *lock(&self.counted) = Instant::now();
        self.recount_now();
    }

    fn recount_now(&self) {
        if !self.is_counting() {
            return;
        }
        let before = lock(&self.used).settled;
        let (counted, _) = self.count();
        let mut used = lock(&self.used);
        // A file that came or went during the count may be counted twice or not at all, until the next count.
        used.settled.bytes -= before.bytes;
        used.settled.files -= before.files;
        used.settled.add(counted);
    }

    /// True if a limit requires counting.
    const fn is_counting(&self) -> bool {
        self.limits.bytes.is_some() || self.limits.files.is_some()
    }

    /// Fails if `names` more names at `path` would exceed the limit.
    fn check_names(&self, used: Used, path: &RelPath, names: u64) -> Result<(), StoreError> {
        let (files, whose) = (used.total().files, self.whose);
        match self.limits.files {
            Some(most) if names > 0 && files.saturating_add(names) > most => {
                let why = format!("the quota of the {whose} is used up: {files} of {most} names");
                Err(full_error(path, io::ErrorKind::QuotaExceeded, why))
            }
            _ => Ok(()),
        }
    }

    /// Reserves room for a file at `path`, and for `names` further names: 0 if the file replaces an entry.
    fn reserve(
        self: &Arc<Self>,
        path: &RelPath,
        size: FileSize,
        names: u64,
    ) -> Result<QuotaShare, StoreError> {
        let FileSize { len: bytes, data } = size;
        self.count_file(path, size, names)?;
        Ok(QuotaShare { quota: Arc::clone(self), bytes, names, unwritten: AtomicU64::new(data) })
    }

    /// Fails if `bytes` more bytes at `path` would exceed the limit.
    fn check_bytes(&self, used: Used, path: &RelPath, bytes: u64) -> Result<(), StoreError> {
        let (had, whose) = (used.total().bytes, self.whose);
        match self.limits.bytes {
            Some(most) if had.saturating_add(bytes) > most => {
                let why = match most.saturating_sub(had) {
                    0 => format!("the quota of the {whose} is used up: {had} of {most} bytes"),
                    left => format!(
                        "the quota of the {whose} has {left} bytes left, {bytes} are needed"
                    ),
                };
                Err(full_error(path, io::ErrorKind::QuotaExceeded, why))
            }
            _ => Ok(()),
        }
    }

    /// Counts a file of `size` and `names` further names as pending, if the limits have room for both.
    fn count_file(&self, path: &RelPath, size: FileSize, names: u64) -> Result<(), StoreError> {
        let FileSize { len: bytes, data } = size;
        let mut used = lock(&self.used);
        self.check_names(*used, path, names)?;
        self.check_bytes(*used, path, bytes)?;
        let mut unwritten = lock(&self.disk);
        let floor = self.limits.free_bytes;
        if floor > 0
            && let Ok(disk) = fs::fstatvfs(&self.root)
            && (disk.f_bavail.saturating_mul(disk.f_frsize))
                < floor.saturating_add(*unwritten).saturating_add(data)
        {
            let why = format!("less than {floor} bytes would stay free on the disk of the volume");
            return Err(full_error(path, io::ErrorKind::StorageFull, why));
        }
        *unwritten = unwritten.saturating_add(data);
        used.pending.add(SpaceUsage { bytes, files: names });
        Ok(())
    }

    /// Subtracts a removed entry.
    pub(crate) fn subtract_removed(&self, stat: &Stat) {
        lock(&self.used).settled.remove(space_freed_by(stat));
    }

    /// Counts all entries in place. Returns their space, and the lengths of unfinished files by device and inode.
    fn count(&self) -> (SpaceUsage, HashMap<Inode, u64>) {
        let (mut usage, mut unfinished) = (Balance::default(), HashMap::new());
        let (mut seen, mut dirs) = (HashSet::new(), vec![(RelPath::root(), Within::Tree)]);
        while let Some((path, within)) = dirs.pop() {
            let Ok(dir) = self.root.open_dir(&path, Use::Read) else { continue };
            let mut names = Vec::new();
            // A name that cannot be read is left for the next count.
            let _ = dir.for_each_name(|name| names.extend(Name::new(name)));
            for name in names {
                let Ok(stat) = dir.stat(&name) else { continue };
                let is_dir = file_type(&stat) == FileType::Directory;
                let private = PrivateDir::found_by(name.as_bytes());
                let below = match (within, private) {
                    (Within::Tree, Some(PrivateDir::Versions))
                        if self.whose == QuotaOwner::Token =>
                    {
                        continue;
                    }
                    (Within::Tree, Some(PrivateDir::ServerState)) => continue,
                    (Within::Tree, Some(PrivateDir::Versions)) => Within::Versions,
                    (Within::Tree, Some(PrivateDir::Staging)) => Within::Stage,
                    (within, _) => within,
                };
                if is_dir {
                    usage.files += i64::from(below == Within::Tree);
                    dirs.extend(path.join(&name).ok().map(|path| (path, below)));
                } else if within == Within::Stage {
                    if name.as_bytes().ends_with(STAGED_SUFFIX) {
                        unfinished.insert(inode_of(&stat), stat.st_size as u64);
                    }
                } else {
                    let is_first = stat.st_nlink == 1 || seen.insert(inode_of(&stat));
                    let counts = is_first && file_type(&stat).is_file();
                    usage.add(name_usage(if counts { stat.st_size as u64 } else { 0 }));
                }
            }
        }
        (usage.usage(), unfinished)
    }
}

/// Part of a volume during a count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Tree,
    Versions,
    Stage,
}

/// Returns the space used by one name with `bytes` bytes of content.
const fn name_usage(bytes: u64) -> SpaceUsage {
    SpaceUsage { bytes, files: 1 }
}

/// Returns the space that is freed when a name of this entry is removed.
fn space_freed_by(stat: &Stat) -> SpaceUsage {
    let is_last = file_type(stat).is_file() && stat.st_nlink <= 1;
    name_usage(if is_last { stat.st_size as u64 } else { 0 })
}

fn full_error(path: &RelPath, kind: io::ErrorKind, why: String) -> StoreError {
    StoreError::new("write", path, Cause::Full, io::Error::new(kind, why))
}

/// Reserved space, with a share for each quota. Dropping this value frees the space, unless the space is
/// [kept](Self::convert_to_used). Empty in a store without a quota.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Vec<QuotaShare>);

#[derive(Debug)]
struct QuotaShare {
    quota: Arc<SpaceQuota>,
    bytes: u64,
    /// Reserved names: 1, or 0 for a file that is to replace an entry.
    names: u64,
    /// Bytes that are not on the disk yet.
    unwritten: AtomicU64,
}

impl QuotaShare {
    const fn usage(&self) -> SpaceUsage {
        SpaceUsage { bytes: self.bytes, files: self.names }
    }
}

impl Reserved {
    /// Notes that `bytes` of the file were written to the disk.
    pub(crate) fn note_written(&self, bytes: u64) {
        for share in &self.0 {
            let mut unwritten = lock(&share.quota.disk);
            let left = share.unwritten.load(Ordering::Relaxed);
            share.unwritten.store(left.saturating_sub(bytes), Ordering::Relaxed);
            *unwritten = unwritten.saturating_sub(left.min(bytes));
        }
    }

    /// Reserves `bytes` in each quota, after fewer or more bytes were reserved. Bytes given back must not have been
    /// written yet.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a quota has no room.
    pub(crate) fn resize(&mut self, path: &RelPath, bytes: u64) -> Result<(), StoreError> {
        for share in &mut self.0 {
            if let Some(more) = bytes.checked_sub(share.bytes) {
                share.quota.count_file(path, FileSize::without_holes(more), 0)?;
                *share.unwritten.get_mut() += more;
            } else {
                let less = share.bytes - bytes;
                lock(&share.quota.used).pending.remove(SpaceUsage { bytes: less, files: 0 });
                let left = share.unwritten.get_mut();
                let mut unwritten = lock(&share.quota.disk);
                *unwritten = unwritten.saturating_sub(less.min(*left));
                *left = left.saturating_sub(less);
            }
            share.bytes = bytes;
        }
        Ok(())
    }

    /// Counts the allocated blocks of a new file as written.
    pub(crate) fn count_allocated(&self, file: impl AsFd) -> Result<(), Errno> {
        if !self.0.is_empty() {
            self.note_written(bytes_on_disk(&fs::fstat(file)?));
        }
        Ok(())
    }

    /// Reserves the name of a file, if not reserved yet, before the file is put in place. A file that replaces an entry
    /// (`is_new` is false) may exceed the limit for a moment, until the name of the entry is freed.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the file is new, and a quota has no room for its name.
    pub(crate) fn take_name(&mut self, path: &RelPath, is_new: bool) -> Result<(), StoreError> {
        for share in self.0.iter_mut().filter(|share| share.names == 0) {
            let mut used = lock(&share.quota.used);
            if is_new {
                share.quota.check_names(*used, path, 1)?;
            }
            used.pending.add(SpaceUsage { bytes: 0, files: 1 });
            share.names = 1;
        }
        Ok(())
    }

    /// Converts the reservation to used space: the entry is in place.
    pub(crate) fn convert_to_used(mut self) {
        for share in self.0.drain(..) {
            let mut used = lock(&share.quota.used);
            used.pending.remove(share.usage());
            used.settled.add(name_usage(share.bytes));
        }
    }

    /// Keeps the space if `put` says that an entry is in place, even with incomplete metadata.
    pub(crate) fn convert_if_put<T>(self, put: &Result<T, StoreError>) {
        if matches!(put, Ok(_) | Err(StoreError::AttributesNotSet { .. })) {
            self.convert_to_used();
        }
    }

    /// Transfers the reservation to the unfinished file `inode`, until a run resumes or removes the file.
    pub(crate) fn move_to_file(mut self, inode: Inode, ledger: &SpaceLedger) {
        for share in self.0.drain(..) {
            let quota = Arc::clone(&share.quota);
            if quota.is_counting() {
                ledger.note_pending(inode, share.usage(), quota);
            } else {
                lock(&quota.used).pending.remove(share.usage());
            }
        }
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut unwritten = lock(&self.quota.disk);
        *unwritten = unwritten.saturating_sub(*self.unwritten.get_mut());
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for share in &self.0 {
            lock(&share.quota.used).pending.remove(share.usage());
        }
    }
}
