//! Metadata: owners, special files, ACLs, extended attributes, more times.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::meta::{IdRules, LENDING_BITS, ModeRules, XattrScope};
use deltic_tree::{Follow, MetaMask};

use crate::wire::codec::{
    BadPayload, WireEncoding, closed_set, read_flags, read_member, write_flags,
};

/// Metadata beyond permission bits and modification times. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Preserve owners (`-o`), where the receiver may give files away.
    pub users: bool,
    /// Preserve groups (`-g`), as far as the receiver may set the groups.
    pub groups: bool,
    /// Transfer devices (`--devices`), where the receiver may create devices.
    pub devices: bool,
    /// Transfer FIFOs and sockets (`--specials`).
    pub specials: bool,
    /// Preserve the execute bits (`-E`), if the other permission bits are not preserved.
    pub executability: bool,
    /// Leave modification times of directories alone (`-O`).
    pub omit_dir_times: bool,
    /// Leave modification times of symlinks alone (`-J`).
    pub omit_link_times: bool,
    /// Preserve access times (`-U`).
    pub accessed: bool,
    /// Read files without changing the access times (`--open-noatime`).
    pub untouched: bool,
    /// Preserve ACLs (`-A`).
    pub acls: bool,
    /// Preserve extended attributes (`-X`).
    pub xattrs: bool,
    /// Transfer also the extended attributes in which rsync's `--fake-super` keeps privileged metadata (`-XX`).
    pub all_xattrs: bool,
    /// Preserve hard links (`-H`).
    pub hard_links: bool,
    /// Read privileged metadata from the `--fake-super` attributes (`--fake-super` at the source).
    pub reads_notes: bool,
    /// Write privileged metadata into the `--fake-super` attributes (`--fake-super` at the destination).
    pub writes_notes: bool,
    /// Transfer numbers of users and groups unchanged, without mapping by name (`--numeric-ids`).
    pub numeric_ids: bool,
    /// Superuser powers that the receiver uses.
    pub powers: Powers,
    /// Changes to the sender's permission bits (`--chmod`).
    pub chmod: ModeRules,
    /// Mapping rules for users (`--usermap`).
    pub user_map: IdRules,
    /// Mapping rules for groups (`--groupmap`).
    pub group_map: IdRules,
}

impl Metadata {
    /// True if the sender sends names of users.
    #[must_use]
    pub const fn sends_user_names(&self) -> bool {
        !self.numeric_ids && (self.users || self.acls)
    }

    /// True if the sender sends names of groups.
    #[must_use]
    pub const fn sends_group_names(&self) -> bool {
        !self.numeric_ids && (self.groups || self.acls)
    }

    /// Returns the metadata that the sender reads.
    #[must_use]
    pub const fn mask_of_sender(&self) -> MetaMask {
        let xattrs = match (self.xattrs, self.all_xattrs) {
            (false, _) => XattrScope::Nothing,
            (true, _) if self.reads_notes => XattrScope::Undisguised,
            (true, false) => XattrScope::Foreign,
            (true, true) => XattrScope::All,
        };
        MetaMask { xattrs, fake_super: self.reads_notes, ..self.common_mask() }
    }

    /// Returns the metadata that the receiver reads. An unprivileged receiver sees only `user.` extended attributes.
    #[must_use]
    pub const fn mask_of_receiver(&self, is_privileged: bool) -> MetaMask {
        let xattrs = match (self.xattrs, is_privileged) {
            (false, _) => XattrScope::Nothing,
            (true, _) if self.writes_notes => XattrScope::Disguised,
            (true, false) => XattrScope::User,
            (true, true) => XattrScope::All,
        };
        // Reading a file to compare it must not change an access time that is transferred.
        let untouched = self.untouched || self.accessed;
        // Hard links at the destination are recognized even if the run need not preserve them.
        MetaMask {
            xattrs,
            fake_super: self.writes_notes,
            untouched,
            linked: true,
            ..self.common_mask()
        }
    }

    /// Returns the bits of the mode `new` that a [`Powers::Confined`] receiver must not set: bits in `LENDING_BITS`
    /// that the entry's mode `old` lacks.
    #[must_use]
    pub fn withheld_mode_bits(&self, new: u32, old: u32) -> u32 {
        let withholds = self.powers == Powers::Confined && !self.writes_notes;
        if withholds { new & !old & LENDING_BITS } else { 0 }
    }

    const fn common_mask(&self) -> MetaMask {
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
    /// Use the powers if the receiver is the superuser.
    #[default]
    Own,
    /// Try to use the powers, as the superuser or not (`--super`).
    Tried,
    /// Never use the powers (`--no-super`).
    Waived,
    /// Never use the powers, and set no mode bits that lend one user's rights to another. A server chooses this for
    /// its volumes; the other end sees [`Self::Waived`].
    Confined,
}

impl WireEncoding for Powers {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_u8(match self {
            Self::Own => 0,
            Self::Tried => 1,
            Self::Waived | Self::Confined => 2,
        });
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        read_member(from, &[Self::Own, Self::Tried, Self::Waived])
    }
}

impl WireEncoding for Metadata {
    fn write_to(&self, to: &mut Vec<u8>) {
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
        self.powers.write_to(to);
        self.chmod.umask().write_to(to);
        for text in [self.chmod.text(), self.user_map.text(), self.group_map.text()] {
            text.to_owned().write_to(to);
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let bits = from.varint()?;
        let flag = |n: u32| bits >> n & 1 == 1;
        let (powers, umask) = (Powers::read_from(from)?, from.varint_u32()?);
        let [chmod, user_map, group_map] =
            [String::read_from(from)?, String::read_from(from)?, String::read_from(from)?];
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

/// Symlinks that are followed or left out. By default every symlink is transferred as a symlink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Symlinks that are followed at the source.
    pub follow: Follow,
    /// Leave out symlinks that may lead out of the tree (`--safe-links`).
    pub safe: bool,
    /// The receiver adds a prefix to symlink targets that makes them lead nowhere (`--munge-links` at the
    /// destination).
    pub munge: bool,
    /// Treat the receiver's symlinks to directories as directories, where the sender has directories (`-K`).
    pub keep_dirs: bool,
    /// The sender strips the prefix from symlink targets (`--munge-links` at the source).
    pub unmunge: bool,
    /// Follow symlinks of any owner on the way to directories that options name (`--insecure-links`).
    pub insecure: bool,
}

closed_set!(Follow: Never = 0, Dirs = 1, Unsafe = 2, All = 3, DirsAndUnsafe = 4);

impl WireEncoding for Links {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { safe, munge, keep_dirs, unmunge, insecure, .. } = *self;
        write_flags(to, [safe, munge, keep_dirs, unmunge, insecure]);
        self.follow.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [safe, munge, keep_dirs, unmunge, insecure] = read_flags(from)?;
        Ok(Self {
            follow: WireEncoding::read_from(from)?,
            safe,
            munge,
            keep_dirs,
            unmunge,
            insecure,
        })
    }
}
