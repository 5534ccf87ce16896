//! Summary of a run: three lines for a person at a terminal, or rsync's lines, to the byte.

use std::time::Duration;

use deltic_net::Outcome;
use deltic_net::embed::SumCounts;
use deltic_net::plan::StoreTraffic;
use deltic_protocol::report::{Action, Change, EntryType, Totals};
use indicatif::{HumanBytes, HumanCount};

use crate::report::exit::Exit;
use crate::report::link::link_lines;
use crate::report::numbers::{NumberStyle, counted};
use crate::report::view::{OutputView, SummaryForm};

/// rsync's words for kinds of names, in its order.
const KINDS: [&str; 5] = ["reg", "dir", "link", "dev", "special"];

/// Counts of created and deleted names by kind, as far as each name was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeTally {
    created: [u64; KINDS.len()],
    deleted: [u64; KINDS.len()],
    /// Files that were matched against a file of another name.
    moved: u64,
    /// Sent files that shared data with another version.
    matched: u64,
}

impl ChangeTally {
    /// Counts a change.
    pub(crate) fn note(&mut self, change: &Change) {
        self.moved += u64::from(change.facts.from.is_some());
        let is_sent = matches!(change.action, Action::Created | Action::Updated);
        let is_file = change.item == EntryType::File && change.facts.linked.is_none();
        self.matched += u64::from(is_sent && is_file && change.facts.literal < change.facts.len);
        let counts = match change.action {
            Action::Created => &mut self.created,
            Action::Deleted => &mut self.deleted,
            _ => return,
        };
        counts[match change.item {
            EntryType::File => 0,
            EntryType::Dir => 1,
            EntryType::Symlink => 2,
            EntryType::Device => 3,
            EntryType::Special => 4,
        }] += 1;
    }
}

impl ChangeTally {
    /// Sent files that shared data with another version.
    pub(crate) const fn matched(&self) -> u64 {
        self.matched
    }

    /// Names of all kinds that were deleted, or would be in a dry run.
    fn deleted(&self) -> u64 {
        self.deleted.iter().sum()
    }
}

/// Returns the lines of the summary that `view` selects.
pub(crate) fn lines(
    view: &OutputView,
    outcome: &Outcome,
    tally: &ChangeTally,
    exit: Exit,
) -> Vec<String> {
    let dry_run = view.dry_run;
    match view.summary {
        SummaryForm::Nothing => Vec::new(),
        SummaryForm::Line => vec![line(outcome, exit)],
        SummaryForm::Short => {
            // A dry run reports each name, and counts the names that would be deleted.
            let held =
                if dry_run { tally.deleted().saturating_sub(outcome.totals.deleted) } else { 0 };
            short(outcome, held, dry_run, view.color, exit)
        }
        SummaryForm::Totals => totals(outcome, dry_run, view.numbers),
        SummaryForm::Full => {
            let full = full(outcome, tally, view.numbers);
            full.into_iter().chain(totals(outcome, dry_run, view.numbers)).collect()
        }
    }
}

/// Returns all counts in one line. Sizes are in bytes, regardless of the style of other figures.
fn line(outcome: &Outcome, exit: Exit) -> String {
    let Outcome { totals, traffic, elapsed, .. } = outcome;
    let counts = [
        ("files", totals.files),
        ("bytes", totals.bytes),
        ("created", totals.created),
        ("transferred", totals.transferred),
        ("deleted", totals.deleted),
        ("failed", totals.failed),
        ("literal_bytes", totals.literal),
        ("matched_bytes", totals.matched),
        ("resumed_bytes", totals.resumed),
        ("sent_bytes", traffic.sent),
        ("received_bytes", traffic.received),
    ];
    let counts = counts.map(|(name, count)| format!("{name}={count}")).join(" ");
    format!("{counts} seconds={:.3} exit_code={}", elapsed.as_secs_f64(), exit.code())
}

/// Returns the lines for a person; `held` is the number of deletions held back.
fn short(outcome: &Outcome, held: u64, dry_run: bool, color: bool, exit: Exit) -> Vec<String> {
    let paint =
        |code, text: String| if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    let Outcome { totals, traffic, elapsed, .. } = outcome;
    let failed = (totals.failed > 0)
        .then(|| paint("31", format!("{}, see above", counted(totals.failed, "error"))));
    let is_well = exit == Exit::Success && held == 0;
    let told = [
        paint(if is_well { "32" } else { "33" }, transfer_line(totals, held, dry_run)),
        format!(
            "sent {}, received {} in {} ({}/s)",
            HumanBytes(traffic.sent),
            HumanBytes(traffic.received),
            duration(*elapsed),
            HumanBytes(per_second(wire(outcome), *elapsed) as u64),
        ),
        format!(
            "total size is {}, speedup is {}{}",
            HumanBytes(totals.bytes),
            NumberStyle::Grouped.ratio(speedup(outcome)),
            if dry_run { " (dry run: nothing was changed)" } else { "" },
        ),
    ];
    told.into_iter().chain(failed).collect()
}

/// Returns `2 of 5 files transferred: 1.18 MiB new, 1.02 GiB already there, 7 names removed`, without the parts that
/// are zero, and with the number of deletions `held` back.
fn transfer_line(totals: &Totals, held: u64, dry_run: bool) -> String {
    let (transferred, removed) = match dry_run {
        true => ("to transfer", "to remove"),
        false => ("transferred", "removed"),
    };
    let new = (totals.literal > 0).then(|| format!("{} new", HumanBytes(totals.literal)));
    let matched =
        (totals.matched > 0).then(|| format!("{} already there", HumanBytes(totals.matched)));
    let resumed = (totals.resumed > 0)
        .then(|| format!("{} of it left by an interrupted run", HumanBytes(totals.resumed)));
    let bytes: Vec<_> = new.into_iter().chain(matched).chain(resumed).collect();
    let colon = if bytes.is_empty() { "" } else { ": " };
    let held_back = (held > 0).then(|| format!("; {} held back", HumanCount(held)));
    let removed = match totals.deleted {
        0 if held == 0 => String::new(),
        names => format!(", {} {removed}", counted(names, "name")),
    };
    format!(
        "{} of {} {transferred}{colon}{}{removed}{}",
        HumanCount(totals.transferred),
        counted(totals.files, "file"),
        bytes.join(", "),
        held_back.unwrap_or_default(),
    )
}

/// Returns rsync's last two lines, after an empty line.
fn totals(outcome: &Outcome, dry_run: bool, numbers: NumberStyle) -> Vec<String> {
    let Outcome { totals, traffic, elapsed, .. } = outcome;
    vec![
        String::new(),
        format!(
            "sent {} bytes  received {} bytes  {} bytes/sec",
            numbers.show(traffic.sent),
            numbers.show(traffic.received),
            numbers.decimal(per_second(wire(outcome), *elapsed)),
        ),
        format!(
            "total size is {}  speedup is {}{}",
            numbers.show(totals.bytes),
            numbers.ratio(speedup(outcome)),
            if dry_run { " (DRY RUN)" } else { "" },
        ),
    ]
}

/// Returns rsync's line for a log without a summary; its digits are never grouped.
pub(crate) fn logged(outcome: &Outcome) -> String {
    let Outcome { totals, traffic, .. } = outcome;
    let [sent, received, size] = [traffic.sent, traffic.received, totals.bytes];
    format!("sent {sent} bytes  received {received} bytes  total size {size}")
}

/// Returns all counts, in rsync's words and order.
fn full(outcome: &Outcome, tally: &ChangeTally, numbers: NumberStyle) -> Vec<String> {
    let Outcome { totals, traffic, .. } = outcome;
    let bytes = |label: &str, n| format!("{label}: {} bytes", numbers.show(n));
    let kinds = [totals.files, totals.dirs, totals.links, totals.devices, totals.specials];
    let all = kinds.iter().sum();
    let mut lines = vec![
        String::new(),
        format!("Number of files: {}", by_kind(all, kinds, numbers)),
        format!("Number of created files: {}", by_kind(totals.created, tally.created, numbers)),
        format!("Number of deleted files: {}", by_kind(totals.deleted, tally.deleted, numbers)),
        format!("Number of regular files transferred: {}", numbers.count(totals.transferred)),
        bytes("Total file size", totals.bytes),
        bytes("Total transferred file size", totals.transferred_bytes),
        bytes("Literal data", totals.literal),
        bytes("Matched data", totals.matched),
        "File list size: 0".to_owned(),
        format!("Total bytes sent: {}", numbers.show(traffic.sent)),
        format!("Total bytes received: {}", numbers.show(traffic.received)),
    ];
    // Lines that rsync does not have, shown only if their counts are not zero.
    if totals.resumed > 0 {
        let line = bytes("Matched data left by an interrupted run", totals.resumed);
        lines.insert(RESUMED_LINE, line);
    }
    if tally.moved > 0 {
        let count = numbers.count(tally.moved);
        lines.insert(MOVED_LINE, format!("Number of files matched under other names: {count}"));
    }
    lines.extend(sums(outcome.sums, numbers));
    if outcome.store.shifted_units > 0 {
        let StoreTraffic { shifted_units, shifted_bytes, .. } = outcome.store;
        let [units, bytes] = [numbers.count(shifted_units), numbers.show(shifted_bytes)];
        lines.push(format!("Units found at other offsets: {units} ({bytes} bytes)"));
    }
    // Short runs have the lines of rsync alone.
    if outcome.link.packing.original > 0 {
        lines.extend(link_lines(&outcome.link));
    }
    lines
}

/// Returns the line on the sources of sums, if a strategy of a paper or `--trust-sums` used sums.
pub(crate) fn sums(
    SumCounts { stored, computed, .. }: SumCounts,
    numbers: NumberStyle,
) -> Option<String> {
    let all = stored.saturating_add(computed);
    let [stored, shown] = [stored, all].map(|count| numbers.count(count));
    (all > 0).then(|| format!("Sums from storage: {stored} of {shown}"))
}

/// Index of the line after the number of transferred files.
const MOVED_LINE: usize = 5;

/// Index of the line behind the matched data.
const RESUMED_LINE: usize = 9;

/// Returns `5 (reg: 2, dir: 2, link: 1)`, without kinds that do not occur; only the total if not all names were
/// reported.
fn by_kind(all: u64, kinds: [u64; KINDS.len()], numbers: NumberStyle) -> String {
    let named: Vec<_> = KINDS
        .iter()
        .zip(kinds)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind}: {}", numbers.count(count)))
        .collect();
    let shown = numbers.count(all);
    let complete = all > 0 && kinds.iter().sum::<u64>() == all;
    if complete { format!("{shown} ({})", named.join(", ")) } else { shown }
}

/// Returns a duration as `0.42 s`, `1 min 05 s` or `2 h 03 min`.
pub(crate) fn duration(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.2} s", elapsed.as_secs_f64()),
        secs @ 60..3600 => format!("{} min {:02} s", secs / 60, secs % 60),
        secs => format!("{} h {:02} min", secs / 3600, secs % 3600 / 60),
    }
}

fn wire(outcome: &Outcome) -> u64 {
    outcome.traffic.sent.saturating_add(outcome.traffic.received)
}

fn per_second(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// Returns total size over bytes on the wire, as rsync defines the speedup.
fn speedup(outcome: &Outcome) -> f64 {
    match wire(outcome) {
        0 => 0.0,
        wire => outcome.totals.bytes as f64 / wire as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_net::Traffic;

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
                resumed: 0,
                deleted: 7,
                failed: 0,
            },
            traffic: Traffic { sent: 1_300_000, received: 512 },
            elapsed: Duration::from_millis(2500),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_person_reads_three_lines() {
        assert_eq!(
            short(&outcome(), 0, false, false, Exit::Success).join("\n"),
            "2 of 1,200 files transferred: 1.18 MiB new, 1022.82 MiB already there, 7 names removed\n\
             sent 1.24 MiB, received 512 B in 2.50 s (508.01 KiB/s)\n\
             total size is 5.00 GiB, speedup is 4,128.15"
        );
        let mut resumed = outcome();
        resumed.totals.resumed = 20 << 20;
        assert_eq!(
            short(&resumed, 0, false, false, Exit::Success)[0],
            "2 of 1,200 files transferred: 1.18 MiB new, 1022.82 MiB already there, \
             20.00 MiB of it left by an interrupted run, 7 names removed"
        );
        let dry = short(&outcome(), 0, true, false, Exit::Success);
        assert!(dry.last().unwrap().ends_with("(dry run: nothing was changed)"));
    }

    #[test]
    fn a_summary_tells_nothing_of_which_there_was_nothing() {
        let first = |change: fn(&mut Totals), dry_run| {
            let mut outcome = outcome();
            change(&mut outcome.totals);
            short(&outcome, 0, dry_run, false, Exit::Success).remove(0)
        };
        assert!(first(|totals| totals.deleted = 0, false).ends_with("already there"));
        let idle = Totals { files: 3, ..Totals::default() };
        let unchanged = Outcome { totals: idle, ..outcome() };
        assert_eq!(
            short(&unchanged, 0, false, false, Exit::Success)[0],
            "0 of 3 files transferred"
        );
        let one = |totals: &mut Totals| {
            *totals = Totals { files: 1, transferred: 1, literal: 3, ..Totals::default() };
        };
        assert_eq!(first(one, false), "1 of 1 file transferred: 3 B new");
        let dry = |totals: &mut Totals| {
            *totals = Totals { files: 2, transferred: 1, deleted: 1, ..Totals::default() };
        };
        assert_eq!(first(dry, true), "1 of 2 files to transfer, 1 name to remove");
        let held = short(&unchanged, 3, true, true, Exit::Success);
        assert_eq!(
            held[0],
            "\x1b[33m0 of 3 files to transfer, 0 names to remove; 3 held back\x1b[0m"
        );
    }

    #[test]
    fn colours_say_whether_all_went_well() {
        assert!(short(&outcome(), 0, false, true, Exit::Success)[0].starts_with("\x1b[32m2 of"));
        let held_back = short(&outcome(), 0, false, true, Exit::DeleteLimit);
        assert!(held_back[0].starts_with("\x1b[33m"), "no green where the code is not 0");
        let mut bad = outcome();
        bad.totals.failed = 3;
        let lines = short(&bad, 0, false, true, Exit::Partial);
        assert!(lines[0].starts_with("\x1b[33m"));
        assert_eq!(lines[3], "\x1b[31m3 errors, see above\x1b[0m");
        assert!(!short(&bad, 0, false, false, Exit::Partial).join("").contains('\x1b'));
        bad.totals.failed = 1;
        assert_eq!(short(&bad, 0, false, false, Exit::Partial)[3], "1 error, see above");
    }

    #[test]
    fn statistics_are_rsyncs_lines() {
        let tally = ChangeTally {
            created: [1, 1, 1, 0, 0],
            deleted: [1, 0, 0, 0, 0],
            ..ChangeTally::default()
        };
        let lines = |numbers| {
            let full = full(&outcome(), &tally, numbers);
            full.into_iter().chain(totals(&outcome(), true, numbers)).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            lines(NumberStyle::Grouped),
            "\n\
             Number of files: 1,230 (reg: 1,200, dir: 30)\n\
             Number of created files: 3 (reg: 1, dir: 1, link: 1)\n\
             Number of deleted files: 7\n\
             Number of regular files transferred: 2\n\
             Total file size: 5,368,709,120 bytes\n\
             Total transferred file size: 1,073,741,824 bytes\n\
             Literal data: 1,234,567 bytes\n\
             Matched data: 1,072,507,257 bytes\n\
             File list size: 0\n\
             Total bytes sent: 1,300,000\n\
             Total bytes received: 512\n\
             \n\
             sent 1,300,000 bytes  received 512 bytes  520,204.80 bytes/sec\n\
             total size is 5,368,709,120  speedup is 4,128.15 (DRY RUN)"
        );
        let store = StoreTraffic { received: 9, shifted_units: 2000, shifted_bytes: 131_072_000 };
        let found = full(&Outcome { store, ..outcome() }, &tally, NumberStyle::Grouped);
        let last = found.last().expect("there are lines");
        assert_eq!(last, "Units found at other offsets: 2,000 (131,072,000 bytes)");
        let moved = full(&outcome(), &ChangeTally { moved: 1200, ..tally }, NumberStyle::Grouped);
        assert_eq!(moved[5], "Number of files matched under other names: 1,200");
        let mut resumed = outcome();
        resumed.totals.resumed = 1000;
        let full = full(&resumed, &tally, NumberStyle::Grouped);
        assert_eq!(full[9], "Matched data left by an interrupted run: 1,000 bytes");
        assert!(lines(NumberStyle::Thousands).contains("\nTotal file size: 5.37G bytes\n"));
        assert_eq!(
            logged(&outcome()),
            "sent 1300000 bytes  received 512 bytes  total size 5368709120"
        );
    }

    #[test]
    fn one_line_has_every_count() {
        assert_eq!(
            line(&outcome(), Exit::Vanished),
            "files=1200 bytes=5368709120 created=3 transferred=2 deleted=7 failed=0 \
             literal_bytes=1234567 matched_bytes=1072507257 resumed_bytes=0 sent_bytes=1300000 received_bytes=512 \
             seconds=2.500 exit_code=24"
        );
    }

    #[test]
    fn a_run_that_moved_nothing_has_no_speedup() {
        assert_eq!(speedup(&Outcome::default()), 0.0);
        assert_eq!(by_kind(0, [0; KINDS.len()], NumberStyle::Grouped), "0");
    }

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(duration(Duration::from_millis(420)), "0.42 s");
        assert_eq!(duration(Duration::from_secs(65)), "1 min 05 s");
        assert_eq!(duration(Duration::from_secs(7380)), "2 h 03 min");
    }
}
