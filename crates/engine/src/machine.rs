//! The two machines of the protocol, as those that drive them see them.

use deltic_protocol::limits::Limits;
use deltic_protocol::receiver::{self, Receiver};
use deltic_protocol::report::{Counts, Notice, Side, Trouble};
use deltic_protocol::sender::{self, Sender};
use deltic_protocol::streams::Aside;
use deltic_protocol::work::UnknownAnswer;
use deltic_protocol::{PeerError, Purpose, Terms, ToReceiver, ToSender, WorkId};

/// Literals received and not yet written beyond which no frame is taken. With the frames that are read ahead this is
/// what a kill can cost, which docs/promises.md bounds.
const MAX_BACKLOG_BYTES: usize = 2 << 20;
/// Copies found and not made, and the chunks that they bring, beyond which no frame is taken: of some 64 bytes each.
const MAX_COPIES_WAITING: usize = 1 << 14;
/// Frames to be sent beyond which a receiver takes none in.
const MAX_FRAMES_WAITING: usize = 4096;

/// The streams that a frame may travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The first alone: it is in order with others.
    First,
    /// Any.
    Any,
}

/// Makes a trouble ready for the other end.
pub(crate) type Tell<'a> = &'a dyn Fn(&mut Trouble);

/// The interface that both machines have in common.
pub trait Machine {
    /// Its end of the session.
    const SIDE: Side;
    /// The work that it asks for.
    type Work: Send + 'static;
    /// The result of work.
    type Answer: Send + 'static;

    /// Takes a frame.
    ///
    /// # Errors
    /// [`PeerError`] where the peer breaks the protocol.
    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError>;
    /// Takes the answer to work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] where it did not ask for that.
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer>;
    /// Puts the next frame behind what `to` holds; returns its purpose, and the lane that it may take where there are
    /// `several` streams. `tell` sees its troubles first.
    fn poll_frame(
        &mut self,
        several: bool,
        tell: Tell<'_>,
        to: &mut Vec<u8>,
    ) -> Option<(Lane, Purpose)>;
    /// The next work to do.
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)>;
    /// The next event to report.
    fn poll_notice(&mut self) -> Option<Notice>;
    /// Counts how often sums were compared.
    fn counts(&self) -> Counts;
    /// The bounds that the two ends agree on.
    fn limits(&self) -> Limits;
    /// True once the session is over.
    fn is_finished(&self) -> bool;
    /// True while it should be given no frame.
    fn is_full(&self) -> bool;
    /// True while literals wait for credit of the other end.
    fn lacks_credit(&self) -> bool {
        false
    }
    /// Notes that the greeting is over.
    fn greeted(&mut self, _: &Terms) {}
    /// Notes that the other end has said nothing for a while, from the beginning on.
    fn unanswered(&mut self) {}
}

impl Machine for Sender {
    const SIDE: Side = Side::Sender;
    type Work = sender::Work;
    type Answer = sender::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        Self::handle(self, ToSender::decode(kind, payload)?)
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(
        &mut self,
        several: bool,
        tell: Tell<'_>,
        to: &mut Vec<u8>,
    ) -> Option<(Lane, Purpose)> {
        let (mut frame, attempt) = self.poll_for_streams()?;
        frame.troubles_mut().iter_mut().for_each(tell);
        let purpose = frame.purpose();
        let Some(attempt) = attempt.filter(|_| several) else {
            frame.encode_behind(to);
            return Some((Lane::First, purpose));
        };
        let aside = Aside { attempt, frame };
        match aside.encode() {
            Some(bytes) => {
                to.extend_from_slice(&bytes);
                Some((Lane::Any, purpose))
            }
            None => {
                aside.frame.encode_behind(to);
                Some((Lane::First, purpose))
            }
        }
    }
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)> {
        Self::poll_work(self)
    }
    fn poll_notice(&mut self) -> Option<Notice> {
        Self::poll_notice(self)
    }
    fn counts(&self) -> Counts {
        Self::counts(self)
    }
    fn limits(&self) -> Limits {
        Self::limits(self)
    }
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        // A receiver counts on being heard.
        false
    }
    fn lacks_credit(&self) -> bool {
        Self::lacks_credit(self)
    }
    fn greeted(&mut self, terms: &Terms) {
        if terms.kept_sums {
            self.agree_on_sums();
        }
        if terms.reports.open_files {
            self.bear_writers();
        }
        Self::greeted(self, terms.offers, terms.limits);
    }
    fn unanswered(&mut self) {
        Self::unanswered(self);
    }
}

impl Machine for Receiver {
    const SIDE: Side = Side::Receiver;
    type Work = receiver::Work;
    type Answer = receiver::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        match Aside::decode(kind, payload)? {
            Some(aside) => self.handle_aside(aside),
            None => Self::handle(self, ToReceiver::decode(kind, payload)?),
        }
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(&mut self, _: bool, tell: Tell<'_>, to: &mut Vec<u8>) -> Option<(Lane, Purpose)> {
        let mut frame = Self::poll_frame(self)?;
        frame.troubles_mut().iter_mut().for_each(tell);
        frame.encode_behind(to);
        Some((Lane::First, frame.purpose()))
    }
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)> {
        Self::poll_work(self)
    }
    fn poll_notice(&mut self) -> Option<Notice> {
        Self::poll_notice(self)
    }
    fn counts(&self) -> Counts {
        Self::counts(self)
    }
    fn limits(&self) -> Limits {
        Self::limits(self)
    }
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        self.backlog_bytes() > MAX_BACKLOG_BYTES
            || self.copies_waiting() > MAX_COPIES_WAITING
            || self.frames_waiting() > MAX_FRAMES_WAITING
    }
}
