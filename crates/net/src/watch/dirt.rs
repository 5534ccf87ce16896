//! What has changed at the source and is not yet at the destination, as few names as will do.
//!
//! Law: whoever brings over what this says, in whatever order changes came, brings over everything that changed.

use std::collections::{BTreeMap, BTreeSet};

use deltic_tree::{Name, RelPath};

/// One change at the source, as far as it matters where things are brought over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The name is new, or has other content or attributes.
    Name(RelPath),
    /// The same, and there was none: the directory that it is in has changed too.
    Came(RelPath),
    /// The directory is new, or all that is in it may be other than it was; not what is in directories in it.
    Dir(RelPath),
    /// The name is gone, with all below it.
    Gone(RelPath),
    /// Anything may have changed.
    All,
}

/// Names to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirt {
    all: bool,
    /// Directories to be compared name by name, without what is in directories in them.
    dirs: BTreeSet<RelPath>,
    /// Names to be compared, by the directory that they are in; in none of those above.
    names: BTreeMap<RelPath, BTreeSet<Name>>,
    count: usize,
    /// Names that are gone, with all below them, and did not come back, but for those in the directories below.
    gone: BTreeSet<RelPath>,
    /// Directories of which any name may be gone: there were too many to remember each.
    gone_from: BTreeSet<RelPath>,
    /// True if more may be gone.
    more_gone: bool,
}

/// Most directories and names; more are compared as everything.
const MOST: usize = 4096;
/// Most names in one directory; more are compared as all that is in it.
const MOST_IN_DIR: usize = 256;
/// Most names that are known to be gone, and most directories from which more are.
const MOST_GONE: usize = 256;

impl Dirt {
    /// Takes in a change.
    pub(crate) fn note(&mut self, change: Change) {
        match &change {
            Change::Gone(path) => self.note_gone(path.clone()),
            Change::Came(path) => drop(self.gone.remove(path)),
            Change::Name(_) => {}
            Change::Dir(_) | Change::All => self.more_gone = true,
        }
        self.compare(change);
    }

    /// Has everything compared. It may be known even so what is gone.
    pub(crate) fn compare_all(&mut self) {
        self.compare(Change::All);
    }

    fn compare(&mut self, change: Change) {
        if self.all {
            return;
        }
        match change {
            Change::Name(path) => self.name(&path),
            Change::Came(path) => {
                self.name(&path);
                // The root is no name in a directory that would be compared on the way.
                if path.split_last().is_some_and(|(dir, _)| dir.is_root()) {
                    self.dir(RelPath::root());
                }
            }
            Change::Dir(path) => self.dir(path),
            Change::Gone(path) => self.gone(&path),
            Change::All => self.all(),
        }
        if self.dirs.len() + self.count > MOST {
            self.all();
        }
    }

    /// Takes in all that another has.
    pub(crate) fn join(&mut self, other: Self) {
        let Self { all, dirs, names, gone, gone_from, more_gone, count: _ } = other;
        gone.into_iter().for_each(|path| self.note_gone(path));
        gone_from.into_iter().for_each(|dir| self.note_gone_from(dir));
        self.more_gone |= more_gone;
        if all {
            self.compare_all();
        }
        dirs.into_iter().for_each(|dir| self.compare(Change::Dir(dir)));
        for (dir, names) in names {
            let paths = names.iter().filter_map(|name| dir.join(name).ok());
            paths.for_each(|path| self.compare(Change::Name(path)));
        }
    }

    /// True if every directory of the other is compared: names of others bring no deletion.
    pub(crate) fn covers_dirs(&self, other: &Self) -> bool {
        self.all || !other.all && other.dirs.is_subset(&self.dirs)
    }

    /// True if something is gone, and it is known where.
    pub(crate) fn knows_gone(&self) -> bool {
        !self.more_gone && !self.is_gone_empty()
    }

    /// True if nothing is known to be gone.
    pub(crate) fn is_gone_empty(&self) -> bool {
        self.gone.is_empty() && self.gone_from.is_empty()
    }

    /// Names that are gone, with all below them.
    pub(crate) fn names_gone(&self) -> impl Iterator<Item = &RelPath> {
        self.gone.iter()
    }

    /// Directories of which any name may be gone.
    pub(crate) fn gone_from(&self) -> impl Iterator<Item = &RelPath> {
        self.gone_from.iter()
    }

    /// Notes that a name is there again; true if it was known to be gone.
    pub(crate) fn is_back(&mut self, path: &RelPath) -> bool {
        self.gone.remove(path)
    }

    /// True if more goes of what is known to be gone: what it is part of, or another name of those directories.
    pub(crate) fn goes_with(&self, path: &RelPath) -> bool {
        let dir = path.split_last().map(|(dir, _)| dir);
        self.gone.iter().chain(&self.gone_from).any(|gone| gone.starts_with(path))
            || dir.is_some_and(|dir| self.gone_from.contains(&dir))
    }

    fn note_gone(&mut self, path: RelPath) {
        self.gone.retain(|gone| !gone.starts_with(&path));
        self.gone_from.retain(|dir| !dir.starts_with(&path));
        let dir = path.split_last().map(|(dir, _)| dir);
        match dir.filter(|dir| self.gone.len() >= MOST_GONE || self.gone_from.contains(dir)) {
            Some(dir) => self.note_gone_from(dir),
            None => drop(self.gone.insert(path)),
        }
    }

    fn note_gone_from(&mut self, dir: RelPath) {
        if self.gone.iter().any(|gone| dir.starts_with(gone)) {
            return;
        }
        self.gone.retain(|gone| gone.split_last().is_none_or(|(from, _)| from != dir));
        if self.gone_from.len() < MOST_GONE {
            self.gone_from.insert(dir);
        } else if !self.gone_from.contains(&dir) {
            self.more_gone = true;
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.all && self.dirs.is_empty() && self.names.is_empty()
    }

    /// True if everything is to be compared.
    pub(crate) const fn is_all(&self) -> bool {
        self.all
    }

    /// Directories and names to be compared; nothing where that is [everything](Self::is_all).
    pub(crate) fn len(&self) -> usize {
        self.dirs.len() + self.count
    }

    /// Directories to be compared name by name.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &RelPath> {
        self.dirs.iter()
    }

    /// Names to be compared.
    pub(crate) fn names(&self) -> impl Iterator<Item = RelPath> {
        let paths = |(dir, names): (&RelPath, &BTreeSet<Name>)| {
            names.iter().filter_map(|name| dir.join(name).ok()).collect::<Vec<_>>()
        };
        self.names.iter().flat_map(paths)
    }

    fn all(&mut self) {
        let Self { gone, gone_from, more_gone, .. } = std::mem::take(self);
        *self = Self { all: true, gone, gone_from, more_gone, ..Self::default() };
    }

    fn name(&mut self, path: &RelPath) {
        let Some((dir, name)) = path.split_last() else { return self.dir(RelPath::root()) };
        if self.dirs.contains(&dir) {
            return;
        }
        let names = self.names.entry(dir.clone()).or_default();
        self.count += usize::from(names.insert(name));
        if names.len() > MOST_IN_DIR {
            self.dir(dir);
        }
    }

    fn dir(&mut self, path: RelPath) {
        self.count -= self.names.remove(&path).map_or(0, |names| names.len());
        self.dirs.insert(path);
    }

    fn gone(&mut self, path: &RelPath) {
        self.dirs.retain(|dir| !dir.starts_with(path));
        self.names.retain(|dir, _| !dir.starts_with(path));
        self.count = self.names.values().map(BTreeSet::len).sum();
        match path.split_last() {
            Some((dir, _)) => self.dir(dir),
            None => self.all(),
        }
    }
}
