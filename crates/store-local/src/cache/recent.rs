//! Recipes in memory, which the sessions of a process share.

use std::sync::{Arc, Mutex};

use deltic_store::Version;
use lru::LruCache;

use crate::lock;

/// Recipes of files that came in sessions of this process, those that were of use last; clones are the same.
#[derive(Clone, Debug)]
pub struct RecipeCache(Arc<Mutex<Recent>>);

#[derive(Debug)]
struct Recent {
    notes: LruCache<Version, Arc<[u8]>>,
    /// Bytes of all notes, and the most that they may be.
    bytes: usize,
    most: usize,
}

impl RecipeCache {
    /// An empty one, for so many bytes: about a hundredth of the files that it knows.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let recent = Recent { notes: LruCache::unbounded(), bytes: 0, most: bytes };
        Self(Arc::new(Mutex::new(recent)))
    }

    /// The recipe of a version.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Arc<[u8]>> {
        lock(&self.0).notes.get(version).cloned()
    }

    /// Notes the recipe of a version.
    pub fn note(&self, version: Version, notes: Arc<[u8]>) {
        let mut recent = lock(&self.0);
        recent.bytes += notes.len();
        if let Some((_, before)) = recent.notes.push(version, notes) {
            recent.bytes -= before.len();
        }
        while recent.bytes > recent.most
            && let Some((_, oldest)) = recent.notes.pop_lru()
        {
            recent.bytes -= oldest.len();
        }
    }

    /// Drops the recipe of a version.
    pub fn forget(&self, version: &Version) {
        let mut recent = lock(&self.0);
        if let Some(notes) = recent.notes.pop(version) {
            recent.bytes -= notes.len();
        }
    }
}
