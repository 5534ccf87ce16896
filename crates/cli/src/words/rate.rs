//! Rates in rsync's units (`--bwlimit`).
//!
//! A [`size`] a second, in KiB without a unit. Unlike rsync, the result is not rounded to whole KiB.

use std::str::FromStr;

use crate::words::size::{self, BadSize};

/// A rate in bytes a second; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRate(u64);

/// Unit in bytes of a number without unit.
const BARE_BYTES: u64 = 1024;
/// The lowest rate, in bytes a second, as in rsync: a lower rate most likely lacks its unit.
const MIN_RATE_BYTES: u64 = 512;

/// Why a word is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRate {
    Malformed,
    TooSmall,
    TooLarge,
}

impl ByteRate {
    /// Returns the limit in bytes a second, if any.
    pub(crate) fn limit(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

impl FromStr for ByteRate {
    type Err = BadRate;

    fn from_str(word: &str) -> Result<Self, BadRate> {
        match size::bytes_with_offset(word, BARE_BYTES)? {
            1..MIN_RATE_BYTES => Err(BadRate::TooSmall),
            bytes => Ok(Self(bytes)),
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
    fn a_bare_rate_counts_kib() {
        for (word, bytes) in [
            ("100", 100 << 10),
            ("0.5", 512),
            ("600b", 600),
            ("1.5MB", 1_500_000),
            ("1m+1", (1 << 20) + 1),
            ("1024b-1", 1023),
        ] {
            assert_eq!(word.parse(), Ok(ByteRate(bytes)), "{word}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!("0".parse::<ByteRate>().map(ByteRate::limit), Ok(None));
        assert_eq!("1k".parse::<ByteRate>().map(ByteRate::limit), Ok(Some(1024)));
    }

    #[test]
    fn words_that_are_no_rates_say_why() {
        assert_eq!("1x".parse::<ByteRate>(), Err(BadRate::Malformed));
        assert_eq!("100b".parse::<ByteRate>(), Err(BadRate::TooSmall));
        assert_eq!("512b-1".parse::<ByteRate>(), Err(BadRate::TooSmall));
        assert_eq!("0-1".parse::<ByteRate>(), Err(BadRate::TooLarge));
        assert_eq!("99999999999p".parse::<ByteRate>(), Err(BadRate::TooLarge));
    }
}
