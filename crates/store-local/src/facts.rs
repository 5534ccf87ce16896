//! Facts that file systems keep about the files of a tree.
//!
//! The file systems that have none cost one call. What needs a privilege that this process lacks is asked for once, and
//! then of a [service] that has it.

mod btrfs;
mod ioctl;
pub mod service;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use deltic_store::Extents;
use rustix::fs::{self, AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::boot::boot;

/// The extents of `file`, of which `len` bytes are looked at. They are of the version that it is before and after the
/// call, if it is the same.
pub(super) fn extents(file: BorrowedFd<'_>, len: u64) -> Option<Extents> {
    if fs::fstatfs(file).ok()?.f_type != BTRFS {
        return None;
    }
    if !IS_REFUSED.load(Ordering::Relaxed) {
        match btrfs::extents(file, len) {
            Err(Errno::PERM) => IS_REFUSED.store(true, Ordering::Relaxed),
            told => return told.ok().flatten(),
        }
    }
    service::extents(file, len)
}

/// True if this process lacks the privilege to ask.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Why the extents of `file`, which were asked for, are not told.
pub(super) fn lack(file: BorrowedFd<'_>) -> String {
    match fs::fstatfs(file) {
        Ok(system) if system.f_type != BTRFS => {
            "its file system keeps none (btrfs does)".to_owned()
        }
        Ok(_) if IS_REFUSED.load(Ordering::Relaxed) && !service::answered() => {
            let socket = service::socket();
            let socket = socket.display();
            format!("that takes CAP_SYS_ADMIN, and no `deltic facts` answers at {socket}")
        }
        Ok(_) => {
            "btrfs does not tell (Linux 6.8 and later do), or the file has too many".to_owned()
        }
        Err(errno) => errno.to_string(),
    }
}

/// Digest of one mount of one file system. No transaction is undone below a mounted file system, so what they wrote
/// stays what it was.
///
/// After another mount a crash may have undone the last transactions, or a snapshot of the device many. Transactions of
/// the same numbers then write other bytes to the same addresses.
fn history(file: BorrowedFd<'_>, of: &[u8]) -> Option<[u8; 32]> {
    let mount = fs::statx(file, "", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE).ok()?;
    if mount.stx_mask & MNT_ID_UNIQUE.bits() == 0 {
        return None;
    }
    let mut hasher = blake3::Hasher::new_derive_key("deltic 2026-11 history of a mount");
    hasher.update(boot()?).update(&mount.stx_mnt_id.to_le_bytes()).update(of);
    Some(hasher.finalize().into())
}

/// Unlike `STATX_MNT_ID` no mount gets it again until the next boot (since Linux 6.8).
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const BTRFS: fs::FsWord = 0x9123_683e;
