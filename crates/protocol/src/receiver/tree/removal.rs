//! A name that is being removed with all below it.

use deltic_tree::RelPath;

use crate::receiver::ask::{ReceiverWork, Removed};
use crate::report::{Trouble, TroubleKind};

/// No limit of deletions (`--force-delete`).
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// A name that is being removed.
#[derive(Debug, Default)]
pub(crate) struct NameRemoval {
    pub(super) path: RelPath,
    /// True if another entry is to take the place of the name.
    pub(super) gives_way: bool,
    /// Weight among the removals under way.
    pub(super) weight: usize,
    /// Number of names that may still be removed: at most as many as were counted, even if names were added since.
    pub(super) names: u64,
    /// True if these names are part of the ration.
    pub(super) is_rationed: bool,
}

impl NameRemoval {
    /// Returns the work of the next step, which removes at most `most` names.
    pub(super) fn work(&self, dry_run: bool, most: u64) -> ReceiverWork {
        ReceiverWork::Remove { path: self.path.clone(), gives_way: self.gives_way, dry_run, most }
    }

    /// Subtracts names that were removed.
    pub(super) fn take(&mut self, removed: &Removed) {
        let gone = removed.gone.iter().filter(|(path, _)| !self.gives_way || *path != self.path);
        self.names = self.names.saturating_sub(gone.count() as u64);
    }

    /// Returns the trouble of a removal that exceeds the count.
    pub(super) fn refilled(&self, action: &str) -> Trouble {
        Trouble::at(TroubleKind::DeleteLimit, &self.path, |path| {
            format!(
                "cannot {action} {path}: more is in it than was counted, and than may go; what is left stays"
            )
        })
    }
}
