//! Entries that a comparison of directories has listed, so that the receiver need not look at these entries again.

use std::collections::HashMap;
use std::sync::Mutex;

use deltic_protocol::limits::ENTRY_WINDOW;
use deltic_tree::{Entry, RelPath};

use crate::lock::lock;

/// Entries of directories that differ from the source, kept until the receiver asks for the entries. A later change of
/// an entry is detected when the entry is replaced.
#[derive(Default)]
pub(super) struct Found(Mutex<FoundDirs>);

#[derive(Default)]
struct FoundDirs {
    dirs: HashMap<RelPath, Vec<Entry>>,
    entries: usize,
}

impl Found {
    /// Keeps the entries of `dir`, in order, unless too many are kept already. The sender chooses the compared
    /// directories, so memory must be bounded.
    pub(super) fn keep_if_room(&self, dir: &RelPath, entries: Vec<Entry>) {
        let mut found = lock(&self.0);
        if found.entries + entries.len() <= MAX_FOUND {
            found.entries += entries.len();
            let before = found.dirs.insert(dir.clone(), entries);
            found.entries -= before.map_or(0, |before| before.len());
        }
    }

    pub(super) fn take(&self, dir: &RelPath) -> Option<(RelPath, Vec<Entry>)> {
        let mut found = lock(&self.0);
        let taken = found.dirs.remove_entry(dir)?;
        found.entries -= taken.1.len();
        Some(taken)
    }
}

/// Most entries that are kept, over all directories.
const MAX_FOUND: usize = ENTRY_WINDOW as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Meta, Name, Timestamp};

    fn path(path: &str) -> RelPath {
        RelPath::parse(path.as_bytes()).unwrap()
    }

    /// Returns entries with these names, and with different lengths.
    fn entries(names: &[&str]) -> Vec<Entry> {
        let entry = |(len, name): (u64, &&str)| {
            let meta = Meta::without_owner(Kind::File, len, Timestamp::default(), 0o644);
            Entry { name: Name::new(name.as_bytes()).unwrap(), meta }
        };
        (1..).zip(names).map(entry).collect()
    }

    #[test]
    fn entries_are_given_once_and_bounded() {
        let found = Found::default();
        let many: Vec<Entry> = entries(&["a"]).into_iter().cycle().take(MAX_FOUND).collect();
        found.keep_if_room(&path("few"), entries(&["a", "b"]));
        found.keep_if_room(&path("many"), many.clone());
        assert!(found.take(&path("many")).is_none());
        assert_eq!(found.take(&path("few")).unwrap().1.len(), 2);
        assert!(found.take(&path("few")).is_none());
        found.keep_if_room(&path("many"), many);
        assert_eq!(found.take(&path("many")).unwrap().1.len(), MAX_FOUND);
    }
}
