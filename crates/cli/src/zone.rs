//! Local time, from the system's zone files (RFC 9636): for times in lines (`%t`, `--log-file`) and for `--stop-at`.
//!
//! The standard library knows no zones. A zone that cannot be read is UTC.

use std::path::{Path, PathBuf};

/// A day's seconds.
const DAY: i64 = 86_400;
/// Longest zone file that is read; real ones have a few thousand bytes.
const MAX_ZONE_BYTES: u64 = 1 << 20;

/// What a clock on the wall shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wall {
    pub(crate) year: i64,
    pub(crate) month: u8,
    pub(crate) day: u8,
    /// Seconds since midnight.
    pub(crate) secs: u32,
}

/// When clocks show what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    /// From when on which offset holds, in seconds east of Greenwich.
    changes: Vec<(i64, i64)>,
    /// Before all of them.
    first: i64,
    /// After all of them.
    rule: Option<Rule>,
}

/// Summer time by rule, as POSIX writes it: `CET-1CEST,M3.5.0,M10.5.0/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    winter: i64,
    summer: Option<(i64, Turn, Turn)>,
}

/// The `week`th `weekday` of a month, so many seconds after its midnight; the fifth is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    month: u8,
    week: u8,
    weekday: u8,
    secs: i64,
}

impl Zone {
    /// The zone of this process: `TZ`, or else the system's.
    pub(crate) fn here() -> Self {
        let name = std::env::var_os("TZ").map(|name| name.to_string_lossy().into_owned());
        match name.as_deref().map(|name| name.strip_prefix(':').unwrap_or(name)) {
            Some("") => Self::default(),
            Some(name) if name.starts_with('/') => Self::read(Path::new(name)).unwrap_or_default(),
            Some(name) if !name.contains("..") => {
                let path = PathBuf::from("/usr/share/zoneinfo").join(name);
                Self::read(&path).or_else(|| Self::ruled(name)).unwrap_or_default()
            }
            Some(_) => Self::default(),
            None => Self::read(Path::new("/etc/localtime")).unwrap_or_default(),
        }
    }

    fn read(path: &Path) -> Option<Self> {
        use std::io::Read;
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(MAX_ZONE_BYTES).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes)
    }

    fn ruled(text: &str) -> Option<Self> {
        let rule = Rule::parse(text)?;
        Some(Self { first: rule.winter, rule: Some(rule), changes: Vec::new() })
    }

    /// Reads a zone file of version 2 or later.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (first, version) = block(bytes, 4)?;
        if version < b'2' {
            return None;
        }
        let rest = bytes.get(first..)?;
        let (second, _) = block(rest, 8)?;
        let count = |n: usize| {
            Some(u32::from_be_bytes(rest.get(20 + 4 * n..24 + 4 * n)?.try_into().ok()?) as usize)
        };
        let (times, types) = (count(3)?, count(4)?);
        let (at, kinds) = (44, 44 + times * 8);
        let infos = kinds + times;
        let offset = |kind: usize| {
            let at = infos + kind * 6;
            let bytes = rest.get(at..at + 4).filter(|_| kind < types)?;
            Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))
        };
        let mut changes = Vec::new();
        for n in 0..times {
            let time = rest.get(at + n * 8..at + n * 8 + 8)?;
            let kind = usize::from(*rest.get(kinds + n)?);
            changes.push((i64::from_be_bytes(time.try_into().ok()?), offset(kind)?));
        }
        let footer = rest.get(second..).and_then(|rest| std::str::from_utf8(rest).ok());
        let rule = footer.and_then(|text| Rule::parse(text.trim_matches('\n')));
        Some(Self { changes, first: offset(0)?, rule })
    }

    /// Seconds that clocks are ahead of UTC at `time`.
    fn offset(&self, time: i64) -> i64 {
        let before = self.changes.partition_point(|(at, _)| *at <= time);
        match (before.checked_sub(1), &self.rule) {
            (last, Some(rule)) if before == self.changes.len() => {
                let known = last.map_or(self.first, |last| self.changes[last].1);
                rule.offset(time, known)
            }
            (Some(last), _) => self.changes[last].1,
            (None, _) => self.first,
        }
    }

    /// What clocks show at `time`, in seconds since 1970 in UTC.
    pub(crate) fn wall(&self, time: i64) -> Wall {
        let local = time.saturating_add(self.offset(time));
        let (year, month, day) = date(local.div_euclid(DAY));
        Wall { year, month, day, secs: local.rem_euclid(DAY) as u32 }
    }

    /// When clocks show `wall`.
    fn time(&self, wall: Wall) -> i64 {
        let local = days(wall.year, wall.month, wall.day) * DAY + i64::from(wall.secs);
        // The offset before and after a change is found by trying twice.
        let guess = local - self.offset(local);
        local - self.offset(guess)
    }

    /// When clocks show `word` next, seen from `now`: `[[year-]month-]day`, `T`, `hour:minute`, or a part of it. What is
    /// left out is as soon as it can be.
    pub(crate) fn next(&self, word: &str, now: i64) -> Option<i64> {
        let today = self.wall(now);
        let (date, clock) = match word.split_once(['T', 't', ' ']) {
            Some((date, clock)) => (Some(date), Some(clock)),
            None if word.contains(':') => (None, Some(word)),
            None => (Some(word), None),
        };
        if word.is_empty() {
            return None;
        }
        let secs = clock.map_or(Some(0), clock_of)?;
        let date = date.filter(|date| !date.is_empty());
        let Some(date) = date else {
            let at = self.time(Wall { secs, ..today });
            return Some(if at > now {
                at
            } else {
                self.time(Wall { secs, ..self.tomorrow(now) })
            });
        };
        let parts: Vec<i64> =
            date.split(['-', '/']).map(|part| number(part, 9999)).collect::<Option<_>>()?;
        let valid = |wall: Wall| {
            let fits = (1..=12).contains(&wall.month) && wall.day >= 1;
            (fits && wall.day <= month_days(wall.year, wall.month)).then(|| self.time(wall))
        };
        let (month, day) = match parts[..] {
            [day] => (None, day),
            [month, day] | [_, month, day] => (Some(u8::try_from(month).ok()?), day),
            _ => return None,
        };
        let day = u8::try_from(day).ok()?;
        match (parts.len(), month) {
            (3, Some(month)) => {
                let year = if parts[0] < 100 { 2000 + parts[0] } else { parts[0] };
                valid(Wall { year, month, day, secs })
            }
            (_, Some(month)) => (today.year..today.year + 9)
                .filter_map(|year| valid(Wall { year, month, day, secs }))
                .find(|at| *at > now),
            (_, None) => (0..14)
                .map(|n| i64::from(today.month) - 1 + n)
                .filter_map(|n| {
                    let (year, month) = (today.year + n / 12, (n % 12) as u8 + 1);
                    valid(Wall { year, month, day, secs })
                })
                .find(|at| *at > now),
        }
    }

    fn tomorrow(&self, now: i64) -> Wall {
        let Wall { year, month, day, secs } = self.wall(now);
        let (year, month, day) = date(days(year, month, day) + 1);
        Wall { year, month, day, secs }
    }
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let rest = name(text)?;
        let (winter, rest) = offset(rest)?;
        if rest.is_empty() {
            return Some(Self { winter: -winter, summer: None });
        }
        let rest = name(rest)?;
        let (summer, rest) = match rest.strip_prefix(',') {
            Some(_) => (winter - 3600, rest),
            None => offset(rest)?,
        };
        let (begin, end) = rest.strip_prefix(',')?.split_once(',')?;
        let summer = Some((-summer, Turn::parse(begin)?, Turn::parse(end)?));
        Some(Self { winter: -winter, summer })
    }

    /// `known` holds where there is nothing to say: it is not needed as long as rules are complete.
    fn offset(&self, time: i64, known: i64) -> i64 {
        let Some((summer, begin, end)) = self.summer else { return self.winter };
        let year = date(time.saturating_add(known).div_euclid(DAY)).0;
        let (begin, end) = (begin.at(year) - self.winter, end.at(year) - summer);
        let is_summer =
            if begin < end { (begin..end).contains(&time) } else { !(end..begin).contains(&time) };
        if is_summer { summer } else { self.winter }
    }
}

impl Turn {
    fn parse(text: &str) -> Option<Self> {
        let (day, clock) = text.split_once('/').unwrap_or((text, "2"));
        let mut parts = day.strip_prefix('M')?.split('.');
        let mut next = |most| number(parts.next()?, most).and_then(|n| u8::try_from(n).ok());
        let (month, week, weekday) = (next(12)?, next(5)?, next(6)?);
        let (secs, _) = offset(clock)?;
        (month > 0 && week > 0).then_some(Self { month, week, weekday, secs })
    }

    /// When it is in `year`, as if the zone were UTC.
    fn at(&self, year: i64) -> i64 {
        let first = days(year, self.month, 1);
        // 1970-01-01 was a Thursday.
        let weekday = (first + 4).rem_euclid(7);
        let mut day =
            1 + (i64::from(self.weekday) - weekday).rem_euclid(7) + 7 * i64::from(self.week - 1);
        if day > i64::from(month_days(year, self.month)) {
            day -= 7;
        }
        (first + day - 1) * DAY + self.secs
    }
}

/// The length of a header and its data with times of `width` bytes, and the file's version.
fn block(bytes: &[u8], width: usize) -> Option<(usize, u8)> {
    let version = *bytes.get(4)?;
    let count = |n: usize| {
        let bytes = bytes.get(20 + 4 * n..24 + 4 * n)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let (utc, std, leap, times, types, chars) =
        (count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?);
    let len = 44 + times * (width + 1) + types * 6 + chars + leap * (width + 4) + std + utc;
    bytes.starts_with(b"TZif").then_some((len, version))
}

/// What follows a zone's name.
fn name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return Some(rest.split_once('>')?.1);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (text.len() - rest.len() >= 3).then_some(rest)
}

/// `[+-]hh[:mm[:ss]]` in seconds, and what follows.
fn offset(text: &str) -> Option<(i64, &str)> {
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(digits.len());
    let mut secs = 0;
    for (part, unit) in digits[..end].split(':').zip([3600, 60, 1]) {
        secs += number(part, 167)? * unit;
    }
    Some((if text.starts_with('-') { -secs } else { secs }, &digits[end..]))
}

/// `hour[:minute[:second]]`, in seconds.
fn clock_of(word: &str) -> Option<u32> {
    let mut parts = word.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next(), parts.next());
    let part = |part: Option<&str>, most| part.map_or(Some(0), |part| number(part, most));
    let secs = number(hour, 23)? * 3600 + part(minute, 59)? * 60 + part(second, 59)?;
    u32::try_from(secs).ok().filter(|_| parts.next().is_none())
}

fn number(word: &str, most: i64) -> Option<i64> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|n| digits && *n <= most)
}

fn month_days(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date. Years begin in March here, so that the day that comes and goes is the last.
fn days(year: i64, month: u8, day: u8) -> i64 {
    let (year, month) =
        if month > 2 { (year, i64::from(month) - 3) } else { (year - 1, i64::from(month) + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day.
fn date(day: i64) -> (i64, u8, u8) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u8;
    let month = if month < 10 { month + 3 } else { month - 9 } as u8;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

impl std::fmt::Display for Wall {
    /// As rsync writes times: `2026/11/21 12:25:04`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, secs } = self;
        let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
        write!(f, "{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_inverse() {
        for day in (-800_000..800_000).step_by(13) {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
            assert!(of_month >= 1 && of_month <= month_days(year, month));
        }
        assert_eq!((date(0), date(11_016)), ((1970, 1, 1), (2000, 2, 29)));
    }

    #[test]
    fn summer_time_follows_the_rule() {
        let zone = Zone::ruled("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (time, shown) in [
            (1_774_745_999, "2026/03/29 01:59:59"),
            (1_774_746_000, "2026/03/29 03:00:00"),
            (1_792_889_999, "2026/10/25 02:59:59"),
            (1_792_890_000, "2026/10/25 02:00:00"),
            (0, "1970/01/01 01:00:00"),
        ] {
            assert_eq!(zone.wall(time).to_string(), shown);
        }
        let south = Zone::ruled("AEST-10AEDT,M10.1.0,M4.1.0/3").unwrap();
        assert_eq!(south.wall(1_767_225_600).to_string(), "2026/01/01 11:00:00");
        assert_eq!(Zone::ruled("<-03>3").unwrap().wall(0).to_string(), "1969/12/31 21:00:00");
    }

    #[test]
    fn the_systems_files_agree_with_the_rules() {
        let Some(zone) = Zone::read(Path::new("/usr/share/zoneinfo/Europe/Berlin")) else { return };
        let rule = Zone::ruled("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for time in (1_000_000_000..2_500_000_000).step_by(3_333_333) {
            assert_eq!(zone.wall(time), rule.wall(time));
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        let mut file = b"TZif2".to_vec();
        file.resize(44, 0);
        assert_eq!(Zone::parse(&file), None);
        for at in 0..44 {
            for byte in [1, 0x7f, 0xff] {
                let mut bad = file.clone();
                bad[at] = byte;
                bad.extend_from_slice(&file);
                Zone::parse(&bad);
            }
        }
    }

    #[test]
    fn what_a_time_leaves_out_is_as_soon_as_can_be() {
        let zone = Zone::default();
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
        ] {
            let at = zone.next(word, now).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(zone.wall(at).to_string(), shown, "{word}");
        }
        for word in
            ["", "x", "2026-13-01", "2026-02-30", "25:00", "1-2-3-4", "12:60", "-5", "1:2:3:4"]
        {
            assert_eq!(zone.next(word, now), None, "{word}");
        }
    }
}
