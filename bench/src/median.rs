//! The median.

/// Returns the median: for an even number of values the mean of the middle two, and 0 without values.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.into_iter().collect();
    figures.sort_unstable_by(f64::total_cmp);
    let upper = figures.len() / 2;
    let lower = figures.len().saturating_sub(1) / 2;
    figures.get(lower..=upper).map_or(0.0, |middle| (middle[0] + middle[upper - lower]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_one_figure_or_lies_between_two() {
        assert_eq!(median([3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median([3.0, 1.0, 9.0, 4.0]), 3.5);
        assert_eq!(median([]), 0.0);
    }
}
