//! A simulated line that several processes share: the streams of a sync, and pings beside the sync.
//!
//! ```text
//! file   for each direction, the time until which the line is reserved: nanoseconds of the monotonic clock, a u64
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use deltic_net::LinkDirection;
use deltic_net::rehearsal::reservation_end;
use rustix::time::{ClockId, clock_gettime};

/// A line that is reserved by several processes. A value excludes other values of the line, but not other threads that
/// use the same value.
pub(crate) struct SharedLine(File);

impl SharedLine {
    /// Creates a free line in the file `path`.
    pub(crate) fn create(path: &Path) -> Result<()> {
        std::fs::write(path, [0; 2 * WORD]).with_context(|| format!("write {}", path.display()))
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path);
        Ok(Self(file.with_context(|| format!("open {}", path.display()))?))
    }

    /// Reserves a direction for a time, behind all earlier reservations. Returns the time from now to the end of the
    /// reservation.
    pub(crate) fn reserve(&self, direction: LinkDirection, time: Duration) -> io::Result<Duration> {
        self.0.lock()?;
        let wait = self.reserve_locked(direction, time);
        self.0.unlock()?;
        wait
    }

    fn reserve_locked(&self, direction: LinkDirection, time: Duration) -> io::Result<Duration> {
        let (at, mut word) = (direction as u64 * WORD as u64, [0; WORD]);
        self.0.read_exact_at(&mut word, at)?;
        let now = monotonic_time();
        let reserved = Duration::from_nanos(u64::from_le_bytes(word));
        let end = reservation_end(reserved, now, time);
        let nanos = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        self.0.write_all_at(&nanos.to_le_bytes(), at)?;
        Ok(end.saturating_sub(now))
    }
}

/// Returns the time of a clock that all processes of the machine share.
fn monotonic_time() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

const WORD: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_of_a_direction_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("line");
        SharedLine::create(&path).unwrap();
        let [one, other] = [(); 2].map(|()| SharedLine::open(&path).unwrap());
        let minute = Duration::from_secs(60);
        let waits =
            [&one, &other, &one].map(|line| line.reserve(LinkDirection::There, minute).unwrap());
        for (wait, minutes) in waits.into_iter().zip(1..) {
            // Reserving takes time, and a line makes up for a little time.
            let wanted = minute * minutes;
            assert!(wait <= wanted && wait + Duration::from_secs(10) > wanted, "{wait:?}");
        }
        let back = other.reserve(LinkDirection::Back, minute).unwrap();
        assert!(back <= minute, "the other direction is free: {back:?}");
    }
}
