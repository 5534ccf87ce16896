//! The chunks of the new version that the sender told, and the source of each.

use std::ops::Range;

use deltic_core::chunk::ChunkerSpec;
use deltic_core::{Span, StrongSum};

use crate::error::PeerError;
use crate::limits::MAX_SUMS;
use crate::message::Extent;
use crate::sums::Sum;

/// The chunks of the new version told so far, in order; for patches, the end of the bytes received so far.
#[derive(Debug)]
pub(super) struct PeerChunks {
    spec: ChunkerSpec,
    len: u64,
    pub(super) end: u64,
    chunks: Vec<(Span, ChunkState)>,
    complete: bool,
    needed: u64,
}

/// The source of a chunk's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Open,
    Needed,
    Known,
}

impl PeerChunks {
    /// Creates the state without chunks for a new version of `len` bytes.
    pub(super) const fn new(spec: ChunkerSpec, len: u64) -> Self {
        Self { spec, len, end: 0, chunks: Vec::new(), complete: false, needed: 0 }
    }

    /// True while chunks are requested and not received.
    pub(super) const fn is_awaiting_chunks(&self) -> bool {
        self.needed > 0
    }

    /// Lengths of all chunks in bytes, in order.
    pub(super) fn lens(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().map(|(span, _)| span.len)
    }

    /// Notes whether the sums are complete. Errors: `Unexpected` for a wrong extent, or an end before all bytes were
    /// told.
    pub(super) fn note_extent(&mut self, extent: Extent) -> Result<(), PeerError> {
        if matches!(extent, Extent::Part | Extent::Empty) {
            return Err(PeerError::Unexpected("a partial list of signature sums"));
        }
        self.complete = extent == Extent::Last;
        if self.complete && self.end != self.len {
            return Err(PeerError::Unexpected("the end of incomplete sums"));
        }
        Ok(())
    }

    pub(super) const fn count(&self) -> u32 {
        self.chunks.len() as u32
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn span(&self, chunk: u32) -> Span {
        self.chunks[chunk as usize].0
    }

    /// Adds the next chunk. Errors: `Limit` for a wrong length or too many chunks.
    pub(super) fn push_chunk(&mut self, len: u32) -> Result<(), PeerError> {
        let is_last = self.end + u64::from(len) == self.len;
        let least = if is_last { 1 } else { self.spec.min_len() };
        let fits = u64::from(len) <= self.len - self.end;
        if len < least || len > self.spec.max_len() || !fits {
            return Err(PeerError::Limit("length of a chunk"));
        }
        if self.chunks.len() >= MAX_SUMS {
            return Err(PeerError::Limit("sums of one file"));
        }
        self.chunks.push((Span::new(self.end, len), ChunkState::Open));
        self.end += u64::from(len);
        Ok(())
    }

    /// Notes that these chunks are requested from the sender.
    pub(super) fn mark_requested(&mut self, chunks: Range<u32>) {
        self.needed += u64::from(chunks.end - chunks.start);
        let chunks = &mut self.chunks[chunks.start as usize..chunks.end as usize];
        chunks.iter_mut().for_each(|(_, source)| *source = ChunkState::Needed);
    }

    /// Marks a chunk as received; returns the chunk's place if the chunk was requested.
    pub(super) fn take_requested(&mut self, chunk: u32) -> Option<Span> {
        let (span, source) = self.chunks.get_mut(chunk as usize)?;
        if *source != ChunkState::Needed {
            return None;
        }
        *source = ChunkState::Known;
        self.needed -= 1;
        Some(*span)
    }
}

/// Returns the sum of a chunk without a strong sum.
pub(super) const fn weak_sum(len: u32, weak: u32) -> Sum {
    Sum { len, weak, strong: StrongSum::NONE }
}
