//! Questions to a master: which chunk a part of a file is, and who has it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use crate::{RemoteError, lock};

/// Longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(20);
/// First message, of a program that looks and does not mount.
const REGISTER: u32 = 400;
const WORD: &[u8; 64] = b"DjI1GAQDULI5d2YjA26ypc3ovkhjvhciTQVx3CS4nYgtBoUcsljiVpsErJENHaw0";
const TOOLS: u8 = 4;
/// The version of which the messages here are.
const VERSION: [u8; 4] = [0, 3, 0, 234];
/// Chunk of a file, its copies and their states.
const CHECK: u32 = 440;
const VALID: u8 = 0;
/// A message without meaning, which keeps a connection alive; so many of them at most.
const NOP: u32 = 0;
const MAX_NOPS: usize = 100;
/// Most bytes of an answer.
const MAX_ANSWER: u32 = 64 << 10;
/// Copies of a chunk that are asked at most.
const MAX_COPIES: usize = 3;

/// A master, or what `mfsmount` listens with for it, and the session of a mount there.
#[derive(Debug)]
pub(super) struct Master {
    address: SocketAddrV4,
    session: u32,
    stream: Mutex<Option<TcpStream>>,
}

/// A chunk, and where its copies are; of one that was never written nobody has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) id: u64,
    pub(super) version: u32,
    pub(super) copies: Vec<SocketAddrV4>,
}

impl Master {
    pub(super) const fn new(address: SocketAddrV4, session: u32) -> Self {
        Self { address, session, stream: Mutex::new(None) }
    }

    /// The chunk of that number of a file; nothing where the master does not say it in a way that is known here.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`].
    pub(super) fn chunk(&self, inode: u32, no: u32) -> Result<Option<Chunk>, RemoteError> {
        let mut question = [0; 12];
        question[4..8].copy_from_slice(&inode.to_be_bytes());
        question[8..].copy_from_slice(&no.to_be_bytes());
        let mut held = lock(&self.stream);
        // A connection that was kept may be over by now.
        let kept = held.take().map(|stream| self.asked(stream, &question));
        let (stream, answer) = match kept {
            Some(Ok(answered)) => answered,
            _ => self.connect().and_then(|stream| self.asked(stream, &question)).map_err(
                |error| {
                    let why = format!("{} (a master of MooseFS)", deltic_store::reason(&error));
                    RemoteError::Unreachable { server: self.address.to_string(), why }
                },
            )?,
        };
        *held = Some(stream);
        Ok(parse_chunk(&answer))
    }

    fn asked(&self, mut stream: TcpStream, question: &[u8]) -> io::Result<(TcpStream, Vec<u8>)> {
        let answer = ask(&mut stream, CHECK, question)?;
        Ok((stream, answer))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = connect(self.address)?;
        let mut word = WORD.to_vec();
        word.push(TOOLS);
        word.extend(self.session.to_be_bytes());
        word.extend(VERSION);
        match ask(&mut stream, REGISTER, &word)?[..] {
            [0] => Ok(stream),
            _ => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "it does not know this mount"))
            }
        }
    }
}

/// From an answer: the question's number, then a state alone, or the chunk and its copies.
fn parse_chunk(answer: &[u8]) -> Option<Chunk> {
    let (_, told) = answer.split_at_checked(4)?;
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
    Some(Chunk { id, version, copies: copies.collect() })
}

pub(super) fn connect(address: SocketAddrV4) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::V4(address), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a question; its answer has the next number.
pub(super) fn ask(
    stream: &mut (impl Read + Write),
    kind: u32,
    question: &[u8],
) -> io::Result<Vec<u8>> {
    let mut message = kind.to_be_bytes().to_vec();
    message.extend((question.len() as u32).to_be_bytes());
    message.extend(question);
    stream.write_all(&message)?;
    for _ in 0..MAX_NOPS {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let [told, len] = [&head[..4], &head[4..]]
            .map(|field| u32::from_be_bytes(field.try_into().expect("four bytes")));
        if (told != NOP && told != kind + 1) || len > MAX_ANSWER {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer of another kind"));
        }
        let mut answer = vec![0; len as usize];
        stream.read_exact(&mut answer)?;
        if told != NOP {
            return Ok(answer);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "no answer but empty ones"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_and_its_copies_are_read() {
        let mut answer = vec![0; 4];
        answer.extend(0x2a_u64.to_be_bytes());
        answer.extend(3_u32.to_be_bytes());
        answer.extend([10, 99, 0, 1, 0x24, 0xce, VALID, 10, 99, 0, 2, 0x24, 0xce, 1]);
        let chunk = parse_chunk(&answer).unwrap();
        assert_eq!((chunk.id, chunk.version), (42, 3));
        assert_eq!(chunk.copies, ["10.99.0.1:9422".parse().unwrap()]);
        // A state, and a chunk of other parts.
        assert_eq!(parse_chunk(&[0, 0, 0, 0, 6]), None);
        assert_eq!(parse_chunk(&answer[..answer.len() - 1]), None);
        assert_eq!(parse_chunk(&[]), None);
    }

    /// A stream of which the answers are known; what is sent is forgotten.
    struct Told<'a>(&'a [u8]);

    impl Read for Told<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Write for Told<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn message(kind: u32, len: u32, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &len.to_be_bytes(), body].concat()
    }

    #[test]
    fn answers_are_of_their_kind_and_bounded() {
        let ask = |told: &[u8]| ask(&mut Told(told), CHECK, b"question");
        let nop = message(NOP, 0, b"");
        let answer = message(CHECK + 1, 3, b"yes");
        assert_eq!(ask(&[nop.clone(), answer.clone()].concat()).unwrap(), b"yes");
        for bad in [
            message(CHECK, 3, b"yes"),
            message(CHECK + 1, MAX_ANSWER + 1, &[0; 100]),
            message(CHECK + 1, 4, b"yes"),
            [nop.repeat(MAX_NOPS), answer].concat(),
            Vec::new(),
        ] {
            assert!(ask(&bad).is_err(), "{:?}", &bad[..bad.len().min(20)]);
        }
    }

    #[test]
    fn a_connection_that_is_over_is_made_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("IPv6") };
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut hello = [0; 8 + 73];
                stream.read_exact(&mut hello).unwrap();
                assert_eq!(hello[8..72], WORD[..]);
                stream.write_all(&message(REGISTER + 1, 1, &[0])).unwrap();
                let mut question = [0; 8 + 12];
                stream.read_exact(&mut question).unwrap();
                stream.write_all(&message(CHECK + 1, 16, &question[4..])).unwrap();
            }
        });
        let master = Master::new(address, 7);
        let chunk = |no| master.chunk(9, no).unwrap().unwrap();
        assert_eq!((chunk(1).version, chunk(2).version), (1, 2));
        server.join().unwrap();
        assert!(master.chunk(9, 3).is_err());
    }
}
