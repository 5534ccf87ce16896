//! A local directory as a destination.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deltic_core::meta::OWNER_BITS;
use deltic_core::{Kind, Meta, RelPath};
use rustix::fs::{self, OFlags};
use rustix::io::Errno;

use super::attrs::{Attrs, times, umask};
use super::copy::Copier;
use super::list::list;
use super::place::Place;
use super::rebuild::LocalRebuild;
use super::remove::remove;
use super::snapshot::{LocalSnapshot, file_type, look_at, look_at_root};
use super::stage::{Stages, new_name};
use super::touched::Touched;
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::filter::{Fate, Scopes, Start};
use crate::{
    Durability, Filter, Keep, Listing, Resumed, Store, StoreError, Tree, check_path, lock,
};

/// A local directory that is written to.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Inner>);

/// How a [`LocalStore`] treats its directory.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// When changes are safe from a power cut.
    pub durability: Durability,
    /// Which names may be removed: a receiver's filter. The others are never listed.
    pub rules: Filter,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) root: Arc<Dir>,
    pub(super) scopes: Scopes,
    pub(super) stages: Stages,
    pub(super) copier: Copier,
    pub(super) touched: Touched,
    pub(super) umask: u32,
    /// Directories that still lack their mode: those made here, and those that were opened to their owner, with the mode
    /// that they had.
    unfinished: Mutex<HashMap<RelPath, Option<u32>>>,
}

/// Makes the directory `path` unless it exists, but not the one above it.
///
/// # Errors
/// Where it cannot be made, or is something else.
pub fn create_root(path: &Path, durability: Durability) -> Result<(), StoreError> {
    Dir::make_root(path).at("make directory", &RelPath::root())?;
    match durability {
        Durability::Run => Dir::flush_above_root(path).at("flush above", &RelPath::root()),
        Durability::None => Ok(()),
    }
}

impl LocalStore {
    /// Holds the directory `root`; changes nothing.
    ///
    /// # Errors
    /// Where it is no directory, or not ours to enter.
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        Self::new(Dir::open_root(root).at("open", &RelPath::root())?, root, options)
    }

    pub(super) fn new(root: Dir, path: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        let root = Arc::new(root);
        let stages = Stages::new(Arc::clone(&root)).at("open", &RelPath::root())?;
        Ok(Self(Arc::new(Inner {
            root,
            scopes: Scopes::new(options.rules, path, Start::Root),
            stages,
            copier: Copier::default(),
            touched: Touched::new(options.durability),
            umask: umask(),
            unfinished: Mutex::default(),
        })))
    }

    #[cfg(test)]
    pub(super) fn touched_dirs(&self) -> Vec<RelPath> {
        self.0.touched.dirs()
    }

    fn list_with(&self, dir: &RelPath, fate: Fate) -> Result<Listing, StoreError> {
        let held = self.0.root.dir(dir, Use::Read).at("list", dir)?;
        let mut judge = self.0.scopes.judge(dir, &*self.0.root)?;
        Ok(list(&held, dir, (&mut judge, fate)))
    }

    fn place(&self, action: &'static str, path: &RelPath) -> Result<Place, StoreError> {
        Place::of(&self.0.root, action, path)
    }

    /// Lets us write in a directory of ours that says otherwise, until its mode is set. If we may not, what is done in it
    /// will say so.
    fn open_to_owner(&self, place: &Place) {
        let Ok(stat) = place.dir.stat(&place.name) else { return };
        let closed = stat.st_mode & OWNER_BITS != OWNER_BITS;
        if !closed || rustix::process::geteuid().is_root() {
            return;
        }
        let open = |dir| Attrs::of_mode(stat.st_mode | OWNER_BITS).set_unreadable(dir);
        if self.0.root.dir(&place.path, Use::Pass).and_then(open).is_ok() {
            lock(&self.0.unfinished).insert(place.path.clone(), Some(stat.st_mode));
        }
    }

    /// Looks at `path`; where it is in the directory of the `last` place, that one's handle serves again.
    fn look_after(
        &self,
        path: &RelPath,
        last: &mut Option<Place>,
    ) -> Result<Option<Meta>, StoreError> {
        const LOOK: &str = "look at";
        if path.is_root() {
            return look_at_root(&self.0.root).at(LOOK, path).map(Some);
        }
        let place = match last.take() {
            Some(place) => place.next(&self.0.root, LOOK, path),
            None => self.place(LOOK, path),
        };
        let look = |place: &Place| look_at(&place.dir, &place.name).at(LOOK, path);
        match place.and_then(|place| look(last.insert(place))) {
            Err(StoreError::NotFound { .. } | StoreError::NotADir { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    fn set_dir(&self, path: &RelPath, attrs: &Attrs) -> Result<(), StoreError> {
        let open = |usage| self.0.root.dir(path, usage);
        match open(Use::Read) {
            Err(Errno::ACCESS) => open(Use::Pass).and_then(|dir| attrs.set_unreadable(dir)),
            opened => opened.and_then(|dir| attrs.set(dir)),
        }
        .at(SET_META, path)?;
        self.0.touched.add(path);
        Ok(())
    }

    fn set_file(&self, place: &Place, attrs: &Attrs) -> Result<(), StoreError> {
        let open = |how| place.dir.open(&place.name, how);
        let (file, is_path) = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) => (open(OFlags::PATH), true),
            opened => (opened, false),
        };
        let file = file.at(SET_META, &place.path)?;
        let stat = fs::fstat(&file).at(SET_META, &place.path)?;
        if !file_type(&stat).is_file() {
            return Err(StoreError::NotAFile { action: SET_META, path: place.path.clone() });
        }
        match is_path {
            true => attrs.set_unreadable(file),
            false if self.0.touched.is_durable() => attrs.set(&file).and_then(|()| fs::fsync(file)),
            false => attrs.set(file),
        }
        .at(SET_META, &place.path)
    }

    fn set_symlink(&self, place: &Place, meta: &Meta) -> Result<(), StoreError> {
        let stat = place.dir.stat(&place.name).at(SET_META, &place.path)?;
        if !file_type(&stat).is_symlink() {
            return Err(StoreError::Conflict { path: place.path.clone() });
        }
        place.dir.set_times(&place.name, &times(meta)).at(SET_META, &place.path)
    }
}

impl Tree for LocalStore {
    type Snapshot = LocalSnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        check_path("list", dir)?;
        self.list_with(dir, Fate::Stays)
    }

    fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        let place = self.place("open", path)?;
        LocalSnapshot::open(&place.dir, &place.name, path)
    }
}

impl Store for LocalStore {
    type Rebuild = LocalRebuild;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        self.look_after(path, &mut None)
    }

    fn look_all(&self, paths: &[RelPath]) -> Vec<Result<Option<Meta>, StoreError>> {
        let mut last = None;
        paths.iter().map(|path| self.look_after(path, &mut last)).collect()
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<LocalRebuild, StoreError> {
        LocalRebuild::new(Arc::clone(&self.0), path, len)
    }

    fn leftovers(&self, path: &RelPath) -> Result<Vec<LocalSnapshot>, StoreError> {
        self.0.stages.leftovers(&self.place("resume", path)?)
    }

    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<LocalRebuild>>, StoreError> {
        LocalRebuild::resume(Arc::clone(&self.0), path, len)
    }

    fn make_dir(&self, path: &RelPath) -> Result<(), StoreError> {
        let action = "make directory";
        if path.is_root() {
            return Ok(());
        }
        let place = self.place(action, path)?;
        // A second time, should something be in the way.
        for _ in 0..2 {
            match place.dir.make_dir(&place.name) {
                Err(Errno::EXIST) if clear_for_dir(&place).at(action, path)? => {
                    self.open_to_owner(&place);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                made => {
                    made.at(action, path)?;
                    lock(&self.0.unfinished).insert(path.clone(), None);
                    self.0.touched.add(&place.dir_path);
                    return Ok(());
                }
            }
        }
        Err(StoreError::Conflict { path: path.clone() })
    }

    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        let action = "make symlink";
        let place = self.place(action, path)?;
        let (dir, name) = (self.0.stages.dir_for(&place)?, new_name(path));
        dir.make_symlink(&name, target).at(action, path)?;
        let timed = if keep.times { dir.set_times(&name, &times(meta)) } else { Ok(()) };
        let landed = timed.and_then(|()| place.land(&dir, &name));
        if landed.is_err() {
            // What stays is litter for the sweep.
            let _ = dir.remove_file(&name);
        }
        self.0.touched.add(&place.dir_path);
        landed.at(action, path)
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let attrs = match lock(&self.0.unfinished).remove(path) {
            Some(old_mode) => Attrs::of_new(meta, keep, old_mode, self.0.umask),
            None => Attrs::of_existing(meta, keep),
        };
        match meta.kind {
            _ if attrs.is_empty() => Ok(()),
            Kind::Dir => check_path(SET_META, path).and_then(|()| self.set_dir(path, &attrs)),
            Kind::File => self.set_file(&self.place(SET_META, path)?, &attrs),
            Kind::Symlink(_) if !keep.times => Ok(()),
            Kind::Symlink(_) => self.set_symlink(&self.place(SET_META, path)?, meta),
            Kind::Other => Err(StoreError::NotAFile { action: SET_META, path: path.clone() }),
        }
    }

    fn list_going(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        check_path("list", dir)?;
        self.list_with(dir, Fate::Goes)
    }

    fn remove(&self, path: &RelPath) -> Result<u64, StoreError> {
        remove(&self.0, path)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.touched.flush(&self.0.root)
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        self.0.stages.sweep()
    }
}

/// Removes what is at `place`, unless that is a directory: then it says so.
fn clear_for_dir(place: &Place) -> Result<bool, Errno> {
    let found = place.dir.find(&place.name)?;
    if found.is_some_and(|stat| file_type(&stat).is_dir()) {
        return Ok(true);
    }
    match place.dir.remove_file(&place.name) {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

const SET_META: &str = "set metadata of";
