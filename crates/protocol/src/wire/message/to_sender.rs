//! Frames of the receiver.

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::{BlockSumSpec, Digest, Key};

use crate::error::PeerError;
use crate::report::{Change, MadeRoot, Question, Totals, Trouble};
use crate::wire::codec::{WireEncoding, read_whole};
use crate::wire::frame::append_frame;

use super::answers::Answers;
use super::done::Done;
use super::lines::{Extent, FileNo, GapLine, TransferKind};
use super::numbers::frames;
use super::sums::{SumLine, Token};

/// A frame from the receiver to the sender.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSender {
    /// Requests the digests of these files, at least one. Each file is named once, before the receiver wants the
    /// file.
    Digest(Vec<FileNo>),
    /// Requests this file; replaces an earlier attempt.
    Want { file: FileNo, how: TransferKind },
    /// Names the base that is the old version of the file wanted next: the sender may answer with the differences
    /// from that base.
    Base { file: FileNo, base: Digest },
    /// Requests this file by recipe, cut by `spec` and fingerprinted with `key`, to resume an interrupted transfer.
    Resume { file: FileNo, key: Key, spec: ChunkerSpec },
    /// Directories that match their tallies, and directories that do not and must be listed; by tally number, counted
    /// from 0.
    Tallied { alike: Vec<Range<u32>>, unlike: Vec<Range<u32>> },
    /// Requests the bytes of this file from offset `from` on. The receiver has the bytes before, or assumes that it
    /// has.
    Append { file: FileNo, from: u64 },
    /// Files below this number that are not wanted by now will not be wanted.
    Settled { upto: FileNo },
    /// Answers one `Groups`: the groups that must be expanded.
    Lack { file: FileNo, groups: Vec<Range<u32>> },
    /// Answers one `Chunks` or `Recipe`: the chunks that must be sent.
    Need { file: FileNo, chunks: Vec<Range<u32>> },
    /// Gaps among the chunks already described, to be sent as differences from the old version's bytes in their
    /// place.
    Mend { file: FileNo, gaps: Vec<GapLine> },
    /// Answers `Keeps`: the kind of stored sums that the receiver sends of the old version; `None` for the strategy's
    /// own sums.
    Signs { file: FileNo, by: Option<BlockSumSpec> },
    /// Sums of the next blocks of the old version; `extent` marks the last frame.
    Sums { file: FileNo, sums: Vec<SumLine>, extent: Extent },
    /// Chunks that must be sent, and chunks that may be in the old version.
    Match { file: FileNo, needs: Vec<Range<u32>>, tokens: Vec<Token> },
    /// The file is settled; `done` holds the outcome.
    Done { file: FileNo, done: Done },
    /// Outcomes of several entries, and requests for several files.
    Answers(Answers),
    /// The destination did not exist.
    MadeRoot(MadeRoot),
    /// A directory, link or attribute changed, or a name was deleted.
    Changed(Change),
    /// Credit for received literals: `bytes` may be sent again, and `more` beyond them. The literals waited `held_us`
    /// microseconds at the receiver, where measured.
    Credit { bytes: u64, more: u64, held_us: Option<u32> },
    /// An error at the receiver.
    Trouble(Trouble),
    /// These files have arrived and are flushed: their sources may be removed. No other file below `upto` will
    /// arrive; after the `last` frame no file at all.
    Arrived { files: Vec<FileNo>, upto: FileNo, last: bool },
    /// Asks the user at the sender's end whether many names may be deleted.
    Ask(Question),
    /// Everything is in place and flushed; the session is over.
    Finished(Totals),
}

impl ToSender {
    /// Returns the troubles in the frame.
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
    73 Answers(answers)
    60 MadeRoot(made)
    37 Changed(change)
    38 Trouble(trouble)
    58 Digest(files)
    52 Ask(question)
    39 Finished(totals)
});
