//! Sessions without threads: the caller's thread performs the work, bytes go in and bytes come out. A web page runs its
//! sessions like this, in a Web Worker (docs/decisions/0074).

use std::sync::Arc;
use std::time::Duration;

use deltic_engine::greeting::GreetingError;
use deltic_engine::machine::{Lane, Machine};
use deltic_engine::session::{Greeting, NoGreeting, Session, SessionDriver, SessionStep};
use deltic_protocol::PeerError;
use deltic_protocol::hello::Abort;
use deltic_protocol::limits::Limits;
use deltic_protocol::report::{Counts, Notice, Trouble};

use crate::Worker;
use crate::owners::UnknownAccount;

/// Most bytes of unsent frames. Beyond this, the session waits until the caller has taken the frames.
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// The reason why a session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum InlineError {
    /// The other end broke the protocol.
    #[error("{0}")]
    Peer(PeerError),
    /// The other end gave up.
    #[error("the other end gave up: {}", .0.message)]
    Abort(Abort),
    /// The two versions share no capability that a session needs.
    #[error("incompatible versions: {here} here, {there} at the other end")]
    Versions {
        /// Version of this end.
        here: String,
        /// Version of the other end.
        there: String,
    },
    /// The other end did not finish its greeting in time.
    #[error("no answer from the other end")]
    NoAnswerInTime,
    /// The options name users or groups that this end lacks.
    #[error("{0}")]
    Account(UnknownAccount),
}

impl From<UnknownAccount> for InlineError {
    fn from(unknown: UnknownAccount) -> Self {
        Self::Account(unknown)
    }
}

impl From<GreetingError> for InlineError {
    fn from(error: GreetingError) -> Self {
        match error {
            GreetingError::Peer(error) => Self::Peer(error),
            GreetingError::Abort(abort) => Self::Abort(abort),
            GreetingError::Versions { here, there } => Self::Versions { here, there },
        }
    }
}

impl From<PeerError> for InlineError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl From<Abort> for InlineError {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

/// State of a session after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The session waits for bytes of the other end.
    Waits,
    /// Further work can be performed immediately.
    GoesOn,
    /// The session is over.
    Over,
}

/// A session that performs its work between frames.
///
/// The caller passes bytes from the other end to [`receive`](Self::receive), then calls [`step`](Self::step) until `step`
/// appends no more bytes.
pub struct InlineSession<M: Machine, W> {
    session: Session<M, InlineError>,
    worker: Arc<W>,
    /// Bytes from the other end that the session has not processed yet.
    heard: Vec<u8>,
    /// Bytes that the caller took for the other end.
    sent: u64,
    /// Bytes from the other end.
    received: u64,
}

impl<M: Machine, W: Worker<M>> InlineSession<M, W> {
    /// Starts a session whose greeting has ended, so `machine` knows the terms.
    pub fn new(machine: M, worker: W) -> Self {
        Self::of(Session::new(machine, None), Arc::new(worker))
    }

    /// Starts a session during the greeting, while `machine` works already. `greeting` takes the frames of the
    /// greeting.
    pub fn greeting(machine: M, worker: Arc<W>, greeting: Greeting<InlineError>) -> Self {
        Self::of(Session::new(machine, Some(greeting)), worker)
    }

    const fn of(session: Session<M, InlineError>, worker: Arc<W>) -> Self {
        Self { session, worker, heard: Vec::new(), sent: 0, received: 0 }
    }

    /// Returns the limits of the frames that the other end may send now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.session.limits()
    }

    /// Returns the number of comparisons of sums by this end so far.
    pub fn counts(&self) -> Counts {
        self.session.counts()
    }

    /// Tells the session the time since its start.
    ///
    /// # Errors
    /// [`InlineError::NoAnswerInTime`] if the other end has not finished its greeting by now.
    pub fn wake(&mut self, now: Duration) -> Result<(), InlineError> {
        self.session.wake(now).map_err(|NoGreeting| InlineError::NoAnswerInTime)
    }

    /// Takes bytes from the other end: frames, in pieces of any length.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        self.received += bytes.len() as u64;
        self.session.set_wire_bytes(self.sent, self.received);
    }

    /// Takes all steps that are possible now: processes frames, performs work, appends frames for the other end to
    /// `unsent`, and reports events to `watch`. Returns true once the session is over.
    ///
    /// # Errors
    /// [`InlineError`] if the session cannot go on.
    pub fn step(
        &mut self,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<bool, InlineError> {
        Ok(self.turn(usize::MAX, unsent, watch)? == Progress::Over)
    }

    /// Does what [`step`](Self::step) does, but performs at most `most_work` pieces of work. So the caller can send and
    /// receive frames while much work is left.
    ///
    /// # Errors
    /// [`InlineError`] if the session cannot go on.
    pub fn turn(
        &mut self,
        mut most_work: usize,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<Progress, InlineError> {
        self.feed_session()?;
        // The session offers work before frames. A pool of threads is full after some work, but here the answer comes
        // at once. So work starts only after the frames of earlier work have left; else a whole file is read first.
        let mut can_work = false;
        loop {
            let has_room = unsent.len() < MAX_UNSENT_BYTES;
            let around = DriverState { worker: &*self.worker, has_room, can_work };
            match self.session.poll(&around) {
                Some(SessionStep::Send(_, batch)) => {
                    // Progress is reported once its bytes were sent.
                    self.sent += batch.len() as u64;
                    self.session.set_wire_bytes(self.sent, self.received);
                    unsent.extend(batch);
                }
                Some(SessionStep::Work(id, work)) => {
                    self.session.answered(id, self.worker.perform(work));
                    self.feed_session()?;
                    can_work = false;
                    most_work -= 1;
                    if most_work == 0 {
                        return Ok(Progress::GoesOn);
                    }
                }
                Some(SessionStep::Event(notice)) => watch(self.located(notice)),
                Some(SessionStep::Done) => {
                    unsent.extend(std::iter::from_fn(|| self.session.poll_rest(&around)).flatten());
                    let last = self.session.finish();
                    last.into_iter().for_each(|notice| watch(self.located(notice)));
                    self.worker.ended();
                    return Ok(Progress::Over);
                }
                None if !can_work => can_work = true,
                // The caller takes the frames at the end of each turn.
                None if !has_room => return Ok(Progress::GoesOn),
                None => return Ok(Progress::Waits),
            }
        }
    }

    /// Passes complete frames to the session, as long as the session takes frames.
    fn feed_session(&mut self) -> Result<(), InlineError> {
        if self.session.takes_frames() && !self.session.is_finished() {
            let fed = self.session.feed_bytes(&self.heard)?;
            self.heard.drain(..fed);
        }
        Ok(())
    }

    /// Completes an event with facts of this end: the location of a trouble, the digest of a changed file.
    fn located(&self, mut notice: Notice) -> Notice {
        match &mut notice {
            Notice::Trouble(trouble) => self.worker.locate(trouble),
            Notice::Changed(change) => self.worker.describe(change),
            _ => {}
        }
        notice
    }
}

/// State that a step of the session may query.
struct DriverState<'a, W> {
    worker: &'a W,
    has_room: bool,
    can_work: bool,
}

impl<M: Machine, W: Worker<M>> SessionDriver<M> for DriverState<'_, W> {
    fn can_send(&self, _: Lane) -> bool {
        self.has_room
    }

    fn can_start(&self, _: &M::Work) -> bool {
        self.can_work
    }

    fn edit_trouble(&self, trouble: &mut Trouble) {
        self.worker.locate_there(trouble);
    }

    fn compress(&self, frame: &[u8]) -> Option<Vec<u8>> {
        self.worker.compress(frame)
    }
}
