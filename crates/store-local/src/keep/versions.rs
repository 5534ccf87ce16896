//! Old versions of files, which a volume keeps when any client replaces or removes a file (`deltic serve --versions`).
//!
//! A version of `dir/name` is `.deltic-versions/dir/name/.deltic-TIME` below the volume's root. TIME is the time of its
//! replacement or removal, in nanoseconds since 1970. No path may contain a name with this prefix: versions appear
//! neither in listings nor in sessions, and no file's name collides with a version's name.
//!
//! A version is a hard link to the old file, created before the file loses its first name, so that one of the two
//! always exists. If the file system cannot create the link, the version is a copy. A kill between the two steps leaves
//! a version that is the present file itself, which is not listed. A lock for each path makes replacements and removals
//! wait for each other. So each of them sees the version that it replaces.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::ParseIntError;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltic_store::{Durability, StoreError, VERSIONS_NAME};
use deltic_tree::meta::Inode;
use deltic_tree::{MetaMask, Name, RelPath};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;

use crate::handles::dir::{Dir, History, KeepVersions, Use, kept_volume, proc_path, volume_path};
use crate::handles::stat::{file_type, inode_of};
use crate::handles::touched::Touched;
use crate::kernel::clock::Clocks;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::read::snapshot::LocalSnapshot;
use crate::roots::context::StoreContext;
use crate::roots::quota::SpaceQuota;

/// Name of a version of a file: the time of the replacement or removal, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionId(pub u64);

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VersionId {
    type Err = ParseIntError;

    fn from_str(digits: &str) -> Result<Self, ParseIntError> {
        digits.parse().map(Self)
    }
}

impl VersionId {
    /// Returns the time at which the version was replaced or removed, since 1970.
    #[must_use]
    pub const fn replaced_at(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) fn name(self) -> Name {
        Name::new(format!("{PREFIX}{}", self.0).as_bytes()).expect("it is a plain name")
    }

    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(name.strip_prefix(PREFIX.as_bytes())?).ok()?;
        let id = Self(digits.parse().ok()?);
        (id.name().as_bytes() == name).then_some(id)
    }
}

/// Prefix of the names of versions, which is reserved, like the names of staging directories.
const PREFIX: &str = ".deltic-";

/// Old versions of a volume's files.
#[derive(Debug)]
pub struct OldVersions {
    pub(super) volume: Dir,
    pub(crate) history: History,
    /// Path of the store's root in the volume.
    below: RelPath,
    pub(crate) touched: Touched,
    quota: Option<Arc<SpaceQuota>>,
}

/// A former version of a file.
#[derive(Debug)]
pub struct OldVersion {
    /// Name of this version among the versions of the file.
    pub id: VersionId,
    /// The file's content and metadata.
    pub snapshot: LocalSnapshot,
}

impl OldVersion {
    /// Returns the time at which this version was created, if the file system records it. `None` for a version that
    /// is a copy, since a copy is created when the file is replaced.
    #[must_use]
    pub fn created(&self) -> Option<Duration> {
        let is_earlier = |created: &Duration| *created + COARSEST_CLOCK < self.id.replaced_at();
        self.snapshot.created().filter(is_earlier)
    }
}

/// Longest time by which a file system's clock is behind the system's.
const COARSEST_CLOCK: Duration = Duration::from_millis(20);

impl OldVersions {
    /// Returns the versions of the volume `name` of `context`; `None` if the volume keeps no versions.
    ///
    /// # Errors
    /// The system's error.
    pub fn for_volume(name: &Name, context: &StoreContext) -> Result<Option<Self>, StoreError> {
        let path = volume_path(name);
        Self::for_root(&path, context, None, Durability::None).at(LIST, &RelPath::root())
    }

    /// Returns the versions for a store with the root `root`, at `path`. `None` if the volume keeps no versions.
    pub(crate) fn for_root(
        path: &Path,
        context: &StoreContext,
        root: Option<&Dir>,
        durability: Durability,
    ) -> Result<Option<Self>, Errno> {
        let Some((volume, history, way)) = kept_volume(path, &context.shared)? else {
            return Ok(None);
        };
        let below = match root.and_then(|root| below(&volume, root)) {
            Some(below) => below,
            None => {
                let names = way.as_os_str().as_bytes().split(|byte| *byte == b'/');
                let names: Vec<_> = names.filter(|name| !matches!(*name, b"" | b".")).collect();
                RelPath::parse(&names.join(&b'/')).map_err(|_| Errno::INVAL)?
            }
        };
        let touched = Touched::new(durability, &volume);
        let quota = context.quota_at(path);
        Ok(Some(Self { volume, history, below, touched, quota }))
    }

    /// Opens the directory of all versions.
    pub(super) fn open_all_versions(&self) -> Result<Dir, Errno> {
        self.volume
            .open_dir(&RelPath::root().join(&own_name()).map_err(|_| Errno::INVAL)?, Use::Read)
    }

    /// Lists the versions of `file`, newest first. Leaves out a version that is the present file itself.
    ///
    /// # Errors
    /// The versions cannot be read.
    pub fn list(&self, file: &RelPath) -> Result<Vec<OldVersion>, StoreError> {
        let path = self.path_in_volume(file).at(LIST, file)?;
        let dir = match self.open_all_versions().and_then(|all| all.open_dir(&path, Use::Read)) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            opened => opened.at(LIST, file)?,
        };
        let mut ids = ids(&dir).at(LIST, file)?;
        ids.reverse();
        let open = |id: VersionId| match self.open_in(&dir, file, id) {
            Err(StoreError::NotFound { .. } | StoreError::NotAFile { .. }) => None,
            opened => Some(opened.map(|snapshot| OldVersion { id, snapshot })),
        };
        let opened = ids.into_iter().filter_map(open);
        let present = self.inode_in_volume(&path);
        let is_old = |version: &Result<OldVersion, StoreError>| match (version, present) {
            (Ok(version), Some(present)) => version.snapshot.stamp().inode() != present,
            _ => true,
        };
        opened.filter(is_old).collect()
    }

    /// Opens the version `id` of `file`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such version, or it has expired.
    pub fn open(&self, file: &RelPath, id: VersionId) -> Result<LocalSnapshot, StoreError> {
        let path = self.path_in_volume(file).at(OPEN, file)?;
        let dir = self
            .open_all_versions()
            .and_then(|all| all.open_dir(&path, Use::Pass))
            .at(OPEN, file)?;
        self.open_in(&dir, file, id)
    }

    fn open_in(
        &self,
        dir: &Dir,
        file: &RelPath,
        id: VersionId,
    ) -> Result<LocalSnapshot, StoreError> {
        LocalSnapshot::open(dir, &id.name(), file, MetaMask::default())
            .map(LocalSnapshot::allowing_new_names)
    }

    /// Removes versions beyond the age or number to keep, and empty directories.
    ///
    /// # Errors
    /// Versions cannot be read or removed.
    pub fn expire(&self) -> Result<(), StoreError> {
        let all = match self.open_all_versions() {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened.at(EXPIRE, &RelPath::root())?,
        };
        let (mut dirs, mut next) = (vec![RelPath::root()], 0);
        while let Some(path) = dirs.get(next).cloned() {
            next += 1;
            let dir = match all.open_dir(&path, Use::Read) {
                Err(Errno::NOENT) => continue,
                opened => opened.at(EXPIRE, &path)?,
            };
            let mut names = Vec::new();
            dir.for_each_name(|name| names.extend(Name::new(name))).at(EXPIRE, &path)?;
            let is_dir = |name: &Name| dir.stat(name).is_ok_and(|stat| file_type(&stat).is_dir());
            dirs.extend(names.iter().filter(|name| is_dir(name)).flat_map(|name| path.join(name)));
            let _turn = lock(path_lock(&path));
            self.remove_expired(&dir, &ids(&dir).at(EXPIRE, &path)?).at(EXPIRE, &path)?;
        }
        // Directories with versions stay.
        for (above, name) in dirs.iter().rev().filter_map(RelPath::split_last) {
            let _ = all.open_dir(&above, Use::Pass).and_then(|above| above.remove_dir(&name));
        }
        Ok(())
    }

    /// Flushes the directories that got versions since the last flush.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        match self.open_all_versions() {
            Ok(all) => self.touched.flush(&all),
            Err(_) => Ok(()),
        }
    }

    /// Converts a path in the store to a path in the volume.
    pub(crate) fn path_in_volume(&self, path: &RelPath) -> Result<RelPath, Errno> {
        let names = [self.below.as_bytes(), path.as_bytes()];
        let names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
        RelPath::parse(&names.join(&b'/')).map_err(|_| Errno::NAMETOOLONG)
    }

    /// Returns the path in the volume of the open directory `dir`. `None` outside of the volume.
    pub(crate) fn path_of_dir(&self, dir: &Dir) -> Option<RelPath> {
        below(&self.volume, dir)
    }

    /// Returns the inode of the entry at `path` in the volume.
    fn inode_in_volume(&self, path: &RelPath) -> Option<Inode> {
        let (above, name) = path.split_last()?;
        let dir = self.volume.open_dir(&above, Use::Pass).ok()?;
        dir.stat_if_exists(&name).ok()?.as_ref().map(inode_of)
    }

    /// Opens the directory with the versions of `path`, a path in the volume. Creates missing directories.
    pub(crate) fn open_or_create(&self, path: &RelPath) -> Result<Dir, Errno> {
        let make = |dir: &Dir, name: &Name| match dir.make_dir(name, Mode::RWXU) {
            Err(Errno::EXIST) => Ok(false),
            made => made.map(|()| true),
        };
        let all = match self.open_all_versions() {
            Err(Errno::NOENT) => {
                if make(&self.volume, &own_name())? && self.touched.is_durable() {
                    self.volume.flush()?;
                }
                self.open_all_versions()?
            }
            opened => opened?,
        };
        match all.open_dir(path, Use::Read) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let (mut held, mut at) = (all, RelPath::root());
        for name in path.components() {
            let name = Name::new(name).map_err(|_| Errno::INVAL)?;
            if make(&held, &name)? {
                self.touched.add(&at);
            }
            let below = RelPath::root().join(&name).map_err(|_| Errno::NAMETOOLONG)?;
            held = held.open_dir(&below, Use::Read)?;
            at = at.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
        }
        Ok(held)
    }

    /// Removes expired versions in `dir`, from the oldest to the newest. No other code removes versions.
    pub(crate) fn remove_expired(&self, dir: &Dir, ids: &[VersionId]) -> Result<(), Errno> {
        let History { keep, clock } = &self.history;
        let gone = expired_count(*keep, ids, clock.trusted_time(Clocks::now()));
        ids[..gone].iter().try_for_each(|id| {
            let was = dir.stat(&id.name());
            match dir.remove_file(&id.name()) {
                Err(Errno::NOENT) => return Ok(()),
                removed => removed?,
            }
            if let (Ok(was), Some(quota)) = (was, &self.quota) {
                quota.subtract_removed(&was);
            }
            Ok(())
        })
    }
}

/// Returns the name of the directory of all versions.
fn own_name() -> Name {
    Name::new(VERSIONS_NAME).expect("it is a name")
}

/// Returns the versions in `dir`, from the oldest to the newest.
pub(crate) fn ids(dir: &Dir) -> Result<Vec<VersionId>, Errno> {
    let mut ids = Vec::new();
    dir.for_each_name(|name| ids.extend(VersionId::named(name)))?;
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the path of `root` in `volume`, from the links in `/proc`, whatever path opened `root`.
fn below(volume: &Dir, root: &Dir) -> Option<RelPath> {
    let [volume, root] = [volume, root]
        .map(|dir| rustix::fs::readlinkat(CWD, &*proc_path(dir.as_fd()), Vec::new()).ok());
    let (volume, root) = (volume?.into_bytes(), root?.into_bytes());
    let [volume, root] = [&volume, &root].map(|path| Path::new(OsStr::from_bytes(path)));
    RelPath::parse(root.strip_prefix(volume).ok()?.as_os_str().as_bytes()).ok()
}

/// Returns the number of expired versions, counted from the oldest. No version expires by age while the time is not
/// believed.
fn expired_count(keep: KeepVersions, ids: &[VersionId], believed: Option<Duration>) -> usize {
    match (keep, believed) {
        (KeepVersions::Number(most), _) => ids.len().saturating_sub(most),
        (KeepVersions::For(_), None) => 0,
        (KeepVersions::For(age), Some(now)) => {
            let since = now.saturating_sub(age);
            ids.iter().take_while(|id| id.replaced_at() < since).count()
        }
    }
}

/// Returns the lock for replacing or removing the entry at `path`.
pub(crate) fn path_lock(path: &RelPath) -> &'static Mutex<()> {
    static TURNS: [Mutex<()>; 256] = [const { Mutex::new(()) }; 256];
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    &TURNS[(hasher.finish() % TURNS.len() as u64) as usize]
}

pub(crate) const KEEP: &str = "keep a version of";
pub(super) const LIST: &str = "list versions of";
const OPEN: &str = "open a version of";
const EXPIRE: &str = "expire versions of";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_clock_that_is_believed_nothing_goes_by_its_age() {
        let second = |second: u64| VersionId(second * 1_000_000_000);
        let ids = [1, 50, 100].map(second);
        let (number, age) = (KeepVersions::Number(2), KeepVersions::For(Duration::from_secs(10)));
        let at = |secs| Some(Duration::from_secs(secs));
        assert_eq!([None, at(0), at(1_000)].map(|now| expired_count(number, &ids, now)), [1, 1, 1]);
        assert_eq!(expired_count(age, &ids, None), 0);
        assert_eq!(
            [5, 12, 60, 61, 1_000].map(|now| expired_count(age, &ids, at(now))),
            [0, 1, 1, 2, 3]
        );
    }
}
