//! Measures the costs of an end in a session: processor time by kind of work, bytes by purpose, and the time in which
//! the end was active. `deltic bench sync` measures; a sync does not.
//!
//! A piece of work is a segment or a batch, never a byte. Without measurement, each piece costs one more branch; with
//! measurement, a few readings of a clock. Processor time is that of the thread which does the work, so two ends in one
//! process can be told apart.
//!
//! A part of a piece of work finds the ledger of its end through a thread-local value (`deltic_worker::stage`).

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deltic_protocol::Purpose;
use deltic_protocol::report::Counts;
use rustix::time::{ClockId, clock_gettime};

use deltic_worker::lock::lock;
pub use deltic_worker::stage::Stage;
use deltic_worker::stage::{StageMeter, metered};

/// The costs of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    cpu: [Duration; Stage::ALL.len()],
    sent: [u64; Purpose::ALL.len()],
    /// Bytes that were read of files, without blocks that the file system shared.
    pub read: u64,
    /// Number of comparisons of sums, if the strategy counts them.
    pub compared: Counts,
    /// Wall time in which at least one thread of the end was at work, including waits for a disk.
    pub busy: Duration,
}

impl Spent {
    /// Returns the processor time of a stage, including system calls.
    #[must_use]
    pub const fn cpu(&self, stage: Stage) -> Duration {
        self.cpu[stage as usize]
    }

    /// Returns the processor time of all stages.
    #[must_use]
    pub fn total_cpu(&self) -> Duration {
        self.cpu.iter().sum()
    }

    /// Returns the bytes sent for this purpose, including framing.
    #[must_use]
    pub const fn sent(&self, purpose: Purpose) -> u64 {
        self.sent[purpose as usize]
    }
}

/// Records processor time, sent bytes and comparisons of one end of a session. The default value records nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor(Option<Arc<Ledger>>);

/// Time in which at least one end of a session was at work. Both ends are in this process and share the value.
#[derive(Clone, Default)]
pub(crate) struct Either(Arc<Busy>);

impl Either {
    pub(crate) fn busy(&self) -> Duration {
        self.0.total()
    }
}

impl Monitor {
    /// Returns a monitor that records costs, and reports work to `either`.
    pub(crate) fn reporting_to(either: &Either) -> Self {
        let Either(either) = either.clone();
        Self(Some(Arc::new(Ledger { either, ..Ledger::default() })))
    }

    /// Returns the costs so far.
    pub(crate) fn costs(&self) -> Spent {
        let Some(ledger) = &self.0 else { return Spent::default() };
        Spent {
            cpu: std::array::from_fn(|at| {
                Duration::from_nanos(ledger.cpu_nanos[at].load(Ordering::Relaxed))
            }),
            sent: std::array::from_fn(|at| ledger.sent[at].load(Ordering::Relaxed)),
            read: ledger.read.load(Ordering::Relaxed),
            compared: *lock(&ledger.compared),
            busy: ledger.own.total(),
        }
    }

    /// Counts sent bytes.
    pub(crate) fn count_sent(&self, purpose: Purpose, bytes: usize) {
        if let Some(ledger) = &self.0 {
            ledger.sent[purpose as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Records the number of comparisons of sums.
    pub(crate) fn note_compared(&self, counts: Counts) {
        if let Some(ledger) = &self.0 {
            *lock(&ledger.compared) = counts;
        }
    }

    /// Does `work`, and charges its time to `stage`. Parts in [`within`](deltic_worker::stage::within) are charged to
    /// another stage.
    pub(crate) fn charge<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let Some(ledger) = &self.0 else { return work() };
        let _atwork = AtWork::new(ledger);
        let shift = Shift { ledger: Arc::clone(ledger), stage, since: thread_cpu() };
        metered(Box::new(shift), work)
    }

    /// Runs `future`, and charges each of its steps to `stage`.
    pub(crate) async fn charge_future<F: Future>(self, stage: Stage, future: F) -> F::Output {
        if self.0.is_none() {
            return future.await;
        }
        let mut future = pin!(future);
        std::future::poll_fn(|cx| self.charge(stage, || future.as_mut().poll(cx))).await
    }
}

/// Charges the processor time of this thread to the stages of a ledger.
struct Shift {
    ledger: Arc<Ledger>,
    stage: Stage,
    /// The thread's processor time when the stage began.
    since: Duration,
}

impl StageMeter for Shift {
    fn set_stage(&mut self, stage: Stage) -> Stage {
        self.since = self.ledger.add(self.stage, self.since);
        std::mem::replace(&mut self.stage, stage)
    }

    fn count_read(&mut self, bytes: usize) {
        self.ledger.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.ledger.add(self.stage, self.since);
    }
}

#[derive(Default)]
struct Ledger {
    cpu_nanos: [AtomicU64; Stage::ALL.len()],
    sent: [AtomicU64; Purpose::ALL.len()],
    read: AtomicU64,
    compared: Mutex<Counts>,
    own: Busy,
    either: Arc<Busy>,
}

impl Ledger {
    /// Adds the processor time of this thread since `since`. Returns the present processor time.
    fn add(&self, stage: Stage, since: Duration) -> Duration {
        let now = thread_cpu();
        let nanos = now.saturating_sub(since).as_nanos() as u64;
        self.cpu_nanos[stage as usize].fetch_add(nanos, Ordering::Relaxed);
        now
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

/// Counts a thread as working for an end until this value is dropped.
struct AtWork<'a>(&'a Ledger);

impl<'a> AtWork<'a> {
    fn new(ledger: &'a Ledger) -> Self {
        ledger.own.change(1);
        ledger.either.change(1);
        Self(ledger)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.own.change(-1);
        self.0.either.change(-1);
    }
}

/// The wall time in which at least one of several threads or tasks was busy.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Stretch>);

#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    working: isize,
    since: Option<Instant>,
    total: Duration,
}

impl Busy {
    /// Changes the number of busy threads or tasks.
    pub(crate) fn change(&self, by: isize) {
        let mut stretch = lock(&self.0);
        stretch.working += by;
        if stretch.working > 0 {
            stretch.since.get_or_insert_with(Instant::now);
        } else if let Some(since) = stretch.since.take() {
            stretch.total += since.elapsed();
        }
    }

    /// Returns the busy time so far.
    pub(crate) fn total(&self) -> Duration {
        let stretch = *lock(&self.0);
        stretch.total + stretch.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Returns the time since a fixed moment.
pub(crate) fn time_since_start() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Processor time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Returns the time in which the first thread of this process was ready to run and waited for a processor. This thread
/// runs the session of an agent; in a server it runs no session, and hardly waits. Zero on systems that do not count
/// this time.
#[expect(clippy::disallowed_methods, reason = "a count of the system, in no tree")]
pub(crate) fn processor_wait() -> Duration {
    let counts = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = counts.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_worker::stage::within;

    /// Uses the processor until this thread's processor time has grown by `for_this`.
    fn toil(for_this: Duration) {
        let start = thread_cpu();
        while thread_cpu() - start < for_this {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn parts_of_a_work_are_told_apart() {
        let either = Either::default();
        let monitor = Monitor::reporting_to(&either);
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(3));
        monitor.charge(Stage::Scan, || {
            within(Stage::Read, || toil(short));
            toil(long);
            within(Stage::Pack, || within(Stage::Sum, || toil(short)));
        });
        let spent = monitor.costs();
        assert!(spent.cpu(Stage::Read) >= short && spent.cpu(Stage::Sum) >= short, "{spent:?}");
        assert!(spent.cpu(Stage::Scan) >= long, "{spent:?}");
        assert_eq!(spent.cpu(Stage::Write), Duration::ZERO);
        assert_eq!(spent.total_cpu(), Stage::ALL.map(|stage| spent.cpu(stage)).iter().sum());
        assert!(either.busy() >= long && spent.busy >= long, "{spent:?}");
    }

    #[test]
    fn time_in_which_both_ends_work_counts_once() {
        let either = Either::default();
        let (one, other) = (Monitor::reporting_to(&either), Monitor::reporting_to(&either));
        let pause = Duration::from_millis(5);
        one.charge(Stage::Read, || other.charge(Stage::Read, || std::thread::sleep(pause)));
        let sum = one.costs().busy + other.costs().busy;
        assert!(
            either.busy() >= pause && either.busy() < sum,
            "{either:?} {sum:?}",
            either = either.busy()
        );
    }

    #[test]
    fn where_nobody_asks_nothing_is_written_down() {
        let monitor = Monitor::default();
        assert_eq!(monitor.charge(Stage::Read, || within(Stage::Sum, || 7)), 7);
        monitor.count_sent(Purpose::Literal, 9);
        assert_eq!(monitor.costs(), Spent::default());
    }
}
