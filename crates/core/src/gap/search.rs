//! How the sender finds old blocks in the new gap.
//!
//! ```text
//! front    blocks in their order from the start of new, while their sums hold
//! back     blocks in their order from the end of new backwards, as far as the front
//! middle   from where blocks stop:  1. one of the next few blocks where it would lie if nothing had shifted;
//!                                   2. else roll, to the first window that is a block of the middle and has the
//!                                      block after it right behind;
//!                                   go on in order from there; what was passed is literal
//! ```
//!
//! 1. An edit leaves front and back alone, so the middle of a gap with one edit is the blocks that it touched. Nothing is
//!    to be found there, and nothing rolls.
//! 2. An overwrite shifts nothing: with the first step its end is found without rolling.
//! 3. In a gap of some hundred blocks, thousands of windows are compared with all of them: there, and only there, one
//!    equal sum is too likely to mean nothing. Two in a row are not.
//! 4. A block whose next one does not follow where it was found is not looked for again. In a long run of one byte it would be
//!    found at every position, and each time cost the sum of a block. So the work is bounded: a few steps for each byte
//!    of new, and two sums for each block of old.
//! 5. Of equal blocks only the first is looked for.

use std::ops::Range;

use super::GapSums;
use super::delta::GapDelta;
use super::sum::{LANES, REACH, Rolling, SUM_BITS};

/// A position in new, and the old block that may lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// In bytes.
    at: usize,
    /// Its number; that of all blocks at the end of old.
    block: usize,
}

/// One gap under search.
pub(super) struct Search<'a, 's> {
    new: &'a [u8],
    sums: &'s GapSums,
    /// Behind what matched from the start.
    front: Place,
    /// Where what matches up to the end begins.
    back: Place,
}

impl<'a, 's> Search<'a, 's> {
    /// Finds front and back.
    pub(super) fn new(new: &'a [u8], sums: &'s GapSums) -> Self {
        let start = Place { at: 0, block: 0 };
        let end = Place { at: new.len(), block: sums.sums.len() };
        let mut search = Self { new, sums, front: start, back: end };
        search.front = search.follow(start);
        search.back = search.precede(end);
        search
    }

    /// Finds the rest.
    pub(super) fn delta(self) -> GapDelta<'a> {
        let mut delta = GapDelta::default();
        self.push_blocks(&mut delta, 0, self.front);
        let mut place = self.front;
        let mut table = None;
        while let Some(found) = self.unshifted(place).or_else(|| self.roll(place, &mut table)) {
            delta.push_literal(&self.new[place.at..found.at]);
            place = self.follow(found);
            self.push_blocks(&mut delta, found.block, place);
        }
        delta.push_literal(&self.new[place.at..self.back.at]);
        let end = Place { at: self.new.len(), block: self.sums.sums.len() };
        self.push_blocks(&mut delta, self.back.block, end);
        delta
    }

    /// Appends the blocks from number `first` up to `end`.
    fn push_blocks(&self, delta: &mut GapDelta<'a>, first: usize, end: Place) {
        let start = self.sums.start_of(first);
        delta.push_copy(start, self.sums.start_of(end.block) - start);
    }

    /// Whether the block is where it may lie, in front of the back.
    fn matches(&self, place: Place) -> bool {
        let Some(sum) = self.sums.sums.get(place.block) else { return false };
        let end = place.at + self.sums.len_of(place.block);
        end <= self.back.at && self.sums.polynomial.sum(&self.new[place.at..end]) == *sum
    }

    /// Behind the blocks that match in a row.
    fn follow(&self, mut place: Place) -> Place {
        while self.matches(place) {
            place = self.behind(place);
        }
        place
    }

    /// Behind the block, which is one.
    fn behind(&self, place: Place) -> Place {
        Place { at: place.at + self.sums.len_of(place.block), block: place.block + 1 }
    }

    /// In front of the blocks that match in a row before `place`, down to the front.
    fn precede(&self, mut place: Place) -> Place {
        while place.block > self.front.block {
            let block = place.block - 1;
            let at = place.at.checked_sub(self.sums.len_of(block));
            match at.filter(|at| *at >= self.front.at).map(|at| Place { at, block }) {
                Some(before) if self.matches(before) => place = before,
                _ => break,
            }
        }
        place
    }

    /// The next block that matches where it lay, seen from `place`, which does not.
    fn unshifted(&self, place: Place) -> Option<Place> {
        let step = |n| Place { at: place.at + n * self.sums.block_len, block: place.block + n };
        let in_middle = |place: &Place| place.block < self.back.block;
        (1..=UNSHIFTED).map(step).take_while(in_middle).find(|place| self.matches(*place))
    }

    /// The first block that is somewhere behind `place` and has the next one behind it.
    fn roll(&self, place: Place, table: &mut Option<Table>) -> Option<Place> {
        let worth = WORTH * self.sums.block_len;
        if self.back.block - self.front.block < WORTH || self.back.at - place.at < worth {
            return None;
        }
        let table = table.get_or_insert_with(|| Table::new(&self.sums.sums, self.rolled_for()));
        let len = self.sums.block_len;
        let data = &self.new[..self.back.at];
        let mut at = place.at;
        let mut windows = Rolling::new(&self.sums.polynomial, &data[at..], len);
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

    /// The blocks of the middle that have a next one, and one as long.
    fn rolled_for(&self) -> Range<usize> {
        let whole = self.sums.old_len / self.sums.block_len;
        self.front.block..self.back.block.min(whole.saturating_sub(1))
    }

    /// The block with this `sum`, if the next one is behind it.
    fn confirmed(&self, at: usize, sum: u32, table: &mut Table) -> Option<Place> {
        let (slot, block) = table.find(sum, &self.sums.sums)?;
        let found = Place { at, block };
        if self.matches(self.behind(found)) {
            return Some(found);
        }
        table.forget(slot);
        None
    }
}

/// From sums to the first block that has each: one slot is looked at for nearly every window.
struct Table {
    /// [`EMPTY`], [`FORGOTTEN`], or a block's number among those in the table, from 1; as many as a power of two.
    slots: Vec<u16>,
    /// Number of the first block in the table.
    first: usize,
    /// What turns a sum into the number of a slot: its highest bits, which need no hash, since the seed is secret.
    shift: u32,
}

impl Table {
    fn new(sums: &[u32], blocks: Range<usize>) -> Self {
        let slots = (blocks.len().max(1) * SLOTS_PER_BLOCK).next_power_of_two();
        let shift = SUM_BITS - slots.trailing_zeros();
        let mut table = Self { slots: vec![EMPTY; slots], first: blocks.start, shift };
        for block in blocks {
            table.insert(block, sums);
        }
        table
    }

    /// Where too many other sums begin with the same bits the block is left out.
    fn insert(&mut self, block: usize, sums: &[u32]) {
        let fits = |slot: &usize| {
            let entry = self.slots[*slot];
            entry == EMPTY || self.holds(entry, sums[block], sums)
        };
        if let Some(slot) = self.probes(sums[block]).find(fits)
            && self.slots[slot] == EMPTY
        {
            self.slots[slot] = (block - self.first + 1) as u16;
        }
    }

    /// Whether one of `wanted` may be in the table. It most often says no.
    #[inline(always)]
    fn may_have_any(&self, wanted: &[u32; LANES]) -> bool {
        let mask = self.slots.len() - 1;
        let entries = wanted.map(|sum| self.slots[(sum >> self.shift) as usize & mask]);
        entries.iter().fold(0, |any, entry| any | entry) != EMPTY
    }

    /// The slot and the number of the first block with this sum.
    fn find(&self, wanted: u32, sums: &[u32]) -> Option<(usize, usize)> {
        let mut slots = self.probes(wanted).take_while(|slot| self.slots[*slot] != EMPTY);
        let slot = slots.find(|slot| self.holds(self.slots[*slot], wanted, sums))?;
        Some((slot, self.block(self.slots[slot])))
    }

    /// Finds this block no more.
    fn forget(&mut self, slot: usize) {
        self.slots[slot] = FORGOTTEN;
    }

    fn probes(&self, sum: u32) -> impl Iterator<Item = usize> + use<> {
        let (home, mask) = ((sum >> self.shift) as usize, self.slots.len() - 1);
        (home..home + PROBES).map(move |slot| slot & mask)
    }

    fn holds(&self, entry: u16, wanted: u32, sums: &[u32]) -> bool {
        entry != FORGOTTEN && sums[self.block(entry)] == wanted
    }

    fn block(&self, entry: u16) -> usize {
        self.first + usize::from(entry) - 1
    }
}

const EMPTY: u16 = 0;
const FORGOTTEN: u16 = u16::MAX;
/// So that few windows meet a slot that is taken.
const SLOTS_PER_BLOCK: usize = 16;
/// Slots looked at for one sum, at most.
const PROBES: usize = 8;
/// Blocks that an overwrite may touch for its end to be found without rolling.
const UNSHIFTED: usize = 4;
/// Blocks, of old and of new, from which on it is worth rolling: an edit touches those at both ends of the middle, and
/// two in a row must be left.
const WORTH: usize = 4;
