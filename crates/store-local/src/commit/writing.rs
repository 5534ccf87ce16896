//! Options for writing files.

use deltic_tree::RelPath;

use crate::roots::named::NamedDir;

/// Options for putting new versions in place. By default, a new version grows in a staging directory of the destination
/// and is then renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOptions {
    /// Writes zeros as holes (`--sparse`).
    pub sparse: bool,
    /// Allocates all blocks of a new version before writing (`--preallocate`).
    pub preallocate: bool,
    /// Changes existing files in place (`--inplace`). Changed ranges are staged even so: the file changes only after
    /// all of the new version is verified.
    pub inplace: bool,
    /// With `inplace`, replaces files with several hard links, so that each name gets separate content.
    pub names_apart: bool,
    /// Commits wait for [`Posix::land`](deltic_store::Posix::land) (`--delay-updates`).
    pub delay: bool,
    /// The directory in which new versions grow, in place of the destination (`--temp-dir`).
    pub temp_dir: Option<NamedDir>,
    /// The place where unfinished versions are visible (`--partial-dir`).
    pub partial_dir: Option<PartialDir>,
}

/// The place where unfinished versions are visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialDir {
    /// A directory at this path below the directory of each file.
    Beside(RelPath),
    /// A single directory for all files.
    Outside(NamedDir),
}
