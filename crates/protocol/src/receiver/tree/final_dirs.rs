//! Directories that get their times and modes at the end of a run. They are stored as parent and name, because a tree
//! has many of them.

use deltic_core::packed::{StringSlab, StringSlot};
use deltic_tree::{Kind, Meta, Name, RelPath, Timestamp};

use crate::receiver::ask::CarriedMeta;

/// Most directories set by a piece of work.
const BATCH: usize = 1024;

/// The directories to be set at the end.
#[derive(Debug, Default)]
pub(super) struct FinalDirs {
    own: Vec<FinalDir>,
    /// Directories that are only implied as parents of a source.
    implied: Vec<FinalDir>,
    names: StringSlab,
    /// Number of directories that are not set, because there was no room for their names.
    unset: u64,
    /// The parent of the last directory, shared with sibling directories.
    parent: RelPath,
}

/// A directory to be set. In descending order of parents, each directory comes after all directories below it.
#[derive(Debug)]
struct FinalDir {
    parent: RelPath,
    /// The name in `parent`; the root has none.
    name: Option<StringSlot>,
    meta: FinalMeta,
}

/// The share of a directory's metadata that is set at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FinalMeta {
    modified: Timestamp,
    mode: u32,
    user: Option<u32>,
    group: Option<u32>,
    /// True if the directory gets no metadata of the sender (`--no-implied-dirs`).
    is_implied: bool,
}

impl From<&Meta> for FinalMeta {
    fn from(meta: &Meta) -> Self {
        let Meta { modified, mode, user, group, .. } = *meta;
        Self { modified, mode, user, group, is_implied: meta.is_implied_dir() }
    }
}

impl FinalDirs {
    pub(super) fn push(&mut self, path: &RelPath, meta: FinalMeta) {
        let (parent, name) = match path.split_last() {
            Some((parent, name)) => match self.names.store(name.as_bytes()) {
                Ok(name) => (parent, Some(name)),
                Err(_) => return self.unset += 1,
            },
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

    /// Removes a directory that could not be made, which is among the last ones.
    pub(super) fn remove(&mut self, path: &RelPath) {
        for dirs in [&mut self.own, &mut self.implied] {
            if let Some(at) = dirs.iter().rposition(|dir| dir.has_path(path, &self.names)) {
                let dir = dirs.swap_remove(at);
                dir.name.map(|name| self.names.remove(name));
            }
        }
    }

    /// Returns the directories directly below the root.
    pub(super) fn topmost_dirs(&self) -> Vec<RelPath> {
        let all = self.own.iter().chain(&self.implied);
        let all = all.filter(|dir| dir.parent.is_root());
        all.filter_map(|dir| path_of(&dir.parent, self.names.get(dir.name?))).collect()
    }

    /// Number of directories that are not set because their names found no room.
    pub(super) const fn unset_count(&self) -> u64 {
        self.unset
    }

    /// Sorts the directories in the order of setting; none may be added afterwards.
    pub(super) fn sort(&mut self) {
        let name = |dir: &FinalDir| dir.name.map(|name| self.names.get(name));
        for dirs in [&mut self.own, &mut self.implied] {
            dirs.sort_unstable_by(|one, other| {
                one.parent.cmp(&other.parent).then_with(|| name(one).cmp(&name(other)))
            });
        }
    }

    pub(super) const fn are_set(&self) -> bool {
        self.own.is_empty() && self.implied.is_empty()
    }

    /// Takes the next directories to set, from the leaves up, and the share of metadata that they get.
    pub(super) fn pop_batch(&mut self) -> Option<(Vec<(RelPath, Meta)>, CarriedMeta)> {
        let (dirs, carries) = match self.own.is_empty() {
            false => (&mut self.own, CarriedMeta::Late),
            true => (&mut self.implied, CarriedMeta::Nothing),
        };
        let last = dirs.split_off(dirs.len().saturating_sub(BATCH));
        let mut take = |FinalDir { parent, name, meta }| {
            let path = match name {
                Some(name) => path_of(&parent, &self.names.remove(name))?,
                None => parent,
            };
            Some((path, meta.meta()))
        };
        let batch: Vec<_> = last.into_iter().rev().filter_map(&mut take).collect();
        (!batch.is_empty()).then_some((batch, carries))
    }
}

impl FinalDir {
    fn has_path(&self, path: &RelPath, names: &StringSlab) -> bool {
        let name = self.name.map(|name| names.get(name));
        name == path.components().next_back()
            && path.split_last().is_none_or(|(parent, _)| parent == self.parent)
    }
}

/// Returns the path of a directory.
fn path_of(parent: &RelPath, name: &[u8]) -> Option<RelPath> {
    parent.join(&Name::new(name).ok()?).ok()
}

impl FinalMeta {
    fn meta(self) -> Meta {
        let Self { modified, mode, user, group, is_implied } = self;
        match is_implied {
            true => Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o777),
            false => Meta { user, group, ..Meta::without_owner(Kind::Dir, 0, modified, mode) },
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
        let meta = FinalMeta::from(&Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o750));
        let mut dirs = FinalDirs::default();
        let all = ["", "a", "a/b", "a/b/c", "a/b/d", "a-b", "a-b/c", "gone"].map(path);
        all.iter().for_each(|dir| dirs.push(dir, meta));
        dirs.push(&path("way"), FinalMeta { is_implied: true, ..meta });
        dirs.remove(&path("gone"));
        assert_eq!(dirs.topmost_dirs(), ["a", "a-b", "way"].map(path));
        dirs.sort();
        let (own, carries) = dirs.pop_batch().unwrap();
        assert!(own.len() == 7 && carries == CarriedMeta::Late && own[0].1.mode == 0o750);
        for (nth, (dir, _)) in own.iter().enumerate() {
            assert!(!own[nth + 1..].iter().any(|(below, _)| below.starts_with(dir)), "{dir}");
        }
        let (implied, carries) = dirs.pop_batch().unwrap();
        assert!(implied[0].0 == path("way") && carries == CarriedMeta::Nothing && dirs.are_set());
        assert!(dirs.pop_batch().is_none());
    }

    #[test]
    fn one_work_sets_a_bounded_number() {
        let mut dirs = FinalDirs::default();
        let meta = FinalMeta::from(&Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755));
        (0..=BATCH).for_each(|n| dirs.push(&path(&n.to_string()), meta));
        dirs.sort();
        let batches = std::iter::from_fn(|| dirs.pop_batch());
        assert_eq!(batches.map(|(dirs, _)| dirs.len()).collect::<Vec<_>>(), [BATCH, 1]);
    }
}
