//! Metadata: owners, special files, ACLs, extended attributes, more times.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::meta::{IdRules, LENDING_BITS, ModeRules, XattrScope};
use deltic_tree::{Follow, MetaMask};

use crate::wire::codec::{Bad, Wire, closed_set, put_flags, take_flags, take_of};

/// Metadata besides permission bits and modification times. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Owners (`-o`), where the receiver may give files away.
    pub users: bool,
    /// Groups (`-g`), those that the receiver may give.
    pub groups: bool,
    /// Devices (`--devices`), where the receiver may make some.
    pub devices: bool,
    /// FIFOs and sockets (`--specials`).
    pub specials: bool,
    /// Executability (`-E`), where permission bits stay out.
    pub executability: bool,
    /// Leave times of directories alone (`-O`).
    pub omit_dir_times: bool,
    /// Leave times of symbolic links alone (`-J`).
    pub omit_link_times: bool,
    /// When files were last read (`-U`).
    pub accessed: bool,
    /// Read files without a change of that (`--open-noatime`).
    pub untouched: bool,
    /// ACLs (`-A`).
    pub acls: bool,
    /// Extended attributes (`-X`).
    pub xattrs: bool,
    /// Attributes, too, in which rsync notes what it could not set (`-XX`).
    pub all_xattrs: bool,
    /// Hard links (`-H`).
    pub hard_links: bool,
    /// Read what the superuser may set from notes (`--fake-super` where the sources are).
    pub reads_notes: bool,
    /// The same is noted (`--fake-super` where the destination is).
    pub writes_notes: bool,
    /// Give numbers of users and groups as they are, whatever they are called (`--numeric-ids`).
    pub numeric_ids: bool,
    /// Powers that the receiver uses.
    pub powers: Powers,
    /// Changes of the sender's permission bits (`--chmod`).
    pub chmod: ModeRules,
    /// Rules for owners (`--usermap`).
    pub user_map: IdRules,
    /// Rules for groups (`--groupmap`).
    pub group_map: IdRules,
}

impl Metadata {
    /// Returns true where a sender sends names of users.
    #[must_use]
    pub const fn names_users(&self) -> bool {
        !self.numeric_ids && (self.users || self.acls)
    }

    /// Returns true where a sender sends names of groups.
    #[must_use]
    pub const fn names_groups(&self) -> bool {
        !self.numeric_ids && (self.groups || self.acls)
    }

    /// Metadata that a sender reads.
    #[must_use]
    pub const fn seen_by_sender(&self) -> MetaMask {
        let xattrs = match (self.xattrs, self.all_xattrs) {
            (false, _) => XattrScope::Nothing,
            (true, _) if self.reads_notes => XattrScope::Undisguised,
            (true, false) => XattrScope::Foreign,
            (true, true) => XattrScope::All,
        };
        MetaMask { xattrs, fake_super: self.reads_notes, ..self.seen() }
    }

    /// What a receiver looks at that is privileged, or is not: an ordinary user has no other attributes than his own.
    #[must_use]
    pub const fn seen_by_receiver(&self, is_privileged: bool) -> MetaMask {
        let xattrs = match (self.xattrs, is_privileged) {
            (false, _) => XattrScope::Nothing,
            (true, _) if self.writes_notes => XattrScope::Disguised,
            (true, false) => XattrScope::User,
            (true, true) => XattrScope::All,
        };
        // What is compared is not to change what is carried.
        let untouched = self.untouched || self.accessed;
        // Names of one file are known as such though they need not stay so.
        MetaMask { xattrs, fake_super: self.writes_notes, untouched, linked: true, ..self.seen() }
    }

    /// The bits of a mode that an entry of the mode `old` lacks, and that are not set here.
    #[must_use]
    pub fn withheld(&self, new: u32, old: u32) -> u32 {
        let withholds = self.powers == Powers::Confined && !self.writes_notes;
        if withholds { new & !old & LENDING_BITS } else { 0 }
    }

    const fn seen(&self) -> MetaMask {
        MetaMask {
            users: self.users,
            groups: self.groups,
            accessed: self.accessed,
            linked: self.hard_links,
            acls: self.acls,
            xattrs: XattrScope::Nothing,
            untouched: self.untouched,
            fake_super: false,
        }
    }
}

/// Use of the superuser's powers: giving files away, making devices, setting any extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Powers {
    /// Use them as the superuser.
    #[default]
    Own,
    /// Try (`--super`).
    Tried,
    /// Never (`--no-super`).
    Waived,
    /// Never, and nobody gets the rights of another by a bit of a mode either: in a volume of a server, which says so
    /// to itself. To the other end it is [`Self::Waived`].
    Confined,
}

impl Wire for Powers {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_u8(match self {
            Self::Own => 0,
            Self::Tried => 1,
            Self::Waived | Self::Confined => 2,
        });
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        take_of(from, &[Self::Own, Self::Tried, Self::Waived])
    }
}

impl Wire for Metadata {
    fn put(&self, to: &mut Vec<u8>) {
        let flags = [
            self.users,
            self.groups,
            self.devices,
            self.specials,
            self.executability,
            self.omit_dir_times,
            self.omit_link_times,
            self.accessed,
            self.untouched,
            self.acls,
            self.xattrs,
            self.all_xattrs,
            self.numeric_ids,
            self.hard_links,
            self.reads_notes,
            self.writes_notes,
        ];
        let flags = flags.iter().enumerate();
        to.put_varint(flags.fold(0, |bits, (n, flag)| bits | u64::from(*flag) << n));
        self.powers.put(to);
        self.chmod.umask().put(to);
        for text in [self.chmod.text(), self.user_map.text(), self.group_map.text()] {
            text.to_owned().put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bits = from.varint()?;
        let flag = |n: u32| bits >> n & 1 == 1;
        let (powers, umask) = (Powers::take(from)?, from.varint_u32()?);
        let [chmod, user_map, group_map] =
            [String::take(from)?, String::take(from)?, String::take(from)?];
        if bits >> 16 != 0 || umask > 0o777 {
            return Err(CodecError::OutOfRange.into());
        }
        let chmod = match &*chmod {
            "" => ModeRules::default(),
            rules => ModeRules::parse(rules, umask).map_err(|_| CodecError::OutOfRange)?,
        };
        let ids = |text: String| IdRules::parse(&text).map_err(|_| CodecError::OutOfRange);
        Ok(Self {
            users: flag(0),
            groups: flag(1),
            devices: flag(2),
            specials: flag(3),
            executability: flag(4),
            omit_dir_times: flag(5),
            omit_link_times: flag(6),
            accessed: flag(7),
            untouched: flag(8),
            acls: flag(9),
            xattrs: flag(10),
            all_xattrs: flag(11),
            numeric_ids: flag(12),
            hard_links: flag(13),
            reads_notes: flag(14),
            writes_notes: flag(15),
            powers,
            chmod,
            user_map: ids(user_map)?,
            group_map: ids(group_map)?,
        })
    }
}

/// Symlinks that are followed or left out. By default all are links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Symlinks that are followed where the sources are.
    pub follow: Follow,
    /// Leave out those that may lead out of the tree (`--safe-links`).
    pub safe: bool,
    /// The receiver puts a word before targets that makes them lead nowhere (`--munge-links` at the destination).
    pub munge: bool,
    /// Take symlinks of the receiver for the directories that they lead to, where the sender has directories (`-K`).
    pub keep_dirs: bool,
    /// The sender takes that word off (`--munge-links` at the sources).
    pub unmunge: bool,
    /// Follow symlinks on the way to directories that options name, whoever made them (`--insecure-links`).
    pub insecure: bool,
}

closed_set!(Follow: Never = 0, Dirs = 1, Unsafe = 2, All = 3, DirsAndUnsafe = 4);

impl Wire for Links {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { safe, munge, keep_dirs, unmunge, insecure, .. } = *self;
        put_flags(to, [safe, munge, keep_dirs, unmunge, insecure]);
        self.follow.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let [safe, munge, keep_dirs, unmunge, insecure] = take_flags(from)?;
        Ok(Self { follow: Wire::take(from)?, safe, munge, keep_dirs, unmunge, insecure })
    }
}
