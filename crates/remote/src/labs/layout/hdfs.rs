//! `.meta` files of blocks of an HDFS datanode.
//!
//! Format, big-endian: `version` (2 bytes), `type` (1), `bytesPerChecksum` (4), then a 4-byte CRC for each unit.

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, UnitSums, u32_be};
use crate::sums::SumAlgorithm;

/// The layout of the block that the file describes. The file does not record the length of the last unit, so the layout
/// takes it for a full one.
pub(super) fn read(file: &[u8]) -> Result<Layout, LayoutError> {
    let wrong = |what: &str| LayoutError(format!("not a .meta file of HDFS: {what}"));
    let (head, sums) = file.split_at_checked(7).ok_or_else(|| wrong("the file is too short"))?;
    let algorithm = match head[..3] {
        [0, 1, 1] => SumAlgorithm::Crc32,
        [0, 1, 2] => SumAlgorithm::Crc32c,
        _ => return Err(wrong("another version, or no CRC")),
    };
    let bytes = u32_be(head, 3).filter(|bytes| UNITS.contains(bytes));
    let bytes = bytes.ok_or_else(|| wrong("an impossible bytesPerChecksum"))?;
    let len = (sums.len() as u64 / 4) * u64::from(bytes);
    let content = PartContent::Units(UnitSums::plain(algorithm, bytes, sums.to_vec()));
    let mut layout = Layout::new("HDFS", [0; 32]);
    layout.push(LayoutPart { len, id: None, content })?;
    layout.token = blake3::hash(file).to_string();
    layout.about =
        vec!["the last unit is taken for a full one: the file does not record its length".into()];
    Ok(layout)
}

/// Accepted lengths of units in bytes.
const UNITS: std::ops::RangeInclusive<u32> = 1..=1 << 26;
