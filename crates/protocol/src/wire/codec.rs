//! The codec of payload fields, and the encodings of the simplest types.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::path::BadPath;

use crate::error::PeerError;

use super::limits::{MAX_BATCH, MAX_TEXT_BYTES};

/// Reason for a payload that could not be decoded; the caller adds the name of the frame.
#[derive(Debug)]
pub(crate) enum BadPayload {
    Codec(CodecError),
    Path(BadPath),
    Limit(&'static str),
}

impl From<CodecError> for BadPayload {
    fn from(source: CodecError) -> Self {
        Self::Codec(source)
    }
}

impl From<BadPath> for BadPayload {
    fn from(source: BadPath) -> Self {
        Self::Path(source)
    }
}

impl BadPayload {
    pub(crate) fn in_frame(self, frame: &'static str) -> PeerError {
        match self {
            Self::Codec(source) => PeerError::Malformed { frame, source },
            Self::Path(source) => PeerError::BadName { frame, source },
            Self::Limit(what) => PeerError::Limit(what),
        }
    }
}

/// A type with an encoding on the wire.
pub(crate) trait WireEncoding: Sized {
    fn write_to(&self, to: &mut Vec<u8>);
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload>;
}

/// A count, then the items. No memory is reserved from the count: memory grows with the received bytes.
impl<T: WireEncoding> WireEncoding for Vec<T> {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(self.len() as u64);
        self.iter().for_each(|item| item.write_to(to));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        read_items(from, T::read_from)
    }
}

/// Reads a count and that number of items.
pub(crate) fn read_items<T>(
    from: &mut Reader<'_>,
    take: impl FnMut(&mut Reader<'_>) -> Result<T, BadPayload>,
) -> Result<Vec<T>, BadPayload> {
    read_up_to(MAX_BATCH, from, take)
}

/// Reads a list of at most `most` items.
pub(crate) fn read_up_to<T>(
    most: usize,
    from: &mut Reader<'_>,
    mut take: impl FnMut(&mut Reader<'_>) -> Result<T, BadPayload>,
) -> Result<Vec<T>, BadPayload> {
    let count = from.varint()?;
    if count > most as u64 {
        return Err(BadPayload::Limit("items in one frame"));
    }
    (0..count).map(|_| take(from)).collect()
}

/// Reads a whole payload; bytes left over are an error.
pub(crate) fn read_whole<T>(
    frame: &'static str,
    payload: &[u8],
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, BadPayload>,
) -> Result<T, PeerError> {
    let mut from = Reader::new(payload);
    let taken = take(&mut from).and_then(|value| Ok(from.finish().map(|()| value)?));
    taken.map_err(|bad| bad.in_frame(frame))
}

/// Writes up to eight flags in one byte, the first flag in the lowest bit.
pub(crate) fn write_flags<const N: usize>(to: &mut Vec<u8>, flags: [bool; N]) {
    const { assert!(N <= 8) };
    to.put_u8(flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
}

/// Reads the byte of [`write_flags`]; other bits are an error.
pub(crate) fn read_flags<const N: usize>(from: &mut Reader<'_>) -> Result<[bool; N], BadPayload> {
    const { assert!(N <= 8) };
    let byte = from.u8()?;
    if u32::from(byte) >> N != 0 {
        return Err(CodecError::OutOfRange.into());
    }
    Ok(std::array::from_fn(|n| byte >> n & 1 == 1))
}

/// Reads a member of a small closed set: the wire number is the index in `all`.
pub(crate) fn read_member<T: Copy>(from: &mut Reader<'_>, all: &[T]) -> Result<T, BadPayload> {
    all.get(usize::from(from.u8()?)).copied().ok_or(BadPayload::Codec(CodecError::OutOfRange))
}

macro_rules! closed_set {
    ($name:ty: $($variant:ident = $number:literal),+) => {
        impl WireEncoding for $name {
            fn write_to(&self, to: &mut Vec<u8>) {
                to.put_u8(match self { $(Self::$variant => $number),+ });
            }
            fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
                $crate::wire::codec::read_member(from, &[$(Self::$variant),+])
            }
        }
    };
}
pub(crate) use closed_set;

impl WireEncoding for bool {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_u8(u8::from(*self));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        read_member(from, &[false, true])
    }
}

impl WireEncoding for u64 {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(*self);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(from.varint()?)
    }
}

impl WireEncoding for u32 {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(u64::from(*self));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(from.varint_u32()?)
    }
}

impl<T: WireEncoding> WireEncoding for Option<T> {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.is_some().write_to(to);
        self.iter().for_each(|some| some.write_to(to));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(if bool::read_from(from)? { Some(T::read_from(from)?) } else { None })
    }
}

/// Text for people, or the name of a program: truncated to the limit when written, made valid UTF-8 when read.
impl WireEncoding for String {
    fn write_to(&self, to: &mut Vec<u8>) {
        let mut end = self.len().min(MAX_TEXT_BYTES);
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        to.put_prefixed(&self.as_bytes()[..end]);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::from_utf8_lossy(from.prefixed(MAX_TEXT_BYTES)?).into_owned())
    }
}

/// Bytes that the other end interprets: a path argument, a pattern, a symlink target.
impl WireEncoding for Box<[u8]> {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(from.prefixed(MAX_TEXT_BYTES)?.into())
    }
}
