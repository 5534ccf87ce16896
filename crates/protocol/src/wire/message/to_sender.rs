//! Frames of the receiver.

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::{BlockSumSpec, Digest, Key};

use crate::error::PeerError;
use crate::report::{Change, MadeRoot, Question, Totals, Trouble};
use crate::wire::codec::{Wire, whole};
use crate::wire::frame::frame_behind;

use super::done::Done;
use super::lines::{Extent, FileNo, GapLine, How};
use super::numbers::frames;
use super::sums::{SumLine, Token};

/// Frames of the receiver.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSender {
    /// Asks for the digests of these files, at least one; of each once, and before it is wanted.
    Digest(Vec<FileNo>),
    /// Send this file; replaces an earlier attempt at it.
    Want { file: FileNo, how: How },
    /// The old version of the file that is wanted next is this base: the answer may be what changed since.
    Base { file: FileNo, base: Digest },
    /// Send this file by recipe, cut by `spec` and named with `key`: so it was when its transfer was interrupted.
    Resume { file: FileNo, key: Key, spec: ChunkerSpec },
    /// Directories that are as their tallies say, and others, which are to be listed; by numbers of tallies, counted
    /// from 0.
    Tallied { alike: Vec<Range<u32>>, unlike: Vec<Range<u32>> },
    /// Send this file from byte `from` on, as long as it is longer: what is before is here already, or taken for it.
    Append { file: FileNo, from: u64 },
    /// Every file below this number that is not wanted by now will not be.
    Settled { upto: FileNo },
    /// Answers one `Groups`: the groups of it that must be expanded.
    Lack { file: FileNo, groups: Vec<Range<u32>> },
    /// Answers one `Chunks` or `Recipe`: the chunks of it that must be sent.
    Need { file: FileNo, chunks: Vec<Range<u32>> },
    /// Gaps among the chunks that were spelled out, to be told against what old has in their places.
    Mend { file: FileNo, gaps: Vec<GapLine> },
    /// Answers `Keeps`: the sums of old are those that storage keeps so, or the strategy's.
    Signs { file: FileNo, by: Option<BlockSumSpec> },
    /// The sums of the next blocks of old; the last once there are no more.
    Sums { file: FileNo, sums: Vec<SumLine>, extent: Extent },
    /// Chunks that must be sent, and those that may be in old.
    Match { file: FileNo, needs: Vec<Range<u32>>, tokens: Vec<Token> },
    /// The file is settled, and how.
    Done { file: FileNo, done: Done },
    /// The destination was not there.
    MadeRoot(MadeRoot),
    /// A directory, link or attribute changed, or a name was removed.
    Changed(Change),
    /// Literals that were sent do not wait any more: so many `bytes` may be sent again, and `more`. They waited for
    /// `held_us` microseconds, where that is measured.
    Credit { bytes: u64, more: u64, held_us: Option<u32> },
    /// Something went wrong on the receiver's side.
    Trouble(Trouble),
    /// These are here, and safe: their sources may go. Nothing else below `upto` will arrive; nothing at all after the
    /// `last`.
    Arrived { files: Vec<FileNo>, upto: FileNo, last: bool },
    /// Asks the user, who is at the sender's end, whether so many names may go.
    Ask(Question),
    /// Everything is in place and flushed; the session is over.
    Finished(Totals),
}

impl ToSender {
    /// The troubles that it tells.
    pub fn troubles_mut(&mut self) -> &mut [Trouble] {
        match self {
            Self::Trouble(trouble) | Self::Done { done: Done::Failed(trouble), .. } => {
                std::slice::from_mut(trouble)
            }
            _ => &mut [],
        }
    }
}

frames!(ToSender {
    32 Want { file, how }
    33 Settled { upto }
    34 Lack { file, groups }
    35 Need { file, chunks }
    36 Done { file, done }
    40 Mend { file, gaps }
    49 Signs { file, by }
    42 Sums { file, sums, extent }
    43 Match { file, needs, tokens }
    47 Tallied { alike, unlike }
    41 Resume { file, key, spec }
    63 Base { file, base }
    48 Append { file, from }
    62 Credit { bytes, more, held_us }
    44 Arrived { files, upto, last };
    60 MadeRoot(made)
    37 Changed(change)
    38 Trouble(trouble)
    58 Digest(files)
    52 Ask(question)
    39 Finished(totals)
});
