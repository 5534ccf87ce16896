//! Sums of strategies other than Deltic's own: ways to cut and sum, and searches
//! (docs/protocol.md, "Other strategies").

use std::collections::HashMap;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, FixedLen};
use deltic_core::strategy::{Conversation, Delivery, LookupOrder, ParallelMode, SumSource};
use deltic_core::strong::MAX_STRONG_BYTES;
use deltic_core::{
    BlockSpec, BlockSumSpec, BlockSums, RollingKind, Searcher, Strategy, StrongKind, StrongSum,
    SumKey, SumKind, WeakKind, search,
};

use crate::limits::MAX_SUMS;
use crate::message::How;
use crate::work::Turn;

pub use crate::message::{Over, PatchStep, Sum, SumLine, Token};

/// A chunker and the sums of each chunk. The session's key is the driver's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summing {
    /// The chunker.
    pub chunker: ChunkerSpec,
    /// The weak sum of each chunk.
    pub weak: WeakKind,
    /// The strong sum of each chunk, if it is asked for.
    pub strong: Option<StrongKind>,
    /// The key of these.
    pub keying: Keying,
}

/// The key of strong sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keying {
    /// The session's.
    Session,
    /// None: they are what storage keeps, or would keep.
    Plain,
}

impl Keying {
    /// The key, where `session` is the session's.
    #[must_use]
    pub fn key<K>(self, session: K) -> Option<K> {
        (self == Self::Session).then_some(session)
    }
}

/// A search that a driver goes on with.
#[derive(Debug)]
pub enum Search {
    /// From the start.
    New(BlockSums, search::Locality, Keying),
    /// From where it stopped.
    On(Box<Searcher>),
}

impl Search {
    /// The search itself; `key` is that of the session's strong sums.
    #[must_use]
    pub fn searcher(self, key: Option<SumKey>) -> Box<Searcher> {
        match self {
            Self::New(sums, locality, keying) => {
                let key = keying.key(key).flatten();
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
    pub(crate) weak: WeakKind,
    pub(crate) strong: StrongKind,
    pub(crate) keying: Keying,
}

impl Ways {
    /// The sums of `how`, if the strategy has any.
    pub(crate) fn of(strategy: Strategy, how: How) -> Option<Self> {
        let strong = match how {
            How::Strategy => strategy.strong,
            How::Stronger => strategy.stronger?,
            How::Recipe | How::Whole | How::Tail | How::Changes => return None,
        };
        Some(Self { strategy, weak: strategy.weak?, strong, keying: Keying::Session })
    }

    /// True where the ends of a file that goes so agree on the sums that their storage keeps, if both can.
    pub(crate) fn negotiates(self) -> bool {
        let Strategy { conversation, sums, .. } = self.strategy;
        conversation == Conversation::Signature && sums == SumSource::Stored
    }

    /// The same with a signature of sums that storage keeps so, and its blocks; `None` where there is none.
    pub(crate) fn kept_so(
        self,
        BlockSumSpec { kind, block_bytes }: BlockSumSpec,
    ) -> Option<(Self, ChunkerSpec)> {
        let len = FixedLen::new(block_bytes).ok().filter(|_| block_bytes <= self.strategy.longest);
        let ways = match kind.strong() {
            Some(strong) => Self { strong, keying: Keying::Plain, ..self },
            // Of longer blocks than the strategy's no weak sum can be taken apart.
            None if kind == SumKind::Crc32c => self,
            None => return None,
        };
        Some((ways, ChunkerSpec::Fixed(len?)))
    }

    /// The sums that a signature of `old_len` bytes, in blocks of `spec` else, is made of; `None` for the strategy's.
    ///
    /// The receiver's rule holds, which tells its sums first (SkySync §3.3.1, §3.3.2): its strong sums, and blocks that
    /// are no shorter than those that it keeps weak ones of. Strong sums of the sender's do where it has none.
    pub(crate) fn agreed(
        self,
        spec: ChunkerSpec,
        (ours, theirs): (Option<BlockSumSpec>, Option<BlockSumSpec>),
        old_len: u64,
    ) -> Option<BlockSumSpec> {
        let fits = |kept: &BlockSumSpec| {
            let blocks = old_len.div_ceil(kept.block_bytes.into());
            self.kept_so(*kept).is_some() && blocks <= MAX_SUMS as u64
        };
        let strong = |kept: &BlockSumSpec| kept.kind.strong().is_some();
        let least = ours.map_or(0, |ours| ours.block_bytes);
        let theirs = theirs.filter(|theirs| strong(theirs) && theirs.block_bytes >= least);
        let longer = ours.filter(|ours| ours.block_bytes > spec.max_len());
        [ours.filter(strong), theirs, longer].into_iter().flatten().find(fits)
    }

    /// Bytes of strong sums that travel. The digest proves what BLAKE3 finds.
    pub(crate) fn strong_bytes(self) -> usize {
        match self.strong {
            StrongKind::Blake3 => MAX_STRONG_BYTES / 2,
            other => other.bytes(),
        }
    }

    /// Sums of no block yet, to search by.
    ///
    /// # Panics
    /// Where the strategy does not roll.
    pub(crate) fn block_sums(self, chunker: ChunkerSpec) -> BlockSums {
        let weak = match self.weak {
            WeakKind::Adler => RollingKind::Adler,
            WeakKind::Crc32c => RollingKind::Crc32c,
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
            ParallelMode::No => Turn::Own,
            ParallelMode::SsCdc
            | ParallelMode::SubChunks
            | ParallelMode::Stitch
            | ParallelMode::Regions => Turn::Any,
        }
    }

    /// The use of so many threads, where 0 is as many as there are. One of them alone reads a file once.
    pub(crate) fn parallel(self, threads: u32) -> ParallelMode {
        match self.strategy.parallel {
            ParallelMode::Regions if threads == 1 => ParallelMode::No,
            parallel => parallel,
        }
    }

    pub(crate) const fn locality(self) -> search::Locality {
        match self.strategy.locality {
            LookupOrder::First => search::Locality::Neighbour,
            LookupOrder::Ignored => search::Locality::Ignored,
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
