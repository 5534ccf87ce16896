//! Evidence by which contents were compared, for whoever asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::sums::SumAlgorithm;

/// Evidence of all comparisons so far; clones are of one count.
#[derive(Clone, Debug, Default)]
pub struct Evidence(Arc<Mutex<ComparedContents>>);

/// Contents that were compared.
#[derive(Clone, Debug, Default)]
pub struct ComparedContents {
    /// Files by their evidence.
    pub by: BTreeMap<ComparedBy, FileCount>,
    /// Bytes that were read here.
    pub read: u64,
}

/// Evidence by which two contents were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComparedBy {
    /// Sums that both stores keep.
    Kept(SumAlgorithm),
    /// Sums that the other store keeps; the file here was read.
    Summed(SumAlgorithm),
    /// All bytes, which were read at both ends.
    Bytes,
}

/// Contents, and their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCount {
    /// Number of files.
    pub files: u64,
    /// Their length in bytes.
    pub bytes: u64,
}

impl Evidence {
    /// All so far.
    #[must_use]
    pub fn compared(&self) -> ComparedContents {
        lock(&self.0).clone()
    }

    /// Notes that a file of `len` bytes was compared, for which `read` of them were read here.
    pub(crate) fn note(&self, by: ComparedBy, len: u64, read: u64) {
        let mut compared = lock(&self.0);
        compared.read += read;
        let counted = compared.by.entry(by).or_default();
        counted.files += 1;
        counted.bytes += len;
    }
}
