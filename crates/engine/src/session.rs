//! The event loop of a sender or receiver, as steps: frames in, work out, answers in, frames out.
//!
//! The loop has no clock and no queue of its own, and never waits. The driver moves bytes, does work, and calls
//! [`poll`](Session::poll) after each of these until `poll` returns `None`:
//!
//! ```text
//!        feed ─────►┌─────────┐─► Step::Send   frames for the other end
//!    answered ─────►│ Session │─► Step::Work   for a worker
//!        wake ─────►│         │─► Step::Event  for people
//!    set_link ─────►└─────────┘─► Step::Done
//! ```
//!
//! Reading never waits for writing. The protocol's credit bounds the frames that a machine holds. Work starts only
//! while frames can be sent, and frames may be fed only while [`takes_frames`](Session::takes_frames) is true. So every
//! queue has a bound, and the two ends cannot block each other (docs/protocol.md, "Credit").

use std::collections::VecDeque;
use std::time::Duration;

use deltic_core::strategy::LinkModel;
use deltic_protocol::compressed::CompressedFrame;
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{Abort, Alive};
use deltic_protocol::limits::Limits;
use deltic_protocol::report::{Counts, Notice, Trouble};
use deltic_protocol::{PeerError, Purpose, Terms, WorkId};

use crate::compression::FrameDecompressor;
use crate::events::EventQueue;
use crate::machine::{Lane, Machine};

/// Target size of a batch of frames in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// If the other end has not answered after this time, it counts as far away, and an offer saves a round trip.
pub(crate) const FAR_AWAY: Duration = Duration::from_millis(25);
/// Longest time until the end of the greeting. A user may have to type a password first, for which sshd allows two
/// minutes, and sources may take long to open.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(600);

/// Handles the frames of the greeting. Returns the terms after the last frame of the greeting.
pub type Greeting<E> = Box<dyn FnMut(u8, &[u8]) -> Result<Option<Terms>, E> + Send>;

/// Queries and callbacks of a session to its driver.
pub trait SessionDriver<M: Machine> {
    /// True if there are several streams.
    fn has_several_lanes(&self) -> bool {
        false
    }
    /// True if a batch of frames can be sent on this lane.
    fn can_send(&self, lane: Lane) -> bool;
    /// True if this work can start.
    fn can_start(&self, work: &M::Work) -> bool;
    /// Edits a trouble report before it is sent to the other end.
    fn edit_trouble(&self, _trouble: &mut Trouble) {}
    /// Returns an empty buffer for a batch.
    fn buffer(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Takes a buffer back for reuse.
    fn recycle_buffer(&self, _buffer: Vec<u8>) {}
    /// Compresses a frame of literals that is about to be sent on the first stream. Returns the compressed frame, or
    /// `None` if the frame is sent uncompressed. Frames are sent in the order of these calls.
    fn compress(&self, _frame: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Observes a frame that is about to be sent.
    fn observe_frame(&self, _frame: &[u8], _purpose: Purpose) {}
}

/// The next thing for the driver to do.
pub enum SessionStep<M: Machine> {
    /// Send these frames on a stream of this lane.
    Send(Lane, Vec<u8>),
    /// Do this work, then pass the answer to [`Session::answered`].
    Work(WorkId, M::Work),
    /// Report this event.
    Event(Notice),
    /// The session is over. Send the frames of [`poll_rest`](Session::poll_rest), then report the events of
    /// [`finish`](Session::finish).
    Done,
}

/// Error: the other end did not finish its greeting in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoGreeting;

/// A state machine with its loop state. `E` is the error type of the driver.
pub struct Session<M: Machine, E> {
    machine: M,
    /// Handler of the greeting, if the machine starts before the greeting ends.
    greeting: Option<Greeting<E>>,
    /// True until the other end answers, or until the time [`FAR_AWAY`] has passed.
    is_unanswered: bool,
    turn: PollPhase,
    /// True if the last turn could not send all frames.
    is_blocked: bool,
    /// Encoded frames that no stream has taken yet: at most two batches.
    held: VecDeque<(Lane, Vec<u8>)>,
    /// Bytes of frames encoded so far, sent or not.
    said: u64,
    /// Work that could not start yet.
    waiting: Option<(WorkId, M::Work)>,
    events: EventQueue,
    decompressor: FrameDecompressor,
}

/// Phases of [`Session::poll`], in order: send frames, start work, send frames again, report events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollPhase {
    Frames,
    Work,
    /// Sends frames again: polling the machine for work may have produced more frames.
    MoreFrames,
    Events,
}

impl<M: Machine, E: From<PeerError> + From<Abort>> Session<M, E> {
    /// Starts the loop of `machine`. `greeting` handles the frames of a greeting that is not over.
    pub fn new(machine: M, greeting: Option<Greeting<E>>) -> Self {
        Self {
            machine,
            greeting,
            is_unanswered: true,
            turn: PollPhase::Frames,
            is_blocked: false,
            held: VecDeque::new(),
            said: 0,
            waiting: None,
            events: EventQueue::default(),
            decompressor: FrameDecompressor::default(),
        }
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// - an error of the greeting
    /// - [`Abort`] if the peer gives up
    /// - [`PeerError`] if the peer breaks the protocol
    pub fn feed(&mut self, kind: u8, payload: &[u8]) -> Result<(), E> {
        self.is_unanswered = false;
        if let Some(abort) = Abort::decode(kind, payload)? {
            return Err(abort.into());
        }
        if Alive::decode(kind, payload)?.is_some() {
            return Ok(());
        }
        let Some(greeting) = &mut self.greeting else {
            return Ok(self.handle(kind, payload)?);
        };
        if let Some(terms) = greeting(kind, payload)? {
            self.greeting = None;
            self.machine.greeted(&terms);
        }
        Ok(())
    }

    /// Takes all complete frames at the start of `bytes`. Returns their length in bytes.
    ///
    /// # Errors
    /// The errors of [`feed`](Self::feed).
    pub fn feed_bytes(&mut self, bytes: &[u8]) -> Result<usize, E> {
        let mut rest = bytes;
        while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let Header { kind, len } = Header::decode(*header)?;
            if self.greeting.is_none() {
                self.machine.limits().check_frame(len)?;
            }
            let Some((payload, after)) = behind.split_at_checked(len) else { break };
            self.feed(kind, payload)?;
            rest = after;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Takes the answer to a piece of work.
    ///
    /// # Panics
    /// If the machine did not request this work, which is a bug of the driver.
    pub fn answered(&mut self, id: WorkId, answer: M::Answer) {
        let known = self.machine.answer(id, answer);
        known.expect("every answer belongs to work of this machine");
    }

    /// Tells the session the time since its start.
    ///
    /// # Errors
    /// [`NoGreeting`] if the other end has not finished its greeting by now.
    pub fn wake(&mut self, now: Duration) -> Result<(), NoGreeting> {
        if self.is_unanswered && now >= FAR_AWAY {
            self.is_unanswered = false;
            self.machine.note_slow_answer();
        }
        if self.greeting.is_some() && now >= GREETING_TIMEOUT { Err(NoGreeting) } else { Ok(()) }
    }

    /// Returns when to call [`wake`](Self::wake) next, as the time since the session's start.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        match (self.is_unanswered, &self.greeting) {
            (true, _) => Some(FAR_AWAY),
            (false, Some(_)) => Some(GREETING_TIMEOUT),
            (false, None) => None,
        }
    }

    /// Sets the present model of the link to the other end: measured figures, or the limits of the user. The caller may
    /// set the link at any time, as often as the link changes; the machine uses the last model. Without a model, the
    /// link counts as unknown.
    pub fn set_link(&mut self, link: LinkModel) {
        self.machine.set_link(link);
    }

    /// Tells the machine that the connection is lost. Returns true if the machine then finishes files whose data have
    /// arrived.
    pub fn lose_connection(&mut self) -> bool {
        self.machine.lose_connection()
    }

    /// Takes the numbers of bytes that were sent and received on the wire so far.
    pub fn set_wire_bytes(&mut self, sent: u64, received: u64) {
        self.events.set_wire_bytes(sent, received);
    }

    /// Returns the next step, or `None` if the session waits for a frame, an answer, or room to send or start work.
    pub fn poll(&mut self, around: &impl SessionDriver<M>) -> Option<SessionStep<M>> {
        loop {
            match self.turn {
                PollPhase::Frames | PollPhase::MoreFrames => match self.poll_batch(around) {
                    Some((lane, batch)) => return Some(SessionStep::Send(lane, batch)),
                    None if self.turn == PollPhase::Frames && !self.is_blocked => {
                        self.turn = PollPhase::Work
                    }
                    None => self.gather_events(),
                },
                PollPhase::Work => match self.poll_work(around) {
                    Some((id, work)) => return Some(SessionStep::Work(id, work)),
                    None => self.turn = PollPhase::MoreFrames,
                },
                PollPhase::Events => {
                    if let Some(event) = self.events.pop() {
                        return Some(SessionStep::Event(event));
                    }
                    self.turn = PollPhase::Frames;
                    return self.machine.is_finished().then_some(SessionStep::Done);
                }
            }
        }
    }

    /// Returns the limits of frames that may be fed now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        if self.greeting.is_some() { Limits::default() } else { self.machine.limits() }
    }

    /// True while frames may be fed.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        !self.machine.is_full()
    }

    /// True after the end of the session. The peer's stream must end after its last frame.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    /// True while literals wait for credit from the receiver.
    #[must_use]
    pub fn lacks_credit(&self) -> bool {
        self.machine.lacks_credit()
    }

    /// Returns the lane that must have room before the session goes on. Returns `None` if the session does not wait for
    /// room.
    #[must_use]
    pub fn blocked_on(&self) -> Option<Lane> {
        let lane = self.held.front().map_or(Lane::Any, |(lane, _)| *lane);
        self.is_blocked.then_some(lane)
    }

    /// True while events wait for bytes to be sent. The driver must then call [`set_wire_bytes`](Self::set_wire_bytes)
    /// regularly.
    #[must_use]
    pub fn holds_events(&self) -> bool {
        self.events.has_delayed_events()
    }

    /// Returns how often sums were compared.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.machine.counts()
    }

    /// Returns the next batch of remaining frames after the end of the session, to be sent on the first stream.
    pub fn poll_rest(&mut self, around: &impl SessionDriver<M>) -> Option<Vec<u8>> {
        self.next_batch(around).map(|(_, batch)| batch)
    }

    /// Returns the next event of the machine. For a driver that drains a session instead of polling it.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.machine.poll_notice()
    }

    /// Returns the last events, after all frames were sent or the peer stopped reading.
    pub fn finish(&mut self) -> Vec<Notice> {
        let mut last = self.events.release();
        last.extend(std::iter::from_fn(|| self.machine.poll_notice()));
        last
    }

    /// Passes a frame to the machine, decompressed if the frame is compressed.
    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        let limits = self.machine.limits();
        limits.check_frame(payload.len())?;
        let Some(frame) = CompressedFrame::decode(kind, payload)? else {
            return self.machine.handle(kind, payload);
        };
        limits.check_frame(frame.len as usize)?;
        let decompressed = self.decompressor.decompress(&frame)?;
        self.machine.handle_compressed(frame.kind, &decompressed, payload.len())
    }

    fn gather_events(&mut self) {
        self.turn = PollPhase::Events;
        while let Some(notice) = self.machine.poll_notice() {
            self.events.push(notice, self.said);
        }
        self.events.settle();
    }

    fn poll_work(&mut self, around: &impl SessionDriver<M>) -> Option<(WorkId, M::Work)> {
        let (id, work) = self.waiting.take().or_else(|| self.machine.poll_work())?;
        if around.can_start(&work) {
            return Some((id, work));
        }
        self.waiting = Some((id, work));
        None
    }

    fn poll_batch(&mut self, around: &impl SessionDriver<M>) -> Option<(Lane, Vec<u8>)> {
        self.is_blocked = !around.can_send(Lane::Any);
        if self.is_blocked {
            return None;
        }
        let (lane, batch) = self.next_batch(around)?;
        if around.can_send(lane) {
            return Some((lane, batch));
        }
        self.is_blocked = true;
        self.held.push_front((lane, batch));
        None
    }

    /// Returns the next batch: consecutive frames of the same lane up to [`BATCH_BYTES`].
    fn next_batch(&mut self, around: &impl SessionDriver<M>) -> Option<(Lane, Vec<u8>)> {
        let (lane, mut batch) = match self.held.pop_front() {
            Some(held) => held,
            None => {
                let mut batch = around.buffer();
                let Some(lane) = self.next_frame(around, &mut batch) else {
                    around.recycle_buffer(batch);
                    return None;
                };
                (lane, batch)
            }
        };
        while batch.len() < BATCH_BYTES && self.held.front().is_none_or(|(next, _)| *next == lane) {
            if let Some((_, held)) = self.held.pop_front() {
                batch.extend_from_slice(&held);
                around.recycle_buffer(held);
                continue;
            }
            let start = batch.len();
            let Some(next) = self.next_frame(around, &mut batch) else { break };
            if next != lane {
                self.held.push_front((next, batch.split_off(start)));
                break;
            }
        }
        Some((lane, batch))
    }

    /// Appends the next frame to `to`.
    fn next_frame(&mut self, around: &impl SessionDriver<M>, to: &mut Vec<u8>) -> Option<Lane> {
        let start = to.len();
        let tell = |trouble: &mut Trouble| around.edit_trouble(trouble);
        let (lane, purpose) = self.machine.poll_frame(around.has_several_lanes(), &tell, to)?;
        if (lane, purpose) == (Lane::First, Purpose::Literal)
            && let Some(compressed) = around.compress(&to[start..])
        {
            to.truncate(start);
            to.extend_from_slice(&compressed);
        }
        self.said += (to.len() - start) as u64;
        around.observe_frame(&to[start..], purpose);
        Some(lane)
    }
}
