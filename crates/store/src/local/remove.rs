//! Removing whole trees, without recursion and with one handle at a time.

use deltic_core::{Meta, Name, RelPath, See};

use super::backup::Goes;
use super::place::Place;
use super::snapshot::{file_type, look_at};
use super::store::Inner;
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::{STAGING_NAME, StoreError};

/// A removal under way: what went, and the first trouble.
struct Removal<'a> {
    store: &'a Inner,
    removed: u64,
    trouble: Option<StoreError>,
    /// Directories to empty, or, once emptied, to remove; the deepest last.
    stack: Vec<(RelPath, Emptied)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Emptied {
    No,
    Yes,
}

/// Removes what is at `place`, if it `is` what was listed.
pub(super) fn remove_unchanged(place: &Place, is: &Meta) -> Result<(), StoreError> {
    let found = look_at(&place.dir, &place.name, See::default()).at("remove", &place.path)?;
    let same = found.kind == is.kind && found.len == is.len && found.modified == is.modified;
    if !same || found.is_dir() {
        return Err(StoreError::Changed { path: place.path.clone() });
    }
    place.dir.remove_file(&place.name).at("remove", &place.path)
}

/// Removes `path` and everything below it that the filter admits.
pub(super) fn remove(store: &Inner, path: &RelPath) -> Result<u64, StoreError> {
    let place = Place::of(&store.root, "remove", path)?;
    let mut removal = Removal { store, removed: 0, trouble: None, stack: Vec::new() };
    removal.entry(&place.dir, &place.name, path)?;
    while let Some((path, emptied)) = removal.stack.pop() {
        let step = match emptied {
            Emptied::No => removal.empty(&path),
            Emptied::Yes => removal.remove_dir(&path),
        };
        removal.note(step);
    }
    store.touched.add(&place.dir_path);
    removal.trouble.map_or(Ok(removal.removed), Err)
}

impl Removal<'_> {
    /// Removes the entry `name` of `dir`, or puts it on the stack.
    fn entry(&mut self, dir: &Dir, name: &Name, path: &RelPath) -> Result<(), StoreError> {
        let is_dir = file_type(&dir.stat(name).at("remove", path)?).is_dir();
        if !self.store.rules.admits(path, is_dir) {
            return Ok(());
        }
        if is_dir {
            if self.is_mount(dir, name) {
                let errno = rustix::io::Errno::BUSY;
                return Err(StoreError::new("remove the mount point", path, errno));
            }
            self.stack.push((path.clone(), Emptied::No));
            return Ok(());
        }
        if self.store.keeps_old() {
            let place = Place::of(&self.store.root, "remove", path)?;
            self.store.back_up(&place, Goes::Removed)?;
        }
        dir.remove_file(name).at("remove", path)?;
        self.removed += 1;
        Ok(())
    }

    /// Whether another file system is mounted there, and is to be left alone.
    fn is_mount(&self, dir: &Dir, name: &Name) -> bool {
        let device = |stat: rustix::fs::Stat| stat.st_dev;
        let (own, root) =
            (dir.stat(name).map(device), rustix::fs::fstat(&*self.store.root).map(device));
        self.store.one_file_system && own != root
    }

    fn empty(&mut self, path: &RelPath) -> Result<(), StoreError> {
        self.stack.push((path.clone(), Emptied::Yes));
        let dir = self.store.root.dir(path, Use::Read).at("remove", path)?;
        let mut names = Vec::new();
        dir.for_each_name(|name| names.push(Name::new(name))).at("remove", path)?;
        for name in names {
            let step = match name.and_then(|name| Ok((path.join(&name)?, name))) {
                // Litter of a run that had its root here, or on this mount.
                Ok((_, name)) if name.as_bytes() == STAGING_NAME => {
                    self.store.stages.sweep_home(path).map(drop)
                }
                Ok((path, name)) => self.entry(&dir, &name, &path),
                Err(_) => Err(StoreError::BadName { action: "remove", path: path.clone() }),
            };
            self.note(step);
        }
        Ok(())
    }

    /// Removes the directory `path`, whose entries are gone.
    fn remove_dir(&mut self, path: &RelPath) -> Result<(), StoreError> {
        let place = Place::of(&self.store.root, "remove", path)?;
        match place.dir.remove_dir(&place.name) {
            // What was kept of it is in it.
            Err(rustix::io::Errno::NOTEMPTY) if self.store.backs_up_beside() => return Ok(()),
            removed => removed.at("remove", path)?,
        }
        self.removed += 1;
        Ok(())
    }

    /// Keeps the first trouble; what vanished on its own is none.
    fn note(&mut self, step: Result<(), StoreError>) {
        let trouble = step.err().filter(|error| !matches!(error, StoreError::NotFound { .. }));
        self.trouble = self.trouble.take().or(trouble);
    }
}
