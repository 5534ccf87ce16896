//! Checks that the bytes read from a file belong to one version, and that no program was writing to the file meanwhile.

use deltic_protocol::sender::ToleratedChanges;
use deltic_store::{Snapshot, StoreError, Tree};
use deltic_tree::RelPath;

/// Opens `path` again if the file may have been written to at the first open, and is at rest now. Otherwise returns
/// `opened`.
pub(super) fn reopen_if_written<T: Tree>(
    tree: &T,
    path: &RelPath,
    opened: T::Snapshot,
) -> Result<T::Snapshot, StoreError> {
    let is_over = opened.may_be_written() && opened.wait_for_writes();
    if is_over { tree.open(path) } else { Ok(opened) }
}

/// Checks that all bytes read from a file were in the file at one instant. Returns true if the bytes may still be of
/// no single version: the file grew, or a program has the file open for writing, and `bears` allows that.
///
/// A program may also have overwritten a file that grew, got more links or is open for writing. So the whole file is
/// read again. If both readings are equal, all bytes were in the file at one instant between the readings.
pub fn is_restless(
    snapshot: &impl Snapshot,
    bears: ToleratedChanges,
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
    let is_at_rest = snapshot.wait_for_writes();
    match (is_at_rest || bears.writers) && reads_again()? {
        true => Ok(has_grown || !is_at_rest),
        false => settled.map(|()| false),
    }
}
