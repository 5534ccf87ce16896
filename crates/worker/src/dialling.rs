//! The connecting end, without threads: bytes from the wire go in, bytes for the wire come out, and the caller performs
//! the work.
//!
//! ```text
//!  other end ─► receive ─► StreamEnd ─► Greeting, then InlineSession ─► work
//!  other end ◄─────────────StreamEnd ◄─ turn
//! ```
//!
//! A push begins its work during the greeting, as in `net`. A pull begins once the other end has answered.

use std::sync::Arc;
use std::time::Duration;

use deltic_engine::greeting::{Greeting, Role, is_greeting};
use deltic_engine::machine::Machine;
use deltic_engine::session::GREETING_TIMEOUT;
use deltic_engine::stream::{IncomingFrames, StreamEnd};
use deltic_protocol::hello::{NamesFrom, Reply, Request};
use deltic_protocol::limits::Limits;
use deltic_protocol::options::Options;
use deltic_protocol::receiver::{Expect, Receiver};
use deltic_protocol::report::{Counts, Notice};
use deltic_protocol::sender::Sender;
use deltic_protocol::{Hello, PeerError, Terms};
use deltic_store::{Store, Tree};
use deltic_tree::{Meta, Name};

use crate::Worker;
use crate::destination::DestinationWorker;
use crate::inline::{InlineError, InlineSession, Progress};
use crate::kept::KeptFacts;
use crate::receiving::{OpenDestination, ReceiverConfig, ReceiverEnd};
use crate::source::SourceWorker;

/// Arguments of a push.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// Destination path at the other end.
    pub destination: Box<[u8]>,
    /// Name of the pushed entry, if only one entry is pushed. The destination may then be a new name of the entry.
    pub single: Option<Name>,
    /// Metadata of the root, if the root is part of the transfer.
    pub own: Option<Meta>,
    /// True if files are offered before the other end requests them, because an answer takes long.
    pub offers: bool,
    /// Options of the run.
    pub options: Options,
}

/// Arguments of a pull.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// Source path at the other end.
    pub source: Box<[u8]>,
    /// Names that may arrive at the root.
    pub expect: Expect,
    /// Options of the run.
    pub options: Options,
}

/// Makes the session of a pull from the result of the greeting.
type Begin<M, W> = Box<dyn FnOnce(Terms, Reply) -> Result<InlineSession<M, W>, InlineError> + Send>;

/// The end that connected, over a byte stream with checksums.
pub struct DiallingEnd<M: Machine, W> {
    stream: StreamEnd,
    /// The hello and the request, until they are sent.
    opening: Vec<u8>,
    phase: Phase<M, W>,
}

enum Phase<M: Machine, W> {
    /// During the greeting, with the function that begins the session afterwards.
    Greets(Greeting, Option<Begin<M, W>>),
    Runs(InlineSession<M, W>),
}

/// An end that pushes a tree.
pub type PushEnd<T> = DiallingEnd<Sender, SourceWorker<T>>;
/// An end that pulls into a store.
pub type PullEnd<S> = DiallingEnd<Receiver, DestinationWorker<S>>;

impl<T: Tree> PushEnd<T> {
    /// Starts to push `tree`. `ours` is the hello of this end.
    ///
    /// # Errors
    /// [`PeerError::Limit`] if the request is too long for a frame.
    pub fn push(tree: T, request: PushRequest, ours: Hello) -> Result<Self, PeerError> {
        let PushRequest { destination, single, own, offers, options } = request;
        let names = NamesFrom::Nowhere;
        let request = Request::Receive { destination, single, names, options: options.clone() };
        let opening = opening(&ours, &request)?;
        let worker = Arc::new(SourceWorker::new(tree, own, &options, &ours));
        let mut greeting = Greeting::new(ours, Role::Sends, &options);
        let agreeing = Arc::clone(&worker);
        let greeting = move |kind: u8, payload: &[u8]| {
            let agreed = greeting.take_frame(kind, payload)?;
            Ok(agreed.map(|(terms, _)| {
                agreeing.agree(terms);
                terms
            }))
        };
        let most_offered = if offers { worker.most_offered() } else { 0 };
        let machine = Sender::new(options).with_max_offer_len(most_offered);
        let session = InlineSession::greeting(machine, worker, Box::new(greeting));
        Ok(Self { stream: StreamEnd::default(), opening, phase: Phase::Runs(session) })
    }
}

impl<S: Store> PullEnd<S> {
    /// Starts to pull a source into `destination`. `ours` is the hello of this end. The `rename` of the destination
    /// applies if the source is a single expected entry.
    ///
    /// # Errors
    /// [`PeerError::Limit`] if the request is too long for a frame.
    pub fn pull(
        destination: OpenDestination<S>,
        request: PullRequest,
        ours: Hello,
    ) -> Result<Self, PeerError> {
        let PullRequest { source, expect, options } = request;
        let (names, sources) = (NamesFrom::Nowhere, vec![source]);
        let opening = opening(&ours, &Request::Send { sources, names, options: options.clone() })?;
        let greeting = Greeting::new(ours, Role::Receives, &options);
        let begin = move |terms, Reply { single, .. }: Reply| {
            let is_expected = single.is_some_and(|name| expect.is_expected(&name));
            let rename = destination.rename.clone().filter(|_| is_expected);
            let expect = Some(expect);
            let config =
                ReceiverConfig { terms, options, expect, user_is_here: true, most_files: None };
            let destination = OpenDestination { rename, ..destination };
            let end = destination.receiver(config, |_| KeptFacts::default())?;
            let ReceiverEnd { machine, worker, .. } = end;
            Ok(InlineSession::new(machine, worker))
        };
        let phase = Phase::Greets(greeting, Some(Box::new(begin)));
        Ok(Self { stream: StreamEnd::default(), opening, phase })
    }
}

/// Returns the first frames of a connecting end.
fn opening(ours: &Hello, request: &Request) -> Result<Vec<u8>, PeerError> {
    let fits = request.fits();
    let frames = || [ours.encode(), request.encode()].concat();
    fits.then(frames).ok_or(PeerError::Limit("request"))
}

impl<M: Machine, W: Worker<M>> DiallingEnd<M, W> {
    /// Takes bytes from the other end, in pieces of any length.
    ///
    /// # Errors
    /// [`InlineError`] if the session cannot go on.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), InlineError> {
        let limits = match &self.phase {
            Phase::Greets(..) => Limits::default(),
            Phase::Runs(session) => session.limits(),
        };
        let mut frames = Vec::new();
        let received = self.stream.receive(bytes, &limits, &mut frames);
        // A reason that the other end gave is reported before the damage after it.
        self.take_frames(&frames)?;
        Ok(received?)
    }

    /// Takes complete frames.
    fn take_frames(&mut self, frames: &[u8]) -> Result<(), InlineError> {
        let mut end = 0;
        if let Phase::Greets(greeting, begin) = &mut self.phase {
            for (kind, place) in IncomingFrames::default().frames(frames) {
                end = place.end;
                let payload = &frames[place];
                if is_greeting(kind, payload)?
                    && let Some((terms, reply)) = greeting.take_frame(kind, payload)?
                {
                    let begin = begin.take().expect("a greeting ends once");
                    self.phase = Phase::Runs(begin(terms, reply)?);
                    break;
                }
            }
        }
        if let Phase::Runs(session) = &mut self.phase {
            session.receive(&frames[end..]);
        }
        Ok(())
    }

    /// Takes the steps that are possible now, with at most `most_work` pieces of work. Appends bytes for the other end
    /// to `unsent`, and reports events to `watch`.
    ///
    /// # Errors
    /// [`InlineError`] if the session cannot go on.
    pub fn turn(
        &mut self,
        most_work: usize,
        unsent: &mut Vec<u8>,
        watch: &mut dyn FnMut(Notice),
    ) -> Result<Progress, InlineError> {
        let mut frames = std::mem::take(&mut self.opening);
        let progress = match &mut self.phase {
            Phase::Greets(..) => Ok(Progress::Waits),
            Phase::Runs(session) => session.turn(most_work, &mut frames, watch),
        };
        unsent.extend(self.stream.send(frames));
        progress
    }

    /// Returns the number of comparisons of sums by this end so far.
    pub fn counts(&self) -> Counts {
        match &self.phase {
            Phase::Greets(..) => Counts::default(),
            Phase::Runs(session) => session.counts(),
        }
    }

    /// Tells this end the time since its start.
    ///
    /// # Errors
    /// [`InlineError::NoAnswerInTime`] if the other end has not finished its greeting by now.
    pub fn wake(&mut self, now: Duration) -> Result<(), InlineError> {
        match &mut self.phase {
            Phase::Greets(..) if now >= GREETING_TIMEOUT => Err(InlineError::NoAnswerInTime),
            Phase::Greets(..) => Ok(()),
            Phase::Runs(session) => session.wake(now),
        }
    }
}
