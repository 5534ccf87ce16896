//! Columns: the targets of all fields, split off from code.
//!
//! ```text
//! counts   the number of fields of each piece of PIECE_BYTES
//! symbol   0..=239  the target is this far back in the list of targets last used
//!          253      no target: the bytes of the field are in columns of their own
//!          254      a target met before, by its number
//!          255      a target met for the first time
//! target   position of the end of the field in the file + distance, mod 2^32
//! ```
//!
//! Calls and operands have counts, symbols, lists and numbers of their own. Each byte of a count, a number and a target
//! has a column of its own, because columns of similar bytes compress better. Targets are numbered from 0 at their first
//! use, up to [`MAX_KNOWN`]. A field has no target if its distance is 64 MiB or more and the target was not met before:
//! then the bytes are probably no field.
//!
//! The counts make the columns independent of the code. If a piece has other bytes than the piece that was split, its
//! fields are filled wrongly, but those of later pieces are not.

use std::collections::HashMap;

use super::fields::{FIELD_BYTES, Field, FieldKind, fields, is_near, next_field};
use crate::codec::{CodecError, Put, Reader};

/// Length of a piece of code in bytes, whose fields are counted.
const PIECE_BYTES: usize = 4096;

/// Most fields of a piece: a field follows at least one other byte.
const MOST_FIELDS: usize = PIECE_BYTES.div_ceil(1 + FIELD_BYTES);

/// Number of targets last used that a symbol can name.
const RECENT: usize = 240;
/// Symbol of a field whose bytes are no distance.
const BYTES: u8 = 253;
/// Symbol of a target that is named by its number.
const KNOWN: u8 = 254;
/// Symbol of a target that was not met before.
const NEW: u8 = 255;
/// Number of targets that get a number.
const MAX_KNOWN: usize = 1 << 16;

/// Number of columns of a kind: symbols (1), then counts (2), numbers (2), new targets (4) and bytes (4), highest bytes
/// first.
const COLUMNS: usize = 13;
const SYMBOLS: usize = 0;
const COUNTS: usize = 1;
const NUMBERS: usize = 3;
const TARGETS: usize = 5;
const FIELDS: usize = 9;

/// Error: the columns do not belong to these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("columns of address fields that do not fit the code")]
pub struct BadColumns;

impl From<CodecError> for BadColumns {
    fn from(_: CodecError) -> Self {
        Self
    }
}

/// Splits the address fields off from code.
#[derive(Debug, Default)]
pub struct FieldWriter {
    calls: KindWriter,
    operands: KindWriter,
}

impl FieldWriter {
    /// Replaces the fields of `code` by zeros, and adds the fields to the columns. `address` is the position of the code
    /// in its file.
    pub fn split(&mut self, code: &mut [u8], address: u64) {
        let found: Vec<_> = fields(code).collect();
        self.split_at(code, &found, address);
    }

    /// As [`split`](Self::split), with all fields of `code`.
    pub(crate) fn split_at(&mut self, code: &mut [u8], found: &[Field], address: u64) {
        let mut counts = vec![[0u16; 2]; code.len().div_ceil(PIECE_BYTES)];
        for Field { begin, start, kind } in found {
            let end = start + FIELD_BYTES;
            let field = &mut code[*start..end];
            let distance = u32::from_le_bytes(field.try_into().expect("a field has 4 bytes"));
            counts[begin / PIECE_BYTES][*kind as usize] += 1;
            self.of_kind(*kind).put(distance, address.wrapping_add(end as u64) as u32);
            field.fill(0);
        }
        for counts in counts {
            for (kind, count) in KINDS.into_iter().zip(counts) {
                push_bytes(&mut self.of_kind(kind).columns[COUNTS..NUMBERS], count.to_be_bytes());
            }
        }
    }

    const fn of_kind(&mut self, kind: FieldKind) -> &mut KindWriter {
        match kind {
            FieldKind::Call => &mut self.calls,
            FieldKind::Operand => &mut self.operands,
        }
    }

    /// Appends the columns: for calls and then for operands, the length of each column; then all columns.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let columns = || self.calls.columns.iter().chain(&self.operands.columns);
        columns().for_each(|column| to.put_varint(column.len() as u64));
        columns().for_each(|column| to.put_bytes(column));
    }
}

/// Puts the address fields back into code.
#[derive(Debug)]
pub struct FieldReader<'a> {
    calls: KindReader<'a>,
    operands: KindReader<'a>,
}

impl<'a> FieldReader<'a> {
    /// Reads the output of [`FieldWriter::encode`].
    ///
    /// # Errors
    /// [`BadColumns`] if the columns are shorter or longer than `from`.
    pub fn decode(from: &'a [u8]) -> Result<Self, BadColumns> {
        let mut from = Reader::new(from);
        let mut lens = [[0; COLUMNS]; 2];
        for len in lens.as_flattened_mut() {
            *len = from.varint_u32()? as usize;
        }
        let mut of_kind = |lens: [usize; COLUMNS]| {
            let mut columns = [const { Reader::new(&[]) }; COLUMNS];
            for (column, len) in columns.iter_mut().zip(lens) {
                *column = Reader::new(from.bytes(len)?);
            }
            Ok::<_, CodecError>(KindReader { columns, targets: Targets::default() })
        };
        let (calls, operands) = (of_kind(lens[0])?, of_kind(lens[1])?);
        if from.rest().is_empty() { Ok(Self { calls, operands }) } else { Err(BadColumns) }
    }

    /// Fills the fields of `code`, which was split at the same `address`. If the code has other bytes than after the
    /// split, fields get wrong values.
    ///
    /// # Errors
    /// [`BadColumns`] if the columns have too few fields, or name a target that does not exist.
    pub fn join(&mut self, code: &mut [u8], address: u64) -> Result<(), BadColumns> {
        let mut at = 0;
        for piece in (0..code.len()).step_by(PIECE_BYTES) {
            let piece_end = piece + PIECE_BYTES;
            at = at.max(piece);
            let [call_count, operand_count] = [self.calls.count()?, self.operands.count()?];
            if call_count + operand_count > MOST_FIELDS {
                return Err(BadColumns);
            }
            let mut calls = self.calls.values(call_count)?.into_iter();
            let mut operands = self.operands.values(operand_count)?.into_iter();
            while let Some(Field { start, kind, .. }) = next_field(code, at..piece_end) {
                at = start + FIELD_BYTES;
                let end = address.wrapping_add(at as u64) as u32;
                let value = match kind {
                    FieldKind::Call => calls.next(),
                    FieldKind::Operand => operands.next(),
                };
                let distance = match value {
                    Some(FieldValue::Target(target)) => target.wrapping_sub(end),
                    Some(FieldValue::Distance(distance)) => distance,
                    None => 0,
                };
                code[start..at].copy_from_slice(&distance.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Both kinds, in the order of their columns.
const KINDS: [FieldKind; 2] = [FieldKind::Call, FieldKind::Operand];

/// Content of a field.
#[derive(Clone, Copy, Debug)]
enum FieldValue {
    /// Position in the file.
    Target(u32),
    /// Bytes of the field as they are.
    Distance(u32),
}

/// Targets met so far.
#[derive(Debug, Default)]
struct Targets {
    /// Targets last used, the last one first.
    recent: Vec<u32>,
    /// Targets by their numbers.
    known: Vec<u32>,
}

impl Targets {
    /// Moves the target at `rank` of the targets last used to the front.
    fn move_to_front(&mut self, rank: usize) {
        let target = self.recent[rank];
        self.recent.copy_within(..rank, 1);
        self.recent[0] = target;
    }

    /// Adds a target in front of the targets last used.
    fn add_to_front(&mut self, target: u32) {
        if self.recent.len() < RECENT {
            self.recent.push(target);
        }
        let last = self.recent.len() - 1;
        self.recent.copy_within(..last, 1);
        self.recent[0] = target;
    }

    /// Numbers a target. Returns false if there are too many targets.
    fn number(&mut self, target: u32) -> bool {
        let has_room = self.known.len() < MAX_KNOWN;
        if has_room {
            self.known.push(target);
        }
        has_room
    }
}

/// Writes the fields of a kind.
#[derive(Debug, Default)]
struct KindWriter {
    columns: [Vec<u8>; COLUMNS],
    targets: Targets,
    /// Numbers of targets.
    numbers: HashMap<u32, u16>,
}

impl KindWriter {
    fn put(&mut self, distance: u32, end: u32) {
        let target = end.wrapping_add(distance);
        if let Some(rank) = self.targets.recent.iter().position(|recent| *recent == target) {
            self.targets.move_to_front(rank);
            self.columns[SYMBOLS].push(rank as u8);
        } else if let Some(number) = self.numbers.get(&target) {
            self.targets.add_to_front(target);
            self.columns[SYMBOLS].push(KNOWN);
            push_bytes(&mut self.columns[NUMBERS..TARGETS], number.to_be_bytes());
        } else if is_near(distance) {
            self.columns[SYMBOLS].push(NEW);
            push_bytes(&mut self.columns[TARGETS..FIELDS], target.to_be_bytes());
            if self.targets.number(target) {
                self.numbers.insert(target, (self.targets.known.len() - 1) as u16);
            }
            self.targets.add_to_front(target);
        } else {
            self.columns[SYMBOLS].push(BYTES);
            push_bytes(&mut self.columns[FIELDS..], distance.to_be_bytes());
        }
    }
}

/// Reads the fields of a kind.
#[derive(Debug)]
struct KindReader<'a> {
    columns: [Reader<'a>; COLUMNS],
    targets: Targets,
}

impl KindReader<'_> {
    /// Returns the number of fields of the next piece.
    fn count(&mut self) -> Result<usize, BadColumns> {
        Ok(usize::from(u16::from_be_bytes(next_bytes(&mut self.columns[COUNTS..NUMBERS])?)))
    }

    /// Returns the values of the next fields.
    fn values(&mut self, count: usize) -> Result<Vec<FieldValue>, BadColumns> {
        (0..count).map(|_| self.value()).collect()
    }

    fn value(&mut self) -> Result<FieldValue, BadColumns> {
        let target = match self.columns[SYMBOLS].u8()? {
            BYTES => {
                let bytes = next_bytes(&mut self.columns[FIELDS..])?;
                return Ok(FieldValue::Distance(u32::from_be_bytes(bytes)));
            }
            KNOWN => {
                let number = u16::from_be_bytes(next_bytes(&mut self.columns[NUMBERS..TARGETS])?);
                let target = *self.targets.known.get(usize::from(number)).ok_or(BadColumns)?;
                self.targets.add_to_front(target);
                target
            }
            NEW => {
                let target = u32::from_be_bytes(next_bytes(&mut self.columns[TARGETS..FIELDS])?);
                self.targets.number(target);
                self.targets.add_to_front(target);
                target
            }
            rank => {
                let rank = usize::from(rank);
                let target = *self.targets.recent.get(rank).ok_or(BadColumns)?;
                self.targets.move_to_front(rank);
                target
            }
        };
        Ok(FieldValue::Target(target))
    }
}

fn push_bytes<const N: usize>(columns: &mut [Vec<u8>], bytes: [u8; N]) {
    for (column, byte) in columns.iter_mut().zip(bytes) {
        column.push(byte);
    }
}

fn next_bytes<const N: usize>(columns: &mut [Reader<'_>]) -> Result<[u8; N], CodecError> {
    let mut bytes = [0; N];
    for (column, byte) in columns.iter_mut().zip(&mut bytes) {
        *byte = column.u8()?;
    }
    Ok(bytes)
}
