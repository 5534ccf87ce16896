//! Directories that get their time and mode at the end of a run, held as parent and name: a tree has many of them.

use deltic_tree::{Kind, Meta, Name, RelPath, Timestamp};

use crate::receiver::ask::Carries;

/// Most directories that are set by one work.
const BATCH: usize = 1024;

/// All directories that are set at the end.
#[derive(Debug, Default)]
pub(super) struct FinalDirs {
    own: Vec<FinalDir>,
    /// Those on the way to a source only.
    implied: Vec<FinalDir>,
    /// The parent of the last one: its siblings share it.
    parent: RelPath,
}

/// Ordered by parent, so that the reverse has every directory after those below it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FinalDir {
    parent: RelPath,
    /// The name in `parent`; the root has none.
    name: Option<Name>,
    meta: FinalMeta,
}

/// The share of a directory's metadata that it gets at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FinalMeta {
    modified: Timestamp,
    mode: u32,
    user: Option<u32>,
    group: Option<u32>,
    /// Gets nothing of the sender's (`--no-implied-dirs`).
    is_implied: bool,
}

impl From<&Meta> for FinalMeta {
    fn from(meta: &Meta) -> Self {
        let Meta { modified, mode, user, group, .. } = *meta;
        Self { modified, mode, user, group, is_implied: meta.is_implied() }
    }
}

impl FinalDirs {
    pub(super) fn push(&mut self, path: &RelPath, meta: FinalMeta) {
        let (parent, name) = match path.split_last() {
            Some((parent, name)) => (parent, Some(name)),
            None => (RelPath::root(), None),
        };
        if parent != self.parent {
            self.parent = parent;
        }
        let dir = FinalDir { parent: self.parent.clone(), name, meta };
        match meta.is_implied {
            true => self.implied.push(dir),
            false => self.own.push(dir),
        }
    }

    /// Takes out a directory that could not be made. It is one of the last.
    pub(super) fn remove(&mut self, path: &RelPath) {
        for dirs in [&mut self.own, &mut self.implied] {
            if let Some(at) = dirs.iter().rposition(|dir| dir.is(path)) {
                dirs.swap_remove(at);
            }
        }
    }

    /// The directories right below the root.
    pub(super) fn topmost(&self) -> Vec<RelPath> {
        let all = self.own.iter().chain(&self.implied);
        all.filter(|dir| dir.parent.is_root() && dir.name.is_some()).map(FinalDir::path).collect()
    }

    /// Puts all in the order in which they are set. No more are to come.
    pub(super) fn sort(&mut self) {
        self.own.sort_unstable();
        self.implied.sort_unstable();
    }

    pub(super) const fn are_set(&self) -> bool {
        self.own.is_empty() && self.implied.is_empty()
    }

    /// Takes the next ones to set, from the leaves up, and what they get.
    pub(super) fn pop_batch(&mut self) -> Option<(Vec<(RelPath, Meta)>, Carries)> {
        let (dirs, carries) = match self.own.is_empty() {
            false => (&mut self.own, Carries::Late),
            true => (&mut self.implied, Carries::Nothing),
        };
        let last = dirs.split_off(dirs.len().saturating_sub(BATCH));
        let batch: Vec<_> = last.iter().rev().map(|dir| (dir.path(), dir.meta.meta())).collect();
        (!batch.is_empty()).then_some((batch, carries))
    }
}

impl FinalDir {
    fn is(&self, path: &RelPath) -> bool {
        self.name.as_ref().map(Name::as_bytes) == path.components().next_back()
            && self.path() == *path
    }

    fn path(&self) -> RelPath {
        let name = self.name.as_ref();
        name.map_or_else(RelPath::root, |name| self.parent.join(name).expect("it was a path"))
    }
}

impl FinalMeta {
    fn meta(self) -> Meta {
        let Self { modified, mode, user, group, is_implied } = self;
        match is_implied {
            true => Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o777),
            false => Meta { user, group, ..Meta::plain(Kind::Dir, 0, modified, mode) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn all_are_set_from_the_leaves_up() {
        let meta = FinalMeta::from(&Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o750));
        let mut dirs = FinalDirs::default();
        let all = ["", "a", "a/b", "a/b/c", "a/b/d", "a-b", "a-b/c", "gone"].map(path);
        all.iter().for_each(|dir| dirs.push(dir, meta));
        dirs.push(&path("way"), FinalMeta { is_implied: true, ..meta });
        dirs.remove(&path("gone"));
        assert_eq!(dirs.topmost(), ["a", "a-b", "way"].map(path));
        dirs.sort();
        let (own, carries) = dirs.pop_batch().unwrap();
        assert!(own.len() == 7 && carries == Carries::Late && own[0].1.mode == 0o750);
        for (nth, (dir, _)) in own.iter().enumerate() {
            assert!(!own[nth + 1..].iter().any(|(below, _)| below.starts_with(dir)), "{dir}");
        }
        let (implied, carries) = dirs.pop_batch().unwrap();
        assert!(implied[0].0 == path("way") && carries == Carries::Nothing && dirs.are_set());
        assert!(dirs.pop_batch().is_none());
    }

    #[test]
    fn one_work_sets_a_bounded_number() {
        let mut dirs = FinalDirs::default();
        let meta = FinalMeta::from(&Meta::plain(Kind::Dir, 0, Timestamp::default(), 0o755));
        (0..=BATCH).for_each(|n| dirs.push(&path(&n.to_string()), meta));
        dirs.sort();
        let batches = std::iter::from_fn(|| dirs.pop_batch());
        assert_eq!(batches.map(|(dirs, _)| dirs.len()).collect::<Vec<_>>(), [BATCH, 1]);
    }
}
