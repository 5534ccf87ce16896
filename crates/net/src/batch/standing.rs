//! The old files at the destination, which the deltas of a batch are made from.

use deltic_store::{Posix, StoreError, Tree};
use deltic_store_local::{KeepLinks, LocalOptions, LocalSnapshot, LocalStore, StoreContext};
use deltic_tree::{Name, RelPath};

use crate::error::SyncError;
use crate::host::destination::{keep_links, root_dir};
use crate::host::place::{Resolved, destination_message, resolve, to_local_path};
use crate::plan::Plan;

/// Opens the destination of a plan for reading, if the destination is local and exists. Also returns the new name of
/// the only entry, if there is one.
pub(super) fn open_destination(
    plan: &Plan,
    single: Option<&Name>,
) -> Result<Option<(Standing, Option<Name>)>, SyncError> {
    let Some(destination) = plan.destination.local_path() else { return Ok(None) };
    let (mkpath, context) = (plan.options.select.mkpath, StoreContext::default());
    let Resolved { root, rename, missing } =
        resolve(&to_local_path(destination), single, mkpath, &context)?;
    if missing {
        return Ok(None);
    }
    let keep_dirlinks = keep_links(&plan.options);
    let options = LocalOptions { keep_dirlinks, ..LocalOptions::default() };
    let unusable = |error| SyncError::Selection(destination_message(&root, error, &context));
    let tree = LocalStore::open_named(&root_dir(&root, &plan.options, &context), options);
    let tree = tree.map_err(unusable)?;
    Ok(Some((Standing { tree, keep_dirlinks }, rename)))
}

/// A destination before the batch changes it.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    tree: LocalStore,
    keep_dirlinks: KeepLinks,
}

impl Standing {
    /// Opens the file at `path`. Passes symlinks to directories if the options allow that.
    pub(super) fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        let mut above = Vec::new();
        let mut at = path.clone();
        while let Some((dir, _)) = at.split_last().filter(|_| self.keep_dirlinks != KeepLinks::None)
        {
            above.push(dir.clone());
            at = dir;
        }
        for dir in above.iter().rev().filter(|dir| !dir.is_root()) {
            // A broken link is reported when `path` is opened.
            let _ = self.tree.keep_dirlink(dir);
        }
        self.tree.open(path)
    }
}

/// Returns the path of the root's entry `name`.
pub(super) fn only_entry_path(name: &Name) -> RelPath {
    RelPath::root().join(name).expect("a name is a path")
}
