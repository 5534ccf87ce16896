//! Facts that file systems keep about the files of a tree.
//!
//! The file systems that have none cost one call. What needs a privilege that this process lacks is asked for once, and
//! then of a [service] that has it.

mod btrfs;
mod history;
mod ioctl;
mod leaves;
mod map;
mod search;
pub mod service;
mod sums;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use deltic_core::verity::VerityDescriptor;
use deltic_core::{StoredSums, SumKind};
use deltic_store::Extents;
use rustix::io::Errno;

pub use self::map::Mapped;
use self::search::By;
use crate::system::{BTRFS, kind_of};

/// The extents of `file`, of which `len` bytes are looked at. They are of the version that it is before and after the
/// call, if it is the same.
pub(super) fn extents(file: BorrowedFd<'_>, len: u64) -> Option<Extents> {
    if kind_of(file).ok()? != BTRFS {
        return None;
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match btrfs::extents(file, len, By::Own) {
            Err(Errno::PERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            told => return told.ok().flatten(),
        }
    }
    service::extents(file, len)
}

/// The places of `len` bytes of `file`, by the word of any file system.
pub(super) fn mapped(file: BorrowedFd<'_>, len: u64) -> Option<Mapped> {
    map::map(file, len).ok().flatten()
}

/// True if this process lacks the privilege to ask.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The sums that are kept of a part of `file`, which has `len` bytes; of the version that it is before and after the
/// call, if it is the same: what btrfs or fs-verity has.
pub(super) fn stored_sums(
    file: BorrowedFd<'_>,
    range: &Range<u64>,
    len: u64,
) -> Option<StoredSums> {
    // Files may tell their sums where the tree is refused.
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if kind_of(file).ok()? != BTRFS {
        let told = described(file, len)?;
        return leaves::leaves(&told, range, |no, into| ioctl::verity_tree(file, no, into).ok());
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match sums::sums(file, range, len, By::Own) {
            Err(Errno::PERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            told => return told.ok().flatten(),
        }
    }
    service::sums(file, range, len)
}

/// Sums that a file system keeps. Some of its files may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Sums of blocks of so many bytes.
    Blocks(SumKind, u32),
    /// Digests of files that can never be written again (fs-verity).
    Verity,
}

/// The kind of the sums of blocks that the file system of `file` keeps.
pub(super) fn sum_kind(file: BorrowedFd<'_>) -> Option<SumKind> {
    match kind_of(file).ok()? {
        BTRFS => btrfs::Info::of(file).ok()?.sums,
        _ => None,
    }
}

/// The sums that the file system of a directory keeps.
#[must_use]
pub fn kept(dir: BorrowedFd<'_>) -> Option<Kept> {
    if kind_of(dir).ok()? == BTRFS {
        let info = btrfs::Info::of(dir).ok()?;
        return Some(Kept::Blocks(info.sums?, info.sector_bytes.try_into().ok()?));
    }
    matches!(ioctl::measure_verity(dir), Ok(_) | Err(Errno::NODATA)).then_some(Kept::Verity)
}

/// Project that new files in `dir` inherit, for quotas of projects.
pub(super) fn project(dir: impl AsFd) -> Option<u32> {
    let told = ioctl::told(dir.as_fd()).ok()?;
    (told.flags & ioctl::HANDS_DOWN_PROJECT != 0).then_some(told.project)
}

/// The digest that the kernel checks reads of `file` against, if it is one of the usual kind, of `len` bytes.
pub(super) fn verity(file: BorrowedFd<'_>, len: u64) -> Option<[u8; 32]> {
    described(file, len).map(|told| told.digest())
}

/// The way in which that digest was taken.
fn described(file: BorrowedFd<'_>, len: u64) -> Option<VerityDescriptor> {
    let digest = ioctl::measure_verity(file).ok()?;
    // Btrfs does not tell how it was taken, and other ways give other digests.
    let told = VerityDescriptor::read(&ioctl::verity_descriptor(file).ok()?)?;
    (told.len == len && Some(told.digest()) == digest).then_some(told)
}

/// Why the extents of `file`, which were asked for, are not told.
pub(super) fn lack(file: BorrowedFd<'_>) -> String {
    match kind_of(file) {
        Ok(kind) if kind != BTRFS => "its file system keeps none (btrfs does)".to_owned(),
        Ok(_) if IS_REFUSED.load(Ordering::Relaxed) && !service::answered() => {
            let socket = service::socket();
            let socket = socket.display();
            format!("that takes CAP_SYS_ADMIN, and no `deltic facts` answers at {socket}")
        }
        Ok(_) if IS_REFUSED.load(Ordering::Relaxed) => {
            let why = "as btrfs does not (Linux 6.8 and later do), the file has too many, or others took long";
            format!("`deltic facts` does not tell, {why}")
        }
        Ok(_) => {
            "btrfs does not tell (Linux 6.8 and later do), or the file has too many".to_owned()
        }
        Err(errno) => errno.to_string(),
    }
}
