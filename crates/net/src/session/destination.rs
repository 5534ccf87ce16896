//! What a session needs of a destination, besides the store that changes.

use deltic_protocol::options::Options;
use deltic_store::Store;
use deltic_tree::Name;

use crate::worker::owners::Accounts;

/// A destination that was opened for one session. What the store itself decides (quotas, old versions that are kept,
/// places where files are staged) is no part of this value.
pub struct OpenDestination<S> {
    /// The tree that changes.
    pub store: S,
    /// The new name of the only entry, where the destination's path is that of a file and not of a directory.
    pub rename: Option<Name>,
    /// Number of directories that were made for this session: the root and directories above.
    pub made_dirs: u64,
    /// True if the request named the root with a slash at the end, so the root is wanted even if nothing is put there.
    pub root_is_wanted: bool,
    /// The trees of `--compare-dest`, `--copy-dest` or `--link-dest`, in the order of the options; `None` for a tree that
    /// could not be opened.
    pub alternates: Vec<Option<S>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Names of users and groups where the store is.
    pub accounts: Accounts,
    /// Dropped when the session has ended, however it ended.
    pub at_end: Box<dyn Send>,
}

/// A request for a destination.
#[derive(Clone, Debug)]
pub struct DestinationRequest {
    /// The path, as the user wrote it.
    pub path: Box<[u8]>,
    /// The name of the only entry that comes, if only one comes.
    pub single: Option<Name>,
    /// Options of the run.
    pub options: Options,
}

impl<S: Store> OpenDestination<S> {
    /// The root of `store`, on a machine without users, with no other trees to compare with.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self {
            store,
            rename: None,
            made_dirs: 0,
            root_is_wanted: false,
            alternates: Vec::new(),
            warnings: Vec::new(),
            accounts: Accounts::NONE,
            at_end: Box::new(()),
        }
    }
}
