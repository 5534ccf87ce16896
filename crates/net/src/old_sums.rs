//! Facts about contents that both ends of a session in one process know: old versions that no run left, as bases, and
//! what is the same by its sums.

use std::fmt;

use deltic_core::Digest;
use deltic_store::{Extents, Snapshot, StoreError};
use deltic_tree::RelPath;

/// Sums old versions here as the other end of a session, which is in this process too, sums what it has. So an old
/// version that no run left is a base that both ends know (docs/decisions/0041).
pub trait OldSums: fmt::Debug + Send + Sync {
    /// The base that `old` is, in the place of the file that comes to be at `path`; `None` where that has no sums.
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest>;

    /// The extents of a base that was named.
    fn noted(&self, base: &Digest) -> Option<Extents>;

    /// Name of the content of `file`, which comes to be at `path`: the same at both ends where sums say that it
    /// is the same. `None` where both have to read it (docs/decisions/0044).
    ///
    /// # Errors
    /// Where it cannot be said; this end does not read the file instead, for the other one may have said it.
    fn content(&self, path: &RelPath, file: &dyn Snapshot) -> Result<Option<Digest>, StoreError>;
}
