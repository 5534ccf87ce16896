//! Ages as words: `30d`, `12h`, `0`, `forever`.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use deltic_serve::age;

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

/// A time before now: `12h`, `2 days ago`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeAgo(u64);

impl TimeAgo {
    /// Returns the time in seconds since 1970.
    pub(crate) fn start(self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        i64::try_from(now.saturating_sub(self.0)).unwrap_or_default()
    }
}

/// The error for a word that is not a time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadTimeAgo;

impl std::error::Error for BadTimeAgo {}

impl fmt::Display for BadTimeAgo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a number with a unit: 90m, 12h, 30d, or '2 days ago'")
    }
}

impl FromStr for TimeAgo {
    type Err = BadTimeAgo;

    fn from_str(word: &str) -> Result<Self, BadTimeAgo> {
        let short = match *word.split_whitespace().collect::<Vec<_>>() {
            [age] => age.to_owned(),
            [number, unit, "ago"] => {
                let unit = unit.strip_suffix('s').unwrap_or(unit);
                let names = ["second", "minute", "hour", "day", "week", "year"];
                let unit = names.into_iter().find(|name| *name == unit).ok_or(BadTimeAgo)?;
                format!("{number}{}", &unit[..1])
            }
            _ => return Err(BadTimeAgo),
        };
        age::seconds(&short).map(Self).ok_or(BadTimeAgo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ago_is_an_age_or_a_sentence() {
        let ago = |word: &str| word.parse::<TimeAgo>().map(|TimeAgo(secs)| secs);
        assert_eq!([ago("2d"), ago("2 days ago"), ago("48 hours ago")], [Ok(172_800); 3]);
        assert_eq!(ago("1 minute ago"), Ok(60));
        for word in ["", "2 days", "days ago", "x days ago", "2 fortnights ago", "forever"] {
            assert_eq!(ago(word), Err(BadTimeAgo), "{word}");
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
