//! Regions of new that are searched apart and joined to what one search finds (SkySync §4.3: a thread for a region of a
//! large file).
//!
//! ```text
//! search a region:  as if new began with it; note each match
//! join, in order:   at = where the search stands
//!                   while at lies within a match of the region:  look up the windows from `at` to that match's end
//!                   the next match of the region is that of the search
//! ```
//!
//! 1. Which block a window matches depends on nothing before it, where no neighbour is expected. So two searches that
//!    stand at one place find the same from there on. They differ only where a match of one spans the place at which
//!    the other stands: behind the border of two regions, as far as repeated content goes.
//! 2. The last region has the bytes of a block at least: there the last, shorter block of old is looked for.
//! 3. A region's share of the budget is what its bytes allow, and counts as spent by the whole. Where it is spent, more
//!    is literal than one search would have it.

use std::ops::Range;
use std::sync::Arc;

use super::{
    BlockSums, Counts, Looker, Op, Piece, Roller, SLACK_BYTES, STRONG_PER_BYTE, Searcher, Table,
};
use crate::chunk::AtEnd;
use crate::stored::StoredSums;

/// The blocks of old, to be looked for by any number of threads.
#[derive(Clone, Debug)]
pub struct Blocks {
    pub(super) old: Arc<BlockSums>,
    pub(super) table: Arc<Table>,
}

/// Matches in a region of new, as a search that began with it found them.
#[derive(Debug)]
pub struct Region {
    range: Range<u64>,
    /// Places in new and numbers of blocks, ascending.
    matches: Vec<(u64, u32)>,
    spent: u64,
    counts: Counts,
}

impl Region {
    /// Its bytes: all windows that begin there were looked up, but those within matches.
    #[must_use]
    pub const fn range(&self) -> &Range<u64> {
        &self.range
    }
}

impl Blocks {
    /// Length of each block but the last, in bytes.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.old.spec().len.get()
    }

    /// The bytes to be read of a region of a file of `file_len` bytes: the last windows reach beyond it.
    #[must_use]
    pub fn read(&self, region: &Range<u64>, file_len: u64) -> Range<u64> {
        region.start..file_len.min(region.end + u64::from(self.block_len()) - 1)
    }

    /// True where strong sums have no key: they may be those that storage keeps.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.old.spec().key.is_none()
    }

    /// Searches a region, of which `bytes` are those to be [read](Self::read), or fewer; storage keeps `kept` of them.
    #[must_use]
    pub fn find(&self, range: Range<u64>, bytes: &[u8], kept: Option<&StoredSums>) -> Region {
        let len = self.block_len() as usize;
        let own = (range.end - range.start) as usize;
        let new = &bytes[..bytes.len().min(own + len - 1)];
        let kept = kept.filter(|_| self.is_plain());
        let piece = Piece { before: range.start, new, kept };
        let spent = SLACK_BYTES + STRONG_PER_BYTE * range.start;
        let mut looker = Looker { spent, ..Looker::new(self.clone(), super::Locality::Ignored) };
        let roller = Roller::new(self.old.spec());
        let (mut matches, mut at) = (Vec::new(), 0);
        while new.len() - at >= len
            && let Ok((place, block)) = roller.next_match(&mut looker, piece, at, None)
        {
            matches.push((range.start + place as u64, block));
            at = place + len;
        }
        Region { range, matches, spent: looker.spent - spent, counts: looker.counts }
    }
}

impl Searcher {
    /// The blocks that it looks for.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.looker.blocks.clone()
    }

    /// Goes through the `region` that it stands in, which was searched, as [`search_with`](Self::search_with) would:
    /// `new` are the bytes to be read of that, from where the search stands. All windows of the region are settled, and
    /// no more than those, but at the end of the file.
    pub fn search_region(
        &mut self,
        new: &[u8],
        at_end: AtEnd,
        (region, kept): (&Region, Option<&StoredSums>),
        mut each: impl FnMut(Op),
    ) -> usize {
        self.window = None;
        self.looker.spent += region.spent;
        self.looker.counts += region.counts;
        let kept = kept.filter(|_| self.is_plain());
        let piece = Piece { before: self.settled, new, kept };
        let len = self.looker.block_len();
        let own = region.range.end.saturating_sub(self.settled).min(new.len() as u64) as usize;
        let (mut open, mut at, mut known) = (0, 0, &region.matches[..]);
        while let Some((place, block)) = self.next_known(piece, at..own, &mut known) {
            self.literal(open..place, &mut each);
            self.copy(block, place, &mut each);
            at = place + len;
            open = at;
        }
        self.settle(piece, (open..at.max(own), at_end), &mut each)
    }

    /// The first match of a window that begins in `range`, given what was found by who began elsewhere.
    fn next_known(
        &mut self,
        piece: Piece<'_>,
        mut range: Range<usize>,
        known: &mut &[(u64, u32)],
    ) -> Option<(usize, u32)> {
        let len = self.looker.block_len();
        while let [(start, block), rest @ ..] = *known {
            let start = *start as i64 - piece.before as i64;
            let end = start + len as i64;
            if start >= range.start as i64 {
                *known = rest;
                // A file that became shorter has less.
                return (end as usize <= piece.new.len()).then_some((start as usize, *block));
            }
            // Whoever stood at its start did not look up what lies behind.
            let until = (end.max(0) as usize).min(range.end);
            if range.start < until {
                let last = piece.new.len().min(until + len - 1);
                let between = Piece { new: &piece.new[..last], ..piece };
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
