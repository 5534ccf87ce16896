//! A batch file: what a sender told, and the content that its receiver lacked, for other receivers at other times.
//!
//! ```text
//! batch   = magic frame*                  frames are those of a session, one behind the other, in this order:
//! request = Request::Receive              to nowhere: how the batch was written
//! list    = (Owners | Missing | Listing)* Listed
//! content = (Content (Copy | Literal)* Proof)*
//! end     = Over
//! ```
//!
//! The steps of a content are those of a [delta file](deltic_core::format::delta): new, front to back. Where there is
//! no old version all of them are literals.

use deltic_core::chunk::ChunkerSpec;
use deltic_core::codec::{CodecError, Reader};
use deltic_core::delta::MAX_RUN_BYTES;
use deltic_core::format::delta::MAX_LITERAL_BYTES;
use deltic_core::{Digest, Span};
use deltic_tree::{Meta, Name, RelPath};

use crate::error::PeerError;
use crate::frame::frame_behind;
use crate::hello::{NamesFrom, Request};
use crate::message::{Payload, ToReceiver, frames};
use crate::options::{Links, Metadata, Options, Select};
use crate::wire::codec::{Bad, Wire, whole};

/// The first bytes of a batch; the last of them is the version.
pub const MAGIC: [u8; 8] = *b"DELTICB\x01";

/// A frame of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first: how it was written, and the name of the one file that it brings, if that is all.
    Asked(Option<Name>, Box<Options>),
    /// A frame of the list.
    Told(ToReceiver),
    /// A frame of contents.
    Part(Part),
}

/// Frames of a batch that sessions do not have.
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The steps of this file's new version follow; `spec` cuts both versions for their digests.
    Content { path: RelPath, meta: Meta, old: Option<Old>, spec: ChunkerSpec },
    /// The next bytes of new are these of old.
    Copy { span: Span },
    /// The next bytes of new are these, `len` in all.
    Literal { len: u32, payload: Payload },
    /// The digest of new; nothing, if it changed while it was read: then there is no content of this file.
    Proof { digest: Option<Digest> },
    /// The last: as many contents came, and this is BLAKE3 of all bytes before this frame.
    Over { files: u64, digest: Digest },
}

/// The old version that a content starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Old {
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
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
    /// [`PeerError`] where it is malformed, or no batch has such.
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
            kind if is_told(kind) => ToReceiver::decode(kind, payload).map(Self::Told),
            kind => Err(PeerError::UnknownFrame(kind)),
        }
    }
}

/// The frame that a batch begins with.
#[must_use]
pub fn asked(single: Option<Name>, options: Options) -> Vec<u8> {
    let (destination, names) = (Box::default(), NamesFrom::Nowhere);
    Request::Receive { destination, single, names, options }.encode()
}

/// Returns true for the kinds of frames of a sender's list: `Listing`, `Listed`, `Missing` and `Owners`. Batches have
/// them too.
#[must_use]
pub const fn is_told(kind: u8) -> bool {
    matches!(kind, 16 | 17 | 31 | 50)
}

const REQUEST: u8 = 2;

/// How a batch is read that was `written` so, if `asked` to: what is brought over, and what counts as changed, is what
/// it was; what goes besides, and how files are written, is what is asked for. Rules are both's.
#[must_use]
pub fn read_as(written: Options, mut asked: Options) -> Options {
    let Options { recursive, links, modes, times, metadata, follow, select, compare, .. } = written;
    asked.rules.list.extend(written.rules.list);
    asked.metadata = Metadata { writes_notes: asked.metadata.writes_notes, ..metadata };
    let Select { list_only, mkpath, .. } = asked.select;
    asked.select = Select { list_only, mkpath, ..select };
    // What was munged is told as it was.
    let follow = Links { unmunge: false, insecure: asked.follow.insecure, ..follow };
    let (checksum, whole_file) = (false, true);
    Options { recursive, links, modes, times, follow, compare, checksum, whole_file, ..asked }
}

impl Wire for Old {
    fn put(&self, to: &mut Vec<u8>) {
        self.digest.put(to);
        self.len.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { digest: Wire::take(from)?, len: Wire::take(from)? })
    }
}

impl Wire for Span {
    fn put(&self, to: &mut Vec<u8>) {
        self.start.put(to);
        self.len.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (start, len) = (u64::take(from)?, u32::take(from)?);
        let fits = start.checked_add(len.into()).is_some() && (1..=MAX_RUN_BYTES).contains(&len);
        if fits { Ok(Self::new(start, len)) } else { Err(CodecError::OutOfRange.into()) }
    }
}

impl Payload {
    /// Returns true for a literal of a batch, of `len` bytes. Batches of this version have none without its zeros.
    #[must_use]
    pub fn is_literal_of(&self, len: u32) -> bool {
        let is_sparse = matches!(self, Self::Sparse(_));
        len as usize <= MAX_LITERAL_BYTES && !is_sparse && self.may_hold(len as usize)
    }
}
