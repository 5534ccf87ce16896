//! Realms: sets of directories between which a rename works. The kernel renames within one mount, one project and one
//! encryption policy.

use deltic_tree::RelPath;
use rustix::fs::{self, AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::facts::inherited_project;
use crate::handles::dir::{Dir, Use};
use crate::kernel::system::System;

/// The properties of a directory that decide if the kernel allows a rename from or into the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Realm {
    device: (u32, u32),
    /// Identifier of the mount: one device can be mounted twice.
    mount: u64,
    /// True if fscrypt encrypts the directory. The kernel renames no unencrypted file into the directory. All
    /// directories below have the same policy.
    is_encrypted: bool,
    /// Project that new files of the directory inherit (project quotas). The kernel renames no file of another project
    /// into the directory.
    project: Option<u32>,
}

impl Realm {
    /// Returns the realm of `dir`, which is on `system` unless it is on another device.
    pub(super) fn of(dir: &Dir, system: System) -> Result<Self, Errno> {
        let asked = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let stat = fs::statx(dir, "", AtFlags::EMPTY_PATH, asked)?;
        let knows_mounts = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
        let project = || inherited_project(&dir.open_dir(&RelPath::root(), Use::Read).ok()?);
        Ok(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount: if knows_mounts { stat.stx_mnt_id } else { 0 },
            is_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
            project: if system.has_projects() { project() } else { None },
        })
    }

    /// True if a file made in this realm can be renamed into a directory of `other`.
    pub(super) fn can_rename_to(self, other: Self) -> bool {
        let is_own = |project| project == self.project.unwrap_or(NO_PROJECT);
        other.project.is_none_or(is_own) && Self { project: self.project, ..other } == self
    }
}

/// Project of a file in a directory from which files inherit no project.
const NO_PROJECT: u32 = 0;
