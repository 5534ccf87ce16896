//! Framing: one byte of type, three bytes of length, the payload. Little-endian, like everything on the wire.

use super::limits::MAX_FRAME_BYTES;
use crate::error::PeerError;

/// Length of the header before each payload, in bytes.
pub const HEADER_BYTES: usize = 4;

/// Type and length of a frame, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the frame.
    pub kind: u8,
    /// Payload length in bytes, at most [`MAX_FRAME_BYTES`].
    pub len: usize,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where the payload would be too long.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, PeerError> {
        let [kind, a, b, c] = bytes;
        let len = u32::from_le_bytes([a, b, c, 0]) as usize;
        if len > MAX_FRAME_BYTES {
            Err(PeerError::Limit("frame length"))
        } else {
            Ok(Self { kind, len })
        }
    }
}

/// Returns a whole frame of type `kind`; `fill` appends the payload.
///
/// # Panics
/// If the payload exceeds [`MAX_FRAME_BYTES`]; callers that build frames keep within the limits.
pub(crate) fn frame_bytes(kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_frame(&mut bytes, kind, fill);
    bytes
}

/// Appends a frame of type `kind` to `to`; `fill` appends the payload.
///
/// # Panics
/// If the payload exceeds [`MAX_FRAME_BYTES`].
pub(crate) fn append_frame(to: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend_from_slice(&[kind, 0, 0, 0]);
    fill(to);
    let len = to.len() - start - HEADER_BYTES;
    assert!(len <= MAX_FRAME_BYTES, "frames are built within their limit");
    to[start + 1..start + HEADER_BYTES].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
}
