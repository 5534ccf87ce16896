//! Ages as words: `30d`, `12h`, `0`, `forever`.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use deltic_serve::age;
use jiff::Timestamp;

/// The longest age in seconds; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Option<u64>);

/// The error for a word that is not an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadAge;

impl std::error::Error for BadAge {}

impl fmt::Display for BadAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a number of seconds, or with a unit (90m, 12h, 30d, 8w, 1y), or `forever`",
        )
    }
}

impl FromStr for Age {
    type Err = BadAge;

    fn from_str(word: &str) -> Result<Self, BadAge> {
        if word == "forever" {
            return Ok(Self(None));
        }
        age::seconds(word).map(|secs| Self(Some(secs))).ok_or(BadAge)
    }
}

/// A time in the past: `12h`, `2 days ago`, `2026-11-27T10:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastTime {
    /// The number of seconds before now.
    Ago(u64),
    /// Seconds since 1970.
    At(i64),
}

impl PastTime {
    /// Returns the time in seconds since 1970.
    pub(crate) fn time(self) -> i64 {
        match self {
            Self::Ago(secs) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(now.as_secs().saturating_sub(secs)).unwrap_or_default()
            }
            Self::At(time) => time,
        }
    }
}

/// The error for a word that is not a time in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPastTime;

impl std::error::Error for BadPastTime {}

impl fmt::Display for BadPastTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a number with a unit (90m, 12h, 30d, '2 days ago'), or a time with its zone: 2026-11-27T10:00:00Z",
        )
    }
}

impl FromStr for PastTime {
    type Err = BadPastTime;

    fn from_str(word: &str) -> Result<Self, BadPastTime> {
        if let Ok(time) = word.parse::<Timestamp>() {
            return Ok(Self::At(time.as_second()));
        }
        let short = match *word.split_whitespace().collect::<Vec<_>>() {
            [age] => age.to_owned(),
            [number, unit, "ago"] => {
                let unit = unit.strip_suffix('s').unwrap_or(unit);
                let names = ["second", "minute", "hour", "day", "week", "year"];
                let unit = names.into_iter().find(|name| *name == unit).ok_or(BadPastTime)?;
                format!("{number}{}", &unit[..1])
            }
            _ => return Err(BadPastTime),
        };
        age::seconds(&short).map(Self::Ago).ok_or(BadPastTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_past_is_an_age_a_sentence_or_a_date() {
        let parsed = |word: &str| word.parse::<PastTime>();
        let words = ["2d", "2 days ago", "48 hours ago"];
        assert_eq!(words.map(parsed), [Ok(PastTime::Ago(172_800)); 3]);
        assert_eq!(parsed("1 minute ago"), Ok(PastTime::Ago(60)));
        let dates = ["1970-01-02T00:00:00Z", "1970-01-02T02:00:00+02:00", "1970-01-02t00:00:00.9z"];
        assert_eq!(dates.map(parsed), [Ok(PastTime::At(86_400)); 3]);
        for word in [
            "",
            "2 days",
            "days ago",
            "x days ago",
            "2 fortnights ago",
            "forever",
            "1970-01-02",
            "1970-01-02T00:00:00",
            "1970-13-02T00:00:00Z",
        ] {
            assert_eq!(parsed(word), Err(BadPastTime), "{word}");
        }
    }

    #[test]
    fn ages_are_numbers_with_units_or_forever() {
        let age = |word: &str| word.parse::<Age>().map(|Age(secs)| secs);
        assert_eq!(age("0"), Ok(Some(0)));
        assert_eq!([age("90"), age("90s")], [Ok(Some(90)); 2]);
        assert_eq!([age("2m"), age("3h")], [Ok(Some(120)), Ok(Some(10_800))]);
        assert_eq!([age("1d"), age("2w")], [Ok(Some(86_400)), Ok(Some(1_209_600))]);
        assert_eq!(age("1y"), Ok(Some(365 * 86_400)));
        assert_eq!(age("forever"), Ok(None));
        for word in
            ["", "d", "-1", "+1", "1.5d", "1 d", "3x", "1dd", "never", "99999999999999999999"]
        {
            assert_eq!(age(word), Err(BadAge), "{word}");
        }
        assert_eq!(age("18446744073709551615w"), Err(BadAge));
    }
}
