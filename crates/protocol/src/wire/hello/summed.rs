//! Blocks with fingerprints made of the sums that storage keeps (docs/decisions/0044).
//!
//! An end whose storage keeps the sum of a block knows the fingerprint of the block without a read.

use deltic_core::chunk::{ChunkerSpec, FixedLen};
use deltic_core::{BlockSumSpec, Fingerprint, Fingerprinter, Key, StrongKind, StrongSum};

use crate::wire::limits::{INDEX_BUDGET_CHUNKS, Limits};

/// The blocks of a session that have fingerprints made of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedBlocks {
    /// Kind of the sums, and length of the blocks.
    pub spec: BlockSumSpec,
    /// The chunker that cuts these blocks.
    pub chunker: ChunkerSpec,
    /// The session's key.
    pub key: Key,
    kind: StrongKind,
}

impl SummedBlocks {
    /// Returns `None` if the sums prove nothing, or if frames of these `limits` cannot hold the blocks.
    pub(super) fn new(spec: BlockSumSpec, limits: &Limits, key: &Key) -> Option<Self> {
        let chunker = ChunkerSpec::Fixed(FixedLen::new(spec.block_bytes).ok()?);
        // Blocks of whole files have the fingerprints of the session. Blocks of changes from a base have the same length
        // as sectors of btrfs, but no session that compares contents uses a base.
        let is_free = limits.admits_chunker(&chunker) && chunker != limits.whole_file_chunker();
        let kind = spec.kind.strong().filter(|_| is_free)?;
        Some(Self { spec, chunker, key: *key, kind })
    }

    /// True if a file of `len` bytes may be cut into these blocks: an index can hold so many.
    #[must_use]
    pub const fn may_cut(&self, len: u64) -> bool {
        len.div_ceil(self.spec.block_bytes as u64) <= INDEX_BUDGET_CHUNKS as u64
    }

    /// Returns the fingerprinter of blocks that are read.
    #[must_use]
    pub const fn fingerprinter(&self) -> Fingerprinter {
        Fingerprinter::summed(self.kind, &self.key)
    }

    /// Returns the fingerprint of the block with this sum. Returns `None` if the sum has the wrong length.
    #[must_use]
    pub fn fingerprint(&self, sum: &[u8]) -> Option<Fingerprint> {
        let sum = StrongSum::from_bytes(sum).filter(|_| sum.len() == self.kind.bytes())?;
        Some(Fingerprint::of_sum(&self.key, &sum))
    }
}
