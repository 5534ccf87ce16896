//! Cuts one file by segments, which any number of threads may do at once, and joins them (docs/decisions/0015). A chunk
//! comes out as whoever cuts makes it, with its fingerprint or with other sums.

use std::collections::BTreeMap;

use deltic_core::chunk::{ChunkerSpec, FileSegments, Segment, SegmentChunks, SegmentStitcher};

use crate::limits::SEGMENT_BYTES;

/// Most segments of one file that are asked for and not joined.
const AHEAD: u64 = 16;
/// Longest chunks that a segment has room for, at least: a few are read twice for each segment.
const LONGEST_PER_SEGMENT: u64 = 64;

/// The place of a run, for whoever brings the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The segment of this number.
    Segment(u64),
    /// The bytes between segments whose boundaries had not met.
    Seam,
}

/// A version of a file on its way to being chunks.
#[derive(Debug)]
pub(crate) struct Cutting<T> {
    segments: FileSegments,
    len: u64,
    /// The number of the next segment to be asked for, and of the next one to be joined.
    next: u64,
    joined: u64,
    /// Runs that came before those in front of them.
    early: BTreeMap<u64, SegmentChunks<T>>,
    stitch: SegmentStitcher<T>,
    seam_out: bool,
}

impl<T> Cutting<T> {
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

    /// The next piece that may be cut now.
    pub(crate) fn next(&mut self) -> Option<(Part, Segment)> {
        if !self.seam_out
            && let Some(seam) = self.stitch.seam()
        {
            self.seam_out = true;
            return Some((Part::Seam, seam));
        }
        if self.next >= self.joined + AHEAD {
            return None;
        }
        let segment = self.segments.get(self.next)?;
        self.next += 1;
        Some((Part::Segment(self.next - 1), segment))
    }

    /// Takes what was cut; all chunks that have become certain, in order.
    pub(crate) fn take(&mut self, part: Part, run: SegmentChunks<T>) -> Vec<T> {
        let mut certain = match part {
            Part::Seam => {
                self.seam_out = false;
                self.stitch.fill_seam(run)
            }
            Part::Segment(number) => {
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

    /// Returns true once all chunks have been given.
    pub(crate) const fn is_complete(&self) -> bool {
        self.stitch.final_end() == self.len
    }
}
