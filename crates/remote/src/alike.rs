//! Old versions here, summed as a system sums its own: so they become bases that both ends know.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use deltic_core::Digest;
use deltic_net::old_sums::OldSums;
use deltic_store::{Extents, Snapshot};
use deltic_tree::RelPath;

use crate::tree::RemoteTree;

/// Both ends' knowledge of old versions in one session.
#[derive(Debug, Default)]
pub struct Alike {
    tree: OnceLock<RemoteTree>,
    known: Mutex<HashMap<Digest, Extents>>,
}

impl Alike {
    /// Takes the tree that is sent; only the first counts.
    pub(crate) fn send(&self, tree: &RemoteTree) {
        self.tree.get_or_init(|| tree.clone());
    }
}

impl OldSums for Alike {
    fn base(&self, path: &RelPath, old: &dyn Snapshot) -> Option<Digest> {
        let sums = self.tree.get()?.sums(path).ok()??;
        let extents = sums.extents_of(old).ok()??;
        // Who changed it meanwhile would have other bytes than those that were summed.
        old.check_unchanged().ok()?;
        let base = Digest::from_bytes(*blake3::hash(&extents.encode()).as_bytes());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(base, extents);
        Some(base)
    }

    fn noted(&self, base: &Digest) -> Option<Extents> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(base)
    }
}
