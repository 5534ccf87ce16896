//! Old versions under other names, before they are replaced or removed (`--backup`).
//!
//! What they take the place of is an older backup, or nothing: never what is listed, nor what this run put there. Below the root
//! that is a file alone, right where the old version comes, for nobody knows what else is in a directory, or on the way to one; so it
//! is in what the root is in. In a tree elsewhere, which is theirs, all that is older gives way. A place that is not free is passed by for one further.
//!
//! The old version gets its second name while it still has its first: at no time is there none of the two. On another file
//! system, or where it can have no second name or we may not give it one, a copy of it gets that name, which is complete, and
//! flushed where that is asked for, before anything happens to the old version. One that is replaced and that we cannot copy
//! either, most often as we may not read it, is moved: then for a moment nothing is in its place, and should the new version
//! not get there, it is moved back. After a kill just then it is found where backups are.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use deltic_tree::meta::XattrScope;
use deltic_tree::path::BadPath;
use deltic_tree::{Meta, MetaMask, Name, RelPath};
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::attrs::{Attrs, On};
use super::copy::End;
use super::heritage::Heritage;
use super::inplace::is_torn;
use super::named::NamedDir;
use super::place::Place;
use super::snapshot::{Stamp, file_type, inode_of, look_at};
use super::stage::{discard, new_name};
use super::store::Inner;
use crate::dir::{Dir, Use, set_mode_of_open};
use crate::errno::{At, store_error};
use crate::lock;
use deltic_store::{Filter, Keep, StoreError, Unset};

/// Where old versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// A tree of their own, made where it is missing, which is not the root; else they are kept beside the new ones.
    pub dir: Option<NamedDir>,
    /// What is put behind their names.
    pub suffix: Box<[u8]>,
    /// Where that tree lies below the root, if it does; the root itself where there is none.
    pub below: Option<RelPath>,
    /// Whether the root lies in that tree, and so most likely other things than old versions do.
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
    /// Of which paths the old versions are kept at places that others could come to; and, as their own, directories that another
    /// could.
    given: &'a Mutex<HashMap<RelPath, RelPath>>,
}

impl Listed {
    /// Notes what of `paths`, which are about to be looked at, could be the place of what `backup` keeps. What is on its way to
    /// such a place is there first.
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

    /// Whether `path` may be the place of the old version at `of`. Where others may come as well, which it `meets`, the place is
    /// its own from then on.
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

/// A directory for names that are ours, and a new one in it.
struct Aside(Arc<Dir>, Name);

/// Gives what is at `place` the name of `spot`, over an older file or not, if it `is_old`; else that is stale.
fn link_to(
    place: &Place,
    spot: &Spot<'_>,
    over: bool,
    aside: &impl Fn() -> Option<Aside>,
    is_old: impl Fn(Option<Stat>) -> bool,
) -> Result<(), Errno> {
    let Some(Aside(dir, name)) = aside() else {
        let link = || place.dir.link(&place.name, spot.dir(), &spot.name);
        return if over { Err(Errno::NOSYS) } else { link() };
    };
    place.dir.link(&place.name, &dir, &name)?;
    let linked = match dir.find(&name) {
        Ok(is) if is_old(is) => spot.take((&dir, &name), over),
        found => found.and(Err(Errno::STALE)),
    };
    // It stays where it was renamed to a name of the same file, too.
    let _ = dir.remove_file(&name);
    linked
}

impl Backup {
    /// Keeps what is at `place`, if it is there and no directory, by `copy` where it cannot have another name. Where it is now,
    /// if it was moved. What is not `was`, if that is said, another run put there: what it kept is not to give way to that.
    fn keep<'a>(
        &self,
        (root, taken): (&Dir, &Taken<'_>),
        (place, goes, was): (&'a Place, Goes, Option<(u64, u64)>),
        (copy, aside): (impl Fn(&Dir, &Name) -> Result<(), Errno>, impl Fn() -> Option<Aside>),
    ) -> Result<Option<Spot<'a>>, StoreError> {
        let Some(stat) = place.dir.find(&place.name).at(BACK_UP, &place.path)? else {
            return Ok(None);
        };
        let is_one = || self.is_beside() && self.has(&place.path);
        if file_type(&stat).is_dir() || goes == Goes::Removed && is_one() {
            return Ok(None);
        }
        let conflict = || StoreError::Conflict { path: place.path.clone() };
        let old = was.unwrap_or_else(|| inode_of(&stat));
        let is_old = |is: Option<Stat>| is.is_some_and(|is| inode_of(&is) == old);
        let is_in_place = || Ok(is_old(place.dir.find(&place.name)?));
        let take = |spot: &Spot<'_>, from: (&Dir, &Name), over: bool| match is_in_place()? {
            true => spot.take(from, over),
            false => Err(Errno::STALE),
        };
        // Under a name of its own until it is whole; an older one gives way at once.
        let copied = |spot: &Spot<'_>, over| {
            let (dir, own) = (spot.dir(), new_name(&place.path));
            copy(dir, &own)?;
            let taken = take(spot, (dir, &own), over);
            taken.map(|()| Kept::Too).inspect_err(|_| {
                let _ = dir.remove_file(&own);
            })
        };
        let moved = |spot: &Spot<'_>, over| {
            take(spot, (&place.dir, &place.name), over).map(|()| Kept::Alone)
        };
        let put = |spot: &Spot<'_>, over: bool| match (
            link_to(place, spot, over, &aside, is_old),
            goes,
        ) {
            (Err(errno), Goes::Removed) if is_no_to_links(errno) => {
                moved(spot, over).or_else(|_| copied(spot, over))
            }
            (Err(errno), Goes::Replaced) if is_no_to_links(errno) => match copied(spot, over) {
                // It changes: nobody has seen what would go.
                Err(errno) if !matches!(errno, Errno::BUSY | Errno::STALE | Errno::EXIST) => {
                    moved(spot, over).map_err(|_| errno)
                }
                copied => copied,
            },
            (linked, _) => linked.map(|()| Kept::Too),
        };
        // A second time, should another old version come there first.
        for _ in 0..2 {
            let spot = self.spot(root, place, taken)?;
            if is_torn(&stat) && spot.has_file().at(BACK_UP, &place.path)? {
                return Ok(None);
            }
            let way = self.make_way(root, (place, &spot));
            match way.and_then(|over| put(&spot, over)) {
                Err(Errno::EXIST) => {}
                Err(Errno::STALE) => return Err(conflict()),
                Err(Errno::BUSY) if is_in_place() == Ok(false) => return Err(conflict()),
                kept => {
                    let kept = kept.at(BACK_UP, &place.path)?;
                    return Ok((kept == Kept::Alone).then_some(spot));
                }
            }
        }
        Err(store_error(BACK_UP, &place.path, Errno::EXIST))
    }

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
            Some(dir) => match self.mirror(dir.make_all()?, (root, taken), (above, place))? {
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

    /// The directory `above` of `tree` for the old version at `place`; what is missing is made with the modes of the directories
    /// that this is in. None, if something is on the way that stays.
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

    /// Whether `name` of `dir`, which is `path` in the tree, is a directory, or free for one now.
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

    /// Whether old versions are kept at `path` below the root, or could be.
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

    /// Whether what `path` is in or has in it is nobody's to delete: old versions are kept there, or could be.
    pub(super) fn protects(&self, path: &RelPath) -> bool {
        self.has(path) || self.below.as_ref().is_some_and(|below| below.starts_with(path))
    }

    /// Whether the place of the old version at `path` could be that of another one too.
    fn may_meet(&self, path: &RelPath) -> bool {
        self.has(path) || self.below.is_none() && self.has_suffix(path)
    }

    fn has_suffix(&self, path: &RelPath) -> bool {
        !self.suffix.is_empty() && path.as_bytes().ends_with(&self.suffix)
    }

    /// Whether what is kept stands beside what it was replaced by.
    pub(super) fn is_beside(&self) -> bool {
        self.dir.is_none()
    }

    /// Whether all in their tree is theirs.
    fn is_apart(&self) -> bool {
        self.below.is_none() && !self.above
    }

    /// Calls `put` with the directory and the name of the `spot` for what is at `place`, where what is older is gone then.
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

    /// Whether a file is there: of what is [torn](is_torn) an earlier run kept the old version, and no other is to take its
    /// place.
    fn has_file(&self) -> Result<bool, Errno> {
        Ok(self.dir().find(&self.name)?.is_some_and(|stat| file_type(&stat).is_file()))
    }

    /// Whether this, where `is` stands, is `place` itself, by whatever way one comes here.
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

impl Inner {
    /// Keeps the old version at `place`, if old versions are kept, and calls `then`, which puts another there or removes it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where it is not what it `was`, if that is said.
    pub(super) fn back_up(
        &self,
        place: &Place,
        (goes, was): (Goes, Option<(u64, u64)>),
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(backup) = &self.backup else { return then() };
        self.touched.add(&place.dir_path);
        let copy = |to: &Dir, name: &Name| self.copy_away(place, (to, name));
        let aside = || Some(Aside(self.stages.dir_for(place).ok()?, new_name(&place.path)));
        let taken = self.listed.taken();
        let moved = backup.keep((&self.root, &taken), (place, goes, was), (copy, aside))?;
        match (moved, goes) {
            (None, _) => then(),
            (Some(_), Goes::Removed) => Ok(()),
            (Some(spot), Goes::Replaced) => then().inspect_err(|_| {
                // Where even that fails, it is found there.
                let _ = spot.dir().rename_new(&spot.name, &place.dir, &place.name);
            }),
        }
    }

    /// Keeps a copy of the file at `place`, which is about to change where it is, if old versions are kept. Where it has changed
    /// already, under its name `other`, the copy is the one that was kept then. What of its attributes could not be given.
    pub(super) fn back_up_copy(
        &self,
        place: &Place,
        (old, other): ((&OwnedFd, &Stat), Option<&RelPath>),
    ) -> Result<Unset, StoreError> {
        let Some(backup) = &self.backup else { return Ok(Unset::default()) };
        let taken = self.listed.taken();
        let spot = backup.spot(&self.root, place, &taken)?;
        if is_torn(old.1) && spot.has_file().at(BACK_UP, &place.path)? {
            return Ok(Unset::default());
        }
        if let Some(other) = other {
            let other = Place::of(&self.root, BACK_UP, other)?;
            let kept = backup.spot(&self.root, &other, &taken)?;
            self.touched.add(&place.dir_path);
            let put = |to: &Dir, name: &Name| kept.dir().link(&kept.name, to, name);
            backup.put(&self.root, (place, &spot), put).at(BACK_UP, &place.path)?;
            return Ok(Unset::default());
        }
        let staged = self.stages.create(place)?;
        let unset = match self.fill(place, old, &staged.file) {
            Err(Errno::BUSY) => Err(StoreError::Changed { path: place.path.clone() }),
            filled => filled.at(BACK_UP, &place.path),
        }?;
        self.touched.add(&place.dir_path);
        let dir = self.stages.dir(&staged.home).at(BACK_UP, &place.path)?;
        let put = |to: &Dir, name: &Name| match dir.rename(&staged.name, to, name) {
            Err(Errno::XDEV) => {
                discard(&dir, &staged.name);
                self.copy_away(place, (to, name))
            }
            renamed => renamed,
        };
        backup.put(&self.root, (place, &spot), put).at(BACK_UP, &place.path)?;
        Ok(unset)
    }

    /// Makes `name` of `to` a copy of what is at `place`. Attributes that cannot be had there it does without.
    fn copy_away(&self, place: &Place, (to, name): (&Dir, &Name)) -> Result<(), Errno> {
        let stat = place.dir.stat(&place.name)?;
        let copied = match file_type(&stat) {
            FileType::RegularFile => self.copy_file_away(place, (to, name)),
            FileType::Symlink => to
                .make_symlink(name, &place.dir.read_link(&place.name)?)
                .and_then(|()| self.give(place, On::Link(to, name))),
            kind => to
                .make_special(name, kind, stat.st_rdev)
                .and_then(|()| self.give(place, On::Handle(to.open(name, OFlags::PATH)?.as_fd()))),
        };
        let flush = || if self.touched.is_durable() { to.flush() } else { Ok(()) };
        let copied = copied.and_then(|()| flush());
        copied.inspect_err(|_| {
            // What is not complete is no backup.
            let _ = to.remove_file(name);
        })
    }

    fn copy_file_away(&self, place: &Place, (to, name): (&Dir, &Name)) -> Result<(), Errno> {
        let old = place.dir.open(&place.name, OFlags::RDONLY)?;
        let stat = fs::fstat(&old)?;
        let copy = to.create(name)?;
        let _ = self.fill(place, (&old, &stat), &copy)?;
        let is_whole = fs::fstat(&copy)?.st_size == stat.st_size;
        let is_still = Stamp::of(&fs::fstat(&old)?).is_but_for_names(Stamp::of(&stat));
        if is_whole && is_still { Ok(()) } else { Err(Errno::BUSY) }
    }

    /// Gives `copy` the content and the attributes of the `old` file, which is at `place`, and flushes it.
    fn fill(
        &self,
        place: &Place,
        (old, stat): (&OwnedFd, &Stat),
        copy: &OwnedFd,
    ) -> Result<Unset, Errno> {
        // Before it is read, which may show in when that was done last.
        let meta = self.look_at_old(place)?;
        let from = End { file: old.as_fd(), device: stat.st_dev };
        let to = End { file: copy.as_fd(), device: fs::fstat(copy)?.st_dev };
        if !self.copier.copy(from, 0..stat.st_size as u64, to, 0)? {
            // It ended before.
            return Err(Errno::BUSY);
        }
        let unset = self.set_as_old(&meta, On::Open(copy.as_fd()));
        if self.touched.is_durable() {
            fs::fsync(copy)?;
        }
        Ok(unset)
    }

    fn give(&self, place: &Place, on: On<'_>) -> Result<(), Errno> {
        let _ = self.set_as_old(&self.look_at_old(place)?, on);
        Ok(())
    }

    fn look_at_old(&self, place: &Place) -> Result<Meta, Errno> {
        look_at(&place.dir, &place.name, self.see_of_old())
    }

    fn see_of_old(&self) -> MetaMask {
        MetaMask { users: true, groups: true, ..self.see }
    }

    /// Sets all that may be given.
    fn set_as_old(&self, old: &Meta, on: On<'_>) -> Unset {
        let see = self.see_of_old();
        let own = Meta { user: None, group: None, mode: self.mode_of_own(old, on), ..old.clone() };
        let old = if geteuid().is_root() { old } else { &own };
        let (acls, xattrs) = (see.acls, see.xattrs != XattrScope::Nothing);
        let keep = Keep { modes: true, times: true, acls, xattrs, ..Keep::default() };
        let ways = (see, &Filter::default());
        Attrs::of_new(old, (keep, ways), None, (self.umask, Heritage::default())).set(on)
    }

    /// The mode of a copy that has the owner it was made with: that lends nobody the rights of another than the `old` one did,
    /// and another group gets none that all do not have.
    fn mode_of_own(&self, old: &Meta, on: On<'_>) -> u32 {
        let is = on.stat().ok().filter(|_| !self.see.fake_super);
        let has_user = is.is_none_or(|is| old.user == Some(is.st_uid));
        let has_group = is.is_none_or(|is| old.group == Some(is.st_gid));
        let mode = if has_user && has_group { old.mode } else { old.mode & 0o1777 };
        if has_group { mode } else { mode & (0o1707 | (mode & 0o7) << 3) }
    }
}

/// Whether the system says so of another name that cannot be, or that we may not give.
const fn is_no_to_links(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::XDEV | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK
    )
}

/// Gives the directory `made` the mode of the `other`, but that its owner may work in it. A place in the tree itself may have
/// none of its name.
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

/// Whether `name`, where it is in the directory of `place`, is that of a directory.
fn leads_on(root: &Dir, place: &Place, (above, name): (&RelPath, &Name)) -> Result<bool, Errno> {
    if *above != place.dir_path {
        return Ok(false);
    }
    let path = above.join(name).map_err(|_| Errno::NAMETOOLONG)?;
    let is_dir = place.dir.find(name)?.is_some_and(|stat| file_type(&stat).is_dir());
    Ok(is_dir || root.keeps_link(&path))
}

/// Removes the directory `name` of `dir`, older backups, with all that is in it, unless `root` or a mount point is there, or
/// what is in `old` cannot get a name in it.
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
