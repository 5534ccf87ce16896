//! Pure computing on bytes: no IO, no threads, no clock (docs/ARCHITECTURE.md).

pub mod changes;
pub mod chunk;
pub mod chunks;
pub mod code;
pub mod codec;
mod constants;
pub mod data_map;
pub mod delta;
pub mod fingerprint;
pub mod format;
pub mod gap;
pub mod index;
pub mod keyed;
pub mod merge;
pub mod moved;
mod named;
pub mod packed;
pub mod recipe;
#[doc(hidden)]
pub mod reference;
pub mod search;
pub mod simd;
pub mod span;
pub mod stored;
pub mod strategy;
pub mod strong;
#[doc(hidden)]
pub mod suite;
pub mod verity;
pub mod weak;
pub mod zeros;

pub use changes::{BUCKETS, Change, ChangeMap, ChangeSums, ChangedSpan, Origins};
pub use chunk::{Algorithm, AnyChunker, AtEnd, Chunker, ChunkerSpec, Sizes};
pub use chunks::{ChunkNo, Chunks};
pub use codec::{CodecError, Put, Reader};
pub use data_map::{DataMap, PackedRuns};
pub use delta::{CopyRuns, CoverError, DeltaOp, WriteCover};
pub use fingerprint::{ChunkPrefix, Fingerprint, Fingerprinter, GroupPrefix, PrefixLen};
pub use gap::{BadDelta, BlockLen, GapDelta, GapSums};
pub use index::Index;
pub use keyed::{Key, KeyedSum};
pub use merge::{ChunkMatch, MatchRun, RefutedStep, RunMerger};
pub use moved::{KeptSums, MovedRun};
pub use packed::{PackedStrings, StringSlab};
pub use recipe::{
    Chunk, ChunkScan, Digest, DigestBuilder, FileDigest, Group, Grouper, StreamCutter, digest_of,
    digest_of_changes, digest_of_data, scan,
};
pub use search::{BlockSpec, BlockSums, Locality, Searcher};
pub use simd::Isa;
pub use span::Span;
pub use stored::{BlockSumSpec, StoredSums, SumKind};
pub use strategy::Strategy;
pub use strong::{StrongKind, StrongSum, SumKey};
pub use weak::{Adler, Crc32c, RollingKind, WeakKind};
pub use zeros::ZeroRun;
