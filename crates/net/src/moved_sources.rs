//! Sources that a run removed after they arrived (`--remove-source-files`), over all connections of the run.
//!
//! A run that loses its connection connects again, and lists its sources again. Removed sources are listed again too:
//! otherwise the receiver would delete the arrived copies as names that are not in the source.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use deltic_store::Listing;
use deltic_tree::{Entry, Meta, Name, RelPath};

use crate::lock::lock;

/// Sources that a run removed. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct MovedSources(Arc<Mutex<Dirs>>);

/// The removed sources of each directory.
type Dirs = HashMap<RelPath, BTreeMap<Name, Meta>>;

impl MovedSources {
    /// Notes a source that is about to be removed.
    pub(crate) fn note(&self, path: &RelPath, meta: &Meta) {
        if let Some((dir, name)) = path.split_last() {
            lock(&self.0).entry(dir).or_default().insert(name, meta.clone());
        }
    }

    /// Lists the removed sources of `dir` again, in a part of its listing that comes behind the name `after`.
    pub(crate) fn add_to(&self, dir: &RelPath, after: Option<&Name>, listing: &mut Listing) {
        let moved = lock(&self.0);
        let Some(moved) = moved.get(dir) else { return };
        // The place of a name is not known where all names of a part are left out: a later part has it.
        if listing.rest.is_some() && listing.entries.is_empty() {
            return;
        }
        let last = listing.entries.last().filter(|_| listing.rest.is_some());
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let to = last.map_or(Bound::Unbounded, |last| Bound::Excluded(&last.name));
        let is_empty = matches!((from, to), (Bound::Excluded(a), Bound::Excluded(b)) if a >= b);
        let has_versions = !listing.versions.is_empty();
        let moved = if is_empty { None } else { Some(moved.range::<Name, _>((from, to))) };
        for (name, meta) in moved.into_iter().flatten() {
            let Err(place) = listing.entries.binary_search_by(|entry| entry.name.cmp(name)) else {
                // Another one is there by now.
                continue;
            };
            listing.entries.insert(place, Entry { name: name.clone(), meta: meta.clone() });
            if has_versions {
                listing.versions.insert(place, None);
            }
            listing.is_empty_source = false;
        }
    }
}

/// Lists the removed sources of a run in one of its attempts.
#[derive(Debug, Default)]
pub(crate) struct ListedAgain {
    moved: Option<MovedSources>,
    /// The last name listed so far of each directory that is listed by parts.
    listed_up_to: Mutex<HashMap<RelPath, Name>>,
}

impl ListedAgain {
    pub(crate) fn new(moved: Option<MovedSources>) -> Self {
        Self { moved, listed_up_to: Mutex::default() }
    }

    /// Notes a source that is about to be removed.
    pub(crate) fn note(&self, path: &RelPath, meta: &Meta) {
        self.moved.iter().for_each(|moved| moved.note(path, meta));
    }

    /// Lists the removed sources of `dir` again, in a part of its listing that is the first or not.
    pub(crate) fn add_to(&self, dir: &RelPath, is_first: bool, listing: &mut Listing) {
        let Some(moved) = &self.moved else { return };
        let mut listed = lock(&self.listed_up_to);
        let after = listed.remove(dir).filter(|_| !is_first);
        moved.add_to(dir, after.as_ref(), listing);
        let last = listing.entries.last().map(|entry| entry.name.clone()).or(after);
        if let Some(last) = last.filter(|_| listing.rest.is_some()) {
            listed.insert(dir.clone(), last);
        }
    }
}

#[cfg(test)]
mod tests {
    use deltic_tree::{Kind, Timestamp, UnsortedNames};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn entry(text: &str) -> Entry {
        let meta = Meta::plain(Kind::File, 1, Timestamp::default(), 0o644);
        Entry { name: name(text), meta }
    }

    #[test]
    fn removed_sources_are_listed_again_in_the_part_where_their_names_belong() {
        let moved = MovedSources::default();
        let dir = RelPath::parse(b"dir").unwrap();
        for text in ["a", "c", "e", "g"] {
            moved.note(&dir.join(&name(text)).unwrap(), &entry(text).meta);
        }
        let names = |entries: &[&str], after: Option<&str>, goes_on: bool| {
            let rest = goes_on.then(|| Box::new(UnsortedNames::default().in_order()));
            let entries = entries.iter().map(|text| entry(text)).collect();
            let mut listing =
                Listing { entries, rest, is_empty_source: true, ..Listing::default() };
            moved.add_to(&dir, after.map(name).as_ref(), &mut listing);
            let shown = listing.entries.iter().map(|entry| entry.name.as_bytes()[0] as char);
            (shown.collect::<String>(), listing.is_empty_source)
        };
        assert_eq!(names(&[], None, false), ("aceg".into(), false));
        assert_eq!(names(&["b", "d"], None, true), ("abcd".into(), false));
        assert_eq!(names(&[], None, true), (String::new(), true));
        assert_eq!(names(&["e", "f"], Some("d"), false), ("efg".into(), false));
        assert_eq!(names(&["z"], Some("y"), false), ("z".into(), true));
        let mut elsewhere = Listing::default();
        moved.add_to(&RelPath::root(), None, &mut elsewhere);
        assert_eq!(elsewhere.entries, []);
    }
}
