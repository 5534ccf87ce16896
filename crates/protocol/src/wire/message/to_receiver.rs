//! Frames of the sender.

use std::ops::Range;

use deltic_core::BlockSumSpec;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::moved::MovedRun;
use deltic_core::recipe::Digest;
use deltic_tree::{DirDigest, Entry, Meta, RelPath};

use crate::error::PeerError;
use crate::report::Trouble;
use crate::wire::codec::{Wire, whole};
use crate::wire::frame::frame_behind;

use super::lines::{ChunkLines, DataLine, DigestLine, Extent, FileNo, GroupLine, How, NameLine};
use super::numbers::frames;
use super::payload::Payload;
use super::sums::{PatchStep, SumLine};

/// Frames of the sender.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToReceiver {
    /// Entries of one directory, in order of name. `own` describes the root itself, where it is part of the transfer.
    Listing { dir: RelPath, own: Option<Meta>, entries: Vec<Entry>, extent: Extent },
    /// What stands for the entries of a directory: a [`Listing`](Self::Listing) of it follows only if the receiver
    /// asks.
    Tally { dir: RelPath, tally: DirDigest },
    /// Names of the users and groups of entries to come and of their ACLs; each once in a session.
    Owners { users: Vec<NameLine>, groups: Vec<NameLine> },
    /// The list is complete; `intact` unless some of it could not be read.
    Listed { intact: bool },
    /// The next runs of data of a file with large holes, sent before `Start`. Only the data is transferred, packed.
    Holes { file: FileNo, runs: Vec<DataLine> },
    /// A file's new version was opened; what follows is of this version.
    Start { file: FileNo, meta: Meta, how: How, spec: ChunkerSpec },
    /// The same of a file that nobody has wanted yet: it begins an attempt by recipe, if the receiver comes to want
    /// one.
    Offer { file: FileNo, meta: Meta, spec: ChunkerSpec },
    /// The next groups of the recipe.
    Groups { file: FileNo, groups: Vec<GroupLine> },
    /// The chunks of groups that the receiver lacks, in the order in which it asked.
    Chunks { file: FileNo, groups: Vec<Range<u32>>, chunks: ChunkLines },
    /// Tells the next chunks of a short file's recipe, without groups.
    Recipe { file: FileNo, chunks: ChunkLines },
    /// Runs of blocks that the base has elsewhere, in order; they come before all blocks that it does not have.
    Moved { file: FileNo, runs: Vec<MovedRun> },
    /// Literal bytes of whole chunks, in order.
    Fill { file: FileNo, chunks: Vec<Range<u32>>, payload: Payload },
    /// Gaps as copies from old and literals: for each a `GapDelta`, one behind the other, `bytes` long in all.
    Mended { file: FileNo, gaps: Vec<Range<u32>>, bytes: u32, payload: Payload },
    /// The sums that the sender's storage keeps of new, if any: behind `Start`, where a signature is made of such sums.
    Keeps { file: FileNo, kept: Option<BlockSumSpec> },
    /// The sums of the next chunks of new; the last once there are no more.
    Sums { file: FileNo, sums: Vec<SumLine>, extent: Extent },
    /// Answers one `Match`: the chunks of its tokens that are others than the receiver has.
    Deny { file: FileNo, chunks: Vec<Range<u32>> },
    /// The next bytes of new, as blocks of old and literals.
    Patch { file: FileNo, steps: Vec<PatchStep>, payload: Payload },
    /// The file grew while it was read, or a program has the file open for writing. The content that the following
    /// `End` proves was in the file at one instant.
    Restless { file: FileNo },
    /// The recipe is complete, the file did not change while it was read unless that was said, and this proves the
    /// result.
    End { file: FileNo, digest: Digest },
    /// The sender's side of an attempt is over; `attempt` counts the `Want`s of the file, from 1.
    Failed { file: FileNo, attempt: u32, trouble: Trouble },
    /// Something else went wrong on the sender's side.
    Trouble(Trouble),
    /// Digests of files that the receiver asked about; each once, in any order.
    Digests(Vec<DigestLine>),
    /// Sources that are not there, and are to go here as well.
    Missing(Vec<RelPath>),
    /// A source that arrived is removed.
    Removed(RelPath),
    /// Removal of what arrived, but for this.
    Gone(Vec<Trouble>),
    /// The user's answer: whether so many names may go.
    Allow(bool),
}

impl ToReceiver {
    /// The troubles that it tells.
    pub fn troubles_mut(&mut self) -> &mut [Trouble] {
        match self {
            Self::Trouble(trouble) | Self::Failed { trouble, .. } => std::slice::from_mut(trouble),
            Self::Gone(troubles) => troubles,
            _ => &mut [],
        }
    }
}

impl ToReceiver {
    /// The bytes of literals in it, as they travel.
    pub(crate) fn literal_bytes(&self) -> u64 {
        match self {
            Self::Fill { payload, .. }
            | Self::Mended { payload, .. }
            | Self::Patch { payload, .. } => payload.travelling(),
            _ => 0,
        }
    }

    /// The file of a frame that may overtake others: an answer whose question the receiver counts.
    pub(crate) const fn may_overtake(&self) -> Option<FileNo> {
        match self {
            Self::Fill { file, .. } | Self::Mended { file, .. } => Some(*file),
            _ => None,
        }
    }
}

frames!(ToReceiver {
    16 Listing { dir, own, entries, extent }
    17 Listed { intact }
    65 Holes { file, runs }
    18 Start { file, meta, how, spec }
    59 Offer { file, meta, spec }
    19 Groups { file, groups }
    20 Chunks { file, groups, chunks }
    51 Recipe { file, chunks }
    64 Moved { file, runs }
    21 Fill { file, chunks, payload }
    54 Restless { file }
    22 End { file, digest }
    23 Failed { file, attempt, trouble }
    25 Mended { file, gaps, bytes, payload }
    55 Keeps { file, kept }
    26 Sums { file, sums, extent }
    27 Deny { file, chunks }
    28 Patch { file, steps, payload }
    46 Tally { dir, tally }
    50 Owners { users, groups };
    24 Trouble(trouble)
    57 Digests(lines)
    31 Missing(paths)
    61 Removed(path)
    45 Gone(troubles)
    53 Allow(allowed)
});
