//! Events for the user. Some events wait until the bytes they report have been sent.

use std::collections::VecDeque;

use deltic_protocol::report::Notice;

/// Bytes on the wire between two [`Notice::Wire`] events.
const WIRE_STEP: u64 = 64 << 10;

/// The event queue of a session.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    ready: VecDeque<Notice>,
    /// Delayed [`Notice::Settled`] events: the number of settled bytes, and the total of bytes that this end must have
    /// sent before the event is reported. A rate limit may delay the bytes.
    unsent: VecDeque<(u64, u64)>,
    sent: u64,
    received: u64,
    /// Bytes on the wire in both directions, as last reported.
    reported: u64,
}

impl EventQueue {
    /// Queues an event. The machine has encoded `said` bytes of frames so far.
    pub(crate) fn push(&mut self, notice: Notice, said: u64) {
        match notice {
            Notice::Settled { bytes } => match self.unsent.back_mut() {
                Some((more, last)) if *last == said => *more += bytes,
                _ => self.unsent.push_back((bytes, said)),
            },
            // The last event of a session.
            Notice::Finished(_) => {
                self.settle_at(u64::MAX);
                self.ready.push_back(notice);
            }
            notice => self.ready.push_back(notice),
        }
    }

    /// Takes the numbers of bytes that were sent and received so far.
    pub(crate) const fn set_wire_bytes(&mut self, sent: u64, received: u64) {
        (self.sent, self.received) = (sent, received);
    }

    /// Moves the events of bytes that have been sent to `ready`.
    pub(crate) fn settle(&mut self) {
        self.settle_at(self.sent);
        let bytes = self.sent.saturating_add(self.received);
        // Nothing is reported before the other end has sent a byte: a remote shell may be asking for a password.
        let is_due = self.reported == 0 || bytes >= self.reported.saturating_add(WIRE_STEP);
        if self.received > 0 && is_due {
            self.reported = bytes;
            self.ready.push_back(Notice::Wire { bytes });
        }
    }

    /// Returns the next event to report.
    pub(crate) fn pop(&mut self) -> Option<Notice> {
        self.ready.pop_front()
    }

    /// True while events wait for bytes to be sent.
    pub(crate) fn has_delayed_events(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns all remaining events, sent bytes or not.
    pub(crate) fn release(&mut self) -> Vec<Notice> {
        self.settle_at(u64::MAX);
        self.ready.drain(..).collect()
    }

    fn settle_at(&mut self, sent: u64) {
        while let Some((bytes, _)) = self.unsent.pop_front_if(|(_, said)| *said <= sent) {
            self.ready.push_back(Notice::Settled { bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::report::{Trouble, TroubleKind};

    #[test]
    fn bytes_on_the_wire_are_reported_once_the_other_end_has_sent_some() {
        let mut events = EventQueue::default();
        let mut after = |sent, received| {
            events.set_wire_bytes(sent, received);
            events.settle();
            events.pop()
        };
        assert_eq!(after(10 * WIRE_STEP, 0), None);
        assert_eq!(after(10 * WIRE_STEP, 1), Some(Notice::Wire { bytes: 10 * WIRE_STEP + 1 }));
        assert_eq!(after(10 * WIRE_STEP, 2), None);
        assert_eq!(after(11 * WIRE_STEP, 2), Some(Notice::Wire { bytes: 11 * WIRE_STEP + 2 }));
    }

    #[test]
    fn bytes_that_are_not_sent_are_not_settled() {
        let mut events = EventQueue::default();
        let settled = |bytes| Notice::Settled { bytes };
        for (bytes, said) in [(1, 0), (10, 100), (20, 100), (40, 300)] {
            events.push(settled(bytes), said);
        }
        events.settle_at(99);
        events.settle_at(100);
        let warned = Notice::Trouble(Trouble::new(TroubleKind::Warned, String::new()));
        events.push(warned.clone(), 300);
        let finished = Notice::Finished(Default::default());
        events.push(finished.clone(), 300);
        assert!(!events.has_delayed_events());
        assert_eq!(events.release(), [settled(1), settled(30), warned, settled(40), finished]);
    }
}
