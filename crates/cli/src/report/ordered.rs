//! Texts about paths, sorted in rsync's order. There may be millions of texts, so a directory is stored once for
//! consecutive entries.

use std::cmp::Ordering;
use std::collections::HashSet;

use deltic_core::codec::MAX_VARINT_BYTES;
use deltic_core::packed::{OutOfRoom, StringSlot};
use deltic_core::{PackedStrings, Put, Reader};
use deltic_tree::{EntryType, RelPath};

/// Texts about paths.
#[derive(Debug, Default)]
pub(crate) struct PathTexts {
    /// Directories, stored whenever the directory changes; some are stored repeatedly.
    dirs: PackedStrings,
    places: Vec<StringSlot>,
    /// For each path: the number of its directory, whether the path is gone after the run, the text, and the last name.
    /// A directory has no last name.
    lines: PackedStrings,
}

/// State of a path after the run: removed, or still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathState {
    Gone,
    Stays,
}

/// Contents of a line.
struct PathLine<'a> {
    dir: usize,
    fate: PathState,
    text: &'a [u8],
    name: &'a [u8],
}

impl PathTexts {
    /// Adds `text` about `path`.
    ///
    /// # Errors
    /// [`OutOfRoom`] if there is no room for the text.
    pub(crate) fn push(
        &mut self,
        path: &RelPath,
        item: EntryType,
        text: &[u8],
    ) -> Result<(), OutOfRoom> {
        self.push_as(PathState::Stays, path, item, text)
    }

    /// Adds `text` about a path that exists, or is gone, after the run.
    ///
    /// # Errors
    /// [`OutOfRoom`] if there is no room for the text.
    pub(crate) fn push_as(
        &mut self,
        fate: PathState,
        path: &RelPath,
        item: EntryType,
        text: &[u8],
    ) -> Result<(), OutOfRoom> {
        let (dir, name) = match item {
            EntryType::Dir => (path.as_bytes(), &b""[..]),
            _ => split(path.as_bytes()),
        };
        if self.places.last().is_none_or(|last| self.dirs.get(*last) != dir) {
            self.places.push(self.dirs.push(dir)?);
        }
        let mut line = Vec::with_capacity(name.len() + text.len() + 2 * MAX_VARINT_BYTES);
        line.put_varint((self.places.len() as u64 - 1) << 1 | u64::from(fate == PathState::Gone));
        line.put_prefixed(text);
        line.put_bytes(name);
        self.lines.push(&line).map(drop)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Passes each path and its text to `to`, in the order of names. In a directory, other entries come first, then
    /// directories, each with its entries. Texts about one path come in the order in which they were added.
    pub(crate) fn by_name(&self, to: impl FnMut(&[u8], &[u8])) {
        let ranks = self.ranks(|dir| dir);
        let place = |line: &PathLine<'_>| ranks[line.dir];
        let by_name = |one: &PathLine<'_>, other: &PathLine<'_>| {
            place(one).cmp(&place(other)).then_with(|| one.name.cmp(other.name))
        };
        self.sorted(by_name, to);
    }

    /// Passes each path and its text to `to`, grouped by the nearest ancestor directory that still exists, in the order
    /// of names. In each group, removed entries come first, in reverse order.
    pub(crate) fn by_kept_directory(&self, to: impl FnMut(&[u8], &[u8])) {
        let lines = self.lines.iter().map(|(at, _)| self.line(at));
        let gone = lines.filter(|line| line.fate == PathState::Gone && line.name.is_empty());
        let gone: HashSet<_> = gone.map(|line| self.dir(line.dir)).collect();
        let (kept, ranks) = (self.ranks(|dir| kept_above(dir, &gone)), self.ranks(|dir| dir));
        let place = |line: &PathLine<'_>| (kept[line.dir], line.fate);
        let by_kept = |one: &PathLine<'_>, other: &PathLine<'_>| {
            let by_name = (ranks[one.dir], one.name).cmp(&(ranks[other.dir], other.name));
            let from_the_back = one.fate == PathState::Gone;
            let inside = if from_the_back { by_name.reverse() } else { by_name };
            place(one).cmp(&place(other)).then(inside)
        };
        self.sorted(by_kept, to);
    }

    fn sorted(
        &self,
        order: impl Fn(&PathLine<'_>, &PathLine<'_>) -> Ordering,
        mut to: impl FnMut(&[u8], &[u8]),
    ) {
        let mut lines = Vec::with_capacity(self.lines.len());
        lines.extend(self.lines.iter().map(|(at, _)| at));
        lines.sort_unstable_by(|one, other| {
            order(&self.line(*one), &self.line(*other)).then(one.cmp(other))
        });
        let mut path = Vec::new();
        for PathLine { dir, text, name, .. } in lines.into_iter().map(|at| self.line(at)) {
            path.clear();
            path.extend_from_slice(self.dir(dir));
            if !path.is_empty() && !name.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            to(&path, text);
        }
    }

    /// Returns the rank of each directory, by the path that `of` returns for it.
    fn ranks<'a>(&'a self, of: impl Fn(&'a [u8]) -> &'a [u8]) -> Vec<u32> {
        let path = |number: &u32| of(self.dir(*number as usize));
        let mut dirs: Vec<_> = (0..self.places.len() as u32).collect();
        dirs.sort_unstable_by(|one, other| order(path(one), path(other)));
        let mut ranks = vec![0; dirs.len()];
        for (alike, rank) in dirs.chunk_by(|one, next| path(one) == path(next)).zip(0..) {
            alike.iter().for_each(|dir| ranks[*dir as usize] = rank);
        }
        ranks
    }

    fn dir(&self, number: usize) -> &[u8] {
        self.dirs.get(self.places[number])
    }

    fn line(&self, at: StringSlot) -> PathLine<'_> {
        const WHOLE: &str = "it was put there whole";
        let mut line = Reader::new(self.lines.get(at));
        let number = line.varint().expect(WHOLE);
        let fate = if number & 1 == 1 { PathState::Gone } else { PathState::Stays };
        let text = line.prefixed(usize::MAX).expect(WHOLE);
        PathLine { dir: (number >> 1) as usize, fate, text, name: line.rest() }
    }
}

/// Splits `path` into its directory and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Returns `dir`, or the lowest directory above it that is not `gone`.
fn kept_above<'a>(mut dir: &'a [u8], gone: &HashSet<&[u8]>) -> &'a [u8] {
    while !dir.is_empty() && gone.contains(dir) {
        dir = split(dir).0;
    }
    dir
}

/// Compares directories: a directory comes before its entries. As in rsync, names are compared with a slash behind
/// them: `a-b/` comes before `a/`.
fn order(one: &[u8], other: &[u8]) -> Ordering {
    let [one, other] = [one, other].map(|path| {
        let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
        path.iter().chain(slash)
    });
    one.cmp(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paths: &[&str], say: impl Fn(&PathTexts, &mut dyn FnMut(&[u8], &[u8]))) -> String {
        said_as(&[(PathState::Stays, paths)], say)
    }

    fn said_as(
        paths: &[(PathState, &[&str])],
        say: impl Fn(&PathTexts, &mut dyn FnMut(&[u8], &[u8])),
    ) -> String {
        let mut ordered = PathTexts::default();
        let paths =
            paths.iter().flat_map(|(fate, paths)| paths.iter().map(move |path| (fate, path)));
        for (no, (fate, name)) in paths.enumerate() {
            let item = if name.ends_with('/') { EntryType::Dir } else { EntryType::File };
            let path = RelPath::parse(name.trim_end_matches('/').as_bytes()).unwrap();
            ordered.push_as(*fate, &path, item, no.to_string().as_bytes()).unwrap();
        }
        let mut said = Vec::new();
        say(&ordered, &mut |path, text| {
            let [path, text] = [path, text].map(String::from_utf8_lossy);
            said.push(format!("{path}={text}"));
        });
        said.join(" ")
    }

    #[test]
    fn files_come_before_directories_and_those_before_what_is_in_them() {
        let paths = ["b/", "a/y", "b/x", "c", "b-/", "a/", "a/b/c", "a/x", "c", "", "+/"];
        let by_name = said(&paths, |ordered, to| ordered.by_name(to));
        assert_eq!(by_name, "=9 c=3 c=8 +=10 a=5 a/x=7 a/y=1 a/b/c=6 b-=4 b=0 b/x=2");
    }

    #[test]
    fn what_goes_goes_by_the_directory_that_stays_and_from_the_back() {
        let paths = ["m/0", "q/r/1", "b/c/old/", "b/c/old/1", "q/", "b/f", "q/r/", "z", "b/x"];
        let gone = (PathState::Gone, &paths[..]);
        let by_kept = said_as(&[gone], |ordered, to| ordered.by_kept_directory(to));
        assert_eq!(by_kept, "q/r/1=1 q/r=6 q=4 z=7 b/x=8 b/f=5 b/c/old/1=3 b/c/old=2 m/0=0");
        let stays = (PathState::Stays, &["b/e", "a", "b/c/", "zz", "b/y"][..]);
        let by_kept = said_as(&[gone, stays], |ordered, to| ordered.by_kept_directory(to));
        let said = "q/r/1=1 q/r=6 q=4 z=7 a=10 zz=12 b/x=8 b/f=5 b/e=9 b/y=13 b/c/old/1=3 b/c/old=2 b/c=11 m/0=0";
        assert_eq!(by_kept, said);
    }
}
