//! The receiver's other trees: looked at, copied from, linked to, and searched for old versions of similar names.

use std::sync::{Arc, Mutex};

use deltic_protocol::options::Fuzzy;
use deltic_protocol::receiver::Elsewhere;
use deltic_store::{Commit, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree};
use deltic_tree::{Entry, Meta, Name, RelPath, Timestamp};

use super::lock;

/// Other trees; one that cannot be opened has nothing.
pub(crate) struct Alternates<S> {
    trees: Vec<Option<S>>,
    /// The directory that was searched last, of the destination and of each alternate.
    listed: Mutex<Option<(RelPath, Arc<Candidates>)>>,
}

/// The regular files of a directory, by the tree they are in; `None` is the destination.
type Candidates = Vec<(Option<usize>, Entry)>;

/// A file of another name, held open.
type Named<S> = Option<(RelPath, <S as Tree>::Snapshot)>;

impl<S: Store> Alternates<S> {
    pub(crate) fn new(trees: Vec<Option<S>>) -> Self {
        Self { trees, listed: Mutex::default() }
    }

    /// What each has at `path`.
    pub(super) fn look(&self, path: &RelPath) -> Vec<Option<Meta>> {
        let look = |tree: &Option<S>| tree.as_ref()?.look(path).ok()?;
        self.trees.iter().map(look).collect()
    }

    fn tree(&self, alternate: usize, path: &RelPath) -> Result<&S, StoreError> {
        let tree = self.trees.get(alternate).and_then(Option::as_ref);
        tree.ok_or_else(|| StoreError::Changed { path: path.clone() })
    }

    /// Links `path` of `store` to what the alternate has there.
    pub(super) fn link(
        &self,
        store: &S,
        (path, alternate): (&RelPath, usize),
        expected: (&Meta, Option<&Meta>),
    ) -> Result<(), StoreError> {
        store.link(path, (self.tree(alternate, path)?, path), expected)
    }

    /// Copies what the alternate has at `path`, if that still `is` so, into `store`; it gets the attributes of `meta`.
    pub(super) fn copy(
        &self,
        store: &S,
        (path, alternate): (&RelPath, usize),
        (is, meta, seen): (&Meta, &Meta, Option<&Meta>),
        keep: Keep,
    ) -> Result<(), StoreError> {
        let old = self.tree(alternate, path)?.open(path)?;
        if !old.meta().is_like(is) {
            return Err(StoreError::Changed { path: path.clone() });
        }
        let rebuild = store.create(path, is.len)?;
        rebuild.copy(&old, 0..is.len, 0)?;
        let replaces = seen.map_or(Replaces::Nothing, Replaces::Seen);
        rebuild.commit(Commit { meta, keep, replaces }).map(drop)
    }

    /// Old versions of `path` that are not in place: that of the alternate, or one of a similar name, and that name.
    pub(super) fn open(
        &self,
        store: &S,
        path: &RelPath,
        elsewhere: &Elsewhere,
    ) -> (Option<S::Snapshot>, Named<S>) {
        let of_alternate = |alternate| self.tree(alternate, path).and_then(|tree| tree.open(path));
        let beside = elsewhere.alternate.and_then(|alternate| of_alternate(alternate).ok());
        let similar = match (elsewhere.fuzzy, &beside) {
            (Fuzzy::Never, _) | (_, Some(_)) => None,
            _ => self.similar(store, path, elsewhere),
        };
        (beside, similar)
    }

    fn similar(&self, store: &S, path: &RelPath, elsewhere: &Elsewhere) -> Named<S> {
        let (dir, name) = path.split_last()?;
        let candidates = self.candidates(store, &dir, elsewhere.fuzzy);
        let (tree, best) = most_similar(&name, elsewhere.new, &candidates)?;
        let path = dir.join(best).ok()?;
        let opened = match tree {
            None => store.open(&path).ok(),
            Some(alternate) => self.tree(alternate, &path).ok()?.open(&path).ok(),
        };
        Some((path, opened?))
    }

    fn candidates(&self, store: &S, dir: &RelPath, fuzzy: Fuzzy) -> Arc<Candidates> {
        let mut listed = lock(&self.listed);
        if let Some((of, candidates)) = &*listed
            && of == dir
        {
            return Arc::clone(candidates);
        }
        let others = self.trees.iter().enumerate().filter(|_| fuzzy == Fuzzy::Everywhere);
        let others = others.filter_map(|(no, tree)| Some((Some(no), tree.as_ref()?)));
        let mut candidates = Vec::new();
        for (no, tree) in std::iter::once((None, store)).chain(others) {
            let Ok(listing) = tree.list(dir) else { continue };
            let worthwhile = |entry: &Entry| entry.meta.is_file() && entry.meta.len > 0;
            let files = listing.entries.into_iter().filter(worthwhile);
            candidates.extend(files.map(|entry| (no, entry)));
        }
        let candidates = Arc::new(candidates);
        *listed = Some((dir.clone(), Arc::clone(&candidates)));
        candidates
    }
}

/// The file that is most likely an older version of `name`: one of the same length and time, or else one of a name that
/// is not far from it.
fn most_similar<'a>(
    name: &Name,
    (len, modified): (u64, Timestamp),
    candidates: &'a Candidates,
) -> Option<(Option<usize>, &'a Name)> {
    let same = |(_, entry): &&(_, Entry)| entry.meta.len == len && entry.meta.modified == modified;
    let found = candidates.iter().find(same).or_else(|| {
        let far = |(_, entry): &(_, Entry)| distance(name.as_bytes(), entry.name.as_bytes());
        let near = candidates.iter().map(|one| (far(one), one));
        near.filter(|(far, _)| *far <= FARTHEST).min_by_key(|(far, _)| *far).map(|(_, one)| one)
    });
    found.map(|(tree, entry)| (*tree, &entry.name))
}

/// How many bytes must be put in, taken out or changed to make one name of the other; those of the suffix count more.
fn distance(one: &[u8], other: &[u8]) -> usize {
    edits(one, other) + SUFFIX_WEIGHT * edits(suffix(one), suffix(other))
}

fn suffix(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'.').map_or(&[], |dot| &name[dot..])
}

fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, byte) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (left, facing) in other.iter().enumerate() {
            let changed = diagonal + usize::from(byte != facing);
            diagonal = row[left + 1];
            row[left + 1] = changed.min(diagonal + 1).min(row[left] + 1);
        }
    }
    row[other.len()]
}

/// As in rsync.
const FARTHEST: usize = 25;
const SUFFIX_WEIGHT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::Kind;

    fn entry(name: &str, len: u64, secs: i64) -> (Option<usize>, Entry) {
        let modified = Timestamp { secs, nanos: 0 };
        let meta = Meta::plain(Kind::File, len, modified, 0o644);
        (None, Entry { name: Name::new(name.as_bytes()).unwrap(), meta })
    }

    fn best(name: &str, candidates: &Candidates) -> Option<String> {
        let new = (100, Timestamp { secs: 7, nanos: 0 });
        let name = Name::new(name.as_bytes()).unwrap();
        most_similar(&name, new, candidates).map(|(_, name)| name.to_string())
    }

    #[test]
    fn the_nearest_name_wins_unless_a_file_has_the_same_length_and_time() {
        let candidates = vec![entry("app-1.2.tar", 5, 1), entry("app-1.2.zip", 5, 1)];
        assert_eq!(best("app-1.3.tar", &candidates).as_deref(), Some("app-1.2.tar"));
        let candidates = [candidates, vec![entry("quite other", 100, 7)]].concat();
        assert_eq!(best("app-1.3.tar", &candidates).as_deref(), Some("quite other"));
    }

    #[test]
    fn a_name_too_far_away_is_none() {
        let candidates = vec![entry("something altogether different.iso", 5, 1)];
        assert_eq!(best("notes.txt", &candidates), None);
    }

    #[test]
    fn edits_are_those_of_levenshtein() {
        for (one, other, edits) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3)] {
            assert_eq!(super::edits(one.as_bytes(), other.as_bytes()), edits);
            assert_eq!(super::edits(other.as_bytes(), one.as_bytes()), edits);
        }
    }
}
