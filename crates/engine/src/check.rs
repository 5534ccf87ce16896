//! Fingerprints of received or read chunks, compared with the announced fingerprints.

use std::convert::Infallible;
use std::sync::Arc;

use deltic_core::recipe::{Chunk, digest_of};
use deltic_core::{Digest, Fingerprint, Fingerprinter, Span};
use deltic_protocol::receiver::PayloadChunk;

use crate::task::Task;

/// Fingerprints the concatenated chunks in `bytes`. `spans` holds the length of each chunk.
#[must_use]
pub fn chunks(names: &Fingerprinter, spans: &[Span], bytes: &[u8]) -> Vec<Chunk> {
    let mut rest = bytes;
    let chunk = |span: &Span| {
        let (chunk, after) = rest.split_at(span.len as usize);
        rest = after;
        names.chunk(chunk)
    };
    spans.iter().map(chunk).collect()
}

/// Returns the digest of a small file, which is one chunk or empty.
#[must_use]
pub fn small_digest(names: &Fingerprinter, bytes: &[u8]) -> Digest {
    let chunk = (!bytes.is_empty()).then(|| names.chunk(bytes));
    digest_of(chunk.iter())
}

/// Returns the fingerprints of the concatenated pieces in `bytes`. Returns `None` if any piece differs from its
/// announced fingerprint.
#[must_use]
pub fn all_proven(
    names: &Fingerprinter,
    pieces: &[PayloadChunk],
    bytes: &[u8],
) -> Option<Vec<Fingerprint>> {
    proven(names, pieces, bytes).into_iter().collect()
}

/// Returns the fingerprint of each piece in `bytes`, or `None` for a piece that differs from its announced fingerprint.
#[must_use]
pub(crate) fn proven(
    names: &Fingerprinter,
    pieces: &[PayloadChunk],
    bytes: &[u8],
) -> Vec<Option<Fingerprint>> {
    let mut rest = bytes;
    let check = |piece: &PayloadChunk| {
        let (chunk, after) = rest.split_at(piece.span.len as usize);
        rest = after;
        let fingerprint = names.of(chunk);
        piece.brief.is_none_or(|brief| brief.is_prefix_of(&fingerprint)).then_some(fingerprint)
    };
    pieces.iter().map(check).collect()
}

/// Reads chunks again and compares their fingerprints. Stops at the first difference.
#[derive(Debug)]
pub struct SameAgain<'a> {
    names: &'a Fingerprinter,
    chunks: Arc<Vec<Chunk>>,
    done: usize,
    next: Option<Span>,
    is_same: bool,
}

impl<'a> SameAgain<'a> {
    /// Creates a task that reads `chunks` again. The chunks end at byte `end` of the file; for an append the chunks
    /// cover only the appended tail.
    #[must_use]
    pub fn new(names: &'a Fingerprinter, chunks: Arc<Vec<Chunk>>, end: u64) -> Self {
        let len: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        let start = end.saturating_sub(len);
        let next = chunks.first().map(|chunk| Span::new(start, chunk.len));
        Self { names, chunks, done: 0, next, is_same: true }
    }
}

impl Task for SameAgain<'_> {
    type Output = bool;
    type Error = Infallible;

    fn max_read_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len as usize).max().unwrap_or(0)
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.next.as_ref().map(std::slice::from_ref)
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.is_same = self.names.chunk(bytes) == self.chunks[self.done];
        self.done += 1;
        let after = self.next.map_or(0, |span| span.end());
        let next = self.chunks.get(self.done).filter(|_| self.is_same);
        self.next = next.map(|chunk| Span::new(after, chunk.len));
        Ok(())
    }

    fn finish(self) -> bool {
        self.is_same
    }
}
