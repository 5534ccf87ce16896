//! The rolling search of the signature conversation (rsync; WebR2sync+ §5.2; SkySync §2.2.1): which blocks of old are
//! where in new.
//!
//! ```text
//! at = 0
//! while a block's length of new is left from at:
//!     if a block of old has the weak and the strong sum of the window at `at`:   copy it;  at += length
//!     else:                                                                      the byte is literal;  at += 1
//! the last, shorter block of old is looked for at the end of new only
//! ```
//!
//! Differences of the search from the papers, or what these leave open:
//!
//! 1. *Streaming.* New comes in pieces; a window that reaches beyond a piece waits for the next one. Between two
//!    pieces the weak sum of that window is kept, so short pieces cost no more than long ones.
//! 2. *Locality* (WebR2sync+ §5.2). Behind a match the next block of old is expected, and wherever a whole number of
//!    blocks lies between the last match and the window the one as many blocks further: an overwrite moves nothing.
//!    The paper takes the strong sum there right away; here the weak sum, which is many times cheaper, comes first.
//! 3. *Budget.* Who writes both versions can make every window's weak sum that of a block and no strong sum equal;
//!    then a strong sum for each byte would be taken. A strong sum is taken once for each window at most, and not
//!    beyond [`STRONG_PER_BYTE`] bytes for each byte of new ([`SLACK_BYTES`] more to begin with). What is not looked
//!    at is literal: the answer is right whatever the budget.
//! 4. *Equal blocks.* Of equal blocks the first is found, or the one that is expected. See `table.rs`.
//!
//! A match is as good as the strong sum. A rebuilt file is to be proven by other means.

mod blocks;
mod regions;
mod table;

pub use blocks::{BadBlock, BlockSpec, BlockSums};
pub use regions::{Blocks, Region};

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use table::Table;

use crate::chunk::AtEnd;
use crate::delta::{CopyRuns, Op};
use crate::span::Span;
use crate::stored::StoredSums;
use crate::strong::StrongSum;
use crate::weak::{Roll, RollAdler, RollCrc32c, Rolling};

/// Bytes that strong sums may be taken of, for each byte of new. One is what an unchanged file needs.
pub const STRONG_PER_BYTE: u64 = 2;
/// Bytes that strong sums may be taken of besides.
pub const SLACK_BYTES: u64 = 64 << 10;

/// Order of look-ups: the block that follows the last match first, or none before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locality {
    /// The neighbour first (WebR2sync+ §5.2).
    Neighbour,
    /// Every window is looked up alike: rsync as the papers describe it.
    Ignored,
}

/// Cost of a search so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Windows whose tag some block has.
    pub tag_hits: u64,
    /// Weak sums of blocks that were compared with a window's.
    pub weak: u64,
    /// Strong sums of windows that were taken: one for each at most.
    pub strong: u64,
    /// Strong sums of windows that storage had.
    pub kept: u64,
    /// Compared windows that were no block's.
    pub false_alarms: u64,
    /// Windows whose weak sum was a block's while the budget was spent.
    pub unproven: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.tag_hits += more.tag_hits;
        self.weak += more.weak;
        self.strong += more.strong;
        self.kept += more.kept;
        self.false_alarms += more.false_alarms;
        self.unproven += more.unproven;
    }
}

/// Finds blocks of old in new.
#[derive(Debug)]
pub struct Searcher {
    looker: Looker,
    roller: Roller,
    /// Bytes of new that are settled.
    settled: u64,
    /// The weak sum of the first window that is not, where that was looked up already.
    window: Option<u32>,
    runs: CopyRuns,
}

#[derive(Debug)]
enum Roller {
    Adler(RollAdler),
    Crc32c(RollCrc32c),
}

impl Roller {
    fn new(spec: &BlockSpec) -> Self {
        let len = spec.len.get();
        match spec.weak {
            Rolling::Adler => Self::Adler(RollAdler::new(len)),
            Rolling::Crc32c => Self::Crc32c(RollCrc32c::new(len)),
        }
    }

    /// See [`Searcher::next_match`].
    fn next_match(
        &self,
        looker: &mut Looker,
        piece: Piece<'_>,
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
    /// A search for the blocks of `old`, at the start of new.
    #[must_use]
    pub fn new(old: Arc<BlockSums>, locality: Locality) -> Self {
        let (roller, table) = (Roller::new(old.spec()), Arc::new(Table::new(&old)));
        let looker = Looker::new(Blocks { old, table }, locality);
        Self { looker, roller, settled: 0, window: None, runs: CopyRuns::new() }
    }

    /// Searches `new`, the next bytes of new, and hands out copies and literals in order. Copies are of whole blocks,
    /// merged where they continue each other; literals lie in `new`.
    ///
    /// Returns how many bytes are settled; the next call starts there, as with [`cut_all`](crate::chunk::cut_all). At
    /// most a block's length is left over. All steps of a search tile new.
    pub fn search(&mut self, new: &[u8], at_end: AtEnd, each: impl FnMut(Op)) -> usize {
        self.search_with(new, at_end, None, each)
    }

    /// The same with the sums that storage keeps of these bytes: they are taken where strong sums have no key and a
    /// window is a block of theirs. Wrong ones make copies of other blocks.
    pub fn search_with(
        &mut self,
        new: &[u8],
        at_end: AtEnd,
        kept: Option<&StoredSums>,
        mut each: impl FnMut(Op),
    ) -> usize {
        let kept = kept.filter(|_| self.is_plain());
        let piece = Piece { before: self.settled, new, kept };
        let len = self.looker.block_len();
        // What lies before `open` was handed out; what lies before `at` was looked up.
        let (mut open, mut at) = (0, 0);
        while new.len() - at >= len {
            let from = self.window.take();
            match self.next_match(piece, at, from) {
                Ok((place, block)) => {
                    self.literal(open..place, &mut each);
                    self.copy(block, place, &mut each);
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
        self.settle(piece, (open..at, at_end), &mut each)
    }

    /// Hands out the bytes of a piece that are looked up and match nothing, and at the end all that are left. Returns
    /// how many of the piece are settled.
    fn settle(
        &mut self,
        piece: Piece<'_>,
        (open, at_end): (Range<usize>, AtEnd),
        each: &mut impl FnMut(Op),
    ) -> usize {
        let settled = match at_end {
            AtEnd::No => {
                let end = open.end;
                self.literal(open, each);
                end
            }
            AtEnd::Yes => {
                self.end(piece, open.start, each);
                piece.new.len()
            }
        };
        self.settled += settled as u64;
        settled
    }

    /// The length of each block but the last, in bytes.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.looker.block_len() as u32
    }

    /// True where strong sums have no key: they may be those that storage keeps.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.looker.blocks.is_plain()
    }

    /// Cost of the search so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.looker.counts
    }

    /// The first place from `at` on with a block of old, and its number; else the weak sum of the last window. `from`
    /// is the weak sum of the window at `at`, if that was looked up.
    fn next_match(
        &mut self,
        piece: Piece<'_>,
        at: usize,
        from: Option<u32>,
    ) -> Result<(usize, u32), u32> {
        self.roller.next_match(&mut self.looker, piece, at, from)
    }

    /// Hands out what is left of new, from `open` on.
    fn end(&mut self, piece: Piece<'_>, open: usize, each: &mut impl FnMut(Op)) {
        self.window = None;
        let short = self.looker.short_at_end(piece, open);
        if let Some((place, block)) = short {
            self.literal(open..place, each);
            self.copy(block, place, each);
        } else {
            self.literal(open..piece.new.len(), each);
        }
        if let Some(run) = self.runs.finish() {
            each(run);
        }
    }

    fn copy(&mut self, block: u32, place: usize, each: &mut impl FnMut(Op)) {
        let new_start = self.settled + place as u64;
        if let Some(run) = self.runs.push(self.looker.blocks.old.span(block), new_start) {
            each(run);
        }
    }

    fn literal(&mut self, range: Range<usize>, each: &mut impl FnMut(Op)) {
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
            each(Op::Literal { new: Span::new(start, len) });
            start += u64::from(len);
        }
    }
}

/// Some bytes of new, behind so many others, and sums that storage keeps of them.
#[derive(Clone, Copy)]
struct Piece<'d> {
    before: u64,
    new: &'d [u8],
    kept: Option<&'d StoredSums>,
}

/// The side of a search that knows old.
#[derive(Debug)]
struct Looker {
    blocks: Blocks,
    locality: Locality,
    /// Place in new and number of the block that is expected next.
    expected: Option<(u64, u32)>,
    /// Bytes that strong sums were taken of.
    spent: u64,
    counts: Counts,
}

impl Looker {
    fn new(blocks: Blocks, locality: Locality) -> Self {
        Self { blocks, locality, expected: None, spent: 0, counts: Counts::default() }
    }

    fn block_len(&self) -> usize {
        self.blocks.old.spec().len.get() as usize
    }

    /// See [`Searcher::next_match`].
    fn next_match(
        &mut self,
        roll: &impl Roll,
        piece: Piece<'_>,
        mut at: usize,
        from: Option<u32>,
    ) -> Result<(usize, u32), u32> {
        let Piece { before, new, .. } = piece;
        let last = new.len() - self.block_len();
        if self.blocks.table.is_empty() {
            // Nobody will ask for this sum.
            return Err(0);
        }
        let first = || self.blocks.old.spec().weak.weak().of(&new[at..at + self.block_len()]);
        let mut sum = from.unwrap_or_else(first);
        if from.is_none()
            && let Some(block) = self.look_up(piece, at, sum)
        {
            return Ok((at, block));
        }
        while at < last {
            let stop = self.expected.map_or(last, |(place, _)| last.min((place - before) as usize));
            (at, sum) = self.roll_on(roll, new, at..stop, sum);
            if let Some(block) = self.look_up(piece, at, sum) {
                return Ok((at, block));
            }
        }
        Err(sum)
    }

    /// Rolls from the first place of `range` on, which has the weak sum `sum`, to the next one with a tag, or the last.
    #[inline(always)]
    fn roll_on(&self, roll: &impl Roll, new: &[u8], range: Range<usize>, sum: u32) -> (usize, u32) {
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

    /// The block that equals the window at `at`, whose weak sum is `sum`.
    fn look_up(&mut self, piece: Piece<'_>, at: usize, sum: u32) -> Option<u32> {
        let place = piece.before + at as u64;
        let expected = self.expected.filter(|(expected, _)| *expected == place);
        let neighbour = expected.map(|(_, block)| block);
        let found = self.find(piece, at, sum, neighbour);
        if let Some(block) = found.or(neighbour) {
            self.expect(place, block);
        }
        found
    }

    /// Expects the block after `block` a block's length behind `place`.
    fn expect(&mut self, place: u64, block: u32) {
        let next = block + 1;
        let is_block = self.locality == Locality::Neighbour && next < self.blocks.old.full();
        self.expected = is_block.then(|| (place + self.block_len() as u64, next));
    }

    fn find(
        &mut self,
        piece: Piece<'_>,
        at: usize,
        sum: u32,
        neighbour: Option<u32>,
    ) -> Option<u32> {
        let range = at..at + self.block_len();
        let mut strong = None;
        if let Some(block) = neighbour {
            self.counts.weak += 1;
            if self.blocks.old.weak(block) == sum {
                let taken = self.strong(piece, range.clone())?;
                if taken.as_bytes() == self.blocks.old.strong(block) {
                    return Some(block);
                }
                strong = Some(taken);
            }
        }
        if !self.blocks.table.has_tag(sum) {
            return None;
        }
        self.counts.tag_hits += 1;
        let first = self.blocks.table.find_weak(sum, &mut self.counts.weak)?;
        let strong = match strong {
            Some(taken) => taken,
            None => self.strong(piece, range)?,
        };
        let found = self.blocks.table.find_strong(first, strong.as_bytes(), &self.blocks.old);
        self.counts.false_alarms += u64::from(found.is_none());
        found
    }

    /// The strong sum of `range` in the piece, if the budget has it.
    fn strong(&mut self, piece: Piece<'_>, range: Range<usize>) -> Option<StrongSum> {
        let (spec, start) = (self.blocks.old.spec(), piece.before + range.start as u64);
        let kept = piece.kept.and_then(|kept| kept.strong(spec.strong, start, range.len()));
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
        Some(spec.strong.of(spec.key.as_ref(), &piece.new[range]))
    }

    /// The last block of old if it is shorter than the others and new ends with it, behind `open`; and where.
    fn short_at_end(&mut self, piece: Piece<'_>, open: usize) -> Option<(usize, u32)> {
        let block = self.blocks.old.short()?;
        let new = piece.new;
        let at = new.len().checked_sub(self.blocks.old.span(block).len as usize)?;
        if at < open {
            return None;
        }
        self.counts.weak += 1;
        if self.blocks.old.spec().weak.weak().of(&new[at..]) != self.blocks.old.weak(block) {
            return None;
        }
        let strong = self.strong(piece, at..new.len())?;
        let found = strong.as_bytes() == self.blocks.old.strong(block);
        self.counts.false_alarms += u64::from(!found);
        found.then_some((at, block))
    }
}
