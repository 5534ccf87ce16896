//! Counts that a machine keeps while it runs.

use super::notice::Notice;

/// Number of comparisons between sums of this end and the other end, equal or not. Candidates ruled out by a tag, a
/// bit or a length are not counted; of a hash table only the entry found is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Comparisons of weak sums, which only suggest a match: of chunks, of windows, of blocks in gaps.
    pub weak: u64,
    /// Comparisons of strong sums, and of fingerprints, which need no confirmation.
    pub strong: u64,
}

impl Counts {
    pub(crate) const fn add(&mut self, weak: u64, strong: u64) {
        self.weak += weak;
        self.strong += strong;
    }
}

/// Listed and settled bytes; keeps the promise of [`Notice::Settled`], whatever a peer claims.
#[derive(Debug, Default)]
pub(crate) struct ByteProgress {
    listed: u64,
    settled: u64,
}

impl ByteProgress {
    /// Adds listed bytes.
    pub(crate) const fn list(&mut self, bytes: u64) {
        self.listed = self.listed.saturating_add(bytes);
    }

    /// Returns the bytes listed so far.
    pub(crate) const fn listed(&self) -> u64 {
        self.listed
    }

    /// Adds settled bytes, up to the listed bytes. Returns a notice unless no bytes were added.
    pub(crate) fn settle(&mut self, bytes: u64) -> Option<Notice> {
        let bytes = bytes.min(self.listed - self.settled);
        self.settled += bytes;
        (bytes > 0).then_some(Notice::Settled { bytes })
    }
}
