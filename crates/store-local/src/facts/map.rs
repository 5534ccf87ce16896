//! Device addresses of the bytes of a file, as any file system reports them without a privilege (`FIEMAP`).
//!
//! An address has no generation number: a free address may get other bytes. So equal addresses show that two files
//! share bytes now, but not that they shared bytes at an earlier moment (docs/decisions/0062). The map is a hint.

use std::os::fd::BorrowedFd;

use deltic_store::Extents;
use deltic_store::facts::{ExtentContent, TooMany};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::btrfs::Info;
use super::ioctl::{self, Extent};
use crate::kernel::system::{BTRFS, EXT4, F2FS, XFS, kind_of};

/// Device addresses of the parts of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The parts of the file. The identities are device addresses, valid while nothing is written.
    pub extents: Extents,
    /// Bytes shared with other files or snapshots.
    pub shared: u64,
}

/// Returns the map of the first `len` bytes of `file`, after a flush; `None` if there are too many parts or the
/// device is unknown.
pub(super) fn extent_map(file: BorrowedFd<'_>, len: u64) -> Result<Option<Mapped>, Errno> {
    let Some(device) = device(file)? else { return Ok(None) };
    let (mut found, mut next, mut is_last) = (Vec::new(), 0, false);
    while !is_last && next < len {
        let some = ioctl::mapped_extents(file, next)?;
        let Some(last) = some.last() else { break };
        is_last = last.flags & LAST != 0;
        let end = last.start.saturating_add(last.len);
        if end <= next {
            return Err(Errno::INVAL);
        }
        next = end;
        found.extend(some);
        if found.len() > deltic_store::facts::MAX_PARTS {
            return Ok(None);
        }
    }
    Ok(mapped_parts(&found, device, len).ok())
}

/// Returns the device that the addresses of `file` refer to. `None` if there may be several devices, as in stacked file
/// systems.
fn device(file: BorrowedFd<'_>) -> Result<Option<[u8; 16]>, Errno> {
    let of_one = match kind_of(file)? {
        // Each btrfs subvolume has a device number of its own.
        BTRFS => return Ok(Some(Info::of(file)?.fsid)),
        EXT4 | F2FS => true,
        XFS => ioctl::fs_xattr(file)?.flags & REALTIME == 0,
        _ => false,
    };
    let number = u128::from(fstat(file)?.st_dev);
    Ok(of_one.then(|| number.to_le_bytes()))
}

/// Flag of a file with data on a separate device (`FS_XFLAG_REALTIME`).
const REALTIME: u32 = 1;

fn mapped_parts(found: &[Extent], device: [u8; 16], len: u64) -> Result<Mapped, TooMany> {
    let history = blake3::derive_key("deltic 2026-11 places on a device", &device);
    let mut mapped = Mapped { extents: Extents::new(history), shared: 0 };
    // Extents behind `len` are preallocated, or were written meanwhile.
    for extent in found.iter().filter(|extent| extent.start < len) {
        let at = mapped.extents.len();
        let start = extent.start.clamp(at, len.max(at));
        let end = extent.start.saturating_add(extent.len).clamp(start, len.max(start));
        mapped.extents.push(start - at, ExtentContent::Zero)?;
        let is = match extent.flags {
            flags if flags & NOWHERE != 0 => ExtentContent::Unknown,
            flags if flags & UNWRITTEN != 0 => ExtentContent::Zero,
            _ => {
                let from = extent.address.checked_add(start - extent.start).ok_or(TooMany)?;
                ExtentContent::Id { id: [0; 3], from }
            }
        };
        mapped.extents.push(end - start, is)?;
        if extent.flags & SHARED != 0 {
            mapped.shared += end - start;
        }
    }
    let rest = len.saturating_sub(mapped.extents.len());
    mapped.extents.push(rest, ExtentContent::Zero)?;
    Ok(mapped)
}

const LAST: u32 = 1;
/// Flags of extents whose address has no meaning: not yet allocated, packed, encrypted, not aligned, or in a block with
/// others.
const NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_tells_places_zeros_and_what_is_shared() {
        let extent = |start, address, len, flags| Extent { start, address, len, flags };
        let found = [
            extent(0, 1 << 20, 4096, SHARED),
            extent(4096, 2 << 20, 4096, UNWRITTEN),
            extent(16384, 3 << 20, 4096, 0x8),
            extent(20480, 4 << 20, 8192, LAST),
        ];
        let mapped = mapped_parts(&found, [7; 16], 24_000).unwrap();
        let id = |from| ExtentContent::Id { id: [0; 3], from };
        let is: Vec<_> = mapped.extents.parts().collect();
        let expected = [
            (0..4096, id(1 << 20)),
            (4096..16384, ExtentContent::Zero),
            (16384..20480, ExtentContent::Unknown),
            (20480..24_000, id(4 << 20)),
        ];
        assert_eq!((is, mapped.shared), (expected.to_vec(), 4096));
        // The file grew after the open.
        let grown = [extent(0, 4096, 4096, 0), extent(1 << 20, 8192, 4096, LAST)];
        let mapped = mapped_parts(&grown, [7; 16], 4096).unwrap();
        assert_eq!(mapped.extents.parts().collect::<Vec<_>>(), [(0..4096, id(4096))]);
        // Wrong answers of the kernel cause no panic.
        let odd = [extent(0, 5, 9, 0), extent(3, u64::MAX - 5, u64::MAX, SHARED)];
        assert!(mapped_parts(&odd, [7; 16], 24_000).is_err());
    }
}
