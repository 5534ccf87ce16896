//! Reasons why the sender read a large file whole or in part.

/// The reason why the sender read a large file whole or in part (docs/decisions/0037).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadReason {
    /// The extents showed which bytes changed since the last sync; no other bytes were read.
    Changed {
        /// Changed bytes.
        changed: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// The extents showed which bytes changed, and stored sums showed which of these bytes the destination has at
    /// another offset. No other bytes were read.
    Moved {
        /// Bytes that were read.
        read: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// Sums showed which bytes differ from the version at the destination; no other bytes were read.
    Differs {
        /// Bytes that differ at the same offsets.
        differ: u64,
        /// Bytes of these that the version at the destination has at other offsets.
        shifted: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// The store reports no extents, for the given reason.
    NoFacts(String),
    /// No earlier sync noted the version at the destination.
    NoBase,
    /// The sender lost the facts about the version at the destination.
    ForgottenBase,
    /// The file system was mounted again since the last sync, so extents tell nothing.
    NewMount,
    /// Much of the file changed, and some bytes may only have moved. Sums do not show which, for the given reason.
    MuchChanged(String),
}
