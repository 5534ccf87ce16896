//! When changes are brought over: once nothing more has come for a while, but not too late; after a failure, later.
//!
//! Knows no clock: every time is told, counted from some start.

use std::time::Duration;

use super::dirt::{Change, Dirt};

/// Time in which changes are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Until nothing more has come for so long.
    pub delay: Duration,
    /// Longest wait for that.
    pub longest: Duration,
}

/// Changes that wait for the next round.
#[derive(Debug)]
pub(crate) struct Batch {
    pace: Pace,
    dirt: Dirt,
    /// When the first of it was noted, and the last.
    noted: Option<(Duration, Duration)>,
    /// What failed, and waits to be tried again.
    failed: Option<Failed>,
    /// What was at fault the last time for some of what was taken, and how long that then waited.
    tries: Option<(Fault, Duration)>,
    /// Changes may come unnoticed: from when everything is to be compared again, and how long after that.
    blind: Option<(Duration, Duration)>,
    /// True if the next round is due whatever comes.
    at_once: bool,
}

/// What is not all at the destination though it was brought over.
#[derive(Debug)]
struct Failed {
    dirt: Dirt,
    fault: Fault,
    /// When it is tried again.
    at: Duration,
    /// How long after it failed.
    pause: Duration,
}

/// What was at fault that a round did not bring everything over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Some names: whoever mends them most often makes another change.
    Names,
    /// The way, or the other end, which may be back at any time.
    Run,
}

impl Fault {
    /// How long after it the next try comes in the long run.
    const fn longest(self) -> Duration {
        match self {
            Self::Names => Duration::from_secs(600),
            Self::Run => Duration::from_secs(60),
        }
    }
}

/// How long after the first failure the next try comes.
const BACK_OFF: Duration = Duration::from_secs(1);
/// How often everything is compared where changes may come unnoticed, at first and in the long run.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

impl Batch {
    /// Begins with everything, at once.
    pub(crate) fn new(pace: Pace) -> Self {
        let mut dirt = Dirt::default();
        dirt.note(Change::All);
        let (noted, failed, tries, blind) = (None, None, None, None);
        Self { pace, dirt, noted, failed, tries, blind, at_once: true }
    }

    /// Takes in a change that was seen `now`.
    pub(crate) fn note(&mut self, now: Duration, change: Change) {
        self.dirt.note(change);
        let first = self.noted.map_or(now, |(first, _)| first);
        self.noted = Some((first, now));
    }

    /// Has everything compared with what was noted.
    pub(crate) fn compare_all(&mut self) {
        self.dirt.compare_all();
    }

    /// From `now` on changes may come unnoticed, or, with `false`, none does any more.
    pub(crate) fn set_blind(&mut self, now: Duration, blind: bool) {
        match (blind, self.blind) {
            (true, None) => self.blind = Some((now + LOOK_AGAIN.0, LOOK_AGAIN.0)),
            (true, Some(_)) => {}
            (false, _) => self.blind = None,
        }
    }

    /// When the next round is due, if nothing more comes.
    pub(crate) fn due(&self) -> Option<Duration> {
        if self.at_once {
            return Some(Duration::ZERO);
        }
        let again = self.failed.as_ref().map(|failed| failed.at);
        // Where nothing arrives nothing is sent; but names that fail keep nothing else waiting.
        if self.failed.as_ref().is_some_and(|failed| failed.fault == Fault::Run) {
            return again;
        }
        let quiet = |(first, last): (Duration, Duration)| {
            (last + self.pace.delay).min(first + self.pace.longest)
        };
        let look = self.blind.map(|(at, _)| at);
        [self.noted.map(quiet), look, again].into_iter().flatten().min()
    }

    /// What is to be brought over, if it is due.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Dirt> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if let Some((at, pause)) = &mut self.blind
            && *at <= now
        {
            self.dirt.note(Change::All);
            *pause = (*pause * 2).min(LOOK_AGAIN.1);
            *at = now + *pause;
        }
        (self.noted, self.at_once) = (None, false);
        let mut dirt = std::mem::take(&mut self.dirt);
        let again = self.failed.take_if(|failed| failed.at <= now || dirt.is_all());
        self.tries = again.as_ref().map(|failed| (failed.fault, failed.pause));
        if let Some(failed) = again {
            dirt.join(failed.dirt);
        }
        Some(dirt)
    }

    /// What was taken is not all there: it is tried again later.
    pub(crate) fn failed(&mut self, now: Duration, dirt: Dirt, fault: Fault) {
        let pause = match self.tries {
            Some((before, pause)) if before == fault => (pause * 2).min(fault.longest()),
            _ => BACK_OFF,
        };
        match &mut self.failed {
            // One name that keeps failing would put off the others for ever.
            Some(failed) if fault == Fault::Names => failed.dirt.join(dirt),
            waiting => {
                let mut all = waiting.take().map(|failed| failed.dirt).unwrap_or_default();
                all.join(dirt);
                *waiting = Some(Failed { dirt: all, fault, at: now + pause, pause });
            }
        }
    }

    /// What was taken is there but for deletions: they go with the next round, and do not make one.
    pub(crate) fn held_back(&mut self, dirt: Dirt) {
        self.dirt.join(dirt);
    }

    /// The deletions of what was taken may go by now: the next round is due.
    pub(crate) fn confirm(&mut self, dirt: Dirt) {
        self.dirt.join(dirt);
        self.at_once = true;
    }

    /// True if nothing waits.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirt.is_clean() && self.failed.is_none()
    }
}
