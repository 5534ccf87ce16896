//! Removing whole trees, without recursion and with one handle at a time.

use std::collections::HashSet;
use std::sync::Arc;

use deltic_core::{Meta, Name, Pile, RelPath};
use rustix::io::Errno;

use super::attrs::open_to_owner;
use super::backup::Goes;
use super::place::Place;
use super::snapshot::file_type;
use super::store::Inner;
use crate::dir::{Dir, Use};
use crate::error::At;
use crate::filter::{Fate, Judge, Scope};
use crate::{StoreError, is_staging_name};

/// A removal under way: what went, and what stayed for which reason.
struct Removal<'a> {
    store: &'a Inner,
    deed: Deed,
    removed: u64,
    stayed: Vec<StoreError>,
    /// Names that stayed and are not told one by one.
    more: u64,
    /// Directories to empty, or, once emptied, to remove; the deepest last.
    stack: Vec<(RelPath, Step)>,
    /// Directories that stay, for what stays in them.
    kept: HashSet<RelPath>,
}

/// What is done with names that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Remove,
    /// They are only counted.
    Count,
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

/// A directory in which names are removed, and who judges them.
pub(super) struct Site {
    place: Place,
    scope: Arc<Scope>,
    judges: [Judge; 2],
    /// Whether it is told under another name, through a symlink that is kept.
    is_led_to: bool,
}

impl Site {
    /// Where `path` is; what was found out of the directory of the `last` one serves again.
    fn of(store: &Inner, path: &RelPath, last: Option<Self>) -> Result<Self, StoreError> {
        let (place, last) = match last {
            Some(Self { place, scope, judges, is_led_to }) => {
                let dir = place.dir_path.clone();
                let place = place.next(&store.root, "remove", path)?;
                let is_there = place.dir_path == dir;
                (place, is_there.then_some((scope, judges, is_led_to)))
            }
            None => (Place::of(&store.root, "remove", path)?, None),
        };
        let (scope, judges, is_led_to) = match last {
            Some(last) => last,
            None => {
                let scope = store.scopes.fresh(&place.dir_path, &*store.root)?;
                let judges = judges(store, &place.dir_path, &scope)?;
                (scope, judges, store.is_led_to(&place.dir_path))
            }
        };
        Ok(Self { place, scope, judges, is_led_to })
    }
}

/// Removes `path` and everything below it that the filter admits; what is known of the directory of the `last` name that was
/// removed is not found out once more.
pub(super) fn remove_after(
    store: &Inner,
    path: &RelPath,
    last: &mut Option<Site>,
) -> Result<u64, StoreError> {
    let site = Site::of(store, path, last.take())?;
    remove_at(store, last.insert(site), Deed::Remove)
}

/// How many names would go with `path`.
pub(super) fn count(store: &Inner, path: &RelPath) -> Result<u64, StoreError> {
    remove_at(store, &mut Site::of(store, path, None)?, Deed::Count)
}

fn remove_at(store: &Inner, site: &mut Site, deed: Deed) -> Result<u64, StoreError> {
    let Site { place, scope, judges, is_led_to } = site;
    if *is_led_to {
        return Ok(0);
    }
    let mut removal = Removal::new(store, deed);
    removal.entry((&place.dir, &place.name, &place.path), (judges, Fate::Stays), scope)?;
    removal.finish(place, Goes::Removed)
}

/// Removes `path` and everything below it that the filter admits; `path` itself in any case.
pub(super) fn make_way(store: &Inner, path: &RelPath) -> Result<u64, StoreError> {
    let place = Place::of(&store.root, "remove", path)?;
    let scope = store.scopes.fresh(&place.dir_path, &*store.root)?;
    let mut removal = Removal::new(store, Deed::Remove);
    let entry = (&place.dir, &place.name, path);
    if !removal.take_file(entry)? {
        if store.is_mount(&place.dir, &place.name) {
            return Err(StoreError::new("remove the mount point", path, Errno::BUSY));
        }
        removal.take_dir(path, &scope);
    }
    removal.finish(&place, Goes::Replaced)
}

/// Who judges the names in `dir`: by what its files of rules said when it was listed first, and by what they say now.
/// Only what neither protects goes: the files may have come with this run, or gone.
fn judges(store: &Inner, dir: &RelPath, now: &Arc<Scope>) -> Result<[Judge; 2], StoreError> {
    let scopes = &store.scopes;
    Ok([scopes.judge(dir, &*store.root)?, scopes.judge_in(Arc::clone(now), dir)])
}

fn bad_name(dir: &RelPath) -> StoreError {
    StoreError::BadName { action: "remove", path: dir.clone() }
}

fn is_dir((dir, name, path): (&Dir, &Name, &RelPath)) -> Result<bool, StoreError> {
    Ok(file_type(&dir.stat(name).at("remove", path)?).is_dir())
}

impl<'a> Removal<'a> {
    fn new(store: &'a Inner, deed: Deed) -> Self {
        let (stayed, stack, kept) = (Vec::new(), Vec::new(), HashSet::new());
        Self { store, deed, removed: 0, stayed, more: 0, stack, kept }
    }

    /// Removes what is on the stack, which came from `place`; how many names went in all.
    fn finish(mut self, place: &Place, goes: Goes) -> Result<u64, StoreError> {
        let mut keeps_old = false;
        while let Some((path, step)) = self.stack.pop() {
            let step = match step {
                Step::Empty(above) => self.empty(&path, &above),
                Step::Remove => {
                    let gone = self.remove_dir(&path);
                    keeps_old = matches!(gone, Ok(false));
                    gone.map(drop)
                }
            };
            self.note(&path, step);
        }
        let Self { store, removed, stayed, more, kept, .. } = self;
        if self.deed == Deed::Remove {
            store.touched.add(&place.dir_path);
        }
        let path = || place.path.clone();
        if !stayed.is_empty() {
            return Err(StoreError::Stayed { path: path(), removed, stayed, more });
        }
        if kept.contains(&place.path) {
            return Err(StoreError::Protected { path: path(), removed });
        }
        // The last directory is the place itself.
        if keeps_old && goes == Goes::Replaced {
            return Err(StoreError::KeepsOld { path: path(), removed });
        }
        Ok(removed)
    }

    /// Removes the entry `name` of `dir`, or puts it on the stack, if the filter admits it.
    fn entry(
        &mut self,
        entry: (&Dir, &Name, &RelPath),
        (judges, fate): (&mut [Judge; 2], Fate),
        scope: &Arc<Scope>,
    ) -> Result<(), StoreError> {
        let (dir, name, path) = entry;
        let mut admits = |is_dir| judges.iter_mut().all(|judge| judge.admits(name, is_dir, fate));
        // What may go as a file is taken for one: the call that removes it says if it is a directory.
        let goes_as_file = admits(false);
        if goes_as_file && self.take_file(entry)? {
            return Ok(());
        }
        let is_dir = goes_as_file || is_dir(entry)?;
        if !is_dir || !admits(true) || self.store.is_apart(dir, name) {
            self.keep_above(path);
            return Ok(());
        }
        self.take_dir(path, scope);
        Ok(())
    }

    /// Puts the directory `path` on the stack.
    fn take_dir(&mut self, path: &RelPath, scope: &Arc<Scope>) {
        self.stack.push((path.clone(), Step::Empty(Arc::clone(scope))));
    }

    /// Removes the entry `name` of `dir`, unless it is a directory: then it is still there.
    fn take_file(
        &mut self,
        (dir, name, path): (&Dir, &Name, &RelPath),
    ) -> Result<bool, StoreError> {
        if self.deed == Deed::Count {
            let is_file = !is_dir((dir, name, path))?;
            self.removed += u64::from(is_file);
            return Ok(is_file);
        }
        if self.store.keeps_old() {
            let place = Place::of(&self.store.root, "remove", path)?;
            self.store.back_up(&place, Goes::Removed)?;
        }
        match dir.remove_file(name) {
            Err(Errno::ISDIR) => return Ok(false),
            removed => removed.at("remove", path)?,
        }
        self.removed += 1;
        Ok(true)
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
        let judges = scope.and_then(|scope| Ok((judges(self.store, path, &scope)?, scope)));
        let (mut judges, scope) = judges?;
        self.stack.push((path.clone(), Step::Remove));
        if self.deed == Deed::Remove {
            open_to_owner(&self.store.root, path);
        }
        let dir = self.store.root.dir(path, Use::Read).at("remove", path)?;
        // There may be very many.
        let (mut names, mut bad) = (Pile::default(), None);
        let crowded = || StoreError::new("remove", path, Errno::OVERFLOW);
        let one = |name: &[u8]| {
            let put = Name::new(name).map(|name| names.push(name).map_err(|_| crowded()));
            let put = put.unwrap_or_else(|_| Err(bad_name(path)));
            bad = bad.take().or_else(|| put.err());
        };
        dir.for_each_name(one).at("remove", path)?;
        self.note(path, bad.map_or(Ok(()), Err));
        for name in names {
            let Ok(at) = path.join(&name) else {
                self.note(path, Err(bad_name(path)));
                continue;
            };
            let step = if is_staging_name(name.as_bytes()) {
                // Litter of a run that had its root here, or on this mount.
                match self.deed {
                    Deed::Remove => self.store.stages.sweep_home(path).map(drop),
                    Deed::Count => Ok(()),
                }
            } else {
                self.entry((&dir, &name, &at), (&mut judges, Fate::Goes), &scope)
            };
            self.note(&at, step);
        }
        Ok(())
    }

    /// Removes the directory `path`, whose entries are gone; whether it is, or stays for what is to stay in it.
    fn remove_dir(&mut self, path: &RelPath) -> Result<bool, StoreError> {
        if self.kept.contains(path) {
            return Ok(false);
        }
        if self.deed == Deed::Count {
            self.removed += 1;
            return Ok(true);
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

    /// Notes why `path` stayed, if it did, and that the directories above it stay as well. What vanished is no trouble.
    fn note(&mut self, path: &RelPath, step: Result<(), StoreError>) {
        match step {
            Ok(()) | Err(StoreError::NotFound { .. }) => return,
            Err(error) if self.stayed.len() < MAX_STAYED => self.stayed.push(error),
            Err(_) => self.more += 1,
        }
        self.kept.insert(path.clone());
        self.keep_above(path);
    }
}

/// As many names that stayed are told one by one.
const MAX_STAYED: usize = 256;
