//! Whether what was read of a file is of one version, or a program was writing to the file meanwhile.

use deltic_protocol::sender::Bears;
use deltic_store::{Snapshot, StoreError, Tree};
use deltic_tree::RelPath;

/// The same file, opened anew where only what is under way, or just was, kept this version from being told from others.
pub(super) fn rested<T: Tree>(
    tree: &T,
    path: &RelPath,
    opened: T::Snapshot,
) -> Result<T::Snapshot, StoreError> {
    let is_over = opened.may_be_written() && opened.comes_to_rest();
    if is_over { tree.open(path) } else { Ok(opened) }
}

/// Checks that what was read of a file was all there at once; true if it may be of no version all the same: the file
/// grew, or a program has it open for writing, and the attempt `bears` that.
///
/// What grew, got names or has a writer may have been written over besides. So all of it is read again: what reads the
/// same was there at once, between the two readings.
pub(crate) fn is_restless(
    snapshot: &impl Snapshot,
    bears: Bears,
    reads_again: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let settled = snapshot.check_settled();
    if !matches!(settled, Err(StoreError::Changed { .. } | StoreError::InUse { .. })) {
        return settled.map(|()| false);
    }
    let has_grown = bears.growth && snapshot.len_now()? > snapshot.meta().len;
    if !has_grown && snapshot.check_unchanged().is_err() && !snapshot.only_got_names()? {
        return settled.map(|()| false);
    }
    let is_at_rest = snapshot.comes_to_rest();
    match (is_at_rest || bears.writers) && reads_again()? {
        true => Ok(has_grown || !is_at_rest),
        false => settled.map(|()| false),
    }
}
