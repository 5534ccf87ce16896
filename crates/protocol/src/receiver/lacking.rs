//! Entries that are in place but for attributes that could not be set: told of as failures, and else taken for what they
//! should be.
//!
//! Other names are linked to them, and what is to be deleted goes, as with rsync: nothing of the list is missing. But their
//! sources stay (`--remove-source-files`), where rsync removes them: no other place has those attributes.

use crate::work::{Setback, Then};

use super::{Answer, Receiver};

/// What lacks attributes.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// How many names do.
    pub(super) names: u64,
    /// Whether the one does that is being settled.
    pub(super) is_last: bool,
}

impl Receiver {
    /// Tells which attributes could not be set; all else of the answer is as if they were.
    pub(super) fn tell_what_lacks(&mut self, answer: Answer) -> Answer {
        match answer {
            Answer::Done(Err(Setback { trouble, then: Then::GoOn })) => {
                self.lacking.names += 1;
                self.lacking.is_last = true;
                self.cx.trouble(trouble);
                Answer::Done(Ok(()))
            }
            answer => answer,
        }
    }
}
