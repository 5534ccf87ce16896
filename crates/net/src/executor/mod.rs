//! The threads of the process that work for sessions. There are as many computing threads as processors, and more
//! threads that wait for a disk. The number does not grow with the sessions.
//!
//! Sessions share the threads fairly (`fair`), each within its [`Budget`]. A session with much work uses separate
//! threads with a lower priority (docs/decisions/0029). When a session is cancelled, its waiting jobs are dropped at
//! once, and running jobs end with the present piece. These threads are not those of the runtime. Short calls are
//! bundled (`pool`): at tens of thousands of calls a second, waking threads would cost more than the calls.

mod budget;
mod fair;
mod parting;
mod pool;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{getpriority_process, setpriority_process};

use crate::monitor::thread_cpu;
use deltic_worker::WorkCost;
use deltic_worker::lock::lock;
use fair::{FairQueue, SessionId};

pub use budget::{Budget, max_threads};
pub(crate) use parting::DeferredDrop;
pub(crate) use pool::{Done, SessionPool};

/// Threads that copy.
const COPIERS: usize = 2;
/// Flushes under way at once: enough for a disk to merge several flushes.
const FLUSHERS: usize = 16;
/// Threads that free large values.
const DROPPERS: usize = 2;
/// Longest wait of an idle thread before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Niceness added to threads of sessions that give way. If processors are scarce, such a thread gets a tenth of the
/// time of another thread.
const GIVING_WAY: i32 = 10;
/// Cost of a job besides its processor time, in nanoseconds: waking a thread and locking a queue.
const JOB_COST: i64 = 10_000;

/// The main cost of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Processor time and a large buffer.
    Heavy,
    /// Moving bytes from file to file. One thread reads while another writes; a third thread would only wait for the
    /// lock of the written file.
    Copy,
    /// A few system calls.
    Light,
    /// Waiting for a disk to flush.
    Flush,
    /// Freeing a large value, which takes the system long. Such a job never waits.
    Drop,
    /// Waiting for a user's answer, which may never come.
    Ask,
    /// Computing and copying for a session that gives way to other sessions.
    Bulk,
}

impl From<WorkCost> for Cost {
    fn from(cost: WorkCost) -> Self {
        match cost {
            WorkCost::Heavy => Self::Heavy,
            WorkCost::Copy => Self::Copy,
            WorkCost::Light => Self::Light,
            WorkCost::Flush => Self::Flush,
            WorkCost::Ask => Self::Ask,
        }
    }
}

impl Cost {
    /// Returns the kind of thread that does this work in a session that gives way.
    const fn as_low_priority(self) -> Self {
        match self {
            Self::Heavy | Self::Copy => Self::Bulk,
            other => other,
        }
    }

    const ALL: [Self; 7] =
        [Self::Heavy, Self::Copy, Self::Light, Self::Flush, Self::Drop, Self::Ask, Self::Bulk];
}

/// Most threads of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Computing threads; as many more for short calls, and as many more for sessions that give way.
    pub compute: usize,
    /// Threads that copy.
    pub copies: usize,
    /// Threads that wait for flushes.
    pub flushes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { compute: max_threads() as usize, copies: COPIERS, flushes: FLUSHERS }
    }
}

impl Limits {
    /// Returns the most threads that run at once, not counting one thread for each user being asked.
    #[must_use]
    pub const fn threads(&self) -> usize {
        3 * self.compute + self.copies + self.flushes + DROPPERS
    }

    const fn limit_of(&self, cost: Cost) -> usize {
        match cost {
            Cost::Heavy | Cost::Light | Cost::Bulk => self.compute,
            Cost::Copy => self.copies,
            Cost::Flush => self.flushes,
            Cost::Drop => DROPPERS,
            Cost::Ask => usize::MAX,
        }
    }
}

/// Threads that many sessions share.
#[derive(Clone)]
pub struct Executor(Arc<Threads>);

/// Numbers of sessions, threads and jobs at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutorUsage {
    /// Sessions that were admitted and have not left.
    pub sessions: usize,
    /// Threads.
    pub threads: usize,
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
}

impl Executor {
    /// Makes an executor with its own threads, which start when there is work.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let groups = Cost::ALL.map(|cost| ThreadGroup {
            jobs: FairQueue::default(),
            most: limits.limit_of(cost),
            started: 0,
            idle: 0,
            served_by: cost,
        });
        let state = State { groups, sessions: 0, asked: 0 };
        Self(Arc::new(Threads {
            next: AtomicU64::new(0),
            state: Mutex::new(state),
            filled: Cost::ALL.map(|_| Condvar::new()),
        }))
    }

    /// Returns the executor that all sessions of this process share by default.
    #[must_use]
    pub fn of_process() -> Self {
        static SHARED: OnceLock<Executor> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(Limits::default())).clone()
    }

    /// Admits a session until the last handle of its share is dropped.
    #[must_use]
    pub fn admit(&self, budget: Budget) -> Share {
        let mut state = lock(&self.0.state);
        state.sessions += 1;
        state.asked += budget.threads();
        Share(Arc::new(Admitted {
            threads: Arc::clone(&self.0),
            id: self.0.next.fetch_add(1, Ordering::Relaxed),
            budget,
            is_cancelled: Arc::default(),
            work: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            brought: AtomicU64::new(0),
            done: Arc::default(),
        }))
    }

    /// Counts sessions, threads and jobs.
    #[must_use]
    pub fn usage(&self) -> ExecutorUsage {
        let state = lock(&self.0.state);
        let counts = state.groups.iter().map(|group| group.jobs.counts());
        let (waiting, running) = counts.fold((0, 0), |(w, r), (wait, run)| (w + wait, r + run));
        let threads = state.groups.iter().map(|group| group.started).sum();
        ExecutorUsage { sessions: state.sessions, threads, waiting, running }
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::of_process()
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Executor").field(&self.usage()).finish()
    }
}

/// A session's share of an executor.
#[derive(Clone)]
pub struct Share(Arc<Admitted>);

struct Admitted {
    threads: Arc<Threads>,
    id: SessionId,
    budget: Budget,
    is_cancelled: Arc<AtomicBool>,
    /// Number of pieces of work under way.
    work: AtomicUsize,
    /// Bytes that the work under way holds.
    bytes: AtomicUsize,
    /// Bytes of all work accepted so far.
    brought: AtomicU64,
    /// Number of pieces of work done so far.
    done: Arc<AtomicU64>,
}

impl Share {
    /// Limits of the session.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Drops all waiting jobs. Running jobs end with the present piece, and no more work is accepted.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        self.clear(&Cost::ALL);
    }

    /// True if the session was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Returns the number of pieces of work under way, and the bytes of this work.
    #[must_use]
    pub fn pending_work(&self) -> (usize, usize) {
        (self.0.work.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }

    /// Returns the number of pieces of work that were done.
    #[must_use]
    pub fn done_count(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Queues `job` for a thread. If the session ends first, the job is dropped.
    ///
    /// # Errors
    /// The error of the system, if no thread for this work can be started.
    pub fn submit(&self, cost: Cost, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.submit_with_bytes(cost, 0, job)
    }

    /// Queues a job that handles `bytes`. The bytes decide when the session gives way.
    fn submit_with_bytes(
        &self,
        cost: Cost,
        bytes: usize,
        job: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        if self.is_cancelled() {
            return Ok(());
        }
        let cost = if self.gives_way() { cost.as_low_priority() } else { cost };
        let most = self.0.budget.max_running(cost);
        self.0.threads.add_job(self.0.id, cost, most, Job { bytes, run: Box::new(job) })
    }

    /// Drops `what` on another thread, or on this thread if no thread can be started.
    pub(crate) fn drop_later(&self, what: impl Send + 'static) {
        // Without a thread the job is dropped here, with `what`.
        let _ = self.submit(Cost::Drop, move || drop(what));
    }

    fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.is_cancelled)
    }

    fn finished(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.done)
    }

    /// True if the session has had so much work that it gives way to other sessions.
    fn gives_way(&self) -> bool {
        let most = self.0.budget.prompt_bytes;
        most.is_some_and(|most| self.0.brought.load(Ordering::Relaxed) > most)
    }

    fn add_load(&self, bytes: usize) {
        self.0.brought.fetch_add(bytes as u64, Ordering::Relaxed);
        self.0.work.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract_load(&self, work: usize, bytes: usize) {
        self.0.work.fetch_sub(work, Ordering::Relaxed);
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Drops the waiting jobs of these kinds.
    fn clear(&self, costs: &[Cost]) {
        let mut state = lock(&self.0.threads.state);
        let clear = |cost: &Cost| state.groups[*cost as usize].jobs.clear(self.0.id);
        let dropped: Vec<_> = costs.iter().map(clear).collect();
        drop(state);
        // A dropped job may hold the last handle of a file, so the lock is released first.
        drop(dropped);
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("id", &self.0.id).field("budget", self.budget()).finish()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = lock(&self.threads.state);
        state.sessions -= 1;
        state.asked -= self.budget.threads();
        let left = state.groups.each_mut().map(|group| group.jobs.remove_session(self.id));
        if state.sessions == 0 {
            // A later session may be able to start threads of its own kind.
            let own = |(group, cost): (&mut ThreadGroup, Cost)| group.served_by = cost;
            state.groups.iter_mut().zip(Cost::ALL).for_each(own);
        }
        drop(state);
        drop(left);
    }
}

/// A job, and the bytes that it handles.
struct Job {
    bytes: usize,
    run: Box<dyn FnOnce() + Send>,
}

/// State that threads and sessions share.
struct Threads {
    next: AtomicU64,
    state: Mutex<State>,
    /// Signals new jobs to the threads of each group. An idle thread sleeps at once. A channel would spin first: that
    /// pays if the next job is a microsecond away, and costs more than the calls if processors are few.
    filled: [Condvar; Cost::ALL.len()],
}

struct State {
    groups: [ThreadGroup; Cost::ALL.len()],
    sessions: usize,
    /// Number of computing threads that all sessions together request.
    asked: usize,
}

/// Threads for one kind of work, and the jobs in the queue.
struct ThreadGroup {
    jobs: FairQueue<Job>,
    /// Most threads.
    most: usize,
    started: usize,
    /// Threads that sleep.
    idle: usize,
    /// The group of threads that does this work. Another group helps out if the system cannot start a thread for this
    /// group.
    served_by: Cost,
}

impl State {
    /// Returns a job for a thread of the group `own`, with its kind and session.
    fn next_job(&mut self, own: Cost) -> Option<(Cost, SessionId, Job)> {
        for cost in Cost::ALL {
            let group = &mut self.groups[cost as usize];
            if group.served_by == own
                && let Some((id, job)) = group.jobs.pop()
            {
                return Some((cost, id, job));
            }
        }
        None
    }

    /// Returns the number of jobs that threads of the group `own` could do at once.
    fn runnable_jobs(&self, own: Cost) -> usize {
        let served = self.groups.iter().filter(|group| group.served_by == own);
        served.map(|group| group.jobs.runnable_count()).sum()
    }

    /// True if this group should start another thread.
    fn should_grow(&self, own: Cost) -> bool {
        let group = &self.groups[own as usize];
        let most = match own {
            Cost::Heavy | Cost::Light | Cost::Bulk => group.most.min(self.asked),
            Cost::Copy | Cost::Flush | Cost::Drop | Cost::Ask => group.most,
        };
        group.started < most && self.runnable_jobs(own) > group.idle
    }
}

impl Threads {
    /// Adds a job, and starts a thread if all threads are busy. At most `most` jobs of the session and of this `cost`
    /// run at once.
    fn add_job(
        self: &Arc<Self>,
        id: SessionId,
        cost: Cost,
        most: usize,
        job: Job,
    ) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.groups[cost as usize].jobs.push(id, most, job);
        let by = state.groups[cost as usize].served_by;
        if state.groups[by as usize].idle > 0 {
            self.filled[by as usize].notify_one();
        }
        if !state.should_grow(by) {
            return Ok(());
        }
        state.groups[by as usize].started += 1;
        drop(state);
        let Err(error) = self.start_thread(by) else { return Ok(()) };
        let mut state = lock(&self.state);
        state.groups[by as usize].started -= 1;
        if state.groups[by as usize].started > 0 {
            // The threads that are running already do all the work.
            return Ok(());
        }
        // Threads of other groups may wait for drops to end, and a question to the user blocks its thread. So these two
        // groups neither help nor are helped.
        let stand_in = Cost::ALL.into_iter().find(|other| {
            let is_apart = |cost| matches!(cost, Cost::Drop | Cost::Ask);
            !is_apart(cost) && !is_apart(*other) && state.groups[*other as usize].started > 0
        });
        let Some(stand_in) = stand_in else {
            let left = state.groups[cost as usize].jobs.clear(id);
            drop(state);
            drop(left);
            return Err(error);
        };
        state.groups[cost as usize].served_by = stand_in;
        self.filled[stand_in as usize].notify_one();
        Ok(())
    }

    fn start_thread(self: &Arc<Self>, own: Cost) -> io::Result<()> {
        let threads = Arc::clone(self);
        let work = move || {
            if own == Cost::Bulk {
                give_way();
            }
            threads.run_jobs(own);
        };
        std::thread::Builder::new().spawn(work).map(drop)
    }

    /// Runs jobs of this group until no job has come for some time.
    fn run_jobs(&self, own: Cost) {
        let mut state = lock(&self.state);
        loop {
            let Some((cost, id, job)) = state.next_job(own) else {
                state.groups[own as usize].idle += 1;
                let waited = self.filled[own as usize].wait_timeout(state, IDLE_TIMEOUT);
                let waited = waited.unwrap_or_else(PoisonError::into_inner);
                state = waited.0;
                state.groups[own as usize].idle -= 1;
                if waited.1.timed_out() && state.runnable_jobs(own) == 0 {
                    state.groups[own as usize].started -= 1;
                    return;
                }
                continue;
            };
            let is_metered = state.groups[cost as usize].jobs.has_others(id);
            drop(state);
            let spent = run_job(job, is_metered);
            state = lock(&self.state);
            state.groups[cost as usize].jobs.note_done(id, spent);
        }
    }
}

/// Lowers the priority of this thread for good. On Linux each thread has its own priority.
fn give_way() {
    if let Ok(own) = getpriority_process(None) {
        let _ = setpriority_process(None, own.saturating_add(GIVING_WAY));
    }
}

/// Runs a job. Returns its cost if `is_metered`, else 0. A panic loses the result of the job, but no thread.
fn run_job(Job { bytes, run }: Job, is_metered: bool) -> i64 {
    let since = is_metered.then(thread_cpu);
    let _ = catch_unwind(AssertUnwindSafe(run));
    since.map_or(0, |since| {
        let nanos = thread_cpu().saturating_sub(since).as_nanos();
        let least = fair::min_cost(bytes);
        i64::try_from(nanos).unwrap_or(i64::MAX).max(least).saturating_add(JOB_COST)
    })
}
