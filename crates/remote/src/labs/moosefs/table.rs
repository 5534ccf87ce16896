//! Checksums of a chunk, from a chunk server that has a copy.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddrV4, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crc32fast::Hasher;

use super::master::{ChunkLocation, ask, connect};
use crate::http::is_near;
use crate::sums::{ContentSum, SumAlgorithm, SummedUnit, unit_bytes};
use crate::{RemoteError, lock};

/// Request for the checksums of all blocks of a chunk.
const TABLE: ChunkRequest = ChunkRequest { kind: 302, answer_bytes: BLOCKS * 4 };
/// Request for the [combined checksum](combined_checksum()) of a chunk.
const COMBINED_CHECKSUM: ChunkRequest = ChunkRequest { kind: 300, answer_bytes: 4 };
/// Length of a chunk in bytes.
pub(crate) const CHUNK_BYTES: u64 = 64 << 20;
/// Length of a block in bytes. Zeros fill the last block of a file.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;
const BLOCKS: usize = (CHUNK_BYTES / BLOCK_BYTES) as usize;
/// Most idle connections.
const MAX_SERVERS: usize = 64;

/// A request about a chunk: message type, and length of the answer in bytes.
#[derive(Clone, Copy)]
struct ChunkRequest {
    kind: u32,
    answer_bytes: usize,
}

/// Connections to chunk servers.
#[derive(Debug, Default)]
pub(super) struct ChunkServers {
    kept: Mutex<HashMap<SocketAddrV4, TcpStream>>,
    received: AtomicU64,
}

impl ChunkServers {
    /// Bytes of checksums received.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The checksums of all blocks of a chunk. `None` if no server has the chunk in this version.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] if no server answers.
    pub(super) fn table(&self, chunk: &ChunkLocation) -> Result<Option<Vec<u32>>, RemoteError> {
        if chunk.is_hole() {
            return Ok(Some(hole_table()));
        }
        Ok(self.first(chunk, TABLE)?.map(|told| numbers(&told)))
    }

    /// The [combined checksum](combined_checksum()) of a chunk. `None` if no server has the chunk in this version.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] if no server answers.
    pub(super) fn combined_checksum(
        &self,
        chunk: &ChunkLocation,
    ) -> Result<Option<u32>, RemoteError> {
        if chunk.is_hole() {
            return Ok(Some(combined_checksum(&hole_table())));
        }
        Ok(self.first(chunk, COMBINED_CHECKSUM)?.and_then(|told| numbers(&told).pop()))
    }

    /// The answer of the first server that has the chunk.
    fn first(
        &self,
        chunk: &ChunkLocation,
        request: ChunkRequest,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut last = None;
        for server in &chunk.copies {
            // A chunk server never has a loopback or link-local address, so such a copy points at another program.
            if is_near(IpAddr::V4(*server.ip())) {
                continue;
            }
            match self.ask(*server, chunk, request) {
                Ok(Some(told)) => return Ok(Some(told)),
                // The server has no copy, or another version.
                Ok(None) => {}
                Err(error) => last = Some((server, error)),
            }
        }
        let Some((server, error)) = last else { return Ok(None) };
        let why = format!("{} (a chunk server)", deltic_store::reason(&error));
        Err(RemoteError::Unreachable { server: server.to_string(), why })
    }

    fn ask(
        &self,
        server: SocketAddrV4,
        chunk: &ChunkLocation,
        request: ChunkRequest,
    ) -> io::Result<Option<Vec<u8>>> {
        let question = [&chunk.id.to_be_bytes()[..], &chunk.version.to_be_bytes()].concat();
        let ask = |mut stream| io::Result::Ok((ask(&mut stream, request.kind, &question)?, stream));
        let kept = lock(&self.kept).remove(&server).map(ask);
        let (answer, stream) = match kept {
            Some(Ok(answered)) => answered,
            _ => connect(server).and_then(ask)?,
        };
        self.received.fetch_add(answer.len() as u64, Ordering::Relaxed);
        let told = answer_content(&answer, &question, request.answer_bytes)?;
        let mut kept = lock(&self.kept);
        if kept.len() < MAX_SERVERS {
            kept.insert(server, stream);
        }
        Ok(told.map(Into::into))
    }
}

/// The combined checksum of a chunk: a number that a chunk server computes from the checksums of all its blocks. Tables
/// that differ in one checksum have different combined checksums.
pub(super) fn combined_checksum(table: &[u32]) -> u32 {
    table.iter().fold(1, |all: u32, sum| all.wrapping_mul(426_265_243) ^ sum)
}

/// The checksums of a chunk that was never written.
fn hole_table() -> Vec<u32> {
    vec![crc32fast::hash(&[0; BLOCK_BYTES as usize]); BLOCKS]
}

/// Strips the request, which the answer repeats. `None` if an error status follows.
///
/// # Errors
/// The answer is to another request, or not `len` bytes long.
fn answer_content<'a>(
    answer: &'a [u8],
    question: &[u8],
    len: usize,
) -> io::Result<Option<&'a [u8]>> {
    let mismatch = || io::Error::new(io::ErrorKind::InvalidData, "checksums of another chunk");
    let told = answer.strip_prefix(question).ok_or_else(mismatch)?;
    match told.len() {
        1 => Ok(None),
        now if now == len => Ok(Some(told)),
        _ => Err(mismatch()),
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    let number = |four: &[u8]| u32::from_be_bytes(four.try_into().expect("four bytes"));
    bytes.chunks_exact(4).map(number).collect()
}

/// The units of chunk `no` of a file of `len` bytes, combined from the checksums of its blocks.
pub(super) fn units(table: &[u32], no: u32, len: u64) -> Vec<SummedUnit> {
    let unit = unit_bytes(len).clamp(BLOCK_BYTES, CHUNK_BYTES);
    joined(table, CHUNK_BYTES.min(len - u64::from(no) * CHUNK_BYTES), unit)
}

/// The units of the first `len` bytes of a chunk, combined from the checksums of its blocks.
fn joined(table: &[u32], len: u64, unit: u64) -> Vec<SummedUnit> {
    let each = table.chunks((unit / BLOCK_BYTES) as usize).zip((0..len).step_by(unit as usize));
    let units = each.map(|(sums, start)| {
        let bytes = unit.min(len - start);
        let padded = bytes.next_multiple_of(BLOCK_BYTES);
        let mut all = Hasher::new();
        for sum in &sums[..(padded / BLOCK_BYTES) as usize] {
            all.combine(&Hasher::new_with_initial_len(*sum, BLOCK_BYTES));
        }
        let sum = ContentSum {
            algorithm: SumAlgorithm::Crc32,
            bytes: all.finalize().to_be_bytes().into(),
        };
        SummedUnit { len: bytes, padded, sum: Some(sum) }
    });
    units.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded answer of a chunk server for a file of 150,001 bytes.
    const RECORDED: &[u8] = include_bytes!("table.bin");

    const RECORDED_CHECKSUM: u32 = 0x20cb_7c80;

    fn file() -> Vec<u8> {
        (0..150_001_u32).map(|at| (at % 251) as u8).collect()
    }

    fn sum(bytes: &[u8], padded: u64) -> Vec<u8> {
        let mut all = bytes.to_vec();
        all.resize(padded as usize, 0);
        crc32fast::hash(&all).to_be_bytes().to_vec()
    }

    #[test]
    fn a_recorded_table_has_the_checksums_of_the_file() {
        let table = numbers(&RECORDED[12..]);
        let bytes = file();
        for unit in [BLOCK_BYTES, BLOCK_BYTES * 2, BLOCK_BYTES * 8] {
            let units = joined(&table, bytes.len() as u64, unit);
            let mut start = 0;
            for one in &units {
                let end = start + one.len as usize;
                let told = one.sum.as_ref().unwrap();
                assert_eq!(told.bytes[..], sum(&bytes[start..end], one.padded), "{unit} {start}");
                start = end;
            }
            assert_eq!(start, bytes.len());
        }
    }

    #[test]
    fn a_copy_on_a_loopback_address_is_not_contacted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let std::net::SocketAddr::V4(at) = listener.local_addr().unwrap() else { panic!("IPv6") };
        let chunk = ChunkLocation { id: 1, version: 1, copies: vec![at] };
        assert_eq!(ChunkServers::default().table(&chunk).unwrap(), None);
        assert!(listener.accept().is_err());
        // A chunk that was never written needs no server.
        let hole = ChunkLocation { id: 0, version: 0, copies: Vec::new() };
        let table = ChunkServers::default().table(&hole).unwrap().unwrap();
        assert_eq!(units(&table, 0, BLOCK_BYTES + 5).len(), 2);
        assert_eq!(units(&table, 1, CHUNK_BYTES + 5).len(), 1);
    }

    #[test]
    fn an_answer_for_another_chunk_is_refused() {
        let (question, all) = RECORDED.split_at(12);
        assert_eq!(answer_content(RECORDED, question, TABLE.answer_bytes).unwrap(), Some(all));
        assert_eq!(
            answer_content(&[question, &[19]].concat(), question, TABLE.answer_bytes).unwrap(),
            None
        );
        assert!(
            answer_content(&RECORDED[..RECORDED.len() - 1], question, TABLE.answer_bytes).is_err()
        );
        assert!(answer_content(RECORDED, &[0; 12], TABLE.answer_bytes).is_err());
        assert!(
            answer_content(&[], question, TABLE.answer_bytes).is_err()
                && answer_content(RECORDED, question, 4).is_err()
        );
    }

    #[test]
    fn a_changed_or_moved_checksum_changes_the_combined_checksum() {
        let table = numbers(&RECORDED[12..]);
        // Recorded from a chunk server (3.0.117) for that table.
        assert_eq!(combined_checksum(&table), RECORDED_CHECKSUM);
        for at in [0, 1, BLOCKS / 2, BLOCKS - 1] {
            let mut other = table.clone();
            other[at] ^= 1;
            assert_ne!(combined_checksum(&other), RECORDED_CHECKSUM);
        }
        let mut moved = table.clone();
        moved.swap(0, 1);
        assert_ne!(combined_checksum(&moved), RECORDED_CHECKSUM);
    }
}
