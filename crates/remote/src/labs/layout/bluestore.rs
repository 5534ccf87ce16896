//! Objects of BlueStore, as `ceph-objectstore-tool OBJECT dump` prints them (JSON) for a stopped OSD.
//!
//! An object's extents lie in blobs. A blob has a CRC-32C for each whole chunk, without the final inversion. Two kinds
//! of chunks count as unknown: a chunk that an extent covers only in part, and the last chunk, which may hold old bytes
//! behind the end. The checksums of a compressed blob are of the compressed bytes.

use std::ops::Range;

use serde_json::Value;

use super::parts::{Layout, LayoutError, LayoutPart, PartContent, UnitSums};
use crate::sums::{ContentSum, SumAlgorithm};

/// Parses the dump of an object.
pub(super) fn read(file: &[u8]) -> Result<Layout, LayoutError> {
    let wrong = |what: &str| LayoutError(format!("not a dump of an object of BlueStore: {what}"));
    let told: Value = serde_json::from_slice(file).map_err(|error| wrong(&error.to_string()))?;
    let onode = &told["onode"];
    let len = onode["size"].as_u64().ok_or_else(|| wrong("no size"))?;
    let extents = onode["extents"].as_array().ok_or_else(|| wrong("no extents"))?;
    let mut layout = Layout::new("BlueStore", [0; 32]);
    for extent in extents {
        let extent = BlobExtent::read(extent).ok_or_else(|| wrong("invalid extent"))?;
        if extent.logical.start < layout.len() {
            return Err(wrong("extents that overlap"));
        }
        let hole = extent.logical.start.min(len) - layout.len();
        layout.push(LayoutPart { len: hole, id: None, content: PartContent::Zero })?;
        extent.push(&mut layout, len)?;
    }
    layout.push(LayoutPart {
        len: len.saturating_sub(layout.len()),
        id: None,
        content: PartContent::Zero,
    })?;
    let info = &told["info"];
    layout.token = info["version"].as_str().unwrap_or_default().to_owned();
    layout.about = vec![format!("object {}", info["oid"]["oid"].as_str().unwrap_or("?"))];
    Ok(layout)
}

/// An extent of an object, and the blob around the extent.
struct BlobExtent {
    logical: Range<u64>,
    /// Offset of the extent in the blob, in bytes.
    from: u64,
    /// Uncompressed and compressed length in bytes; `None` for an uncompressed blob.
    packed: Option<(u64, u64)>,
    /// Bytes per checksum; `None` without checksums.
    chunk: Option<u32>,
    sums: Vec<u32>,
}

impl BlobExtent {
    fn read(extent: &Value) -> Option<Self> {
        const COMPRESSED: u64 = 2;
        const CRC32C: u64 = 4;
        let blob = &extent["blob"];
        let start = extent["logical_offset"].as_u64()?;
        let logical = start..start.checked_add(extent["length"].as_u64()?)?;
        let is_packed = blob["flags"].as_u64()? & COMPRESSED != 0;
        let lens = (blob["logical_length"].as_u64()?, blob["compressed_length"].as_u64()?);
        let order = blob["csum_chunk_order"].as_u64().filter(|_| blob["csum_type"] == CRC32C);
        let sums = match &blob["csum_data"] {
            Value::Null => &[][..],
            told => told.as_array()?,
        };
        let sum = |sum: &Value| u32::try_from(sum.as_u64()?).ok();
        Some(Self {
            logical,
            from: extent["blob_offset"].as_u64()?,
            packed: is_packed.then_some(lens),
            chunk: order.filter(|order| CHUNKS.contains(order)).map(|order| 1 << order),
            sums: sums.iter().map(sum).collect::<Option<_>>()?,
        })
    }

    /// Appends the extent to the layout of an object of `len` bytes.
    fn push(&self, layout: &mut Layout, len: u64) -> Result<(), LayoutError> {
        let end = self.logical.end.min(len);
        let all = end.saturating_sub(self.logical.start.min(end));
        let (summed, content) = match (self.packed, self.chunk) {
            (Some((unpacked, packed)), Some(chunk)) => {
                let sums = packed.div_ceil(chunk.into());
                let is_summed = packed > 0 && self.sums.len() as u64 >= sums;
                let is_whole = is_summed && self.from == 0 && unpacked == all;
                let bytes = self.sums.iter().flat_map(|sum| (!sum).to_be_bytes()).collect();
                let sum = ContentSum { algorithm: SumAlgorithm::Crc32c, bytes };
                let how = format!("packed to {packed} bytes");
                (if is_whole { all } else { 0 }, PartContent::Encoded(how, sum))
            }
            (None, Some(chunk)) => {
                let bytes = u64::from(chunk);
                let (first, count) = (self.from / bytes, all / bytes);
                let sums = usize::try_from(first).ok().zip(usize::try_from(count).ok());
                let sums =
                    sums.and_then(|(first, count)| self.sums.get(first..first.checked_add(count)?));
                let sums = sums.filter(|_| self.from.is_multiple_of(bytes)).unwrap_or_default();
                let told = sums.iter().flat_map(|sum| (!sum).to_be_bytes()).collect();
                let units = UnitSums::plain(SumAlgorithm::Crc32c, chunk, told);
                (sums.len() as u64 * bytes, PartContent::Units(units))
            }
            (_, None) => (0, PartContent::Unknown),
        };
        layout.push(LayoutPart { len: summed, id: None, content })?;
        layout.push(LayoutPart { len: all - summed, id: None, content: PartContent::Unknown })
    }
}

/// Accepted chunk lengths, as exponents of two.
const CHUNKS: std::ops::RangeInclusive<u64> = 9..=26;
