//! The one file that may be offered.

use crate::message::FileNo;
use crate::report::Trouble;

/// The state of the offer.
#[derive(Debug, Default)]
pub(super) enum Offer {
    /// Nothing was offered.
    #[default]
    Possible,
    /// The file is being sent, and was not wanted.
    Sent(FileNo),
    /// The file could not be sent: so is an attempt at it, if it is wanted in that way.
    Spoilt(FileNo, Trouble),
    Over,
}

impl Offer {
    /// Returns true where an attempt at this file is under way that nobody has asked for.
    pub(super) fn is_of(&self, file: FileNo) -> bool {
        matches!(self, Self::Sent(sent) if *sent == file)
    }
}
