//! The loop of either machine, as steps: frames in, work out, answers in, frames out.
//!
//! The loop has no clock, no queue of its own and never waits. Whoever runs it moves bytes, does work and calls
//! [`poll`](Session::poll) after each of these until it gives nothing:
//!
//! ```text
//!        feed ─────►┌─────────┐─► Step::Send   frames for the other end
//!    answered ─────►│ Session │─► Step::Work   for a worker
//!        wake ─────►└─────────┘─► Step::Event  for people
//!                        └──────► Step::Done
//! ```
//!
//! Reading never waits for writing: what a machine has to say is bounded by the protocol's credit and waits in the
//! machine. Work is started only while frames can leave; frames are to be fed only while the session
//! [`takes_frames`](Session::takes_frames). So every queue has a bound and no two ends can block each other
//! (docs/protocol.md, "Credit").

use std::collections::VecDeque;
use std::time::Duration;

use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::{Abort, Alive};
use deltic_protocol::report::{Counts, Notice, Trouble};
use deltic_protocol::{PeerError, Purpose, Terms, WorkId};

use crate::events::Events;
use crate::machine::{Lane, Machine};

/// Bytes of frames that leave together.
const BATCH_BYTES: usize = 256 << 10;
/// Time within which an end that is near answers first; one that takes longer counts as far away.
pub(crate) const FAR_AWAY: Duration = Duration::from_millis(25);
/// Longest time for the other end's whole greeting. A user may have to type a password first, for which sshd allows two
/// minutes, and sources may take long to open.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(600);

/// Hears the frames that come before the machine's own; returns the terms with the last of them.
pub type Greeting<E> = Box<dyn FnMut(u8, &[u8]) -> Result<Option<Terms>, E> + Send>;

/// The surroundings of a session, as far as a step depends on them.
pub trait Surroundings<M: Machine> {
    /// True if there are streams beside the first.
    fn has_several_lanes(&self) -> bool {
        false
    }
    /// True if a batch of frames can leave on this lane.
    fn can_send(&self, lane: Lane) -> bool;
    /// True if this work can begin.
    fn can_start(&self, work: &M::Work) -> bool;
    /// Makes a trouble ready for the other end.
    fn tell(&self, _trouble: &mut Trouble) {}
    /// An empty buffer for a batch.
    fn buffer(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Takes a buffer back.
    fn keep(&self, _buffer: Vec<u8>) {}
    /// Sees a frame that is about to leave.
    fn sees(&self, _frame: &[u8], _purpose: Purpose) {}
}

/// The next thing to do for a session.
pub enum Step<M: Machine> {
    /// Send these frames on such a stream.
    Send(Lane, Vec<u8>),
    /// Do this work, and bring the answer to [`Session::answered`].
    Work(WorkId, M::Work),
    /// Report this.
    Event(Notice),
    /// The session is over. Send the [`rest`](Session::poll_rest), then report what [`finish`](Session::finish) has.
    Done,
}

/// An end that did not greet in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoGreeting;

/// A machine and all that its loop remembers; errors are of type `E`.
pub struct Session<M: Machine, E> {
    machine: M,
    /// The frames to hear first, where the machine goes to work without waiting for them.
    greeting: Option<Greeting<E>>,
    /// True until the other end is first heard, or counts as far away.
    is_unanswered: bool,
    turn: Turn,
    /// True if the last turn could not send all frames, or could send none.
    is_blocked: bool,
    /// Frames that the machine said and no stream has taken yet: at most two batches.
    held: VecDeque<(Lane, Vec<u8>)>,
    /// Bytes that the machine said so far, sent or not.
    said: u64,
    /// Work that found no room.
    waiting: Option<(WorkId, M::Work)>,
    events: Events,
}

/// Parts of a turn, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Frames,
    Work,
    /// Frames that asking for work put into the machine's mouth.
    MoreFrames,
    Events,
}

impl<M: Machine, E: From<PeerError> + From<Abort>> Session<M, E> {
    /// Starts the loop of `machine`; where it goes to work at once, with the greeting that is still to be heard.
    pub fn new(machine: M, greeting: Option<Greeting<E>>) -> Self {
        Self {
            machine,
            greeting,
            is_unanswered: true,
            turn: Turn::Frames,
            is_blocked: false,
            held: VecDeque::new(),
            said: 0,
            waiting: None,
            events: Events::default(),
        }
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// Those of the greeting, and of a peer that gives up or breaks the protocol.
    pub fn feed(&mut self, kind: u8, payload: &[u8]) -> Result<(), E> {
        self.is_unanswered = false;
        if let Some(abort) = Abort::decode(kind, payload)? {
            return Err(abort.into());
        }
        if Alive::decode(kind, payload)?.is_some() {
            return Ok(());
        }
        let Some(greeting) = &mut self.greeting else {
            self.machine.limits().check_frame(payload.len())?;
            return Ok(self.machine.handle(kind, payload)?);
        };
        if let Some(terms) = greeting(kind, payload)? {
            self.greeting = None;
            self.machine.greeted(&terms);
        }
        Ok(())
    }

    /// Takes the whole frames that `bytes` begin with; returns how many bytes they are.
    ///
    /// # Errors
    /// Those of [`feed`](Self::feed).
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

    /// Takes the answer to work.
    ///
    /// # Panics
    /// If the machine did not ask for it: a mistake of whoever runs the loop.
    pub fn answered(&mut self, id: WorkId, answer: M::Answer) {
        let known = self.machine.answer(id, answer);
        known.expect("every answer is to work of this machine");
    }

    /// Notes how much time went by since the session began.
    ///
    /// # Errors
    /// [`NoGreeting`] where the other end has not greeted by now.
    pub fn wake(&mut self, now: Duration) -> Result<(), NoGreeting> {
        if self.is_unanswered && now >= FAR_AWAY {
            self.is_unanswered = false;
            self.machine.unanswered();
        }
        if self.greeting.is_some() && now >= GREETING_TIMEOUT { Err(NoGreeting) } else { Ok(()) }
    }

    /// The time since the session began at which it wants to [`wake`](Self::wake).
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        match (self.is_unanswered, &self.greeting) {
            (true, _) => Some(FAR_AWAY),
            (false, Some(_)) => Some(GREETING_TIMEOUT),
            (false, None) => None,
        }
    }

    /// Notes how many bytes crossed the wire so far.
    pub fn moved(&mut self, sent: u64, received: u64) {
        self.events.moved(sent, received);
    }

    /// The next thing to do; `None` until something is fed or answered, or can leave or start that could not.
    pub fn poll(&mut self, around: &impl Surroundings<M>) -> Option<Step<M>> {
        loop {
            match self.turn {
                Turn::Frames | Turn::MoreFrames => match self.poll_batch(around) {
                    Some((lane, batch)) => return Some(Step::Send(lane, batch)),
                    None if self.turn == Turn::Frames && !self.is_blocked => self.turn = Turn::Work,
                    None => self.gather_events(),
                },
                Turn::Work => match self.poll_work(around) {
                    Some((id, work)) => return Some(Step::Work(id, work)),
                    None => self.turn = Turn::MoreFrames,
                },
                Turn::Events => {
                    if let Some(event) = self.events.pop() {
                        return Some(Step::Event(event));
                    }
                    self.turn = Turn::Frames;
                    return self.machine.is_finished().then_some(Step::Done);
                }
            }
        }
    }

    /// True while frames may be fed.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        !self.machine.is_full()
    }

    /// True once the session is over: what follows the last frame is the stream's end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    /// True while literals wait for credit of the other end.
    #[must_use]
    pub fn lacks_credit(&self) -> bool {
        self.machine.lacks_credit()
    }

    /// The lane that must take frames before the session goes on; `None` where it waits for none.
    #[must_use]
    pub fn blocked_on(&self) -> Option<Lane> {
        let lane = self.held.front().map_or(Lane::Any, |(lane, _)| *lane);
        self.is_blocked.then_some(lane)
    }

    /// True while events wait for bytes to leave: then [`moved`](Self::moved) is to be called now and then.
    #[must_use]
    pub fn holds_events(&self) -> bool {
        self.events.are_held()
    }

    /// Counts how often sums were compared.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.machine.counts()
    }

    /// The next frames that there still are once the session is over, for the first stream.
    pub fn poll_rest(&mut self, around: &impl Surroundings<M>) -> Option<Vec<u8>> {
        self.next_batch(around).map(|(_, batch)| batch)
    }

    /// The next event that the machine has, for a session that is only heard out.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.machine.poll_notice()
    }

    /// The last events, once all frames have left or nobody reads them.
    pub fn finish(&mut self) -> Vec<Notice> {
        let mut last = self.events.release();
        last.extend(std::iter::from_fn(|| self.machine.poll_notice()));
        last
    }

    fn gather_events(&mut self) {
        self.turn = Turn::Events;
        while let Some(notice) = self.machine.poll_notice() {
            self.events.push(notice, self.said);
        }
        self.events.settle();
    }

    fn poll_work(&mut self, around: &impl Surroundings<M>) -> Option<(WorkId, M::Work)> {
        let (id, work) = self.waiting.take().or_else(|| self.machine.poll_work())?;
        if around.can_start(&work) {
            return Some((id, work));
        }
        self.waiting = Some((id, work));
        None
    }

    fn poll_batch(&mut self, around: &impl Surroundings<M>) -> Option<(Lane, Vec<u8>)> {
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

    /// Frames that leave together: as many as fit a batch and may take the same lane.
    fn next_batch(&mut self, around: &impl Surroundings<M>) -> Option<(Lane, Vec<u8>)> {
        let (lane, mut batch) = match self.held.pop_front() {
            Some(held) => held,
            None => {
                let mut batch = around.buffer();
                let Some(lane) = self.next_frame(around, &mut batch) else {
                    around.keep(batch);
                    return None;
                };
                (lane, batch)
            }
        };
        while batch.len() < BATCH_BYTES && self.held.front().is_none_or(|(next, _)| *next == lane) {
            if let Some((_, held)) = self.held.pop_front() {
                batch.extend_from_slice(&held);
                around.keep(held);
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

    /// Puts the next frame behind what `to` holds.
    fn next_frame(&mut self, around: &impl Surroundings<M>, to: &mut Vec<u8>) -> Option<Lane> {
        let start = to.len();
        let tell = |trouble: &mut Trouble| around.tell(trouble);
        let (lane, purpose) = self.machine.poll_frame(around.has_several_lanes(), &tell, to)?;
        self.said += (to.len() - start) as u64;
        around.sees(&to[start..], purpose);
        Some(lane)
    }
}
