//! Work that a machine asks for: numbered, answered once each, in any order (law 7).

use std::collections::{HashMap, VecDeque};

use crate::report::Trouble;

/// Identifies a piece of work until the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(u64);

/// Identifies the open files of a driver for one attempt at one file. A handle is never used twice in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// The driver gave an answer to work that is not under way, or an answer of the wrong kind: a bug of the driver,
/// never of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer to work that is not under way, or of another kind")]
pub struct UnknownAnswer;

/// A failure of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkError {
    /// Trouble to report.
    pub trouble: Trouble,
    /// Continuation of the machine.
    pub then: ErrorAction,
}

/// Continuation of a machine after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// Try the file again: it changed during the run, and a new attempt may succeed.
    Retry,
    /// Wait: the disk had no room, and the file may succeed when nothing else is under way.
    WaitForRoom,
    /// Give the file up.
    GiveUp,
    /// Continue as if the work had succeeded. Only some attributes could not be set, which is reported.
    GoOn,
}

/// Data that belongs to a piece of work until its answer. [`WorkQueue`] only needs the handle.
pub(crate) trait HasHandle {
    /// Returns the attempt that the work belongs to; `None` for the work that ends an attempt.
    fn handle(&self) -> Option<Handle>;
}

/// Condition under which a piece of work may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkTurn {
    /// Any time.
    Any,
    /// When all earlier `Own` work of the same handle is answered.
    Own,
}

/// Work waiting to be polled and work under way; `A` tells the machine where an answer belongs.
///
/// The last work of a handle closes the handle. This work is queued only after all other work of the handle is
/// answered: a driver may do work in any order and never meets a closed handle.
#[derive(Debug)]
pub(crate) struct WorkQueue<W, A> {
    next: u64,
    queue: VecDeque<(WorkId, W)>,
    /// Work that an earlier poll held back; polled before the queue.
    held: VecDeque<(WorkId, W)>,
    asked: HashMap<WorkId, A>,
    /// Number of pieces of work under way, for each handle.
    busy: HashMap<Handle, usize>,
    /// Work that waits for its turn behind other work of the same handle.
    turns: HashMap<Handle, VecDeque<(WorkId, W)>>,
    /// Work under way with later work waiting for its turn, by handle.
    in_turn: HashMap<WorkId, Handle>,
    /// Last work of handles that are still busy.
    last: HashMap<Handle, (W, A)>,
}

impl<W, A: HasHandle> WorkQueue<W, A> {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            queue: VecDeque::new(),
            held: VecDeque::new(),
            asked: HashMap::new(),
            busy: HashMap::new(),
            turns: HashMap::new(),
            in_turn: HashMap::new(),
            last: HashMap::new(),
        }
    }

    pub(crate) fn request(&mut self, work: W, place: A) {
        let id = self.assign_id(place);
        self.queue.push_back((id, work));
    }

    pub(crate) fn request_in_turn(&mut self, turn: WorkTurn, work: W, place: A) {
        let Some(handle) = place.handle().filter(|_| turn == WorkTurn::Own) else {
            return self.request(work, place);
        };
        let id = self.assign_id(place);
        if let Some(waiting) = self.turns.get_mut(&handle) {
            return waiting.push_back((id, work));
        }
        self.turns.insert(handle, VecDeque::new());
        self.begin(handle, id, work);
    }

    fn assign_id(&mut self, place: A) -> WorkId {
        let id = WorkId(self.next);
        self.next += 1;
        if let Some(handle) = place.handle() {
            *self.busy.entry(handle).or_default() += 1;
        }
        self.asked.insert(id, place);
        id
    }

    fn begin(&mut self, handle: Handle, id: WorkId, work: W) {
        self.in_turn.insert(id, handle);
        self.queue.push_back((id, work));
    }

    /// Begins the next waiting work of the handle, if the work `id` held the turn.
    fn end_turn(&mut self, id: WorkId) {
        let Some(handle) = self.in_turn.remove(&id) else { return };
        match self.turns.get_mut(&handle).and_then(VecDeque::pop_front) {
            Some((id, work)) => self.begin(handle, id, work),
            None => drop(self.turns.remove(&handle)),
        }
    }

    /// Requests the last work of `handle`. Removes the work of `handle` that no poll has returned, and returns its
    /// data.
    pub(crate) fn request_last(&mut self, handle: Handle, work: W, place: A) -> Vec<A> {
        if !self.is_busy(handle) {
            self.request(work, place);
            return Vec::new();
        }
        let waiting = self.turns.get_mut(&handle).map(std::mem::take);
        let mut forgotten: Vec<_> = waiting.into_iter().flatten().map(|(id, _)| id).collect();
        for queue in [&mut self.held, &mut self.queue] {
            queue.retain(|(id, _)| {
                let stays = self.asked[id].handle() != Some(handle);
                forgotten.extend((!stays).then_some(*id));
                stays
            });
        }
        let forgotten = (forgotten.into_iter())
            .filter_map(|id| {
                self.end_turn(id);
                self.remove_place(id)
            })
            .collect();
        self.last.insert(handle, (work, place));
        self.queue_last_if_idle(handle);
        forgotten
    }

    pub(crate) fn poll(&mut self) -> Option<(WorkId, W)> {
        self.poll_except(|_| false)
    }

    /// Returns the next work for which `waits` is false.
    pub(crate) fn poll_except(&mut self, waits: impl Fn(&W) -> bool) -> Option<(WorkId, W)> {
        if let Some(held) = self.held.pop_front_if(|(_, work)| !waits(work)) {
            return Some(held);
        }
        while let Some((id, work)) = self.queue.pop_front() {
            if !waits(&work) {
                return Some((id, work));
            }
            self.held.push_back((id, work));
        }
        None
    }

    pub(crate) fn take_answer(&mut self, id: WorkId) -> Result<A, UnknownAnswer> {
        let place = self.remove_place(id).ok_or(UnknownAnswer)?;
        self.end_turn(id);
        if let Some(handle) = place.handle() {
            self.queue_last_if_idle(handle);
        }
        Ok(place)
    }

    /// Number of pieces of work without an answer.
    pub(crate) fn asked_count(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.last.is_empty()
    }

    /// True if work of `handle` waits or is under way.
    pub(crate) fn is_busy(&self, handle: Handle) -> bool {
        self.busy.contains_key(&handle)
    }

    /// Queues the last work of `handle` if no other work of the handle is under way.
    fn queue_last_if_idle(&mut self, handle: Handle) {
        if !self.is_busy(handle)
            && let Some((work, place)) = self.last.remove(&handle)
        {
            self.request(work, place);
        }
    }

    fn remove_place(&mut self, id: WorkId) -> Option<A> {
        let place = self.asked.remove(&id)?;
        if let Some(handle) = place.handle()
            && let Some(busy) = self.busy.get_mut(&handle)
        {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(&handle);
            }
        }
        Some(place)
    }
}
