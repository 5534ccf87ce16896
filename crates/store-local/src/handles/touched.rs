//! Changed directories that are not flushed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread;

use deltic_tree::{Name, RelPath};
use rustix::fs;
use rustix::io::Errno;

use crate::handles::dir::{Dir, Use};
use crate::handles::shared::SharedState;
use crate::kernel::errno::At;
use crate::kernel::lock;
use crate::kernel::system::System;
use deltic_store::{Durability, StoreError};

/// Directories that changed since the last flush, each once.
#[derive(Debug)]
pub(crate) struct Touched {
    durability: Durability,
    /// The file system of the root.
    system: System,
    shared: Arc<SharedState>,
    dirs: Mutex<Dirs>,
    /// Locked during a flush. True once a flush has failed.
    flushing: Mutex<bool>,
}

/// Directories by parent and name, so that siblings share the bytes of the parent.
#[derive(Clone, Debug, Default)]
struct Dirs {
    root: bool,
    below: BTreeMap<RelPath, BTreeSet<Name>>,
}

impl Dirs {
    fn add(&mut self, dir: Option<(RelPath, Name)>) {
        match dir {
            Some((parent, name)) => _ = self.below.entry(parent).or_default().insert(name),
            None => self.root = true,
        }
    }

    fn len(&self) -> usize {
        usize::from(self.root) + self.below.values().map(BTreeSet::len).sum::<usize>()
    }

    /// Returns the path of each directory.
    fn into_paths(self) -> impl Iterator<Item = RelPath> {
        let path = |(parent, names): (RelPath, BTreeSet<Name>)| {
            names.into_iter().map(move |name| parent.join(&name).expect("it was a path"))
        };
        self.root.then(RelPath::root).into_iter().chain(self.below.into_iter().flat_map(path))
    }
}

impl Touched {
    pub(crate) fn new(durability: Durability, root: &Dir) -> Self {
        Self {
            durability,
            system: System::of(root),
            shared: root.shared(),
            dirs: Mutex::default(),
            flushing: Mutex::default(),
        }
    }

    /// The file system of the root.
    pub(crate) fn system(&self) -> System {
        self.system
    }

    /// Flushes a file before a commit, if the store is durable.
    pub(crate) fn flush_file(&self, file: impl AsFd) -> Result<(), Errno> {
        match self.is_durable() {
            true => self.shared.flushes.flush(file, self.system),
            false => Ok(()),
        }
    }

    /// Flushes files before a commit, if the store is durable; returns the results in order.
    pub(crate) fn flush_files(&self, files: &[BorrowedFd<'_>]) -> Vec<Result<(), Errno>> {
        match self.is_durable() {
            true => self.shared.flushes.flush_all(files, self.system),
            false => vec![Ok(()); files.len()],
        }
    }

    /// True if files must be flushed before a commit.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Run
    }

    pub(crate) fn add(&self, dir: &RelPath) {
        if self.is_durable() {
            let dir = dir.split_last();
            lock(&self.dirs).add(dir);
        }
    }

    /// Flushes every added directory, several at a time, since a flush mostly waits for the disk.
    ///
    /// When this call returns, all directories that were added before it are flushed, by this thread or another thread.
    /// After a failure every later call fails too, since the system reports a failure only once.
    pub(crate) fn flush(&self, root: &Dir) -> Result<(), StoreError> {
        let mut failed = lock(&self.flushing);
        if *failed {
            return Err(Errno::IO).at("flush", &RelPath::root());
        }
        let answer = self.flush_added(root);
        *failed = answer.is_err();
        answer
    }

    fn flush_added(&self, root: &Dir) -> Result<(), StoreError> {
        let dirs = std::mem::take(&mut *lock(&self.dirs));
        // Starting a thread costs as much as an empty flush.
        let threads = dirs.len().saturating_sub(1).clamp(1, MAX_THREADS);
        let queue = Mutex::new(dirs.into_paths());
        let work = || {
            let mut answer = Ok(());
            loop {
                let next = lock(&queue).next();
                let Some(dir) = next else { return answer };
                let flushed = self.flush_dir(root, &dir);
                answer = answer.and(flushed);
            }
        };
        thread::scope(|scope| {
            // This thread works too. If threads cannot be started, fewer flushes run at once.
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (1..threads).map_while(spawn).collect();
            let answers =
                workers.into_iter().map(|worker| worker.join().expect("a flush does not panic"));
            answers.fold(work(), Result::and)
        })
    }

    fn flush_dir(&self, root: &Dir, path: &RelPath) -> Result<(), StoreError> {
        match root.open_dir(path, Use::Read) {
            // The directory was removed, or replaced by a file or link. Its parent is flushed as well.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            // The new mode denies reading even to the owner, so the whole file system is flushed.
            Err(Errno::ACCESS) => flush_system(root).at("flush", path),
            opened => {
                let flush = |dir| self.shared.flushes.flush(dir, self.system);
                opened.and_then(flush).at("flush", path)
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn dirs(&self) -> Vec<RelPath> {
        let mut dirs: Vec<_> = lock(&self.dirs).clone().into_paths().collect();
        dirs.sort_unstable();
        dirs
    }
}

/// Flushes the root's file system; all file systems of the machine if the root is unreadable too.
fn flush_system(root: &Dir) -> Result<(), Errno> {
    match root.open_dir(&RelPath::root(), Use::Read) {
        Err(Errno::ACCESS) => {
            fs::sync();
            Ok(())
        }
        opened => opened.and_then(fs::syncfs),
    }
}

/// Most concurrent flushes. More flushes than a disk has queues for gain nothing.
const MAX_THREADS: usize = 16;
