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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The link as measured so far, for a receiver that asked for measurements.
    pub measured: Option<MeasuredLink>,
}

/// The link from a sender to the receiver, as the sender measured the link. A value of 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredLink {
    /// Rate that the sender assumes, in bits a second.
    pub assumed_rate: u64,
    /// Last rate that was the limit of the link, in bits a second.
    pub limit: u64,
    /// Shortest round trip in microseconds.
    pub idle_micros: u64,
    /// Present round trip in microseconds.
    pub current_micros: u64,
    /// Number of measured round trips.
    pub samples: u32,
}

impl Echo {
    /// Type of the frame.
    pub const KIND: u8 = 8;

    /// Returns the frame.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        frame_bytes(Self::KIND, |to| {
            let Some(link) = self.measured else { return };
            let MeasuredLink { assumed_rate, limit, idle_micros, current_micros, samples } = link;
            for number in [assumed_rate, limit, idle_micros, current_micros, samples.into()] {
                to.put_varint(number);
            }
        })
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is another one, or malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, Self::KIND, "another frame in place of Echo")?;
        read_whole("Echo", payload, |from| {
            if from.is_empty() {
                return Ok(Self::default());
            }
            let measured = MeasuredLink {
                assumed_rate: from.varint()?,
                limit: from.varint()?,
                idle_micros: from.varint()?,
                current_micros: from.varint()?,
                samples: from.varint_u32()?,
            };
            Ok(Self { measured: Some(measured) })
        })
    }
}

/// Answer of the receiver to an [`Echo`]: counts since the start of the session, which never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// Bytes that the receiver has read, of all streams.
    pub received: u64,
    /// Microseconds in which the receiver itself was busy: the receiver worked, waited for a processor, or had read
    /// bytes that waited, as for a slow disk. Time in which bytes of several streams waited counts once; a wait
    /// for a processor may count twice; waits for a limit of the rate do not count.
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
