//! Limits of the rate by the time of the week (`--bwlimit`).

use std::time::{SystemTime, UNIX_EPOCH};

/// Minutes of a week.
pub const WEEK_MINUTES: u16 = 7 * 24 * 60;
/// Minutes from a Monday 00:00 UTC to the beginning of 1970, a Thursday.
const EPOCH_MINUTES: u64 = 3 * 24 * 60;

/// Limits of the rate of an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Limit in each direction.
    pub table: Option<RateTable>,
    /// True if the sending end leaves room for other traffic on the network.
    pub gentle: bool,
}

impl RateLimits {
    /// True if nothing is limited.
    #[must_use]
    pub const fn are_none(&self) -> bool {
        self.table.is_none() && !self.gentle
    }

    /// Returns the stricter of both limits at each time.
    #[must_use]
    pub fn stricter_of(self, other: Self) -> Self {
        let table = match (self.table, other.table) {
            (Some(one), Some(other)) => Some(one.lower_of(&other)),
            (one, other) => one.or(other),
        };
        Self { table, gentle: self.gentle || other.gentle }
    }
}

/// A limit of the rate, in bytes a second, that may change with the time of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTable {
    /// Starts in minutes since Monday 00:00 UTC, ascending, each with the limit from then on. Never empty.
    entries: Vec<RateEntry>,
}

/// A limit of the rate from a time of the week on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateEntry {
    /// Minutes since Monday 00:00 UTC, less than [`WEEK_MINUTES`].
    pub start: u16,
    /// Bytes a second; `None` for no limit.
    pub limit: Option<u64>,
}

impl RateTable {
    /// Returns a limit that never changes.
    #[must_use]
    pub fn constant(bytes_per_second: u64) -> Self {
        Self { entries: vec![RateEntry { start: 0, limit: Some(bytes_per_second) }] }
    }

    /// Returns the table with these entries, in any order. Of two entries with the same start, the later one counts.
    /// The last limit of a week also holds from Monday 00:00 to the first start. `None` without entries, or if a start
    /// is beyond the week.
    #[must_use]
    pub fn new(mut entries: Vec<RateEntry>) -> Option<Self> {
        entries.reverse();
        entries.sort_by_key(|entry| entry.start);
        entries.dedup_by_key(|entry| entry.start);
        let is_valid = entries.last().is_some_and(|last| last.start < WEEK_MINUTES);
        is_valid.then_some(Self { entries })
    }

    /// Returns the entries, ascending by their starts.
    #[must_use]
    pub fn entries(&self) -> &[RateEntry] {
        &self.entries
    }

    /// Returns the limit that never changes, if the table has only one limit.
    #[must_use]
    pub fn single(&self) -> Option<u64> {
        let first = self.entries[0].limit;
        first.filter(|_| self.entries.iter().all(|entry| entry.limit == first))
    }

    /// Returns the limit in a minute of the week, counted from Monday 00:00 UTC.
    #[must_use]
    pub fn at(&self, minute: u16) -> Option<u64> {
        let begun = self.entries.partition_point(|entry| entry.start <= minute);
        let entry = self.entries[..begun].last().or_else(|| self.entries.last());
        entry.and_then(|entry| entry.limit)
    }

    /// Returns the limit at this time.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        if let [only] = &self.entries[..] {
            return only.limit;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let minute = (since.as_secs() / 60 + EPOCH_MINUTES) % u64::from(WEEK_MINUTES);
        self.at(minute as u16)
    }

    /// Returns the table with the lower of both limits at each time.
    #[must_use]
    pub fn lower_of(&self, other: &Self) -> Self {
        let starts = self.entries.iter().chain(&other.entries).map(|entry| entry.start);
        let lower = |start| {
            let limits = [self.at(start), other.at(start)].into_iter().flatten();
            RateEntry { start, limit: limits.min() }
        };
        Self::new(starts.map(lower).collect()).expect("both tables have entries")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u16 = 24 * 60;

    fn table(entries: &[(u16, u64)]) -> RateTable {
        let entries = entries
            .iter()
            .map(|&(start, bytes)| RateEntry { start, limit: (bytes > 0).then_some(bytes) });
        RateTable::new(entries.collect()).unwrap()
    }

    #[test]
    fn a_limit_holds_from_its_start_to_the_next_start_over_the_end_of_the_week() {
        let limits = table(&[(2 * DAY, 5), (8 * 60, 3), (12 * 60, 0), (8 * 60, 4)]);
        let at = |minute| limits.at(minute);
        assert_eq!([at(8 * 60), at(12 * 60 - 1), at(12 * 60)], [Some(4), Some(4), None]);
        assert_eq!([at(2 * DAY), at(WEEK_MINUTES - 1)], [Some(5); 2]);
        assert_eq!([at(0), at(8 * 60 - 1)], [Some(5); 2], "the limit of Sunday lasts");
        assert_eq!(RateTable::new(Vec::new()), None);
        assert_eq!(RateTable::new(vec![RateEntry { start: WEEK_MINUTES, limit: None }]), None);
    }

    #[test]
    fn the_lower_limit_counts_in_every_minute() {
        let one = table(&[(0, 10), (60, 0), (3 * DAY, 7)]);
        let other = table(&[(30, 5), (90, 20), (3 * DAY + 1, 0)]);
        let lower = one.lower_of(&other);
        for minute in 0..WEEK_MINUTES {
            let limits = [one.at(minute), other.at(minute)].into_iter().flatten();
            assert_eq!(lower.at(minute), limits.min(), "{minute}");
        }
        assert_eq!(lower.lower_of(&RateTable::constant(1)).single(), Some(1));
    }

    #[test]
    fn a_constant_limit_never_changes() {
        let constant = RateTable::constant(9);
        assert_eq!(
            (constant.now(), constant.at(5), constant.single()),
            (Some(9), Some(9), Some(9))
        );
        assert_eq!(table(&[(0, 1), (5, 2)]).single(), None);
        assert_eq!(table(&[(0, 2), (5, 2)]).single(), Some(2));
    }
}
