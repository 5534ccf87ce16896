//! Content-defined chunking of a segment, with a fingerprint for each chunk.

use deltic_core::chunk::{Segment, SegmentChunks};
use deltic_core::recipe::Chunk;
use deltic_core::{ChunkerSpec, Fingerprinter};

/// Cuts a segment while `read` fills `buffer` piece by piece, so that each piece is cut and hashed while in the CPU
/// cache.
///
/// # Errors
/// An error of `read`.
///
/// # Panics
/// If `buffer` is shorter than [`Segment::read_len`].
pub fn cut_while_reading<E>(
    spec: &ChunkerSpec,
    names: &Fingerprinter,
    segment: &Segment,
    buffer: &mut [u8],
    read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<SegmentChunks<Chunk>, E> {
    segment.cut_while_reading(&spec.build(), buffer, read, |chunk| names.chunk(chunk))
}

/// Cuts a segment whose bytes are all in memory.
#[must_use]
pub fn cut(
    spec: &ChunkerSpec,
    names: &Fingerprinter,
    segment: &Segment,
    bytes: &[u8],
) -> SegmentChunks<Chunk> {
    segment.cut(&spec.build(), bytes, |chunk| names.chunk(chunk))
}
