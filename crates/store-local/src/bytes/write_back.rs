//! Writes parts of a file to the disk while more bytes arrive, by `sync_file_range`, which rustix lacks.
#![allow(unsafe_code, reason = "sync_file_range: see docs/ARCHITECTURE.md, walls")]

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, c_uint};
use nix::errno::Errno;

/// Starts write-back of all of `file`.
///
/// # Errors
/// Bytes could not be written. A later flush may not report that again.
pub(crate) fn start(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WRITE)
}

/// Waits for the write-back that was started before, and starts write-back of newer bytes. So only the bytes between
/// two calls are being written. This does not make the bytes durable.
///
/// # Errors
/// As [`start`].
pub(crate) fn advance(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE)
}

/// Waits for write-back that was started before. This descriptor reports each error once, whichever call caused it.
///
/// # Errors
/// As [`start`].
pub(crate) fn wait(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    sync_range(file, SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn sync_range(file: BorrowedFd<'_>, how: c_uint) -> Result<(), rustix::io::Errno> {
    let call = || {
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the call accesses no memory of this
        // process.
        Errno::result(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) }).map(drop)
    };
    let first = match call() {
        Ok(()) => return Ok(()),
        Err(errno) => errno,
    };
    // The call may be missing or forbidden: then the flush does all the work. A file server may have caused the same
    // error. A server reports an error only once, so a second call shows the difference.
    let is_missing = matches!(first, Errno::ENOSYS | Errno::EINVAL | Errno::EPERM)
        && call().is_err_and(|second| second == first);
    if is_missing { Ok(()) } else { Err(rustix::io::Errno::from_raw_os_error(first as i32)) }
}
