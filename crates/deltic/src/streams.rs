//! Signatures, deltas and patches over streams, in bounded memory: the three calls of librsync.
//!
//! The files are those of `deltic signature`, `deltic delta` and `deltic patch`.

use std::io::{self, Read, Seek, SeekFrom, Write};

use deltic_core::format::delta::{
    DeltaFormat, DeltaHeader, DeltaRecord, DeltaWriter, MAX_KNOWN_CHUNKS,
};
use deltic_core::format::recipe::{RecipeReader, RecipeWriter, StreamSummary};
use deltic_core::format::{FormatError, RecordParser};
use deltic_core::{ChunkerSpec, CodecError};

/// Error of [`signature`], [`delta`] or [`patch`].
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Reading or writing a stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a signature or delta, or are damaged.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The old version is not the one that the delta was computed from.
    #[error("the delta was computed from another old version")]
    OtherOld,
}

impl From<CodecError> for StreamError {
    fn from(error: CodecError) -> Self {
        Self::Format(error.into())
    }
}

/// Reads `old` once, and writes its signature to `to`: the length and the fingerprint of each chunk, and no content.
/// `len` is the length of `old`, if known: longer files get longer chunks.
///
/// # Errors
/// [`StreamError::Io`] if a stream fails.
pub fn signature(old: impl Read, len: Option<u64>, mut to: impl Write) -> Result<(), StreamError> {
    let mut out = Vec::new();
    let mut writer = RecipeWriter::new(&ChunkerSpec::for_len(len.unwrap_or(STREAM_LEN)), &mut out);
    each_piece(old, |piece| {
        writer.push(piece, &mut out)?;
        write_out(&mut out, &mut to)
    })?;
    writer.finish(&mut out)?;
    write_out(&mut out, &mut to)?;
    Ok(to.flush()?)
}

/// Reads a signature and then the new version once, and writes the delta between the two to `to`. Memory is
/// proportional to the signature.
///
/// # Errors
/// [`StreamError::Io`] if a stream fails, [`StreamError::Format`] for an invalid signature.
pub fn delta(signature: impl Read, new: impl Read, mut to: impl Write) -> Result<(), StreamError> {
    let mut reader = RecipeReader::new(MAX_KNOWN_CHUNKS);
    each_piece(signature, |piece| Ok(reader.feed(piece)?))?;
    let mut out = Vec::new();
    let mut writer = DeltaWriter::new(reader.finish()?, &mut out);
    each_piece(new, |piece| {
        writer.push(piece, &mut out)?;
        write_out(&mut out, &mut to)
    })?;
    writer.finish(&mut out)?;
    write_out(&mut out, &mut to)?;
    Ok(to.flush()?)
}

/// Reads a delta once, and `old` at the offsets that the delta names, and writes the new version to `to`.
///
/// The bytes in `to` are the new version only if the call succeeds: write them to a temporary file, and rename it
/// then.
///
/// # Errors
/// [`StreamError::Io`] if a stream fails, [`StreamError::OtherOld`] if `old` is another version,
/// [`StreamError::Format`] for an invalid delta.
pub fn patch(
    mut old: impl Read + Seek,
    delta: impl Read,
    mut to: impl Write,
) -> Result<(), StreamError> {
    let mut parser = RecordParser::<DeltaFormat>::new();
    let (mut sum, mut verdict) = (None, None);
    each_piece(delta, |piece| {
        parser.feed(piece);
        while let Some(record) = parser.next_record()? {
            let mut write = |bytes: &[u8]| {
                sum.as_mut().map_or(Ok(()), |(_, sum): &mut (DeltaHeader, StreamSummary)| {
                    sum.push(bytes)
                })?;
                Ok::<_, StreamError>(to.write_all(bytes)?)
            };
            match record {
                DeltaRecord::Header(header) => {
                    if old.seek(SeekFrom::End(0))? != header.old_len {
                        return Err(StreamError::OtherOld);
                    }
                    let new = StreamSummary::new(&header.spec);
                    sum = Some((header, new));
                }
                DeltaRecord::Literal(bytes) => write(&bytes)?,
                DeltaRecord::Copy(span) => {
                    old.seek(SeekFrom::Start(span.start))?;
                    let mut copied = 0;
                    each_piece(old.by_ref().take(span.len.into()), |piece| {
                        copied += piece.len();
                        write(piece)
                    })?;
                    if copied < span.len as usize {
                        return Err(StreamError::OtherOld);
                    }
                }
                DeltaRecord::End { digest, .. } => verdict = Some(digest),
            }
        }
        Ok(())
    })?;
    parser.finish()?;
    let ((header, sum), digest) = sum.zip(verdict).ok_or(FormatError::Truncated)?;
    if sum.finish()?.digest == digest {
        return Ok(to.flush()?);
    }
    // Another old version, or a damaged delta: the digest of the old version tells.
    let mut found = StreamSummary::new(&header.spec);
    old.seek(SeekFrom::Start(0))?;
    each_piece(old, |piece| Ok(found.push(piece)?))?;
    let is_old = found.finish()?.digest == header.old_digest;
    Err(if is_old { FormatError::Damaged.into() } else { StreamError::OtherOld })
}

/// Calls `each` with all bytes of `from`, in pieces.
fn each_piece(
    mut from: impl Read,
    mut each: impl FnMut(&[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => each(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_out(out: &mut Vec<u8>, to: &mut impl Write) -> Result<(), StreamError> {
    to.write_all(out)?;
    out.clear();
    Ok(())
}

/// Bytes read at once.
const PIECE_BYTES: usize = 256 << 10;
/// The length assumed for a stream of unknown length, in bytes. The mean chunk is then 8 KiB long.
const STREAM_LEN: u64 = 1 << 31;
