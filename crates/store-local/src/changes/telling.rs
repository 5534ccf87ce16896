//! Steps of a store that tell what changed.

use deltic_store::{Removed, StoreError};
use deltic_tree::RelPath;

use super::Became;
use crate::errno::At;
use crate::inner::Inner;
use crate::place::Place;

impl Inner {
    /// Tells that an entry was put in its place, if it was, with all attributes or not.
    pub(crate) fn tell_if_put<T>(&self, path: &RelPath, put: &Result<T, StoreError>) {
        if matches!(put, Ok(_) | Err(StoreError::Unset { .. })) {
            self.commits.changes.tell(path, Became::Put);
        }
    }

    /// Tells what went.
    pub(crate) fn tell_removed(&self, removed: &Removed) {
        removed.gone.iter().for_each(|(path, _)| self.commits.changes.tell(path, Became::Gone));
    }

    /// Calls `then`, which removes what is at `place`, and tells so.
    pub(crate) fn removing(
        &self,
        place: &Place,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let turn = place.turn().at("remove", &place.path)?;
        self.counting(&turn, then)?;
        self.commits.changes.tell(&place.path, Became::Gone);
        Ok(())
    }
}
