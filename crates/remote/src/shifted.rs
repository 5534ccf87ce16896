//! Finds units of an object that the old version has at another offset, as after an insertion (docs/decisions/0041).
//!
//! An insertion moves all bytes behind it. So no unit behind the insertion has the checksum of the bytes at the same
//! offset of the old version, and checksums of most kinds cannot be rolled over the old version. The search fetches a
//! few bytes instead. *Shift* is the offset of some bytes in old minus their offset in the object.
//!
//! ```text
//! for each run of units that old does not have at their own offsets:
//!     index the bytes of old around the run, by the checksum of every `stride`-th anchor of some bytes
//!     for each unit of the run:
//!         if old has the unit at the present shift, by the unit's checksum:  found
//!         else:  fetch the last bytes of the unit; look for them in the index
//!                there, and the next unit confirms that shift by its checksum:  the present shift; look back
//!                not there:                                  skip 1, 2, 4, … units before the next fetch
//!         look back: skipped units before a found unit are checked at the same shift, last first
//! ```
//!
//! 1. An edit costs the unit that holds the edit, and one or two fetches of `stride` bytes. Skipping keeps the number
//!    of fetches small where the object has new bytes only.
//! 2. A run that ends before the object was most likely written anew in place: after two fetches without any shift the
//!    search leaves the run. A shift reaches to the end of the object, unless another edit takes it back.
//! 3. An appended part is not searched: behind the beginning of the run old has nothing that could have moved.
//! 4. Limits on fetches, and on bytes of old read for indexes and for checksums at wrong shifts, bound the work.
//! 5. The result is a proposal: a reader must verify the checksum of each unit that it copies.

use std::ops::Range;

use deltic_core::Crc32c;
use deltic_store::Snapshot;

use crate::RemoteError;
use crate::local_file::LocalFile;
use crate::sums::{ObjectSums, SummedUnit};

/// Consecutive bytes of an object that the old version has at another offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShiftedRun {
    /// Byte range in the object: whole units.
    pub(crate) new: Range<u64>,
    /// Offset of the same bytes in the old version.
    pub(crate) old: u64,
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShiftedUnits {
    /// The runs, ascending and disjoint.
    pub(crate) runs: Vec<ShiftedRun>,
    /// Number of units in all runs.
    pub(crate) units: u64,
}

/// Fetches a byte range of the object into a buffer of the same length.
pub(crate) type FetchRange<'a> =
    &'a mut dyn FnMut(Range<u64>, &mut [u8]) -> Result<(), RemoteError>;

/// Finds the units in `ranges` of an object that `old` has at other offsets. The ranges ascend. An error of a read or
/// of a fetch ends the search, with the units found so far.
pub(crate) fn find(
    sums: &ObjectSums,
    ranges: &[Range<u64>],
    old: &dyn Snapshot,
    fetch: FetchRange<'_>,
) -> ShiftedUnits {
    let spare_bytes = old.meta().len.saturating_mul(SPARE_FACTOR).saturating_add(LEAST_SPARE_BYTES);
    let len = sums.units.iter().map(|unit| unit.len).sum();
    let (here, found) = (LocalFile::new(old), ShiftedUnits::default());
    let mut search =
        ShiftSearch { old, here, fetch, len, fetches: MAX_FETCHES, spare_bytes, found };
    for run in runs_in(sums, ranges) {
        if is_worth_a_search(&run, old.meta().len) && search.search_run(&run).is_err() {
            break;
        }
    }
    search.found
}

/// True if a search of `run` may find more units than it may cost, in an old version of `old_len` bytes.
fn is_worth_a_search(run: &[PlacedUnit<'_>], old_len: u64) -> bool {
    run.get(FEW_UNITS).is_some_and(|unit| unit.end() <= old_len)
}

/// Runs of at most this number of units are fetched without a search.
const FEW_UNITS: usize = 3;
/// Most fetches of a search.
const MAX_FETCHES: u32 = 1024;
/// Bytes of old that a search may read for indexes and for checksums at wrong shifts: this multiple of the length of
/// old, and so many more.
const SPARE_FACTOR: u64 = 4;
const LEAST_SPARE_BYTES: u64 = 64 << 20;
/// Length of an anchor in bytes.
const ANCHOR_BYTES: usize = 128;
/// Shortest distance between two anchors in bytes.
const LEAST_STRIDE: u64 = 1 << 10;
/// Most anchors of an index.
const MAX_ANCHORS: u64 = 1 << 20;
/// Fetches without a shift after which the search leaves a run that ends before the object.
const MAX_INNER_MISSES: u32 = 2;
/// Most shifts that a fetch may propose.
const MAX_SHIFTS: usize = 4;
/// Most shifts of a fetch that are compared with the bytes of old.
const MAX_COMPARED: usize = 64;
/// Binary logarithm of the most units between two fetches.
const MAX_SKIP_BITS: u32 = 20;
/// Bytes of old read at once for the index.
const READ_BYTES: u64 = 1 << 20;

/// A unit, and its offset in the object.
struct PlacedUnit<'a> {
    start: u64,
    unit: &'a SummedUnit,
}

impl PlacedUnit<'_> {
    const fn end(&self) -> u64 {
        self.start + self.unit.len
    }
}

/// Returns the units that overlap `ranges`, as runs of consecutive units.
fn runs_in<'a>(sums: &'a ObjectSums, ranges: &[Range<u64>]) -> Vec<Vec<PlacedUnit<'a>>> {
    let (mut runs, mut ranges) = (Vec::<Vec<PlacedUnit<'_>>>::new(), ranges);
    let mut start = 0;
    for unit in &sums.units {
        let placed = PlacedUnit { start, unit };
        start = placed.end();
        while let [first, rest @ ..] = ranges
            && first.end <= placed.start
        {
            ranges = rest;
        }
        if ranges.first().is_none_or(|range| range.start >= placed.end()) {
            continue;
        }
        match runs
            .last_mut()
            .filter(|run| run.last().is_some_and(|last| last.end() == placed.start))
        {
            Some(run) => run.push(placed),
            None => runs.push(vec![placed]),
        }
    }
    runs
}

/// The search ended early: a read or a fetch failed, or a limit is reached.
struct SearchOver;

impl From<RemoteError> for SearchOver {
    fn from(_: RemoteError) -> Self {
        Self
    }
}

struct ShiftSearch<'a> {
    old: &'a dyn Snapshot,
    here: LocalFile<'a>,
    fetch: FetchRange<'a>,
    /// Length of the object in bytes.
    len: u64,
    /// Number of fetches that are still allowed.
    fetches: u32,
    /// Number of bytes of old that indexes and checksums at wrong shifts may still read.
    spare_bytes: u64,
    found: ShiftedUnits,
}

impl ShiftSearch<'_> {
    fn search_run(&mut self, run: &[PlacedUnit<'_>]) -> Result<(), SearchOver> {
        let around = bytes_around(run, self.len, self.old.meta().len);
        self.charge(around.end - around.start)?;
        let index = AnchorIndex::of(around, self.old)?;
        let is_last = run.last().is_some_and(|unit| unit.end() == self.len);
        // Units before `open` are found, or will be fetched. Units from `open` to `at` were skipped.
        let (mut at, mut open, mut shift, mut misses) = (0, 0, None, 0_u32);
        while at < run.len() {
            let is_here = match shift {
                Some(shift) => self.has(&run[at], shift)?,
                None => false,
            };
            let confirmed = match is_here {
                true => shift,
                false => self.fetch_shift(&index, &run[at..], shift)?,
            };
            let Some(confirmed) = confirmed else {
                let last = (run.len() - 1).max(at + 1);
                at = (at + (1 << misses.min(MAX_SKIP_BITS))).min(last);
                misses += 1;
                if misses == MAX_INNER_MISSES && shift.is_none() && !is_last {
                    break;
                }
                continue;
            };
            let mut first = at + usize::from(!is_here);
            while first > open && self.has(&run[first - 1], confirmed)? {
                first -= 1;
            }
            run[first..=at].iter().for_each(|unit| self.take(unit, confirmed));
            (shift, misses) = (Some(confirmed), 0);
            at += 1;
            open = at;
        }
        Ok(())
    }

    /// True if old has the bytes of `unit` at this shift, by the checksum of the unit.
    fn has(&mut self, unit: &PlacedUnit<'_>, shift: i64) -> Result<bool, SearchOver> {
        let Some(start) = unit.start.checked_add_signed(shift) else { return Ok(false) };
        let has = self.here.has(unit.unit, start).map_err(|_| SearchOver)?;
        if !has {
            self.charge(unit.unit.len)?;
        }
        Ok(has)
    }

    /// Counts bytes of old that were read in vain, or only for an index.
    fn charge(&mut self, bytes: u64) -> Result<(), SearchOver> {
        self.spare_bytes = self.spare_bytes.checked_sub(bytes).ok_or(SearchOver)?;
        Ok(())
    }

    /// Fetches the last bytes of the first unit of `rest`, and looks for these bytes in old. Returns the shift that
    /// the next unit confirms, or the first unit if there is no other.
    fn fetch_shift(
        &mut self,
        index: &AnchorIndex,
        rest: &[PlacedUnit<'_>],
        near: Option<i64>,
    ) -> Result<Option<i64>, SearchOver> {
        let (unit, witness) = match rest {
            [unit, next, ..] => (unit, next),
            [unit] => (unit, unit),
            [] => return Ok(None),
        };
        self.fetches = self.fetches.checked_sub(1).ok_or(SearchOver)?;
        let end = unit.end();
        let start = end.saturating_sub(index.stride + ANCHOR_BYTES as u64);
        let mut bytes = vec![0; (end - start) as usize];
        (self.fetch)(start..end, &mut bytes)?;
        for shift in index.shifts(self.old, &Fetched { start, bytes: &bytes }, near.unwrap_or(0))? {
            if self.has(witness, shift)? {
                return Ok(Some(shift));
            }
        }
        Ok(None)
    }

    /// Notes that old has `unit` at this shift.
    fn take(&mut self, unit: &PlacedUnit<'_>, shift: i64) {
        let Some(old) = unit.start.checked_add_signed(shift) else { return };
        self.found.units += 1;
        match self.found.runs.last_mut() {
            Some(ShiftedRun { new, old: first })
                if new.end == unit.start && *first + (new.end - new.start) == old =>
            {
                new.end = unit.end();
            }
            _ => self.found.runs.push(ShiftedRun { new: unit.start..unit.end(), old }),
        }
    }
}

/// Range of an old version of `old_len` bytes around the offsets of `run`, a part of an object of `new_len` bytes.
/// Bytes of the run lie in old at most the length of the run away, unless the object became longer or shorter by more.
fn bytes_around(run: &[PlacedUnit<'_>], new_len: u64, old_len: u64) -> Range<u64> {
    let start = run.first().map_or(0, |unit| unit.start);
    let end = run.last().map_or(0, PlacedUnit::end);
    let reach = (end - start).saturating_add(new_len.abs_diff(old_len));
    let end = end.saturating_add(reach).min(old_len);
    start.saturating_sub(reach).min(end)..end
}

/// Fetched bytes of the object, and their offset.
struct Fetched<'a> {
    start: u64,
    bytes: &'a [u8],
}

/// Checksums of anchors, which lie in old at equal distances.
struct AnchorIndex {
    /// Offset in old of the first anchor.
    start: u64,
    /// Distance between two anchors in bytes.
    stride: u64,
    /// Checksum and number of each anchor, sorted.
    anchors: Vec<(Crc32c, u32)>,
}

impl AnchorIndex {
    /// Reads these bytes of `old`.
    fn of(Range { start, end }: Range<u64>, old: &dyn Snapshot) -> Result<Self, SearchOver> {
        let stride = (end - start).div_ceil(MAX_ANCHORS).next_power_of_two().max(LEAST_STRIDE);
        let mut buffer = vec![0; READ_BYTES.max(stride) as usize];
        let (mut anchors, mut at) = (Vec::new(), start);
        while at < end {
            let want = (end - at).min(buffer.len() as u64) as usize;
            read_exact(old, at, &mut buffer[..want])?;
            for block in buffer[..want].chunks(stride as usize) {
                let Some(anchor) = block.get(..ANCHOR_BYTES) else { break };
                anchors.push((Crc32c::of(anchor), anchors.len() as u32));
            }
            at += want as u64;
        }
        anchors.sort_unstable();
        Ok(Self { start, stride, anchors })
    }

    /// Shifts at which `old` has the last bytes of `fetched`, an anchor at least. The shifts nearest to `near` come
    /// first; shift 0 and shifts beyond [`MAX_SHIFTS`] are left out.
    fn shifts(
        &self,
        old: &dyn Snapshot,
        fetched: &Fetched<'_>,
        near: i64,
    ) -> Result<Vec<i64>, SearchOver> {
        let mut proposed = Vec::new();
        for (at, window) in fetched.bytes.windows(ANCHOR_BYTES).enumerate() {
            // Zeros lie everywhere in a disk image.
            if window.iter().all(|byte| *byte == window[0]) {
                continue;
            }
            let new = (fetched.start + at as u64) as i64;
            let shifts = self.places(Crc32c::of(window), new.saturating_add(near));
            proposed.extend(shifts.map(|place| (place as i64 - new, at)));
        }
        proposed.sort_unstable_by_key(|&(shift, at)| (shift.abs_diff(near), shift, at));
        proposed.dedup_by_key(|&mut (shift, _)| shift);
        proposed.truncate(MAX_COMPARED);
        let (mut shifts, mut buffer) = (Vec::new(), vec![0; fetched.bytes.len()]);
        for (shift, at) in proposed {
            let bytes = &fetched.bytes[at..];
            let Some(place) = (fetched.start + at as u64).checked_add_signed(shift) else {
                continue;
            };
            let is_within = place + bytes.len() as u64 <= old.meta().len;
            if shift == 0 || !is_within {
                continue;
            }
            let buffer = &mut buffer[..bytes.len()];
            read_exact(old, place, buffer)?;
            if buffer == bytes {
                shifts.push(shift);
            }
            if shifts.len() == MAX_SHIFTS {
                break;
            }
        }
        Ok(shifts)
    }

    /// Offsets in old of the two anchors with the checksum `sum` around the offset `near`.
    fn places(&self, sum: Crc32c, near: i64) -> impl Iterator<Item = u64> {
        let number = (near.max(0) as u64).saturating_sub(self.start) / self.stride;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let next = self.anchors.partition_point(|anchor| *anchor < (sum, number));
        let around = self.anchors[next.saturating_sub(1)..].iter().take(2);
        let equal = around.filter(move |(of, _)| *of == sum);
        equal.map(|(_, number)| self.start + u64::from(*number) * self.stride)
    }
}

/// Fills `buf` with the bytes of an old version from offset `start`.
///
/// # Errors
/// [`RemoteError::Changed`] if the old version is shorter by now or unreadable.
pub(crate) fn read_exact(
    old: &dyn Snapshot,
    mut start: u64,
    mut buf: &mut [u8],
) -> Result<(), RemoteError> {
    while !buf.is_empty() {
        match old.read_at(start, buf) {
            Ok(some) if some > 0 => {
                start += some as u64;
                buf = &mut buf[some..];
            }
            _ => return Err(RemoteError::Changed),
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
