//! Messages of a watch between rounds.

use std::fmt;

/// A message of the watch between rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A source is missing, and the watch waits for the source.
    SourceGone,
    /// The missing source is back.
    SourceBack,
    /// The system allows too few watches for all directories. From time to time, all names are compared instead.
    TooManyDirs,
    /// The guard holds back the removal of this number of names until it is [confirmed](super::Confirming).
    HeldBack(u64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Self::SourceGone => "the source is gone; waiting for it",
            Self::SourceBack => "the source is there again",
            Self::TooManyDirs => {
                "too many directories to watch them all: everything is compared now and then instead"
            }
            Self::HeldBack(1) => "1 name waits to be removed",
            Self::HeldBack(names) => return write!(f, "{names} names wait to be removed"),
        };
        f.write_str(said)
    }
}
