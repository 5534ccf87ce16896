//! Gaps that the receiver asks to be told against what old has in their places.

use std::ops::Range;

use deltic_core::{GapSums, Span};

use crate::error::PeerError;
use crate::limits::{GAP_BYTES, MAX_GAPS_OUT, MENDED_BYTES};
use crate::message::{FileNo, GapLine, How, ToReceiver};
use crate::report::Trouble;
use crate::work::Handle;

use super::{Deltas, Gap, Place, Sender, Work};

impl Sender {
    pub(super) fn mend(&mut self, file: FileNo, lines: Vec<GapLine>) -> Result<(), PeerError> {
        let zstd = self.options.compress;
        self.gaps_out += lines.len() as u64;
        if lines.is_empty() || self.gaps_out > MAX_GAPS_OUT {
            return Err(PeerError::Limit("gaps to be mended"));
        }
        let outgoing = self.files.get_mut(&file).expect("the caller found the attempt");
        let handle = outgoing.handle;
        let (mut gaps, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        for GapLine { chunks, sums } in lines {
            let span = outgoing.gap(&chunks, &sums)?;
            if bytes + u64::from(span.len) > MENDED_BYTES && bytes > 0 {
                let work = Work::Mend { handle, gaps: std::mem::take(&mut gaps), zstd };
                let gaps = std::mem::take(&mut ranges);
                self.jobs.ask(work, Place::Mend { handle, gaps });
                bytes = 0;
            }
            bytes += u64::from(span.len);
            gaps.push(Gap { span, sums });
            ranges.push(chunks);
        }
        self.jobs.ask(Work::Mend { handle, gaps, zstd }, Place::Mend { handle, gaps: ranges });
        Ok(())
    }

    pub(super) fn mended(
        &mut self,
        handle: Handle,
        gaps: Vec<Range<u32>>,
        mended: Result<Deltas, Trouble>,
    ) {
        self.gaps_out -= gaps.len() as u64;
        let Deltas { payload, bytes, compared } = match mended {
            Ok(mended) => mended,
            Err(trouble) => return self.fail(handle, trouble),
        };
        self.counts.add(compared, 0);
        let Some((file, _)) = self.outgoing(handle) else { return };
        self.frames.push_back(ToReceiver::Mended { file, gaps, bytes, payload });
    }
}

impl super::file::Outgoing {
    /// Where a gap lies, if it may be asked for: some of the chunks that were offered, not too many, and each twice at most.
    fn gap(&mut self, chunks: &Range<u32>, sums: &GapSums) -> Result<Span, PeerError> {
        if self.how() != How::Recipe || !self.offers(chunks) {
            return Err(PeerError::Unexpected("a gap that was not offered"));
        }
        let len = self.bytes_of(chunks);
        if len > GAP_BYTES || sums.old_len() as u64 > 2 * len {
            return Err(PeerError::Limit("bytes of a gap"));
        }
        self.mended += len;
        if self.mended > 2 * self.len {
            return Err(PeerError::Limit("bytes of all gaps"));
        }
        let first = self.spans(chunks).next().expect("a range is not empty");
        Ok(Span::new(first.start, len as u32))
    }
}
