//! Copies spans between files. The copy shares blocks where the file system can.
//!
//! `copy_file_range` shares blocks by itself on btrfs and xfs, and copies inside the kernel elsewhere; the unsafe
//! `FICLONERANGE` is not needed. But only parts that are aligned on both sides are shared, so a span is cut in three:
//! head and tail are read and written, the aligned middle is left to the kernel. Short spans are always read and
//! written: sharing costs a transaction each, and fragments the new file. Spans with different alignment on the two
//! sides are read and written too: the kernel would copy them page by page.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use rustix::fs;
use rustix::io::Errno;

use super::holes::for_each_data;
use crate::kernel::lock;
use crate::kernel::read_write::{read_at, write_at};

/// Copies spans, and remembers pairs of devices between which the kernel does not copy.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    by_hand: Mutex<HashSet<DevicePair>>,
}

/// The devices of both sides of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DevicePair {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A file as one side of a copy.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) device: u64,
}

impl Copier {
    /// True if the kernel should copy this span between these devices.
    pub(crate) fn may_share(&self, devices: DevicePair, old: &Range<u64>, new_start: u64) -> bool {
        let aligned = aligned_part(old, new_start);
        let is_short = aligned.end - aligned.start < MIN_KERNEL_COPY_BYTES;
        !is_short && !lock(&self.by_hand).contains(&devices)
    }

    /// Copies the bytes `old` of `from` to `new_start` of `to`, from front to back: if the copy ends early, all bytes
    /// of a growing file up to its end are right. Returns false if `from` ends before `old` does.
    pub(crate) fn copy_range(
        &self,
        from: End<'_>,
        old: Range<u64>,
        to: End<'_>,
        new_start: u64,
    ) -> Result<bool, Errno> {
        let devices = DevicePair { from: from.device, to: to.device };
        let aligned = aligned_part(&old, new_start);
        if !self.may_share(devices, &old, new_start) {
            return copy_by_read_write(from.file, old, to.file, new_start);
        }
        let new_at = |old_at: u64| new_start + (old_at - old.start);
        if !copy_by_read_write(from.file, old.start..aligned.start, to.file, new_start)? {
            return Ok(false);
        }
        let done = match copy_by_kernel(from.file, aligned.clone(), to.file, new_at(aligned.start))
        {
            Ok(done) => done,
            Err((done, errno)) if is_unsupported(errno) => {
                lock(&self.by_hand).insert(devices);
                done
            }
            Err((_, errno)) => return Err(errno),
        };
        let rest = aligned.start + done;
        copy_by_read_write(from.file, rest..old.end, to.file, new_at(rest))
    }
}

impl Copier {
    /// Copies a file of `len` bytes into an empty file, with holes where the file has holes. Returns false if `from`
    /// ends before `len`.
    pub(crate) fn copy_with_holes(
        &self,
        from: End<'_>,
        len: u64,
        to: End<'_>,
    ) -> Result<bool, Errno> {
        let mut whole = true;
        let told = for_each_data(from.file, 0..len, |run| {
            whole &= self.copy_range(from, run.clone(), to, run.start)?;
            Ok(())
        })?;
        if !told {
            return self.copy_range(from, 0..len, to, 0);
        }
        fs::ftruncate(to.file, len)?;
        Ok(whole)
    }
}

/// Returns the part of `old` that is aligned to blocks on both sides. Empty if old and new positions differ modulo the
/// block size.
fn aligned_part(old: &Range<u64>, new_start: u64) -> Range<u64> {
    if old.start % BLOCK_BYTES != new_start % BLOCK_BYTES {
        return old.end..old.end;
    }
    let start = old.start.next_multiple_of(BLOCK_BYTES).min(old.end);
    start..(old.end - old.end % BLOCK_BYTES).max(start)
}

/// Copies by the kernel. Returns the number of copied bytes; an error has this number too.
fn copy_by_kernel(
    from: BorrowedFd<'_>,
    old: Range<u64>,
    to: BorrowedFd<'_>,
    new_start: u64,
) -> Result<u64, (u64, Errno)> {
    let (mut old_at, mut new_at) = (old.start, new_start);
    while old_at < old.end {
        let left = usize::try_from(old.end - old_at).unwrap_or(usize::MAX);
        match fs::copy_file_range(from, Some(&mut old_at), to, Some(&mut new_at), left) {
            // The old file ends here, or the file system pretends so. Reading the rest will show which.
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err((old_at - old.start, errno)),
        }
    }
    Ok(old_at - old.start)
}

fn copy_by_read_write(
    from: BorrowedFd<'_>,
    old: Range<u64>,
    to: BorrowedFd<'_>,
    new_start: u64,
) -> Result<bool, Errno> {
    let start = old.start;
    read_in_parts(from, old, |at, bytes| write_at(to, new_start + (at - start), bytes))
}

/// Passes the bytes `old` of `from` to `each`, buffer by buffer, with their offset. Returns false if `from` ends
/// before `old` does.
pub(crate) fn read_in_parts(
    from: BorrowedFd<'_>,
    old: Range<u64>,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    BUFFER.with_borrow_mut(|buf| {
        buf.resize(BUFFER_BYTES as usize, 0);
        let mut old_at = old.start;
        while old_at < old.end {
            let want = (old.end - old_at).min(BUFFER_BYTES) as usize;
            let got = read_at(from, old_at, &mut buf[..want])?;
            each(old_at, &buf[..got])?;
            if got < want {
                return Ok(false);
            }
            old_at += got as u64;
        }
        Ok(true)
    })
}

thread_local! {
    /// Buffer that copies reuse: memory that is new to the process costs as much as copying into it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOSYS)
}

/// Block size in bytes of nearly every file system. With larger blocks, sharing fails and the kernel copies.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const MIN_KERNEL_COPY_BYTES: u64 = 128 << 10;
const BUFFER_BYTES: u64 = 512 << 10;
