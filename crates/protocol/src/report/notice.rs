//! Notices of a running machine. The totals are the last notice.

use deltic_core::BlockSumSpec;
use deltic_tree::{Meta, RelPath};

use super::change::Change;
use super::reason::ReadReason;
use super::trouble::Trouble;

/// The destination did not exist and was created (in a dry run: would be created).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeRoot {
    /// Number of created directories: the root and missing parents.
    pub dirs: u64,
    /// True if the root is the parent of the file that the destination argument names.
    pub holds_file: bool,
}

/// Question to the user before many names are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Number of names that would be deleted.
    pub names: u64,
    /// Number of names at the destination, including the names to be deleted.
    pub of: u64,
    /// First names that would be deleted, at most [`MAX_ASKED`](crate::limits::MAX_ASKED); a directory counts as one
    /// name.
    pub first: Vec<RelPath>,
}

/// Counts of a whole run, as seen by the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files in the sender's list.
    pub files: u64,
    /// Directories in the sender's list, including the root where the root is part of the transfer.
    pub dirs: u64,
    /// Symbolic links in the sender's list.
    pub links: u64,
    /// Devices in the sender's list.
    pub devices: u64,
    /// FIFOs and sockets in the sender's list.
    pub specials: u64,
    /// Length of all listed files and symlink targets, in bytes.
    pub bytes: u64,
    /// Names that were created.
    pub created: u64,
    /// Files with replaced or new content.
    pub transferred: u64,
    /// Length of the transferred files, in bytes.
    pub transferred_bytes: u64,
    /// Bytes of the transferred files that were sent as literals.
    pub literal: u64,
    /// Bytes of the transferred files that the receiver already had.
    pub matched: u64,
    /// Matched bytes that an interrupted run had left.
    pub resumed: u64,
    /// Names that were deleted; in a dry run, names that a real run would delete.
    pub deleted: u64,
    /// Names that could not be synced.
    pub failed: u64,
}

impl Totals {
    /// Returns the number of all names in the sender's list.
    #[must_use]
    pub const fn listed(&self) -> u64 {
        self.files + self.dirs + self.links + self.devices + self.specials
    }
}

/// Sums by which the ends of a session compare a file with its old version, and sums that storage keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedSums {
    /// Path below the root.
    pub path: RelPath,
    /// Sums that the storage of this end keeps of its version. `None` if it keeps none that the strategy can ask for.
    pub here: Option<BlockSumSpec>,
    /// Sums that the storage of the other end keeps.
    pub there: PeerSums,
    /// Stored sums that the signature is made of. `None` for the strategy's own sums, which are computed.
    pub agreed: Option<BlockSumSpec>,
}

/// Sums that the storage of the other end keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSums {
    /// The other end does not tell: a receiver sends only its choice.
    Untold,
    /// The other end told.
    Told(Option<BlockSumSpec>),
}

/// A notice of a running machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Progress of the sender's list.
    Listed {
        /// Names of all kinds so far, including names that are not transferred.
        names: u64,
        /// Regular files among these names.
        files: u64,
        /// Length of the regular files in bytes.
        bytes: u64,
        /// True once the list is complete.
        complete: bool,
    },
    /// Further bytes of the listed files are settled: up to date, matched or sent.
    Settled {
        /// Bytes; the sum of all notices never exceeds the listed bytes.
        bytes: u64,
    },
    /// Bytes sent and received so far; reported now and then.
    Wire {
        /// Bytes since the session began.
        bytes: u64,
    },
    /// Every file is in place or has failed. Deletions, directory attributes and flushes remain.
    Closing,
    /// A listed name; only in runs that list and transfer nothing.
    Entry {
        /// Path below the root.
        path: RelPath,
        /// Metadata.
        meta: Meta,
    },
    /// The destination did not exist and is created; reported before any change.
    MadeRoot(MadeRoot),
    /// A name changed.
    Changed(Change),
    /// Both ends agreed on the sums of a file.
    Agreed(AgreedSums),
    /// The reason why the sender reads a large file whole or in part. Another attempt at the file reports its own.
    ReadReason {
        /// Path below the root.
        path: RelPath,
        /// The reason.
        reason: ReadReason,
    },
    /// A source was removed after the arrival of the copy.
    Removed(RelPath),
    /// A name failed.
    Trouble(Trouble),
    /// The run is over; nothing follows.
    Finished(Totals),
}
