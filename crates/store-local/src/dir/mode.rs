//! Modes of what is held.

use std::os::fd::AsFd;

use rustix::fs::{self, Mode};
use rustix::io::Errno;

use super::jail::allowed;
use super::proc_path;

/// Changes the mode of an open file or directory. `rustix` has no function for it that goes through the C library,
/// where wrappers such as fakeroot stand.
pub(crate) fn set_mode_of_open(open: impl AsFd, mode: Mode) -> Result<(), Errno> {
    let mode = nix::sys::stat::Mode::from_bits_retain(allowed(mode).bits());
    nix::sys::stat::fchmod(open, mode).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// Changes the mode of what `handle` stands for: the only way where it may not be read, before Linux 6.6.
#[expect(clippy::disallowed_methods, reason = "the path is that of a handle")]
pub(crate) fn set_mode_of_held(handle: impl AsFd, mode: Mode) -> Result<(), Errno> {
    fs::chmod(proc_path(handle.as_fd()), allowed(mode))
}
