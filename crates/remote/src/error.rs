//! Errors between us and a system that is named by a URL.

use std::io;

use deltic_store::{Cause, StoreError};
use deltic_tree::RelPath;

/// Why a request was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is none, or names what is not there to be read.
    #[error("{0}")]
    Address(String),
    /// The server does not answer, or its answer ends too early.
    #[error("no answer from {server}: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// What the connection said.
        why: String,
    },
    /// The system says no.
    #[error("{server} refuses: {why}")]
    Refused {
        /// Host and port.
        server: String,
        /// Status and words of the system, and what may help.
        why: String,
    },
    /// There is nothing of that name.
    #[error("no such file or directory")]
    NotFound,
    /// It is not what it was when it was listed or opened.
    #[error("changed meanwhile")]
    Changed,
    /// The answer is none that the system should give, or bytes are not those that its sums say.
    #[error("{0}")]
    Wrong(String),
}

impl RemoteError {
    /// The error of `action` on `path` that a store tells.
    #[must_use]
    pub fn at(self, action: &'static str, path: &RelPath) -> StoreError {
        let (cause, kind) = match &self {
            Self::NotFound => (Cause::NotFound, io::ErrorKind::NotFound),
            Self::Changed => return StoreError::Changed { path: path.clone() },
            Self::Refused { .. } => (Cause::Denied, io::ErrorKind::PermissionDenied),
            Self::Unreachable { .. } => {
                let kind = io::ErrorKind::NotConnected;
                (Cause::Other(kind), kind)
            }
            Self::Address(_) | Self::Wrong(_) => {
                let kind = io::ErrorKind::InvalidData;
                (Cause::Other(kind), kind)
            }
        };
        StoreError::new(action, path, cause, io::Error::new(kind, self.to_string()))
    }
}
