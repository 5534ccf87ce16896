//! Local time in the system's time zone, for output (`%t`, `--log-file`) and for `--stop-at`.
//!
//! The standard library has no time zones; `jiff` reads `TZ` and the system's files. An unreadable zone becomes UTC.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// The time zone of this process. Looked up on first use, since the lookup reads directories.
static HERE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);

/// A time zone; `None` for the zone of this process.
#[derive(Clone, Debug)]
pub(crate) struct Zone(Option<TimeZone>);

impl Zone {
    /// Returns the zone of this process: `TZ`, or else the system's.
    pub(crate) fn here() -> Self {
        Self(None)
    }

    #[cfg(test)]
    pub(crate) fn utc() -> Self {
        Self(Some(TimeZone::UTC))
    }

    /// Formats `time`, in seconds since 1970 in UTC, as local time in rsync's form: `2026/11/21 12:25:04`. A time
    /// outside the calendar's range becomes a number for `date`: `@1000000000000`.
    pub(crate) fn format_time(&self, time: i64) -> String {
        match self.wall(time) {
            Some(wall) => wall.strftime("%Y/%m/%d %H:%M:%S").to_string(),
            None => format!("@{time}"),
        }
    }

    /// Returns the present difference of local time to UTC, in minutes.
    pub(crate) fn offset_minutes(&self) -> i32 {
        self.zone().to_offset(Timestamp::now()).seconds() / 60
    }

    fn zone(&self) -> &TimeZone {
        self.0.as_ref().unwrap_or_else(|| &HERE)
    }

    fn wall(&self, time: i64) -> Option<DateTime> {
        Some(self.zone().to_datetime(Timestamp::from_second(time).ok()?))
    }

    /// Returns the time, in seconds since 1970, of the local time `wall`. If the clocks are set forward over `wall`,
    /// the result is as long after midnight as `wall` says. If `wall` occurs twice, the result is the first time.
    fn time(&self, wall: DateTime) -> Option<i64> {
        Some(wall.to_zoned(self.zone().clone()).ok()?.timestamp().as_second())
    }

    /// Returns the first time after `now` at which local clocks show `word`: `[[year-]month-]day`, `T`,
    /// `hour:minute`, or a part of this form. Omitted parts are chosen for the earliest time.
    pub(crate) fn next(&self, word: &str, now: i64) -> Option<i64> {
        if let Some(minute) = word.strip_prefix(':') {
            let minute = i8::try_from(number(minute, 59)?).ok()?;
            let at = |hours: i64| {
                let wall = self.wall(now + hours * 3600)?.with().minute(minute).second(0);
                self.time(wall.build().ok()?)
            };
            return (0..3).filter_map(at).find(|at| *at > now);
        }
        let today = self.wall(now)?.date();
        let (date, clock) = match word.split_once(['T', 't', ' ']) {
            Some((date, clock)) => (date, Some(clock)),
            None if word.contains(':') => ("", Some(word)),
            None => (word, None),
        };
        let clock = match clock {
            Some(clock) => clock_of(clock)?,
            None if date.is_empty() => return None,
            None => Time::midnight(),
        };
        let at = |date: Date| self.time(date.to_datetime(clock));
        let next =
            |dates: &mut dyn Iterator<Item = Date>| dates.filter_map(at).find(|at| *at > now);
        if date.is_empty() {
            return next(&mut [today, today.tomorrow().ok()?].into_iter());
        }
        let parts: Vec<i16> =
            date.split(['-', '/']).map(|part| number(part, 9999)).collect::<Option<_>>()?;
        match parts[..] {
            [day] => next(&mut (0..14).filter_map(|n| {
                let month = today.first_of_month().checked_add(n.months()).ok()?;
                date_of(month.year(), i16::from(month.month()), day)
            })),
            [month, day] => next(
                &mut (today.year()..today.year() + 9).filter_map(|year| date_of(year, month, day)),
            ),
            [year, month, day] => {
                // Days beyond the end of a month fall into the next month, as in rsync.
                let first = date_of(if year < 100 { 2000 + year } else { year }, month, 1)?;
                let behind = (1..=31).contains(&day).then_some(i64::from(day) - 1)?;
                at(first.checked_add(behind.days()).ok()?)
            }
            _ => None,
        }
    }
}

/// Parses `hour[:minute[:second]]`.
fn clock_of(word: &str) -> Option<Time> {
    let mut parts = word.split(':').map(|part| number(part, 59));
    let (hour, minute, second) = (parts.next()??, parts.next(), parts.next());
    let part = |part: Option<Option<i16>>| i8::try_from(part.unwrap_or(Some(0))?).ok();
    let time = Time::new(i8::try_from(hour).ok()?, part(minute)?, part(second)?, 0).ok()?;
    parts.next().is_none().then_some(time)
}

fn date_of(year: i16, month: i16, day: i16) -> Option<Date> {
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

fn number(word: &str, most: i16) -> Option<i16> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|n| digits && *n <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruled(rule: &str) -> Zone {
        Zone(Some(TimeZone::posix(rule).unwrap()))
    }

    #[test]
    fn summer_time_follows_the_rule() {
        let zone = ruled("CET-1CEST,M3.5.0,M10.5.0/3");
        for (time, shown) in [
            (1_774_745_999, "2026/03/29 01:59:59"),
            (1_774_746_000, "2026/03/29 03:00:00"),
            (1_792_889_999, "2026/10/25 02:59:59"),
            (1_792_890_000, "2026/10/25 02:00:00"),
            (0, "1970/01/01 01:00:00"),
        ] {
            assert_eq!(zone.format_time(time), shown);
        }
        let south = ruled("AEST-10AEDT,M10.1.0,M4.1.0/3");
        assert_eq!(south.format_time(1_767_225_600), "2026/01/01 11:00:00");
        assert_eq!(ruled("<-03>3").format_time(0), "1969/12/31 21:00:00");
    }

    #[test]
    fn the_systems_files_agree_with_the_rules() {
        let Ok(zone) = TimeZone::get("Europe/Berlin") else { return };
        let (zone, rule) = (Zone(Some(zone)), ruled("CET-1CEST,M3.5.0,M10.5.0/3"));
        for time in (1_000_000_000..2_500_000_000).step_by(3_333_333) {
            assert_eq!(zone.format_time(time), rule.format_time(time));
        }
    }

    #[test]
    fn times_that_no_calendar_has_are_numbers() {
        let zone = Zone::utc();
        assert_eq!(zone.format_time(-62_135_596_800), "0001/01/01 00:00:00");
        for time in [i64::MIN, 1_000_000_000_000, i64::MAX] {
            assert_eq!(zone.format_time(time), format!("@{time}"));
        }
    }

    #[test]
    fn what_a_time_leaves_out_is_as_soon_as_can_be() {
        let zone = Zone::utc();
        // 2026-11-21 12:00 UTC.
        let now = 1_795_262_400;
        for (word, shown) in [
            ("2030-12-31T23:59", "2030/12/31 23:59:00"),
            ("30/12/31", "2030/12/31 00:00:00"),
            ("13:30", "2026/11/21 13:30:00"),
            ("12:00:07", "2026/11/21 12:00:07"),
            ("12:00", "2026/11/22 12:00:00"),
            ("T11:59", "2026/11/22 11:59:00"),
            ("11-20T1:00", "2027/11/20 01:00:00"),
            ("22T00:00", "2026/11/22 00:00:00"),
            ("21", "2026/12/21 00:00:00"),
            ("2-29", "2028/02/29 00:00:00"),
            ("2030/2/30T5:00", "2030/03/02 05:00:00"),
            (":59", "2026/11/21 12:59:00"),
            (":0", "2026/11/21 13:00:00"),
        ] {
            let at = zone.next(word, now).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(zone.format_time(at), shown, "{word}");
        }
        for word in [
            "",
            "x",
            "T",
            "2026-13-01",
            "2026-12-32",
            "2026-12-0",
            "2-30",
            "25:00",
            "1-2-3-4",
            "12:60",
            "-5",
            "1:2:3:4",
            ":",
            ":60",
            ":5x",
            "5:",
        ] {
            assert_eq!(zone.next(word, now), None, "{word}");
        }
    }
}
