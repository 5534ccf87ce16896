//! Metrics in the text format of Prometheus, on a separate listener.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_net::embed::Outcome;

use crate::lock;

/// Counters since the start. Labels contain only volumes and outcomes, and no text that a client chooses.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) wrong_tokens: AtomicU64,
    pub(crate) unwritten: AtomicU64,
    /// Answers, by the first digit of the status.
    answers: [AtomicU64; 6],
    sessions: Mutex<BTreeMap<(String, &'static str), Sessions>>,
}

#[derive(Debug, Default)]
struct Sessions {
    count: u64,
    received: u64,
    sent: u64,
    literal: u64,
    matched: u64,
    deleted: u64,
}

impl Metrics {
    pub(crate) fn answer(&self, status: u16) {
        let class = usize::from(status / 100).min(self.answers.len() - 1);
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a finished session, or a failed session if `outcome` is `None`.
    pub(crate) fn session(&self, volume: &str, outcome: Option<&Outcome>) {
        let key = (volume.to_owned(), if outcome.is_some() { "done" } else { "failed" });
        let mut sessions = lock(&self.sessions);
        let sum = sessions.entry(key).or_default();
        sum.count += 1;
        let Some(Outcome { totals, traffic, .. }) = outcome else { return };
        sum.received += traffic.received;
        sum.sent += traffic.sent;
        sum.literal += totals.literal;
        sum.matched += totals.matched;
        sum.deleted += totals.deleted;
    }

    /// Returns all metrics in the text format of Prometheus. `gauges` are names and current values.
    pub(crate) fn text(&self, gauges: &[(&str, u64)]) -> String {
        let mut text = String::new();
        let mut series = |name: &str, kind: &str, values: &[(String, u64)]| {
            let _ = writeln!(text, "# TYPE deltic_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "deltic_{name}{labels} {value}");
            }
        };
        for (name, value) in gauges {
            series(name, "gauge", &[(String::new(), *value)]);
        }
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for (name, count) in [
            ("connections_total", &self.connections),
            ("connections_turned_away_total", &self.turned_away),
            ("wrong_tokens_total", &self.wrong_tokens),
            ("audit_lines_unwritten_total", &self.unwritten),
        ] {
            series(name, "counter", &[(String::new(), now(count))]);
        }
        let answers = self.answers.iter().enumerate().skip(1);
        let answers =
            answers.map(|(class, count)| (format!("{{outcome=\"{class}xx\"}}"), now(count)));
        series("answers_total", "counter", &answers.collect::<Vec<_>>());
        let sessions = lock(&self.sessions);
        let mut sums = |name: &str, of: fn(&Sessions) -> u64| {
            let labels = sessions.iter().map(|((volume, outcome), sum)| {
                (format!("{{volume=\"{volume}\",outcome=\"{outcome}\"}}"), of(sum))
            });
            series(name, "counter", &labels.collect::<Vec<_>>());
        };
        sums("sessions_total", |sum| sum.count);
        sums("received_bytes_total", |sum| sum.received);
        sums("sent_bytes_total", |sum| sum.sent);
        sums("literal_bytes_total", |sum| sum.literal);
        sums("matched_bytes_total", |sum| sum.matched);
        sums("deleted_names_total", |sum| sum.deleted);
        text
    }
}
