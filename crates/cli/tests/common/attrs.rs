//! Owners, times and attributes of one name, never of what a link points at.

use std::path::Path;

use deltic_tree::meta::{Acl, AclEntry, IdKind};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, lgetxattr,
    llistxattr, lsetxattr, makedev, mknodat, utimensat,
};

/// Nobody in particular: an owner, a group, and a user to be.
pub const SOMEBODY: u32 = 65534;
pub const ACCESS: &str = "system.posix_acl_access";
pub const DEFAULT: &str = "system.posix_acl_default";

/// Makes a FIFO, a socket or a device.
pub fn node(path: &Path, kind: FileType, device: (u32, u32)) {
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, path, kind, mode, makedev(device.0, device.1)).expect("it is free");
}

pub fn own(path: &Path, user: u32, group: u32) {
    let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
    chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW).expect("root may");
}

/// Sets an attribute.
pub fn note(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).expect("it can be noted");
}

/// The value of an attribute, if there is one.
pub fn noted(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// The names of all attributes, in order.
pub fn notes(path: &Path) -> Vec<String> {
    let mut list = vec![0; 4096];
    let len = llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort_unstable();
    names
}

/// An ACL that names `user` and `group`.
pub fn acl(user: u32, group: u32) -> Acl {
    let named = vec![
        AclEntry { who: IdKind::User, id: user, perms: 6 },
        AclEntry { who: IdKind::Group, id: group, perms: 4 },
    ];
    Acl { owner: 6, group: 4, mask: Some(6), other: 0, named }
}

/// Sets when something was last read and changed.
pub fn set_times(path: &Path, (accessed, modified): (i64, i64)) {
    let spec = |secs| Timespec { tv_sec: secs, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("it is ours");
}
