//! The removal of a name with everything below the name.

use deltic_tree::RelPath;

use crate::receiver::ask::{ReceiverWork, RemovedNames};
use crate::report::{Trouble, TroubleKind};

/// No limit of deletions (`--force-delete`).
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// A name that is being removed.
#[derive(Debug, Default)]
pub(crate) struct NameRemoval {
    pub(super) path: RelPath,
    /// True if another entry will take the place of the name.
    pub(super) gives_way: bool,
    /// Share of this removal in the limit of simultaneous removals.
    pub(super) weight: usize,
    /// Number of names that this removal may still delete: the counted names, not names that were added later.
    pub(super) names: u64,
    /// True if `names` were taken from the names that `--max-delete` still allows.
    pub(super) is_rationed: bool,
}

impl NameRemoval {
    /// Returns the work of the next step, which removes at most `most` names.
    pub(super) fn work(&self, dry_run: bool, most: u64) -> ReceiverWork {
        ReceiverWork::Remove { path: self.path.clone(), gives_way: self.gives_way, dry_run, most }
    }

    /// Subtracts names that were removed.
    pub(super) fn subtract(&mut self, removed: &RemovedNames) {
        let gone = removed.gone.iter().filter(|(path, _)| !self.gives_way || *path != self.path);
        self.names = self.names.saturating_sub(gone.count() as u64);
    }

    /// Returns the trouble of a removal that finds more names than were counted.
    pub(super) fn new_names_trouble(&self, action: &str) -> Trouble {
        Trouble::at(TroubleKind::DeleteLimit, &self.path, |path| {
            format!(
                "cannot {action} {path}: names were added after the count and exceed the deletion limit; the rest stays"
            )
        })
    }
}
