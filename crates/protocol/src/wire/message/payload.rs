//! Encodings of literals.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::{ZeroRun, zeros};

use crate::wire::codec::{BadPayload, WireEncoding, read_flags, write_flags};

/// Literal bytes, in any of several encodings.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// Plain bytes.
    Plain(Vec<u8>),
    /// A zstd frame.
    Zstd(Vec<u8>),
    /// Bytes without the long runs of zeros.
    Sparse(Sparse),
}

/// Literals without the long runs of zeros.
#[derive(Clone, PartialEq, Eq)]
pub struct Sparse {
    /// Runs of zeros; never empty.
    pub runs: Vec<ZeroRun>,
    /// The bytes outside the runs, plain or as a zstd frame.
    pub rest: Vec<u8>,
    /// True if `rest` is a zstd frame.
    pub zstd: bool,
}

impl Payload {
    /// Returns the number of literal bytes that are sent; at least 1, so that even runs of zeros use credit.
    #[must_use]
    pub fn credit_bytes(&self) -> u64 {
        let (Self::Plain(bytes) | Self::Zstd(bytes) | Self::Sparse(Sparse { rest: bytes, .. })) =
            self;
        bytes.len().max(1) as u64
    }

    /// Returns the length in bytes of the content as sent.
    pub(crate) const fn packed_bytes(&self) -> usize {
        match self {
            Self::Plain(bytes) | Self::Zstd(bytes) => bytes.len(),
            Self::Sparse(sparse) => sparse.rest.len(),
        }
    }

    /// True if the payload can hold `bytes` literal bytes. An empty literal is never valid, and compressed bytes are
    /// never longer than plain bytes.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        let fits = match self {
            Self::Plain(plain) => plain.len() == bytes,
            Self::Zstd(frame) => frame.len() <= bytes,
            Self::Sparse(Sparse { runs, rest, zstd }) => zeros::rest_len(runs, bytes)
                .is_some_and(|len| rest.len() == len || *zstd && rest.len() < len),
        };
        fits && bytes > 0
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(bytes) => write!(f, "Plain({} bytes)", bytes.len()),
            Self::Zstd(bytes) => write!(f, "Zstd({} bytes)", bytes.len()),
            Self::Sparse(Sparse { runs, rest, zstd }) => {
                write!(f, "Sparse({} runs, {} bytes, zstd: {zstd})", runs.len(), rest.len())
            }
        }
    }
}

/// The payload takes the rest of the frame.
impl WireEncoding for Payload {
    fn write_to(&self, to: &mut Vec<u8>) {
        let (sparse, zstd, bytes) = match self {
            Self::Plain(bytes) => (None, false, bytes),
            Self::Zstd(bytes) => (None, true, bytes),
            Self::Sparse(Sparse { runs, rest, zstd }) => (Some(runs), *zstd, rest),
        };
        write_flags(to, [zstd, sparse.is_some()]);
        sparse.into_iter().for_each(|runs| runs.write_to(to));
        to.put_bytes(bytes);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [zstd, sparse] = read_flags(from)?;
        let runs = if sparse { Vec::read_from(from)? } else { Vec::new() };
        let rest = from.rest().to_vec();
        match (sparse, zstd) {
            (true, _) if runs.is_empty() => Err(CodecError::OutOfRange.into()),
            (true, _) => Ok(Self::Sparse(Sparse { runs, rest, zstd })),
            (false, true) => Ok(Self::Zstd(rest)),
            (false, false) => Ok(Self::Plain(rest)),
        }
    }
}

/// A run of zeros is never empty.
impl WireEncoding for ZeroRun {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.before.write_to(to);
        self.len.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (before, len) = (from.varint_u32()?, from.varint_u32()?);
        if len == 0 { Err(CodecError::OutOfRange.into()) } else { Ok(Self { before, len }) }
    }
}
