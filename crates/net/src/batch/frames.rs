//! Reads the frames of a batch in order, from a file or a stream.

#![expect(clippy::disallowed_types, reason = "a batch is a file that users name, open already")]

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use deltic_core::Digest;
use deltic_protocol::batch::{Frame, MAGIC, Part};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_store_local::reason;

use crate::error::SyncError;

/// Reasons why a file cannot be read as a batch.
#[derive(Debug, thiserror::Error)]
pub(super) enum Bad {
    #[error("cannot read the batch: {}", reason(.0))]
    Read(#[from] io::Error),
    #[error("not a batch of deltic")]
    NoBatch,
    #[error(
        "this batch file is rsync's, whose format Deltic does not read: write it with deltic, or read it with rsync"
    )]
    Rsyncs,
    #[error("this batch file has version {0}, which this deltic does not know")]
    Version(u8),
    #[error("the batch file is cut short; nothing was changed")]
    Short,
    #[error(
        "the batch has more directories, new files and hard links than a batch may have; nothing was changed; \
         write a batch for each part of the tree"
    )]
    TooMany,
    #[error("the batch file is damaged; nothing was changed")]
    Malformed,
}

impl Bad {
    /// Returns the error of a run that reads the file `name`.
    pub(super) fn of_file(&self, name: &str) -> SyncError {
        SyncError::Batch { name: name.to_owned(), why: self.to_string() }
    }
}

/// Reads the magic of a batch, and no byte beyond the magic.
pub(super) fn check_magic(from: impl Read) -> Result<(), Bad> {
    let mut start = Vec::new();
    from.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    // The flags have at most 16 bits; rsync's protocol version follows.
    let is_rsyncs = matches!(start[..], [_, _, 0, 0, 27..=99, 0, 0, 0]);
    match start[..].split_last() {
        _ if start == MAGIC => Ok(()),
        _ if is_rsyncs => Err(Bad::Rsyncs),
        Some((version, kind)) if kind == &MAGIC[..MAGIC.len() - 1] => Err(Bad::Version(*version)),
        _ => Err(Bad::NoBatch),
    }
}

/// Reads a file from an offset. The position of the open file is not used, so other readers do not interfere.
#[derive(Debug)]
pub(super) struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl OffsetReader {
    pub(super) fn after_magic(file: &Arc<File>) -> Self {
        Self { file: Arc::clone(file), at: 0 }
    }
}

impl Read for OffsetReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buf, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Reads frames from an offset of a file on.
pub(super) struct Frames<R> {
    from: BufReader<R>,
    at: u64,
    /// Hash of the frames, if the frames are hashed.
    sum: Option<blake3::Hasher>,
    /// Digest of all bytes before the last frame. Set once the last frame was read.
    pub(super) before: Option<Digest>,
}

impl Frames<OffsetReader> {
    pub(super) fn from(file: &Arc<File>, at: u64) -> Self {
        let from = BufReader::new(OffsetReader { file: Arc::clone(file), at });
        Self { from, at, sum: None, before: None }
    }
}

impl<R: Read> Frames<R> {
    /// Returns the frames after the magic of a batch. The frames are hashed while they are read.
    pub(super) fn with_sums(from: R) -> Self {
        let mut sum = blake3::Hasher::new();
        sum.update(&MAGIC);
        let (from, at) = (BufReader::new(from), MAGIC.len() as u64);
        Self { from, at, sum: Some(sum), before: None }
    }

    /// Returns the next frame and its offset; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Frame)>, Bad> {
        let header = self.read(HEADER_BYTES)?;
        if header.is_empty() {
            return Ok(None);
        }
        let whole = *header.first_chunk().ok_or(Bad::Short)?;
        let Header { kind, len } = Header::decode(whole).map_err(|_| Bad::Malformed)?;
        let payload = self.read(len)?;
        if payload.len() < len {
            return Err(Bad::Short);
        }
        let frame = Frame::decode(kind, &payload).map_err(|_| Bad::Malformed)?;
        if let Some(sum) = &mut self.sum {
            let is_last = matches!(frame, Frame::Part(Part::Over { .. }));
            self.before = is_last.then(|| Digest::from_bytes(*sum.finalize().as_bytes()));
            sum.update(&header).update(&payload);
        }
        let at = self.at;
        self.at += (HEADER_BYTES + len) as u64;
        Ok(Some((at, frame)))
    }

    /// Reads `len` bytes, or fewer at the end.
    fn read(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        (&mut self.from).take(len as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
