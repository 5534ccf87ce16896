//! A common interface to the protocol's sender and receiver state machines.

use deltic_core::strategy::LinkModel;
use deltic_protocol::compressed::CompressedFrame;
use deltic_protocol::limits::Limits;
use deltic_protocol::receiver::{self, FrameCompression, Receiver};
use deltic_protocol::report::{Counts, Notice, Side, Trouble};
use deltic_protocol::sender::{self, Sender};
use deltic_protocol::streams::Aside;
use deltic_protocol::work::UnknownAnswer;
use deltic_protocol::{PeerError, Purpose, Terms, ToReceiver, ToSender, WorkId};

/// Maximum number of received literal bytes that wait to be written. Above this limit no frame is taken. With the
/// frames read ahead, this limit bounds the bytes that are lost if the process is killed (docs/promises.md).
const MAX_BACKLOG_BYTES: usize = 2 << 20;
/// Maximum number of copies that wait to be made. Above this limit no frame is taken. A waiting copy takes about 64
/// bytes with its chunks.
const MAX_COPIES_WAITING: usize = 1 << 14;
/// Maximum number of frames that wait to be sent. Above this limit a receiver takes no frame.
const MAX_FRAMES_WAITING: usize = 4096;

/// Streams that may carry a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Only the first stream, because the order of frames matters.
    First,
    /// Any stream.
    Any,
}

/// Edits a trouble report before it is sent to the other end.
pub(crate) type Tell<'a> = &'a dyn Fn(&mut Trouble);

/// The interface that sender and receiver share.
pub trait Machine {
    /// The end of the session that this machine runs.
    const SIDE: Side;
    /// Work that the machine requests.
    type Work: Send + 'static;
    /// Result of a piece of work.
    type Answer: Send + 'static;

    /// Takes a frame.
    ///
    /// # Errors
    /// [`PeerError`] if the peer breaks the protocol.
    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError>;
    /// Takes a frame of literals that travelled as a part of a zstd stream.
    ///
    /// # Errors
    /// [`PeerError`] if the peer breaks the protocol. A sender gets no such frames.
    fn handle_compressed(
        &mut self,
        _kind: u8,
        _payload: &[u8],
        _wire_bytes: usize,
    ) -> Result<(), PeerError> {
        Err(PeerError::UnknownFrame(CompressedFrame::KIND))
    }
    /// Takes the answer to a piece of work.
    ///
    /// # Errors
    /// [`UnknownAnswer`] if the machine did not request this work.
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer>;
    /// Appends the next frame to `to`. Returns the purpose and the lane of the frame. `several` is true if the session
    /// has several streams. `tell` edits trouble reports before encoding.
    fn poll_frame(
        &mut self,
        several: bool,
        tell: Tell<'_>,
        to: &mut Vec<u8>,
    ) -> Option<(Lane, Purpose)>;
    /// Returns the next work to do.
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)>;
    /// Returns the next event to report.
    fn poll_notice(&mut self) -> Option<Notice>;
    /// Returns how often sums were compared.
    fn counts(&self) -> Counts;
    /// Returns the limits that the two ends agreed on.
    fn limits(&self) -> Limits;
    /// True after the end of the session.
    fn is_finished(&self) -> bool;
    /// True while the machine accepts no more frames.
    fn is_full(&self) -> bool;
    /// True while literals wait for credit from the receiver.
    fn lacks_credit(&self) -> bool {
        false
    }
    /// Applies the terms of the finished greeting.
    fn greeted(&mut self, _: &Terms) {}
    /// Tells the machine that the other end has not answered for some time and so counts as far away. A sender then
    /// offers its only file without waiting for a request.
    fn note_slow_answer(&mut self) {}
    /// Sets the link to the other end. Later decisions use this link.
    fn set_link(&mut self, _: LinkModel) {}
    /// Tells the machine that the connection is lost: files whose data have arrived are finished, and no closing step,
    /// such as deletions, begins. Returns false if closing steps are under way already.
    fn lose_connection(&mut self) -> bool {
        false
    }
}

impl Machine for Sender {
    const SIDE: Side = Side::Sender;
    type Work = sender::SenderWork;
    type Answer = sender::SenderAnswer;

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
            frame.append_to(to);
            return Some((Lane::First, purpose));
        };
        let aside = Aside { attempt, frame };
        match aside.encode() {
            Some(bytes) => {
                to.extend_from_slice(&bytes);
                Some((Lane::Any, purpose))
            }
            None => {
                aside.frame.append_to(to);
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
        // A receiver relies on every frame being read.
        false
    }
    fn lacks_credit(&self) -> bool {
        Self::lacks_credit(self)
    }
    fn greeted(&mut self, terms: &Terms) {
        if terms.kept_sums {
            self.negotiate_stored_sums();
        }
        self.use_stored_sums(terms);
        if terms.reports.open_files {
            self.tolerate_writers();
        }
        if terms.reports.reasons {
            self.tell_reasons();
        }
        self.use_short_forms(terms.short_forms);
        Self::set_terms(self, terms.offers, terms.limits);
    }
    fn note_slow_answer(&mut self) {
        Self::note_slow_answer(self);
    }
    fn set_link(&mut self, link: LinkModel) {
        Self::set_link(self, link);
    }
}

impl Machine for Receiver {
    const SIDE: Side = Side::Receiver;
    type Work = receiver::ReceiverWork;
    type Answer = receiver::ReceiverAnswer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        match Aside::decode(kind, payload)? {
            Some(aside) => self.handle_aside(aside),
            None => Self::handle(self, ToReceiver::decode(kind, payload)?),
        }
    }
    fn handle_compressed(
        &mut self,
        kind: u8,
        payload: &[u8],
        wire_bytes: usize,
    ) -> Result<(), PeerError> {
        let compression = FrameCompression { wire: wire_bytes, decompressed: payload.len() };
        Self::handle_compressed(self, ToReceiver::decode(kind, payload)?, compression)
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(&mut self, _: bool, tell: Tell<'_>, to: &mut Vec<u8>) -> Option<(Lane, Purpose)> {
        let mut frame = Self::poll_frame(self)?;
        frame.troubles_mut().iter_mut().for_each(tell);
        frame.append_to(to);
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
    fn lose_connection(&mut self) -> bool {
        Self::lose_connection(self)
    }
    fn is_full(&self) -> bool {
        self.backlog_bytes() > MAX_BACKLOG_BYTES
            || self.copies_waiting() > MAX_COPIES_WAITING
            || self.frames_waiting() > MAX_FRAMES_WAITING
    }
}
