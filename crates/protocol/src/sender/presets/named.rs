//! Chunks that were sent, and what the receiver said about each.
//!
//! A chunk is named once, and once more where its run was refuted and split; so at most two strong sums are taken of
//! it, whatever the receiver says.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::PeerError;
use crate::sums::Token;

/// The state of each chunk, and the matches to be judged.
#[derive(Debug, Default)]
pub(super) struct Named {
    chunks: Vec<State>,
    /// Chunks that were sent and not named.
    unnamed: u32,
    /// Chunks of refuted runs that were not named again.
    split: u32,
    /// Matches that were not answered, in the order of their arrival.
    pub(super) matches: VecDeque<Match>,
    /// Tokens of the first match that are being hashed.
    pub(super) hashing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unnamed,
    Once,
    Split,
    Again,
}

/// A match that is being judged.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) tokens: VecDeque<Token>,
    pub(super) denied: Vec<Range<u32>>,
}

impl Named {
    /// Adds so many chunks that were sent.
    pub(super) fn sent(&mut self, chunks: usize) {
        self.chunks.resize(self.chunks.len() + chunks, State::Unnamed);
        self.unnamed += chunks as u32;
    }

    pub(super) const fn unnamed(&self) -> u32 {
        self.unnamed
    }

    pub(super) fn is_done(&self) -> bool {
        self.unnamed == 0 && self.split == 0 && self.matches.is_empty()
    }

    /// Names chunks, all for the first time, or one for the second.
    pub(super) fn name(&mut self, range: &Range<u32>) -> Result<(), PeerError> {
        const TWICE: PeerError = PeerError::Unexpected("a chunk that was named already");
        let chunks = self.chunks.get_mut(range.start as usize..range.end as usize);
        let chunks = chunks.ok_or(PeerError::Unexpected("a chunk that was not told"))?;
        match chunks {
            [one] if *one == State::Split => {
                *one = State::Again;
                self.split -= 1;
            }
            _ if chunks.iter().all(|chunk| *chunk == State::Unnamed) => {
                chunks.fill(State::Once);
                self.unnamed -= range.end - range.start;
            }
            _ => return Err(TWICE),
        }
        Ok(())
    }

    /// Lets each chunk of a refuted run be named once more.
    pub(super) fn split(&mut self, range: &Range<u32>) {
        self.chunks[range.start as usize..range.end as usize].fill(State::Split);
        self.split += range.end - range.start;
    }
}
