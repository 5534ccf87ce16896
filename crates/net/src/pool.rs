//! Threads that do the machines' work: a few for what computes, more for what waits for a disk.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

/// Work that mostly waits, done at once: enough for a disk to merge its flushes (RELIABILITY, finding 10).
const WAITERS: usize = 16;

/// What a piece of work mostly costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Processor time and a buffer.
    Compute,
    /// Waiting.
    Wait,
}

/// A bounded number of blocking calls under way; what they return comes out of one queue.
pub(crate) struct Pool<T> {
    computing: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    done: mpsc::UnboundedSender<T>,
}

impl<T: Send + 'static> Pool<T> {
    /// A pool as wide as the machine, and where its results come out. They are as bounded as the calls under way.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<T>) {
        let cores = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let (done, results) = mpsc::unbounded_channel();
        let (computing, waiting) = (Semaphore::new(cores), Semaphore::new(WAITERS));
        (Self { computing: Arc::new(computing), waiting: Arc::new(waiting), done }, results)
    }

    /// Whether a call of this kind can be started now.
    pub(crate) fn has_room(&self, cost: Cost) -> bool {
        self.slots(cost).available_permits() > 0
    }

    /// Runs `call`; the caller has asked for room.
    pub(crate) fn run(&self, cost: Cost, call: impl FnOnce() -> T + Send + 'static) {
        let slot = Arc::clone(self.slots(cost)).try_acquire_owned();
        let slot = slot.expect("only one task starts calls, and it asked for room");
        let done = self.done.clone();
        tokio::task::spawn_blocking(move || {
            let result = call();
            drop(slot);
            // Nobody waits for it once the session has ended.
            done.send(result).ok();
        });
    }

    fn slots(&self, cost: Cost) -> &Arc<Semaphore> {
        match cost {
            Cost::Compute => &self.computing,
            Cost::Wait => &self.waiting,
        }
    }
}
