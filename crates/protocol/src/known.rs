//! Facts about a version that its store knew before the version was opened, so that they need not be read.
//!
//! Whoever opens a version brings them; what cuts and sums it asks them first. They are claims of this end's own store:
//! a sender trusts them as it trusts what it reads, and the receiver proves the result by its digest as always.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::moved::MovedRun;
use deltic_core::recipe::Chunk;
use deltic_core::{BlockSumSpec, DataMap};

/// Ready-made facts about one version of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The recipe of all of it.
    pub recipe: Option<KnownRecipe>,
    /// Its differences from the base that was named; `None` where that base is not known, or too much of the version is
    /// another.
    pub changed: Option<Changed>,
    /// The sums that its storage keeps of it, where a signature may be made of such.
    pub keeps: Option<BlockSumSpec>,
    /// Data map of the file, if the file has large holes and the receiver can be told of holes. Then only the data is
    /// transferred, and all offsets count through the packed data.
    pub map: Option<DataMap>,
}

/// Differences of a version from a base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Ranges of its bytes that are not known to be those of the base, ascending and apart.
    pub ranges: Vec<Range<u64>>,
    /// Runs of its blocks of [`CHANGED_BLOCK_BYTES`](crate::limits::CHANGED_BLOCK_BYTES) that the base has elsewhere,
    /// ascending and apart, and no part of `ranges`. Only where the other end can be told.
    pub moved: Vec<MovedRun>,
}

/// All chunks of a version, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRecipe {
    /// The chunker that they are of.
    pub spec: ChunkerSpec,
    /// The chunks, named as those of the attempt are.
    pub chunks: Arc<Vec<Chunk>>,
}

impl KnownRecipe {
    /// Checks that the recipe is one of a version of `len` bytes, cut as is `agreed` where that is not free.
    pub(crate) fn fits(&self, len: u64, agreed: Option<ChunkerSpec>) -> bool {
        let bytes: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        bytes == len && agreed.is_none_or(|agreed| agreed == self.spec)
    }
}
