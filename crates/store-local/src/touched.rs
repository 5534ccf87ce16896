//! Directories that changed and are not flushed yet.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use deltic_tree::RelPath;
use rustix::fs;
use rustix::io::Errno;

use crate::dir::{Dir, Use};
use crate::errno::At;
use crate::lock;
use deltic_store::{Durability, StoreError};

/// Remembers directories until the next flush, each once.
#[derive(Debug)]
pub(super) struct Touched {
    durability: Durability,
    dirs: Mutex<BTreeSet<RelPath>>,
}

impl Touched {
    pub(super) fn new(durability: Durability) -> Self {
        Self { durability, dirs: Mutex::default() }
    }

    /// Whether files are to be flushed before they get their name.
    pub(super) fn is_durable(&self) -> bool {
        self.durability == Durability::Run
    }

    pub(super) fn add(&self, dir: &RelPath) {
        if !self.is_durable() {
            return;
        }
        let mut dirs = lock(&self.dirs);
        if !dirs.contains(dir) {
            dirs.insert(dir.clone());
        }
    }

    /// Flushes every directory that was added, several at a time: they wait for the disk, not for us.
    pub(super) fn flush(&self, root: &Dir) -> Result<(), StoreError> {
        let dirs = std::mem::take(&mut *lock(&self.dirs));
        let threads = dirs.len().min(MAX_THREADS);
        let queue = Mutex::new(dirs.into_iter());
        let work = || {
            let mut answer = Ok(());
            loop {
                let next = lock(&queue).next();
                let Some(dir) = next else { return answer };
                let flushed = flush_dir(root, &dir);
                answer = answer.and(flushed);
            }
        };
        thread::scope(|scope| {
            // This thread works too. A system that has no more of them has fewer flushes under way.
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (1..threads).map_while(spawn).collect();
            let answers =
                workers.into_iter().map(|worker| worker.join().expect("a flush does not panic"));
            answers.fold(work(), Result::and)
        })
    }

    #[cfg(test)]
    pub(super) fn dirs(&self) -> Vec<RelPath> {
        lock(&self.dirs).iter().cloned().collect()
    }
}

fn flush_dir(root: &Dir, path: &RelPath) -> Result<(), StoreError> {
    match root.dir(path, Use::Read) {
        // Gone again, and with it what was to last, or a file or a link by now; its own directory is flushed as well.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        // Its new mode keeps even its owner from opening it, so it cannot be flushed by itself.
        Err(Errno::ACCESS) => flush_all(root).at("flush", path),
        opened => opened.and_then(fs::fsync).at("flush", path),
    }
}

/// Flushes the root's file system; the whole machine if the root is closed to us as well.
fn flush_all(root: &Dir) -> Result<(), Errno> {
    match root.dir(&RelPath::root(), Use::Read) {
        Err(Errno::ACCESS) => {
            fs::sync();
            Ok(())
        }
        opened => opened.and_then(fs::syncfs),
    }
}

/// Flushes in flight: more than disks have queues for gains nothing (`RELIABILITY` finding 10).
const MAX_THREADS: usize = 16;
