//! Several streams of one session: joining a stream, and the frames that streams carry (docs/protocol.md, "Several
//! streams").
//!
//! The streams besides the first carry literals only, each in an [`Aside`]. Asides may overtake other frames and each
//! other. So each aside has the number of its attempt: a late aside of a finished attempt cannot be mistaken for an
//! aside of the next attempt.

use deltic_core::codec::{Put, Reader};

use super::codec::{BadPayload, WireEncoding};
use super::frame::{HEADER_BYTES, frame_bytes};
use super::limits::MAX_FRAME_BYTES;
use super::message::ToReceiver;
use crate::error::PeerError;

/// First bytes that the joining end of a stream sends, before the token.
pub const JOIN_MAGIC: [u8; 8] = *b"deltic+1";
/// Answer of the session's end to a stream with the right token; frames follow.
pub const JOINED: [u8; 8] = *b"deltic=1";
/// Type of the last frame of a further stream. The frame is empty. A stream without this frame at its end is
/// incomplete.
pub const OVER: u8 = 30;
/// Length of a [`Token`] in bytes.
pub const TOKEN_BYTES: usize = 32;
/// Longest socket path in bytes: the limit of a Unix socket address.
pub const MAX_SOCKET_BYTES: usize = 107;

/// Returns the frame of type [`OVER`].
#[must_use]
pub fn over_frame() -> Vec<u8> {
    frame_bytes(OVER, |_| ())
}

/// Secret that lets a stream join its session. Drawn at random, and never shown.
#[derive(Clone, Copy)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Makes a token of random bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the token.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }
}

/// Compares in constant time: an attacker learns nothing from how long a refusal takes.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        std::hint::black_box(pairs.fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b))))
            == 0
    }
}

impl Eq for Token {}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Socket and token with which further streams join a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Token that lets a stream join.
    pub token: Token,
    /// Path of a socket on the machine of the serving end, at most [`MAX_SOCKET_BYTES`].
    pub socket: Box<[u8]>,
}

impl Join {
    /// Returns the bytes that a dialling end writes to `deltic agent --join`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = JOIN_MAGIC.to_vec();
        self.write_to(&mut bytes);
        bytes
    }

    /// Returns the bytes that `deltic agent --join` writes to the socket.
    #[must_use]
    pub fn join_bytes(&self) -> Vec<u8> {
        [&JOIN_MAGIC[..], &self.token.0].concat()
    }

    /// Makes a `Join` for this socket path; `None` if the path is empty or too long.
    #[must_use]
    pub fn new(token: Token, socket: Box<[u8]>) -> Option<Self> {
        (1..=MAX_SOCKET_BYTES).contains(&socket.len()).then_some(Self { token, socket })
    }
}

impl WireEncoding for Join {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(&self.token.0);
        to.put_u8(self.socket.len() as u8);
        to.put_bytes(&self.socket);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let token = Token(from.array()?);
        let len = usize::from(from.u8()?);
        let socket = from.bytes(len)?.into();
        Self::new(token, socket).ok_or(BadPayload::Limit("bytes of a socket's path"))
    }
}

/// A frame that may overtake others, and the number of the attempt, counted as in [`ToReceiver::Failed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Number of the attempt at the file.
    pub attempt: u32,
    /// A `Fill` or `Mended` of a file sent by recipe, or a `Fill` of requested blocks.
    pub frame: ToReceiver,
}

impl Aside {
    /// Type of the frame.
    pub const KIND: u8 = 29;

    /// Returns the frame; `None` if it would exceed the frame limit. Then the inner frame is sent on the first
    /// stream.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let inner = self.frame.encode();
        let mut attempt = Vec::new();
        self.attempt.write_to(&mut attempt);
        let len = attempt.len() + 1 + inner.len() - HEADER_BYTES;
        if len > MAX_FRAME_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + len);
        bytes.push(Self::KIND);
        bytes.extend_from_slice(&(len as u32).to_le_bytes()[..HEADER_BYTES - 1]);
        bytes.extend_from_slice(&attempt);
        bytes.push(inner[0]);
        bytes.extend_from_slice(&inner[HEADER_BYTES..]);
        Some(bytes)
    }

    /// Decodes an aside; other frames give `None`.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is malformed, or the inner frame may not overtake others.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<Self>, PeerError> {
        if kind != Self::KIND {
            return Ok(None);
        }
        let mut from = Reader::new(payload);
        let head = from.varint_u32().and_then(|attempt| Ok((attempt, from.u8()?)));
        let (attempt, kind) = head.map_err(|bad| BadPayload::Codec(bad).in_frame("Aside"))?;
        let frame = ToReceiver::decode(kind, from.rest())?;
        match frame.unordered_file() {
            Some(_) => Ok(Some(Self { attempt, frame })),
            None => {
                Err(PeerError::Unexpected("a frame on a second stream that must come in order"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FileNo, Payload};

    fn fill(bytes: usize) -> ToReceiver {
        let (chunks, payload) = (std::iter::once(0..1).collect(), Payload::Plain(vec![7; bytes]));
        ToReceiver::Fill { file: FileNo(3), chunks, payload }
    }

    #[test]
    fn a_ticket_keeps_its_bytes() {
        let token = Token::from_bytes([7; TOKEN_BYTES]);
        let join = Join::new(token, b"/run/s"[..].into()).unwrap();
        let written = [b"deltic+1", &[7; TOKEN_BYTES][..], b"\x06/run/s"].concat();
        assert_eq!(join.encode(), written);
        assert_eq!(join.join_bytes(), written[..8 + TOKEN_BYTES]);
        assert_eq!(format!("{join:?}").matches("Token(…)").count(), 1, "a token is never shown");
    }

    #[test]
    fn tokens_differ_where_any_bit_does() {
        let token = Token::from_bytes([0x55; TOKEN_BYTES]);
        for bit in 0..8 * TOKEN_BYTES {
            let mut bytes = *token.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Token::from_bytes(bytes), token, "bit {bit}");
        }
        assert_eq!(Token::from_bytes([0x55; TOKEN_BYTES]), token);
    }

    #[test]
    fn a_socket_has_a_path_that_fits_an_address() {
        let token = Token::from_bytes([0; TOKEN_BYTES]);
        for (len, fits) in
            [(0, false), (1, true), (MAX_SOCKET_BYTES, true), (MAX_SOCKET_BYTES + 1, false)]
        {
            assert_eq!(Join::new(token, vec![b'/'; len].into()).is_some(), fits, "{len}");
        }
    }

    #[test]
    fn what_would_not_fit_a_frame_is_no_aside() {
        // The literals follow a file, a count, a range and a flag; an attempt and a type come before all of them.
        let most = MAX_FRAME_BYTES - 5;
        assert!(Aside { attempt: 1, frame: fill(most - 2) }.encode().is_some());
        assert!(Aside { attempt: 1, frame: fill(most - 1) }.encode().is_none());
    }

    #[test]
    fn only_answers_may_overtake() {
        let inside = |frame: &ToReceiver| {
            let encoded = frame.encode();
            Aside::decode(Aside::KIND, &[&[1, encoded[0]], &encoded[HEADER_BYTES..]].concat())
        };
        assert_eq!(inside(&fill(9)), Ok(Some(Aside { attempt: 1, frame: fill(9) })));
        let listed = ToReceiver::Listed { intact: true };
        let refusal =
            Err(PeerError::Unexpected("a frame on a second stream that must come in order"));
        assert_eq!(inside(&listed), refusal);
        assert!(Aside::decode(Aside::KIND, &[]).is_err());
    }
}
