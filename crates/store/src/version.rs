//! Versions of files, told apart without reading them.

use deltic_tree::Timestamp;

/// A version of a file. Any store can fill it: two that are equal are of one content.
///
/// Times are of the store's own clock. A store of which no token returns needs none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Tells the file from all others of its store, or this version of it from all others.
    pub token: VersionToken,
    /// Length in bytes.
    pub len: u64,
    /// When its content was changed, as whoever may write to it says.
    pub modified: Timestamp,
    /// When it was changed in any way: another change in the same tick of the clock looks the same.
    pub changed: Timestamp,
}

/// Bytes of a store's own: an inode, a generation, a hash of an entity tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionToken(pub [u8; 32]);
