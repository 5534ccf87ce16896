//! The matches file (`?as=match` of the server): which parts of a new version, of which only the signature is
//! known, an old version has.
//!
//! ```text
//! magic    = "DELTICM" 1
//! header 1 = as in a delta file
//! copy   2 = as in a delta file
//! lack   3 = length in bytes of a part that only the new version has (varint, at least 1)
//! end    4 = length of the new version in bytes (varint)
//! ```
//!
//! Copies and lacks describe the new version from front to back. [`MatchedDeltaWriter`] adds the bytes of the new
//! version, which makes a delta.

use std::collections::HashMap;

use super::delta::{self, DeltaHeader, MAX_KNOWN_CHUNKS, MAX_LITERAL_BYTES};
use super::recipe::{FileSummary, RecipeFile, StreamSummary, SummaryBuilder};
use super::{FileFormat, FormatError, MAGIC_BYTES, RecordParser, TAG_END, TAG_HEADER, put_record};
use crate::codec::{CodecError, Put, Reader};
use crate::delta::{CopyRuns, DeltaOp};
use crate::fingerprint::{Fingerprint, PrefixLen};
use crate::recipe::{Chunk, StreamCutter};
use crate::span::Span;

/// A record of a matches file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchRecord {
    /// First record: identifies the old version.
    Header(DeltaHeader),
    /// The next bytes of the new version are a copy of this range of the old version.
    Copy(Span),
    /// The old version lacks this many bytes of the new version.
    Lack(u64),
    /// Last record.
    End {
        /// Length of the new version in bytes.
        len: u64,
    },
}

impl MatchRecord {
    /// Appends the record. A header is preceded by the magic.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Header(header) => {
                out.put_bytes(&MatchesFormat::MAGIC);
                put_record(out, TAG_HEADER, |body| header.encode(body));
            }
            Self::Copy(old) => delta::DeltaRecord::Copy(*old).encode(out),
            Self::Lack(len) => put_record(out, TAG_LACK, |body| body.put_varint(*len)),
            Self::End { len } => put_record(out, TAG_END, |body| body.put_varint(*len)),
        }
    }
}

/// The [`FileFormat`] of matches files. Checks that copies lie within the old version and that the lengths add up
/// to the end record.
#[derive(Clone, Debug, Default)]
pub struct MatchesFormat {
    old_len: u64,
    new_len: u64,
}

impl FileFormat for MatchesFormat {
    type Record = MatchRecord;
    const NAME: &'static str = "deltic matches";
    const MAGIC: [u8; MAGIC_BYTES] = *b"DELTICM\x01";

    fn read_record(
        &mut self,
        tag: u8,
        fields: &mut Reader<'_>,
    ) -> Result<MatchRecord, FormatError> {
        let (record, len) = match tag {
            TAG_HEADER => {
                let header = DeltaHeader::decode(fields)?;
                self.old_len = header.old_len;
                return Ok(MatchRecord::Header(header));
            }
            TAG_END => {
                let len = fields.varint()?;
                let tiled = len == self.new_len;
                return tiled.then_some(MatchRecord::End { len }).ok_or(FormatError::Contradiction);
            }
            delta::TAG_COPY => {
                let old = delta::decode_copy(fields, self.old_len)?;
                (MatchRecord::Copy(old), old.len.into())
            }
            TAG_LACK => {
                let len = fields.varint()?;
                (MatchRecord::Lack(len), len)
            }
            _ => return Err(FormatError::Order),
        };
        let new_len = self.new_len.checked_add(len).filter(|_| len > 0);
        self.new_len = new_len.ok_or(CodecError::OutOfRange)?;
        Ok(record)
    }
}

/// Reads the old version as a stream and finds the chunks of the new version in it.
#[derive(Debug)]
pub struct MatchFinder {
    cutter: StreamCutter,
    seen: OldScan,
}

/// State of reading the old version.
#[derive(Debug)]
struct OldScan {
    new: RecipeFile,
    sum: SummaryBuilder,
    /// Number of bytes read from the old version so far.
    len: u64,
    /// Chunks of the new version found so far, with their offsets in the old version.
    found: HashMap<Fingerprint, u64>,
}

impl MatchFinder {
    /// Starts at the beginning of the old version. Only chunks in the index of `new` can be found.
    #[must_use]
    pub fn new(new: RecipeFile) -> Self {
        let cutter = StreamCutter::new(&new.spec);
        Self {
            cutter,
            seen: OldScan { new, sum: SummaryBuilder::new(), len: 0, found: HashMap::new() },
        }
    }

    /// Takes the next bytes of the old version.
    ///
    /// # Errors
    /// [`CodecError::OutOfRange`] if the length of the old version exceeds 64 bits.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let Self { cutter, seen } = self;
        cutter.push(bytes, |_, chunk| seen.take_chunk(&chunk))
    }

    /// Ends the old version. Writes the matches file to `out`.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let Self { cutter, mut seen } = self;
        cutter.finish(|_, chunk| seen.take_chunk(&chunk))?;
        let OldScan { new, sum, found, .. } = seen;
        let FileSummary { len: old_len, digest: old_digest, .. } = sum.finish();
        MatchRecord::Header(DeltaHeader { old_digest, old_len, spec: new.spec }).encode(out);
        let (mut runs, mut lack, mut covered) = (CopyRuns::new(), 0, 0);
        for (span, fingerprint) in new.index.chunks().iter() {
            if let Some(start) = found.get(&fingerprint) {
                write_missing_bytes(&mut lack, out);
                write_run(runs.push(Span::new(*start, span.len), span.start), out);
            } else {
                write_run(runs.finish(), out);
                lack += u64::from(span.len);
            }
            covered = span.end();
        }
        write_run(runs.finish(), out);
        lack += new.end.len - covered;
        write_missing_bytes(&mut lack, out);
        MatchRecord::End { len: new.end.len }.encode(out);
        Ok(())
    }
}

impl OldScan {
    fn take_chunk(&mut self, chunk: &Chunk) -> Result<(), CodecError> {
        self.sum.push(chunk)?;
        let brief = chunk.fingerprint.chunk_prefix(PrefixLen::MAX);
        let wanted = self.new.index.find_chunk(brief, chunk.len, None);
        // The index has full fingerprints, so equality proves the copy.
        if wanted.is_some_and(|no| self.new.index.chunk(no).1 == chunk.fingerprint) {
            self.found.entry(chunk.fingerprint).or_insert(self.len);
        }
        self.len += u64::from(chunk.len);
        Ok(())
    }
}

fn write_run(run: Option<DeltaOp>, out: &mut Vec<u8>) {
    if let Some(DeltaOp::Copy { old, .. }) = run {
        MatchRecord::Copy(old).encode(out);
    }
}

fn write_missing_bytes(lack: &mut u64, out: &mut Vec<u8>) {
    if let len @ 1.. = std::mem::take(lack) {
        MatchRecord::Lack(len).encode(out);
    }
}

/// Content of a matches file.
#[derive(Debug)]
pub struct MatchesFile {
    header: DeltaHeader,
    /// The copies and lacks.
    steps: Vec<MatchRecord>,
}

/// Reads a matches file, given as a stream.
#[derive(Debug, Default)]
pub struct MatchesReader {
    parser: RecordParser<MatchesFormat>,
    header: Option<DeltaHeader>,
    steps: Vec<MatchRecord>,
}

impl MatchesReader {
    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are invalid, or if there are more than [`MAX_KNOWN_CHUNKS`] records.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.parser.feed(bytes);
        while let Some(record) = self.parser.next_record()? {
            match record {
                MatchRecord::Header(header) => self.header = Some(header),
                MatchRecord::End { .. } => {}
                _ if self.steps.len() >= MAX_KNOWN_CHUNKS => {
                    return Err(CodecError::OutOfRange.into());
                }
                step => self.steps.push(step),
            }
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] if the end record is missing.
    pub fn finish(self) -> Result<MatchesFile, FormatError> {
        self.parser.finish()?;
        let header = self.header.ok_or(FormatError::Truncated)?;
        Ok(MatchesFile { header, steps: self.steps })
    }
}

/// Writes the delta file from a matches file and a stream of the new version.
///
/// Only the length of the stream is checked. If the new version changed since its signature was made, the
/// digest at the end is wrong for the copies, and applying the delta fails.
#[derive(Debug)]
pub struct MatchedDeltaWriter {
    steps: std::vec::IntoIter<MatchRecord>,
    /// Number of bytes left in the current step.
    left: u64,
    lacks: bool,
    sum: StreamSummary,
}

impl MatchedDeltaWriter {
    /// Writes the header to `out`.
    pub fn new(MatchesFile { header, steps }: MatchesFile, out: &mut Vec<u8>) -> Self {
        delta::DeltaRecord::Header(header).encode(out);
        let sum = StreamSummary::new(&header.spec);
        Self { steps: steps.into_iter(), left: 0, lacks: false, sum }
    }

    /// Takes the next bytes of the new version. Appends the complete records to `out`.
    ///
    /// # Errors
    /// [`FormatError::OtherNew`] if the new version is longer than its signature said.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        while !bytes.is_empty() {
            if self.left == 0 {
                (self.left, self.lacks) = match self.steps.next() {
                    Some(MatchRecord::Copy(old)) => {
                        delta::DeltaRecord::Copy(old).encode(out);
                        (old.len.into(), false)
                    }
                    Some(MatchRecord::Lack(len)) => (len, true),
                    _ => return Err(FormatError::OtherNew),
                };
            }
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(bytes.len().min(left).min(MAX_LITERAL_BYTES));
            if self.lacks {
                delta::DeltaRecord::Literal(now.to_vec()).encode(out);
            }
            self.sum.push(now)?;
            self.left -= now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the new version. Appends the end record to `out`.
    ///
    /// # Errors
    /// [`FormatError::OtherNew`] if the new version is shorter than its signature said.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        if self.left > 0 || self.steps.next().is_some() {
            return Err(FormatError::OtherNew);
        }
        let FileSummary { len, digest, .. } = self.sum.finish()?;
        delta::DeltaRecord::End { len, digest }.encode(out);
        Ok(())
    }
}

const TAG_LACK: u8 = 3;
