//! Facts that both ends can compute when both ends are in this process: bases of old versions that no earlier run
//! noted, and names of contents, made of sums, that show equal contents.

use std::fmt;

use deltic_core::Digest;
use deltic_store::{Extents, Snapshot, StoreError};
use deltic_tree::RelPath;

/// Computes sums of old versions in the same way as the other end, in the same process, computes sums of its files. So
/// both ends have the same base for an old version that no earlier run noted (docs/decisions/0041).
pub trait OldSums: fmt::Debug + Send + Sync {
    /// Returns the base that is equal to `old`, the old version of the file at `path`. Returns `None` if the file has
    /// no sums.
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest>;

    /// Returns the extents of a base that [`base`](Self::base) returned.
    fn noted(&self, base: &Digest) -> Option<Extents>;

    /// Lends `old`, the old version of the file at `path`, to the other end. The other end may take bytes from there
    /// that it would have to fetch, if sums show that the bytes are equal.
    fn lend(&self, path: &RelPath, old: Box<dyn Snapshot>);

    /// Returns a name for the content of `file`, which has the path `path` in the transfer. Both ends get the same name
    /// if the sums show equal contents. Returns `None` if both ends must read the content (docs/decisions/0044).
    ///
    /// # Errors
    /// If the name cannot be determined. This end must not read the file instead, because the other end may have used
    /// the name.
    fn content(&self, path: &RelPath, file: &dyn Snapshot) -> Result<Option<Digest>, StoreError>;
}
