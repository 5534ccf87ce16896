//! Threads that do the machines' work: as many as there are processors for what computes, more for what waits for a disk.
//!
//! Threads of our own and not the runtime's, and short calls several at a time: with tens of thousands of them a second,
//! waking threads would cost more than the calls.

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::mpsc;

use deltic_protocol::limits::MAX_THREADS;

use crate::hands::lock;

/// Threads that copy.
const COPIERS: usize = 2;
/// Flushes under way at once: enough for a disk to merge them (RELIABILITY, finding 10).
const FLUSHERS: usize = 16;
/// Bundles that wait for a thread, for each thread: it finds the next one when it is done with one.
const QUEUED: usize = 2;
/// Most threads for each processor, however many are asked for.
const MAX_FOR_EACH: usize = 4;
/// Work taken in and not done, of each kind but the heavy.
const MAX_LIGHT: usize = 256;

/// What a piece of work mostly costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Processor time and a large buffer.
    Heavy,
    /// Moving bytes from file to file: one thread reads while another writes; a third would only wait for the lock of the
    /// file that is written.
    Copy,
    /// A few system calls.
    Light,
    /// Waiting for a disk to flush.
    Flush,
}

impl Cost {
    const ALL: [Self; 4] = [Self::Heavy, Self::Copy, Self::Light, Self::Flush];

    /// Most pieces that one thread takes at a time.
    const fn bundle(self) -> usize {
        match self {
            Self::Heavy | Self::Copy => 1,
            Self::Light => 32,
            Self::Flush => 4,
        }
    }
}

/// A bounded amount of work under way; its results come out of one queue.
pub(crate) struct Pool<W, R> {
    crews: [Crew<W, R>; 4],
}

/// What one thread does with a bundle: it adds the results in order.
type DoWork<W, R> = dyn Fn(&mut dyn Iterator<Item = W>, &mut Vec<R>) + Send + Sync;

/// Threads of one kind of work, and what waits for them.
struct Crew<W, R> {
    cost: Cost,
    /// Most threads.
    threads: usize,
    /// Those that were started: one for each bundle that would have had to wait. Where the system has none, those of another crew
    /// do the work, and count as one.
    started: usize,
    work: Arc<DoWork<W, R>>,
    done: mpsc::UnboundedSender<Done<R>>,
    waiting: VecDeque<W>,
    bundles: Arc<Queue<W>>,
    bundles_out: usize,
    work_out: usize,
}

/// The results of one bundle, in order.
pub(crate) struct Done<R> {
    cost: Cost,
    /// One for each piece of work; fewer where one of them panicked.
    pub(crate) results: Vec<R>,
    /// Whether one did: the session cannot go on.
    pub(crate) panicked: bool,
}

impl<W: Send + 'static, R: Send + 'static> Pool<W, R> {
    /// A pool of so many threads that do `work`, 0 for as many as the machine has processors, and where the results come
    /// out: as bounded as what the pool takes in. `work` does what one thread takes at a time, and adds the results in order.
    pub(crate) fn new(
        threads: u32,
        work: impl Fn(&mut dyn Iterator<Item = W>, &mut Vec<R>) + Send + Sync + 'static,
    ) -> (Self, mpsc::UnboundedReceiver<Done<R>>) {
        let width = width(threads);
        let work: Arc<DoWork<W, R>> = Arc::new(work);
        let (done, results) = mpsc::unbounded_channel();
        let crew = |cost| {
            let threads = match cost {
                Cost::Heavy | Cost::Light => width,
                Cost::Copy => width.min(COPIERS),
                Cost::Flush => FLUSHERS,
            };
            Crew::new(cost, threads, &work, &done)
        };
        (Self { crews: Cost::ALL.map(crew) }, results)
    }

    /// Whether more work of this kind can be taken in.
    pub(crate) fn has_room(&self, cost: Cost) -> bool {
        let crew = &self.crews[cost as usize];
        let most = match cost {
            Cost::Heavy => crew.threads * (1 + QUEUED),
            Cost::Copy | Cost::Light | Cost::Flush => MAX_LIGHT,
        };
        crew.work_out + crew.waiting.len() < most
    }

    /// Whether calls are under way.
    pub(crate) fn is_at_work(&self) -> bool {
        self.crews.iter().any(|crew| crew.work_out > 0)
    }

    /// Takes work in; the caller has asked for room.
    pub(crate) fn take(&mut self, cost: Cost, work: W) {
        self.crews[cost as usize].waiting.push_back(work);
    }

    /// Hands what was taken in to the threads.
    ///
    /// # Errors
    /// Those of the system where it has not a single thread for some work.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        for at in 0..self.crews.len() {
            if let Err(error) = self.crews[at].start() {
                let mut others = self.crews.iter().filter(|crew| crew.started > 0);
                let bundles = others.next().map(|crew| Arc::clone(&crew.bundles)).ok_or(error)?;
                self.crews[at].join(bundles);
                self.crews[at].start()?;
            }
        }
        Ok(())
    }

    /// Notes that results have come out.
    pub(crate) fn finished(&mut self, done: &Done<R>) {
        let crew = &mut self.crews[done.cost as usize];
        crew.bundles_out -= 1;
        crew.work_out -= done.results.len();
    }
}

impl<W: Send + 'static, R: Send + 'static> Crew<W, R> {
    fn new(
        cost: Cost,
        threads: usize,
        work: &Arc<DoWork<W, R>>,
        done: &mpsc::UnboundedSender<Done<R>>,
    ) -> Self {
        Self {
            cost,
            threads,
            started: 0,
            work: Arc::clone(work),
            done: done.clone(),
            waiting: VecDeque::new(),
            bundles: Arc::default(),
            bundles_out: 0,
            work_out: 0,
        }
    }

    /// One more thread, if there may be one.
    fn grow(&mut self) -> io::Result<()> {
        if self.started == self.threads {
            return Ok(());
        }
        let (work, done) = (Arc::clone(&self.work), self.done.clone());
        let taken = Arc::clone(&self.bundles);
        let run = move || {
            while let Some((cost, bundle)) = taken.take() {
                let mut results = Vec::with_capacity(bundle.len());
                let all = AssertUnwindSafe(|| {
                    // Once the session has ended, nobody waits for a result, and nothing more is to be done.
                    let mut wanted = bundle.into_iter().take_while(|_| !done.is_closed());
                    work(&mut wanted, &mut results);
                });
                let panicked = std::panic::catch_unwind(all).is_err();
                if done.send(Done { cost, results, panicked }).is_err() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().spawn(run) {
            Ok(_) => self.started += 1,
            // Those that are there do it all.
            Err(_) if self.started > 0 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Has the threads of another crew, whose queue `bundles` is, do the work of this one, which has none.
    fn join(&mut self, bundles: Arc<Queue<W>>) {
        let own = std::mem::replace(&mut self.bundles, bundles);
        let left = std::mem::take(&mut lock(&own.state).bundles);
        for bundle in left {
            self.bundles.put(bundle);
        }
        self.started = 1;
    }

    /// Spreads what waits over the threads that will be free first, in bundles no larger than that asks for.
    fn start(&mut self) -> io::Result<()> {
        let most = self.threads * (1 + QUEUED);
        while !self.waiting.is_empty() && self.bundles_out < most {
            let share = self.waiting.len().div_ceil(self.threads);
            let bundle: Vec<W> = self
                .waiting
                .drain(..share.min(self.cost.bundle()).min(self.waiting.len()))
                .collect();
            self.bundles_out += 1;
            self.work_out += bundle.len();
            if !self.bundles.put((self.cost, bundle)) {
                self.grow()?;
            }
        }
        Ok(())
    }
}

impl<W, R> Drop for Crew<W, R> {
    fn drop(&mut self) {
        self.bundles.close();
    }
}

/// Bundles on their way to the threads of a crew. Who finds none sleeps at once: channels spin first, which pays where
/// the next one is a microsecond away, and costs more than the calls where processors are few.
struct Queue<W> {
    state: Mutex<Waiting<W>>,
    filled: Condvar,
}

/// Work that one thread takes at a time, of one kind.
type Bundle<W> = (Cost, Vec<W>);

struct Waiting<W> {
    bundles: VecDeque<Bundle<W>>,
    /// Threads that sleep.
    idle: usize,
    closed: bool,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        let state = Waiting { bundles: VecDeque::new(), idle: 0, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new() }
    }
}

impl<W> Queue<W> {
    /// Adds one; whether there is a thread that sleeps for each that waits.
    fn put(&self, bundle: Bundle<W>) -> bool {
        let mut state = lock(&self.state);
        state.bundles.push_back(bundle);
        if state.idle > 0 {
            self.filled.notify_one();
        }
        state.bundles.len() <= state.idle
    }

    /// The next bundle, once there is one; none, if there will be none.
    fn take(&self) -> Option<Bundle<W>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(bundle) = state.bundles.pop_front() {
                return Some(bundle);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_all();
    }
}

/// Threads that are started where so many are asked for.
fn width(asked: u32) -> usize {
    match asked {
        0 => processors().max(2),
        asked => asked.min(most_threads()) as usize,
    }
}

/// Most threads that an end computes with here, however many are asked for: a peer cannot make a machine start any number.
#[must_use]
pub fn most_threads() -> u32 {
    let most = processors().saturating_mul(MAX_FOR_EACH);
    u32::try_from(most).map_or(MAX_THREADS, |most| most.min(MAX_THREADS))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_start_when_there_is_work_for_them() {
        let together = Barrier::new(3);
        let (mut pool, mut results) = Pool::new(3, move |works, results| {
            together.wait();
            results.extend(works);
        });
        let started = |pool: &Pool<u32, u32>| Vec::from_iter(pool.crews.iter().map(|c| c.started));
        assert_eq!(started(&pool), [0; 4]);
        for work in 0..3 {
            assert!(pool.has_room(Cost::Heavy));
            pool.take(Cost::Heavy, work);
        }
        pool.start().unwrap();
        // Each waits for the others.
        let done: Vec<_> = (0..3).map(|_| results.blocking_recv().unwrap()).collect();
        done.iter().for_each(|done| pool.finished(done));
        let mut all: Vec<_> = done.into_iter().flat_map(|done| done.results).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        assert_eq!(started(&pool), [3, 0, 0, 0]);
    }

    #[test]
    fn a_pool_is_as_wide_as_is_asked_and_the_machine_bears() {
        let cores = std::thread::available_parallelism().unwrap().get();
        assert_eq!((width(1), width(2)), (1, 2));
        assert_eq!(width(0), cores.max(2));
        let most = most_threads() as usize;
        assert_eq!(most, (cores * MAX_FOR_EACH).min(MAX_THREADS as usize));
        assert_eq!((width(u32::MAX), width(most as u32 + 1)), (most, most));
    }
}
