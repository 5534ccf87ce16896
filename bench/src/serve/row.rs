//! Figures of a load: a row of the table.

use std::time::Duration;

use super::clients::Sample;
use crate::machine::processors;
use crate::median::median;

/// Figures of one way under the load.
pub(super) struct Row {
    pub(super) way: String,
    pub(super) edit: u64,
    pub(super) clients: usize,
    pub(super) samples: Vec<Sample>,
    pub(super) failed: u64,
    /// Processor time of the server and of the clients for a sync, in milliseconds.
    pub(super) server_ms: f64,
    pub(super) client_ms: f64,
    pub(super) wall: Duration,
    pub(super) resident_kib: u64,
    /// Longest time by which a client was late.
    pub(super) late: Duration,
}

impl Row {
    /// Clients of the paper's regular load that this machine bears, by processor time alone.
    pub(super) fn bears(&self) -> f64 {
        1e3 * PAPERS_PERIOD * f64::from(processors().get()) / self.server_ms
    }

    /// Kilobytes to the server, of the sync in the middle.
    pub(super) fn up_kb(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.up as f64)) / 1e3
    }

    pub(super) fn cells(&self) -> [String; 15] {
        let Self { samples, late, .. } = self;
        let millis = |share| format!("{:.1}", at_share(samples, share) * 1e3);
        let down = median(samples.iter().map(|sample| sample.down as f64)) / 1e3;
        let late = if *late > LATE { format!("{} ms late", late.as_millis()) } else { "no".into() };
        [
            self.way.clone(),
            self.edit.to_string(),
            self.clients.to_string(),
            samples.len().to_string(),
            self.failed.to_string(),
            format!("{:.0}", samples.len() as f64 / self.wall.as_secs_f64()),
            format!("{:.2}", self.server_ms),
            format!("{:.0}", self.bears()),
            millis(0.5),
            millis(0.99),
            format!("{:.1}", self.up_kb()),
            format!("{down:.1}"),
            format!("{:.1}", self.resident_kib as f64 / 1024.0),
            format!("{:.2}", self.client_ms),
            late,
        ]
    }
}

/// Seconds between two syncs of a client of the paper's.
const PAPERS_PERIOD: f64 = 10.0;
/// Clients that begin later than this are not to be trusted with times.
const LATE: Duration = Duration::from_millis(10);

pub(super) const HEADER: [&str; 15] = [
    "way",
    "edit B",
    "clients",
    "syncs",
    "failed",
    "syncs/s",
    "server ms",
    "bears",
    "p50 ms",
    "p99 ms",
    "up kB",
    "down kB",
    "RSS MiB",
    "client ms",
    "late",
];

/// Seconds of the sync below which this share of all lies.
pub(super) fn at_share(samples: &[Sample], share: f64) -> f64 {
    let mut times: Vec<_> = samples.iter().map(|sample| sample.elapsed.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}
