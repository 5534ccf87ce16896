//! The user's cache directory, for data that a later run can rebuild.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::words::home::CACHE;

/// The environment variable that names the cache directory.
pub(crate) const VARIABLE: &str = "DELTIC_CACHE_DIR";

/// Returns the cache directory that the environment names; `None` without an absolute path.
pub(crate) fn dir() -> Option<PathBuf> {
    choose(|name| std::env::var_os(name))
}

fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = path(VARIABLE);
    own.or_else(|| Some(CACHE.find_by(&variable)?.join("deltic")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_counts_and_a_relative_one_does_not() {
        let chosen = |words: &[(&str, &str)]| {
            choose(|name| {
                words.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let home = ("HOME", "/home/a");
        assert_eq!(chosen(&[home]), Some("/home/a/.cache/deltic".into()));
        let xdg = ("XDG_CACHE_HOME", "/xdg");
        assert_eq!(chosen(&[home, xdg]), Some("/xdg/deltic".into()));
        assert_eq!(chosen(&[home, xdg, ("DELTIC_CACHE_DIR", "/own")]), Some("/own".into()));
        assert_eq!(chosen(&[home, ("XDG_CACHE_HOME", "x")]), Some("/home/a/.cache/deltic".into()));
        assert_eq!(chosen(&[("HOME", "")]), None);
        assert_eq!(chosen(&[]), None);
    }
}
