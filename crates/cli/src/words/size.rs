//! Sizes in bytes, as people write them.
//!
//! A number, perhaps with a fraction, and a unit: `B`, `K`, `M`, `G`, `T` or `P` in either case. `K` and `KiB` are
//! 1024 bytes, `KB` is 1000.

use std::fmt;
use std::str::FromStr;

/// A size in bytes; a number without unit is in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(u64);

/// The error for a word that is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadSize {
    Malformed,
    TooLarge,
}

impl Size {
    /// The number of bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

/// A size in bytes, optionally plus or minus one byte: `1G-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeBound(u64);

impl SizeBound {
    /// The number of bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for SizeBound {
    type Err = BadSize;

    fn from_str(word: &str) -> Result<Self, BadSize> {
        bytes_with_offset(word, 1).map(Self)
    }
}

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(word: &str) -> Result<Self, BadSize> {
        bytes(word, 1).map(Self)
    }
}

/// Parses `word` as a size in bytes; a number without unit counts `bare` bytes each.
pub(crate) fn bytes(word: &str, bare: u64) -> Result<u64, BadSize> {
    let number = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(number);
    scaled(number, if unit.is_empty() { bare } else { unit_bytes(unit)? })
}

/// Parses `word` as `bytes` does, with an optional `+1` or `-1` byte at the end.
pub(crate) fn bytes_with_offset(word: &str, bare: u64) -> Result<u64, BadSize> {
    let one_more = word.strip_suffix("+1").map(|size| (size, 1));
    let (size, more) =
        one_more.or_else(|| Some((word.strip_suffix("-1")?, -1))).unwrap_or((word, 0));
    bytes(size, bare)?.checked_add_signed(more).ok_or(BadSize::TooLarge)
}

/// Returns the bytes in one `unit`.
fn unit_bytes(unit: &str) -> Result<u64, BadSize> {
    let unit = unit.to_ascii_lowercase();
    let letter = unit.chars().next().ok_or(BadSize::Malformed)?;
    let power = "bkmgtp".find(letter).ok_or(BadSize::Malformed)?;
    let base: u64 = match &unit[letter.len_utf8()..] {
        "" | "ib" => 1024,
        "b" => 1000,
        _ => return Err(BadSize::Malformed),
    };
    Ok((0..power).fold(1, |bytes, _| bytes * base))
}

/// Returns `number`, perhaps with a fraction, times `unit`, rounded down.
fn scaled(number: &str, unit: u64) -> Result<u64, BadSize> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || fraction.contains('.') {
        return Err(BadSize::Malformed);
    }
    let digits: u128 = digits.parse().map_err(|_| BadSize::TooLarge)?;
    let bytes = digits.checked_mul(unit.into()).ok_or(BadSize::TooLarge)?;
    let places = u32::try_from(fraction.len()).map_err(|_| BadSize::TooLarge)?;
    let bytes = bytes / 10u128.checked_pow(places).ok_or(BadSize::TooLarge)?;
    u64::try_from(bytes).map_err(|_| BadSize::TooLarge)
}

impl std::error::Error for BadSize {}

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a size; write a number and a unit, such as 8KiB, 1.5M or 2GB",
            Self::TooLarge => "too large a size",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_the_units_of_rsync() {
        for (word, bytes) in [
            ("100", 100),
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
            assert_eq!(word.parse(), Ok(Size(bytes)), "{word}");
        }
        assert_eq!(super::bytes("0.5", 1024), Ok(512));
    }

    #[test]
    fn words_that_are_no_sizes_say_why() {
        for word in ["", ".", "k", "1x", "1kk", "1kib2", "-1", "1.2.3", "1é", "١"] {
            assert_eq!(word.parse::<Size>(), Err(BadSize::Malformed), "{word}");
        }
        for word in ["99999999999p", "9".repeat(60).as_str(), &format!("0.{}1", "0".repeat(50))] {
            assert_eq!(word.parse::<Size>(), Err(BadSize::TooLarge), "{word}");
        }
    }
}
