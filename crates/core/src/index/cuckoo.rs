//! A cuckoo hash table from weak sums to chunks: SkySync's flat index (SkySync §3.2.2).
//!
//! A sum is evenly distributed already, so bits of the sum itself select two buckets of four entries. There is
//! no further hash. A look-up touches at most two places of one array. If both buckets are full, an entry is
//! moved to its other bucket, until a bucket has room.
//!
//! Three differences from the paper:
//!
//! 1. **The second bucket.** The paper flips the highest bit of the first bucket's number (equation 4). Then
//!    pairs of buckets exchange entries only with each other: a moved entry comes back at once, and a pair
//!    never holds a ninth sum. Here the *other end* of the sum selects the second bucket, so that a chain of
//!    moves can reach any bucket.
//! 2. **Equal sums** share one entry, followed by a list of their chunks in order. So a repeated sum fills no
//!    bucket and moves no entry (ParaSync §3.2 reports one sum with 120,000 chunks).
//! 3. **Forged sums**, which are different but select the same two buckets, go to a search tree once the limit
//!    of moves is reached. The table grows only if half of its slots are taken: a few forged sums cannot make
//!    the table large.
//!
//! `cargo run --release -p deltic-core --example cuckoo` prints the fraction of taken slots when the first of
//! random 32-bit sums finds no slot (minimum and median of nine runs; SkySync §3.2.2 claims 0.85 to 0.91):
//!
//! | slots | other end of the sum (ours) | highest bit flipped (paper) |
//! |---|---|---|
//! | 256 | 0.953, 0.977 | 0.496, 0.531 |
//! | 4,096 | 0.943, 0.949 | 0.284, 0.334 |
//! | 65,536 | 0.931, 0.939 | 0.133, 0.227 |
//! | 1,048,576 | 0.921, 0.931 | 0.114, 0.161 |
//!
//! It also prints nanoseconds per sum for 943,718 sums. The standard map is measured with SipHash, and with the
//! sum itself as hash, which is safe only if nobody can choose sums:
//!
//! | | cuckoo | map, SipHash | map, no hash |
//! |---|---|---|---|
//! | build | 37 | 29 | 16 |
//! | find | 17 | 59 | 18 |
//! | find none | 10 | 18 | 8 |

use std::collections::BTreeMap;
use std::fmt;

use super::{ChunkNo, MAX_BUDGET};

/// A weak sum as an unsigned integer of 32 or 64 bits.
pub trait SumBits: Copy + Default + Ord + fmt::Debug + sealed::Sealed {
    /// The lowest `bits`, from 1 to 32.
    fn low_bits(self, bits: u32) -> usize;
    /// The highest `bits`, from 1 to 32.
    fn high_bits(self, bits: u32) -> usize;
}

/// Implements [`SumBits`] for integer types.
macro_rules! sum_bits {
    ($($int:ty),+) => {
        $(impl SumBits for $int {
            #[inline]
            fn low_bits(self, bits: u32) -> usize {
                (self & (<$int>::MAX >> (<$int>::BITS - bits))) as usize
            }

            #[inline]
            fn high_bits(self, bits: u32) -> usize {
                (self >> (<$int>::BITS - bits)) as usize
            }
        }

        impl sealed::Sealed for $int {})+
    };
}

sum_bits!(u32, u64);

mod sealed {
    pub trait Sealed {}
}

/// Index of the chunks of a version by weak sum. A match proves nothing.
#[derive(Clone, Debug)]
pub struct CuckooIndex<S> {
    budget: usize,
    dropped: u64,
    buckets: Vec<CuckooBucket<S>>,
    /// Number of different sums in `buckets`.
    taken: usize,
    /// Sums without a slot, each with its last chunk.
    overflow: BTreeMap<S, u32>,
    /// For each chunk, the next chunk with the same sum; for the last one, the first.
    next: Vec<u32>,
    random: u32,
}

/// [`WAYS`] slots, each with a sum and the last chunk with this sum.
#[derive(Clone, Copy, Debug)]
struct CuckooBucket<S> {
    sums: [S; WAYS],
    /// [`EMPTY`] in a free slot.
    lasts: [u32; WAYS],
}

/// A sum, with the last chunk that has this sum.
#[derive(Clone, Copy)]
struct SumEntry<S> {
    sum: S,
    last: u32,
}

impl<S: SumBits> CuckooBucket<S> {
    fn empty() -> Self {
        Self { sums: [S::default(); WAYS], lasts: [EMPTY; WAYS] }
    }

    #[inline]
    fn slot_of(&self, sum: S) -> Option<usize> {
        (0..WAYS).find(|way| self.sums[*way] == sum && self.lasts[*way] != EMPTY)
    }

    /// Inserts `entry`. Returns false if the bucket is full.
    #[inline]
    fn insert(&mut self, entry: SumEntry<S>) -> bool {
        let free = self.lasts.iter().position(|last| *last == EMPTY);
        if let Some(way) = free {
            (self.sums[way], self.lasts[way]) = (entry.sum, entry.last);
        }
        free.is_some()
    }

    fn swap_entry(&mut self, way: usize, entry: SumEntry<S>) -> SumEntry<S> {
        let out = SumEntry { sum: self.sums[way], last: self.lasts[way] };
        (self.sums[way], self.lasts[way]) = (entry.sum, entry.last);
        out
    }

    fn entries(&self) -> impl Iterator<Item = SumEntry<S>> {
        let all = self.sums.into_iter().zip(self.lasts);
        all.map(|(sum, last)| SumEntry { sum, last }).filter(|entry| entry.last != EMPTY)
    }
}

impl<S: SumBits> CuckooIndex<S> {
    /// An empty index of at most `budget` chunks. The table grows on demand.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self::with_room(budget, 0)
    }

    /// As [`CuckooIndex::new`], with memory for `sums` different sums (SkySync, equation 5), at most `budget`.
    #[must_use]
    pub fn with_room(budget: usize, sums: usize) -> Self {
        let budget = budget.min(MAX_BUDGET);
        let sums = sums.min(budget);
        let slots = sums + sums.div_ceil(FULL_FOR_A_SPARE);
        Self {
            budget,
            dropped: 0,
            buckets: vec![CuckooBucket::empty(); buckets_for(slots)],
            taken: 0,
            overflow: BTreeMap::new(),
            next: Vec::new(),
            random: 0,
        }
    }

    /// Adds the next chunk, which has this `sum`. Chunks are numbered from 0. Beyond the budget, chunks are
    /// counted but not stored.
    pub fn push(&mut self, sum: S) {
        if self.next.len() == self.budget {
            self.dropped += 1;
            return;
        }
        let chunk = self.next.len() as u32;
        if let Some(last) = self.last_of(sum) {
            let before = std::mem::replace(last, chunk) as usize;
            let first = std::mem::replace(&mut self.next[before], chunk);
            self.next.push(first);
        } else {
            self.next.push(chunk);
            self.add_new(SumEntry { sum, last: chunk });
        }
    }

    /// The chunks with `sum`, in order. Each returned chunk decrements `budget`; at 0 no more chunks are
    /// returned. A caller uses one budget for many sums, which bounds the number of candidates for any content.
    pub fn candidates<'a>(
        &'a self,
        sum: S,
        budget: &'a mut usize,
    ) -> impl Iterator<Item = ChunkNo> + 'a {
        let last = self.find_last(sum);
        let mut to_come = last.map(|last| self.next[last as usize]);
        std::iter::from_fn(move || {
            let chunk = to_come?;
            *budget = budget.checked_sub(1)?;
            to_come = (Some(chunk) != last).then(|| self.next[chunk as usize]);
            Some(ChunkNo(chunk))
        })
    }

    /// The first chunk with `sum`.
    #[inline]
    #[must_use]
    pub fn find(&self, sum: S) -> Option<ChunkNo> {
        self.find_last(sum).map(|last| ChunkNo(self.next[last as usize]))
    }

    /// Number of stored chunks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.next.len()
    }

    /// True if no chunk is stored.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Number of chunks beyond the budget, which are not stored.
    #[must_use]
    pub const fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Fill level of the table.
    #[must_use]
    pub fn fill_level(&self) -> FillLevel {
        FillLevel {
            taken: self.taken,
            slots: self.buckets.len() * WAYS,
            overflow: self.overflow.len(),
        }
    }

    #[inline]
    fn find_last(&self, sum: S) -> Option<u32> {
        let of = |at: usize| {
            let bucket = &self.buckets[at];
            bucket.slot_of(sum).map(|way| bucket.lasts[way])
        };
        let [first, second] = self.buckets_of(sum);
        of(first).or_else(|| of(second)).or_else(|| self.overflow.get(&sum).copied())
    }

    fn last_of(&mut self, sum: S) -> Option<&mut u32> {
        for at in self.buckets_of(sum) {
            if let Some(way) = self.buckets[at].slot_of(sum) {
                return Some(&mut self.buckets[at].lasts[way]);
            }
        }
        self.overflow.get_mut(&sum)
    }

    /// The numbers of the two buckets of `sum`, which are different.
    #[inline]
    fn buckets_of(&self, sum: S) -> [usize; 2] {
        let bits = self.buckets.len().trailing_zeros();
        let (first, second) = (sum.low_bits(bits), sum.high_bits(bits));
        [first, if second == first { first ^ 1 } else { second }]
    }

    /// Inserts a sum that the table does not have.
    fn add_new(&mut self, entry: SumEntry<S>) {
        let Err(displaced) = self.insert_by_moving(entry) else { return };
        if self.taken * GROW_ABOVE < self.buckets.len() * WAYS {
            self.overflow.insert(displaced.sum, displaced.last);
            return;
        }
        let wider = vec![CuckooBucket::empty(); self.buckets.len() * 2];
        let old = std::mem::replace(&mut self.buckets, wider);
        let overflow = std::mem::take(&mut self.overflow).into_iter();
        let overflow = overflow.map(|(sum, last)| SumEntry { sum, last });
        self.taken = 0;
        let all = old.iter().flat_map(CuckooBucket::entries).chain(overflow).chain([displaced]);
        for entry in all {
            if let Err(displaced) = self.insert_by_moving(entry) {
                self.overflow.insert(displaced.sum, displaced.last);
            }
        }
    }

    /// Inserts `entry` in one of its buckets, moving other entries to their other buckets. Returns an entry
    /// without a slot if the limit of moves is reached.
    fn insert_by_moving(&mut self, mut entry: SumEntry<S>) -> Result<(), SumEntry<S>> {
        let [first, mut at] = self.buckets_of(entry.sum);
        let mut done = self.buckets[first].insert(entry) || self.buckets[at].insert(entry);
        for _ in 0..MAX_KICKS {
            if done {
                break;
            }
            let way = self.random_slot();
            entry = self.buckets[at].swap_entry(way, entry);
            let [first, second] = self.buckets_of(entry.sum);
            at = if at == first { second } else { first };
            done = self.buckets[at].insert(entry);
        }
        self.taken += usize::from(done);
        if done { Ok(()) } else { Err(entry) }
    }

    /// A pseudo-random slot of the entry to move. A fixed choice could move the same entries in circles; an
    /// attacker gains nothing from predicting the choice.
    const fn random_slot(&mut self) -> usize {
        self.random = self.random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (self.random >> (u32::BITS - WAYS.trailing_zeros())) as usize
    }
}

/// Fill level of a [`CuckooIndex`]; equal sums count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillLevel {
    /// Number of slots with a sum.
    pub taken: usize,
    /// Number of all slots.
    pub slots: usize,
    /// Number of sums without a slot.
    pub overflow: usize,
}

fn buckets_for(slots: usize) -> usize {
    slots.div_ceil(WAYS).next_power_of_two().max(FIRST_BUCKETS)
}

/// Number of slots in a bucket (SkySync §3.2.2).
const WAYS: usize = 4;
const EMPTY: u32 = u32::MAX;
const FIRST_BUCKETS: usize = 16;
/// [`CuckooIndex::with_room`] adds one spare slot for each group of this many sums. The table could be fuller,
/// but with spare slots few entries need to be moved.
const FULL_FOR_A_SPARE: usize = 9;
/// The table grows if it has fewer than this many slots for each sum.
const GROW_ABOVE: usize = 2;
/// Maximum number of moves for one insertion. A successful chain is shorter until the table is nearly full.
const MAX_KICKS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn all<S: SumBits>(index: &CuckooIndex<S>, sum: S) -> Vec<u32> {
        index.candidates(sum, &mut usize::MAX.clone()).map(|chunk| chunk.0).collect()
    }

    #[test]
    fn a_repeated_sum_takes_one_slot() {
        let mut index = CuckooIndex::new(1 << 20);
        for _ in 0..100_000 {
            index.push(7u32);
        }
        assert_eq!(index.fill_level(), FillLevel { taken: 1, slots: 64, overflow: 0 });
        assert_eq!(all(&index, 7), (0..100_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_budget_is_shared_among_look_ups() {
        let mut index = CuckooIndex::new(100);
        for sum in [1u32, 2, 1, 2, 1] {
            index.push(sum);
        }
        let mut budget = 4;
        let first: Vec<ChunkNo> = index.candidates(1, &mut budget).take(2).collect();
        assert_eq!((first, budget), (vec![ChunkNo(0), ChunkNo(2)], 2));
        assert_eq!(index.candidates(1, &mut budget).count(), 2);
        assert_eq!(index.candidates(2, &mut budget).count(), 0);
        assert_eq!(index.find(2), Some(ChunkNo(1)));
    }

    #[test]
    fn sums_forged_for_two_buckets_do_not_make_the_table_grow() {
        let forged = |n: u32| 0xab00_0012 | n << 8;
        let mut index = CuckooIndex::new(1 << 20);
        for n in 0..50_000 {
            index.push(forged(n));
        }
        assert_eq!(
            index.fill_level(),
            FillLevel { taken: 2 * WAYS, slots: 64, overflow: 50_000 - 2 * WAYS }
        );
        assert!((0..50_000).all(|n| index.find(forged(n)) == Some(ChunkNo(n))));
        assert_eq!(index.find(forged(50_000)), None);
    }

    #[test]
    fn slots_never_exceed_four_times_the_number_of_sums() {
        let mut index = CuckooIndex::new(1 << 20);
        for n in 0u32..20_000 {
            index.push(n.reverse_bits() >> 4 | n << 28);
            let FillLevel { taken, slots, overflow } = index.fill_level();
            assert!(slots <= (4 * (taken + overflow)).max(64), "{slots} slots, {taken} taken");
            assert_eq!(taken + overflow, n as usize + 1);
        }
    }

    #[test]
    fn chunks_over_budget_are_counted_and_not_found() {
        let mut index = CuckooIndex::new(2);
        for sum in 0u64..5 {
            index.push(sum);
        }
        assert_eq!((index.len(), index.dropped_count()), (2, 3));
        assert!(index.find(1).is_some() && index.find(2).is_none());
    }

    #[test]
    fn reserved_room_is_filled_without_growing() {
        let mut index = CuckooIndex::with_room(1 << 20, 50_000);
        let slots = index.fill_level().slots;
        assert_eq!(slots, 1 << 16);
        for n in 0u32..58_000 {
            let hash = crate::Fingerprint::of(&n.to_le_bytes());
            index.push(u32::from_le_bytes(*hash.as_bytes().first_chunk().unwrap()));
        }
        assert_eq!(index.fill_level().slots, slots);
    }
}
