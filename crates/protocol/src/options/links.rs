//! Treatment of symlinks.

use deltic_core::codec::{Put, Reader};
use deltic_tree::Follow;

use crate::wire::codec::{Bad, Wire, closed_set, put_flags, take_flags};

/// Symlinks that are followed or left out. By default all are links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Symlinks that are followed where the sources are.
    pub follow: Follow,
    /// Leave out those that may lead out of the tree (`--safe-links`).
    pub safe: bool,
    /// The receiver puts a word before targets that makes them lead nowhere (`--munge-links` at the destination).
    pub munge: bool,
    /// Take symlinks of the receiver for the directories that they lead to, where the sender has directories (`-K`).
    pub keep_dirs: bool,
    /// The sender takes that word off (`--munge-links` at the sources).
    pub unmunge: bool,
    /// Follow symlinks on the way to directories that options name, whoever made them (`--insecure-links`).
    pub insecure: bool,
}

closed_set!(Follow: Never = 0, Dirs = 1, Unsafe = 2, All = 3, DirsAndUnsafe = 4);

impl Wire for Links {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { safe, munge, keep_dirs, unmunge, insecure, .. } = *self;
        put_flags(to, [safe, munge, keep_dirs, unmunge, insecure]);
        self.follow.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let [safe, munge, keep_dirs, unmunge, insecure] = take_flags(from)?;
        Ok(Self { follow: Wire::take(from)?, safe, munge, keep_dirs, unmunge, insecure })
    }
}
