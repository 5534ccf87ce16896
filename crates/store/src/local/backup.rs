//! Old versions under other names, before they are replaced or removed (`--backup`).
//!
//! The old version gets its second name while it still has its first: at no time is there none of the two. On another file
//! system a copy of it gets that name, which is complete, and flushed where that is asked for, before anything happens to the
//! old version.

use std::os::fd::{AsFd, OwnedFd};

use deltic_core::meta::Scope;
use deltic_core::{Meta, Name, RelPath, See};
use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::attrs::{Attrs, On};
use super::copy::End;
use super::heritage::Heritage;
use super::inplace::is_torn;
use super::named::NamedDir;
use super::place::Place;
use super::snapshot::{Version, file_type, inode_of, look_at};
use super::stage::discard;
use super::store::Inner;
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::{Filter, Keep, StoreError, Unset};

/// Where old versions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// A tree of their own, made where it is missing; else they are kept beside the new ones.
    pub dir: Option<NamedDir>,
    /// What is put behind their names.
    pub suffix: Box<[u8]>,
}

/// Why an old version goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    /// Another takes its place.
    Replaced,
    /// Nothing does: then what is a backup itself goes for good.
    Removed,
}

impl Backup {
    /// Keeps what is at `place`, if it is there and no directory, by `copy` where it cannot have another name.
    fn keep(
        &self,
        root: &Dir,
        (place, goes): (&Place, Goes),
        copy: impl FnOnce(&Dir, &Name) -> Result<(), Errno>,
    ) -> Result<(), StoreError> {
        let Some(stat) = place.dir.find(&place.name).at(BACK_UP, &place.path)? else {
            return Ok(());
        };
        if file_type(&stat).is_dir()
            || goes == Goes::Removed && self.is_one(&place.name)
            || self.has_old_of(root, (place, &stat))?
        {
            return Ok(());
        }
        let put = |dir: &Dir, name: &Name| match place.dir.link(&place.name, dir, name) {
            Err(Errno::XDEV) => copy(dir, name),
            linked => linked,
        };
        self.put(root, place, put)
    }

    /// Calls `put` with the directory and the name that the old version at `place` is kept under, which is free.
    pub(super) fn put(
        &self,
        root: &Dir,
        place: &Place,
        put: impl FnOnce(&Dir, &Name) -> Result<(), Errno>,
    ) -> Result<(), StoreError> {
        self.put_at(root, (place, &self.name_of(place)?), put).at(BACK_UP, &place.path)
    }

    /// Whether an earlier run kept the old version of what is at `place`, but left that [torn](is_torn): no other is to take
    /// the old one's place.
    fn has_old_of(&self, root: &Dir, (place, is): (&Place, &Stat)) -> Result<bool, StoreError> {
        if !is_torn(is) {
            return Ok(false);
        }
        let name = self.name_of(place)?;
        let tree = self.tree(root, place).at(BACK_UP, &place.path)?;
        let kept = tree.as_ref().unwrap_or(&place.dir).find(&name).at(BACK_UP, &place.path)?;
        Ok(kept.is_some_and(|stat| file_type(&stat).is_file()))
    }

    fn name_of(&self, place: &Place) -> Result<Name, StoreError> {
        let bad_name = |_| StoreError::BadName { action: BACK_UP, path: place.path.clone() };
        Name::new(&[place.name.as_bytes(), &self.suffix].concat()).map_err(bad_name)
    }

    /// The directory that the old version of what is at `place` is kept in, if not its own.
    fn tree(&self, root: &Dir, place: &Place) -> Result<Option<Dir>, Errno> {
        let tree = |dir: &NamedDir| mirror(dir.make_all()?, root, &place.dir_path);
        self.dir.as_ref().map(tree).transpose()
    }

    /// Whether `name` is that of a backup beside others.
    pub(super) fn is_one(&self, name: &Name) -> bool {
        self.is_beside() && name.as_bytes().ends_with(&self.suffix)
    }

    /// Whether what is kept stands beside what it was replaced by.
    pub(super) fn is_beside(&self) -> bool {
        self.dir.is_none()
    }

    fn put_at(
        &self,
        root: &Dir,
        (place, name): (&Place, &Name),
        put: impl FnOnce(&Dir, &Name) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let tree = self.tree(root, place)?;
        let dir = tree.as_ref().unwrap_or(&place.dir);
        match dir.find(name)? {
            // Beside the new one it may be no backup.
            Some(stat) if file_type(&stat).is_dir() && tree.is_some() => {
                remove_all(dir, name, (root, &place.dir))?
            }
            Some(stat) if file_type(&stat).is_dir() => dir.remove_dir(name)?,
            Some(_) => dir.remove_file(name)?,
            None => {}
        }
        put(dir, name)
    }
}

impl Inner {
    /// Keeps the old version at `place`, if old versions are kept.
    pub(super) fn back_up(&self, place: &Place, goes: Goes) -> Result<(), StoreError> {
        match &self.backup {
            Some(backup) => {
                self.touched.add(&place.dir_path);
                backup.keep(&self.root, (place, goes), |to, name| self.copy_away(place, (to, name)))
            }
            None => Ok(()),
        }
    }

    /// Keeps a copy of the file at `place`, which is about to change where it is, if old versions are kept. What of its
    /// attributes that could not be given.
    pub(super) fn back_up_copy(
        &self,
        place: &Place,
        old: (&OwnedFd, &Stat),
    ) -> Result<Unset, StoreError> {
        let Some(backup) = &self.backup else { return Ok(Unset::default()) };
        if backup.has_old_of(&self.root, (place, old.1))? {
            return Ok(Unset::default());
        }
        let staged = self.stages.create(place)?;
        let unset = match self.fill(place, old, &staged.file) {
            Err(Errno::BUSY) => Err(StoreError::Changed { path: place.path.clone() }),
            filled => filled.at(BACK_UP, &place.path),
        }?;
        self.touched.add(&place.dir_path);
        let dir = self.stages.dir(&staged.home).at(BACK_UP, &place.path)?;
        backup.put(&self.root, place, |to, name| match dir.rename(&staged.name, to, name) {
            Err(Errno::XDEV) => {
                discard(&dir, &staged.name);
                self.copy_away(place, (to, name))
            }
            renamed => renamed,
        })?;
        Ok(unset)
    }

    /// Makes `name` of `to`, which is on another file system, a copy of what is at `place`. Attributes that cannot be had there it
    /// does without.
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
        let is_still = Version::of(&fs::fstat(&old)?) == Version::of(&stat);
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

    /// All that may be given.
    fn see_of_old(&self) -> See {
        let root = geteuid().is_root();
        See { users: root, groups: root, ..self.see }
    }

    fn set_as_old(&self, old: &Meta, on: On<'_>) -> Unset {
        let see = self.see_of_old();
        let (acls, xattrs) = (see.acls, see.xattrs != Scope::Nothing);
        let keep = Keep { modes: true, times: true, acls, xattrs, ..Keep::default() };
        let ways = (see, &Filter::default());
        Attrs::of_new(old, (keep, ways), None, (self.umask, Heritage::default())).set(on)
    }
}

/// The directory below `tree` that has the path `path` has below `root`; what is missing is made with the modes there.
fn mirror(tree: Dir, root: &Dir, path: &RelPath) -> Result<Dir, Errno> {
    let (mut held, mut at) = (tree, RelPath::root());
    for name in path.components() {
        let name = Name::new(name).map_err(|_| Errno::INVAL)?;
        at = at.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
        let below = RelPath::parse(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        let made = match held.make_dir(&name, Mode::RWXU) {
            // The backup of a file gives way.
            Err(Errno::EXIST) if file_type(&held.stat(&name)?).is_file() => {
                held.remove_file(&name)?;
                held.make_dir(&name, Mode::RWXU).map(|()| true)?
            }
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        held = held.dir(&below, if made { Use::Read } else { Use::Pass })?;
        if made {
            let mode = fs::fstat(root.dir(&at, Use::Pass)?)?.st_mode & 0o7777;
            fs::fchmod(&held, Mode::from_raw_mode(mode | 0o700))?;
        }
    }
    Ok(held)
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
