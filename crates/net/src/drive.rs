//! One loop for either machine: frames in, work out to the pool, answers back, frames out.
//!
//! Reading never waits for writing: what a machine has to say is bounded by the protocol's credit and waits in the
//! machine. Work is started only while frames can leave and threads are free; frames are taken only while the machine's
//! backlog is small. So every queue has a bound and no two ends can block each other (docs/protocol.md, "Credit").

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use deltic_protocol::Purpose;
use deltic_protocol::hello::{Abort, AbortCause};
use deltic_protocol::receiver::{self, Receiver};
use deltic_protocol::report::{Counts, Notice};
use deltic_protocol::sender::{self, Sender};
use deltic_protocol::work::UnknownAnswer;
use deltic_protocol::{PeerError, ToReceiver, ToSender, WorkId};

use crate::error::SyncError;
use crate::monitor::{Monitor, Stage};
use crate::pool::{Cost, Pool};
use crate::transport::{RawFrame, ReadEnd};

/// Bytes of frames that travel to the writer together.
const BATCH_BYTES: usize = 256 << 10;
/// Frames or answers that a machine takes in one go.
const AT_ONCE: usize = 64;
/// Literals received and not yet written beyond which no frame is taken. With the frames that are read ahead this is what
/// a kill can cost, which the README bounds.
const MAX_BACKLOG_BYTES: usize = 2 << 20;
/// Frames to be sent beyond which a receiver takes none in.
const MAX_FRAMES_WAITING: usize = 4096;

/// How long the last words of an end that reads no more may take to arrive.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// What the two machines have in common.
pub(crate) trait Machine {
    /// What it asks for.
    type Work: Send + 'static;
    /// What it gets for it.
    type Answer: Send + 'static;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError>;
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer>;
    fn poll_frame(&mut self) -> Option<(Purpose, Vec<u8>)>;
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)>;
    fn poll_notice(&mut self) -> Option<Notice>;
    /// How often sums were compared.
    fn counts(&self) -> Counts;
    fn is_finished(&self) -> bool;
    /// Whether it should be given no frame now.
    fn is_full(&self) -> bool;
}

/// Whoever does a machine's work, from any thread.
pub(crate) trait Hands<M: Machine>: Send + Sync + 'static {
    fn cost(work: &M::Work) -> Cost;
    /// What its processor time counts as, but for the parts that say otherwise.
    fn stage(work: &M::Work) -> Stage;
    fn perform(&self, work: M::Work) -> M::Answer;
}

impl Machine for Sender {
    type Work = sender::Work;
    type Answer = sender::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        Self::handle(self, ToSender::decode(kind, payload)?)
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(&mut self) -> Option<(Purpose, Vec<u8>)> {
        Self::poll_frame(self).map(|frame| (frame.purpose(), frame.encode()))
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
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        // A receiver counts on being heard.
        false
    }
}

impl Machine for Receiver {
    type Work = receiver::Work;
    type Answer = receiver::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        Self::handle(self, ToReceiver::decode(kind, payload)?)
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(&mut self) -> Option<(Purpose, Vec<u8>)> {
        Self::poll_frame(self).map(|frame| (frame.purpose(), frame.encode()))
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
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        self.backlog_bytes() > MAX_BACKLOG_BYTES || self.frames_waiting() > MAX_FRAMES_WAITING
    }
}

/// Threads that do the work of an `M`.
type PoolOf<M> = Pool<(WorkId, <M as Machine>::Work), (WorkId, <M as Machine>::Answer)>;

/// What a machine is driven with, besides hands.
pub(crate) struct Drive<'a> {
    pub(crate) frames: mpsc::Receiver<Result<RawFrame, ReadEnd>>,
    pub(crate) batches: &'a mpsc::Sender<Vec<u8>>,
    /// Threads that compute; where none is said, as many as there are processors.
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) monitor: Monitor,
}

/// Runs `machine` to its end.
pub(crate) async fn drive<M: Machine, H: Hands<M>>(
    machine: M,
    hands: Arc<H>,
    by: Drive<'_>,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    let monitor = by.monitor.clone();
    monitor.watched(Stage::Decide, turn(machine, hands, by, watch)).await
}

/// The loop.
async fn turn<M: Machine, H: Hands<M>>(
    mut machine: M,
    hands: Arc<H>,
    Drive { mut frames, batches, threads, monitor }: Drive<'_>,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    let watched = monitor.clone();
    let perform = move |(id, work)| {
        let stage = H::stage(&work);
        (id, watched.work(stage, || hands.perform(work)))
    };
    let (mut pool, mut results) = Pool::new(threads, perform);
    let outlet = Outlet { batches, monitor: &monitor };
    let mut waiting: Option<(WorkId, M::Work)> = None;
    let (mut answers, mut taken) = (Vec::new(), Vec::new());
    loop {
        while let Some(notice) = machine.poll_notice() {
            watch(notice);
        }
        let writable = send_ready(&mut machine, outlet);
        if writable {
            start_work::<M, H>(&mut machine, &mut pool, &mut waiting);
            // Asking for work may have put frames into the machine's mouth.
            send_ready(&mut machine, outlet);
        }
        if machine.is_finished() {
            monitor.note_compared(machine.counts());
            return send_rest(&mut machine, outlet, watch).await;
        }
        tokio::select! {
            _ = results.recv_many(&mut answers, AT_ONCE) => {
                for done in answers.drain(..) {
                    if done.panicked {
                        return Err(SyncError::Internal);
                    }
                    pool.finished(&done);
                    for (id, answer) in done.results {
                        let known = machine.answer(id, answer);
                        known.expect("every answer is to work of this machine");
                    }
                }
            }
            // Some frames at a time: each may add to the backlog.
            count = frames.recv_many(&mut taken, AT_ONCE), if !machine.is_full() => {
                if count == 0 {
                    return Err(ReadEnd::Closed.into());
                }
                for frame in taken.drain(..) {
                    // What follows the last frame is the stream's end.
                    if !machine.is_finished() {
                        take(&mut machine, frame)?;
                    }
                }
            }
            // Only wakes the loop: capacity is looked at again above.
            permit = batches.reserve(), if !writable => {
                if permit.is_err() {
                    let heard = hear_out(&mut machine, &mut frames, watch);
                    return tokio::time::timeout(LAST_PATIENCE, heard).await.unwrap_or_else(|_| Err(gone()));
                }
            }
        }
    }
}

fn take<M: Machine>(machine: &mut M, frame: Result<RawFrame, ReadEnd>) -> Result<(), SyncError> {
    let frame = frame.map_err(SyncError::from)?;
    if let Some(abort) = Abort::decode(frame.kind, &frame.payload)? {
        return Err(abort.into());
    }
    Ok(machine.handle(frame.kind, &frame.payload)?)
}

/// Where frames leave, and who counts them.
#[derive(Clone, Copy)]
struct Outlet<'a> {
    batches: &'a mpsc::Sender<Vec<u8>>,
    monitor: &'a Monitor,
}

/// Hands frames to the writer while it takes them; whether it would take more.
fn send_ready<M: Machine>(machine: &mut M, outlet: Outlet<'_>) -> bool {
    loop {
        let Ok(permit) = outlet.batches.try_reserve() else { return false };
        match next_batch(machine, outlet.monitor) {
            Some(batch) => permit.send(batch),
            None => return true,
        }
    }
}

fn next_batch<M: Machine>(machine: &mut M, monitor: &Monitor) -> Option<Vec<u8>> {
    let (purpose, mut batch) = machine.poll_frame()?;
    monitor.count_sent(purpose, batch.len());
    while batch.len() < BATCH_BYTES {
        let Some((purpose, frame)) = machine.poll_frame() else { break };
        monitor.count_sent(purpose, frame.len());
        batch.extend_from_slice(&frame);
    }
    Some(batch)
}

/// The other end reads no more. What it said before that decides how this ends: it may be done, or have told why not.
async fn hear_out<M: Machine>(
    machine: &mut M,
    frames: &mut mpsc::Receiver<Result<RawFrame, ReadEnd>>,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    while !machine.is_finished() && !machine.is_full() {
        let Some(frame) = frames.recv().await else { break };
        take(machine, frame)?;
        while let Some(notice) = machine.poll_notice() {
            watch(notice);
        }
    }
    if machine.is_finished() { Ok(()) } else { Err(gone()) }
}

async fn send_rest<M: Machine>(
    machine: &mut M,
    outlet: Outlet<'_>,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    while let Some(batch) = next_batch(machine, outlet.monitor) {
        if outlet.batches.send(batch).await.is_err() {
            // An end that is gone by now needs no more.
            break;
        }
    }
    while let Some(notice) = machine.poll_notice() {
        watch(notice);
    }
    Ok(())
}

/// Starts work while there is room for it; a piece that finds none waits for the next answer.
fn start_work<M: Machine, H: Hands<M>>(
    machine: &mut M,
    pool: &mut PoolOf<M>,
    waiting: &mut Option<(WorkId, M::Work)>,
) {
    while let Some((id, work)) = waiting.take().or_else(|| machine.poll_work()) {
        let cost = H::cost(&work);
        if !pool.has_room(cost) {
            *waiting = Some((id, work));
            break;
        }
        pool.take(cost, (id, work));
    }
    pool.start();
}

fn gone() -> SyncError {
    SyncError::Disconnected("the other end does not read any more".into())
}

impl From<Abort> for SyncError {
    fn from(Abort { cause, message }: Abort) -> Self {
        match cause {
            AbortCause::Selection => Self::Selection(format!("the other end reports: {message}")),
            AbortCause::Protocol | AbortCause::Internal => Self::Refused(message),
        }
    }
}

impl From<PeerError> for SyncError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NotDeltic(_) => Self::Incompatible(format!(
                "{error}; does the remote shell print something at login?"
            )),
            PeerError::NothingInCommon(_) => Self::Incompatible(error.to_string()),
            _ => Self::Protocol(error.to_string()),
        }
    }
}

impl From<ReadEnd> for SyncError {
    fn from(end: ReadEnd) -> Self {
        match end {
            ReadEnd::Closed => Self::Disconnected("the other end closed it".into()),
            ReadEnd::Broken(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Self::Disconnected("in the midst of a frame".into())
            }
            ReadEnd::Broken(source) => {
                Self::Transport { action: "read from the other end", source }
            }
            ReadEnd::Bad(error) => error.into(),
        }
    }
}
