//! Parsers for single arguments: sizes, rates, ages, times, places, levels.

pub(crate) mod age;
pub(crate) mod home;
pub(crate) mod levels;
pub(crate) mod password;
pub(crate) mod place;
pub(crate) mod rate;
pub(crate) mod refused;
pub(crate) mod shell;
pub(crate) mod size;
pub(crate) mod ways;
pub(crate) mod zone;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// True if a program of this name poses as rsync: the name ends in `rsync`.
pub(crate) fn is_rsync(name: &OsStr) -> bool {
    Path::new(name).file_name().is_some_and(|name| name.as_bytes().ends_with(b"rsync"))
}
