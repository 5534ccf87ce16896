//! Facts about contents that both ends of a session in one process know: old versions that no run left, as bases, and
//! contents that are equal by their sums.

use std::fmt;

use deltic_core::Digest;
use deltic_store::{Extents, Snapshot, StoreError};
use deltic_tree::RelPath;

/// Sums old versions as the other end of the session, which is in this process too, sums its files. So an old version
/// that no run left is a base that both ends know (docs/decisions/0041).
pub trait OldSums: fmt::Debug + Send + Sync {
    /// Returns the base that is equal to `old`, the old version of the file at `path`. Returns `None` if the file has
    /// no sums.
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest>;

    /// Returns the extents of a base that `base` has returned.
    fn noted(&self, base: &Digest) -> Option<Extents>;

    /// Returns a name for the content of `file`, whose path in the transfer is `path`. The names of both ends are
    /// equal if the sums show that the contents are equal. Returns `None` if both ends must read the content
    /// (docs/decisions/0044).
    ///
    /// # Errors
    /// Errors of the store, if the name is not known. This end must not read the file instead, because the
    /// other end may have used the name.
    fn content(&self, path: &RelPath, file: &dyn Snapshot) -> Result<Option<Digest>, StoreError>;
}
