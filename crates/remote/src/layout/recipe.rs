//! Recipes of MeGA and MFDedup: the chunks of a backup, each with a fingerprint.
//!
//! ```text
//! MFDedup   fingerprint of 20 bytes, 4 unused, length                                            32 bytes a chunk
//! MeGA      the same; the lowest bit of the length says that the chunk is kept as a delta,       64 bytes a chunk
//!           and its own length follows
//! ```
//!
//! Numbers are little-endian on the machines where the programs run. The fingerprint is multi-buffer SHA-1 of ISA-L.
//! A file has no mark and no version: what is none is refused only where its lengths make no sense.

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, u64_le};
use crate::sums::{ContentSum, SumAlgorithm};

/// The layout of the backup that a recipe of MFDedup is of.
pub(super) fn mfdedup(file: &[u8]) -> Result<Layout, LayoutError> {
    chunks("MFDedup", file, 32, |record| u64_le(record, 24))
}

/// The same of MeGA.
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
    let wrong = || LayoutError(format!("no recipe of {system}: its lengths make no sense"));
    if file.is_empty() || !file.len().is_multiple_of(bytes) {
        let why = format!("no recipe of {system}: {} bytes, of {bytes} a chunk", file.len());
        return Err(LayoutError(why));
    }
    let mut layout = Layout::new(system, [0; 32]);
    for record in file.chunks_exact(bytes) {
        let len = len(record).filter(|len| LENS.contains(len)).ok_or_else(wrong)?;
        let sum = ContentSum { algorithm: SumAlgorithm::MultiSha1, bytes: record[..20].into() };
        layout.push(LayoutPart { len, id: None, content: PartContent::Whole(sum) })?;
    }
    layout.about = vec!["experimental: what a backup was, which no file need be now".into()];
    layout.token = blake3::hash(file).to_string();
    Ok(layout)
}

/// Lengths of chunks in bytes, far beyond those that the programs make.
const LENS: std::ops::RangeInclusive<u64> = 1..=64 << 20;
