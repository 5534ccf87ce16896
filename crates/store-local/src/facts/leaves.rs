//! Hashes of blocks that fs-verity keeps, read without reading the file.
//!
//! The kernel checks file data against the hashes, but does not check hashes before returning them. So a hash is used
//! only after a check of the blocks of hashes above it, up to the root hash in the file's digest.

use std::ops::Range;

use deltic_core::verity::{BLOCK_BYTES, VerityDescriptor};
use deltic_core::{StoredSums, StrongKind, SumKind};

/// A block of hashes.
type Block = [u8; BLOCK_BYTES];

const HASH_BYTES: usize = 32;
const PER_BLOCK: u64 = (BLOCK_BYTES / HASH_BYTES) as u64;

/// Returns the hashes of the blocks in `range` of a file. `read` reads a block of the file's hash tree. `None` if a
/// block cannot be read or does not match. A last block that is not full has no hash, since the kernel pads it with
/// zeros.
pub(super) fn leaf_hashes(
    file: &VerityDescriptor,
    range: &Range<u64>,
    mut read: impl FnMut(u64, &mut Block) -> Option<()>,
) -> Option<StoredSums> {
    let block = BLOCK_BYTES as u64;
    let mut sums = StoredSums::new(
        SumKind::Sha256,
        BLOCK_BYTES as u32,
        &(range.start..range.end.min(file.len)),
    );
    let tree = Tree::of(file);
    let blocks = sums.range().start / block..sums.range().end.min(file.len).div_ceil(block);
    let mut at = blocks.start;
    while at < blocks.end {
        let (of, from) = (at / PER_BLOCK, at % PER_BLOCK);
        let hashes = tree.tree_block(0, of, &mut read)?;
        let end = blocks.end.min((of + 1) * PER_BLOCK);
        let told = from as usize * HASH_BYTES..(end - of * PER_BLOCK) as usize * HASH_BYTES;
        sums.put_sums(at * block, &hashes[told]);
        at = end;
    }
    if !file.len.is_multiple_of(block) {
        sums.forget_block(file.len);
    }
    Some(sums)
}

/// The hash tree of a file.
struct Tree {
    /// For each level, the number of its first block in the tree. Level 0 has the hashes of data, and is stored last.
    levels: Vec<u64>,
    root: [u8; HASH_BYTES],
}

impl Tree {
    fn of(file: &VerityDescriptor) -> Self {
        let mut counts = Vec::new();
        let mut below = file.len.div_ceil(BLOCK_BYTES as u64);
        while below > 1 {
            below = below.div_ceil(PER_BLOCK);
            counts.push(below);
        }
        // The highest level is stored first.
        let above = |level: usize| counts[level + 1..].iter().sum();
        let levels = (0..counts.len()).map(above).collect();
        Self { levels, root: file.root }
    }

    /// Returns a block of a level, if the block matches its hash in the level above.
    fn tree_block(
        &self,
        level: usize,
        no: u64,
        read: &mut impl FnMut(u64, &mut Block) -> Option<()>,
    ) -> Option<Block> {
        let mut block = [0; BLOCK_BYTES];
        read(self.levels.get(level)? + no, &mut block)?;
        let hash = StrongKind::Sha256.sum_of(None, &block);
        let is_it = if level + 1 == self.levels.len() {
            no == 0 && hash.as_bytes() == self.root
        } else {
            let above = self.tree_block(level + 1, no / PER_BLOCK, read)?;
            let from = (no % PER_BLOCK) as usize * HASH_BYTES;
            hash.as_bytes() == &above[from..from + HASH_BYTES]
        };
        is_it.then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use deltic_core::stored::BlockSum;
    use deltic_core::verity::VerityHasher;

    use super::*;

    /// Builds a hash tree as the kernel would, from the definition of fs-verity.
    fn tree(bytes: &[u8]) -> (VerityDescriptor, Vec<u8>) {
        let hash = |block: &[u8]| {
            let mut padded = block.to_vec();
            padded.resize(BLOCK_BYTES, 0);
            StrongKind::Sha256.sum_of(None, &padded).as_bytes().to_vec()
        };
        let hashes = |level: &[u8]| level.chunks(BLOCK_BYTES).flat_map(hash).collect::<Vec<_>>();
        let (mut level, mut all) = (hashes(bytes), Vec::new());
        while level.len() > HASH_BYTES {
            let above = hashes(&level);
            level.resize(level.len().next_multiple_of(BLOCK_BYTES), 0);
            all.splice(0..0, std::mem::replace(&mut level, above));
        }
        (VerityDescriptor { len: bytes.len() as u64, root: level[..].try_into().unwrap() }, all)
    }

    fn told(tree: &[u8]) -> impl FnMut(u64, &mut Block) -> Option<()> {
        |no, into| {
            into.copy_from_slice(tree.get(no as usize * BLOCK_BYTES..)?.get(..BLOCK_BYTES)?);
            Some(())
        }
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len as u32).map(|at| (at.wrapping_mul(at) >> 7) as u8 ^ (at >> 13) as u8).collect()
    }

    #[test]
    fn hashes_are_those_of_whole_blocks_wherever_they_lie_in_the_tree() {
        // Trees of one, two and three levels.
        for len in [2 * 4096, 128 * 4096, 129 * 4096 + 7, 300 * 4096, (128 * 128 + 3) * 4096] {
            let bytes = noise(len);
            let (file, tree) = tree(&bytes);
            let mut verity = VerityHasher::new();
            verity.push(&bytes);
            assert_eq!(file.digest(), verity.finish(), "{len}: it is the kernel's tree");
            let all = len as u64;
            for range in [0..all, all / 2..all / 2 + 700_000, all - 1..all, 4096..8192] {
                let sums = leaf_hashes(&file, &range, told(&tree)).expect("the tree is whole");
                let first = sums.range().start as usize;
                let blocks = bytes[first..(sums.range().end as usize).min(len)].chunks(BLOCK_BYTES);
                for (no, block) in (0..).zip(blocks) {
                    let sum = StrongKind::Sha256.sum_of(None, block);
                    let expected = match block.len() {
                        BLOCK_BYTES => BlockSum::Sum(sum.as_bytes()),
                        _ => BlockSum::Unknown,
                    };
                    assert_eq!(
                        sums.sum_at((first + no * BLOCK_BYTES) as u64),
                        expected,
                        "{len} {no}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_tree_that_is_not_the_files_tells_nothing() {
        let bytes = noise(300 * 4096);
        let (file, tree) = tree(&bytes);
        for at in (0..tree.len()).step_by(1111) {
            let mut damaged = tree.clone();
            damaged[at] ^= 1;
            let range = 0..bytes.len() as u64;
            assert!(leaf_hashes(&file, &range, told(&damaged)).is_none(), "{at}");
        }
        let short = told(&tree[..4096]);
        assert!(leaf_hashes(&file, &(0..4096), short).is_none());
        // A file of one block has no tree.
        let (file, _) = self::tree(&bytes[..4096]);
        assert!(leaf_hashes(&file, &(0..4096), told(&[])).is_none());
    }
}
