//! Writing a file to the disk while more of it comes: a call that rustix does not have.
#![allow(unsafe_code, reason = "sync_file_range: see docs/ARCHITECTURE.md, walls")]

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, c_uint};
use nix::errno::Errno;

/// Has the system begin to write all of `file` to the disk. Where it cannot, the flush that follows does that, and tells
/// of errors.
pub(crate) fn begin(file: BorrowedFd<'_>) {
    let _ = sync_range(file, SYNC_FILE_RANGE_WRITE);
}

/// The same, once what was begun before is on the disk: so no more is on its way than comes between two calls. It is
/// not durable by that.
///
/// # Errors
/// Where something could not be written. No later flush tells of that.
pub(crate) fn go_on(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    match sync_range(file, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) {
        // The system has or allows no such call: there is the flush.
        Ok(()) | Err(Errno::ENOSYS | Errno::EINVAL | Errno::EPERM) => Ok(()),
        Err(errno) => Err(rustix::io::Errno::from_raw_os_error(errno as i32)),
    }
}

fn sync_range(file: BorrowedFd<'_>, how: c_uint) -> Result<(), Errno> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads and writes no memory of ours.
    Errno::result(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) }).map(drop)
}
