//! Requests to a MooseFS master: the chunks of a file and the addresses of their copies.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use crate::{RemoteError, lock};

/// Timeout of a server, for each step.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Message type of the first message. It registers a client that does not mount.
const REGISTER: u32 = 400;
const WORD: &[u8; 64] = b"DjI1GAQDULI5d2YjA26ypc3ovkhjvhciTQVx3CS4nYgtBoUcsljiVpsErJENHaw0";
const TOOLS: u8 = 4;
/// Protocol version of these messages.
const VERSION: [u8; 4] = [0, 3, 0, 234];
/// Message type that asks for a chunk of a file, its copies and their states.
const CHECK: u32 = 440;
const VALID: u8 = 0;
/// Message type of an empty message, which keeps a connection alive; and the most such messages in a row.
const NOP: u32 = 0;
const MAX_NOPS: usize = 100;
/// Most bytes of an answer.
const MAX_ANSWER: u32 = 64 << 10;
/// Requests sent before the first answer is read.
const QUESTIONS: u32 = 64;
/// Most copies of a chunk that are tried.
const MAX_COPIES: usize = 3;

/// A master, or the local port on which `mfsmount` forwards to the master; with the session of the mount.
#[derive(Debug)]
pub(super) struct MasterServer {
    address: SocketAddrV4,
    session: u32,
    stream: Mutex<Option<TcpStream>>,
}

/// A chunk and the addresses of its copies. A chunk that was never written has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkLocation {
    pub(super) id: u64,
    pub(super) version: u32,
    pub(super) copies: Vec<SocketAddrV4>,
}

impl ChunkLocation {
    /// True if the chunk was never written.
    pub(super) const fn is_hole(&self) -> bool {
        self.id == 0 && self.version == 0
    }
}

impl MasterServer {
    pub(super) const fn new(address: SocketAddrV4, session: u32) -> Self {
        Self { address, session, stream: Mutex::new(None) }
    }

    /// The first `count` chunks of a file. `None` if the master's answer is not understood.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`].
    pub(super) fn chunks(
        &self,
        inode: u32,
        count: u32,
    ) -> Result<Option<Vec<ChunkLocation>>, RemoteError> {
        if count == 0 {
            return Ok(Some(Vec::new()));
        }
        let mut held = lock(&self.stream);
        let ask = |mut stream| io::Result::Ok((ask_all(&mut stream, inode, count)?, stream));
        // An idle connection may be closed by now.
        let kept = held.take().map(ask);
        let (chunks, stream) = match kept {
            Some(Ok(told)) => told,
            _ => self.connect().and_then(ask).map_err(|error: io::Error| {
                let why = format!("{} (a master of MooseFS)", deltic_store::reason(&error));
                RemoteError::Unreachable { server: self.address.to_string(), why }
            })?,
        };
        *held = Some(stream);
        Ok(chunks)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = connect(self.address)?;
        let mut word = WORD.to_vec();
        word.push(TOOLS);
        word.extend(self.session.to_be_bytes());
        word.extend(VERSION);
        match ask(&mut stream, REGISTER, &word)?[..] {
            [0] => Ok(stream),
            _ => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the master does not know this mount",
            )),
        }
    }
}

/// Requests the first `count` chunks of a file, several requests at a time. Each answer must repeat the number of its
/// request.
fn ask_all(
    stream: &mut (impl Read + Write),
    inode: u32,
    count: u32,
) -> io::Result<Option<Vec<ChunkLocation>>> {
    let mismatch = || io::Error::new(io::ErrorKind::InvalidData, "an answer to another request");
    let mut chunks = Vec::new();
    for first in (0..count).step_by(QUESTIONS as usize) {
        let numbers = first..count.min(first + QUESTIONS);
        let question = |no: u32| message(CHECK, &[no, inode, no].map(u32::to_be_bytes).concat());
        stream.write_all(&numbers.clone().flat_map(question).collect::<Vec<_>>())?;
        for no in numbers {
            let told = answer(stream, CHECK)?;
            chunks.push(parse_chunk(told.strip_prefix(&no.to_be_bytes()).ok_or_else(mismatch)?));
        }
    }
    Ok(chunks.into_iter().collect())
}

/// Parses an answer: the chunk and its copies. `None` for an error status alone.
fn parse_chunk(told: &[u8]) -> Option<ChunkLocation> {
    let (id, rest) = told.split_first_chunk::<8>()?;
    let (version, copies) = rest.split_first_chunk::<4>()?;
    if copies.len() % 7 != 0 {
        return None;
    }
    let valid = copies.chunks_exact(7).filter(|copy| copy[6] == VALID);
    let copies = valid.take(MAX_COPIES).map(|copy| {
        let ip = Ipv4Addr::new(copy[0], copy[1], copy[2], copy[3]);
        SocketAddrV4::new(ip, u16::from_be_bytes([copy[4], copy[5]]))
    });
    let (id, version) = (u64::from_be_bytes(*id), u32::from_be_bytes(*version));
    Some(ChunkLocation { id, version, copies: copies.collect() })
}

pub(super) fn connect(address: SocketAddrV4) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::V4(address), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and returns the answer.
pub(super) fn ask(
    stream: &mut (impl Read + Write),
    kind: u32,
    question: &[u8],
) -> io::Result<Vec<u8>> {
    stream.write_all(&message(kind, question))?;
    answer(stream, kind)
}

fn message(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u32).to_be_bytes(), body].concat()
}

/// Reads an answer, whose message type is the request's plus one.
fn answer(stream: &mut impl Read, kind: u32) -> io::Result<Vec<u8>> {
    for _ in 0..MAX_NOPS {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let [told, len] = [&head[..4], &head[4..]]
            .map(|field| u32::from_be_bytes(field.try_into().expect("four bytes")));
        if (told != NOP && told != kind + 1) || len > MAX_ANSWER {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer of another type"));
        }
        let mut answer = vec![0; len as usize];
        stream.read_exact(&mut answer)?;
        if told != NOP {
            return Ok(answer);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "only keep-alive messages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_and_its_valid_copies_are_parsed() {
        let mut answer = 0x2a_u64.to_be_bytes().to_vec();
        answer.extend(3_u32.to_be_bytes());
        answer.extend([10, 99, 0, 1, 0x24, 0xce, VALID, 10, 99, 0, 2, 0x24, 0xce, 1]);
        let chunk = parse_chunk(&answer).unwrap();
        assert_eq!((chunk.id, chunk.version), (42, 3));
        assert_eq!(chunk.copies, ["10.99.0.1:9422".parse().unwrap()]);
        // An error status, and a truncated answer.
        assert_eq!(parse_chunk(&[6]), None);
        assert_eq!(parse_chunk(&answer[..answer.len() - 1]), None);
        assert_eq!(parse_chunk(&[]), None);
    }

    /// A stream with canned answers; it discards writes.
    struct CannedAnswers<'a>(&'a [u8]);

    impl Read for CannedAnswers<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Write for CannedAnswers<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_of_another_type_or_too_long_is_refused() {
        let ask = |told: &[u8]| ask(&mut CannedAnswers(told), CHECK, b"question");
        let nop = message(NOP, b"");
        let answer = message(CHECK + 1, b"yes");
        let mut long = message(CHECK + 1, &vec![0; MAX_ANSWER as usize + 1]);
        long.truncate(100);
        assert_eq!(ask(&[nop.clone(), answer.clone()].concat()).unwrap(), b"yes");
        for bad in [
            message(CHECK, b"yes"),
            long,
            answer[..answer.len() - 1].to_vec(),
            [nop.repeat(MAX_NOPS), answer].concat(),
            Vec::new(),
        ] {
            assert!(ask(&bad).is_err(), "{:?}", &bad[..bad.len().min(20)]);
        }
    }

    /// The answer to request `no`: a chunk without copies.
    fn chunk_answer(no: u32, id: u64, version: u32) -> Vec<u8> {
        let chunk = [&no.to_be_bytes()[..], &id.to_be_bytes(), &version.to_be_bytes()].concat();
        message(CHECK + 1, &chunk)
    }

    impl MasterServer {
        /// A master that answers each connection with the next of these chunks.
        pub(in super::super) fn with_chunks(chunks: Vec<(u64, u32)>) -> Self {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("IPv6") };
            std::thread::spawn(move || {
                for chunk in chunks {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut hello = [0; 8 + 73];
                    stream.read_exact(&mut hello).unwrap();
                    assert_eq!(hello[8..72], WORD[..]);
                    stream.write_all(&message(REGISTER + 1, &[0])).unwrap();
                    let mut question = [0; 8 + 12];
                    stream.read_exact(&mut question).unwrap();
                    stream.write_all(&chunk_answer(0, chunk.0, chunk.1)).unwrap();
                }
            });
            Self::new(address, 7)
        }
    }

    #[test]
    fn an_answer_with_the_number_of_another_request_is_refused() {
        let ask = |numbers: &[u32]| {
            let told: Vec<_> = numbers.iter().flat_map(|no| chunk_answer(*no, 9, *no)).collect();
            let count = numbers.len() as u32;
            let chunks = ask_all(&mut CannedAnswers(&told), 5, count).ok()??;
            Some(chunks.iter().map(|chunk| chunk.version).collect::<Vec<_>>())
        };
        let many: Vec<_> = (0..QUESTIONS * 2 + 1).collect();
        assert_eq!((ask(&many).as_ref(), ask(&[])), (Some(&many), Some(Vec::new())));
        assert_eq!((ask(&[1, 0]), ask(&[0, 1, 1])), (None, None));
        // One of the chunks answered by an error status.
        let state = message(CHECK + 1, &[0, 0, 0, 0, 6]);
        assert_eq!(
            ask_all(&mut CannedAnswers(&[state, chunk_answer(1, 9, 1)].concat()), 5, 2).unwrap(),
            None
        );
    }

    #[test]
    fn a_closed_connection_is_opened_again() {
        let master = MasterServer::with_chunks(vec![(9, 0), (9, 1)]);
        for version in [0, 1] {
            assert_eq!(master.chunks(9, 1).unwrap().unwrap()[0].version, version);
        }
        assert!(master.chunks(9, 1).is_err());
    }
}
