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
        }
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
