//! Sums of the blocks of bases (docs/decisions/0060). With these sums the sender finds moved blocks without reading a
//! file: changed blocks that the base holds at another offset.
//!
//! A table holds the sums of the blocks of one version. Later bases that were made from this version refer to the same
//! table; the note of each base lists the ranges that differ from the table. So a sync that changes little writes no
//! table. Once too many ranges differ, a new table is made.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_core::codec::{Put, Reader};
use deltic_core::moved::{KeptSums, MAX_BLOCKS, find};
use deltic_core::stored::SumStrength;
use deltic_core::{Digest, MovedRun, StoredSums, SumKind};
use deltic_protocol::known::Changed;
use deltic_protocol::limits::{CHANGED_BLOCK_BYTES, MAX_MOVED_RUNS};
use deltic_store::{BaseNote, Extents, FactStore, Snapshot};

use super::RandomBytes;

/// Moved blocks are searched only if more than `len / FEW_SHARE` bytes of a file changed. A table has about `len /
/// FEW_SHARE` bytes, so for a smaller change reading the table costs more than it saves.
const FEW_SHARE: u64 = 1024;
/// A table is made anew if more than `len / OLD_SHARE` bytes of the file differ from the version of the table.
const OLD_SHARE: u64 = 16;
/// Most ranges that a note may list as different from the table.
const MAX_OTHERS: usize = 1 << 14;
/// Bytes of a file for which sums are requested at once; SHA-256 sums of a window take eight megabytes.
const WINDOW_BYTES: u64 = 1 << 30;

/// Most bytes of memory for the tables of all sessions of this process together. Enough for two of the longest files
/// and their index.
const MAX_BYTES: u64 = 160 << 20;
/// Bytes of a block's entry in a table in memory.
const ROW_BYTES: u64 = 16;
/// Bytes of an index of a table.
const INDEX_BYTES: u64 = 8 << 20;

/// A reservation of memory for tables, which ends when this value is dropped.
struct TableMemory(u64);

/// Reserved bytes.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl TableMemory {
    /// Reserves memory for tables of files with `file_bytes` bytes together. Returns `None` if other sessions have
    /// reserved the memory; moved blocks are then not searched.
    fn take(file_bytes: u64) -> Option<Self> {
        let bytes = file_bytes / u64::from(CHANGED_BLOCK_BYTES) * ROW_BYTES + INDEX_BYTES;
        let more = |taken: u64| taken.checked_add(bytes).filter(|all| *all <= MAX_BYTES);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(bytes))
    }
}

impl Drop for TableMemory {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A note that names the table with the sums of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SumsNote {
    /// Name of the table, which is random.
    pub(super) table: Digest,
    /// Encoded ranges of the base that differ from the table.
    others: Vec<u8>,
}

impl SumsNote {
    /// Returns the stored note about `base`.
    pub(super) fn find(facts: &dyn FactStore, base: &Digest) -> Option<Self> {
        let note = facts.base_note(BaseNote::Sums, base)?;
        let (table, others) = note.split_first_chunk()?;
        Some(Self { table: Digest::from_bytes(*table), others: others.to_vec() })
    }

    /// Stores this note about `base`.
    pub(super) fn keep(&self, facts: &dyn FactStore, base: &Digest) {
        let note = [&self.table.as_bytes()[..], &self.others].concat();
        facts.keep_base_note(BaseNote::Sums, base, note);
    }
}

/// Decides which stored sums prove that blocks are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deciding {
    /// True if the user trusts the sums of both stores (`--trust-sums`).
    pub(super) trusts: bool,
    /// Supplies names and keys of new tables.
    pub(super) random: RandomBytes,
}

/// A base with its notes.
pub(super) struct Base<'a> {
    pub(super) kept: &'a dyn FactStore,
    /// Names the table with the sums of the base.
    pub(super) note: Option<&'a SumsNote>,
    /// Length of the base in bytes.
    pub(super) len: u64,
}

impl Deciding {
    /// Returns the kind of sums of this file, if equal sums prove equal blocks. Hashes always do; sums of 64 bits do if
    /// the user trusts both stores.
    pub(super) fn kind(self, snapshot: &impl Snapshot) -> Option<SumKind> {
        snapshot.sum_kind().filter(|kind| match kind.strength() {
            SumStrength::Proof => true,
            SumStrength::AgainstAccidents => self.trusts,
            SumStrength::Hint => false,
        })
    }

    /// Returns the note that names the table for the version just sent: `of_base` if given, else a new table. A new
    /// table covers only bytes that stayed at the same place on the disk since `extents` were read.
    pub(super) fn note(
        self,
        kept: &dyn FactStore,
        snapshot: &impl Snapshot,
        extents: &Extents,
        of_base: Option<SumsNote>,
    ) -> Option<SumsNote> {
        let kind = self.kind(snapshot)?;
        if of_base.is_some() {
            return of_base;
        }
        // Room for the table and for its encoded copy.
        let _room = TableMemory::take(extents.len().saturating_mul(2))?;
        let sums = build_sums(snapshot, kind, (self.random)()?, extents)?;
        let table = Digest::from_bytes((self.random)()?);
        kept.keep_base_note(BaseNote::Sums, &table, sums.encode());
        Some(SumsNote { table, others: Vec::new() })
    }

    /// Returns the parts of `ranges` that match no block of the base, and the runs of blocks that the base holds at
    /// another offset. Bytes outside of `ranges` are equal to the base. Errors: the reason why moved blocks cannot be
    /// found.
    pub(super) fn moved(
        self,
        snapshot: &impl Snapshot,
        base: &Base<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Changed, &'static str> {
        let len = snapshot.meta().len;
        if bytes_of(ranges) <= len / FEW_SHARE {
            return Err("too few bytes changed to search for moved blocks");
        }
        let kind = self.kind(snapshot).ok_or_else(|| self.no_sums_reason(snapshot))?;
        let none = "no checksums of the version at the destination are stored here";
        let note = base.note.ok_or(none)?;
        let room = TableMemory::take(base.len.saturating_add(len));
        let room = room.ok_or("not enough memory for the checksums")?;
        let mut of_base = table(base.kept, note, kind, &room).ok_or(none)?;
        of_base.truncate(base.len);
        let mut new = of_base.empty_for(len).ok_or("the file is too long")?;
        each_window(snapshot, ranges, |told, range| new.take_stored(told, range))
            .ok_or("its checksums cannot be read: this needs CAP_SYS_ADMIN or `deltic facts`")?;
        let runs = find(&of_base, &new);
        to_changed(ranges, &runs, of_base.block_bytes()).ok_or("too many blocks moved")
    }

    /// Returns the reason why the sums of this file do not prove equality.
    fn no_sums_reason(self, snapshot: &impl Snapshot) -> &'static str {
        match snapshot.sum_kind().map(SumKind::strength) {
            None => "its file system keeps no checksums of blocks",
            Some(SumStrength::Hint) => {
                "its file system keeps 32-bit checksums, which prove nothing"
            }
            Some(_) => {
                "its file system keeps 64-bit checksums, which are used only with --trust-sums"
            }
        }
    }
}

/// Returns the table of a base, without the ranges in which the base differs from the table. Returns `None` if the
/// table is longer than `room`, is missing, or holds another kind of sums.
fn table(
    kept: &dyn FactStore,
    note: &SumsNote,
    kind: SumKind,
    room: &TableMemory,
) -> Option<KeptSums> {
    let encoded = kept.base_note(BaseNote::Sums, &note.table)?;
    if encoded.len() as u64 > room.0 {
        return None;
    }
    let table = KeptSums::decode(&encoded)?;
    let mut table = Some(table).filter(|sums| sums.kind() == kind)?;
    decode(&note.others)?.iter().for_each(|range| table.forget_range(range));
    Some(table)
}

/// Converts found runs into a message: the moved runs, and the parts of `ranges` outside of all runs. Returns `None`
/// if there are too many runs, or the block size is no multiple of `CHANGED_BLOCK_BYTES`.
fn to_changed(ranges: &[Range<u64>], runs: &[MovedRun], block: u32) -> Option<Changed> {
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

/// Returns the parts of `ranges` that lie outside of `known`. Both arguments ascend.
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

/// Calls `take` with the sums of each range, window by window. Returns `None` if the store does not supply sums.
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

/// Turns the note of a base into the note of a version that differs from the base in `ranges`. Returns `None` if too
/// little of the table is still valid.
pub(super) fn carried(note: SumsNote, ranges: &[Range<u64>], len: u64) -> Option<SumsNote> {
    let others = joined(&decode(&note.others)?, ranges);
    let is_good = bytes_of(&others) <= len / OLD_SHARE && others.len() <= MAX_OTHERS;
    is_good.then(|| SumsNote { others: encode(&others), ..note })
}

/// Returns the sums of a version that was read after `extents` were taken. Ranges that moved on the disk since then are
/// left out: their sums may be those of older or of newer bytes.
fn build_sums(
    snapshot: &impl Snapshot,
    kind: SumKind,
    key: [u8; 32],
    extents: &Extents,
) -> Option<KeptSums> {
    let (len, mut sums) = (extents.len(), None::<KeptSums>);
    if len / u64::from(CHANGED_BLOCK_BYTES) > MAX_BLOCKS as u64 {
        return None;
    }
    each_window(snapshot, std::slice::from_ref(&(0..len)), |told, range| {
        sums = sums.take().or_else(|| KeptSums::new(kind, told.block_bytes(), key, len));
        sums.iter_mut().for_each(|sums| sums.take_stored(told, range));
    })?;
    let mut sums = sums.filter(KeptSums::any_known)?;
    let now = snapshot.extents().ok()??;
    now.changed_since(extents)?.iter().for_each(|range| sums.forget_range(range));
    Some(sums)
}

/// Returns the union of two lists of ranges, sorted and merged.
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

/// Encodes ranges: for each range, the distance from the end of the previous range, then the length.
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
        let both = TableMemory::take(2 * LONGEST).expect("two of the longest files have room");
        assert!(TableMemory::take(LONGEST).is_none());
        drop(both);
        let one = TableMemory::take(LONGEST).expect("there is room again");
        assert!(TableMemory::take(LONGEST).is_some());
        assert!(TableMemory::take(u64::MAX).is_none());
        drop(one);
    }
}
