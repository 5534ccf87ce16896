//! The chunks of old versions by weak sum, for conversations in which the receiver looks for the sender's chunks.

use std::cell::Cell;

use deltic_core::index::CuckooIndex;
use deltic_core::strategy::{LookupOrder, MatchMerging, WeakFilter};
use deltic_core::{ChunkNo, Span, Strategy};

use crate::limits::{MAX_CANDIDATES, MAX_SUMS};

/// Most chunks of old versions to examine for a weak sum. Chunks of different lengths have the same weak sum only by
/// chance or forgery.
const CANDIDATES: usize = MAX_CANDIDATES;

/// The chunks of the old versions.
#[derive(Debug)]
pub(super) struct OldChunks {
    /// True if the chunk after the last match is tried first, for locality or for longer runs.
    tries_neighbour: bool,
    /// A bit for each 16-bit tag, if the strategy filters by tags.
    tags: Option<Vec<u64>>,
    index: CuckooIndex<u32>,
    chunks: Vec<(Span, u32)>,
    first: Option<ChunkNo>,
    end: u64,
    complete: bool,
}

impl OldChunks {
    pub(super) fn new(strategy: &Strategy) -> Self {
        Self {
            tries_neighbour: strategy.locality == LookupOrder::First
                || strategy.merge == MatchMerging::Runs,
            tags: (strategy.filter == WeakFilter::Tags).then(|| vec![0; TAGS / 64]),
            index: CuckooIndex::new(MAX_SUMS),
            chunks: Vec::new(),
            first: None,
            end: 0,
            complete: false,
        }
    }

    /// Adds the next chunk of the old versions. Chunks over the budget are not found.
    pub(super) fn push(&mut self, len: u32, weak: u32) {
        if self.chunks.len() < MAX_SUMS {
            self.chunks.push((Span::new(self.end, len), weak));
            self.index.push(weak);
            // The first chunk has the first index entry with this sum.
            self.first = self.first.or_else(|| self.index.find(weak));
            if let Some(tags) = &mut self.tags {
                tags[tag(weak) / 64] |= 1 << (tag(weak) % 64);
            }
        }
        self.end += u64::from(len);
    }

    /// Continues after the end of an old version, whether or not all of the version was known.
    pub(super) fn skip_to(&mut self, end: u64) {
        self.end = end;
    }

    /// Marks the end of the old versions.
    pub(super) const fn mark_complete(&mut self) {
        self.complete = true;
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn span(&self, no: ChunkNo) -> Span {
        self.chunks[no.as_index()].0
    }

    /// Returns a chunk with the weak sum and the length of `new`; equal bytes are no more than a guess. Adds
    /// the number of compared sums to `compared`.
    pub(super) fn find(
        &self,
        new: &NewChunk,
        after: Option<ChunkNo>,
        compared: &mut u64,
    ) -> Option<ChunkNo> {
        let count = Cell::new(0);
        let found = self.look_up(new, after, &count);
        *compared += count.get();
        found
    }

    /// Returns the other chunks with the weak sum and the length of `new`, after `first` was found.
    pub(super) fn others(&self, new: &NewChunk, first: ChunkNo) -> Vec<ChunkNo> {
        let mut budget = CANDIDATES;
        let all = self.index.candidates(new.weak, &mut budget);
        let others = all.filter(|no| *no != first && self.span(*no).len == new.span.len);
        others.take(CANDIDATES - 1).collect()
    }

    fn look_up(
        &self,
        new: &NewChunk,
        after: Option<ChunkNo>,
        compared: &Cell<u64>,
    ) -> Option<ChunkNo> {
        let fits = |no: &ChunkNo| {
            let chunk = self.chunks.get(no.as_index()).filter(|(span, _)| span.len == new.span.len);
            compared.set(compared.get() + u64::from(chunk.is_some()));
            chunk.is_some_and(|(_, sum)| *sum == new.weak)
        };
        // Prefer the equal chunk in the same place, so that an unchanged file is recognised.
        let same = self.first.map(|first| first.plus(new.number));
        let same = same.filter(|no| fits(no) && self.span(*no) == new.span);
        let neighbour = after.filter(|_| self.tries_neighbour).map(ChunkNo::next).filter(fits);
        let near = same.or(neighbour);
        if near.is_some() {
            return near;
        }
        let has_tag = |tags: &Vec<u64>| tags[tag(new.weak) / 64] >> (tag(new.weak) % 64) & 1 == 1;
        if !self.tags.as_ref().is_none_or(has_tag) {
            return None;
        }
        let mut budget = CANDIDATES;
        self.index.candidates(new.weak, &mut budget).find(fits)
    }
}

/// A chunk of the new version.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewChunk {
    pub(super) number: u32,
    pub(super) span: Span,
    pub(super) weak: u32,
}

const TAGS: usize = 1 << 16;

/// Folds both halves of a weak sum into 16 bits, as rsync does.
const fn tag(weak: u32) -> usize {
    (weak as u16).wrapping_add((weak >> 16) as u16) as usize
}
