//! Notices of a running machine, the last of which is the totals.

use deltic_tree::{Meta, RelPath};

use super::change::Change;
use super::trouble::Trouble;

/// The destination was not there, and was made (in a dry run: would be).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeRoot {
    /// Directories that were made: the root, and what lacked above it.
    pub dirs: u64,
    /// True where it holds the file that the destination names, and is not the destination itself.
    pub holds_file: bool,
}

/// A question to the user before many names are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names that would go.
    pub names: u64,
    /// Names that there are at the destination, those among them.
    pub of: u64,
    /// The first of those that would go, at most [`MAX_ASKED`](crate::limits::MAX_ASKED); of a directory only itself.
    pub first: Vec<RelPath>,
}

/// Counts of a whole run, as the receiver saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files in the sender's list.
    pub files: u64,
    /// Directories in the sender's list, with the root where it is part of the transfer.
    pub dirs: u64,
    /// Symbolic links in the sender's list.
    pub links: u64,
    /// Devices in the sender's list.
    pub devices: u64,
    /// FIFOs and sockets in the sender's list.
    pub specials: u64,
    /// Length of all listed files and of where links point, in bytes.
    pub bytes: u64,
    /// Names that were created.
    pub created: u64,
    /// Files whose content was replaced or created.
    pub transferred: u64,
    /// Length of those files, in bytes.
    pub transferred_bytes: u64,
    /// Bytes of them that were sent.
    pub literal: u64,
    /// Bytes of them that the receiver already had.
    pub matched: u64,
    /// Bytes of those that an interrupted run had left.
    pub resumed: u64,
    /// Names that were removed; in a dry run those that another run would remove.
    pub deleted: u64,
    /// Names that could not be synced.
    pub failed: u64,
}

impl Totals {
    /// All names in the sender's list.
    #[must_use]
    pub const fn listed(&self) -> u64 {
        self.files + self.dirs + self.links + self.devices + self.specials
    }
}

/// A notice of a running machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The sender's list so far; `complete` once it will not grow any more.
    Listed {
        /// Names of all kinds so far, also of those that take no part.
        names: u64,
        /// Regular files among them.
        files: u64,
        /// Their length in bytes.
        bytes: u64,
        /// True once the list is complete.
        complete: bool,
    },
    /// More bytes of the listed files are settled: found up to date, matched or sent.
    Settled {
        /// Bytes, never more in sum than were listed.
        bytes: u64,
    },
    /// Bytes that went over the wire so far, both ways; given now and then.
    Wire {
        /// Bytes since the session began.
        bytes: u64,
    },
    /// Every file is in place or has failed: what is left is deleting, setting directories and flushing.
    Closing,
    /// A listed name; only where that is all there is to tell.
    Entry {
        /// Path below the root.
        path: RelPath,
        /// Metadata.
        meta: Meta,
    },
    /// The destination was not there; told before any change.
    MadeRoot(MadeRoot),
    /// A name changed.
    Changed(Change),
    /// A source that arrived is removed.
    Removed(RelPath),
    /// A name failed.
    Trouble(Trouble),
    /// The run is over; nothing follows.
    Finished(Totals),
}
