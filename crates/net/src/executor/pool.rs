//! The work of one machine on the executor: a bounded amount under way, short pieces in bundles.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::budget::QUEUED;
use super::{Cost, Share};

/// Kinds of work that machines ask for, and the one that some of it becomes in a session that gives way.
const COSTS: [Cost; 6] = [Cost::Heavy, Cost::Copy, Cost::Light, Cost::Flush, Cost::Ask, Cost::Bulk];

impl Cost {
    /// Most pieces that one thread takes at a time.
    const fn bundle(self) -> usize {
        match self {
            Self::Heavy | Self::Copy | Self::Drop | Self::Ask | Self::Bulk => 1,
            Self::Light => 32,
            Self::Flush => 4,
        }
    }
}

/// A bounded amount of work under way; its results come out of one queue. Dropped, it drops what waits.
pub(crate) struct SessionPool<W, R> {
    share: Share,
    work: Arc<DoWork<W, R>>,
    done: mpsc::UnboundedSender<Done<R>>,
    queues: [Queue<W>; Cost::ALL.len()],
}

/// Does a bundle on one thread, and adds the results in order.
type DoWork<W, R> = dyn Fn(&mut dyn Iterator<Item = W>, &mut Vec<R>) + Send + Sync;

/// Work of one kind.
struct Queue<W> {
    /// Each piece with the bytes that it is about.
    waiting: VecDeque<(W, usize)>,
    waiting_bytes: usize,
    bundles_out: usize,
    work_out: usize,
    bytes_out: usize,
}

/// Pieces of work of one kind for one thread, and the bytes that they are about.
struct Bundle<W> {
    cost: Cost,
    bytes: usize,
    work: Vec<W>,
}

/// The results of one bundle, in order.
pub(crate) struct Done<R> {
    cost: Cost,
    /// Bytes that the bundle was about.
    bytes: usize,
    /// Results, one for each piece of work; fewer where one of them panicked.
    pub(crate) results: Vec<R>,
    /// True if a piece panicked: the session cannot go on.
    pub(crate) panicked: bool,
}

impl<W: Send + 'static, R: Send + 'static> SessionPool<W, R> {
    /// Has the threads of `share` do `work`, and where the results come out: as bounded as what is taken in. `work`
    /// does what one thread takes at a time, and adds the results in order.
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

    /// True if more work of this kind can be taken in, which is about so many bytes.
    pub(crate) fn has_room(&self, cost: Cost, more: usize) -> bool {
        let (queue, budget) = (&self.queues[cost as usize], self.share.budget());
        let (work, bytes) = self.share.under_way();
        queue.work_out + queue.waiting.len() < budget.most_work(cost)
            && (work == 0 || bytes.saturating_add(more) <= budget.work_bytes)
    }

    /// True while calls are under way.
    pub(crate) fn is_at_work(&self) -> bool {
        self.queues.iter().any(|queue| queue.work_out > 0)
    }

    /// Takes work in that is about so many bytes; the caller has asked for room.
    pub(crate) fn take(&mut self, cost: Cost, work: W, bytes: usize) {
        let queue = &mut self.queues[cost as usize];
        queue.waiting.push_back((work, bytes));
        queue.waiting_bytes += bytes;
        self.share.count_in(bytes);
    }

    /// Hands what was taken in to the threads: spread over those that will be free first, in bundles no larger than
    /// that asks for.
    ///
    /// # Errors
    /// Those of the system where it has not a single thread for some work.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        for cost in COSTS {
            let queue = &mut self.queues[cost as usize];
            if queue.waiting.is_empty() {
                continue;
            }
            let threads = self.share.budget().most_at_once(cost);
            while !queue.waiting.is_empty() && queue.bundles_out < threads * (1 + QUEUED) {
                let share = queue.waiting.len().div_ceil(threads);
                let len = share.min(cost.bundle()).min(queue.waiting.len());
                let bytes = queue.waiting.range(..len).map(|(_, bytes)| bytes).sum();
                let work: Vec<W> = queue.waiting.drain(..len).map(|(work, _)| work).collect();
                queue.bundles_out += 1;
                queue.work_out += work.len();
                (queue.waiting_bytes, queue.bytes_out) =
                    (queue.waiting_bytes - bytes, queue.bytes_out + bytes);
                let job = job(&self.share, (&self.work, &self.done), Bundle { cost, bytes, work });
                self.share.submit_of(cost, bytes, job)?;
            }
        }
        Ok(())
    }

    /// Notes that results have come out.
    pub(crate) fn finished(&mut self, done: &Done<R>) {
        let queue = &mut self.queues[done.cost as usize];
        queue.bundles_out -= 1;
        queue.work_out -= done.results.len();
        queue.bytes_out -= done.bytes;
        self.share.count_out(done.results.len(), done.bytes);
    }
}

/// Does a bundle where somebody still waits for it.
fn job<W: Send + 'static, R: Send + 'static>(
    share: &Share,
    (work, done): (&Arc<DoWork<W, R>>, &mpsc::UnboundedSender<Done<R>>),
    Bundle { cost, bytes, work: bundle }: Bundle<W>,
) -> impl FnOnce() + Send + 'static {
    let (work, done) = (Arc::clone(work), done.clone());
    let (cancelled, finished) = (share.cancelled(), share.finished());
    move || {
        let mut results = Vec::with_capacity(bundle.len());
        let all = AssertUnwindSafe(|| {
            // Once the session has ended, nobody waits for a result, and nothing more is to be done.
            let is_wanted = |_: &W| !done.is_closed() && !cancelled.load(Ordering::Relaxed);
            work(&mut bundle.into_iter().take_while(is_wanted), &mut results);
        });
        let panicked = catch_unwind(all).is_err();
        finished.fetch_add(results.len() as u64, Ordering::Relaxed);
        // A session that has ended wants none.
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
            self.share.count_out(work, bytes);
        }
    }
}
