//! Sums of strategies other than Deltic's own: ways to cut and sum, and searches
//! (docs/protocol.md, "Other strategies").

use std::collections::HashMap;
use std::sync::Arc;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::strategy::{Delivery, Locality, Parallel};
use deltic_core::strong::MAX_STRONG_BYTES;
use deltic_core::{
    BlockSpec, BlockSums, Rolling, Searcher, Strategy, Strong, StrongSum, Weak, search,
};

use crate::message::How;
use crate::work::Turn;

pub use crate::message::{Over, PatchStep, Sum, SumLine, Token};

/// A chunker and the sums of each chunk. The session's key is the driver's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summing {
    /// The chunker.
    pub chunker: ChunkerSpec,
    /// The weak sum of each chunk.
    pub weak: Weak,
    /// The strong sum of each chunk, if it is asked for.
    pub strong: Option<Strong>,
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

/// The sums of a strategy that is not Deltic's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) strategy: Strategy,
    pub(crate) weak: Weak,
    pub(crate) strong: Strong,
}

impl Ways {
    /// The sums of `how`, if the strategy has any.
    pub(crate) fn of(strategy: Strategy, how: How) -> Option<Self> {
        let strong = match how {
            How::Strategy => strategy.strong,
            How::Stronger => strategy.stronger?,
            How::Recipe | How::Whole | How::Tail | How::Changes => return None,
        };
        Some(Self { strategy, weak: strategy.weak?, strong })
    }

    /// Bytes of strong sums that travel. The digest proves what BLAKE3 finds.
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

    /// The order of copies and literals: with relative offsets each waits for the one before.
    pub(crate) fn delivery_turn(self) -> Turn {
        match self.strategy.delivery {
            Delivery::Phased | Delivery::InOrder => Turn::Own,
            Delivery::Pipelined => Turn::Any,
        }
    }

    /// The order of strong sums of matches.
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

/// The sums of a block that was told.
pub(crate) fn sum_of(sums: &BlockSums, no: u32) -> Sum {
    let strong = StrongSum::from_bytes(sums.strong(no)).expect("it was a sum");
    Sum { len: sums.span(no).len, weak: sums.weak(no), strong }
}
