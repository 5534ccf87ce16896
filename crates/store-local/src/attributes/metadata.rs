//! Reads the metadata of entries.

use deltic_tree::meta::{Device, DeviceClass, HardLink, XattrScope};
use deltic_tree::{ExtraMeta, Kind, Meta, MetaMask, Name};
use rustix::fs::{self, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

use super::more::{Reach, add_attributes};
use crate::attributes::noted;
use crate::handles::dir::Dir;
use crate::handles::place::Place;
use crate::handles::stat::{Stamp, file_type, inode_of, name_count, timestamp};
use crate::kernel::read_write::read_at;

impl Place {
    /// Returns the metadata of the entry. Under `--fake-super`, a real symlink gets an empty target, so that a file
    /// with a note will replace the symlink.
    pub(crate) fn read_meta(&self, see: MetaMask) -> Result<Meta, Errno> {
        let mut meta = read_meta_of(&self.dir, &self.name, see)?;
        if let (Kind::Symlink(target), true) = (&mut meta.kind, see.fake_super)
            && file_type(&self.dir.stat(&self.name)?).is_symlink()
        {
            *target = Box::default();
        }
        Ok(meta)
    }
}

/// Returns the metadata of `name` of `dir`, without following a symlink.
pub(crate) fn read_meta_of(dir: &Dir, name: &Name, see: MetaMask) -> Result<Meta, Errno> {
    read_meta_and_version(dir, name, see).map(|(meta, _)| meta)
}

/// Returns the metadata and the version stamp of `name` of `dir`, without following a symlink.
pub(crate) fn read_meta_and_version(
    dir: &Dir,
    name: &Name,
    see: MetaMask,
) -> Result<(Meta, Stamp), Errno> {
    let stat = dir.stat(name)?;
    let kind = match kind_of(&stat) {
        Some(kind) => kind,
        None => Kind::Symlink(dir.read_link(name)?),
    };
    let target = || read_target(&dir.open(name, OFlags::RDONLY)?);
    let meta =
        read_meta_with_attributes(|| Reach::Name(dir.path_to(name)), &stat, kind, see, target)?;
    Ok((meta, Stamp::of(&stat)))
}

/// Returns the metadata of `name` of `dir`, following a symlink.
pub(crate) fn read_meta_following(dir: &Dir, name: &Name, see: MetaMask) -> Result<Meta, Errno> {
    let stat = dir.stat_behind(name)?;
    let kind = kind_of(&stat).ok_or(Errno::LOOP)?;
    let target = || read_target(&dir.open_behind(name, OFlags::RDONLY)?);
    read_meta_with_attributes(|| Reach::Followed(dir.path_to(name)), &stat, kind, see, target)
}

/// Returns the metadata of the directory `root`.
pub(crate) fn read_meta_of_root(root: &Dir, see: MetaMask) -> Result<Meta, Errno> {
    let stat = fs::fstat(root)?;
    let nothing = || Ok(Box::default());
    read_meta_with_attributes(|| Reach::Followed(root.own_path()), &stat, Kind::Dir, see, nothing)
}

/// Returns the metadata of an entry, with the parts that `stat` lacks. `target` reads the content of a file that stands
/// for a symlink.
fn read_meta_with_attributes(
    at: impl FnOnce() -> Reach,
    stat: &Stat,
    kind: Kind,
    see: MetaMask,
    target: impl FnOnce() -> Result<Box<[u8]>, Errno>,
) -> Result<Meta, Errno> {
    let mut meta = meta_of(stat, kind, see);
    if see.acls || see.xattrs != XattrScope::Nothing || see.fake_super {
        let at = at();
        add_attributes(&at, &mut meta, see);
        if see.fake_super {
            noted::apply_note(&at, stat, &mut meta, see, target)?;
        }
    }
    Ok(meta)
}

/// Returns the content of a file that stands for a symlink.
pub(crate) fn read_target(file: &OwnedFd) -> Result<Box<[u8]>, Errno> {
    let mut target = vec![0; MAX_TARGET_BYTES + 1];
    let len = read_at(file.as_fd(), 0, &mut target)?;
    target.truncate(len);
    // The content is too long for a target.
    Ok(if len > MAX_TARGET_BYTES { Box::default() } else { target.into() })
}

/// Returns the kind of an entry; `None` for a symlink.
fn kind_of(stat: &Stat) -> Option<Kind> {
    Some(match file_type(stat) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => return None,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => device_kind(DeviceClass::Char, stat),
        // `Unknown` does not occur: the system has only these seven types.
        FileType::BlockDevice | FileType::Unknown => device_kind(DeviceClass::Block, stat),
    })
}

fn device_kind(class: DeviceClass, stat: &Stat) -> Kind {
    let (major, minor) = (fs::major(stat.st_rdev), fs::minor(stat.st_rdev));
    Kind::Device(Device { class, major, minor })
}

pub(crate) fn meta_of(stat: &Stat, kind: Kind, see: MetaMask) -> Meta {
    let is_dir = kind == Kind::Dir;
    let len = if kind == Kind::File { stat.st_size as u64 } else { 0 };
    let accessed = timestamp(stat.st_atime, stat.st_atime_nsec);
    let more = ExtraMeta {
        accessed: (see.accessed && !is_dir).then_some(accessed),
        linked: (see.linked && !is_dir && stat.st_nlink > 1).then(|| hard_link_of(stat)),
        ..ExtraMeta::default()
    };
    Meta {
        user: see.users.then_some(stat.st_uid),
        group: see.groups.then_some(stat.st_gid),
        more: more.into_box(),
        ..Meta::without_owner(
            kind,
            len,
            timestamp(stat.st_mtime, stat.st_mtime_nsec),
            stat.st_mode & 0o7777,
        )
    }
}

fn hard_link_of(stat: &Stat) -> HardLink {
    let names = name_count(stat.st_nlink).try_into().unwrap_or(u32::MAX);
    HardLink::Inode(inode_of(stat), names)
}

/// Greatest length of a target in bytes: that of a path.
const MAX_TARGET_BYTES: usize = deltic_tree::path::MAX_PATH_BYTES;
