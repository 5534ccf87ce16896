//! Errors of requests to a remote system.

use std::io;

use deltic_store::{Cause, StoreError};
use deltic_tree::RelPath;

/// Why a request to a remote system failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is malformed, or the credentials or the configuration cannot be used.
    #[error("{0}")]
    Address(String),
    /// The server cannot be reached, or the connection ended within an answer.
    #[error("no answer from {server}: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// The error of the connection.
        why: String,
    },
    /// The system refused the request.
    #[error("{server} refuses: {why}")]
    Refused {
        /// Host and port.
        server: String,
        /// Status and message of the system, and a hint.
        why: String,
    },
    /// No such object or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The object is another version than when it was listed or opened.
    #[error("changed meanwhile")]
    Changed,
    /// The answer violates the system's protocol, or the bytes do not match their checksum.
    #[error("{0}")]
    Wrong(String),
}

impl RemoteError {
    /// Converts this error into a [`StoreError`] for `action` on `path`.
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
