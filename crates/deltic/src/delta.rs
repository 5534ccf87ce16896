//! Deltas between two versions that lie in memory.
//!
//! Chunks of both versions are compared first, as in a session; between two neighbours that match, a search by short
//! blocks finds what little changed (`deltic_core::gap`). Every copy is compared byte by byte, so no sum is trusted.
//! The encoded form is a delta file: `deltic patch` reads it.

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

/// A step that makes the next bytes of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// These bytes of the old version.
    Copy(Range<usize>),
    /// Bytes that the old version does not have.
    Literal(Vec<u8>),
}

impl Op {
    /// The number of bytes that the step makes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Copy(old) => old.len(),
            Self::Literal(bytes) => bytes.len(),
        }
    }

    /// True for a step that makes no byte; no [`Delta`] has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The steps from an old version to a new one, front to back, and the sums of both.
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
    ops: Vec<Op>,
}

/// Why a delta cannot be read or applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The bytes are no delta, or a damaged one.
    #[error("read a delta: {0}")]
    Format(#[from] FormatError),
    /// The delta starts from another old version.
    #[error("apply a delta: the old version is not the one that it starts from")]
    OtherOld,
}

/// Computes the steps from `old` to `new`.
///
/// Takes time in proportion to both lengths, and memory for the chunks of `old` (about 1 % of its bytes).
#[must_use]
pub fn delta(old: &[u8], new: &[u8]) -> Delta {
    let spec = ChunkerSpec::for_len(old.len() as u64);
    let mut index = Index::new(MAX_KNOWN_CHUNKS);
    let mut start = 0;
    let old_end = each_chunk(&spec, old, |_, chunk| {
        index.push(start, chunk);
        start += u64::from(chunk.len);
    });
    let mut ops = Ops { old, new, ops: Vec::new(), copied: 0, made: 0 };
    let mut after = None;
    let new_end = each_chunk(&spec, new, |at, chunk| {
        let found =
            index.find_chunk(chunk.fingerprint.chunk_prefix(PrefixLen::MAX), chunk.len, after);
        if let Some(no) = found {
            let old_span = index.chunk(no).0;
            ops.matched(old_span.start as usize, at..at + chunk.len as usize);
        }
        after = found.or(after);
    });
    let ops = ops.finish();
    let header = DeltaHeader { old_digest: old_end.digest, old_len: old_end.len, spec };
    Delta { header, end: (new_end.len, new_end.digest), ops }
}

/// Makes the new version from the old one and the delta between them.
///
/// # Errors
/// [`DeltaError::OtherOld`] where `old` is not what the delta was computed from; [`DeltaError::Format`] with
/// [`FormatError::Damaged`] where the steps do not make what the delta promises.
pub fn apply(old: &[u8], delta: &Delta) -> Result<Vec<u8>, DeltaError> {
    delta.apply(old)
}

impl Delta {
    /// The steps, in the order of the new version; neighbours are merged.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The number of bytes that travel as they are.
    #[must_use]
    pub fn literal_bytes(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::Literal(_))).map(Op::len).sum()
    }

    /// The length of the new version in bytes.
    #[must_use]
    pub const fn new_len(&self) -> u64 {
        self.end.0
    }

    /// Makes the new version; see [`apply`].
    ///
    /// # Errors
    /// As [`apply`].
    pub fn apply(&self, old: &[u8]) -> Result<Vec<u8>, DeltaError> {
        if old.len() as u64 != self.header.old_len {
            return Err(DeltaError::OtherOld);
        }
        let mut new = Vec::new();
        for op in &self.ops {
            match op {
                Op::Copy(span) => {
                    let bytes = old.get(span.clone()).ok_or(FormatError::Contradiction)?;
                    new.extend_from_slice(bytes);
                }
                Op::Literal(bytes) => new.extend_from_slice(bytes),
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

    /// The delta as the bytes of a delta file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        DeltaRecord::Header(self.header).encode(&mut out);
        for op in &self.ops {
            match op {
                Op::Copy(old) => {
                    for start in old.clone().step_by(MAX_RUN_BYTES as usize) {
                        let len = (old.end - start).min(MAX_RUN_BYTES as usize);
                        DeltaRecord::Copy(Span::new(start as u64, len as u32)).encode(&mut out);
                    }
                }
                Op::Literal(bytes) => {
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

    /// Reads the bytes of a delta file: those of [`Delta::encode`], or what `deltic delta` wrote.
    ///
    /// # Errors
    /// [`DeltaError::Format`] where they are none. Memory follows the bytes that are there, never a length that they
    /// claim.
    pub fn decode(bytes: &[u8]) -> Result<Self, DeltaError> {
        let mut parser = RecordParser::<DeltaFile>::new();
        parser.feed(bytes);
        let (mut header, mut end, mut ops) = (None, None, Vec::new());
        while let Some(record) = parser.record()? {
            match record {
                DeltaRecord::Header(first) => header = Some(first),
                DeltaRecord::Copy(old) => push(&mut ops, Op::Copy(range(old)?)),
                DeltaRecord::Literal(bytes) => push(&mut ops, Op::Literal(bytes)),
                DeltaRecord::End { len, digest } => end = Some((len, digest)),
            }
        }
        parser.finish()?;
        let (header, end) = header.zip(end).ok_or(FormatError::Truncated)?;
        Ok(Self { header, end, ops })
    }
}

/// Steps under construction: everything before `made` is there.
struct Ops<'a> {
    old: &'a [u8],
    new: &'a [u8],
    ops: Vec<Op>,
    /// The end of the last copy in old.
    copied: usize,
    /// The length of what the steps make so far.
    made: usize,
}

impl Ops<'_> {
    /// Takes bytes of new that are said to lie in old from `start`; nothing happens where they do not.
    fn matched(&mut self, start: usize, new: Range<usize>) {
        let old = start..start + new.len();
        if self.old.get(old.clone()) != Some(&self.new[new.clone()]) {
            return;
        }
        self.fill(old.start, new.start);
        self.copied = old.end;
        self.made = new.end;
        push(&mut self.ops, Op::Copy(old));
    }

    /// Makes new up to `new_end`, where the next match, if any, lies at `old_end`.
    fn fill(&mut self, old_end: usize, new_end: usize) {
        // A jump backwards in old leaves no gap there.
        let (mut old, mut new) = (self.copied.min(old_end)..old_end, self.made..new_end);
        let (before, after) = (&self.old[old.clone()], &self.new[new.clone()]);
        let front = common(before, after);
        push(&mut self.ops, Op::Copy(old.start..old.start + front));
        let back = common(before[front..].iter().rev(), after[front..].iter().rev());
        old = old.start + front..old.end - back;
        new = new.start + front..new.end - back;
        self.search(old.clone(), new);
        push(&mut self.ops, Op::Copy(old.end..old.end + back));
        self.made = new_end;
    }

    /// Makes a gap in new from the gap in old that it faces, by short blocks.
    fn search(&mut self, old: Range<usize>, new: Range<usize>) {
        let new = &self.new[new];
        // Gaps have a bound: longer ones are faced piece by piece.
        for (piece, part) in new.chunks(MAX_GAP_BYTES).enumerate() {
            let start = old.end.min(old.start + piece * MAX_GAP_BYTES);
            let faced = &self.old[start..old.end.min(start + MAX_GAP_BYTES)];
            let block_len = BlockLen::for_gap(faced.len() as u64, EDITS);
            let delta = GapDelta::of(part, &GapSums::of(faced, block_len, SEED), SEED);
            for op in delta.ops() {
                let bytes = |at: u64, len: u32| &part[at as usize..at as usize + len as usize];
                match op {
                    steps::DeltaOp::Copy { old, new_start } => {
                        let bytes = bytes(new_start, old.len);
                        let from = old.start as usize;
                        // Sums may collide.
                        let op = if &faced[from..from + bytes.len()] == bytes {
                            Op::Copy(start + from..start + from + bytes.len())
                        } else {
                            Op::Literal(bytes.to_vec())
                        };
                        push(&mut self.ops, op);
                    }
                    steps::DeltaOp::Literal { new } => {
                        push(&mut self.ops, Op::Literal(bytes(new.start, new.len).to_vec()));
                    }
                }
            }
        }
    }

    /// Makes what is left of new.
    fn finish(mut self) -> Vec<Op> {
        self.fill(self.old.len(), self.new.len());
        self.ops
    }
}

/// The number of bytes in which two sequences begin alike.
fn common<'a>(
    one: impl IntoIterator<Item = &'a u8>,
    other: impl IntoIterator<Item = &'a u8>,
) -> usize {
    one.into_iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Appends a step, as part of the last one where it goes on.
fn push(ops: &mut Vec<Op>, op: Op) {
    match (ops.last_mut(), op) {
        (_, op) if op.is_empty() => {}
        (Some(Op::Copy(last)), Op::Copy(next)) if last.end == next.start => last.end = next.end,
        (Some(Op::Literal(last)), Op::Literal(mut next)) => last.append(&mut next),
        (_, op) => ops.push(op),
    }
}

/// Cuts `data`; `each` gets the start and the sum of every chunk.
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
    cut.and_then(|()| cutter.finish(&mut take)).expect("what lies in memory has a length");
    sum.finish()
}

/// A span of old as a range of a slice.
fn range(old: Span) -> Result<Range<usize>, FormatError> {
    let start = usize::try_from(old.start).map_err(|_| FormatError::Contradiction)?;
    let end = start.checked_add(old.len as usize).ok_or(FormatError::Contradiction)?;
    Ok(start..end)
}

/// The edits that a gap is taken to have.
const EDITS: u32 = 4;
/// The seed of block sums: every match is compared, so collisions cost bytes and nothing else.
const SEED: u64 = 0x6465_6c74_6963;
/// Bytes that are cut at once.
const PIECE_BYTES: usize = 1 << 20;
