//! How each noun is written in a payload: one `put` and one `take` side by side.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::meta::{
    Device, DeviceClass, Linked, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, Named, Owner, Unread,
    Who,
};
use deltic_tree::path::BadPath;
use deltic_tree::rule::{self, DirMerge, MAX_DIR_MERGES, Marks, PatternRule, Reading, Rule, Rules};
use deltic_tree::{Acl, Entry, Kind, Meta, More, Name, RelPath, Timestamp, Xattr};

use crate::error::PeerError;
use crate::limits::{MAX_ASKED, MAX_BATCH, MAX_RULES, MAX_TEXT_BYTES, MAX_XATTRS_BYTES};
use crate::report::{
    Action, Change, Differs, Facts, Item, MadeRoot, PassedOver, Question, Side, Spot, Totals,
    Trouble, TroubleKind,
};

/// Why a payload could not be read; the caller adds which frame it was.
#[derive(Debug)]
pub(crate) enum Bad {
    Codec(CodecError),
    Path(BadPath),
    Limit(&'static str),
}

impl From<CodecError> for Bad {
    fn from(source: CodecError) -> Self {
        Self::Codec(source)
    }
}

impl From<BadPath> for Bad {
    fn from(source: BadPath) -> Self {
        Self::Path(source)
    }
}

impl Bad {
    pub(crate) fn within(self, frame: &'static str) -> PeerError {
        match self {
            Self::Codec(source) => PeerError::Malformed { frame, source },
            Self::Path(source) => PeerError::BadName { frame, source },
            Self::Limit(what) => PeerError::Limit(what),
        }
    }
}

/// A noun with a place on the wire.
pub(crate) trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad>;
}

/// A count, then the items. Nothing is reserved from the count: memory follows the bytes that came.
impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_varint(self.len() as u64);
        self.iter().for_each(|item| item.put(to));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        items(from, T::take)
    }
}

/// A count, then as many items as that.
pub(crate) fn items<T>(
    from: &mut Reader<'_>,
    mut take: impl FnMut(&mut Reader<'_>) -> Result<T, Bad>,
) -> Result<Vec<T>, Bad> {
    let count = from.varint()?;
    if count > MAX_BATCH as u64 {
        return Err(Bad::Limit("items in one frame"));
    }
    (0..count).map(|_| take(from)).collect()
}

/// Reads a whole payload: nothing may be left over.
pub(crate) fn whole<T>(
    frame: &'static str,
    payload: &[u8],
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, Bad>,
) -> Result<T, PeerError> {
    let mut from = Reader::new(payload);
    let taken = take(&mut from).and_then(|value| Ok(from.finish().map(|()| value)?));
    taken.map_err(|bad| bad.within(frame))
}

/// Up to eight switches in one byte, the first in its lowest bit.
pub(crate) fn put_flags<const N: usize>(to: &mut Vec<u8>, flags: [bool; N]) {
    const { assert!(N <= 8) };
    to.put_u8(flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
}

/// Reads what [`put_flags`] wrote; other bits are refused.
pub(crate) fn take_flags<const N: usize>(from: &mut Reader<'_>) -> Result<[bool; N], Bad> {
    const { assert!(N <= 8) };
    let byte = from.u8()?;
    if u32::from(byte) >> N != 0 {
        return Err(CodecError::OutOfRange.into());
    }
    Ok(std::array::from_fn(|n| byte >> n & 1 == 1))
}

/// A small closed set: its number on the wire is its place in `all`.
pub(crate) fn take_of<T: Copy>(from: &mut Reader<'_>, all: &[T]) -> Result<T, Bad> {
    all.get(usize::from(from.u8()?)).copied().ok_or(Bad::Codec(CodecError::OutOfRange))
}

macro_rules! closed_set {
    ($name:ty: $($variant:ident = $number:literal),+) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                to.put_u8(match self { $(Self::$variant => $number),+ });
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
                $crate::wire::take_of(from, &[$(Self::$variant),+])
            }
        }
    };
}
pub(crate) use closed_set;

closed_set!(Item: File = 0, Dir = 1, Symlink = 2, Device = 3, Special = 4);
closed_set!(PassedOver: New = 0, Exists = 1, Newer = 2, Large = 3, Small = 4);
closed_set!(Side: Sender = 0, Receiver = 1);
closed_set!(TroubleKind: Vanished = 0, Failed = 1, Skipped = 2, DeleteLimit = 3, Warned = 4, UnsafeLink = 5);
closed_set!(rule::Action: Include = 0, Exclude = 1);
closed_set!(rule::Sides: Unsaid = 0, Sender = 1, Receiver = 2, Both = 3);
closed_set!(rule::Syntax: Rules = 0, Excludes = 1, Includes = 2, Cvs = 3, Git = 4);

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_u8(u8::from(*self));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        take_of(from, &[false, true])
    }
}

impl Wire for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_varint(*self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(from.varint()?)
    }
}

impl Wire for u32 {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_varint(u64::from(*self));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(from.varint_u32()?)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|some| some.put(to));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

/// Text for people and programs' names; never longer than its limit, never a reason to fail.
impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        let mut end = self.len().min(MAX_TEXT_BYTES);
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        to.put_prefixed(&self.as_bytes()[..end]);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::from_utf8_lossy(from.prefixed(MAX_TEXT_BYTES)?).into_owned())
    }
}

/// Bytes that the receiving end gives a meaning to: a path argument, a pattern, a link's target.
impl Wire for Box<[u8]> {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(from.prefixed(MAX_TEXT_BYTES)?.into())
    }
}

impl Wire for Name {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::new(from.prefixed(deltic_tree::path::MAX_NAME_BYTES)?)?)
    }
}

impl Wire for RelPath {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::parse(from.prefixed(deltic_tree::path::MAX_PATH_BYTES)?)?)
    }
}

impl Wire for Timestamp {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_signed(self.secs);
        to.put_varint(u64::from(self.nanos));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (secs, nanos) = (from.signed()?, from.varint_u32()?);
        if nanos >= 1_000_000_000 {
            Err(CodecError::OutOfRange.into())
        } else {
            Ok(Self { secs, nanos })
        }
    }
}

impl Wire for Kind {
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
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let number = from.u8()?;
        kind(number, from)
    }
}

/// Reads what a kind of this number says besides.
fn kind(number: u8, from: &mut Reader<'_>) -> Result<Kind, Bad> {
    let device = |class, from: &mut Reader<'_>| {
        let (major, minor) = (from.varint_u32()?, from.varint_u32()?);
        Ok(Kind::Device(Device { class, major, minor }))
    };
    match number {
        0 => Ok(Kind::File),
        1 => Ok(Kind::Dir),
        2 => {
            let target: Box<[u8]> = Wire::take(from)?;
            let bad = target.is_empty() || target.contains(&0);
            if bad { Err(CodecError::OutOfRange.into()) } else { Ok(Kind::Symlink(target)) }
        }
        3 => Ok(Kind::Fifo),
        4 => Ok(Kind::Socket),
        5 => device(DeviceClass::Char, from),
        6 => device(DeviceClass::Block, from),
        _ => Err(CodecError::OutOfRange.into()),
    }
}

/// Stands in the place of a kind where an entry is another name of one told before.
const BACK: u8 = 7;

/// Which of the fields follow that not every run asks for, and not every entry has: a bit above the mode for each.
const USER: u32 = 1 << 12;
const GROUP: u32 = 1 << 13;
const ACCESSED: u32 = 1 << 14;
const LINKED: u32 = 1 << 15;
const ACCESS_ACL: u32 = 1 << 16;
const DEFAULT_ACL: u32 = 1 << 17;
const XATTRS: u32 = 1 << 18;
const UNREAD: u32 = 1 << 19;
const ON_THE_WAY: u32 = 1 << 20;

impl Wire for Meta {
    fn put(&self, to: &mut Vec<u8>) {
        if let Some(Linked::Back(back)) = self.linked() {
            to.put_u8(BACK);
            return back.put(to);
        }
        self.kind.put(to);
        if self.is_file() {
            self.len.put(to);
        }
        self.modified.put(to);
        let none = More::default();
        let more = self.more.as_deref().unwrap_or(&none);
        let fields = [
            (self.user.is_some(), USER),
            (self.group.is_some(), GROUP),
            (more.accessed.is_some(), ACCESSED),
            (more.linked.is_some(), LINKED),
            (more.access_acl.is_some(), ACCESS_ACL),
            (more.default_acl.is_some(), DEFAULT_ACL),
            (!more.xattrs.is_empty(), XATTRS),
            (more.unread.is_some(), UNREAD),
            (more.on_the_way, ON_THE_WAY),
        ];
        let has = fields.iter().filter(|(has, _)| *has).fold(0, |bits, (_, bit)| bits | bit);
        (self.mode | has).put(to);
        self.user.iter().chain(&self.group).for_each(|id| id.put(to));
        more.accessed.iter().for_each(|time| time.put(to));
        // Which inode it is here is nobody's business there.
        if let Some(Linked::First(names) | Linked::Inode(_, names)) = more.linked {
            names.put(to);
        }
        more.access_acl.iter().chain(&more.default_acl).for_each(|acl| acl.put(to));
        if !more.xattrs.is_empty() {
            more.xattrs.put(to);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let number = from.u8()?;
        if number == BACK {
            let back = Some(from.varint()?).filter(|back| *back > 0);
            let linked = Some(Linked::Back(back.ok_or(CodecError::OutOfRange)?));
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
        let more = More {
            accessed: take_if(bits & ACCESSED, from)?,
            linked: take_if(bits & LINKED, from)?.map(first_of).transpose()?,
            access_acl: take_if(bits & ACCESS_ACL, from)?,
            default_acl: take_if(bits & DEFAULT_ACL, from)?,
            xattrs: take_if(bits & XATTRS, from)?
                .map(checked_xattrs)
                .transpose()?
                .unwrap_or_default(),
            unread: (bits & UNREAD != 0).then_some(Unread::Other),
            on_the_way: bits & ON_THE_WAY != 0,
            owner: None,
        };
        meta.more = more.boxed();
        Ok(meta)
    }
}

fn take_if<T: Wire>(bit: u32, from: &mut Reader<'_>) -> Result<Option<T>, Bad> {
    if bit == 0 { Ok(None) } else { T::take(from).map(Some) }
}

/// A file of several names has two at least.
fn first_of(names: u32) -> Result<Linked, Bad> {
    if names < 2 { Err(CodecError::OutOfRange.into()) } else { Ok(Linked::First(names)) }
}

/// At least one, few bytes, in order of name.
fn checked_xattrs(xattrs: Vec<Xattr>) -> Result<Vec<Xattr>, Bad> {
    let bytes: usize = xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
    if bytes > MAX_XATTRS_BYTES {
        return Err(Bad::Limit("bytes of extended attributes"));
    }
    let ascend = xattrs.windows(2).all(|pair| pair[0].name < pair[1].name);
    if ascend && bytes > 0 { Ok(xattrs) } else { Err(CodecError::OutOfRange.into()) }
}

impl Wire for Xattr {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(&self.name);
        to.put_prefixed(&self.value);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
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

impl Wire for Acl {
    fn put(&self, to: &mut Vec<u8>) {
        let mask = self.mask.map_or(NO_MASK, u8::into);
        let perms = [mask, self.owner.into(), self.group.into(), self.other.into()];
        perms.into_iter().fold(0, |all: u32, perms| all << 3 | perms).put(to);
        self.named.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
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

/// What stands for a mask that there is none of.
const NO_MASK: u32 = 8;

impl Wire for Named {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_u8(self.perms | if self.who == Who::Group { 8 } else { 0 });
        self.id.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bits = from.u8()?;
        if bits > 15 {
            return Err(CodecError::OutOfRange.into());
        }
        let who = if bits & 8 == 0 { Who::User } else { Who::Group };
        Ok(Self { who, id: from.varint_u32()?, perms: bits & 7 })
    }
}

impl Wire for Entry {
    fn put(&self, to: &mut Vec<u8>) {
        self.name.put(to);
        self.meta.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { name: Wire::take(from)?, meta: Wire::take(from)? })
    }
}

impl Wire for Rule {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Pattern(PatternRule { action, negated, marks, pattern }) => {
                to.put_u8(0);
                action.put(to);
                negated.put(to);
                marks.put(to);
                pattern.put(to);
            }
            Self::DirMerge(DirMerge { file, reading, inherited }) => {
                to.put_u8(1);
                reading.syntax.put(to);
                reading.words.put(to);
                reading.marks.put(to);
                inherited.put(to);
                file.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Pattern(PatternRule {
                action: Wire::take(from)?,
                negated: Wire::take(from)?,
                marks: Wire::take(from)?,
                pattern: Wire::take(from)?,
            })),
            1 => {
                let (syntax, words) = (Wire::take(from)?, Wire::take(from)?);
                let reading = Reading { syntax, words, marks: Wire::take(from)? };
                let inherited = Wire::take(from)?;
                Ok(Self::DirMerge(DirMerge { file: Wire::take(from)?, reading, inherited }))
            }
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

impl Wire for Marks {
    fn put(&self, to: &mut Vec<u8>) {
        self.sides.put(to);
        let bits = [self.absolute, self.perishable, self.xattr];
        to.put_u8(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let sides = Wire::take(from)?;
        let byte = from.u8()?;
        let bit = |n: u8| byte >> n & 1 == 1;
        if byte > 7 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { sides, absolute: bit(0), perishable: bit(1), xattr: bit(2) })
    }
}

impl Wire for Rules {
    fn put(&self, to: &mut Vec<u8>) {
        self.list.put(to);
        self.delete_excluded.put(to);
        self.from0.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let count = from.varint()?;
        if count > MAX_RULES as u64 {
            return Err(Bad::Limit("filter rules"));
        }
        let list = (0..count).map(|_| Rule::take(from)).collect::<Result<Vec<_>, _>>()?;
        let merges = list.iter().filter(|rule| matches!(rule, Rule::DirMerge(_))).count();
        if merges > MAX_DIR_MERGES {
            return Err(Bad::Limit("filter rules"));
        }
        Ok(Self { list, delete_excluded: Wire::take(from)?, from0: Wire::take(from)? })
    }
}

impl Wire for Differs {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { content, size, time, mode, user, group, accessed, acl, xattrs, kind } = *self;
        let bits = [content, size, time, mode, user, group, accessed, acl, xattrs, kind];
        let number = bits.iter().rev().fold(0, |bits, bit| bits << 1 | u64::from(*bit));
        to.put_varint(number);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bits = from.varint()?;
        let bit = |n: u8| bits >> n & 1 == 1;
        if bits >> 10 != 0 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self {
            content: bit(0),
            size: bit(1),
            time: bit(2),
            mode: bit(3),
            user: bit(4),
            group: bit(5),
            accessed: bit(6),
            acl: bit(7),
            xattrs: bit(8),
            kind: bit(9),
        })
    }
}

/// As a closed set, but that the last one is followed by its reason.
impl Wire for Action {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_u8(match self {
            Self::Created => 0,
            Self::Updated => 1,
            Self::Touched => 2,
            Self::Deleted => 3,
            Self::Unchanged => 4,
            Self::Copied => 5,
            Self::PassedOver(_) => 6,
        });
        if let Self::PassedOver(why) = self {
            why.put(to);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(match from.u8()? {
            0 => Self::Created,
            1 => Self::Updated,
            2 => Self::Touched,
            3 => Self::Deleted,
            4 => Self::Unchanged,
            5 => Self::Copied,
            6 => Self::PassedOver(Wire::take(from)?),
            _ => return Err(CodecError::OutOfRange.into()),
        })
    }
}

impl Wire for Change {
    fn put(&self, to: &mut Vec<u8>) {
        self.path.put(to);
        self.item.put(to);
        self.action.put(to);
        self.differs.put(to);
        self.facts.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self {
            path: Wire::take(from)?,
            item: Wire::take(from)?,
            action: Wire::take(from)?,
            differs: Wire::take(from)?,
            facts: Wire::take(from)?,
        })
    }
}

impl Wire for Facts {
    fn put(&self, to: &mut Vec<u8>) {
        self.len.put(to);
        self.modified.put(to);
        self.mode.put(to);
        self.target.put(to);
        self.linked.put(to);
        self.literal.put(to);
        self.owner.user.put(to);
        self.owner.group.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (len, modified, mode) = (from.varint()?, Wire::take(from)?, from.varint_u32()?);
        if mode > 0o7777 {
            return Err(CodecError::OutOfRange.into());
        }
        let (target, linked) = (Wire::take(from)?, Wire::take(from)?);
        let literal = from.varint()?;
        let owner = Owner { user: Wire::take(from)?, group: Wire::take(from)? };
        Ok(Self { len, modified, mode, owner, target, linked, literal, from: None })
    }
}

/// Before the kind of a trouble that says where it happened.
const LOCATED: u8 = 0x80;

impl Wire for Trouble {
    fn put(&self, to: &mut Vec<u8>) {
        let located = self.spot.as_ref().and_then(|spot| Some((spot, spot.side?)));
        let start = to.len();
        self.kind.put(to);
        to[start] |= if located.is_some() { LOCATED } else { 0 };
        self.message.put(to);
        if let Some((spot, side)) = located {
            side.put(to);
            spot.path.put(to);
            // A longer one has no use: it only names the same entry once more.
            spot.full_path.as_ref().filter(|full| full.len() <= MAX_TEXT_BYTES).cloned().put(to);
            spot.errno.put(to);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let tag = from.u8()?;
        let (kind, message) =
            (TroubleKind::take(&mut Reader::new(&[tag & !LOCATED]))?, String::take(from)?);
        let mut trouble = Self::new(kind, deltic_tree::path::printable(message.as_bytes()));
        if tag & LOCATED != 0 {
            let (side, path) = (Some(Wire::take(from)?), Wire::take(from)?);
            let (full_path, errno) = (Wire::take(from)?, Wire::take(from)?);
            let spot = Spot { side, path, full_path, errno, ..Spot::default() };
            trouble.spot = Some(Box::new(spot));
        }
        Ok(trouble)
    }
}

impl Wire for MadeRoot {
    fn put(&self, to: &mut Vec<u8>) {
        self.dirs.put(to);
        self.holds_file.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self { dirs: from.varint()?, holds_file: Wire::take(from)? })
    }
}

impl Wire for Question {
    fn put(&self, to: &mut Vec<u8>) {
        self.names.put(to);
        self.of.put(to);
        self.first.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (names, of) = (from.varint()?, from.varint()?);
        let first: Vec<RelPath> = Wire::take(from)?;
        if first.len() > MAX_ASKED {
            return Err(Bad::Limit("names in a question"));
        }
        Ok(Self { names, of, first })
    }
}

impl Wire for Totals {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { files, dirs, links, bytes, created, transferred, transferred_bytes, .. } = *self;
        let Self { literal, matched, deleted, failed, devices, specials, resumed, .. } = *self;
        let counts = [files, dirs, links, bytes, created, transferred, transferred_bytes];
        let rest = [literal, matched, deleted, failed, devices, specials];
        let resumed = (resumed > 0).then_some(resumed);
        counts.into_iter().chain(rest).chain(resumed).for_each(|n| n.put(to));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self {
            files: from.varint()?,
            dirs: from.varint()?,
            links: from.varint()?,
            bytes: from.varint()?,
            created: from.varint()?,
            transferred: from.varint()?,
            transferred_bytes: from.varint()?,
            literal: from.varint()?,
            matched: from.varint()?,
            deleted: from.varint()?,
            failed: from.varint()?,
            devices: from.varint()?,
            specials: from.varint()?,
            // It is not written where it is 0.
            resumed: match from.is_empty() {
                true => 0,
                false => match from.varint()? {
                    0 => return Err(CodecError::OutOfRange.into()),
                    resumed => resumed,
                },
            },
        })
    }
}
