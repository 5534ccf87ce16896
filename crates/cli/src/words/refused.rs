//! Errors for arguments that are understood and refused.

use std::fmt;

/// The error for a feature that Deltic does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    what: String,
    /// Advice for the user: an alternative.
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

/// The error for invalid arguments, in commands with another exit code for other errors.
#[derive(Debug)]
pub(crate) struct Misused(pub(crate) String);

impl fmt::Display for Misused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// The error for a file that an argument names and that cannot be read.
#[derive(Debug)]
pub(crate) struct UnreadableFile(pub(crate) String);

impl fmt::Display for UnreadableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
