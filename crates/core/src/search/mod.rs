//! The rolling search of the signature conversation: finds blocks of the old version in the new one (rsync;
//! WebR2sync+ §5.2; SkySync §2.2.1).
//!
//! ```text
//! at = 0
//! while at least one block length is left from at:
//!     if an old block has the weak and the strong sum of the window at `at`:   copy it;  at += length
//!     else:                                                                    the byte is literal;  at += 1
//! the last, shorter old block is searched for at the end of the new version only
//! ```
//!
//! Differences from the papers, or points that the papers leave open:
//!
//! 1. *Streaming.* The new version arrives in pieces. A window that reaches beyond a piece waits for the next
//!    piece. The weak sum of this window is kept, so short pieces cost no more than long ones.
//! 2. *Locality* (WebR2sync+ §5.2), if the strategy asks for it. The strong sum of the window right behind a match is
//!    compared with the strong sum of the next old block, without a weak sum and without the table. If they differ,
//!    the search goes on at this window as above, and does not compute the strong sum again.
//! 3. *Budget.* An author of both versions can make every window match a block's weak sum and no strong sum,
//!    which would cost a strong sum for each byte. At most one strong sum is computed for each window, and at
//!    most [`STRONG_PER_BYTE`] bytes for each byte of the new version, plus [`SLACK_BYTES`]. Windows past the
//!    budget are literals: the result is correct for any budget.
//! 4. *Equal blocks.* Of equal blocks the first or the expected one is found. See `table.rs`.
//!
//! A match is only as reliable as the strong sum. The rebuilt file needs another proof.

mod blocks;
mod regions;
mod table;

pub use blocks::{BadBlock, BlockSpec, BlockSums};
pub use regions::{SearchedRegion, SharedBlocks};

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use table::BlockTable;

use crate::chunk::AtEnd;
use crate::delta::{CopyRuns, DeltaOp};
use crate::span::Span;
use crate::stored::StoredSums;
use crate::strong::StrongSum;
use crate::weak::{AdlerRoller, Crc32cRoller, RollingKind, SumRoller};

/// Number of bytes that strong sums may hash for each byte of the new version. An unchanged file needs one.
pub const STRONG_PER_BYTE: u64 = 2;
/// Number of bytes that strong sums may hash in addition to [`STRONG_PER_BYTE`].
pub const SLACK_BYTES: u64 = 64 << 10;

/// The first look-up right behind a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Compares the strong sums of the window and of the next block (WebR2sync+ §5.2).
    Neighbour,
    /// Looks up every window in the same way, as the papers describe rsync.
    Ignored,
}

/// Work of a search so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Number of windows that equalled the block after the last match by their strong sums, and were not looked up.
    pub neighbours: u64,
    /// Number of windows with a tag in the table.
    pub tag_hits: u64,
    /// Number of weak sums of blocks that were compared with a window.
    pub weak: u64,
    /// Number of computed strong sums, at most one for each window.
    pub strong: u64,
    /// Number of strong sums that came from the storage layer.
    pub kept: u64,
    /// Number of weak sums of windows that were joined from sums of the storage layer.
    pub joined: u64,
    /// Number of compared windows without a matching block.
    pub false_alarms: u64,
    /// Number of windows with a matching weak sum after the budget was spent.
    pub unproven: u64,
}

impl AddAssign for SearchCounts {
    fn add_assign(&mut self, more: Self) {
        self.neighbours += more.neighbours;
        self.tag_hits += more.tag_hits;
        self.weak += more.weak;
        self.strong += more.strong;
        self.kept += more.kept;
        self.joined += more.joined;
        self.false_alarms += more.false_alarms;
        self.unproven += more.unproven;
    }
}

/// Finds old blocks in the new version.
#[derive(Debug)]
pub struct Searcher {
    looker: BlockLookup,
    roller: WindowRoller,
    /// Number of bytes of the new version that are decided: matched or literal.
    settled: u64,
    /// The weak sum of the first undecided window, if this window was looked up already.
    window: Option<u32>,
    runs: CopyRuns,
}

#[derive(Debug)]
enum WindowRoller {
    Adler(AdlerRoller),
    Crc32c(Crc32cRoller),
}

impl WindowRoller {
    fn new(spec: &BlockSpec) -> Self {
        let len = spec.len.get();
        match spec.weak {
            RollingKind::Adler => Self::Adler(AdlerRoller::new(len)),
            RollingKind::Crc32c => Self::Crc32c(Crc32cRoller::new(len)),
        }
    }

    /// See [`Searcher::next_match`].
    fn next_match(
        &self,
        looker: &mut BlockLookup,
        piece: NewPiece<'_>,
        at: usize,
        from: Option<u32>,
    ) -> Result<(usize, u32), u32> {
        match self {
            Self::Adler(roll) => looker.next_match(roll, piece, at, from),
            Self::Crc32c(roll) => looker.next_match(roll, piece, at, from),
        }
    }
}

impl Searcher {
    /// Starts a search for the blocks of `old`, at the beginning of the new version.
    #[must_use]
    pub fn new(old: Arc<BlockSums>, locality: Locality) -> Self {
        let (roller, table) = (WindowRoller::new(old.spec()), Arc::new(BlockTable::new(&old)));
        let looker = BlockLookup::new(SharedBlocks { old, table }, locality);
        Self { looker, roller, settled: 0, window: None, runs: CopyRuns::new() }
    }

    /// Searches `new`, the next bytes of the new version. Passes copies and literals to `each`, in order.
    /// Copies are whole blocks, merged if adjacent; literals are ranges of the new version.
    ///
    /// Returns the number of bytes that are decided. The next call begins there, as with
    /// [`cut_all`](crate::chunk::cut_all); at most one block length is left over. All copies and literals of a
    /// search tile the new version.
    pub fn search(&mut self, new: &[u8], at_end: AtEnd, each: impl FnMut(DeltaOp)) -> usize {
        self.search_with(new, at_end, None, each)
    }

    /// As [`Searcher::search`], with sums that the storage layer keeps of these bytes. A stored strong sum is used
    /// if the strong sums have no key and the window is one of its blocks; wrong ones cause wrong copies. Stored
    /// CRC-32C are joined to the weak sum of a window that begins a search or follows a match, if the window
    /// consists of their blocks (SkySync §3.3.1); wrong ones only hide matches.
    pub fn search_with(
        &mut self,
        new: &[u8],
        at_end: AtEnd,
        kept: Option<&StoredSums>,
        mut each: impl FnMut(DeltaOp),
    ) -> usize {
        let piece = NewPiece { before: self.settled, new, kept };
        let len = self.looker.block_len();
        // Bytes before `open` were passed to `each`; windows before `at` were looked up.
        let (mut open, mut at) = (0, 0);
        while new.len() - at >= len {
            let from = self.window.take();
            match self.next_match(piece, at, from) {
                Ok((place, block)) => {
                    self.pass_literal(open..place, &mut each);
                    self.pass_copy(block, place, &mut each);
                    at = place + len;
                    open = at;
                }
                Err(sum) => {
                    self.window = Some(sum);
                    at = new.len() - len;
                    break;
                }
            }
        }
        self.pass_literals(piece, open..at, at_end, &mut each)
    }

    /// Passes unmatched bytes of a piece to `each`; at the end of the file, all remaining bytes. Returns the
    /// number of bytes of the piece that are decided: matched or literal.
    fn pass_literals(
        &mut self,
        piece: NewPiece<'_>,
        open: Range<usize>,
        at_end: AtEnd,
        each: &mut impl FnMut(DeltaOp),
    ) -> usize {
        let settled = match at_end {
            AtEnd::No => {
                let end = open.end;
                self.pass_literal(open, each);
                end
            }
            AtEnd::Yes => {
                self.pass_rest_as_literal(piece, open.start, each);
                piece.new.len()
            }
        };
        self.settled += settled as u64;
        settled
    }

    /// Length of each block but the last, in bytes.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.looker.block_len() as u32
    }

    /// Work of the search so far.
    #[must_use]
    pub const fn counts(&self) -> SearchCounts {
        self.looker.counts
    }

    /// The first match at or after `at`: offset and number of the old block. Without a match, the weak sum of
    /// the last window. `from` is the weak sum of the window at `at` if that window was looked up already.
    fn next_match(
        &mut self,
        piece: NewPiece<'_>,
        at: usize,
        from: Option<u32>,
    ) -> Result<(usize, u32), u32> {
        self.roller.next_match(&mut self.looker, piece, at, from)
    }

    /// Ends the search: passes the rest of the new version, from `open` on, to `each`.
    fn pass_rest_as_literal(
        &mut self,
        piece: NewPiece<'_>,
        open: usize,
        each: &mut impl FnMut(DeltaOp),
    ) {
        self.window = None;
        let short = self.looker.short_block_at_end(piece, open);
        if let Some((place, block)) = short {
            self.pass_literal(open..place, each);
            self.pass_copy(block, place, each);
        } else {
            self.pass_literal(open..piece.new.len(), each);
        }
        if let Some(run) = self.runs.finish() {
            each(run);
        }
    }

    fn pass_copy(&mut self, block: u32, place: usize, each: &mut impl FnMut(DeltaOp)) {
        let new_start = self.settled + place as u64;
        if let Some(run) = self.runs.push(self.looker.blocks.old.span(block), new_start) {
            each(run);
        }
    }

    fn pass_literal(&mut self, range: Range<usize>, each: &mut impl FnMut(DeltaOp)) {
        if range.is_empty() {
            return;
        }
        if let Some(run) = self.runs.finish() {
            each(run);
        }
        let mut start = self.settled + range.start as u64;
        let end = self.settled + range.end as u64;
        while start < end {
            let len = (end - start).min(u32::MAX.into()) as u32;
            each(DeltaOp::Literal { new: Span::new(start, len) });
            start += u64::from(len);
        }
    }
}

/// A piece of the new version, with its offset and the sums in the storage layer.
#[derive(Clone, Copy)]
struct NewPiece<'d> {
    before: u64,
    new: &'d [u8],
    kept: Option<&'d StoredSums>,
}

/// Looks up windows of the new version in the blocks of the old version.
#[derive(Debug)]
struct BlockLookup {
    blocks: SharedBlocks,
    locality: Locality,
    /// Offset in the new version and number of the block of the last match.
    last: Option<(u64, u32)>,
    /// Number of bytes hashed by strong sums.
    spent: u64,
    counts: SearchCounts,
}

impl BlockLookup {
    fn new(blocks: SharedBlocks, locality: Locality) -> Self {
        Self { blocks, locality, last: None, spent: 0, counts: SearchCounts::default() }
    }

    fn block_len(&self) -> usize {
        self.blocks.old.spec().len.get() as usize
    }

    /// See [`Searcher::next_match`].
    fn next_match(
        &mut self,
        roll: &impl SumRoller,
        piece: NewPiece<'_>,
        mut at: usize,
        from: Option<u32>,
    ) -> Result<(usize, u32), u32> {
        let new = piece.new;
        let last = new.len() - self.block_len();
        if self.blocks.table.is_empty() {
            // The table is empty, so the caller never uses this sum.
            return Err(0);
        }
        let mut sum = match from {
            Some(sum) => sum,
            None => match self.look_up_first(piece, at) {
                Ok(block) => return Ok((at, block)),
                Err(sum) => sum,
            },
        };
        while at < last {
            (at, sum) = self.roll_while_unmatched(roll, new, at..last, sum);
            if let Some(block) = self.look_up(piece, at, sum, None) {
                return Ok((at, block));
            }
        }
        Err(sum)
    }

    /// Looks up the window at `at`, at the start of a search or right behind a match. Returns the block, or the weak sum
    /// of the window.
    fn look_up_first(&mut self, piece: NewPiece<'_>, at: usize) -> Result<u32, u32> {
        let range = at..at + self.block_len();
        let mut strong = None;
        if let Some(block) = self.neighbour(piece.before + at as u64) {
            strong = self.strong_sum(piece, range.clone());
            if strong.is_some_and(|strong| strong.as_bytes() == self.blocks.old.strong(block)) {
                self.counts.neighbours += 1;
                self.last = Some((piece.before + at as u64, block));
                return Ok(block);
            }
        }
        let sum = self.weak_sum(piece, range);
        self.look_up(piece, at, sum, strong).ok_or(sum)
    }

    /// The weak sum of `range` of the piece: joined from stored sums, or computed.
    fn weak_sum(&mut self, piece: NewPiece<'_>, range: Range<usize>) -> u32 {
        let weak = self.blocks.old.spec().weak;
        let start = piece.before + range.start as u64;
        let kept = piece.kept.filter(|_| weak == RollingKind::Crc32c);
        match kept.and_then(|kept| kept.joined_crc32c(start, range.len())) {
            Some(sum) => {
                self.counts.joined += 1;
                sum.get()
            }
            None => weak.weak().of(&piece.new[range]),
        }
    }

    /// Returns the block after the last match, if the match ended at offset `place` and the block has the full length.
    fn neighbour(&self, place: u64) -> Option<u32> {
        let (start, block) = self.last.filter(|_| self.locality == Locality::Neighbour)?;
        let follows = start + self.block_len() as u64 == place;
        (follows && block + 1 < self.blocks.old.full_count()).then_some(block + 1)
    }

    /// Rolls through `range` to the first window with a tag in the table, or to the last window. `sum` is the
    /// weak sum at the start of `range`.
    #[inline(always)]
    fn roll_while_unmatched(
        &self,
        roll: &impl SumRoller,
        new: &[u8],
        range: Range<usize>,
        sum: u32,
    ) -> (usize, u32) {
        let leaving = &new[range.clone()];
        let entering = &new[range.start + self.block_len()..range.end + self.block_len()];
        let mut state = roll.state(sum);
        for (n, (leaves, enters)) in leaving.iter().zip(entering).enumerate() {
            state = roll.roll(state, *leaves, *enters);
            if self.blocks.table.has_tag(roll.sum(state)) {
                return (range.start + n + 1, roll.sum(state));
            }
        }
        (range.end, roll.sum(state))
    }

    /// Returns the old block that has the weak and the strong sum of the window at `at`. `sum` is the weak sum of the
    /// window. The strong sum is computed only if the caller does not know the sum.
    fn look_up(
        &mut self,
        piece: NewPiece<'_>,
        at: usize,
        sum: u32,
        strong: Option<StrongSum>,
    ) -> Option<u32> {
        if !self.blocks.table.has_tag(sum) {
            return None;
        }
        self.counts.tag_hits += 1;
        let first = self.blocks.table.find_weak(sum, &mut self.counts.weak)?;
        let strong = match strong {
            Some(taken) => taken,
            None => self.strong_sum(piece, at..at + self.block_len())?,
        };
        let found = self.blocks.table.find_strong(first, strong.as_bytes(), &self.blocks.old);
        self.counts.false_alarms += u64::from(found.is_none());
        self.last = found.map(|block| (piece.before + at as u64, block)).or(self.last);
        found
    }

    /// The strong sum of `range` of the piece, or `None` if the budget is spent.
    fn strong_sum(&mut self, piece: NewPiece<'_>, range: Range<usize>) -> Option<StrongSum> {
        let (spec, start) = (self.blocks.old.spec(), piece.before + range.start as u64);
        let kept = piece.kept.filter(|_| spec.key.is_none());
        let kept = kept.and_then(|kept| kept.strong(spec.strong, start, range.len()));
        if kept.is_some() {
            self.counts.kept += 1;
            return kept;
        }
        let seen = piece.before + range.end as u64;
        let spent = self.spent + range.len() as u64;
        if spent > SLACK_BYTES + STRONG_PER_BYTE * seen {
            self.counts.unproven += 1;
            return None;
        }
        self.spent = spent;
        self.counts.strong += 1;
        Some(spec.strong.sum_of(spec.key.as_ref(), &piece.new[range]))
    }

    /// The short last block of the old version, with its offset, if the new version ends with this block, not
    /// before `open`.
    fn short_block_at_end(&mut self, piece: NewPiece<'_>, open: usize) -> Option<(usize, u32)> {
        let block = self.blocks.old.short_block()?;
        let new = piece.new;
        let at = new.len().checked_sub(self.blocks.old.span(block).len as usize)?;
        if at < open {
            return None;
        }
        self.counts.weak += 1;
        if self.blocks.old.spec().weak.weak().of(&new[at..]) != self.blocks.old.weak(block) {
            return None;
        }
        let strong = self.strong_sum(piece, at..new.len())?;
        let found = strong.as_bytes() == self.blocks.old.strong(block);
        self.counts.false_alarms += u64::from(!found);
        found.then_some((at, block))
    }
}
