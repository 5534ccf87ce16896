//! The three levels of rsync's search: tag, weak sum, strong sum (WebR2sync+ §5.2).
//!
//! ```text
//! key(weak)   = weak * MULTIPLIER                 (mod 2^32; odd, so different weak sums have different keys)
//! tags        = a bit for each value of the highest bits of a key: 16 bits, or more if there are many blocks
//! entries     = (key, block) of all blocks of full length, sorted by key, then by strong sum, then by number
//! starts      = the first entry for each value of the highest bits, slightly fewer bits than a tag
//! ```
//!
//! Differences from rsync, and why:
//!
//! 1. The first level is one bit for each tag, small enough for the L1 or L2 cache: most positions end there.
//!    As in current rsync, many blocks have more than 2^16 tags; otherwise nearly all tags would be taken.
//! 2. The second and the third level are binary searches. An attacker could make a hash chain arbitrarily long,
//!    so chains would need a limit; binary searches need no limit and omit no block.
//! 3. Of blocks with equal weak and strong sums only the first has an entry: a million equal blocks are one
//!    entry.
//! 4. The multiplier is random. An author of the old version cannot choose weak sums that share a tag.
//! 5. CRC-32C is evenly distributed. With this weak sum, the second and the third level are SkySync's flat
//!    index (§3.2.2, Entry2), whose slots are bits of the weak sum. The tags stay in front of the index,
//!    because a failed look-up takes 10 ns and would occur for each byte.
//!
//! The table takes 20 to 48 bytes for each block, and at least 12 KiB. The diagram shows sorted entries. An
//! attacker who chooses all sums can make building the flat index five times as expensive.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use super::blocks::BlockSums;
use crate::index::{ChunkNo, CuckooIndex};
use crate::weak::RollingKind;

/// The old blocks of full length, found by their sums.
#[derive(Debug)]
pub(super) struct BlockTable {
    multiplier: u32,
    tags: Vec<u64>,
    tag_shift: u32,
    sums: BlockEntries,
}

/// Levels two and three: from a weak sum and a strong sum to a block.
#[derive(Debug)]
enum BlockEntries {
    Sorted(SortedEntries),
    Flat(FlatIndex),
}

impl BlockTable {
    pub(super) fn new(sums: &BlockSums) -> Self {
        let multiplier = RandomState::new().hash_one(()) as u32 | 1;
        let flat =
            (sums.spec().weak == RollingKind::Crc32c).then(|| FlatIndex::new(sums)).flatten();
        let sums_of = flat.map_or_else(
            || BlockEntries::Sorted(SortedEntries::new(sums, multiplier)),
            BlockEntries::Flat,
        );
        let count = match &sums_of {
            BlockEntries::Sorted(sorted) => sorted.entries.len(),
            BlockEntries::Flat(flat) => flat.blocks.len(),
        };
        let tag_bits = tag_bits(count);
        let (tag_shift, mut tags) =
            (u32::BITS - tag_bits, vec![0; 1 << (tag_bits - u64::BITS.ilog2())]);
        let mut note = |key: u32| {
            let tag = key >> tag_shift;
            tags[tag as usize / 64] |= 1 << (tag % 64);
        };
        match &sums_of {
            BlockEntries::Sorted(sorted) => sorted.entries.iter().for_each(|entry| note(entry.key)),
            BlockEntries::Flat(flat) => {
                flat.blocks.iter().for_each(|no| note(sums.weak(*no).wrapping_mul(multiplier)));
            }
        }
        Self { multiplier, tags, tag_shift, sums: sums_of }
    }

    pub(super) const fn is_empty(&self) -> bool {
        match &self.sums {
            BlockEntries::Sorted(sorted) => sorted.entries.is_empty(),
            BlockEntries::Flat(flat) => flat.blocks.is_empty(),
        }
    }

    /// Searches level one, the tags. False means that no block has this weak sum; true proves nothing.
    #[inline(always)]
    pub(super) fn has_tag(&self, weak: u32) -> bool {
        let tag = weak.wrapping_mul(self.multiplier) >> self.tag_shift;
        self.tags[tag as usize / 64] >> (tag % 64) & 1 == 1
    }

    /// Searches level two: returns the first entry with this weak sum. Adds the number of compared sums to `compared`.
    pub(super) fn find_weak(&self, weak: u32, compared: &mut u64) -> Option<usize> {
        match &self.sums {
            BlockEntries::Sorted(sorted) => {
                sorted.find_weak(weak.wrapping_mul(self.multiplier), compared)
            }
            BlockEntries::Flat(flat) => {
                *compared += 1;
                flat.index.find(weak).map(|ChunkNo(no)| no as usize)
            }
        }
    }

    /// Searches level three: returns the block with this strong sum and the weak sum of entry `first`.
    pub(super) fn find_strong(&self, first: usize, strong: &[u8], sums: &BlockSums) -> Option<u32> {
        match &self.sums {
            BlockEntries::Sorted(sorted) => sorted.find_strong(first, strong, sums),
            BlockEntries::Flat(flat) => {
                flat.find_strong(sums.weak(flat.blocks[first]), strong, sums)
            }
        }
    }
}

/// Number of bits of a tag.
fn tag_bits(entries: usize) -> u32 {
    let bits = (entries as u32).checked_next_power_of_two().map_or(32, u32::ilog2);
    (bits + TAGS_PER_ENTRY_BITS).clamp(MIN_TAG_BITS, MAX_TAG_BITS)
}

/// Entries, sorted by their sums.
#[derive(Debug)]
struct SortedEntries {
    /// First entry for each value of the highest bits, and the number of entries.
    starts: Vec<u32>,
    start_shift: u32,
    entries: Vec<SortedEntry>,
}

#[derive(Clone, Copy, Debug)]
struct SortedEntry {
    key: u32,
    block: u32,
}

impl SortedEntries {
    fn new(sums: &BlockSums, multiplier: u32) -> Self {
        let entries = entries(sums, multiplier);
        let start_bits = tag_bits(entries.len()) - TAGS_PER_ENTRY_BITS;
        let start_shift = u32::BITS - start_bits;
        let mut starts = vec![0; (1 << start_bits) + 1];
        for entry in &entries {
            starts[(entry.key >> start_shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        Self { starts, start_shift, entries }
    }

    fn find_weak(&self, key: u32, compared: &mut u64) -> Option<usize> {
        let slot = (key >> self.start_shift) as usize;
        let (start, end) = (self.starts[slot] as usize, self.starts[slot + 1] as usize);
        let below = |entry: &SortedEntry| {
            *compared += 1;
            entry.key < key
        };
        let first = start + self.entries[start..end].partition_point(below);
        self.entries.get(first).is_some_and(|entry| entry.key == key).then_some(first)
    }

    fn find_strong(&self, first: usize, strong: &[u8], sums: &BlockSums) -> Option<u32> {
        let key = self.entries[first].key;
        let order = |entry: &SortedEntry| {
            entry.key.cmp(&key).then_with(|| sums.strong(entry.block).cmp(strong))
        };
        // End of the entries that may have this weak sum.
        let end = self.starts[(key >> self.start_shift) as usize + 1] as usize;
        let found = self.entries[first..end].binary_search_by(order).ok()?;
        Some(self.entries[first + found].block)
    }
}

fn entries(sums: &BlockSums, multiplier: u32) -> Vec<SortedEntry> {
    let entry = |block| SortedEntry { key: sums.weak(block).wrapping_mul(multiplier), block };
    let by_sums = |a: &SortedEntry, b: &SortedEntry| {
        a.key.cmp(&b.key).then_with(|| sums.strong(a.block).cmp(sums.strong(b.block)))
    };
    let mut entries: Vec<SortedEntry> = (0..sums.full_count()).map(entry).collect();
    entries.sort_unstable_by(|a, b| by_sums(a, b).then(a.block.cmp(&b.block)));
    entries.dedup_by(|later, first| by_sums(first, later) == Ordering::Equal);
    entries
}

/// Cuckoo index from weak sums to blocks, one entry for each pair of sums (SkySync §3.2.2, Entry2).
#[derive(Debug)]
struct FlatIndex {
    index: CuckooIndex<u32>,
    /// The block of each entry.
    blocks: Vec<u32>,
}

impl FlatIndex {
    /// Indexes the blocks with different sums. Returns `None` in two cases:
    ///
    /// - More than [`MAX_ALIKE`] blocks have the same weak sum and different strong sums. Only forged sums do.
    /// - There are too many blocks for the index.
    fn new(sums: &BlockSums) -> Option<Self> {
        let count = sums.full_count() as usize;
        let (mut index, mut blocks) = (CuckooIndex::with_room(count, count), Vec::new());
        for block in 0..sums.full_count() {
            let (weak, strong, mut left) = (sums.weak(block), sums.strong(block), MAX_ALIKE);
            let is_equal = |ChunkNo(no)| sums.strong(blocks[no as usize]) == strong;
            if index.candidates(weak, &mut left).any(is_equal) {
                continue;
            }
            if left == 0 {
                return None;
            }
            index.push(weak);
            blocks.push(block);
        }
        blocks.shrink_to_fit();
        (index.dropped_count() == 0).then_some(Self { index, blocks })
    }

    fn find_strong(&self, weak: u32, strong: &[u8], sums: &BlockSums) -> Option<u32> {
        let mut left = MAX_ALIKE;
        let blocks = self.index.candidates(weak, &mut left);
        blocks.map(|ChunkNo(no)| self.blocks[no as usize]).find(|no| sums.strong(*no) == strong)
    }
}

/// Maximum number of blocks with the same weak sum and different strong sums. Among a million blocks, a few
/// pairs occur by chance.
const MAX_ALIKE: usize = 16;
const MIN_TAG_BITS: u32 = 16;
/// The tags take 32 MiB.
const MAX_TAG_BITS: u32 = 28;
/// Gives at least 64 tags for each entry: in different content 63 of 64 windows end at the first level. A tag hit
/// costs as much as rolling over a dozen windows.
const TAGS_PER_ENTRY_BITS: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::FixedLen;
    use crate::search::BlockSpec;
    use crate::strong::StrongKind;

    fn sums(weak: RollingKind, blocks: impl Iterator<Item = (u32, u8)>) -> BlockSums {
        let len = FixedLen::new(512).unwrap();
        let mut sums = BlockSums::new(BlockSpec { len, weak, strong: StrongKind::Md5, key: None });
        blocks.for_each(|(weak, strong)| sums.push(512, weak, &[strong; 16]).unwrap());
        sums
    }

    /// The first block with these sums.
    fn found(table: &BlockTable, weak: u32, strong: u8, sums: &BlockSums) -> Option<u32> {
        let first = table.has_tag(weak).then(|| table.find_weak(weak, &mut 0)).flatten()?;
        table.find_strong(first, &[strong; 16], sums)
    }

    #[test]
    fn every_block_is_found_by_its_sums_in_either_table() {
        for (alike, is_flat) in [(1, true), (MAX_ALIKE as u32, true), (MAX_ALIKE as u32 + 1, false)]
        {
            let blocks = |n: u32| ((n / alike).wrapping_mul(0x0101_4ab7), (n % alike) as u8);
            // Each block occurs three times; the first occurrence counts.
            let all = (0..3000).map(|n| blocks(n % 1000));
            for weak in [RollingKind::Crc32c, RollingKind::Adler] {
                let sums = sums(weak, all.clone());
                let table = BlockTable::new(&sums);
                let flat = is_flat && weak == RollingKind::Crc32c;
                assert_eq!(matches!(table.sums, BlockEntries::Flat(_)), flat, "{alike} {weak:?}");
                for n in 0..1000 {
                    let (weak, strong) = blocks(n);
                    assert_eq!(found(&table, weak, strong, &sums), Some(n));
                    assert_eq!(found(&table, weak, 200, &sums), None);
                    assert_eq!(found(&table, weak ^ 1, strong, &sums), None);
                }
            }
        }
        let none = sums(RollingKind::Crc32c, std::iter::empty());
        assert!(BlockTable::new(&none).is_empty());
    }
}
