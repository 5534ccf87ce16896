//! Staged files that another process resumes by their place.

use std::sync::Arc;

use deltic_store::{Resumed, StoreError};
use deltic_tree::RelPath;

use super::LocalRebuild;
use crate::commit::state::StoreState;
use crate::handles::place::Place;
use crate::kernel::errno::At;
use crate::roots::quota::FileSize;
use crate::staging::stage::StagedPlace;

impl LocalRebuild {
    /// Returns the place of the staged file. A commit may move the file to another place.
    #[must_use]
    pub fn staged_place(&self) -> StagedPlace {
        StagedPlace { home: self.staged.home.clone(), name: self.staged.name.clone() }
    }

    /// If `is_kept` is true, keeps the staged file when the rebuild is dropped, also if no later run resumes unfinished
    /// versions ([`LocalOptions::one_shot`](crate::LocalOptions::one_shot)). A failed write removes the file nevertheless.
    pub const fn keep_when_dropped(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
    }

    /// Resumes the staged file `staged` for `path`. See [`LocalStore::resume_staged`](crate::LocalStore::resume_staged).
    pub(crate) fn resume_staged(
        store: Arc<StoreState>,
        path: &RelPath,
        len: u64,
        staged: &StagedPlace,
    ) -> Result<Option<Resumed<Self>>, StoreError> {
        let place = Place::parent_of(&store.root, "resume", path)?;
        let found = store.growing_stages().resume_staged(staged, len).at("resume", path)?;
        let resumed =
            found.map(|found| Self::resume_logged(store, &place, FileSize { len, data: 0 }, found));
        resumed.transpose()
    }
}
