//! Creates missing roots of stores, and missing directories above. Removes these again if the transfer brings no entry.

use std::sync::Arc;

use deltic_store::{Durability, StoreError};
use deltic_tree::RelPath;
use rustix::fs::Mode;

use crate::kernel::errno::At;
use crate::roots::named::NamedDir;
use crate::roots::quota::{Reserved, SpaceQuota};

/// Creates the directory `dir`, accessible by its owner only, unless it exists. The parent must exist. Returns true if
/// the directory was created. The store must then be told by [`with_new_root`](crate::LocalStore::with_new_root). The
/// directory counts in the quota of its volume, and in `quotas`.
///
/// # Errors
/// The directory cannot be created, another entry has its name, or a quota has no room.
pub fn create_root(
    dir: &NamedDir,
    durability: Durability,
    quotas: &[Arc<SpaceQuota>],
) -> Result<bool, StoreError> {
    create_dir(dir, Mode::RWXU, durability, quotas)
}

/// Creates a directory above a root, unless it exists, with the mode `0777` less the `umask`. Returns true if the
/// directory was created.
///
/// # Errors
/// As [`create_root`].
pub fn create_parent(
    dir: &NamedDir,
    durability: Durability,
    quotas: &[Arc<SpaceQuota>],
) -> Result<bool, StoreError> {
    create_dir(dir, Mode::from_raw_mode(0o777), durability, quotas)
}

fn create_dir(
    dir: &NamedDir,
    mode: Mode,
    durability: Durability,
    quotas: &[Arc<SpaceQuota>],
) -> Result<bool, StoreError> {
    // Another session may have created the directory meanwhile.
    let reserved = match dir.open() {
        Ok(_) => Reserved::default(),
        Err(_) => Reserved::of_dir(dir, quotas)?,
    };
    let made = dir.make_dir(mode).at("make directory", &RelPath::root())?;
    if made {
        reserved.convert_to_used();
    }
    if durability == Durability::Run {
        let flushed = dir.open_parent().and_then(|above| above.flush());
        flushed.at("flush above", &RelPath::root())?;
    }
    Ok(made)
}

/// Removes a new directory that is not needed; the directory must be empty.
///
/// # Errors
/// The directory cannot be removed, for example because it is not empty.
pub fn remove_root(dir: &NamedDir, quotas: &[Arc<SpaceQuota>]) -> Result<(), StoreError> {
    dir.remove_dir().at("remove", &RelPath::root())?;
    SpaceQuota::count_dir_removed(dir, quotas);
    Ok(())
}
