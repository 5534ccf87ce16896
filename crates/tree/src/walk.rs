//! Walks of sources: the nouns that the wire and the trees share.

/// Symlinks that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// None.
    #[default]
    Never,
    /// Links to directories (`--copy-dirlinks`).
    Dirs,
    /// Links whose words may lead out of the tree (`--copy-unsafe-links`).
    Unsafe,
    /// All (`--copy-links`).
    All,
    /// Links to directories, and those that may lead out (`--copy-dirlinks --copy-unsafe-links`).
    DirsAndUnsafe,
}

/// Treatment of directories on which another file system is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mounts {
    /// Entered like any other.
    #[default]
    Enter,
    /// Listed, and nothing in them (`-x`).
    Empty,
    /// Left out (`-xx`).
    LeaveOut,
}
