//! The layout of a local file, from the local file system: places of the bytes, and stored checksums.

use std::ops::Range;

use deltic_core::stored::{BlockSum, SumStrength};
use deltic_core::{StoredSums, SumKind};
use deltic_net::LocalSnapshot;
use deltic_store::Snapshot;
use deltic_store::facts::ExtentContent;
use deltic_tree::Timestamp;

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, StorageId, UnitSums};
use crate::sums::SumAlgorithm;

/// The layout of `file`, made without reading content.
///
/// # Errors
/// [`LayoutError`] if the file system does not report block addresses, the file has too many parts, or the file changed
/// meanwhile.
pub fn layout(file: &LocalSnapshot) -> Result<Layout, LayoutError> {
    let (extents, system, identities, about) = match file.extents()? {
        Some(extents) => (extents, "btrfs", SumStrength::Proof, Vec::new()),
        None => {
            let why = format!("no extent identities: {}", file.missing_extents_reason());
            match file.device_addresses()? {
                Some(mapped) => {
                    let shared = format!("{} bytes are shared with other files", mapped.shared);
                    let about = if mapped.shared > 0 { vec![why, shared] } else { vec![why] };
                    (mapped.extents, "FIEMAP", SumStrength::Hint, about)
                }
                None => {
                    return Err(LayoutError(
                        "the file system records nothing about this file".into(),
                    ));
                }
            }
        }
    };
    let mut layout = Layout::new(system, *extents.store());
    (layout.about, layout.identities, layout.token) = (about, identities, token(file));
    let mut sums = SumReader { file, is_kept: true, told: None, left: MAX_SUM_BYTES };
    for (range, is) in extents.parts() {
        sums.push_range(&mut layout, &range, is)?;
    }
    if !sums.is_kept && sums.left == 0 {
        layout.about.push(format!("only the first {MAX_SUM_BYTES} bytes of checksums are shown"));
    }
    Ok(layout)
}

/// Reads stored checksums of a file window by window.
struct SumReader<'a> {
    file: &'a LocalSnapshot,
    is_kept: bool,
    /// Checksums of the last window, and the window's start.
    told: Option<(u64, StoredSums)>,
    /// Bytes of checksums that may still be added.
    left: usize,
}

impl SumReader<'_> {
    /// Loads the checksums of the window at `start`, unless loaded.
    fn load_window(&mut self, start: u64) -> Result<(), LayoutError> {
        if self.is_kept && self.told.as_ref().is_none_or(|(told, _)| *told != start) {
            let window = start..self.file.meta().len.min(start + WINDOW_BYTES);
            self.told = self.file.stored_sums(&window)?.map(|told| (start, told));
            self.is_kept = self.told.is_some();
        }
        Ok(())
    }

    /// Appends `range` of the file, which lies at `is`, block by block. The layout joins adjacent blocks.
    fn push_range(
        &mut self,
        layout: &mut Layout,
        range: &Range<u64>,
        is: ExtentContent,
    ) -> Result<(), LayoutError> {
        if is == ExtentContent::Zero {
            return layout.push(LayoutPart {
                len: range.end - range.start,
                id: None,
                content: PartContent::Zero,
            });
        }
        let mut at = range.start;
        while at < range.end {
            self.load_window(at - at % WINDOW_BYTES)?;
            let (content, len) = self.block_content(at..range.end);
            if let PartContent::Units(units) = &content {
                self.left = self.left.saturating_sub(units.sums.len());
                self.is_kept &= self.left > 0;
            }
            let id = match is {
                ExtentContent::Id { id, from } => {
                    Some(StorageId { of: id, from: from + (at - range.start) })
                }
                ExtentContent::Zero | ExtentContent::Unknown => None,
            };
            layout.push(LayoutPart { len, id, content })?;
            at += len;
        }
        Ok(())
    }

    /// The recorded facts about the first block of `range`, and the length of the block in bytes. If no checksums are
    /// stored, of the whole range.
    fn block_content(&self, range: Range<u64>) -> (PartContent, u64) {
        let Some((_, told)) = self.told.as_ref().filter(|_| self.is_kept) else {
            return (PartContent::Unknown, range.end - range.start);
        };
        let (at, block) = (range.start, u64::from(told.block_bytes()));
        let len = (block - at % block).min(range.end - at);
        let content = match told.sum_at(at) {
            BlockSum::Sum(sum) if len == block => {
                let sum = in_order(told.kind(), sum);
                PartContent::Units(UnitSums::plain(algorithm(told.kind()), told.block_bytes(), sum))
            }
            BlockSum::Zero => PartContent::Zero,
            BlockSum::Sum(_) | BlockSum::Unknown => PartContent::Unknown,
        };
        (content, len)
    }
}

const fn algorithm(kind: SumKind) -> SumAlgorithm {
    match kind {
        SumKind::Crc32c => SumAlgorithm::Crc32c,
        SumKind::Xxh64 => SumAlgorithm::Xxh64,
        SumKind::Sha256 => SumAlgorithm::Sha256,
        SumKind::Blake2b => SumAlgorithm::Blake2b,
    }
}

/// The bytes of a checksum; big-endian if the algorithm yields a number.
fn in_order(kind: SumKind, sum: &[u8]) -> Vec<u8> {
    match kind {
        SumKind::Crc32c | SumKind::Xxh64 => sum.iter().rev().copied().collect(),
        SumKind::Sha256 | SumKind::Blake2b => sum.to_vec(),
    }
}

fn token(file: &LocalSnapshot) -> String {
    let meta = file.meta();
    let Timestamp { secs, nanos } = meta.modified;
    let version = file.identity().map(|version| {
        let Timestamp { secs, nanos } = version.changed;
        format!(", changed {secs}.{nanos:09}")
    });
    format!("{} bytes, modified {secs}.{nanos:09}{}", meta.len, version.unwrap_or_default())
}

/// Bytes of a file whose checksums are loaded at once.
const WINDOW_BYTES: u64 = 64 << 20;
/// Most bytes of checksums of a file.
const MAX_SUM_BYTES: usize = 256 << 20;
