//! A hash table of numbers, which stand for keys that are kept elsewhere: four bytes a slot.
//!
//! The standard map would hold every key a second time. Open addressing with linear probing. Keys begin fingerprints,
//! which are evenly spread but where somebody aims; the hash is a product with a random number, so that nobody can
//! choose content that falls into one slot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// From keys to the first number that was inserted for each.
#[derive(Debug)]
pub(super) struct Table {
    /// [`EMPTY`] or a number; as many as a power of two, or none.
    slots: Vec<u32>,
    used: usize,
    /// Random and odd.
    factor: u64,
}

impl Default for Table {
    fn default() -> Self {
        // The standard library's hasher is keyed with random bytes.
        let random = RandomState::new().build_hasher().finish();
        Self { slots: Vec::new(), used: 0, factor: random | 1 }
    }
}

impl Table {
    /// Makes room for `count` numbers in all. `key` gives the key of any inserted one.
    pub(super) fn expect(&mut self, count: usize, key: impl Fn(u32) -> u64) {
        let slots = (count / 3 * 4 + FIRST_SLOTS).next_power_of_two();
        if slots > self.slots.len() {
            self.grow(slots, key);
        }
    }

    /// Inserts `number` unless its key is there. `key` gives the key of any inserted number, and of this one.
    pub(super) fn insert(&mut self, number: u32, key: impl Fn(u32) -> u64) {
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow((self.slots.len() * 2).max(FIRST_SLOTS), &key);
        }
        let slot = self.slot(key(number), &key);
        if self.slots[slot] == EMPTY {
            self.slots[slot] = number;
            self.used += 1;
        }
    }

    /// The number that was inserted for `wanted`.
    pub(super) fn find(&self, wanted: u64, key: impl Fn(u32) -> u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        Some(self.slots[self.slot(wanted, key)]).filter(|number| *number != EMPTY)
    }

    /// The slot that holds `wanted`, or else the one where it belongs.
    fn slot(&self, wanted: u64, key: impl Fn(u32) -> u64) -> usize {
        let mask = self.slots.len() - 1;
        let product = wanted.wrapping_mul(self.factor);
        // The highest bits depend on all of the key.
        let mut slot = (product >> 32) as usize & mask;
        while self.slots[slot] != EMPTY && key(self.slots[slot]) != wanted {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self, slots: usize, key: impl Fn(u32) -> u64) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for number in old.into_iter().filter(|number| *number != EMPTY) {
            let slot = self.slot(key(number), &key);
            self.slots[slot] = number;
        }
    }
}

const EMPTY: u32 = u32::MAX;
const FIRST_SLOTS: usize = 64;
