//! What ends tell by strategies other than Deltic's own: sums of chunks, tokens that ask about matches, and patches
//! (docs/protocol.md, "Other strategies").

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::strategy::{Delivery, Locality, Parallel};
use deltic_core::strong::MAX_STRONG_BYTES;
use deltic_core::{
    BlockSpec, BlockSums, Rolling, Searcher, Strategy, Strong, StrongSum, Weak, search,
};

use crate::error::PeerError;
use crate::message::How;
use crate::wire::{Bad, Wire, closed_set};
use crate::work::Turn;

/// How an end cuts its version, and which sums it takes of each chunk. The session's key is the driver's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summing {
    /// Where chunks end.
    pub chunker: ChunkerSpec,
    /// Of each chunk.
    pub weak: Weak,
    /// Of each chunk, if it is asked for.
    pub strong: Option<Strong>,
}

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
    /// Those of the chunk so many before it; not 0.
    Again(u32),
}

/// Chunks of new that may be chunks of old, and what would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The chunks.
    pub chunks: Range<u32>,
    /// What the strong sum is taken over.
    pub over: Over,
    /// As much of it as travels.
    pub strong: StrongSum,
}

impl Token {
    /// How many strong sums it takes to judge it.
    pub(crate) fn sums(&self) -> usize {
        match self.over {
            Over::Run => 1,
            Over::Each => (self.chunks.end - self.chunks.start) as usize,
        }
    }
}

/// What a token's strong sum is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All bytes of its chunks together.
    Run,
    /// Each chunk by itself: all have the same sums.
    Each,
}

/// One step of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchStep {
    /// These blocks of old.
    Copy(Range<u32>),
    /// So many bytes of the patch's payload; not 0.
    Literal(u32),
}

/// A search that a driver goes on with.
#[derive(Debug)]
pub enum Search {
    /// From the start.
    New(BlockSums, search::Locality),
    /// From where it stopped.
    On(Box<Searcher>),
}

impl Search {
    /// The search itself; `key` is that of the session's strong sums.
    #[must_use]
    pub fn searcher(self, key: Option<deltic_core::SumKey>) -> Box<Searcher> {
        match self {
            Self::New(sums, locality) => {
                Box::new(Searcher::new(Arc::new(sums.keyed(key)), locality))
            }
            Self::On(searcher) => searcher,
        }
    }
}

/// How a file is brought over by a strategy that is not Deltic's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) strategy: Strategy,
    pub(crate) weak: Weak,
    pub(crate) strong: Strong,
}

impl Ways {
    /// Those of `how`, if the strategy has any.
    pub(crate) fn of(strategy: Strategy, how: How) -> Option<Self> {
        let strong = match how {
            How::Strategy => strategy.strong,
            How::Stronger => strategy.stronger?,
            How::Recipe | How::Whole | How::Tail => return None,
        };
        Some(Self { strategy, weak: strategy.weak?, strong })
    }

    /// How many bytes of strong sums travel. The digest proves what BLAKE3 finds.
    pub(crate) fn strong_bytes(self) -> usize {
        match self.strong {
            Strong::Blake3 => MAX_STRONG_BYTES / 2,
            other => other.bytes(),
        }
    }

    /// Sums of no block yet, to search by.
    ///
    /// # Panics
    /// Where the strategy does not roll.
    pub(crate) fn block_sums(self, chunker: ChunkerSpec) -> BlockSums {
        let weak = match self.weak {
            Weak::Adler => Rolling::Adler,
            Weak::Crc32c => Rolling::Crc32c,
            other => unreachable!("no strategy rolls {other:?}"),
        };
        let ChunkerSpec::Fixed(len) = chunker else { unreachable!("a search is for blocks") };
        BlockSums::new(BlockSpec { len, weak, strong: self.strong, key: None })
    }

    /// How copies and literals follow each other: with relative offsets each waits for the one before.
    pub(crate) fn delivery_turn(self) -> Turn {
        match self.strategy.delivery {
            Delivery::Phased | Delivery::InOrder => Turn::Own,
            Delivery::Pipelined => Turn::Any,
        }
    }

    /// How strong sums of matches follow each other.
    pub(crate) fn matching_turn(self) -> Turn {
        match self.strategy.parallel {
            Parallel::No => Turn::Own,
            Parallel::SsCdc | Parallel::SubChunks | Parallel::Stitch => Turn::Any,
        }
    }

    pub(crate) const fn locality(self) -> search::Locality {
        match self.strategy.locality {
            Locality::First => search::Locality::Neighbour,
            Locality::Ignored => search::Locality::Ignored,
        }
    }
}

/// Writes sums down so that none crosses twice.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    count: u32,
    last: HashMap<Sum, u32>,
}

impl Teller {
    pub(crate) fn line(&mut self, sum: Sum) -> SumLine {
        let number = self.count;
        self.count += 1;
        match self.last.insert(sum, number) {
            Some(before) => SumLine::Again(number - before),
            None => SumLine::New(sum),
        }
    }
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

/// The sums of a block that was told.
pub(crate) fn sum_of(sums: &BlockSums, no: u32) -> Sum {
    let strong = StrongSum::from_bytes(sums.strong(no)).expect("it was a sum");
    Sum { len: sums.span(no).len, weak: sums.weak(no), strong }
}

closed_set!(Over: Run = 0, Each = 1);

impl Wire for StrongSum {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bytes = from.prefixed(MAX_STRONG_BYTES)?;
        Ok(Self::from_bytes(bytes).ok_or(CodecError::OutOfRange)?)
    }
}

/// How far back, and where that is 0 the sums.
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
