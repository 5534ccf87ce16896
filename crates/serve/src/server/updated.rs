//! Files of a volume that were updated: what they are, and the volume open for the next update.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltic_store::{Snapshot, Store, StoreError, Version};
use deltic_store_local::{LocalSnapshot, LocalStore};
use lru::LruCache;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::lock;
use crate::update::Base;

/// Files of a volume whose bases are known; those that were of use last.
const MOST_BASES: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is not zero");
/// Time for which a volume is held open.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// What is known of the files of a volume; all clients share it.
#[derive(Debug)]
pub(crate) struct Updated {
    /// Bases of files in place, by their versions.
    bases: Mutex<LruCache<Version, Base>>,
    /// The volume, open since an update not long ago.
    store: Mutex<Option<Arc<LocalStore>>>,
}

impl Default for Updated {
    fn default() -> Self {
        Self { bases: Mutex::new(LruCache::new(MOST_BASES)), store: Mutex::default() }
    }
}

impl Updated {
    /// The volume, opened by `open` unless it is open. It stays so for some seconds: to open it costs as much as an
    /// update, and while it is open nobody tidies it up.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(super) fn open(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<LocalStore, StoreError>,
    ) -> Result<Arc<LocalStore>, StoreError> {
        let mut held = lock(&self.store);
        if let Some(store) = &*held {
            return Ok(Arc::clone(store));
        }
        let store = held.insert(Arc::new(open()?));
        let updated = Arc::clone(self);
        tokio::spawn(async move {
            sleep(OPEN_FOR).await;
            spawn_blocking(move || updated.close());
        });
        Ok(Arc::clone(store))
    }

    /// Closes the volume, and removes what killed sessions left there.
    pub(super) fn close(&self) {
        let store = lock(&self.store).take();
        // Another one finds what this one could not remove.
        store.map(|store| store.sweep());
    }

    /// True if a file in place is this base. A file of which nothing is known is read.
    pub(super) fn knows(&self, old: &LocalSnapshot, base: Base) -> Result<bool, StoreError> {
        let version = old.identity();
        let known = version.and_then(|version| lock(&self.bases).get(&version).copied());
        let mut at = 0;
        let read = |piece: &mut [u8]| {
            let read = old.read_at(at, piece)?;
            at += read as u64;
            Ok::<_, StoreError>(read)
        };
        Ok(known.map_or_else(|| Base::of_read(read), Ok)? == base)
    }

    /// Notes the base of a version that took the place of another one.
    pub(super) fn replace(&self, old: Option<Version>, new: Option<Version>, base: Base) {
        let mut bases = lock(&self.bases);
        old.map(|old| bases.pop(&old));
        new.map(|new| bases.put(new, base));
    }
}
