//! Work that a machine asks for: numbered, answered once each, in any order (law 7).

use std::collections::{HashMap, VecDeque};

use crate::report::Trouble;

/// Names one piece of work until its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(u64);

/// Names what a driver holds open for one attempt at one file; never used twice in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// An answer that nothing waits for: a mistake of the driver, never of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer to work that is not under way, or of another kind")]
pub struct UnknownAnswer;

/// A piece of work that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What to tell people.
    pub trouble: Trouble,
    /// Whether the file may succeed if it is tried again: something changed under the run.
    pub retry: bool,
}

/// Work waiting to be polled and work under way; `A` is what the machine needs to place the answer.
#[derive(Debug)]
pub(crate) struct Jobs<W, A> {
    next: u64,
    queue: VecDeque<(WorkId, W)>,
    asked: HashMap<WorkId, A>,
}

impl<W, A> Jobs<W, A> {
    pub(crate) fn new() -> Self {
        Self { next: 0, queue: VecDeque::new(), asked: HashMap::new() }
    }

    pub(crate) fn ask(&mut self, work: W, place: A) {
        let id = WorkId(self.next);
        self.next += 1;
        self.asked.insert(id, place);
        self.queue.push_back((id, work));
    }

    pub(crate) fn poll(&mut self) -> Option<(WorkId, W)> {
        self.queue.pop_front()
    }

    pub(crate) fn answered(&mut self, id: WorkId) -> Result<A, UnknownAnswer> {
        self.asked.remove(&id).ok_or(UnknownAnswer)
    }

    pub(crate) fn idle(&self) -> bool {
        self.asked.is_empty()
    }
}
