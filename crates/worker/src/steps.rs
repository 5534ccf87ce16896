//! Runs the engine's computations with blocking reads.

use std::ops::Range;

use deltic_core::chunk::{Segment, SegmentChunks};
use deltic_core::recipe::{Chunk, FileDigest};
use deltic_core::search::SharedBlocks;
use deltic_core::strategy::{Conversation, SumSource};
use deltic_core::{
    AtEnd, BlockSumSpec, ChunkerSpec, Digest, Fingerprinter, Span, StoredSums, Strategy,
};
use deltic_engine::sums::{self, PortionSummer, READ_BYTES, WholeDigest};
use deltic_engine::{Task, run, scan};
use deltic_protocol::Terms;
use deltic_protocol::summing::{Portion, Summed};
use deltic_store::{Snapshot, StoreError};
use deltic_tree::RelPath;

use super::Buffers;
use crate::sparse::SparseVersion;
use crate::stage::{Stage, reading, within};

/// Runs a task, charging its processor time to `stage`.
pub(super) fn perform<T: Task>(
    buffers: &Buffers,
    stage: Stage,
    task: T,
    mut read: impl FnMut(&[Span], &mut [u8]) -> Result<usize, StoreError>,
) -> Result<Result<T::Output, T::Error>, StoreError> {
    let read = |spans: &[Span], into: &mut [u8]| reading(|| read(spans, into));
    buffers.with(task.max_read_bytes(), |buffer| within(stage, || run(task, buffer, read)))
}

/// Makes a reader of spans from `read_at`, for a step that reads at most one span.
pub(super) fn read_one(
    read_at: impl Fn(u64, &mut [u8]) -> Result<usize, StoreError>,
) -> impl FnMut(&[Span], &mut [u8]) -> Result<usize, StoreError> {
    move |spans, into| spans.first().map_or(Ok(0), |span| read_at(span.start, into))
}

/// Reads a segment with `read_at`, and returns its chunks with fingerprints. Returns `None` if the file is shorter.
pub(super) fn cut_segment(
    buffers: &Buffers,
    read_at: impl Fn(u64, &mut [u8]) -> Result<usize, StoreError>,
    spec: &ChunkerSpec,
    names: &Fingerprinter,
    segment: &Segment,
) -> Result<Option<SegmentChunks<Chunk>>, StoreError> {
    let read_at = |at, room: &mut [u8]| reading(|| read_at(at, room));
    let read = |at, room: &mut [u8]| match read_at(at, room) {
        Ok(got) if got == room.len() => Ok(()),
        Ok(_) => Err(None),
        Err(error) => Err(Some(error)),
    };
    let run = buffers.with(segment.read_len(), |buffer| {
        scan::cut_while_reading(spec, names, segment, buffer, read)
    });
    match run {
        Ok(run) => Ok(Some(run)),
        Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
    }
}

/// Returns the stored sums of a portion, if the strategy uses stored sums and asking the store is faster than reading.
pub(super) fn stored_sums(
    strategy: &Strategy,
    snapshot: &impl Snapshot,
    portion: &Portion,
) -> Result<Option<StoredSums>, StoreError> {
    let uses = strategy.sums == SumSource::Stored && asking_pays(snapshot);
    match portion {
        Portion::From(_) | Portion::Chunks(..) | Portion::Segment(_) if uses => {
            snapshot.stored_sums(&sums::read_range(portion))
        }
        _ => Ok(None),
    }
}

/// Returns the stored sums of the searched range, if the search can use sums of their kind.
pub(super) fn searched_sums(
    blocks: &SharedBlocks,
    version: &SparseVersion<impl Snapshot>,
    range: &Range<u64>,
) -> Result<Option<StoredSums>, StoreError> {
    match version.kept_kind().is_some_and(|kind| blocks.can_use(kind)) {
        true => version.stored_sums(range),
        false => Ok(None),
    }
}

/// Returns the kind of stored sums of a file, to report to the other end. Checks that the start of the file has stored
/// sums. Returns `None` if the strategy or the `terms` do not use stored sums, or if asking the store is not faster
/// than reading.
pub(super) fn keeps(
    strategy: &Strategy,
    terms: Terms,
    snapshot: &impl Snapshot,
) -> Option<BlockSumSpec> {
    let is_told =
        strategy.sums == SumSource::Stored && strategy.conversation == Conversation::Signature;
    let asks = is_told && terms.kept_sums && asking_pays(snapshot);
    // Changes of the file are detected when the file is read.
    let sums = asks.then(|| snapshot.stored_sums(&(0..READ_BYTES as u64)).ok().flatten())?;
    sums?.spec()
}

/// Fills `bytes` from offset `start` of a file.
///
/// # Errors
/// [`StoreError::Short`] if the file is shorter.
pub(super) fn read_exact(
    file: &impl Snapshot,
    start: u64,
    bytes: &mut [u8],
) -> Result<(), StoreError> {
    if reading(|| file.read_at(start, bytes))? < bytes.len() {
        let (path, len) = (RelPath::root(), file.meta().len);
        return Err(StoreError::Short { path, len });
    }
    Ok(())
}

/// True if asking the store for sums of this file is faster than reading and summing. Shorter files are read faster if
/// cached, and as fast if not (docs/decisions/0038).
pub(super) fn asking_pays(snapshot: &impl Snapshot) -> bool {
    snapshot.meta().len >= 64 << 10
}

/// Reads a portion and computes the requested sums. Returns `None` if the file is shorter.
pub(super) fn sum_portion(
    buffers: &Buffers,
    snapshot: &impl Snapshot,
    portions: &PortionSummer<'_>,
    portion: Portion,
    digest: Option<&mut FileDigest>,
) -> Result<Option<Summed>, StoreError> {
    let range = sums::read_range(&portion);
    buffers.with((range.end - range.start) as usize, |buffer| {
        let got = reading(|| snapshot.read_at(range.start, buffer))?;
        Ok(portions.sum(portion, &buffer[..got], digest))
    })
}

/// Calls `with` with the next bytes of a file, and tells if the file ends there.
pub(super) fn with_segment<T>(
    buffers: &Buffers,
    snapshot: &impl Snapshot,
    start: u64,
    with: impl FnOnce(&[u8], AtEnd) -> T,
) -> Result<T, StoreError> {
    with_range(buffers, snapshot, &(start..start + READ_BYTES as u64), with)
}

/// Calls `with` with the bytes of `range` up to the end of the file, and tells if the file ends there.
pub(super) fn with_range<T>(
    buffers: &Buffers,
    snapshot: &impl Snapshot,
    range: &Range<u64>,
    with: impl FnOnce(&[u8], AtEnd) -> T,
) -> Result<T, StoreError> {
    let (start, len) = (range.start, (range.end - range.start) as usize);
    buffers.with(len, |buffer| {
        let got = reading(|| snapshot.read_at(start, buffer))?;
        let at_end = sums::at_end(start, got, buffer.len(), snapshot.meta().len);
        Ok(with(&buffer[..got], at_end))
    })
}

/// Returns the BLAKE3 digest of the first `len` bytes that `read` supplies, or of all bytes if there are fewer.
pub(super) fn digest_of_bytes(
    buffers: &Buffers,
    len: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, StoreError>,
) -> Result<Digest, StoreError> {
    let read = |spans: &[Span], into: &mut [u8]| read(spans[0].start, into);
    let Ok(digest) = perform(buffers, Stage::Sum, WholeDigest::new(len), read)?;
    Ok(digest)
}
