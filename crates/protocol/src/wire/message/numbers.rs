//! Encodings of numbers, sums and keys from other crates.

use std::ops::Range;

use deltic_core::Key;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::fingerprint::GroupPrefix;
use deltic_core::recipe::Digest;
use deltic_tree::DirDigest;
use deltic_tree::dir_digest::{COMPARED_SUM_BYTES, DIR_SUM_BYTES};

use crate::wire::codec::{BadPayload, WireEncoding, read_flags, write_flags};

impl WireEncoding for GroupPrefix {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::from_bytes(from.array()?))
    }
}

/// Directory sums are little-endian.
impl WireEncoding for u128 {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(&self.to_le_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::from_le_bytes(from.array::<DIR_SUM_BYTES>()?))
    }
}

/// The compared parts of the sums of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDigest(pub DirDigest);

impl WireEncoding for CutDigest {
    fn write_to(&self, to: &mut Vec<u8>) {
        let DirDigest { entries, sum, users, groups } = self.0;
        entries.write_to(to);
        write_flags(to, [users.is_some(), groups.is_some()]);
        for sum in [Some(sum), users, groups].into_iter().flatten() {
            to.put_bytes(&sum.to_le_bytes()[..COMPARED_SUM_BYTES]);
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let entries = from.varint()?;
        let [users, groups] = read_flags(from)?;
        let mut sum = || {
            let mut bytes = [0; DIR_SUM_BYTES];
            bytes[..COMPARED_SUM_BYTES].copy_from_slice(from.bytes(COMPARED_SUM_BYTES)?);
            Ok::<_, CodecError>(u128::from_le_bytes(bytes))
        };
        let all = sum()?;
        let users = users.then(&mut sum).transpose()?;
        Ok(Self(DirDigest { entries, sum: all, users, groups: groups.then(sum).transpose()? }))
    }
}

impl WireEncoding for DirDigest {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.entries.write_to(to);
        self.sum.write_to(to);
        self.users.write_to(to);
        self.groups.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (entries, sum) = (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
        Ok(Self {
            entries,
            sum,
            users: WireEncoding::read_from(from)?,
            groups: WireEncoding::read_from(from)?,
        })
    }
}

/// Start, then length: a range is never empty and never ends before its start.
impl WireEncoding for Range<u32> {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.start.write_to(to);
        (self.end - self.start).write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (start, len) = (from.varint_u32()?, from.varint_u32()?);
        let end = start.checked_add(len).filter(|end| *end > start);
        Ok(start..end.ok_or(CodecError::OutOfRange)?)
    }
}

impl WireEncoding for ChunkerSpec {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.encode(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::decode(from)?)
    }
}

impl WireEncoding for Key {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::from_bytes(from.array()?))
    }
}

impl WireEncoding for Digest {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::from_bytes(from.array()?))
    }
}

/// Defines the frames of one direction: number, fields in order, `encode` and `decode`.
macro_rules! frames {
    ($direction:ident {
        $($number:literal $variant:ident { $($field:ident),* })+;
        $($tuple_number:literal $tuple:ident($inner:ident))*
    }) => {
        impl $direction {
            /// Returns the whole frame, including the header.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.append_to(&mut bytes);
                bytes
            }

            /// Appends the whole frame to `to`, so that frames sent together are copied once.
            pub fn append_to(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        append_frame(to, $number, |to| { $($field.write_to(to);)* });
                    })+
                    $(Self::$tuple($inner) => append_frame(to, $tuple_number, |to| $inner.write_to(to)),)*
                }
            }

            /// Decodes the payload of a frame.
            ///
            /// # Errors
            /// [`PeerError`] where the type does not belong to this direction, or the payload is malformed.
            pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
                match kind {
                    $($number => read_whole(stringify!($variant), payload, |from| {
                        $(let $field = WireEncoding::read_from(from)?;)*
                        Ok(Self::$variant { $($field),* })
                    }),)+
                    $($tuple_number => read_whole(stringify!($tuple), payload, |from| {
                        WireEncoding::read_from(from).map(Self::$tuple)
                    }),)*
                    other => Err(PeerError::UnknownFrame(other)),
                }
            }
        }
    };
}

pub(crate) use frames;
