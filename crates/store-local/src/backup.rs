//! Old versions under other names, before they are replaced or removed (`--backup`).
//!
//! What they take the place of is an older backup, or nothing: never what is listed, nor what this run put there. Below
//! the root that is a file alone, right where the old version comes, for nobody knows what else is in a directory, or
//! on the way to one; so it is in what the root is in. In a tree elsewhere, which is theirs, all that is older gives
//! way. A place that is not free is passed by for one further.
//!
//! The old version gets its second name while it still has its first: at no time is there none of the two. On another
//! file system, or where it can have no second name or we may not give it one, a copy of it gets that name, which is
//! complete, and flushed where that is asked for, before anything happens to the old version. One that is replaced and
//! that we cannot copy either, most often as we may not read it, is moved: then for a moment nothing is in its place,
//! and should the new version not get there, it is moved back. After a kill just then it is found where backups are.

mod away;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use deltic_tree::path::BadPath;
use deltic_tree::{Name, RelPath};
use rustix::fs::{self, Mode, Stat};
use rustix::io::Errno;

use super::named::NamedDir;
use super::place::Place;
use super::snapshot::{file_type, inode_of};
use crate::dir::{Dir, Use, check_path, set_mode_of_open};
use crate::errno::{At, store_error};
use crate::lock;
use deltic_store::StoreError;

/// Where old versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// A tree of their own, made where it is missing, which is not the root; else they are kept beside the new ones.
    pub dir: Option<NamedDir>,
    /// What is put behind their names.
    pub suffix: Box<[u8]>,
    /// Where that tree lies below the root, if it does; the root itself where there is none.
    pub below: Option<RelPath>,
    /// True if the root lies in that tree, and so most likely other things than old versions do.
    pub above: bool,
}

/// What a run was told of that stands, or will, where old versions could be kept: nothing else is to take its place.
#[derive(Debug, Default)]
pub(super) struct Listed {
    names: RwLock<HashSet<RelPath>>,
    given: Mutex<HashMap<RelPath, RelPath>>,
}

/// Places that are somebody's.
struct Taken<'a> {
    /// What is listed.
    names: RwLockReadGuard<'a, HashSet<RelPath>>,
    /// Of which paths the old versions are kept at places that others could come to; and, as their own, directories
    /// that another could.
    given: &'a Mutex<HashMap<RelPath, RelPath>>,
}

impl Listed {
    /// Notes what of `paths`, which are about to be looked at, could be the place of what `backup` keeps. What is on
    /// its way to such a place is there first.
    pub(super) fn note(&self, backup: &Backup, paths: &[RelPath]) {
        let mut taken = paths.iter().filter(|path| backup.has(path)).peekable();
        if taken.peek().is_some() {
            let mut listed = self.names.write().unwrap_or_else(PoisonError::into_inner);
            listed.extend(taken.cloned());
        }
    }

    fn taken(&self) -> Taken<'_> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Taken { names, given: &self.given }
    }
}

impl Taken<'_> {
    fn lists(&self, path: &RelPath) -> bool {
        self.names.contains(path)
    }

    /// True if `path` may be the place of the old version at `of`. Where others may come as well, which it `meets`, the
    /// place is its own from then on.
    fn gives(&self, path: &RelPath, of: &RelPath, meets: bool) -> bool {
        let mut given = lock(self.given);
        match given.get(path) {
            Some(one) => return one == of,
            None if meets => given.insert(path.clone(), of.clone()),
            None => None,
        };
        true
    }

    /// What was given is not free.
    fn take_back(&self, path: &RelPath, of: &RelPath) {
        let mut given = lock(self.given);
        if given.get(path) == Some(of) {
            given.remove(path);
        }
    }
}

/// Why an old version goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    /// Another takes its place.
    Replaced,
    /// Nothing does: then what is a backup itself goes for good.
    Removed,
}

/// Where an old version is once it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// With the backups, and in its place.
    Too,
    /// With the backups alone.
    Alone,
}

impl Backup {
    /// Where the old version at `place` is kept: the first place that is free.
    fn spot<'a>(
        &self,
        root: &Dir,
        place: &'a Place,
        taken: &Taken<'_>,
    ) -> Result<Spot<'a>, StoreError> {
        let bad_name = || StoreError::BadName { action: BACK_UP, path: place.path.clone() };
        let mut of = place.path.clone();
        loop {
            let (above, name) = of.split_last().ok_or_else(bad_name)?;
            let name = [name.as_bytes(), &self.suffix].concat();
            let name = Name::new(&name).map_err(|_| bad_name())?;
            let path = above.join(&name).and_then(|path| self.path_in_root(&path));
            let path = path.map_err(|_| bad_name())?;
            // A suffix may make a private name of an ordinary one.
            check_path(BACK_UP, &path)?;
            let meets = of != place.path || self.may_meet(&of);
            if !taken.lists(&path) && taken.gives(&path, &place.path, meets) {
                let spot = self.free((root, taken), place, (&above, name));
                if let Some(spot) = spot.at(BACK_UP, &place.path)? {
                    return Ok(spot);
                }
                taken.take_back(&path, &place.path);
            }
            if path == of {
                return Err(store_error(BACK_UP, &place.path, Errno::EXIST));
            }
            of = path;
        }
    }

    /// What `path` of the tree is called below the root; itself, where the tree is elsewhere.
    fn path_in_root(&self, path: &RelPath) -> Result<RelPath, BadPath> {
        match &self.below {
            Some(below) if !below.is_root() => {
                RelPath::parse(&[below.as_bytes(), path.as_bytes()].join(&b'/'))
            }
            _ => Ok(path.clone()),
        }
    }

    /// The spot `name` of `above` for the old version at `place`, unless something is there, or on the way, that stays.
    fn free<'a>(
        &self,
        (root, taken): (&Dir, &Taken<'_>),
        place: &'a Place,
        (above, name): (&RelPath, Name),
    ) -> Result<Option<Spot<'a>>, Errno> {
        let tree = match &self.dir {
            // What is in a directory of that name has its old versions in there.
            Some(_) if !self.suffix.is_empty() && leads_on(root, place, (above, &name))? => {
                return Ok(None);
            }
            Some(dir) => match self.mirror(
                dir.make_all(Mode::from_raw_mode(0o777))?,
                (root, taken),
                (above, place),
            )? {
                None => return Ok(None),
                tree => tree,
            },
            None => None,
        };
        let spot = Spot { tree, beside: &place.dir, name };
        let is_free = match spot.dir().find(&spot.name)? {
            Some(stat) if file_type(&stat).is_dir() => self.is_apart(),
            // It is no older one: nothing would be left.
            Some(stat) => !spot.is_of(place, &stat)?,
            None => true,
        };
        Ok(is_free.then_some(spot))
    }

    /// The directory `above` of `tree` for the old version at `place`; what is missing is made with the modes of the
    /// directories that this is in. None, if something is on the way that stays.
    fn mirror(
        &self,
        tree: Dir,
        (root, taken): (&Dir, &Taken<'_>),
        (above, place): (&RelPath, &Place),
    ) -> Result<Option<Dir>, Errno> {
        let further = above.components().count() - place.dir_path.components().count();
        let (mut held, mut at, mut like) = (tree, RelPath::root(), RelPath::root());
        for (n, name) in above.components().enumerate() {
            let name = Name::new(name).map_err(|_| Errno::INVAL)?;
            let join = |dir: &RelPath| dir.join(&name).map_err(|_| Errno::NAMETOOLONG);
            at = join(&at)?;
            like = if n == further { join(&RelPath::root())? } else { join(&like)? };
            if !self.clear_way((&held, &name), &at, taken)? {
                return Ok(None);
            }
            let made = match held.make_dir(&name, Mode::RWXU) {
                Err(Errno::EXIST) => false,
                made => made.map(|()| true)?,
            };
            let below = join(&RelPath::root())?;
            held = held.dir(&below, if made { Use::Read } else { Use::Pass })?;
            if made {
                set_mode_like(&held, root.dir(&like, Use::Pass))?;
            }
        }
        Ok(Some(held))
    }

    /// True if `name` of `dir`, which is `path` in the tree, is a directory, or free for one now.
    fn clear_way(
        &self,
        (dir, name): (&Dir, &Name),
        path: &RelPath,
        taken: &Taken<'_>,
    ) -> Result<bool, Errno> {
        let path = self.path_in_root(path).map_err(|_| Errno::NAMETOOLONG)?;
        if self.below.is_none() && !taken.gives(&path, &path, self.may_meet(&path)) {
            return Ok(false);
        }
        match dir.find(name)? {
            Some(stat) if file_type(&stat).is_dir() => Ok(true),
            Some(_) if self.is_apart() => dir.remove_file(name).map(|()| true),
            Some(_) => Ok(false),
            None => Ok(!taken.lists(&path)),
        }
    }

    /// True if old versions are kept at `path` below the root, or could be.
    pub(super) fn has(&self, path: &RelPath) -> bool {
        let tree = self.below.as_ref().filter(|below| !below.is_root());
        let is_in_tree = tree.is_some_and(|tree| path.starts_with(tree));
        is_in_tree || self.is_beside() && self.has_suffix(path)
    }

    /// The name beside `name` whose old version that would be.
    pub(super) fn stem(&self, name: &Name) -> Option<Name> {
        let stem = name.as_bytes().strip_suffix(&*self.suffix)?;
        Name::new(stem).ok().filter(|_| self.is_beside())
    }

    /// True if what `path` is in or has in it is nobody's to delete: old versions are kept there, or could be.
    pub(super) fn protects(&self, path: &RelPath) -> bool {
        self.has(path) || self.below.as_ref().is_some_and(|below| below.starts_with(path))
    }

    /// True if the place of the old version at `path` could be that of another one too.
    fn may_meet(&self, path: &RelPath) -> bool {
        self.has(path) || self.below.is_none() && self.has_suffix(path)
    }

    fn has_suffix(&self, path: &RelPath) -> bool {
        !self.suffix.is_empty() && path.as_bytes().ends_with(&self.suffix)
    }

    /// True if what is kept stands beside what it was replaced by.
    pub(super) fn is_beside(&self) -> bool {
        self.dir.is_none()
    }

    /// True if all in their tree is theirs.
    fn is_apart(&self) -> bool {
        self.below.is_none() && !self.above
    }

    /// Calls `put` with the directory and the name of the `spot` for what is at `place`, where what is older is gone
    /// then.
    fn put<T>(
        &self,
        root: &Dir,
        (place, spot): (&Place, &Spot<'_>),
        put: impl FnOnce(&Dir, &Name) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (dir, name) = (spot.dir(), &spot.name);
        if self.make_way(root, (place, spot))? {
            dir.remove_file(name)?;
        }
        put(dir, name)
    }

    /// Removes the older directory that stands at `spot`; whether a file stands there, which stays for now.
    fn make_way(&self, root: &Dir, (place, spot): (&Place, &Spot<'_>)) -> Result<bool, Errno> {
        let (dir, name) = (spot.dir(), &spot.name);
        match dir.find(name)? {
            Some(stat) if !file_type(&stat).is_dir() => Ok(true),
            Some(_) if self.is_apart() => remove_all(dir, name, (root, &place.dir)).map(|()| false),
            Some(_) => Err(Errno::EXIST),
            None => Ok(false),
        }
    }
}

/// Where an old version is kept.
struct Spot<'a> {
    /// Its directory, if not that of the new one.
    tree: Option<Dir>,
    beside: &'a Dir,
    name: Name,
}

impl Spot<'_> {
    fn dir(&self) -> &Dir {
        self.tree.as_ref().unwrap_or(self.beside)
    }

    /// Gives this name to the file `from`, over an older one or not.
    fn take(&self, (dir, name): (&Dir, &Name), over: bool) -> Result<(), Errno> {
        match over {
            true => dir.rename(name, self.dir(), &self.name),
            false => dir.rename_new(name, self.dir(), &self.name),
        }
    }

    /// True if a file is there: of what is [torn](is_torn) an earlier run kept the old version, and no other is to take
    /// its place.
    fn has_file(&self) -> Result<bool, Errno> {
        Ok(self.dir().find(&self.name)?.is_some_and(|stat| file_type(&stat).is_file()))
    }

    /// True if this, where `is` stands, is `place` itself, by whatever way one comes here.
    fn is_of(&self, place: &Place, is: &Stat) -> Result<bool, Errno> {
        let own = place.dir.find(&place.name)?;
        if own.is_none_or(|own| inode_of(&own) != inode_of(is)) {
            return Ok(false);
        }
        let is_here = || -> Result<bool, Errno> {
            let dirs = [fs::fstat(self.dir())?, fs::fstat(&place.dir)?];
            Ok(self.name == place.name && inode_of(&dirs[0]) == inode_of(&dirs[1]))
        };
        Ok(is.st_nlink == 1 || is_here()?)
    }
}

/// Gives the directory `made` the mode of the `other`, but that its owner may work in it. A place in the tree itself
/// may have none of its name.
fn set_mode_like(made: &Dir, other: Result<Dir, Errno>) -> Result<(), Errno> {
    match other {
        Ok(other) => {
            let mode = fs::fstat(other)?.st_mode & 0o7777;
            set_mode_of_open(made, Mode::from_raw_mode(mode | 0o700))
        }
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// True if `name`, where it is in the directory of `place`, is that of a directory.
fn leads_on(root: &Dir, place: &Place, (above, name): (&RelPath, &Name)) -> Result<bool, Errno> {
    if *above != place.dir_path {
        return Ok(false);
    }
    let path = above.join(name).map_err(|_| Errno::NAMETOOLONG)?;
    let is_dir = place.dir.find(name)?.is_some_and(|stat| file_type(&stat).is_dir());
    Ok(is_dir || root.keeps_link(&path))
}

/// Removes the directory `name` of `dir`, older backups, with all that is in it, unless `root` or a mount point is
/// there, or what is in `old` cannot get a name in it.
fn remove_all(dir: &Dir, name: &Name, (root, old): (&Dir, &Dir)) -> Result<(), Errno> {
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
        let held = dir.dir(&path, Use::Read)?;
        let inode = inode_of(&fs::fstat(&held)?);
        if inode == root || inode.0 != device {
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
        dir.dir(&above, Use::Pass).map(|above| (above, name))
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

const BACK_UP: &str = "back up";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_nobodys_to_delete() {
        let path = |path: &str| RelPath::parse(path.as_bytes()).unwrap();
        let protects = |below: Option<&str>, of: &str| {
            let dir = NamedDir { path: "/dst/old/kept".into(), trust: crate::dir::Trust::Ours };
            let dir = below.is_none_or(|below| !below.is_empty()).then_some(dir);
            let (suffix, below) = ((*b"~").into(), below.map(path));
            let backup = Backup { dir, suffix, below, above: false };
            backup.protects(&path(of))
        };
        assert!(protects(Some(""), "a/b~") && !protects(Some(""), "a~/b"));
        // Where they have a directory, that is what tells them: it, what is in it, and what holds it.
        let kept = Some("old/kept");
        assert!(["old", "old/kept", "old/kept/a"].iter().all(|path| protects(kept, path)));
        assert!(!protects(kept, "old/other") && !protects(kept, "a~"));
        assert!(!protects(None, "old/kept/a~"));
    }
}
