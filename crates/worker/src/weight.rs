//! Counts the bytes that a piece of work handles, for budgets and turns.

use deltic_core::Span;
use deltic_protocol::limits::SEGMENT_BYTES;
use deltic_protocol::message::How;
use deltic_protocol::{receiver, sender};

/// Bytes counted for work without content: paths, metadata, answers.
const LITTLE: usize = 4 << 10;
/// Bytes counted for work of a size that only reading will show.
const PORTION: usize = SEGMENT_BYTES as usize;
/// Bytes counted for opening a file that is sent whole and may be short.
const SHORT_FILE: usize = 64 << 10;
/// Most bytes counted for copies, which use one buffer.
const COPY_BUFFER: usize = 1 << 20;

fn total<'a>(spans: impl IntoIterator<Item = &'a Span>) -> usize {
    spans.into_iter().map(|span| span.len as usize).sum()
}

/// Returns the bytes that a piece of the sender's work handles.
pub(super) fn of_source(work: &sender::Work) -> usize {
    use sender::Work;
    let content = match work {
        Work::Scan { segment, .. } => segment.read_len(),
        Work::Read { spans, .. } | Work::Hash { spans, .. } => total(spans),
        Work::Mend { gaps, .. } => total(gaps.iter().map(|gap| &gap.span)),
        Work::Sum { .. } | Work::Search { .. } | Work::Digest { .. } => PORTION,
        Work::Find { region, .. } => (region.end - region.start) as usize,
        Work::Join { region, .. } => (region.range().end - region.range().start) as usize,
        Work::Open { how: How::Whole, .. } => SHORT_FILE,
        _ => 0,
    };
    content + LITTLE
}

/// Returns the bytes that a piece of the receiver's work handles.
pub(super) fn of_destination(work: &receiver::Work) -> usize {
    use receiver::Work;
    let content = match work {
        Work::Index { segment, .. } => segment.read_len(),
        Work::Copy { runs, .. } | Work::Repeat { runs, .. } => {
            total(runs.iter().map(|run| &run.old)).min(COPY_BUFFER)
        }
        Work::Write { pieces, payload, .. } => {
            total(pieces.iter().map(|piece| &piece.span)) + payload.travelling() as usize
        }
        Work::Survey { gaps, .. } => total(gaps.iter().flat_map(|gap| &gap.old)),
        Work::Mend { gaps, bytes, payload, .. } => {
            let old = total(gaps.iter().flat_map(|gap| &gap.old));
            old + *bytes as usize + payload.travelling() as usize
        }
        Work::HashOld { spans, .. } => total(spans),
        Work::View { .. } => PORTION,
        Work::SumOld { .. } | Work::Roll { .. } | Work::Digest { .. } | Work::CopyBeside { .. } => {
            PORTION
        }
        Work::Replace(small) => small.payload.travelling() as usize,
        _ => 0,
    };
    content + LITTLE
}
