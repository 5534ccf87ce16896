//! Threads that do the machines' work: as many as there are processors for what computes, more for what waits for a disk.
//!
//! Threads of our own and not the runtime's: tens of thousands of short calls a second spend more on waking those than
//! on the work itself.

use crossbeam_channel as channel;
use tokio::sync::mpsc;

/// Flushes under way at once: enough for a disk to merge them (RELIABILITY, finding 10).
const FLUSHERS: usize = 16;
/// Calls that wait for a thread, for each thread: it finds the next one when it is done with one.
const QUEUED: usize = 4;

/// What a piece of work mostly costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Processor time, and now and then a look at a disk.
    Compute,
    /// Waiting for a disk to flush.
    Flush,
}

/// A bounded number of blocking calls under way; what they return comes out of one queue.
pub(crate) struct Pool<T> {
    computing: Crew<T>,
    flushing: Crew<T>,
    under_way: [usize; 2],
}

/// Threads that take calls from one queue until it is closed.
struct Crew<T> {
    threads: usize,
    calls: channel::Sender<Call<T>>,
}

type Call<T> = Box<dyn FnOnce() -> T + Send>;

/// What calls returned, and of which kind they were.
pub(crate) type Results<T> = mpsc::UnboundedReceiver<(Cost, T)>;

impl<T: Send + 'static> Pool<T> {
    /// A pool as wide as the machine, and where its results come out: as bounded as the calls under way.
    pub(crate) fn new() -> (Self, Results<T>) {
        let cores = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let (done, results) = mpsc::unbounded_channel();
        let computing = Crew::new(cores, Cost::Compute, &done);
        let flushing = Crew::new(FLUSHERS, Cost::Flush, &done);
        (Self { computing, flushing, under_way: [0; 2] }, results)
    }

    /// Whether another call of this kind can be taken now.
    pub(crate) fn has_room(&self, cost: Cost) -> bool {
        self.under_way[cost as usize] < self.crew(cost).threads * (1 + QUEUED)
    }

    /// Runs `call`; the caller has asked for room, and says [`Pool::finished`] when its result is out.
    pub(crate) fn run(&mut self, cost: Cost, call: impl FnOnce() -> T + Send + 'static) {
        self.under_way[cost as usize] += 1;
        let taken = self.crew(cost).calls.send(Box::new(call));
        taken.expect("the threads end after the queue");
    }

    /// A result of this kind has come out.
    pub(crate) fn finished(&mut self, cost: Cost) {
        self.under_way[cost as usize] -= 1;
    }

    fn crew(&self, cost: Cost) -> &Crew<T> {
        match cost {
            Cost::Compute => &self.computing,
            Cost::Flush => &self.flushing,
        }
    }
}

impl<T: Send + 'static> Crew<T> {
    fn new(threads: usize, cost: Cost, done: &mpsc::UnboundedSender<(Cost, T)>) -> Self {
        let (calls, taken) = channel::unbounded::<Call<T>>();
        for _ in 0..threads {
            let (taken, done) = (taken.clone(), done.clone());
            // Nobody waits for a result once the session has ended.
            std::thread::spawn(move || taken.iter().try_for_each(|call| done.send((cost, call()))));
        }
        Self { threads, calls }
    }
}
