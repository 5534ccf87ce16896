//! Changes of the modes of open files and handles.

use std::os::fd::AsFd;

use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::{PathBounds, proc_path};

/// Changes the mode of an open file or directory, to the bits that `bounds` allow. The call goes through the C library,
/// which wrappers such as fakeroot intercept; `rustix` has no such function.
pub(crate) fn set_mode_of_open(
    open: impl AsFd,
    mode: Mode,
    bounds: &PathBounds,
) -> Result<(), Errno> {
    let mode = nix::sys::stat::Mode::from_bits_retain(bounds.allowed_mode(mode).bits());
    nix::sys::stat::fchmod(open, mode).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Changes the mode of the entry behind `handle`, to the bits that `bounds` allow. Before Linux 6.6, this is the only
/// way for an entry that may not be read.
#[expect(clippy::disallowed_methods, reason = "the path is that of a handle")]
pub(crate) fn set_mode_of_held(
    handle: impl AsFd,
    mode: Mode,
    bounds: &PathBounds,
) -> Result<(), Errno> {
    fs::chmod(proc_path(handle.as_fd()), bounds.allowed_mode(mode))
}
