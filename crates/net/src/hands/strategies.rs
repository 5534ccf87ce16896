//! Work of the papers' strategies that either end does: sums of segments, strong sums of spans, digests of whole files.

use std::ops::Range;

use deltic_core::chunk::{Judge, TwoStage, cut_all};
use deltic_core::recipe::FileDigest;
use deltic_core::{AtEnd, Chunker, Crc32c, Digest, Isa, Span, Strong, StrongSum, SumKey};
use deltic_protocol::limits::SEGMENT_BYTES;
use deltic_protocol::summing::{Portion, Summed};
use deltic_protocol::sums::{Sum, Summing};
use deltic_store::{Snapshot, StoreError};

use super::Buffers;
use crate::monitor::{Stage, within};

/// What one piece of work reads at a time.
pub(super) const READ_BYTES: usize = SEGMENT_BYTES as usize;

/// Makes of a portion what is asked for, and hashes it for the digest of the file if there is one; nothing, where the file
/// is shorter than that.
pub(super) fn sum_portion(
    snapshot: &impl Snapshot,
    (summing, key): (Summing, &SumKey),
    (portion, buffers): (Portion, &Buffers),
    digest: Option<&mut FileDigest>,
) -> Result<Option<Summed>, StoreError> {
    let sum = |chunk: &[u8]| {
        let strong = summing.strong.map_or(StrongSum::NONE, |strong| strong.of(Some(key), chunk));
        Sum { len: chunk.len() as u32, weak: summing.weak.of(chunk), strong }
    };
    match portion {
        Portion::From(start) => buffers.with(READ_BYTES, |buffer| {
            let chunker = summing.chunker.build();
            debug_assert!(chunker.max_len() < buffer.len(), "a segment makes progress");
            let (bytes, at_end) = segment(snapshot, start, buffer)?;
            let mut sums = Vec::new();
            let consumed = cut_all(&chunker, bytes, at_end, |chunk| sums.push(sum(chunk)));
            if let Some(digest) = digest {
                within(Stage::Sum, || digest.push(&bytes[..consumed]));
            }
            Ok(Some(Summed::Chunks(sums, at_end == AtEnd::Yes)))
        }),
        Portion::Chunks(start, lens) => {
            let end = start + lens.iter().map(|len| u64::from(*len)).sum::<u64>();
            with_bytes(snapshot, start..end, buffers, |mut bytes| {
                let sums = lens.iter().map(|len| {
                    let (chunk, after) = bytes.split_at(*len as usize);
                    bytes = after;
                    sum(chunk)
                });
                Summed::Chunks(sums.collect(), end == snapshot.meta().len)
            })
        }
        Portion::Ends(range, judge) => {
            let sums = (|_: &[u8]| Crc32c::EMPTY, |_: &[u8]| None);
            sub_chunks(snapshot, &summing, (range, judge), (buffers, sums))
        }
        Portion::SubChunks(range, judge) => {
            let strong = |chunk: &[u8]| Some(summing.strong?.of(Some(key), chunk));
            sub_chunks(snapshot, &summing, (range, judge), (buffers, (Crc32c::of, strong)))
        }
    }
}

fn sub_chunks(
    snapshot: &impl Snapshot,
    summing: &Summing,
    (range, judge): (Range<u64>, Judge),
    (buffers, sums): (
        &Buffers,
        (impl FnMut(&[u8]) -> Crc32c, impl FnMut(&[u8]) -> Option<StrongSum>),
    ),
) -> Result<Option<Summed>, StoreError> {
    let stages = TwoStage::new(&summing.chunker, Isa::SCALAR);
    let stages = stages.expect("the machine asks for two stages where there are two");
    with_bytes(snapshot, TwoStage::read(&range), buffers, |bytes| {
        Summed::SubChunks(stages.sub_chunks(&range, bytes, judge, sums))
    })
}

/// Calls `with` the bytes of `range`, if the file has them all.
fn with_bytes<T>(
    snapshot: &impl Snapshot,
    range: Range<u64>,
    buffers: &Buffers,
    with: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>, StoreError> {
    let len = (range.end - range.start) as usize;
    buffers.with(len, |buffer| {
        let got = within(Stage::Read, || snapshot.read_at(range.start, buffer))?;
        Ok((got == len).then(|| with(buffer)))
    })
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
