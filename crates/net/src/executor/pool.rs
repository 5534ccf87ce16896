//! Queues the work of a machine on the executor. The amount of work under way is bounded, and short pieces are bundled.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::budget::QUEUED;
use super::{Cost, Share};

/// Kinds of work that a machine requests, and `Bulk`, which replaces some kinds in a session that gives way.
const COSTS: [Cost; 6] = [Cost::Heavy, Cost::Copy, Cost::Light, Cost::Flush, Cost::Ask, Cost::Bulk];

impl Cost {
    /// Returns the most pieces of work that a thread takes at a time.
    const fn bundle_size(self) -> usize {
        match self {
            Self::Heavy | Self::Copy | Self::Drop | Self::Ask | Self::Bulk => 1,
            Self::Light => 32,
            Self::Flush => 4,
        }
    }
}

/// Work of a session that waits or runs, bounded in number and bytes. All results arrive in one queue. Dropping the
/// pool drops the waiting work.
pub(crate) struct SessionPool<W, R> {
    share: Share,
    work: Arc<DoWork<W, R>>,
    done: mpsc::UnboundedSender<Done<R>>,
    queues: [Queue<W>; Cost::ALL.len()],
}

/// Does the work of a bundle on a thread, and appends the results in order.
type DoWork<W, R> = dyn Fn(&mut dyn Iterator<Item = W>, &mut Vec<R>) + Send + Sync;

/// Work of one kind.
struct Queue<W> {
    /// Waiting work, each piece with the number of bytes that it handles.
    waiting: VecDeque<(W, usize)>,
    waiting_bytes: usize,
    bundles_out: usize,
    work_out: usize,
    bytes_out: usize,
}

/// Pieces of work of one kind for a thread, and the bytes that the work handles.
struct Bundle<W> {
    cost: Cost,
    bytes: usize,
    work: Vec<W>,
}

/// The results of a bundle, in order.
pub(crate) struct Done<R> {
    cost: Cost,
    /// Bytes that the bundle handled.
    bytes: usize,
    /// Results, one for each piece of work; fewer if a piece panicked.
    pub(crate) results: Vec<R>,
    /// True if a piece panicked. The session must then end.
    pub(crate) panicked: bool,
}

impl<W: Send + 'static, R: Send + 'static> SessionPool<W, R> {
    /// Makes a pool that does its work by `work` on the threads of `share`. `work` does the pieces of a bundle, and
    /// appends the results in order. Also returns the queue of results. The queue is no longer than the accepted work.
    pub(crate) fn new(
        share: Share,
        work: impl Fn(&mut dyn Iterator<Item = W>, &mut Vec<R>) + Send + Sync + 'static,
    ) -> (Self, mpsc::UnboundedReceiver<Done<R>>) {
        let (done, results) = mpsc::unbounded_channel();
        let queues = Cost::ALL.map(|_| Queue {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            bundles_out: 0,
            work_out: 0,
            bytes_out: 0,
        });
        (Self { share, work: Arc::new(work), done, queues }, results)
    }

    /// True if the pool can accept work of this kind that handles `more` bytes.
    pub(crate) fn has_room(&self, cost: Cost, more: usize) -> bool {
        let (queue, budget) = (&self.queues[cost as usize], self.share.budget());
        let (work, bytes) = self.share.pending_work();
        queue.work_out + queue.waiting.len() < budget.max_pending(cost)
            && (work == 0 || bytes.saturating_add(more) <= budget.work_bytes)
    }

    /// True while work is under way.
    pub(crate) fn has_work(&self) -> bool {
        self.queues.iter().any(|queue| queue.work_out > 0)
    }

    /// Accepts work that handles `bytes`. The caller must check [`has_room`](Self::has_room) first.
    pub(crate) fn accept(&mut self, cost: Cost, work: W, bytes: usize) {
        let queue = &mut self.queues[cost as usize];
        queue.waiting.push_back((work, bytes));
        queue.waiting_bytes += bytes;
        self.share.add_load(bytes);
    }

    /// Gives accepted work to the threads, in bundles small enough for all threads to get some.
    ///
    /// # Errors
    /// The error of the system, if no thread for some work can be started.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        for cost in COSTS {
            let queue = &mut self.queues[cost as usize];
            if queue.waiting.is_empty() {
                continue;
            }
            let threads = self.share.budget().max_running(cost);
            while !queue.waiting.is_empty() && queue.bundles_out < threads * (1 + QUEUED) {
                let share = queue.waiting.len().div_ceil(threads);
                let len = share.min(cost.bundle_size()).min(queue.waiting.len());
                let bytes = queue.waiting.range(..len).map(|(_, bytes)| bytes).sum();
                let work: Vec<W> = queue.waiting.drain(..len).map(|(work, _)| work).collect();
                queue.bundles_out += 1;
                queue.work_out += work.len();
                (queue.waiting_bytes, queue.bytes_out) =
                    (queue.waiting_bytes - bytes, queue.bytes_out + bytes);
                let job =
                    bundle_job(&self.share, &self.work, &self.done, Bundle { cost, bytes, work });
                self.share.submit_with_bytes(cost, bytes, job)?;
            }
        }
        Ok(())
    }

    /// Notes that results have arrived.
    pub(crate) fn note_results(&mut self, done: &Done<R>) {
        let queue = &mut self.queues[done.cost as usize];
        queue.bundles_out -= 1;
        queue.work_out -= done.results.len();
        queue.bytes_out -= done.bytes;
        self.share.subtract_load(done.results.len(), done.bytes);
    }
}

/// Returns a job that does a bundle, as long as a receiver waits for its results.
fn bundle_job<W: Send + 'static, R: Send + 'static>(
    share: &Share,
    work: &Arc<DoWork<W, R>>,
    done: &mpsc::UnboundedSender<Done<R>>,
    Bundle { cost, bytes, work: bundle }: Bundle<W>,
) -> impl FnOnce() + Send + 'static {
    let (work, done) = (Arc::clone(work), done.clone());
    let (cancelled, finished) = (share.cancelled(), share.finished());
    move || {
        let mut results = Vec::with_capacity(bundle.len());
        let all = AssertUnwindSafe(|| {
            // After the end of the session, the remaining work is skipped.
            let is_wanted = |_: &W| !done.is_closed() && !cancelled.load(Ordering::Relaxed);
            work(&mut bundle.into_iter().take_while(is_wanted), &mut results);
        });
        let panicked = catch_unwind(all).is_err();
        finished.fetch_add(results.len() as u64, Ordering::Relaxed);
        // The receiver is gone if the session has ended.
        let _ = done.send(Done { cost, bytes, results, panicked });
    }
}

impl<W, R> Drop for SessionPool<W, R> {
    fn drop(&mut self) {
        self.share.clear(&COSTS);
        for cost in COSTS {
            let queue = &self.queues[cost as usize];
            let (work, bytes) =
                (queue.work_out + queue.waiting.len(), queue.bytes_out + queue.waiting_bytes);
            self.share.subtract_load(work, bytes);
        }
    }
}
