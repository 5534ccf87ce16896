//! The delta file (`deltic delta`): what turns old into new on a machine that has only old.
//!
//! ```text
//! magic     = "DELTICD" 1
//! header  1 = digest of old (32 bytes), length of old in bytes (varint), spec
//! copy    2 = first byte in old (varint), length in bytes (varint, 1 to 8 MiB);      ends within old
//! literal 3 = 1 to 512 KiB bytes
//! end     4 = length of new in bytes (varint), digest of new (32 bytes)
//! ```
//!
//! Copies and literals are new, front to back: each goes on where the one before it ended. `spec` cuts old and new for
//! their digests.

use std::borrow::Borrow;

use super::recipe::{End, Known, Summary};
use super::{Format, FormatError, MAGIC_BYTES, TAG_END, TAG_HEADER, put_record};
use crate::chunk::ChunkerSpec;
use crate::codec::{CodecError, Put, Reader};
use crate::delta::{CopyRuns, MAX_RUN_BYTES, Op};
use crate::fingerprint::PrefixLen;
use crate::index::{ChunkNo, Index};
use crate::recipe::{Chunk, Cutter, Digest};
use crate::span::Span;

/// Longest literal of one record, in bytes.
pub const MAX_LITERAL_BYTES: usize = 512 << 10;

/// Most chunks of old that are looked for, about 1 GB of memory; what lies beyond is sent as if it were new.
pub const MAX_KNOWN_CHUNKS: usize = 1 << 24;

/// A record of a delta file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first: what old has to be.
    Header(Header),
    /// The next bytes of new are these of old, 1 to [`MAX_RUN_BYTES`].
    Copy(Span),
    /// The next bytes of new are these, 1 to [`MAX_LITERAL_BYTES`].
    Literal(Vec<u8>),
    /// The last: what new has to be.
    End {
        /// Its length in bytes.
        len: u64,
        /// Under the header's `spec`.
        digest: Digest,
    },
}

/// The old version that a delta starts from, and the new one that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The digest of old under `spec`.
    pub old_digest: Digest,
    /// The length of old in bytes.
    pub old_len: u64,
    /// Chunker of both versions, for their digests.
    pub spec: ChunkerSpec,
}

impl Header {
    /// Appends its fields.
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        body.put_bytes(self.old_digest.as_bytes());
        body.put_varint(self.old_len);
        self.spec.encode(body);
    }

    pub(super) fn decode(fields: &mut Reader<'_>) -> Result<Self, CodecError> {
        let old_digest = Digest::from_bytes(fields.array()?);
        let old_len = fields.varint()?;
        Ok(Self { old_digest, old_len, spec: ChunkerSpec::decode(fields)? })
    }
}

impl Record {
    /// Appends the record; a header brings the magic along.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Header(header) => {
                out.put_bytes(&Delta::MAGIC);
                put_record(out, TAG_HEADER, |body| header.encode(body));
            }
            Self::Copy(old) => put_record(out, TAG_COPY, |body| {
                body.put_varint(old.start);
                body.put_varint(old.len.into());
            }),
            Self::Literal(bytes) => put_record(out, TAG_LITERAL, |body| body.put_bytes(bytes)),
            Self::End { len, digest } => put_record(out, TAG_END, |body| {
                body.put_varint(*len);
                body.put_bytes(digest.as_bytes());
            }),
        }
    }
}

/// Makes the steps of a delta, in the order of new, neighbours merged.
#[derive(Debug)]
pub struct Steps<I> {
    old: I,
    runs: CopyRuns,
    literal: Vec<u8>,
    after: Option<ChunkNo>,
    new_start: u64,
}

impl<I: Borrow<Index>> Steps<I> {
    /// A writer at the start of new; the chunks of old are known by their full fingerprints.
    #[must_use]
    pub fn new(old: I) -> Self {
        Self { old, runs: CopyRuns::new(), literal: Vec::new(), after: None, new_start: 0 }
    }

    /// Takes the next chunk of new with its bytes; `put` gets copies and literals.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn push<E>(
        &mut self,
        (bytes, chunk): (&[u8], &Chunk),
        put: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let old = self.old.borrow();
        match old.find_chunk(chunk.fingerprint.chunk_prefix(PrefixLen::MAX), chunk.len, self.after)
        {
            // What is known are full fingerprints, so a copy can be certain here.
            Some(no) if old.chunk(no).1 == chunk.fingerprint => {
                let span = old.chunk(no).0;
                self.put_literal(put)?;
                let run = self.runs.push(span, self.new_start);
                put_run(run, put)?;
                self.after = Some(no);
            }
            _ => {
                put_run(self.runs.finish(), put)?;
                if self.literal.len() + bytes.len() > MAX_LITERAL_BYTES {
                    self.put_literal(put)?;
                }
                self.literal.extend_from_slice(bytes);
            }
        }
        self.new_start += u64::from(chunk.len);
        Ok(())
    }

    /// Ends new.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn finish<E>(mut self, put: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        put_run(self.runs.finish(), put)?;
        self.put_literal(put)
    }

    fn put_literal<E>(&mut self, put: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        match std::mem::take(&mut self.literal) {
            literal if literal.is_empty() => Ok(()),
            literal => put(Record::Literal(literal)),
        }
    }
}

fn put_run<E>(run: Option<Op>, put: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
    match run {
        Some(Op::Copy { old, .. }) => put(Record::Copy(old)),
        _ => Ok(()),
    }
}

/// Writes the delta file of a new version whose bytes come in any pieces.
#[derive(Debug)]
pub struct Writer {
    cutter: Cutter,
    steps: Steps<Index>,
    sum: Summary,
}

impl Writer {
    /// Begins the file in `out`.
    pub fn new(old: Known, out: &mut Vec<u8>) -> Self {
        let Known { spec, end, index } = old;
        Record::Header(Header { old_digest: end.digest, old_len: end.len, spec }).encode(out);
        Self { cutter: Cutter::new(&spec), steps: Steps::new(index), sum: Summary::new() }
    }

    /// Takes the next bytes of new; appends the records that are complete.
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] where new exceeds 64 bits.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, steps, sum } = self;
        cutter.push(bytes, |bytes, chunk| put_step(steps, sum, (bytes, &chunk), out))
    }

    /// Ends new.
    ///
    /// # Errors
    /// As [`Writer::push`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, mut steps, mut sum } = self;
        cutter.finish(|bytes, chunk| put_step(&mut steps, &mut sum, (bytes, &chunk), &mut *out))?;
        steps.finish(&mut |record| put(&record, out))?;
        let End { len, digest, .. } = sum.finish();
        put(&Record::End { len, digest }, out)
    }
}

fn put_step(
    steps: &mut Steps<Index>,
    sum: &mut Summary,
    (bytes, chunk): (&[u8], &Chunk),
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    sum.push(chunk)?;
    steps.push((bytes, chunk), &mut |record| put(&record, out))
}

fn put(record: &Record, out: &mut Vec<u8>) -> Result<(), CodecError> {
    record.encode(out);
    Ok(())
}

/// The delta file as a [`Format`]: holds copies against the length of old, and the end against all lengths.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    old_len: u64,
    new_len: u64,
}

impl Format for Delta {
    type Record = Record;
    const NAME: &'static str = "deltic delta";
    const MAGIC: [u8; MAGIC_BYTES] = *b"DELTICD\x01";

    fn record(&mut self, tag: u8, fields: &mut Reader<'_>) -> Result<Record, FormatError> {
        match tag {
            TAG_HEADER => {
                let header = Header::decode(fields)?;
                self.old_len = header.old_len;
                Ok(Record::Header(header))
            }
            TAG_COPY => {
                let old = decode_copy(fields, self.old_len)?;
                self.grow(old.len as usize, MAX_RUN_BYTES as usize)?;
                Ok(Record::Copy(old))
            }
            TAG_LITERAL => {
                let bytes = fields.rest();
                self.grow(bytes.len(), MAX_LITERAL_BYTES)?;
                Ok(Record::Literal(bytes.to_vec()))
            }
            TAG_END => {
                let (len, digest) = (fields.varint()?, Digest::from_bytes(fields.array()?));
                let tiled = len == self.new_len;
                if tiled {
                    Ok(Record::End { len, digest })
                } else {
                    Err(FormatError::Contradiction)
                }
            }
            _ => Err(FormatError::Order),
        }
    }
}

/// A copy of 1 to [`MAX_RUN_BYTES`] bytes within old.
pub(super) fn decode_copy(fields: &mut Reader<'_>, old_len: u64) -> Result<Span, FormatError> {
    let old = Span::new(fields.varint()?, fields.varint_u32()?);
    if !(1..=MAX_RUN_BYTES).contains(&old.len) {
        return Err(CodecError::OutOfRange.into());
    }
    if old.end() <= old_len { Ok(old) } else { Err(FormatError::Contradiction) }
}

impl Delta {
    fn grow(&mut self, len: usize, max: usize) -> Result<(), CodecError> {
        let new_len = self.new_len.checked_add(len as u64).filter(|_| len > 0 && len <= max);
        self.new_len = new_len.ok_or(CodecError::OutOfRange)?;
        Ok(())
    }
}

pub(super) const TAG_COPY: u8 = 2;
const TAG_LITERAL: u8 = 3;
