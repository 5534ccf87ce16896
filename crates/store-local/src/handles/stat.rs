//! Type, inode and version of a file, from the answer to `fstat`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use deltic_tree::Timestamp;
use deltic_tree::meta::Inode;
use rustix::fs::{self, FileType, Stat, Statx, StatxFlags};

use crate::kernel::system::System;
use deltic_store::{Version, VersionToken};

/// Identifies a version of a file without reading the file. Includes ctime, since a program can set mtime back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: Inode,
    pub(crate) len: u64,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) names: u64,
}

/// Returns the time at which a file was created, since 1970, if the file system records it.
pub(crate) fn created(stat: Statx) -> Option<Duration> {
    let has = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let secs = u64::try_from(stat.stx_btime.tv_sec).ok().filter(|_| has)?;
    Some(Duration::new(secs, stat.stx_btime.tv_nsec.min(999_999_999)))
}

impl Stamp {
    /// Returns the version for code outside of this crate, which leaves out the number of hard links.
    pub(crate) fn version(self) -> Version {
        let Self { inode: Inode { device, number }, len, modified, changed, .. } = self;
        let mut token = [0; 32];
        token[..8].copy_from_slice(&device.to_le_bytes());
        token[8..16].copy_from_slice(&number.to_le_bytes());
        Version { token: VersionToken(token), len, modified, changed }
    }

    pub(crate) fn device(self) -> u64 {
        self.inode.device
    }

    /// True if both stamps are of one version, as far as a file with several hard links shows: a change of one link
    /// changes the ctime for all. This run may rename over links of the file, or change the file under another name.
    pub(crate) fn is_same_except_names(self, other: Self) -> bool {
        let renamed = Self { names: other.names, changed: other.changed, ..self };
        self == other || (self.names, other.names) != (1, 1) && renamed == other
    }

    /// True if both stamps are of one version, and new hard links explain the new ctime. A file that lost a link may
    /// have been replaced.
    pub(crate) fn is_same_with_more_names(self, other: Self) -> bool {
        self.names > other.names && self.is_same_except_names(other)
    }

    /// True if both stamps have the same inode, length and modification time: names and attributes may differ.
    pub(crate) fn has_content_of(self, other: Self) -> bool {
        let renamed = Self { names: other.names, changed: other.changed, ..self };
        renamed == other
    }

    /// True if both stamps have the same inode and length.
    pub(crate) fn has_len_and_inode_of(self, other: Self) -> bool {
        (self.inode, self.len) == (other.inode, other.len)
    }

    /// Returns device and inode number.
    pub(crate) const fn inode(self) -> Inode {
        self.inode
    }

    /// True if the file has only one hard link.
    pub(crate) const fn has_one_name(self) -> bool {
        self.names == 1
    }

    /// Returns the length in bytes.
    pub(crate) const fn len(self) -> u64 {
        self.len
    }

    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            inode: inode_of(stat),
            len: stat.st_size as u64,
            modified: timestamp(stat.st_mtime, stat.st_mtime_nsec),
            changed: timestamp(stat.st_ctime, stat.st_ctime_nsec),
            names: name_count(stat.st_nlink),
        }
    }
}

/// Returns device and inode number.
pub(crate) fn inode_of(stat: &Stat) -> Inode {
    Inode { device: stat.st_dev, number: stat.st_ino }
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the present version of a file, if the versions of its file system are reliable. `home` is the file system on
/// which the file most likely is.
pub(crate) fn version_of(file: &OwnedFd, home: System) -> Option<Version> {
    let stat = fs::fstat(file).ok()?;
    let lasts = home.of_file(file, stat.st_dev).has_reliable_versions();
    lasts.then(|| Stamp::of(&stat).version())
}

/// Converts a number of hard links; the type of such a number differs between platforms.
pub(crate) fn name_count(count: impl TryInto<u64>) -> u64 {
    count.try_into().unwrap_or(u64::MAX)
}

/// Converts the fields of a time; the types of the fields differ between platforms, and all values fit.
pub(crate) fn timestamp(secs: impl TryInto<i64>, nanos: impl TryInto<u32>) -> Timestamp {
    Timestamp {
        secs: secs.try_into().unwrap_or(i64::MAX),
        nanos: nanos.try_into().unwrap_or_default(),
    }
}
