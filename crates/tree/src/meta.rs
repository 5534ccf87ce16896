//! Metadata of an entry: all that a tree says of it besides its content.

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

/// An instant as file systems keep it: seconds since 1970 (before: negative) and nanoseconds into the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub secs: i64,
    /// Nanoseconds past `secs`, below 1,000,000,000.
    pub nanos: u32,
}

/// Kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link and the bytes it points at; never followed below a root.
    Symlink(Box<[u8]>),
    /// A named pipe.
    Fifo,
    /// A socket's name.
    Socket,
    /// A device's name.
    Device(Device),
}

/// The same in a word: where it points, or what it stands for, does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A device's name.
    Device,
    /// A FIFO or a socket's name.
    Special,
}

impl EntryType {
    /// The word for it.
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

/// The device that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Class of its driver.
    pub class: DeviceClass,
    /// Number of the driver.
    pub major: u32,
    /// Number of the device at its driver.
    pub minor: u32,
}

/// Class of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// A byte at a time.
    Char,
    /// A device of blocks.
    Block,
}

/// The mode bits that an owner needs of a directory to work in it.
pub const OWNER_BITS: u32 = 0o700;
/// With which a directory hands its group down.
pub const SETGID: u32 = 0o2000;
/// With which a program runs as its owner, or of its group.
pub const LENDING_BITS: u32 = 0o4000 | SETGID;
/// The mode bits of who may execute.
pub const EXECUTE_BITS: u32 = 0o111;
/// Most bytes in the name of an extended attribute, as on Linux.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Most bytes in the value of one, as on Linux.
pub const MAX_XATTR_VALUE_BYTES: usize = 64 << 10;
/// Most bytes in the names and values of one entry together.
pub const MAX_XATTRS_BYTES: usize = 512 << 10;
/// Most extended attributes of one entry.
pub const MAX_XATTRS: usize = 4096;

/// An entry's kind, size, modification time and mode; and, where that was asked for, whose it is and more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Kind of the entry.
    pub kind: Kind,
    /// Length in bytes; 0 for anything but a file.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// Number of its owner.
    pub user: Option<u32>,
    /// Number of its group.
    pub group: Option<u32>,
    /// Metadata that few entries have, or few runs ask for.
    pub more: Option<Box<ExtraMeta>>,
}

impl Meta {
    /// Without owner and the like.
    #[must_use]
    pub const fn plain(kind: Kind, len: u64, modified: Timestamp, mode: u32) -> Self {
        Self { kind, len, modified, mode, user: None, group: None, more: None }
    }

    /// About what its extended attributes and ACLs take in memory, in bytes.
    #[must_use]
    pub fn more_bytes(&self) -> usize {
        let Some(more) = self.more.as_deref() else { return 0 };
        let acls = more.access_acl.iter().chain(&more.default_acl);
        let acls: usize = acls.map(|acl| 64 + acl.named.len() * 16).sum();
        let xattr = |xattr: &Xattr| 64 + xattr.name.len() + xattr.value.len();
        acls + more.xattrs.iter().map(xattr).sum::<usize>()
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

    /// True if kind, size, time and mode are equal, whatever else was looked at.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let plain = |meta: &Self| (meta.len, meta.modified, meta.mode);
        self.kind == other.kind && plain(self) == plain(other)
    }

    /// When it was last read, if that was asked for.
    #[must_use]
    pub fn accessed(&self) -> Option<Timestamp> {
        self.more.as_ref()?.accessed
    }

    /// Its ACL, if it has one that says more than its mode.
    #[must_use]
    pub fn access_acl(&self) -> Option<&Acl> {
        self.more.as_ref()?.access_acl.as_ref()
    }

    /// The ACL that new entries of this directory get.
    #[must_use]
    pub fn default_acl(&self) -> Option<&Acl> {
        self.more.as_ref()?.default_acl.as_ref()
    }

    /// Its extended attributes, in order of name.
    #[must_use]
    pub fn xattrs(&self) -> &[Xattr] {
        self.more.as_ref().map_or(&[], |more| &more.xattrs)
    }

    /// The file that it is a name of, where that was asked for and there are others.
    #[must_use]
    pub fn linked(&self) -> Option<Linked> {
        self.more.as_ref()?.linked
    }

    /// Says something else of that.
    pub fn set_linked(&mut self, linked: Option<Linked>) {
        if linked != self.linked() {
            let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
            self.more = ExtraMeta { linked, ..more }.boxed();
        }
    }

    /// Its owner at the sender, as far as the receiver keeps that.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.more.as_ref().and_then(|more| more.owner).unwrap_or_default()
    }

    /// Keeps whose it is, whatever becomes of that here.
    pub fn keep_owner(&mut self) {
        let owner = Some(Owner { user: self.user, group: self.group });
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        self.more = ExtraMeta { owner, ..more }.boxed();
    }

    /// True for a directory that no source means: it is on the way to some.
    #[must_use]
    pub fn is_implied(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.implied)
    }

    /// Says so of a directory.
    pub fn set_implied(&mut self) {
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        self.more = ExtraMeta { implied: true, ..more }.boxed();
    }

    /// True if it has attributes that could not be read.
    #[must_use]
    pub fn is_partly_unread(&self) -> bool {
        self.unread().is_some()
    }

    /// Leaves out its ACLs and extended attributes, for this reason.
    pub fn leave_out_attributes(&mut self, why: Unread) {
        let more = self.more.take().map_or_else(ExtraMeta::default, |more| *more);
        let (access_acl, default_acl, xattrs, unread) = (None, None, Vec::new(), Some(why));
        self.more = ExtraMeta { access_acl, default_acl, xattrs, unread, ..more }.boxed();
    }

    /// Why it has some that could not be read, if it has.
    #[must_use]
    pub fn unread(&self) -> Option<Unread> {
        self.more.as_ref()?.unread
    }
}

/// Owner of an entry, by number, where that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its user.
    pub user: Option<u32>,
    /// Its group.
    pub group: Option<u32>,
}

/// Metadata that few entries have, or few runs ask for. Where it is empty, [`Meta::more`] is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtraMeta {
    /// When it was last read.
    pub accessed: Option<Timestamp>,
    /// The file that it is a name of, where that has other names.
    pub linked: Option<Linked>,
    /// Access ACL, besides what the mode says.
    pub access_acl: Option<Acl>,
    /// Default ACL: what new entries of this directory get.
    pub default_acl: Option<Acl>,
    /// Extended attributes in order of name, each name once.
    pub xattrs: Vec<Xattr>,
    /// There are ACLs or extended attributes that could not be read, and are not in here: whoever is to have the same
    /// keeps those it has.
    pub unread: Option<Unread>,
    /// True for a directory that only has to exist for the entries below it, and is else left alone
    /// (`--no-implied-dirs`).
    pub implied: bool,
    /// Its owner at the sender, where the receiver is to report that. It does not travel.
    pub owner: Option<Owner>,
}

impl ExtraMeta {
    /// Boxed, unless it is empty.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Why ACLs or extended attributes of an entry could not be read. It does not travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unread {
    /// We may not.
    Denied,
    /// More attributes than are carried.
    TooMuch,
    /// Whatever the system says, or the sender knows.
    Other,
}

/// The file of an entry that has several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linked {
    /// An inode in a tree, and how many names it has, here or elsewhere.
    Inode(Inode, u32),
    /// The first name in a list, of a file that has so many.
    First(u32),
    /// Another name in a list, of the file of the entry so many before this one. That entry has all other metadata.
    Back(u64),
}

impl Linked {
    /// The inode, where a tree says it.
    #[must_use]
    pub const fn inode(self) -> Option<Inode> {
        match self {
            Self::Inode(inode, _) => Some(inode),
            Self::First(_) | Self::Back(_) => None,
        }
    }
}

/// Identity of a file, which all its names share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub number: u64,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// With its namespace, as `user.note`; no NUL.
    pub name: Box<[u8]>,
    /// Any bytes.
    pub value: Box<[u8]>,
}

/// A name in a directory and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// Metadata by the tree.
    pub meta: Meta,
}
