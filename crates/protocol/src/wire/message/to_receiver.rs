//! Frames of the sender.

use std::ops::Range;

use deltic_core::BlockSumSpec;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::moved::MovedRun;
use deltic_core::recipe::Digest;
use deltic_tree::{DirDigest, Entry, Meta, RelPath};

use crate::error::PeerError;
use crate::report::{ReadReason, Trouble};
use crate::wire::codec::{WireEncoding, read_whole};
use crate::wire::frame::append_frame;

use super::lines::{
    BriefDigest, ChunkLines, DataLine, DigestLine, Extent, FileNo, GroupLine, NameLine,
    ProofPrefix, ShortDigestLines, TransferKind,
};
use super::numbers::{CutDigest, frames};
use super::payload::Payload;
use super::shared_path::SharedPath;
use super::short_entries::ShortEntries;
use super::sums::{PatchStep, SumLine};

/// A frame from the sender to the receiver.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToReceiver {
    /// Entries of a directory, sorted by name. `own` is the metadata of the root, where the root is part of the
    /// transfer.
    Listing { dir: RelPath, own: Option<Meta>, entries: Vec<Entry>, extent: Extent },
    /// [`Listing`](Self::Listing) with the short forms of the path and of entries.
    ShortListing { dir: SharedPath, own: Option<Meta>, entries: ShortEntries, extent: Extent },
    /// Digest that replaces the entries of a directory: a [`Listing`](Self::Listing) follows only if the receiver
    /// asks.
    Tally { dir: RelPath, tally: DirDigest },
    /// [`Tally`](Self::Tally) with the short form of the path.
    ShortTally { dir: SharedPath, tally: DirDigest },
    /// [`ShortTally`](Self::ShortTally) with the compared parts of the sums.
    CutTally { dir: SharedPath, tally: CutDigest },
    /// Names of users and groups of later entries and ACLs; each name once in a session.
    Owners { users: Vec<NameLine>, groups: Vec<NameLine> },
    /// The list is complete; `intact` is false if parts of the source could not be read.
    Listed { intact: bool },
    /// The next runs of data of a file with large holes, sent before `Start`. Only the data is transferred, packed.
    Holes { file: FileNo, runs: Vec<DataLine> },
    /// The new version of a file is open; the following frames describe this version.
    Start { file: FileNo, meta: Meta, how: TransferKind, spec: ChunkerSpec },
    /// The reason why the sender reads a large file whole or in part, sent before `Start`.
    ReadReason { file: FileNo, reason: ReadReason },
    /// `Start` of a file that the receiver has not requested: begins a transfer by recipe, in case the receiver
    /// requests one.
    Offer { file: FileNo, meta: Meta, spec: ChunkerSpec },
    /// Next groups of the recipe.
    Groups { file: FileNo, groups: Vec<GroupLine> },
    /// Chunks of the groups that the receiver lacks, in the order of its answers.
    Chunks { file: FileNo, groups: Vec<Range<u32>>, chunks: ChunkLines },
    /// Next chunks of a short file's recipe, without groups.
    Recipe { file: FileNo, chunks: ChunkLines },
    /// A file sent whole that is empty or a single block: `Start`, `Fill` and `End` in one frame. Without `meta`,
    /// length, time and mode are as listed.
    Single { file: FileNo, meta: Option<Meta>, digest: BriefDigest, payload: Payload },
    /// [`Single`](Self::Single) of a file as listed, with the first bytes of the digest.
    ShortSingle { file: FileNo, digest: ProofPrefix, payload: Payload },
    /// Runs of blocks that the base has at other positions, in order; sent before all blocks that the base lacks.
    Moved { file: FileNo, runs: Vec<MovedRun> },
    /// Literal bytes of whole chunks, in order.
    Fill { file: FileNo, chunks: Vec<Range<u32>>, payload: Payload },
    /// Gaps as copies from the old version and literals: one `GapDelta` after the other, `bytes` long in all.
    Mended { file: FileNo, gaps: Vec<Range<u32>>, bytes: u32, payload: Payload },
    /// Sums that the sender's storage keeps of the new version, if any; sent after `Start`, where the signature may
    /// use stored sums.
    Keeps { file: FileNo, kept: Option<BlockSumSpec> },
    /// Sums of the next chunks of the new version; `extent` marks the last frame.
    Sums { file: FileNo, sums: Vec<SumLine>, extent: Extent },
    /// Answers one `Match`: the chunks that differ from the receiver's chunks.
    Deny { file: FileNo, chunks: Vec<Range<u32>> },
    /// Next bytes of the new version, as blocks of the old version and literals.
    Patch { file: FileNo, steps: Vec<PatchStep>, payload: Payload },
    /// The file grew while it was read, or a program has the file open for writing. The content that the following
    /// `End` proves was in the file at one instant.
    Restless { file: FileNo },
    /// The recipe is complete, and `digest` proves the result. Unless `Restless` came before, the file did not change
    /// while it was read.
    End { file: FileNo, digest: Digest },
    /// The attempt failed at the sender; `attempt` counts the `Want`s of the file, from 1.
    Failed { file: FileNo, attempt: u32, trouble: Trouble },
    /// Another error at the sender.
    Trouble(Trouble),
    /// Digests of files that the receiver requested; each file once, in any order.
    Digests(Vec<DigestLine>),
    /// [`Digests`](Self::Digests) with the first bytes of each digest.
    ShortDigests(ShortDigestLines),
    /// Missing source arguments, to be deleted at the destination too.
    Missing(Vec<RelPath>),
    /// A source was removed after the arrival of the copy.
    Removed(RelPath),
    /// The sources that arrived are removed, except for these.
    Gone(Vec<Trouble>),
    /// Answer of the user: true allows the deletions.
    Allow(bool),
}

impl ToReceiver {
    /// Returns the troubles in the frame.
    pub fn troubles_mut(&mut self) -> &mut [Trouble] {
        match self {
            Self::Trouble(trouble) | Self::Failed { trouble, .. } => std::slice::from_mut(trouble),
            Self::Gone(troubles) => troubles,
            _ => &mut [],
        }
    }
}

impl ToReceiver {
    /// Returns the literal bytes in the frame, as encoded on the wire.
    pub(crate) fn literal_bytes(&self) -> u64 {
        match self {
            Self::Fill { payload, .. }
            | Self::Single { payload, .. }
            | Self::ShortSingle { payload, .. }
            | Self::Mended { payload, .. }
            | Self::Patch { payload, .. } => payload.credit_bytes(),
            _ => 0,
        }
    }

    /// Returns the file of a frame that may overtake other frames: an answer to a request that the receiver counts.
    pub(crate) const fn unordered_file(&self) -> Option<FileNo> {
        match self {
            Self::Fill { file, .. } | Self::Mended { file, .. } => Some(*file),
            _ => None,
        }
    }
}

frames!(ToReceiver {
    16 Listing { dir, own, entries, extent }
    69 ShortListing { dir, own, entries, extent }
    17 Listed { intact }
    65 Holes { file, runs }
    18 Start { file, meta, how, spec }
    76 ReadReason { file, reason }
    59 Offer { file, meta, spec }
    19 Groups { file, groups }
    20 Chunks { file, groups, chunks }
    51 Recipe { file, chunks }
    64 Moved { file, runs }
    21 Fill { file, chunks, payload }
    67 Single { file, meta, digest, payload }
    74 ShortSingle { file, digest, payload }
    54 Restless { file }
    22 End { file, digest }
    23 Failed { file, attempt, trouble }
    25 Mended { file, gaps, bytes, payload }
    55 Keeps { file, kept }
    26 Sums { file, sums, extent }
    27 Deny { file, chunks }
    28 Patch { file, steps, payload }
    46 Tally { dir, tally }
    70 ShortTally { dir, tally }
    75 CutTally { dir, tally }
    50 Owners { users, groups };
    24 Trouble(trouble)
    57 Digests(lines)
    71 ShortDigests(lines)
    31 Missing(paths)
    61 Removed(path)
    45 Gone(troubles)
    53 Allow(allowed)
});
