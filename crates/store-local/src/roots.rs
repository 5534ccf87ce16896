//! Roots of stores that are not there yet: they are made, with what is missing above them, and go again if nothing
//! came.

use std::sync::Arc;

use deltic_store::{Durability, StoreError};
use deltic_tree::RelPath;
use rustix::fs::Mode;

use crate::errno::At;
use crate::named::NamedDir;
use crate::quota::{Quota, Reserved};

/// Makes the directory `dir` unless it exists, its owner's alone, but not the one above it: whether it was made. What
/// holds it is to [know that](crate::LocalStore::with_new_root). It counts for the quota of its volume, and for these.
///
/// # Errors
/// Where it cannot be made, or is something else, or a quota has no room.
pub fn create_root(
    dir: &NamedDir,
    durability: Durability,
    quotas: &[Arc<Quota>],
) -> Result<bool, StoreError> {
    create(dir, Mode::RWXU, (durability, quotas))
}

/// Makes a directory above a root, unless it exists, for whom the process makes things: whether it was made.
///
/// # Errors
/// As [`create_root`].
pub fn create_above(
    dir: &NamedDir,
    durability: Durability,
    quotas: &[Arc<Quota>],
) -> Result<bool, StoreError> {
    create(dir, Mode::from_raw_mode(0o777), (durability, quotas))
}

fn create(
    dir: &NamedDir,
    mode: Mode,
    (durability, quotas): (Durability, &[Arc<Quota>]),
) -> Result<bool, StoreError> {
    // Another session may have made it meanwhile.
    let reserved = match dir.open() {
        Ok(_) => Reserved::default(),
        Err(_) => Reserved::of_dir(&dir.path, quotas)?,
    };
    let made = dir.make(mode).at("make directory", &RelPath::root())?;
    if made {
        reserved.keep();
    }
    if durability == Durability::Run {
        let flushed = dir.above().and_then(|above| above.flush());
        flushed.at("flush above", &RelPath::root())?;
    }
    Ok(made)
}

/// Removes a directory that was made in vain, unless something is in it.
///
/// # Errors
/// Where it cannot be removed.
pub fn remove_root(dir: &NamedDir, quotas: &[Arc<Quota>]) -> Result<(), StoreError> {
    dir.remove().at("remove", &RelPath::root())?;
    Quota::dir_gone(&dir.path, quotas);
    Ok(())
}
