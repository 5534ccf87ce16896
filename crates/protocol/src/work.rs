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

/// Where an answer belongs, as far as [`Jobs`] must know.
pub(crate) trait Concerns {
    /// The attempt that the work is part of, unless it ends it.
    fn handle(&self) -> Option<Handle>;
}

/// Work waiting to be polled and work under way; `A` is what the machine needs to place the answer.
///
/// The last work of a handle lets go of it, and is asked for once all other work of the handle is answered: a driver
/// may do work in any order and still never meets a handle after its end.
#[derive(Debug)]
pub(crate) struct Jobs<W, A> {
    next: u64,
    queue: VecDeque<(WorkId, W)>,
    asked: HashMap<WorkId, A>,
    /// How much work of each handle is under way.
    busy: HashMap<Handle, usize>,
    /// The last work of handles that are busy.
    last: HashMap<Handle, (W, A)>,
}

impl<W, A: Concerns> Jobs<W, A> {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            queue: VecDeque::new(),
            asked: HashMap::new(),
            busy: HashMap::new(),
            last: HashMap::new(),
        }
    }

    pub(crate) fn ask(&mut self, work: W, place: A) {
        let id = WorkId(self.next);
        self.next += 1;
        if let Some(handle) = place.handle() {
            *self.busy.entry(handle).or_default() += 1;
        }
        self.asked.insert(id, place);
        self.queue.push_back((id, work));
    }

    /// Asks for the last work of `handle`; what was not begun of the rest is forgotten and returned.
    pub(crate) fn ask_last(&mut self, handle: Handle, work: W, place: A) -> Vec<A> {
        if !self.busy.contains_key(&handle) {
            self.ask(work, place);
            return Vec::new();
        }
        let mut forgotten = Vec::new();
        self.queue.retain(|(id, _)| {
            let stays = self.asked[id].handle() != Some(handle);
            forgotten.extend((!stays).then_some(*id));
            stays
        });
        let forgotten = forgotten.into_iter().filter_map(|id| self.take(id)).collect();
        self.last.insert(handle, (work, place));
        self.ask_idle(handle);
        forgotten
    }

    pub(crate) fn poll(&mut self) -> Option<(WorkId, W)> {
        self.queue.pop_front()
    }

    pub(crate) fn answered(&mut self, id: WorkId) -> Result<A, UnknownAnswer> {
        let place = self.take(id).ok_or(UnknownAnswer)?;
        if let Some(handle) = place.handle() {
            self.ask_idle(handle);
        }
        Ok(place)
    }

    pub(crate) fn idle(&self) -> bool {
        self.asked.is_empty() && self.last.is_empty()
    }

    /// Asks for the last work of `handle` if nothing else of it is under way.
    fn ask_idle(&mut self, handle: Handle) {
        if !self.busy.contains_key(&handle)
            && let Some((work, place)) = self.last.remove(&handle)
        {
            self.ask(work, place);
        }
    }

    fn take(&mut self, id: WorkId) -> Option<A> {
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
