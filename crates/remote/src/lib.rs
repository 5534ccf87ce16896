//! Object stores and remote file systems that a URL names, as sources of a sync.
//!
//! A source is listed, compared by the checksums that the system stores, and read by byte ranges. The crate writes
//! nothing to a system.
//!
//! - [`RemoteSystem`] is a system that a URL names. [`RemoteTree`] is its tree in a sync session whose two ends both
//!   run in this process.
//! - [`LocalSums`] checksums local files the way the system checksums its objects. A first sync over an old version
//!   then reads only the units that differ.
//! - `local_file` takes checksums from the local file system where that stores some. [`Evidence`] counts how contents
//!   were compared.
//! - `shifted` finds units that the old version has at another offset, and `old_versions` lends the old version to the
//!   end that reads the system.
//! - `system` is the trait of a system, `read_ahead` fetches ranges, `sums` holds checksums.
//! - `labs`, a feature of cargo, holds systems with few users, and layouts of files in storage.
//!
//! Reasons: docs/decisions/0041, 0044.

mod address;
mod azure;
mod compared;
mod counted;
mod error;
mod evidence;
mod gcs;
mod hdfs;
mod http;
#[cfg(feature = "labs")]
pub mod labs;
mod local_file;
mod local_sums;
mod old_versions;
mod parallel;
mod patterns;
mod read_ahead;
mod s3;
mod session;
mod shifted;
mod sums;
mod system;
#[cfg(test)]
mod testing;
mod timestamps;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use address::{SystemKind, kind_of};
pub use compared::{ComparedTree, NoRebuild};
pub use error::RemoteError;
pub use evidence::{ComparedBy, ComparedContents, Evidence, FileCount};
pub use local_sums::LocalSums;
pub use session::RemoteSystem;
pub use sums::{ContentSum, ObjectSums, SumAlgorithm, SummedUnit, hex};
pub use tree::{RemoteSnapshot, RemoteTree, TreeOptions};

/// Environment variables and files from which addresses and credentials are taken.
pub trait Environment {
    /// The value of an environment variable, if set and valid UTF-8.
    fn var(&self, name: &str) -> Option<String>;
    /// The content of a text file, or `None` for an unreadable file.
    fn read(&self, path: &str) -> Option<String>;
}

/// The environment variables and files of this process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }
}

/// Locks `mutex` even if a thread panicked: no panic leaves the values in this crate half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
