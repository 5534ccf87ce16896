//! Counts that a machine keeps while it runs.

use super::notice::Notice;

/// Number of comparisons between sums of this end and the other end, whether or not the sums were equal. Candidates
/// that a tag, a bit or a length rules out are not counted. A look-up in a hash table counts only the entry that is
/// found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Comparisons of weak sums, which only suggest a match: of chunks, of windows, of blocks in gaps.
    pub weak: u64,
    /// Comparisons of strong sums, and of fingerprints, which need no confirmation.
    pub strong: u64,
    /// Strong sums that a table of candidates of one batch had (ParaSync §3.2).
    pub sub_table_hits: u64,
    /// Chunks that were walked in the second level of rsync's table: those with the tag of a looked-up weak sum.
    pub tagged: u64,
    /// Bytes at which gather instructions judged whether a chunk may end (SS-CDC).
    pub gathered: u64,
}

impl Counts {
    pub(crate) const fn add(&mut self, weak: u64, strong: u64) {
        self.weak += weak;
        self.strong += strong;
    }
}

/// Listed and settled bytes. Ensures that the settled bytes never exceed the listed bytes, as [`Notice::Settled`]
/// promises, whatever a peer claims.
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
