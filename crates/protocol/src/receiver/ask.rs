//! Work that the receiver asks of its driver, and the answers.

use std::collections::HashSet;
use std::sync::Arc;

use deltic_core::GapSums;
use deltic_core::chunk::{ChunkerSpec, Segment, SegmentChunks};
use deltic_core::recipe::{Chunk, Digest};
use deltic_core::{
    BlockSumSpec, ChunkPrefix, Chunks, DataMap, DeltaOp, Fingerprint, Key, Searcher, Span,
    StrongKind, StrongSum,
};
use deltic_tree::names::SortedNames;
use deltic_tree::{DirDigest, Kind, Meta, Name, Names, RelPath, Timestamp};

use crate::message::{NameLine, Payload};
use crate::options::Fuzzy;
use crate::report::{EntryType, Question, Trouble};
use crate::summing::{Portion, Summed};
use crate::sums::{Search, Summing};
use crate::work::{Handle, Setback};

use super::transfer::proof::Proof;
use super::tree::new_files::NewFiles;

/// A share of the sender's metadata, for directories to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// None of it.
    Nothing,
    /// All but the attributes and ACLs, which they have got before.
    Late,
    /// All that the options carry over.
    All,
}

/// Work for the driver. Paths are below the destination's root.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum Work {
    /// Look at these names, and say what becomes here of these users and groups of the sender's. Where a symlink to a
    /// directory is one of `dirs`, it is that directory from now on. Where the file system takes a name of `alike` and
    /// the earlier one for one name, the later one fails. Answer with [`Answer::Looked`].
    Look {
        paths: Vec<RelPath>,
        dirs: HashSet<RelPath>,
        alike: Vec<AlikeNames>,
        users: Vec<NameLine>,
        groups: Vec<NameLine>,
    },
    /// Look at the paths of missing sources. A path of `listed` is answered as if nothing were there, if the file
    /// system takes this path and the listed path for one. Answer with [`Answer::Looked`].
    LookMissing { paths: Vec<RelPath>, listed: Vec<AlikePaths> },
    /// Take the digest of all bytes of each of these files, or know it; answer with [`Answer::Digested`].
    Digest { paths: Vec<RelPath> },
    /// List a directory as deletions see it, and say whether its tally is this one, if owners are called as `owners`
    /// says at the sender; answer with [`Answer::Compared`].
    Compare { dir: RelPath, tally: DirDigest, owners: Arc<[Vec<NameLine>; 2]> },
    /// Look at this name in every alternate; answer with [`Answer::Beside`].
    LookBeside { path: RelPath },
    /// Make a name another one of what alternate `alternate` has there and `is`, where `seen` stands. Answer with
    /// [`Answer::Done`].
    LinkBeside { path: RelPath, alternate: usize, is: Meta, seen: Option<Meta> },
    /// The same as a copy, which gets the attributes of `meta`. Answer with [`Answer::Done`].
    CopyBeside { path: RelPath, alternate: usize, is: Meta, meta: Meta, seen: Option<Meta> },
    /// Make a name another one of what `leader` is, which is of this kind, where `seen` stands. Answer with
    /// [`Answer::Done`].
    Link { path: RelPath, leader: RelPath, kind: Kind, seen: Option<Meta> },
    /// List the names of a directory that are not in `keep`, or some of them; or go on with the `rest`. None where
    /// there is no directory. Answer with [`Answer::Extra`].
    Extra { dir: RelPath, keep: Option<Names>, rest: Option<Box<SortedNames>> },
    /// Count the names that [`Work::Remove`] would remove in all, by what rules say now, as far as it can be said; what
    /// `gives_way` counts itself in any case. Answer with [`Answer::Counted`].
    Count { path: RelPath, gives_way: bool },
    /// Count the files at these paths and below that are like one of the `new` ones. Answer with
    /// [`Answer::CountedMoved`].
    CountMoved { paths: Vec<RelPath>, new: Box<NewFiles> },
    /// Make a directory, or let its owner work in it; set what counts of this before anything is made in it, which is
    /// the mode of a new one alone where nothing is carried over, and else its attributes and ACLs too. Answer with
    /// [`Answer::Done`].
    MakeDir { path: RelPath, meta: Meta, carries: Carries },
    /// Make a symbolic link; answer with [`Answer::Done`].
    MakeSymlink { path: RelPath, target: Box<[u8]>, meta: Meta },
    /// Make a FIFO, a socket's name or a device's; answer with [`Answer::Done`].
    MakeSpecial { path: RelPath, meta: Meta },
    /// Set what the options carry over of this metadata; answer with [`Answer::Done`].
    SetMeta { path: RelPath, meta: Meta },
    /// The same for directories, one after the other in this order; where nothing is carried over, new ones get their
    /// mode alone. Answer with [`Answer::SetDirs`].
    SetDirs { dirs: Vec<(RelPath, Meta)>, carries: Carries },
    /// Remove a name and all below it, or some of that, and go on with the next at the same question. Where it
    /// `gives_way` to something else, what rules say of the name itself does not count; in a dry run nothing goes, and
    /// what would is told. No more names than `most` go now, what gives way not counted. Answer with
    /// [`Answer::Removed`].
    Remove { path: RelPath, gives_way: bool, dry_run: bool, most: u64 },
    /// Ask the user, who is at this end and may take any time; answer with [`Answer::Asked`].
    Ask(Question),
    /// Look at so many more names of the destination, or somewhat more of them, and note where regular files are; first
    /// of those below the directories `near`, which are said once. Answer with [`Answer::Charted`].
    Chart { near: Vec<RelPath>, names: u64 },
    /// Open every old version of a file: the one in place, then what killed runs left, up to `most` bytes each. If one
    /// of these is an interrupted transfer of the version `goes_on`, and it is known what of it was written, that is
    /// not another old version, but what the new one grows in. Where none is in place there may be some `elsewhere`. Of
    /// the one in place the recipe by the chunker `recipe` may be known: then that is what it is cut by. Its `base` may
    /// be, if that is of use. Answer with [`Answer::Opened`].
    OpenOld {
        handle: Handle,
        path: RelPath,
        most: u64,
        goes_on: Option<Meta>,
        recipe: Option<ChunkerSpec>,
        base: bool,
        elsewhere: Elsewhere,
    },
    /// Read the old versions of a file in the order of new data in `map` from now on: of each old version, first the
    /// bytes in the places of new data, then its other data. Bytes that are zeros in the old version and in a hole of
    /// `map` are left out. Answer with [`Answer::Viewed`].
    View { handle: Handle, map: Arc<DataMap> },
    /// Open the file at `other`, which came in this run, as one more old version, behind the others. Answer with
    /// [`Answer::OpenedMore`].
    OpenMore { handle: Handle, other: RelPath },
    /// Read a segment of old version `part` (counted from 0 in the order of [`OldLens`]), cut and sum it; answer with
    /// [`Answer::Indexed`].
    Index { handle: Handle, part: usize, segment: Segment, spec: ChunkerSpec },
    /// Copy runs of the old versions (their lengths laid end to end) into the new, where they are `chunks`; answer with
    /// [`Answer::Copied`].
    Copy { handle: Handle, path: RelPath, new: New, runs: Vec<CopyRun>, chunks: Vec<KeptChunk> },
    /// Copy runs of the new version itself, all of which were written, to where they come again; answer with
    /// [`Answer::Copied`].
    Repeat { handle: Handle, path: RelPath, new: New, runs: Vec<CopyRun> },
    /// Unpack a payload, check its chunks and write them; before each of them make those copies of `between` that lie
    /// before it in the new version. Answer with [`Answer::Written`].
    Write {
        handle: Handle,
        path: RelPath,
        new: New,
        pieces: Vec<Piece>,
        payload: Payload,
        between: Vec<CopyRun>,
    },
    /// Read these places of the old versions and take the sums of their blocks; answer with [`Answer::Surveyed`].
    Survey { handle: Handle, gaps: Vec<Facing> },
    /// Unpack gap deltas, `bytes` long in all, rebuild each gap from what old has in its place, check its chunks and
    /// write them; answer with [`Answer::Mended`].
    Mend { handle: Handle, path: RelPath, new: New, gaps: Vec<Patch>, bytes: u32, payload: Payload },
    /// Read, cut and sum a portion of old version `part`; answer with [`Answer::Summed`].
    SumOld { handle: Handle, part: usize, portion: Portion, summing: Summing },
    /// Read these spans of the old versions and take the strong sum of each; answer with [`Answer::Hashed`].
    HashOld { handle: Handle, strong: StrongKind, spans: Vec<Span> },
    /// Search about a segment of old version `part` from `start`; answer with [`Answer::Rolled`].
    Roll { handle: Handle, part: usize, start: u64, search: Search },
    /// Check the proof and that the old versions did not change; put the new version in the place where `seen` stood,
    /// or have it ready for `Land`, where the options say so.
    /// Answer with [`Answer::Done`].
    Commit { handle: Handle, path: RelPath, meta: Meta, seen: Option<Meta>, proof: Proof },
    /// Check a whole file of one block, or empty, against its digest; put it in the place where `seen` stood. Answer
    /// with [`Answer::Done`].
    Replace(Small),
    /// Check the proof and that the old version did not change: it is the new version already. Answer with
    /// [`Answer::Done`].
    Confirm { handle: Handle, path: RelPath, proof: Proof },
    /// Drop what `handle` holds, and what it has written, if anything; answer with [`Answer::Done`]. The last work of
    /// its handle; a file that was committed, or confirmed and touched, has none.
    Abandon { handle: Handle },
    /// Give all new versions their names whose commits waited for that; answer with [`Answer::Landed`].
    Land,
    /// Remove what killed runs left; answer with [`Answer::Done`].
    Sweep,
    /// Flush every change to the disk; answer with [`Answer::Done`].
    Flush,
}

/// Two listed names of one directory that are one name to some file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlikeNames {
    /// The directory.
    pub dir: RelPath,
    /// The name that was listed later.
    pub name: Name,
    /// The name that was listed first.
    pub earlier: Name,
}

/// The path of a missing source and a listed path that are one path to some file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlikePaths {
    /// The path of the missing source.
    pub missing: RelPath,
    /// The listed path.
    pub listed: RelPath,
}

/// A whole file of one block, or empty.
#[derive(Debug)]
pub struct Small {
    /// Its place.
    pub path: RelPath,
    /// The metadata that it gets.
    pub meta: Meta,
    /// The entry that stood in its place.
    pub seen: Option<Meta>,
    /// Its bytes.
    pub payload: Payload,
    /// Their digest, as it was announced.
    pub digest: Digest,
}

/// Other places where a file may have an old version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The path of a file that came in this run and is as long.
    pub repeated: Option<RelPath>,
    /// The reference directory that has it under its own name.
    pub alternate: Option<usize>,
    /// Names like its own in its directory.
    pub fuzzy: Fuzzy,
    /// Anywhere in the destination as far as it was charted, if there is a file that is at least so much like it.
    pub moved: Option<Kinship>,
    /// Length in bytes and modification time of the new version: a file that has both is like no other.
    pub new: (u64, Timestamp),
}

/// Reasons to take a file of another name for an old version, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kinship {
    /// The file came in this run, and is as long.
    Repeat,
    /// Length and time are the same: nobody touched it when it moved.
    Twin,
    /// The name is the same, or the length is one that few have.
    Kin,
}

/// The part of a destination that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charted {
    /// Number of names.
    pub names: u64,
    /// The place of the others.
    pub unseen: Unseen,
    /// True once the chart has a file that another may be matched against.
    pub has_files: bool,
}

/// The place of names that were not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Below the directories that were near.
    Near,
    /// Elsewhere.
    Far,
    /// Nowhere, or no more can be noted.
    Nothing,
}

/// The new version, and how it is cut: what must be the same for its transfer to go on in another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// Its length in bytes.
    pub len: u64,
    /// Data map of the new version, if its holes are not transferred. All places then count through the packed data.
    pub map: Option<Arc<DataMap>>,
    /// When it was modified.
    pub modified: Timestamp,
    /// Its first byte that is to come: what is before stays in its place, whatever that is.
    pub from: u64,
    /// The chunker.
    pub spec: ChunkerSpec,
}

impl New {
    /// Length in bytes of the transferred content: the whole file, or the packed data.
    #[must_use]
    pub fn told_len(&self) -> u64 {
        self.map.as_ref().map_or(self.len, |map| map.data_len())
    }
}

/// Chunks that are known from an earlier session, whose key and chunker this file goes by again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The key of their names.
    pub key: Key,
    /// The chunker.
    pub spec: ChunkerSpec,
    /// Data map for the places, if the places count through packed data.
    pub map: Option<Arc<DataMap>>,
    /// The chunks in place, ascending. A chunk that overlaps another, or reaches beyond the version, does not count.
    pub chunks: Chunks,
}

/// A chunk in its place in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptChunk {
    /// Its start.
    pub start: u64,
    /// Its length and name.
    pub chunk: Chunk,
}

impl KeptChunk {
    /// The place behind its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.chunk.len.into())
    }
}

/// Bytes of the old versions, or of the new one, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Place in the old versions; where a new version repeats itself, in that.
    pub old: Span,
    /// Place in the new version.
    pub new_start: u64,
}

/// A chunk of a payload and where it goes; `brief` is what its fingerprint begins with, if a recipe said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Place in the new version.
    pub span: Span,
    /// The prefix to expect.
    pub brief: Option<ChunkPrefix>,
}

/// What old has where new has a gap: places in the old versions, to be read one behind the other. None, if the gap is
/// to come as it is.
pub type OldGap = Vec<Span>;

/// A gap to be told against old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facing {
    /// The places of old that face it.
    pub old: OldGap,
    /// Number of places in which it probably differs.
    pub edits: u32,
}

/// A gap that was told against old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The places of old that it was told against.
    pub old: OldGap,
    /// The chunks of new that it consists of, in order.
    pub pieces: Vec<Piece>,
}

/// A gap that was rebuilt, and written where it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// Names of its chunks, in order; `None` for a chunk that is not the announced one, and was not written.
    pub fingerprints: Vec<Option<Fingerprint>>,
    /// Bytes of literals among those that were written; the rest was in old.
    pub literal: u64,
}

/// The contents of a directory whose digest is the sender's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// Its directories, in any order.
    pub dirs: Vec<(Name, Meta)>,
    /// Number of regular files.
    pub files: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Number of FIFOs and sockets.
    pub specials: u64,
    /// Length of the files, in bytes.
    pub file_bytes: u64,
    /// Length of what the links point at, in bytes.
    pub link_bytes: u64,
}

impl Alike {
    /// Counts one more entry.
    pub fn add(&mut self, name: &Name, meta: &Meta) {
        match &meta.kind {
            Kind::Dir => self.dirs.push((name.clone(), meta.clone())),
            Kind::File => {
                self.files += 1;
                self.file_bytes = self.file_bytes.saturating_add(meta.len);
            }
            Kind::Symlink(target) => {
                self.links += 1;
                self.link_bytes = self.link_bytes.saturating_add(target.len() as u64);
            }
            Kind::Fifo | Kind::Socket => self.specials += 1,
            // A sender tells no tally of a directory that holds one.
            Kind::Device(_) => {}
        }
    }

    /// Number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.files + self.links + self.specials + self.dirs.len() as u64
    }
}

/// A name that stands at the destination and was not asked to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The name.
    pub name: Name,
    /// Number of names that go with it, itself included.
    pub names: u64,
}

/// Names that stand in a directory of the destination and are not to be kept.
#[derive(Debug, Default)]
pub struct Unlisted {
    /// The names, in any order.
    pub extras: Vec<Extra>,
    /// Names that were not looked at.
    pub rest: Option<Box<SortedNames>>,
    /// Warnings about them.
    pub warnings: Vec<Trouble>,
}

/// The user or group here that one of the sender's becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Its number.
    pub id: u32,
    /// True where entries may be given to it.
    pub may_give: bool,
}

/// Answers of the driver.
#[derive(Debug)]
pub enum Answer {
    /// The entry at each path; then the user or group here for each of the sender's.
    Looked(Vec<Result<Option<Meta>, Trouble>>, (Vec<Ours>, Vec<Ours>)),
    /// The contents of the directory, if it is alike.
    Compared(Option<Box<Alike>>),
    /// The digest of each file, in order; `None` where it cannot be read, or changed meanwhile.
    Digested(Vec<Option<Digest>>),
    /// The entry in each reference directory; none where it cannot be said.
    Beside(Vec<Option<Meta>>),
    /// The other names of the directory.
    Extra(Result<Unlisted, Trouble>),
    /// Number of names.
    Counted(u64),
    /// The share of names that go and only moved.
    CountedMoved {
        /// Number of files that are like a new one.
        files: u64,
        /// The new files that none of them was like.
        new: Box<NewFiles>,
    },
    /// The files that could not be put in their places.
    Landed(Vec<(RelPath, Trouble)>),
    /// The directories that could not be set.
    SetDirs(Vec<Trouble>),
    /// Some names were looked at.
    Charted(Charted),
    /// The old versions.
    Opened(Result<Box<OldLens>, Setback>),
    /// The lengths of the old versions in bytes, in the order of reading from now on.
    Viewed(Result<Vec<u64>, Setback>),
    /// The length of one more old version in bytes, if it could be opened.
    OpenedMore(Option<u64>),
    /// The chunks of a segment, all of which could be read.
    Indexed(Result<SegmentChunks<Chunk>, Setback>),
    /// The copies are in place.
    Copied(Result<(), Setback>),
    /// The fingerprints of the pieces, in order; each began as it should.
    Written(Result<Vec<Fingerprint>, Setback>),
    /// The sums of the gaps, in order.
    Surveyed(Result<Vec<GapSums>, Setback>),
    /// Each gap, in order. Chunks may not be what was announced, though the delta is one: sums of blocks are short. In
    /// a gap that came as it is, that is an error.
    Mended(Result<Vec<Mended>, Setback>),
    /// The sums of a portion of old.
    Summed(Result<Summed, Setback>),
    /// The sum of each span, in order.
    Hashed(Result<Vec<StrongSum>, Setback>),
    /// The matches of a search.
    Rolled(Result<Rolled, Setback>),
    /// The names that were removed; an error where none was.
    Removed(Removed),
    /// True where the user said yes.
    Asked(bool),
    /// The end of work that answers nothing else.
    Done(Result<(), Setback>),
}

/// The names that went of one that was to be removed with all below it.
#[derive(Debug, Default)]
pub struct Removed {
    /// Names that went, and what they were: some hundreds at most.
    pub gone: Vec<(RelPath, EntryType)>,
    /// Why others did not: of each once.
    pub troubles: Vec<Trouble>,
    /// True while there is more to be removed.
    pub goes_on: bool,
}

/// The matches of a search through old.
#[derive(Debug)]
pub struct Rolled {
    /// Copies from blocks of new (there called old) to places in old (there called new), in order of these.
    pub found: Vec<DeltaOp>,
    /// Bytes of old that are settled; the next search goes on behind them.
    pub consumed: u64,
    /// True once the part's end was reached.
    pub at_end: bool,
    /// For the next segment.
    pub searcher: Box<Searcher>,
}

/// The lengths in bytes of a file's old versions; laid end to end in this order they are what copies refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldLens {
    /// The one in place, if it is a regular file.
    pub in_place: Option<u64>,
    /// True where that one has other names.
    pub has_other_names: bool,
    /// The one of the reference directory that was asked for.
    pub beside: Option<u64>,
    /// The one of another name.
    pub similar: Option<Similar>,
    /// The versions that killed runs left.
    pub leftovers: Vec<u64>,
    /// True if an old version has large holes. No old version is cut before the receiver knows where the new version
    /// has data.
    pub has_holes: bool,
    /// The transfer of the new version that one of them left, which goes on.
    pub kept: Option<Kept>,
    /// The whole recipe of the one in place, which need not be read to be cut. One that is of another length is no
    /// recipe.
    pub recipe: Option<Kept>,
    /// The base that the one in place is, if that is known.
    pub base: Option<Digest>,
    /// The sums that storage keeps of the first that holds anything, where a signature may be made of such.
    pub keeps: Option<BlockSumSpec>,
}

/// A file of another name that may be an old version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Similar {
    /// Its name.
    pub path: RelPath,
    /// Its length in bytes.
    pub len: u64,
    /// The reason to take it, where it was found in the chart.
    pub kinship: Option<Kinship>,
}
