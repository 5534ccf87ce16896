//! Sources that a run removed after their transfer (`--remove-source-files`), over all connections of the run.
//!
//! A run that loses its connection connects again, and lists its sources again. Removed sources are listed again too:
//! otherwise the receiver would delete the transferred copies as names that are not in the source.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use deltic_protocol::PackedEntries;
use deltic_store::Listing;
use deltic_tree::{Entry, Meta, RelPath};

use crate::lock::lock;

/// Sources that a run removed. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct MovedSources(Arc<Mutex<HashMap<RelPath, PackedEntries>>>);

impl MovedSources {
    /// Notes a source that is about to be removed.
    pub(crate) fn note(&self, path: &RelPath, meta: &Meta) {
        if let Some((dir, name)) = path.split_last() {
            lock(&self.0).entry(dir).or_default().push(&name, meta);
        }
    }

    /// Returns the removed sources of a directory, sorted by name.
    fn entries_of(&self, dir: &RelPath) -> VecDeque<Entry> {
        lock(&self.0).get(dir).map(PackedEntries::sorted_by_name).unwrap_or_default().into()
    }
}

/// Adds the sources that earlier attempts removed to the listings of a later attempt of the same run.
#[derive(Debug, Default)]
pub(crate) struct ListedAgain {
    moved: Option<MovedSources>,
    /// Removed sources for later parts of the listing, by directory.
    waiting: Mutex<HashMap<RelPath, VecDeque<Entry>>>,
}

impl ListedAgain {
    pub(crate) fn new(moved: Option<MovedSources>) -> Self {
        Self { moved, waiting: Mutex::default() }
    }

    /// Notes a source that is about to be removed.
    pub(crate) fn note(&self, path: &RelPath, meta: &Meta) {
        self.moved.iter().for_each(|moved| moved.note(path, meta));
    }

    /// Adds the removed sources of `dir` to `listing`, which is the first part or a later part of the listing of `dir`.
    pub(crate) fn add_to(&self, dir: &RelPath, is_first: bool, listing: &mut Listing) {
        let Some(moved) = &self.moved else { return };
        let mut waiting = lock(&self.waiting);
        let left = waiting.remove(dir);
        let mut entries = if is_first { moved.entries_of(dir) } else { left.unwrap_or_default() };
        add(&mut entries, listing);
        if !entries.is_empty() {
            waiting.insert(dir.clone(), entries);
        }
    }
}

/// Moves the entries that belong into this part of a listing from `entries` to `listing`.
fn add(entries: &mut VecDeque<Entry>, listing: &mut Listing) {
    let has_more = listing.rest.is_some();
    let last = listing.entries.last().map(|last| last.name.clone());
    let belongs =
        |entry: &mut Entry| !has_more || last.as_ref().is_some_and(|it| entry.name <= *it);
    let has_versions = !listing.versions.is_empty();
    while let Some(entry) = entries.pop_front_if(belongs) {
        let name = &entry.name;
        let Err(place) = listing.entries.binary_search_by(|there| there.name.cmp(name)) else {
            // Another entry has this name now.
            continue;
        };
        listing.entries.insert(place, entry);
        if has_versions {
            listing.versions.insert(place, None);
        }
        listing.is_empty_source = false;
    }
}

#[cfg(test)]
mod tests {
    use deltic_tree::{Kind, Name, Timestamp, UnsortedNames};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn entry(text: &str) -> Entry {
        let meta = Meta::without_owner(Kind::File, 1, Timestamp::default(), 0o644);
        Entry { name: name(text), meta }
    }

    /// Lists a directory in parts. Returns for each part the first letters of its names, and if the source counts as
    /// empty.
    fn listed(again: &ListedAgain, dir: &RelPath, parts: &[&[&str]]) -> Vec<(String, bool)> {
        let part = |(nth, names): (usize, &&[&str])| {
            let goes_on = nth + 1 < parts.len();
            let rest = goes_on.then(|| Box::new(UnsortedNames::default().into_sorted()));
            let entries = names.iter().map(|text| entry(text)).collect();
            let mut listing =
                Listing { entries, rest, is_empty_source: true, ..Listing::default() };
            again.add_to(dir, nth == 0, &mut listing);
            let shown = listing.entries.iter().map(|entry| entry.name.as_bytes()[0] as char);
            (shown.collect(), listing.is_empty_source)
        };
        parts.iter().enumerate().map(part).collect()
    }

    #[test]
    fn removed_sources_are_listed_again_in_the_part_where_their_names_belong() {
        let moved = MovedSources::default();
        let dir = RelPath::parse(b"dir").unwrap();
        for text in ["e", "c", "g", "a", "c"] {
            moved.note(&dir.join(&name(text)).unwrap(), &entry(text).meta);
        }
        let again = ListedAgain::new(Some(moved));
        let part = |names: &str, is_empty| (names.to_owned(), is_empty);
        let in_dir = |parts: &[&[&str]]| listed(&again, &dir, parts);
        assert_eq!(in_dir(&[&[]]), [part("aceg", false)]);
        let two = [part("abcd", false), part("efg", false)];
        assert_eq!(in_dir(&[&["b", "d"], &["e", "f"]]), two);
        let late = [part("abcd", false), part("egh", false)];
        assert_eq!(in_dir(&[&["b", "d"], &["h"]]), late);
        assert_eq!(in_dir(&[&[], &["z"]]), [part("", true), part("acegz", false)]);
        assert_eq!(in_dir(&[&["y"], &["z"]]), [part("acegy", false), part("z", true)]);
        assert_eq!(listed(&again, &RelPath::root(), &[&["z"]]), [part("z", true)]);
    }
}
