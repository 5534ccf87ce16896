//! The sender's search for old blocks in the new gap.
//!
//! ```text
//! in order   blocks one behind the other, while their sums hold: first from the start of both gaps
//! near       where they end, one of the next few blocks where it would lie if nothing had shifted since, or if nothing
//!            shifts from there to the end: go on in order from there
//! back       else, once: blocks in order from the end of both gaps backwards
//! roll       and then, between the two, to the first window that is a block and has the next block right behind: go on
//!            in order from there
//! ```
//!
//! Bytes that were passed are literal, and so is what is left when nothing is found.
//!
//! 1. One edit, and any number of overwrites, need the first two steps only: each byte is summed once, forwards, as
//!    memory is read fastest.
//! 2. Rolled windows are compared with all blocks of the middle, thousands with hundreds: there, and only there, one
//!    equal sum is too likely to mean nothing. Two in a row are not.
//! 3. A block whose next one did not follow is not looked for again. In a long run of one byte it would be found at
//!    each position, and each time cost the sum of a block. So the work is bounded: a few steps for each byte of new,
//!    and two sums for each block of old. The shortest blocks are looked for again: their sums are so short that most
//!    of them would be forgotten by chance, and what one costs is as much as a byte of new may.
//! 4. Of equal blocks only the first is looked for.

use std::cell::Cell;
use std::ops::Range;

use super::delta::GapDelta;
use super::sum::{LANES, Polynomial, REACH, Rolling, SUM_BITS};
use super::{BlockLen, GapSums, MAX_GAP_BYTES};

impl<'a> GapDelta<'a> {
    /// The new gap as what the old gap with these `sums`, of the session's `seed`, has of it, and the rest.
    ///
    /// The delta from old to `new`. Where sums are equal by chance it makes other bytes: whoever applies it must check.
    ///
    /// # Panics
    /// If `new` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn of(new: &'a [u8], sums: &GapSums, seed: u64) -> Self {
        Self::counted(new, sums, seed).0
    }

    /// The same, and how many sums of new were compared with one of `sums`.
    ///
    /// # Panics
    /// If `new` is longer than [`MAX_GAP_BYTES`].
    #[must_use]
    pub fn counted(new: &'a [u8], sums: &GapSums, seed: u64) -> (Self, u64) {
        assert!(new.len() <= MAX_GAP_BYTES, "gaps have a bound");
        Search::new(new, sums, seed).delta()
    }
}

/// A position in new, and the old block that may lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Offset in bytes.
    at: usize,
    /// Its number; that of all blocks at the end of old.
    block: usize,
}

/// A gap under search.
pub(super) struct Search<'a, 's> {
    new: &'a [u8],
    sums: &'s GapSums,
    polynomial: Polynomial,
    /// Start of what matches up to the end, as far as that is known. Nothing is looked for from there on.
    back: Place,
    /// The blocks between the two; known when the back is.
    middle: Option<Range<usize>>,
    table: Option<Table>,
    /// Sums of windows that were compared with a block's. What the filter rules out is not.
    compared: Cell<u64>,
}

impl<'a, 's> Search<'a, 's> {
    /// A search that knows nothing yet.
    pub(super) fn new(new: &'a [u8], sums: &'s GapSums, seed: u64) -> Self {
        let back = Place { at: new.len(), block: sums.sums.len() };
        let polynomial = Polynomial::new(seed, sums.block_len);
        let compared = Cell::new(0);
        Self { new, sums, polynomial, back, middle: None, table: None, compared }
    }

    /// The delta, and how many sums were compared for it.
    pub(super) fn delta(mut self) -> (GapDelta<'a>, u64) {
        let mut delta = GapDelta::default();
        let mut found = Place { at: 0, block: 0 };
        loop {
            let end = self.follow(found);
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

    /// Place of these blocks in old.
    fn old_bytes(&self, blocks: Range<usize>) -> Range<usize> {
        self.sums.start_of(blocks.start)..self.sums.start_of(blocks.end)
    }

    /// True if the block is where it may lie, in front of the back.
    fn matches(&self, place: Place) -> bool {
        let Some(sum) = self.sums.sums.get(place.block) else { return false };
        let end = place.at + self.sums.len_of(place.block);
        if end > self.back.at {
            return false;
        }
        self.count(1);
        self.polynomial.sum(&self.new[place.at..end]) == *sum
    }

    fn count(&self, compared: usize) {
        self.compared.set(self.compared.get() + compared as u64);
    }

    /// Behind the blocks that match in a row.
    fn follow(&self, mut place: Place) -> Place {
        let len = self.sums.block_len();
        // Nearly all of most gaps passes here: a plain loop over equal blocks, and the last one on its own.
        let whole = place.block.min(self.whole_blocks())..self.whole_blocks();
        let blocks = self.new[place.at..self.back.at].chunks_exact(len).zip(&self.sums.sums[whole]);
        let is_equal = |(block, sum): &(&[u8], &u32)| self.polynomial.sum(block) == **sum;
        let matching = blocks.take_while(is_equal).count();
        self.count(matching);
        place = Place { at: place.at + matching * len, block: place.block + matching };
        if self.matches(place) { self.behind(place) } else { place }
    }

    /// Number of blocks that are not shorter than the others.
    const fn whole_blocks(&self) -> usize {
        self.sums.old_len / self.sums.block_len()
    }

    /// Behind the block, which is one.
    fn behind(&self, place: Place) -> Place {
        Place { at: place.at + self.sums.len_of(place.block), block: place.block + 1 }
    }

    /// The next of a few blocks that matches where it lies if nothing shifted since `place`, which does not match, or
    /// else if nothing shifts up to the end.
    fn near(&self, place: Place) -> Option<Place> {
        let blocks = || place.block..(place.block + NEAR).min(self.back.block);
        let to_end =
            |block| self.new.len().checked_sub(self.sums.old_len - self.sums.start_of(block));
        let ahead = |at: &usize| *at >= place.at;
        let unshifted = blocks().skip(1).map(|block| Place {
            at: place.at + (block - place.block) * self.sums.block_len(),
            block,
        });
        let shifted =
            blocks().filter_map(|block| to_end(block).filter(ahead).map(|at| Place { at, block }));
        unshifted.chain(shifted).find(|place| self.matches(*place))
    }

    /// The first block that is somewhere behind `place` and has the next one behind it.
    fn roll(&mut self, place: Place) -> Option<Place> {
        let middle = self.middle(place);
        let left = self.back.at - place.at;
        if middle.len() < WORTH || left < WORTH * self.sums.block_len() {
            return None;
        }
        let table = self.table.take();
        let mut table = table.unwrap_or_else(|| Table::new(&self.sums.sums, middle));
        let found = self.find(place.at, &mut table);
        self.table = Some(table);
        found
    }

    /// The blocks to roll for, once the back is found; it is looked for no further than to `place`.
    fn middle(&mut self, place: Place) -> Range<usize> {
        if let Some(middle) = &self.middle {
            return middle.clone();
        }
        self.back = self.precede(place);
        // Those that have a next one, and one as long.
        let end = self.back.block.min(self.whole_blocks().saturating_sub(1));
        self.middle.insert(place.block..end).clone()
    }

    /// The place in front of the blocks that match in a row up to the end, but not before `front`.
    fn precede(&self, front: Place) -> Place {
        let mut place = self.back;
        while place.block > front.block {
            let block = place.block - 1;
            let at = place.at.checked_sub(self.sums.len_of(block));
            match at.filter(|at| *at >= front.at).map(|at| Place { at, block }) {
                Some(before) if self.matches(before) => place = before,
                _ => break,
            }
        }
        place
    }

    /// The first block from byte `at` on that is in the table and has the next one behind it.
    fn find(&self, mut at: usize, table: &mut Table) -> Option<Place> {
        let len = self.sums.block_len();
        let data = &self.new[..self.back.at];
        let mut windows = Rolling::new(&self.polynomial, &data[at..], len);
        loop {
            let sums = windows.sums();
            if table.may_have_any(&sums) {
                let mut places = (at..).zip(sums);
                let found = places.find_map(|(at, sum)| self.confirmed(at, sum, table));
                if found.is_some() {
                    return found;
                }
            }
            // Where this ends, a few windows are left: behind those is no room for another block.
            let out = data[at..].first_chunk::<REACH>()?;
            let incoming = data[at + len..].first_chunk::<REACH>()?;
            windows.roll(out, incoming);
            at += LANES;
        }
    }

    /// The block with this `sum`, if the next one is behind it.
    #[inline]
    fn confirmed(&self, at: usize, sum: u32, table: &mut Table) -> Option<Place> {
        if !table.may_have(sum) {
            return None;
        }
        let (slot, block) = table.find(sum, &self.sums.sums)?;
        self.count(1);
        let found = Place { at, block };
        if self.matches(self.behind(found)) {
            return Some(found);
        }
        if self.sums.block_len > BlockLen(BlockLen::MIN) {
            table.forget(slot);
        }
        None
    }
}

/// From sums to the first block that has each.
///
/// A sum finds its place by its highest bits: they need no other hash, since nobody knows the seed beforehand.
struct Table {
    /// Flags by the first bits of sums: true if a block's sum begins with them. Nearly every window's does not.
    filter: Box<[u8; FILTER]>,
    /// [`EMPTY`], [`FORGOTTEN`], or a block's number among those in the table, from 1; as many as a power of two.
    slots: Vec<u16>,
    /// Number of the first block in the table.
    first: usize,
    /// Bits that the number of a slot leaves out.
    shift: u32,
}

impl Table {
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

    /// Adds a block, unless too many other sums begin with the same bits.
    fn insert(&mut self, block: usize, sums: &[u32]) {
        let sum = sums[block];
        let entry = (block - self.first + 1) as u16;
        let free = self.probes(sum).find(|slot| self.is_free_or_has(*slot, sum, sums));
        if let Some(slot) = free.filter(|slot| self.slots[*slot] == EMPTY) {
            self.slots[slot] = entry;
            self.filter[filtered(sum)] = 1;
        }
    }

    fn is_free_or_has(&self, slot: usize, sum: u32, sums: &[u32]) -> bool {
        let entry = self.slots[slot];
        entry == EMPTY || self.has(entry, sum, sums)
    }

    /// True if any of these sums may be in the table.
    #[inline(always)]
    fn may_have_any(&self, wanted: &[u32; LANES]) -> bool {
        let mut any = 0;
        for sum in wanted {
            any |= self.filter[filtered(*sum)];
        }
        any != 0
    }

    /// True if this sum may be in the table.
    #[inline(always)]
    fn may_have(&self, wanted: u32) -> bool {
        self.filter[filtered(wanted)] != 0
    }

    /// The slot and the number of the first block with this sum.
    fn find(&self, wanted: u32, sums: &[u32]) -> Option<(usize, usize)> {
        let slot = self.probes(wanted).find(|slot| self.is_free_or_has(*slot, wanted, sums))?;
        let entry = self.slots[slot];
        if entry == EMPTY { None } else { Some((slot, self.block(entry))) }
    }

    /// Finds this block no more.
    fn forget(&mut self, slot: usize) {
        self.slots[slot] = FORGOTTEN;
    }

    fn probes(&self, sum: u32) -> impl Iterator<Item = usize> + use<> {
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

/// Slot of the filter for a sum.
#[inline(always)]
const fn filtered(sum: u32) -> usize {
    (sum >> (SUM_BITS - FILTER.trailing_zeros())) as usize % FILTER
}

/// Bytes of the filter: half of the nearest cache.
const FILTER: usize = 1 << 14;
const EMPTY: u16 = 0;
const FORGOTTEN: u16 = u16::MAX;
/// Slots for each block, so that probing ends soon.
const SLOTS_PER_BLOCK: usize = 4;
/// Slots looked at for one sum, at most.
const PROBES: usize = 16;
/// Blocks that an edit of a few hundred bytes touches, and one more.
const NEAR: usize = 5;
/// Blocks, of old and of new, from which on it is worth rolling: an edit touches those at both ends of the middle, and
/// two in a row must be left.
const WORTH: usize = 4;
