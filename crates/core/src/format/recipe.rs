//! The recipe file (`deltic signature`): the description of a file from which another machine computes a delta.
//!
//! ```text
//! magic    = "DELTICR" 1
//! header 1 = spec
//! chunks 2 = 1 to 4096 times: length in bytes (varint), fingerprint (32 bytes);      no chunk exceeds spec's max
//! end    4 = number of chunks (varint), length of the file (varint), digest (32 bytes)
//! ```
//!
//! The digest covers the chunks, so a damaged file fails at its end record.

use super::{FileFormat, FormatError, MAGIC_BYTES, RecordParser, TAG_END, TAG_HEADER, put_record};
use crate::chunk::ChunkerSpec;
use crate::codec::{CodecError, Put, Reader};
use crate::fingerprint::Fingerprint;
use crate::index::Index;
use crate::recipe::{Chunk, Digest, DigestBuilder, Grouper, StreamCutter};

/// Maximum number of chunks in one record.
pub const MAX_BATCH_CHUNKS: usize = 4096;

/// A record of a recipe file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipeRecord {
    /// First record: the chunker.
    Header(ChunkerSpec),
    /// The next chunks of the file, 1 to [`MAX_BATCH_CHUNKS`].
    Chunks(Vec<Chunk>),
    /// Last record.
    End(FileSummary),
}

/// Length, number of chunks and digest of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// Number of chunks.
    pub chunks: u64,
    /// Length in bytes.
    pub len: u64,
    /// Digest over the chunks.
    pub digest: Digest,
}

impl RecipeRecord {
    /// Appends the record. A header is preceded by the magic.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Header(spec) => {
                out.put_bytes(&RecipeFormat::MAGIC);
                put_record(out, TAG_HEADER, |body| spec.encode(body));
            }
            Self::Chunks(chunks) => put_record(out, TAG_CHUNKS, |body| {
                for chunk in chunks {
                    body.put_varint(chunk.len.into());
                    body.put_bytes(chunk.fingerprint.as_bytes());
                }
            }),
            Self::End(end) => put_record(out, TAG_END, |body| {
                body.put_varint(end.chunks);
                body.put_varint(end.len);
                body.put_bytes(end.digest.as_bytes());
            }),
        }
    }
}

/// The [`FileFormat`] of recipe files. Checks the chunks against the end record.
#[derive(Clone, Debug, Default)]
pub struct RecipeFormat {
    max_len: u32,
    sum: SummaryBuilder,
}

impl FileFormat for RecipeFormat {
    type Record = RecipeRecord;
    const NAME: &'static str = "deltic signature";
    const MAGIC: [u8; MAGIC_BYTES] = *b"DELTICR\x01";

    fn read_record(
        &mut self,
        tag: u8,
        fields: &mut Reader<'_>,
    ) -> Result<RecipeRecord, FormatError> {
        match tag {
            TAG_HEADER => {
                let spec = ChunkerSpec::decode(fields)?;
                self.max_len = spec.max_len();
                Ok(RecipeRecord::Header(spec))
            }
            TAG_CHUNKS => {
                let chunks = decode_chunks(fields, self.max_len)?;
                chunks.iter().try_for_each(|chunk| self.sum.push(chunk))?;
                Ok(RecipeRecord::Chunks(chunks))
            }
            TAG_END => {
                let (chunks, len) = (fields.varint()?, fields.varint()?);
                let end = FileSummary { chunks, len, digest: Digest::from_bytes(fields.array()?) };
                let found = std::mem::take(&mut self.sum).finish();
                if end == found {
                    Ok(RecipeRecord::End(end))
                } else {
                    Err(FormatError::Contradiction)
                }
            }
            _ => Err(FormatError::Order),
        }
    }
}

fn decode_chunks(fields: &mut Reader<'_>, max_len: u32) -> Result<Vec<Chunk>, CodecError> {
    let mut chunks = Vec::new();
    while !fields.is_empty() {
        let len = fields.varint_u32()?;
        if len == 0 || len > max_len || chunks.len() == MAX_BATCH_CHUNKS {
            return Err(CodecError::OutOfRange);
        }
        chunks.push(Chunk { len, fingerprint: Fingerprint::from_bytes(fields.array()?) });
    }
    if chunks.is_empty() { Err(CodecError::Truncated) } else { Ok(chunks) }
}

/// Computes the [`FileSummary`] of a file from its chunks.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    chunks: u64,
    len: u64,
    grouper: Grouper,
    digest: DigestBuilder,
}

impl SummaryBuilder {
    /// Creates a builder for a file without chunks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] if the total length exceeds 64 bits.
    pub fn push(&mut self, chunk: &Chunk) -> Result<(), CodecError> {
        self.chunks += 1;
        self.len = self.len.checked_add(chunk.len.into()).ok_or(CodecError::OutOfRange)?;
        if let Some(group) = self.grouper.push(chunk) {
            self.digest.push(&group);
        }
        Ok(())
    }

    /// Returns the summary of all chunks.
    #[must_use]
    pub fn finish(mut self) -> FileSummary {
        if let Some(group) = self.grouper.finish() {
            self.digest.push(&group);
        }
        FileSummary { chunks: self.chunks, len: self.len, digest: self.digest.finish(self.len) }
    }
}

/// Computes the [`FileSummary`] of a file, given as a stream.
#[derive(Debug)]
pub struct StreamSummary {
    cutter: StreamCutter,
    sum: SummaryBuilder,
}

impl StreamSummary {
    /// Starts at the beginning of a file; `spec` is the chunker.
    #[must_use]
    pub fn new(spec: &ChunkerSpec) -> Self {
        Self { cutter: StreamCutter::new(spec), sum: SummaryBuilder::new() }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// As [`SummaryBuilder::push`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        self.cutter.push(bytes, |_, chunk| self.sum.push(&chunk))
    }

    /// Ends the file. Returns its summary.
    ///
    /// # Errors
    /// As [`SummaryBuilder::push`].
    pub fn finish(mut self) -> Result<FileSummary, CodecError> {
        self.cutter.finish(|_, chunk| self.sum.push(&chunk))?;
        Ok(self.sum.finish())
    }
}

/// Writes the recipe file of a file, given as a stream.
#[derive(Debug)]
pub struct RecipeWriter {
    cutter: StreamCutter,
    sum: SummaryBuilder,
    batch: Vec<Chunk>,
}

impl RecipeWriter {
    /// Writes the header to `out`.
    pub fn new(spec: &ChunkerSpec, out: &mut Vec<u8>) -> Self {
        RecipeRecord::Header(*spec).encode(out);
        Self { cutter: StreamCutter::new(spec), sum: SummaryBuilder::new(), batch: Vec::new() }
    }

    /// Takes the next bytes. Appends the complete records to `out`.
    ///
    /// # Errors
    /// As [`SummaryBuilder::push`].
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, sum, batch } = self;
        cutter.push(bytes, |_, chunk| put_chunk(sum, batch, chunk, out))
    }

    /// Ends the file. Appends the remaining records to `out`.
    ///
    /// # Errors
    /// As [`SummaryBuilder::push`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, mut sum, mut batch } = self;
        cutter.finish(|_, chunk| put_chunk(&mut sum, &mut batch, chunk, out))?;
        if !batch.is_empty() {
            RecipeRecord::Chunks(batch).encode(out);
        }
        RecipeRecord::End(sum.finish()).encode(out);
        Ok(())
    }
}

/// Adds a chunk to `batch`. Writes the batch to `out` once it is full.
fn put_chunk(
    sum: &mut SummaryBuilder,
    batch: &mut Vec<Chunk>,
    chunk: Chunk,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    sum.push(&chunk)?;
    batch.push(chunk);
    if batch.len() == MAX_BATCH_CHUNKS {
        RecipeRecord::Chunks(std::mem::take(batch)).encode(out);
    }
    Ok(())
}

/// Content of a recipe file: the old version for a delta.
#[derive(Debug)]
pub struct RecipeFile {
    /// Chunker of the file.
    pub spec: ChunkerSpec,
    /// Number of chunks, length and digest of the file.
    pub end: FileSummary,
    /// The chunks of the file.
    pub index: Index,
}

/// Reads a recipe file, given as a stream.
#[derive(Debug)]
pub struct RecipeReader {
    parser: RecordParser<RecipeFormat>,
    index: Index,
    start: u64,
    spec: Option<ChunkerSpec>,
    end: Option<FileSummary>,
}

impl RecipeReader {
    /// Starts at the beginning of the file. Keeps at most `budget` chunks.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        let (parser, index) = (RecordParser::new(), Index::new(budget));
        Self { parser, index, start: 0, spec: None, end: None }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are invalid.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.parser.feed(bytes);
        while let Some(record) = self.parser.next_record()? {
            match record {
                RecipeRecord::Header(spec) => self.spec = Some(spec),
                RecipeRecord::Chunks(chunks) => {
                    for chunk in chunks {
                        self.index.push(self.start, chunk);
                        self.start += u64::from(chunk.len);
                    }
                }
                RecipeRecord::End(end) => self.end = Some(end),
            }
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] if the end record is missing.
    pub fn finish(self) -> Result<RecipeFile, FormatError> {
        self.parser.finish()?;
        let (spec, end) = self.spec.zip(self.end).ok_or(FormatError::Truncated)?;
        Ok(RecipeFile { spec, end, index: self.index })
    }
}

const TAG_CHUNKS: u8 = 2;
