//! Sessions whose work is performed on the caller's thread: bytes in, bytes out. A page runs its sessions so, in a Web
//! Worker (docs/decisions/0074).

use deltic_engine::machine::{Lane, Machine};
use deltic_engine::session::{Session, SessionDriver, SessionStep};
use deltic_protocol::PeerError;
use deltic_protocol::hello::Abort;
use deltic_protocol::report::{Notice, Trouble};

use crate::Worker;

/// Bytes of frames after which a session waits until the caller has taken them.
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

/// A session after its greeting, with a worker that performs its work between frames.
///
/// The caller passes bytes of the other end to [`hear`](Self::hear), then calls [`step`](Self::step) until it makes no
/// more bytes.
pub struct InlineSession<M: Machine, W> {
    session: Session<M, InlineError>,
    worker: W,
    /// Bytes of the other end that were not fed yet.
    heard: Vec<u8>,
}

impl<M: Machine, W: Worker<M>> InlineSession<M, W> {
    /// Begins the session of a machine that knows the terms.
    pub fn new(machine: M, worker: W) -> Self {
        Self { session: Session::new(machine, None), worker, heard: Vec::new() }
    }

    /// Takes bytes of the other end: frames, cut anywhere.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// Takes the steps that are possible now: feeds frames, performs work, appends frames for the other end to
    /// `unsent`, and reports events to `watch`. Returns true once the session is over.
    ///
    /// # Errors
    /// [`InlineError`] if the session cannot go on.
    pub fn step(
        &mut self,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<bool, InlineError> {
        self.feed()?;
        loop {
            let around = Around { worker: &self.worker, has_room: unsent.len() < MAX_UNSENT_BYTES };
            match self.session.poll(&around) {
                Some(SessionStep::Send(_, batch)) => unsent.extend(batch),
                Some(SessionStep::Work(id, work)) => {
                    self.session.answered(id, self.worker.perform(work));
                    self.feed()?;
                }
                Some(SessionStep::Event(notice)) => watch(self.located(notice)),
                Some(SessionStep::Done) => {
                    unsent.extend(std::iter::from_fn(|| self.session.poll_rest(&around)).flatten());
                    let last = self.session.finish();
                    last.into_iter().for_each(|notice| watch(self.located(notice)));
                    self.worker.ended();
                    return Ok(true);
                }
                None => return Ok(false),
            }
        }
    }

    /// Feeds the complete frames that arrived, as long as the session takes frames.
    fn feed(&mut self) -> Result<(), InlineError> {
        if self.session.takes_frames() && !self.session.is_finished() {
            let fed = self.session.feed_bytes(&self.heard)?;
            self.heard.drain(..fed);
        }
        Ok(())
    }

    /// Adds to an event the facts of this end.
    fn located(&self, mut notice: Notice) -> Notice {
        match &mut notice {
            Notice::Trouble(trouble) => self.worker.locate(trouble),
            Notice::Changed(change) => self.worker.describe(change),
            _ => {}
        }
        notice
    }
}

/// The surroundings of a session, for a step.
struct Around<'a, W> {
    worker: &'a W,
    has_room: bool,
}

impl<M: Machine, W: Worker<M>> SessionDriver<M> for Around<'_, W> {
    fn can_send(&self, _: Lane) -> bool {
        self.has_room
    }

    fn can_start(&self, _: &M::Work) -> bool {
        true
    }

    fn tell(&self, trouble: &mut Trouble) {
        self.worker.locate_there(trouble);
    }
}
