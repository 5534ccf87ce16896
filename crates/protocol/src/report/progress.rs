//! Counts that a machine keeps while it runs.

use super::notice::Notice;

/// How often an end compared a sum with one of the other end's, equal or not. What a tag, a bit or a length rules out
/// is not compared; of a hash table only the entry that is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Weak sums, which only suggest: of chunks, of windows, of blocks in gaps.
    pub weak: u64,
    /// Strong sums, and fingerprints, which need nothing to confirm them.
    pub strong: u64,
}

impl Counts {
    pub(crate) const fn add(&mut self, weak: u64, strong: u64) {
        self.weak += weak;
        self.strong += strong;
    }
}

/// Listed and settled bytes: keeps the promise of [`Notice::Settled`], whatever a peer claims.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    listed: u64,
    settled: u64,
}

impl Progress {
    /// Adds bytes that are listed.
    pub(crate) const fn list(&mut self, bytes: u64) {
        self.listed = self.listed.saturating_add(bytes);
    }

    /// Bytes listed so far.
    pub(crate) const fn listed(&self) -> u64 {
        self.listed
    }

    /// Adds bytes that are settled. Returns the notice of them, if there is one.
    pub(crate) fn settle(&mut self, bytes: u64) -> Option<Notice> {
        let bytes = bytes.min(self.listed - self.settled);
        self.settled += bytes;
        (bytes > 0).then_some(Notice::Settled { bytes })
    }
}
