//! Search of the new gap for blocks of the old gap, from the block sums.
//!
//! ```text
//! in order   consecutive blocks, while their sums match: first from the start of both gaps
//! near       after the last match, one of the next few blocks at the position without a shift since that match, or at
//!            the position without a shift up to the end: continue in order from there
//! back       else, once: blocks in order from the end of both gaps backwards
//! roll       then, between the two, to the first window that equals a block and is followed by the next block: continue
//!            in order from there
//! ```
//!
//! Bytes between matches are literals, and so is the rest when nothing more is found.
//!
//! 1. One edit and any number of overwrites need the first two steps only: each byte is summed once, in forward
//!    order, which reads memory fastest.
//! 2. Rolled windows are compared with all blocks of the middle, thousands of windows with hundreds of blocks.
//!    One equal sum is then likely by chance; two consecutive equal sums are not.
//! 3. A block whose successor did not follow is removed from the table. Otherwise a long run of one byte value
//!    would match at each position, and each match costs the sum of one block. So the work is bounded by a few
//!    steps for each byte of the new gap and two sums for each old block. Blocks of the minimum length stay in
//!    the table: their short sums match by chance so often that most blocks would be removed, and a false match
//!    costs little.
//! 4. Of equal blocks only the first is searched for.

use std::cell::Cell;
use std::ops::Range;

use super::delta::GapDelta;
use super::sum::{LANES, REACH, RollingSums, SUM_BITS, SumPolynomial};
use super::{BlockLen, GapSums, MAX_GAP_BYTES};

impl<'a> GapDelta<'a> {
    /// The delta from the old gap with these `sums` to the gap `new`. `seed` is the seed of the session.
    ///
    /// Sums may be equal by chance, and then the delta makes other bytes: the receiver must check the result.
    ///
    /// # Panics
    /// If `new` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn of(new: &'a [u8], sums: &GapSums, seed: u64) -> Self {
        Self::with_comparison_count(new, sums, seed).0
    }

    /// As [`GapDelta::of`], with the number of comparisons of a window's sum with a block's sum.
    ///
    /// # Panics
    /// If `new` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn with_comparison_count(new: &'a [u8], sums: &GapSums, seed: u64) -> (Self, u64) {
        assert!(new.len() <= MAX_GAP_BYTES, "a gap has at most MAX_GAP_BYTES");
        GapSearch::new(new, sums, seed).into_delta()
    }
}

/// An offset in the new gap, paired with an old block that may match there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockPlace {
    /// Offset in the new gap, in bytes.
    at: usize,
    /// Number of the old block; the number of blocks stands for the end of the old gap.
    block: usize,
}

/// Search of one gap.
pub(super) struct GapSearch<'a, 's> {
    new: &'a [u8],
    sums: &'s GapSums,
    polynomial: SumPolynomial,
    /// Start of the known matches at the end of both gaps. The search ends here.
    back: BlockPlace,
    /// The old blocks to search for by rolling sums, once `back` is known.
    middle: Option<Range<usize>>,
    table: Option<GapTable>,
    /// Number of comparisons with a block's sum, without windows that the filter ruled out.
    compared: Cell<u64>,
}

impl<'a, 's> GapSearch<'a, 's> {
    /// Starts without any match.
    pub(super) fn new(new: &'a [u8], sums: &'s GapSums, seed: u64) -> Self {
        let back = BlockPlace { at: new.len(), block: sums.sums.len() };
        let polynomial = SumPolynomial::new(seed, sums.block_len);
        let compared = Cell::new(0);
        Self { new, sums, polynomial, back, middle: None, table: None, compared }
    }

    /// The delta, and the number of comparisons.
    pub(super) fn into_delta(mut self) -> (GapDelta<'a>, u64) {
        let mut delta = GapDelta::default();
        let mut found = BlockPlace { at: 0, block: 0 };
        loop {
            let end = self.end_of_matching_run(found);
            delta.push_copy(self.old_bytes(found.block..end.block));
            match self.near(end).or_else(|| self.roll(end)) {
                Some(next) => {
                    delta.push_literal(&self.new[end.at..next.at]);
                    found = next;
                }
                None => {
                    delta.push_literal(&self.new[end.at..self.back.at]);
                    delta.push_copy(self.old_bytes(self.back.block..self.sums.sums.len()));
                    return (delta, self.compared.get());
                }
            }
        }
    }

    /// The byte range of these blocks in the old gap.
    fn old_bytes(&self, blocks: Range<usize>) -> Range<usize> {
        self.sums.start_of(blocks.start)..self.sums.start_of(blocks.end)
    }

    /// True if the block matches at this place, before `back`.
    fn block_matches(&self, place: BlockPlace) -> bool {
        let Some(sum) = self.sums.sums.get(place.block) else { return false };
        let end = place.at + self.sums.len_of(place.block);
        if end > self.back.at {
            return false;
        }
        self.count_comparisons(1);
        self.polynomial.sum(&self.new[place.at..end]) == *sum
    }

    fn count_comparisons(&self, compared: usize) {
        self.compared.set(self.compared.get() + compared as u64);
    }

    /// The place after the run of consecutive matching blocks that begins at `place`.
    fn end_of_matching_run(&self, mut place: BlockPlace) -> BlockPlace {
        let len = self.sums.block_len();
        // Most gaps end here: a plain loop over blocks of equal length, and the last block separately.
        let whole = place.block.min(self.whole_blocks())..self.whole_blocks();
        let blocks = self.new[place.at..self.back.at].chunks_exact(len).zip(&self.sums.sums[whole]);
        let is_equal = |(block, sum): &(&[u8], &u32)| self.polynomial.sum(block) == **sum;
        let matching = blocks.take_while(is_equal).count();
        self.count_comparisons(matching);
        place = BlockPlace { at: place.at + matching * len, block: place.block + matching };
        if self.block_matches(place) { self.place_after(place) } else { place }
    }

    /// Number of blocks of the full length.
    const fn whole_blocks(&self) -> usize {
        self.sums.old_len / self.sums.block_len()
    }

    /// The place after the block at `place`, which matches.
    fn place_after(&self, place: BlockPlace) -> BlockPlace {
        BlockPlace { at: place.at + self.sums.len_of(place.block), block: place.block + 1 }
    }

    /// The next match near `place`; the block at `place` itself does not match. Tries the next few blocks at
    /// the positions without a shift since `place`, then at the positions without a shift up to the end.
    fn near(&self, place: BlockPlace) -> Option<BlockPlace> {
        let blocks = || place.block..(place.block + NEAR).min(self.back.block);
        let to_end =
            |block| self.new.len().checked_sub(self.sums.old_len - self.sums.start_of(block));
        let ahead = |at: &usize| *at >= place.at;
        let unshifted = blocks().skip(1).map(|block| BlockPlace {
            at: place.at + (block - place.block) * self.sums.block_len(),
            block,
        });
        let shifted = blocks()
            .filter_map(|block| to_end(block).filter(ahead).map(|at| BlockPlace { at, block }));
        unshifted.chain(shifted).find(|place| self.block_matches(*place))
    }

    /// The first match after `place` that is followed by the next block.
    fn roll(&mut self, place: BlockPlace) -> Option<BlockPlace> {
        let middle = self.middle(place);
        let left = self.back.at - place.at;
        if middle.len() < WORTH || left < WORTH * self.sums.block_len() {
            return None;
        }
        let table = self.table.take();
        let mut table = table.unwrap_or_else(|| GapTable::new(&self.sums.sums, middle));
        let found = self.find(place.at, &mut table);
        self.table = Some(table);
        found
    }

    /// The blocks to search for by rolling sums. The first call determines `back`, searching no further back than
    /// `place`.
    fn middle(&mut self, place: BlockPlace) -> Range<usize> {
        if let Some(middle) = &self.middle {
            return middle.clone();
        }
        self.back = self.precede(place);
        // The blocks with a successor of the full length.
        let end = self.back.block.min(self.whole_blocks().saturating_sub(1));
        self.middle.insert(place.block..end).clone()
    }

    /// The start of the consecutive matches at the end of both gaps, not before `front`.
    fn precede(&self, front: BlockPlace) -> BlockPlace {
        let mut place = self.back;
        while place.block > front.block {
            let block = place.block - 1;
            let at = place.at.checked_sub(self.sums.len_of(block));
            match at.filter(|at| *at >= front.at).map(|at| BlockPlace { at, block }) {
                Some(before) if self.block_matches(before) => place = before,
                _ => break,
            }
        }
        place
    }

    /// The first block at or after byte `at` that is in the table and is followed by the next block.
    fn find(&self, mut at: usize, table: &mut GapTable) -> Option<BlockPlace> {
        let len = self.sums.block_len();
        let data = &self.new[..self.back.at];
        let mut windows = RollingSums::new(&self.polynomial, &data[at..], len);
        loop {
            let sums = windows.sums();
            if table.may_have_any(&sums) {
                let mut places = (at..).zip(sums);
                let found = places.find_map(|(at, sum)| self.confirmed(at, sum, table));
                if found.is_some() {
                    return found;
                }
            }
            // The loop ends with a few windows left. There is no room for another block after them.
            let out = data[at..].first_chunk::<REACH>()?;
            let incoming = data[at + len..].first_chunk::<REACH>()?;
            windows.roll(out, incoming);
            at += LANES;
        }
    }

    /// The block with this `sum`, if the next block follows.
    #[inline]
    fn confirmed(&self, at: usize, sum: u32, table: &mut GapTable) -> Option<BlockPlace> {
        if !table.may_have(sum) {
            return None;
        }
        let (slot, block) = table.find(sum, &self.sums.sums)?;
        self.count_comparisons(1);
        let found = BlockPlace { at, block };
        if self.block_matches(self.place_after(found)) {
            return Some(found);
        }
        if self.sums.block_len > BlockLen(BlockLen::MIN) {
            table.forget(slot);
        }
        None
    }
}

/// A hash table from sums to the first block with each sum.
///
/// The highest bits of a sum are its home slot. No other hash is needed, because the seed is secret until the
/// session.
struct GapTable {
    /// A flag for each prefix of a sum: nonzero if a block's sum has this prefix. Nearly no window passes.
    filter: Box<[u8; FILTER]>,
    /// [`EMPTY`], [`FORGOTTEN`], or the number of a block, counted from 1 in this table. The length is a power
    /// of two.
    slots: Vec<u16>,
    /// The first block in the table.
    first: usize,
    /// Right shift that turns a sum into a slot.
    shift: u32,
}

impl GapTable {
    fn new(sums: &[u32], blocks: Range<usize>) -> Self {
        let slots = (SLOTS_PER_BLOCK * blocks.len().max(1)).next_power_of_two();
        let mut table = Self {
            filter: Box::new([0; FILTER]),
            slots: vec![EMPTY; slots],
            first: blocks.start,
            shift: SUM_BITS - slots.trailing_zeros(),
        };
        for block in blocks {
            table.insert(block, sums);
        }
        table
    }

    /// Inserts a block. Drops the block if too many other sums share its home slot.
    fn insert(&mut self, block: usize, sums: &[u32]) {
        let sum = sums[block];
        let entry = (block - self.first + 1) as u16;
        let free = self.slots_to_probe(sum).find(|slot| self.is_free_or_has(*slot, sum, sums));
        if let Some(slot) = free.filter(|slot| self.slots[*slot] == EMPTY) {
            self.slots[slot] = entry;
            self.filter[filter_index(sum)] = 1;
        }
    }

    fn is_free_or_has(&self, slot: usize, sum: u32, sums: &[u32]) -> bool {
        let entry = self.slots[slot];
        entry == EMPTY || self.has(entry, sum, sums)
    }

    /// False only if the table has none of these sums; true proves nothing.
    #[inline(always)]
    fn may_have_any(&self, wanted: &[u32; LANES]) -> bool {
        let mut any = 0;
        for sum in wanted {
            any |= self.filter[filter_index(*sum)];
        }
        any != 0
    }

    /// False only if the table lacks this sum; true proves nothing.
    #[inline(always)]
    fn may_have(&self, wanted: u32) -> bool {
        self.filter[filter_index(wanted)] != 0
    }

    /// The slot and the number of the first block with this sum.
    fn find(&self, wanted: u32, sums: &[u32]) -> Option<(usize, usize)> {
        let slot =
            self.slots_to_probe(wanted).find(|slot| self.is_free_or_has(*slot, wanted, sums))?;
        let entry = self.slots[slot];
        if entry == EMPTY { None } else { Some((slot, self.block(entry))) }
    }

    /// Removes the block in this slot.
    fn forget(&mut self, slot: usize) {
        self.slots[slot] = FORGOTTEN;
    }

    fn slots_to_probe(&self, sum: u32) -> impl Iterator<Item = usize> + use<> {
        let (home, mask) = ((sum >> self.shift) as usize, self.slots.len() - 1);
        (home..home + PROBES).map(move |slot| slot & mask)
    }

    fn has(&self, entry: u16, wanted: u32, sums: &[u32]) -> bool {
        entry != FORGOTTEN && sums[self.block(entry)] == wanted
    }

    fn block(&self, entry: u16) -> usize {
        self.first + usize::from(entry) - 1
    }
}

/// Index in the filter for a sum.
#[inline(always)]
const fn filter_index(sum: u32) -> usize {
    (sum >> (SUM_BITS - FILTER.trailing_zeros())) as usize % FILTER
}

/// Size of the filter in bytes: half of the L1 cache.
const FILTER: usize = 1 << 14;
const EMPTY: u16 = 0;
const FORGOTTEN: u16 = u16::MAX;
/// Number of slots for each block, which keeps probe sequences short.
const SLOTS_PER_BLOCK: usize = 4;
/// Maximum number of slots to probe for one sum.
const PROBES: usize = 16;
/// Number of blocks that an edit of a few hundred bytes changes, plus one.
const NEAR: usize = 5;
/// Minimum number of blocks, old and new, for which rolling pays: an edit changes the blocks at both ends of
/// the middle, and two consecutive blocks must remain.
const WORTH: usize = 4;
