//! Files of chunks of a MooseFS chunk server.
//!
//! Format: a header, the CRC-32 of 1,024 blocks of 64 KiB, then the blocks. Blocks past the end of a file count as
//! zeros.

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, UnitSums, u32_be};
use crate::labs::moosefs::{BLOCK_BYTES, CHUNK_BYTES};
use crate::sums::{SumAlgorithm, hex};

/// Parses the layout of a chunk. `head` is the beginning of the chunk's file; the file has `len` bytes.
pub(super) fn read(head: &[u8], len: u64) -> Result<Layout, LayoutError> {
    // Older versions have a shorter header and another place for the checksums.
    let is_new = len.checked_sub(HEAD_BYTES as u64).is_some_and(|len| len % BLOCK_BYTES == 0);
    if !is_new || head.len() < HEAD_BYTES || !head.starts_with(b"MFSC 1.0") {
        return Err(LayoutError("not a chunk file of MooseFS 3, or of an old version".into()));
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
        "a running server may have newer checksums in memory".into(),
    ];
    layout.token = blake3::hash(&head[..HEAD_BYTES]).to_string();
    Ok(layout)
}

const TABLE: usize = 4096;
/// Length in bytes of the header and checksums.
pub(super) const HEAD_BYTES: usize = 8192;
