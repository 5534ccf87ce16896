//! The alternate trees of the receiver (`--link-dest` and similar options). Files of alternate trees are compared with
//! the source, copied or linked into the destination, and searched for old versions with similar names.

use std::sync::{Arc, Mutex};

use deltic_engine::similar::{Candidates, most_similar};
use deltic_protocol::options::Fuzzy;
use deltic_protocol::receiver::{FileStamp, OtherPaths};
use deltic_store::{Commit, Keep, Rebuild, Replaces, Snapshot, Store, StoreError, Tree};
use deltic_tree::{Entry, Meta, RelPath};

use crate::lock::lock;

/// Alternate trees (such as `--link-dest`). A tree that could not be opened is `None` and counts as empty.
pub(crate) struct Alternates<S> {
    trees: Vec<Option<S>>,
    /// The directory listed last, and its candidates in the destination and in each alternate.
    listed: Mutex<Option<(RelPath, Arc<Candidates>)>>,
}

/// The path of a file with a similar name, and an open snapshot of that file.
type Named<S> = Option<(RelPath, <S as Tree>::Snapshot)>;

/// A file of an alternate that is to be copied into the destination.
pub(super) struct AlternateCopy<'a> {
    pub(super) path: &'a RelPath,
    pub(super) alternate: usize,
    /// Metadata of the file in the alternate, as seen earlier. The copy fails if the file has changed since.
    pub(super) is: &'a Meta,
    /// The metadata that the copy gets.
    pub(super) meta: &'a Meta,
    /// Metadata of the destination entry that the copy replaces.
    pub(super) seen: Option<&'a Meta>,
}

impl<S: Store> Alternates<S> {
    /// Makes alternates of these trees, in the order of the options.
    pub(crate) fn new(trees: Vec<Option<S>>) -> Self {
        Self { trees, listed: Mutex::default() }
    }

    /// Returns the metadata of `path` in each alternate.
    pub(super) fn look(&self, path: &RelPath) -> Vec<Option<Meta>> {
        let look = |tree: &Option<S>| tree.as_ref()?.look(path).ok()?;
        self.trees.iter().map(look).collect()
    }

    /// Returns the alternate with this number. Errors: [`StoreError::Changed`] for `path` if the alternate could not be
    /// opened.
    pub(super) fn tree(&self, alternate: usize, path: &RelPath) -> Result<&S, StoreError> {
        let tree = self.trees.get(alternate).and_then(Option::as_ref);
        tree.ok_or_else(|| StoreError::Changed { path: path.clone() })
    }

    /// Copies a file of an alternate into `store`.
    pub(super) fn copy(
        &self,
        store: &S,
        &AlternateCopy { path, alternate, is, meta, seen }: &AlternateCopy<'_>,
        keep: Keep,
    ) -> Result<(), StoreError> {
        let old = self.tree(alternate, path)?.open(path)?;
        if !old.meta().is_equal_file(is) {
            return Err(StoreError::Changed { path: path.clone() });
        }
        let rebuild = store.create(path, is.len)?;
        rebuild.copy(&old, 0..is.len, 0)?;
        rebuild.commit(Commit { meta, keep, replaces: Replaces::seen(seen) }).map(drop)
    }

    /// Opens old versions for `path` that are not at `path` in `store`: the version in the alternate, or else a file
    /// with a similar name. Also returns the path of the similar file.
    pub(super) fn open(
        &self,
        store: &S,
        path: &RelPath,
        elsewhere: &OtherPaths,
    ) -> (Option<S::Snapshot>, Named<S>) {
        let of_alternate = |alternate| self.tree(alternate, path).and_then(|tree| tree.open(path));
        let beside = elsewhere.alternate.and_then(|alternate| of_alternate(alternate).ok());
        let similar = match (elsewhere.fuzzy, &beside) {
            (Fuzzy::Never, _) | (_, Some(_)) => None,
            _ => self.similar(store, path, elsewhere),
        };
        (beside, similar)
    }

    fn similar(&self, store: &S, path: &RelPath, elsewhere: &OtherPaths) -> Named<S> {
        let (dir, name) = path.split_last()?;
        let candidates = self.candidates(store, &dir, elsewhere.fuzzy);
        let FileStamp { len, modified } = elsewhere.new;
        let (tree, best) = most_similar(&name, len, modified, &candidates)?;
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
