//! Files that were updated in a volume, and the volume held open for the next update.

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

/// Most remembered bases; the least recently used are forgotten first.
const MOST_BASES: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is not zero");
/// Time for which a volume is held open after an update opened it.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// The known bases of the files of a volume, and the open volume; shared by all clients.
#[derive(Debug)]
pub(crate) struct Updated {
    /// Bases of present files, by their versions.
    bases: Mutex<LruCache<Version, Base>>,
    /// The volume, if an update opened it a short time ago.
    store: Mutex<Option<Arc<LocalStore>>>,
}

impl Default for Updated {
    fn default() -> Self {
        Self { bases: Mutex::new(LruCache::new(MOST_BASES)), store: Mutex::default() }
    }
}

impl Updated {
    /// Returns the volume, opened by `open` unless an earlier update holds it open. The volume stays open for some
    /// seconds, because opening costs as much as an update. Leftovers of killed sessions are removed only after the
    /// volume is closed.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    pub(super) fn open(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<LocalStore, StoreError>,
    ) -> Result<Arc<LocalStore>, StoreError> {
        let mut held = lock(&self.store);
        if let Some(store) = &*held {
            return Ok(Arc::clone(store));
        }
        let store = held.insert(Arc::new(open()?));
        // Creates the staging directory now, so that the first update need not do so.
        let some = RelPath::parse(b"file").expect("it is a path");
        keeping_times(store, || drop(store.create(&some, 0)));
        let updated = Arc::clone(self);
        tokio::spawn(async move {
            sleep(OPEN_FOR).await;
            spawn_blocking(move || updated.close());
        });
        Ok(Arc::clone(store))
    }

    /// Closes the volume, and removes leftovers of killed sessions there, unless an update is in progress.
    pub(super) fn close(&self) {
        let store = lock(&self.store).take();
        if let Some(store) = store.and_then(Arc::into_inner) {
            // Leftovers that cannot be removed now are removed at a later close.
            keeping_times(&store, || drop(store.sweep()));
        }
    }

    /// True if the present version of a file is `base`. The file is read once if its base is unknown.
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
        // A version that changed just now is not remembered, because its writer may still be writing.
        self.note(version.and_then(|version| SettledVersion::after_read(version, begun)), found);
        Ok(found == base)
    }

    /// Remembers the base of a version that replaced `old`.
    pub(super) fn replace(&self, old: Option<Version>, new: Option<SettledVersion>, base: Base) {
        old.map(|old| lock(&self.bases).pop(&old));
        self.note(new, base);
    }

    fn note(&self, version: Option<SettledVersion>, base: Base) {
        version.map(|version| lock(&self.bases).put(*version.version(), base));
    }
}

/// Runs `act`, which changes the modification time of the volume's root, and restores that time.
fn keeping_times(store: &LocalStore, act: impl FnOnce()) {
    let root = RelPath::root();
    let before = store.look(&root).ok().flatten();
    act();
    let after = store.look(&root).ok().flatten();
    if let (Some(before), Some(after)) = (before, after)
        && before.modified != after.modified
    {
        // Errors are ignored, as in a session: the root may belong to another user.
        store.set_meta(&root, &before, Keep { times: true, ..Keep::default() }).ok();
    }
}
