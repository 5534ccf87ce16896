//! Reasons why large files were read whole or in part, for `--explain`.

use std::sync::{Arc, Mutex};

use deltic_tree::RelPath;

use crate::lock::lock;

/// Reasons that an end records while it works. Clones share the same list.
#[derive(Clone, Debug, Default)]
pub struct Reasons(Arc<Mutex<Vec<(RelPath, Reason)>>>);

/// The reason why a file was read whole or in part (docs/decisions/0037).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The extents showed which bytes changed since the last sync; no other bytes were read.
    Changed {
        /// Changed bytes.
        changed: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// The extents showed which bytes changed, and stored sums showed which of these bytes the destination has at
    /// another offset. No other bytes were read.
    Moved {
        /// Bytes that were read.
        read: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Sums showed which bytes differ from the version at the destination; no other bytes were read.
    Differs {
        /// Bytes that differ at the same offsets.
        differ: u64,
        /// Bytes of these that the version at the destination has at other offsets.
        shifted: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// The store reports no extents, for the given reason.
    NoFacts(String),
    /// No earlier sync noted the version at the destination.
    NoBase,
    /// This end lost the facts about the version at the destination.
    ForgottenBase,
    /// The file system was mounted again since the last sync, so extents tell nothing.
    NewMount,
    /// Much of the file changed, and some bytes may only have moved. Sums do not show which, for the given reason.
    MuchChanged(&'static str),
}

impl Reasons {
    /// Returns the reasons so far.
    #[must_use]
    pub fn all(&self) -> Vec<(RelPath, Reason)> {
        lock(&self.0).clone()
    }

    /// Sets the reason for a file, if there is room. Another attempt to send the file replaces the reason.
    pub(crate) fn add(&self, path: &RelPath, why: Reason) {
        let mut all = lock(&self.0);
        match all.iter().position(|(of, _)| of == path) {
            Some(at) => all[at].1 = why,
            None if all.len() < MAX_REASONS => all.push((path.clone(), why)),
            None => {}
        }
    }
}

const MAX_REASONS: usize = 1000;
