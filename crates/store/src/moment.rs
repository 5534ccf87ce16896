//! Times at which files were read, and versions that a later change of the file cannot reproduce.

use std::time::Duration;

use deltic_tree::Timestamp;

use crate::{Version, VersionToken};

/// A time since 1970, by the clock that sets the times of the store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the start of 1970.
    #[must_use]
    pub const fn since_1970(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Time since the start of 1970.
    #[must_use]
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// True if a change from this moment on gives the file a time other than `changed`. A time without a fraction of a
    /// second may be of a file system that counts in seconds, so more time must have passed.
    #[must_use]
    pub fn is_past(self, changed: Timestamp) -> bool {
        let tick = if changed.nanos == 0 { COARSE_TICK } else { FINE_TICK };
        let secs = u64::try_from(changed.secs).unwrap_or(0);
        Duration::new(secs, 0).saturating_add(Duration::from_nanos(changed.nanos.into()) + tick)
            <= self.0
    }

    /// True if a fact that was noted at the second `noted` is younger than `max_age`, or `max_age` is `None`. The age
    /// of a fact from the future is unknown, so the fact is never younger.
    #[must_use]
    pub fn is_within(self, max_age: Option<Duration>, noted: u64) -> bool {
        let age = self.0.as_secs().checked_sub(noted).map(Duration::from_secs);
        max_age.is_none_or(|max_age| age.is_some_and(|age| age < max_age))
    }
}

/// A version that no later change of the file can reproduce, so facts about the version may be kept.
///
/// Git calls all other versions racy: a file that changes twice within a tick of the clock may have the same version
/// before and after the second change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledVersion {
    version: Version,
    begun: Moment,
}

impl SettledVersion {
    /// Returns the settled version after a read that started at `begun`, during which the file did not change. `None`
    /// if the file changed within a tick before `begun`.
    #[must_use]
    pub fn after_read(version: Version, begun: Moment) -> Option<Self> {
        begun.is_past(version.changed).then_some(Self { version, begun })
    }

    /// Returns the settled version of a file that this process put in place, starting at `begun`. `None` if the
    /// modification time of the version is the present.
    ///
    /// Another program may change the file right after, within the same tick of its change time. But such a write sets
    /// the modification time to the present, which differs from that of this version.
    #[must_use]
    pub fn after_write(version: Version, begun: Moment) -> Option<Self> {
        begun.is_past(version.modified).then_some(Self { version, begun })
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the same version under another token, for a caller that hides tokens.
    #[must_use]
    pub const fn with_token(self, token: VersionToken) -> Self {
        Self { version: Version { token, ..self.version }, ..self }
    }

    /// Returns the moment at which reading or writing the version started.
    #[must_use]
    pub const fn begun(&self) -> Moment {
        self.begun
    }
}

/// Longest clock tick of a file system that counts in fractions of a second.
const FINE_TICK: Duration = Duration::from_millis(100);
/// Longest clock tick of a file system that counts in seconds.
const COARSE_TICK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Moment = Moment::since_1970(Duration::from_secs(1_000_000));

    fn changed_before(ago: Duration) -> Version {
        let time = BEGUN.elapsed() - ago;
        let changed = Timestamp { secs: time.as_secs() as i64, nanos: time.subsec_nanos() };
        let modified = Timestamp { secs: 5, nanos: 1 };
        Version { token: VersionToken::default(), len: 1, modified, changed }
    }

    #[test]
    fn a_version_that_changed_within_a_tick_is_not_settled() {
        for (ago, settled) in [(0, false), (90, false), (110, true), (1000, false), (4000, true)] {
            let version = changed_before(Duration::from_millis(ago));
            let read = SettledVersion::after_read(version, BEGUN);
            assert_eq!(read.is_some(), settled, "{ago} ms");
            assert_eq!(read.map(|read| read.begun()), settled.then_some(BEGUN));
        }
        let to_come = Timestamp { secs: i64::MAX, nanos: 5 };
        let version = Version { changed: to_come, ..changed_before(Duration::ZERO) };
        assert_eq!(SettledVersion::after_read(version, BEGUN), None);
    }

    #[test]
    fn a_version_that_was_written_is_settled_unless_its_modification_time_is_the_present() {
        let version = changed_before(Duration::ZERO);
        assert!(SettledVersion::after_write(version, BEGUN).is_some());
        let untimed = Version { modified: version.changed, ..version };
        assert_eq!(SettledVersion::after_write(untimed, BEGUN), None);
    }

    #[test]
    fn a_fact_from_the_future_has_no_known_age() {
        let secs = BEGUN.elapsed().as_secs();
        let within = |noted, max_age| BEGUN.is_within(max_age, noted);
        let hour = Some(Duration::from_secs(3600));
        assert!(within(secs + 1, None) && !within(secs + 1, hour));
        assert!(within(secs - 3599, hour) && !within(secs - 3600, hour));
        assert!(!within(secs, Some(Duration::ZERO)));
    }
}
