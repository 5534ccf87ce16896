//! Changes, troubles and totals on the wire.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::RelPath;
use deltic_tree::meta::Owner;
use deltic_tree::path::printable;

use crate::report::{
    Action, Change, Differs, EntryType, Facts, MadeRoot, PassedOver, Question, ReadReason, Side,
    Spot, Totals, Trouble, TroubleKind,
};

use super::codec::{BadPayload, WireEncoding, closed_set};
use super::limits::{MAX_ASKED, MAX_TEXT_BYTES};

closed_set!(EntryType: File = 0, Dir = 1, Symlink = 2, Device = 3, Special = 4);
closed_set!(PassedOver: New = 0, Exists = 1, Newer = 2, Large = 3, Small = 4);
closed_set!(Side: Sender = 0, Receiver = 1);
closed_set!(TroubleKind: Vanished = 0, Failed = 1, Skipped = 2, DeleteLimit = 3, Warned = 4, UnsafeLink = 5);

impl WireEncoding for Differs {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { content, size, time, mode, user, group, accessed, acl, xattrs, kind } = *self;
        let bits = [content, size, time, mode, user, group, accessed, acl, xattrs, kind];
        let number = bits.iter().rev().fold(0, |bits, bit| bits << 1 | u64::from(*bit));
        to.put_varint(number);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
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

/// A closed set of actions; `PassedOver` is followed by its reason.
impl WireEncoding for Action {
    fn write_to(&self, to: &mut Vec<u8>) {
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
            why.write_to(to);
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(match from.u8()? {
            0 => Self::Created,
            1 => Self::Updated,
            2 => Self::Touched,
            3 => Self::Deleted,
            4 => Self::Unchanged,
            5 => Self::Copied,
            6 => Self::PassedOver(WireEncoding::read_from(from)?),
            _ => return Err(CodecError::OutOfRange.into()),
        })
    }
}

impl WireEncoding for Change {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.path.write_to(to);
        self.item.write_to(to);
        self.action.write_to(to);
        self.differs.write_to(to);
        self.facts.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self {
            path: WireEncoding::read_from(from)?,
            item: WireEncoding::read_from(from)?,
            action: WireEncoding::read_from(from)?,
            differs: WireEncoding::read_from(from)?,
            facts: WireEncoding::read_from(from)?,
        })
    }
}

impl WireEncoding for Facts {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.len.write_to(to);
        self.modified.write_to(to);
        self.mode.write_to(to);
        write_details(to, self);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (len, modified, mode) =
            (from.varint()?, WireEncoding::read_from(from)?, from.varint_u32()?);
        if mode > 0o7777 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { len, modified, mode, ..read_details(from)? })
    }
}

/// Appends the facts other than length, time and mode.
pub(super) fn write_details(to: &mut Vec<u8>, facts: &Facts) {
    let Facts { target, linked, literal, owner, .. } = facts;
    target.write_to(to);
    linked.write_to(to);
    literal.write_to(to);
    owner.user.write_to(to);
    owner.group.write_to(to);
}

/// Reads the facts other than length, time and mode.
pub(super) fn read_details(from: &mut Reader<'_>) -> Result<Facts, BadPayload> {
    let (target, linked) = (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
    let literal = from.varint()?;
    let owner =
        Owner { user: WireEncoding::read_from(from)?, group: WireEncoding::read_from(from)? };
    Ok(Facts { target, linked, literal, owner, ..Facts::default() })
}

/// Bit in the byte of a trouble's kind: set if the trouble's position follows.
const LOCATED: u8 = 0x80;

impl WireEncoding for Trouble {
    fn write_to(&self, to: &mut Vec<u8>) {
        let located = self.spot.as_ref().and_then(|spot| Some((spot, spot.side?)));
        let start = to.len();
        self.kind.write_to(to);
        to[start] |= if located.is_some() { LOCATED } else { 0 };
        self.message.write_to(to);
        if let Some((spot, side)) = located {
            side.write_to(to);
            spot.path.write_to(to);
            // A longer path is left out: it only names the same entry again.
            spot.full_path
                .as_ref()
                .filter(|full| full.len() <= MAX_TEXT_BYTES)
                .cloned()
                .write_to(to);
            spot.errno.write_to(to);
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let tag = from.u8()?;
        let (kind, message) = (
            TroubleKind::read_from(&mut Reader::new(&[tag & !LOCATED]))?,
            String::read_from(from)?,
        );
        let mut trouble = Self::new(kind, printable(message.as_bytes()));
        if tag & LOCATED != 0 {
            let (side, path) =
                (Some(WireEncoding::read_from(from)?), WireEncoding::read_from(from)?);
            let (full_path, errno) =
                (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
            let spot = Spot { side, path, full_path, errno, ..Spot::default() };
            trouble.spot = Some(Box::new(spot));
        }
        Ok(trouble)
    }
}

/// The number of the kind, then the numbers or the text of the kind.
impl WireEncoding for ReadReason {
    fn write_to(&self, to: &mut Vec<u8>) {
        let (kind, numbers, text) = match self {
            Self::Changed { changed, len } => (0, &[*changed, *len][..], None),
            Self::Moved { read, len } => (1, &[*read, *len][..], None),
            Self::Differs { differ, shifted, len } => (2, &[*differ, *shifted, *len][..], None),
            Self::NoFacts(why) => (3, &[][..], Some(why)),
            Self::NoBase => (4, &[][..], None),
            Self::ForgottenBase => (5, &[][..], None),
            Self::NewMount => (6, &[][..], None),
            Self::MuchChanged(why) => (7, &[][..], Some(why)),
        };
        to.put_u8(kind);
        numbers.iter().for_each(|number| number.write_to(to));
        text.iter().for_each(|text| text.write_to(to));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let text = |from: &mut Reader<'_>| {
            Ok::<_, BadPayload>(printable(String::read_from(from)?.as_bytes()))
        };
        Ok(match from.u8()? {
            0 => Self::Changed { changed: from.varint()?, len: from.varint()? },
            1 => Self::Moved { read: from.varint()?, len: from.varint()? },
            2 => Self::Differs {
                differ: from.varint()?,
                shifted: from.varint()?,
                len: from.varint()?,
            },
            3 => Self::NoFacts(text(from)?),
            4 => Self::NoBase,
            5 => Self::ForgottenBase,
            6 => Self::NewMount,
            7 => Self::MuchChanged(text(from)?),
            _ => return Err(CodecError::OutOfRange.into()),
        })
    }
}

impl WireEncoding for MadeRoot {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.dirs.write_to(to);
        self.holds_file.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        Ok(Self { dirs: from.varint()?, holds_file: WireEncoding::read_from(from)? })
    }
}

impl WireEncoding for Question {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.names.write_to(to);
        self.of.write_to(to);
        self.first.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (names, of) = (from.varint()?, from.varint()?);
        let first: Vec<RelPath> = WireEncoding::read_from(from)?;
        if first.len() > MAX_ASKED {
            return Err(BadPayload::Limit("names in a question about deletions"));
        }
        Ok(Self { names, of, first })
    }
}

impl WireEncoding for Totals {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { files, dirs, links, bytes, created, transferred, transferred_bytes, .. } = *self;
        let Self { literal, matched, deleted, failed, devices, specials, resumed, .. } = *self;
        let counts = [files, dirs, links, bytes, created, transferred, transferred_bytes];
        let rest = [literal, matched, deleted, failed, devices, specials];
        let resumed = (resumed > 0).then_some(resumed);
        counts.into_iter().chain(rest).chain(resumed).for_each(|n| n.write_to(to));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
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
            // The field is absent where it is 0.
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
