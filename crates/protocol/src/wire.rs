//! How each noun is written in a payload: one `put` and one `take` side by side.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::path::BadPath;
use deltic_core::rule::{self, DirMerge, MAX_DIR_MERGES, Marks, PatternRule, Reading, Rule, Rules};
use deltic_core::{Entry, Kind, Meta, Name, RelPath, Timestamp};

use crate::error::PeerError;
use crate::limits::{MAX_BATCH, MAX_RULES, MAX_TEXT_BYTES};
use crate::report::{Action, Change, Differs, Facts, Item, Totals, Trouble, TroubleKind};

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
        let count = from.varint()?;
        if count > MAX_BATCH as u64 {
            return Err(Bad::Limit("items in one frame"));
        }
        (0..count).map(|_| T::take(from)).collect()
    }
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

closed_set!(Item: File = 0, Dir = 1, Symlink = 2);
closed_set!(Action: Created = 0, Updated = 1, Touched = 2, Deleted = 3);
closed_set!(TroubleKind: Vanished = 0, Failed = 1, Skipped = 2, DeleteLimit = 3);
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
        Ok(Self::new(from.prefixed(deltic_core::path::MAX_NAME_BYTES)?)?)
    }
}

impl Wire for RelPath {
    fn put(&self, to: &mut Vec<u8>) {
        to.put_prefixed(self.as_bytes());
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(Self::parse(from.prefixed(deltic_core::path::MAX_PATH_BYTES)?)?)
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
            Self::Other => to.put_u8(3),
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::File),
            1 => Ok(Self::Dir),
            2 => {
                let target: Box<[u8]> = Wire::take(from)?;
                let bad = target.is_empty() || target.contains(&0);
                if bad { Err(CodecError::OutOfRange.into()) } else { Ok(Self::Symlink(target)) }
            }
            3 => Ok(Self::Other),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

impl Wire for Meta {
    fn put(&self, to: &mut Vec<u8>) {
        self.kind.put(to);
        if self.is_file() {
            self.len.put(to);
        }
        self.modified.put(to);
        self.mode.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let kind = Kind::take(from)?;
        let len = if kind == Kind::File { from.varint()? } else { 0 };
        let (modified, mode) = (Timestamp::take(from)?, u32::take(from)?);
        if mode > 0o7777 || len > i64::MAX as u64 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { kind, len, modified, mode })
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
        let list: Vec<Rule> = Vec::take(from)?;
        let merges = list.iter().filter(|rule| matches!(rule, Rule::DirMerge(_))).count();
        if list.len() > MAX_RULES || merges > MAX_DIR_MERGES {
            return Err(Bad::Limit("filter rules"));
        }
        Ok(Self { list, delete_excluded: Wire::take(from)?, from0: Wire::take(from)? })
    }
}

impl Wire for Differs {
    fn put(&self, to: &mut Vec<u8>) {
        let bits = [self.content, self.size, self.time, self.mode];
        to.put_u8(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let byte = from.u8()?;
        let bit = |n: u8| byte >> n & 1 == 1;
        if byte > 15 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { content: bit(0), size: bit(1), time: bit(2), mode: bit(3) })
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
        self.literal.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (len, modified, mode) = (from.varint()?, Wire::take(from)?, from.varint_u32()?);
        if mode > 0o7777 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { len, modified, mode, target: Wire::take(from)?, literal: from.varint()? })
    }
}

impl Wire for Trouble {
    fn put(&self, to: &mut Vec<u8>) {
        self.kind.put(to);
        self.message.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let (kind, message) = (Wire::take(from)?, String::take(from)?);
        Ok(Self { kind, message: deltic_core::path::printable(message.as_bytes()) })
    }
}

impl Wire for Totals {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { files, dirs, links, bytes, created, transferred, transferred_bytes, .. } = *self;
        let Self { literal, matched, deleted, failed, .. } = *self;
        let counts = [files, dirs, links, bytes, created, transferred, transferred_bytes];
        counts.into_iter().chain([literal, matched, deleted, failed]).for_each(|n| n.put(to));
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
        })
    }
}
