//! Place of an entry: the held handle of its directory, and its name.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use deltic_tree::meta::Inode;
use deltic_tree::{Meta, Name, RelPath};
use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::io::Errno;

use super::stat::{Stamp, file_type, inode_of};

use crate::handles::dir::{Dir, Use};
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::kernel::system::System;
use deltic_store::{StoreError, Version};

/// `AT_STATX_FORCE_SYNC`, which rustix lacks for musl.
const STATX_FORCE_SYNC: AtFlags = AtFlags::from_bits_retain(0x2000);

/// An entry, existing or not, in an existing directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: RelPath,
    pub(crate) dir: Arc<Dir>,
    pub(crate) dir_path: RelPath,
    pub(crate) name: Name,
}

impl Place {
    /// Returns the place of `path` below `root`. Errors name `action`.
    pub(crate) fn parent_of(
        root: &Dir,
        action: &'static str,
        path: &RelPath,
    ) -> Result<Self, StoreError> {
        root.check_path(action, path)?;
        let bad_name = || StoreError::BadName { action, path: path.clone() };
        let (dir_path, name) = path.split_last().ok_or_else(bad_name)?;
        let dir = root.open_dir(&dir_path, Use::Pass).at(action, path)?;
        Ok(Self { path: path.clone(), dir: Arc::new(dir), dir_path, name })
    }

    /// Returns the place of `path` below `root`. If `path` is in the directory of `self`, both places share the
    /// directory handle.
    pub(crate) fn next_place(
        &self,
        root: &Dir,
        action: &'static str,
        path: &RelPath,
    ) -> Result<Self, StoreError> {
        match path.split_last() {
            Some((dir_path, name)) if dir_path == self.dir_path => {
                root.check_path(action, path)?;
                Ok(Self { path: path.clone(), dir: Arc::clone(&self.dir), dir_path, name })
            }
            _ => Self::parent_of(root, action, path),
        }
    }

    /// True if [`rename_into_place`](Self::rename_into_place) would fail, because a directory that is not empty is at this place. A directory
    /// that may not be listed counts as empty.
    pub(crate) fn has_nonempty_dir(&self) -> Result<bool, Errno> {
        let here = RelPath::root().join(&self.name).map_err(|_| Errno::NAMETOOLONG)?;
        let mut is_full = false;
        let listed = self
            .dir
            .open_dir(&here, Use::Read)
            .and_then(|dir| dir.for_each_name(|_| is_full = true));
        match listed {
            Ok(()) => Ok(is_full),
            Err(Errno::NOTDIR | Errno::NOENT | Errno::ACCESS) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Waits until no other thread is changing the entry at this place.
    pub(crate) fn lock_entry(&self) -> Result<Turn<'_>, Errno> {
        Ok(Turn { place: self, _guard: lock(&TURNS[self.lock_index()?]) })
    }

    /// Waits until no other thread is changing the entry at this place or the entry at `other`.
    pub(crate) fn lock_entries(&self, other: &Self) -> Result<Vec<MutexGuard<'static, ()>>, Errno> {
        // In the order of numbers, so that two threads never wait for each other.
        let numbers = BTreeSet::from([self.lock_index()?, other.lock_index()?]);
        Ok(numbers.into_iter().map(|number| lock(&TURNS[number])).collect())
    }

    /// Returns the index in `TURNS` of the entry at this place.
    fn lock_index(&self) -> Result<usize, Errno> {
        let number = inode_of(&fs::fstat(&self.dir)?).number;
        let hash = (self.name.as_bytes().iter())
            .fold(number, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        Ok((hash % TURNS.len() as u64) as usize)
    }

    /// Creates the hard link `name` in `dir` to the file `inode` at this place.
    ///
    /// # Errors
    /// - `STALE` if another file is here by now.
    /// - `OPNOTSUPP` if each hard link of a file has its own inode number, as on some FUSE file systems: the number
    ///   does not show which file has the new name.
    pub(crate) fn link_to(&self, dir: &Dir, name: &Name, inode: Inode) -> Result<(), Errno> {
        self.dir.link(&self.name, dir, name)?;
        let has = |dir: &Dir, name| {
            Ok(dir.stat_if_exists(name)?.is_some_and(|is| inode_of(&is) == inode))
        };
        if has(dir, name)? {
            return Ok(());
        }
        let why = if has(&self.dir, &self.name)? { Errno::OPNOTSUPP } else { Errno::STALE };
        dir.remove_file(name)?;
        // The kernel's cached metadata may be older than the link. It is refreshed here, so that it does not change
        // while another thread copies the file.
        let flags = AtFlags::SYMLINK_NOFOLLOW | STATX_FORCE_SYNC;
        let _ = fs::statx(&self.dir, self.name.as_bytes(), flags, StatxFlags::BASIC_STATS);
        Err(why)
    }

    /// Removes the entry at this place, if unchanged since the listing (`is`). `found` is the present metadata of the
    /// entry, or of the entry behind the symlink. A missing entry is no error: the list may contain two names of one
    /// entry.
    pub(crate) fn remove_unchanged(
        &self,
        is: &Meta,
        found: Result<Meta, Errno>,
    ) -> Result<(), StoreError> {
        let found = match found {
            Err(Errno::NOENT) => return Ok(()),
            found => found.at("remove", &self.path)?,
        };
        let same = found.kind == is.kind && found.len == is.len && found.modified == is.modified;
        if !same || found.is_dir() {
            return Err(StoreError::Changed { path: self.path.clone() });
        }
        match self.dir.remove_file(&self.name) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed.at("remove", &self.path),
        }
    }

    /// Renames `staged` of `from` to this place, over any entry but a directory that is not empty.
    pub(crate) fn rename_into_place(&self, from: &Dir, staged: &Name) -> Result<(), Errno> {
        match from.rename(staged, &self.dir, &self.name) {
            Err(Errno::ISDIR) => {
                self.dir.remove_dir(&self.name)?;
                from.rename(staged, &self.dir, &self.name)
            }
            landed => landed,
        }
    }
}

/// Locks of entries, by a hash of directory and name.
static TURNS: [Mutex<()>; 256] = [const { Mutex::new(()) }; 256];

/// The right to change the entry at a place. No other thread of this process changes the entry until this value is
/// dropped.
pub(crate) struct Turn<'a> {
    pub(crate) place: &'a Place,
    _guard: MutexGuard<'static, ()>,
}

/// The way in which a staged file got into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    /// By a rename.
    Itself,
    /// By a copy: the file in place is another inode.
    Copy,
}

/// Suffix of the names of staged files.
pub(crate) const STAGED_SUFFIX: &[u8] = b".tmp";
/// Action in errors of a commit.
pub(crate) const COMMIT: &str = "put in place";

/// Looks up the versions of files without opening the files.
#[derive(Default)]
pub(crate) struct VersionLookup {
    /// The last directory, and its device if that device has reliable versions.
    last: Option<(RelPath, Option<u64>)>,
}

impl VersionLookup {
    /// Returns the version of the regular file at `place`, if versions on its device are reliable.
    pub(crate) fn of(&mut self, place: &Place) -> Option<Version> {
        let device = match &self.last {
            Some((dir, device)) if *dir == place.dir_path => *device,
            _ => {
                let device = System::of(&place.dir).device_if_reliable();
                self.last = Some((place.dir_path.clone(), device));
                device
            }
        };
        let stat = place.dir.stat(&place.name).ok()?;
        let lasts = file_type(&stat).is_file() && device == Some(stat.st_dev);
        lasts.then(|| Stamp::of(&stat).version())
    }
}

/// True if `path` is an entry directly in `dir`. False if `dir` is the root.
pub(crate) fn is_right_in(dir: &RelPath, path: &RelPath) -> bool {
    let name = path.as_bytes().strip_prefix(dir.as_bytes());
    let name = name.and_then(|rest| rest.strip_prefix(b"/"));
    name.is_some_and(|name| !name.is_empty() && !name.contains(&b'/'))
}
