//! rsync's `--fake-super` attributes. An ordinary user stores owners, devices and ACLs in extended attributes; a later
//! sync reads them back.

use super::{Acl, AclEntry, Device, DeviceClass, IdKind, Kind, MAX_ACL_NAMED};

/// Attribute with the real kind, mode, device number and owner of an entry.
pub const STAT: &[u8] = b"user.rsync.%stat";
/// Attribute with the access ACL.
pub const ACCESS_ACL: &[u8] = b"user.rsync.%aacl";
/// Attribute with the default ACL of a directory.
pub const DEFAULT_ACL: &[u8] = b"user.rsync.%dacl";
/// Prefix before the names of attributes that an ordinary user may not set.
pub(super) const DISGUISE: &[u8] = b"user.rsync.";

/// Kind, mode and owner that an entry would have if the superuser had created the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeStat {
    /// Real kind.
    pub kind: FakeKind,
    /// Real permission bits (`0o7777`).
    pub mode: u32,
    /// User id of the real owner.
    pub user: u32,
    /// Id of the real group.
    pub group: u32,
}

/// Kind of an entry in a [`STAT`] attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link. A regular file stands in for the link, and its content is the target.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket file.
    Socket,
    /// A device file.
    Device(Device),
}

impl FakeKind {
    /// Returns the kind to store for an entry.
    #[must_use]
    pub const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Dir => Self::Dir,
            Kind::Symlink(_) => Self::Symlink,
            Kind::Fifo => Self::Fifo,
            Kind::Socket => Self::Socket,
            Kind::Device(device) => Self::Device(*device),
        }
    }

    const fn bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::Device(Device { class: DeviceClass::Char, .. }) => 0o020_000,
            Self::Dir => 0o040_000,
            Self::Device(Device { class: DeviceClass::Block, .. }) => 0o060_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }
}

impl FakeStat {
    /// Parses the value of [`STAT`]. Returns `None` for an invalid value.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value).ok()?;
        let mut words = text.split_ascii_whitespace();
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let (major, minor) = words.next()?.split_once(',')?;
        let (user, group) = words.next()?.split_once(':')?;
        let number = |digits: &str| digits.parse::<u32>().ok();
        let device = |class| {
            let (major, minor) = (number(major)?, number(minor)?);
            Some(FakeKind::Device(Device { class, major, minor }))
        };
        let kind = match mode & !ALL_BITS {
            0o010_000 => FakeKind::Fifo,
            0o020_000 => device(DeviceClass::Char)?,
            0o040_000 => FakeKind::Dir,
            0o060_000 => device(DeviceClass::Block)?,
            0o100_000 => FakeKind::File,
            0o120_000 => FakeKind::Symlink,
            0o140_000 => FakeKind::Socket,
            _ => return None,
        };
        Some(Self { kind, mode: mode & ALL_BITS, user: number(user)?, group: number(group)? })
    }

    /// Returns the value of [`STAT`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { kind, mode, user, group } = self;
        let (major, minor) = match kind {
            FakeKind::Device(Device { major, minor, .. }) => (*major, *minor),
            _ => (0, 0),
        };
        format!("{:o} {major},{minor} {user}:{group}", kind.bits() | mode).into_bytes()
    }
}

/// Parses the value of [`ACCESS_ACL`] or [`DEFAULT_ACL`] of an entry with this mode. Returns `None` for an invalid
/// value.
#[must_use]
pub fn parse_acl(value: &[u8], mode: u32) -> Option<Acl> {
    let (numbers, []) = value.as_chunks::<4>() else { return None };
    let ([owner, group, mask, other], lines) = numbers.split_first_chunk()?;
    let (lines, []) = lines.as_chunks::<2>() else { return None };
    if lines.len() > MAX_ACL_NAMED {
        return None;
    }
    let perms = |bytes: &[u8; 4], place: u32| match u32::from_le_bytes(*bytes) {
        NO_ENTRY => Some((mode >> place & 7) as u8),
        perms => u8::try_from(perms).ok(),
    };
    let mask = match u32::from_le_bytes(*mask) {
        NO_ENTRY if lines.is_empty() => None,
        _ => Some(perms(mask, 3)?),
    };
    let mut acl = Acl { owner: perms(owner, 6)?, group: perms(group, 3)?, mask, ..Acl::default() };
    acl.other = perms(other, 0)?;
    for [id, access] in lines {
        let access = u32::from_le_bytes(*access);
        let who = if access & IS_USER == 0 { IdKind::Group } else { IdKind::User };
        let perms = u8::try_from(access & !IS_USER).ok()?;
        acl.named.push(AclEntry { who, id: u32::from_le_bytes(*id), perms });
    }
    acl.sort_and_deduplicate();
    acl.is_valid().then_some(acl)
}

/// Returns the value of [`ACCESS_ACL`] or [`DEFAULT_ACL`].
#[must_use]
pub fn acl_bytes(acl: &Acl) -> Vec<u8> {
    let mask = acl.mask.map_or(NO_ENTRY, u32::from);
    let head = [acl.owner.into(), acl.group.into(), mask, acl.other.into()];
    let named = acl.named.iter().flat_map(|named| {
        let bit = if named.who == IdKind::User { IS_USER } else { 0 };
        [named.id, u32::from(named.perms) | bit]
    });
    head.into_iter().chain(named).flat_map(u32::to_le_bytes).collect()
}

const ALL_BITS: u32 = 0o7777;
/// Value of an ACL field without an entry, as in rsync: the mode supplies these permissions.
const NO_ENTRY: u32 = 0x80;
/// Distinguishes a named user from a named group.
const IS_USER: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_values_are_the_same_as_rsyncs() {
        let device = Device { class: DeviceClass::Char, major: 1, minor: 3 };
        for (kind, mode, text) in [
            (FakeKind::File, 0o4755, "104755 0,0 1000:7"),
            (FakeKind::Dir, 0o1777, "41777 0,0 1000:7"),
            (FakeKind::Symlink, 0o777, "120777 0,0 1000:7"),
            (FakeKind::Fifo, 0o600, "10600 0,0 1000:7"),
            (FakeKind::Socket, 0o600, "140600 0,0 1000:7"),
            (FakeKind::Device(device), 0o666, "20666 1,3 1000:7"),
        ] {
            let noted = FakeStat { kind, mode, user: 1000, group: 7 };
            assert_eq!(String::from_utf8(noted.to_bytes()).unwrap(), text);
            assert_eq!(FakeStat::parse(text.as_bytes()), Some(noted));
        }
    }

    #[test]
    fn invalid_stat_values_are_refused() {
        for text in ["", "100644", "100644 0,0", "100644 0,0 1", "9 0,0 1:1", "644 0,0 1:1"] {
            assert_eq!(FakeStat::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(FakeStat::parse(b"20666 x,3 1:1"), None);
        assert_eq!(FakeStat::parse(b"100644 0,0 -1:1"), None);
        assert_eq!(FakeStat::parse(b"\xff"), None);
    }

    #[test]
    fn an_acl_reads_as_it_was_written() {
        let named = vec![
            AclEntry { who: IdKind::User, id: 5, perms: 6 },
            AclEntry { who: IdKind::Group, id: 5, perms: 1 },
        ];
        for acl in [
            Acl { owner: 7, group: 5, mask: Some(7), other: 0, named },
            Acl { owner: 7, group: 5, mask: None, other: 4, named: Vec::new() },
        ] {
            assert_eq!(parse_acl(&acl_bytes(&acl), 0), Some(acl));
        }
    }

    #[test]
    fn the_mode_fills_in_missing_permissions() {
        let mut bytes = [NO_ENTRY; 4].map(u32::to_le_bytes).concat();
        let plain = Acl { owner: 7, group: 5, mask: None, other: 1, named: Vec::new() };
        assert_eq!(parse_acl(&bytes, 0o751), Some(plain.clone()));
        bytes.extend([9, IS_USER | 4].map(u32::to_le_bytes).concat());
        let named = vec![AclEntry { who: IdKind::User, id: 9, perms: 4 }];
        assert_eq!(parse_acl(&bytes, 0o751), Some(Acl { mask: Some(5), named, ..plain }));
        for len in [0, 12, 20, 23] {
            assert_eq!(parse_acl(&bytes[..len], 0), None, "{len}");
        }
        bytes[0] = 8;
        assert_eq!(parse_acl(&bytes, 0), None);
    }
}
