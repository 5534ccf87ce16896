//! The delta file (`deltic delta`), which turns the old version into the new on a machine that has only the old
//! one.
//!
//! ```text
//! magic     = "DELTICD" 1
//! header  1 = digest of old (32 bytes), length of old in bytes (varint), spec
//! copy    2 = first byte in old (varint), length in bytes (varint, 1 to 8 MiB);      ends within old
//! literal 3 = 1 to 512 KiB bytes
//! end     4 = length of new in bytes (varint), digest of new (32 bytes)
//! ```
//!
//! Copies and literals describe the new version from front to back: each continues at the end of the record
//! before. Both digests use the chunker `spec`.

use std::borrow::Borrow;

use super::recipe::{FileSummary, RecipeFile, SummaryBuilder};
use super::{FileFormat, FormatError, MAGIC_BYTES, TAG_END, TAG_HEADER, put_record};
use crate::chunk::ChunkerSpec;
use crate::codec::{CodecError, Put, Reader};
use crate::delta::{CopyRuns, DeltaOp, MAX_RUN_BYTES};
use crate::fingerprint::PrefixLen;
use crate::index::{ChunkNo, Index};
use crate::recipe::{Chunk, Digest, StreamCutter};
use crate::span::Span;

/// Maximum length of the literal in one record, in bytes.
pub const MAX_LITERAL_BYTES: usize = 512 << 10;

/// Maximum number of old chunks to index, about 1 GB of memory. Chunks past this number are sent as literals.
pub const MAX_KNOWN_CHUNKS: usize = 1 << 24;

/// A record of a delta file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaRecord {
    /// First record: identifies the old version.
    Header(DeltaHeader),
    /// The next bytes of the new version are a copy of this range of the old version, 1 to [`MAX_RUN_BYTES`]
    /// bytes.
    Copy(Span),
    /// The next bytes of the new version, 1 to [`MAX_LITERAL_BYTES`].
    Literal(Vec<u8>),
    /// Last record: identifies the new version.
    End {
        /// Length of the new version in bytes.
        len: u64,
        /// Digest of the new version under the header's `spec`.
        digest: Digest,
    },
}

/// Header of a delta: the old version that the delta applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaHeader {
    /// Digest of the old version under `spec`.
    pub old_digest: Digest,
    /// Length of the old version in bytes.
    pub old_len: u64,
    /// Chunker for the digests of both versions.
    pub spec: ChunkerSpec,
}

impl DeltaHeader {
    /// Appends the fields.
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

impl DeltaRecord {
    /// Appends the record. A header is preceded by the magic.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Header(header) => {
                out.put_bytes(&DeltaFormat::MAGIC);
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

/// Computes the copies and literals of a delta, in the order of the new version. Merges adjacent copies.
#[derive(Debug)]
pub struct DeltaSteps<I> {
    old: I,
    runs: CopyRuns,
    literal: Vec<u8>,
    after: Option<ChunkNo>,
    new_start: u64,
}

impl<I: Borrow<Index>> DeltaSteps<I> {
    /// Starts at the beginning of the new version. `old` must index full fingerprints.
    #[must_use]
    pub fn new(old: I) -> Self {
        Self { old, runs: CopyRuns::new(), literal: Vec::new(), after: None, new_start: 0 }
    }

    /// Takes the next new chunk and its bytes. `put` receives the finished copies and literals.
    ///
    /// # Errors
    /// The first error of `put`.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        chunk: &Chunk,
        put: &mut impl FnMut(DeltaRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let old = self.old.borrow();
        match old.find_chunk(chunk.fingerprint.chunk_prefix(PrefixLen::MAX), chunk.len, self.after)
        {
            // The index has full fingerprints, so equality proves the copy.
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

    /// Ends the new version. `put` receives the remaining records.
    ///
    /// # Errors
    /// The first error of `put`.
    pub fn finish<E>(
        mut self,
        put: &mut impl FnMut(DeltaRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        put_run(self.runs.finish(), put)?;
        self.put_literal(put)
    }

    fn put_literal<E>(
        &mut self,
        put: &mut impl FnMut(DeltaRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        match std::mem::take(&mut self.literal) {
            literal if literal.is_empty() => Ok(()),
            literal => put(DeltaRecord::Literal(literal)),
        }
    }
}

fn put_run<E>(
    run: Option<DeltaOp>,
    put: &mut impl FnMut(DeltaRecord) -> Result<(), E>,
) -> Result<(), E> {
    match run {
        Some(DeltaOp::Copy { old, .. }) => put(DeltaRecord::Copy(old)),
        _ => Ok(()),
    }
}

/// Writes the delta file of a new version, given as a stream.
#[derive(Debug)]
pub struct DeltaWriter {
    cutter: StreamCutter,
    steps: DeltaSteps<Index>,
    sum: SummaryBuilder,
}

impl DeltaWriter {
    /// Writes the header to `out`.
    pub fn new(old: RecipeFile, out: &mut Vec<u8>) -> Self {
        let RecipeFile { spec, end, index } = old;
        DeltaRecord::Header(DeltaHeader { old_digest: end.digest, old_len: end.len, spec })
            .encode(out);
        Self {
            cutter: StreamCutter::new(&spec),
            steps: DeltaSteps::new(index),
            sum: SummaryBuilder::new(),
        }
    }

    /// Takes the next bytes of the new version. Appends the complete records to `out`.
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] if the length of the new version exceeds 64 bits.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, steps, sum } = self;
        cutter.push(bytes, |bytes, chunk| push_chunk(steps, sum, bytes, &chunk, out))
    }

    /// Ends the new version. Appends the remaining records to `out`.
    ///
    /// # Errors
    /// As [`DeltaWriter::push`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, mut steps, mut sum } = self;
        cutter.finish(|bytes, chunk| push_chunk(&mut steps, &mut sum, bytes, &chunk, &mut *out))?;
        steps.finish(&mut |record| write_record(&record, out))?;
        let FileSummary { len, digest, .. } = sum.finish();
        write_record(&DeltaRecord::End { len, digest }, out)
    }
}

fn push_chunk(
    steps: &mut DeltaSteps<Index>,
    sum: &mut SummaryBuilder,
    bytes: &[u8],
    chunk: &Chunk,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    sum.push(chunk)?;
    steps.push(bytes, chunk, &mut |record| write_record(&record, out))
}

fn write_record(record: &DeltaRecord, out: &mut Vec<u8>) -> Result<(), CodecError> {
    record.encode(out);
    Ok(())
}

/// The [`FileFormat`] of delta files. Checks that copies lie within the old version and that the lengths add up to
/// the end record.
#[derive(Clone, Debug, Default)]
pub struct DeltaFormat {
    old_len: u64,
    new_len: u64,
}

impl FileFormat for DeltaFormat {
    type Record = DeltaRecord;
    const NAME: &'static str = "deltic delta";
    const MAGIC: [u8; MAGIC_BYTES] = *b"DELTICD\x01";

    fn read_record(
        &mut self,
        tag: u8,
        fields: &mut Reader<'_>,
    ) -> Result<DeltaRecord, FormatError> {
        match tag {
            TAG_HEADER => {
                let header = DeltaHeader::decode(fields)?;
                self.old_len = header.old_len;
                Ok(DeltaRecord::Header(header))
            }
            TAG_COPY => {
                let old = decode_copy(fields, self.old_len)?;
                self.check_growth(old.len as usize, MAX_RUN_BYTES as usize)?;
                Ok(DeltaRecord::Copy(old))
            }
            TAG_LITERAL => {
                let bytes = fields.rest();
                self.check_growth(bytes.len(), MAX_LITERAL_BYTES)?;
                Ok(DeltaRecord::Literal(bytes.to_vec()))
            }
            TAG_END => {
                let (len, digest) = (fields.varint()?, Digest::from_bytes(fields.array()?));
                let tiled = len == self.new_len;
                if tiled {
                    Ok(DeltaRecord::End { len, digest })
                } else {
                    Err(FormatError::Contradiction)
                }
            }
            _ => Err(FormatError::Order),
        }
    }
}

/// Decodes a copy of 1 to [`MAX_RUN_BYTES`] bytes within the old version.
pub(super) fn decode_copy(fields: &mut Reader<'_>, old_len: u64) -> Result<Span, FormatError> {
    let old = Span::new(fields.varint()?, fields.varint_u32()?);
    if !(1..=MAX_RUN_BYTES).contains(&old.len) {
        return Err(CodecError::OutOfRange.into());
    }
    if old.end() <= old_len { Ok(old) } else { Err(FormatError::Contradiction) }
}

impl DeltaFormat {
    fn check_growth(&mut self, len: usize, max: usize) -> Result<(), CodecError> {
        let new_len = self.new_len.checked_add(len as u64).filter(|_| len > 0 && len <= max);
        self.new_len = new_len.ok_or(CodecError::OutOfRange)?;
        Ok(())
    }
}

pub(super) const TAG_COPY: u8 = 2;
const TAG_LITERAL: u8 = 3;
