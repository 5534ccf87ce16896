//! Ages as words: `30d`, `12h`, `0`, `forever`.

use std::fmt;
use std::str::FromStr;

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

#[cfg(test)]
mod tests {
    use super::*;

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
