//! File formats that users keep: the recipe of a file ([`recipe`]), the delta of two versions ([`delta`]), and
//! the matches of a version with a recipe ([`mod@matches`]).
//!
//! Each file is a magic and a sequence of records: one header, any number of body records, one end. Bytes after
//! the end are an error. Integers are varints as in [`codec`](crate::codec).
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
//! The lengths of whole files are in the end record, not in the header, so that files can be written from a
//! stream.
//!
//! [`RecordParser`] takes bytes and returns records. The parser holds at most one record besides the bytes of the
//! last [`RecordParser::feed`]. A returned record is well-formed, in the right place, and consistent with the records
//! before it.

pub mod delta;
pub mod matches;
pub mod recipe;

use crate::codec::{CodecError, Put, Reader};

/// Maximum length of a record body, in bytes.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 20;
/// Length of the magic, in bytes.
pub(crate) const MAGIC_BYTES: usize = 8;

/// Reason why a file of one of these formats is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file has another format.
    #[error("not a {expected} file")]
    Kind {
        /// The expected format.
        expected: &'static str,
    },
    /// The version of the format is unknown.
    #[error("{expected} file has unknown version {version}")]
    Version {
        /// The expected format.
        expected: &'static str,
        /// The version in the file.
        version: u8,
    },
    /// The file ends before the end record is complete.
    #[error("file is cut short")]
    Truncated,
    /// The copies and literals of a delta do not produce the version that the end record describes.
    #[error("the delta is damaged: its result does not match its end record")]
    Damaged,
    /// The length of the new version differs from its signature.
    #[error("the new version is not the one whose signature was matched")]
    OtherNew,
    /// Bytes follow the end record.
    #[error("bytes follow the end of the file")]
    Trailing,
    /// A field of a record does not decode, or exceeds its bounds.
    #[error("record has an invalid field")]
    Record(#[from] CodecError),
    /// A record is in the wrong place, or of an unknown kind.
    #[error("unexpected record")]
    Order,
    /// A record contradicts an earlier record.
    #[error("records contradict each other")]
    Contradiction,
}

/// A file format, with the state that is needed to check a record against earlier records.
///
/// Implemented by [`recipe::RecipeFormat`], [`delta::DeltaFormat`] and [`matches::MatchesFormat`] only.
pub trait FileFormat: Default {
    /// Type of the format's records.
    type Record;
    /// Name of the format in messages.
    const NAME: &'static str;
    /// The first bytes of a file; the last byte of the magic is the version.
    const MAGIC: [u8; MAGIC_BYTES];

    /// Decodes the fields of a record with this `tag`, and checks the record against earlier records.
    ///
    /// # Errors
    /// [`FormatError`] if the fields do not decode or contradict an earlier record.
    fn read_record(
        &mut self,
        tag: u8,
        fields: &mut Reader<'_>,
    ) -> Result<Self::Record, FormatError>;
}

/// Tag of the first record.
const TAG_HEADER: u8 = 1;
/// Tag of the last record.
const TAG_END: u8 = 4;

/// Parses a stream of bytes into the records of format `F`. Unusable after an error.
#[derive(Clone, Debug, Default)]
pub struct RecordParser<F> {
    format: F,
    bytes: Vec<u8>,
    taken: usize,
    place: ParserState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    #[default]
    Magic,
    Header,
    Body,
    Done,
}

impl<F: FileFormat> RecordParser<F> {
    /// A parser at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the file. All records must be taken before the next call.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next record, or `None` if more bytes are needed or the end record was returned.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are invalid.
    pub fn next_record(&mut self) -> Result<Option<F::Record>, FormatError> {
        if self.place == ParserState::Magic {
            let Some(magic) = self.bytes.first_chunk::<MAGIC_BYTES>() else { return Ok(None) };
            check_magic::<F>(magic)?;
            self.taken = MAGIC_BYTES;
            self.place = ParserState::Header;
        }
        let rest = &self.bytes[self.taken..];
        if self.place == ParserState::Done {
            return if rest.is_empty() { Ok(None) } else { Err(FormatError::Trailing) };
        }
        let Some((body, used)) = first_record_body(rest)? else { return Ok(None) };
        let mut fields = Reader::new(body);
        let tag = fields.u8()?;
        let place = self.place.after_record(tag)?;
        let record = self.format.read_record(tag, &mut fields)?;
        fields.finish()?;
        self.taken += used;
        self.place = place;
        Ok(Some(record))
    }

    /// Checks that the file is complete.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] if the end record is missing, [`FormatError::Trailing`] if bytes follow the
    /// end record.
    pub fn finish(self) -> Result<(), FormatError> {
        match self.place {
            ParserState::Done if self.taken == self.bytes.len() => Ok(()),
            ParserState::Done => Err(FormatError::Trailing),
            _ => Err(FormatError::Truncated),
        }
    }
}

impl ParserState {
    /// The state after a record with this tag.
    const fn after_record(self, tag: u8) -> Result<Self, FormatError> {
        match (self, tag) {
            (Self::Header, TAG_HEADER) => Ok(Self::Body),
            (Self::Body, TAG_END) => Ok(Self::Done),
            (Self::Body, tag) if tag != TAG_HEADER => Ok(Self::Body),
            _ => Err(FormatError::Order),
        }
    }
}

fn check_magic<F: FileFormat>(magic: &[u8; MAGIC_BYTES]) -> Result<(), FormatError> {
    let (kind, version) = (&magic[..MAGIC_BYTES - 1], magic[MAGIC_BYTES - 1]);
    if kind != &F::MAGIC[..MAGIC_BYTES - 1] {
        Err(FormatError::Kind { expected: F::NAME })
    } else if version != F::MAGIC[MAGIC_BYTES - 1] {
        Err(FormatError::Version { expected: F::NAME, version })
    } else {
        Ok(())
    }
}

/// The body of the first record of `bytes`, and the length of the whole record. `None` if the record is
/// incomplete.
fn first_record_body(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, FormatError> {
    let mut reader = Reader::new(bytes);
    match reader.prefixed(MAX_RECORD_BYTES) {
        Ok(body) => Ok(Some((body, bytes.len() - reader.rest().len()))),
        Err(CodecError::Truncated) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Appends a record: `tag`, then the bytes that `fields` writes.
fn put_record(out: &mut Vec<u8>, tag: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let mut body = vec![tag];
    fields(&mut body);
    out.put_prefixed(&body);
}
