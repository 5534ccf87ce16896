//! Files of chunks of a MooseFS chunk server: a head, then CRC-32 of 1,024 blocks of 64 KiB, then the blocks. What
//! behind the end of a file is nothing counts as zeros.

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, UnitSums, u32_be};
use crate::moosefs::{BLOCK_BYTES, CHUNK_BYTES};
use crate::sums::{SumAlgorithm, hex};

/// The layout of a chunk, by the first bytes of its file, which has `len` of them.
pub(super) fn read(head: &[u8], len: u64) -> Result<Layout, LayoutError> {
    // Heads of old versions are shorter, and their sums stand elsewhere.
    let is_new = len.checked_sub(HEAD_BYTES as u64).is_some_and(|len| len % BLOCK_BYTES == 0);
    if !is_new || head.len() < HEAD_BYTES || !head.starts_with(b"MFSC 1.0") {
        return Err(LayoutError("no file of a chunk of MooseFS 3, or of an old version".into()));
    }
    let content = PartContent::Units(UnitSums::plain(
        SumAlgorithm::Crc32,
        BLOCK_BYTES as u32,
        head[TABLE..HEAD_BYTES].to_vec(),
    ));
    let mut layout = Layout::new("MooseFS", [0; 32]);
    layout.push(LayoutPart { len: CHUNK_BYTES, id: None, content })?;
    let version = u32_be(head, 16).unwrap_or_default();
    layout.about = vec![
        format!("chunk {}, version {version}", hex(&head[8..16])),
        "a server that runs may know newer sums".into(),
    ];
    layout.token = blake3::hash(&head[..HEAD_BYTES]).to_string();
    Ok(layout)
}

const TABLE: usize = 4096;
/// Bytes before the blocks.
pub(super) const HEAD_BYTES: usize = 8192;
