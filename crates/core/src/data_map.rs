//! A map of the data and the holes of a sparse file. Holes read as zeros.
//!
//! A file with large holes is transferred as its data alone, *packed*: all data runs are concatenated. Offsets
//! count bytes of the packed data, and the map translates packed ranges to file ranges. A hole of any length
//! takes one entry of the map.
//!
//! ```text
//! file    ░░░░░aaaa░░░░░░░░bbb░░░      map     5..9, 17..20 of 23 bytes
//! packed  aaaabbb                      places  packed 3..5 is 8..9 and 17..18 of the file
//! ```

use std::ops::Range;

/// Byte ranges of a file, concatenated in a given order to *packed* data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedRuns {
    runs: Vec<Range<u64>>,
    /// Offset of each run in the packed data.
    starts: Vec<u64>,
    len: u64,
}

impl PackedRuns {
    /// Concatenates `runs` in this order and drops empty runs.
    #[must_use]
    pub fn new(runs: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut packed = Self::default();
        for run in runs.into_iter().filter(|run| run.start < run.end) {
            packed.starts.push(packed.len);
            packed.len += run.end - run.start;
            packed.runs.push(run);
        }
        packed
    }

    /// Total length of all runs in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True if the total length is 0.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file ranges of a packed range, in order. Bytes past the end of the last run have no file range.
    pub fn places_in_file(&self, packed: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.starts.partition_point(|start| *start <= packed.start).saturating_sub(1);
        let runs = self.runs[first..].iter().zip(&self.starts[first..]);
        let within = runs.take_while({
            let end = packed.end;
            move |(_, start)| **start < end
        });
        within.filter_map(move |(run, start)| {
            let at = |packed: u64| run.start + packed.saturating_sub(*start);
            let place = at(packed.start)..at(packed.end).min(run.end);
            (place.start < place.end).then_some(place)
        })
    }
}

/// The data runs of a file, and the file's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataMap {
    data: PackedRuns,
    file_len: u64,
}

impl DataMap {
    /// The map of a file of `file_len` bytes with data in `runs`. Returns `None` if a run is empty, touches
    /// its predecessor, lies out of order, or ends past `file_len`.
    #[must_use]
    pub fn new(runs: Vec<Range<u64>>, file_len: u64) -> Option<Self> {
        let mut end = None;
        let fits = runs.iter().all(|run| {
            let is_apart = end.is_none_or(|end| end < run.start);
            end = Some(run.end);
            is_apart && run.start < run.end && run.end <= file_len
        });
        fits.then(|| Self { data: PackedRuns::new(runs), file_len })
    }

    /// The map of a file without holes.
    #[must_use]
    pub fn whole(file_len: u64) -> Self {
        Self { data: PackedRuns::new(std::iter::once(0..file_len)), file_len }
    }

    /// The map of a file with the ascending data `runs`, simplified to at most `most` runs. Holes shorter than
    /// `least` bytes count as data; if there are still too many runs, `least` is doubled until `most` runs
    /// suffice.
    #[must_use]
    pub fn of_large_holes(runs: &[Range<u64>], file_len: u64, least: u64, most: usize) -> Self {
        let mut least = least.max(1);
        loop {
            let joined = joined_runs(runs, file_len, least);
            if joined.len() <= most {
                return Self { data: PackedRuns::new(joined), file_len };
            }
            least = least.saturating_mul(2);
        }
    }

    /// Length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Total length of the data in bytes.
    #[must_use]
    pub const fn data_len(&self) -> u64 {
        self.data.len()
    }

    /// Total length of the holes in bytes.
    #[must_use]
    pub const fn hole_len(&self) -> u64 {
        self.file_len - self.data.len()
    }

    /// The data runs, in ascending order.
    #[must_use]
    pub fn runs(&self) -> &[Range<u64>] {
        &self.data.runs
    }

    /// The holes, in ascending order.
    pub fn holes(&self) -> impl Iterator<Item = Range<u64>> {
        gaps(&self.data.runs, 0..self.file_len)
    }

    /// The file ranges of a packed range, in order.
    pub fn places_in_file(&self, packed: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.data.places_in_file(packed)
    }

    /// Splits the old version, of `len` bytes with data runs `data`, by this map of the new version. Returns
    /// two ascending lists of runs of the old version:
    ///
    /// - the ranges that are data in the new version, clipped to `len`;
    /// - the old data outside of these ranges.
    ///
    /// The first list, concatenated, has the packed offsets of the new version. Holes of the old version in
    /// these ranges read as zeros.
    #[must_use]
    pub fn split_old(&self, len: u64, data: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let front = self.runs().iter().map(|run| run.start..run.end.min(len));
        let front: Vec<_> = front.filter(|run| run.start < run.end).collect();
        let (mut rest, mut next) = (Vec::new(), 0);
        for run in data.iter().map(|run| run.start..run.end.min(len)) {
            while front.get(next).is_some_and(|front| front.end <= run.start) {
                next += 1;
            }
            let until = front[next..].partition_point(|front| front.start < run.end);
            rest.extend(gaps(&front[next..next + until], run));
        }
        (front, rest)
    }
}

/// The parts of `within` that no run of the ascending `runs` covers.
fn gaps(runs: &[Range<u64>], within: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = std::iter::once(within.start).chain(runs.iter().map(|run| run.end));
    let ends = runs.iter().map(|run| run.start).chain(std::iter::once(within.end));
    let gap = move |(start, end): (u64, u64)| start.max(within.start)..end.min(within.end);
    starts.zip(ends).map(gap).filter(|gap| gap.start < gap.end)
}

/// Joins data runs across holes shorter than `least` bytes, at both ends of the file too.
fn joined_runs(runs: &[Range<u64>], file_len: u64, least: u64) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for run in runs.iter().map(|run| run.start..run.end.min(file_len)) {
        let start = if run.start < least { 0 } else { run.start };
        match joined.last_mut() {
            _ if run.start >= run.end => {}
            Some(last) if run.start.saturating_sub(last.end) < least => last.end = run.end,
            _ => joined.push(start..run.end),
        }
    }
    if let Some(last) = joined.last_mut().filter(|last| file_len - last.end < least) {
        last.end = file_len;
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: u64 = 300;

    /// Ascending runs of a file; neighbours may touch.
    fn runs() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec(0..=LEN, 0..24).prop_map(|mut ends| {
            ends.sort_unstable();
            ends.dedup();
            ends.chunks_exact(2).map(|run| run[0]..run[1]).collect()
        })
    }

    fn bytes(runs: impl IntoIterator<Item = Range<u64>>) -> Vec<u64> {
        runs.into_iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn a_packed_range_is_the_same_bytes_of_the_file(runs in runs(), a in 0..LEN, b in 0..LEN) {
            let map = DataMap::of_large_holes(&runs, LEN, 1, usize::MAX);
            let all = bytes(runs);
            let (from, to) = (a.min(b), a.max(b));
            let of = |at: u64| (at as usize).min(all.len());
            prop_assert_eq!(bytes(map.places_in_file(from..to)), &all[of(from)..of(to)]);
            let mut both = bytes(map.holes());
            both.extend(&all);
            both.sort_unstable();
            prop_assert_eq!(both, (0..LEN).collect::<Vec<_>>());
            prop_assert_eq!(DataMap::new(map.runs().to_vec(), LEN), Some(map));
        }

        #[test]
        fn joined_runs_hold_all_data_and_no_long_hole(
            runs in runs(),
            least in 1..40_u64,
            most in 1..6_usize,
        ) {
            let map = DataMap::of_large_holes(&runs, LEN, least, most);
            prop_assert!(map.runs().len() <= most);
            prop_assert!(map.holes().all(|hole| hole.end - hole.start >= least));
            let held = bytes(map.runs().iter().cloned());
            prop_assert!(bytes(runs).iter().all(|byte| held.binary_search(byte).is_ok()));
        }

        #[test]
        fn split_old_separates_ranges_under_new_data_from_other_old_data(
            new in runs(),
            old in runs(),
            old_len in 0..=LEN,
        ) {
            let map = DataMap::of_large_holes(&new, LEN, 1, usize::MAX);
            let (front, rest) = map.split_old(old_len, &old);
            let facing: Vec<_> = bytes(new).into_iter().filter(|byte| *byte < old_len).collect();
            let others: Vec<_> = bytes(old).into_iter()
                .filter(|byte| *byte < old_len && facing.binary_search(byte).is_err())
                .collect();
            prop_assert_eq!(bytes(front), facing);
            prop_assert_eq!(bytes(rest), others);
        }
    }

    #[test]
    fn invalid_runs_give_no_map() {
        let runs = |ends: &[(u64, u64)]| ends.iter().map(|&(start, end)| start..end).collect();
        let bad: [&[(u64, u64)]; 5] =
            [&[(3, 2)], &[(2, 2)], &[(0, 11)], &[(0, 2), (2, 4)], &[(5, 6), (0, 2)]];
        for ends in bad {
            assert_eq!(DataMap::new(runs(ends), 10), None, "{ends:?}");
        }
        let far = u64::MAX - 1..u64::MAX;
        assert_eq!(DataMap::new(vec![far.clone()], u64::MAX).map(|map| map.data_len()), Some(1));
        assert_eq!(DataMap::new(vec![far], 10), None);
        assert_eq!(DataMap::new(Vec::new(), 10).map(|map| map.hole_len()), Some(10));
    }
}
