//! Steps of a store that report changed paths.

use deltic_store::{RemoveResult, StoreError};
use deltic_tree::RelPath;

use crate::commit::changes::Became;
use crate::commit::state::StoreState;
use crate::handles::place::Place;
use crate::kernel::errno::At;

impl StoreState {
    /// Reports that an entry is in place, if `put` says so. Attributes of the entry may be missing.
    pub(crate) fn report_if_put<T>(&self, path: &RelPath, put: &Result<T, StoreError>) {
        if matches!(put, Ok(_) | Err(StoreError::AttributesNotSet { .. })) {
            self.commits.changes.report(path, Became::Put);
        }
    }

    /// Reports the removed entries.
    pub(crate) fn report_removed(&self, removed: &RemoveResult) {
        removed.gone.iter().for_each(|(path, _)| self.commits.changes.report(path, Became::Gone));
    }

    /// Calls `then`, which removes the entry at `place`, and reports the removal.
    pub(crate) fn report_removal_by(
        &self,
        place: &Place,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let turn = place.lock_entry().at("remove", &place.path)?;
        self.count_replacement(&turn, then)?;
        self.commits.changes.report(&place.path, Became::Gone);
        Ok(())
    }
}
