//! Delta compression of gaps: block sums of the old file, deltas of the new file, and gaps rebuilt from deltas.

use std::convert::Infallible;

use deltic_core::code::{is_code, mask};
use deltic_core::gap::{
    BlockLen, GapDelta, GapDeltaReader, GapDeltaWriter, GapSums, ReadDelta, apply,
};
use deltic_core::{Fingerprinter, Span};
use deltic_protocol::receiver::{GapPatch, GapSurvey, Mended, PayloadChunk};
use deltic_protocol::sender::Gap;

use crate::check::proven;
use crate::pack::fast_packed_len;
use crate::task::{ContentMismatch, FileShrank, Task};

/// Edits of code for each edit that remains when the address fields are masked (docs/decisions/0080).
const EDITS_PER_MASKED_EDIT: u32 = 12;

/// Returns the length in bytes of the largest gap.
fn longest<'a>(gaps: impl Iterator<Item = &'a Vec<Span>>) -> usize {
    let len = |gap: &Vec<Span>| gap.iter().map(|span| span.len as usize).sum();
    gaps.map(len).max().unwrap_or(0)
}

/// Task of the receiver: computes block sums of the old bytes beside each gap.
#[derive(Debug)]
pub struct GapBlockSums<'a> {
    gaps: &'a [GapSurvey],
    seed: u64,
    /// True if the address fields of code may count as zeros.
    may_mask: bool,
    sums: Vec<GapSums>,
}

impl<'a> GapBlockSums<'a> {
    /// Creates the task for these gaps. `may_mask` says whether the address fields of code may count as zeros.
    #[must_use]
    pub fn new(gaps: &'a [GapSurvey], seed: u64, may_mask: bool) -> Self {
        Self { gaps, seed, may_mask, sums: Vec::with_capacity(gaps.len()) }
    }

    /// Returns the length of the blocks of a masked gap.
    fn code_block_len(&self, old: &[u8]) -> BlockLen {
        let edits = self.gaps[self.sums.len()].edits;
        BlockLen::for_gap(old.len() as u64, edits.div_ceil(EDITS_PER_MASKED_EDIT))
    }
}

impl Task for GapBlockSums<'_> {
    type Output = Vec<GapSums>;
    type Error = Infallible;

    fn max_read_bytes(&self) -> usize {
        longest(self.gaps.iter().map(|gap| &gap.old))
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.gaps.get(self.sums.len()).map(|gap| &gap.old[..])
    }

    fn take_bytes(&mut self, old: &[u8]) -> Result<(), Infallible> {
        let block = BlockLen::for_gap(old.len() as u64, self.gaps[self.sums.len()].edits);
        self.sums.push(match self.may_mask && is_code(old) {
            true => GapSums::sums_of_code(old, self.code_block_len(old), self.seed),
            false => GapSums::sums_of(old, block, self.seed),
        });
        Ok(())
    }

    fn finish(self) -> Vec<GapSums> {
        self.sums
    }
}

/// Task of the sender: computes deltas of gaps in the new file against block sums of the old file.
#[derive(Debug)]
pub struct GapDeltas<'a> {
    gaps: &'a [Gap],
    seed: u64,
    done: usize,
    deltas: GapDeltaWriter,
    compared: u64,
}

impl<'a> GapDeltas<'a> {
    /// Creates the task for these gaps. `may_mask` says whether the address fields of code may be split off where no
    /// old bytes are known.
    #[must_use]
    pub fn new(gaps: &'a [Gap], seed: u64, may_mask: bool) -> Self {
        Self { gaps, seed, done: 0, deltas: GapDeltaWriter::new(may_mask), compared: 0 }
    }
}

impl Task for GapDeltas<'_> {
    /// The encoded deltas, concatenated, and the number of compared sums.
    type Output = (Vec<u8>, u64);
    type Error = FileShrank;

    fn max_read_bytes(&self) -> usize {
        crate::task::longest(self.gaps.iter().map(|gap| &gap.span))
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.gaps.get(self.done).map(|gap| std::slice::from_ref(&gap.span))
    }

    fn take_bytes(&mut self, new: &[u8]) -> Result<(), FileShrank> {
        let Gap { span, sums } = &self.gaps[self.done];
        if new.len() < span.len as usize {
            return Err(FileShrank);
        }
        self.compared += self.deltas.add(new, span.start, sums, self.seed);
        self.done += 1;
        Ok(())
    }

    fn finish(self) -> Self::Output {
        (self.deltas.finish(), self.compared)
    }
}

/// Task of the receiver: rebuilds gaps from deltas and old bytes, and checks the chunks of each gap.
#[derive(Debug)]
pub struct GapRebuild<'a> {
    names: &'a Fingerprinter,
    gaps: &'a [GapPatch],
    deltas: GapDeltaReader<'a>,
    patched: Vec<Mended>,
    new: Vec<u8>,
}

impl<'a> GapRebuild<'a> {
    /// Creates the task for these gaps, with their unpacked and concatenated `deltas`.
    #[must_use]
    pub fn new(names: &'a Fingerprinter, gaps: &'a [GapPatch], deltas: &'a [u8]) -> Self {
        let lens = gaps.iter().flat_map(|gap| &gap.pieces).map(|piece| piece.span.len as usize);
        let (new, patched) = (Vec::with_capacity(lens.sum()), Vec::with_capacity(gaps.len()));
        Self { names, gaps, deltas: GapDeltaReader::new(deltas), patched, new }
    }
}

impl Task for GapRebuild<'_> {
    /// The result for each gap, and the concatenated bytes of the correct chunks.
    type Output = (Vec<Mended>, Vec<u8>);
    type Error = ContentMismatch;

    fn max_read_bytes(&self) -> usize {
        longest(self.gaps.iter().map(|gap| &gap.old))
    }

    fn next_spans(&self) -> Option<&[Span]> {
        self.gaps.get(self.patched.len()).map(|gap| &gap.old[..])
    }

    fn take_bytes(&mut self, read: &[u8]) -> Result<(), ContentMismatch> {
        let GapPatch { old, pieces } = &self.gaps[self.patched.len()];
        let lens = || pieces.iter().map(|piece| piece.span.len as usize);
        let delta = self.deltas.next_delta().map_err(|_| ContentMismatch)?;
        let ReadDelta { delta, is_masked } = delta;
        let start = self.new.len();
        let mut masked = Vec::new();
        if is_masked {
            masked.extend_from_slice(read);
            mask(&mut masked);
        }
        let read = if is_masked { &masked } else { read };
        let applied = apply(read, &delta, lens().sum(), &mut self.new);
        applied.map_err(|_| ContentMismatch)?;
        let packed_copies = packed_copies(&delta, read.len(), &self.new[start..]);
        if is_masked && let Some(first) = pieces.first() {
            let joined = self.deltas.join(&mut self.new[start..], first.span.start);
            joined.map_err(|_| ContentMismatch)?;
        }
        let fingerprints = proven(self.names, pieces, &self.new[start..]);
        if fingerprints.contains(&None) {
            // Short block sums may collide, so a wrong chunk is expected. Without block sums, a wrong chunk is the
            // peer's fault.
            if old.is_empty() {
                return Err(ContentMismatch);
            }
            let is_proven = fingerprints.iter().map(Option::is_some);
            retain_pieces(&mut self.new, start, pieces.iter().zip(is_proven));
        }
        let literals = delta.literal_lens(lens()).zip(&fingerprints);
        let literal = literals.filter(|(_, of)| of.is_some()).map(|(len, _)| len).sum();
        self.patched.push(Mended { fingerprints, literal, packed_copies });
        Ok(())
    }

    fn finish(self) -> Self::Output {
        (self.patched, self.new)
    }
}

/// Returns the number of bytes that the copies of a delta saved, measured with both the gap and the delta compressed,
/// because copied bytes often compress well. `None` for a delta without copies, for a delta that copies most of the
/// `old_len` old bytes, and without zstd.
fn packed_copies(delta: &GapDelta<'_>, old_len: usize, new: &[u8]) -> Option<u64> {
    let copied = new.len() - delta.literal_len();
    if copied == 0 || copied > old_len / 2 {
        return None;
    }
    let mut encoded = Vec::new();
    delta.encode(&mut encoded);
    Some(fast_packed_len(new)?.saturating_sub(fast_packed_len(&encoded)?) as u64)
}

/// Removes the bytes of the pieces marked `false` from `new`. The bytes of the pieces begin at `start`.
fn retain_pieces<'a>(
    new: &mut Vec<u8>,
    start: usize,
    pieces: impl Iterator<Item = (&'a PayloadChunk, bool)>,
) {
    let made = new.split_off(start);
    let mut rest = &made[..];
    for (piece, stays) in pieces {
        let (bytes, behind) = rest.split_at(piece.span.len as usize);
        new.extend_from_slice(if stays { bytes } else { &[] });
        rest = behind;
    }
}
