//! Object stores and file systems that a URL names, as trees that are sent from: listed, compared by the sums that the
//! system keeps, and read by ranges.
//!
//! [`Remote`] is such a place. Its [`RemoteTree`] takes part in an ordinary session, whose other end is in this process
//! too. [`LocalSums`] sums files here as the system sums its own: so even a first sync over an old version reads what
//! differs and no more, and equal contents are seen by their sums, which the file system here may keep as well
//! (`here`). [`Evidence`] tells what they were compared by. `system` is what each system can do, `ahead` reads, `sums`
//! names what is equal. Nothing is written there. Why so: docs/decisions/0041, 0044. [`layout`] shows what any storage
//! says of one file, and compares two by that.

mod address;
mod azure;
mod error;
mod evidence;
mod gcs;
mod hdfs;
mod http;
pub mod layout;
mod local_file;
mod local_sums;
mod moosefs;
mod parallel;
mod rados;
mod read_ahead;
mod s3;
mod seaweed;
mod session;
mod sums;
mod system;
#[cfg(test)]
mod testing;
mod timestamps;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use address::{SystemKind, kind_of};
pub use error::RemoteError;
pub use evidence::{ComparedBy, ComparedContents, Evidence, FileCount};
pub use local_sums::LocalSums;
pub use session::RemoteSystem;
pub use sums::{ContentSum, ObjectSums, SumAlgorithm, SummedUnit, hex};
pub use tree::{RemoteSnapshot, RemoteTree, TreeOptions};

/// What a program knows of its surroundings.
pub trait Environment {
    /// A variable.
    fn var(&self, name: &str) -> Option<String>;
    /// The text of a file, if there is one.
    fn read(&self, path: &str) -> Option<String>;
}

/// The surroundings of this process.
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

/// Locks what no panic leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
