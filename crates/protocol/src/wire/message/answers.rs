//! Answers that travel together: a first copy of many short files has two or three answers for each file.
//!
//! Numbers of files are differences, and a change leaves out fields that are equal to those of the change before.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::meta::Owner;
use deltic_tree::{RelPath, Timestamp};

use crate::report::{Action, Change, Differs, EntryType, Facts};
use crate::wire::codec::{BadPayload, WireEncoding, read_up_to};
use crate::wire::limits::MAX_ANSWERS;
use crate::wire::report::{read_details, write_details};

use super::lines::FileNo;
use super::shared_path::{PathBefore, SharedPath};

/// Answers of a receiver about several entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Outcomes of entries, in order.
    pub outcomes: Vec<Outcome>,
    /// Files that are requested whole.
    pub wanted: Vec<FileNo>,
    /// Files below this number that are not wanted by now will not be wanted.
    pub upto: Option<FileNo>,
}

/// Outcome of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new file is in place: all of the listed length came as literals.
    Created(FileNo),
    /// A directory, link or attribute changed, or a name was deleted.
    Changed(Change),
}

/// Stands for a change in place of the difference between two numbers.
const CHANGE: i64 = 0;
/// Number before the first file of a list: the difference to the file after is never [`CHANGE`].
const NO_FILE: u64 = u64::MAX;

/// The item of a change, in the lowest bits of the flags.
const ITEM: u8 = 7;
/// The entry was created, and nothing differs.
const PLAIN: u8 = 1 << 3;
/// The nanoseconds are 0.
const NO_NANOS: u8 = 1 << 4;
/// The mode is that of the change before.
const SAME_MODE: u8 = 1 << 5;
/// The rest of the facts follows.
const MORE: u8 = 1 << 6;

/// Fields of the outcome before that the next outcome may leave out.
struct OutcomeBefore {
    file: u64,
    path: PathBefore,
    secs: i64,
    mode: u32,
}

impl Default for OutcomeBefore {
    fn default() -> Self {
        Self { file: NO_FILE, path: PathBefore::default(), secs: 0, mode: 0 }
    }
}

impl OutcomeBefore {
    fn write(&mut self, to: &mut Vec<u8>, outcome: &Outcome) {
        match outcome {
            Outcome::Created(file) => write_number(&mut self.file, to, *file),
            Outcome::Changed(change) => {
                to.put_signed(CHANGE);
                self.write_change(to, change);
            }
        }
    }

    fn write_change(&mut self, to: &mut Vec<u8>, change: &Change) {
        let Change { path, item, action, differs, facts } = change;
        let Facts { modified, mode, .. } = *facts;
        let has = |bit: u8, is_so: bool| if is_so { bit } else { 0 };
        let is_plain = *action == Action::Created && *differs == Differs::default();
        let flags = has(PLAIN, is_plain)
            | has(NO_NANOS, modified.nanos == 0)
            | has(SAME_MODE, mode == self.mode)
            | has(MORE, !has_default_rest(facts));
        let start = to.len();
        item.write_to(to);
        to[start] |= flags;
        self.path.shorten(path).write_to(to);
        if !is_plain {
            action.write_to(to);
            differs.write_to(to);
        }
        to.put_signed(modified.secs.wrapping_sub(self.secs));
        if modified.nanos != 0 {
            to.put_bytes(&modified.nanos.to_le_bytes());
        }
        if mode != self.mode {
            mode.write_to(to);
        }
        if flags & MORE != 0 {
            facts.len.write_to(to);
            write_details(to, facts);
        }
        (self.secs, self.mode) = (modified.secs, mode);
    }

    /// Reads an outcome. Accepts an outcome that is not encoded in its shortest form.
    fn read(&mut self, from: &mut Reader<'_>) -> Result<Outcome, BadPayload> {
        match from.signed()? {
            CHANGE => self.read_change(from).map(Outcome::Changed),
            more => {
                self.file = self.file.wrapping_add(more.cast_unsigned());
                Ok(Outcome::Created(FileNo(self.file)))
            }
        }
    }

    fn read_change(&mut self, from: &mut Reader<'_>) -> Result<Change, BadPayload> {
        let flags = from.u8()?;
        let has = |bit: u8| flags & bit != 0;
        let known = ITEM | PLAIN | NO_NANOS | SAME_MODE | MORE;
        if flags & !known != 0 {
            return Err(CodecError::OutOfRange.into());
        }
        let item = EntryType::read_from(&mut Reader::new(&[flags & ITEM]))?;
        let path = self.read_path(from)?;
        let (action, differs) = match has(PLAIN) {
            true => (Action::Created, Differs::default()),
            false => (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?),
        };
        let secs = from.signed()?.wrapping_add(self.secs);
        let nanos = if has(NO_NANOS) { 0 } else { u32::from_le_bytes(from.array()?) };
        let mode = if has(SAME_MODE) { self.mode } else { from.varint_u32()? };
        if nanos >= 1_000_000_000 || mode > 0o7777 {
            return Err(CodecError::OutOfRange.into());
        }
        (self.secs, self.mode) = (secs, mode);
        let rest = match has(MORE) {
            true => {
                let len = from.varint()?;
                Facts { len, ..read_details(from)? }
            }
            false => Facts::default(),
        };
        let facts = Facts { modified: Timestamp { secs, nanos }, mode, ..rest };
        Ok(Change { path, item, action, differs, facts })
    }

    fn read_path(&mut self, from: &mut Reader<'_>) -> Result<RelPath, BadPayload> {
        let short = SharedPath::read_from(from)?;
        self.path.complete("Answers", &short).map_err(|_| CodecError::OutOfRange.into())
    }
}

/// True if the facts other than time and mode are those of a directory without an owner.
fn has_default_rest(Facts { len, owner, target, linked, literal, .. }: &Facts) -> bool {
    (*len, *literal, *owner) == (0, 0, Owner::default()) && target.is_none() && linked.is_none()
}

/// Appends a number as the difference from the number before.
fn write_number(before: &mut u64, to: &mut Vec<u8>, FileNo(file): FileNo) {
    to.put_signed(file.wrapping_sub(*before).cast_signed());
    *before = file;
}

impl WireEncoding for Answers {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { outcomes, wanted, upto } = self;
        write_outcomes(to, outcomes);
        to.put_varint(wanted.len() as u64);
        let mut before = NO_FILE;
        wanted.iter().for_each(|file| write_number(&mut before, to, *file));
        upto.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let start = from.clone().rest();
        let mut before = OutcomeBefore::default();
        let outcomes = read_up_to(MAX_ANSWERS, from, |from| before.read(from))?;
        let read = &start[..start.len() - from.clone().rest().len()];
        let mut shortest = Vec::with_capacity(read.len());
        write_outcomes(&mut shortest, &outcomes);
        if shortest != read {
            return Err(CodecError::NotCanonical.into());
        }
        let mut before = NO_FILE;
        let wanted = read_up_to(MAX_ANSWERS, from, |from| {
            before = before.wrapping_add(from.signed()?.cast_unsigned());
            Ok(FileNo(before))
        })?;
        Ok(Self { outcomes, wanted, upto: WireEncoding::read_from(from)? })
    }
}

fn write_outcomes(to: &mut Vec<u8>, outcomes: &[Outcome]) {
    to.put_varint(outcomes.len() as u64);
    let mut before = OutcomeBefore::default();
    outcomes.iter().for_each(|outcome| before.write(to, outcome));
}
