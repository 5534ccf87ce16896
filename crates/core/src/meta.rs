//! What a tree says of an entry besides its content.

use crate::path::Name;

/// An instant as file systems keep it: seconds since 1970 (before: negative) and nanoseconds into the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub secs: i64,
    /// Nanoseconds past `secs`, below 1,000,000,000.
    pub nanos: u32,
}

/// What kind of entry a name is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link and the bytes it points at; never followed below a root.
    Symlink(Box<[u8]>),
    /// A device, FIFO or socket: listed, never transferred.
    Other,
}

/// The mode bits that an owner needs of a directory to work in it.
pub const OWNER_BITS: u32 = 0o700;

/// An entry's kind, size, modification time and mode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Length in bytes; 0 for anything but a file.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// Permission bits (`0o7777`).
    pub mode: u32,
}

impl Meta {
    /// Whether this is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }
}

/// A name in a directory and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// What the tree says of it.
    pub meta: Meta,
}
