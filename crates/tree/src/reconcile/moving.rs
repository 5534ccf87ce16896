//! Finds renamed files: a file that one end deleted, and a new file of the same length and time at that end.

use std::collections::{HashMap, HashSet};

use super::{FileVerdict, FileVersion, Planner, SyncEnd, TreeNode, above};
use crate::path::RelPath;

/// Length, time and, in the first round, name of a file.
type Likeness<'a> = (u64, i64, Option<&'a [u8]>);

impl Planner<'_> {
    /// Returns the renames that replace a deletion and a transfer: the end, the present path and the new path. Only
    /// files that are alike one to one count.
    pub(super) fn moves(&self) -> Vec<(SyncEnd, RelPath, RelPath)> {
        let mut moves = Vec::new();
        for end in SyncEnd::BOTH {
            let (mut gone, mut new) = (self.gone(end), self.sent(end));
            for by_name in [true, false] {
                let mut found = pairs(&gone, &new, by_name);
                found.retain(|(from, to)| self.may_be_equal(end, from, to));
                let paired: HashSet<_> = found.iter().flat_map(|(from, to)| [*from, *to]).collect();
                gone.retain(|(path, _)| !paired.contains(path));
                new.retain(|(path, _)| !paired.contains(path));
                moves.extend(found.into_iter().map(|(from, to)| (end, from.clone(), to.clone())));
            }
        }
        moves
    }

    /// False if the file `from` at `end` is known to differ from the other end's file `to`.
    fn may_be_equal(&self, end: SyncEnd, from: &RelPath, to: &RelPath) -> bool {
        let digest = |end, path| self.trees.file(end, path)?.digest.as_ref();
        let known = digest(end, from).zip(digest(end.other(), to));
        known.is_none_or(|(one, other)| one == other)
    }

    /// Returns the files that a plan deletes at `end`, as the other end had them.
    fn gone(&self, end: SyncEnd) -> Vec<(&RelPath, &FileVersion)> {
        let removed =
            self.files.iter().filter(|(_, verdict)| **verdict == FileVerdict::Remove(end));
        let was = |path| self.trees.ancestor.get(path)?.file(end.other());
        removed.filter_map(|(path, _)| Some((path, was(path)?))).collect()
    }

    /// Returns the new files that a plan sends to `end`, as the other end has them.
    fn sent(&self, end: SyncEnd) -> Vec<(&RelPath, &FileVersion)> {
        let sent = self.files.iter().filter(|(_, verdict)| **verdict == FileVerdict::Send(end));
        let is_new = |path: &&RelPath| {
            let is_free = !self.trees.end(end).contains_key(*path);
            let is_dir = |dir| matches!(self.trees.end(end).get(&dir), None | Some(TreeNode::Dir));
            is_free && !self.trees.ancestor.contains_key(*path) && above(path).all(is_dir)
        };
        let state = |path| self.trees.file(end.other(), path);
        sent.map(|(path, _)| path)
            .filter(is_new)
            .filter_map(|path| Some((path, state(path)?)))
            .collect()
    }
}

/// Returns the pairs of files that are alike, where no third file is.
fn pairs<'a>(
    gone: &[(&'a RelPath, &FileVersion)],
    new: &[(&'a RelPath, &FileVersion)],
    by_name: bool,
) -> Vec<(&'a RelPath, &'a RelPath)> {
    let mut alike: HashMap<Likeness<'a>, [Vec<&'a RelPath>; 2]> = HashMap::new();
    for (side, files) in [gone, new].into_iter().enumerate() {
        for (path, state) in files.iter().filter(|(_, state)| state.bytes > 0) {
            let name = by_name.then(|| path.components().next_back()).flatten();
            alike.entry((state.bytes, state.modified, name)).or_default()[side].push(path);
        }
    }
    let mut found: Vec<_> = alike
        .into_values()
        .filter_map(|sides| match sides.each_ref().map(Vec::as_slice) {
            [[from], [to]] => Some((*from, *to)),
            _ => None,
        })
        .collect();
    found.sort_unstable();
    found
}
