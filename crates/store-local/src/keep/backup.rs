//! Keeps old versions under other names before a replacement or removal (`--backup`).
//!
//! A backup replaces an older backup or takes a free name, but replaces no listed entry, and no entry that this run
//! created. Below the root, and where the root lies in the backup tree, a backup replaces only a file at its exact
//! place. It replaces no directory, and no file on the way: these may hold anything. In a separate backup tree, all
//! older entries give way. If a place is not free, the suffix is appended once more.
//!
//! The old version gets its second name while it still has its first, so that one of the two always exists. On another
//! file system, or if the link is refused, a copy gets that name. The copy is complete, and flushed if the run flushes,
//! before the old version is touched. An old version that cannot be copied either, most often for lack of read
//! permission, is moved. Its path is then empty for a moment, and it is moved back if the new version fails. After a
//! kill at that moment, the old version is with the backups.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use deltic_tree::path::BadPath;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, Mode, Stat};
use rustix::io::Errno;

use crate::handles::dir::{Dir, Use, set_mode_of_open};
use crate::handles::place::Place;
use crate::handles::stat::{file_type, inode_of};
use crate::kernel::errno::{At, store_error};
use crate::kernel::lock;
use crate::roots::named::NamedDir;
use deltic_store::StoreError;

/// The place where old versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPlace {
    /// A separate tree for old versions, which is not the root, and is created if missing; `None` for backups beside
    /// the new versions.
    pub dir: Option<NamedDir>,
    /// Suffix of the names of backups.
    pub suffix: Box<[u8]>,
    /// The path of the backup tree, for a tree below the root. The root itself if there is no separate tree.
    pub below: Option<RelPath>,
    /// True if other entries in the tree must stay: the root lies in the tree, or the client may not delete any entry.
    pub mixed: bool,
    /// True if symlinks that may lead out of the tree are not kept.
    pub drops_unsafe_links: bool,
}

/// Paths that entries of the run use although the path could be that of a backup. No backup may replace these entries,
/// whether they exist or are still to be created.
#[derive(Debug, Default)]
pub(crate) struct ListedPaths {
    names: RwLock<HashSet<RelPath>>,
    given: Mutex<HashMap<RelPath, RelPath>>,
}

/// Paths that an entry of the run or an old version has taken.
pub(crate) struct TakenPaths<'a> {
    /// The root of the run, to which all paths are relative.
    root: &'a Dir,
    /// Listed paths.
    names: RwLockReadGuard<'a, HashSet<RelPath>>,
    /// Places for backups that old versions have claimed, each with the path of the old version. Contains only places
    /// that several old versions could claim, and directories of the backup tree, which claim their own place.
    given: &'a Mutex<HashMap<RelPath, RelPath>>,
}

impl ListedPaths {
    /// Records each of `paths` at which `backup` could keep an old version. Called before the run looks up these paths.
    /// Waits for any backup that is being made at this moment.
    pub(crate) fn note_paths(&self, backup: &BackupPlace, paths: &[RelPath]) {
        let mut taken = paths.iter().filter(|path| backup.may_hold_old(path)).peekable();
        if taken.peek().is_some() {
            let mut listed = self.names.write().unwrap_or_else(PoisonError::into_inner);
            listed.extend(taken.cloned());
        }
    }

    /// Returns the taken paths of the run, which changes the tree below `root`.
    pub(crate) fn taken_paths<'a>(&'a self, root: &'a Dir) -> TakenPaths<'a> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        TakenPaths { root, names, given: &self.given }
    }
}

impl TakenPaths<'_> {
    fn has_noted(&self, path: &RelPath) -> bool {
        self.names.contains(path)
    }

    /// True if the old version at `of` may be kept at `path`: no other old version has claimed this place. If `meets`
    /// is true, because other old versions could be kept at the same place, claims the place for `of`.
    fn claim(&self, path: &RelPath, of: &RelPath, meets: bool) -> bool {
        let mut given = lock(self.given);
        match given.get(path) {
            Some(one) => return one == of,
            None if meets => given.insert(path.clone(), of.clone()),
            None => None,
        };
        true
    }

    /// Withdraws the claim of `of` on the place `path`, which is not free after all.
    fn withdraw_claim(&self, path: &RelPath, of: &RelPath) {
        let mut given = lock(self.given);
        if given.get(path) == Some(of) {
            given.remove(path);
        }
    }
}

/// Reason why an old version leaves its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// Another version takes its path.
    Replaced,
    /// The path stays empty. If the entry is itself a backup, it is deleted for good.
    Removed,
}

/// Names of an old version after it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptNames {
    /// Its own path, and the name of the backup.
    Too,
    /// Only the name of the backup: the old version was moved there.
    Alone,
}

impl BackupPlace {
    /// Returns the first free spot for the old version at `place`.
    pub(crate) fn first_free_spot<'a>(
        &self,
        place: &'a Place,
        taken: &TakenPaths<'_>,
    ) -> Result<BackupSpot<'a>, StoreError> {
        let bad_name = || StoreError::BadName { action: BACK_UP, path: place.path.clone() };
        let mut of = place.path.clone();
        loop {
            let (above, name) = of.split_last().ok_or_else(bad_name)?;
            let name = [name.as_bytes(), &self.suffix].concat();
            let name = Name::new(&name).map_err(|_| bad_name())?;
            let path = above.join(&name).and_then(|path| self.path_in_root(&path));
            let path = path.map_err(|_| bad_name())?;
            // A suffix may turn an ordinary name into a private name.
            place.dir.check_path(BACK_UP, &path)?;
            let meets = of != place.path || self.may_share_place(&of);
            if !taken.has_noted(&path) && taken.claim(&path, &place.path, meets) {
                let spot = self.free_spot(taken, place, &above, name);
                if let Some(spot) = spot.at(BACK_UP, &place.path)? {
                    return Ok(spot);
                }
                taken.withdraw_claim(&path, &place.path);
            }
            if path == of {
                return Err(store_error(BACK_UP, &place.path, Errno::EXIST));
            }
            of = path;
        }
    }

    /// Returns the path below the root for a `path` in the backup tree. Returns `path` itself if the tree is not below
    /// the root.
    fn path_in_root(&self, path: &RelPath) -> Result<RelPath, BadPath> {
        match &self.below {
            Some(below) if !below.is_root() => {
                RelPath::parse(&[below.as_bytes(), path.as_bytes()].join(&b'/'))
            }
            _ => Ok(path.clone()),
        }
    }

    /// Returns where to back up the old version at `place`: as `name` in the directory `above`. Returns `None` if an
    /// entry there, or on the way there, must not be replaced.
    fn free_spot<'a>(
        &self,
        taken: &TakenPaths<'_>,
        place: &'a Place,
        above: &RelPath,
        name: Name,
    ) -> Result<Option<BackupSpot<'a>>, Errno> {
        let tree = match &self.dir {
            // Old versions of the entries of a directory of that name are kept below this path.
            Some(_)
                if !self.suffix.is_empty()
                    && is_dir_on_the_way(taken.root, place, above, &name)? =>
            {
                return Ok(None);
            }
            Some(dir) => {
                let tree = dir.make_with_parents(Mode::from_raw_mode(0o777))?;
                match self.open_mirror_dir(tree, taken, above, place)? {
                    None => return Ok(None),
                    tree => tree,
                }
            }
            None => None,
        };
        let spot = BackupSpot { tree, beside: &place.dir, name };
        let is_free = match spot.dir_of_spot().stat_if_exists(&spot.name)? {
            Some(stat) if file_type(&stat).is_dir() => self.holds_backups_only(),
            // A backup in the place of the old version itself would destroy the old version.
            Some(stat) => !spot.is_same_entry(place, &stat)?,
            None => true,
        };
        Ok(is_free.then_some(spot))
    }

    /// Opens the directory `above` of `tree` for the old version at `place`. Missing directories are created with the
    /// modes of their counterparts below the root. `None` if an entry on the way must stay.
    fn open_mirror_dir(
        &self,
        tree: Dir,
        taken: &TakenPaths<'_>,
        above: &RelPath,
        place: &Place,
    ) -> Result<Option<Dir>, Errno> {
        let further = above.components().count() - place.dir_path.components().count();
        let (mut held, mut at, mut like) = (tree, RelPath::root(), RelPath::root());
        for (n, name) in above.components().enumerate() {
            let name = Name::new(name).map_err(|_| Errno::INVAL)?;
            let join = |dir: &RelPath| dir.join(&name).map_err(|_| Errno::NAMETOOLONG);
            at = join(&at)?;
            like = if n == further { join(&RelPath::root())? } else { join(&like)? };
            if !self.can_hold_dir(&held, &name, &at, taken)? {
                return Ok(None);
            }
            let made = match held.make_dir(&name, Mode::RWXU) {
                Err(Errno::EXIST) => false,
                made => made.map(|()| true)?,
            };
            let below = join(&RelPath::root())?;
            held = held.open_dir(&below, if made { Use::Read } else { Use::Pass })?;
            if made {
                set_mode_like(&held, taken.root.open_dir(&like, Use::Pass))?;
            }
        }
        Ok(Some(held))
    }

    /// True if `name` of `dir`, at `path` in the tree, is a directory, or free for a new directory.
    fn can_hold_dir(
        &self,
        dir: &Dir,
        name: &Name,
        path: &RelPath,
        taken: &TakenPaths<'_>,
    ) -> Result<bool, Errno> {
        let path = self.path_in_root(path).map_err(|_| Errno::NAMETOOLONG)?;
        if self.below.is_none() && !taken.claim(&path, &path, self.may_share_place(&path)) {
            return Ok(false);
        }
        match dir.stat_if_exists(name)? {
            Some(stat) if file_type(&stat).is_dir() => Ok(true),
            Some(_) if self.holds_backups_only() => dir.remove_file(name).map(|()| true),
            Some(_) => Ok(false),
            None => Ok(!taken.has_noted(&path)),
        }
    }

    /// True if an old version is, or could be, kept at `path` below the root.
    pub(crate) fn may_hold_old(&self, path: &RelPath) -> bool {
        let tree = self.below.as_ref().filter(|below| !below.is_root());
        let is_in_tree = tree.is_some_and(|tree| path.starts_with(tree));
        is_in_tree || self.is_beside() && self.has_suffix(path)
    }

    /// Returns the name whose backup has the name `name` in the same directory.
    pub(crate) fn backed_up_name(&self, name: &Name) -> Option<Name> {
        let stem = name.as_bytes().strip_suffix(&*self.suffix)?;
        Name::new(stem).ok().filter(|_| self.is_beside())
    }

    /// True if no run may delete `path`: it could be a backup, or is, contains or lies in the backup tree.
    pub(crate) fn protects(&self, path: &RelPath) -> bool {
        self.may_hold_old(path) || self.below.as_ref().is_some_and(|below| below.starts_with(path))
    }

    /// True if the backups of two different paths, one of them `path`, could have the same place.
    fn may_share_place(&self, path: &RelPath) -> bool {
        self.may_hold_old(path) || self.below.is_none() && self.has_suffix(path)
    }

    fn has_suffix(&self, path: &RelPath) -> bool {
        !self.suffix.is_empty() && path.as_bytes().ends_with(&self.suffix)
    }

    /// True if old versions are kept beside the new versions.
    pub(crate) fn is_beside(&self) -> bool {
        self.dir.is_none()
    }

    /// True if the backup tree holds backups only.
    fn holds_backups_only(&self) -> bool {
        self.below.is_none() && !self.mixed
    }

    /// Removes the older backup at `spot`, then calls `put` with the directory and the name of `spot`.
    pub(crate) fn put_backup<T>(
        &self,
        root: &Dir,
        place: &Place,
        spot: &BackupSpot<'_>,
        put: impl FnOnce(&Dir, &Name) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (dir, name) = (spot.dir_of_spot(), &spot.name);
        if self.remove_old_dir(root, place, spot)? {
            dir.remove_file(name)?;
        }
        put(dir, name)
    }

    /// Removes an older directory at `spot`. Returns true if a file is there, which stays for now.
    pub(crate) fn remove_old_dir(
        &self,
        root: &Dir,
        place: &Place,
        spot: &BackupSpot<'_>,
    ) -> Result<bool, Errno> {
        let (dir, name) = (spot.dir_of_spot(), &spot.name);
        match dir.stat_if_exists(name)? {
            Some(stat) if !file_type(&stat).is_dir() => Ok(true),
            Some(_) if self.holds_backups_only() => {
                remove_all(dir, name, root, &place.dir).map(|()| false)
            }
            Some(_) => Err(Errno::EXIST),
            None => Ok(false),
        }
    }
}

/// A place for the backup of one old version.
pub(crate) struct BackupSpot<'a> {
    /// The directory; `None` for the directory of the new version.
    tree: Option<Dir>,
    beside: &'a Dir,
    pub(crate) name: Name,
}

impl BackupSpot<'_> {
    pub(crate) fn dir_of_spot(&self) -> &Dir {
        self.tree.as_ref().unwrap_or(self.beside)
    }

    /// Moves the file `name` of `dir` to this place. With `over`, an older file may be replaced.
    pub(crate) fn move_here(&self, dir: &Dir, name: &Name, over: bool) -> Result<(), Errno> {
        match over {
            true => dir.rename(name, self.dir_of_spot(), &self.name),
            false => dir.rename_new(name, self.dir_of_spot(), &self.name),
        }
    }

    /// True if a file is at this place. For a [torn](is_torn) file, this is the old version that an earlier run kept,
    /// which must not be replaced.
    pub(crate) fn has_file(&self) -> Result<bool, Errno> {
        Ok(self
            .dir_of_spot()
            .stat_if_exists(&self.name)?
            .is_some_and(|stat| file_type(&stat).is_file()))
    }

    /// True if this place and `place` are one directory entry under two paths. `is` is the state of the entry here.
    fn is_same_entry(&self, place: &Place, is: &Stat) -> Result<bool, Errno> {
        let own = place.dir.stat_if_exists(&place.name)?;
        if own.is_none_or(|own| inode_of(&own) != inode_of(is)) {
            return Ok(false);
        }
        let is_here = || -> Result<bool, Errno> {
            let dirs = [fs::fstat(self.dir_of_spot())?, fs::fstat(&place.dir)?];
            Ok(self.name == place.name && inode_of(&dirs[0]) == inode_of(&dirs[1]))
        };
        Ok(is.st_nlink == 1 || is_here()?)
    }
}

/// Gives the directory `made` the mode of `other`, plus all bits for the owner. `other` may be missing.
fn set_mode_like(made: &Dir, other: Result<Dir, Errno>) -> Result<(), Errno> {
    match other {
        Ok(other) => {
            let mode = fs::fstat(other)?.st_mode & 0o7777;
            set_mode_of_open(made, Mode::from_raw_mode(mode | 0o700), made.bounds())
        }
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// True if `name` is in the directory of `place` and is a directory there.
fn is_dir_on_the_way(
    root: &Dir,
    place: &Place,
    above: &RelPath,
    name: &Name,
) -> Result<bool, Errno> {
    if *above != place.dir_path {
        return Ok(false);
    }
    let path = above.join(name).map_err(|_| Errno::NAMETOOLONG)?;
    let is_dir = place.dir.stat_if_exists(name)?.is_some_and(|stat| file_type(&stat).is_dir());
    Ok(is_dir || root.keeps_link(&path))
}

/// Removes the directory `name` of `dir`, which holds older backups, with all entries below. Fails if the directory
/// holds `root` or a mount point, or is on another device than `old`.
fn remove_all(dir: &Dir, name: &Name, root: &Dir, old: &Dir) -> Result<(), Errno> {
    let root = inode_of(&fs::fstat(root)?);
    let (mut dirs, mut files) =
        (vec![RelPath::parse(name.as_bytes()).map_err(|_| Errno::INVAL)?], Vec::new());
    let device = fs::fstat(dir)?.st_dev;
    if fs::fstat(old)?.st_dev != device {
        return Err(Errno::XDEV);
    }
    let mut next = 0;
    while let Some(path) = dirs.get(next).cloned() {
        next += 1;
        let held = dir.open_dir(&path, Use::Read)?;
        let inode = inode_of(&fs::fstat(&held)?);
        if inode == root || inode.device != device {
            return Err(Errno::BUSY);
        }
        let mut names = Vec::new();
        held.for_each_name(|name| names.push(Name::new(name)))?;
        for name in names {
            let name = name.map_err(|_| Errno::INVAL)?;
            let below = path.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
            let is_dir = file_type(&held.stat(&name)?).is_dir();
            if is_dir { dirs.push(below) } else { files.push(below) }
        }
    }
    let above = |path: &RelPath| {
        let (above, name) = path.split_last().expect("it has a name");
        dir.open_dir(&above, Use::Pass).map(|above| (above, name))
    };
    for path in files {
        let (above, name) = above(&path)?;
        above.remove_file(&name)?;
    }
    for path in dirs.iter().rev() {
        let (above, name) = above(path)?;
        above.remove_dir(&name)?;
    }
    Ok(())
}

pub(crate) const BACK_UP: &str = "back up";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_nobodys_to_delete() {
        let path = |path: &str| RelPath::parse(path.as_bytes()).unwrap();
        let protects = |below: Option<&str>, of: &str| {
            let dir = NamedDir::new("/dst/old/kept", crate::handles::dir::Trust::Ours);
            let dir = below.is_none_or(|below| !below.is_empty()).then_some(dir);
            let (suffix, below) = ((*b"~").into(), below.map(path));
            let (mixed, drops_unsafe_links) = (false, false);
            let backup = BackupPlace { dir, suffix, below, mixed, drops_unsafe_links };
            backup.protects(&path(of))
        };
        assert!(protects(Some(""), "a/b~") && !protects(Some(""), "a~/b"));
        // A separate tree is protected, with the entries below and the directories above.
        let kept = Some("old/kept");
        assert!(["old", "old/kept", "old/kept/a"].iter().all(|path| protects(kept, path)));
        assert!(!protects(kept, "old/other") && !protects(kept, "a~"));
        assert!(!protects(None, "old/kept/a~"));
    }
}
