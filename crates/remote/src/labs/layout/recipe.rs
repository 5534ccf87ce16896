//! Recipes of MeGA and MFDedup: the chunks of a backup with their fingerprints.
//!
//! ```text
//! MFDedup   fingerprint (20 bytes), unused (4), length (8)                    32 bytes a chunk
//! MeGA      the same; bit 0 of the length says that the chunk is stored as    64 bytes a chunk
//!           a delta, and the length of the chunk follows
//! ```
//!
//! Numbers have the byte order of the writing machine; little-endian is assumed. The fingerprint is multi-buffer SHA-1
//! of ISA-L. The files have no magic number and no version, so another file is refused only if its length or the chunk
//! lengths are impossible.

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, u64_le};
use crate::sums::{ContentSum, SumAlgorithm};

/// The layout of a backup, from an MFDedup recipe.
pub(super) fn mfdedup(file: &[u8]) -> Result<Layout, LayoutError> {
    chunks("MFDedup", file, 32, |record| u64_le(record, 24))
}

/// The layout of a backup, from a MeGA recipe.
pub(super) fn mega(file: &[u8]) -> Result<Layout, LayoutError> {
    chunks("MeGA", file, 64, |record| {
        let told = u64_le(record, 24)?;
        if told & 1 == 1 { u64_le(record, 32) } else { Some(told >> 1) }
    })
}

fn chunks(
    system: &'static str,
    file: &[u8],
    bytes: usize,
    len: impl Fn(&[u8]) -> Option<u64>,
) -> Result<Layout, LayoutError> {
    let wrong = || LayoutError(format!("not a recipe of {system}: impossible chunk lengths"));
    if file.is_empty() || !file.len().is_multiple_of(bytes) {
        let why = format!(
            "not a recipe of {system}: {} bytes is not a multiple of {bytes} per chunk",
            file.len()
        );
        return Err(LayoutError(why));
    }
    let mut layout = Layout::new(system, [0; 32]);
    for record in file.chunks_exact(bytes) {
        let len = len(record).filter(|len| LENS.contains(len)).ok_or_else(wrong)?;
        let sum = ContentSum { algorithm: SumAlgorithm::MultiSha1, bytes: record[..20].into() };
        layout.push(LayoutPart { len, id: None, content: PartContent::Whole(sum) })?;
    }
    layout.about =
        vec!["experimental: describes the backup when it was made, not a present file".into()];
    layout.token = blake3::hash(file).to_string();
    Ok(layout)
}

/// Accepted lengths of chunks in bytes, far beyond the lengths that the programs produce.
const LENS: std::ops::RangeInclusive<u64> = 1..=64 << 20;
