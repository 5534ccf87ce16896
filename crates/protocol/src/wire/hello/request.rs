//! The request of the end that dials, the names that it is for, and the reply.

use deltic_core::PackedStrings;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::Name;

use crate::error::PeerError;
use crate::options::{Metadata, Options};
use crate::wire::codec::{Bad, Wire, whole};
use crate::wire::frame::framed;
use crate::wire::limits::{
    MAX_BATCH, MAX_GREETING_BYTES, MAX_NAMES, MAX_NAMES_BYTES, MAX_RULES, MAX_SOURCES,
    MAX_TEXT_BYTES,
};
use crate::wire::streams::Join;

use super::capability::{NAMES, REPLY, REQUEST, expect};

/// Request of the dialling end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Be the sender of these paths.
    Send {
        /// Path arguments, as the user gave them.
        sources: Vec<Box<[u8]>>,
        /// Names below the only one of them that are meant.
        names: NamesFrom,
        /// Options of the sync.
        options: Options,
    },
    /// Be the receiver.
    Receive {
        /// The destination argument, as the user gave it.
        destination: Box<[u8]>,
        /// The source's own name where it is one entry with nothing in it: the destination may then be its new name.
        single: Option<Name>,
        /// List of names below the only source that the answering end is to send, if it is to.
        names: NamesFrom,
        /// Options of the sync.
        options: Options,
    },
}

/// Place of the names that a [`Request`] is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamesFrom {
    /// Nowhere: the sources stand for themselves.
    #[default]
    Nowhere,
    /// A file of the answering end.
    File {
        /// Its path.
        path: Box<[u8]>,
        /// True where names end in NULs there, and not with their lines.
        nul: bool,
    },
    /// Frames that follow the request; an empty one is the last.
    Frames,
}

impl Wire for NamesFrom {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Nowhere => to.put_u8(0),
            Self::File { path, nul } => {
                to.put_u8(1);
                path.put(to);
                nul.put(to);
            }
            Self::Frames => to.put_u8(2),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::File { path: Wire::take(from)?, nul: Wire::take(from)? }),
            2 => Ok(Self::Frames),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

/// Some of the names that a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<Box<[u8]>>);

impl Names {
    /// Checks that the other end takes all of `names`.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where they are more than it does, or longer together.
    pub fn check(names: &PackedStrings) -> Result<(), PeerError> {
        let bytes: usize = names.iter().map(|(_, name)| name.len()).sum();
        if names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
            return Err(PeerError::Limit("names"));
        }
        Ok(())
    }

    /// The frames that tell all of `names`, none of which is longer than a text may be, the last of them empty.
    pub fn frames(names: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
        let mut names = names.peekable();
        let mut told = false;
        std::iter::from_fn(move || {
            let (mut part, mut weight) = (Vec::new(), 0);
            let mut fits = |name: &Vec<u8>| {
                weight += name.len() + 3;
                weight <= MAX_GREETING_BYTES - MAX_TEXT_BYTES
            };
            while part.len() < MAX_BATCH
                && let Some(name) = names.next_if(&mut fits)
            {
                part.push(name.into());
            }
            let is_last = part.is_empty();
            (!std::mem::replace(&mut told, is_last)).then(|| Self(part).encode())
        })
    }

    /// The frame of these.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(NAMES, |to| self.0.put(to))
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, NAMES, "anything before the last name")?;
        whole("Names", payload, |from| Wire::take(from).map(Self))
    }
}

impl Request {
    /// The frame that asks so.
    ///
    /// # Panics
    /// On a request that does not [fit](Self::fits).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(REQUEST, |to| self.put(to))
    }

    /// Checks that the other end will take it: arguments and rules are bounded, in number and in bytes.
    #[must_use]
    pub fn fits(&self) -> bool {
        let (sources, options) = match self {
            Self::Send { sources, options, .. } => (sources.len(), options),
            Self::Receive { options, .. } => (1, options),
        };
        let mut payload = Vec::new();
        self.put(&mut payload);
        let Metadata { chmod, user_map, group_map, .. } = &options.metadata;
        let texts = [chmod.text(), user_map.text(), group_map.text()];
        sources <= MAX_SOURCES
            && options.rules.list.len() <= MAX_RULES
            && texts.iter().all(|text| text.len() <= MAX_TEXT_BYTES)
            && payload.len() <= MAX_GREETING_BYTES
    }

    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Send { sources, names, options } => {
                to.put_u8(0);
                sources.put(to);
                names.put(to);
                options.put(to);
            }
            Self::Receive { destination, single, names, options } => {
                to.put_u8(1);
                destination.put(to);
                single.put(to);
                names.put(to);
                options.put(to);
            }
        }
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, REQUEST, "anything before the request")?;
        whole("Request", payload, |from| match from.u8()? {
            0 => Ok(Self::Send {
                sources: Wire::take(from)?,
                names: Wire::take(from)?,
                options: Wire::take(from)?,
            }),
            1 => Ok(Self::Receive {
                destination: Wire::take(from)?,
                single: Wire::take(from)?,
                names: Wire::take(from)?,
                options: Wire::take(from)?,
            }),
            _ => Err(CodecError::OutOfRange.into()),
        })
    }
}

impl Request {
    /// Longest silence of either end, in seconds; 0 for ever.
    #[must_use]
    pub const fn silence(&self) -> u32 {
        match self {
            Self::Send { options, .. } | Self::Receive { options, .. } => options.silence,
        }
    }
}

/// The answer to a [`Request`]: the conversation may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The only entry, as in [`Request::Receive`], where the answering end is the sender.
    pub single: Option<Name>,
    /// Door for further streams, if the request asks for them.
    pub join: Option<Join>,
}

impl Reply {
    /// The frame that says so.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(REPLY, |to| {
            self.single.put(to);
            self.join.put(to);
        })
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, REPLY, "anything before the reply")?;
        whole("Reply", payload, |from| {
            Ok(Self { single: Wire::take(from)?, join: Wire::take(from)? })
        })
    }
}
