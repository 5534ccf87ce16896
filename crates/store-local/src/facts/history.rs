//! The history of a file system: a single mount, within which extent identities are unique.

use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags, StatxFlags};

use crate::kernel::boot::boot;

/// Returns a digest that names the present mount of a file system. While a file system is mounted, no transaction is
/// undone. So an address that a transaction wrote keeps its bytes.
///
/// Before another mount, a crash may have undone the last transactions, or a restored snapshot of the device many.
/// Transactions of the same numbers then write other bytes to the same addresses.
pub(super) fn mount_digest(file: BorrowedFd<'_>, of: &[u8]) -> Option<[u8; 32]> {
    let mount = fs::statx(file, "", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE).ok()?;
    if mount.stx_mask & MNT_ID_UNIQUE.bits() == 0 {
        return None;
    }
    let mut hasher = blake3::Hasher::new_derive_key("deltic 2026-11 history of a mount");
    hasher.update(boot()?).update(&mount.stx_mnt_id.to_le_bytes()).update(of);
    Some(hasher.finalize().into())
}

/// Requests a mount id that, unlike `STATX_MNT_ID`, is not reused until the next boot (since Linux 6.8).
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
