//! Bounds on work over all files: group and gap windows, and bytes that wait to be written.

use std::collections::VecDeque;

use crate::error::PeerError;
use crate::limits::{GAP_WINDOW, GROUP_WINDOW, MAX_GROUPS};
use crate::work::Handle;

use super::pending::ReceiverPending;

/// Groups, gaps, literals and copies under way.
#[derive(Debug, Default)]
pub(super) struct TransferLoad {
    groups_out: u64,
    /// Groups of all recipes under way.
    groups_held: u64,
    /// Gaps that the sender was asked for and has not sent yet.
    gaps_out: u64,
    /// Files with gaps that wait for the gap window.
    gap_queue: VecDeque<Handle>,
    backlog_bytes: usize,
    copies_waiting: usize,
}

/// A transfer's share of the load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadShare {
    pub(super) groups_out: u64,
    pub(super) groups_held: u64,
    pub(super) gaps_out: u64,
}

impl TransferLoad {
    /// Bytes of literals and of directory attributes that are received and not yet written.
    pub(super) const fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Copies found and not yet made, plus the chunks that the copies bring.
    pub(super) const fn copies_waiting(&self) -> usize {
        self.copies_waiting
    }

    /// Counts groups that this end must answer. Errors: `Limit` if the window has no room for the groups.
    pub(super) fn receive_groups(&mut self, groups: u64) -> Result<(), PeerError> {
        self.groups_out += groups;
        self.groups_held += groups;
        if self.groups_out > GROUP_WINDOW {
            Err(PeerError::Limit("unanswered groups"))
        } else {
            Ok(())
        }
    }

    /// Counts groups that need no answer.
    pub(super) fn hold_groups(&mut self, groups: u64) {
        self.groups_held += groups;
    }

    /// Counts groups that were answered.
    pub(super) fn answer_groups(&mut self, groups: u64) {
        self.groups_out -= groups;
    }

    /// True if there are more groups than may be held.
    pub(super) const fn is_crowded(&self) -> bool {
        self.groups_held > MAX_GROUPS as u64
    }

    /// Adds the share of a transfer that began with an offer.
    pub(super) const fn begin(&mut self, share: LoadShare) {
        self.groups_out += share.groups_out;
        self.groups_held += share.groups_held;
    }

    /// Subtracts the share of a finished transfer.
    pub(super) const fn subtract_share(&mut self, share: LoadShare) {
        self.groups_out -= share.groups_out;
        self.groups_held -= share.groups_held;
        self.gaps_out -= share.gaps_out;
    }

    /// Queues a file that may have gaps, until the window of gaps has room.
    pub(super) fn queue_gaps(&mut self, handle: Handle) {
        self.gap_queue.push_back(handle);
    }

    /// Returns the next queued transfer, and the number of gaps that the window has room for.
    pub(super) fn next_gaps(&mut self) -> Option<(Handle, u64)> {
        let room = GAP_WINDOW.checked_sub(self.gaps_out).filter(|room| *room > 0)?;
        Some((self.gap_queue.pop_front()?, room))
    }

    /// Counts gaps that the sender will be asked for.
    pub(super) fn request_gaps(&mut self, gaps: usize) {
        self.gaps_out += gaps as u64;
    }

    /// Counts gaps that arrived as no longer requested.
    pub(super) fn receive_gaps(&mut self, gaps: usize) {
        self.gaps_out -= gaps as u64;
    }

    /// Counts a pending write as waiting until the answer.
    pub(super) fn count_pending(&mut self, pending: &ReceiverPending) {
        let (bytes, copies) = pending.weight();
        self.backlog_bytes += bytes;
        self.copies_waiting += copies;
    }

    /// Stops counting a pending write, which is done or never will be.
    pub(super) fn uncount_pending(&mut self, pending: &ReceiverPending) {
        let (bytes, copies) = pending.weight();
        self.backlog_bytes -= bytes;
        self.copies_waiting -= copies;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::pending::FilePending;
    use deltic_core::Span;

    #[test]
    fn what_waits_to_be_written_is_counted_until_it_is_answered() {
        let handle = Handle(0);
        let spans = vec![Span::new(0, 9), Span::new(9, 9)];
        let places: [ReceiverPending; 5] = [
            FilePending::Write { handle, chunks: vec![0], spans: spans.clone(), payload_bytes: 18 }
                .into(),
            FilePending::Mend { handle, gaps: Vec::new(), payload_bytes: 7 }.into(),
            FilePending::Replace { handle, payload_bytes: 5 }.into(),
            FilePending::Copy { handle, spans, chunks: 3 }.into(),
            FilePending::Confirm(handle).into(),
        ];
        let mut load = TransferLoad::default();
        places.iter().for_each(|place| load.count_pending(place));
        assert_eq!((load.backlog_bytes(), load.copies_waiting()), (30, 5));
        places.iter().for_each(|place| load.uncount_pending(place));
        assert_eq!((load.backlog_bytes(), load.copies_waiting()), (0, 0));
    }

    #[test]
    fn a_window_of_groups_is_unanswered_and_no_more() {
        let mut load = TransferLoad::default();
        assert_eq!(load.receive_groups(GROUP_WINDOW), Ok(()));
        load.answer_groups(1);
        assert_eq!(load.receive_groups(1), Ok(()));
        assert!(load.receive_groups(1).is_err());
    }

    #[test]
    fn files_with_gaps_take_turns_while_the_window_has_room() {
        let mut load = TransferLoad::default();
        assert_eq!(load.next_gaps(), None);
        (1..=2).for_each(|no| load.queue_gaps(Handle(no)));
        assert_eq!(load.next_gaps(), Some((Handle(1), GAP_WINDOW)));
        load.request_gaps(GAP_WINDOW as usize);
        assert_eq!(load.next_gaps(), None);
        load.receive_gaps(3);
        assert_eq!(load.next_gaps(), Some((Handle(2), 3)));
    }
}
