//! Keeps a watch on each directory while directories are created, removed and moved.
//!
//! Events and directories are plain data here; [`inotify`](super::inotify) has those of the kernel.
//!
//! A new directory is first watched and then listed: older entries are listed, later entries cause events, and some
//! entries are seen twice. Watches follow directories that are moved. So a directory that leaves its name loses its
//! watch and the watches below, and gets new watches at the new name.

use std::collections::{BTreeMap, HashMap};

use deltic_tree::{Name, RelPath};

use super::dirt::Change;

/// Number of a watch in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WatchNo(pub(crate) i32);

/// Reasons why a directory is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwatched {
    /// The directory is gone, is another kind of entry, or cannot be read. The round reports the error.
    Nothing,
    /// The system allows no more watches.
    TooMany,
}

/// Entries of a directory, as far as watching needs to know.
pub(crate) struct Listed {
    pub(crate) dirs: Vec<Name>,
    /// True if an entry other than a directory has several hard links, which may be anywhere.
    pub(crate) has_links: bool,
}

/// Directories that can be watched: those of the kernel, or of a test.
pub(crate) trait WatchedDirs {
    /// Drops opened roots and rules, which may have changed.
    fn renew(&mut self);
    /// Watches a directory. A directory that is already watched under any path keeps its number.
    fn watch(&mut self, dir: &RelPath) -> Result<WatchNo, Unwatched>;
    /// Ends a watch, if it still exists.
    fn unwatch(&mut self, no: WatchNo);
    /// Lists the entries of a directory that take part in the transfer.
    fn list(&mut self, dir: &RelPath) -> Listed;
    /// True if the file at `path` has several hard links, which may be anywhere.
    fn has_other_names(&mut self, path: &RelPath) -> bool;
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) no: WatchNo,
    pub(crate) kind: Kind,
    /// The name of the entry in the directory; `None` for the directory itself.
    pub(crate) name: Option<Name>,
    pub(crate) is_dir: bool,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Content or attributes changed.
    Changed,
    /// A name was created or moved here.
    Came,
    /// A name was removed or moved away.
    Went,
    /// The directory itself was moved or removed, or its file system was unmounted.
    Left,
    /// The watch has ended.
    Over,
    /// Events were lost.
    Lost,
}

/// The watches of the sources.
#[derive(Debug)]
pub(crate) struct Watches {
    roots: Vec<RelPath>,
    by_no: HashMap<WatchNo, RelPath>,
    by_path: BTreeMap<RelPath, WatchNo>,
    /// True if the system allows too few watches for all directories, so that changes may be missed.
    pub(crate) is_short: bool,
    /// True if a root is missing. From time to time, the root is [looked for](Self::rewatch_all).
    pub(crate) lost: bool,
}

impl Watches {
    /// Returns a value without watches. No root may be below another root.
    pub(crate) fn new(roots: Vec<RelPath>) -> Self {
        let (by_no, by_path) = (HashMap::new(), BTreeMap::new());
        Self { roots, by_no, by_path, is_short: false, lost: false }
    }

    /// Checks that each root is still the watched directory. Another directory may have taken the root's place without
    /// an event: a removed directory that a process holds open causes none.
    pub(crate) fn check_roots(&mut self, ground: &mut impl WatchedDirs) {
        let is_it = |root| self.by_path.get(root).is_none_or(|no| ground.watch(root) == Ok(*no));
        self.lost |= !self.roots.iter().all(is_it);
    }

    /// Watches all existing directories of the sources, and no others.
    pub(crate) fn rewatch_all(&mut self, ground: &mut impl WatchedDirs) -> Change {
        ground.renew();
        let before = std::mem::take(&mut self.by_path);
        self.by_no.clear();
        (self.is_short, self.lost) = (false, false);
        let mut seen = Vec::new();
        for root in self.roots.clone() {
            self.watch_tree(root.clone(), ground, &mut seen);
            self.lost |= !self.is_short && !self.by_path.contains_key(&root);
        }
        for no in before.into_values().filter(|no| !self.by_no.contains_key(no)) {
            ground.unwatch(no);
        }
        Change::All
    }

    /// Returns the changes that an event means.
    pub(crate) fn handle(&mut self, event: Event, ground: &mut impl WatchedDirs) -> Vec<Change> {
        let Event { no, kind, name, is_dir } = event;
        if kind == Kind::Lost {
            return vec![self.rewatch_all(ground)];
        }
        // A watch of a directory that has left the sources.
        let Some(dir) = self.by_no.get(&no).cloned() else { return Vec::new() };
        let Some(name) = name else { return self.changes_of_dir(&dir, kind) };
        let Ok(path) = dir.join(&name) else { return Vec::new() };
        let mut changes = Vec::new();
        // The other hard links changed too, or may have changed just before this link was moved here. No event names
        // the other links.
        if !is_dir && kind != Kind::Went && ground.has_other_names(&path) {
            changes.push(Change::All);
        }
        match kind {
            Kind::Changed => {
                changes.push(Change::Name(path.clone()));
                // The directory may have been unreadable before.
                if is_dir && !self.by_path.contains_key(&path) {
                    self.watch_tree(path, ground, &mut changes);
                }
            }
            Kind::Came => {
                changes.push(Change::Came(path.clone()));
                if is_dir {
                    self.watch_tree(path, ground, &mut changes);
                }
            }
            Kind::Went => {
                self.end_watches(&path, ground);
                changes.push(Change::Gone(path));
            }
            Kind::Left | Kind::Over | Kind::Lost => {}
        }
        changes
    }

    /// Returns the changes that an event about a watched directory itself means. Most events are already reported by
    /// the watch of the parent.
    fn changes_of_dir(&mut self, dir: &RelPath, kind: Kind) -> Vec<Change> {
        let is_root = self.roots.contains(dir);
        match kind {
            Kind::Changed if is_root => vec![Change::Name(dir.clone())],
            Kind::Left if is_root => {
                self.lost = true;
                vec![Change::All]
            }
            Kind::Over => {
                if let Some(no) = self.by_path.remove(dir) {
                    self.by_no.remove(&no);
                }
                self.lost |= is_root;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Watches a directory and all directories below it.
    fn watch_tree(
        &mut self,
        dir: RelPath,
        ground: &mut impl WatchedDirs,
        changes: &mut Vec<Change>,
    ) {
        let mut dirs = vec![dir];
        while let Some(dir) = dirs.pop() {
            match ground.watch(&dir) {
                Ok(no) => self.record_watch(no, &dir, ground),
                Err(Unwatched::Nothing) => continue,
                Err(Unwatched::TooMany) => {
                    self.is_short = true;
                    return changes.push(Change::All);
                }
            }
            let listed = ground.list(&dir);
            dirs.extend(listed.dirs.iter().filter_map(|name| dir.join(name).ok()));
            changes.push(Change::Dir(dir));
            // Before the directory was watched, writes through these hard links may have changed files with other
            // names.
            if listed.has_links {
                changes.push(Change::All);
            }
        }
    }

    /// Records that the watch `no` belongs to `dir`. Each watch has one directory, and each directory one watch, so
    /// older records are dropped.
    fn record_watch(&mut self, no: WatchNo, dir: &RelPath, ground: &mut impl WatchedDirs) {
        if let Some(before) = self.by_no.insert(no, dir.clone())
            && before != *dir
        {
            self.by_path.remove(&before);
        }
        if let Some(before) = self.by_path.insert(dir.clone(), no)
            && before != no
        {
            self.by_no.remove(&before);
            ground.unwatch(before);
        }
    }

    /// Ends the watches of a directory and of all directories below it.
    fn end_watches(&mut self, dir: &RelPath, ground: &mut impl WatchedDirs) {
        let from = self.by_path.range(dir.clone()..);
        // Paths are sorted by their bytes: `a.b` comes between `a` and `a/b`.
        let starts = |path: &RelPath| path.as_bytes().starts_with(dir.as_bytes());
        let below: Vec<_> = from
            .take_while(|(path, _)| starts(path))
            .filter(|(path, _)| path.starts_with(dir))
            .map(|(path, no)| (path.clone(), *no))
            .collect();
        for (path, no) in below {
            self.by_path.remove(&path);
            self.by_no.remove(&no);
            ground.unwatch(no);
        }
    }
}
