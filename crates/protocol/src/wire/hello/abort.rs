//! Frames that may come before any other frame: `Abort` and `Alive`.

use deltic_core::codec::{Put, Reader};
use deltic_tree::path::printable;

use crate::error::PeerError;
use crate::wire::codec::{BadPayload, WireEncoding, closed_set, read_whole};
use crate::wire::frame::frame_bytes;

use super::capability::{ABORT, ALIVE};

/// Reason for which an end gives up, for people; the last frame that the end sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The end at fault, or the cause.
    pub cause: AbortCause,
    /// The message.
    pub message: String,
}

/// Consequence of an [`Abort`] for the other end's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// A source or the destination cannot be used.
    Selection,
    /// The peer broke the protocol.
    Protocol,
    /// Anything else.
    Internal,
    /// A stream beside the first ended early.
    Stream,
    /// The two ends have too little in common.
    Incompatible,
    /// A checksum of the stream did not match.
    Damaged,
}

closed_set!(AbortCause: Selection = 0, Protocol = 1, Internal = 2, Stream = 3,
    Incompatible = 4, Damaged = 5);

impl Abort {
    /// Returns the frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        frame_bytes(ABORT, |to| {
            self.cause.write_to(to);
            self.message.write_to(to);
        })
    }

    /// Decodes an abort frame; other frames give `None`.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<Self>, PeerError> {
        if kind != ABORT {
            return Ok(None);
        }
        let (cause, message) = read_whole("Abort", payload, |from| {
            Ok((WireEncoding::read_from(from)?, String::read_from(from)?))
        })?;
        Ok(Some(Self { cause, message: printable(message.as_bytes()) }))
    }
}

/// Keep-alive: the end is at work, or has read the input, but had no frame to send. May be sent before any frame, and
/// is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive;

impl Alive {
    /// Type of the frame.
    pub const KIND: u8 = ALIVE;

    /// Returns the frame.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        frame_bytes(ALIVE, |_| {})
    }

    /// Decodes an `Alive` frame; other frames give `None`.
    ///
    /// # Errors
    /// [`PeerError`] where the payload is not empty.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<Self>, PeerError> {
        if kind != ALIVE {
            return Ok(None);
        }
        read_whole("Alive", payload, |_| Ok(Some(Self)))
    }
}
