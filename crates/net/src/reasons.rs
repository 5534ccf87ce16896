//! Reasons for which large files were read whole, or not, for whoever asks (`--explain`).

use std::sync::{Arc, Mutex};

use deltic_tree::RelPath;

use crate::lock::lock;

/// Reasons that an end gives while it works; clones are of one list.
#[derive(Clone, Debug, Default)]
pub struct Reasons(Arc<Mutex<Vec<(RelPath, Reason)>>>);

/// Why a file was read whole, or not (docs/decisions/0037).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Storage told which bytes changed since the last sync: no others were read.
    Changed {
        /// Changed bytes.
        changed: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Storage told which bytes changed, and its sums which of them the version at the destination has elsewhere: no
    /// others were read.
    Moved {
        /// Bytes that were read.
        read: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Sums told which bytes differ from the version at the destination: no others were read.
    Differs {
        /// Bytes that differ.
        differ: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Storage does not tell, for the reason given.
    NoFacts(String),
    /// The destination has no version of it that a sync left.
    NoBase,
    /// The version at the destination is not known here.
    ForgottenBase,
    /// Its file system was mounted anew since the last sync.
    NewMount,
    /// Much of it changed: some may only have moved. Sums do not tell which, for the reason given.
    MuchChanged(&'static str),
}

impl Reasons {
    /// The reasons so far.
    #[must_use]
    pub fn all(&self) -> Vec<(RelPath, Reason)> {
        lock(&self.0).clone()
    }

    /// Adds that of a file, if there is room.
    pub(crate) fn add(&self, path: &RelPath, why: Reason) {
        let mut all = lock(&self.0);
        if all.len() < MAX_REASONS {
            all.push((path.clone(), why));
        }
    }
}

const MAX_REASONS: usize = 1000;
