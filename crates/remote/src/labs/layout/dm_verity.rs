//! Hash devices of dm-verity: checksums of the blocks of a read-only image.
//!
//! ```text
//! superblock   "verity\0\0", version, type, UUID, algorithm, block lengths, number of blocks, salt   (little-endian)
//! levels       the top level first; a block of hashes each, padded to a power of two of hashes
//! leaf         hash(salt ‖ data block)
//! ```
//!
//! Each block of hashes is checked against the level above. The root hash is shown, since only the owner of the image
//! knows the right one. The hashes describe the image when the file was made, not its present content
//! (docs/decisions/0044).

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, UnitSums, u32_le, u64_le};
use crate::sums::{SumAlgorithm, hex};

/// The layout of the image that a hash device describes.
pub(super) fn read(file: &[u8]) -> Result<Layout, LayoutError> {
    let head = VerityHeader::read(file).ok_or_else(|| wrong("no verity header"))?;
    if head.kind != 1 {
        return Err(LayoutError(format!(
            "hash type {}: the type of Chrome OS is not supported",
            head.kind
        )));
    }
    let algorithm = match head.algorithm {
        b"sha256" => SumAlgorithm::Sha256,
        b"sha1" => SumAlgorithm::Sha1,
        other => {
            let name = String::from_utf8_lossy(other);
            return Err(LayoutError(format!(
                "hash algorithm {name:?}: only SHA-256 and SHA-1 are supported"
            )));
        }
    };
    let tree = HashTree { file, head: &head, algorithm };
    let (root, sums) = tree.leaves()?;
    let len =
        head.blocks.checked_mul(head.data_bytes.into()).ok_or_else(|| wrong("invalid length"))?;
    let mut layout = Layout::new("dm-verity", [0; 32]);
    let salt = head.salt.into();
    let content = UnitSums { algorithm, bytes: head.data_bytes, padded: false, salt, sums };
    layout.push(LayoutPart { len, id: None, content: PartContent::Units(content) })?;
    layout.token = format!("root hash {}", hex(&root));
    layout.about = vec![
        "describes the image when the hash device was made".into(),
        format!("salt {}", hex(head.salt)),
    ];
    Ok(layout)
}

fn wrong(what: &str) -> LayoutError {
    LayoutError(format!("not a hash device of dm-verity: {what}"))
}

struct VerityHeader<'a> {
    kind: u32,
    algorithm: &'a [u8],
    data_bytes: u32,
    hash_bytes: u32,
    blocks: u64,
    salt: &'a [u8],
}

impl<'a> VerityHeader<'a> {
    fn read(file: &'a [u8]) -> Option<Self> {
        let is_known = file.starts_with(b"verity\0\0") && u32_le(file, 8)? == 1;
        let algorithm = file.get(32..64)?.split(|byte| *byte == 0).next()?;
        let (data_bytes, hash_bytes, blocks) =
            (u32_le(file, 64)?, u32_le(file, 68)?, u64_le(file, 72)?);
        let salt_bytes = u16::from_le_bytes(*file.get(80..)?.first_chunk()?);
        let salt = file.get(88..88 + usize::from(salt_bytes)).filter(|_| salt_bytes <= 256)?;
        let are_blocks = [data_bytes, hash_bytes]
            .iter()
            .all(|len| len.is_power_of_two() && BLOCKS.contains(len));
        // A single block has its root hash nowhere in the file.
        let is_some = blocks > 1 && blocks <= file.len() as u64;
        (is_known && are_blocks && is_some).then_some(Self {
            kind: u32_le(file, 12)?,
            algorithm,
            data_bytes,
            hash_bytes,
            blocks,
            salt,
        })
    }
}

/// Block lengths in bytes that the kernel accepts.
const BLOCKS: std::ops::RangeInclusive<u32> = 512..=65_536;

struct HashTree<'a> {
    file: &'a [u8],
    head: &'a VerityHeader<'a>,
    algorithm: SumAlgorithm,
}

impl HashTree<'_> {
    /// The hash blocks of each level, the top level first. `None` if the file is too short.
    fn levels(&self, per_block: u64) -> Option<Vec<&[u8]>> {
        let len = self.head.hash_bytes as usize;
        let mut blocks = vec![self.head.blocks.div_ceil(per_block)];
        while *blocks.last()? > 1 {
            blocks.push(blocks.last()?.div_ceil(per_block));
        }
        let mut at = len;
        let level = |blocks: &u64| {
            let end = at.checked_add(len.checked_mul(usize::try_from(*blocks).ok()?)?)?;
            let level = self.file.get(at..end);
            at = end;
            level
        };
        blocks.iter().rev().map(level).collect()
    }

    /// Checks all levels. Returns the root hash and the hashes of all data blocks.
    fn leaves(&self) -> Result<(Vec<u8>, Vec<u8>), LayoutError> {
        let (each, len) = (self.algorithm.len().unwrap_or(1), self.head.hash_bytes as usize);
        let stride = each.next_power_of_two();
        let levels = self.levels((len / stride) as u64);
        let levels = levels.ok_or_else(|| wrong("the file ends before the hashes"))?;
        let (mut root, mut above) = (None, Vec::new());
        for level in levels {
            let hashes: Vec<u8> = level.chunks(len).flat_map(|block| self.hash(block)).collect();
            if root.is_some() && !above.starts_with(&hashes) {
                return Err(LayoutError("the hashes do not agree: the file is damaged".into()));
            }
            root.get_or_insert(hashes);
            above = Vec::with_capacity(level.len() / stride * each);
            level.chunks(stride).for_each(|hash| above.extend_from_slice(&hash[..each]));
        }
        above.truncate(self.head.blocks as usize * each);
        Ok((root.unwrap_or_default(), above))
    }

    fn hash(&self, block: &[u8]) -> Vec<u8> {
        let salt = self.head.salt;
        match self.algorithm {
            SumAlgorithm::Sha1 => {
                Sha1::new().chain_update(salt).chain_update(block).finalize().to_vec()
            }
            _ => Sha256::new().chain_update(salt).chain_update(block).finalize().to_vec(),
        }
    }
}
