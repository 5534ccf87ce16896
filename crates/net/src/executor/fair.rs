//! A fair queue for the jobs of many sessions.
//!
//! Deficit round robin, with the cost charged afterwards: a session takes jobs while the session has credit, and pays
//! the cost of each job after the job has run. A session without credit waits until all other sessions with jobs have
//! spent their credit. No job waits for credit while a thread is free.

use std::collections::{BTreeMap, VecDeque};

/// Credit that a session gets each round, in nanoseconds of work.
const QUANTUM: i64 = 1_000_000;
/// Bytes charged as one `QUANTUM`.
const QUANTUM_BYTES: usize = 512 << 10;

/// Returns the least cost of a job that handles `bytes`, however fast the job runs.
pub(super) fn min_cost(bytes: usize) -> i64 {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    bytes.saturating_mul(QUANTUM) / QUANTUM_BYTES as i64
}

/// Most debt of a session, so that one long job does not lock out its session for long.
const MAX_DEBT: i64 = 64 * QUANTUM;
/// Most jobs of a session that run while other sessions wait.
const MOST_WHILE_OTHERS_WAIT: usize = 2;

/// Identifies a session.
pub(super) type SessionId = u64;

/// Jobs of one kind.
pub(super) struct FairQueue<J> {
    /// Sessions with jobs that may run, in the order of their turns.
    turns: VecDeque<SessionId>,
    /// The sessions. Mostly there is one, which a map finds without hashing.
    sessions: BTreeMap<SessionId, Session<J>>,
}

struct Session<J> {
    jobs: VecDeque<J>,
    running: usize,
    /// Most jobs that may run at once.
    most: usize,
    credit: i64,
    in_turns: bool,
    /// True once the session adds no more jobs.
    has_left: bool,
}

impl<J> Session<J> {
    fn may_run(&self) -> bool {
        !self.jobs.is_empty() && self.running < self.most
    }

    /// True if the session leaves threads for other sessions.
    fn is_below_fair_limit(&self) -> bool {
        self.running < MOST_WHILE_OTHERS_WAIT
    }
}

impl<J> Default for FairQueue<J> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), sessions: BTreeMap::new() }
    }
}

impl<J> FairQueue<J> {
    /// Adds a job of a session that may run at most `most` jobs at once.
    pub(super) fn push(&mut self, id: SessionId, most: usize, job: J) {
        let session = self.sessions.entry(id).or_insert_with(|| Session {
            jobs: VecDeque::new(),
            running: 0,
            most: 1,
            credit: 0,
            in_turns: false,
            has_left: false,
        });
        session.most = most.max(1);
        session.jobs.push_back(job);
        self.add_to_turns(id);
    }

    /// Returns the next job. The caller calls `done` after the job has run.
    pub(super) fn pop(&mut self) -> Option<(SessionId, J)> {
        let id = self.next_session()?;
        let session = self.sessions.get_mut(&id)?;
        let job = session.jobs.pop_front()?;
        session.running += 1;
        if !session.may_run() {
            session.in_turns = false;
            self.turns.pop_front();
        }
        Some((id, job))
    }

    /// True if a session other than `id` has jobs that could run. Only then is the cost of a job measured.
    pub(super) fn has_others(&self, id: SessionId) -> bool {
        self.turns.iter().any(|turn| *turn != id)
    }

    /// Notes that a job has run, and charges its cost.
    pub(super) fn note_done(&mut self, id: SessionId, cost: i64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.running -= 1;
        session.credit = (session.credit - cost).max(-MAX_DEBT);
        if session.has_left && session.running == 0 {
            self.sessions.remove(&id);
        } else {
            self.add_to_turns(id);
        }
    }

    /// Removes and returns the waiting jobs of a session.
    pub(super) fn clear(&mut self, id: SessionId) -> VecDeque<J> {
        let Some(session) = self.sessions.get_mut(&id) else { return VecDeque::new() };
        if std::mem::take(&mut session.in_turns) {
            self.turns.retain(|turn| *turn != id);
        }
        std::mem::take(&mut session.jobs)
    }

    /// Removes and returns the waiting jobs of a session that ends. The session is removed once its last running job
    /// has ended.
    pub(super) fn remove_session(&mut self, id: SessionId) -> VecDeque<J> {
        let left = self.clear(id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.has_left = true;
            if session.running == 0 {
                self.sessions.remove(&id);
            }
        }
        left
    }

    /// Returns the number of waiting jobs that could run at once.
    pub(super) fn runnable_count(&self) -> usize {
        let runnable = |id: &SessionId| {
            self.sessions.get(id).map_or(0, |s| s.jobs.len().min(s.most - s.running))
        };
        self.turns.iter().map(runnable).sum()
    }

    /// Returns the numbers of waiting and running jobs of all sessions.
    pub(super) fn counts(&self) -> (usize, usize) {
        let sessions = self.sessions.values();
        sessions.fold((0, 0), |(wait, run), s| (wait + s.jobs.len(), run + s.running))
    }

    fn add_to_turns(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.may_run()
            && !session.in_turns
        {
            session.in_turns = true;
            self.turns.push_back(id);
        }
    }

    /// Moves the next session in turn to the front. Skips sessions without credit; if no session has credit, all
    /// sessions get more.
    fn next_session(&mut self) -> Option<SessionId> {
        if self.turns.len() > 1 {
            let any_modest = self.turns.iter().any(|id| self.sessions[id].is_below_fair_limit());
            let at = self.first_with_credit(any_modest).or_else(|| {
                self.give_credit(any_modest);
                self.first_with_credit(any_modest)
            });
            self.turns.rotate_left(at?);
        }
        let id = *self.turns.front()?;
        if self.turns.len() == 1
            && let Some(session) = self.sessions.get_mut(&id)
        {
            // No other session waits, so no debt remains.
            session.credit = session.credit.max(0);
        }
        Some(id)
    }

    /// Returns the first session in turn that has credit. With `modest`, considers modest sessions only.
    fn first_with_credit(&self, modest: bool) -> Option<usize> {
        let has_credit = |s: &Session<J>| s.credit > 0 && (s.is_below_fair_limit() || !modest);
        self.turns.iter().position(|id| has_credit(&self.sessions[id]))
    }

    /// Gives all sessions in turn equal credit, until at least one of the considered sessions has credit.
    fn give_credit(&mut self, modest: bool) {
        let looked_at = |s: &&Session<J>| s.is_below_fair_limit() || !modest;
        let credits = self.turns.iter().map(|id| &self.sessions[id]).filter(looked_at);
        let most = credits.map(|session| session.credit).max().unwrap_or_default();
        let rounds = 1 - most / QUANTUM;
        for id in &self.turns {
            if let Some(session) = self.sessions.get_mut(id) {
                session.credit = (session.credit + rounds * QUANTUM).min(QUANTUM);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs jobs one after another. Returns the number of jobs done for each session.
    fn run(queue: &mut FairQueue<i64>, jobs: usize, sessions: usize) -> Vec<usize> {
        let mut done = vec![0; sessions];
        for _ in 0..jobs {
            let (id, cost) = queue.pop().expect("there is more");
            done[id as usize] += 1;
            queue.note_done(id, cost);
        }
        done
    }

    #[test]
    fn sessions_get_the_same_time_whatever_a_job_of_theirs_costs() {
        let mut queue = FairQueue::default();
        // Jobs of the first session cost sixteen times as much.
        for (id, cost) in [(0, 16 * QUANTUM), (1, QUANTUM), (2, QUANTUM)] {
            (0..1000).for_each(|_| queue.push(id, 8, cost));
        }
        let done = run(&mut queue, 330, 3);
        assert!((8..=12).contains(&done[0]), "{done:?}");
        assert!(done[1].abs_diff(done[2]) <= 2, "{done:?}");
    }

    #[test]
    fn a_session_that_comes_late_is_next_and_gets_its_share() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|_| queue.push(0, 8, QUANTUM));
        run(&mut queue, 500, 1);
        (0..1000).for_each(|_| queue.push(1, 8, QUANTUM));
        let done = run(&mut queue, 100, 2);
        assert!(done[0].abs_diff(done[1]) <= 2, "{done:?}");
    }

    #[test]
    fn debt_is_bounded() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|_| queue.push(0, 8, 1_000_000 * QUANTUM));
        run(&mut queue, 1, 1);
        (0..1000).for_each(|_| queue.push(1, 8, QUANTUM));
        let done = run(&mut queue, 100, 2);
        assert!(done[0] >= 1 && done[1] >= 60, "{done:?}");
    }

    #[test]
    fn two_of_a_session_run_while_others_wait_and_more_where_none_does() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|_| queue.push(0, 4, 0));
        (0..10).for_each(|_| queue.push(1, 4, 0));
        let mut running = [0; 2];
        for _ in 0..4 {
            running[queue.pop().expect("there is more").0 as usize] += 1;
        }
        assert_eq!(running, [2, 2]);
        // No thread is kept idle for fairness.
        for _ in 0..4 {
            running[queue.pop().expect("there is more").0 as usize] += 1;
        }
        assert_eq!((running, queue.pop()), ([4, 4], None));
        queue.note_done(0, 0);
        assert_eq!(queue.pop().map(|(id, _)| id), Some(0));
    }

    #[test]
    fn what_a_session_has_waiting_goes_when_it_leaves() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|job| queue.push(0, 4, job));
        queue.push(1, 4, 99);
        let (id, _) = queue.pop().expect("there is more");
        assert_eq!((id, queue.remove_session(0).len()), (0, 9));
        assert_eq!(queue.counts(), (1, 1));
        queue.note_done(0, 0);
        assert_eq!((queue.sessions.len(), queue.pop()), (1, Some((1, 99))));
        queue.note_done(1, 0);
        queue.remove_session(1);
        assert_eq!((queue.counts(), queue.sessions.len()), ((0, 0), 0));
    }
}
