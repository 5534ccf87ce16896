//! Names of files that give way in a conflict: `notes (conflict 2026-11-29 from laptop).md`.

use std::collections::{BTreeSet, HashSet};

use super::SyncEnd;
use crate::fold::folded_path;
use crate::path::{MAX_NAME_BYTES, Name, RelPath};

/// Words of the names of conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictNaming {
    /// The day, such as `2026-11-29`.
    pub day: Box<str>,
    /// A name for the end here.
    pub here: Box<str>,
    /// A name for the end there.
    pub there: Box<str>,
}

impl ConflictNaming {
    fn label(&self, end: SyncEnd) -> &str {
        match end {
            SyncEnd::Here => &self.here,
            SyncEnd::There => &self.there,
        }
    }
}

/// Returns the `nth` name for a version from the end `from` of the file `name`. The ending of the name stays. A long
/// stem is cut.
///
/// `nth` counts from 1. The first name has no number.
#[must_use]
pub fn conflict_name(name: &Name, naming: &ConflictNaming, from: SyncEnd, nth: usize) -> Name {
    let (stem, ending) = parts(name.as_bytes());
    let (day, label) = (plain(&naming.day), plain(naming.label(from)));
    let number = if nth > 1 { format!(" {nth}") } else { String::new() };
    let words = format!(" (conflict {day} from {label}{number})");
    let most = MAX_NAME_BYTES - words.len() - ending.len();
    let named = [cut(stem, most), words.as_bytes(), ending].concat();
    Name::new(&named).expect("the parts have no slash, and the stem was cut")
}

/// Splits a name into stem and ending. An ending has a dot and at most 12 ASCII letters or digits.
fn parts(name: &[u8]) -> (&[u8], &[u8]) {
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
    match dot.map(|at| name.split_at(at)) {
        Some((stem, ending))
            if (2..=13).contains(&ending.len())
                && ending[1..].iter().all(u8::is_ascii_alphanumeric) =>
        {
            (stem, ending)
        }
        _ => (name, b""),
    }
}

/// Returns at most `most` bytes of `stem`, and no part of a letter.
fn cut(stem: &[u8], most: usize) -> &[u8] {
    let mut end = most.min(stem.len());
    while end < stem.len() && end > 0 && stem[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &stem[..end]
}

/// Returns `label` with only letters and digits of ASCII, `-` and blanks, which every file system takes.
fn plain(label: &str) -> String {
    let one = |letter: char| match letter {
        ' ' | '-' => letter,
        _ if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    label.chars().take(MAX_LABEL).map(one).collect()
}

/// Most letters of a label.
const MAX_LABEL: usize = 40;

/// Names that are taken.
pub(super) struct ConflictNames<'a> {
    taken: HashSet<Vec<u8>>,
    naming: &'a ConflictNaming,
}

impl<'a> ConflictNames<'a> {
    pub(super) fn new(paths: BTreeSet<&RelPath>, naming: &'a ConflictNaming) -> Self {
        Self { taken: paths.into_iter().map(folded_path).collect(), naming }
    }

    /// Returns a free path beside `path` for the version from the end `from`.
    pub(super) fn free(&mut self, path: &RelPath, from: SyncEnd) -> RelPath {
        let (dir, name) = path.split_last().expect("the root is no file");
        let paths = (1..).map(|nth| {
            let other = conflict_name(&name, self.naming, from, nth);
            // A path that would be too long stays beside the root's own entries.
            dir.join(&other).or_else(|_| RelPath::root().join(&other)).expect("one name is short")
        });
        let is_free = |path: &RelPath| self.taken.insert(folded_path(path));
        paths.into_iter().find(is_free).expect("there are more numbers than names")
    }
}
