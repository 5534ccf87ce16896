//! fs-verity digests of files: a SHA-256 Merkle tree over blocks, and a descriptor.
//!
//! The kernel keeps this digest for a read-only file and verifies every read against it. So two files with
//! equal digests are equal, and neither file has to be read.

use sha2::{Digest as _, Sha256};

/// Length of data blocks and tree blocks in bytes: the default of fs-verity tools.
pub const BLOCK_BYTES: usize = 4096;

/// Computes the fs-verity digest of a stream: SHA-256, blocks of [`BLOCK_BYTES`], no salt.
#[derive(Clone, Debug, Default)]
pub struct VerityHasher {
    /// The incomplete data block.
    block: Vec<u8>,
    levels: Vec<TreeLevel>,
    len: u64,
}

/// A level of the Merkle tree: the hashes of the incomplete tree block.
#[derive(Clone, Debug, Default)]
struct TreeLevel {
    hashes: Vec<u8>,
    /// Number of hashes in this level so far.
    count: u64,
}

impl VerityHasher {
    /// Creates a hasher at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.block.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                let hash = Sha256::digest(&self.block).into();
                self.block.clear();
                self.add_hash(0, hash);
            }
        }
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub fn finish(mut self) -> [u8; 32] {
        let root = self.root_hash();
        VerityDescriptor { len: self.len, root }.digest()
    }

    /// Appends a hash to a level. A full tree block adds its hash to the next level.
    fn add_hash(&mut self, level: usize, hash: [u8; 32]) {
        if self.levels.len() == level {
            self.levels.push(TreeLevel::default());
        }
        let at = &mut self.levels[level];
        at.hashes.extend_from_slice(&hash);
        at.count += 1;
        if at.hashes.len() == BLOCK_BYTES {
            let hash = Sha256::digest(&at.hashes).into();
            at.hashes.clear();
            self.add_hash(level + 1, hash);
        }
    }

    /// The root hash of the tree; zeros for an empty file.
    fn root_hash(&mut self) -> [u8; 32] {
        if !self.block.is_empty() {
            let hash = hash_padded_block(&self.block);
            self.add_hash(0, hash);
        }
        let mut level = 0;
        while level < self.levels.len() {
            let at = &mut self.levels[level];
            if at.count == 1 {
                return at.hashes[..].try_into().expect("the top level has one hash");
            }
            if !at.hashes.is_empty() {
                let hash = hash_padded_block(&at.hashes);
                self.add_hash(level + 1, hash);
            }
            level += 1;
        }
        [0; 32]
    }
}

/// Pads a block with zeros to [`BLOCK_BYTES`] and returns its SHA-256.
fn hash_padded_block(bytes: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    Sha256::digest(block).into()
}

/// The two fields of `struct fsverity_descriptor` that differ between files: length and root hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerityDescriptor {
    /// Length of the file in bytes.
    pub len: u64,
    /// The root hash of the Merkle tree.
    pub root: [u8; 32],
}

impl VerityDescriptor {
    /// Length of the encoded descriptor in bytes.
    pub const BYTES: usize = 256;

    /// Parses a descriptor from the kernel. Returns `None` if the hash algorithm, the block length or the salt
    /// differ from ours.
    #[must_use]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let len = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let parsed = Self { len, root: *bytes[16..].first_chunk()? };
        // The signature size is not part of the digest.
        let mut unsigned = *bytes;
        unsigned[4..8].fill(0);
        (parsed.encode() == unsigned).then_some(parsed)
    }

    /// The fs-verity digest of the file.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.encode()).into()
    }

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Version, hash algorithm SHA-256, log2 of the block length, length of the salt.
        bytes[..4].copy_from_slice(&[1, 1, BLOCK_BYTES.trailing_zeros() as u8, 0]);
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.root);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation: builds the tree level by level.
    fn slowly(bytes: &[u8]) -> [u8; 32] {
        let hashes = |bytes: &[u8]| {
            bytes.chunks(BLOCK_BYTES).flat_map(hash_padded_block).collect::<Vec<u8>>()
        };
        let mut level = hashes(bytes);
        while level.len() > 32 {
            level = hashes(&level);
        }
        let root = level.try_into().unwrap_or([0; 32]);
        VerityDescriptor { len: bytes.len() as u64, root }.digest()
    }

    fn of(bytes: &[u8], each: usize) -> [u8; 32] {
        let mut verity = VerityHasher::new();
        bytes.chunks(each).for_each(|piece| verity.push(piece));
        verity.finish()
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn the_digest_is_that_of_the_tree_for_any_split_of_the_input() {
        let blocks = [0, 1, 2, 127, 128, 129, 256, 128 * 128, 128 * 128 + 1];
        for len in blocks.into_iter().flat_map(|no| [-1, 0, 1].map(|by| no * 4096 + by)) {
            let Ok(len) = usize::try_from(len) else { continue };
            let bytes = bytes(len);
            for each in [4096, 1 << 20, 1000] {
                assert_eq!(of(&bytes, each), slowly(&bytes), "{len} {each}");
            }
        }
    }

    #[test]
    fn a_descriptor_with_other_parameters_is_refused() {
        let descriptor = VerityDescriptor { len: 77, root: [7; 32] };
        let bytes = descriptor.encode();
        assert_eq!(VerityDescriptor::read(&bytes), Some(descriptor));
        for (at, byte) in [(0, 2), (1, 2), (2, 10), (3, 8), (80, 1), (200, 1)] {
            let mut other = bytes;
            other[at] = byte;
            assert_eq!(VerityDescriptor::read(&other), None, "{at}");
        }
        let mut signed = bytes;
        signed[5] = 1;
        assert_eq!(VerityDescriptor::read(&signed), Some(descriptor));
    }
}
