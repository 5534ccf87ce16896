//! Numbers that a paper prints, beside the same numbers of a redrawn figure.

use super::series::SeriesTable;
use crate::table::TextTable;

/// A number that a paper prints.
pub(crate) struct Claim {
    what: &'static str,
    paper: &'static str,
    here: ClaimMeasure,
}

/// The calculation of the number from a redrawn figure. Values of several groups are a range.
enum ClaimMeasure {
    /// The value of `to` divided by the value of `of`.
    Times { of: &'static str, to: &'static str },
    /// The saving of `of` beside `to`, in percent of `to`.
    Less { of: &'static str, to: &'static str },
    /// The value of `of`.
    Value { of: &'static str },
}

impl Claim {
    /// Claims that `of` is faster than `to` by a factor.
    pub(crate) const fn times(
        what: &'static str,
        paper: &'static str,
        of: &'static str,
        to: &'static str,
    ) -> Self {
        Self { what, paper, here: ClaimMeasure::Times { of, to } }
    }

    /// Claims that `of` takes less than `to`, in percent.
    pub(crate) const fn less(
        what: &'static str,
        paper: &'static str,
        of: &'static str,
        to: &'static str,
    ) -> Self {
        Self { what, paper, here: ClaimMeasure::Less { of, to } }
    }

    /// Claims a value of `of`.
    pub(crate) const fn value(what: &'static str, paper: &'static str, of: &'static str) -> Self {
        Self { what, paper, here: ClaimMeasure::Value { of } }
    }

    fn range(&self, figures: &SeriesTable) -> String {
        let (values, unit, digits) = match self.here {
            ClaimMeasure::Times { of, to } => (figures.pairs(of, to, |of, to| to / of), "×", 2),
            ClaimMeasure::Less { of, to } => {
                (figures.pairs(of, to, |of, to| (1.0 - of / to) * 100.0), " %", 1)
            }
            ClaimMeasure::Value { of } => (figures.pairs(of, of, |of, _| of), figures.unit, 1),
        };
        let values: Vec<_> = values.into_iter().filter(|value| value.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let show = |value: f64| {
            let digits = if value.abs() >= 100.0 { 0 } else { digits };
            // No sign in front of zeros.
            let value = if value.abs() < 0.5 * 10f64.powi(-(digits as i32)) { 0.0 } else { value };
            format!("{value:.digits$}")
        };
        match &values[..] {
            [] => "-".into(),
            [_] => format!("{}{unit}", show(least)),
            _ => format!("{} to {}{unit}", show(least), show(most)),
        }
    }
}

/// Makes a table of claims. Returns `None` without claims.
pub(crate) fn table(claims: &[Claim], figures: &SeriesTable) -> Option<TextTable> {
    let mut table = TextTable::new(2, ["number", "paper", "here"]);
    for claim in claims {
        table.row([claim.what.into(), claim.paper.into(), claim.range(figures)]);
    }
    (!claims.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_range_over_all_groups() {
        let mut figures = SeriesTable::new("s");
        for (group, values) in [("a", [1.0, 2.0]), ("b", [2.0, 6.0])] {
            figures.put(group, "fast", values[0]);
            figures.put(group, "slow", values[1]);
        }
        let range = |claim: Claim| claim.range(&figures);
        assert_eq!(range(Claim::times("", "", "fast", "slow")), "2.00 to 3.00×");
        assert_eq!(range(Claim::less("", "", "fast", "slow")), "50.0 to 66.7 %");
        assert_eq!(range(Claim::value("", "", "slow")), "2.0 to 6.0s");
        assert_eq!(range(Claim::times("", "", "none", "slow")), "-");
        figures.put("a", "same", 1.0001);
        assert_eq!(Claim::less("", "", "same", "fast").range(&figures), "0.0 %");
    }
}
