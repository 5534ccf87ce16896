//! Metadata of a directory entry: everything in a file list besides content.

mod acl;
pub mod fake_super;
mod ids;
mod mask;
mod modes;

use crate::path::Name;

pub use acl::{Acl, AclEntry, IdKind, MAX_ACL_NAMED};
pub use ids::{BadIdRules, IdRules, IdTarget};
pub use mask::{MetaMask, XattrScope};
pub use modes::{BadModeRules, ModeRules};

/// A point in time: seconds since the Unix epoch (negative before 1970) and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub secs: i64,
    /// Nanoseconds past `secs`, below 1,000,000,000.
    pub nanos: u32,
}

/// Kind of an entry, with the target of a symlink and the number of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link and its target. Symlinks below a root are never followed.
    Symlink(Box<[u8]>),
    /// A named pipe.
    Fifo,
    /// A socket file.
    Socket,
    /// A device file.
    Device(Device),
}

/// Kind of an entry without symlink target and device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A device file.
    Device,
    /// A FIFO or a socket file.
    Special,
}

impl EntryType {
    /// Returns the type of an entry of this kind.
    #[must_use]
    pub const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Dir => Self::Dir,
            Kind::Symlink(_) => Self::Symlink,
            Kind::File => Self::File,
            Kind::Device(_) => Self::Device,
            Kind::Fifo | Kind::Socket => Self::Special,
        }
    }
}

/// Number of a device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Character or block device.
    pub class: DeviceClass,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Class of a device: character or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// A character device.
    Char,
    /// A block device.
    Block,
}

/// Mode bits that an owner needs to list, enter and change a directory.
pub const OWNER_BITS: u32 = 0o700;
/// The set-group-ID bit: new entries of a directory get its group.
pub const SETGID: u32 = 0o2000;
/// The set-user-ID and set-group-ID bits.
pub const LENDING_BITS: u32 = 0o4000 | SETGID;
/// The execute bits of owner, group and others.
pub const EXECUTE_BITS: u32 = 0o111;
/// Longest name of an extended attribute in bytes, as on Linux.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Longest value of an extended attribute in bytes, as on Linux.
pub const MAX_XATTR_VALUE_BYTES: usize = 64 << 10;
/// Largest total length of names and values of one entry's extended attributes, in bytes.
pub const MAX_XATTRS_BYTES: usize = 512 << 10;
/// Largest number of extended attributes of one entry.
pub const MAX_XATTRS: usize = 4096;

/// Metadata of an entry: kind, size, modification time and mode, and optionally owner, group and [`ExtraMeta`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Kind of the entry.
    pub kind: Kind,
    /// Length in bytes; 0 for every kind but a file.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// User id of the owner, if requested.
    pub user: Option<u32>,
    /// Group id, if requested.
    pub group: Option<u32>,
    /// Metadata that few entries have or few syncs request.
    pub more: Option<Box<ExtraMeta>>,
}

impl Meta {
    /// Returns metadata without owner, group and [`ExtraMeta`].
    #[must_use]
    pub const fn without_owner(kind: Kind, len: u64, modified: Timestamp, mode: u32) -> Self {
        Self { kind, len, modified, mode, user: None, group: None, more: None }
    }

    /// Returns the approximate memory of the extended attributes and ACLs, in bytes.
    #[must_use]
    pub fn extra_metadata_bytes(&self) -> usize {
        let Some(more) = self.more.as_deref() else { return 0 };
        let acls = more.access_acl.iter().chain(&more.default_acl);
        let acls: usize = acls.map(|acl| 64 + acl.named.len() * 16).sum();
        let xattr = |xattr: &Xattr| 64 + xattr.name.len() + xattr.value.len();
        acls + more.xattrs.iter().map(xattr).sum::<usize>()
    }

    /// Returns the mode `old` with execute permission as in this entry (`--executability`): each class of users that may
    /// read the file may execute it.
    #[must_use]
    pub const fn mode_with_execute(&self, old: u32) -> u32 {
        match (self.mode & EXECUTE_BITS != 0, old & EXECUTE_BITS != 0) {
            (false, _) => old & !EXECUTE_BITS,
            (true, true) => old,
            (true, false) => old | (old & 0o444) >> 2,
        }
    }

    /// True if this is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// True if this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }

    /// True if this is a symbolic link.
    #[must_use]
    pub const fn is_symlink(&self) -> bool {
        matches!(self.kind, Kind::Symlink(_))
    }

    /// True if kind, size, modification time and mode are equal. Other metadata may differ.
    #[must_use]
    pub fn is_equal_file(&self, other: &Self) -> bool {
        let plain = |meta: &Self| (meta.len, meta.modified, meta.mode);
        self.kind == other.kind && plain(self) == plain(other)
    }

    /// Returns the access time, if requested.
    #[must_use]
    pub fn accessed(&self) -> Option<Timestamp> {
        self.more.as_ref()?.accessed
    }

    /// Returns the access ACL, if the entry has one beyond its mode.
    #[must_use]
    pub fn access_acl(&self) -> Option<&Acl> {
        self.more.as_ref()?.access_acl.as_ref()
    }

    /// Returns the default ACL of a directory: new entries inherit this ACL.
    #[must_use]
    pub fn default_acl(&self) -> Option<&Acl> {
        self.more.as_ref()?.default_acl.as_ref()
    }

    /// Returns the extended attributes, sorted by name.
    #[must_use]
    pub fn xattrs(&self) -> &[Xattr] {
        self.more.as_ref().map_or(&[], |more| &more.xattrs)
    }

    /// Returns the hard link information, if requested and if the file has several hard links.
    #[must_use]
    pub fn hard_link(&self) -> Option<HardLink> {
        self.more.as_ref()?.linked
    }

    /// Sets or clears the hard link information.
    pub fn set_hard_link(&mut self, linked: Option<HardLink>) {
        if linked != self.hard_link() {
            let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
            self.more = ExtraMeta { linked, ..more }.into_box();
        }
    }

    /// Returns the sender's owner ids that [`save_sender_owner`](Self::save_sender_owner) stored.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.more.as_ref().and_then(|more| more.owner).unwrap_or_default()
    }

    /// Copies `user` and `group` to [`ExtraMeta::owner`]. The copy keeps the sender's ids when both fields change.
    pub fn save_sender_owner(&mut self) {
        let owner = Some(Owner { user: self.user, group: self.group });
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        self.more = ExtraMeta { owner, ..more }.into_box();
    }

    /// True for an implied directory: no source names the directory, but a source lies below.
    #[must_use]
    pub fn is_implied_dir(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.implied)
    }

    /// Marks a directory as implied.
    pub fn set_implied(&mut self) {
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        self.more = ExtraMeta { implied: true, ..more }.into_box();
    }

    /// True if ACLs or extended attributes could not be read.
    #[must_use]
    pub fn has_unread_attributes(&self) -> bool {
        self.unread_reason().is_some()
    }

    /// Removes ACLs and extended attributes, and stores the reason.
    pub fn clear_unread_attributes(&mut self, why: UnreadReason) {
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        let (access_acl, default_acl, xattrs, unread) = (None, None, Vec::new(), Some(why));
        self.more = ExtraMeta { access_acl, default_acl, xattrs, unread, ..more }.into_box();
    }

    /// Returns the reason why ACLs or extended attributes could not be read.
    #[must_use]
    pub fn unread_reason(&self) -> Option<UnreadReason> {
        self.more.as_ref()?.unread
    }
}

/// Owner and group of an entry as ids, each if requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User id.
    pub user: Option<u32>,
    /// Group id.
    pub group: Option<u32>,
}

/// Metadata that few entries have or few syncs request. [`Meta::more`] is `None` if all fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtraMeta {
    /// Access time.
    pub accessed: Option<Timestamp>,
    /// Hard link information, if the file has several hard links.
    pub linked: Option<HardLink>,
    /// Access ACL beyond the mode.
    pub access_acl: Option<Acl>,
    /// Default ACL of a directory: new entries inherit this ACL.
    pub default_acl: Option<Acl>,
    /// Extended attributes sorted by name, without duplicates.
    pub xattrs: Vec<Xattr>,
    /// Reason why ACLs or extended attributes are missing in this value although the entry may have some. A receiver
    /// then keeps the attributes of its own entry.
    pub unread: Option<UnreadReason>,
    /// True for a directory that only has to exist for the entries below, and keeps its own metadata
    /// (`--no-implied-dirs`).
    pub implied: bool,
    /// The owner ids that the sender listed, saved by a receiver that reports owners. Not part of the wire format.
    pub owner: Option<Owner>,
}

impl ExtraMeta {
    /// Returns a box, or `None` if all fields are empty.
    #[must_use]
    pub fn into_box(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Why ACLs or extended attributes of an entry could not be read. Never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnreadReason {
    /// Permission denied.
    Denied,
    /// The attributes are larger than a list entry can carry.
    TooMuch,
    /// Another error, or the sender reported that attributes are missing.
    Other,
}

/// Hard link information of a file with several hard links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HardLink {
    /// Inode and link count, as a store reports them.
    Inode(Inode, u32),
    /// First name of the file in a file list, and the link count.
    First(u32),
    /// Later name of the file in a file list. The number is the distance back to the entry of the first name; that
    /// entry has all other metadata.
    Back(u64),
}

impl HardLink {
    /// Returns the inode, if a store gave one.
    #[must_use]
    pub const fn inode(self) -> Option<Inode> {
        match self {
            Self::Inode(inode, _) => Some(inode),
            Self::First(_) | Self::Back(_) => None,
        }
    }
}

/// Identity of a file: all its hard links share this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// Id of the device that holds the file system.
    pub device: u64,
    /// Inode number on the device.
    pub number: u64,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Name with its namespace, such as `user.note`, without NUL.
    pub name: Box<[u8]>,
    /// Value: any bytes.
    pub value: Box<[u8]>,
}

/// A directory entry: name and metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Name in the directory.
    pub name: Name,
    /// Metadata from the store.
    pub meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execute_permission_goes_to_readers_and_changes_nothing_the_second_time() {
        for (mode, old, wanted) in [
            (0o755, 0o644, 0o755),
            (0o100, 0o640, 0o750),
            (0o644, 0o4755, 0o4644),
            (0o111, 0o200, 0o200),
            (0o755, 0o000, 0o000),
            (0o755, 0o701, 0o701),
        ] {
            let meta = Meta::without_owner(Kind::File, 0, Timestamp::default(), mode);
            let now = meta.mode_with_execute(old);
            assert_eq!((now, meta.mode_with_execute(now)), (wanted, wanted), "{mode:o} {old:o}");
        }
    }
}
