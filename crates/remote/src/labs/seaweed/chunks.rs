//! The chunks of a SeaweedFS file: which part of each is visible, and the checksum.
//!
//! A write within a file adds a chunk on top of the existing chunks. The newest chunk is visible.

use std::collections::BinaryHeap;
use std::ops::Range;

use blake3::Hasher;
use serde_json::Value;

use super::md5;
use crate::sums::{ContentSum, SumAlgorithm, SummedUnit};

/// A chunk of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileChunk {
    /// Byte range of the chunk in the file.
    pub(super) range: Range<u64>,
    /// True if the chunk holds a list of chunks instead of file content.
    pub(super) is_manifest: bool,
    /// Id of the chunk, unique in a cluster.
    id: String,
    /// Time of the write, in nanoseconds.
    written: i64,
    /// MD5 of the bytes that a read returns; `None` if the stored MD5 is of encrypted bytes.
    sum: Option<ContentSum>,
}

impl FileChunk {
    /// Parses a chunk of a filer's JSON. `None` without a file id, or with an end past 2^64.
    pub(super) fn parse(told: &Value) -> Option<Self> {
        let start = told["offset"].as_u64().unwrap_or(0);
        let end = start.checked_add(told["size"].as_u64().unwrap_or(0))?;
        let written = [&told["modified_ts_ns"], &told["mtime"]];
        // The MD5 of an encrypted chunk is of the encrypted bytes; the MD5 of a compressed chunk is of the plain bytes.
        let is_plain = told["cipher_key"].as_str().is_none_or(str::is_empty);
        let sum = told["e_tag"].as_str().filter(|_| is_plain).and_then(md5);
        Some(Self {
            range: start..end,
            is_manifest: told["is_chunk_manifest"].as_bool() == Some(true),
            id: told["file_id"].as_str().filter(|id| !id.is_empty())?.to_owned(),
            written: written.iter().find_map(|at| at.as_i64()).unwrap_or(0),
            sum,
        })
    }

    /// Feeds the chunk into the hash that identifies a file version.
    pub(super) fn feed(&self, hasher: &mut Hasher) {
        let numbers = [self.range.start, self.range.end, self.written as u64, self.id.len() as u64];
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.id.as_bytes());
    }

    /// The unit for the part of the chunk that is visible in `range` of the file.
    fn unit(&self, range: &Range<u64>, filer: &str) -> SummedUnit {
        let sum = self.sum.clone().filter(|_| *range == self.range);
        // A part of a chunk has no MD5. Chunks never change, so the chunk id names the bytes.
        let named = || {
            let from = range.start - self.range.start;
            ContentSum {
                algorithm: SumAlgorithm::Name,
                bytes: format!("{filer} {} {from}", self.id).into_bytes().into(),
            }
        };
        SummedUnit::new(range.end - range.start, Some(sum.unwrap_or_else(named)))
    }
}

/// The units of a file of `len` bytes. `None` if the list does not tell which chunk is visible.
pub(super) fn units(chunks: &[FileChunk], len: u64, filer: &str) -> Option<Vec<SummedUnit>> {
    let mut units = Vec::new();
    for (range, seen) in visible(chunks, len)? {
        units.push(match seen {
            Some(chunk) => chunk.unit(&range, filer),
            None => SummedUnit::new(range.end - range.start, None),
        });
    }
    Some(units)
}

/// Splits a file into ranges with the visible chunk of each, `None` for a hole. Returns `None` if overlapping chunks
/// have the same time, or a chunk is a list.
fn visible(chunks: &[FileChunk], len: u64) -> Option<Vec<(Range<u64>, Option<&FileChunk>)>> {
    if chunks.iter().any(|chunk| chunk.is_manifest) {
        return None;
    }
    let mut chunks: Vec<_> = chunks.iter().filter(|chunk| !chunk.range.is_empty()).collect();
    chunks.sort_by_key(|chunk| chunk.range.start);
    let ends = chunks.iter().flat_map(|chunk| [chunk.range.start, chunk.range.end]);
    let mut cuts: Vec<u64> = ends.chain([0, len]).filter(|at| *at <= len).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let (mut over, mut next) = (BinaryHeap::new(), 0);
    let mut seen: Vec<(Range<u64>, Option<usize>)> = Vec::new();
    for cut in cuts.windows(2) {
        let (start, end) = (cut[0], cut[1]);
        while let Some(chunk) = chunks.get(next).filter(|chunk| chunk.range.start <= start) {
            over.push((chunk.written, next));
            next += 1;
        }
        let mut top = || {
            while let Some((written, no)) = over.pop() {
                if chunks[no].range.end > start {
                    return Some((written, no));
                }
            }
            None
        };
        let (first, second) = (top(), top());
        if let (Some((one, _)), Some((other, _))) = (first, second)
            && one == other
        {
            return None;
        }
        over.extend(first.into_iter().chain(second));
        let chunk = first.map(|(_, no)| no);
        match seen.last_mut() {
            Some((range, last)) if *last == chunk => range.end = end,
            _ => seen.push((start..end, chunk)),
        }
    }
    Some(seen.into_iter().map(|(range, no)| (range, no.map(|no| chunks[no]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(range: Range<u64>, written: i64) -> FileChunk {
        let sum = ContentSum::new(SumAlgorithm::Md5, &[written as u8; 16]).ok();
        let id = format!("3,{written}");
        FileChunk { range, is_manifest: false, id, written, sum }
    }

    /// Start, end and write time of each visible range; time 0 for a hole.
    fn seen(chunks: &[FileChunk], len: u64) -> Vec<(u64, u64, i64)> {
        let seen = visible(chunks, len).unwrap();
        seen.iter()
            .map(|(range, chunk)| (range.start, range.end, chunk.map_or(0, |chunk| chunk.written)))
            .collect()
    }

    #[test]
    fn the_newest_chunk_is_visible() {
        assert_eq!(seen(&[chunk(0..10, 1), chunk(10..20, 2)], 20), [(0, 10, 1), (10, 20, 2)]);
        let within = [chunk(4..6, 3), chunk(0..10, 1), chunk(10..20, 2)];
        assert_eq!(seen(&within, 20), [(0, 4, 1), (4, 6, 3), (6, 10, 1), (10, 20, 2)]);
        let over = [chunk(0..10, 1), chunk(0..30, 9), chunk(20..40, 5)];
        assert_eq!(seen(&over, 40), [(0, 30, 9), (30, 40, 5)]);
        assert_eq!(seen(&[chunk(5..10, 1)], 20), [(0, 5, 0), (5, 10, 1), (10, 20, 0)]);
        assert_eq!(seen(&[chunk(0..10, 1)], 7), [(0, 7, 1)]);
        assert_eq!(seen(&[], 0), []);
        assert_eq!(visible(&[chunk(0..10, 1), chunk(9..12, 1)], 12), None);
    }

    #[test]
    fn only_a_wholly_visible_chunk_has_its_md5() {
        let chunks = [chunk(0..10, 1), chunk(10..20, 2), chunk(18..19, 3)];
        let units = units(&chunks, 25, "filer:1").unwrap();
        let told: Vec<_> = units
            .iter()
            .map(|unit| (unit.len, unit.sum.as_ref().map(|sum| sum.algorithm)))
            .collect();
        let (md5, name) = (Some(SumAlgorithm::Md5), Some(SumAlgorithm::Name));
        assert_eq!(told, [(10, md5), (8, name), (1, md5), (1, name), (5, None)]);
        assert_ne!(units[1].sum, units[3].sum);
    }

    #[test]
    fn random_chunks_give_the_same_result_as_painting_them_in_order() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let mut painted = vec![0; 64];
            let mut chunks: Vec<_> = (1..=random(12) as i64)
                .map(|written| {
                    let start = random(60);
                    let end = start + random(64 - start) + 1;
                    painted[start as usize..end as usize].fill(written);
                    chunk(start..end, written)
                })
                .collect();
            chunks.reverse();
            for (start, end, written) in seen(&chunks, 64) {
                assert!(painted[start as usize..end as usize].iter().all(|it| *it == written));
            }
        }
    }

    /// Recorded from a filer (4.48): a file of three chunks with four bytes overwritten.
    const RECORDED: &str = r#"[
        {"file_id":"6,01a3a2ccc7","size":1048576,"modified_ts_ns":1795710371620074370,
         "e_tag":"OpnQXhvo0HZoBcL9UmYb6w==","fid":{"volume_id":6,"file_key":1,"cookie":2745355463}},
        {"file_id":"1,035cc1c3ff","offset":1048576,"size":1048576,"modified_ts_ns":1795710372412903475,
         "e_tag":"EY1A9DcNRNGMwK8wGpBROg==","fid":{"volume_id":1,"file_key":3,"cookie":1556202495}},
        {"file_id":"6,026f8023af","offset":2097152,"size":402848,"modified_ts_ns":1795710372384038275,
         "e_tag":"qAabIsMuQP8cEYGmn3Vq/A==","fid":{"volume_id":6,"file_key":2,"cookie":1870668719}},
        {"file_id":"6,04b0410895","offset":500000,"size":4,"modified_ts_ns":1795710372757298033,
         "e_tag":"ymSC3nD3+8BXz09vPtMCKQ==","fid":{"volume_id":6,"file_key":4,"cookie":2957052053}}]"#;

    #[test]
    fn recorded_chunks_give_the_expected_units() {
        let told: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
        let chunks: Vec<_> = told.iter().map(|chunk| FileChunk::parse(chunk).unwrap()).collect();
        let units = units(&chunks, 2_500_000, "filer:1").unwrap();
        let lens: Vec<_> = units.iter().map(|unit| unit.len).collect();
        assert_eq!(lens, [500_000, 4, 548_572, 1_048_576, 402_848]);
        let named = units.iter().map(|unit| unit.sum.as_ref().unwrap().algorithm);
        let named: Vec<_> = named.map(|algorithm| algorithm == SumAlgorithm::Name).collect();
        assert_eq!(named, [true, false, true, false, false]);
    }

    #[test]
    fn a_chunk_with_an_overflowing_end_or_without_an_id_is_refused() {
        let parse = |text: &str| FileChunk::parse(&serde_json::from_str(text).unwrap());
        assert_eq!(parse(r#"{"file_id": "3,1", "size": 18446744073709551615, "offset": 1}"#), None);
        assert_eq!(parse(r#"{"size": 5}"#), None);
        let plain = r#"{"file_id": "3,1", "size": 1, "e_tag": "CY9rzUYh03PK3k6DJie09g=="}"#;
        assert!(parse(plain).unwrap().sum.is_some());
        let secret = plain.replace("1,", r#"1, "cipher_key": "eA==","#);
        assert_eq!(parse(&secret).unwrap().sum, None);
    }
}
