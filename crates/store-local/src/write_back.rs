//! Writing a file to the disk while more of it comes: a call that rustix does not have.
#![allow(unsafe_code, reason = "sync_file_range: see docs/ARCHITECTURE.md, walls")]

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, c_uint};
use nix::errno::Errno;

/// Has the system begin to write all of `file` to the disk.
///
/// # Errors
/// Where something cannot be written. No later flush need tell of that.
pub(crate) fn begin(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WRITE)
}

/// The same, once what was begun before is on the disk: so no more is on its way than comes between two calls. It is
/// not durable by that.
///
/// # Errors
/// Those of [`begin`].
pub(crate) fn go_on(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE)
}

/// Waits for what was begun. This descriptor tells of each error once, whoever began.
///
/// # Errors
/// Those of [`begin`].
pub(crate) fn ended(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn sync_range(file: BorrowedFd<'_>, how: c_uint) -> Result<(), rustix::io::Errno> {
    let call = || {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of ours.
        Errno::result(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) }).map(drop)
    };
    let first = match call() {
        Ok(()) => return Ok(()),
        Err(errno) => errno,
    };
    // There may be no such call here, or it is not allowed: then all is left to the flush. A server of files may have
    // given the same number, which is told once.
    let is_missing = matches!(first, Errno::ENOSYS | Errno::EINVAL | Errno::EPERM)
        && call().is_err_and(|second| second == first);
    if is_missing { Ok(()) } else { Err(rustix::io::Errno::from_raw_os_error(first as i32)) }
}
