//! Parser and formatter for sizes in bytes.
//!
//! A size is a number, perhaps with a fraction, and a unit in either case: `B`, `K`, `M`, `G` or `T`. `K` and `KiB` are
//! powers of 1024, `KB` is a power of 1000.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(u64);

/// Error: a word is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadByteSize;

impl ByteSize {
    /// The number of bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl FromStr for ByteSize {
    type Err = BadByteSize;

    fn from_str(word: &str) -> Result<Self, BadByteSize> {
        let split = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(split);
        let number: f64 = number.parse().map_err(|_| BadByteSize)?;
        let bytes = number * unit_bytes(&unit.to_ascii_lowercase()).ok_or(BadByteSize)? as f64;
        if bytes < MOST_BYTES { Ok(Self(bytes as u64)) } else { Err(BadByteSize) }
    }
}

/// Returns the factor of `unit`, a unit in lower case.
fn unit_bytes(unit: &str) -> Option<u64> {
    let Some(letter) = unit.chars().next() else { return Some(1) };
    let power = u32::try_from("bkmgt".find(letter)?).ok()?;
    match &unit[letter.len_utf8()..] {
        "" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Formats with the shorter of the decimal and the binary unit: `100 MB`, `8 KiB`.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |units: [(u64, &str); 4]| {
            let fits = |unit: u64| self.0 >= unit && self.0.is_multiple_of(unit);
            let (unit, name) = units.into_iter().find(|(unit, _)| fits(*unit)).unwrap_or((1, "B"));
            format!("{} {name}", self.0 / unit)
        };
        let decimal = exact([(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB"), (1, "B")]);
        let binary = exact([(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")]);
        f.write_str(if decimal.len() < binary.len() { &decimal } else { &binary })
    }
}

impl std::error::Error for BadByteSize {}

impl fmt::Display for BadByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a size; write a number and a unit, such as 8KiB, 1.5M or 2GB")
    }
}

/// Larger sizes are invalid. Sums of a few sizes below this limit cannot overflow.
const MOST_BYTES: f64 = (1_u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary_as_written() {
        for (word, bytes) in [
            ("100", 100),
            ("600b", 600),
            ("1k", 1 << 10),
            ("1KiB", 1 << 10),
            ("1kB", 1000),
            ("1.5m", 3 << 19),
            ("1.5MB", 1_500_000),
            ("4GiB", 1 << 32),
            (".5g", 1 << 29),
            ("1T", 1 << 40),
        ] {
            assert_eq!(word.parse(), Ok(ByteSize(bytes)), "{word}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["", ".", "MB", "1x", "1kk", "1kib2", "-1", "1.2.3", "1é", "99999999GiB"] {
            assert_eq!(word.parse::<ByteSize>(), Err(BadByteSize), "{word}");
        }
    }

    #[test]
    fn a_size_is_shown_in_the_shorter_notation() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1000, "1 kB"),
            (8192, "8 KiB"),
            (300_000, "300 kB"),
            (3 << 19, "1536 KiB"),
            (100_000_000, "100 MB"),
            (1 << 30, "1 GiB"),
            (1_000_001, "1000001 B"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), shown);
        }
    }
}
