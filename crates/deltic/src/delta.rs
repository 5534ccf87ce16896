//! Deltas between two versions in memory.
//!
//! First the chunks of both versions are compared, as in a session. Between two matching neighbours, a search for short
//! blocks finds small changes (`deltic_core::gap`). Every copy is compared byte by byte, so no checksum is trusted. The
//! encoded form is a delta file for `deltic patch`.

use std::ops::Range;

use deltic_core::delta::MAX_RUN_BYTES;
use deltic_core::format::delta::{
    DeltaFormat as DeltaFile, DeltaHeader, DeltaRecord, MAX_KNOWN_CHUNKS, MAX_LITERAL_BYTES,
};
use deltic_core::format::recipe::{FileSummary, SummaryBuilder};
use deltic_core::format::{FormatError, RecordParser};
use deltic_core::gap::MAX_GAP_BYTES;
use deltic_core::{
    BlockLen, Chunk, ChunkerSpec, GapDelta, GapSums, Index, PrefixLen, Span, StreamCutter,
    delta as steps,
};

/// A step of a delta, which makes the next bytes of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaOp {
    /// Copies this range of the old version.
    Copy(Range<usize>),
    /// Inserts bytes that the old version does not have.
    Literal(Vec<u8>),
}

impl DeltaOp {
    /// Returns the number of bytes that the step makes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Copy(old) => old.len(),
            Self::Literal(bytes) => bytes.len(),
        }
    }

    /// True if the step makes no bytes. A [`Delta`] has no such step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The steps from an old version to a new version, in order, with the digests of both.
///
/// ```
/// let old = b"the quick brown fox jumps over the lazy dog".repeat(100);
/// let mut new = old.clone();
/// new.splice(1000..1000, *b"a few new bytes");
///
/// let delta = deltic::delta(&old, &new);
/// assert!(delta.literal_bytes() < 100);
///
/// let bytes = delta.encode();
/// let received = deltic::Delta::decode(&bytes)?;
/// assert_eq!(received.apply(&old)?, new);
/// # Ok::<(), deltic::DeltaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    header: DeltaHeader,
    end: (u64, deltic_core::Digest),
    ops: Vec<DeltaOp>,
}

/// Why a delta cannot be decoded or applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The bytes are not a delta, or are damaged.
    #[error("read a delta: {0}")]
    Format(#[from] FormatError),
    /// The delta was computed from another old version.
    #[error("apply a delta: the delta was computed from another old version")]
    OtherOld,
}

/// Computes the delta from `old` to `new`.
///
/// Time is proportional to both lengths. Memory is about 1 % of the length of `old`.
#[must_use]
pub fn delta(old: &[u8], new: &[u8]) -> Delta {
    let spec = ChunkerSpec::for_len(old.len() as u64);
    let mut index = Index::new(MAX_KNOWN_CHUNKS);
    let mut start = 0;
    let old_end = each_chunk(&spec, old, |_, chunk| {
        index.push(start, chunk);
        start += u64::from(chunk.len);
    });
    let mut ops = DeltaBuilder { old, new, ops: Vec::new(), copied: 0, made: 0 };
    let mut after = None;
    let new_end = each_chunk(&spec, new, |at, chunk| {
        let found =
            index.find_chunk(chunk.fingerprint.chunk_prefix(PrefixLen::MAX), chunk.len, after);
        if let Some(no) = found {
            let old_span = index.chunk(no).0;
            ops.add_copy(old_span.start as usize, at..at + chunk.len as usize);
        }
        after = found.or(after);
    });
    let ops = ops.finish();
    let header = DeltaHeader { old_digest: old_end.digest, old_len: old_end.len, spec };
    Delta { header, end: (new_end.len, new_end.digest), ops }
}

/// Applies a delta to the old version. Returns the new version.
///
/// # Errors
/// - [`DeltaError::OtherOld`] if the delta was computed from another version than `old`
/// - [`DeltaError::Format`] with [`FormatError::Damaged`] if the result does not match the delta's digest
pub fn apply(old: &[u8], delta: &Delta) -> Result<Vec<u8>, DeltaError> {
    delta.apply(old)
}

impl Delta {
    /// Returns the steps in the order of the new version. Adjacent steps of the same kind are merged.
    #[must_use]
    pub fn ops(&self) -> &[DeltaOp] {
        &self.ops
    }

    /// Returns the number of literal bytes.
    #[must_use]
    pub fn literal_bytes(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, DeltaOp::Literal(_))).map(DeltaOp::len).sum()
    }

    /// Returns the length of the new version in bytes.
    #[must_use]
    pub const fn new_len(&self) -> u64 {
        self.end.0
    }

    /// Applies the delta to the old version. See [`apply`].
    ///
    /// # Errors
    /// The errors of [`apply`].
    pub fn apply(&self, old: &[u8]) -> Result<Vec<u8>, DeltaError> {
        if old.len() as u64 != self.header.old_len {
            return Err(DeltaError::OtherOld);
        }
        let mut new = Vec::new();
        for op in &self.ops {
            match op {
                DeltaOp::Copy(span) => {
                    let bytes = old.get(span.clone()).ok_or(FormatError::Contradiction)?;
                    new.extend_from_slice(bytes);
                }
                DeltaOp::Literal(bytes) => new.extend_from_slice(bytes),
            }
        }
        let spec = self.header.spec;
        let made = each_chunk(&spec, &new, |_, _| ());
        if (made.len, made.digest) == self.end {
            return Ok(new);
        }
        let is_other = each_chunk(&spec, old, |_, _| ()).digest != self.header.old_digest;
        Err(if is_other { DeltaError::OtherOld } else { FormatError::Damaged.into() })
    }

    /// Encodes the delta as a delta file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        DeltaRecord::Header(self.header).encode(&mut out);
        for op in &self.ops {
            match op {
                DeltaOp::Copy(old) => {
                    for start in old.clone().step_by(MAX_RUN_BYTES as usize) {
                        let len = (old.end - start).min(MAX_RUN_BYTES as usize);
                        DeltaRecord::Copy(Span::new(start as u64, len as u32)).encode(&mut out);
                    }
                }
                DeltaOp::Literal(bytes) => {
                    for piece in bytes.chunks(MAX_LITERAL_BYTES) {
                        DeltaRecord::Literal(piece.to_vec()).encode(&mut out);
                    }
                }
            }
        }
        let (len, digest) = self.end;
        DeltaRecord::End { len, digest }.encode(&mut out);
        out
    }

    /// Decodes a delta file from [`Delta::encode`] or `deltic delta`.
    ///
    /// # Errors
    /// [`DeltaError::Format`] if the bytes are not a delta file.
    ///
    /// Memory is proportional to the length of `bytes`, whatever lengths the file claims.
    pub fn decode(bytes: &[u8]) -> Result<Self, DeltaError> {
        let mut parser = RecordParser::<DeltaFile>::new();
        parser.feed(bytes);
        let (mut header, mut end, mut ops) = (None, None, Vec::new());
        while let Some(record) = parser.next_record()? {
            match record {
                DeltaRecord::Header(first) => header = Some(first),
                DeltaRecord::Copy(old) => push(&mut ops, DeltaOp::Copy(to_range(old)?)),
                DeltaRecord::Literal(bytes) => push(&mut ops, DeltaOp::Literal(bytes)),
                DeltaRecord::End { len, digest } => end = Some((len, digest)),
            }
        }
        parser.finish()?;
        let (header, end) = header.zip(end).ok_or(FormatError::Truncated)?;
        Ok(Self { header, end, ops })
    }
}

/// A delta under construction. The steps make the first `made` bytes of the new version.
struct DeltaBuilder<'a> {
    old: &'a [u8],
    new: &'a [u8],
    ops: Vec<DeltaOp>,
    /// End of the last copy in the old version.
    copied: usize,
    /// Number of bytes of the new version that the steps make so far.
    made: usize,
}

impl DeltaBuilder<'_> {
    /// Adds the steps for the gap before `new`, then a copy of `new.len()` bytes of the old version from `start`. Does
    /// nothing if the bytes differ.
    fn add_copy(&mut self, start: usize, new: Range<usize>) {
        let old = start..start + new.len();
        if self.old.get(old.clone()) != Some(&self.new[new.clone()]) {
            return;
        }
        self.add_gap_steps(old.start, new.start);
        self.copied = old.end;
        self.made = new.end;
        push(&mut self.ops, DeltaOp::Copy(old));
    }

    /// Adds steps for the gap up to `new_end`. The old bytes of the gap end at `old_end`: at the next match, or at the
    /// end of the old version.
    fn add_gap_steps(&mut self, old_end: usize, new_end: usize) {
        // If the next match lies before the last copy, the old range between them is empty.
        let (mut old, mut new) = (self.copied.min(old_end)..old_end, self.made..new_end);
        let (before, after) = (&self.old[old.clone()], &self.new[new.clone()]);
        let front = common_prefix_len(before, after);
        push(&mut self.ops, DeltaOp::Copy(old.start..old.start + front));
        let back = common_prefix_len(before[front..].iter().rev(), after[front..].iter().rev());
        old = old.start + front..old.end - back;
        new = new.start + front..new.end - back;
        self.search(old.clone(), new);
        push(&mut self.ops, DeltaOp::Copy(old.end..old.end + back));
        self.made = new_end;
    }

    /// Adds steps for a gap in the new version, by a search for short blocks of the gap in the old version.
    fn search(&mut self, old: Range<usize>, new: Range<usize>) {
        let new = &self.new[new];
        // Gaps have a length limit, so longer gaps are searched in parts.
        for (piece, part) in new.chunks(MAX_GAP_BYTES).enumerate() {
            let start = old.end.min(old.start + piece * MAX_GAP_BYTES);
            let faced = &self.old[start..old.end.min(start + MAX_GAP_BYTES)];
            let block_len = BlockLen::for_gap(faced.len() as u64, EDITS);
            let delta = GapDelta::of(part, &GapSums::sums_of(faced, block_len, SEED), SEED);
            for op in delta.ops() {
                let bytes = |at: u64, len: u32| &part[at as usize..at as usize + len as usize];
                match op {
                    steps::DeltaOp::Copy { old, new_start } => {
                        let bytes = bytes(new_start, old.len);
                        let from = old.start as usize;
                        // Block sums may collide.
                        let op = if &faced[from..from + bytes.len()] == bytes {
                            DeltaOp::Copy(start + from..start + from + bytes.len())
                        } else {
                            DeltaOp::Literal(bytes.to_vec())
                        };
                        push(&mut self.ops, op);
                    }
                    steps::DeltaOp::Literal { new } => {
                        push(&mut self.ops, DeltaOp::Literal(bytes(new.start, new.len).to_vec()));
                    }
                }
            }
        }
    }

    /// Adds the steps after the last match. Returns all steps.
    fn finish(mut self) -> Vec<DeltaOp> {
        self.add_gap_steps(self.old.len(), self.new.len());
        self.ops
    }
}

/// Returns the length of the common prefix of two sequences.
fn common_prefix_len<'a>(
    one: impl IntoIterator<Item = &'a u8>,
    other: impl IntoIterator<Item = &'a u8>,
) -> usize {
    one.into_iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Appends a step. A step that continues the last step is merged.
fn push(ops: &mut Vec<DeltaOp>, op: DeltaOp) {
    match (ops.last_mut(), op) {
        (_, op) if op.is_empty() => {}
        (Some(DeltaOp::Copy(last)), DeltaOp::Copy(next)) if last.end == next.start => {
            last.end = next.end
        }
        (Some(DeltaOp::Literal(last)), DeltaOp::Literal(mut next)) => last.append(&mut next),
        (_, op) => ops.push(op),
    }
}

/// Cuts `data` into chunks. `each` gets the start and the sum of every chunk.
fn each_chunk(spec: &ChunkerSpec, data: &[u8], mut each: impl FnMut(usize, Chunk)) -> FileSummary {
    let (mut sum, mut at) = (SummaryBuilder::new(), 0);
    let mut take = |_: &[u8], chunk: Chunk| {
        sum.push(&chunk)?;
        each(at, chunk);
        at += chunk.len as usize;
        Ok::<(), deltic_core::CodecError>(())
    };
    let mut cutter = StreamCutter::new(spec);
    let cut = data.chunks(PIECE_BYTES).try_for_each(|piece| cutter.push(piece, &mut take));
    cut.and_then(|()| cutter.finish(&mut take)).expect("data in memory has a length");
    sum.finish()
}

/// Converts a span of the old version to a range.
fn to_range(old: Span) -> Result<Range<usize>, FormatError> {
    let start = usize::try_from(old.start).map_err(|_| FormatError::Contradiction)?;
    let end = start.checked_add(old.len as usize).ok_or(FormatError::Contradiction)?;
    Ok(start..end)
}

/// Assumed number of edits in a gap.
const EDITS: u32 = 4;
/// Seed of block sums. A collision only costs literal bytes, because every match is compared.
const SEED: u64 = 0x6465_6c74_6963;
/// Bytes to cut at a time.
const PIECE_BYTES: usize = 1 << 20;
