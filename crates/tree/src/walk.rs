//! Options of a walk through sources, shared by the wire and the stores.

/// Policy for symlinks during a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// No symlinks.
    #[default]
    Never,
    /// Symlinks to directories (`--copy-dirlinks`).
    Dirs,
    /// Symlinks that may lead out of the tree (`--copy-unsafe-links`).
    Unsafe,
    /// Every symlink (`--copy-links`).
    All,
    /// Symlinks to directories, and symlinks that may lead out (`--copy-dirlinks --copy-unsafe-links`).
    DirsAndUnsafe,
}

/// Treatment of mount points of other file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mounts {
    /// Walked like any directory.
    #[default]
    Enter,
    /// Listed as empty directories (`-x`).
    Empty,
    /// Left out (`-xx`).
    LeaveOut,
}
