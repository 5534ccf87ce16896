//! The clock of examples.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time that this thread had a processor for: others may use the machine.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
