//! Lines that wait for their turn: changes come in no order, and are compared with those of other runs.

use std::cmp::Ordering;
use std::collections::HashSet;

use deltic_core::RelPath;
use deltic_protocol::report::{Action, Change, Item};

use crate::listing::order;

/// What is to be told of changes.
#[derive(Debug, Default)]
pub(crate) struct Held {
    lines: Vec<Line>,
    bytes: usize,
}

#[derive(Debug)]
struct Line {
    path: RelPath,
    is_dir: bool,
    is_deletion: bool,
    text: Vec<u8>,
}

impl Held {
    /// Adds what is said of `change`.
    pub(crate) fn push(&mut self, change: &Change, text: Vec<u8>) {
        let (path, is_dir) = (change.path.clone(), change.item == Item::Dir);
        let is_deletion = change.action == Action::Deleted;
        self.bytes += size_of::<Line>() + path.as_bytes().len() + text.len();
        self.lines.push(Line { path, is_dir, is_deletion, text });
    }

    /// How many bytes they take, or little more.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All of it in rsync's order: deletions come first, or last, those of a directory in a row and from the back.
    pub(crate) fn take(&mut self, deletions_last: bool) -> impl Iterator<Item = Vec<u8>> + use<> {
        let Self { lines, .. } = std::mem::take(self);
        let (gone, mut lines): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line.is_deletion);
        lines.sort_by(Line::order);
        let dirs = gone.iter().filter(|line| line.is_dir);
        let dirs: HashSet<_> = dirs.map(|line| line.path.clone()).collect();
        let mut gone: Vec<_> =
            gone.into_iter().map(|line| (kept_above(&line.path, &dirs), line)).collect();
        gone.sort_by(|(above, line), (other_above, other)| {
            order((above, true), (other_above, true)).then_with(|| other.order(line))
        });
        let gone: Vec<_> = gone.into_iter().map(|(_, line)| line).collect();
        let (first, last) = if deletions_last { (lines, gone) } else { (gone, lines) };
        first.into_iter().chain(last).map(|line| line.text)
    }
}

impl Line {
    fn order(&self, other: &Self) -> Ordering {
        order((&self.path, self.is_dir), (&other.path, other.is_dir))
    }
}

/// The directory above `path` that is not `gone` itself.
fn kept_above(path: &RelPath, gone: &HashSet<RelPath>) -> RelPath {
    let mut above = path.clone();
    while let Some((dir, _)) = above.split_last()
        && gone.contains(&dir)
    {
        above = dir;
    }
    above.split_last().map_or_else(RelPath::root, |(dir, _)| dir)
}

#[cfg(test)]
mod tests {
    use deltic_protocol::report::{Differs, Facts};

    use super::*;

    #[test]
    fn what_is_told_comes_in_the_order_in_which_rsync_tells_it() {
        let (gone, new) = (Action::Deleted, Action::Created);
        let said = [
            (new, "m/k"),
            (gone, "m/0"),
            (gone, "q/r/1"),
            (new, "b/c/"),
            (new, "b/zz"),
            (gone, "b/c/old/"),
            (gone, "b/c/old/1"),
            (gone, "q/"),
            (new, "z"),
            (gone, "b/f0"),
            (gone, "q/r/"),
            (gone, "zzz"),
            (gone, "b/x1"),
            (gone, "0"),
        ];
        let told = |last| {
            let mut held = Held::default();
            for (action, name) in said {
                let item = if name.ends_with('/') { Item::Dir } else { Item::File };
                let path = RelPath::parse(name.trim_end_matches('/').as_bytes()).unwrap();
                let (differs, facts) = (Differs::default(), Facts::default());
                held.push(&Change { path, item, action, differs, facts }, name.into());
            }
            let lines: Vec<_> =
                held.take(last).map(|line| String::from_utf8(line).unwrap()).collect();
            assert!(held.is_empty() && held.bytes() == 0);
            lines.join(" ")
        };
        let gone = "q/r/1 q/r/ q/ zzz 0 b/x1 b/f0 b/c/old/1 b/c/old/ m/0";
        let new = "z b/zz b/c/ m/k";
        assert_eq!(told(false), format!("{gone} {new}"));
        assert_eq!(told(true), format!("{new} {gone}"));
    }
}
