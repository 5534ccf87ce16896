//! Figures of transfers: medians, ratios, and tables in Markdown and CSV.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::run::TransferCost;
use crate::files::make_dir;
use crate::table::TextTable;

/// Prints a table and writes it to `NAME.md` and `NAME.csv` in `dir`.
pub(crate) fn publish(table: &TextTable, dir: &Path, name: &str) -> Result<()> {
    print!("\n{}", table.markdown());
    make_dir(dir)?;
    fs::write(dir.join(format!("{name}.md")), table.markdown())?;
    fs::write(dir.join(format!("{name}.csv")), table.csv())?;
    eprintln!("\nwritten to {}", dir.join(format!("{name}.{{md,csv}}")).display());
    Ok(())
}

/// Returns the median of each figure, taken separately.
pub(crate) fn medians(runs: &[TransferCost]) -> TransferCost {
    let mut all = TransferCost {
        wall: median(runs, |run| run.wall),
        cpu: median(runs, |run| run.cpu),
        near_peak: median(runs, |run| run.near_peak),
        far_peak: median(runs, |run| run.far_peak),
        read: median(runs, |run| run.read),
        ..TransferCost::default()
    };
    all.stats.sent = median(runs, |run| run.stats.sent);
    all.stats.received = median(runs, |run| run.stats.received);
    all.stats.literal = median(runs, |run| run.stats.literal);
    all
}

/// Returns the median, for an even number of values the upper one.
pub(crate) fn median<R, T: Ord + Copy + Default>(runs: &[R], figure: impl Fn(&R) -> T) -> T {
    let mut values: Vec<T> = runs.iter().map(figure).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Formats the figures of a transfer as cells under [`FIGURES`].
pub(crate) fn figures(run: &TransferCost) -> Vec<String> {
    vec![
        seconds(run.wall),
        seconds(run.cpu),
        mib(run.near_peak),
        mib(run.far_peak),
        run.read.to_string(),
        run.stats.sent.to_string(),
        run.stats.received.to_string(),
        run.stats.literal.to_string(),
    ]
}

/// Formats each figure of `run` as a multiple of `base`.
pub(crate) fn ratios(run: &TransferCost, base: &TransferCost) -> Vec<String> {
    let whole = |part: fn(&TransferCost) -> u64| ratio(part(run) as f64, part(base) as f64);
    vec![
        ratio(run.wall.as_secs_f64(), base.wall.as_secs_f64()),
        ratio(run.cpu.as_secs_f64(), base.cpu.as_secs_f64()),
        whole(|run| run.near_peak),
        whole(|run| run.far_peak),
        whole(|run| run.read),
        whole(|run| run.stats.sent),
        whole(|run| run.stats.received),
        whole(|run| run.stats.literal),
    ]
}

/// Header of [`figures`].
pub(crate) const FIGURES: [&str; 8] = [
    "wall s",
    "cpu s",
    "memory, sender MiB",
    "memory, receiver MiB",
    "read by the sender B",
    "sent B",
    "received B",
    "literal B",
];

fn ratio(of: f64, to: f64) -> String {
    if to == 0.0 { "-".into() } else { format!("{:.3}x", of / to) }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_does_not_depend_on_the_order() {
        assert_eq!(median(&[9, 1, 5], |value| *value), 5);
        assert_eq!(median(&[] as &[u64], |value| *value), 0);
    }

    #[test]
    fn a_ratio_to_zero_is_a_dash() {
        assert_eq!(ratio(1.0, 0.0), "-");
        assert_eq!(ratio(1.0, 4.0), "0.250x");
    }
}
