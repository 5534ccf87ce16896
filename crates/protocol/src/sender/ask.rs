//! Work that the sender asks its driver for, and the answers.

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
use crate::message::{How, NameLine, Payload};
use crate::report::{Question, Trouble, TroubleKind};
use crate::summing::{Portion, Summed};
use crate::sums::{PatchStep, Search, Summing};
use crate::work::Handle;

/// Work for the driver.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Debug)]
pub enum Work {
    /// List a directory, with its `tally` if that is asked for and it is listed in one part; or go on with the `rest`
    /// of it. Answer with [`Answer::Listed`].
    List { dir: RelPath, tally: bool, rest: Option<Box<SortedNames>> },
    /// Open a file under `handle`; one that is to be sent whole and is a single block, read it at once (for `zstd` as
    /// in `Read`) and seal it, as in `Seal`. Chunks of this attempt are named with `key`, if there is one, and not
    /// with the session's. The receiver holds `base`, if it is said. Answer with [`Answer::Opened`].
    Open {
        handle: Handle,
        path: RelPath,
        how: How,
        zstd: bool,
        key: Option<Key>,
        bears: Bears,
        base: Option<Digest>,
    },
    /// Read a segment, cut and sum it; answer with [`Answer::Scanned`].
    Scan { handle: Handle, spec: ChunkerSpec, segment: Segment },
    /// Check that the file did not change since it was opened, but in what the attempt `bears`, then take the digest;
    /// answer with [`Answer::Sealed`].
    Seal { handle: Handle, proof: Sealing, bears: Bears },
    /// Read, cut and sum a portion, and hash it for the file's digest if one comes along; answer with
    /// [`Answer::Summed`].
    Sum { handle: Handle, summing: Summing, portion: Portion, digest: Option<Box<FileDigest>> },
    /// Read these spans and take the strong sum of each; answer with [`Answer::Hashed`].
    Hash { handle: Handle, strong: StrongKind, spans: Vec<Span> },
    /// Read from `start` about a segment, search it, and hash what is settled; answer with [`Answer::Searched`].
    Search { handle: Handle, start: u64, search: Search, digest: Box<FileDigest>, zstd: bool },
    /// Search a region for blocks of old, whatever is before it; answer with [`Answer::Found`].
    Find { handle: Handle, region: Range<u64>, blocks: SharedBlocks },
    /// The same as `Search`, through a region that was searched; answer with [`Answer::Searched`].
    Join {
        handle: Handle,
        start: u64,
        searcher: Box<Searcher>,
        region: Box<SearchedRegion>,
        digest: Box<FileDigest>,
        zstd: bool,
    },
    /// Read these spans, one after the other, into a payload, compressed if `zstd` is asked for and agreed on; answer
    /// with [`Answer::Read`].
    Read { handle: Handle, spans: Vec<Span>, sums: Sums, zstd: bool },
    /// Read each gap and tell it against the sums of old; answer with [`Answer::Mended`].
    Mend { handle: Handle, gaps: Vec<Gap>, zstd: bool },
    /// Take the digest of all bytes of each of these files, or know it; answer with [`Answer::Digested`].
    Digest { paths: Vec<RelPath> },
    /// Remove a source that has arrived, if it is still what was listed; answer with [`Answer::Removed`].
    RemoveSource { path: RelPath, meta: Meta },
    /// Ask the user, who may take any time; answer with [`Answer::Asked`].
    Ask(Question),
    /// Let go of what `handle` holds open, if anything; answer with [`Answer::Closed`]. The last work of its handle.
    Close { handle: Handle },
}

impl Work {
    /// Returns true where the answer holds literals.
    pub(super) const fn reads_literals(&self) -> bool {
        match self {
            Self::Open { how, .. } => matches!(how, How::Whole),
            Self::Read { .. } | Self::Mend { .. } => true,
            Self::Search { .. } | Self::Join { .. } => true,
            _ => false,
        }
    }
}

/// A gap in new, and what old has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its place in new.
    pub span: Span,
    /// Sums of the blocks of old.
    pub sums: GapSums,
}

/// The bytes or chunks that a digest is taken of.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// These chunks.
    Chunks(Arc<Vec<Chunk>>),
    /// Its bytes; taken already.
    Bytes(Digest),
    /// A base, the runs that it has elsewhere, and the blocks that are others, by their numbers.
    Changes(Digest, Arc<Vec<MovedRun>>, Arc<Vec<(u32, Chunk)>>),
}

/// Changes that an attempt tolerates while it reads a file. Another attempt may find the file at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bears {
    /// The file becomes longer, as a log does. The bytes that were there when the file was opened are a prefix of the
    /// longer file.
    pub growth: bool,
    /// A program has the file open for writing, but changes nothing.
    pub writers: bool,
}

/// The proof of what was read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The digest of all of it.
    pub digest: Digest,
    /// True if the file grew while it was read, or a program has the file open for writing.
    pub restless: bool,
}

impl From<Digest> for Sealed {
    /// The proof of a file that did not change.
    fn from(digest: Digest) -> Self {
        Self { digest, restless: false }
    }
}

/// Fingerprints that a read takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Each span is a chunk whose fingerprint is not known yet.
    Take,
    /// The recipe knows them.
    Known,
}

/// Answer of the driver. Errors end the attempt at one file, never the session.
#[derive(Debug)]
pub enum Answer {
    /// A directory's entries.
    Listed(Result<Listed, Trouble>),
    /// The new version, as of the open.
    Opened(Result<Opened, Trouble>),
    /// The chunks of a segment, all of which could be read.
    Scanned(Result<SegmentChunks<Chunk>, Trouble>),
    /// The digest, if the file is still the one that was opened, or differs in a way that is borne.
    Sealed(Result<Sealed, Trouble>),
    /// A payload, and the chunks' sums if they were asked for.
    Read(Result<(Payload, Vec<Chunk>), Trouble>),
    /// The gaps' deltas.
    Mended(Result<Deltas, Trouble>),
    /// The sums of a portion, and the digest that came along, for the next one.
    Summed(Result<(Summed, Option<Box<FileDigest>>), Trouble>),
    /// The sum of each span, in order.
    Hashed(Result<Vec<StrongSum>, Trouble>),
    /// Matches in a region.
    Found(Result<SearchedRegion, Trouble>),
    /// Matches and literals that a search found.
    Searched(Result<Searched, Trouble>),
    /// The digest of each file, in order; `None` where it cannot be read, or changed meanwhile.
    Digested(Vec<Option<Digest>>),
    /// The source is gone, or why not.
    Removed(Result<(), Trouble>),
    /// True where the user said yes.
    Asked(bool),
    /// The handle is gone.
    Closed,
}

/// Gaps as copies from old and literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deltas {
    /// Each gap's delta, one behind the other.
    pub payload: Payload,
    /// Length of the deltas in bytes, unpacked.
    pub bytes: u32,
    /// Comparisons of sums for them.
    pub compared: u64,
}

/// Bytes that a search settled.
#[derive(Debug)]
pub struct Searched {
    /// Patches in order; each no longer than a frame may be.
    pub patches: Vec<(Vec<PatchStep>, Payload)>,
    /// Bytes of new that are settled; the next search goes on behind them.
    pub consumed: u64,
    /// True at the file's end.
    pub at_end: bool,
    /// For the next segment.
    pub searcher: Box<Searcher>,
    /// For the next segment.
    pub digest: Box<FileDigest>,
}

/// A directory as a tree lists it.
#[derive(Debug, Default)]
pub struct Listed {
    /// The root's own metadata, where the root itself is part of the transfer; `None` below the root.
    pub own: Option<Meta>,
    /// Its entries, in order of name.
    pub entries: Vec<Entry>,
    /// Entries that could not be listed.
    pub troubles: Vec<Trouble>,
    /// What stands for the entries, as [`Options::tallied`](crate::options::Options::tallied) has it, if it was asked
    /// for.
    pub tally: Option<DirDigest>,
    /// Names of their users, in any order; none where the options ask for none.
    pub users: Vec<NameLine>,
    /// The same of groups.
    pub groups: Vec<NameLine>,
    /// True where the directory may hold others that do not take part.
    pub partial: bool,
    /// True for a directory that was named as a source, of which all takes part, and that is empty.
    pub is_empty_source: bool,
    /// Sources that are not there, where the directory is the root and that is sent.
    pub missing: Vec<RelPath>,
    /// Names behind the last entry that were not looked at: to be asked for when these entries are told.
    pub rest: Option<Box<SortedNames>>,
}

/// A new version that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Its metadata.
    pub meta: Meta,
    /// All of it, where it was short enough to be read at once; the handle then holds nothing.
    pub body: Option<Body>,
    /// Facts about it that its store had already: what they tell is not asked for.
    pub known: Known,
}

/// A whole file in one payload.
#[derive(Debug)]
pub struct Body {
    /// Its bytes.
    pub payload: Payload,
    /// Proof of them.
    pub sealed: Sealed,
}

impl Listed {
    /// Returns true where it, or some of it, went away while it was listed.
    pub(super) fn has_vanished(&self) -> bool {
        self.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Vanished)
    }
}

impl From<Trouble> for Listed {
    /// A directory that could not be listed: it may have others.
    fn from(trouble: Trouble) -> Self {
        Self { troubles: vec![trouble], partial: true, ..Self::default() }
    }
}
