//! Sums of the strategies other than Deltic's own: how to cut and sum, and searches (docs/protocol.md, "Other
//! strategies").

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
use crate::message::TransferKind;
use crate::work::WorkTurn;

pub use crate::message::{PatchStep, Sum, SumLine, Token, TokenScope};

/// A chunker and the sums of each chunk. The driver knows the session's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summing {
    /// The chunker.
    pub chunker: ChunkerSpec,
    /// Weak sum of each chunk.
    pub weak: WeakKind,
    /// Strong sum of each chunk, if requested.
    pub strong: Option<StrongKind>,
    /// Key of the strong sums.
    pub keying: Keying,
}

/// The key of strong sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keying {
    /// The session's key.
    Session,
    /// No key: these are sums that storage keeps, or would keep.
    Plain,
}

impl Keying {
    /// Returns `session`, the session's key, if strong sums use one.
    #[must_use]
    pub fn key<K>(self, session: K) -> Option<K> {
        (self == Self::Session).then_some(session)
    }
}

/// A search of a file, which a driver starts or continues.
#[derive(Debug)]
pub enum Search {
    /// Starts a search.
    New(BlockSums, search::Locality, Keying),
    /// Continues a search where it stopped.
    On(Box<Searcher>),
}

impl Search {
    /// Returns the searcher; `key` is the session's key for strong sums.
    #[must_use]
    pub fn searcher(self, key: Option<SumKey>) -> Box<Searcher> {
        match self {
            Self::New(sums, locality, keying) => {
                let key = keying.key(key).flatten();
                Box::new(Searcher::new(Arc::new(sums.with_key(key)), locality))
            }
            Self::On(searcher) => searcher,
        }
    }
}

/// Sums of a strategy that is not Deltic's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategySums {
    pub(crate) strategy: Strategy,
    pub(crate) weak: WeakKind,
    pub(crate) strong: StrongKind,
    pub(crate) keying: Keying,
}

impl StrategySums {
    /// Returns the sums for a transfer of kind `how`, if the strategy has sums for that kind.
    pub(crate) fn of(strategy: Strategy, how: TransferKind) -> Option<Self> {
        let strong = match how {
            TransferKind::Strategy => strategy.strong,
            TransferKind::Stronger => strategy.stronger?,
            TransferKind::Recipe
            | TransferKind::Whole
            | TransferKind::Tail
            | TransferKind::Changes => return None,
        };
        Some(Self { strategy, weak: strategy.weak?, strong, keying: Keying::Session })
    }

    /// True if the ends agree, for each file, on the sums that their storage keeps.
    pub(crate) fn negotiates(self) -> bool {
        let Strategy { conversation, sums, .. } = self.strategy;
        conversation == Conversation::Signature && sums == SumSource::Stored
    }

    /// Returns the strategy's sums with the stored sums `kept` in their place, and the chunker of the blocks; `None`
    /// if the strategy cannot use the stored sums.
    pub(crate) fn with_stored_sums(
        self,
        BlockSumSpec { kind, block_bytes }: BlockSumSpec,
    ) -> Option<(Self, ChunkerSpec)> {
        let len = FixedLen::new(block_bytes).ok().filter(|_| block_bytes <= self.strategy.longest);
        let ways = match kind.strong() {
            Some(strong) => Self { strong, keying: Keying::Plain, ..self },
            // Weak sums of blocks longer than the strategy's cannot be split.
            None if kind == SumKind::Crc32c => self,
            None => return None,
        };
        Some((ways, ChunkerSpec::Fixed(len?)))
    }

    /// Returns the stored sums that a signature of an old version of `old_len` bytes uses, or `None` for the
    /// strategy's own sums, in blocks of `spec`.
    ///
    /// The receiver's rule applies, since the receiver sends its sums first (SkySync §3.3.1, §3.3.2): use the
    /// receiver's strong sums; blocks must be at least as long as the blocks of the receiver's weak sums. The
    /// sender's strong sums serve where the receiver has none.
    pub(crate) fn agreed_stored_sums(
        self,
        spec: ChunkerSpec,
        receiver: Option<BlockSumSpec>,
        sender: Option<BlockSumSpec>,
        old_len: u64,
    ) -> Option<BlockSumSpec> {
        let fits = |kept: &BlockSumSpec| {
            let blocks = old_len.div_ceil(kept.block_bytes.into());
            self.with_stored_sums(*kept).is_some() && blocks <= MAX_SUMS as u64
        };
        let strong = |kept: &BlockSumSpec| kept.kind.strong().is_some();
        let least = receiver.map_or(0, |kept| kept.block_bytes);
        let sender = sender.filter(|kept| strong(kept) && kept.block_bytes >= least);
        let longer = receiver.filter(|kept| kept.block_bytes > spec.max_len());
        [receiver.filter(strong), sender, longer].into_iter().flatten().find(fits)
    }

    /// Returns the number of strong sum bytes that are sent. BLAKE3 sums are sent by half: the digest proves the
    /// matches.
    pub(crate) fn strong_bytes(self) -> usize {
        match self.strong {
            StrongKind::Blake3 => MAX_STRONG_BYTES / 2,
            other => other.bytes(),
        }
    }

    /// Returns an empty set of block sums, to search with.
    ///
    /// # Panics
    /// If the strategy has no rolling search.
    pub(crate) fn block_sums(self, chunker: ChunkerSpec) -> BlockSums {
        let weak = match self.weak {
            WeakKind::Adler => RollingKind::Adler,
            WeakKind::Crc32c => RollingKind::Crc32c,
            other => unreachable!("no strategy rolls {other:?}"),
        };
        let ChunkerSpec::Fixed(len) = chunker else { unreachable!("a search is for blocks") };
        BlockSums::new(BlockSpec { len, weak, strong: self.strong, key: None })
    }

    /// Returns the order of copies and literals: with relative offsets each step waits for the one before.
    pub(crate) fn delivery_turn(self) -> WorkTurn {
        match self.strategy.delivery {
            Delivery::Phased | Delivery::InOrder => WorkTurn::Own,
            Delivery::Pipelined => WorkTurn::Any,
        }
    }

    /// Returns the order in which strong sums of matches are computed.
    pub(crate) fn matching_turn(self) -> WorkTurn {
        match self.strategy.parallel {
            ParallelMode::No => WorkTurn::Own,
            ParallelMode::SsCdc
            | ParallelMode::SkippedMinima
            | ParallelMode::SubChunks
            | ParallelMode::Stitch
            | ParallelMode::Regions => WorkTurn::Any,
        }
    }

    /// Returns how `threads` threads share the work; 0 means one per processor. A single thread reads a file once.
    pub(crate) fn parallel_mode(self, threads: u32) -> ParallelMode {
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

/// Encodes sums for the wire so that no sum is sent twice for one file.
#[derive(Debug, Default)]
pub(crate) struct SumEncoder {
    count: u32,
    last: HashMap<Sum, u32>,
}

impl SumEncoder {
    pub(crate) fn sum_line(&mut self, sum: Sum) -> SumLine {
        let number = self.count;
        self.count += 1;
        match self.last.insert(sum, number) {
            Some(before) => SumLine::Again(number - before),
            None => SumLine::New(sum),
        }
    }
}

/// Returns the sums of block `no`.
pub(crate) fn sum_of(sums: &BlockSums, no: u32) -> Sum {
    let strong = StrongSum::from_bytes(sums.strong(no)).expect("it was a sum");
    Sum { len: sums.span(no).len, weak: sums.weak(no), strong }
}
