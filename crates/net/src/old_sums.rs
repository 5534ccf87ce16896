//! Old versions that no run left, as bases that both ends of a session in one process know.

use std::fmt;

use deltic_core::Digest;
use deltic_store::{Extents, Snapshot};
use deltic_tree::RelPath;

/// Sums old versions here as the other end of a session, which is in this process too, sums what it has. So an old
/// version that no run left is a base that both ends know (docs/decisions/0041).
pub trait OldSums: fmt::Debug + Send + Sync {
    /// The base that `old` is, in the place of the file that comes to be at `path`; `None` where that has no sums.
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest>;

    /// The extents of a base that was named.
    fn noted(&self, base: &Digest) -> Option<Extents>;
}
