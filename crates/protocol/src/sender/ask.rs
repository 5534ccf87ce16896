//! Work that the sender gives its driver, and the driver's answers.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::chunk::{ChunkerSpec, Segment, SegmentChunks};
use deltic_core::moved::MovedRun;
use deltic_core::recipe::{Chunk, Digest, FileDigest};
use deltic_core::search::{SearchedRegion, SharedBlocks};
use deltic_core::{GapSums, Key, Searcher, Span, StrongKind, StrongSum};
use deltic_tree::names::SortedNames;
use deltic_tree::{DirDigest, Entry, Meta, RelPath};

use crate::known::Known;
use crate::message::{NameLine, Payload, TransferKind};
use crate::report::{Question, Trouble, TroubleKind};
use crate::summing::{Portion, Summed};
use crate::sums::{PatchStep, Search, Summing};
use crate::work::Handle;

/// Work for the driver.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum SenderWork {
    /// List a directory, or continue a listing with the names in `rest`. Compute a tally if `tally` is set and the
    /// directory fits one part. Answer: [`SenderAnswer::Listed`].
    List { dir: RelPath, tally: bool, rest: Option<Box<SortedNames>> },
    /// Open a file under `handle`. If the file is to be sent whole and is a single block, also read it, as in `Read`,
    /// and seal it, as in `Seal`. `key` replaces the session's key for the chunks' fingerprints. `base` is the version
    /// that the receiver holds. Answer: [`SenderAnswer::Opened`].
    Open {
        handle: Handle,
        path: RelPath,
        how: TransferKind,
        key: Option<Key>,
        bears: ToleratedChanges,
        base: Option<Digest>,
    },
    /// Read an open file.
    File(FileWork),
    /// Compute or look up the digest of the content of each of these files. Answer: [`SenderAnswer::Digested`].
    Digest { paths: Vec<RelPath> },
    /// Remove a source that has arrived, if it still matches the listed metadata. Answer: [`SenderAnswer::Removed`].
    RemoveSource { path: RelPath, meta: Meta },
    /// Ask the user; any time may pass. Answer: [`SenderAnswer::Asked`].
    Ask(Question),
    /// Close `handle`, if anything is open; the last work of a handle. Answer: [`SenderAnswer::Closed`].
    Close { handle: Handle },
}

/// Work on an open file.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum FileWork {
    /// Read, cut and sum a segment. Answer: [`FileAnswer::Scanned`].
    Scan { handle: Handle, spec: ChunkerSpec, segment: Segment },
    /// Check that the file did not change since it was opened, except for changes that the attempt tolerates
    /// (`bears`), and compute the digest. Answer: [`FileAnswer::Sealed`].
    Seal { handle: Handle, proof: Sealing, bears: ToleratedChanges },
    /// Read, cut and sum a portion, and add the bytes to the file's `digest`, if given. Answer: [`FileAnswer::Summed`].
    Sum { handle: Handle, summing: Summing, portion: Portion, digest: Option<Box<FileDigest>> },
    /// Read these spans and compute the strong sum of each. Answer: [`FileAnswer::Hashed`].
    Hash { handle: Handle, strong: StrongKind, spans: Vec<Span> },
    /// Read about a segment from `start`, search it, and hash the settled bytes. Answer: [`FileAnswer::Searched`].
    Search { handle: Handle, start: u64, search: Search, digest: Option<Box<FileDigest>> },
    /// Search a region for blocks of the old version, independently of the bytes before. Answer: [`FileAnswer::Found`].
    Find { handle: Handle, region: Range<u64>, blocks: SharedBlocks },
    /// Continue a search, as `Search` does, through a region that was already searched. Answer:
    /// [`FileAnswer::Searched`].
    Join {
        handle: Handle,
        start: u64,
        searcher: Box<Searcher>,
        region: Box<SearchedRegion>,
        digest: Option<Box<FileDigest>>,
    },
    /// Read these spans into a single payload, compressed as the worker chooses. Answer:
    /// [`FileAnswer::Read`].
    Read { handle: Handle, spans: Vec<Span>, sums: Sums },
    /// Read each gap and encode it as a delta against the sums of the old version. Answer: [`FileAnswer::Mended`].
    Mend { handle: Handle, gaps: Vec<Gap> },
}

impl SenderWork {
    /// True if the answer holds literals.
    pub(super) const fn reads_literals(&self) -> bool {
        match self {
            Self::Open { how, .. } => matches!(how, TransferKind::Whole),
            Self::File(work) => work.reads_literals(),
            Self::List { .. }
            | Self::Digest { .. }
            | Self::RemoveSource { .. }
            | Self::Ask(_)
            | Self::Close { .. } => false,
        }
    }
}

impl FileWork {
    /// True if the answer holds literals.
    const fn reads_literals(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Mend { .. } | Self::Search { .. } | Self::Join { .. } => true,
            Self::Scan { .. }
            | Self::Seal { .. }
            | Self::Sum { .. }
            | Self::Hash { .. }
            | Self::Find { .. } => false,
        }
    }
}

/// A gap in the new version, and sums of the old version's bytes at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Position of the gap in the new version.
    pub span: Span,
    /// Sums of the blocks of the old version.
    pub sums: GapSums,
}

/// Data that a digest is computed from.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// Every chunk of the file.
    Chunks(Arc<Vec<Chunk>>),
    /// The bytes of the file; the digest is already computed.
    Bytes(Digest),
    /// Digest of the base, the runs of blocks at other offsets in the base, and the changed blocks with their numbers.
    Changes(Digest, Arc<Vec<MovedRun>>, Arc<Vec<(u32, Chunk)>>),
    /// No proof: the receiver wants none.
    Nothing,
}

/// Changes of a file that an attempt tolerates while it reads. Another attempt may find the file at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToleratedChanges {
    /// Growth of the file, as of a log. The bytes that were there when the file was opened are a prefix of the longer
    /// file.
    pub growth: bool,
    /// Programs that have the file open for writing, as long as the file does not change.
    pub writers: bool,
}

/// Proof of the bytes that were read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSeal {
    /// Digest of the content.
    pub digest: Digest,
    /// True if the file grew while it was read, or a program has the file open for writing.
    pub restless: bool,
}

impl FileSeal {
    /// The seal of a file that is not proven.
    pub const UNPROVEN: Self = Self { digest: Digest::from_bytes([0; 32]), restless: false };
}

impl From<Digest> for FileSeal {
    /// Proof for a file that did not change.
    fn from(digest: Digest) -> Self {
        Self { digest, restless: false }
    }
}

/// Whether a read also computes the fingerprints of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Compute the fingerprint of each span, which is a chunk.
    Take,
    /// Compute no fingerprints: the recipe has them.
    Known,
}

/// Answer of the driver. An error ends the attempt at one file, never the session.
///
/// Work on an open file has answers of its own (docs/decisions/0075):
///
/// ```
/// use deltic_protocol::sender::{FileAnswer, SenderAnswer};
/// let _ = SenderAnswer::File(FileAnswer::Hashed(Ok(Vec::new())));
/// ```
///
/// Such an answer to other work does not compile:
///
/// ```compile_fail,E0308
/// use deltic_protocol::sender::{FileAnswer, SenderAnswer};
/// let _ = SenderAnswer::Digested(FileAnswer::Hashed(Ok(Vec::new())));
/// ```
#[derive(Debug)]
pub enum SenderAnswer {
    /// Entries of a directory.
    Listed(Result<Listed, Trouble>),
    /// The new version as opened.
    Opened(Result<Opened, Trouble>),
    /// The answer to [`SenderWork::File`].
    File(FileAnswer),
    /// Digest of each file, in order; `None` if the file cannot be read or changed meanwhile.
    Digested(Vec<Option<Digest>>),
    /// Success of the removal, or the reason against it.
    Removed(Result<(), Trouble>),
    /// True if the user agreed.
    Asked(bool),
    /// The handle is closed.
    Closed,
}

/// Answers to [`FileWork`].
#[derive(Debug)]
pub enum FileAnswer {
    /// Chunks of a segment that could be read in full.
    Scanned(Result<SegmentChunks<Chunk>, Trouble>),
    /// Digest of the file, if the file is unchanged since its opening or changed in a tolerated way.
    Sealed(Result<FileSeal, Trouble>),
    /// Payload, with the chunks' fingerprints if requested.
    Read(Result<(Payload, Vec<Chunk>), Trouble>),
    /// Deltas of the gaps.
    Mended(Result<Deltas, Trouble>),
    /// Sums of a portion, and the file's digest state for the next portion.
    Summed(Result<(Summed, Option<Box<FileDigest>>), Trouble>),
    /// Strong sum of each span, in order.
    Hashed(Result<Vec<StrongSum>, Trouble>),
    /// Matches in a region.
    Found(Result<SearchedRegion, Trouble>),
    /// Matches and literals that a search settled.
    Searched(Result<Searched, Trouble>),
}

/// Gaps encoded as copies from the old version and literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deltas {
    /// Delta of each gap, one after the other.
    pub payload: Payload,
    /// Length of the deltas in bytes, uncompressed.
    pub bytes: u32,
    /// Number of sum comparisons made for the deltas.
    pub compared: u64,
}

/// Bytes settled by a search.
#[derive(Debug)]
pub struct Searched {
    /// Patches in order; each fits one frame.
    pub patches: Vec<(Vec<PatchStep>, Payload)>,
    /// Number of settled bytes of the new version; the next search starts after them.
    pub consumed: u64,
    /// True at the end of the file.
    pub at_end: bool,
    /// State of the search, for the next segment.
    pub searcher: Box<Searcher>,
    /// State of the digest, for the next segment, if the bytes are to be hashed.
    pub digest: Option<Box<FileDigest>>,
}

/// Listing of a directory.
#[derive(Debug, Default)]
pub struct Listed {
    /// Metadata of the root, where the root is part of the transfer; `None` below the root.
    pub own: Option<Meta>,
    /// Entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Entries that could not be listed.
    pub troubles: Vec<Trouble>,
    /// Tally of the entries, as [`Options::tallied_attributes`](crate::options::Options::tallied_attributes) defines, if requested.
    pub tally: Option<DirDigest>,
    /// Names of the entries' users, in any order; empty where the options do not request names.
    pub users: Vec<NameLine>,
    /// Names of the entries' groups, in any order; empty where the options do not request names.
    pub groups: Vec<NameLine>,
    /// True if the directory may hold entries that are not transferred.
    pub partial: bool,
    /// True for an empty directory that was named as a source and is transferred as a whole.
    pub is_empty_source: bool,
    /// Missing source arguments, in the listing of a root.
    pub missing: Vec<RelPath>,
    /// Names after the last entry that are not listed yet: to be requested when these entries are sent.
    pub rest: Option<Box<SortedNames>>,
}

/// A new version that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Metadata of the file.
    pub meta: Meta,
    /// Whole content, if the file was short enough to be read at once; then the handle holds nothing open.
    pub body: Option<Body>,
    /// Facts that the file's store already knew; they need not be computed.
    pub known: Known,
}

/// Whole content of a file in a single payload.
#[derive(Debug)]
pub struct Body {
    /// Content of the file.
    pub payload: Payload,
    /// Proof of the content.
    pub sealed: FileSeal,
}

impl Listed {
    /// True if the directory, or a part of it, vanished during the listing.
    pub(super) fn has_vanished(&self) -> bool {
        self.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Vanished)
    }
}

impl From<Trouble> for Listed {
    /// A directory that could not be listed: it may hold any entries.
    fn from(trouble: Trouble) -> Self {
        Self { troubles: vec![trouble], partial: true, ..Self::default() }
    }
}
