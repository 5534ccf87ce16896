//! Removing whole trees, without recursion and with one handle at a time.

use std::collections::HashSet;
use std::sync::Arc;

use deltic_core::{Meta, Name, Pile, RelPath};
use rustix::io::Errno;

use super::backup::Goes;
use super::place::Place;
use super::snapshot::file_type;
use super::store::Inner;
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::filter::{Fate, Judge, Scope};
use crate::{STAGING_NAME, StoreError};

/// A removal under way: what went, and the first trouble.
struct Removal<'a> {
    store: &'a Inner,
    removed: u64,
    trouble: Option<StoreError>,
    /// Directories to empty, or, once emptied, to remove; the deepest last.
    stack: Vec<(RelPath, Step)>,
    /// Directories that stay, for what is protected in them.
    kept: HashSet<RelPath>,
}

enum Step {
    /// Given what counts in the directory above.
    Empty(Arc<Scope>),
    Remove,
}

/// Removes what is at `place`, if it `is` what was listed, going by what was `found` there, or behind it. What is gone already
/// may have had two names in the list.
pub(super) fn remove_unchanged(
    place: &Place,
    is: &Meta,
    found: Result<Meta, Errno>,
) -> Result<(), StoreError> {
    let found = match found {
        Err(Errno::NOENT) => return Ok(()),
        found => found.at("remove", &place.path)?,
    };
    let same = found.kind == is.kind && found.len == is.len && found.modified == is.modified;
    if !same || found.is_dir() {
        return Err(StoreError::Changed { path: place.path.clone() });
    }
    match place.dir.remove_file(&place.name) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed.at("remove", &place.path),
    }
}

/// Removes `path` and everything below it that the filter admits; `path` itself in any case if it is replaced.
pub(super) fn remove(store: &Inner, path: &RelPath, goes: Goes) -> Result<u64, StoreError> {
    let place = Place::of(&store.root, "remove", path)?;
    let scope = store.scopes.fresh(&place.dir_path, &*store.root)?;
    let mut removal =
        Removal { store, removed: 0, trouble: None, stack: Vec::new(), kept: HashSet::new() };
    let entry = (&place.dir, &place.name, path);
    match goes {
        Goes::Removed => {
            let mut judges = removal.judges(&place.dir_path, &scope)?;
            removal.entry(entry, (&mut judges, Fate::Stays), &scope)?;
        }
        Goes::Replaced => removal.take(entry, is_dir(entry)?, &scope)?,
    }
    let mut keeps_old = false;
    while let Some((path, step)) = removal.stack.pop() {
        let step = match step {
            Step::Empty(above) => removal.empty(&path, &above),
            Step::Remove => {
                let gone = removal.remove_dir(&path);
                keeps_old = matches!(gone, Ok(false));
                gone.map(drop)
            }
        };
        removal.note(step);
    }
    store.touched.add(&place.dir_path);
    let kept = removal
        .kept
        .contains(path)
        .then(|| StoreError::Protected { path: path.clone(), removed: removal.removed });
    // The last directory is `path` itself.
    let keeps_old = (keeps_old && goes == Goes::Replaced)
        .then(|| StoreError::KeepsOld { path: path.clone(), removed: removal.removed });
    removal.trouble.or(kept).or(keeps_old).map_or(Ok(removal.removed), Err)
}

fn bad_name(dir: &RelPath) -> StoreError {
    StoreError::BadName { action: "remove", path: dir.clone() }
}

fn is_dir((dir, name, path): (&Dir, &Name, &RelPath)) -> Result<bool, StoreError> {
    Ok(file_type(&dir.stat(name).at("remove", path)?).is_dir())
}

impl Removal<'_> {
    /// Who judges the names in `dir`: by what its files of rules said when it was listed first, and by what they say now.
    /// Only what neither protects goes: the files may have come with this run, or gone.
    fn judges(&self, dir: &RelPath, now: &Arc<Scope>) -> Result<[Judge; 2], StoreError> {
        let scopes = &self.store.scopes;
        Ok([scopes.judge(dir, &*self.store.root)?, scopes.judge_in(Arc::clone(now), dir)])
    }

    /// Removes the entry `name` of `dir`, or puts it on the stack, if the filter admits it.
    fn entry(
        &mut self,
        (dir, name, path): (&Dir, &Name, &RelPath),
        (judges, fate): (&mut [Judge; 2], Fate),
        scope: &Arc<Scope>,
    ) -> Result<(), StoreError> {
        let is_dir = is_dir((dir, name, path))?;
        if !judges.iter_mut().all(|judge| judge.admits(name, is_dir, fate)) {
            self.keep_above(path);
            return Ok(());
        }
        self.take((dir, name, path), is_dir, scope)
    }

    /// Removes the entry `name` of `dir`, or puts it on the stack.
    fn take(
        &mut self,
        (dir, name, path): (&Dir, &Name, &RelPath),
        is_dir: bool,
        scope: &Arc<Scope>,
    ) -> Result<(), StoreError> {
        if is_dir {
            if self.is_mount(dir, name) {
                let errno = rustix::io::Errno::BUSY;
                return Err(StoreError::new("remove the mount point", path, errno));
            }
            self.stack.push((path.clone(), Step::Empty(Arc::clone(scope))));
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

    /// Notes that the directories above `path` stay: it is protected.
    fn keep_above(&mut self, path: &RelPath) {
        let mut at = path.split_last();
        while let Some((dir, _)) = at
            && !dir.is_root()
        {
            at = dir.split_last();
            if !self.kept.insert(dir) {
                break;
            }
        }
    }

    fn empty(&mut self, path: &RelPath, above: &Arc<Scope>) -> Result<(), StoreError> {
        let scope = self.store.scopes.enter(above, path, &*self.store.root);
        let judges = scope.and_then(|scope| Ok((self.judges(path, &scope)?, scope)));
        let (mut judges, scope) = judges.inspect_err(|_| self.keep_above(path))?;
        self.stack.push((path.clone(), Step::Remove));
        let dir = self.store.root.dir(path, Use::Read).at("remove", path)?;
        // There may be very many.
        let (mut names, mut bad) = (Pile::default(), None);
        let crowded = || StoreError::new("remove", path, Errno::OVERFLOW);
        let one = |name: &[u8]| {
            let put = Name::new(name).map(|name| names.push(&name).map_err(|_| crowded()));
            let put = put.unwrap_or_else(|_| Err(bad_name(path)));
            bad = bad.take().or_else(|| put.err());
        };
        dir.for_each_name(one).at("remove", path)?;
        self.note(bad.map_or(Ok(()), Err));
        for name in names {
            let step = match path.join(&name).map(|path| (path, name)) {
                // Litter of a run that had its root here, or on this mount.
                Ok((_, name)) if name.as_bytes() == STAGING_NAME => {
                    self.store.stages.sweep_home(path).map(drop)
                }
                Ok((path, name)) => {
                    self.entry((&dir, &name, &path), (&mut judges, Fate::Goes), &scope)
                }
                Err(_) => Err(bad_name(path)),
            };
            self.note(step);
        }
        Ok(())
    }

    /// Removes the directory `path`, whose entries are gone; whether it is, or stays for what is to stay in it.
    fn remove_dir(&mut self, path: &RelPath) -> Result<bool, StoreError> {
        if self.kept.contains(path) {
            return Ok(false);
        }
        let place = Place::of(&self.store.root, "remove", path)?;
        match place.dir.remove_dir(&place.name) {
            // What was kept of it is in it.
            Err(rustix::io::Errno::NOTEMPTY) if self.store.backs_up_beside() => return Ok(false),
            removed => removed.at("remove", path)?,
        }
        self.removed += 1;
        Ok(true)
    }

    /// Keeps the first trouble; what vanished on its own is none.
    fn note(&mut self, step: Result<(), StoreError>) {
        let trouble = step.err().filter(|error| !matches!(error, StoreError::NotFound { .. }));
        self.trouble = self.trouble.take().or(trouble);
    }
}
