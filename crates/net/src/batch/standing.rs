//! The files at the destination of a batch, which its deltas are against.

use deltic_store::{Posix, StoreError, Tree};
use deltic_store_local::{KeepLinks, LocalOptions, LocalSnapshot, LocalStore};
use deltic_tree::{Name, RelPath};

use crate::error::SyncError;
use crate::host::destination::{keep_links, root_of};
use crate::host::place::{Resolved, here, of_destination, resolve};
use crate::plan::Plan;

/// Opens a plan's destination, if that is here and there: as a tree to read, and the name in it of what comes.
pub(super) fn standing(
    plan: &Plan,
    single: Option<&Name>,
) -> Result<Option<(Standing, Option<Name>)>, SyncError> {
    let Some(destination) = plan.destination.here() else { return Ok(None) };
    let mkpath = plan.options.select.mkpath;
    let Resolved { root, rename, missing } = resolve(&here(destination), single, mkpath)?;
    if missing {
        return Ok(None);
    }
    let keep_dirlinks = keep_links(&plan.options);
    let options = LocalOptions { keep_dirlinks, ..LocalOptions::default() };
    let unusable = |error| SyncError::Selection(of_destination(&root, error));
    let tree = LocalStore::open_named(&root_of(&root, &plan.options), options);
    let tree = tree.map_err(unusable)?;
    Ok(Some((Standing { tree, keep_dirlinks }, rename)))
}

/// A destination as it stands.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    tree: LocalStore,
    keep_dirlinks: KeepLinks,
}

impl Standing {
    /// The file `path`; behind links to directories, where these are kept.
    pub(super) fn open(&self, path: &RelPath) -> Result<LocalSnapshot, StoreError> {
        let mut above = Vec::new();
        let mut at = path.clone();
        while let Some((dir, _)) = at.split_last().filter(|_| self.keep_dirlinks != KeepLinks::None)
        {
            above.push(dir.clone());
            at = dir;
        }
        for dir in above.iter().rev().filter(|dir| !dir.is_root()) {
            // What leads nowhere is said where it is opened.
            let _ = self.tree.keep_dirlink(dir);
        }
        self.tree.open(path)
    }
}

/// The path of a name at the root.
pub(super) fn only(name: &Name) -> RelPath {
    RelPath::root().join(name).expect("a name is a path")
}
