//! Window of literal bytes that the receiver grants, if any.

use crate::error::PeerError;
use crate::limits::MAX_CREDIT_BYTES;

/// Literal bytes that may be sent, over all files and streams.
#[derive(Debug, Default)]
pub(super) struct SendCredit {
    /// Size of the window in bytes; `None` means no limit.
    window: Option<u64>,
    /// Bytes sent and not yet credited.
    out: u64,
}

impl SendCredit {
    pub(super) const fn new(window: Option<u64>) -> Self {
        Self { window, out: 0 }
    }

    /// True if a frame with `bytes` literal bytes may be sent. A single frame may exceed the window.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.window.is_none_or(|window| bytes == 0 || self.out == 0 || self.out + bytes <= window)
    }

    /// Counts the literal bytes of a frame that is sent.
    pub(super) const fn spend(&mut self, bytes: u64) {
        if self.window.is_some() {
            self.out += bytes;
        }
    }

    /// Takes credit for `bytes` that were sent, and widens the window by `more` bytes.
    pub(super) fn add_credit(&mut self, bytes: u64, more: u64) -> Result<(), PeerError> {
        let window =
            self.window.ok_or(PeerError::Unexpected("credit on a connection without credit"))?;
        let left = self.out.checked_sub(bytes);
        self.out = left.ok_or(PeerError::Unexpected("credit for bytes that were not sent"))?;
        let window = window.checked_add(more).filter(|window| *window <= MAX_CREDIT_BYTES);
        self.window = Some(window.ok_or(PeerError::Limit("credit"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_spent_and_given_back() {
        let mut credit = SendCredit::new(Some(100));
        assert!(credit.has_room(1000), "a frame alone may be longer");
        credit.spend(60);
        assert!(credit.has_room(40) && !credit.has_room(41) && credit.has_room(0));
        assert_eq!(credit.add_credit(60, 20), Ok(()));
        credit.spend(110);
        assert!(credit.has_room(10) && !credit.has_room(11));
    }

    #[test]
    fn no_credit_comes_for_bytes_that_were_not_sent_and_no_window_grows_beyond_its_limit() {
        let mut credit = SendCredit::new(Some(100));
        credit.spend(60);
        for bytes in [61, 1 << 63, u64::MAX] {
            assert!(credit.add_credit(bytes, 0).is_err(), "{bytes}");
        }
        for more in [MAX_CREDIT_BYTES, 1 << 63, u64::MAX] {
            assert_eq!(credit.add_credit(0, more), Err(PeerError::Limit("credit")), "{more}");
        }
        assert!(SendCredit::new(None).add_credit(0, 0).is_err());
    }

    #[test]
    fn who_asks_for_no_credit_gets_all() {
        let mut credit = SendCredit::new(None);
        credit.spend(u64::MAX);
        assert!(credit.has_room(u64::MAX));
    }
}
