//! State of a [`MemoryStore`](super::MemoryStore), kept under its lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_tree::{EntryType, Kind, Meta, Name, RelPath, Timestamp};

use crate::error::At;
use crate::facts::{ExtentContent, Extents};
use crate::filter::{Fate, Linked, Reads, Scope, Scopes};
use crate::{Cause, Keep, RemoveOptions, RemoveResult, StoreError, Version, VersionToken};

/// Directories with their entries, and the staged files.
#[derive(Clone, Debug)]
pub(super) struct TreeState {
    root: Node,
    /// Entries of each directory. A path is a directory if it is a key of this map.
    dirs: BTreeMap<RelPath, BTreeMap<Name, Node>>,
    pub(super) staged: BTreeMap<u64, Staged>,
    /// Number of changes, which also serves as the clock.
    changes: u64,
    /// Identifies this tree. Other trees have changes with the same numbers.
    pub(super) history: [u8; 32],
}

/// An entry. Its bytes are empty unless it is a file.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) meta: Meta,
    pub(super) bytes: Arc<[u8]>,
    /// Number of the last change of the entry.
    pub(super) version: u64,
    /// Numbers of the changes that wrote the blocks of the file. Empty for a staged file.
    pub(super) blocks: Arc<[u64]>,
}

/// A staged file.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) path: RelPath,
    pub(super) bytes: Vec<u8>,
    /// True if sent bytes were written to the file.
    pub(super) written: bool,
    pub(super) notes: Vec<Vec<u8>>,
    pub(super) holder: Holder,
}

/// Holder of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Rebuild,
    Snapshot,
    Nobody,
}

/// The removal of an entry and the entries below.
struct Removal<'a> {
    scopes: &'a Scopes,
    going: RemoveOptions,
    done: RemoveResult,
}

impl Default for TreeState {
    fn default() -> Self {
        let meta = Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755);
        let root = Node { meta, bytes: Arc::default(), version: 0, blocks: Arc::default() };
        let dirs = BTreeMap::from([(RelPath::root(), BTreeMap::new())]);
        let mut history = [0; 32];
        history[..8].copy_from_slice(&TREES.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Self { root, dirs, staged: BTreeMap::new(), changes: 0, history }
    }
}

/// Number of the next tree.
static TREES: AtomicU64 = AtomicU64::new(1);

impl Node {
    /// Returns the version of a file in the tree with this history. Every change has a number of its own.
    pub(super) fn identity(&self, history: &[u8; 32]) -> Option<Version> {
        let mut token = *history;
        token[8..16].copy_from_slice(&self.version.to_le_bytes());
        let Meta { len, modified, .. } = self.meta;
        let changed = Timestamp { secs: EPOCH_SECS + self.version as i64, nanos: 0 };
        let version = Version { token: VersionToken(token), len, modified, changed };
        self.meta.is_file().then_some(version)
    }

    /// Returns the storage of each block of the file. A block with the same bytes at the same offset is not written
    /// again.
    pub(super) fn extents(&self, history: [u8; 32]) -> Option<Extents> {
        let mut extents = Extents::new(history);
        let mut from = 0;
        for (block, change) in self.bytes.chunks(BLOCK_BYTES).zip(&*self.blocks) {
            let len = block.len() as u64;
            extents.push(len, ExtentContent::Id { id: [*change, 0, 0], from }).ok()?;
            from += len;
        }
        (extents.len() == self.meta.len).then_some(extents)
    }

    /// Returns the changes that wrote the blocks of `bytes`, if the change `change` replaces `old` by `bytes`.
    fn blocks_of(old: Option<&Self>, bytes: &[u8], change: u64) -> Arc<[u64]> {
        let old = |no| {
            let old: &Self = old?;
            Some((old.bytes.chunks(BLOCK_BYTES).nth(no)?, *old.blocks.get(no)?))
        };
        let block = |(no, block)| match old(no) {
            Some((same, before)) if same == block => before,
            _ => change,
        };
        bytes.chunks(BLOCK_BYTES).enumerate().map(block).collect()
    }
}

const BLOCK_BYTES: usize = 4096;

fn bad_name(path: &RelPath) -> StoreError {
    StoreError::BadName { action: "remove", path: path.clone() }
}

impl TreeState {
    /// Returns the metadata of a directory made now.
    pub(super) fn new_meta(&self, mode: u32) -> Meta {
        let modified = Timestamp { secs: EPOCH_SECS + self.changes as i64, nanos: 0 };
        Meta::without_owner(Kind::Dir, 0, modified, mode)
    }

    pub(super) fn entries(&self, dir: &RelPath) -> Result<&BTreeMap<Name, Node>, Cause> {
        match self.dirs.get(dir) {
            Some(entries) => Ok(entries),
            None => Err(self.why_no_dir(dir)),
        }
    }

    /// Returns the reason why `dir` is not a directory: the type of the first entry on its path that is not a
    /// directory.
    fn why_no_dir(&self, dir: &RelPath) -> Cause {
        let above = dir.split_last().and_then(|(above, name)| Some((self.dirs.get(&above)?, name)));
        match (above, dir.split_last()) {
            (Some((entries, name)), _) => match entries.get(&name).map(|node| &node.meta.kind) {
                None => Cause::NotFound,
                Some(Kind::Symlink(_)) => Cause::OutsideRoot,
                Some(_) => Cause::NotADir,
            },
            (None, Some((above, _))) => self.why_no_dir(&above),
            (None, None) => Cause::NotFound,
        }
    }

    /// Returns the entry at `path`, `None` if its directory has no such entry.
    pub(super) fn find(&self, path: &RelPath) -> Result<Option<&Node>, Cause> {
        match path.split_last() {
            Some((dir, name)) => Ok(self.entries(&dir)?.get(&name)),
            None => Ok(Some(&self.root)),
        }
    }

    pub(super) fn get(&self, path: &RelPath) -> Result<&Node, Cause> {
        self.find(path)?.ok_or(Cause::NotFound)
    }

    /// Puts an entry at `path`. Replaces any entry except a directory that is not empty.
    pub(super) fn put(
        &mut self,
        path: &RelPath,
        meta: Meta,
        bytes: Arc<[u8]>,
    ) -> Result<(), Cause> {
        let (dir, name) = path.split_last().ok_or(Cause::NotAFile)?;
        self.entries(&dir)?;
        if self.dirs.get(path).is_some_and(|entries| !entries.is_empty()) {
            return Err(Cause::NotEmpty);
        }
        self.dirs.remove(path);
        if meta.is_dir() {
            self.dirs.insert(path.clone(), BTreeMap::new());
        }
        self.changes += 1;
        let old = self.dirs.get(&dir).and_then(|entries| entries.get(&name));
        let blocks = Node::blocks_of(old, &bytes, self.changes);
        let node = Node { meta, bytes, version: self.changes, blocks };
        self.dirs.entry(dir).or_default().insert(name, node);
        Ok(())
    }

    pub(super) fn make_dir(&mut self, path: &RelPath) -> Result<(), Cause> {
        if self.dirs.contains_key(path) {
            return Ok(());
        }
        self.put(path, self.new_meta(0o700), Arc::default())
    }

    pub(super) fn set_meta(
        &mut self,
        path: &RelPath,
        meta: &Meta,
        keep: Keep,
    ) -> Result<(), Cause> {
        self.changes += 1;
        let changes = self.changes;
        let node = match path.split_last() {
            Some((dir, name)) => self.dirs.get_mut(&dir).and_then(|entries| entries.get_mut(&name)),
            None => Some(&mut self.root),
        };
        let node = node.ok_or(Cause::NotFound)?;
        if keep.modes && !meta.is_symlink() {
            node.meta.mode = meta.mode;
        }
        node.meta.mode = keep.mode_with_execute(meta, node.meta.mode);
        copy_attributes(&mut node.meta, meta, keep);
        node.version = changes;
        Ok(())
    }

    /// Removes all entries at and below `path` that `scopes` admit. Also removes `path` itself if another entry will
    /// replace `path`.
    pub(super) fn remove(
        &mut self,
        path: &RelPath,
        going: RemoveOptions,
        scopes: &Scopes,
    ) -> Result<RemoveResult, StoreError> {
        let (dir, name) = path.split_last().ok_or_else(|| bad_name(path))?;
        let scope = scopes.fresh(&dir, self)?;
        let is_dir = self.get(path).at("remove", path)?.meta.is_dir();
        let mut judge = scopes.judge_in(Arc::clone(&scope), &dir);
        let mut removal = Removal { scopes, going, done: RemoveResult::default() };
        if going.gives_way || judge.admits(&name, is_dir) {
            self.remove_tree(&mut removal, &scope, path)?;
            let removed = &mut removal.done;
            let stays = !removed.goes_on && self.find(path).is_ok_and(|node| node.is_some());
            removed.stayed.extend(stays.then(|| StoreError::Protected { path: path.clone() }));
        }
        Ok(removal.done)
    }

    /// Removes `path` and all entries below that the rules admit. `scope` has the rules of the parent.
    fn remove_tree(
        &mut self,
        removal: &mut Removal<'_>,
        scope: &Arc<Scope>,
        path: &RelPath,
    ) -> Result<(), StoreError> {
        let scopes = removal.scopes;
        // No entry below an entry that gives way does so itself.
        let gives_way = std::mem::take(&mut removal.going.gives_way);
        let item = EntryType::of(&self.get(path).at("remove", path)?.meta.kind);
        let (dir, name) = path.split_last().ok_or_else(|| bad_name(path))?;
        if let Some(entries) = self.dirs.get(path) {
            let below: Vec<_> =
                entries.iter().map(|(name, node)| (name.clone(), node.meta.is_dir())).collect();
            let scope = scopes.enter(scope, path, self)?;
            let mut judge = scopes.judge_in(Arc::clone(&scope), path);
            for (name, is_dir) in below {
                if judge.admits_as(&name, is_dir, Fate::Goes) {
                    let below = path.join(&name).map_err(|_| bad_name(path))?;
                    self.remove_tree(removal, &scope, &below)?;
                }
            }
            if self.dirs.get(path).is_some_and(|entries| !entries.is_empty()) {
                return Ok(());
            }
        }
        let removed = &mut removal.done;
        if !gives_way && removed.gone.len() as u64 >= removal.going.most {
            removed.goes_on = true;
            return Ok(());
        }
        self.dirs.remove(path);
        self.dirs.entry(dir).or_default().remove(&name);
        removed.gone.push((path.clone(), item));
        Ok(())
    }

    /// Takes the newest staged files for `path` without a holder.
    pub(super) fn take_leftovers(&mut self, path: &RelPath) -> Vec<(u64, Node)> {
        let free = |(_, staged): &(&u64, &mut Staged)| {
            staged.path == *path && staged.holder == Holder::Nobody
        };
        let newest = self.staged.iter_mut().rev().filter(free).take(MAX_LEFTOVERS);
        let hold = |(id, staged): (&u64, &mut Staged)| {
            staged.holder = Holder::Snapshot;
            let modified = Timestamp { secs: EPOCH_SECS + *id as i64, nanos: 0 };
            let len = staged.bytes.len() as u64;
            let meta = Meta::without_owner(Kind::File, len, modified, 0o600);
            let bytes = staged.bytes.as_slice().into();
            (*id, Node { meta, bytes, version: *id, blocks: Arc::default() })
        };
        newest.map(hold).collect()
    }

    /// Takes the newest staged file for `path` that has no holder, is `len` bytes long and has notes.
    pub(super) fn take_noted(&mut self, path: &RelPath, len: u64) -> Option<(u64, Vec<Vec<u8>>)> {
        let is_it = |(_, staged): &(&u64, &mut Staged)| {
            staged.path == *path
                && staged.holder == Holder::Nobody
                && staged.bytes.len() as u64 == len
                && !staged.notes.is_empty()
        };
        let (id, staged) = self.staged.iter_mut().rev().find(is_it)?;
        staged.holder = Holder::Rebuild;
        Some((*id, staged.notes.clone()))
    }

    /// Creates a staged file.
    pub(super) fn stage(&mut self, path: &RelPath, len: usize) -> u64 {
        self.changes += 1;
        let staged = Staged {
            path: path.clone(),
            bytes: vec![0; len],
            written: false,
            notes: Vec::new(),
            holder: Holder::Rebuild,
        };
        self.staged.insert(self.changes, staged);
        self.changes
    }

    /// Removes the committed staged file `id`, and the leftovers for its path.
    pub(super) fn clear(&mut self, id: u64) {
        if let Some(done) = self.staged.remove(&id) {
            let is_of_other = |staged: &Staged| staged.path != done.path;
            self.staged.retain(|_, staged| is_of_other(staged) || staged.holder == Holder::Rebuild);
        }
    }

    pub(super) fn staged_mut(&mut self, id: u64) -> &mut Staged {
        self.staged.get_mut(&id).expect("held files are not swept")
    }

    /// Releases a staged file, which stays as a leftover.
    pub(super) fn release(&mut self, id: u64) {
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.holder = Holder::Nobody;
        }
    }

    /// Removes the staged files without a holder. Returns the number of files.
    pub(super) fn sweep(&mut self) -> u64 {
        let before = self.staged.len();
        self.staged.retain(|_, staged| staged.holder != Holder::Nobody);
        (before - self.staged.len()) as u64
    }
}

impl Reads for TreeState {
    fn read(&self, path: &RelPath, _: Linked) -> Result<Option<Vec<u8>>, StoreError> {
        match self.find(path) {
            Ok(Some(node)) if node.meta.is_file() => Ok(Some(node.bytes.to_vec())),
            _ => Ok(None),
        }
    }

    fn has_file(&self, path: &RelPath) -> bool {
        matches!(self.find(path), Ok(Some(_)))
    }
}

/// Sets the attributes of `own` that `keep` names, except the mode, to the values in `from`. Owner, group and access
/// time are set if `from` has them.
pub(super) fn copy_attributes(own: &mut Meta, from: &Meta, keep: Keep) {
    own.user = from.user.or(own.user);
    own.group = from.group.or(own.group);
    let mut more = own.more.take().map(|more| *more).unwrap_or_default();
    if keep.times_of(&from.kind) {
        own.modified = if keep.times { from.modified } else { own.modified };
        more.accessed = from.accessed().filter(|_| !from.is_dir()).or(more.accessed);
    }
    if keep.acls && !from.is_symlink() && !from.has_unread_attributes() {
        more.access_acl = from.access_acl().cloned();
        more.default_acl = from.default_acl().cloned();
    }
    more.access_acl = more.access_acl.map(|acl| acl.with_mode(own.mode));
    if keep.xattrs && !from.has_unread_attributes() {
        more.xattrs = from.xattrs().to_vec();
    }
    own.more = more.into_box();
}

/// Time of the change number 0, in seconds since 1970.
const EPOCH_SECS: i64 = 1_000_000_000;
const MAX_LEFTOVERS: usize = 4;
