//! rsync's three levels (WebR2sync+ §5.2): a tag, the weak sum, the strong sum.
//!
//! ```text
//! key(weak)   = weak * MULTIPLIER                 (mod 2^32; odd, so that keys are as different as weak sums)
//! tags        = a bit for each value of a key's highest bits: 16 of them, or more if there are many blocks
//! entries     = (key, block) of all blocks of full length, sorted by key, then by strong sum, then by number
//! starts      = where the entries of each value of some fewer highest bits begin
//! ```
//!
//! Differences from rsync's, and why:
//!
//! 1. The first level is a bit for each tag, small enough for the nearest caches: most positions end there. As in
//!    rsync today there are more than 2^16 tags for many blocks; else nearly all would be taken.
//! 2. The second and the third level are binary searches. A chain would be as long as somebody makes it, and would
//!    have to be cut somewhere; so nothing is left out.
//! 3. Of blocks with the same weak and strong sum only the first has an entry: a million equal blocks are one.
//! 4. The multiplier is random. Whoever chooses the weak sums of old cannot choose which of them share a tag.
//!
//! All of it takes 20 to 32 bytes for each block, and 12 KiB at least.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use super::blocks::BlockSums;

/// The blocks of old that have the full length, to be found by their sums.
#[derive(Debug)]
pub(super) struct Table {
    multiplier: u32,
    tags: Vec<u64>,
    tag_shift: u32,
    /// Starts, one more than there are values.
    starts: Vec<u32>,
    start_shift: u32,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    block: u32,
}

impl Table {
    pub(super) fn new(sums: &BlockSums) -> Self {
        let multiplier = RandomState::new().hash_one(()) as u32 | 1;
        let entries = entries(sums, multiplier);
        let bits = (entries.len() as u32).checked_next_power_of_two().map_or(32, u32::ilog2);
        let tag_bits = (bits + TAGS_PER_ENTRY_BITS).clamp(MIN_TAG_BITS, MAX_TAG_BITS);
        let start_bits = tag_bits - TAGS_PER_ENTRY_BITS;
        let (tag_shift, start_shift) = (u32::BITS - tag_bits, u32::BITS - start_bits);
        let mut tags = vec![0; 1 << (tag_bits - u64::BITS.ilog2())];
        let mut starts = vec![0; (1 << start_bits) + 1];
        for entry in &entries {
            let tag = entry.key >> tag_shift;
            tags[tag as usize / 64] |= 1 << (tag % 64);
            starts[(entry.key >> start_shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        Self { multiplier, tags, tag_shift, starts, start_shift, entries }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Level one: whether a block may have this weak sum.
    #[inline(always)]
    pub(super) fn has_tag(&self, weak: u32) -> bool {
        let tag = weak.wrapping_mul(self.multiplier) >> self.tag_shift;
        self.tags[tag as usize / 64] >> (tag % 64) & 1 == 1
    }

    /// Level two: the first entry of a block with this weak sum. Counts the sums that are compared.
    pub(super) fn find_weak(&self, weak: u32, compared: &mut u64) -> Option<usize> {
        let key = weak.wrapping_mul(self.multiplier);
        let slot = (key >> self.start_shift) as usize;
        let (start, end) = (self.starts[slot] as usize, self.starts[slot + 1] as usize);
        let below = |entry: &Entry| {
            *compared += 1;
            entry.key < key
        };
        let first = start + self.entries[start..end].partition_point(below);
        self.entries.get(first).is_some_and(|entry| entry.key == key).then_some(first)
    }

    /// Level three: the block with this strong sum among those with the weak sum of the entry `first`.
    pub(super) fn find_strong(&self, first: usize, strong: &[u8], sums: &BlockSums) -> Option<u32> {
        let key = self.entries[first].key;
        let order =
            |entry: &Entry| entry.key.cmp(&key).then_with(|| sums.strong(entry.block).cmp(strong));
        // As far as the entries with this weak sum can reach.
        let end = self.starts[(key >> self.start_shift) as usize + 1] as usize;
        let found = self.entries[first..end].binary_search_by(order).ok()?;
        Some(self.entries[first + found].block)
    }
}

fn entries(sums: &BlockSums, multiplier: u32) -> Vec<Entry> {
    let entry = |block| Entry { key: sums.weak(block).wrapping_mul(multiplier), block };
    let by_sums = |a: &Entry, b: &Entry| {
        a.key.cmp(&b.key).then_with(|| sums.strong(a.block).cmp(sums.strong(b.block)))
    };
    let mut entries: Vec<Entry> = (0..sums.full()).map(entry).collect();
    entries.sort_unstable_by(|a, b| by_sums(a, b).then(a.block.cmp(&b.block)));
    entries.dedup_by(|later, first| by_sums(first, later) == Ordering::Equal);
    entries
}

const MIN_TAG_BITS: u32 = 16;
/// 32 MiB of bits.
const MAX_TAG_BITS: u32 = 28;
/// 64 tags for each entry and more: of other content 63 windows in 64 end at the first level. A hit costs as much as
/// rolling over a dozen windows.
const TAGS_PER_ENTRY_BITS: u32 = 6;
