//! What a new version of a file has from the version before: bytes that were kept, that moved, and that are new.
//!
//! - *kept*: bytes of the old version, in the order of the old version. An insertion before them shifts the bytes, and
//!   they still count as kept.
//! - *moved*: bytes of the old version that stand in another order.
//! - *new*: bytes that were not found in the old version.
//!
//! Of all choices of runs in the order of the old version, the kept runs are one with the most bytes.
//!
//! [`Origins`] gathers runs in any order, or compares two recipes ([`Origins::of_chunks`]) or two short files
//! ([`Origins::of_bytes`]). [`ChangeMap`] folds the result into [`BUCKETS`] equal parts of the file.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::fingerprint::Fingerprint;
use crate::recipe::Chunk;

/// Number of equal parts of a file in a [`ChangeMap`].
pub const BUCKETS: usize = 32;

/// Length in bytes of an encoded [`ChangeMap`].
pub const CHANGE_MAP_BYTES: usize = 3 * 8 + 2 * BUCKETS;

/// Most runs that are gathered about one file. A file with more runs has no map.
const MAX_RUNS: usize = 1 << 16;

/// Origin of bytes of a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// In the old version, in the same order.
    Kept,
    /// In the old version, in another order.
    Moved,
    /// Not found in the old version.
    New,
}

/// A run of bytes of a new version with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSpan {
    /// The bytes of the new version.
    pub span: Range<u64>,
    /// Their origin.
    pub change: Change,
    /// Offset of the bytes in the old version; `None` for new bytes.
    pub old: Option<u64>,
}

/// Gathers where the bytes of a new version come from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Runs by their offset in the new version.
    runs: BTreeMap<u64, OriginRun>,
    /// Number of bytes in all runs.
    covered: u64,
    /// True if runs overlap, or there are too many.
    is_void: bool,
}

#[derive(Clone, Copy, Debug)]
struct OriginRun {
    len: u64,
    /// Offset in the old version; `None` for new bytes.
    old: Option<u64>,
}

impl OriginRun {
    /// True if `next`, which begins where this run ends, continues this run.
    fn continues_with(self, next: Self) -> bool {
        next.old == self.old.map(|old| old.saturating_add(self.len))
    }
}

impl Origins {
    /// Adds bytes of the new version. `old` is the offset of the same bytes in the old version; `None` for new bytes.
    pub fn add(&mut self, span: Range<u64>, old: Option<u64>) {
        if span.is_empty() || self.is_void {
            return;
        }
        let mut start = span.start;
        let mut run = OriginRun { len: span.end - span.start, old };
        self.covered = self.covered.saturating_add(run.len);
        let before = self.runs.range(..=start).next_back().map(|(at, run)| (*at, *run));
        let after = self.runs.range(start..).next().map(|(at, run)| (*at, *run));
        let overlaps = before.is_some_and(|(at, run)| at + run.len > start)
            || after.is_some_and(|(at, _)| at < span.end);
        if overlaps || self.runs.len() >= MAX_RUNS {
            self.is_void = true;
            self.runs.clear();
            return;
        }
        if let Some((at, next)) = after
            && at == span.end
            && run.continues_with(next)
        {
            self.runs.remove(&at);
            run.len += next.len;
        }
        if let Some((at, first)) = before
            && at + first.len == start
            && first.continues_with(run)
        {
            run = OriginRun { len: first.len + run.len, old: first.old };
            start = at;
        }
        self.runs.insert(start, run);
    }

    /// Compares two recipes that were cut by one chunker, with one kind of fingerprints.
    ///
    /// A chunk that the old version has more than once is taken from the place that continues the run before, or from
    /// the same offset, or else from the first place.
    #[must_use]
    pub fn of_chunks(old: &[Chunk], new: &[Chunk]) -> Self {
        let mut places = HashMap::<Fingerprint, Vec<u64>>::new();
        for (start, chunk) in with_offsets(old) {
            places.entry(chunk.fingerprint).or_default().push(start);
        }
        let (mut origins, mut next) = (Self::default(), None);
        for (start, chunk) in with_offsets(new) {
            let found = places.get(&chunk.fingerprint).map(Vec::as_slice).unwrap_or_default();
            let has = |at: Option<u64>| at.filter(|at| found.binary_search(at).is_ok());
            let old = has(next).or_else(|| has(Some(start))).or_else(|| found.first().copied());
            let len = u64::from(chunk.len);
            origins.add(start..start + len, old);
            next = old.map(|old| old + len);
        }
        origins
    }

    /// Compares two short files: the bytes that both begin with and end with are kept, all others are new.
    #[must_use]
    pub fn of_bytes(old: &[u8], new: &[u8]) -> Self {
        let equal = |(one, other): &(&u8, &u8)| one == other;
        let first = old.iter().zip(new).take_while(equal).count();
        let (old_rest, new_rest) = (&old[first..], &new[first..]);
        let last = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(equal).count();
        let (first, last_start) = (first as u64, (new.len() - last) as u64);
        let mut origins = Self::default();
        origins.add(0..first, Some(0));
        origins.add(first..last_start, None);
        origins.add(last_start..new.len() as u64, Some((old.len() - last) as u64));
        origins
    }

    /// True if some bytes come from the old version.
    #[must_use]
    pub fn has_old(&self) -> bool {
        self.runs.values().any(|run| run.old.is_some())
    }

    /// Returns the spans of a new version of `len` bytes, in order. `None` if the origin of some bytes is unknown.
    #[must_use]
    pub fn spans(&self, len: u64) -> Option<Vec<ChangedSpan>> {
        let end = self.runs.last_key_value().map_or(0, |(start, run)| start + run.len);
        if self.is_void || self.covered != len || end != len {
            return None;
        }
        let mut kept = self.kept_runs().into_iter().peekable();
        let mut spans = Vec::<ChangedSpan>::with_capacity(self.runs.len());
        for (start, run) in &self.runs {
            let change = match run.old {
                None => Change::New,
                Some(_) if kept.next_if_eq(start).is_some() => Change::Kept,
                Some(_) => Change::Moved,
            };
            spans.push(ChangedSpan { span: *start..start + run.len, change, old: run.old });
        }
        Some(spans)
    }

    /// Returns the offsets of the runs that are in the order of the old version: of all such choices, one with the most
    /// bytes. Ascending.
    ///
    /// For each run, in the order of the new version: the best choice that ends with the run is the run and the best
    /// choice that ends, in the old version, at the start of the run or before.
    fn kept_runs(&self) -> Vec<u64> {
        let runs: Vec<_> = self
            .runs
            .iter()
            .filter_map(|(start, run)| run.old.map(|old| (*start, old, run.len)))
            .collect();
        let mut ends: Vec<_> = runs.iter().map(|(_, old, len)| old + len).collect();
        ends.sort_unstable();
        ends.dedup();
        let (mut best, mut before) = (PrefixMax::new(ends.len()), Vec::with_capacity(runs.len()));
        for (number, (_, old, len)) in runs.iter().enumerate() {
            let (bytes, last) = best.greatest(ends.partition_point(|end| end <= old));
            before.push(last);
            let place = ends.partition_point(|end| *end < old + len);
            best.raise(place, (bytes + len, Some(number)));
        }
        let (_, mut last) = best.greatest(ends.len());
        let mut kept = Vec::new();
        while let Some(number) = last {
            kept.push(runs[number].0);
            last = before[number];
        }
        kept.reverse();
        kept
    }
}

/// Returns the chunks with their offsets.
fn with_offsets(chunks: &[Chunk]) -> impl Iterator<Item = (u64, &Chunk)> {
    chunks.iter().scan(0, |end, chunk| {
        let start = *end;
        *end += u64::from(chunk.len);
        Some((start, chunk))
    })
}

/// Bytes of a choice of runs, and the number of the last run of the choice.
type Choice = (u64, Option<usize>);

/// A Fenwick tree of the greatest values among the first places.
struct PrefixMax(Vec<Choice>);

impl PrefixMax {
    fn new(places: usize) -> Self {
        Self(vec![(0, None); places + 1])
    }

    /// Returns the greatest value of the first `count` places.
    fn greatest(&self, count: usize) -> Choice {
        let (mut at, mut found) = (count, (0, None));
        while at > 0 {
            if self.0[at].0 > found.0 {
                found = self.0[at];
            }
            at &= at - 1;
        }
        found
    }

    /// Raises the value of a place.
    fn raise(&mut self, place: usize, value: Choice) {
        let mut at = place + 1;
        while at < self.0.len() {
            if value.0 > self.0[at].0 {
                self.0[at] = value;
            }
            at += at & at.wrapping_neg();
        }
    }
}

/// Numbers of bytes by their origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeSums {
    /// Bytes that were kept.
    pub kept: u64,
    /// Bytes that moved.
    pub moved: u64,
    /// Bytes that are new.
    pub new: u64,
}

impl ChangeSums {
    /// Returns the number of all bytes; `None` beyond `u64::MAX`.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.kept.checked_add(self.moved)?.checked_add(self.new)
    }

    fn add(&mut self, bytes: u64, change: Change) {
        let sum = match change {
            Change::Kept => &mut self.kept,
            Change::Moved => &mut self.moved,
            Change::New => &mut self.new,
        };
        *sum += bytes;
    }
}

/// The change of a file, folded into [`BUCKETS`] parts of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMap {
    /// Bytes of the whole file.
    pub sums: ChangeSums,
    /// Bytes of each part, from the start of the file to its end. Parts of a file shorter than [`BUCKETS`] may be empty.
    pub buckets: [ChangeSums; BUCKETS],
}

impl ChangeMap {
    /// Folds the spans of a file of `len` bytes.
    #[must_use]
    pub fn of(len: u64, spans: &[ChangedSpan]) -> Self {
        let mut map = Self { sums: ChangeSums::default(), buckets: Default::default() };
        for ChangedSpan { span, change, .. } in spans {
            map.sums.add(span.end - span.start, *change);
            let mut number = bucket_at(len, span.start);
            let mut at = span.start;
            while at < span.end && number < BUCKETS {
                let end = bucket_range(len, number).end.min(span.end);
                map.buckets[number].add(end.saturating_sub(at), *change);
                (at, number) = (at.max(end), number + 1);
            }
        }
        map
    }

    /// The map of a new file.
    #[must_use]
    pub fn of_new_file(len: u64) -> Self {
        Self::of(len, &[ChangedSpan { span: 0..len, change: Change::New, old: None }])
    }

    /// Encodes the map: the three sums, then for each part two shares of its bytes in 255ths, of moved and of new bytes.
    /// Shares are rounded up, so that no change vanishes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CHANGE_MAP_BYTES] {
        let mut bytes = [0; CHANGE_MAP_BYTES];
        let ChangeSums { kept, moved, new } = self.sums;
        let (sums, shares) = bytes.split_at_mut(3 * 8);
        for (place, sum) in sums.chunks_exact_mut(8).zip([kept, moved, new]) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        for (place, bucket) in shares.chunks_exact_mut(2).zip(&self.buckets) {
            let of = bucket.total().unwrap_or(u64::MAX).max(1);
            for (place, part) in place.iter_mut().zip([bucket.moved, bucket.new]) {
                *place = (u128::from(part) * 255).div_ceil(of.into()).min(255) as u8;
            }
        }
        bytes
    }

    /// Decodes a map. The bytes of each part are exact to a 255th. `None` if the sums do not fit in a file.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CHANGE_MAP_BYTES]) -> Option<Self> {
        let (sums, shares) = bytes.split_at(3 * 8);
        let sum =
            |number: usize| sums[number * 8..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let sums = ChangeSums { kept: sum(0), moved: sum(1), new: sum(2) };
        let len = sums.total()?;
        let mut buckets = [ChangeSums::default(); BUCKETS];
        for (number, (bucket, share)) in buckets.iter_mut().zip(shares.chunks_exact(2)).enumerate()
        {
            let range = bucket_range(len, number);
            let of = range.end - range.start;
            let part = |share: u8| (u128::from(of) * u128::from(share) / 255) as u64;
            let [least_moved, least_new] = [share[0], share[1]].map(|share| u64::from(share > 0));
            let new = part(share[1]).max(least_new).min(of.saturating_sub(least_moved));
            let moved = part(share[0]).max(least_moved).min(of - new);
            *bucket = ChangeSums { kept: of - new - moved, moved, new };
        }
        Some(Self { sums, buckets })
    }
}

/// Returns the bytes of a part of a file of `len` bytes.
#[must_use]
pub fn bucket_range(len: u64, number: usize) -> Range<u64> {
    let edge = |number: usize| (u128::from(len) * number as u128 / BUCKETS as u128) as u64;
    edge(number)..edge(number + 1)
}

/// Returns the number of the part that has the byte at `start`; 0 for an empty file.
fn bucket_at(len: u64, start: u64) -> usize {
    // Parts are rounded down, so the estimate is at most one too low.
    let near = (u128::from(start) * BUCKETS as u128 / u128::from(len.max(1))) as usize;
    if bucket_range(len, near).end <= start { near + 1 } else { near }
}
