//! The answers to the receiver's work.

use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, SegmentChunks};
use deltic_core::recipe::{Chunk, Digest};
use deltic_core::{
    BlockSumSpec, Chunks, DataMap, DeltaOp, Fingerprint, GapSums, Key, Searcher, StrongSum,
};
use deltic_tree::names::SortedNames;
use deltic_tree::{Kind, Meta, Name, RelPath};

use crate::report::{EntryType, Trouble};
use crate::summing::Summed;
use crate::work::WorkError;

use super::super::tree::new_files::NewFiles;
use super::FileRelation;

/// Answers of the driver. Each group of work has answers of its own (docs/decisions/0075):
///
/// ```
/// use deltic_protocol::receiver::{LookupAnswer, ReceiverAnswer};
/// let _ = ReceiverAnswer::Lookup(LookupAnswer::Counted(0));
/// ```
///
/// An answer of another group does not compile:
///
/// ```compile_fail,E0308
/// use deltic_protocol::receiver::{LookupAnswer, ReceiverAnswer};
/// let _ = ReceiverAnswer::Old(LookupAnswer::Counted(0));
/// ```
#[derive(Debug)]
pub enum ReceiverAnswer {
    /// The answer to [`ReceiverWork::Lookup`](super::ReceiverWork::Lookup).
    Lookup(LookupAnswer),
    /// The directories that could not be set, with the reasons.
    SetDirs(Vec<Trouble>),
    /// The names that were removed, and the reasons why other names were not.
    Removed(RemovedNames),
    /// True if the user said yes.
    Asked(bool),
    /// The answer to [`ReceiverWork::Old`](super::ReceiverWork::Old).
    Old(OldVersionAnswer),
    /// The answer to [`ReceiverWork::New`](super::ReceiverWork::New).
    New(NewVersionAnswer),
    /// The files that could not be put in place, with the reasons.
    Landed(Vec<(RelPath, Trouble)>),
    /// Success or failure of work that returns no value.
    Done(Result<(), WorkError>),
}

/// Answers to [`LookupWork`](super::LookupWork).
#[derive(Debug)]
pub enum LookupAnswer {
    /// The entry at each path; then the local owners for the sender's users and groups.
    Looked(Vec<Result<Option<Meta>, Trouble>>, MappedOwners),
    /// The entry in each alternate; `None` if there is no entry, or the entry cannot be read.
    Beside(Vec<Option<Meta>>),
    /// The contents of the directory, if the tallies are equal.
    Compared(Option<Box<EqualDir>>),
    /// The digest of each file, in order; `None` if the file cannot be read, or changed meanwhile.
    Digested(Vec<Option<Digest>>),
    /// Names of the directory that are not in the list of names to keep.
    Extra(Result<UnlistedNames, Trouble>),
    /// Number of names.
    Counted(u64),
    /// Names to be deleted that only moved.
    CountedMoved {
        /// Number of files that match a new file.
        files: u64,
        /// The new files that no file matched.
        new: Box<NewFiles>,
    },
    /// The extent of the index of moved files after more names were added.
    MoveIndexExtended(MoveIndexExtent),
}

/// Answers to [`OldVersionWork`](super::OldVersionWork).
#[derive(Debug)]
pub enum OldVersionAnswer {
    /// The old versions.
    Opened(Result<Box<OldLens>, WorkError>),
    /// The length in bytes of one more old version, if that version could be opened.
    OpenedMore(Option<u64>),
    /// The lengths of the old versions in bytes, in the order of reading from now on.
    Viewed(Result<Vec<u64>, WorkError>),
    /// The chunks of a segment, all of which could be read.
    Indexed(Result<SegmentChunks<Chunk>, WorkError>),
    /// The sums of the gaps, in order.
    Surveyed(Result<Vec<GapSums>, WorkError>),
    /// The sums of a portion of an old version.
    Summed(Result<Summed, WorkError>),
    /// The sum of each span, in order.
    Hashed(Result<Vec<StrongSum>, WorkError>),
    /// The matches of a search.
    Rolled(Result<OldMatches, WorkError>),
}

/// Answers to [`NewVersionWork`](super::NewVersionWork).
#[derive(Debug)]
pub enum NewVersionAnswer {
    /// The copies are written.
    Copied(Result<(), WorkError>),
    /// The fingerprints of the pieces, in order; each begins with the expected prefix.
    Written(Result<Vec<Fingerprint>, WorkError>),
    /// The gaps, in order. Chunks may differ from the announced ones although the delta is valid, because sums of
    /// blocks are short. A differing chunk is an error in a gap that was sent as it is.
    Mended(Result<Vec<Mended>, WorkError>),
}

/// The local users and groups for the sender's users and groups, in the order of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappedOwners {
    /// Local users.
    pub users: Vec<LocalOwner>,
    /// Local groups.
    pub groups: Vec<LocalOwner>,
}

/// The local user or group for a user or group of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOwner {
    /// The local number.
    pub id: u32,
    /// True if entries may be given to this user or group.
    pub may_give: bool,
}

/// The contents of a directory with the same digest as the sender's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EqualDir {
    /// The subdirectories, in any order.
    pub dirs: Vec<(Name, Meta)>,
    /// Number of regular files.
    pub files: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Number of FIFOs and sockets.
    pub specials: u64,
    /// Length of the files, in bytes.
    pub file_bytes: u64,
    /// Length of the targets of symbolic links, in bytes.
    pub link_bytes: u64,
}

impl EqualDir {
    /// Counts an entry.
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
            // A sender tells no tally of a directory that holds a device.
            Kind::Device(_) => {}
        }
    }

    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.files + self.links + self.specials + self.dirs.len() as u64
    }
}

/// A name at the destination that is not in the list of names to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The name.
    pub name: Name,
    /// Number of names that would be removed with this name, itself included.
    pub names: u64,
}

/// Names in a directory of the destination that are not in the list of names to keep.
#[derive(Debug, Default)]
pub struct UnlistedNames {
    /// The names, in any order.
    pub extras: Vec<Extra>,
    /// Names that have not been looked at yet.
    pub rest: Option<Box<SortedNames>>,
    /// Warnings about the names.
    pub warnings: Vec<Trouble>,
}

/// The part of a destination that the index of moved files covers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveIndexExtent {
    /// Number of names.
    pub names: u64,
    /// Place of the names that the index does not cover yet.
    pub not_listed: NotListed,
    /// True once the index holds a file that may serve as old version of another file.
    pub has_files: bool,
}

/// Place of the names that the index of moved files does not cover yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotListed {
    /// Below the directories given as `near`.
    Near,
    /// Elsewhere in the destination.
    Far,
    /// All names are covered, or the index is full.
    Nothing,
}

/// The result of removing a name with all below it.
#[derive(Debug, Default)]
pub struct RemovedNames {
    /// Names removed, and the types of the removed entries; a few hundred at most.
    pub gone: Vec<(RelPath, EntryType)>,
    /// The reasons why other names were not removed; each name once.
    pub troubles: Vec<Trouble>,
    /// True while more names remain to be removed.
    pub goes_on: bool,
}

/// The lengths in bytes of a file's old versions. Copies refer to the versions laid end to end in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldLens {
    /// The version in place, if it is a regular file.
    pub in_place: Option<u64>,
    /// True if the version in place has other hard links.
    pub has_other_names: bool,
    /// The version in the requested alternate.
    pub beside: Option<u64>,
    /// The file of another name that serves as an old version.
    pub similar: Option<SimilarFile>,
    /// The versions that killed runs left.
    pub leftovers: Vec<u64>,
    /// True if an old version has large holes. No old version is cut before the receiver knows where the new version
    /// has data.
    pub has_holes: bool,
    /// The interrupted transfer of the new version that resumes.
    pub kept: Option<KnownChunks>,
    /// The whole recipe of the version in place, which then need not be read to be cut. A recipe for another length
    /// is ignored.
    pub recipe: Option<KnownChunks>,
    /// The base that equals the version in place, if known.
    pub base: Option<Digest>,
    /// The sums that storage keeps of the first old version that is not empty, if a signature may be made of such
    /// sums.
    pub keeps: Option<BlockSumSpec>,
}

/// A file of another name that may serve as an old version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimilarFile {
    /// The path of the file.
    pub path: RelPath,
    /// Length in bytes.
    pub len: u64,
    /// The reason to use the file, if the file was found in the index of moved files.
    pub relation: Option<FileRelation>,
}

/// Chunks known from an earlier session, with the key and chunker that this file uses again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownChunks {
    /// The key of the chunks' names.
    pub key: Key,
    /// The chunker.
    pub spec: ChunkerSpec,
    /// Data map for the places, if places count through packed data.
    pub map: Option<Arc<DataMap>>,
    /// The chunks in place, ascending. A chunk that overlaps another, or reaches beyond the version, does not count.
    pub chunks: Chunks,
}

/// A rebuilt gap. Only chunks that match the announced fingerprints were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// Names of the gap's chunks, in order; `None` for a chunk that differs from the announced chunk and was not
    /// written.
    pub fingerprints: Vec<Option<Fingerprint>>,
    /// Literal bytes among the written bytes; the other bytes came from the old versions.
    pub literal: u64,
    /// Bytes that the copies saved on the wire if literals are compressed; `None` if this was not measured.
    pub packed_copies: Option<u64>,
}

/// The matches of a search through an old version.
#[derive(Debug)]
pub struct OldMatches {
    /// Copies from blocks of the new version (`old` in `DeltaOp`) to places in the old version (`new` in `DeltaOp`),
    /// in the order of these places.
    pub found: Vec<DeltaOp>,
    /// Bytes of the old version that are settled; the next search starts after them.
    pub consumed: u64,
    /// True once the end of the part is reached.
    pub at_end: bool,
    /// The searcher for the next segment.
    pub searcher: Box<Searcher>,
}
