//! Chunks whose sums were sent, and the receiver's answers for each chunk. The receiver *names* a chunk by listing
//! the chunk in a `Match` frame, as needed or as matched.
//!
//! A chunk is named once, and a second time if its run was refuted and split. So at most two strong sums are computed
//! for a chunk, whatever the receiver sends.

use std::collections::VecDeque;
use std::ops::Range;

use deltic_core::StrongSum;

use crate::error::PeerError;
use crate::sums::{Token, TokenScope};

use super::sub_table::SubTable;

/// State of each chunk, and the matches to be checked.
#[derive(Debug, Default)]
pub(super) struct NamedChunks {
    chunks: Vec<ChunkNaming>,
    /// Number of chunks that were sent and that the receiver has not named.
    unnamed: u32,
    /// Number of chunks of refuted runs that the receiver has not named again.
    split: u32,
    /// Matches that this end has not answered, in order of arrival.
    pub(super) matches: VecDeque<JudgedMatch>,
    /// Candidates of the first match, if the strategy has several candidates.
    pub(super) table: SubTable,
    /// Number of tokens of the first match that are being hashed.
    pub(super) hashing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkNaming {
    Unnamed,
    Once,
    Split,
    Again,
}

/// A match that is being checked.
#[derive(Debug)]
pub(super) struct JudgedMatch {
    pub(super) tokens: VecDeque<JudgedToken>,
    pub(super) denied: Vec<Range<u32>>,
}

/// A token with all its candidates, which arrive as one token for each.
#[derive(Clone, Debug)]
pub(super) struct JudgedToken {
    pub(super) chunks: Range<u32>,
    pub(super) over: TokenScope,
    /// First bytes of the strong sums of the candidates.
    pub(super) candidates: Vec<StrongSum>,
}

impl JudgedToken {
    /// Joins successive tokens for the same chunks, at most `most` for each. Errors: `Unexpected`.
    pub(super) fn join(tokens: Vec<Token>, most: usize) -> Result<VecDeque<Self>, PeerError> {
        const UNFIT: PeerError = PeerError::Unexpected("more candidates than the strategy has");
        let mut joined: VecDeque<Self> = VecDeque::new();
        for Token { chunks, over, strong } in tokens {
            match joined.back_mut().filter(|last| last.chunks == chunks && last.over == over) {
                Some(last) if last.candidates.len() < most => last.candidates.push(strong),
                Some(_) => return Err(UNFIT),
                None => joined.push_back(Self { chunks, over, candidates: vec![strong] }),
            }
        }
        Ok(joined)
    }

    /// Returns the number of strong sums needed to judge the token.
    pub(super) fn strong_sum_count(&self) -> usize {
        match self.over {
            TokenScope::Run => 1,
            TokenScope::Each => (self.chunks.end - self.chunks.start) as usize,
        }
    }
}

impl NamedChunks {
    /// Adds chunks that were sent.
    pub(super) fn add_sent(&mut self, chunks: usize) {
        self.chunks.resize(self.chunks.len() + chunks, ChunkNaming::Unnamed);
        self.unnamed += chunks as u32;
    }

    pub(super) const fn unnamed_count(&self) -> u32 {
        self.unnamed
    }

    pub(super) fn is_done(&self) -> bool {
        self.unnamed == 0 && self.split == 0 && self.matches.is_empty()
    }

    /// Marks chunks as named by the receiver: any number of chunks for the first time, or one chunk for the second
    /// time.
    pub(super) fn mark_named(&mut self, range: &Range<u32>) -> Result<(), PeerError> {
        const TWICE: PeerError = PeerError::Unexpected("a chunk that was matched before");
        let chunks = self.chunks.get_mut(range.start as usize..range.end as usize);
        let chunks =
            chunks.ok_or(PeerError::Unexpected("a chunk number that was not announced"))?;
        match chunks {
            [one] if *one == ChunkNaming::Split => {
                *one = ChunkNaming::Again;
                self.split -= 1;
            }
            _ if chunks.iter().all(|chunk| *chunk == ChunkNaming::Unnamed) => {
                chunks.fill(ChunkNaming::Once);
                self.unnamed -= range.end - range.start;
            }
            _ => return Err(TWICE),
        }
        Ok(())
    }

    /// Allows each chunk of a refuted run to be named again.
    pub(super) fn allow_again(&mut self, range: &Range<u32>) {
        self.chunks[range.start as usize..range.end as usize].fill(ChunkNaming::Split);
        self.split += range.end - range.start;
    }
}
