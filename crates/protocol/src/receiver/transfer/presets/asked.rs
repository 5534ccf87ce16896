//! The receiver's record of a token: a match that the sender is asked to confirm.

use std::ops::Range;

use deltic_core::{ChunkMatch, ChunkNo, MatchRun, StrongSum};

use crate::limits::MAX_TOKEN_BYTES;
use crate::sums::TokenScope;

/// A token that the receiver sent, with the matching chunks of the old versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedToken {
    pub(super) chunks: Range<u32>,
    pub(super) over: TokenScope,
    /// The first chunk of the old versions, or the only one.
    pub(super) old: ChunkNo,
    /// Length of all chunks in bytes.
    pub(super) len: u64,
    /// The number of the token's sum in the batch.
    pub(super) hashed: usize,
    pub(super) strong: StrongSum,
    /// Other chunks of the old versions that the chunks may equal.
    pub(super) others: Vec<OtherCandidate>,
}

/// A further candidate of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherCandidate {
    pub(super) old: ChunkNo,
    /// The number of the candidate's sum in the batch.
    pub(super) hashed: usize,
    pub(super) strong: StrongSum,
}

impl OtherCandidate {
    pub(super) const fn of(old: ChunkNo) -> Self {
        Self { old, hashed: 0, strong: StrongSum::NONE }
    }
}

impl AskedToken {
    pub(super) fn of(run: MatchRun) -> Self {
        let MatchRun { new, old, chunks, len } = run;
        Self {
            chunks: new..new + chunks,
            over: TokenScope::Run,
            old,
            len,
            hashed: 0,
            strong: StrongSum::NONE,
            others: Vec::new(),
        }
    }

    /// Takes the strong sums of the candidates. Candidates with the sum of an earlier one have the same bytes, and are
    /// dropped.
    pub(super) fn take_sums(&mut self, sum_of: impl Fn(usize) -> StrongSum) {
        self.strong = sum_of(self.hashed);
        let mut seen = vec![self.strong];
        for other in &mut self.others {
            other.strong = sum_of(other.hashed);
        }
        self.others.retain(|other| {
            let is_new = !seen.contains(&other.strong);
            seen.push(other.strong);
            is_new
        });
    }

    /// Returns the strong sums of all candidates, in order.
    pub(super) fn strong_sums(&self) -> impl Iterator<Item = StrongSum> + '_ {
        std::iter::once(self.strong).chain(self.others.iter().map(|other| other.strong))
    }

    /// Returns the candidate after `refuted` refuted ones.
    pub(super) fn candidate(&self, refuted: usize) -> Option<(ChunkNo, StrongSum)> {
        let others = self.others.iter().map(|other| (other.old, other.strong));
        std::iter::once((self.old, self.strong)).chain(others).nth(refuted)
    }

    /// Adds another chunk, if all that is known of the chunk equals the chunks before. Returns true if the chunk was
    /// added.
    pub(super) fn extend_if_equal(&mut self, next: &ChunkMatch) -> bool {
        let len = self.len + u64::from(next.len);
        let repeats = (self.chunks.end, self.old) == (next.new, next.old);
        if repeats && len <= MAX_TOKEN_BYTES {
            (self.chunks.end, self.over, self.len) = (next.new + 1, TokenScope::Each, len);
        }
        repeats && len <= MAX_TOKEN_BYTES
    }
}
