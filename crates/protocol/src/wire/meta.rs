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
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::new(from.prefixed(deltic_tree::path::MAX_NAME_BYTES)?)?)
    }
}

impl WireEncoding for RelPath {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self::parse(from.prefixed(deltic_tree::path::MAX_PATH_BYTES)?)?)
    }
}

impl WireEncoding for Timestamp {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_signed(self.secs);
        to.put_varint(u64::from(self.nanos));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (secs, nanos) = (from.signed()?, from.varint_u32()?);
        if nanos >= 1_000_000_000 {
            Err(CodecError::OutOfRange.into())
        } else {
            Ok(Self { secs, nanos })
        }
    }
}

impl WireEncoding for Kind {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::File => to.put_u8(0),
            Self::Dir => to.put_u8(1),
            Self::Symlink(target) => {
                to.put_u8(2);
                target.put(to);
            }
            Self::Fifo => to.put_u8(3),
            Self::Socket => to.put_u8(4),
            Self::Device(Device { class, major, minor }) => {
                to.put_u8(if *class == DeviceClass::Char { 5 } else { 6 });
                major.put(to);
                minor.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let number = from.u8()?;
        kind(number, from)
    }
}

/// Reads the rest of a kind with this number.
fn kind(number: u8, from: &mut Reader<'_>) -> Result<Kind, BadPayload> {
    let device = |class, from: &mut Reader<'_>| {
        let (major, minor) = (from.varint_u32()?, from.varint_u32()?);
        Ok(Kind::Device(Device { class, major, minor }))
    };
    match number {
        0 => Ok(Kind::File),
        1 => Ok(Kind::Dir),
        2 => take_link(from),
        3 => Ok(Kind::Fifo),
        4 => Ok(Kind::Socket),
        5 => device(DeviceClass::Char, from),
        6 => device(DeviceClass::Block, from),
        _ => Err(CodecError::OutOfRange.into()),
    }
}

/// Reads the target of a symlink.
pub(crate) fn take_link(from: &mut Reader<'_>) -> Result<Kind, BadPayload> {
    let target: Box<[u8]> = WireEncoding::take(from)?;
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
fn bits_of(meta: &Meta) -> u32 {
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
    bits_of(meta) & !(USER | GROUP) != 0
}

impl WireEncoding for Meta {
    fn put(&self, to: &mut Vec<u8>) {
        if let Some(HardLink::Back(back)) = self.linked() {
            to.put_u8(BACK);
            return back.put(to);
        }
        self.kind.put(to);
        if self.is_file() {
            self.len.put(to);
        }
        self.modified.put(to);
        (self.mode | bits_of(self)).put(to);
        let none = ExtraMeta::default();
        let more = self.more.as_deref().unwrap_or(&none);
        self.user.iter().chain(&self.group).for_each(|id| id.put(to));
        more.accessed.iter().for_each(|time| time.put(to));
        // The inode number means nothing at the other end, and is not sent.
        if let Some(HardLink::First(names) | HardLink::Inode(_, names)) = more.linked {
            names.put(to);
        }
        more.access_acl.iter().chain(&more.default_acl).for_each(|acl| acl.put(to));
        if !more.xattrs.is_empty() {
            more.xattrs.put(to);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let number = from.u8()?;
        if number == BACK {
            let back = Some(from.varint()?).filter(|back| *back > 0);
            let linked = Some(HardLink::Back(back.ok_or(CodecError::OutOfRange)?));
            let mut meta = Self::plain(Kind::File, 0, Timestamp::default(), 0);
            meta.set_linked(linked);
            return Ok(meta);
        }
        let kind = kind(number, from)?;
        let len = if kind == Kind::File { from.varint()? } else { 0 };
        let (modified, bits) = (Timestamp::take(from)?, u32::take(from)?);
        if bits >= ON_THE_WAY << 1 || len > i64::MAX as u64 {
            return Err(CodecError::OutOfRange.into());
        }
        let mut meta = Self::plain(kind, len, modified, bits & 0o7777);
        meta.user = take_if(bits & USER, from)?;
        meta.group = take_if(bits & GROUP, from)?;
        let more = ExtraMeta {
            accessed: take_if(bits & ACCESSED, from)?,
            linked: take_if(bits & LINKED, from)?.map(first_of).transpose()?,
            access_acl: take_if(bits & ACCESS_ACL, from)?,
            default_acl: take_if(bits & DEFAULT_ACL, from)?,
            xattrs: take_if(bits & XATTRS, from)?
                .map(checked_xattrs)
                .transpose()?
                .unwrap_or_default(),
            unread: (bits & UNREAD != 0).then_some(UnreadReason::Other),
            implied: bits & ON_THE_WAY != 0,
            owner: None,
        };
        meta.more = more.boxed();
        Ok(meta)
    }
}

fn take_if<T: WireEncoding>(bit: u32, from: &mut Reader<'_>) -> Result<Option<T>, BadPayload> {
    if bit == 0 { Ok(None) } else { T::take(from).map(Some) }
}

/// A file with several names has at least two.
fn first_of(names: u32) -> Result<HardLink, BadPayload> {
    if names < 2 { Err(CodecError::OutOfRange.into()) } else { Ok(HardLink::First(names)) }
}

/// Checks that there is at least one attribute, that the attributes are short enough and that they are sorted by
/// name.
fn checked_xattrs(xattrs: Vec<Xattr>) -> Result<Vec<Xattr>, BadPayload> {
    let bytes: usize = xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
    if bytes > MAX_XATTRS_BYTES {
        return Err(BadPayload::Limit("bytes of extended attributes"));
    }
    let ascend = xattrs.windows(2).all(|pair| pair[0].name < pair[1].name);
    if ascend && bytes > 0 { Ok(xattrs) } else { Err(CodecError::OutOfRange.into()) }
}

impl WireEncoding for Xattr {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(&self.name);
        to.put_prefixed(&self.value);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
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
    fn put(&self, to: &mut Vec<u8>) {
        let mask = self.mask.map_or(NO_MASK, u8::into);
        let perms = [mask, self.owner.into(), self.group.into(), self.other.into()];
        perms.into_iter().fold(0, |all: u32, perms| all << 3 | perms).put(to);
        self.named.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let perms = from.varint_u32()?;
        let three = |place: u32| (perms >> place & 7) as u8;
        let mask = (perms >> 9 != NO_MASK).then(|| three(9));
        let named = Vec::take(from)?;
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
    fn put(&self, to: &mut Vec<u8>) {
        to.put_u8(self.perms | if self.who == IdKind::Group { 8 } else { 0 });
        self.id.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let bits = from.u8()?;
        if bits > 15 {
            return Err(CodecError::OutOfRange.into());
        }
        let who = if bits & 8 == 0 { IdKind::User } else { IdKind::Group };
        Ok(Self { who, id: from.varint_u32()?, perms: bits & 7 })
    }
}

impl WireEncoding for Entry {
    fn put(&self, to: &mut Vec<u8>) {
        self.name.put(to);
        self.meta.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { name: WireEncoding::take(from)?, meta: WireEncoding::take(from)? })
    }
}
