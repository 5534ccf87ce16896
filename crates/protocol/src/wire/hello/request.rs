//! The request of the dialling end, its list of names, and the reply.

use deltic_core::PackedStrings;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::Name;

use crate::error::PeerError;
use crate::options::{Metadata, Options};
use crate::wire::codec::{BadPayload, WireEncoding, read_whole};
use crate::wire::frame::frame_bytes;
use crate::wire::limits::{
    MAX_BATCH, MAX_GREETING_BYTES, MAX_NAMES, MAX_NAMES_BYTES, MAX_RULES, MAX_SOURCES,
    MAX_TEXT_BYTES,
};
use crate::wire::streams::Join;

use super::capability::{NAMES, REPLY, REQUEST, check_kind};

/// Request of the dialling end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks the other end to be the sender of these paths.
    Send {
        /// Path arguments, as the user gave them.
        sources: Vec<Box<[u8]>>,
        /// Names to send below the only source.
        names: NamesFrom,
        /// Options of the sync.
        options: Options,
    },
    /// Asks the other end to be the receiver.
    Receive {
        /// The destination argument, as the user gave it.
        destination: Box<[u8]>,
        /// Name of a source that is a single entry without contents: the destination may then be its new name.
        single: Option<Name>,
        /// Names below the only source, if the answering end is to send this list.
        names: NamesFrom,
        /// Options of the sync.
        options: Options,
    },
}

/// Place of the names that a [`Request`] covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamesFrom {
    /// No list: the request covers the whole sources.
    #[default]
    Nowhere,
    /// A file at the answering end.
    File {
        /// Path of the file.
        path: Box<[u8]>,
        /// True if names in the file end with NUL, false if they end with a newline.
        nul: bool,
    },
    /// Frames after the request; an empty frame is the last.
    Frames,
}

impl WireEncoding for NamesFrom {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Nowhere => to.put_u8(0),
            Self::File { path, nul } => {
                to.put_u8(1);
                path.write_to(to);
                nul.write_to(to);
            }
            Self::Frames => to.put_u8(2),
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::File {
                path: WireEncoding::read_from(from)?,
                nul: WireEncoding::read_from(from)?,
            }),
            2 => Ok(Self::Frames),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

/// A part of the list of names of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<Box<[u8]>>);

impl Names {
    /// Checks that the other end accepts the list `names`.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where the names are too many, or too long together.
    pub fn check_names(names: &PackedStrings) -> Result<(), PeerError> {
        let bytes: usize = names.iter().map(|(_, name)| name.len()).sum();
        if names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
            return Err(PeerError::Limit("names"));
        }
        Ok(())
    }

    /// Returns the frames that send all of `names`, each no longer than a text may be; the last frame is empty.
    pub fn name_frames(names: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
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

    /// Returns the frame of these names.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        frame_bytes(NAMES, |to| self.0.write_to(to))
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame holds no names, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, NAMES, "anything before the last name")?;
        read_whole("Names", payload, |from| WireEncoding::read_from(from).map(Self))
    }
}

impl Request {
    /// Returns the frame of the request.
    ///
    /// # Panics
    /// If the request does not [fit](Self::fits).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        frame_bytes(REQUEST, |to| self.put(to))
    }

    /// True if the other end will accept the request: arguments and rules are limited in number and in bytes.
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
                sources.write_to(to);
                names.write_to(to);
                options.write_to(to);
            }
            Self::Receive { destination, single, names, options } => {
                to.put_u8(1);
                destination.write_to(to);
                single.write_to(to);
                names.write_to(to);
                options.write_to(to);
            }
        }
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is not a request, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, REQUEST, "anything before the request")?;
        read_whole("Request", payload, |from| match from.u8()? {
            0 => Ok(Self::Send {
                sources: WireEncoding::read_from(from)?,
                names: WireEncoding::read_from(from)?,
                options: WireEncoding::read_from(from)?,
            }),
            1 => Ok(Self::Receive {
                destination: WireEncoding::read_from(from)?,
                single: WireEncoding::read_from(from)?,
                names: WireEncoding::read_from(from)?,
                options: WireEncoding::read_from(from)?,
            }),
            _ => Err(CodecError::OutOfRange.into()),
        })
    }
}

impl Request {
    /// Returns the longest silence of either end, in seconds; 0 means no limit.
    #[must_use]
    pub const fn max_silence_secs(&self) -> u32 {
        match self {
            Self::Send { options, .. } | Self::Receive { options, .. } => options.silence,
        }
    }
}

/// Answer to a [`Request`]: the conversation may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The name of a single source, as in [`Request::Receive`], where the answering end is the sender.
    pub single: Option<Name>,
    /// Socket and token for further streams, if the request asks for streams.
    pub join: Option<Join>,
}

impl Reply {
    /// Returns the frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        frame_bytes(REPLY, |to| {
            self.single.write_to(to);
            self.join.write_to(to);
        })
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is not a reply, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        check_kind(kind, REPLY, "anything before the reply")?;
        read_whole("Reply", payload, |from| {
            Ok(Self {
                single: WireEncoding::read_from(from)?,
                join: WireEncoding::read_from(from)?,
            })
        })
    }
}
