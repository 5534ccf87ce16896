//! Sums of a chunk, from a server that has it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddrV4, TcpStream};

use crc32fast::Hasher;

use super::master::{Chunk, ask, connect};
use crate::RemoteError;
use crate::http::is_near;
use crate::sums::{Algorithm, Sum, Unit, unit_bytes};

/// The sums of all blocks of a chunk.
const TABLE: u32 = 302;
/// Length of a chunk in bytes.
pub(super) const CHUNK_BYTES: u64 = 64 << 20;
/// Length of a block in bytes; what is behind the end of a file is zeros.
const BLOCK_BYTES: u64 = 64 << 10;
const BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES;
/// Servers that are kept connected.
const MAX_SERVERS: usize = 64;

/// Sums of the chunks of one file.
pub(super) struct Tables {
    len: u64,
    /// Length of a unit in bytes: so many whole blocks.
    unit: u64,
    servers: HashMap<SocketAddrV4, TcpStream>,
    received: u64,
}

impl Tables {
    /// Begins with a file of `len` bytes.
    pub(super) fn new(len: u64) -> Self {
        let unit = unit_bytes(len).clamp(BLOCK_BYTES, CHUNK_BYTES);
        Self { len, unit, servers: HashMap::new(), received: 0 }
    }

    /// Bytes of tables that came.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// The units of the chunk of that number; nothing where no server has its sums.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where none answers.
    pub(super) fn units(
        &mut self,
        chunk: &Chunk,
        no: u64,
    ) -> Result<Option<Vec<Unit>>, RemoteError> {
        let start = no * CHUNK_BYTES;
        let len = CHUNK_BYTES.min(self.len - start);
        if chunk.id == 0 && chunk.version == 0 {
            // It was never written.
            let zeros = crc32fast::hash(&[0; BLOCK_BYTES as usize]);
            return Ok(Some(joined(&[zeros; BLOCKS as usize], len, self.unit)));
        }
        let mut last = None;
        for server in &chunk.copies {
            // No chunk server has such an address, so whoever names one means another program.
            if is_near(IpAddr::V4(*server.ip())) {
                continue;
            }
            match self.ask(*server, chunk) {
                Ok(Some(table)) => return Ok(Some(joined(&table, len, self.unit))),
                // It has another version by now, or none.
                Ok(None) => {}
                Err(error) => last = Some((server, error)),
            }
        }
        let Some((server, error)) = last else { return Ok(None) };
        let why = format!("{} (a chunk server)", deltic_store::reason(&error));
        Err(RemoteError::Unreachable { server: server.to_string(), why })
    }

    fn ask(&mut self, server: SocketAddrV4, chunk: &Chunk) -> io::Result<Option<Vec<u32>>> {
        let mut question = chunk.id.to_be_bytes().to_vec();
        question.extend(chunk.version.to_be_bytes());
        let kept = self.servers.remove(&server).map(|mut stream| {
            let answer = ask(&mut stream, TABLE, &question)?;
            io::Result::Ok((stream, answer))
        });
        let (stream, answer) = match kept {
            Some(Ok(answered)) => answered,
            _ => {
                let mut stream = connect(server)?;
                let answer = ask(&mut stream, TABLE, &question)?;
                (stream, answer)
            }
        };
        if self.servers.len() < MAX_SERVERS {
            self.servers.insert(server, stream);
        }
        self.received += answer.len() as u64;
        parse_table(&answer, &question)
    }
}

/// From an answer, which repeats the question; behind it are sums, or why there are none.
fn parse_table(answer: &[u8], question: &[u8]) -> io::Result<Option<Vec<u32>>> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "a table of another chunk");
    let told = answer.strip_prefix(question).ok_or_else(odd)?;
    match told.len() as u64 {
        1 => Ok(None),
        len if len == BLOCKS * 4 => {
            let number = |sum: &[u8]| u32::from_be_bytes(sum.try_into().expect("four bytes"));
            Ok(Some(told.chunks_exact(4).map(number).collect()))
        }
        _ => Err(odd()),
    }
}

/// Units of `len` bytes of a chunk, joined from the sums of its blocks.
fn joined(table: &[u32], len: u64, unit: u64) -> Vec<Unit> {
    let each = table.chunks((unit / BLOCK_BYTES) as usize).zip((0..len).step_by(unit as usize));
    let units = each.map(|(sums, start)| {
        let bytes = unit.min(len - start);
        let padded = bytes.next_multiple_of(BLOCK_BYTES);
        let mut all = Hasher::new();
        for sum in &sums[..(padded / BLOCK_BYTES) as usize] {
            all.combine(&Hasher::new_with_initial_len(*sum, BLOCK_BYTES));
        }
        let sum = Sum { algorithm: Algorithm::Crc32, bytes: all.finalize().to_be_bytes().into() };
        Unit { len: bytes, padded, sum: Some(sum) }
    });
    units.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that a chunk server sent of a file of 150,001 bytes, and what made the file.
    const RECORDED: &[u8] = include_bytes!("table.bin");

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
        let (question, _) = RECORDED.split_at(12);
        let table = parse_table(RECORDED, question).unwrap().unwrap();
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
        let chunk = Chunk { id: 1, version: 1, copies: vec![at] };
        assert_eq!(Tables::new(5).units(&chunk, 0).unwrap(), None);
        assert!(listener.accept().is_err());
        // One that was never written needs nobody.
        let hole = Chunk { id: 0, version: 0, copies: Vec::new() };
        assert_eq!(Tables::new(BLOCK_BYTES + 5).units(&hole, 0).unwrap().unwrap().len(), 2);
    }

    #[test]
    fn an_answer_of_another_chunk_is_none() {
        let question = &RECORDED[..12];
        assert_eq!(parse_table(&[question, &[19]].concat(), question).unwrap(), None);
        assert!(parse_table(&RECORDED[..RECORDED.len() - 1], question).is_err());
        assert!(parse_table(RECORDED, &[0; 12]).is_err());
        assert!(parse_table(&[], question).is_err());
    }
}
