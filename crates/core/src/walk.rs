//! How sources are walked: the nouns that the wire and the trees share.

/// Which symlinks are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// None.
    #[default]
    Never,
    /// Those to directories (`--copy-dirlinks`).
    Dirs,
    /// Those whose words may lead out of the tree (`--copy-unsafe-links`).
    Unsafe,
    /// All (`--copy-links`).
    All,
    /// Those to directories, and those that may lead out (`--copy-dirlinks --copy-unsafe-links`).
    DirsAndUnsafe,
}

/// What becomes of directories on which another file system is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mounts {
    /// They are like any other.
    #[default]
    Enter,
    /// They are listed, and nothing in them (`-x`).
    Empty,
    /// They are not listed (`-xx`).
    LeaveOut,
}
