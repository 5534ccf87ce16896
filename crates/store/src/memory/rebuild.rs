//! Rebuilds of files in memory.

use std::io::ErrorKind;
use std::ops::Range;

use deltic_tree::{Kind, Meta, RelPath};

use super::tree::{Node, TreeState, copy_attributes};
use super::{INVALID, MemorySnapshot, MemoryStore};
use crate::error::At;
use crate::{
    Cause, Commit, Content, Rebuild, Replaces, Resumable, Snapshot, StoreError, Version, lock,
};

/// A new version of a file in memory.
#[derive(Debug)]
pub struct MemoryRebuild {
    store: MemoryStore,
    path: RelPath,
    id: u64,
}

impl MemoryRebuild {
    pub(super) fn new(store: &MemoryStore, path: &RelPath, len: u64) -> Result<Self, StoreError> {
        let mut state = lock(&store.state);
        let bad_name = || StoreError::BadName { action: "create", path: path.clone() };
        let (dir, _) = path.split_last().ok_or_else(bad_name)?;
        state.entries(&dir).at("create", path)?;
        let len = usize::try_from(len).map_err(|_| TOO_LARGE.at("create", path))?;
        let id = state.stage(path, len);
        Ok(Self { store: store.clone(), path: path.clone(), id })
    }

    pub(super) fn resumed(store: &MemoryStore, path: &RelPath, id: u64) -> Self {
        Self { store: store.clone(), path: path.clone(), id }
    }

    fn put(&self, start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let mut state = lock(&self.store.state);
        let staged = state.staged_mut(self.id);
        let span = usize::try_from(start)
            .ok()
            .and_then(|start| staged.bytes.get_mut(start..start.checked_add(bytes.len())?));
        let span = span.ok_or_else(|| TOO_LARGE.at("write", &self.path))?;
        span.copy_from_slice(bytes);
        Ok(())
    }
}

impl Resumable for MemoryRebuild {
    fn note(&self, bytes: &[u8]) -> Result<(), StoreError> {
        lock(&self.store.state).staged_mut(self.id).notes.push(bytes.to_vec());
        Ok(())
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let mut state = lock(&self.store.state);
        let bytes = &state.staged_mut(self.id).bytes;
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
        let read = buf.len().min(bytes.len() - start);
        buf[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }
}

impl Rebuild for MemoryRebuild {
    type Snapshot = MemorySnapshot;

    fn copy(
        &self,
        from: &MemorySnapshot,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError> {
        let span = usize::try_from(old.start).ok().zip(usize::try_from(old.end).ok());
        let bytes = span.and_then(|(start, end)| from.node.bytes.get(start..end));
        let bytes = bytes.ok_or_else(|| INVALID.at("copy to", &self.path))?;
        self.put(new_start, bytes)?;
        from.check_unchanged()
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.put(new_start, bytes)?;
        lock(&self.store.state).staged_mut(self.id).written = true;
        Ok(())
    }

    fn write_old(&self, new_start: u64, bytes: &[u8], content: Content) -> Result<(), StoreError> {
        match content {
            Content::Old => self.put(new_start, bytes),
            Content::OldAndSent => self.write(new_start, bytes),
        }
    }

    fn commit(self, commit: Commit<'_, MemorySnapshot>) -> Result<Option<Version>, StoreError> {
        let mut state = lock(&self.store.state);
        let old = state.find(&self.path).at("commit", &self.path)?;
        if !is_expected(&commit.replaces, old) {
            return Err(StoreError::Conflict { path: self.path.clone() });
        }
        let meta = new_meta(&commit, old, &state);
        let bytes = state.staged_mut(self.id).bytes.clone();
        let meta = Meta { len: bytes.len() as u64, ..meta };
        state.put(&self.path, meta, bytes.into()).at("commit", &self.path)?;
        state.clear(self.id);
        Ok(state.get(&self.path).at("commit", &self.path)?.identity(&state.history))
    }

    fn discard(self) -> Result<(), StoreError> {
        lock(&self.store.state).staged.remove(&self.id);
        Ok(())
    }
}

impl Drop for MemoryRebuild {
    fn drop(&mut self) {
        let mut state = lock(&self.store.state);
        if state.staged.get(&self.id).is_some_and(|staged| !staged.written) {
            state.staged.remove(&self.id);
        }
        state.release(self.id);
    }
}

fn is_expected(replaces: &Replaces<'_, MemorySnapshot>, found: Option<&Node>) -> bool {
    match (replaces, found) {
        (Replaces::Nothing, found) => found.is_none(),
        (Replaces::Version(old), Some(node)) => node.version == old.node.version,
        (Replaces::Seen(meta), Some(node)) if meta.is_dir() => node.meta.is_dir(),
        (Replaces::Seen(meta), Some(node)) => node.meta.is_equal_file(meta),
        (Replaces::Version(_) | Replaces::Seen(_), None) => false,
    }
}

fn new_meta(commit: &Commit<'_, MemorySnapshot>, old: Option<&Node>, state: &TreeState) -> Meta {
    let Commit { meta, keep, .. } = commit;
    let old_mode = old.filter(|node| node.meta.is_file()).map(|node| node.meta.mode);
    let mut now = state.new_meta(keep.mode_of_new(meta, old_mode, UMASK));
    copy_attributes(&mut now, meta, *keep);
    Meta { kind: Kind::File, ..now }
}

const TOO_LARGE: Cause = Cause::Other(ErrorKind::FileTooLarge);
pub(super) const UMASK: u32 = 0o022;
