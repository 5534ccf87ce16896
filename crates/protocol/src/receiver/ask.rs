//! The work that the receiver requests from the driver, and the answers.

mod answer;

use std::collections::HashSet;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, Segment};
use deltic_core::recipe::Chunk;
use deltic_core::{ChunkPrefix, DataMap, Span, StrongKind};
use deltic_tree::names::SortedNames;
use deltic_tree::{DirDigest, Kind, Meta, Name, Names, RelPath, Timestamp};

use crate::message::{BriefDigest, NameLine, Payload};
use crate::options::Fuzzy;
use crate::report::Question;
use crate::summing::Portion;
use crate::sums::{Search, Summing};
use crate::work::Handle;

use super::transfer::proof::Proof;
use super::tree::new_files::NewFiles;

pub use answer::{
    EqualDir, Extra, KnownChunks, LocalOwner, LookupAnswer, MappedOwners, Mended, MoveIndexExtent,
    NewVersionAnswer, NotListed, OldLens, OldMatches, OldVersionAnswer, ReceiverAnswer,
    RemovedNames, SimilarFile, UnlistedNames,
};

/// The share of the sender's metadata that directories get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedMeta {
    /// No metadata.
    Nothing,
    /// Metadata that the options carry over, without attributes and ACLs, which the directories have already.
    Late,
    /// Metadata that the options carry over.
    All,
}

/// Work for the driver. Paths are below the destination's root.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum ReceiverWork {
    /// Look at names or contents.
    Lookup(LookupWork),
    /// Make, link, copy or change an entry; answer with [`ReceiverAnswer::Done`].
    Entry(EntryWork),
    /// Set the metadata of directories, one after the other in this order. If nothing is carried over, new
    /// directories get their mode alone. Answer with [`ReceiverAnswer::SetDirs`].
    SetDirs { dirs: Vec<(RelPath, Meta)>, carries: CarriedMeta },
    /// Remove a name and all below it, or a part of that; the next [`ReceiverWork::Remove`] of the same path continues.
    /// If the name `gives_way` to another entry, rules about the name itself do not count. A dry run removes nothing
    /// and reports the names. At most `most` names go now, not counting a name that gives way. Answer with
    /// [`ReceiverAnswer::Removed`].
    Remove { path: RelPath, gives_way: bool, dry_run: bool, most: u64 },
    /// Ask the user at this end; the answer may take any time. Answer with [`ReceiverAnswer::Asked`].
    Ask(Question),
    /// Open or read old versions of a file.
    Old(OldVersionWork),
    /// Write parts of a new version.
    New(NewVersionWork),
    /// End an attempt at a file; answer with [`ReceiverAnswer::Done`].
    Settle(SettleWork),
    /// Give the final names to all new versions with delayed commits; answer with [`ReceiverAnswer::Landed`].
    Land,
    /// Remove the files that killed runs left; answer with [`ReceiverAnswer::Done`].
    Sweep,
    /// Flush every change to the disk; answer with [`ReceiverAnswer::Done`].
    Flush,
}

/// Work that only looks at names and contents of the destination.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum LookupWork {
    /// Look at `paths`, and map the sender's users and groups to local ones. From now on, a symlink to a directory at
    /// a path in `dirs` counts as that directory. If the file system takes the two names of an `alike` pair for one
    /// name, the later name fails. Answer with [`LookupAnswer::Looked`].
    Look {
        paths: Vec<RelPath>,
        dirs: HashSet<RelPath>,
        alike: Vec<AlikeNames>,
        users: Vec<NameLine>,
        groups: Vec<NameLine>,
    },
    /// Look at the paths of missing sources. If the file system takes the two paths of a `listed` pair for one path,
    /// answer for the missing source as if there were no entry. Answer with [`LookupAnswer::Looked`].
    LookMissing { paths: Vec<RelPath>, listed: Vec<AlikePaths> },
    /// Look at this path in every alternate; answer with [`LookupAnswer::Beside`].
    LookUpAlternates { path: RelPath },
    /// List a directory as deletions see it, and compare its tally with `tally`; `owners` has the sender's names of
    /// users and groups. Answer with [`LookupAnswer::Compared`].
    Compare { dir: RelPath, tally: DirDigest, owners: Arc<[Vec<NameLine>; 2]> },
    /// Return the digest of all bytes of each file, known or computed; answer with [`LookupAnswer::Digested`].
    Digest { paths: Vec<RelPath> },
    /// List some or all names of a directory that are not in `keep`, or continue with the names in `rest`. A missing
    /// directory has no names. Answer with [`LookupAnswer::Extra`].
    Extra { dir: RelPath, keep: Option<Names>, rest: Option<Box<SortedNames>> },
    /// Count all names that [`ReceiverWork::Remove`] would remove by the current rules, as far as the number is known.
    /// With `gives_way`, `path` itself always counts. Answer with [`LookupAnswer::Counted`].
    Count { path: RelPath, gives_way: bool },
    /// Count the files at and below these paths that match one of the `new` files. Answer with
    /// [`LookupAnswer::CountedMoved`].
    CountMoved { paths: Vec<RelPath>, new: Box<NewFiles> },
    /// Add about `names` more names of the destination to the index of moved files. Names below the directories
    /// `near` come first; each of these directories is given once. Answer with [`LookupAnswer::MoveIndexExtended`].
    ExtendMoveIndex { near: Vec<RelPath>, names: u64 },
}

/// Work on the name or the metadata of one entry. The answer is [`ReceiverAnswer::Done`].
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum EntryWork {
    /// Hard-link `path`, where `seen` stands, to the entry `is` of alternate `alternate` at this path. Answer with
    /// [`ReceiverAnswer::Done`].
    LinkFromAlternate { path: RelPath, alternate: usize, is: Meta, seen: Option<Meta> },
    /// Copy the entry `is` of alternate `alternate` to `path`, where `seen` stands; the copy gets the attributes of
    /// `meta`. Answer with [`ReceiverAnswer::Done`].
    CopyFromAlternate { path: RelPath, alternate: usize, is: Meta, meta: Meta, seen: Option<Meta> },
    /// Hard-link `path`, where `seen` stands, to `leader`, an entry of kind `kind`. Answer with
    /// [`ReceiverAnswer::Done`].
    Link { path: RelPath, leader: RelPath, kind: Kind, seen: Option<Meta> },
    /// Make a directory, or let its owner work in an existing directory. Set the metadata that must be set before
    /// entries are made in the directory: attributes, ACLs and mode. If nothing is carried over, set only the mode of a
    /// new directory. Answer with [`ReceiverAnswer::Done`].
    MakeDir { path: RelPath, meta: Meta, carries: CarriedMeta },
    /// Make a symbolic link; answer with [`ReceiverAnswer::Done`].
    MakeSymlink { path: RelPath, target: Box<[u8]>, meta: Meta },
    /// Make a FIFO, a socket name or a device node; answer with [`ReceiverAnswer::Done`].
    MakeSpecial { path: RelPath, meta: Meta },
    /// Set the part of this metadata that the options carry over; answer with [`ReceiverAnswer::Done`].
    SetMeta { path: RelPath, meta: Meta },
}

/// Work on the old versions of a file, which are open under a handle.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum OldVersionWork {
    /// Open every old version of a file: first the version in place, then the versions that killed runs left, up to
    /// `most` bytes each. A staged file with a journal, left by an interrupted transfer of the version `goes_on`, is
    /// not opened as an old version: the transfer resumes in this file. If there is no version in place, open old
    /// versions from `elsewhere`. If the store knows the recipe of the version in place by the chunker `recipe`, that
    /// recipe replaces cutting. With `base`, also return the base of the version in place, if known. Answer with
    /// [`OldVersionAnswer::Opened`].
    OpenOld {
        handle: Handle,
        path: RelPath,
        most: u64,
        goes_on: Option<Meta>,
        recipe: Option<ChunkerSpec>,
        base: bool,
        elsewhere: OtherPaths,
    },
    /// Open the file at `other`, which arrived in this run, as the last of the old versions. Answer with
    /// [`OldVersionAnswer::OpenedMore`].
    OpenMore { handle: Handle, other: RelPath },
    /// From now on, read the old versions of a file in the order of the new data in `map`: of each old version, first
    /// the bytes at offsets where the new version has data, then the other data. Bytes that are zeros in the old
    /// version and in a hole of `map` are left out. Answer with [`OldVersionAnswer::Viewed`].
    View { handle: Handle, map: Arc<DataMap> },
    /// Read, cut and sum a segment of old version `part` (counted from 0 in the order of [`OldLens`]); answer with
    /// [`OldVersionAnswer::Indexed`].
    Index { handle: Handle, part: usize, segment: Segment, spec: ChunkerSpec },
    /// Read these places of the old versions and compute the sums of the blocks there; answer with
    /// [`OldVersionAnswer::Surveyed`].
    Survey { handle: Handle, gaps: Vec<GapSurvey> },
    /// Read, cut and sum a portion of old version `part`; answer with [`OldVersionAnswer::Summed`].
    SumOld { handle: Handle, part: usize, portion: Portion, summing: Summing },
    /// Read these spans of the old versions and compute the strong sum of each; answer with
    /// [`OldVersionAnswer::Hashed`].
    HashOld { handle: Handle, strong: StrongKind, spans: Vec<Span> },
    /// Search around a segment of old version `part` from `start`; answer with [`OldVersionAnswer::Rolled`].
    Roll { handle: Handle, part: usize, start: u64, search: Search },
}

/// Work that writes parts of a new version.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum NewVersionWork {
    /// Copy runs of the old versions (laid end to end) into the new version, where they form `chunks`; answer with
    /// [`NewVersionAnswer::Copied`].
    Copy {
        handle: Handle,
        path: RelPath,
        new: NewVersion,
        runs: Vec<CopyRun>,
        chunks: Vec<KeptChunk>,
    },
    /// Copy runs of the new version, which are all written, to the places where they repeat; answer with
    /// [`NewVersionAnswer::Copied`].
    Repeat { handle: Handle, path: RelPath, new: NewVersion, runs: Vec<CopyRun> },
    /// Unpack a payload, check its chunks and write them. Before each chunk, make the copies of `between` that lie
    /// before the chunk in the new version. Answer with [`NewVersionAnswer::Written`].
    Write {
        handle: Handle,
        path: RelPath,
        new: NewVersion,
        pieces: Vec<PayloadChunk>,
        payload: Payload,
        between: Vec<CopyRun>,
    },
    /// Unpack gap deltas of `bytes` bytes in all, rebuild each gap from the old bytes in its place, check the gap's
    /// chunks and write them. Answer with [`NewVersionAnswer::Mended`].
    Mend {
        handle: Handle,
        path: RelPath,
        new: NewVersion,
        gaps: Vec<GapPatch>,
        bytes: u32,
        payload: Payload,
    },
}

/// Work that ends an attempt at a file. The answer is [`ReceiverAnswer::Done`].
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum SettleWork {
    /// Check the proof and that the old versions did not change. Put the new version in the place where `seen` stood,
    /// or prepare it for `Land` if the options delay commits. Answer with [`ReceiverAnswer::Done`].
    Commit { handle: Handle, path: RelPath, meta: Meta, seen: Option<Meta>, proof: Proof },
    /// Check a whole file, empty or of a single block, against its digest. Put the file in the place where `seen`
    /// stood. Answer with [`ReceiverAnswer::Done`].
    Replace(SmallFile),
    /// Check the proof, and that the old version, which equals the new version, did not change. Answer with
    /// [`ReceiverAnswer::Done`].
    Confirm { handle: Handle, path: RelPath, proof: Proof },
    /// Close all files that are open under `handle`, and drop any bytes written; answer with
    /// [`ReceiverAnswer::Done`]. Always the last work of a handle. A file that was committed, or confirmed and
    /// touched, needs no `Abandon`.
    Abandon { handle: Handle },
}

/// Two listed names of a directory that some file systems treat as the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlikeNames {
    /// The directory.
    pub dir: RelPath,
    /// The name that was listed later.
    pub name: Name,
    /// The name that was listed first.
    pub earlier: Name,
}

/// The path of a missing source and a listed path that some file systems treat as the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlikePaths {
    /// The path of the missing source.
    pub missing: RelPath,
    /// The listed path.
    pub listed: RelPath,
}

/// A whole file: empty, or of a single block.
#[derive(Debug)]
pub struct SmallFile {
    /// The path of the file.
    pub path: RelPath,
    /// The metadata that the file gets.
    pub meta: Meta,
    /// The entry that stood at this path.
    pub seen: Option<Meta>,
    /// The bytes of the file.
    pub payload: Payload,
    /// The first bytes of the announced digest.
    pub digest: BriefDigest,
}

/// Other places where a file may have an old version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherPaths {
    /// Path of a file of the same length that arrived in this run.
    pub repeated: Option<RelPath>,
    /// Index of the alternate that has the file under the same name.
    pub alternate: Option<usize>,
    /// The search for similar names in the file's directory.
    pub fuzzy: Fuzzy,
    /// Weakest relation with which a file from the index of moved files may serve as old version; `None` if no such
    /// file may.
    pub moved: Option<FileRelation>,
    /// The new version, to which other files are compared.
    pub new: FileStamp,
}

/// Length and modification time of a file. Files that agree in both count as equal in a quick check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Length in bytes.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
}

impl FileStamp {
    /// Returns the length and modification time in `meta`.
    #[must_use]
    pub const fn of(meta: &Meta) -> Self {
        Self { len: meta.len, modified: meta.modified }
    }
}

/// Reasons to use a file with another name as old version, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileRelation {
    /// The file arrived in this run and has the same length.
    Repeat,
    /// Length and modification time are the same: the file was probably moved untouched.
    Twin,
    /// The name is the same, or the length is rare.
    Kin,
}

/// The new version and its chunker. An interrupted transfer resumes in another session only if all fields are the
/// same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVersion {
    /// Length in bytes.
    pub len: u64,
    /// Data map of the new version, if holes are not transferred. All places then count through the packed data.
    pub map: Option<Arc<DataMap>>,
    /// Modification time.
    pub modified: Timestamp,
    /// First byte to be transferred, as an offset; the bytes before stay in place unchecked.
    pub from: u64,
    /// The chunker.
    pub spec: ChunkerSpec,
}

impl NewVersion {
    /// Length in bytes of the transferred content: the whole file, or the packed data.
    #[must_use]
    pub fn transferred_len(&self) -> u64 {
        self.map.as_ref().map_or(self.len, |map| map.data_len())
    }
}

/// A chunk, and its place in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptChunk {
    /// Offset of the first byte.
    pub start: u64,
    /// Length and name of the chunk.
    pub chunk: Chunk,
}

impl KeptChunk {
    /// The offset after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.chunk.len.into())
    }
}

/// Bytes of the old versions, or of the new version, and their place in the new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Source place in the old versions; for a repeat, in the new version.
    pub old: Span,
    /// Place in the new version.
    pub new_start: u64,
}

/// A chunk of a payload and its place; `brief` is the start of the chunk's fingerprint, if a recipe gave a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadChunk {
    /// Place in the new version.
    pub span: Span,
    /// The prefix to expect.
    pub brief: Option<ChunkPrefix>,
}

/// Places in the old versions that correspond to a gap in the new version, to be read one after the other. Empty if
/// the gap is to be sent as it is.
pub type OldGap = Vec<Span>;

/// A gap to be sent as a delta against the old versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapSurvey {
    /// The corresponding places in the old versions.
    pub old: OldGap,
    /// Number of places in which the gap probably differs.
    pub edits: u32,
}

/// A gap that was sent as a delta against the old versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapPatch {
    /// The places in the old versions that the delta refers to.
    pub old: OldGap,
    /// The chunks of the new version in the gap, in order.
    pub pieces: Vec<PayloadChunk>,
}
