//! Gaps of a recipe that the receiver asks to be told against what old has in their places.

use std::ops::Range;

use deltic_core::{GapSums, Span};

use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::GapLine;

use super::super::ask::{Gap, Work};
use super::super::context::Context;
use super::super::pending::Pending;
use super::attempt::Attempt;
use super::recipe::Recipe;

impl Recipe {
    /// Reads gaps and compares them with the sums of old.
    pub(super) fn mend(
        &mut self,
        at: &Attempt,
        cx: &mut Context,
        lines: Vec<GapLine>,
    ) -> Result<(), PeerError> {
        let (zstd, handle) = (cx.options.compress, at.handle);
        let (mut gaps, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        for GapLine { chunks, sums } in lines {
            let span = self.gap(at, (&chunks, &sums), &cx.limits)?;
            if bytes + u64::from(span.len) > cx.limits.mended_bytes() && bytes > 0 {
                let work = Work::Mend { handle, gaps: std::mem::take(&mut gaps), zstd };
                let gaps = std::mem::take(&mut ranges);
                cx.jobs.ask(work, Pending::Mend { handle, gaps });
                bytes = 0;
            }
            bytes += u64::from(span.len);
            gaps.push(Gap { span, sums });
            ranges.push(chunks);
        }
        cx.jobs.ask(Work::Mend { handle, gaps, zstd }, Pending::Mend { handle, gaps: ranges });
        Ok(())
    }

    /// The place of a gap, if it may be asked for: chunks that were offered, not too many, each twice at most.
    fn gap(
        &mut self,
        at: &Attempt,
        (chunks, sums): (&Range<u32>, &GapSums),
        limits: &Limits,
    ) -> Result<Span, PeerError> {
        if !self.table.has_passed(chunks) {
            return Err(UNOFFERED);
        }
        let len = self.table.bytes_of(chunks);
        if len > limits.gap_bytes() || sums.old_len() as u64 > 2 * len {
            return Err(PeerError::Limit("bytes of a gap"));
        }
        self.gap_bytes += len;
        if self.gap_bytes > 2 * at.len {
            return Err(PeerError::Limit("bytes of all gaps"));
        }
        let first = self.table.spans(chunks).next().expect("a range is not empty");
        Ok(Span::new(first.start, len as u32))
    }
}

/// The error of a gap that may not be asked for.
pub(super) const UNOFFERED: PeerError = PeerError::Unexpected("a gap that was not offered");
