//! The median, and other shares of sorted values.

/// Returns the median: for an even number of values the mean of the middle two, and 0 without values.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.into_iter().collect();
    figures.sort_unstable_by(f64::total_cmp);
    let upper = figures.len() / 2;
    let lower = figures.len().saturating_sub(1) / 2;
    figures.get(lower..=upper).map_or(0.0, |middle| (middle[0] + middle[upper - lower]) / 2.0)
}

/// Returns the value below which a share from 0 to 1 of the sorted values lies; the default without values.
pub(crate) fn at_share<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_share_is_one_of_the_values() {
        let values: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(
            [0.5, 0.95, 1.0].map(|share| at_share(&values, share).as_millis()),
            [51, 96, 100]
        );
        assert_eq!(at_share::<Duration>(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn the_middle_is_one_figure_or_lies_between_two() {
        assert_eq!(median([3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median([3.0, 1.0, 9.0, 4.0]), 3.5);
        assert_eq!(median([]), 0.0);
    }
}
