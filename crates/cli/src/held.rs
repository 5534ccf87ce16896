//! Lines that wait for their turn: changes come in no order, and are compared with those of other runs. There may be millions.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use deltic_core::packed::At;
use deltic_core::{Packed, Put, Reader};
use deltic_protocol::report::{Action, Change, Item};

use crate::listing::order;

/// What is to be told of changes.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Of each line whether it is of a directory, the path, and what is said.
    lines: Packed,
    deletions: Vec<At>,
    others: Vec<At>,
    bytes: usize,
}

impl Held {
    /// Adds what is said of `change`; whether there was room.
    pub(crate) fn push(&mut self, change: &Change, text: &[u8]) -> bool {
        let mut line = vec![u8::from(change.item == Item::Dir)];
        line.put_prefixed(change.path.as_bytes());
        line.extend_from_slice(text);
        let Ok(at) = self.lines.push(&line) else { return false };
        self.bytes += line.len();
        match change.action {
            Action::Deleted => self.deletions.push(at),
            _ => self.others.push(at),
        }
        true
    }

    /// Bytes of names and lines.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Says all of it in rsync's order: deletions come first, or last, those of a directory in a row and from the back.
    pub(crate) fn say(&mut self, deletions_last: bool, mut line: impl FnMut(&[u8])) {
        let Self { lines, deletions, mut others, .. } = std::mem::take(self);
        others.sort_by(|one, other| by_name(read(&lines, *one), read(&lines, *other)));
        let deletions = in_order(&lines, &deletions);
        let (first, last) = if deletions_last { (others, deletions) } else { (deletions, others) };
        first.into_iter().chain(last).for_each(|at| line(read(&lines, at).2));
    }
}

/// Whether a line is of a directory, of which path, and what is said.
type Line<'a> = (bool, &'a [u8], &'a [u8]);

fn read(lines: &Packed, at: At) -> Line<'_> {
    const WHOLE: &str = "it was put there whole";
    let (is_dir, rest) = lines.get(at).split_first().expect(WHOLE);
    let mut rest = Reader::new(rest);
    let path = rest.prefixed(usize::MAX).expect(WHOLE);
    (*is_dir == 1, path, rest.rest())
}

fn by_name((is_dir, path, _): Line<'_>, (other_is_dir, other, _): Line<'_>) -> Ordering {
    order((path, is_dir), (other, other_is_dir))
}

/// Deletions in the order of the directories that stay and had them.
fn in_order(lines: &Packed, deletions: &[At]) -> Vec<At> {
    let all = || deletions.iter().map(|at| read(lines, *at));
    let gone: HashSet<_> = all().filter(|(is_dir, ..)| *is_dir).map(|(_, path, _)| path).collect();
    let dirs: HashSet<_> = all().map(|(_, path, _)| kept_above(path, &gone)).collect();
    let mut dirs: Vec<_> = dirs.into_iter().collect();
    dirs.sort_by(|one, other| order((one, true), (other, true)));
    let numbers: HashMap<_, _> = dirs.into_iter().zip(0u32..).collect();
    let number = |at: &At| numbers[kept_above(read(lines, *at).1, &gone)];
    let mut places: Vec<_> = deletions.iter().map(|at| (number(at), *at)).collect();
    places.sort_by(|(dir, one), (other_dir, other)| {
        dir.cmp(other_dir).then_with(|| by_name(read(lines, *other), read(lines, *one)))
    });
    places.into_iter().map(|(_, at)| at).collect()
}

/// The directory above `path` that is not `gone` itself.
fn kept_above<'a>(path: &'a [u8], gone: &HashSet<&[u8]>) -> &'a [u8] {
    let mut above = path;
    loop {
        let slash = above.iter().rposition(|byte| *byte == b'/');
        above = &above[..slash.unwrap_or(0)];
        if above.is_empty() || !gone.contains(above) {
            return above;
        }
    }
}

#[cfg(test)]
mod tests {
    use deltic_core::RelPath;
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
                let change = Change { path, item, action, differs, facts };
                assert!(held.push(&change, name.as_bytes()));
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
}
