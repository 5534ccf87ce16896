//! The frames of the conversation, one enum for each direction, so that a frame in the wrong direction is not a value.
//!
//! docs/protocol.md says what each means and when it may come; the golden frames in `tests/golden` pin their bytes.

use std::ops::Range;

use deltic_core::GapSums;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::fingerprint::{BriefFingerprint, BriefLen, ShortFingerprint};
use deltic_core::recipe::Digest;
use deltic_core::{Key, ZeroRun, zeros};
use deltic_tree::path::MAX_NAME_BYTES;
use deltic_tree::tally::TALLY_SUM_BYTES;
use deltic_tree::{Entry, Meta, RelPath, Tally};

use crate::digests::DigestLine;
use crate::error::PeerError;
use crate::frame::frame_behind;
use crate::report::{Action, Change, Differs, MadeRoot, Question, Totals, Trouble};
use crate::sums::{PatchStep, SumLine, Token};
use crate::wire::{Bad, Wire, closed_set, items, put_flags, take_flags, whole};

/// A listed entry's place in the sender's list, counted from 0 over all directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNo(pub u64);

/// How the receiver wants a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By recipe: it has an old version to match against.
    Recipe,
    /// Whole, as literals of fixed blocks.
    Whole,
    /// As the session's strategy has it, which is not Deltic's own.
    Strategy,
    /// The same with its stronger sum.
    Stronger,
    /// From some byte on, as literals of fixed blocks; asked for by [`ToSender::Append`].
    Tail,
}

/// A group of a recipe as it travels: enough to find it, not to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLine {
    /// Length in bytes of all its chunks.
    pub len: u64,
    /// How many chunks it has.
    pub chunks: u32,
    /// Its fingerprint's first bytes.
    pub short: ShortFingerprint,
}

/// A chunk of a recipe as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLine {
    /// Length in bytes.
    pub len: u32,
    /// Its fingerprint's first bytes.
    pub brief: BriefFingerprint,
}

/// Chunks of a recipe as they travel together: as many bytes are told of each one's fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLines(pub Vec<ChunkLine>);

/// A gap in new that faces a gap in old between the same neighbours, and what old has there (DESIGN §2, "two levels").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapLine {
    /// The chunks that nothing matched.
    pub chunks: Range<u32>,
    /// Of the blocks of the gap in old; none asks for the bytes as they are.
    pub sums: GapSums,
}

/// What a number of a user or group is called where the sender is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLine {
    /// The number.
    pub id: u32,
    /// The name; not empty.
    pub name: Box<[u8]>,
}

/// Whether a directory's list is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// More entries of the same directory follow in the next frame.
    More,
    /// These were the last.
    Last,
    /// These were the last that take part: the directory may have others, which nobody asked for or could list.
    Part,
    /// These were the last, and one of the directories that were named as sources and are this one here has nothing in it.
    Empty,
}

/// Bytes of literals and how they travel.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// As they are.
    Plain(Vec<u8>),
    /// One zstd frame.
    Zstd(Vec<u8>),
    /// Without their long runs of zeros.
    Sparse(Sparse),
}

/// Literals without their long runs of zeros.
#[derive(Clone, PartialEq, Eq)]
pub struct Sparse {
    /// The runs, at least one.
    pub runs: Vec<ZeroRun>,
    /// The other bytes, as they are or as one zstd frame.
    pub rest: Vec<u8>,
    /// Whether they are that.
    pub zstd: bool,
}

impl Payload {
    /// Whether it can be `bytes` literal bytes, and at least one. What is packed is no longer than that.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        let fits = match self {
            Self::Plain(plain) => plain.len() == bytes,
            Self::Zstd(frame) => frame.len() <= bytes,
            Self::Sparse(Sparse { runs, rest, zstd }) => zeros::rest_len(runs, bytes)
                .is_some_and(|len| rest.len() == len || *zstd && rest.len() < len),
        };
        fits && bytes > 0
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(bytes) => write!(f, "Plain({} bytes)", bytes.len()),
            Self::Zstd(bytes) => write!(f, "Zstd({} bytes)", bytes.len()),
            Self::Sparse(Sparse { runs, rest, zstd }) => {
                write!(f, "Sparse({} runs, {} bytes, zstd: {zstd})", runs.len(), rest.len())
            }
        }
    }
}

/// What the sender says.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToReceiver {
    /// Entries of one directory, in order of name. `own` describes the root itself, where it is part of the transfer.
    Listing { dir: RelPath, own: Option<Meta>, entries: Vec<Entry>, extent: Extent },
    /// What stands for the entries of a directory: a [`Listing`](Self::Listing) of it follows only if the receiver asks.
    Tally { dir: RelPath, tally: Tally },
    /// What users and groups are called that entries to come are of, or their ACLs name; each once in a session.
    Owners { users: Vec<NameLine>, groups: Vec<NameLine> },
    /// The list is complete; `intact` unless some of it could not be read.
    Listed { intact: bool },
    /// A file's new version was opened; what follows is of this version.
    Start { file: FileNo, meta: Meta, how: How, spec: ChunkerSpec },
    /// The same of a file that nobody has wanted yet: it begins an attempt by recipe, if the receiver comes to want one.
    Offer { file: FileNo, meta: Meta, spec: ChunkerSpec },
    /// The next groups of the recipe.
    Groups { file: FileNo, groups: Vec<GroupLine> },
    /// The chunks of groups that the receiver lacks, in the order in which it asked.
    Chunks { file: FileNo, groups: Vec<Range<u32>>, chunks: ChunkLines },
    /// Tells the next chunks of a short file's recipe, without groups.
    Recipe { file: FileNo, chunks: ChunkLines },
    /// Literal bytes of whole chunks, in order.
    Fill { file: FileNo, chunks: Vec<Range<u32>>, payload: Payload },
    /// Gaps as copies from old and literals: for each a `GapDelta`, one behind the other, `bytes` long in all.
    Mended { file: FileNo, gaps: Vec<Range<u32>>, bytes: u32, payload: Payload },
    /// The sums of the next chunks of new; the last once there are no more.
    Sums { file: FileNo, sums: Vec<SumLine>, extent: Extent },
    /// Answers one `Match`: the chunks of its tokens that are others than the receiver has.
    Deny { file: FileNo, chunks: Vec<Range<u32>> },
    /// The next bytes of new, as blocks of old and literals.
    Patch { file: FileNo, steps: Vec<PatchStep>, payload: Payload },
    /// The file grew while it was read: its beginning is what `End`, which follows, proves.
    Restless { file: FileNo },
    /// The recipe is complete, the file did not change while it was read unless that was said, and this proves the result.
    End { file: FileNo, digest: Digest },
    /// The sender's side of an attempt is over; `attempt` counts the `Want`s of the file, from 1.
    Failed { file: FileNo, attempt: u32, trouble: Trouble },
    /// Something else went wrong on the sender's side.
    Trouble(Trouble),
    /// What is in files that the receiver asked about; each once, in any order.
    Digests(Vec<DigestLine>),
    /// Sources that are not there, and are to go here as well.
    Missing(Vec<RelPath>),
    /// What arrived is gone here, but for this.
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

/// What the receiver says.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSender {
    /// What is in these files? At least one; each is asked about once, and before it is wanted.
    Digest(Vec<FileNo>),
    /// Send this file; replaces an earlier attempt at it.
    Want { file: FileNo, how: How },
    /// Send this file by recipe, cut by `spec` and named with `key`: so it was when its transfer was interrupted.
    Resume { file: FileNo, key: Key, spec: ChunkerSpec },
    /// Directories that are as their tallies say, and others, which are to be listed; by numbers of tallies, counted from 0.
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
    /// Something went wrong on the receiver's side.
    Trouble(Trouble),
    /// These are here, and safe: their sources may go. Nothing else below `upto` will arrive; nothing at all after the `last`.
    Arrived { files: Vec<FileNo>, upto: FileNo, last: bool },
    /// So many names would go: the user, who is at the sender's end, is to say whether they may.
    Ask(Question),
    /// Everything is in place and flushed; the session is over.
    Finished(Totals),
}

/// How a file was settled.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Its content was what it should be; `touched` if attributes were set.
    Same { touched: bool, differs: Differs },
    /// Its new version is in place (in a dry run: would be), matched against what is or was at `from`, if that is another
    /// name.
    Replaced { action: Action, differs: Differs, literal: u64, matched: u64, from: Option<RelPath> },
    /// It failed for good.
    Failed(Trouble),
}

impl Done {
    /// Whether a file can end so that was wanted so many times: only of one that was can be said what became of its content.
    pub(crate) fn may_end(&self, wants: u32) -> bool {
        match self {
            Self::Same { touched, differs } => {
                wants > 0 && *touched == (*differs != Differs::default())
            }
            Self::Replaced { action, .. } => {
                wants > 0 && matches!(action, Action::Created | Action::Updated | Action::Copied)
            }
            Self::Failed(_) => true,
        }
    }

    /// Bytes of the file that were matched, if it is a new one in its place.
    pub(crate) const fn matched(&self) -> Option<u64> {
        match self {
            Self::Replaced { matched, .. } => Some(*matched),
            Self::Same { .. } | Self::Failed(_) => None,
        }
    }

    /// Bytes of the file that were sent, as the receiver says.
    pub(crate) const fn literal(&self) -> u64 {
        match self {
            Self::Replaced { literal, .. } => *literal,
            Self::Same { .. } | Self::Failed(_) => 0,
        }
    }
}

closed_set!(How: Recipe = 0, Whole = 1, Strategy = 2, Stronger = 3, Tail = 4);
closed_set!(Extent: More = 0, Last = 1, Part = 2, Empty = 3);

impl Wire for FileNo {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self(from.varint()?))
    }
}

impl Wire for ShortFingerprint {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::from_bytes(from.array()?))
    }
}

/// Sums are little-endian.
impl Wire for u128 {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_bytes(&self.to_le_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::from_le_bytes(from.array::<TALLY_SUM_BYTES>()?))
    }
}

impl Wire for Tally {
    fn put(&self, to: &mut Vec<u8>) {
        self.entries.put(to);
        self.sum.put(to);
        self.users.put(to);
        self.groups.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (entries, sum) = (Wire::take(from)?, Wire::take(from)?);
        Ok(Self { entries, sum, users: Wire::take(from)?, groups: Wire::take(from)? })
    }
}

impl Wire for GroupLine {
    fn put(&self, to: &mut Vec<u8>) {
        self.len.put(to);
        self.chunks.put(to);
        self.short.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { len: from.varint()?, chunks: from.varint_u32()?, short: Wire::take(from)? })
    }
}

impl Wire for ChunkLines {
    fn put(&self, to: &mut Vec<u8>) {
        let brief = self.0.first().map_or(BriefLen::MIN, |line| line.brief.len());
        debug_assert!(self.0.iter().all(|line| line.brief.len() == brief), "all are as long");
        to.put_u8(brief.get() as u8);
        to.put_varint(self.0.len() as u64);
        for line in &self.0 {
            line.len.put(to);
            to.put_bytes(line.brief.as_bytes());
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let brief = BriefLen::new(from.u8()?).ok_or(CodecError::OutOfRange)?;
        let line = |from: &mut Reader<'_>| {
            let (len, bytes) = (from.varint_u32()?, from.bytes(brief.get())?);
            let brief = BriefFingerprint::from_bytes(bytes).ok_or(CodecError::OutOfRange)?;
            Ok(ChunkLine { len, brief })
        };
        items(from, line).map(Self)
    }
}

impl Wire for NameLine {
    fn put(&self, to: &mut Vec<u8>) {
        self.id.put(to);
        to.put_prefixed(&self.name);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (id, name) = (from.varint_u32()?, from.prefixed(MAX_NAME_BYTES)?);
        let bad = name.is_empty() || name.contains(&0);
        if bad { Err(CodecError::OutOfRange.into()) } else { Ok(Self { id, name: name.into() }) }
    }
}

impl Wire for GapLine {
    fn put(&self, to: &mut Vec<u8>) {
        self.chunks.put(to);
        self.sums.encode(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { chunks: Wire::take(from)?, sums: GapSums::decode(from)? })
    }
}

/// Start, then length: a range never ends before it starts, and never is empty.
impl Wire for Range<u32> {
    fn put(&self, to: &mut Vec<u8>) {
        self.start.put(to);
        (self.end - self.start).put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (start, len) = (from.varint_u32()?, from.varint_u32()?);
        let end = start.checked_add(len).filter(|end| *end > start);
        Ok(start..end.ok_or(CodecError::OutOfRange)?)
    }
}

impl Wire for ChunkerSpec {
    fn put(&self, to: &mut Vec<u8>) {
        self.encode(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::decode(from)?)
    }
}

impl Wire for Key {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::from_bytes(from.array()?))
    }
}

impl Wire for Digest {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_bytes(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::from_bytes(from.array()?))
    }
}

/// Takes the rest of the frame.
impl Wire for Payload {
    fn put(&self, to: &mut Vec<u8>) {
        let (sparse, zstd, bytes) = match self {
            Self::Plain(bytes) => (None, false, bytes),
            Self::Zstd(bytes) => (None, true, bytes),
            Self::Sparse(Sparse { runs, rest, zstd }) => (Some(runs), *zstd, rest),
        };
        put_flags(to, [zstd, sparse.is_some()]);
        sparse.into_iter().for_each(|runs| runs.put(to));
        to.put_bytes(bytes);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let [zstd, sparse] = take_flags(from)?;
        let runs = if sparse { Vec::take(from)? } else { Vec::new() };
        let rest = from.rest().to_vec();
        match (sparse, zstd) {
            (true, _) if runs.is_empty() => Err(CodecError::OutOfRange.into()),
            (true, _) => Ok(Self::Sparse(Sparse { runs, rest, zstd })),
            (false, true) => Ok(Self::Zstd(rest)),
            (false, false) => Ok(Self::Plain(rest)),
        }
    }
}

/// No run is empty.
impl Wire for ZeroRun {
    fn put(&self, to: &mut Vec<u8>) {
        self.before.put(to);
        self.len.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (before, len) = (from.varint_u32()?, from.varint_u32()?);
        if len == 0 { Err(CodecError::OutOfRange.into()) } else { Ok(Self { before, len }) }
    }
}

impl Wire for Done {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Same { touched, differs } => {
                to.put_u8(0);
                touched.put(to);
                differs.put(to);
            }
            Self::Replaced { action, differs, literal, matched, from } => {
                to.put_u8(1);
                action.put(to);
                differs.put(to);
                literal.put(to);
                matched.put(to);
                from.put(to);
            }
            Self::Failed(trouble) => {
                to.put_u8(2);
                trouble.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Same { touched: Wire::take(from)?, differs: Wire::take(from)? }),
            1 => Ok(Self::Replaced {
                action: Wire::take(from)?,
                differs: Wire::take(from)?,
                literal: Wire::take(from)?,
                matched: Wire::take(from)?,
                from: Wire::take(from)?,
            }),
            2 => Ok(Self::Failed(Wire::take(from)?)),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

impl ToReceiver {
    /// The file of a frame that may overtake others: an answer whose question the receiver counts.
    pub(crate) const fn may_overtake(&self) -> Option<FileNo> {
        match self {
            Self::Fill { file, .. } | Self::Mended { file, .. } => Some(*file),
            _ => None,
        }
    }
}

/// Defines, for one direction, each frame's number, its fields in order, and both ways between them.
macro_rules! frames {
    ($direction:ident {
        $($number:literal $variant:ident { $($field:ident),* })+;
        $($tuple_number:literal $tuple:ident($inner:ident))*
    }) => {
        impl $direction {
            /// The whole frame, header included.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.encode_behind(&mut bytes);
                bytes
            }

            /// The same behind what `to` holds: frames that leave together are copied once.
            pub fn encode_behind(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        frame_behind(to, $number, |to| { $($field.put(to);)* });
                    })+
                    $(Self::$tuple($inner) => frame_behind(to, $tuple_number, |to| $inner.put(to)),)*
                }
            }

            /// Reads a frame's payload.
            ///
            /// # Errors
            /// [`PeerError`] where the type is not of this direction or the payload is malformed.
            pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
                match kind {
                    $($number => whole(stringify!($variant), payload, |from| {
                        $(let $field = Wire::take(from)?;)*
                        Ok(Self::$variant { $($field),* })
                    }),)+
                    $($tuple_number => whole(stringify!($tuple), payload, |from| {
                        Wire::take(from).map(Self::$tuple)
                    }),)*
                    other => Err(PeerError::UnknownFrame(other)),
                }
            }
        }
    };
}

pub(crate) use frames;

frames!(ToReceiver {
    16 Listing { dir, own, entries, extent }
    17 Listed { intact }
    18 Start { file, meta, how, spec }
    59 Offer { file, meta, spec }
    19 Groups { file, groups }
    20 Chunks { file, groups, chunks }
    51 Recipe { file, chunks }
    21 Fill { file, chunks, payload }
    54 Restless { file }
    22 End { file, digest }
    23 Failed { file, attempt, trouble }
    25 Mended { file, gaps, bytes, payload }
    26 Sums { file, sums, extent }
    27 Deny { file, chunks }
    28 Patch { file, steps, payload }
    46 Tally { dir, tally }
    50 Owners { users, groups };
    24 Trouble(trouble)
    57 Digests(lines)
    31 Missing(paths)
    45 Gone(troubles)
    53 Allow(allowed)
});

frames!(ToSender {
    32 Want { file, how }
    33 Settled { upto }
    34 Lack { file, groups }
    35 Need { file, chunks }
    36 Done { file, done }
    40 Mend { file, gaps }
    42 Sums { file, sums, extent }
    43 Match { file, needs, tokens }
    47 Tallied { alike, unlike }
    41 Resume { file, key, spec }
    48 Append { file, from }
    44 Arrived { files, upto, last };
    60 MadeRoot(made)
    37 Changed(change)
    38 Trouble(trouble)
    58 Digest(files)
    52 Ask(question)
    39 Finished(totals)
});
