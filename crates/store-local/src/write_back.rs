//! Starting to write a file to the disk, without waiting for it: a call that rustix does not have.
#![allow(unsafe_code, reason = "sync_file_range: see docs/ARCHITECTURE.md, walls")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Has the system begin to write `file` to the disk. Where it cannot, the flush that follows does all of it; and that
/// one tells of errors.
pub(crate) fn write_back(file: BorrowedFd<'_>) {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads and writes no memory of ours.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
