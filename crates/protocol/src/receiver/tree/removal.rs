//! A name that is being removed with all below it.

use deltic_tree::RelPath;

use crate::receiver::ask::{Removed, Work};
use crate::report::{Trouble, TroubleKind};

/// No limit of deletions (`--force-delete`).
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// A name that is being removed.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    pub(super) path: RelPath,
    /// True where something else is to be in its place.
    pub(super) gives_way: bool,
    /// Its share of what is removed at once.
    pub(super) weight: usize,
    /// Names that may still go with it: those that were counted, or the count would bind what was there then only.
    pub(super) names: u64,
    /// True where these names are a part of the ration.
    pub(super) is_rationed: bool,
}

impl Removal {
    /// The next step of it, in which `most` names go.
    pub(super) fn work(&self, dry_run: bool, most: u64) -> Work {
        Work::Remove { path: self.path.clone(), gives_way: self.gives_way, dry_run, most }
    }

    /// Counts what went.
    pub(super) fn take(&mut self, removed: &Removed) {
        let gone = removed.gone.iter().filter(|(path, _)| !self.gives_way || *path != self.path);
        self.names = self.names.saturating_sub(gone.count() as u64);
    }

    /// Why no more of it goes.
    pub(super) fn refilled(&self, action: &str) -> Trouble {
        Trouble::at(TroubleKind::DeleteLimit, &self.path, |path| {
            format!(
                "cannot {action} {path}: more is in it than was counted, and than may go; what is left stays"
            )
        })
    }
}
