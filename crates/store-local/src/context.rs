//! State that local stores share.

use std::io;
use std::sync::Arc;

use deltic_tree::Name;

use crate::dir::{VolumeDir, volume_path};
use crate::quota::{Quota, SpaceLedger};
use crate::shared::SharedState;

/// State that several local stores share: the quotas of volumes, flushes of a file system that are done together, and
/// the connections to the service that tells facts. Clones share the state; two contexts share nothing.
///
/// A [`NamedDir`](crate::NamedDir) carries a context, and passes the context to the store that is opened there. Stores
/// of different contexts on one directory still exclude each other.
#[derive(Clone, Debug, Default)]
pub struct StoreContext {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) space: Arc<SpaceLedger>,
}

impl StoreContext {
    /// Returns a context with the quotas of these volumes, after a count of their files.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_volumes(volumes: &[VolumeDir]) -> io::Result<Self> {
        let space = Arc::new(SpaceLedger::of(volumes)?);
        Ok(Self { space, ..Self::default() })
    }

    /// Returns the quota of the volume `name`, if the volume has limits.
    #[must_use]
    pub fn volume_quota(&self, name: &Name) -> Option<Arc<Quota>> {
        self.space.quota_at(&volume_path(name))
    }
}

impl PartialEq for StoreContext {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && Arc::ptr_eq(&self.space, &other.space)
    }
}

impl Eq for StoreContext {}
