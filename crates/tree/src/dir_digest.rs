//! Digests of directories: the number of entries and keyed sums over the compared attributes. Equal digests mean that a
//! sync has nothing to do in the directory.
//!
//! Each entry is hashed with a secret key, and the hashes are added up. Addition makes the order of entries irrelevant
//! and needs no memory per entry. Owners and groups have sums of their own, because a receiver without root privileges
//! does not compare owners. docs/protocol.md, "Tallies", defines the bytes.

use std::fmt;

use crate::meta::{Acl, Device, DeviceClass, EXECUTE_BITS, Kind, Meta, Timestamp, Xattr};
use deltic_core::Digest;
use deltic_core::codec::Put;
use deltic_core::keyed::{KEY_BYTES, Key};

/// Length of one sum in bytes.
pub const DIR_SUM_BYTES: usize = 16;
/// Length in bytes of the part of a sum that is compared. Two different directories look alike once in 2⁸⁰ comparisons.
pub const COMPARED_SUM_BYTES: usize = 10;

/// Secret key of the sums, made for one session. A peer cannot choose names or times that collide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DirDigestKey([u8; KEY_BYTES]);

impl DirDigestKey {
    /// Derives the key from the sender's half of the session key. The sender lists directories before the receiver's
    /// half arrives.
    #[must_use]
    pub fn of(part: &Key) -> Self {
        Self(blake3::derive_key(CONTEXT, part.as_bytes()))
    }

    fn hash(&self, bytes: &[u8]) -> [u128; 2] {
        let hash: [u8; 32] = blake3::keyed_hash(&self.0, bytes).into();
        let half = |at: usize| {
            u128::from_le_bytes(hash[at..at + DIR_SUM_BYTES].try_into().expect("a half"))
        };
        [half(0), half(DIR_SUM_BYTES)]
    }
}

impl fmt::Debug for DirDigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirDigestKey(secret)")
    }
}

const CONTEXT: &str = "deltic 2026 tally";

/// Attributes that a sync compares besides kind, length, link target and device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparedAttributes {
    /// True if digests of file contents are compared.
    pub contents: bool,
    /// True if modification times of files are compared.
    pub file_times: bool,
    /// True if permission bits are compared.
    pub modes: bool,
    /// True if only the execute bits of files are compared (`--executability`).
    pub executability: bool,
    /// True if modification times of directories are compared.
    pub dir_times: bool,
    /// True if modification times of symbolic links are compared.
    pub link_times: bool,
    /// True if modification times of devices, FIFOs and sockets are compared.
    pub special_times: bool,
    /// True if owners are compared.
    pub users: bool,
    /// True if groups are compared.
    pub groups: bool,
    /// True if ACLs are compared.
    pub acls: bool,
    /// True if extended attributes are compared.
    pub xattrs: bool,
    /// True if hard links are preserved. A digest then covers no file with several hard links.
    pub hard_links: bool,
}

impl ComparedAttributes {
    /// True if a digest can cover this entry. A digest does not cover the names of a file with several hard links, ACLs
    /// with named users or groups (their ids differ between machines), and attributes that could not be read.
    #[must_use]
    pub fn cover(&self, meta: &Meta) -> bool {
        let acls = meta.access_acl().into_iter().chain(meta.default_acl());
        let names_owners = self.acls && acls.into_iter().any(|acl| !acl.named.is_empty());
        let is_unread = (self.acls || self.xattrs) && meta.has_unread_attributes();
        let is_linked = self.hard_links && meta.hard_link().is_some();
        !names_owners && !is_unread && !is_linked
    }
}

/// Digest of the entries of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirDigest {
    /// Number of entries.
    pub entries: u64,
    /// Sum over all compared attributes except owners and groups.
    pub sum: u128,
    /// Sum over owners, if owners are compared.
    pub users: Option<u128>,
    /// Sum over groups, if groups are compared.
    pub groups: Option<u128>,
}

impl DirDigest {
    /// Returns the digest with the compared part of each sum, which is a sum too.
    #[must_use]
    pub fn compared_part(self) -> Self {
        const PART: u128 = (1 << (8 * COMPARED_SUM_BYTES)) - 1;
        let Self { entries, sum, users, groups } = self;
        let [users, groups] = [users, groups].map(|sum| sum.map(|sum| sum & PART));
        Self { entries, sum: sum & PART, users, groups }
    }
}

/// Computes the digest of a directory, one entry at a time.
#[derive(Clone, Debug)]
pub struct DirHasher {
    key: DirDigestKey,
    compared: ComparedAttributes,
    digest: DirDigest,
    record: Vec<u8>,
    /// Hashes of the last user id and the last group id. Most entries of a directory have the same owner.
    last: [HashedId; 2],
}

/// A user id or group id with its hash.
#[derive(Clone, Copy, Debug)]
struct HashedId {
    id: u32,
    hash: u128,
}

impl DirHasher {
    /// Starts the digest of a directory without entries.
    #[must_use]
    pub fn new(key: &DirDigestKey, compared: ComparedAttributes) -> Self {
        let zero = key.hash(&0_u32.to_le_bytes())[0];
        Self {
            key: *key,
            compared,
            digest: DirDigest {
                users: compared.users.then_some(0),
                groups: compared.groups.then_some(0),
                ..DirDigest::default()
            },
            record: Vec::new(),
            last: [HashedId { id: 0, hash: zero }; 2],
        }
    }

    /// Adds an entry. Each name is added once; owner and group are the sender's ids. `content` is the digest of a
    /// non-empty file and counts only if contents are compared.
    pub fn add(&mut self, name: &[u8], meta: &Meta, content: Option<&Digest>) {
        self.record.clear();
        write(&mut self.record, name, meta, self.compared);
        if let Some(content) = content.filter(|_| self.compared.contents) {
            self.record.put_bytes(content.as_bytes());
        }
        let [own, tied] = self.key.hash(&self.record);
        self.digest.entries += 1;
        self.digest.sum = self.digest.sum.wrapping_add(own);
        if let Some(users) = &mut self.digest.users {
            let user = id_hash(&self.key, &mut self.last[0], meta.user.unwrap_or_default());
            *users = users.wrapping_add(tied.wrapping_mul(user));
        }
        if let Some(groups) = &mut self.digest.groups {
            let group = id_hash(&self.key, &mut self.last[1], meta.group.unwrap_or_default());
            *groups = groups.wrapping_add(tied.wrapping_mul(group));
        }
    }

    /// Returns the digest of the entries added so far.
    #[must_use]
    pub const fn digest(&self) -> DirDigest {
        self.digest
    }
}

/// Returns the keyed hash of a user id or group id.
fn id_hash(key: &DirDigestKey, last: &mut HashedId, id: u32) -> u128 {
    if last.id != id {
        *last = HashedId { id, hash: key.hash(&id.to_le_bytes())[0] };
    }
    last.hash
}

/// Writes the compared attributes of an entry. The record is longer than an id, so the hash input of an entry never
/// equals the hash input of an id.
fn write(to: &mut Vec<u8>, name: &[u8], meta: &Meta, compared: ComparedAttributes) {
    let (kind, has_time) = match &meta.kind {
        Kind::File => (0, compared.file_times),
        Kind::Dir => (1, compared.dir_times),
        Kind::Symlink(_) => (2, compared.link_times),
        Kind::Fifo => (3, compared.special_times),
        Kind::Socket => (4, compared.special_times),
        Kind::Device(Device { class: DeviceClass::Char, .. }) => (5, compared.special_times),
        Kind::Device(Device { class: DeviceClass::Block, .. }) => (6, compared.special_times),
    };
    to.put_u8(kind);
    to.put_bytes(name);
    to.put_u8(0);
    to.put_bytes(&meta.len.to_le_bytes());
    if has_time {
        let Timestamp { secs, nanos } = meta.modified;
        to.put_bytes(&secs.to_le_bytes());
        to.put_bytes(&nanos.to_le_bytes());
    }
    if compared.modes && !meta.is_symlink() {
        to.put_bytes(&meta.mode.to_le_bytes());
    } else if compared.executability && meta.is_file() {
        to.put_u8(u8::from(meta.mode & EXECUTE_BITS != 0));
    }
    match &meta.kind {
        Kind::Symlink(target) => to.put_bytes(target),
        Kind::Device(Device { major, minor, .. }) => {
            to.put_bytes(&major.to_le_bytes());
            to.put_bytes(&minor.to_le_bytes());
        }
        Kind::File | Kind::Dir | Kind::Fifo | Kind::Socket => {}
    }
    if compared.acls {
        write_acl(to, meta.access_acl());
        write_acl(to, meta.default_acl());
    }
    if compared.xattrs {
        to.put_bytes(&(meta.xattrs().len() as u64).to_le_bytes());
        for Xattr { name, value } in meta.xattrs() {
            to.put_bytes(&(name.len() as u64).to_le_bytes());
            to.put_bytes(name);
            to.put_bytes(&(value.len() as u64).to_le_bytes());
            to.put_bytes(value);
        }
    }
}

/// Writes an ACL without named users and groups.
fn write_acl(to: &mut Vec<u8>, acl: Option<&Acl>) {
    to.put_u8(u8::from(acl.is_some()));
    if let Some(Acl { owner, group, mask, other, named: _ }) = acl {
        to.put_bytes(&[*owner, *group, mask.unwrap_or(NO_MASK), *other]);
    }
}

/// Stands for an ACL without a mask.
const NO_MASK: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{AclEntry, ExtraMeta, HardLink, IdKind, Inode, UnreadReason};

    const ALL: ComparedAttributes = ComparedAttributes {
        contents: false,
        file_times: true,
        modes: true,
        executability: false,
        dir_times: true,
        link_times: true,
        special_times: true,
        users: true,
        groups: true,
        acls: true,
        xattrs: true,
        hard_links: true,
    };

    fn key() -> DirDigestKey {
        DirDigestKey::of(&Key::from_bytes([7; KEY_BYTES]))
    }

    fn entry(kind: Kind) -> Meta {
        let meta = Meta::without_owner(kind, 5, Timestamp { secs: 1, nanos: 2 }, 0o644);
        Meta { user: Some(1000), group: Some(100), ..meta }
    }

    fn digest_of(compared: ComparedAttributes, entries: &[(&str, Meta)]) -> DirDigest {
        let mut hasher = DirHasher::new(&key(), compared);
        entries.iter().for_each(|(name, meta)| hasher.add(name.as_bytes(), meta, None));
        hasher.digest()
    }

    #[test]
    fn the_order_of_entries_does_not_count() {
        let (a, b) = (("a", entry(Kind::File)), ("b", entry(Kind::Dir)));
        let one = digest_of(ALL, &[a.clone(), b.clone()]);
        assert_eq!(one, digest_of(ALL, &[b.clone(), a.clone()]));
        assert_ne!(one, digest_of(ALL, std::slice::from_ref(&a)));
        assert_ne!(digest_of(ALL, &[a]), digest_of(ALL, &[b]));
    }

    #[test]
    fn each_thing_that_is_compared_counts_and_nothing_else() {
        let link = || Kind::Symlink(b"x".as_slice().into());
        let device = |minor| Kind::Device(Device { class: DeviceClass::Char, major: 1, minor });
        let time = Timestamp { secs: 1, nanos: 3 };
        let none = ComparedAttributes::default();
        let file_times = ComparedAttributes { file_times: true, ..none };
        let times =
            ComparedAttributes { dir_times: true, link_times: true, special_times: true, ..none };
        let modes = ComparedAttributes { modes: true, ..none };
        let executability = ComparedAttributes { executability: true, ..none };
        let users = ComparedAttributes { users: true, ..none };
        let groups = ComparedAttributes { groups: true, ..none };
        let later = |kind: Kind| Meta { modified: time, ..entry(kind) };
        let mode = |kind: Kind, mode| Meta { mode, ..entry(kind) };
        let cases = [
            (entry(Kind::File), Meta { len: 6, ..entry(Kind::File) }, none, true),
            (entry(Kind::File), later(Kind::File), none, false),
            (entry(Kind::File), later(Kind::File), file_times, true),
            (entry(Kind::Dir), later(Kind::Dir), file_times, false),
            (entry(Kind::Dir), later(Kind::Dir), none, false),
            (entry(Kind::Dir), later(Kind::Dir), times, true),
            (entry(link()), later(link()), none, false),
            (entry(link()), later(link()), times, true),
            (entry(Kind::Fifo), later(Kind::Fifo), times, true),
            (entry(Kind::Fifo), entry(Kind::Socket), none, true),
            (entry(link()), entry(Kind::Symlink(b"y".as_slice().into())), none, true),
            (entry(device(1)), entry(device(2)), none, true),
            (entry(Kind::File), mode(Kind::File, 0o600), none, false),
            (entry(Kind::File), mode(Kind::File, 0o600), modes, true),
            (entry(link()), mode(link(), 0o600), modes, false),
            (entry(Kind::File), mode(Kind::File, 0o600), executability, false),
            (entry(Kind::File), mode(Kind::File, 0o744), executability, true),
            (entry(Kind::Dir), mode(Kind::Dir, 0o600), executability, false),
            (entry(Kind::File), Meta { user: Some(0), ..entry(Kind::File) }, none, false),
            (entry(Kind::File), Meta { user: Some(0), ..entry(Kind::File) }, users, true),
            (entry(Kind::File), Meta { group: Some(0), ..entry(Kind::File) }, users, false),
            (entry(Kind::File), Meta { group: Some(0), ..entry(Kind::File) }, groups, true),
        ];
        for (one, other, compared, differs) in cases {
            let digest = |meta: &Meta| digest_of(compared, &[("a", meta.clone())]);
            assert_eq!(digest(&one) != digest(&other), differs, "{one:?} {other:?} {compared:?}");
        }
    }

    #[test]
    fn acls_and_extended_attributes_count_where_they_are_compared() {
        let with = |more: ExtraMeta| Meta { more: more.into_box(), ..entry(Kind::File) };
        let xattr = |name: &[u8], value: &[u8]| Xattr { name: name.into(), value: value.into() };
        let xattrs = |xattrs| with(ExtraMeta { xattrs, ..ExtraMeta::default() });
        let acl = |mask| Acl { owner: 6, group: 4, mask, other: 0, named: Vec::new() };
        let access = |mask| with(ExtraMeta { access_acl: Some(acl(mask)), ..ExtraMeta::default() });
        let default =
            |mask| with(ExtraMeta { default_acl: Some(acl(mask)), ..ExtraMeta::default() });
        let none = ComparedAttributes::default();
        let by_xattrs = ComparedAttributes { xattrs: true, ..none };
        let by_acls = ComparedAttributes { acls: true, ..none };
        let all = [
            entry(Kind::File),
            xattrs(vec![xattr(b"user.a", b"1")]),
            xattrs(vec![xattr(b"user.a", b"2")]),
            xattrs(vec![xattr(b"user.a1", b"")]),
            xattrs(vec![xattr(b"user.a", b""), xattr(b"user.b", b"")]),
            access(None),
            access(Some(7)),
            default(None),
        ];
        for (at, one) in all.iter().enumerate() {
            for (to, other) in all.iter().enumerate() {
                let differ = |compared| {
                    let digest = |meta: &Meta| digest_of(compared, &[("a", meta.clone())]);
                    digest(one) != digest(other)
                };
                let has_xattrs = (1..5).contains(&at) || (1..5).contains(&to);
                let has_acls = at >= 5 || to >= 5;
                assert!(!differ(none), "{one:?} {other:?}");
                assert_eq!(differ(by_xattrs), at != to && has_xattrs, "{one:?} {other:?}");
                assert_eq!(differ(by_acls), at != to && has_acls, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn names_of_one_file_named_users_and_unread_attributes_are_not_covered() {
        let with = |more: ExtraMeta| Meta { more: more.into_box(), ..entry(Kind::File) };
        let named = AclEntry { who: IdKind::User, id: 7, perms: 6 };
        let acl = Acl { owner: 6, group: 4, mask: Some(6), other: 0, named: vec![named] };
        let linked = HardLink::Inode(Inode { device: 1, number: 2 }, 2);
        let acls = ComparedAttributes { acls: true, ..ComparedAttributes::default() };
        let xattrs = ComparedAttributes { xattrs: true, ..ComparedAttributes::default() };
        let links = ComparedAttributes { hard_links: true, ..ComparedAttributes::default() };
        let plain = ExtraMeta::default();
        for (more, by) in [
            (ExtraMeta { access_acl: Some(acl.clone()), ..plain.clone() }, vec![acls]),
            (ExtraMeta { default_acl: Some(acl), ..plain.clone() }, vec![acls]),
            (ExtraMeta { unread: Some(UnreadReason::Denied), ..plain.clone() }, vec![acls, xattrs]),
            (ExtraMeta { linked: Some(linked), ..plain.clone() }, vec![links]),
            (plain, Vec::new()),
        ] {
            for compared in [acls, xattrs, links, ComparedAttributes::default()] {
                let meta = with(more.clone());
                assert_eq!(compared.cover(&meta), !by.contains(&compared), "{meta:?} {compared:?}");
            }
        }
    }

    #[test]
    fn contents_count_where_they_are_compared() {
        let (one, other) = (Digest::from_bytes([1; 32]), Digest::from_bytes([2; 32]));
        let contents = ComparedAttributes { contents: true, ..ComparedAttributes::default() };
        for (compared, differs) in [(contents, true), (ComparedAttributes::default(), false)] {
            let digest = |content| {
                let mut hasher = DirHasher::new(&key(), compared);
                hasher.add(b"a", &entry(Kind::File), content);
                hasher.digest()
            };
            assert_eq!(digest(Some(&one)), digest(Some(&one)));
            assert_eq!(digest(Some(&one)) != digest(Some(&other)), differs, "{compared:?}");
            assert_eq!(digest(Some(&one)) != digest(None), differs, "{compared:?}");
        }
    }

    #[test]
    fn swapping_the_owners_of_two_entries_changes_the_digest() {
        let of = |user| Meta { user: Some(user), ..entry(Kind::File) };
        let one = digest_of(ALL, &[("a", of(1)), ("b", of(2))]);
        let other = digest_of(ALL, &[("a", of(2)), ("b", of(1))]);
        assert_eq!((one.sum, one.groups), (other.sum, other.groups));
        assert_ne!(one.users, other.users);
    }

    #[test]
    fn another_key_makes_another_digest() {
        let other = DirDigestKey::of(&Key::from_bytes([8; KEY_BYTES]));
        let mut hasher = DirHasher::new(&other, ALL);
        hasher.add(b"a", &entry(Kind::File), None);
        assert_ne!(hasher.digest().sum, digest_of(ALL, &[("a", entry(Kind::File))]).sum);
    }

    /// The bytes that docs/protocol.md, "Tallies", defines.
    #[test]
    fn a_record_is_as_the_protocol_says() {
        let mut record = Vec::new();
        write(&mut record, b"n", &entry(Kind::File), ALL);
        let expected = [
            &b"\0n\0"[..],
            &5_u64.to_le_bytes(),
            &1_i64.to_le_bytes(),
            &2_u32.to_le_bytes(),
            &0o644_u32.to_le_bytes(),
            // No ACL, no default ACL, no extended attribute.
            &[0, 0],
            &0_u64.to_le_bytes(),
        ];
        assert_eq!(record, expected.concat());
        let key = key();
        let hash: [u8; 32] = blake3::keyed_hash(&key.0, &record).into();
        let tied = u128::from_le_bytes(*hash.last_chunk().unwrap());
        let user: [u8; 32] = blake3::keyed_hash(&key.0, &1000_u32.to_le_bytes()).into();
        let user = u128::from_le_bytes(*user.first_chunk().unwrap());
        let digest = digest_of(ALL, &[("n", entry(Kind::File))]);
        assert_eq!(digest.sum, u128::from_le_bytes(*hash.first_chunk().unwrap()));
        assert_eq!(digest.users, Some(tied.wrapping_mul(user)));
    }
}
