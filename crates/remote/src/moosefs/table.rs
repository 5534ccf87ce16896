//! Sums of a chunk, from a server that has it.

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

/// The sums of all blocks of a chunk, and their length in bytes.
const TABLE: (u32, usize) = (302, BLOCKS * 4);
/// The [seal](seal()) of a chunk, and its length in bytes.
const SEAL: (u32, usize) = (300, 4);
/// Length of a chunk in bytes.
pub(crate) const CHUNK_BYTES: u64 = 64 << 20;
/// Length of a block in bytes; what is behind the end of a file is zeros.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;
const BLOCKS: usize = (CHUNK_BYTES / BLOCK_BYTES) as usize;
/// Servers that are kept connected.
const MAX_SERVERS: usize = 64;

/// Servers of chunks, which are asked for sums.
#[derive(Debug, Default)]
pub(super) struct ChunkServers {
    kept: Mutex<HashMap<SocketAddrV4, TcpStream>>,
    received: AtomicU64,
}

impl ChunkServers {
    /// Bytes of sums that came.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The sums of all blocks of a chunk; nothing where no server has them.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where none answers.
    pub(super) fn table(&self, chunk: &ChunkLocation) -> Result<Option<Vec<u32>>, RemoteError> {
        if chunk.is_hole() {
            return Ok(Some(hole_table()));
        }
        Ok(self.first(chunk, TABLE)?.map(|told| numbers(&told)))
    }

    /// The [seal](seal()) of that table; nothing where no server says it.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where none answers.
    pub(super) fn seal(&self, chunk: &ChunkLocation) -> Result<Option<u32>, RemoteError> {
        if chunk.is_hole() {
            return Ok(Some(seal(&hole_table())));
        }
        Ok(self.first(chunk, SEAL)?.and_then(|told| numbers(&told).pop()))
    }

    /// The answer of the first server that has a chunk.
    fn first(
        &self,
        chunk: &ChunkLocation,
        kind: (u32, usize),
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut last = None;
        for server in &chunk.copies {
            // No chunk server has such an address, so whoever names one means another program.
            if is_near(IpAddr::V4(*server.ip())) {
                continue;
            }
            match self.ask(*server, chunk, kind) {
                Ok(Some(told)) => return Ok(Some(told)),
                // It has another version by now, or none.
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
        (kind, len): (u32, usize),
    ) -> io::Result<Option<Vec<u8>>> {
        let question = [&chunk.id.to_be_bytes()[..], &chunk.version.to_be_bytes()].concat();
        let ask = |mut stream| io::Result::Ok((ask(&mut stream, kind, &question)?, stream));
        let kept = lock(&self.kept).remove(&server).map(ask);
        let (answer, stream) = match kept {
            Some(Ok(answered)) => answered,
            _ => connect(server).and_then(ask)?,
        };
        self.received.fetch_add(answer.len() as u64, Ordering::Relaxed);
        let told = answer_content(&answer, &question, len)?;
        let mut kept = lock(&self.kept);
        if kept.len() < MAX_SERVERS {
            kept.insert(server, stream);
        }
        Ok(told.map(Into::into))
    }
}

/// The number that a server makes of the sums of all blocks of a chunk. Sums that differ in one place have another.
pub(super) fn seal(table: &[u32]) -> u32 {
    table.iter().fold(1, |all: u32, sum| all.wrapping_mul(426_265_243) ^ sum)
}

/// The sums of a chunk that was never written.
fn hole_table() -> Vec<u32> {
    vec![crc32fast::hash(&[0; BLOCK_BYTES as usize]); BLOCKS]
}

/// The content of an answer, which repeats the question: `len` bytes behind it, or why there are none.
fn answer_content<'a>(
    answer: &'a [u8],
    question: &[u8],
    len: usize,
) -> io::Result<Option<&'a [u8]>> {
    let mismatch = || io::Error::new(io::ErrorKind::InvalidData, "sums of another chunk");
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

/// The units of the chunk of that number of a file of `len` bytes, joined from the sums of its blocks.
pub(super) fn units(table: &[u32], no: u32, len: u64) -> Vec<SummedUnit> {
    let unit = unit_bytes(len).clamp(BLOCK_BYTES, CHUNK_BYTES);
    joined(table, CHUNK_BYTES.min(len - u64::from(no) * CHUNK_BYTES), unit)
}

/// Units of `len` bytes of a chunk, joined from the sums of its blocks.
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

    /// A table that a chunk server sent of a file of 150,001 bytes, and what made the file.
    const RECORDED: &[u8] = include_bytes!("table.bin");

    const RECORDED_SEAL: u32 = 0x20cb_7c80;

    fn file() -> Vec<u8> {
        (0..150_001_u32).map(|at| (at % 251) as u8).collect()
    }

    fn sum(bytes: &[u8], padded: u64) -> Vec<u8> {
        let mut all = bytes.to_vec();
        all.resize(padded as usize, 0);
        crc32fast::hash(&all).to_be_bytes().to_vec()
    }

    #[test]
    fn units_are_those_of_the_recorded_table() {
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
    fn nobody_on_this_machine_is_asked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let std::net::SocketAddr::V4(at) = listener.local_addr().unwrap() else { panic!("IPv6") };
        let chunk = ChunkLocation { id: 1, version: 1, copies: vec![at] };
        assert_eq!(ChunkServers::default().table(&chunk).unwrap(), None);
        assert!(listener.accept().is_err());
        // One that was never written needs nobody.
        let hole = ChunkLocation { id: 0, version: 0, copies: Vec::new() };
        let table = ChunkServers::default().table(&hole).unwrap().unwrap();
        assert_eq!(units(&table, 0, BLOCK_BYTES + 5).len(), 2);
        assert_eq!(units(&table, 1, CHUNK_BYTES + 5).len(), 1);
    }

    #[test]
    fn an_answer_of_another_chunk_is_none() {
        let (question, all) = RECORDED.split_at(12);
        assert_eq!(answer_content(RECORDED, question, TABLE.1).unwrap(), Some(all));
        assert_eq!(answer_content(&[question, &[19]].concat(), question, TABLE.1).unwrap(), None);
        assert!(answer_content(&RECORDED[..RECORDED.len() - 1], question, TABLE.1).is_err());
        assert!(answer_content(RECORDED, &[0; 12], TABLE.1).is_err());
        assert!(
            answer_content(&[], question, TABLE.1).is_err()
                && answer_content(RECORDED, question, 4).is_err()
        );
    }

    #[test]
    fn a_sum_that_changed_is_seen_by_the_seal() {
        let table = numbers(&RECORDED[12..]);
        // What a chunk server (3.0.117) said of that table.
        assert_eq!(seal(&table), RECORDED_SEAL);
        for at in [0, 1, BLOCKS / 2, BLOCKS - 1] {
            let mut other = table.clone();
            other[at] ^= 1;
            assert_ne!(seal(&other), RECORDED_SEAL);
        }
        let mut moved = table.clone();
        moved.swap(0, 1);
        assert_ne!(seal(&moved), RECORDED_SEAL);
    }
}
