//! Words that are understood, and refused.

use std::fmt;

/// A wish that Deltic does not fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    what: String,
    /// Advice instead.
    pub(crate) instead: &'static str,
}

impl Unsupported {
    pub(crate) const fn new(what: String, instead: &'static str) -> Self {
        Self { what, instead }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not supported", self.what)
    }
}

impl std::error::Error for Unsupported {}

/// Words that make no sense, in commands of which other errors end otherwise.
#[derive(Debug)]
pub(crate) struct Misused(pub(crate) String);

impl fmt::Display for Misused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// A file that words name, and that cannot be read.
#[derive(Debug)]
pub(crate) struct Unread(pub(crate) String);

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
