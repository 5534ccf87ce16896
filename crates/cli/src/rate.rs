//! Rates in rsync's units (`--bwlimit`).
//!
//! A number, perhaps with a fraction, and a unit: `B`, `K`, `M`, `G`, `T` or `P` in either case, where `K` and `KiB`
//! count in 1024 and `KB` in 1000. Unlike rsync, the result is not rounded to whole KiB.

use std::str::FromStr;

/// Bytes a second; 0 is written for "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(u64);

/// Below this, rsync refuses too: such a rate is a unit forgotten.
const MIN_RATE_BYTES: u64 = 512;

/// Why a word is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRate {
    Malformed,
    TooSmall,
    TooLarge,
}

impl Rate {
    /// Most bytes a second, if there is a limit.
    pub(crate) fn limit(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(word: &str) -> Result<Self, BadRate> {
        let number = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(number);
        match scaled(number, unit_bytes(unit)?)? {
            1..MIN_RATE_BYTES => Err(BadRate::TooSmall),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// Bytes in one `unit`.
fn unit_bytes(unit: &str) -> Result<u64, BadRate> {
    let unit = unit.to_ascii_lowercase();
    let Some(letter) = unit.chars().next() else { return Ok(1024) };
    let power = "bkmgtp".find(letter).ok_or(BadRate::Malformed)?;
    let base: u64 = match &unit[letter.len_utf8()..] {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return Err(BadRate::Malformed),
    };
    Ok((0..power).fold(1, |bytes, _| bytes * base))
}

/// `number`, which may have a fraction, times `unit`, rounded down.
fn scaled(number: &str, unit: u64) -> Result<u64, BadRate> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || fraction.contains('.') {
        return Err(BadRate::Malformed);
    }
    let digits: u128 = digits.parse().map_err(|_| BadRate::TooLarge)?;
    let bytes = digits.checked_mul(unit.into()).ok_or(BadRate::TooLarge)?;
    let places = u32::try_from(fraction.len()).map_err(|_| BadRate::TooLarge)?;
    let bytes = bytes / 10u128.checked_pow(places).ok_or(BadRate::TooLarge)?;
    u64::try_from(bytes).map_err(|_| BadRate::TooLarge)
}

impl std::error::Error for BadRate {}

impl std::fmt::Display for BadRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a rate; write a number and a unit, such as 500K, 1.5M or 2GB",
            Self::TooSmall => "too small a rate; without a unit the number counts KiB a second",
            Self::TooLarge => "too large a rate",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_the_units_of_rsync() {
        for (word, bytes) in [
            ("100", 100 << 10),
            ("0.5", 512),
            ("600b", 600),
            ("1k", 1 << 10),
            ("1KiB", 1 << 10),
            ("1kB", 1000),
            ("1.5m", 3 << 19),
            ("1.5MB", 1_500_000),
            ("2G", 2 << 30),
            (".5g", 1 << 29),
            ("1T", 1 << 40),
            ("1p", 1 << 50),
        ] {
            assert_eq!(word.parse(), Ok(Rate(bytes)), "{word}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!("0".parse::<Rate>().map(Rate::limit), Ok(None));
        assert_eq!("1k".parse::<Rate>().map(Rate::limit), Ok(Some(1024)));
    }

    #[test]
    fn words_that_are_no_rates_say_why() {
        for word in ["", ".", "k", "1x", "1kk", "1kib2", "-1", "1.2.3", "1é", "١"] {
            assert_eq!(word.parse::<Rate>(), Err(BadRate::Malformed), "{word}");
        }
        assert_eq!("100b".parse::<Rate>(), Err(BadRate::TooSmall));
        for word in ["99999999999p", "9".repeat(60).as_str(), &format!("0.{}1", "0".repeat(50))] {
            assert_eq!(word.parse::<Rate>(), Err(BadRate::TooLarge), "{word}");
        }
    }
}
