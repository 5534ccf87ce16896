//! Sizes as people write them: `100MB`, `1GiB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes that remembers how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    text: String,
    bytes: u64,
}

impl Size {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let count = digits.parse::<u64>().ok();
        let bytes = count.zip(factor).and_then(|(count, factor)| count.checked_mul(factor));
        let bytes = bytes.ok_or_else(|| format!("{text}: want a size such as 100MB or 1GiB"))?;
        Ok(Self { text: text.into(), bytes })
    }
}

const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary_as_written() {
        assert_eq!("100MB".parse::<Size>().unwrap().bytes(), 100_000_000);
        assert_eq!("4GiB".parse::<Size>().unwrap().bytes(), 1 << 32);
        assert_eq!("17".parse::<Size>().unwrap().bytes(), 17);
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "MB", "1mb", "1.5GiB", "-1", "99999999999GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
