//! The arithmetic of progress: how far, how fast, how much longer. Time is an argument.
//!
//! Its law: what is shown never goes backwards. While the list still grows the total is a lower bound, and no share
//! of it is claimed.

use std::collections::VecDeque;
use std::time::Duration;

use deltic_net::Outcome;
use deltic_protocol::report::{Item, Notice, Totals};
use indicatif::{FormattedDuration, HumanBytes, HumanCount};

use crate::numbers::Numbers;

/// What is known of a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Regular files in the list so far.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Whether the list is complete.
    pub(crate) complete: bool,
    /// Bytes that are up to date, matched or sent.
    pub(crate) settled: u64,
    /// Files changed so far.
    pub(crate) changed: u64,
    /// The share shown last, in parts of [`Self::WHOLE`].
    share: u64,
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// The parts of a whole bar.
    pub(crate) const WHOLE: u64 = 1000;

    /// Takes in what the run says.
    pub(crate) fn note(&mut self, notice: &Notice) {
        match *notice {
            Notice::Listed { files, bytes, complete, .. } => self.list(files, bytes, complete),
            Notice::Settled { bytes } => self.settled = self.settled.saturating_add(bytes),
            Notice::Changed(ref change) => self.changed += u64::from(change.item == Item::File),
            Notice::Entry { .. }
            | Notice::MadeRoot(_)
            | Notice::Trouble(_)
            | Notice::Finished(_) => {}
        }
    }

    fn list(&mut self, files: u64, bytes: u64, complete: bool) {
        self.files = self.files.max(files);
        self.bytes = self.bytes.max(bytes);
        self.complete |= complete;
    }

    /// Takes in that `elapsed` has passed since the start.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        self.share = self.share.max(self.share_now());
        if self.samples.back().is_none_or(|(last, _)| elapsed >= *last + SAMPLE_EVERY) {
            self.samples.push_back((elapsed, self.settled));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// The share that is settled, in parts of [`Self::WHOLE`]; 0 while the whole is unknown.
    pub(crate) fn share(&self) -> u64 {
        self.share
    }

    fn share_now(&self) -> u64 {
        if !self.complete || self.bytes == 0 {
            return 0;
        }
        let share = u128::from(self.settled) * u128::from(Self::WHOLE) / u128::from(self.bytes);
        u64::try_from(share).map_or(Self::WHOLE, |share| share.min(Self::WHOLE))
    }

    /// Bytes a second over the last seconds.
    pub(crate) fn speed(&self) -> u64 {
        let (Some((from, before)), Some((to, now))) = (self.samples.front(), self.samples.back())
        else {
            return 0;
        };
        let millis = (*to - *from).as_millis();
        let bytes = u128::from(now - before) * 1000;
        bytes.checked_div(millis).map_or(0, |speed| u64::try_from(speed).unwrap_or(u64::MAX))
    }

    /// How much longer at this speed; nothing while the total is unknown or nothing moves.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.bytes.saturating_sub(self.settled);
        let speed = self.speed();
        (self.complete && speed > 0).then(|| Duration::from_secs(left.div_ceil(speed)))
    }

    /// rsync's line, without its end.
    pub(crate) fn piped(&self, numbers: Numbers) -> String {
        let percent = self.share * 100 / Self::WHOLE;
        let time = self.left().unwrap_or_default();
        let bytes = numbers.show(self.settled.min(self.bytes));
        piped(&bytes, percent, self.speed() as f64, time)
    }

    /// rsync's last line of a run that went to its end: all of it, unless something failed.
    pub(crate) fn piped_end(&self, outcome: &Outcome, numbers: Numbers) -> String {
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

    /// As much as finds room in a line of so many characters, the most wanted first.
    pub(crate) fn line(&self, room: usize) -> String {
        let bound = if self.complete { "" } else { "at least " };
        let share = (self.complete && self.bytes > 0)
            .then(|| format!("{}%", self.share * 100 / Self::WHOLE));
        let (settled, bytes) = (HumanBytes(self.settled.min(self.bytes)), HumanBytes(self.bytes));
        let (changed, files) = (HumanCount(self.changed), HumanCount(self.files));
        let parts = [
            share,
            Some(format!("{settled} of {bound}{bytes}")),
            Some(format!("{}/s", HumanBytes(self.speed()))),
            self.left().map(|left| format!("{} left", FormattedDuration(left))),
            Some(format!("{changed} changed of {bound}{files} files")),
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

/// How rsync shows bytes, their share of all, the bytes a second and a time.
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
/// Samples that the speed is the mean of: the last five seconds.
const SAMPLES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: u64, bytes: u64, complete: bool) -> Notice {
        Notice::Listed { names: files, files, bytes, complete }
    }

    fn after(notices: &[Notice]) -> Meter {
        let mut meter = Meter::default();
        notices.iter().for_each(|notice| meter.note(notice));
        meter
    }

    #[test]
    fn no_share_is_claimed_while_the_list_grows() {
        let mut meter = after(&[listed(3, 2048, false), Notice::Settled { bytes: 1024 }]);
        meter.tick(Duration::from_secs(1));
        assert_eq!(meter.share(), 0);
        assert_eq!(
            meter.line(usize::MAX),
            "1.00 KiB of at least 2.00 KiB, 0 B/s, 0 changed of at least 3 files"
        );
    }

    #[test]
    fn what_is_shown_never_goes_backwards() {
        let mut meter = Meter::default();
        let (mut share, mut settled, mut bytes) = (0, 0, 0);
        for step in 0..1000u64 {
            // Lists that shrink, grow after their end, and runs that settle more than was listed.
            meter.note(&listed(step % 7, (step * 7919) % 100_000, step % 50 == 49));
            meter.note(&Notice::Settled { bytes: (step * 31) % 400 });
            meter.tick(Duration::from_millis(step * 100));
            assert!(meter.share() >= share && meter.settled >= settled && meter.bytes >= bytes);
            assert!(meter.share() <= Meter::WHOLE);
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
        assert_eq!(meter.left(), Some(Duration::from_secs(15)));
        for quarter in 40..80 {
            meter.tick(Duration::from_millis(quarter * 250));
        }
        assert_eq!((meter.speed(), meter.left()), (0, None));
    }

    #[test]
    fn a_complete_list_gives_share_speed_and_time_left() {
        let mut meter = after(&[listed(1200, 4 << 30, true)]);
        meter.tick(Duration::ZERO);
        meter.note(&Notice::Settled { bytes: 1 << 30 });
        meter.tick(Duration::from_secs(4));
        assert_eq!(
            meter.line(usize::MAX),
            "25%, 1.00 GiB of 4.00 GiB, 256.00 MiB/s, 00:00:12 left, 0 changed of 1,200 files"
        );
    }

    #[test]
    fn lines_for_others_are_those_of_rsync() {
        let mut meter = after(&[listed(1, 4 << 30, true)]);
        meter.tick(Duration::ZERO);
        assert_eq!(meter.piped(Numbers::Grouped), "              0   0%    0.00kB/s    0:00:00");
        meter.note(&Notice::Settled { bytes: 1 << 30 });
        meter.tick(Duration::from_secs(4));
        assert_eq!(meter.piped(Numbers::Grouped), "  1,073,741,824  25%  256.00MB/s    0:00:12");
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
            meter.piped_end(&outcome, Numbers::Grouped),
            "         70,000 100%    0.01kB/s    1:01:01 (xfr#2, to-chk=0/4)"
        );
        outcome.totals.failed = 1;
        let end = |numbers| meter.piped_end(&outcome, numbers);
        assert!(end(Numbers::Grouped).starts_with("  1,073,741,824  25% "));
        assert!(end(Numbers::Binary).starts_with("          1.00G  25% "));
        assert!(meter.piped(Numbers::Plain).starts_with("     1073741824  25% "));
    }

    #[test]
    fn a_narrow_line_lacks_whole_parts() {
        let mut meter = after(&[listed(1200, 4 << 30, true)]);
        meter.tick(Duration::ZERO);
        let whole = meter.line(usize::MAX);
        assert_eq!(meter.line(whole.len()), whole);
        assert_eq!(meter.line(whole.len() - 1), "0%, 0 B of 4.00 GiB, 0 B/s");
        assert_eq!(
            (&*meter.line(20), &*meter.line(2), &*meter.line(1)),
            ("0%, 0 B of 4.00 GiB", "0%", "")
        );
    }
}
