//! A new version that goes without a trace unless it is put in place: nobody goes on with what a request began.

use std::ops::Deref;

use deltic_store::{Commit, Rebuild, StoreError, Version};
use deltic_store_local::{LocalRebuild, LocalSnapshot};

/// A new version in the making.
pub(super) struct Staged(Option<LocalRebuild>);

impl Staged {
    pub(super) fn new(rebuild: LocalRebuild) -> Self {
        Self(Some(rebuild))
    }

    /// Puts it in place, as [`Rebuild::commit`].
    pub(super) fn commit(
        mut self,
        commit: Commit<'_, LocalSnapshot>,
    ) -> Result<Option<Version>, StoreError> {
        self.0.take().expect("it is there until then").commit(commit)
    }
}

impl Deref for Staged {
    type Target = LocalRebuild;

    fn deref(&self) -> &LocalRebuild {
        self.0.as_ref().expect("it is there until it is put in place")
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(rebuild) = self.0.take() {
            // What stays is litter for the sweep.
            rebuild.discard().ok();
        }
    }
}
