//! Names and metadata on the wire: for each type, encoding and decoding side by side.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::meta::{
    AclEntry, Device, DeviceClass, HardLink, IdKind, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES,
    UnreadReason,
};
use deltic_tree::{Acl, Entry, ExtraMeta, Kind, Meta, Name, RelPath, Timestamp, Xattr};

use super::codec::{BadPayload, WireEncoding};
use super::limits::MAX_XATTRS_BYTES;

impl WireEncoding for Name {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::new(from.prefixed(deltic_tree::path::MAX_NAME_BYTES)?)?)
    }
}

impl WireEncoding for RelPath {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::parse(from.prefixed(deltic_tree::path::MAX_PATH_BYTES)?)?)
    }
}

impl WireEncoding for Timestamp {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_signed(self.secs);
        to.put_varint(u64::from(self.nanos));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (secs, nanos) = (from.signed()?, from.varint_u32()?);
        if nanos >= 1_000_000_000 {
            Err(CodecError::OutOfRange.into())
        } else {
            Ok(Self { secs, nanos })
        }
    }
}

impl WireEncoding for Kind {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::File => to.put_u8(0),
            Self::Dir => to.put_u8(1),
            Self::Symlink(target) => {
                to.put_u8(2);
                target.write_to(to);
            }
            Self::Fifo => to.put_u8(3),
            Self::Socket => to.put_u8(4),
            Self::Device(Device { class, major, minor }) => {
                to.put_u8(if *class == DeviceClass::Char { 5 } else { 6 });
                major.write_to(to);
                minor.write_to(to);
            }
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let number = from.u8()?;
        read_kind(number, from)
    }
}

/// Reads the rest of a kind with this number.
fn read_kind(number: u8, from: &mut Reader<'_>) -> Result<Kind, BadPayload> {
    let device = |class, from: &mut Reader<'_>| {
        let (major, minor) = (from.varint_u32()?, from.varint_u32()?);
        Ok(Kind::Device(Device { class, major, minor }))
    };
    match number {
        0 => Ok(Kind::File),
        1 => Ok(Kind::Dir),
        2 => read_symlink(from),
        3 => Ok(Kind::Fifo),
        4 => Ok(Kind::Socket),
        5 => device(DeviceClass::Char, from),
        6 => device(DeviceClass::Block, from),
        _ => Err(CodecError::OutOfRange.into()),
    }
}

/// Reads the target of a symlink.
pub(crate) fn read_symlink(from: &mut Reader<'_>) -> Result<Kind, BadPayload> {
    let target: Box<[u8]> = WireEncoding::read_from(from)?;
    let bad = target.is_empty() || target.contains(&0);
    if bad { Err(CodecError::OutOfRange.into()) } else { Ok(Kind::Symlink(target)) }
}

/// Value in place of the kind for an entry that is a further hard link of an earlier file.
const BACK: u8 = 7;

/// Bits above the mode: a bit for each optional field, set if the run requests the field and the entry has one.
const USER: u32 = 1 << 12;
const GROUP: u32 = 1 << 13;
const ACCESSED: u32 = 1 << 14;
const LINKED: u32 = 1 << 15;
const ACCESS_ACL: u32 = 1 << 16;
const DEFAULT_ACL: u32 = 1 << 17;
const XATTRS: u32 = 1 << 18;
const UNREAD: u32 = 1 << 19;
const ON_THE_WAY: u32 = 1 << 20;

/// Returns the bits above the mode.
fn optional_bits(meta: &Meta) -> u32 {
    let none = ExtraMeta::default();
    let more = meta.more.as_deref().unwrap_or(&none);
    let fields = [
        (meta.user.is_some(), USER),
        (meta.group.is_some(), GROUP),
        (more.accessed.is_some(), ACCESSED),
        (more.linked.is_some(), LINKED),
        (more.access_acl.is_some(), ACCESS_ACL),
        (more.default_acl.is_some(), DEFAULT_ACL),
        (!more.xattrs.is_empty(), XATTRS),
        (more.unread.is_some(), UNREAD),
        (more.implied, ON_THE_WAY),
    ];
    fields.iter().filter(|(has, _)| *has).fold(0, |bits, (_, bit)| bits | bit)
}

/// True if the metadata of an entry has an optional field besides user and group.
pub(crate) fn has_optional_fields(meta: &Meta) -> bool {
    optional_bits(meta) & !(USER | GROUP) != 0
}

impl WireEncoding for Meta {
    fn write_to(&self, to: &mut Vec<u8>) {
        if let Some(HardLink::Back(back)) = self.hard_link() {
            to.put_u8(BACK);
            return back.write_to(to);
        }
        self.kind.write_to(to);
        if self.is_file() {
            self.len.write_to(to);
        }
        self.modified.write_to(to);
        (self.mode | optional_bits(self)).write_to(to);
        let none = ExtraMeta::default();
        let more = self.more.as_deref().unwrap_or(&none);
        self.user.iter().chain(&self.group).for_each(|id| id.write_to(to));
        more.accessed.iter().for_each(|time| time.write_to(to));
        // The inode number means nothing at the other end, and is not sent.
        if let Some(HardLink::First(names) | HardLink::Inode(_, names)) = more.linked {
            names.write_to(to);
        }
        more.access_acl.iter().chain(&more.default_acl).for_each(|acl| acl.write_to(to));
        if !more.xattrs.is_empty() {
            more.xattrs.write_to(to);
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let number = from.u8()?;
        if number == BACK {
            let back = Some(from.varint()?).filter(|back| *back > 0);
            let linked = Some(HardLink::Back(back.ok_or(CodecError::OutOfRange)?));
            let mut meta = Self::without_owner(Kind::File, 0, Timestamp::default(), 0);
            meta.set_hard_link(linked);
            return Ok(meta);
        }
        let kind = read_kind(number, from)?;
        let len = if kind == Kind::File { from.varint()? } else { 0 };
        let (modified, bits) = (Timestamp::read_from(from)?, u32::read_from(from)?);
        if bits >= ON_THE_WAY << 1 || len > i64::MAX as u64 {
            return Err(CodecError::OutOfRange.into());
        }
        let mut meta = Self::without_owner(kind, len, modified, bits & 0o7777);
        meta.user = read_if_set(bits & USER, from)?;
        meta.group = read_if_set(bits & GROUP, from)?;
        let more = ExtraMeta {
            accessed: read_if_set(bits & ACCESSED, from)?,
            linked: read_if_set(bits & LINKED, from)?.map(first_hard_link).transpose()?,
            access_acl: read_if_set(bits & ACCESS_ACL, from)?,
            default_acl: read_if_set(bits & DEFAULT_ACL, from)?,
            xattrs: read_if_set(bits & XATTRS, from)?
                .map(check_xattrs)
                .transpose()?
                .unwrap_or_default(),
            unread: (bits & UNREAD != 0).then_some(UnreadReason::Other),
            implied: bits & ON_THE_WAY != 0,
            owner: None,
        };
        meta.more = more.into_box();
        Ok(meta)
    }
}

fn read_if_set<T: WireEncoding>(bit: u32, from: &mut Reader<'_>) -> Result<Option<T>, BadPayload> {
    if bit == 0 { Ok(None) } else { T::read_from(from).map(Some) }
}

/// A file with several names has at least two.
fn first_hard_link(names: u32) -> Result<HardLink, BadPayload> {
    if names < 2 { Err(CodecError::OutOfRange.into()) } else { Ok(HardLink::First(names)) }
}

/// Checks that there is at least one attribute, that the attributes are short enough and that they are sorted by
/// name.
fn check_xattrs(xattrs: Vec<Xattr>) -> Result<Vec<Xattr>, BadPayload> {
    let bytes: usize = xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
    if bytes > MAX_XATTRS_BYTES {
        return Err(BadPayload::Limit("bytes of extended attributes"));
    }
    let ascend = xattrs.windows(2).all(|pair| pair[0].name < pair[1].name);
    if ascend && bytes > 0 { Ok(xattrs) } else { Err(CodecError::OutOfRange.into()) }
}

impl WireEncoding for Xattr {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_prefixed(&self.name);
        to.put_prefixed(&self.value);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let name: Box<[u8]> = from.prefixed(MAX_XATTR_NAME_BYTES)?.into();
        let value = from.prefixed(MAX_XATTR_VALUE_BYTES)?.into();
        let spaces = [&b"user."[..], b"security.", b"trusted."];
        let known = spaces.iter().any(|space| name.starts_with(space) && name.len() > space.len());
        if !known || name.contains(&0) {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { name, value })
    }
}

impl WireEncoding for Acl {
    fn write_to(&self, to: &mut Vec<u8>) {
        let mask = self.mask.map_or(NO_MASK, u8::into);
        let perms = [mask, self.owner.into(), self.group.into(), self.other.into()];
        perms.into_iter().fold(0, |all: u32, perms| all << 3 | perms).write_to(to);
        self.named.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let perms = from.varint_u32()?;
        let three = |place: u32| (perms >> place & 7) as u8;
        let mask = (perms >> 9 != NO_MASK).then(|| three(9));
        let named = Vec::read_from(from)?;
        let acl = Self { mask, owner: three(6), group: three(3), other: three(0), named };
        if perms >> 9 > NO_MASK || !acl.is_valid() {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(acl)
    }
}

/// Wire value for an ACL without a mask.
const NO_MASK: u32 = 8;

impl WireEncoding for AclEntry {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_u8(self.perms | if self.who == IdKind::Group { 8 } else { 0 });
        self.id.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let bits = from.u8()?;
        if bits > 15 {
            return Err(CodecError::OutOfRange.into());
        }
        let who = if bits & 8 == 0 { IdKind::User } else { IdKind::Group };
        Ok(Self { who, id: from.varint_u32()?, perms: bits & 7 })
    }
}

impl WireEncoding for Entry {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.name.write_to(to);
        self.meta.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { name: WireEncoding::read_from(from)?, meta: WireEncoding::read_from(from)? })
    }
}
