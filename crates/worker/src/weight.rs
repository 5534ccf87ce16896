//! Counts the bytes that a piece of work handles, for budgets and fair turns.

use deltic_core::Span;
use deltic_protocol::limits::SEGMENT_BYTES;
use deltic_protocol::message::TransferKind;
use deltic_protocol::{receiver, sender};

/// Bytes counted for work without content: paths, metadata, answers.
const LITTLE: usize = 4 << 10;
/// Bytes counted for work of unknown size, which only reading will show.
const PORTION: usize = SEGMENT_BYTES as usize;
/// Bytes counted for opening a file that is sent whole, since a short file is read at the open.
const SHORT_FILE: usize = 64 << 10;
/// Most bytes counted for copies, which share one buffer.
const COPY_BUFFER: usize = 1 << 20;

fn total<'a>(spans: impl IntoIterator<Item = &'a Span>) -> usize {
    spans.into_iter().map(|span| span.len as usize).sum()
}

/// Returns the number of bytes that a piece of the sender's work handles.
pub(super) fn of_source(work: &sender::SenderWork) -> usize {
    use sender::SenderWork;
    let content = match work {
        SenderWork::Open { how: TransferKind::Whole, .. } => SHORT_FILE,
        SenderWork::File(work) => of_file(work),
        SenderWork::Digest { .. } => PORTION,
        SenderWork::List { .. }
        | SenderWork::Open { .. }
        | SenderWork::RemoveSource { .. }
        | SenderWork::Ask(_)
        | SenderWork::Close { .. } => 0,
    };
    content + LITTLE
}

fn of_file(work: &sender::FileWork) -> usize {
    use sender::FileWork;
    match work {
        FileWork::Scan { segment, .. } => segment.read_len(),
        FileWork::Read { spans, .. } | FileWork::Hash { spans, .. } => total(spans),
        FileWork::Mend { gaps, .. } => total(gaps.iter().map(|gap| &gap.span)),
        FileWork::Sum { .. } | FileWork::Search { .. } => PORTION,
        FileWork::Find { region, .. } => (region.end - region.start) as usize,
        FileWork::Join { region, .. } => (region.range().end - region.range().start) as usize,
        FileWork::Seal { .. } => 0,
    }
}

/// Returns the number of bytes that a piece of the receiver's work handles.
pub(super) fn of_destination(work: &receiver::ReceiverWork) -> usize {
    use receiver::{EntryWork, LookupWork, ReceiverWork, SettleWork};
    let content = match work {
        ReceiverWork::Lookup(LookupWork::Digest { .. }) => PORTION,
        ReceiverWork::Entry(EntryWork::CopyFromAlternate { .. }) => PORTION,
        ReceiverWork::Old(work) => of_old_version(work),
        ReceiverWork::New(work) => of_new_version(work),
        ReceiverWork::Settle(SettleWork::Replace(small)) => small.payload.credit_bytes() as usize,
        ReceiverWork::Lookup(_) | ReceiverWork::Entry(_) | ReceiverWork::Settle(_) => 0,
        ReceiverWork::SetDirs { .. } | ReceiverWork::Remove { .. } | ReceiverWork::Ask(_) => 0,
        ReceiverWork::Land | ReceiverWork::Sweep | ReceiverWork::Flush => 0,
    };
    content + LITTLE
}

fn of_old_version(work: &receiver::OldVersionWork) -> usize {
    use receiver::OldVersionWork;
    match work {
        OldVersionWork::Index { segment, .. } => segment.read_len(),
        OldVersionWork::Survey { gaps, .. } => total(gaps.iter().flat_map(|gap| &gap.old)),
        OldVersionWork::HashOld { spans, .. } => total(spans),
        OldVersionWork::View { .. }
        | OldVersionWork::SumOld { .. }
        | OldVersionWork::Roll { .. } => PORTION,
        OldVersionWork::OpenOld { .. } | OldVersionWork::OpenMore { .. } => 0,
    }
}

fn of_new_version(work: &receiver::NewVersionWork) -> usize {
    use receiver::NewVersionWork;
    match work {
        NewVersionWork::Copy { runs, .. } | NewVersionWork::Repeat { runs, .. } => {
            total(runs.iter().map(|run| &run.old)).min(COPY_BUFFER)
        }
        NewVersionWork::Write { pieces, payload, .. } => {
            total(pieces.iter().map(|piece| &piece.span)) + payload.credit_bytes() as usize
        }
        NewVersionWork::Mend { gaps, bytes, payload, .. } => {
            let old = total(gaps.iter().flat_map(|gap| &gap.old));
            old + *bytes as usize + payload.credit_bytes() as usize
        }
    }
}
