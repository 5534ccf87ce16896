//! Facts about a version that are known and need not be computed, such as its recipe.
//!
//! The store of the file knew the facts before the version was opened. The driver that opens the version supplies
//! them; cutting and summing use them first. The facts come from this end's own store. A sender trusts them as much
//! as the bytes that it reads. The receiver always proves the result by its digest.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::moved::MovedRun;
use deltic_core::recipe::Chunk;
use deltic_core::{BlockSumSpec, DataMap};

use crate::report::ReadReason;

/// Known facts about one version of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Recipe of the whole version.
    pub recipe: Option<KnownRecipe>,
    /// Differences from the base that the receiver named; `None` if that base is not known, or if too much of the
    /// version differs.
    pub changed: Option<Changed>,
    /// Kind and block length of the sums that the storage keeps of the version, if the signature may use these sums.
    pub keeps: Option<BlockSumSpec>,
    /// Data map of the file, if the file has large holes and the receiver supports holes. Then only the data is
    /// transferred, and all offsets count through the packed data.
    pub map: Option<DataMap>,
    /// The reason why the file is read whole or in part, for a large file.
    pub reason: Option<ReadReason>,
}

/// Differences between a version and a base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Byte ranges that may differ from the base, in ascending order, not touching.
    pub ranges: Vec<Range<u64>>,
    /// Runs of blocks of [`CHANGED_BLOCK_BYTES`](crate::limits::CHANGED_BLOCK_BYTES) that the base has at other
    /// positions, in ascending order, not touching, and outside `ranges`. Only if the other end supports moved
    /// blocks.
    pub moved: Vec<MovedRun>,
}

/// Chunks of a whole version, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRecipe {
    /// Chunker that cut the version.
    pub spec: ChunkerSpec,
    /// Chunks, with fingerprints of the same kind as the attempt's.
    pub chunks: Arc<Vec<Chunk>>,
}

impl KnownRecipe {
    /// True if the recipe covers exactly `len` bytes and was cut by the `agreed` chunker; `None` allows any chunker.
    pub(crate) fn fits(&self, len: u64, agreed: Option<ChunkerSpec>) -> bool {
        let bytes: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        bytes == len && agreed.is_none_or(|agreed| agreed == self.spec)
    }
}
