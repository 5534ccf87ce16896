//! Files of a volume that were updated: what they are, and the volume open for the next update.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltic_carrier::update::Base;
use deltic_store::{Keep, SettledVersion, Snapshot, Store, StoreError, Version};
use deltic_store_local::cache::now;
use deltic_store_local::{LocalSnapshot, LocalStore};
use deltic_tree::RelPath;
use lru::LruCache;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::lock;

/// Files of a volume whose bases are known; those that were of use last.
const MOST_BASES: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is not zero");
/// Time for which a volume is held open.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// Facts about the files of a volume, which all clients share.
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
        // Its staging directory is made now, and not by the first update.
        let some = RelPath::parse(b"file").expect("it is a path");
        keeping_times(store, || drop(store.create(&some, 0)));
        let updated = Arc::clone(self);
        tokio::spawn(async move {
            sleep(OPEN_FOR).await;
            spawn_blocking(move || updated.close());
        });
        Ok(Arc::clone(store))
    }

    /// Closes the volume, and removes what killed sessions left there, unless an update is under way.
    pub(super) fn close(&self) {
        let store = lock(&self.store).take();
        if let Some(store) = store.and_then(Arc::into_inner) {
            // Another one finds what this one could not remove.
            keeping_times(&store, || drop(store.sweep()));
        }
    }

    /// True if a file in place is this base. A file of which nothing is known is read, once.
    pub(super) fn knows(&self, old: &LocalSnapshot, base: Base) -> Result<bool, StoreError> {
        let (begun, version) = (now(), old.identity());
        if let Some(known) = version.and_then(|version| lock(&self.bases).get(&version).copied()) {
            return Ok(known == base);
        }
        old.check_settled()?;
        let mut at = 0;
        let read = |piece: &mut [u8]| {
            let read = old.read_at(at, piece)?;
            at += read as u64;
            Ok::<_, StoreError>(read)
        };
        let found = Base::from_pieces(read)?;
        old.check_unchanged()?;
        // Whoever changed it just now may not be done with it.
        self.note(version.and_then(|version| SettledVersion::read(version, begun)), found);
        Ok(found == base)
    }

    /// Notes the base of a version that took the place of `old`.
    pub(super) fn replace(&self, old: Option<Version>, new: Option<SettledVersion>, base: Base) {
        old.map(|old| lock(&self.bases).pop(&old));
        self.note(new, base);
    }

    fn note(&self, version: Option<SettledVersion>, base: Base) {
        version.map(|version| lock(&self.bases).put(*version.version(), base));
    }
}

/// Does something by which the root of a volume gets another time, and gives it the old one back.
fn keeping_times(store: &LocalStore, act: impl FnOnce()) {
    let root = RelPath::root();
    let before = store.look(&root).ok().flatten();
    act();
    let after = store.look(&root).ok().flatten();
    if let (Some(before), Some(after)) = (before, after)
        && before.modified != after.modified
    {
        // Where that is not ours to set, a session would not do so either.
        store.set_meta(&root, &before, Keep { times: true, ..Keep::default() }).ok();
    }
}
