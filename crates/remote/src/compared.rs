//! A tree of a remote system as the second tree of a comparison: the destination of a dry run.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use deltic_net::SyncError;
use deltic_net::embed::OpenDestination;
use deltic_protocol::options::Options;
use deltic_store::{
    Commit, Filter, Keep, Listing, Posix, Rebuild, RemoveOptions, RemoveResult, Resumable, Store,
    StoreError, Tree, Version,
};
use deltic_tree::rule::FilterSide;
use deltic_tree::{EntryType, Meta, Name, RelPath};

use crate::tree::{RemoteSnapshot, RemoteTree, TreeOptions};
use crate::{RemoteError, RemoteSystem, lock};

/// A read-only tree of a remote system.
#[derive(Debug)]
pub struct ComparedTree {
    tree: RemoteTree,
    /// The directory that was listed last, with its entries. A receiver asks for names of one directory at a time.
    listed: Mutex<Option<(RelPath, HashMap<Name, Meta>)>>,
}

/// Uninhabited type in place of a new version of a file: a tree of a remote system cannot be written.
#[derive(Debug)]
pub enum NoRebuild {}

impl RemoteSystem {
    /// Opens the directory or the object at `path` as the destination of a dry run. Returns its tree, and true if
    /// the path names an object.
    ///
    /// # Errors
    /// [`SyncError::Selection`] if nothing is there.
    pub fn compared(
        &self,
        path: &[u8],
        options: &Options,
    ) -> Result<(RemoteTree, bool), SyncError> {
        let failed = |error: RemoteError| {
            let shown = deltic_tree::path::printable(path);
            SyncError::Selection(format!("{}: {error}", self.system.url(&shown)))
        };
        let takes = || TreeOptions {
            rules: Filter::new(&options.rules, FilterSide::Receiver),
            recursive: true,
            dirs: false,
        };
        let named = self.tree(&[path.to_vec()], takes()).map_err(failed)?;
        if named.single().map_err(failed)?.is_some() {
            return Ok((named, true));
        }
        let path = if path.ends_with(b"/") { path.to_vec() } else { [path, b"/"].concat() };
        let content = self.tree(&[path], takes()).map_err(failed)?;
        match content.root().map_err(failed)? {
            Some(_) => Ok((content, false)),
            None => Err(failed(RemoteError::NotFound)),
        }
    }
}

impl ComparedTree {
    /// Opens `tree` as the destination of a dry run.
    ///
    /// # Errors
    /// [`SyncError::Selection`] if the tree cannot be examined.
    pub fn open(tree: RemoteTree) -> Result<OpenDestination<Self>, SyncError> {
        let rename = tree.single().map_err(|why| SyncError::Selection(why.to_string()))?;
        let destination = OpenDestination::new(Self { tree, listed: Mutex::default() });
        Ok(OpenDestination { rename, ..destination })
    }

    /// Adds the names at and below `path` to `gone`, each directory after its entries.
    fn gather(
        &self,
        path: &RelPath,
        is: EntryType,
        gone: &mut Vec<(RelPath, EntryType)>,
    ) -> Result<(), StoreError> {
        if is == EntryType::Dir {
            for entry in self.tree.list(path)?.entries {
                let Ok(below) = path.join(&entry.name) else { continue };
                self.gather(&below, EntryType::of(&entry.meta.kind), gone)?;
            }
        }
        gone.push((path.clone(), is));
        Ok(())
    }
}

impl Tree for ComparedTree {
    type Snapshot = RemoteSnapshot;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        self.tree.list(dir)
    }

    fn open(&self, path: &RelPath) -> Result<RemoteSnapshot, StoreError> {
        self.tree.open(path)
    }
}

impl Posix for ComparedTree {}

impl Store for ComparedTree {
    type Rebuild = NoRebuild;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        let Some((dir, name)) = path.split_last() else {
            return self.tree.root().map_err(|error| error.at("examine", path));
        };
        let mut listed = lock(&self.listed);
        if listed.as_ref().is_none_or(|(of, _)| *of != dir) {
            let listing = match self.tree.list(&dir) {
                Ok(listing) => listing,
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let entries = listing.entries.into_iter().map(|entry| (entry.name, entry.meta));
            *listed = Some((dir, entries.collect()));
        }
        Ok(listed.as_ref().and_then(|(_, entries)| entries.get(&name).cloned()))
    }

    fn create(&self, path: &RelPath, _: u64) -> Result<NoRebuild, StoreError> {
        Err(unchangeable(path))
    }

    fn make_dir(&self, path: &RelPath, _: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        Err(unchangeable(path))
    }

    fn set_meta(&self, path: &RelPath, _: &Meta, _: Keep) -> Result<(), StoreError> {
        Err(unchangeable(path))
    }

    fn remove(&self, path: &RelPath, going: RemoveOptions) -> Result<RemoveResult, StoreError> {
        if !going.dry_run {
            return Err(unchangeable(path));
        }
        let meta = self.look(path)?;
        let mut removed = RemoveResult::default();
        if let Some(meta) = meta {
            self.gather(path, EntryType::of(&meta.kind), &mut removed.gone)?;
        }
        Ok(removed)
    }
}

fn unchangeable(path: &RelPath) -> StoreError {
    StoreError::Unsupported { what: "changes", path: path.clone() }
}

impl Resumable for NoRebuild {}

impl Rebuild for NoRebuild {
    type Snapshot = RemoteSnapshot;

    fn copy(&self, _: &RemoteSnapshot, _: Range<u64>, _: u64) -> Result<(), StoreError> {
        match *self {}
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        match *self {}
    }

    fn commit(self, _: Commit<'_, RemoteSnapshot>) -> Result<Option<Version>, StoreError> {
        match self {}
    }
}
