//! How far a rename reaches: to one mount, and within that to what the file system keeps together.

use deltic_tree::RelPath;
use rustix::fs::{self, AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::dir::{Dir, Use};
use crate::facts::project;
use crate::system::System;

/// A directory, as the kernel sees it when something is to be renamed from or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Realm {
    device: (u32, u32),
    /// One device can be mounted twice.
    mount: u64,
    /// True if what is in it is encrypted by fscrypt: nothing comes there that is not, and no other policy is below.
    is_encrypted: bool,
    /// The project that the directory hands down to what is made in it (project quotas): what another project has
    /// cannot be renamed to it.
    project: Option<u32>,
}

impl Realm {
    /// The realm of `dir`, which is on `system` unless it is on another device.
    pub(super) fn of(dir: &Dir, system: System) -> Result<Self, Errno> {
        let asked = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let stat = fs::statx(dir, "", AtFlags::EMPTY_PATH, asked)?;
        let knows_mounts = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
        let project = || project(&dir.dir(&RelPath::root(), Use::Read).ok()?);
        Ok(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount: if knows_mounts { stat.stx_mnt_id } else { 0 },
            is_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
            project: if system.has_projects() { project() } else { None },
        })
    }

    /// True if what is made in this realm can be renamed to a directory of `other`.
    pub(super) fn reaches(self, other: Self) -> bool {
        let is_own = |project| project == self.project.unwrap_or(NO_PROJECT);
        other.project.is_none_or(is_own) && Self { project: self.project, ..other } == self
    }
}

/// The project of what was made in a directory that hands none down.
const NO_PROJECT: u32 = 0;
