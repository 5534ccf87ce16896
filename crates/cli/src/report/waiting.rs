//! Lines held back to be shown in order: changes come in any order, and users compare the output of runs. There may be
//! millions of lines.

use deltic_core::codec::MAX_VARINT_BYTES;
use deltic_core::packed::OutOfRoom;
use deltic_core::{Put, Reader};
use deltic_protocol::report::{Action, Change};

use crate::report::ordered::{PathState, PathTexts};

/// Held lines about changes.
#[derive(Debug, Default)]
pub(crate) struct HeldLines {
    /// Deletions that are shown before or after all other lines ([`DeletionOrder`]).
    deletions: PathTexts,
    asides: PathTexts,
    names: PathTexts,
    heads: LineHeads,
    bytes: usize,
}

/// A group of lines with its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineGroup {
    /// Lines beside the changes, which rsync's generator writes: deletions, and reasons why names are skipped.
    Asides,
    /// Lines of the changes themselves.
    Names,
}

/// Position of deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionOrder {
    /// Before all other lines.
    First,
    /// Among the [asides](LineGroup::Asides), before the other asides in each directory.
    Along,
    /// After all other lines.
    Last,
}

/// Beginnings of lines, up to the path. Most lines share one of a few beginnings. A line is stored as the number of its
/// beginning and the text behind the path; or as 0 and the whole line.
#[derive(Debug, Default)]
struct LineHeads(Vec<Vec<u8>>);

impl HeldLines {
    /// Adds the line about `change`.
    ///
    /// # Errors
    /// [`OutOfRoom`] if there is no room for the line.
    pub(crate) fn push(
        &mut self,
        change: &Change,
        group: LineGroup,
        deletions: DeletionOrder,
        line: &[u8],
    ) -> Result<(), OutOfRoom> {
        let Change { path, item, action, .. } = change;
        let is_gone = *action == Action::Deleted;
        let fate = if is_gone { PathState::Gone } else { PathState::Stays };
        let lines = match (is_gone, group) {
            (true, _) if deletions != DeletionOrder::Along => &mut self.deletions,
            (true, _) | (false, LineGroup::Asides) => &mut self.asides,
            (false, LineGroup::Names) => &mut self.names,
        };
        lines.push_as(fate, path, *item, &self.heads.pack(line, path.as_bytes()))?;
        self.bytes += path.as_bytes().len() + line.len();
        Ok(())
    }

    /// Bytes of paths and lines.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.deletions.is_empty() && self.asides.is_empty() && self.names.is_empty()
    }

    /// Passes all lines to `say` in rsync's order.
    pub(crate) fn say(&mut self, when: DeletionOrder, mut say: impl FnMut(&[u8])) {
        let Self { deletions, asides, names, heads, .. } = std::mem::take(self);
        let mut line = |path: &[u8], text: &[u8]| say(&heads.unpack(text, path));
        if when == DeletionOrder::First {
            deletions.by_kept_directory(&mut line);
        }
        asides.by_kept_directory(&mut line);
        names.by_name(&mut line);
        if when == DeletionOrder::Last {
            deletions.by_kept_directory(line);
        }
    }
}

impl LineHeads {
    fn pack(&mut self, line: &[u8], path: &[u8]) -> Vec<u8> {
        let (number, rest) = self.find(line, path).unwrap_or((0, line));
        let mut text = Vec::with_capacity(MAX_VARINT_BYTES + rest.len());
        text.put_varint(number as u64);
        text.put_bytes(rest);
        text
    }

    /// Returns the number of the text before `path`, and the text behind it. `None` if the line does not contain `path`
    /// literally, or if there are [`MAX_HEADS`] other beginnings already.
    fn find<'a>(&mut self, line: &'a [u8], path: &[u8]) -> Option<(usize, &'a [u8])> {
        let at = line.windows(path.len().max(1)).position(|part| part == path)?;
        let (head, rest) = (&line[..at], &line[at + path.len()..]);
        let known = self.0.iter().position(|known| known == head);
        if known.is_none() && self.0.len() < MAX_HEADS {
            self.0.push(head.to_vec());
            return Some((self.0.len(), rest));
        }
        Some((known? + 1, rest))
    }

    fn unpack(&self, text: &[u8], path: &[u8]) -> Vec<u8> {
        let mut text = Reader::new(text);
        match text.varint().expect("it was put there") {
            0 => text.rest().to_vec(),
            number => [&self.0[number as usize - 1], path, text.rest()].concat(),
        }
    }
}

/// Most beginnings: each line is compared with all.
const MAX_HEADS: usize = 64;

#[cfg(test)]
mod tests {
    use deltic_protocol::report::{Differs, EntryType, Facts};
    use deltic_tree::RelPath;

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
        let asides = ["z", "b/c/", "m/a", "b/u"];
        let told = |when| {
            let mut held = HeldLines::default();
            for (action, name) in said {
                let item = if name.ends_with('/') { EntryType::Dir } else { EntryType::File };
                let path = RelPath::parse(name.trim_end_matches('/').as_bytes()).unwrap();
                let (differs, facts) = (Differs::default(), Facts::default());
                let change = Change { path, item, action, differs, facts };
                held.push(&change, LineGroup::Names, when, name.as_bytes()).unwrap();
            }
            for name in asides {
                let path = RelPath::parse(name.trim_end_matches('/').as_bytes()).unwrap();
                let item = if name.ends_with('/') { EntryType::Dir } else { EntryType::File };
                let (differs, facts) = (Differs::default(), Facts::default());
                let change = Change { path, item, action: Action::Unchanged, differs, facts };
                let line = format!("({name})");
                held.push(&change, LineGroup::Asides, when, line.as_bytes()).unwrap();
            }
            let mut lines = Vec::new();
            held.say(when, |line| lines.push(String::from_utf8(line.into()).unwrap()));
            assert!(held.is_empty() && held.bytes() == 0);
            lines.join(" ")
        };
        let gone = "q/r/1 q/r/ q/ zzz 0 b/x1 b/f0 b/c/old/1 b/c/old/ m/0";
        let (beside, new) = ("(z) (b/u) (b/c/) (m/a)", "z b/zz b/c/ m/k");
        assert_eq!(told(DeletionOrder::First), format!("{gone} {beside} {new}"));
        assert_eq!(told(DeletionOrder::Last), format!("{beside} {new} {gone}"));
        let along = "q/r/1 q/r/ q/ zzz 0 (z) b/x1 b/f0 (b/u) b/c/old/1 b/c/old/ (b/c/) m/0 (m/a)";
        assert_eq!(told(DeletionOrder::Along), format!("{along} {new}"));
    }

    /// Covers more beginnings than there are numbers, and lines without their path.
    #[test]
    fn lines_are_told_as_they_were() {
        let line = |n: usize| match n % 4 {
            0 => format!("told at {n}: a/{n:05} and a/{n:05}"),
            1 => format!("a/{n:05}"),
            2 => format!(">f.st...... a/{n:05} -> there"),
            _ => format!("no name {n}"),
        };
        let mut held = HeldLines::default();
        let lines: Vec<_> = (0..4 * MAX_HEADS + 9).map(line).collect();
        for (n, line) in lines.iter().enumerate() {
            let path = RelPath::parse(format!("a/{n:05}").as_bytes()).unwrap();
            let (differs, facts) = (Differs::default(), Facts::default());
            let (item, action) = (EntryType::File, Action::Touched);
            let change = Change { path, item, action, differs, facts };
            held.push(&change, LineGroup::Names, DeletionOrder::First, line.as_bytes()).unwrap();
        }
        let mut told = Vec::new();
        held.say(DeletionOrder::First, |line| told.push(String::from_utf8(line.into()).unwrap()));
        assert_eq!(told, lines);
    }
}
