//! The window of literal bytes that this end grants the sender, if the session uses credit (docs/protocol.md,
//! "Credit").
//!
//! Credit for a byte is returned once the byte no longer waits for the disk. The credit to return is the number of
//! bytes received, less the bytes that wait to be written. So credit cannot get lost, whatever happens to a literal
//! in the receiver.

use crate::error::PeerError;
use crate::limits::Limits;
use crate::message::ToSender;

/// Literal bytes that the sender may send, counted over all files and streams.
#[derive(Debug)]
pub(super) struct GrantedCredit {
    limits: Limits,
    /// Bytes received for which credit was not returned yet.
    out: u64,
}

impl GrantedCredit {
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits, out: 0 }
    }

    /// Counts the literal bytes of a received frame. A single frame may be longer than the window. Errors: `Limit` if
    /// the bytes exceed the window.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), PeerError> {
        let Some(window) = self.limits.credit else { return Ok(()) };
        if bytes > 0 && self.out > 0 && self.out + bytes > window {
            return Err(PeerError::Limit("literals without credit"));
        }
        self.out += bytes;
        Ok(())
    }

    /// Returns credit for the bytes that do not wait to be written, at least a quarter of the window at a time. If no
    /// bytes wait and the rest of the window may be too small for a frame, returns credit at once.
    pub(super) fn poll_credit(&mut self, waiting: usize) -> Option<ToSender> {
        let window = self.limits.credit?;
        let bytes = self.out.saturating_sub(waiting as u64);
        let is_short = window.saturating_sub(self.out) < self.limits.frame_bytes as u64;
        if bytes == 0 || bytes < window / 4 && !(waiting == 0 && is_short) {
            return None;
        }
        self.out -= bytes;
        Some(ToSender::Credit { bytes, more: 0, held_us: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(window: u64) -> GrantedCredit {
        GrantedCredit::new(Limits { credit: Some(window), ..Limits::default() })
    }

    #[test]
    fn whoever_sends_beyond_the_window_is_refused() {
        let mut one = credit(100);
        assert_eq!(one.spend(100), Ok(()));
        assert_eq!(one.spend(1), Err(PeerError::Limit("literals without credit")));
        let mut alone = credit(100);
        assert_eq!(alone.spend(1000), Ok(()));
        assert!(alone.spend(1).is_err() && alone.spend(0).is_ok());
        assert_eq!(GrantedCredit::new(Limits::default()).spend(u64::MAX), Ok(()));
    }

    #[test]
    fn credit_is_returned_for_all_bytes_once_nothing_waits() {
        let mut one = credit(100);
        one.spend(90).unwrap();
        assert_eq!(one.poll_credit(90), None);
        let given = |bytes| Some(ToSender::Credit { bytes, more: 0, held_us: None });
        assert_eq!(one.poll_credit(70), None, "too little to be worth a frame");
        assert_eq!(one.poll_credit(60), given(30));
        assert_eq!(one.poll_credit(0), given(60));
        assert_eq!(one.poll_credit(0), None);
    }
}
