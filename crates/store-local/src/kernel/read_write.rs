//! Reads and writes whole buffers at an offset of a file.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};

/// Reads until `buf` is full or the file ends.
pub(crate) fn read_at(file: impl AsFd, start: u64, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buf.len() {
        match io::pread(&file, &mut buf[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes`.
pub(crate) fn write_at(file: BorrowedFd<'_>, start: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match io::pwrite(file, &bytes[written..], start + written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
