//! SkySync's hash table as published (SkySync §3.2.2), to compare with [`CuckooIndex`](super::CuckooIndex).
//!
//! ```text
//! l   = ⌈log2(sums / 4 / load)⌉                 2^l buckets of four entries (equation 5)
//! P1  = weak mod 2^l                            (equation 3)
//! P2  = P1 xor 2^(l - 1)                        (equation 4)
//! Entry1 = weak sum                             of the receiver of SkySync-C
//! Entry2 = weak and strong sum                  of the sender of SkySync-F
//! ```
//!
//! 1. P2 of P2 is P1, so two buckets are a closed pair: if both are full, no move of an entry makes room, and none
//!    is tried. The table doubles instead.
//! 2. The paper does not say what happens to equal weak sums with different strong sums, of which a pair holds
//!    eight at any size. Here the ninth goes to a list once the table has [`MOST_SLOTS_PER_ENTRY`] slots for each
//!    entry. A look-up walks the list, so this table is no index for the content of other people.

use super::FillLevel;
use crate::strong::StrongSum;

/// An entry of a [`PublishedTable`].
pub trait TableEntry: Copy {
    /// The weak sum, which selects the buckets.
    fn weak(&self) -> u32;
}

/// The weak sum of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry1 {
    /// CRC-32C of the chunk.
    pub weak: u32,
    /// Number of the chunk.
    pub chunk: u32,
}

/// The weak and the strong sum of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry2 {
    /// CRC-32C of the block.
    pub weak: u32,
    /// Number of the block.
    pub block: u32,
    /// Strong sum of the block.
    pub strong: StrongSum,
}

impl TableEntry for Entry1 {
    #[inline]
    fn weak(&self) -> u32 {
        self.weak
    }
}

impl TableEntry for Entry2 {
    #[inline]
    fn weak(&self) -> u32 {
        self.weak
    }
}

/// A table of [`Entry1`] or [`Entry2`].
#[derive(Clone, Debug)]
pub struct PublishedTable<E> {
    /// The length is a power of two, at least 2.
    buckets: Vec<[Option<E>; WAYS]>,
    taken: usize,
    overflow: Vec<E>,
    doublings: u32,
}

impl<E: TableEntry> PublishedTable<E> {
    /// An empty table with room for `sums` entries at a load of `percent` (equation 5).
    ///
    /// # Panics
    /// If `percent` is 0.
    #[must_use]
    pub fn with_load(sums: usize, percent: usize) -> Self {
        let buckets = (sums * 100).div_ceil(WAYS * percent).next_power_of_two().max(2);
        Self { buckets: vec![[None; WAYS]; buckets], taken: 0, overflow: Vec::new(), doublings: 0 }
    }

    /// Inserts `entry`. Doubles the table if both buckets of the entry are full.
    pub fn insert(&mut self, entry: E) {
        while !self.place(entry) {
            if self.buckets.len() * WAYS >= MOST_SLOTS_PER_ENTRY * self.taken {
                self.overflow.push(entry);
                return;
            }
            self.double();
        }
    }

    /// The entries with this weak sum, in no order.
    #[inline]
    pub fn matching(&self, weak: u32) -> impl Iterator<Item = &E> {
        let in_buckets =
            self.places(weak).into_iter().flat_map(|at| self.buckets[at].iter().flatten());
        in_buckets.chain(&self.overflow).filter(move |entry| entry.weak() == weak)
    }

    /// Fill level of the table; equal sums count one by one.
    #[must_use]
    pub fn fill_level(&self) -> FillLevel {
        let slots = self.buckets.len() * WAYS;
        FillLevel { taken: self.taken, slots, overflow: self.overflow.len() }
    }

    /// Number of times that the table doubled because a pair of buckets was full.
    #[must_use]
    pub const fn doublings(&self) -> u32 {
        self.doublings
    }

    #[inline]
    fn places(&self, weak: u32) -> [usize; 2] {
        let first = weak as usize & (self.buckets.len() - 1);
        [first, first ^ (self.buckets.len() / 2)]
    }

    fn place(&mut self, entry: E) -> bool {
        for at in self.places(entry.weak()) {
            if let Some(slot) = self.buckets[at].iter_mut().find(|slot| slot.is_none()) {
                *slot = Some(entry);
                self.taken += 1;
                return true;
            }
        }
        false
    }

    /// Doubles the table. Each entry fits: a pair of buckets becomes two pairs.
    fn double(&mut self) {
        let wider = vec![[None; WAYS]; self.buckets.len() * 2];
        let old = std::mem::replace(&mut self.buckets, wider);
        (self.taken, self.doublings) = (0, self.doublings + 1);
        for entry in old.into_iter().flatten().flatten() {
            let is_placed = self.place(entry);
            debug_assert!(is_placed, "the entries of a pair of buckets fit into two pairs");
        }
    }
}

/// Number of entries of a bucket.
const WAYS: usize = 4;
/// The table doubles while it has fewer slots than this for each entry.
const MOST_SLOTS_PER_ENTRY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_5_sizes_the_table() {
        let slots =
            |sums, percent| PublishedTable::<Entry1>::with_load(sums, percent).fill_level().slots;
        let table =
            [(0, 85, 8), (8, 100, 8), (8, 85, 16), (13_000, 85, 16_384), (14_000, 85, 32_768)];
        for (sums, percent, wanted) in table {
            assert_eq!(slots(sums, percent), wanted, "{sums} at {percent} %");
        }
    }

    #[test]
    fn a_ninth_equal_sum_goes_to_the_list() {
        let mut table = PublishedTable::with_load(8, 100);
        for chunk in 0..9 {
            table.insert(Entry1 { weak: 7, chunk });
        }
        assert_eq!(table.fill_level(), FillLevel { taken: 8, slots: 128, overflow: 1 });
        assert_eq!((table.doublings(), table.matching(7).count()), (4, 9));
        assert_eq!(table.matching(8).count(), 0);
    }
}
