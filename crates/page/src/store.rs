//! A store of one file, over files of the host.
//!
//! A push reads the file. A pull copies spans of the old version and writes literals to a staged file of the host. The
//! commit only notes that the staged file is complete: the page puts the file in place afterwards, because most ways
//! to do that in a browser must be awaited.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltic_store::{
    Cause, Commit, Content, Keep, Listing, Posix, Rebuild, RemoveOptions, RemoveResult, Replaces,
    Resumable, Snapshot, Store, StoreError, Tree, Version,
};
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};

use crate::HostFiles;

/// Bytes that are copied at once from the old version to the staged file.
const COPIED_BYTES: u64 = 256 << 10;
/// Mode of the root, and of new files without a mode.
const ROOT_MODE: u32 = 0o755;

/// A directory with at most one file. Clones share their state.
#[derive(Clone, Debug)]
pub struct PageStore<H> {
    host: H,
    name: Name,
    /// File of the host that gets a new version; `None` for a store that is only read.
    staged: Option<u32>,
    state: Arc<Mutex<FileState>>,
}

/// The present version of the file.
#[derive(Debug)]
struct FileState {
    /// The number of the host's file with the present version, and the metadata of that version.
    present: Option<(u32, Meta)>,
    /// True once a new version is complete.
    is_put: bool,
}

impl<H: HostFiles> PageStore<H> {
    /// Returns a store with the file `name` alone. `present` is the file of the host with the present version, if any.
    /// New versions go to the file `staged`.
    pub fn new(host: H, name: Name, present: Option<(u32, Meta)>, staged: Option<u32>) -> Self {
        let state = Arc::new(Mutex::new(FileState { present, is_put: false }));
        Self { host, name, staged, state }
    }

    /// Returns the metadata of the new version, once one is complete.
    #[must_use]
    pub fn put(&self) -> Option<Meta> {
        let state = self.lock();
        state.present.as_ref().filter(|_| state.is_put).map(|(_, meta)| meta.clone())
    }

    fn lock(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the host's file, and the metadata, of the file at `path`.
    fn find(&self, action: &'static str, path: &RelPath) -> Result<(u32, Meta), StoreError> {
        if path.is_root() {
            return Err(StoreError::NotAFile { action, path: path.clone() });
        }
        let present = self.lock().present.clone();
        let found = present.filter(|_| self.is_file(path));
        found.ok_or_else(|| error(action, path, Cause::NotFound, ErrorKind::NotFound))
    }

    fn is_file(&self, path: &RelPath) -> bool {
        path.split_last().is_some_and(|(dir, name)| dir.is_root() && name == self.name)
    }
}

impl<H: HostFiles> Tree for PageStore<H> {
    type Snapshot = PageSnapshot<H>;

    fn list(&self, dir: &RelPath) -> Result<Listing, StoreError> {
        if !dir.is_root() {
            return Err(error("list", dir, Cause::NotFound, ErrorKind::NotFound));
        }
        let meta = self.lock().present.as_ref().map(|(_, meta)| meta.clone());
        let entries =
            meta.map(|meta| Entry { name: self.name.clone(), meta }).into_iter().collect();
        Ok(Listing { entries, ..Listing::default() })
    }

    fn open(&self, path: &RelPath) -> Result<PageSnapshot<H>, StoreError> {
        let (file, meta) = self.find("open", path)?;
        Ok(PageSnapshot { host: self.host.clone(), path: path.clone(), file, meta })
    }
}

impl<H: HostFiles> Posix for PageStore<H> {}

impl<H: HostFiles> Store for PageStore<H> {
    type Rebuild = PageRebuild<H>;

    fn look(&self, path: &RelPath) -> Result<Option<Meta>, StoreError> {
        if path.is_root() {
            return Ok(Some(Meta::without_owner(Kind::Dir, 0, Timestamp::default(), ROOT_MODE)));
        }
        let state = self.lock();
        let meta = state.present.as_ref().map(|(_, meta)| meta.clone());
        Ok(meta.filter(|_| self.is_file(path)))
    }

    fn create(&self, path: &RelPath, len: u64) -> Result<PageRebuild<H>, StoreError> {
        match self.staged.filter(|_| self.is_file(path)) {
            Some(staged) => {
                Ok(PageRebuild { store: self.clone(), path: path.clone(), staged, len })
            }
            None => Err(error("create", path, Cause::Denied, ErrorKind::PermissionDenied)),
        }
    }

    fn make_dir(&self, path: &RelPath, _: Option<(&Meta, Keep)>) -> Result<(), StoreError> {
        match path.is_root() {
            true => Ok(()),
            false => Err(StoreError::Unsupported { what: "directories", path: path.clone() }),
        }
    }

    fn set_meta(&self, path: &RelPath, meta: &Meta, keep: Keep) -> Result<(), StoreError> {
        if path.is_root() {
            return Ok(());
        }
        self.find("set attributes of", path)?;
        let mut state = self.lock();
        if let Some((_, present)) = state.present.as_mut().filter(|_| keep.times) {
            present.modified = meta.modified;
        }
        Ok(())
    }

    fn remove(&self, path: &RelPath, _: RemoveOptions) -> Result<RemoveResult, StoreError> {
        Err(StoreError::Unsupported { what: "removals", path: path.clone() })
    }
}

/// A version of the file.
#[derive(Debug)]
pub struct PageSnapshot<H> {
    host: H,
    path: RelPath,
    file: u32,
    meta: Meta,
}

impl<H: HostFiles> Snapshot for PageSnapshot<H> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        // A file that grew is still read as it was chosen.
        let rest = usize::try_from(self.meta.len.saturating_sub(start)).unwrap_or(usize::MAX);
        let len = rest.min(buf.len());
        let read = self.host.read(self.file, start, &mut buf[..len]);
        read.map_err(|_| StoreError::Changed { path: self.path.clone() })
    }

    /// A browser refuses to read a file that changed since it was chosen, so each read is a check.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A new version of the file, in the staged file of the host.
#[derive(Debug)]
pub struct PageRebuild<H> {
    store: PageStore<H>,
    path: RelPath,
    staged: u32,
    len: u64,
}

impl<H: HostFiles> Resumable for PageRebuild<H> {
    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let rest = usize::try_from(self.len.saturating_sub(start)).unwrap_or(usize::MAX);
        let len = rest.min(buf.len());
        let read = self.store.host.read(self.staged, start, &mut buf[..len]);
        read.map_err(|_| StoreError::Changed { path: self.path.clone() })
    }
}

impl<H: HostFiles> Rebuild for PageRebuild<H> {
    type Snapshot = PageSnapshot<H>;

    fn copy(
        &self,
        from: &PageSnapshot<H>,
        old: Range<u64>,
        new_start: u64,
    ) -> Result<(), StoreError> {
        let mut bytes = vec![0; COPIED_BYTES.min(old.end.saturating_sub(old.start)) as usize];
        let mut at = old.start;
        while at < old.end {
            let len = (old.end - at).min(COPIED_BYTES) as usize;
            if from.read_at(at, &mut bytes[..len])? < len {
                return Err(StoreError::Changed { path: from.path.clone() });
            }
            self.write(new_start + (at - old.start), &bytes[..len])?;
            at += len as u64;
        }
        Ok(())
    }

    fn write(&self, new_start: u64, bytes: &[u8]) -> Result<(), StoreError> {
        if new_start.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            let cause = Cause::Other(ErrorKind::FileTooLarge);
            return Err(error("write", &self.path, cause, ErrorKind::FileTooLarge));
        }
        let written = self.store.host.write(self.staged, new_start, bytes);
        written.map_err(|_| error("write", &self.path, Cause::Full, ErrorKind::StorageFull))
    }

    fn write_old(&self, new_start: u64, bytes: &[u8], _: Content) -> Result<(), StoreError> {
        self.write(new_start, bytes)
    }

    fn commit(self, commit: Commit<'_, PageSnapshot<H>>) -> Result<Option<Version>, StoreError> {
        let Commit { meta, keep, replaces } = commit;
        let mut state = self.store.lock();
        let old = state.present.as_ref();
        let is_expected = match replaces {
            Replaces::Nothing => old.is_none(),
            Replaces::Version(version) => old.is_some_and(|(file, _)| *file == version.file),
            Replaces::Seen(seen) => old.is_some_and(|(_, meta)| meta.is_equal_file(seen)),
        };
        if !is_expected {
            return Err(StoreError::Conflict { path: self.path.clone() });
        }
        let mode = keep.mode_of_new(meta, old.map(|(_, meta)| meta.mode), 0o022);
        let modified = if keep.times { meta.modified } else { Timestamp::default() };
        state.present =
            Some((self.staged, Meta::without_owner(Kind::File, self.len, modified, mode)));
        state.is_put = true;
        Ok(None)
    }
}

fn error(action: &'static str, path: &RelPath, cause: Cause, kind: ErrorKind) -> StoreError {
    StoreError::new(action, path, cause, io::Error::from(kind))
}
