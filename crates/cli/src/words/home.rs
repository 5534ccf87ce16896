//! Directories of the user's own, where the XDG base directory specification has them.

use std::ffi::OsString;
use std::path::PathBuf;

/// A kind of such a directory: the variable that names it, and where it is in the home directory otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeDir(&'static str, &'static str);

/// What can be made anew.
pub(crate) const CACHE: HomeDir = HomeDir("XDG_CACHE_HOME", ".cache");
/// Settings.
pub(crate) const CONFIG: HomeDir = HomeDir("XDG_CONFIG_HOME", ".config");
/// What a program keeps from run to run.
pub(crate) const STATE: HomeDir = HomeDir("XDG_STATE_HOME", ".local/state");

impl HomeDir {
    /// Finds it by the environment; `None` where that says nothing that makes sense.
    pub(crate) fn find(self) -> Option<PathBuf> {
        self.find_by(|name| std::env::var_os(name))
    }

    /// Finds it by these variables: a path that is not absolute does not count.
    pub(crate) fn find_by(self, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let Self(own, below_home) = self;
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        path(own).or_else(|| Some(path("HOME")?.join(below_home)))
    }
}
