//! Work of the papers' strategies that either end does: sums of segments, strong sums of spans, digests of whole files.

use deltic_core::chunk::cut_all;
use deltic_core::recipe::FileDigest;
use deltic_core::{AtEnd, Chunker, Digest, Span, Strong, StrongSum, SumKey};
use deltic_protocol::limits::SEGMENT_BYTES;
use deltic_protocol::sums::{Sum, Summing};
use deltic_store::{Snapshot, StoreError};

use super::Buffers;
use crate::monitor::{Stage, within};

/// What one piece of work reads at a time.
pub(super) const READ_BYTES: usize = SEGMENT_BYTES as usize;

/// Cuts and sums one segment, and hashes it for the digest of the file if there is one; whether it reached the end of the
/// file.
pub(super) fn sum_segment(
    snapshot: &impl Snapshot,
    (summing, key): (Summing, &SumKey),
    (start, buffer): (u64, &mut [u8]),
    digest: Option<&mut FileDigest>,
) -> Result<(Vec<Sum>, bool), StoreError> {
    let chunker = summing.chunker.build();
    debug_assert!(chunker.max_len() < buffer.len(), "a segment makes progress");
    let (bytes, at_end) = segment(snapshot, start, buffer)?;
    let mut sums = Vec::new();
    let consumed = cut_all(&chunker, bytes, at_end, |chunk| {
        let strong = summing.strong.map_or(StrongSum::NONE, |strong| strong.of(Some(key), chunk));
        sums.push(Sum { len: chunk.len() as u32, weak: summing.weak.of(chunk), strong });
    });
    if let Some(digest) = digest {
        within(Stage::Sum, || digest.push(&bytes[..consumed]));
    }
    Ok((sums, at_end == AtEnd::Yes))
}

/// Reads the next bytes of a file; whether they are its last.
pub(super) fn segment<'a>(
    snapshot: &impl Snapshot,
    start: u64,
    buffer: &'a mut [u8],
) -> Result<(&'a [u8], AtEnd), StoreError> {
    let got = within(Stage::Read, || snapshot.read_at(start, buffer))?;
    let at_end = got < buffer.len() || start + got as u64 >= snapshot.meta().len;
    Ok((&buffer[..got], if at_end { AtEnd::Yes } else { AtEnd::No }))
}

/// The strong sum of each span, whose bytes `read` fetches.
pub(super) fn hash_spans<E>(
    buffers: &Buffers,
    (strong, key): (Strong, &SumKey),
    spans: &[Span],
    mut read: impl FnMut(Span, &mut [u8]) -> Result<usize, E>,
) -> Result<Vec<StrongSum>, E> {
    let longest = spans.iter().map(|span| span.len as usize).max().unwrap_or(0);
    buffers.with(longest, |buffer| {
        let sum = |span: &Span| {
            let got = read(*span, &mut buffer[..span.len as usize])?;
            Ok(strong.of(Some(key), &buffer[..got]))
        };
        spans.iter().map(sum).collect()
    })
}

/// BLAKE3 of all that `read` gives, until it gives nothing.
pub(super) fn digest_of_bytes<E>(
    buffers: &Buffers,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Digest, E> {
    let (mut digest, mut start) = (FileDigest::new(), 0);
    buffers.with(READ_BYTES, |buffer| {
        loop {
            let got = within(Stage::Read, || read(start, buffer))?;
            if got == 0 {
                return Ok(digest.finish());
            }
            within(Stage::Sum, || digest.push(&buffer[..got]));
            start += got as u64;
        }
    })
}
