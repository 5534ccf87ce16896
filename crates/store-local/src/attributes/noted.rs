//! Entries under `--fake-super`, as in rsync: an extended attribute, the *note*, stores the metadata that only the
//! superuser may set. Devices, FIFOs, sockets and symlinks are then regular files. These files are empty, except that
//! the file for a symlink holds the target.

use deltic_tree::meta::fake_super::{self, FakeKind, FakeStat};
use deltic_tree::meta::{ExtraMeta, MAX_XATTR_VALUE_BYTES, Meta, MetaMask};
use deltic_tree::{Acl, Kind};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::more::{ACL, DEFAULT_ACL, Reach};
use crate::handles::stat::file_type;
use deltic_store::Unset;

/// Returns the noted metadata of the entry at `at`. `stat` is the entry's own state. Only files and directories have
/// notes.
pub(crate) fn note_of(at: &Reach, stat: &Stat) -> Option<FakeStat> {
    let holds = matches!(file_type(stat), FileType::RegularFile | FileType::Directory);
    let mut value = [0; MAX_NOTE_BYTES];
    let len = holds.then(|| at.get(fake_super::STAT, &mut value).ok())??;
    FakeStat::parse(&value[..len])
}

/// Replaces `meta` by the noted metadata of the entry at `at`. `target` reads the content of a file that stands for a
/// symlink.
pub(crate) fn apply_note(
    at: &Reach,
    stat: &Stat,
    meta: &mut Meta,
    see: MetaMask,
    target: impl FnOnce() -> Result<Box<[u8]>, Errno>,
) -> Result<(), Errno> {
    if let Some(noted) = note_of(at, stat) {
        meta.mode = noted.mode;
        meta.user = meta.user.map(|_| noted.user);
        meta.group = meta.group.map(|_| noted.group);
        let kind = match noted.kind {
            _ if !meta.is_file() => None,
            FakeKind::File | FakeKind::Dir => None,
            FakeKind::Symlink => Some(Kind::Symlink(target()?)).filter(is_device),
            FakeKind::Fifo => Some(Kind::Fifo),
            FakeKind::Socket => Some(Kind::Socket),
            FakeKind::Device(device) => Some(Kind::Device(device)),
        };
        if let Some(kind) = kind {
            (meta.kind, meta.len) = (kind, 0);
        }
    }
    if see.acls && !meta.is_symlink() {
        let mut more = meta.more.take().map(|more| *more).unwrap_or_default();
        let mode = meta.mode;
        more.access_acl =
            noted_acl(at, fake_super::ACCESS_ACL, mode).filter(|acl| acl.mask.is_some());
        let default = meta.is_dir().then(|| noted_acl(at, fake_super::DEFAULT_ACL, mode));
        more = ExtraMeta { default_acl: default.flatten(), ..more };
        meta.more = more.into_box();
    }
    Ok(())
}

fn is_device(kind: &Kind) -> bool {
    matches!(kind, Kind::Symlink(target) if !target.is_empty() && !target.contains(&0))
}

fn noted_acl(at: &Reach, name: &[u8], mode: u32) -> Option<Acl> {
    let mut value = vec![0; MAX_XATTR_VALUE_BYTES];
    let len = at.get(name, &mut value).ok()?;
    fake_super::parse_acl(&value[..len], mode)
}

/// Sets the noted metadata of the entry at `at`, or removes the note.
pub(crate) fn set_note(at: &Reach, noted: Option<&FakeStat>) -> Result<(), Errno> {
    match noted {
        Some(noted) => at.set(fake_super::STAT, &noted.to_bytes()),
        None => at.remove(fake_super::STAT),
    }
}

/// Notes the ACLs of `meta`, with the permissions of `mode`.
pub(crate) fn set_acls(at: &Reach, meta: &Meta, mode: u32, unset: &mut Unset) {
    let access = meta.access_acl().map(|acl| acl.with_mode(mode));
    let default = meta.default_acl().filter(|_| meta.is_dir()).cloned();
    let both =
        [(ACL, fake_super::ACCESS_ACL, access), (DEFAULT_ACL, fake_super::DEFAULT_ACL, default)];
    for (called, name, acl) in both {
        let set = match acl {
            Some(acl) => at.set(name, &fake_super::acl_bytes(&acl)),
            None => at.remove(name),
        };
        unset.note(called, set);
    }
}

/// Name of the note in reports.
pub(crate) const NOTE: &str = "note of its kind, owner and mode";
/// Greatest length of a valid note in bytes.
const MAX_NOTE_BYTES: usize = 255;
