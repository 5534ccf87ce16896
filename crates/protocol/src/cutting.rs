//! Cuts one file in segments, which any number of threads may cut at once, and joins the segments
//! (docs/decisions/0015). The caller decides the form of a chunk: with its fingerprint or with other sums.

use std::collections::BTreeMap;

use deltic_core::chunk::{ChunkerSpec, FileSegments, Segment, SegmentChunks, SegmentStitcher};

use crate::limits::SEGMENT_BYTES;

/// Most segments of one file that are requested and not yet joined.
const AHEAD: u64 = 16;
/// Least number of longest chunks that fit a segment: each segment reads a few chunks twice.
const LONGEST_PER_SEGMENT: u64 = 64;

/// Position of a run of chunks in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutPart {
    /// The segment with this number.
    Segment(u64),
    /// The bytes between two segments, where the chunk boundaries did not meet.
    Seam,
}

/// A version of a file while it is cut.
#[derive(Debug)]
pub(crate) struct FileCutting<T> {
    segments: FileSegments,
    len: u64,
    /// Numbers of the next segment to request, and of the next segment to join.
    next: u64,
    joined: u64,
    /// Runs that arrived before an earlier run.
    early: BTreeMap<u64, SegmentChunks<T>>,
    stitch: SegmentStitcher<T>,
    seam_out: bool,
}

impl<T> FileCutting<T> {
    pub(crate) fn new(spec: &ChunkerSpec, len: u64) -> Self {
        let longest = LONGEST_PER_SEGMENT * u64::from(spec.max_len());
        let segments = FileSegments::new(spec, len, longest.max(SEGMENT_BYTES));
        Self {
            segments,
            len,
            next: 0,
            joined: 0,
            early: BTreeMap::new(),
            stitch: SegmentStitcher::new(segments),
            seam_out: false,
        }
    }

    /// Returns the next segment or seam that may be cut now.
    pub(crate) fn next(&mut self) -> Option<(CutPart, Segment)> {
        if !self.seam_out
            && let Some(seam) = self.stitch.seam()
        {
            self.seam_out = true;
            return Some((CutPart::Seam, seam));
        }
        if self.next >= self.joined + AHEAD {
            return None;
        }
        let segment = self.segments.get(self.next)?;
        self.next += 1;
        Some((CutPart::Segment(self.next - 1), segment))
    }

    /// Takes the chunks of one part. Returns all chunks that have become final, in order.
    pub(crate) fn take_chunks(&mut self, part: CutPart, run: SegmentChunks<T>) -> Vec<T> {
        let mut certain = match part {
            CutPart::Seam => {
                self.seam_out = false;
                self.stitch.fill_seam(run)
            }
            CutPart::Segment(number) => {
                self.early.insert(number, run);
                Vec::new()
            }
        };
        while let Some(run) = self.early.remove(&self.joined) {
            self.joined += 1;
            certain.append(&mut self.stitch.push(run));
        }
        certain
    }

    /// True once all chunks have been returned.
    pub(crate) const fn is_complete(&self) -> bool {
        self.stitch.final_end() == self.len
    }
}
