//! Rates in rsync's units, and timetables of rates (`--bwlimit`).
//!
//! A rate is a [`size`] a second, in KiB without a unit. Unlike rsync, the result is not rounded to whole KiB. A
//! timetable has rclone's form: `08:00,512K 12:00,10M Sat-00:00,off`. The word `auto` leaves room for other traffic.

use std::fmt::Write as _;
use std::str::FromStr;

use deltic_net::rates::{RateEntry, RateLimits, RateTable, WEEK_MINUTES};

use crate::words::size::{self, BadSize};
use crate::words::zone::Zone;

/// A limit of the rate: one rate, a timetable, or a rate that follows the round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bandwidth(RateLimits);

/// Unit in bytes of a number without unit.
const BARE_BYTES: u64 = 1024;
/// The lowest rate, in bytes a second, as in rsync: a lower rate most likely lacks its unit.
const MIN_RATE_BYTES: u64 = 512;
const DAY_MINUTES: u16 = 24 * 60;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Word for no limit.
const OFF: &str = "off";
/// Word for a rate that leaves room for other traffic.
const AUTO: &str = "auto";

/// Why a word is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRate {
    Malformed,
    TooSmall,
    TooLarge,
    /// An entry of a timetable is malformed.
    BadEntry,
}

impl Bandwidth {
    /// Returns the limits of an option that may be missing.
    pub(crate) fn limits(option: Option<&Self>) -> RateLimits {
        option.map_or_else(RateLimits::default, |limit| limit.0.clone())
    }

    /// Parses a timetable; `offset` is the difference of local time to UTC in minutes. Entries are separated by spaces
    /// or slashes. A time that ends in `Z` is UTC.
    fn timetable(word: &str, offset: i32) -> Result<Self, BadRate> {
        let mut entries = Vec::new();
        for entry in word.split([' ', '\t', '/']).filter(|entry| !entry.is_empty()) {
            let (time, limit) = entry.split_once(',').ok_or(BadRate::BadEntry)?;
            let limit = rate(limit)?;
            let (day, time) = match time.split_once('-') {
                Some((day, time)) => (Some(day_named(day).ok_or(BadRate::BadEntry)?), time),
                None => (None, time),
            };
            let (time, offset) = time.strip_suffix('Z').map_or((time, offset), |time| (time, 0));
            let minute = minute_of_day(time).ok_or(BadRate::BadEntry)?;
            for day in day.map_or(0..7, |day| day..day + 1) {
                let local = i32::from(day * DAY_MINUTES + minute);
                let start = (local - offset).rem_euclid(i32::from(WEEK_MINUTES)) as u16;
                entries.push(RateEntry { start, limit });
            }
        }
        RateTable::new(entries).map(Self::from).ok_or(BadRate::BadEntry)
    }
}

/// Returns a limit as a word of `--bwlimit` for another machine, without characters that a shell interprets.
pub(crate) fn word_of(limit: &RateTable) -> String {
    if let Some(bytes) = limit.single() {
        return format!("{bytes}B");
    }
    let mut word = String::new();
    for RateEntry { start, limit } in limit.entries() {
        let (day, minute) = (DAYS[usize::from(start / DAY_MINUTES)], start % DAY_MINUTES);
        let separator = if word.is_empty() { "" } else { "/" };
        let rate = limit.map_or(OFF.into(), |bytes| format!("{bytes}B"));
        let _ = write!(word, "{separator}{day}-{:02}:{:02}Z,{rate}", minute / 60, minute % 60);
    }
    word
}

/// Parses a rate: the limit in bytes a second, or `None` for no limit.
fn rate(word: &str) -> Result<Option<u64>, BadRate> {
    if word.eq_ignore_ascii_case(OFF) {
        return Ok(None);
    }
    match size::bytes_with_offset(word, BARE_BYTES)? {
        0 => Ok(None),
        1..MIN_RATE_BYTES => Err(BadRate::TooSmall),
        bytes => Ok(Some(bytes)),
    }
}

fn day_named(word: &str) -> Option<u16> {
    let day = DAYS.iter().position(|day| day.eq_ignore_ascii_case(word))?;
    u16::try_from(day).ok()
}

fn minute_of_day(word: &str) -> Option<u16> {
    let (hour, minute) = word.split_once(':')?;
    let number = |word: &str, most: u16| {
        let is_number = matches!(word.len(), 1 | 2) && word.bytes().all(|b| b.is_ascii_digit());
        word.parse::<u16>().ok().filter(|number| is_number && *number <= most)
    };
    Some(number(hour, 23)? * 60 + number(minute, 59)?)
}

impl From<RateTable> for Bandwidth {
    fn from(table: RateTable) -> Self {
        Self(RateLimits { table: Some(table), gentle: false })
    }
}

impl FromStr for Bandwidth {
    type Err = BadRate;

    fn from_str(word: &str) -> Result<Self, BadRate> {
        if word.eq_ignore_ascii_case(AUTO) {
            return Ok(Self(RateLimits { table: None, gentle: true }));
        }
        match word.contains(',') {
            true => Self::timetable(word, Zone::here().offset_minutes()),
            false => rate(word).map(|limit| {
                let table = limit.map(RateTable::constant);
                Self(RateLimits { table, gentle: false })
            }),
        }
    }
}

impl From<BadSize> for BadRate {
    fn from(bad: BadSize) -> Self {
        match bad {
            BadSize::Malformed => Self::Malformed,
            BadSize::TooLarge => Self::TooLarge,
        }
    }
}

impl std::error::Error for BadRate {}

impl std::fmt::Display for BadRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a rate; write a number and a unit, such as 500K, 1.5M or 2GB, or auto",
            Self::TooSmall => "too small a rate; without a unit the number counts KiB a second",
            Self::TooLarge => "too large a rate",
            Self::BadEntry => {
                "not a timetable; write times with rates, such as '08:00,500K 18:00,10M Sat-00:00,off'"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(word: &str) -> Result<Option<u64>, BadRate> {
        let limit = word.parse::<Bandwidth>()?.0.table;
        Ok(limit.map(|limit| limit.single().expect("one rate")))
    }

    #[test]
    fn a_bare_rate_counts_kib() {
        for (word, bytes) in [
            ("100", 100 << 10),
            ("0.5", 512),
            ("600b", 600),
            ("1.5MB", 1_500_000),
            ("1m+1", (1 << 20) + 1),
            ("1024b-1", 1023),
        ] {
            assert_eq!(constant(word), Ok(Some(bytes)), "{word}");
        }
    }

    #[test]
    fn zero_and_off_are_no_limit() {
        assert_eq!([constant("0"), constant("off")], [Ok(None), Ok(None)]);
        assert_eq!(constant("1k"), Ok(Some(1024)));
    }

    #[test]
    fn the_word_auto_is_no_fixed_limit() {
        for (word, gentle) in [("auto", true), ("AUTO", true), ("0", false), ("1M", false)] {
            assert_eq!(word.parse::<Bandwidth>().map(|limit| limit.0.gentle), Ok(gentle), "{word}");
        }
        assert_eq!(constant("auto"), Ok(None));
        assert_eq!(constant("automatic"), Err(BadRate::Malformed));
    }

    #[test]
    fn words_that_are_no_rates_say_why() {
        assert_eq!(constant("1x"), Err(BadRate::Malformed));
        assert_eq!(constant("100b"), Err(BadRate::TooSmall));
        assert_eq!(constant("512b-1"), Err(BadRate::TooSmall));
        assert_eq!(constant("0-1"), Err(BadRate::TooLarge));
        assert_eq!(constant("99999999999p"), Err(BadRate::TooLarge));
    }

    #[test]
    fn a_timetable_is_in_local_time_and_reaches_other_machines_in_utc() {
        let parsed = |word: &str, offset| Bandwidth::timetable(word, offset).map(|it| it.0.table);
        let local = parsed("08:00,512K 18:00,10M  Sat-00:00,off", 120).unwrap().unwrap();
        let at = |day: u16, hour: u16| local.at(day * DAY_MINUTES + hour * 60);
        // Local time is two hours ahead of UTC.
        assert_eq!(
            [at(0, 6), at(0, 15), at(0, 16)],
            [Some(512 << 10), Some(512 << 10), Some(10 << 20)]
        );
        assert_eq!([at(1, 5), at(4, 21), at(4, 22)], [Some(10 << 20), Some(10 << 20), None]);
        assert_eq!(at(5, 5), None);
        let word = word_of(&local);
        assert!(word.starts_with("Mon-06:00Z,524288B/Mon-16:00Z,10485760B/"), "{word}");
        assert!(word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-:,/".contains(&b)), "{word}");
        assert_eq!(parsed(&word, -480), Ok(Some(local)), "UTC is the same everywhere");
        assert_eq!(word_of(&RateTable::constant(9000)), "9000B");
    }

    #[test]
    fn malformed_timetables_say_why() {
        for word in [
            ",",
            "08:00,",
            "8,1M",
            "24:00,1M",
            "08:60,1M",
            "Mun-08:00,1M",
            "08:00,1M 9:00",
            "-08:00,1M",
            "+8:00,1M",
        ] {
            let why = word.parse::<Bandwidth>().unwrap_err();
            assert!(matches!(why, BadRate::BadEntry | BadRate::Malformed), "{word}: {why:?}");
        }
        assert_eq!("08:00,100b".parse::<Bandwidth>(), Err(BadRate::TooSmall));
    }
}
