//! Statistics of how contents were compared: by stored checksums, computed checksums, or bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::sums::SumAlgorithm;

/// Counts of all comparisons so far. Clones share the same counts.
#[derive(Clone, Debug, Default)]
pub struct Evidence(Arc<Mutex<ComparedContents>>);

/// Compared files, grouped by the way of comparison.
#[derive(Clone, Debug, Default)]
pub struct ComparedContents {
    /// Files by the way of comparison.
    pub by: BTreeMap<ComparedBy, FileCount>,
    /// Bytes read from local files.
    pub read: u64,
}

/// Method by which two contents were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparedBy {
    /// By checksums stored at both ends.
    Kept(SumAlgorithm),
    /// By checksums that the remote system stores; the local file was read.
    Summed(SumAlgorithm),
    /// By all bytes, read at both ends.
    Bytes,
}

/// A number of files and the total length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCount {
    /// Number of files.
    pub files: u64,
    /// Total length in bytes.
    pub bytes: u64,
}

impl Evidence {
    /// A copy of the counts so far.
    #[must_use]
    pub fn compared(&self) -> ComparedContents {
        lock(&self.0).clone()
    }

    /// Counts a compared file of `len` bytes, `read` bytes of which were read from the local file.
    pub(crate) fn note(&self, by: ComparedBy, len: u64, read: u64) {
        let mut compared = lock(&self.0);
        compared.read += read;
        let counted = compared.by.entry(by).or_default();
        counted.files += 1;
        counted.bytes += len;
    }
}
