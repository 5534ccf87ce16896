//! Clock of the examples.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread, which other processes do not distort.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
