//! Which directory each watch is of, as directories come, go and move.
//!
//! Events and the ground they are about are data here; the kernel's are in [`inotify`](super::inotify).
//!
//! A new directory is watched first and listed then: what was made in it before is found, what is made later is an
//! event, and what is both is seen twice. Watches follow directories that move, so a directory that leaves its name
//! loses its watches and those below it, and gets new ones where it arrives.

use std::collections::{BTreeMap, HashMap};

use deltic_tree::{Name, RelPath};

use super::dirt::Change;

/// A watch, as the ground numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WatchNo(pub(crate) i32);

/// Why a directory is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwatched {
    /// It is not there any more, is no directory, or may not be read: who copies it will say so.
    Nothing,
    /// There are as many watches as the system allows.
    TooMany,
}

/// What is in a directory, as far as it matters who watches it.
pub(crate) struct Listed {
    pub(crate) dirs: Vec<Name>,
    /// True if something that is no directory has other names too, wherever they are.
    pub(crate) has_links: bool,
}

/// Where directories are watched.
pub(crate) trait Ground {
    /// Roots may be others than they were, and rules too.
    fn renew(&mut self);
    /// Watches a directory; one that is watched already, wherever it was then, keeps its number.
    fn watch(&mut self, dir: &RelPath) -> Result<WatchNo, Unwatched>;
    /// Ends a watch, if it still is one.
    fn unwatch(&mut self, no: WatchNo);
    /// What takes part in a directory.
    fn list(&mut self, dir: &RelPath) -> Listed;
    /// True if what is no directory has other names too, wherever they are.
    fn has_other_names(&mut self, path: &RelPath) -> bool;
}

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) no: WatchNo,
    pub(crate) kind: Kind,
    /// The name in the directory; `None` for the directory itself.
    pub(crate) name: Option<Name>,
    pub(crate) is_dir: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Content or attributes are others.
    Changed,
    /// A name was made or moved here.
    Came,
    /// A name was removed or moved from here.
    Went,
    /// The directory itself left its name, or its file system is gone.
    Left,
    /// The watch is over.
    Over,
    /// Events were lost.
    Lost,
}

/// All watches.
#[derive(Debug)]
pub(crate) struct Watches {
    roots: Vec<RelPath>,
    by_no: HashMap<WatchNo, RelPath>,
    by_path: BTreeMap<RelPath, WatchNo>,
    /// True if there are more directories than the system has watches: changes may come unnoticed.
    pub(crate) is_short: bool,
    /// True if a root is not there: it is to be [looked for](Self::look_again) now and then.
    pub(crate) lost: bool,
}

impl Watches {
    /// For these roots, none of which is below another.
    pub(crate) fn new(roots: Vec<RelPath>) -> Self {
        let (by_no, by_path) = (HashMap::new(), BTreeMap::new());
        Self { roots, by_no, by_path, is_short: false, lost: false }
    }

    /// Looks whether each root still is the directory that is watched. Another may have come in its place without a
    /// word: one that somebody holds open tells nothing of its end.
    pub(crate) fn check_roots(&mut self, ground: &mut impl Ground) {
        let is_it = |root| self.by_path.get(root).is_none_or(|no| ground.watch(root) == Ok(*no));
        self.lost |= !self.roots.iter().all(is_it);
    }

    /// Watches everything that there is by now, and nothing else.
    pub(crate) fn look_again(&mut self, ground: &mut impl Ground) -> Change {
        ground.renew();
        let before = std::mem::take(&mut self.by_path);
        self.by_no.clear();
        (self.is_short, self.lost) = (false, false);
        let mut seen = Vec::new();
        for root in self.roots.clone() {
            self.adopt(root.clone(), ground, &mut seen);
            self.lost |= !self.is_short && !self.by_path.contains_key(&root);
        }
        for no in before.into_values().filter(|no| !self.by_no.contains_key(no)) {
            ground.unwatch(no);
        }
        Change::All
    }

    /// What follows from an event.
    pub(crate) fn handle(&mut self, event: Event, ground: &mut impl Ground) -> Vec<Change> {
        let Event { no, kind, name, is_dir } = event;
        if kind == Kind::Lost {
            return vec![self.look_again(ground)];
        }
        // Of a directory that has left.
        let Some(dir) = self.by_no.get(&no).cloned() else { return Vec::new() };
        let Some(name) = name else { return self.own(&dir, kind) };
        let Ok(path) = dir.join(&name) else { return Vec::new() };
        let mut changes = Vec::new();
        // With it its other names have changed, or may have just before it was moved here, and no event says which
        // these are.
        if !is_dir && kind != Kind::Went && ground.has_other_names(&path) {
            changes.push(Change::All);
        }
        match kind {
            Kind::Changed => {
                changes.push(Change::Name(path.clone()));
                // It may not have been readable before.
                if is_dir && !self.by_path.contains_key(&path) {
                    self.adopt(path, ground, &mut changes);
                }
            }
            Kind::Came => {
                changes.push(Change::Came(path.clone()));
                if is_dir {
                    self.adopt(path, ground, &mut changes);
                }
            }
            Kind::Went => {
                self.forget(&path, ground);
                changes.push(Change::Gone(path));
            }
            Kind::Left | Kind::Over | Kind::Lost => {}
        }
        changes
    }

    /// What happened to a watched directory itself. What its directory says of it need not be said twice.
    fn own(&mut self, dir: &RelPath, kind: Kind) -> Vec<Change> {
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

    /// Watches a directory and those below it.
    fn adopt(&mut self, dir: RelPath, ground: &mut impl Ground, changes: &mut Vec<Change>) {
        let mut dirs = vec![dir];
        while let Some(dir) = dirs.pop() {
            match ground.watch(&dir) {
                Ok(no) => self.note(no, &dir, ground),
                Err(Unwatched::Nothing) => continue,
                Err(Unwatched::TooMany) => {
                    self.is_short = true;
                    return changes.push(Change::All);
                }
            }
            let listed = ground.list(&dir);
            dirs.extend(listed.dirs.iter().filter_map(|name| dir.join(name).ok()));
            changes.push(Change::Dir(dir));
            // What was written through these names before they were watched under this one is elsewhere, too.
            if listed.has_links {
                changes.push(Change::All);
            }
        }
    }

    /// A watch has one directory and a directory one watch, whatever they had before.
    fn note(&mut self, no: WatchNo, dir: &RelPath, ground: &mut impl Ground) {
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

    /// Ends the watches of a directory and of those below it.
    fn forget(&mut self, dir: &RelPath, ground: &mut impl Ground) {
        let from = self.by_path.range(dir.clone()..);
        // Paths are in order of all their bytes: `a.b` comes between `a` and `a/b`.
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
