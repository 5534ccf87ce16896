//! A hash table of `u32` numbers with keys that are stored elsewhere: four bytes a slot.
//!
//! The standard map would store every key a second time. The table uses open addressing with linear probing.
//! Keys are prefixes of fingerprints, which are evenly distributed unless an attacker chooses content. The hash
//! multiplies by a random number, so nobody can choose content whose keys share a slot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A map from keys to the first number that was inserted for each key.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// [`EMPTY`] or a number. The length is zero or a power of two.
    slots: Vec<u32>,
    used: usize,
    /// Random odd factor of the hash.
    factor: u64,
}

impl Default for KeyTable {
    fn default() -> Self {
        // The standard library's hasher is keyed with random bytes.
        let random = RandomState::new().build_hasher().finish();
        Self { slots: Vec::new(), used: 0, factor: random | 1 }
    }
}

impl KeyTable {
    /// Reserves slots for `count` numbers in all. `key` returns the key of an inserted number.
    pub(super) fn reserve(&mut self, count: usize, key: impl Fn(u32) -> u64) {
        let slots = (count / 3 * 4 + FIRST_SLOTS).next_power_of_two();
        if slots > self.slots.len() {
            self.grow(slots, key);
        }
    }

    /// Inserts `number` unless the table has its key. `key` returns the key of `number` or of an inserted
    /// number.
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

    /// The number that was inserted for the key `wanted`.
    pub(super) fn find(&self, wanted: u64, key: impl Fn(u32) -> u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        Some(self.slots[self.slot(wanted, key)]).filter(|number| *number != EMPTY)
    }

    /// The slot with the key `wanted`, or the free slot where the key belongs.
    fn slot(&self, wanted: u64, key: impl Fn(u32) -> u64) -> usize {
        let mask = self.slots.len() - 1;
        let product = wanted.wrapping_mul(self.factor);
        // The highest bits of the product depend on the whole key.
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
