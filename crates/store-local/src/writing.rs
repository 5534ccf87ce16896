//! How files are written, where somebody wants it otherwise.

use deltic_tree::RelPath;

use super::named::NamedDir;

/// How new versions come to their place. By default each grows in a staging directory of the destination and is
/// renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Zeros become holes (`--sparse`).
    pub sparse: bool,
    /// A new version has all of its blocks before it has content (`--preallocate`).
    pub preallocate: bool,
    /// A file that is there is changed where it is (`--inplace`). What is to change of it is staged all the same, so
    /// that nothing of it changes before all of the new version is proven.
    pub inplace: bool,
    /// But one of several names is replaced, so that each name ends with its own content.
    pub names_apart: bool,
    /// Commits wait for [`Posix::land`](deltic_store::Posix::land) (`--delay-updates`).
    pub delay: bool,
    /// Where new versions grow, instead of in the destination (`--temp-dir`).
    pub temp_dir: Option<NamedDir>,
    /// Where those are shown that are not complete (`--partial-dir`).
    pub partial_dir: Option<PartialDir>,
}

/// Where new versions are shown that are not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialDir {
    /// Below the directory of each file.
    Beside(RelPath),
    /// In one directory for all.
    Outside(NamedDir),
}
