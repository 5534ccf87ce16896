//! Directories in the user's home directory, by the XDG base directory specification.

use std::ffi::OsString;
use std::path::PathBuf;

/// A kind of XDG directory: its environment variable, and its default path below the home directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeDir(&'static str, &'static str);

/// Data that a program can rebuild.
pub(crate) const CACHE: HomeDir = HomeDir("XDG_CACHE_HOME", ".cache");
/// Settings.
pub(crate) const CONFIG: HomeDir = HomeDir("XDG_CONFIG_HOME", ".config");
/// State that a program keeps from run to run.
pub(crate) const STATE: HomeDir = HomeDir("XDG_STATE_HOME", ".local/state");

impl HomeDir {
    /// Returns the directory that the environment names; `None` without an absolute path.
    pub(crate) fn find(self) -> Option<PathBuf> {
        self.find_by(|name| std::env::var_os(name))
    }

    /// Returns the directory that `variable` names. Relative paths do not count.
    pub(crate) fn find_by(self, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let Self(own, below_home) = self;
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        path(own).or_else(|| Some(path("HOME")?.join(below_home)))
    }
}
