//! Limits of a session.

use std::sync::OnceLock;
use std::time::Duration;

use deltic_protocol::limits::{MAX_FRAME_BYTES, MAX_THREADS};
use deltic_store_local::is_memory_tight;
use deltic_worker::destination::BUFFERED_BYTES;

use super::{COPIERS, Cost, DROPPERS, FLUSHERS};

/// Most threads for each processor, whatever a session requests.
const MAX_FOR_EACH: usize = 4;
/// Bundles in the queue for each thread, so that a thread finds its next bundle at once.
pub(super) const QUEUED: usize = 2;
/// Most pieces of work under way, for each kind except heavy work.
const LIGHT_WORK: usize = 256;

/// Bytes of literals that each new version buffers if memory is tight.
const TIGHT_BUFFERED_BYTES: usize = 1 << 20;

/// Limits of a session. The default is for a session that has the machine to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Threads that compute for the session at once; 0 for as many as there are processors.
    pub compute: u32,
    /// Most bytes that the work under way may handle. One piece of work is always allowed.
    pub work_bytes: usize,
    /// Pieces of work under way, of each kind except heavy work, which has a few for each thread.
    pub light_work: usize,
    /// Most open files, if fewer than the process may open. With fewer than a few dozen, one file is synced at a time.
    pub open_files: Option<usize>,
    /// Bytes of work after which sessions with less work go first; never if `None`.
    pub prompt_bytes: Option<u64>,
    /// Most bytes of literals of incomplete blocks that each new version buffers.
    pub buffered_bytes: usize,
    /// Longest accepted frame in bytes, at least 64 KiB, if the other end supports limits.
    pub frame_bytes: usize,
    /// Most literal bytes on their way to this end, if the other end supports credit; unlimited if `None`.
    pub credit: Option<u64>,
    /// Longest time for which an end may withhold the credit that it introduced, while literals wait; unlimited if
    /// `None`.
    pub credit_timeout: Option<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            compute: 0,
            work_bytes: usize::MAX,
            light_work: LIGHT_WORK,
            open_files: None,
            prompt_bytes: None,
            buffered_bytes: if is_memory_tight() { TIGHT_BUFFERED_BYTES } else { BUFFERED_BYTES },
            frame_bytes: MAX_FRAME_BYTES,
            credit: None,
            credit_timeout: None,
        }
    }
}

impl Budget {
    /// Limits the budget to `asked` computing threads.
    #[must_use]
    pub fn with_threads(self, asked: u32) -> Self {
        let least = match (self.compute, asked) {
            (0, asked) => asked,
            (own, 0) => own,
            (own, asked) => own.min(asked),
        };
        Self { compute: least, ..self }
    }

    /// Returns the number of threads that compute for the session at once.
    pub(super) fn threads(&self) -> usize {
        match self.compute {
            0 => processors().max(2),
            asked => asked.min(max_threads()) as usize,
        }
    }

    /// Returns the number of processors that the computing threads can use at once.
    pub(crate) fn processors(&self) -> u32 {
        self.threads().min(processors()) as u32
    }

    /// Returns the number of jobs of this kind that may run at once.
    pub(super) fn max_running(&self, cost: Cost) -> usize {
        match cost {
            Cost::Heavy | Cost::Light | Cost::Bulk => self.threads(),
            Cost::Copy => self.threads().min(COPIERS),
            Cost::Flush => FLUSHERS,
            Cost::Drop => DROPPERS,
            Cost::Ask => 1,
        }
    }

    /// Returns the number of pieces of work of this kind that may be under way.
    pub(super) fn max_pending(&self, cost: Cost) -> usize {
        match cost {
            Cost::Heavy => self.threads() * (1 + QUEUED),
            _ => self.light_work,
        }
    }
}

/// Returns the most threads that may compute for an end on this machine. A peer cannot make a machine start more
/// threads than this.
#[must_use]
pub fn max_threads() -> u32 {
    let most = processors().saturating_mul(MAX_FOR_EACH);
    u32::try_from(most).map_or(MAX_THREADS, |most| most.min(MAX_THREADS))
}

/// Returns the number of processors, which is read once: the system keeps it in files.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_as_wide_as_is_asked_and_the_machine_bears() {
        let cores = std::thread::available_parallelism().expect("there is one").get();
        let threads = |compute| Budget { compute, ..Budget::default() }.threads();
        assert_eq!((threads(1), threads(2)), (1, 2));
        assert_eq!(threads(0), cores.max(2));
        let most = max_threads() as usize;
        assert_eq!(most, (cores * MAX_FOR_EACH).min(MAX_THREADS as usize));
        assert_eq!((threads(u32::MAX), threads(most as u32 + 1)), (most, most));
    }

    #[test]
    fn what_is_asked_for_does_not_widen_a_budget() {
        let with =
            |own, asked| Budget { compute: own, ..Budget::default() }.with_threads(asked).compute;
        assert_eq!((with(0, 0), with(0, 3), with(2, 0)), (0, 3, 2));
        assert_eq!((with(2, 3), with(2, 1)), (2, 1));
    }
}
