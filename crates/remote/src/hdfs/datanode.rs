//! Checksums of a block, from a datanode: operation 85 (`OP_BLOCK_CHECKSUM`) with a stripe length.
//!
//! Messages are Protocol Buffers, each after its length as a varint. The request has few fields, so it is encoded here.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::RemoteError;
use crate::http::is_near;
use crate::sums::{ContentSum, SumAlgorithm, SummedUnit};

const VERSION: u16 = 28;
const BLOCK_CHECKSUM: u8 = 85;
/// Checksum type `COMPOSITE_CRC`: one CRC of the whole block, or of each stripe if a stripe length is given.
const COMPOSITE: u64 = 2;
/// Most bytes of an answer: the checksums of all units of a file, and some overhead.
const MAX_ANSWER: usize = 2 << 20;
/// Most datanodes tried for a block.
const MAX_HOSTS: usize = 3;

/// A block of a file and the block's datanodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HdfsBlock {
    pool: String,
    id: u64,
    stamp: u64,
    len: u64,
    hosts: Vec<(String, u16)>,
}

impl HdfsBlock {
    /// Parses a block of `GET_BLOCK_LOCATIONS`. `None` for a malformed or corrupt block, and for one that needs an
    /// access token.
    pub(super) fn parse(told: &Value) -> Option<Self> {
        let block = &told["block"];
        let number = |name: &str| block[name].as_u64();
        if told["isCorrupt"].as_bool() == Some(true) || needs_token(&told["blockToken"]) {
            return None;
        }
        let host = |at: &Value| {
            let port = u16::try_from(at["xferPort"].as_u64()?).ok()?;
            let host = at["ipAddr"].as_str().filter(|ip| !ip.is_empty());
            Some((host.or_else(|| at["hostName"].as_str())?.to_owned(), port))
        };
        let hosts = told["locations"].as_array()?.iter().filter_map(host).take(MAX_HOSTS);
        Some(Self {
            pool: block["blockPoolId"].as_str().filter(|pool| is_pool(pool))?.to_owned(),
            id: number("blockId")?,
            stamp: number("generationStamp")?,
            len: number("numBytes")?,
            hosts: hosts.collect(),
        })
    }

    /// Length of the block in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// The checksums of the block in units of `unit` bytes, from the first datanode that answers.
    ///
    /// - Returns `None` if the datanode does not know such checksums.
    /// - `timeout` is the timeout of each step.
    /// - With `may_be_near` false, loopback and link-local datanodes are skipped.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] if no datanode answers.
    pub(super) fn sums(
        &self,
        unit: u64,
        timeout: Duration,
        may_be_near: bool,
    ) -> Result<Option<Vec<SummedUnit>>, RemoteError> {
        let mut last = None;
        for (host, port) in &self.hosts {
            match self.ask((host, *port), unit, timeout, may_be_near) {
                Ok(answer) => return self.units(&answer, unit),
                // An older datanode closes the connection.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ok(None);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {}
                Err(error) => last = Some((format!("{host}:{port}"), error)),
            }
        }
        let Some((server, error)) = last else { return Ok(None) };
        let why = format!("{} (a datanode)", deltic_store::reason(&error));
        Err(RemoteError::Unreachable { server, why })
    }

    fn ask(
        &self,
        host: (&str, u16),
        unit: u64,
        timeout: Duration,
        may_be_near: bool,
    ) -> std::io::Result<Vec<u8>> {
        let address = host.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
        if is_near(address.ip()) && !may_be_near {
            return Err(std::io::ErrorKind::AddrNotAvailable.into());
        }
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(&self.request(unit))?;
        let len = read_varint(&mut stream)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_ANSWER);
        let mut answer = vec![0; len.ok_or(std::io::ErrorKind::InvalidData)?];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    fn request(&self, unit: u64) -> Vec<u8> {
        let Self { pool, id, stamp, len, .. } = self;
        let block = [bytes(1, pool.as_bytes()), number(2, *id), number(3, *stamp), number(4, *len)]
            .concat();
        let no_token = [bytes(1, b""), bytes(2, b""), bytes(3, b""), bytes(4, b"")].concat();
        let header = [bytes(1, &block), bytes(2, &no_token)].concat();
        let options = [number(1, COMPOSITE), number(2, unit)].concat();
        let message = [bytes(1, &header), bytes(2, &options)].concat();
        let mut request = VERSION.to_be_bytes().to_vec();
        request.push(BLOCK_CHECKSUM);
        put_varint(&mut request, message.len() as u64);
        request.extend(message);
        request
    }

    /// Parses an answer.
    fn units(&self, answer: &[u8], unit: u64) -> Result<Option<Vec<SummedUnit>>, RemoteError> {
        let malformed = || RemoteError::Wrong("the answer of the datanode is malformed".into());
        let fields = MessageFields::parse(answer).ok_or_else(malformed)?;
        match fields.number(1) {
            None | Some(0) => {}
            // The datanode wants a token, or no longer has the block.
            Some(_) => return Ok(None),
        }
        let told =
            MessageFields::parse(fields.bytes(3).ok_or_else(malformed)?).ok_or_else(malformed)?;
        let algorithm = match told.number(4) {
            Some(1) => SumAlgorithm::Crc32,
            Some(2) => SumAlgorithm::Crc32c,
            _ => return Ok(None),
        };
        let kind = told.bytes(5).and_then(MessageFields::parse).and_then(|of| of.number(1));
        let sums = told.bytes(3).ok_or_else(malformed)?;
        let count = self.len.div_ceil(unit);
        if kind != Some(COMPOSITE) || sums.len() as u64 != count * 4 {
            return Ok(None);
        }
        let each = sums.chunks_exact(4).zip(0..count).map(|(sum, no)| {
            let len = unit.min(self.len - no * unit);
            Ok(SummedUnit::new(len, Some(ContentSum::new(algorithm, sum)?)))
        });
        each.collect::<Result<_, RemoteError>>().map(Some)
    }
}

/// True for a block pool id such as `BP-1234-10.0.0.1-5678`. The namenode chose both this text and the port it is sent
/// to, so it must not be able to carry another protocol.
fn is_pool(pool: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let name = pool.strip_prefix("BP-").unwrap_or_default();
    matches!(name.len(), 1..=200) && name.bytes().all(is_plain)
}

/// True if a block's token, in the form of WebHDFS, is not empty. The empty token is four empty texts, encoded as
/// `AAAAAA`.
fn needs_token(token: &Value) -> bool {
    token["urlString"]
        .as_str()
        .is_some_and(|text| text.trim_end_matches('=').bytes().any(|b| b != b'A'))
}

/// The fields of a Protocol Buffers message, without types that are not used here.
struct MessageFields<'a>(Vec<(u64, FieldValue<'a>)>);

enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> MessageFields<'a> {
    fn parse(mut rest: &'a [u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = take_varint(&mut rest)?;
            let field = match key & 7 {
                0 => FieldValue::Number(take_varint(&mut rest)?),
                2 => {
                    let len = usize::try_from(take_varint(&mut rest)?).ok()?;
                    let (bytes, behind) = rest.split_at_checked(len)?;
                    rest = behind;
                    FieldValue::Bytes(bytes)
                }
                _ => return None,
            };
            fields.push((key >> 3, field));
        }
        Some(Self(fields))
    }

    fn number(&self, no: u64) -> Option<u64> {
        self.0.iter().find_map(|(at, field)| match field {
            FieldValue::Number(value) if *at == no => Some(*value),
            _ => None,
        })
    }

    fn bytes(&self, no: u64) -> Option<&'a [u8]> {
        self.0.iter().find_map(|(at, field)| match field {
            FieldValue::Bytes(bytes) if *at == no => Some(*bytes),
            _ => None,
        })
    }
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn read_varint(from: &mut impl Read) -> std::io::Result<u64> {
    let (mut text, mut byte) = (Vec::new(), [0x80]);
    while byte[0] >= 0x80 && text.len() < 10 {
        from.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    take_varint(&mut &text[..]).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn number(no: u64, value: u64) -> Vec<u8> {
    let mut to = Vec::new();
    put_varint(&mut to, no << 3);
    put_varint(&mut to, value);
    to
}

fn bytes(no: u64, value: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    put_varint(&mut to, no << 3 | 2);
    put_varint(&mut to, value.len() as u64);
    to.extend(value);
    to
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::net::TcpListener;

    use crate::testing::fake::{FakeServer, PART};

    /// Answers as a datanode that stores each part of an object as a block, and no blocks of replaced versions.
    pub(in super::super) fn respond(fake: &FakeServer, mut stream: TcpStream) {
        let mut head = [0; 3];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head, [0, 28, BLOCK_CHECKSUM]);
        let mut asked = vec![0; read_varint(&mut stream).unwrap() as usize];
        stream.read_exact(&mut asked).unwrap();
        let [header, options] = [1, 2].map(|no| {
            MessageFields::parse(MessageFields::parse(&asked).unwrap().bytes(no).unwrap()).unwrap()
        });
        let (id, unit) = (
            MessageFields::parse(header.bytes(1).unwrap()).unwrap().number(2).unwrap(),
            options.number(2).unwrap() as usize,
        );
        let answer = match fake.version(id / 1000) {
            None => number(1, 1),
            Some(kept) => {
                let block = kept.bytes.chunks(PART).nth(id as usize % 1000).unwrap();
                let sum = |unit: &[u8]| crc32c::crc32c(&fake.summed(unit)).to_be_bytes();
                let sums: Vec<u8> = block.chunks(unit).flat_map(sum).collect();
                let kind = [number(1, COMPOSITE), number(2, unit as u64)].concat();
                let told = [bytes(3, &sums), number(4, 2), bytes(5, &kind)].concat();
                [number(1, 0), bytes(3, &told)].concat()
            }
        };
        let mut framed = Vec::new();
        put_varint(&mut framed, answer.len() as u64);
        framed.extend(answer);
        stream.write_all(&framed).unwrap();
    }

    fn block(pool: &str, port: u16) -> Option<HdfsBlock> {
        let at = serde_json::json!({"ipAddr": "127.0.0.1", "xferPort": port});
        HdfsBlock::parse(&serde_json::json!({
            "block": {"blockPoolId": pool, "blockId": 1, "generationStamp": 2, "numBytes": 3},
            "locations": [at, at, at, at],
        }))
    }

    #[test]
    fn a_pool_id_must_be_well_formed_and_at_most_three_datanodes_are_kept() {
        assert_eq!(block("BP-12-10.0.0.1-34", 1).unwrap().hosts.len(), MAX_HOSTS);
        for bad in ["", "BP-", "10.0.0.1", "BP-1\r\nGET /", &format!("BP-{}", "1".repeat(201))] {
            assert_eq!(block(bad, 1), None, "{bad}");
        }
    }

    #[test]
    fn a_remote_namenode_cannot_direct_requests_to_this_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let block = block("BP-1", listener.local_addr().unwrap().port()).unwrap();
        let timeout = Duration::from_millis(100);
        assert_eq!(block.sums(64, timeout, false).unwrap(), None);
        assert!(listener.accept().is_err());
        assert!(block.sums(64, timeout, true).is_err());
        assert!(listener.accept().is_ok());
    }

    /// Recorded answer of a datanode (3.4.1) for a block of 150,001 bytes, and the namenode's description of the block.
    const RECORDED: [u8; 34] = [
        0x08, 0x00, 0x1a, 0x1e, 0x08, 0x80, 0x04, 0x10, 0xa5, 0x02, 0x1a, 0x0c, 0x0d, 0xaa, 0xfc,
        0xde, 0xf1, 0x43, 0x9e, 0xcd, 0x05, 0x49, 0x0b, 0x3b, 0x20, 0x02, 0x2a, 0x06, 0x08, 0x02,
        0x10, 0x80, 0x80, 0x04,
    ];
    const LOCATED: &str = r#"{"block": {"blockId": 1073741825, "generationStamp": 1001, "numBytes": 150001,
        "blockPoolId": "BP-265361025-127.0.0.1-1795720185053"}, "blockToken": {"urlString": "AAAAAA"},
        "isCorrupt": false, "locations": [{"hostName": "127.0.0.1", "ipAddr": "127.0.0.1", "xferPort": 37641}]}"#;

    #[test]
    fn a_recorded_answer_has_the_checksums_of_the_file() {
        const UNIT: u64 = 64 << 10;
        let block = HdfsBlock::parse(&serde_json::from_str(LOCATED).unwrap()).unwrap();
        let file: Vec<u8> = (0..150_001_u32).map(|at| (at % 251) as u8).collect();
        let sum = |bytes: &[u8]| {
            let crc = crc32c::crc32c(bytes).to_be_bytes();
            SummedUnit::new(bytes.len() as u64, ContentSum::new(SumAlgorithm::Crc32c, &crc).ok())
        };
        let units: Vec<_> = file.chunks(UNIT as usize).map(sum).collect();
        assert_eq!(block.units(&RECORDED, UNIT).unwrap(), Some(units));
        // Checksums of other units are ignored, and a truncated answer is refused.
        assert_eq!(block.units(&RECORDED, UNIT * 2).unwrap(), None);
        for len in 1..RECORDED.len() {
            let cut = block.units(&RECORDED[..len], UNIT);
            assert!(!matches!(cut, Ok(Some(_))), "{len}");
        }
    }
}
