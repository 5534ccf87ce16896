//! Old versions that a volume keeps, as words say which.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use deltic_store_local::KeepVersions;
use serde::Deserialize;

/// Old versions that a volume keeps: so many of each file (`10`), or those of some time (`30d`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Word")]
pub struct Keep(pub KeepVersions);

/// A word that does not say which versions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadKeep;

impl std::error::Error for BadKeep {}

impl fmt::Display for BadKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("versions: write how many of each file are kept (10), or for how long (90m, 12h, 30d, 8w)")
    }
}

impl FromStr for Keep {
    type Err = BadKeep;

    fn from_str(word: &str) -> Result<Self, BadKeep> {
        let digits = word.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let count: u64 =
            digits.parse().ok().filter(|count| is_number && *count > 0).ok_or(BadKeep)?;
        let unit: u64 = match &word[digits.len()..] {
            "" => {
                return usize::try_from(count)
                    .map(KeepVersions::Number)
                    .map(Self)
                    .map_err(|_| BadKeep);
            }
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            "w" => 7 * 24 * 60 * 60,
            _ => return Err(BadKeep),
        };
        let secs = count.checked_mul(unit).ok_or(BadKeep)?;
        Ok(Self(KeepVersions::For(Duration::from_secs(secs))))
    }
}

/// The same in a file of settings, where a number may be one.
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
            ["", "0", "0d", "d", "-1", "1.5d", "1 d", "3y", "forever", "99999999999999999999"]
        {
            assert_eq!(keep(word), Err(BadKeep), "{word}");
        }
        assert_eq!(keep("18446744073709551615w"), Err(BadKeep));
    }
}
