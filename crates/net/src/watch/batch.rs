//! Decides when changes are synced: when no change has come for some time, but not too late; later after a failure.
//!
//! Uses no clock: the caller passes the time, counted from a fixed moment.

use std::time::Duration;

use super::dirt::{Change, Dirt};

/// Times for which changes are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A round is due when no change has come for this time.
    pub delay: Duration,
    /// A round is due at the latest this long after a change.
    pub longest: Duration,
}

/// Changes that wait for the next round.
#[derive(Debug)]
pub(crate) struct Batch {
    pace: Pace,
    dirt: Dirt,
    /// Times of the first and the last noted change.
    noted: Option<(Duration, Duration)>,
    /// Changes of a failed round, which are tried again.
    failed: Option<Failed>,
    /// Fault of an earlier round with the changes that were taken last, and the pause after that round.
    tries: Option<(Fault, Duration)>,
    /// `Some` while changes may be missed: the time of the next full comparison, and the pause that precedes it.
    blind: Option<(Duration, Duration)>,
    /// True if the next round is due at once.
    at_once: bool,
}

/// Changes that an incomplete round did not bring to the destination.
#[derive(Debug)]
struct Failed {
    dirt: Dirt,
    fault: Fault,
    /// Time of the next try.
    at: Duration,
    /// Pause between the failure and the next try.
    pause: Duration,
}

/// Cause of an incomplete round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Some names failed. Another change will most likely mend these names.
    Names,
    /// The connection or the other end failed, and may be back at any time.
    Run,
}

impl Fault {
    /// Returns the longest pause before another try.
    const fn longest_pause(self) -> Duration {
        match self {
            Self::Names => Duration::from_secs(600),
            Self::Run => Duration::from_secs(60),
        }
    }
}

/// Pause between the first failure and the next try.
const BACK_OFF: Duration = Duration::from_secs(1);
/// Shortest and longest pause between full comparisons while changes may be missed.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

impl Batch {
    /// Starts with a full comparison, which is due at once.
    pub(crate) fn new(pace: Pace) -> Self {
        let mut dirt = Dirt::default();
        dirt.note_change(Change::All);
        let (noted, failed, tries, blind) = (None, None, None, None);
        Self { pace, dirt, noted, failed, tries, blind, at_once: true }
    }

    /// Notes a change that was seen at `now`.
    pub(crate) fn note_change(&mut self, now: Duration, change: Change) {
        self.dirt.note_change(change);
        let first = self.noted.map_or(now, |(first, _)| first);
        self.noted = Some((first, now));
    }

    /// Marks all names for comparison.
    pub(crate) fn compare_all(&mut self) {
        self.dirt.compare_all();
    }

    /// Sets whether changes may be missed from `now` on.
    pub(crate) fn set_may_miss_changes(&mut self, now: Duration, blind: bool) {
        match (blind, self.blind) {
            (true, None) => self.blind = Some((now + LOOK_AGAIN.0, LOOK_AGAIN.0)),
            (true, Some(_)) => {}
            (false, _) => self.blind = None,
        }
    }

    /// Returns the time at which the next round is due, without further changes.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.at_once {
            return Some(Duration::ZERO);
        }
        let again = self.next_try();
        // A failed run sends no data before the next try. Failed names delay no other changes.
        if self.failed.as_ref().is_some_and(|failed| failed.fault == Fault::Run) {
            return again;
        }
        let quiet = |(first, last): (Duration, Duration)| {
            (last + self.pace.delay).min(first + self.pace.longest)
        };
        let look = self.blind.map(|(at, _)| at);
        [self.noted.map(quiet), look, again].into_iter().flatten().min()
    }

    /// Returns the time of the next try of failed changes, if there are any.
    pub(crate) fn next_try(&self) -> Option<Duration> {
        self.failed.as_ref().map(|failed| failed.at)
    }

    /// Takes the changes of the next round, if a round is due.
    pub(crate) fn take_due(&mut self, now: Duration) -> Option<Dirt> {
        if self.next_due().is_none_or(|due| due > now) {
            return None;
        }
        if let Some((at, pause)) = &mut self.blind
            && *at <= now
        {
            self.dirt.note_change(Change::All);
            *pause = (*pause * 2).min(LOOK_AGAIN.1);
            *at = now + *pause;
        }
        (self.noted, self.at_once) = (None, false);
        let mut dirt = std::mem::take(&mut self.dirt);
        let again = self.failed.take_if(|failed| failed.at <= now || dirt.is_all());
        self.tries = again.as_ref().map(|failed| (failed.fault, failed.pause));
        if let Some(failed) = again {
            dirt.merge(failed.dirt);
        }
        Some(dirt)
    }

    /// Notes that a round was incomplete; its changes are tried again later.
    pub(crate) fn note_failed(&mut self, now: Duration, dirt: Dirt, fault: Fault) {
        let pause = match self.tries {
            Some((before, pause)) if before == fault => (pause * 2).min(fault.longest_pause()),
            _ => BACK_OFF,
        };
        match &mut self.failed {
            // A name that keeps failing must not delay other failed names for ever, so the time of the next try stays.
            Some(failed) if fault == Fault::Names => failed.dirt.merge(dirt),
            waiting => {
                let mut all = waiting.take().map(|failed| failed.dirt).unwrap_or_default();
                all.merge(dirt);
                *waiting = Some(Failed { dirt: all, fault, at: now + pause, pause });
            }
        }
    }

    /// Notes that a round brought all changes except deletions. The deletions join the next round, but cause no round.
    pub(crate) fn note_held_back(&mut self, dirt: Dirt) {
        self.dirt.merge(dirt);
    }

    /// Allows the deletions in `dirt`; the next round is due at once.
    pub(crate) fn allow_deletions(&mut self, dirt: Dirt) {
        self.dirt.merge(dirt);
        self.at_once = true;
    }

    /// True if no changes wait.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirt.has_no_changes() && self.failed.is_none()
    }
}
