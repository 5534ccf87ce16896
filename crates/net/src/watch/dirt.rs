//! Changes of the source that are not yet at the destination, in as few names as possible.
//!
//! Guarantee: syncing the names in this list syncs all changes, whatever their order.

use std::collections::{BTreeMap, BTreeSet};

use deltic_tree::{Name, RelPath};

/// A change at the source, as far as syncing needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The entry is new, or its content or attributes changed.
    Name(RelPath),
    /// The entry is new, which also changed its directory.
    Came(RelPath),
    /// The directory is new, or any of its entries may have changed. Entries of subdirectories have not.
    Dir(RelPath),
    /// The entry and all entries below are gone.
    Gone(RelPath),
    /// Anything may have changed.
    All,
}

/// Names and directories to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirt {
    all: bool,
    /// Directories to compare entry by entry, without the entries of subdirectories.
    dirs: BTreeSet<RelPath>,
    /// Names to compare, by directory. Names in the directories of `dirs` are not listed.
    names: BTreeMap<RelPath, BTreeSet<Name>>,
    count: usize,
    /// Names that are gone, with all names below them, and did not come back. Names in `gone_from` are not listed.
    gone: BTreeSet<RelPath>,
    /// Directories from which any entry may be gone, because too many entries are gone to list each.
    gone_from: BTreeSet<RelPath>,
    /// True if more names may be gone.
    more_gone: bool,
}

/// Most directories and names. With more, all names are compared.
const MOST: usize = 4096;
/// Most names in a directory. With more, the whole directory is compared.
const MOST_IN_DIR: usize = 256;
/// Most names listed as gone, and most directories in `gone_from`.
const MOST_GONE: usize = 256;

impl Dirt {
    /// Notes a change.
    pub(crate) fn note_change(&mut self, change: Change) {
        match &change {
            Change::Gone(path) => self.note_gone(path.clone()),
            Change::Came(path) => drop(self.gone.remove(path)),
            Change::Name(_) => {}
            Change::Dir(_) | Change::All => self.more_gone = true,
        }
        self.add_to_compare(change);
    }

    /// Marks all names for comparison. Keeps the list of gone names.
    pub(crate) fn compare_all(&mut self) {
        self.add_to_compare(Change::All);
    }

    fn add_to_compare(&mut self, change: Change) {
        if self.all {
            return;
        }
        match change {
            Change::Name(path) => self.add_name(&path),
            Change::Came(path) => {
                self.add_name(&path);
                // The parent is the root, which no other comparison includes, so its attributes are compared too.
                if path.split_last().is_some_and(|(dir, _)| dir.is_root()) {
                    self.add_dir(RelPath::root());
                }
            }
            Change::Dir(path) => self.add_dir(path),
            Change::Gone(path) => self.add_gone(&path),
            Change::All => self.add_all(),
        }
        if self.dirs.len() + self.count > MOST {
            self.add_all();
        }
    }

    /// Adds the changes of `other`.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { all, dirs, names, gone, gone_from, more_gone, count: _ } = other;
        gone.into_iter().for_each(|path| self.note_gone(path));
        gone_from.into_iter().for_each(|dir| self.note_entries_gone_from(dir));
        self.more_gone |= more_gone;
        if all {
            self.compare_all();
        }
        dirs.into_iter().for_each(|dir| self.add_to_compare(Change::Dir(dir)));
        for (dir, names) in names {
            let paths = names.iter().filter_map(|name| dir.join(name).ok());
            paths.for_each(|path| self.add_to_compare(Change::Name(path)));
        }
    }

    /// True if every directory in `other` is compared here too. Only comparisons of directories delete entries.
    pub(crate) fn covers_dirs(&self, other: &Self) -> bool {
        self.all || !other.all && other.dirs.is_subset(&self.dirs)
    }

    /// True if names are gone, and all gone names are known.
    pub(crate) fn knows_all_gone(&self) -> bool {
        !self.more_gone && !self.is_gone_empty()
    }

    /// True if no name is known to be gone.
    pub(crate) fn is_gone_empty(&self) -> bool {
        self.gone.is_empty() && self.gone_from.is_empty()
    }

    /// Returns the names that are gone, with everything below them.
    pub(crate) fn names_gone(&self) -> impl Iterator<Item = &RelPath> {
        self.gone.iter()
    }

    /// Returns the directories from which any entry may be gone.
    pub(crate) fn gone_from(&self) -> impl Iterator<Item = &RelPath> {
        self.gone_from.iter()
    }

    /// Notes that an entry exists again. True if it was listed as gone.
    pub(crate) fn note_exists(&mut self, path: &RelPath) -> bool {
        self.gone.remove(path)
    }

    /// True if a removal of `path` extends the known deletions: a known deletion is at or below `path`, or `path` lies
    /// in a directory of `gone_from`.
    pub(crate) fn extends_deletions(&self, path: &RelPath) -> bool {
        let dir = path.split_last().map(|(dir, _)| dir);
        self.gone.iter().chain(&self.gone_from).any(|gone| gone.starts_with(path))
            || dir.is_some_and(|dir| self.gone_from.contains(&dir))
    }

    fn note_gone(&mut self, path: RelPath) {
        self.gone.retain(|gone| !gone.starts_with(&path));
        self.gone_from.retain(|dir| !dir.starts_with(&path));
        let dir = path.split_last().map(|(dir, _)| dir);
        match dir.filter(|dir| self.gone.len() >= MOST_GONE || self.gone_from.contains(dir)) {
            Some(dir) => self.note_entries_gone_from(dir),
            None => drop(self.gone.insert(path)),
        }
    }

    fn note_entries_gone_from(&mut self, dir: RelPath) {
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

    pub(crate) fn has_no_changes(&self) -> bool {
        !self.all && self.dirs.is_empty() && self.names.is_empty()
    }

    /// True if all names are compared.
    pub(crate) const fn is_all(&self) -> bool {
        self.all
    }

    /// Returns the number of directories and names to compare; 0 if [all](Self::is_all) are compared.
    pub(crate) fn len(&self) -> usize {
        self.dirs.len() + self.count
    }

    /// Returns the directories to compare entry by entry.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &RelPath> {
        self.dirs.iter()
    }

    /// Returns the names to compare.
    pub(crate) fn names(&self) -> impl Iterator<Item = RelPath> {
        let paths = |(dir, names): (&RelPath, &BTreeSet<Name>)| {
            names.iter().filter_map(|name| dir.join(name).ok()).collect::<Vec<_>>()
        };
        self.names.iter().flat_map(paths)
    }

    fn add_all(&mut self) {
        let Self { gone, gone_from, more_gone, .. } = std::mem::take(self);
        *self = Self { all: true, gone, gone_from, more_gone, ..Self::default() };
    }

    fn add_name(&mut self, path: &RelPath) {
        let Some((dir, name)) = path.split_last() else { return self.add_dir(RelPath::root()) };
        if self.dirs.contains(&dir) {
            return;
        }
        let names = self.names.entry(dir.clone()).or_default();
        self.count += usize::from(names.insert(name));
        if names.len() > MOST_IN_DIR {
            self.add_dir(dir);
        }
    }

    fn add_dir(&mut self, path: RelPath) {
        self.count -= self.names.remove(&path).map_or(0, |names| names.len());
        self.dirs.insert(path);
    }

    fn add_gone(&mut self, path: &RelPath) {
        self.dirs.retain(|dir| !dir.starts_with(path));
        self.names.retain(|dir, _| !dir.starts_with(path));
        self.count = self.names.values().map(BTreeSet::len).sum();
        match path.split_last() {
            Some((dir, _)) => self.add_dir(dir),
            None => self.add_all(),
        }
    }
}
