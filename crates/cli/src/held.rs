//! Lines that wait for their turn: changes come in no order, and are compared with those of other runs. There may be millions.

use deltic_core::codec::MAX_VARINT_BYTES;
use deltic_core::packed::Crowded;
use deltic_core::{Put, Reader};
use deltic_protocol::report::{Action, Change};

use crate::ordered::Ordered;

/// What is to be told of changes.
#[derive(Debug, Default)]
pub(crate) struct Held {
    deletions: Ordered,
    others: Ordered,
    heads: Heads,
    bytes: usize,
}

/// What is before the paths in lines. There are few such texts: a line is kept as the number of its own, and what is behind
/// the path; or as 0, and all of it.
#[derive(Debug, Default)]
struct Heads(Vec<Vec<u8>>);

impl Held {
    /// Adds the line that is said of `change`.
    ///
    /// # Errors
    /// [`Crowded`] where there is no room for it.
    pub(crate) fn push(&mut self, change: &Change, line: &[u8]) -> Result<(), Crowded> {
        let Change { path, item, action, .. } = change;
        let lines = match action {
            Action::Deleted => &mut self.deletions,
            _ => &mut self.others,
        };
        lines.push(path, *item, &self.heads.pack(line, path.as_bytes()))?;
        self.bytes += path.as_bytes().len() + line.len();
        Ok(())
    }

    /// Bytes of names and lines.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.deletions.is_empty() && self.others.is_empty()
    }

    /// Says all of it in rsync's order: deletions come first, or last.
    pub(crate) fn say(&mut self, deletions_last: bool, mut say: impl FnMut(&[u8])) {
        let Self { deletions, others, heads, .. } = std::mem::take(self);
        let mut line = |path: &[u8], text: &[u8]| say(&heads.unpack(text, path));
        if deletions_last {
            others.by_name(&mut line);
        }
        deletions.by_kept_directory(&mut line);
        if !deletions_last {
            others.by_name(line);
        }
    }
}

impl Heads {
    fn pack(&mut self, line: &[u8], path: &[u8]) -> Vec<u8> {
        let (number, rest) = self.find(line, path).unwrap_or((0, line));
        let mut text = Vec::with_capacity(MAX_VARINT_BYTES + rest.len());
        text.put_varint(number as u64);
        text.put_bytes(rest);
        text
    }

    /// The number of what is before `path`, and what is behind; none where `path` is not there as it is, or all are taken.
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

/// More are not looked through for each line.
const MAX_HEADS: usize = 64;

#[cfg(test)]
mod tests {
    use deltic_core::RelPath;
    use deltic_protocol::report::{Differs, Facts, Item};

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
                let change = Change { path, item, action, differs, facts };
                held.push(&change, name.as_bytes()).unwrap();
            }
            let mut lines = Vec::new();
            held.say(last, |line| lines.push(String::from_utf8(line.into()).unwrap()));
            assert!(held.is_empty() && held.bytes() == 0);
            lines.join(" ")
        };
        let gone = "q/r/1 q/r/ q/ zzz 0 b/x1 b/f0 b/c/old/1 b/c/old/ m/0";
        let new = "z b/zz b/c/ m/k";
        assert_eq!(told(false), format!("{gone} {new}"));
        assert_eq!(told(true), format!("{new} {gone}"));
    }

    /// With more beginnings than have numbers, and lines that do not have their path in them.
    #[test]
    fn lines_are_told_as_they_were() {
        let line = |n: usize| match n % 4 {
            0 => format!("told at {n}: a/{n:05} and a/{n:05}"),
            1 => format!("a/{n:05}"),
            2 => format!(">f.st...... a/{n:05} -> there"),
            _ => format!("no name {n}"),
        };
        let mut held = Held::default();
        let lines: Vec<_> = (0..4 * MAX_HEADS + 9).map(line).collect();
        for (n, line) in lines.iter().enumerate() {
            let path = RelPath::parse(format!("a/{n:05}").as_bytes()).unwrap();
            let (differs, facts) = (Differs::default(), Facts::default());
            let (item, action) = (Item::File, Action::Touched);
            held.push(&Change { path, item, action, differs, facts }, line.as_bytes()).unwrap();
        }
        let mut told = Vec::new();
        held.say(false, |line| told.push(String::from_utf8(line.into()).unwrap()));
        assert_eq!(told, lines);
    }
}
