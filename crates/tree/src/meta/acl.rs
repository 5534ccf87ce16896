//! POSIX access control lists (POSIX.1e draft 17) and their encoding in Linux extended attributes.

/// Largest number of named users and groups in one ACL.
pub const MAX_ACL_NAMED: usize = 4096;

/// An ACL: access ACL of an entry or default ACL of a directory. Permissions are bits: 4 to read, 2 to write, 1 to
/// execute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Permissions of the owner.
    pub owner: u8,
    /// Permissions of the owning group.
    pub group: u8,
    /// Upper bound for the group and for named users and groups. Required if `named` is not empty.
    pub mask: Option<u8>,
    /// Permissions of all others.
    pub other: u8,
    /// Named users and groups, sorted, without duplicates.
    pub named: Vec<AclEntry>,
}

/// Permissions of a named user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclEntry {
    /// Kind of `id`.
    pub who: IdKind,
    /// User id or group id.
    pub id: u32,
    /// Permission bits.
    pub perms: u8,
}

/// Kind of an id: user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdKind {
    /// A user.
    User,
    /// A group.
    Group,
}

impl Acl {
    /// Parses the Linux encoding. Returns `None` for invalid bytes, and for more than [`MAX_ACL_NAMED`] names.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, lines) = bytes.split_first_chunk()?;
        let (lines, rest) = lines.as_chunks::<LINE_BYTES>();
        if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
            return None;
        }
        let mut acl = Self::default();
        for [tag, tag_high, perms, perms_high, id @ ..] in lines {
            let (tag, id) = (u16::from_le_bytes([*tag, *tag_high]), u32::from_le_bytes(*id));
            if *perms > 7 || *perms_high > 0 {
                return None;
            }
            match tag {
                OWNER => acl.owner = *perms,
                GROUP => acl.group = *perms,
                MASK => acl.mask = Some(*perms),
                OTHER => acl.other = *perms,
                NAMED_USER => acl.named.push(AclEntry { who: IdKind::User, id, perms: *perms }),
                NAMED_GROUP => acl.named.push(AclEntry { who: IdKind::Group, id, perms: *perms }),
                _ => return None,
            }
        }
        acl.sort_and_deduplicate();
        acl.is_valid().then_some(acl)
    }

    /// Sorts the named entries after their ids were changed, and removes duplicates except the first.
    pub fn sort_and_deduplicate(&mut self) {
        self.named.sort_by_key(|named| (named.who, named.id));
        self.named.dedup_by_key(|named| (named.who, named.id));
    }

    /// True if all permissions are valid and `named` is short enough, sorted, free of duplicates, and masked.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let perms = [self.owner, self.group, self.other, self.mask.unwrap_or(0)];
        let all = perms.into_iter().chain(self.named.iter().map(|named| named.perms));
        let keys = || self.named.iter().map(|named| (named.who, named.id));
        all.max() <= Some(7)
            && self.named.len() <= MAX_ACL_NAMED
            && keys().zip(keys().skip(1)).all(|(one, next)| one < next)
            && (self.mask.is_some() || self.named.is_empty())
    }

    /// Returns the Linux encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        let mut line = |tag: u16, perms: u8, id: u32| {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(u16::from(perms).to_le_bytes());
            bytes.extend(id.to_le_bytes());
        };
        let (users, groups): (Vec<AclEntry>, Vec<AclEntry>) =
            self.named.iter().partition(|named| named.who == IdKind::User);
        line(OWNER, self.owner, NO_ID);
        users.iter().for_each(|user| line(NAMED_USER, user.perms, user.id));
        line(GROUP, self.group, NO_ID);
        groups.iter().for_each(|group| line(NAMED_GROUP, group.perms, group.id));
        if let Some(mask) = self.mask {
            line(MASK, mask, NO_ID);
        }
        line(OTHER, self.other, NO_ID);
        bytes
    }

    /// Returns this ACL with the permissions of `mode`. Owner, mask (or group, without a mask) and others follow the
    /// mode.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Self {
        let bits = |place: u32| (mode >> place & 7) as u8;
        let mask = self.mask.map(|_| bits(3));
        let group = if mask.is_some() { self.group } else { bits(3) };
        Self { owner: bits(6), group, mask, other: bits(0), named: self.named.clone() }
    }

    /// True if both ACLs are equal apart from the permissions that the mode determines.
    #[must_use]
    pub fn is_equal_except_mode(&self, other: &Self) -> bool {
        let beside = |acl: &Self| acl.mask.map(|_| acl.group);
        beside(self) == beside(other) && self.named == other.named
    }
}

const VERSION: u32 = 2;
const LINE_BYTES: usize = 8;
const OWNER: u16 = 0x01;
const NAMED_USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const NAMED_GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// Id in lines for owner, group, mask and others.
const NO_ID: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn acl() -> Acl {
        let user = |id, perms| AclEntry { who: IdKind::User, id, perms };
        let named =
            vec![user(7, 6), user(1000, 4), AclEntry { who: IdKind::Group, id: 7, perms: 5 }];
        Acl { owner: 7, group: 5, mask: Some(7), other: 1, named }
    }

    #[test]
    fn an_acl_reads_as_it_was_written() {
        let bytes = acl().to_bytes();
        assert_eq!(bytes.len(), 4 + 7 * 8);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]);
        assert_eq!(Acl::parse(&bytes), Some(acl()));
    }

    #[test]
    fn invalid_acl_bytes_are_refused() {
        let good = acl().to_bytes();
        for bytes in [&b""[..], b"\x02\0\0", b"\x03\0\0\0", &good[..good.len() - 1]] {
            assert_eq!(Acl::parse(bytes), None, "{bytes:?}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Acl::parse(&bytes)
        };
        assert_eq!(with(6, 8), None, "an invalid permission");
        assert_eq!(with(4, 3), None, "an invalid tag");
        let unmasked = Acl { mask: None, ..acl() };
        assert_eq!(Acl::parse(&unmasked.to_bytes()), None, "names without a mask");
    }

    #[test]
    fn the_mode_determines_owner_mask_and_others() {
        let changed = acl().with_mode(0o640);
        assert_eq!(changed, Acl { owner: 6, group: 5, mask: Some(4), other: 0, ..acl() });
        assert!(changed.is_equal_except_mode(&acl()));
        assert!(!Acl { group: 4, ..acl() }.is_equal_except_mode(&acl()));
        let bare = Acl { mask: None, named: Vec::new(), ..acl() };
        assert_eq!(bare.with_mode(0o751), Acl { owner: 7, group: 5, other: 1, ..bare.clone() });
    }
}
