//! Echoes: the sender measures the round trip of a session on its own stream (docs/protocol.md, "Echoes").
//!
//! Both frames stay below the conversation: the ends answer where they read and write bytes, so that an echo waits for
//! no machine, and for no frame in a queue.

use deltic_core::codec::Put;

use super::codec::read_whole;
use super::frame::frame_bytes;
use super::hello::check_kind;
use crate::error::PeerError;

/// Question of the sender. The receiver answers by [`Echoed`] at once, in the order of the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo;

impl Echo {
    /// Type of the frame.
    pub const KIND: u8 = 8;

    /// Returns the frame.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        frame_bytes(Self::KIND, |_| {})
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is another one, or the payload is not empty.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, Self::KIND, "another frame in place of Echo")?;
        read_whole("Echo", payload, |_| Ok(Self))
    }
}

/// Answer of the receiver to an [`Echo`]: counts since the start of the session, which never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// Bytes that the receiver has read, of all streams.
    pub received: u64,
    /// Microseconds in which read bytes waited for the receiver itself, as for a slow disk.
    pub held: u64,
}

impl Echoed {
    /// Type of the frame.
    pub const KIND: u8 = 9;

    /// Returns the frame.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        frame_bytes(Self::KIND, |to| {
            to.put_varint(self.received);
            to.put_varint(self.held);
        })
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is another one, or malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, Self::KIND, "another frame in place of Echoed")?;
        read_whole("Echoed", payload, |from| {
            Ok(Self { received: from.varint()?, held: from.varint()? })
        })
    }
}
