//! Old versions under other names, before they are replaced or removed (`--backup`).
//!
//! The old version gets its second name while it still has its first: at no time is there none of the two. So the second
//! name is on the same file system.

use deltic_core::{Name, RelPath};
use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::named::NamedDir;
use super::place::Place;
use super::snapshot::{file_type, inode_of};
use crate::StoreError;
use crate::dir::{Dir, Use};
use crate::error::At;

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
    /// Keeps what is at `place`, if it is there and no directory.
    pub(super) fn keep(&self, root: &Dir, place: &Place, goes: Goes) -> Result<(), StoreError> {
        let Some(stat) = place.dir.find(&place.name).at(BACK_UP, &place.path)? else {
            return Ok(());
        };
        let is_backup = self.dir.is_none() && place.name.as_bytes().ends_with(&self.suffix);
        if file_type(&stat).is_dir() || goes == Goes::Removed && is_backup {
            return Ok(());
        }
        let put = |dir: &Dir, name: &Name| place.dir.link(&place.name, dir, name);
        self.put(root, place, put)
    }

    /// Calls `put` with the directory and the name that the old version at `place` is kept under, which is free.
    pub(super) fn put(
        &self,
        root: &Dir,
        place: &Place,
        put: impl FnOnce(&Dir, &Name) -> Result<(), Errno>,
    ) -> Result<(), StoreError> {
        let name = [place.name.as_bytes(), &self.suffix].concat();
        let bad_name = |_| StoreError::BadName { action: BACK_UP, path: place.path.clone() };
        let name = Name::new(&name).map_err(bad_name)?;
        self.put_at(root, (place, &name), put).at(BACK_UP, &place.path)
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
        let tree = match &self.dir {
            None => None,
            Some(dir) => Some(mirror(dir.make_all()?, root, &place.dir_path)?),
        };
        let dir = tree.as_ref().unwrap_or(&place.dir);
        match dir.find(name)? {
            // Beside the new one it may be no backup.
            Some(stat) if file_type(&stat).is_dir() && tree.is_some() => {
                remove_all(dir, name, root)?
            }
            Some(stat) if file_type(&stat).is_dir() => dir.remove_dir(name)?,
            Some(_) => dir.remove_file(name)?,
            None => {}
        }
        put(dir, name)
    }
}

/// The directory below `tree` that has the path `path` has below `root`; what is missing is made with the modes there.
fn mirror(tree: Dir, root: &Dir, path: &RelPath) -> Result<Dir, Errno> {
    let (mut held, mut at) = (tree, RelPath::root());
    for name in path.components() {
        let name = Name::new(name).map_err(|_| Errno::INVAL)?;
        at = at.join(&name).map_err(|_| Errno::NAMETOOLONG)?;
        let below = RelPath::parse(name.as_bytes()).map_err(|_| Errno::INVAL)?;
        let made = match held.make_dir(&name) {
            // The backup of a file gives way.
            Err(Errno::EXIST) if file_type(&held.stat(&name)?).is_file() => {
                held.remove_file(&name)?;
                held.make_dir(&name).map(|()| true)?
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

/// Removes the directory `name` of `dir`, older backups, with all that is in it, unless `root` or a mount point is there.
fn remove_all(dir: &Dir, name: &Name, root: &Dir) -> Result<(), Errno> {
    let root = inode_of(&fs::fstat(root)?);
    let (mut dirs, mut files) =
        (vec![RelPath::parse(name.as_bytes()).map_err(|_| Errno::INVAL)?], Vec::new());
    let device = fs::fstat(dir)?.st_dev;
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
