//! Errors of a peer. Each of these ends the session.

use deltic_core::codec::CodecError;
use deltic_tree::path::BadPath;

/// The peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The stream does not begin as a Deltic's does; holds its first bytes, made printable.
    #[error("expected a deltic hello, got \"{0}\"")]
    NotDeltic(String),
    /// The stream begins as that of a Deltic whose protocol is another; holds its name.
    #[error("the other end speaks {0}, this one deltic/1")]
    OtherProtocol(String),
    /// The stream begins as rsync's does.
    #[error("rsync answered, where deltic was expected")]
    Rsync,
    /// No capability in common that a session could be held with.
    #[error("no common {0}")]
    NothingInCommon(&'static str),
    /// A check does not hold: the way between the ends changed what it carried.
    #[error("the connection damaged what it carried")]
    Damaged,
    /// A frame's type is not known in this direction.
    #[error("unknown frame type {0}")]
    UnknownFrame(u8),
    /// A frame ends early, late or holds a number that is not canonical.
    #[error("malformed {frame} frame: {source}")]
    Malformed {
        /// The frame's name.
        frame: &'static str,
        /// The reason.
        source: CodecError,
    },
    /// A name that could leave its root, or is too long.
    #[error("bad name in {frame} frame: {source}")]
    BadName {
        /// The frame's name.
        frame: &'static str,
        /// The reason.
        source: BadPath,
    },
    /// More of something than was agreed.
    #[error("too much: {0}")]
    Limit(&'static str),
    /// A frame that makes no sense in the present state.
    #[error("unexpected: {0}")]
    Unexpected(&'static str),
}
