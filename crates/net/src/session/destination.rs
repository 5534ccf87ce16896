//! The description of a destination that a session opens, beyond the store itself.

use deltic_protocol::options::Options;
use deltic_store::Store;
use deltic_tree::Name;

use deltic_worker::owners::Accounts;

/// A destination that was opened for a session. Settings that the store itself decides (quotas, backups, places for
/// staged files) are not part of this value.
pub struct OpenDestination<S> {
    /// The tree that changes.
    pub store: S,
    /// The new name of the only entry, if the destination's path is that of a file and not of a directory.
    pub rename: Option<Name>,
    /// Number of directories that were made for this session: the root and its missing parents.
    pub made_dirs: u64,
    /// True if the request named the root with a trailing slash, so that even an empty root is wanted.
    pub root_is_wanted: bool,
    /// The trees of `--compare-dest`, `--copy-dest` or `--link-dest`, in the order of the options; `None` for a tree
    /// that could not be opened.
    pub alternates: Vec<Option<S>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Functions that look up users and groups of the store's machine.
    pub accounts: Accounts,
    /// Dropped when the session has ended, successfully or not.
    pub at_end: Box<dyn Send>,
}

/// A request for a destination.
#[derive(Clone, Debug)]
pub struct DestinationRequest {
    /// The path, as the user wrote it.
    pub path: Box<[u8]>,
    /// The name of the only entry to be received, if there is only one.
    pub single: Option<Name>,
    /// Options of the run.
    pub options: Options,
}

impl<S: Store> OpenDestination<S> {
    /// Returns the root of `store`, without users, groups or alternate trees.
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
