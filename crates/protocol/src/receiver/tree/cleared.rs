//! An entry that waits until the directory in its place is gone.

use deltic_tree::Meta;

use crate::receiver::files::candidate::Candidate;
use crate::report::Change;

use super::beside::Beside;
use super::hard_links::LaterName;
use super::looked::Placed;

/// An entry that waits until the directory in its place is gone.
#[derive(Debug)]
pub(super) enum Cleared {
    File(Box<Candidate>),
    Other {
        meta: Meta,
        change: Change,
    },
    Name {
        name: LaterName,
        change: Change,
    },
    /// A file that comes from an alternate.
    Beside(Box<(Placed, Beside)>),
    /// No entry is to be there: a reference directory has it.
    Nothing,
}
