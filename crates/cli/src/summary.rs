//! What a run amounts to, in words: three lines for a person, or every count to the byte (`--stats`).

use std::time::Duration;

use deltic_net::Outcome;
use indicatif::{HumanBytes, HumanCount};

use crate::plan::Summary;

/// The lines that `view` asks for.
pub(crate) fn lines(view: Summary, outcome: &Outcome, dry_run: bool) -> Vec<String> {
    match view {
        Summary::Nothing => Vec::new(),
        Summary::Short => short(outcome, dry_run),
        Summary::Full => full(outcome)
            .into_iter()
            .chain([String::new()])
            .chain(short(outcome, dry_run))
            .collect(),
    }
}

/// What a person wants to know.
fn short(outcome: &Outcome, dry_run: bool) -> Vec<String> {
    let Outcome { totals, traffic, elapsed } = outcome;
    vec![
        format!(
            "sent {}, received {} in {} ({}/s)",
            HumanBytes(traffic.sent),
            HumanBytes(traffic.received),
            duration(*elapsed),
            HumanBytes(per_second(wire(outcome), *elapsed)),
        ),
        format!(
            "{} of {} files transferred: {} new, {} already there",
            HumanCount(totals.transferred),
            HumanCount(totals.files),
            HumanBytes(totals.literal),
            HumanBytes(totals.matched),
        ),
        format!(
            "total size is {}, speedup is {}{}",
            HumanBytes(totals.bytes),
            speedup(outcome),
            if dry_run { " (dry run: nothing was changed)" } else { "" },
        ),
    ]
}

/// Every count, in rsync's words.
fn full(outcome: &Outcome) -> Vec<String> {
    let Outcome { totals, traffic, elapsed } = outcome;
    vec![
        format!("Number of files: {}", by_kind(outcome)),
        format!("Number of created files: {}", HumanCount(totals.created)),
        format!("Number of deleted files: {}", HumanCount(totals.deleted)),
        format!("Number of regular files transferred: {}", HumanCount(totals.transferred)),
        format!("Number of failed files: {}", HumanCount(totals.failed)),
        format!("Total file size: {}", exact(totals.bytes)),
        format!("Total transferred file size: {}", exact(totals.transferred_bytes)),
        format!("Literal data: {}", exact(totals.literal)),
        format!("Matched data: {}", exact(totals.matched)),
        format!("Total bytes sent: {}", exact(traffic.sent)),
        format!("Total bytes received: {}", exact(traffic.received)),
        format!("Elapsed: {:.3} seconds", elapsed.as_secs_f64()),
        format!("Speedup: {}", speedup(outcome)),
    ]
}

/// `5 (reg: 2, dir: 2, link: 1)`, without the kinds that do not occur.
fn by_kind(outcome: &Outcome) -> String {
    let totals = &outcome.totals;
    let kinds = [
        ("reg", totals.files),
        ("dir", totals.dirs),
        ("link", totals.links),
        ("dev", totals.devices),
        ("special", totals.specials),
    ];
    let named: Vec<_> = kinds
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind}: {}", HumanCount(*count)))
        .collect();
    let all = HumanCount(kinds.iter().map(|(_, count)| count).sum());
    if named.is_empty() { all.to_string() } else { format!("{all} ({})", named.join(", ")) }
}

/// `1,234,567 bytes (1.18 MiB)`.
fn exact(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ => format!("{} bytes ({})", HumanCount(bytes), HumanBytes(bytes)),
    }
}

/// `0.42 s`, `1 min 05 s`, `2 h 03 min`.
fn duration(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.2} s", elapsed.as_secs_f64()),
        secs @ 60..3600 => format!("{} min {:02} s", secs / 60, secs % 60),
        secs => format!("{} h {:02} min", secs / 3600, secs % 3600 / 60),
    }
}

fn wire(outcome: &Outcome) -> u64 {
    outcome.traffic.sent.saturating_add(outcome.traffic.received)
}

fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    let rate = (u128::from(bytes) * 1000).checked_div(elapsed.as_millis()).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Total size over bytes on the wire, as rsync counts it; a dash where nothing went over a wire.
pub(crate) fn speedup(outcome: &Outcome) -> String {
    match wire(outcome) {
        0 => "-".to_owned(),
        wire => format!("{:.2}", outcome.totals.bytes as f64 / wire as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_net::Traffic;
    use deltic_protocol::report::Totals;

    fn outcome() -> Outcome {
        Outcome {
            totals: Totals {
                files: 1200,
                dirs: 30,
                links: 0,
                devices: 0,
                specials: 0,
                bytes: 5 << 30,
                created: 3,
                transferred: 2,
                transferred_bytes: 1 << 30,
                literal: 1_234_567,
                matched: (1 << 30) - 1_234_567,
                deleted: 1,
                failed: 0,
            },
            traffic: Traffic { sent: 1_300_000, received: 512 },
            elapsed: Duration::from_millis(2500),
        }
    }

    #[test]
    fn a_person_reads_three_lines() {
        assert_eq!(
            lines(Summary::Short, &outcome(), false).join("\n"),
            "sent 1.24 MiB, received 512 B in 2.50 s (508.01 KiB/s)\n\
             2 of 1,200 files transferred: 1.18 MiB new, 1022.82 MiB already there\n\
             total size is 5.00 GiB, speedup is 4128.15"
        );
        let dry = lines(Summary::Short, &outcome(), true);
        assert!(dry.last().unwrap().ends_with("(dry run: nothing was changed)"));
    }

    #[test]
    fn statistics_count_to_the_byte_in_the_words_of_rsync() {
        assert_eq!(
            full(&outcome()).join("\n"),
            "Number of files: 1,230 (reg: 1,200, dir: 30)\n\
             Number of created files: 3\n\
             Number of deleted files: 1\n\
             Number of regular files transferred: 2\n\
             Number of failed files: 0\n\
             Total file size: 5,368,709,120 bytes (5.00 GiB)\n\
             Total transferred file size: 1,073,741,824 bytes (1.00 GiB)\n\
             Literal data: 1,234,567 bytes (1.18 MiB)\n\
             Matched data: 1,072,507,257 bytes (1022.82 MiB)\n\
             Total bytes sent: 1,300,000 bytes (1.24 MiB)\n\
             Total bytes received: 512 bytes\n\
             Elapsed: 2.500 seconds\n\
             Speedup: 4128.15"
        );
    }

    #[test]
    fn a_run_that_moved_nothing_has_no_speedup() {
        assert_eq!(speedup(&Outcome::default()), "-");
        assert_eq!(by_kind(&Outcome::default()), "0");
    }

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(duration(Duration::from_millis(420)), "0.42 s");
        assert_eq!(duration(Duration::from_secs(65)), "1 min 05 s");
        assert_eq!(duration(Duration::from_secs(7380)), "2 h 03 min");
    }
}
