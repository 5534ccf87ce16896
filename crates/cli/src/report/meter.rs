//! The arithmetic of progress: share, speed and time left. Time is an argument.
//!
//! Law: the displayed progress never goes backwards. While the list still grows, the total is a lower bound, and no
//! share is shown. A full bar is shown only when the run is over. A time left is shown only if the speed was about the
//! same in both halves of the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

use deltic_net::Outcome;
use deltic_protocol::report::{Action, EntryType, Notice, Totals};
use indicatif::{FormattedDuration, HumanBytes, HumanCount};

use crate::report::numbers::{NumberStyle, counted};

/// State of a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunMeter {
    /// Regular files in the list so far.
    pub(crate) files: u64,
    /// Total bytes of these files.
    pub(crate) bytes: u64,
    /// True if the list is complete.
    pub(crate) complete: bool,
    /// Bytes that are up to date, matched or sent.
    pub(crate) settled: u64,
    /// Files changed so far.
    pub(crate) changed: u64,
    /// The share that was shown last, in units of 1 / [`Self::WHOLE`].
    share: u64,
    /// Bytes on the wire so far, both ways.
    wire: u64,
    /// True if all files are done.
    closing: bool,
    samples: VecDeque<MeterSample>,
}

/// Sample of the progress, at a time after the start.
#[derive(Clone, Copy, Debug)]
struct MeterSample {
    at: Duration,
    settled: u64,
    wire: u64,
}

impl MeterSample {
    /// Settled bytes and bytes on the wire, both per second, from `self` to a later sample.
    fn speeds_to(&self, later: &Self) -> (u64, u64) {
        let millis = (later.at - self.at).as_millis();
        let speed = |before: u64, now: u64| {
            let bytes = u128::from(now.saturating_sub(before)) * 1000;
            bytes.checked_div(millis).map_or(0, |speed| u64::try_from(speed).unwrap_or(u64::MAX))
        };
        (speed(self.settled, later.settled), speed(self.wire, later.wire))
    }
}

/// Phase of a run: the kind of work that takes the most time at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunPhase {
    /// Walking the sources; no byte of a file is settled yet.
    Listing,
    /// Reading and comparing files: hardly any of the settled bytes went over the wire.
    Reading,
    /// Moving new data.
    Transferring,
    /// Assembling and committing files; the data has arrived.
    Writing,
    /// Deleting entries, setting attributes of directories and flushing; all files are done.
    Flushing,
}

impl RunMeter {
    /// Units of a full bar.
    pub(crate) const WHOLE: u64 = 1000;

    /// Counts a notice of the run.
    pub(crate) fn note(&mut self, notice: &Notice) {
        match *notice {
            Notice::Listed { files, bytes, complete, .. } => self.list(files, bytes, complete),
            Notice::Settled { bytes } => self.settled = self.settled.saturating_add(bytes),
            Notice::Changed(ref change) => {
                let goes = change.action == Action::Deleted || change.action.is_none();
                self.changed += u64::from(change.item == EntryType::File && !goes);
            }
            Notice::Wire { bytes } => self.wire = self.wire.max(bytes),
            Notice::Closing => self.closing = true,
            Notice::Entry { .. }
            | Notice::MadeRoot(_)
            | Notice::Agreed(_)
            | Notice::ReadReason { .. }
            | Notice::Removed(_)
            | Notice::Trouble(_)
            | Notice::Finished(_) => {}
        }
    }

    /// Begins another attempt of the run: files are open again.
    pub(crate) const fn begin_again(&mut self) {
        self.closing = false;
    }

    fn list(&mut self, files: u64, bytes: u64, complete: bool) {
        self.files = self.files.max(files);
        self.bytes = self.bytes.max(bytes);
        self.complete |= complete;
    }

    /// Records a sample at `elapsed` after the start.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        self.share = self.share.max(self.share_now());
        if self.samples.back().is_none_or(|last| elapsed >= last.at + SAMPLE_EVERY) {
            let Self { settled, wire, .. } = *self;
            self.samples.push_back(MeterSample { at: elapsed, settled, wire });
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// Returns the settled share, in units of 1 / [`Self::WHOLE`]; 0 while the total is unknown.
    pub(crate) fn share(&self) -> u64 {
        self.share
    }

    fn share_now(&self) -> u64 {
        if !self.complete || self.bytes == 0 {
            return 0;
        }
        let share = u128::from(self.settled) * u128::from(Self::WHOLE) / u128::from(self.bytes);
        // The last unit is shown when the run is over.
        let most = Self::WHOLE - 1;
        u64::try_from(share).map_or(most, |share| share.min(most))
    }

    /// Returns settled bytes per second, over the last seconds.
    pub(crate) fn speed(&self) -> u64 {
        self.speeds().0
    }

    /// Returns settled bytes and bytes on the wire, both per second, over the last seconds.
    fn speeds(&self) -> (u64, u64) {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => first.speeds_to(last),
            _ => (0, 0),
        }
    }

    /// Returns the phase of the run.
    pub(crate) fn phase(&self) -> RunPhase {
        let (settled, wire) = self.speeds();
        match () {
            () if self.closing => RunPhase::Flushing,
            () if self.complete && self.settled >= self.bytes => RunPhase::Writing,
            () if !self.complete && self.settled == 0 => RunPhase::Listing,
            // Equal data is settled many times faster than data could be sent.
            () if wire > 0 && wire.saturating_mul(MOSTLY_SENT) >= settled => RunPhase::Transferring,
            () => RunPhase::Reading,
        }
    }

    /// Returns the time left at this speed. `None` while the total is unknown, no bytes are settled, or the speed is
    /// not yet steady.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.time_left_at_this_speed().filter(|left| !left.is_zero() && self.is_steady())
    }

    /// Returns the time left at this speed, even if the speed is not yet steady.
    fn time_left_at_this_speed(&self) -> Option<Duration> {
        let (left, speed) = (self.bytes.saturating_sub(self.settled), self.speed());
        (self.complete && speed > 0).then(|| Duration::from_secs(left.div_ceil(speed)))
    }

    /// True if the samples cover enough seconds for a forecast, and both halves had about the same speed.
    fn is_steady(&self) -> bool {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return false;
        };
        if last.at - first.at < STEADY_AFTER {
            return false;
        }
        let middle = &self.samples[self.samples.len() / 2];
        let (before, now) = (first.speeds_to(middle).0, middle.speeds_to(last).0);
        before.min(now).saturating_mul(MOST_UNEVEN) >= before.max(now)
    }

    /// Returns rsync's progress line, without its end.
    pub(crate) fn piped(&self, numbers: NumberStyle) -> String {
        let percent = self.share * 100 / Self::WHOLE;
        let time = self.time_left_at_this_speed().unwrap_or_default();
        let bytes = numbers.show(self.settled.min(self.bytes));
        piped(&bytes, percent, self.speed() as f64, time)
    }

    /// Returns rsync's last progress line of a completed run: 100 %, unless something failed.
    pub(crate) fn piped_end(&self, outcome: &Outcome, numbers: NumberStyle) -> String {
        let Outcome { totals, elapsed, .. } = outcome;
        let Totals { files, dirs, links, devices, specials, .. } = totals;
        let names = files + dirs + links + devices + specials;
        let (bytes, percent) = match totals.failed {
            0 => (totals.bytes, 100),
            _ => (self.settled.min(self.bytes), self.share * 100 / Self::WHOLE),
        };
        let rate = totals.transferred_bytes as f64 / elapsed.as_secs_f64().max(0.001);
        let done = format!(" (xfr#{}, to-chk=0/{names})", totals.transferred);
        piped(&numbers.show(bytes), percent, rate, *elapsed) + &done
    }

    /// Returns as many parts as fit into `room` characters, the most important first. `transfer` is the word for
    /// moving data.
    pub(crate) fn line(&self, transfer: &str, room: usize) -> String {
        let bound = if self.complete { "" } else { "at least " };
        let share = (self.complete && self.bytes > 0)
            .then(|| format!("{}%", self.share * 100 / Self::WHOLE));
        let (settled, bytes) = (HumanBytes(self.settled.min(self.bytes)), HumanBytes(self.bytes));
        let (changed, files) = (HumanCount(self.changed), counted(self.files, "file"));
        let phase = self.phase();
        let moves = !matches!(phase, RunPhase::Writing | RunPhase::Flushing);
        let parts = [
            share,
            Some(phase.word(transfer).to_owned()),
            Some(format!("{settled} of {bound}{bytes}")),
            moves.then(|| format!("{}/s", HumanBytes(self.speed()))),
            self.time_left().map(|left| format!("{} left", FormattedDuration(left))),
            Some(format!("{changed} changed of {bound}{files}")),
        ];
        let mut line = String::new();
        for part in parts.into_iter().flatten() {
            let comma = if line.is_empty() { "" } else { ", " };
            if line.len() + comma.len() + part.len() > room {
                break;
            }
            line = line + comma + &part;
        }
        line
    }
}

impl RunPhase {
    /// Returns the name of the phase; `transfer` is the word for moving data.
    pub(crate) fn word(self, transfer: &str) -> &str {
        match self {
            Self::Listing => "listing",
            Self::Reading => "reading",
            Self::Transferring => transfer,
            Self::Writing => "writing",
            Self::Flushing => "flushing",
        }
    }
}

/// Returns rsync's progress line of bytes, share in percent, bytes per second and time.
fn piped(bytes: &str, percent: u64, rate: f64, time: Duration) -> String {
    let (rate, unit) = match rate / 1024.0 {
        rate if rate > 1024.0 * 1024.0 => (rate / 1024.0 / 1024.0, "GB"),
        rate if rate > 1024.0 => (rate / 1024.0, "MB"),
        rate => (rate, "kB"),
    };
    let secs = time.as_secs();
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{bytes:>15} {percent:>3}% {rate:>7.2}{unit}/s {hours:>4}:{minutes:02}:{secs:02}")
}

/// Time between two samples of the speed.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// Number of samples for the speed: the last five seconds.
const SAMPLES: usize = 20;
/// Duration of the samples that a forecast needs.
const STEADY_AFTER: Duration = Duration::from_secs(2);
/// Greatest ratio between the speeds of both halves for which a time left is shown.
const MOST_UNEVEN: u64 = 2;
/// Greatest ratio of settled bytes to bytes on the wire at which most bytes count as sent: literals are compressed,
/// too.
const MOSTLY_SENT: u64 = 8;

#[cfg(test)]
mod tests {
    use deltic_protocol::report::{Change, Differs, Facts};

    use super::*;

    fn listed(files: u64, bytes: u64, complete: bool) -> Notice {
        Notice::Listed { names: files, files, bytes, complete }
    }

    fn after(notices: &[Notice]) -> RunMeter {
        let mut meter = RunMeter::default();
        notices.iter().for_each(|notice| meter.note(notice));
        meter
    }

    #[test]
    fn what_is_deleted_is_not_among_the_changed() {
        let change = |action| {
            let (path, facts) = (deltic_tree::RelPath::parse(b"a").unwrap(), Facts::default());
            let differs = Differs::default();
            Notice::Changed(Change { path, item: EntryType::File, action, differs, facts })
        };
        let meter = after(&[Action::Updated, Action::Deleted, Action::Deleted].map(change));
        assert_eq!(meter.changed, 1);
    }

    #[test]
    fn no_share_is_claimed_while_the_list_grows() {
        let mut meter = after(&[listed(3, 2048, false), Notice::Settled { bytes: 1024 }]);
        meter.tick(Duration::from_secs(1));
        assert_eq!(meter.share(), 0);
        assert_eq!(
            meter.line("sending", usize::MAX),
            "reading, 1.00 KiB of at least 2.00 KiB, 0 B/s, 0 changed of at least 3 files"
        );
    }

    #[test]
    fn what_is_shown_never_goes_backwards() {
        let mut meter = RunMeter::default();
        let (mut share, mut settled, mut bytes) = (0, 0, 0);
        for step in 0..1000u64 {
            // Lists that shrink or grow after their end, and runs that settle more bytes than were listed.
            meter.note(&listed(step % 7, (step * 7919) % 100_000, step % 50 == 49));
            meter.note(&Notice::Settled { bytes: (step * 31) % 400 });
            meter.tick(Duration::from_millis(step * 100));
            assert!(meter.share() >= share && meter.settled >= settled && meter.bytes >= bytes);
            assert!(meter.share() < RunMeter::WHOLE, "the run is not over");
            (share, settled, bytes) = (meter.share(), meter.settled, meter.bytes);
        }
    }

    #[test]
    fn speed_is_that_of_the_last_seconds_and_a_stall_ends_the_forecast() {
        let mut meter = after(&[listed(1, 100 << 20, true)]);
        for quarter in 0..40 {
            meter.tick(Duration::from_millis(quarter * 250));
            meter.note(&Notice::Settled { bytes: 1 << 20 });
        }
        assert_eq!(meter.speed(), 4 << 20);
        assert_eq!(meter.time_left(), Some(Duration::from_secs(15)));
        for quarter in 40..80 {
            meter.tick(Duration::from_millis(quarter * 250));
        }
        assert_eq!((meter.speed(), meter.time_left()), (0, None));
    }

    #[test]
    fn a_complete_list_gives_share_speed_and_time_left() {
        let mut meter = after(&[listed(1200, 4 << 30, true)]);
        for second in 0..5 {
            meter.tick(Duration::from_secs(second));
            meter.note(&Notice::Settled { bytes: 1 << 28 });
            meter.note(&Notice::Wire { bytes: (second + 1) << 28 });
        }
        assert_eq!(
            meter.line("sending", usize::MAX),
            "25%, sending, 1.25 GiB of 4.00 GiB, 256.00 MiB/s, 00:00:11 left, 0 changed of 1,200 files"
        );
    }

    /// Returns a meter of one file of 1 MiB after these steps of settled and sent bytes, with a tick after each, four
    /// per second.
    fn ticked(steps: &[(u64, u64)]) -> RunMeter {
        let mut meter = after(&[listed(1, 1 << 20, true)]);
        let mut wire = 0;
        meter.tick(Duration::ZERO);
        for (n, (settled, sent)) in steps.iter().enumerate() {
            wire += sent;
            meter.note(&Notice::Settled { bytes: *settled });
            meter.note(&Notice::Wire { bytes: wire });
            meter.tick(Duration::from_millis(250 * (n as u64 + 1)));
        }
        meter
    }

    #[test]
    fn a_time_left_needs_seconds_of_steady_speed() {
        assert!(ticked(&[(1000, 1000); 7]).time_left().is_none());
        assert!(ticked(&[(1000, 1000); 8]).time_left().is_some());
        let faster: Vec<_> = (0..12).map(|n| if n < 6 { (10, 10) } else { (1000, 1000) }).collect();
        assert!(ticked(&faster).time_left().is_none());
        assert!(ticked(&[[(1 << 20, 0)].as_slice(), &[(0, 0); 12]].concat()).time_left().is_none());
    }

    #[test]
    fn the_phase_is_what_holds_the_run_up() {
        assert_eq!(RunMeter::default().phase(), RunPhase::Listing);
        assert_eq!(ticked(&[(0, 0); 4]).phase(), RunPhase::Reading);
        assert_eq!(ticked(&[(100_000, 500); 4]).phase(), RunPhase::Reading);
        assert_eq!(ticked(&[(1000, 300); 4]).phase(), RunPhase::Transferring);
        let mut meter = ticked(&[(1 << 19, 1 << 19); 2]);
        assert_eq!((meter.phase(), meter.share()), (RunPhase::Writing, RunMeter::WHOLE - 1));
        assert!(
            meter.line("sending", usize::MAX).starts_with("99%, writing, 1.00 MiB of 1.00 MiB, ")
        );
        meter.note(&Notice::Closing);
        assert_eq!(meter.phase(), RunPhase::Flushing);
    }

    #[test]
    fn lines_for_others_are_those_of_rsync() {
        let mut meter = after(&[listed(1, 4 << 30, true)]);
        meter.tick(Duration::ZERO);
        assert_eq!(
            meter.piped(NumberStyle::Grouped),
            "              0   0%    0.00kB/s    0:00:00"
        );
        meter.note(&Notice::Settled { bytes: 1 << 30 });
        meter.tick(Duration::from_secs(4));
        assert_eq!(
            meter.piped(NumberStyle::Grouped),
            "  1,073,741,824  25%  256.00MB/s    0:00:12"
        );
        let totals = Totals {
            files: 3,
            dirs: 1,
            bytes: 70_000,
            transferred: 2,
            transferred_bytes: 32_768,
            ..Totals::default()
        };
        let mut outcome =
            Outcome { totals, elapsed: Duration::from_secs(3661), ..Outcome::default() };
        assert_eq!(
            meter.piped_end(&outcome, NumberStyle::Grouped),
            "         70,000 100%    0.01kB/s    1:01:01 (xfr#2, to-chk=0/4)"
        );
        outcome.totals.failed = 1;
        let end = |numbers| meter.piped_end(&outcome, numbers);
        assert!(end(NumberStyle::Grouped).starts_with("  1,073,741,824  25% "));
        assert!(end(NumberStyle::Binary).starts_with("          1.00G  25% "));
        assert!(meter.piped(NumberStyle::Plain).starts_with("     1073741824  25% "));
    }

    #[test]
    fn a_narrow_line_lacks_whole_parts() {
        let mut meter = after(&[listed(1200, 4 << 30, true)]);
        meter.tick(Duration::ZERO);
        let line = |room| meter.line("sending", room);
        let whole = line(usize::MAX);
        assert_eq!(line(whole.len()), whole);
        assert_eq!(line(whole.len() - 1), "0%, reading, 0 B of 4.00 GiB, 0 B/s");
        assert_eq!((&*line(12), &*line(2), &*line(1)), ("0%, reading", "0%", ""));
    }
}
