//! Figures in rsync's four styles (`-h`, `--no-h`).

/// Returns `count` with its noun: `1 file`, `1,234 files`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", NumberStyle::Grouped.count(count))
}

/// Style of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberStyle {
    /// `1234567`
    Plain,
    /// `1,234,567`
    #[default]
    Grouped,
    /// `1.23M`, of 1000
    Thousands,
    /// `1.18M`, of 1024
    Binary,
}

impl NumberStyle {
    /// Returns the style for `times` repetitions of `-h`.
    pub(crate) const fn of(times: u8, plain: bool) -> Self {
        match times {
            0 if plain => Self::Plain,
            0 => Self::Grouped,
            1 => Self::Thousands,
            _ => Self::Binary,
        }
    }

    /// Returns `number` in this style.
    pub(crate) fn show(self, number: u64) -> String {
        self.scaled(number as f64).unwrap_or_else(|| self.count(number))
    }

    /// Returns a count, which never gets a unit.
    pub(crate) fn count(self, number: u64) -> String {
        let digits = number.to_string();
        if self == Self::Plain { digits } else { grouped(&digits) }
    }

    /// Returns `number` with two decimals.
    pub(crate) fn decimal(self, number: f64) -> String {
        self.scaled(number).unwrap_or_else(|| self.ratio(number))
    }

    /// Returns a ratio with two decimals, which never gets a unit.
    pub(crate) fn ratio(self, number: f64) -> String {
        let text = format!("{number:.2}");
        match text.split_once('.') {
            Some((whole, rest)) if self != Self::Plain => format!("{}.{rest}", grouped(whole)),
            _ => text,
        }
    }

    /// Returns `number` with a unit, if the style has units and the number is large enough.
    fn scaled(self, number: f64) -> Option<String> {
        let unit = match self {
            Self::Plain | Self::Grouped => return None,
            Self::Thousands => 1000.0,
            Self::Binary => 1024.0,
        };
        let mut number = number;
        let mut letter = None;
        for next in ['K', 'M', 'G', 'T', 'P'] {
            if number < unit {
                break;
            }
            (number, letter) = (number / unit, Some(next));
        }
        letter.map(|letter| format!("{number:.2}{letter}"))
    }
}

fn grouped(digits: &str) -> String {
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_rsync() {
        for (style, number, text) in [
            (NumberStyle::Plain, 1_234_567, "1234567"),
            (NumberStyle::Grouped, 1_234_567, "1,234,567"),
            (NumberStyle::Grouped, 999, "999"),
            (NumberStyle::Thousands, 999, "999"),
            (NumberStyle::Thousands, 1000, "1.00K"),
            (NumberStyle::Thousands, 1_234_567, "1.23M"),
            (NumberStyle::Binary, 1000, "1,000"),
            (NumberStyle::Binary, 1_234_567, "1.18M"),
            (NumberStyle::Binary, 5 << 40, "5.00T"),
        ] {
            assert_eq!(style.show(number), text);
        }
        assert_eq!(NumberStyle::Grouped.decimal(12_345.678), "12,345.68");
        assert_eq!(NumberStyle::Plain.ratio(12_345.678), "12345.68");
        assert_eq!(NumberStyle::Thousands.decimal(12_345.678), "12.35K");
        assert_eq!(NumberStyle::Thousands.ratio(12_345.678), "12,345.68");
        assert_eq!(NumberStyle::Thousands.count(12_345), "12,345");
    }

    #[test]
    fn each_h_is_a_style() {
        use NumberStyle::{Binary, Grouped, Plain, Thousands};
        let styles = [(0, true), (0, false), (1, false), (2, false), (3, false)];
        assert_eq!(
            styles.map(|(times, plain)| NumberStyle::of(times, plain)),
            [Plain, Grouped, Thousands, Binary, Binary]
        );
    }
}
