//! Facts that file systems keep about the files of a tree.
//!
//! On a file system without facts, a query costs one call. A query that needs a privilege is tried once; if this
//! process lacks the privilege, later queries go to a [service].

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
use self::service::FactsClient;
use crate::kernel::system::{BTRFS, kind_of};

/// Returns the extents of the first `len` bytes of `file`. The answer holds only if the file has the same version
/// before and after the call.
pub(crate) fn extents(file: BorrowedFd<'_>, len: u64, client: &FactsClient) -> Option<Extents> {
    if kind_of(file).ok()? != BTRFS {
        return None;
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match btrfs::extents(file, len, By::Own) {
            Err(Errno::PERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            told => return told.ok().flatten(),
        }
    }
    client.ask_extents(file, len)
}

/// Returns the device addresses of the first `len` bytes of `file`, as any file system reports them.
pub(crate) fn device_addresses(file: BorrowedFd<'_>, len: u64) -> Option<Mapped> {
    map::extent_map(file, len).ok().flatten()
}

/// True if this process lacks the privilege to query extents.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns the checksums that btrfs or fs-verity keeps of a part of `file`, which has `len` bytes. The answer holds
/// only if the file has the same version before and after the call.
pub(crate) fn stored_sums(
    file: BorrowedFd<'_>,
    range: &Range<u64>,
    len: u64,
    client: &FactsClient,
) -> Option<StoredSums> {
    // A flag for checksums alone, since the system may refuse queries of extents and allow queries of checksums.
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    if kind_of(file).ok()? != BTRFS {
        let told = verity_descriptor(file, len)?;
        return leaves::leaf_hashes(&told, range, |no, into| {
            ioctl::verity_tree(file, no, into).ok()
        });
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match sums::file_sums(file, range, len, By::Own) {
            Err(Errno::PERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            told => return told.ok().flatten(),
        }
    }
    client.ask_sums(file, range, len)
}

/// Kind of checksums that a file system keeps. Single files may have no checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Checksums of blocks, with the block size in bytes.
    Blocks(SumKind, u32),
    /// Digests of files that can never be changed again (fs-verity).
    Verity,
}

/// Returns the kind of the block checksums that the file system of `file` keeps.
pub(crate) fn sum_kind(file: BorrowedFd<'_>) -> Option<SumKind> {
    match kind_of(file).ok()? {
        BTRFS => btrfs::Info::of(file).ok()?.sums,
        _ => None,
    }
}

/// Returns the kind of checksums that the file system of a directory keeps.
#[must_use]
pub fn stored_sum_kind(dir: BorrowedFd<'_>) -> Option<Kept> {
    if kind_of(dir).ok()? == BTRFS {
        let info = btrfs::Info::of(dir).ok()?;
        return Some(Kept::Blocks(info.sums?, info.sector_bytes.try_into().ok()?));
    }
    matches!(ioctl::measure_verity(dir), Ok(_) | Err(Errno::NODATA)).then_some(Kept::Verity)
}

/// Returns the project that new files in `dir` inherit, for project quotas.
pub(crate) fn inherited_project(dir: impl AsFd) -> Option<u32> {
    let told = ioctl::fs_xattr(dir.as_fd()).ok()?;
    (told.flags & ioctl::HANDS_DOWN_PROJECT != 0).then_some(told.project)
}

/// Returns the digest that the kernel checks reads of `file` against. `None` unless fs-verity is on with the usual
/// parameters and the file has `len` bytes.
pub(crate) fn verity_digest(file: BorrowedFd<'_>, len: u64) -> Option<[u8; 32]> {
    verity_descriptor(file, len).map(|told| told.digest())
}

/// Returns the parameters of the file's fs-verity digest.
fn verity_descriptor(file: BorrowedFd<'_>, len: u64) -> Option<VerityDescriptor> {
    let digest = ioctl::measure_verity(file).ok()?;
    // btrfs does not tell the parameters, and other parameters give other digests.
    let told = VerityDescriptor::read(&ioctl::verity_descriptor(file).ok()?)?;
    (told.len == len && Some(told.digest()) == digest).then_some(told)
}

/// Returns the reason why the extents of `file` are unknown.
pub(crate) fn missing_extents_reason(file: BorrowedFd<'_>, client: &FactsClient) -> String {
    match kind_of(file) {
        Ok(kind) if kind != BTRFS => {
            "the file system has no extents with identities (btrfs has)".to_owned()
        }
        Ok(_) if IS_REFUSED.load(Ordering::Relaxed) && !client.has_answered() => {
            let socket = service::socket();
            let socket = socket.display();
            format!(
                "this needs CAP_SYS_ADMIN, or `deltic facts` at {socket}, which does not answer"
            )
        }
        Ok(_) if IS_REFUSED.load(Ordering::Relaxed) => {
            let why = "the kernel is older than 6.8, the file has too many extents, or other clients took too long";
            format!("`deltic facts` has no answer: {why}")
        }
        Ok(_) => "btrfs does not report extents (Linux 6.8 and later do), or the file has too many"
            .to_owned(),
        Err(errno) => errno.to_string(),
    }
}
