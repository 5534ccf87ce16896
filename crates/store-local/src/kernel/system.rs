//! Kinds of file systems and their properties, and files of the system, such as in `/proc`.

use std::os::fd::AsFd;

use deltic_store::OneName;
use rustix::fs::{self, CWD, Mode, OFlags, major};
use rustix::io::Errno;

use crate::kernel::read_write::read_at;

/// A mounted file system.
///
/// A query of the kind takes a lock that all writers take, so a store queries only its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    device: u64,
    /// Magic number; 0 if unknown.
    kind: u64,
}

impl System {
    /// Returns the file system of `file`.
    pub(crate) fn of(file: impl AsFd) -> Self {
        let device = fs::fstat(&file).map_or(0, |stat| stat.st_dev);
        Self { device, kind: kind_of(file).unwrap_or(0) }
    }

    /// Returns the file system of `file`, which is on `device`. In most cases this is `self`.
    pub(crate) fn of_file(self, file: impl AsFd, device: u64) -> Self {
        if device == self.device { self } else { Self::of(file) }
    }

    /// Returns the device, if versions on the file system are [reliable](Self::is_lasting).
    pub(crate) fn device_if_reliable(self) -> Option<u64> {
        self.has_reliable_versions().then_some(self.device)
    }

    /// True if versions on the file system of `file` are [reliable](Self::is_lasting).
    pub(crate) fn keeps_versions(file: impl AsFd) -> bool {
        kind_of(file).is_ok_and(is_reliable_kind)
    }

    /// True if versions are reliable: inodes keep their numbers, and the local kernel sets ctime at each change. FAT
    /// assigns new numbers and has no ctime. On network and FUSE file systems, both are up to the server.
    pub(crate) const fn has_reliable_versions(self) -> bool {
        is_reliable_kind(self.kind)
    }

    /// True if `sync_file_range` writes. Some file systems keep the pages of a file elsewhere, where the call finds
    /// none.
    pub(crate) const fn writes_back_by_range(self) -> bool {
        !matches!(self.kind, OVERLAYFS | ZFS)
    }

    /// True if new files may inherit a project from a directory, for project quotas.
    pub(crate) const fn has_projects(self) -> bool {
        matches!(self.kind, EXT4 | XFS | F2FS)
    }

    /// Returns whether the file system accepts several spellings of a name, judged by its kind.
    pub(crate) fn folds_names(self) -> OneName {
        match self.kind {
            MSDOS | EXFAT | NTFS3 | HFS | HFS_PLUS | SMB | SMB2 => OneName::Yes,
            // A disk behind FUSE is mostly exFAT or NTFS.
            FUSE if major(self.device) != 0 => OneName::Maybe,
            _ => OneName::No,
        }
    }

    /// True for btrfs.
    pub(crate) const fn is_btrfs(self) -> bool {
        self.kind == BTRFS
    }
}

const fn is_reliable_kind(kind: u64) -> bool {
    matches!(kind, EXT4 | XFS | BTRFS | F2FS | ZFS | BCACHEFS | TMPFS | OVERLAYFS)
}

/// Returns the magic number of the file system of `file`.
///
/// # Errors
/// The error of `fstatfs`.
pub(crate) fn kind_of(file: impl AsFd) -> Result<u64, Errno> {
    // The number has 32 bits; some systems sign-extend it.
    fs::fstatfs(file).map(|system| system.f_type as u64 & u64::from(u32::MAX))
}

/// Returns the first `most` bytes of a file of the system, such as in `/proc`; `None` if the file cannot be read.
pub(crate) fn read_system_file(path: &str, most: usize) -> Option<Vec<u8>> {
    let file = fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; most];
    let len = read_at(file, 0, &mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

/// The magic number of btrfs.
pub(crate) const BTRFS: u64 = 0x9123_683e;
/// The magic number of ext2, ext3 and ext4.
pub(crate) const EXT4: u64 = 0xef53;
/// The magic number of tmpfs.
pub(crate) const TMPFS: u64 = 0x0102_1994;
pub(crate) const XFS: u64 = 0x5846_5342;
pub(crate) const F2FS: u64 = 0xf2f5_2010;
const ZFS: u64 = 0x2fc1_2fc1;
const BCACHEFS: u64 = 0xca45_1a4e;
const OVERLAYFS: u64 = 0x794c_7630;
const MSDOS: u64 = 0x4d44;
const EXFAT: u64 = 0x2011_bab0;
const NTFS3: u64 = 0x7366_746e;
const HFS: u64 = 0x4244;
const HFS_PLUS: u64 = 0x482b;
const SMB: u64 = 0xff53_4d42;
const SMB2: u64 = 0xfe53_4d42;
const FUSE: u64 = 0x6573_5546;
