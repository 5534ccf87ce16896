//! A store in memory, for tests and as the reference of the behaviour of a store.

mod rebuild;
mod tree;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use deltic_tree::{Entry, Kind, Meta, RelPath};

use crate::error::At;
use crate::filter::{Scopes, Start};
use crate::{
    Cause, Extents, Filter, Keep, Link, Listing, Posix, RemoveOptions, RemoveResult, Resumed,
    Snapshot, Store, StoreError, Tree, Version, check_path, lock,
};
pub use rebuild::MemoryRebuild;
use rebuild::UMASK;
use tree::{Node, TreeState, copy_attributes};

/// A store in memory. Clones share the same tree.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<TreeState>>,
    scopes: Arc<Scopes>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Filter::default())
    }
}

/// A version of a file in memory.
#[derive(Debug)]
pub struct MemorySnapshot {
    state: Arc<Mutex<TreeState>>,
    path: RelPath,
    node: Node,
    /// Number of the staged file, for a snapshot of a leftover.
    staged: Option<u64>,
}

impl MemoryStore {
    /// Returns an empty tree with a filter.
    #[must_use]
    pub fn new(rules: Filter) -> Self {
        let scopes = Scopes::new(rules, Box::default(), Start::Root);
        Self { state: Arc::default(), scopes: Arc::new(scopes) }
    }

    /// Puts a file at `path`, with all missing parent directories, as another program would.
    ///
    /// # Panics
    /// If `path` is not a valid path, or another entry is in the way.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let path = RelPath::parse(path.as_bytes()).expect("a test knows what a path is");
        let mut state = lock(&self.state);
        let mut dirs = Vec::new();
        let mut above = path.split_last();
        while let Some((dir, _)) = above.filter(|(dir, _)| !dir.is_root()) {
            above = dir.split_last();
            dirs.push(dir);
        }
        for dir in dirs.iter().rev() {
            state.make_dir(dir).expect("nothing is in the way");
        }
        let meta = Meta { kind: Kind::File, len: bytes.len() as u64, ..state.new_meta(0o644) };
        state.put(&path, meta, bytes.into()).at("put", &path).expect("nothing is in the way");
    }

    /// Returns the bytes of the file at `path`, `None` if there is no file.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let path = RelPath::parse(path.as_bytes()).ok()?;
        let state = lock(&self.state);
        let node = state.find(&path).ok()??;
        node.meta.is_file().then(|| node.bytes.to_vec())
    }
}

impl Tree for MemoryStore {
    type Snapshot = MemorySnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        check_path("list", dir)?;
        let state = lock(&self.state);
        let mut listing = Listing::default();
        let entries = state.entries(dir).at("list", dir)?;
        let mut judge = self.scopes.judge(dir, &*state)?;
        for (name, node) in entries {
            if dir.join(name).is_err() {
                listing.errors.push(StoreError::TooLong { action: "list", path: dir.clone() });
            } else if judge.admits(name, node.meta.is_dir()) {
                listing.entries.push(Entry { name: name.clone(), meta: node.meta.clone() });
            }
        }
        Ok(listing)
    }

    fn list_versions(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        let mut listing = self.list(dir)?;
        let state = lock(&self.state);
        let entries = state.entries(dir).at("list", dir)?;
        // An entry that changed since it was listed has no version.
        let version = |entry: &Entry| {
            let node = entries.get(&entry.name).filter(|node| node.meta == entry.meta)?;
            node.identity(&state.history)
        };
        listing.versions = listing.entries.iter().map(version).collect();
        Ok(listing)
    }

    fn versions(&self, paths: &[RelPath]) -> Vec<Option<Version>> {
        let state = lock(&self.state);
        let version = |path| state.get(path).ok()?.identity(&state.history);
        paths.iter().map(version).collect()
    }

    fn open(&self, path: &RelPath) -> Result<MemorySnapshot, StoreError> {
        check_path("open", path)?;
        let node = lock(&self.state).get(path).at("open", path)?.clone();
        match node.meta.kind {
            Kind::File => Ok(self.snapshot(path, node, None)),
            Kind::Symlink(_) => Err(Cause::OutsideRoot.at("open", path)),
            _ => Err(StoreError::NotAFile { action: "open", path: path.clone() }),
        }
    }

    fn remove_source(&self, path: &RelPath, is: &Meta) -> Result<(), StoreError> {
        check_path("remove", path)?;
        let mut state = lock(&self.state);
        if state.get(path).at("remove", path)?.meta != *is {
            return Err(StoreError::Changed { path: path.clone() });
        }
        // The filter admitted the entry when it was listed.
        let all = Scopes::new(Filter::default(), Box::default(), Start::Root);
        state.remove(path, RemoveOptions::default(), &all).map(drop)
    }
}

impl MemoryStore {
    fn snapshot(&self, path: &RelPath, node: Node, staged: Option<u64>) -> MemorySnapshot {
        MemorySnapshot { state: Arc::clone(&self.state), path: path.clone(), node, staged }
    }
}

impl Snapshot for MemorySnapshot {
    fn meta(&self) -> &Meta {
        &self.node.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let rest = self.node.bytes.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        let is_same = |now: &Node| now.version == self.node.version;
        if self.staged.is_some() || lock(&self.state).get(&self.path).is_ok_and(is_same) {
            return Ok(());
        }
        Err(StoreError::Changed { path: self.path.clone() })
    }

    fn identity(&self) -> Option<Version> {
        let history = lock(&self.state).history;
        self.node.identity(&history).filter(|_| self.staged.is_none())
    }

    fn extents(&self) -> Result<Option<Extents>, StoreError> {
        self.check_unchanged()?;
        let history = lock(&self.state).history;
        Ok(self.node.extents(history))
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        if let Some(id) = self.staged {
            lock(&self.state).release(id);
        }
    }
}

impl Posix for MemoryStore {
    fn make_symlink(
        &self,
        path: &RelPath,
        target: &[u8],
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), StoreError> {
        check_path("make symlink", path)?;
        let mut state = lock(&self.state);
        let kind = Kind::Symlink(target.into());
        let mut now = Meta { kind: kind.clone(), ..state.new_meta(0o777) };
        copy_attributes(&mut now, &Meta { kind, ..meta.clone() }, keep);
        state.put(path, now, Arc::default()).at("make symlink", path)
    }

    fn make_special(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        let action = "make special file";
        check_path(action, path)?;
        if matches!(meta.kind, Kind::File | Kind::Dir | Kind::Symlink(_)) {
            return Err(INVALID.at(action, path));
        }
        let mut state = lock(&self.state);
        let mode = keep.mode_of_new(meta, None, UMASK);
        let mut now = Meta { kind: meta.kind.clone(), ..state.new_meta(mode) };
        copy_attributes(&mut now, meta, keep);
        state.put(path, now, Arc::default()).at(action, path)
    }

    fn link(
        &self,
        path: &RelPath,
        Link { from, at, is, seen }: Link<'_, Self>,
    ) -> Result<(), StoreError> {
        check_path("link", path)?;
        let node = lock(&from.state).get(at).at("link", path)?.clone();
        if node.meta != *is {
            return Err(StoreError::Changed { path: path.clone() });
        }
        let mut state = lock(&self.state);
        if state.find(path).at("link", path)?.map(|found| &found.meta) != seen {
            return Err(StoreError::Conflict { path: path.clone() });
        }
        state.put(path, node.meta, node.bytes).at("link", path)
    }
}

impl Store for MemoryStore {
    type Rebuild = MemoryRebuild;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        check_path("look at", path)?;
        let state = lock(&self.state);
        match state.find(path) {
            Err(Cause::NotFound | Cause::NotADir) => Ok(None),
            found => Ok(found.at("look at", path)?.map(|node| node.meta.clone())),
        }
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<MemoryRebuild, StoreError> {
        check_path("create", path)?;
        MemoryRebuild::new(self, path, len)
    }

    fn leftovers(&self, path: &RelPath) -> Result<Vec<MemorySnapshot>, StoreError> {
        check_path("resume", path)?;
        let mut state = lock(&self.state);
        state.find(path).at("resume", path)?;
        let taken = state.take_leftovers(path);
        Ok(taken.into_iter().map(|(id, node)| self.snapshot(path, node, Some(id))).collect())
    }

    fn resume(
        &self,
        path: &RelPath,
        len: u64,
    ) -> Result<Option<Resumed<MemoryRebuild>>, StoreError> {
        check_path("resume", path)?;
        let mut state = lock(&self.state);
        state.find(path).at("resume", path)?;
        let found = state.take_noted(path, len);
        Ok(found
            .map(|(id, notes)| Resumed { rebuild: MemoryRebuild::resumed(self, path, id), notes }))
    }

    fn make_dir(&self, path: &RelPath, will: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        check_path("make directory", path)?;
        let mut state = lock(&self.state);
        let early = |(meta, Keep { acls, xattrs, .. })| {
            (meta, Keep { acls, xattrs, omit_dir_times: true, ..Keep::default() })
        };
        let made = state.make_dir(path).and_then(|()| match will.map(early) {
            Some((meta, keep)) => state.set_meta(path, meta, keep),
            None => Ok(()),
        });
        made.at("make directory", path)
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        check_path(SET_META, path)?;
        let mut state = lock(&self.state);
        let kind = state.get(path).at(SET_META, path)?.meta.kind.clone();
        match (&meta.kind, kind) {
            (Kind::File, Kind::File) | (Kind::Dir, Kind::Dir) => {}
            (Kind::Symlink(_), Kind::Symlink(_)) => {}
            (_, Kind::Symlink(_)) => return Err(Cause::OutsideRoot.at(SET_META, path)),
            (Kind::Dir, _) => return Err(Cause::NotADir.at(SET_META, path)),
            (Kind::Symlink(_), _) => return Err(StoreError::Conflict { path: path.clone() }),
            (wanted, found) if *wanted == found => {}
            (Kind::Fifo | Kind::Socket | Kind::Device(_), _) => {
                return Err(StoreError::Conflict { path: path.clone() });
            }
            _ => return Err(StoreError::NotAFile { action: SET_META, path: path.clone() }),
        }
        state.set_meta(path, meta, keep).at(SET_META, path)
    }

    fn remove(&self, path: &RelPath, going: RemoveOptions) -> Result<RemoveResult, StoreError> {
        check_path("remove", path)?;
        let mut state = lock(&self.state);
        match going.dry_run {
            true => state.clone().remove(path, going, &self.scopes),
            false => state.remove(path, going, &self.scopes),
        }
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        Ok(lock(&self.state).sweep())
    }
}

const INVALID: Cause = Cause::Other(ErrorKind::InvalidInput);
const SET_META: &str = "set metadata of";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Commit, Rebuild, Replaces, conformance};

    #[test]
    fn a_tree_in_memory_is_a_store() {
        conformance::run(MemoryStore::default);
        conformance::run_filtered(MemoryStore::new);
    }

    #[test]
    fn a_version_returns_for_no_other_content() {
        let (store, path) = (MemoryStore::default(), RelPath::parse(b"file").unwrap());
        let version = || store.open(&path).unwrap().identity().unwrap();
        let mut seen = Vec::new();
        for bytes in ["one", "two", "one"] {
            store.put("file", bytes.as_bytes());
            assert!(!seen.contains(&version()));
            assert_eq!(store.versions(std::slice::from_ref(&path)), [Some(version())]);
            assert_eq!(store.list_versions(&RelPath::root()).unwrap().versions, [Some(version())]);
            seen.push(version());
        }
        let rebuild = store.create(&path, 0).unwrap();
        let (meta, keep) = (store.look(&path).unwrap().unwrap(), Keep::default());
        let commit = Commit { meta: &meta, keep, replaces: Replaces::Seen(&meta) };
        assert_eq!(rebuild.commit(commit).unwrap(), Some(version()));
    }

    #[test]
    fn blocks_that_stay_the_same_are_the_same() {
        let store = MemoryStore::default();
        let extents = || {
            let snapshot = store.open(&RelPath::parse(b"dir/file").unwrap()).unwrap();
            snapshot.extents().unwrap().unwrap()
        };
        let mut bytes = vec![1; 5 * 4096 + 7];
        store.put("dir/file", &bytes);
        let old = extents();
        assert_eq!(old.parts().count(), 1);
        bytes[4096 * 2 + 5] = 2;
        bytes.push(3);
        store.put("dir/file", &bytes);
        let changed = [4096 * 2..4096 * 3, 4096 * 5..4096 * 5 + 8];
        assert_eq!(extents().changed_since(&old).unwrap(), changed);
        let other = MemoryStore::default();
        other.put("file", &bytes);
        let other = other.open(&RelPath::parse(b"file").unwrap()).unwrap();
        assert_eq!(other.extents().unwrap().unwrap().changed_since(&old), None);
    }
}
