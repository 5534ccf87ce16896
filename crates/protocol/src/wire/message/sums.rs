//! Sums, tokens and patches of strategies other than Deltic's own (docs/protocol.md, "Other strategies").

use std::ops::Range;

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::strong::MAX_STRONG_BYTES;
use deltic_core::{BlockSumSpec, StrongSum, SumKind};

use crate::error::PeerError;
use crate::wire::codec::{Bad, Wire, closed_set};

/// The sums of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sum {
    /// The chunk's length in bytes.
    pub len: u32,
    /// Suggests a match.
    pub weak: u32,
    /// Confirms it; no bytes where it was not asked for.
    pub strong: StrongSum,
}

/// The next chunk's sums as they travel: no sum crosses twice for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumLine {
    /// Other than all before it, or than those that the sender remembers.
    New(Sum),
    /// The sums of the chunk so many before it; not 0.
    Again(u32),
}

/// Chunks of new that may be chunks of old, and what would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The chunks.
    pub chunks: Range<u32>,
    /// The bytes that the strong sum is taken over.
    pub over: Over,
    /// The part of it that travels.
    pub strong: StrongSum,
}

impl Token {
    /// Number of strong sums that judge it.
    pub(crate) fn sums(&self) -> usize {
        match self.over {
            Over::Run => 1,
            Over::Each => (self.chunks.end - self.chunks.start) as usize,
        }
    }
}

/// The bytes that a token's strong sum is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All bytes of its chunks together.
    Run,
    /// Each chunk by itself: all have the same sums.
    Each,
}

/// A step of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchStep {
    /// These blocks of old.
    Copy(Range<u32>),
    /// The next bytes of the patch's payload; not 0.
    Literal(u32),
}

impl SumLine {
    /// The sums that it stands for, behind `count` others that `nth` knows.
    pub(crate) fn sum(self, count: u32, nth: impl Fn(u32) -> Sum) -> Result<Sum, PeerError> {
        match self {
            Self::New(sum) => Ok(sum),
            Self::Again(back) if back <= count => Ok(nth(count - back)),
            Self::Again(_) => Err(PeerError::Unexpected("the sums of no chunk again")),
        }
    }
}

closed_set!(Over: Run = 0, Each = 1);

closed_set!(SumKind: Crc32c = 0, Xxh64 = 1, Sha256 = 2, Blake2b = 3);

impl Wire for BlockSumSpec {
    fn put(&self, to: &mut Vec<u8>) {
        self.kind.put(to);
        self.block_bytes.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let kept = Self::new(Wire::take(from)?, from.varint_u32()?);
        Ok(kept.ok_or(CodecError::OutOfRange)?)
    }
}

impl Wire for StrongSum {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bytes = from.prefixed(MAX_STRONG_BYTES)?;
        Ok(Self::from_bytes(bytes).ok_or(CodecError::OutOfRange)?)
    }
}

/// Distance to the chunk of the same sums, and where that is 0 the sums.
impl Wire for SumLine {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Again(back) => back.put(to),
            Self::New(Sum { len, weak, strong }) => {
                to.put_varint(0);
                len.put(to);
                to.put_bytes(&weak.to_le_bytes());
                strong.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(match from.varint_u32()? {
            0 => Self::New(Sum {
                len: from.varint_u32()?,
                weak: u32::from_le_bytes(from.array()?),
                strong: Wire::take(from)?,
            }),
            back => Self::Again(back),
        })
    }
}

impl Wire for Token {
    fn put(&self, to: &mut Vec<u8>) {
        self.chunks.put(to);
        self.over.put(to);
        self.strong.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { chunks: Wire::take(from)?, over: Wire::take(from)?, strong: Wire::take(from)? })
    }
}

impl Wire for PatchStep {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Copy(blocks) => {
                to.put_u8(0);
                blocks.put(to);
            }
            Self::Literal(len) => {
                to.put_u8(1);
                len.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Copy(Wire::take(from)?)),
            1 => Ok(Self::Literal(from.varint_u32()?)),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
