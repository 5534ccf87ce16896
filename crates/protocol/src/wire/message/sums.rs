//! Sums, tokens and patches of the strategies other than Deltic's own (docs/protocol.md, "Other strategies").

use std::ops::Range;

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::strong::MAX_STRONG_BYTES;
use deltic_core::{BlockSumSpec, StrongSum, SumKind};

use crate::error::PeerError;
use crate::wire::codec::{BadPayload, WireEncoding, closed_set};

/// Sums of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sum {
    /// Length of the chunk in bytes.
    pub len: u32,
    /// Weak sum: suggests a match.
    pub weak: u32,
    /// Strong sum: confirms a match; empty where no strong sum was requested.
    pub strong: StrongSum,
}

/// Sums of the next chunk on the wire: no sum is sent twice for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumLine {
    /// New sums: different from all before, or from all that the sender remembers.
    New(Sum),
    /// The sums of an earlier chunk; the distance in chunks, not 0.
    Again(u32),
}

/// Chunks of the new version that may equal chunks of the old version, and the sum that proves the match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Chunks of the new version.
    pub chunks: Range<u32>,
    /// Bytes that the strong sum covers.
    pub over: TokenScope,
    /// First bytes of the strong sum.
    pub strong: StrongSum,
}

/// Bytes that the strong sum of a token covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenScope {
    /// The bytes of all chunks together.
    Run,
    /// The bytes of each chunk separately. All chunks of the token have the same sum.
    Each,
}

/// A step of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchStep {
    /// Copies these blocks of the old version.
    Copy(Range<u32>),
    /// Takes this number of bytes from the patch's payload; not 0.
    Literal(u32),
}

impl SumLine {
    /// Returns the sums of this line. `count` lines came before; `nth` returns the sums of one of them.
    pub(crate) fn resolve(self, count: u32, nth: impl Fn(u32) -> Sum) -> Result<Sum, PeerError> {
        match self {
            Self::New(sum) => Ok(sum),
            Self::Again(back) if back <= count => Ok(nth(count - back)),
            Self::Again(_) => {
                Err(PeerError::Unexpected("a repeated sum that refers to no earlier chunk"))
            }
        }
    }
}

closed_set!(TokenScope: Run = 0, Each = 1);

closed_set!(SumKind: Crc32c = 0, Xxh64 = 1, Sha256 = 2, Blake2b = 3);

impl WireEncoding for BlockSumSpec {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.kind.write_to(to);
        self.block_bytes.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let kept = Self::new(WireEncoding::read_from(from)?, from.varint_u32()?);
        Ok(kept.ok_or(CodecError::OutOfRange)?)
    }
}

impl WireEncoding for StrongSum {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let bytes = from.prefixed(MAX_STRONG_BYTES)?;
        Ok(Self::from_bytes(bytes).ok_or(CodecError::OutOfRange)?)
    }
}

/// On the wire: the distance to an earlier chunk with the same sums, or 0 and the sums.
impl WireEncoding for SumLine {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Again(back) => back.write_to(to),
            Self::New(Sum { len, weak, strong }) => {
                to.put_varint(0);
                len.write_to(to);
                to.put_bytes(&weak.to_le_bytes());
                strong.write_to(to);
            }
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(match from.varint_u32()? {
            0 => Self::New(Sum {
                len: from.varint_u32()?,
                weak: u32::from_le_bytes(from.array()?),
                strong: WireEncoding::read_from(from)?,
            }),
            back => Self::Again(back),
        })
    }
}

impl WireEncoding for Token {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.chunks.write_to(to);
        self.over.write_to(to);
        self.strong.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self {
            chunks: WireEncoding::read_from(from)?,
            over: WireEncoding::read_from(from)?,
            strong: WireEncoding::read_from(from)?,
        })
    }
}

impl WireEncoding for PatchStep {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Copy(blocks) => {
                to.put_u8(0);
                blocks.write_to(to);
            }
            Self::Literal(len) => {
                to.put_u8(1);
                len.write_to(to);
            }
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Copy(WireEncoding::read_from(from)?)),
            1 => Ok(Self::Literal(from.varint_u32()?)),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
