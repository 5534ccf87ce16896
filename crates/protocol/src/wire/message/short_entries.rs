//! The short form of listed entries: each entry leaves out fields that are equal to those of the entry before.
//!
//! A name is the length of the prefix that it shares with the name before, and the rest. Mode, owner and seconds are
//! left out where they are those of the entry before. All other entries of a list, such as devices and entries with
//! attributes, have the full form of their metadata.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::path::MAX_NAME_BYTES;
use deltic_tree::{Entry, Kind, Meta, Name, Timestamp};

use crate::wire::codec::{BadPayload, WireEncoding, read_items};
use crate::wire::meta::{has_optional_fields, read_symlink};

/// Entries of a listing in the short form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortEntries(pub Vec<Entry>);

/// Kinds of entries in the lowest two bits of the flags.
const FILE: u8 = 0;
const DIR: u8 = 1;
const LINK: u8 = 2;
/// The metadata follows in the full form.
const FULL: u8 = 3;
const KINDS: u8 = 3;
/// Flags of fields that are as in the entry before.
const SAME_MODE: u8 = 1 << 2;
const SAME_OWNER: u8 = 1 << 3;
const SAME_SECONDS: u8 = 1 << 4;
/// The nanoseconds are 0.
const NO_NANOS: u8 = 1 << 5;

/// Length of a prefix or a rest that needs further bytes in its half byte.
const LONG: usize = 15;

/// Fields of the entry before that the next entry may leave out. At the start of a frame all fields are 0 or empty.
#[derive(Default)]
struct EntryBefore {
    name: Vec<u8>,
    secs: i64,
    mode: u32,
    user: Option<u32>,
    group: Option<u32>,
}

impl EntryBefore {
    /// Appends an entry.
    fn write(&self, to: &mut Vec<u8>, Entry { name, meta }: &Entry) {
        let kind = kind_of(meta);
        let has = |bit: u8, is_so: bool| if is_so && kind != FULL { bit } else { 0 };
        let flags = kind
            | has(SAME_MODE, meta.mode == self.mode)
            | has(SAME_OWNER, (meta.user, meta.group) == (self.user, self.group))
            | has(SAME_SECONDS, meta.modified.secs == self.secs)
            | has(NO_NANOS, meta.modified.nanos == 0);
        to.put_u8(flags);
        self.write_name(to, name.as_bytes());
        if kind == FULL {
            return meta.write_to(to);
        }
        if let Kind::Symlink(target) = &meta.kind {
            target.write_to(to);
        } else if kind == FILE {
            meta.len.write_to(to);
        }
        if flags & SAME_SECONDS == 0 {
            to.put_signed(meta.modified.secs.wrapping_sub(self.secs));
        }
        if flags & NO_NANOS == 0 {
            to.put_bytes(&meta.modified.nanos.to_le_bytes());
        }
        if flags & SAME_MODE == 0 {
            meta.mode.write_to(to);
        }
        if flags & SAME_OWNER == 0 {
            meta.user.write_to(to);
            meta.group.write_to(to);
        }
    }

    fn write_name(&self, to: &mut Vec<u8>, name: &[u8]) {
        let shared = self.name.iter().zip(name).take_while(|(before, byte)| before == byte).count();
        let rest = &name[shared..];
        to.put_u8((shared.min(LONG) << 4 | rest.len().min(LONG)) as u8);
        for len in [shared, rest.len()] {
            if len >= LONG {
                to.put_varint((len - LONG) as u64);
            }
        }
        to.put_bytes(rest);
    }

    /// Reads an entry. Accepts an entry that is not encoded in its shortest form.
    fn read(&self, from: &mut Reader<'_>) -> Result<Entry, BadPayload> {
        let flags = from.u8()?;
        let name = self.read_name(from)?;
        let (kind, len) = match flags & KINDS {
            FULL => return Ok(Entry { name, meta: WireEncoding::read_from(from)? }),
            FILE => (Kind::File, from.varint()?),
            DIR => (Kind::Dir, 0),
            _ => (read_symlink(from)?, 0),
        };
        let has = |bit: u8| flags & bit != 0;
        let secs = if has(SAME_SECONDS) { 0 } else { from.signed()? }.wrapping_add(self.secs);
        let nanos = if has(NO_NANOS) { 0 } else { u32::from_le_bytes(from.array()?) };
        let mode = if has(SAME_MODE) { self.mode } else { from.varint_u32()? };
        if nanos >= 1_000_000_000 || mode > 0o7777 || len > i64::MAX as u64 {
            return Err(CodecError::OutOfRange.into());
        }
        let mut meta = Meta::without_owner(kind, len, Timestamp { secs, nanos }, mode);
        (meta.user, meta.group) = match has(SAME_OWNER) {
            true => (self.user, self.group),
            false => (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?),
        };
        Ok(Entry { name, meta })
    }

    fn read_name(&self, from: &mut Reader<'_>) -> Result<Name, BadPayload> {
        let lens = from.u8()?;
        let mut take_len = |half: u8| match usize::from(half) {
            LONG => from.varint().map(|more| more.saturating_add(LONG as u64)),
            len => Ok(len as u64),
        };
        let (shared, rest) = (take_len(lens >> 4)?, take_len(lens & 0xf)?);
        let shared = usize::try_from(shared).ok().and_then(|shared| self.name.get(..shared));
        let shared = shared.ok_or(CodecError::OutOfRange)?;
        if rest > MAX_NAME_BYTES as u64 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Name::new(&[shared, from.bytes(rest as usize)?].concat())?)
    }

    /// Stores the fields of an entry for the next entry. A later entry cannot leave out fields because of an entry in
    /// the full form.
    fn note_previous(&mut self, Entry { name, meta }: &Entry) {
        self.name.clear();
        self.name.extend_from_slice(name.as_bytes());
        if kind_of(meta) != FULL {
            (self.secs, self.mode) = (meta.modified.secs, meta.mode);
            (self.user, self.group) = (meta.user, meta.group);
        }
    }
}

/// Returns the kind in the flags of an entry.
fn kind_of(meta: &Meta) -> u8 {
    match &meta.kind {
        _ if has_optional_fields(meta) => FULL,
        Kind::File => FILE,
        Kind::Dir => DIR,
        Kind::Symlink(_) => LINK,
        Kind::Fifo | Kind::Socket | Kind::Device(_) => FULL,
    }
}

impl WireEncoding for ShortEntries {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(self.0.len() as u64);
        let mut before = EntryBefore::default();
        for entry in &self.0 {
            before.write(to, entry);
            before.note_previous(entry);
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (mut before, mut shortest) = (EntryBefore::default(), Vec::new());
        let entry = |from: &mut Reader<'_>| {
            let start = from.clone().rest();
            let entry = before.read(from)?;
            let read = &start[..start.len() - from.clone().rest().len()];
            shortest.clear();
            before.write(&mut shortest, &entry);
            if shortest != read {
                return Err(CodecError::NotCanonical.into());
            }
            before.note_previous(&entry);
            Ok(entry)
        };
        read_items(from, entry).map(Self)
    }
}
