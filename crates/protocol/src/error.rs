//! Protocol errors of a peer. Every one of these errors ends the session.

use deltic_core::codec::CodecError;
use deltic_tree::path::BadPath;

/// The peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The stream does not begin with Deltic's magic; holds the first bytes, made printable.
    #[error("expected a deltic hello, got \"{0}\"")]
    NotDeltic(String),
    /// The stream begins with the magic of another version of Deltic's protocol; holds the name of that version.
    #[error("the other end speaks {0}, this one deltic/1")]
    OtherProtocol(String),
    /// The stream begins with an rsync greeting.
    #[error("rsync answered, where deltic was expected")]
    Rsync,
    /// The two ends lack a common capability that every session needs.
    #[error("no common {0}")]
    NothingInCommon(&'static str),
    /// A checksum of the stream does not match: the connection damaged the data.
    #[error("data was damaged in transit")]
    Damaged,
    /// The frame type is not known in this direction.
    #[error("unknown frame type {0}")]
    UnknownFrame(u8),
    /// A frame ends early, has bytes left over or holds a number that is not canonical.
    #[error("malformed {frame} frame: {source}")]
    Malformed {
        /// Name of the frame.
        frame: &'static str,
        /// The reason.
        source: CodecError,
    },
    /// A frame holds a name that is too long or could lead out of the root.
    #[error("bad name in {frame} frame: {source}")]
    BadName {
        /// Name of the frame.
        frame: &'static str,
        /// The reason.
        source: BadPath,
    },
    /// The peer exceeded an agreed limit.
    #[error("too much: {0}")]
    Limit(&'static str),
    /// The peer sent a frame that the present state does not allow.
    #[error("unexpected: {0}")]
    Unexpected(&'static str),
}
