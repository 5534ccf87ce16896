//! The directory of the cache: the user's own for what can be made anew.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::words::home::CACHE;

/// The variable that names the directory.
pub(crate) const VARIABLE: &str = "DELTIC_CACHE_DIR";

/// Reads the directory from the environment; `None` where it says nothing that makes sense.
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
