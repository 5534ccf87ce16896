//! Temporary file systems on loop devices. Root only.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use rustix::fs::Advice;

use super::run::{BenchRig, helper};
use crate::random::Random;

/// A new file system on a loop device, removed on drop.
pub(super) struct LoopDisk {
    image: PathBuf,
    pub(super) mount: PathBuf,
}

impl LoopDisk {
    /// Makes a btrfs of `len` bytes. Prints `SKIPPED` and the reason if impossible.
    pub(super) fn btrfs(rig: &BenchRig, len: u64) -> Option<Self> {
        Self::btrfs_by(rig, len, "crc32c")
    }

    /// Makes a btrfs with this kind of checksum.
    pub(super) fn btrfs_by(rig: &BenchRig, len: u64, sums: &str) -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("SKIPPED: mounting a btrfs on a loop device needs root");
            return None;
        }
        let made = Self::new(rig, len, &["mkfs.btrfs", "-q", "--csum", sums]);
        made.inspect_err(|error| eprintln!("SKIPPED: cannot make a btrfs: {error:#}")).ok()
    }

    /// Makes a file system of `len` bytes with the command `make`, which gets the image's name as last argument, and
    /// mounts the file system.
    pub(super) fn new(rig: &BenchRig, len: u64, make: &[&str]) -> Result<Self> {
        // A reused name once showed stale blocks, so each image has a new name.
        let name = Random::new(
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64,
        )
        .number();
        let (image, mount) = (rig.path(&format!("{name:x}.img")), rig.path(&format!("{name:x}")));
        File::create(&image)?.set_len(len)?;
        fs::create_dir(&mount)?;
        let words = make[1..].iter().map(OsStr::new).chain([image.as_os_str()]);
        helper(make[0], &words.collect::<Vec<_>>())?;
        let disk = Self { image, mount };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        helper("mount", &[OsStr::new("-oloop"), self.image.as_os_str(), self.mount.as_os_str()])?;
        Ok(())
    }

    /// Mounts the file system again with an empty page cache.
    pub(super) fn mount_again(&self) -> Result<()> {
        helper("umount", &[self.mount.as_os_str()])?;
        let image = File::open(&self.image)?;
        image.sync_all()?;
        rustix::fs::fadvise(&image, 0, None, Advice::DontNeed)?;
        self.mount()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Err(error) = helper("umount", &[self.mount.as_os_str()]) {
            eprintln!("{error:#}");
        }
        fs::remove_file(&self.image).ok();
        fs::remove_dir(&self.mount).ok();
    }
}
