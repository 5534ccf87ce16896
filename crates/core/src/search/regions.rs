//! Parallel search: regions of the new version are searched independently and joined to the result of one
//! search (SkySync §4.3: one thread for each region of a large file).
//!
//! ```text
//! search a region:  as if the file began with the region; record each match
//! join, in order:   at = position of the search
//!                   while at lies within a match of the region:  look up the windows from `at` to the end of the match
//!                   the next match of the region is the next match of the search
//! ```
//!
//! 1. Without an expected neighbour, a match of a window depends on nothing before the window. So two searches
//!    at the same position find the same matches from there on. They differ only if a match of one spans the
//!    position of the other: after the border of two regions, as far as repeated content goes.
//! 2. The last region has at least one block length: there the short last block of the old version is searched
//!    for.
//! 3. Each region gets a share of the budget in proportion to its bytes, and the whole search counts that share
//!    as spent. If a region spends its share, more bytes are literals than in one search.

use std::ops::Range;
use std::sync::Arc;

use super::{
    BlockLookup, BlockSpec, BlockSums, BlockTable, DeltaOp, NewPiece, SLACK_BYTES, STRONG_PER_BYTE,
    SearchCounts, Searcher, WindowRoller,
};
use crate::chunk::AtEnd;
use crate::stored::{StoredSums, SumKind};
use crate::weak::RollingKind;

/// The old blocks, to be searched for by any number of threads.
#[derive(Clone, Debug)]
pub struct SharedBlocks {
    pub(super) old: Arc<BlockSums>,
    pub(super) table: Arc<BlockTable>,
}

/// The matches of one region, from a search that began at the region.
#[derive(Debug)]
pub struct SearchedRegion {
    range: Range<u64>,
    /// Offsets in the new version and numbers of old blocks, ascending.
    matches: Vec<(u64, u32)>,
    spent: u64,
    counts: SearchCounts,
}

impl SearchedRegion {
    /// The byte range of the region. All windows that begin in the region were looked up, except windows inside
    /// matches.
    #[must_use]
    pub const fn range(&self) -> &Range<u64> {
        &self.range
    }
}

impl SharedBlocks {
    /// Length of each block but the last, in bytes.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.old.spec().len.get()
    }

    /// The byte range to read for `region` of a file of `file_len` bytes: the last windows reach past the
    /// region.
    #[must_use]
    pub fn bytes_to_read(&self, region: &Range<u64>, file_len: u64) -> Range<u64> {
        region.start..file_len.min(region.end + u64::from(self.block_len()) - 1)
    }

    /// True if a search can use stored sums of this kind: as strong sums, if these have no key, or joined to weak sums.
    #[must_use]
    pub fn can_use(&self, kind: SumKind) -> bool {
        let BlockSpec { weak, strong, key, .. } = self.old.spec();
        key.is_none() && kind.strong() == Some(*strong)
            || kind == SumKind::Crc32c && *weak == RollingKind::Crc32c
    }

    /// Searches a region. `bytes` are the bytes of [`SharedBlocks::bytes_to_read`], or fewer if the file shrank. `kept` are
    /// the sums that the storage layer keeps of them.
    #[must_use]
    pub fn find(
        &self,
        range: Range<u64>,
        bytes: &[u8],
        kept: Option<&StoredSums>,
    ) -> SearchedRegion {
        let len = self.block_len() as usize;
        let own = (range.end - range.start) as usize;
        let new = &bytes[..bytes.len().min(own + len - 1)];
        let piece = NewPiece { before: range.start, new, kept };
        let spent = SLACK_BYTES + STRONG_PER_BYTE * range.start;
        let mut looker =
            BlockLookup { spent, ..BlockLookup::new(self.clone(), super::Locality::Ignored) };
        let roller = WindowRoller::new(self.old.spec());
        let (mut matches, mut at) = (Vec::new(), 0);
        while new.len() - at >= len
            && let Ok((place, block)) = roller.next_match(&mut looker, piece, at, None)
        {
            matches.push((range.start + place as u64, block));
            at = place + len;
        }
        SearchedRegion { range, matches, spent: looker.spent - spent, counts: looker.counts }
    }
}

impl Searcher {
    /// The old blocks of this search.
    #[must_use]
    pub fn blocks(&self) -> SharedBlocks {
        self.looker.blocks.clone()
    }

    /// Advances the search through a `region` that was searched already, with the result of
    /// [`search_with`](Self::search_with). `new` are the bytes of [`SharedBlocks::bytes_to_read`], from the position of the
    /// search. Decides all windows of the region, and no more except at the end of the file.
    pub fn search_region(
        &mut self,
        new: &[u8],
        at_end: AtEnd,
        (region, kept): (&SearchedRegion, Option<&StoredSums>),
        mut each: impl FnMut(DeltaOp),
    ) -> usize {
        self.window = None;
        self.looker.spent += region.spent;
        self.looker.counts += region.counts;
        let piece = NewPiece { before: self.settled, new, kept };
        let len = self.looker.block_len();
        let own = region.range.end.saturating_sub(self.settled).min(new.len() as u64) as usize;
        let (mut open, mut at, mut known) = (0, 0, &region.matches[..]);
        while let Some((place, block)) = self.next_known_match(piece, at..own, &mut known) {
            self.pass_literal(open..place, &mut each);
            self.pass_copy(block, place, &mut each);
            at = place + len;
            open = at;
        }
        self.pass_literals(piece, open..at.max(own), at_end, &mut each)
    }

    /// The first match of a window that begins in `range`, given the matches `known` of a search with another
    /// start.
    fn next_known_match(
        &mut self,
        piece: NewPiece<'_>,
        mut range: Range<usize>,
        known: &mut &[(u64, u32)],
    ) -> Option<(usize, u32)> {
        let len = self.looker.block_len();
        while let [(start, block), rest @ ..] = *known {
            let start = *start as i64 - piece.before as i64;
            let end = start + len as i64;
            if start >= range.start as i64 {
                *known = rest;
                // The file may have shrunk.
                return (end as usize <= piece.new.len()).then_some((start as usize, *block));
            }
            // The region's search did not look up the windows inside this match.
            let until = (end.max(0) as usize).min(range.end);
            if range.start < until {
                let last = piece.new.len().min(until + len - 1);
                let between = NewPiece { new: &piece.new[..last], ..piece };
                if last >= range.start + len
                    && let Ok(found) = self.next_match(between, range.start, None)
                {
                    return Some(found);
                }
                range.start = until;
            }
            *known = rest;
        }
        None
    }
}
