//! The chunks of old versions by weak sum, for conversations in which the receiver looks for the sender's chunks.

use deltic_core::index::{CuckooIndex, TagTable};
use deltic_core::strategy::{LookupOrder, MatchMerging, WeakFilter};
use deltic_core::{ChunkNo, Span, Strategy};

use crate::limits::{MAX_CANDIDATES, MAX_SUMS};
use crate::report::Counts;

/// Most chunks of old versions to examine for a weak sum. Chunks of different lengths have the same weak sum only by
/// chance or forgery.
const CANDIDATES: usize = MAX_CANDIDATES;
/// Most chunks of old versions with one tag to examine for a weak sum. As many have the same tag only by forgery.
const MAX_TAGGED: usize = 256;

/// The chunks of the old versions.
#[derive(Debug)]
pub(super) struct OldChunks {
    /// True if the chunk after the last match is tried first, for locality or for longer runs.
    tries_neighbour: bool,
    index: WeakIndex,
    chunks: Vec<(Span, u32)>,
    end: u64,
    complete: bool,
}

/// The table of the weak sums.
#[derive(Debug)]
enum WeakIndex {
    /// rsync's tags (dsync, NetSync).
    Tags(TagTable),
    /// Deltic's cuckoo index (ParaSync, SkySync-C).
    Cuckoo(CuckooIndex<u32>),
}

impl WeakIndex {
    fn push(&mut self, weak: u32) {
        match self {
            Self::Tags(table) => table.push(weak),
            Self::Cuckoo(index) => index.push(weak),
        }
    }

    /// Returns the first chunk that `fits` of those that the table has for `weak`. Adds the chunks with the tag of
    /// `weak` that were walked to `tagged`.
    fn find(
        &self,
        weak: u32,
        tagged: &mut u64,
        fits: impl FnMut(&ChunkNo) -> bool,
    ) -> Option<ChunkNo> {
        match self {
            Self::Tags(table) => {
                table.with_tag(weak).take(MAX_TAGGED).inspect(|_| *tagged += 1).find(fits)
            }
            Self::Cuckoo(index) => index.candidates(weak, &mut { CANDIDATES }).find(fits),
        }
    }
}

impl OldChunks {
    pub(super) fn new(strategy: &Strategy) -> Self {
        Self {
            tries_neighbour: strategy.locality == LookupOrder::First
                || strategy.merge == MatchMerging::Runs,
            index: match strategy.filter {
                WeakFilter::Tags => WeakIndex::Tags(TagTable::default()),
                WeakFilter::Nothing => WeakIndex::Cuckoo(CuckooIndex::new(MAX_SUMS)),
            },
            chunks: Vec::new(),
            end: 0,
            complete: false,
        }
    }

    /// Adds the next chunk of the old versions. Chunks over the budget are not found.
    pub(super) fn push(&mut self, len: u32, weak: u32) {
        if self.chunks.len() < MAX_SUMS {
            self.chunks.push((Span::new(self.end, len), weak));
            self.index.push(weak);
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
    /// compared sums and walked chunks to `counts`.
    pub(super) fn find(
        &self,
        new: &NewChunk,
        after: Option<ChunkNo>,
        Counts { weak, tagged, .. }: &mut Counts,
    ) -> Option<ChunkNo> {
        let mut fits = |no: &ChunkNo| {
            let chunk = self.chunks.get(no.as_index()).filter(|(span, _)| span.len == new.len);
            *weak += u64::from(chunk.is_some());
            chunk.is_some_and(|(_, sum)| *sum == new.weak)
        };
        let neighbour = after.filter(|_| self.tries_neighbour).map(ChunkNo::next);
        neighbour.filter(&mut fits).or_else(|| self.index.find(new.weak, tagged, fits))
    }

    /// Returns the other chunks with the weak sum and the length of `new`, after `first` was found. Empty with tags: no
    /// strategy with tags has several candidates.
    pub(super) fn others(&self, new: &NewChunk, first: ChunkNo) -> Vec<ChunkNo> {
        let WeakIndex::Cuckoo(index) = &self.index else { return Vec::new() };
        let mut budget = CANDIDATES;
        let all = index.candidates(new.weak, &mut budget);
        let others = all.filter(|no| *no != first && self.span(*no).len == new.len);
        others.take(CANDIDATES - 1).collect()
    }
}

/// A chunk of the new version.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewChunk {
    pub(super) len: u32,
    pub(super) weak: u32,
}
