//! Files that a person can keep: the recipe of a file ([`recipe`]), the delta between two ([`delta`]), and what one has
//! of another ([`mod@matches`]).
//!
//! All are a magic and then records, in this order: one header, any number of body records, one end. Bytes after the
//! end are an error. Integers are varints as in [`codec`](crate::codec).
//!
//! ```text
//! file    = magic record*
//! magic   = 7 bytes that name the kind, 1 byte version
//! record  = length of the body in bytes, at most 2^20: varint
//!           body: 1 byte tag, then the tag's fields, which fill the body exactly
//! tags    = 1 header, 2 and 3 body records, 4 end
//! spec    = 1 byte algorithm, then its lengths in bytes
//!           1 fixed: len      an algorithm's number: min avg max      (chunk::Algorithm)
//! ```
//!
//! Lengths of whole files are in the end record and not in the header, so that all kinds can be written while their
//! input still flows.
//!
//! [`Parser`] is pushed bytes and asked for records. It holds the bytes of at most one record besides what it was
//! last fed. It checks all that the bytes alone can show: a record that it hands out is well-formed, in its place,
//! and consistent with those before it.

pub mod delta;
pub mod matches;
pub mod recipe;

use crate::codec::{CodecError, Put, Reader};

/// Longest body of a record, in bytes.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 20;
/// Length of the magic, in bytes.
pub(crate) const MAGIC_BYTES: usize = 8;

/// Why bytes are not a recipe file or a delta file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Another kind of file.
    #[error("not a {expected} file")]
    Kind {
        /// Format that was asked for.
        expected: &'static str,
    },
    /// A version that this program does not know.
    #[error("{expected} file has unknown version {version}")]
    Version {
        /// Version that was asked for.
        expected: &'static str,
        /// The version that the file claims.
        version: u8,
    },
    /// The bytes end before the end record does.
    #[error("file is cut short")]
    Truncated,
    /// The copies and literals of a delta do not make what its end promises.
    #[error("the delta is damaged: the result is not what it promised")]
    Damaged,
    /// The new version has another length than its signature said.
    #[error("the new version is not the one whose signature was matched")]
    OtherNew,
    /// Bytes follow the end record.
    #[error("bytes follow the end of the file")]
    Trailing,
    /// A record whose fields do not decode or exceed their bounds.
    #[error("record does not decode")]
    Record(#[from] CodecError),
    /// A record where it may not be, or of an unknown kind.
    #[error("unexpected record")]
    Order,
    /// A record that contradicts the ones before it.
    #[error("records contradict each other")]
    Contradiction,
}

/// A kind of file, and what its records said so far.
///
/// Sealed in effect: its implementations are [`recipe::Recipe`], [`delta::Delta`] and [`matches::Matches`].
pub trait Format: Default {
    /// A record of the format.
    type Record;
    /// Name of the kind, for messages.
    const NAME: &'static str;
    /// Its first bytes; the last of them is the version.
    const MAGIC: [u8; MAGIC_BYTES];

    /// Reads the fields of the record with this tag, and holds them against the records before.
    ///
    /// # Errors
    /// [`FormatError`] where they do not decode, or contradict a record before.
    fn record(&mut self, tag: u8, fields: &mut Reader<'_>) -> Result<Self::Record, FormatError>;
}

/// Tag of the first record.
const TAG_HEADER: u8 = 1;
/// Tag of the last record.
const TAG_END: u8 = 4;

/// Turns bytes, fed in any pieces, into the records of an `F`. After an error it has no more to say.
#[derive(Clone, Debug, Default)]
pub struct Parser<F> {
    format: F,
    bytes: Vec<u8>,
    taken: usize,
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Magic,
    Header,
    Body,
    Done,
}

impl<F: Format> Parser<F> {
    /// A parser at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the file. Ask for all records before feeding more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next record; `None` where more bytes are needed, or after the end record.
    ///
    /// # Errors
    /// [`FormatError`] on bytes that no such file has.
    pub fn record(&mut self) -> Result<Option<F::Record>, FormatError> {
        if self.place == Place::Magic {
            let Some(magic) = self.bytes.first_chunk::<MAGIC_BYTES>() else { return Ok(None) };
            check_magic::<F>(magic)?;
            self.taken = MAGIC_BYTES;
            self.place = Place::Header;
        }
        let rest = &self.bytes[self.taken..];
        if self.place == Place::Done {
            return if rest.is_empty() { Ok(None) } else { Err(FormatError::Trailing) };
        }
        let Some((body, used)) = first_body(rest)? else { return Ok(None) };
        let mut fields = Reader::new(body);
        let tag = fields.u8()?;
        let place = self.place.after(tag)?;
        let record = self.format.record(tag, &mut fields)?;
        fields.finish()?;
        self.taken += used;
        self.place = place;
        Ok(Some(record))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] where its end record did not come, [`FormatError::Trailing`] where more came.
    pub fn finish(self) -> Result<(), FormatError> {
        match self.place {
            Place::Done if self.taken == self.bytes.len() => Ok(()),
            Place::Done => Err(FormatError::Trailing),
            _ => Err(FormatError::Truncated),
        }
    }
}

impl Place {
    /// The state after a record with this tag.
    const fn after(self, tag: u8) -> Result<Self, FormatError> {
        match (self, tag) {
            (Self::Header, TAG_HEADER) => Ok(Self::Body),
            (Self::Body, TAG_END) => Ok(Self::Done),
            (Self::Body, tag) if tag != TAG_HEADER => Ok(Self::Body),
            _ => Err(FormatError::Order),
        }
    }
}

fn check_magic<F: Format>(magic: &[u8; MAGIC_BYTES]) -> Result<(), FormatError> {
    let (kind, version) = (&magic[..MAGIC_BYTES - 1], magic[MAGIC_BYTES - 1]);
    if kind != &F::MAGIC[..MAGIC_BYTES - 1] {
        Err(FormatError::Kind { expected: F::NAME })
    } else if version != F::MAGIC[MAGIC_BYTES - 1] {
        Err(FormatError::Version { expected: F::NAME, version })
    } else {
        Ok(())
    }
}

/// The body of the record at the front of `bytes` and how many bytes both take, if it is all there.
fn first_body(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, FormatError> {
    let mut reader = Reader::new(bytes);
    match reader.prefixed(MAX_RECORD_BYTES) {
        Ok(body) => Ok(Some((body, bytes.len() - reader.rest().len()))),
        Err(CodecError::Truncated) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Appends the record that `fields` writes after `tag`.
fn put_record(out: &mut Vec<u8>, tag: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let mut body = vec![tag];
    fields(&mut body);
    out.put_prefixed(&body);
}
