//! The clock for the age of old versions: the wall clock, unless the wall clock has jumped.
//!
//! A wrong wall clock would remove every old version at once, for good. So a jump is not believed for a while: the
//! machine's owner, or its time service, may set the clock right again. A jump is a difference between the wall clock
//! and the monotonic clock. At a start, a jump is a difference between the wall clock and the last known time; a start
//! itself also counts as a jump.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kernel::lock;

/// Shortest time after a start or a jump in which no version expires by age.
pub const SETTLING: Duration = Duration::from_secs(60 * 60);
/// Longest time after a jump in which no version expires by age.
const MOST_SETTLING: Duration = Duration::from_secs(24 * 60 * 60);
/// Divisor: the clock is not believed for this part of the jump's length. After a month's absence this is about a day.
const SHARE: u32 = 24;
/// Largest difference between wall clock and monotonic clock that is not a jump.
const MOST_DRIFT: Duration = Duration::from_secs(10 * 60);

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Time since 1970 by the wall clock, which users and programs can set.
    pub wall: Duration,
    /// Time of the monotonic clock.
    pub steady: Instant,
}

impl Clocks {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall, steady: Instant::now() }
    }

    /// Returns the time that the wall clock will show at `steady`, if nobody sets the clock.
    fn wall_clock_at(self, steady: Instant) -> Duration {
        self.wall.saturating_add(steady.saturating_duration_since(self.steady))
    }
}

/// A wall clock that does not believe a jump at once.
#[derive(Debug)]
pub struct AgeClock(Mutex<ClockState>);

#[derive(Debug)]
struct ClockState {
    /// Reading since which the wall clock has not jumped.
    since: Clocks,
    /// Time of the monotonic clock at which the wall clock will be believed.
    settled: Instant,
    /// Last reading that was believed. No version gets an earlier time.
    floor: Option<Clocks>,
    news: Option<Jump>,
}

/// A jump of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Time that the clock shows.
    pub shown: Duration,
    /// Time that the clock should show, as far as known.
    pub expected: Duration,
    /// Time for which no version expires by age.
    pub settling: Duration,
}

impl AgeClock {
    /// Starts with a reading of both clocks. `known` is a time in the past: the last time that was
    /// [believed](AgeClock::trusted_time), or the last change found on the disks.
    #[must_use]
    pub fn start(now: Clocks, known: Option<Duration>) -> Self {
        let jump = known.map(|known| Jump::new(now.wall, known));
        let settling = jump.map_or(SETTLING, |jump| jump.settling);
        // An absence of some days is not worth a message.
        let is_news = |jump: &Jump| jump.settling > SETTLING || jump.is_set_back();
        Self(Mutex::new(ClockState {
            since: now,
            settled: now.steady + settling,
            floor: known.map(|wall| Clocks { wall, ..now }),
            news: jump.filter(is_news),
        }))
    }

    /// Returns the wall clock's time, by which versions expire. `None` while a jump of the clock is not believed.
    pub fn trusted_time(&self, now: Clocks) -> Option<Duration> {
        let mut state = lock(&self.0);
        let expected = state.since.wall_clock_at(now.steady);
        if now.wall.abs_diff(expected) > MOST_DRIFT {
            let jump = Jump::new(now.wall, expected);
            state.settled = now.steady + jump.settling;
            (state.since, state.news) = (now, Some(jump));
        }
        if now.steady < state.settled {
            return None;
        }
        state.floor = Some(now);
        Some(now.wall)
    }

    /// Returns the time in the name of a version that is kept at `now`. After the clock was set back, the version does
    /// not get an earlier time than the last version.
    pub(crate) fn version_name_time(&self, now: Clocks) -> Duration {
        let floor = lock(&self.0).floor;
        now.wall.max(floor.map_or(Duration::ZERO, |floor| floor.wall_clock_at(now.steady)))
    }

    /// Returns the last jump, at the first call after the jump.
    pub fn take_jump(&self) -> Option<Jump> {
        lock(&self.0).news.take()
    }
}

impl Jump {
    fn new(shown: Duration, expected: Duration) -> Self {
        let settling = (shown.abs_diff(expected) / SHARE).clamp(SETTLING, MOST_SETTLING);
        Self { shown, expected, settling }
    }

    /// True if the clock was set back.
    #[must_use]
    pub fn is_set_back(&self) -> bool {
        self.shown + MOST_DRIFT < self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const START: Duration = Duration::from_secs(1_800_000_000);

    /// Returns a clock that started at [`START`], and a function that reads both clocks at a later time.
    fn clock(known: Option<Duration>) -> (AgeClock, impl Fn(Duration, Duration) -> Clocks) {
        let start = Clocks { wall: START, steady: Instant::now() };
        let at = move |wall, steady| Clocks { wall, steady: start.steady + steady };
        (AgeClock::start(start, known), at)
    }

    #[test]
    fn nothing_is_old_within_an_hour_of_a_start() {
        let (clock, at) = clock(Some(START - HOUR));
        let second = Duration::from_secs(1);
        assert_eq!(clock.trusted_time(at(START + HOUR - second, HOUR - second)), None);
        assert_eq!(clock.trusted_time(at(START + HOUR, HOUR)), Some(START + HOUR));
        assert_eq!(clock.take_jump(), None);
    }

    #[test]
    fn a_jump_is_not_believed_before_a_part_of_it_has_passed() {
        let (clock, at) = clock(None);
        assert!(clock.trusted_time(at(START + HOUR, HOUR)).is_some());
        // Two hours forward, as at a wrong change to summer time.
        let ahead = START + 2 * HOUR;
        assert_eq!(clock.trusted_time(at(ahead + HOUR, HOUR)), None);
        assert_eq!(
            clock.trusted_time(at(ahead + 2 * HOUR - DAY / 1000, 2 * HOUR - DAY / 1000)),
            None
        );
        assert!(clock.trusted_time(at(ahead + 2 * HOUR, 2 * HOUR)).is_some());
        // 400 days forward, and back to 1970.
        for (wall, is_back) in [(START + 400 * DAY, false), (Duration::ZERO, true)] {
            let (clock, at) = self::clock(None);
            let jumped = |steady| at(wall + steady, steady);
            assert_eq!(clock.trusted_time(jumped(2 * HOUR)), None, "{wall:?}");
            assert_eq!(clock.trusted_time(jumped(25 * HOUR)), None, "{wall:?}");
            assert!(clock.trusted_time(jumped(26 * HOUR)).is_some(), "{wall:?}");
            assert_eq!(clock.take_jump().map(|jump| jump.is_set_back()), Some(is_back));
        }
    }

    #[test]
    fn small_steps_add_up_to_a_jump() {
        let (clock, at) = clock(None);
        let minute = Duration::from_secs(60);
        assert!(clock.trusted_time(at(START + HOUR + 9 * minute, HOUR)).is_some());
        assert_eq!(clock.trusted_time(at(START + HOUR + 18 * minute, HOUR)), None);
    }

    #[test]
    fn at_a_start_the_clock_is_compared_with_the_last_time_that_is_known() {
        let (clock, at) = clock(Some(START - 400 * DAY));
        assert_eq!(
            clock.take_jump().map(|jump| (jump.settling, jump.is_set_back())),
            Some((DAY, false))
        );
        assert_eq!(clock.trusted_time(at(START + 23 * HOUR, 23 * HOUR)), None);
        assert!(clock.trusted_time(at(START + DAY, DAY)).is_some());
        // A machine without a battery clock starts in the past.
        let (behind, at) = self::clock(Some(START + 90 * DAY));
        assert!(behind.take_jump().is_some_and(|jump| jump.is_set_back()));
        assert_eq!(behind.version_name_time(at(START + HOUR, HOUR)), START + 90 * DAY + HOUR);
        assert_eq!(behind.trusted_time(at(START + HOUR, HOUR)), None);
    }

    #[test]
    fn a_version_that_goes_while_the_clock_is_behind_has_the_time_that_is_known() {
        let (clock, at) = clock(None);
        assert!(clock.trusted_time(at(START + HOUR, HOUR)).is_some());
        let back = at(START - 90 * DAY, 2 * HOUR);
        assert_eq!(clock.trusted_time(back), None);
        assert_eq!(clock.version_name_time(back), START + 2 * HOUR);
        assert_eq!(
            clock.version_name_time(at(START + DAY, 2 * HOUR)),
            START + DAY,
            "ahead, it is kept longer"
        );
    }
}
