//! A batch file: a sender's list and the content that the receiver lacked, for other receivers at other times.
//!
//! ```text
//! batch   = magic frame*                  session frames, one after another, in this order:
//! request = Request::Receive              without a destination: the options of the writing run
//! list    = (Owners | Missing | Listing)* Listed
//! content = (Content (Copy | Literal)* Proof)*
//! end     = Over
//! ```
//!
//! The steps of a content are those of a [delta file](deltic_core::format::delta): the new version from front to
//! back. Without an old version all steps are literals.

use deltic_core::chunk::ChunkerSpec;
use deltic_core::codec::{CodecError, Reader};
use deltic_core::delta::MAX_RUN_BYTES;
use deltic_core::format::delta::MAX_LITERAL_BYTES;
use deltic_core::{Digest, Span};
use deltic_tree::{Meta, Name, RelPath};

use crate::error::PeerError;
use crate::frame::{append_frame, frame_bytes};
use crate::hello::{NamesFrom, Request};
use crate::message::{PathBefore, Payload, ShortEntries, ToReceiver, frames};
use crate::options::{Links, Metadata, Options, Select};
use crate::wire::codec::{BadPayload, WireEncoding, read_whole};

/// Magic of a batch file; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"DELTICB\x01";

/// A frame of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame: the options of the run that wrote the batch, and the file's name if the batch holds a single
    /// file.
    Asked(Option<Name>, Box<Options>),
    /// A frame of the list.
    Told(ToReceiver),
    /// A frame of the contents.
    Part(Part),
}

/// Frames that exist in batches and not in sessions.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Begins the steps of a file's new version; `spec` cuts both versions for their digests.
    Content { path: RelPath, meta: Meta, old: Option<Old>, spec: ChunkerSpec },
    /// Copies the next bytes of the new version from this span of the old version.
    Copy { span: Span },
    /// Holds the next `len` bytes of the new version.
    Literal { len: u32, payload: Payload },
    /// Digest of the new version; `None` if the file changed while it was read: then the batch has no content of the
    /// file.
    Proof { digest: Option<Digest> },
    /// The last frame: the number of contents, and the BLAKE3 digest of all bytes before this frame.
    Over { files: u64, digest: Digest },
}

/// The old version that a content starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Old {
    /// Digest of the old version.
    pub digest: Digest,
    /// Length of the old version in bytes.
    pub len: u64,
}

frames!(Part {
    97 Content { path, meta, old, spec }
    98 Copy { span }
    99 Literal { len, payload }
    100 Proof { digest }
    101 Over { files, digest };
});

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`PeerError`] where the frame is malformed or its type does not occur in batches.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        const FIRST_PART: u8 = 97;
        match kind {
            REQUEST => match Request::decode(kind, payload)? {
                Request::Receive { single, options, .. } => {
                    Ok(Self::Asked(single, Box::new(options)))
                }
                Request::Send { .. } => Err(PeerError::Unexpected("a request to send")),
            },
            FIRST_PART.. => Part::decode(kind, payload).map(Self::Part),
            kind if is_list_frame(kind) => ToReceiver::decode(kind, payload).map(Self::Told),
            kind => Err(PeerError::UnknownFrame(kind)),
        }
    }
}

/// Encodes the first frame of a batch.
#[must_use]
pub fn encode_request(single: Option<Name>, options: Options) -> Vec<u8> {
    let (destination, names) = (Box::default(), NamesFrom::Nowhere);
    Request::Receive { destination, single, names, options }.encode()
}

/// True for the frame types of a sender's list that batches contain: `Listing`, `Listed`, `Missing` and `Owners`.
#[must_use]
pub const fn is_list_frame(kind: u8) -> bool {
    matches!(kind, 16 | 17 | 31 | 50)
}

/// Converts the list of a session to the list of a batch, which has the full form of paths and entries.
#[derive(Debug, Default)]
pub struct BatchList {
    path_before: PathBefore,
}

impl BatchList {
    /// Returns the frame of a batch for the next frame of a session; `None` for a frame that does not belong to the
    /// list.
    #[must_use]
    pub fn list_frame(&mut self, kind: u8, payload: &[u8]) -> Option<Vec<u8>> {
        if is_list_frame(kind) {
            return Some(frame_bytes(kind, |to| to.extend_from_slice(payload)));
        }
        if kind != SHORT_LISTING {
            return None;
        }
        match ToReceiver::decode(kind, payload) {
            Ok(ToReceiver::ShortListing { dir, own, entries: ShortEntries(entries), extent }) => {
                let dir = self.path_before.complete("ShortListing", &dir).ok()?;
                Some(ToReceiver::Listing { dir, own, entries, extent }.encode())
            }
            _ => None,
        }
    }
}

/// Frame type of `ShortListing`. A session that is kept in a batch has no tallies.
const SHORT_LISTING: u8 = 69;

const REQUEST: u8 = 2;

/// Combines the options that a batch was `written` with and the options that the reader `asked` for. The selection of
/// entries and the comparison come from `written`. Deletion and the way files are written come from `asked`. Filter
/// rules come from both.
#[must_use]
pub fn combined_options(written: Options, mut asked: Options) -> Options {
    let Options { recursive, links, modes, times, metadata, follow, select, compare, .. } = written;
    asked.rules.list.extend(written.rules.list);
    asked.metadata = Metadata { writes_notes: asked.metadata.writes_notes, ..metadata };
    let Select { list_only, mkpath, .. } = asked.select;
    asked.select = Select { list_only, mkpath, ..select };
    // Munged symlink targets are in the batch as sent.
    let follow = Links { unmunge: false, insecure: asked.follow.insecure, ..follow };
    let (checksum, whole_file) = (false, true);
    Options { recursive, links, modes, times, follow, compare, checksum, whole_file, ..asked }
}

impl WireEncoding for Old {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.digest.write_to(to);
        self.len.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { digest: WireEncoding::read_from(from)?, len: WireEncoding::read_from(from)? })
    }
}

impl WireEncoding for Span {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.start.write_to(to);
        self.len.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (start, len) = (u64::read_from(from)?, u32::read_from(from)?);
        let fits = start.checked_add(len.into()).is_some() && (1..=MAX_RUN_BYTES).contains(&len);
        if fits { Ok(Self::new(start, len)) } else { Err(CodecError::OutOfRange.into()) }
    }
}

impl Payload {
    /// True if the payload is a valid batch literal of `len` bytes: not sparse, and not too long.
    #[must_use]
    pub fn is_literal_of(&self, len: u32) -> bool {
        let is_sparse = matches!(self, Self::Sparse(_));
        len as usize <= MAX_LITERAL_BYTES && !is_sparse && self.may_hold(len as usize)
    }
}
