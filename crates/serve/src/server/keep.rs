//! The setting for old versions that a volume keeps.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use deltic_store_local::KeepVersions;
use serde::Deserialize;

use crate::age;

/// Old versions that a volume keeps: a number of versions of each file (`10`), or the versions of some time (`30d`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Word")]
pub struct Keep(pub KeepVersions);

/// Error for an invalid setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadKeep;

impl std::error::Error for BadKeep {}

impl fmt::Display for BadKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("versions: write how many of each file are kept (10), or for how long (90m, 12h, 30d, 8w, 1y)")
    }
}

impl FromStr for Keep {
    type Err = BadKeep;

    fn from_str(word: &str) -> Result<Self, BadKeep> {
        // A number without a unit counts versions, not seconds.
        let keep = match word.bytes().all(|byte| byte.is_ascii_digit()) {
            true => word.parse().ok().filter(|number| *number > 0).map(KeepVersions::Number),
            false => age::seconds(word)
                .filter(|secs| *secs > 0)
                .map(|secs| KeepVersions::For(Duration::from_secs(secs))),
        };
        keep.map(Self).ok_or(BadKeep)
    }
}

/// The setting in a settings file, as a number or as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

impl TryFrom<Word> for Keep {
    type Error = BadKeep;

    fn try_from(word: Word) -> Result<Self, BadKeep> {
        match word {
            Word::Number(number) => number.to_string().parse(),
            Word::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_by_number_or_by_age() {
        let keep = |word: &str| word.parse::<Keep>().map(|Keep(keep)| keep);
        let age = |secs| Ok(KeepVersions::For(Duration::from_secs(secs)));
        assert_eq!(keep("10"), Ok(KeepVersions::Number(10)));
        assert_eq!([keep("90s"), keep("2m")], [age(90), age(120)]);
        assert_eq!(
            [keep("12h"), keep("30d"), keep("1w")],
            [age(43_200), age(2_592_000), age(604_800)]
        );
        for word in
            ["", "0", "0d", "d", "-1", "1.5d", "1 d", "3x", "forever", "99999999999999999999"]
        {
            assert_eq!(keep(word), Err(BadKeep), "{word}");
        }
        assert_eq!(keep("18446744073709551615w"), Err(BadKeep));
    }
}
