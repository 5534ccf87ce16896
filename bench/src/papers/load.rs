//! Processor time that other programs take during a run.

use std::fs;
use std::time::Instant;

use nix::sys::resource::UsageWho;

use crate::machine::processors;
use crate::sync::link::spent;

/// The clocks at the begin of a run.
pub(crate) struct LoadWatch {
    begun: Instant,
    /// Processor time of the machine and of this process with its children, in seconds.
    spent: Option<[f64; 2]>,
}

impl LoadWatch {
    /// Starts to watch.
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), spent: now() }
    }

    /// Returns the processor time of other programs since the start, in percent of all processors. 0 if the system does
    /// not tell.
    pub(crate) fn percent(&self) -> f64 {
        let (Some(before), Some(after)) = (self.spent, now()) else { return 0.0 };
        let all = self.begun.elapsed().as_secs_f64() * f64::from(processors().get());
        share_of_others(before, after, all)
    }
}

/// Returns the processor time of other programs in percent of `all`, the time that all processors had in seconds.
fn share_of_others(before: [f64; 2], after: [f64; 2], all: f64) -> f64 {
    let others = (after[0] - before[0]) - (after[1] - before[1]);
    if all > 0.0 { (others / all * 100.0).max(0.0) } else { 0.0 }
}

fn now() -> Option<[f64; 2]> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let machine = busy_ticks(stat.lines().next()?)? as f64 / TICKS;
    let own = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| spent(who).ok());
    let own: f64 = own.into_iter().flatten().map(|time| time.as_secs_f64()).sum();
    Some([machine, own])
}

/// Returns the ticks of the first line of `/proc/stat` in which a processor was busy: all but idle and waiting for
/// input, and without the guests, which user time includes.
fn busy_ticks(line: &str) -> Option<u64> {
    let ticks = line.strip_prefix("cpu ")?.split_whitespace().take(8);
    let ticks = ticks.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    Some(ticks.iter().enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, n)| n).sum())
}

/// Ticks of `/proc/stat` in a second.
const TICKS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_ticks_are_not_busy() {
        assert_eq!(busy_ticks("cpu  10 20 30 1000 5000 1 2 3 400 500"), Some(66));
        assert_eq!(busy_ticks("cpu0 10 20 30 1000"), None);
    }

    #[test]
    fn time_of_this_process_is_not_time_of_others() {
        for (after, percent) in [([12.0, 3.0], 0.0), ([12.0, 2.0], 25.0), ([11.0, 3.0], 0.0)] {
            assert!((share_of_others([10.0, 1.0], after, 4.0) - percent).abs() < 1e-9, "{after:?}");
        }
    }
}
