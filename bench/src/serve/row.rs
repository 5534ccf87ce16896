//! Results of a load: a row of the table.

use std::time::Duration;

use super::clients::ClientSample;
use crate::machine::processors;
use crate::median::median;

/// Results of a way to sync under a load.
pub(super) struct LoadRow {
    pub(super) way: String,
    pub(super) edit: u64,
    pub(super) clients: usize,
    pub(super) samples: Vec<ClientSample>,
    pub(super) failed: u64,
    /// Processor time per sync of the server and of the clients, in milliseconds.
    pub(super) server_ms: f64,
    pub(super) client_ms: f64,
    pub(super) wall: Duration,
    pub(super) resident_kib: u64,
}

impl LoadRow {
    /// Returns the number of clients of the paper's regular load that this machine supports, judged by processor time.
    pub(super) fn supported_clients(&self) -> f64 {
        1e3 * PAPERS_PERIOD * f64::from(processors().get()) / self.server_ms
    }

    /// Returns the median number of kilobytes to the server per sync.
    pub(super) fn up_kb(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.up as f64)) / 1e3
    }

    /// Returns why wall times are void: the clients themselves lacked processor time.
    fn reason_void(&self) -> Option<String> {
        let late = at_share(&self.samples, 0.99, |sample| sample.late);
        let share = self.client_ms * self.samples.len() as f64
            / (self.wall.as_secs_f64() * 1e3 * f64::from(processors().get()));
        match (late > LATE, share > BUSY) {
            (true, _) => Some(format!("{} ms late", late.as_millis())),
            (_, true) => Some(format!("{:.0} % busy", share * 1e2)),
            _ => None,
        }
    }

    /// Returns the cells of a table row. `floor_ms` is the lower bound of the server's processor time.
    pub(super) fn cells(&self, floor_ms: Option<f64>) -> [String; 16] {
        let (samples, void) = (&self.samples, self.reason_void());
        let millis = |share| match void {
            Some(_) => "void".into(),
            None => format!(
                "{:.1}",
                at_share(samples, share, |sample| sample.elapsed).as_secs_f64() * 1e3
            ),
        };
        let down = median(samples.iter().map(|sample| sample.down as f64)) / 1e3;
        let to_floor = floor_ms.map(|floor| format!("{:.2}", self.server_ms / floor));
        [
            self.way.clone(),
            self.edit.to_string(),
            self.clients.to_string(),
            samples.len().to_string(),
            self.failed.to_string(),
            format!("{:.0}", samples.len() as f64 / self.wall.as_secs_f64()),
            format!("{:.2}", self.server_ms),
            to_floor.unwrap_or_else(|| "-".into()),
            format!("{:.0}", self.supported_clients()),
            millis(0.5),
            millis(0.99),
            format!("{:.1}", self.up_kb()),
            format!("{down:.1}"),
            format!("{:.1}", self.resident_kib as f64 / 1024.0),
            format!("{:.2}", self.client_ms),
            void.clone().unwrap_or_else(|| "no".into()),
        ]
    }
}

/// Seconds between two syncs of a client in the paper.
const PAPERS_PERIOD: f64 = 10.0;
/// Wall times are void above these limits: delay of the 99th percentile, and share of the processors used by the
/// clients.
const LATE: Duration = Duration::from_millis(10);
const BUSY: f64 = 0.6;

pub(super) const HEADER: [&str; 16] = [
    "way",
    "edit B",
    "clients",
    "syncs",
    "failed",
    "syncs/s",
    "server ms",
    "to floor",
    "bears",
    "p50 ms",
    "p99 ms",
    "up kB",
    "down kB",
    "RSS MiB",
    "client ms",
    "void",
];

/// Returns the percentile of a time, with `share` from 0 to 1.
pub(super) fn at_share(
    samples: &[ClientSample],
    share: f64,
    time: fn(&ClientSample) -> Duration,
) -> Duration {
    let mut times: Vec<_> = samples.iter().map(time).collect();
    times.sort_unstable();
    crate::median::at_share(&times, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_late_or_busy_clients_are_void() {
        let row = |late_ms, client_ms| {
            let (elapsed, late) = (Duration::from_millis(5), Duration::from_millis(late_ms));
            LoadRow {
                way: "deltic".into(),
                edit: 1,
                clients: 1,
                samples: vec![ClientSample { elapsed, up: 1, down: 1, late }],
                failed: 0,
                server_ms: 3.0,
                client_ms,
                wall: Duration::from_millis(1),
                resident_kib: 1,
            }
        };
        let told = |row: LoadRow| {
            let cells = row.cells(Some(1.5));
            [7, 9, 15].map(|at: usize| cells[at].clone())
        };
        assert_eq!(told(row(10, 0.0)), ["2.00", "5.0", "no"]);
        assert_eq!(told(row(11, 0.0)), ["2.00", "void", "11 ms late"]);
        let busy = f64::from(processors().get());
        assert_eq!(told(row(0, busy)), ["2.00", "void", "100 % busy"]);
    }
}
