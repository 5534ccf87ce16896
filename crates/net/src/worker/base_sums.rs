//! Sums of blocks of bases: without reading a file, they tell which of its changed blocks the base has elsewhere
//! (docs/decisions/0060).
//!
//! A table has the sums of the blocks of one version. Later bases that were made from this version refer to the same table;
//! the note of each base has the ranges that differ from the table. So a sync that changes little writes no table. Once
//! too much differs, a new table is made.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_core::codec::{Put, Reader};
use deltic_core::moved::{KeptSums, MAX_BLOCKS, find};
use deltic_core::stored::SumStrength;
use deltic_core::{Digest, MovedRun, StoredSums, SumKind};
use deltic_protocol::known::Changed;
use deltic_protocol::limits::{CHANGED_BLOCK_BYTES, MAX_MOVED_RUNS};
use deltic_store::{BaseNote, Extents, FactStore, Snapshot};

/// Least share of a file that must have changed before it is asked where that was: a table has a share of this order,
/// so it would be read for as little.
const FEW_SHARE: u64 = 1024;
/// A table is made anew where more than this share of the file is not that of its version.
const OLD_SHARE: u64 = 16;
/// Ranges that are noted as others at most.
const MAX_OTHERS: usize = 1 << 14;
/// Bytes of a file whose sums are asked for at once: of SHA-256 they take eight megabytes.
const WINDOW_BYTES: u64 = 1 << 30;

/// Most bytes of memory for tables, of all sessions of this process together: two of the longest files and their index.
const MAX_BYTES: u64 = 160 << 20;
/// Bytes of a block in a table in memory.
const ROW_BYTES: u64 = 16;
/// Bytes of an index of a table.
const INDEX_BYTES: u64 = 8 << 20;

/// A reservation of memory for tables, which ends when this value is dropped.
struct Room(u64);

/// Bytes that are reserved.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl Room {
    /// Reserves memory for tables of files of so many bytes together. `None` if other sessions have reserved the memory:
    /// then moved blocks are not looked for.
    fn take(file_bytes: u64) -> Option<Self> {
        let bytes = file_bytes / u64::from(CHANGED_BLOCK_BYTES) * ROW_BYTES + INDEX_BYTES;
        let more = |taken: u64| taken.checked_add(bytes).filter(|all| *all <= MAX_BYTES);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(bytes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The table that has the sums of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SumsNote {
    /// Name of the table, which is random.
    pub(super) table: Digest,
    /// Ranges whose sums in the table are not of this base, encoded.
    others: Vec<u8>,
}

impl SumsNote {
    /// The note that is kept about `base`.
    pub(super) fn find(facts: &dyn FactStore, base: &Digest) -> Option<Self> {
        let note = facts.base_note(BaseNote::Sums, base)?;
        let (table, others) = note.split_first_chunk()?;
        Some(Self { table: Digest::from_bytes(*table), others: others.to_vec() })
    }

    /// Keeps this note about `base`.
    pub(super) fn keep(&self, facts: &dyn FactStore, base: &Digest) {
        let note = [&self.table.as_bytes()[..], &self.others].concat();
        facts.keep_base_note(BaseNote::Sums, base, note);
    }
}

/// Decides which kinds of sums prove that blocks are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deciding {
    /// The user trusts both stores.
    pub(super) trusts: bool,
}

/// A base, as it is noted.
pub(super) struct Base<'a> {
    pub(super) kept: &'a dyn FactStore,
    /// The table that has its sums.
    pub(super) note: Option<&'a SumsNote>,
    /// Its length in bytes.
    pub(super) len: u64,
}

impl Deciding {
    /// The kind of the sums that decide for this version: a hash does, and sums of 64 bits where the user trusts both
    /// stores.
    pub(super) fn kind(self, snapshot: &impl Snapshot) -> Option<SumKind> {
        snapshot.sum_kind().filter(|kind| match kind.strength() {
            SumStrength::Proof => true,
            SumStrength::AgainstAccidents => self.trusts,
            SumStrength::Hint => false,
        })
    }

    /// The parts of these ranges of a version that are no blocks of a base, and the runs that the base has elsewhere.
    /// All outside of the ranges is that of the base. Else, why nobody knows.
    pub(super) fn moved(
        self,
        snapshot: &impl Snapshot,
        base: &Base<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Changed, &'static str> {
        let len = snapshot.meta().len;
        if bytes_of(ranges) <= len / FEW_SHARE {
            return Err("so little that nobody asks");
        }
        let kind = self.kind(snapshot).ok_or_else(|| self.lack(snapshot))?;
        let none = "no sums of the version at the destination are kept here";
        let note = base.note.ok_or(none)?;
        let room = Room::take(base.len.saturating_add(len));
        let room = room.ok_or("there is no room in memory for its sums")?;
        let mut of_base = table((base.kept, note), kind, &room).ok_or(none)?;
        of_base.cut(base.len);
        let mut new = of_base.beside(len).ok_or("it is too long")?;
        each_window(snapshot, ranges, |told, range| new.take(told, range))
            .ok_or("its sums are not told now: CAP_SYS_ADMIN hears them, or `deltic facts`")?;
        let runs = find(&of_base, &new);
        told(ranges, &runs, of_base.block_bytes()).ok_or("too many pieces of it moved")
    }

    /// Why no sums of this version decide.
    fn lack(self, snapshot: &impl Snapshot) -> &'static str {
        match snapshot.sum_kind().map(SumKind::strength) {
            None => "its file system keeps no sums of blocks",
            Some(SumStrength::Hint) => "sums of 32 bits, as its file system keeps, do not tell",
            Some(_) => "sums of 64 bits, as its file system keeps, count with --trust-sums alone",
        }
    }
}

/// The sums of this kind that a base still has of its table, if that is no longer than the room for it.
fn table(
    (kept, note): (&dyn FactStore, &SumsNote),
    kind: SumKind,
    room: &Room,
) -> Option<KeptSums> {
    let encoded = kept.base_note(BaseNote::Sums, &note.table)?;
    if encoded.len() as u64 > room.0 {
        return None;
    }
    let table = KeptSums::decode(&encoded)?;
    let mut table = Some(table).filter(|sums| sums.kind() == kind)?;
    decode(&note.others)?.iter().for_each(|range| table.forget(range));
    Some(table)
}

/// Runs as they are told, and what is left of the ranges that they are of. `None` where they are too many, or of no
/// whole blocks.
fn told(ranges: &[Range<u64>], runs: &[MovedRun], block: u32) -> Option<Changed> {
    let each = block.is_multiple_of(CHANGED_BLOCK_BYTES).then_some(block / CHANGED_BLOCK_BYTES)?;
    let has_moved = runs.iter().filter(|run| run.to != run.from);
    let moved = has_moved.map(|run| {
        let [to, from, blocks] = [run.to, run.from, run.blocks].map(|no| no.checked_mul(each));
        Some(MovedRun { to: to?, from: from?, blocks: blocks? })
    });
    let moved: Vec<_> = moved.collect::<Option<_>>()?;
    let known =
        runs.iter().map(|run| u64::from(run.to) * u64::from(block)..run.end() * u64::from(block));
    let is_little = moved.len() <= MAX_MOVED_RUNS;
    is_little.then(|| Changed { ranges: without(ranges, known), moved })
}

/// Parts of ranges that are not known; both ascend.
fn without(ranges: &[Range<u64>], known: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let (mut rest, mut known) = (Vec::new(), known.peekable());
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            while known.next_if(|known| known.end <= at).is_some() {}
            let next = known.peek().map_or(range.end..range.end, |known| {
                known.start.clamp(at, range.end)..known.end.min(range.end).max(at)
            });
            if at < next.start {
                rest.push(at..next.start);
            }
            at = next.end.max(next.start);
        }
    }
    rest
}

/// Calls `take` with the sums of ranges, in windows. `None` where the store does not tell.
fn each_window(
    snapshot: &impl Snapshot,
    ranges: &[Range<u64>],
    mut take: impl FnMut(&StoredSums, &Range<u64>),
) -> Option<()> {
    let mut rest = ranges.iter().cloned();
    let mut next = rest.next();
    while let Some(first) = next.take() {
        let end = first.start / WINDOW_BYTES * WINDOW_BYTES + WINDOW_BYTES;
        let (mut within, mut over) = (Vec::new(), Some(first));
        while let Some(range) = over.take_if(|range| range.start < end) {
            within.push(range.start..range.end.min(end));
            over = if range.end > end { Some(end..range.end) } else { rest.next() };
        }
        let hull = within[0].start..within[within.len() - 1].end;
        let told = snapshot.stored_sums(&hull).ok()??;
        within.iter().for_each(|range| take(&told, range));
        next = over;
    }
    Some(())
}

/// Notes the table that has the sums of the version that was just sent: that of its base, but for what has changed
/// since. If there is none one is made, of a version that did not change while it was read since it had these extents.
pub(super) fn note(
    (deciding, kept): (Deciding, &dyn FactStore),
    (snapshot, extents): (&impl Snapshot, &Extents),
    of_base: Option<SumsNote>,
) -> Option<SumsNote> {
    let kind = deciding.kind(snapshot)?;
    if of_base.is_some() {
        return of_base;
    }
    // The table, and the same as it is written.
    let _room = Room::take(extents.len().saturating_mul(2))?;
    let sums = made(snapshot, kind, extents)?;
    let mut name = [0; 32];
    getrandom::fill(&mut name).ok()?;
    let table = Digest::from_bytes(name);
    kept.keep_base_note(BaseNote::Sums, &table, sums.encode());
    Some(SumsNote { table, others: Vec::new() })
}

/// The note of a base, as one of a version in which these ranges are others. `None` where too little is left of the
/// table.
pub(super) fn carried(note: SumsNote, ranges: &[Range<u64>], len: u64) -> Option<SumsNote> {
    let others = joined(&decode(&note.others)?, ranges);
    let is_good = bytes_of(&others) <= len / OLD_SHARE && others.len() <= MAX_OTHERS;
    is_good.then(|| SumsNote { others: encode(&others), ..note })
}

/// The sums of a version which was read since it had these extents. Of what lies elsewhere by now nobody knows whether
/// it was read before or after: that is not known.
fn made(snapshot: &impl Snapshot, kind: SumKind, extents: &Extents) -> Option<KeptSums> {
    let (len, mut key, mut sums) = (extents.len(), [0; 32], None::<KeptSums>);
    if len / u64::from(CHANGED_BLOCK_BYTES) > MAX_BLOCKS as u64 {
        return None;
    }
    getrandom::fill(&mut key).ok()?;
    each_window(snapshot, std::slice::from_ref(&(0..len)), |told, range| {
        sums = sums.take().or_else(|| KeptSums::new(kind, told.block_bytes(), key, len));
        sums.iter_mut().for_each(|sums| sums.take(told, range));
    })?;
    let mut sums = sums.filter(KeptSums::any_known)?;
    let now = snapshot.extents().ok()??;
    now.changed_since(extents)?.iter().for_each(|range| sums.forget(range));
    Some(sums)
}

/// All of two lists of ranges that ascend.
fn joined(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut all: Vec<_> = one.iter().chain(other).cloned().collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut joined = Vec::<Range<u64>>::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Ranges as they are noted: how far each is behind the last, and how long it is.
fn encode(ranges: &[Range<u64>]) -> Vec<u8> {
    let (mut bytes, mut end) = (Vec::new(), 0);
    for range in ranges {
        bytes.put_varint(range.start - end);
        bytes.put_varint(range.end - range.start);
        end = range.end;
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<Range<u64>>> {
    let (mut from, mut ranges, mut end) = (Reader::new(bytes), Vec::new(), 0_u64);
    while !from.is_empty() {
        let start = end.checked_add(from.varint().ok()?)?;
        end = start.checked_add(from.varint().ok()?)?;
        ranges.push(start..end);
    }
    Some(ranges)
}

pub(super) fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_all_sessions_have_their_room_and_no_more() {
        const LONGEST: u64 = MAX_BLOCKS as u64 * CHANGED_BLOCK_BYTES as u64;
        let both = Room::take(2 * LONGEST).expect("two of the longest files have room");
        assert!(Room::take(LONGEST).is_none());
        drop(both);
        let one = Room::take(LONGEST).expect("there is room again");
        assert!(Room::take(LONGEST).is_some());
        assert!(Room::take(u64::MAX).is_none());
        drop(one);
    }
}
