//! Runs the steps of a session over transports and the executor.
//!
//! The loop is in the engine ([`Session`]). This module passes frames to the streams, work to threads and events to the
//! observer, and waits for whichever comes first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use deltic_core::strategy::LinkModel as Figures;
use deltic_engine::machine::{Lane, Machine};
use deltic_engine::session::{self, Session, SessionDriver, SessionStep};
use deltic_protocol::compressed::CompressedFrame;
use deltic_protocol::frame::HEADER_BYTES;
use deltic_protocol::report::{Notice, Trouble, TroubleKind};
use deltic_protocol::{Purpose, WorkId};

use crate::batch::Tap;
use crate::error::{ReadEnd, SyncError};
use crate::executor::{Done, SessionPool, Share};
use crate::greeting::{Agree, Greeting};
use crate::host::user::Watch;
use crate::monitor::{Monitor, Stage};
use crate::outlets::{Closed, Outlets};
use crate::plan::Traffic;
use crate::streams::News;
use crate::transport::{Counters, RawFrame, Reading, spare};
use deltic_worker::Worker;

/// Most bundles of answers that the machine takes in one step.
const AT_ONCE: usize = 64;
/// Bytes of payloads, decompressed, that a session takes before other tasks of the thread have a turn.
const TURN_BYTES: usize = 1 << 20;
/// Time between two checks of the sent bytes.
const SENT_EVERY: Duration = Duration::from_millis(100);
/// Longest time for the last frames of an end to arrive, after it stopped reading.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// The queue of work that a state machine `M` requested, for the threads of the executor.
type PoolOf<M> = SessionPool<(WorkId, <M as Machine>::Work), Answered<M>>;

/// An answer, and the number of its work.
type Answered<M> = (WorkId, <M as Machine>::Answer);

/// Streams, threads and counters that a machine runs on.
pub(crate) struct Drive {
    /// The greeting, if the machine works before the greeting is complete.
    pub(crate) greeting: Option<(Greeting, Agree)>,
    pub(crate) frames: mpsc::Receiver<Reading>,
    pub(crate) outlets: Outlets,
    /// Further streams that joined or failed to join.
    pub(crate) news: mpsc::Receiver<News>,
    /// The session's share of the threads for the machine's work.
    pub(crate) share: Share,
    /// Records whether work is under way.
    pub(crate) counters: Arc<Counters>,
    pub(crate) monitor: Monitor,
    /// Records the frames of the list for a batch.
    pub(crate) tap: Option<Arc<Tap>>,
    /// The known link to the other end, and the limit of its rate.
    pub(crate) link: KnownLink,
    /// Longest wait for credit from the other end while literals wait to be sent.
    pub(crate) credit_timeout: Option<Duration>,
    /// True if this end is a receiver that reports to the user: files that had arrived are finished and counted after
    /// the loss of the connection.
    pub(crate) user_is_here: bool,
}

/// The link to the other end, as far as this end knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownLink {
    /// Figures that were told or measured.
    pub(crate) figures: Option<Figures>,
    /// Limit of the rate in bits a second (`--bwlimit`).
    pub(crate) limit: Option<u64>,
}

impl KnownLink {
    /// Takes the measured rate in bits a second. Returns the new figures if the rate differs by more than a fifth.
    pub(crate) fn update_if_changed(&mut self, rate: u64) -> Option<Figures> {
        let bits_per_second = rate.min(self.limit.unwrap_or(u64::MAX));
        let before = self.figures.map_or(0, |figures| figures.bits_per_second);
        if bits_per_second.abs_diff(before) <= before / 5 {
            return None;
        }
        let round_trip = self.figures.map_or(Duration::ZERO, |figures| figures.round_trip);
        self.figures = Some(Figures { bits_per_second, round_trip });
        self.figures
    }
}

/// Runs `machine` to its end.
pub(crate) async fn drive<M: Machine, W: Worker<M>>(
    machine: M,
    worker: Arc<W>,
    by: Drive,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let monitor = by.monitor.clone();
    let turned = run_loop(machine, Arc::clone(&worker), by, watch);
    let ended = monitor.charge_future(Stage::Decide, turned).await;
    worker.ended();
    ended
}

/// Runs the loop of a session.
async fn run_loop<M: Machine, W: Worker<M>>(
    machine: M,
    worker: Arc<W>,
    by: Drive,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let Drive { greeting, frames, outlets, news, share, counters, monitor, tap, link, .. } = by;
    let (watched, doing) = (monitor.clone(), Arc::clone(&worker));
    let perform = move |bundle: &mut dyn Iterator<Item = (WorkId, M::Work)>,
                        results: &mut Vec<_>| {
        perform_all::<M, W>(&doing, &watched, bundle, results);
    };
    let (pool, results) = SessionPool::new(share, perform);
    let session =
        Session::new(machine, greeting.map(|(greeting, agree)| greeting_reader(greeting, agree)));
    let is_lost = false;
    let mut runner =
        Runner { session, worker, pool, outlets, counters, monitor, tap, link, is_lost }
            .with_known_link();
    let withheld = Withheld { timeout: by.credit_timeout, until: None };
    let mut inputs = Inputs { frames, news, results, withheld };
    let ended = run_steps(&mut runner, &mut inputs, watch).await;
    if by.user_is_here && ended.as_ref().is_err_and(is_connection_loss) {
        let settled = runner.commit_after_loss(&mut inputs.results, watch);
        tokio::time::timeout(LAST_TIMEOUT, settled).await.ok();
    }
    ended
}

/// The queues that wake the loop of a session.
struct Inputs<R> {
    frames: mpsc::Receiver<Reading>,
    /// Further streams that joined or failed to join.
    news: mpsc::Receiver<News>,
    results: mpsc::UnboundedReceiver<Done<R>>,
    withheld: Withheld,
}

/// Takes steps until the session ends or fails.
async fn run_steps<M: Machine, W: Worker<M>>(
    runner: &mut Runner<M, W>,
    inputs: &mut Inputs<Answered<M>>,
    watch: Watch<'_>,
) -> Result<(), SyncError> {
    let Inputs { frames, news, results, withheld } = inputs;
    let (begun, mut answers) = (Instant::now(), Vec::new());
    let mut heard: TakenFrames = Vec::new().into_iter();
    let counters = Arc::clone(&runner.counters);
    counters.set_driver_busy(true);
    loop {
        while let Ok(news) = news.try_recv() {
            runner.take_stream_news(news, watch);
        }
        if runner.step(watch)? {
            return runner.send_rest(watch).await;
        }
        if !heard.as_slice().is_empty() && runner.can_take_frame() {
            if !runner.feed_frames(&mut heard)? {
                let ears = FrameSource { heard, frames };
                return runner.end_after_loss(ears, SyncError::StreamLost, watch).await;
            }
            // Other sessions share this thread, and may have to cancel this one.
            if !heard.as_slice().is_empty() {
                tokio::task::yield_now().await;
            }
            continue;
        }
        let session = &runner.session;
        let (wake, blocked) = (session.next_wake(), session.blocked_on());
        let until = withheld.credit_deadline(session.lacks_credit());
        counters.set_driver_busy(false);
        tokio::select! {
            _ = results.recv_many(&mut answers, AT_ONCE) => {}
            reading = frames.recv(), if session.takes_frames() => {
                let Some(reading) = reading else { return Err(ReadEnd::Closed.into()) };
                heard = reading.into_iter();
            }
            // Wakes the loop, and does nothing else.
            () = tokio::time::sleep(SENT_EVERY), if session.holds_events() => {}
            () = tokio::time::sleep_until(begun + wake.unwrap_or_default()), if wake.is_some() => {
                let woken = runner.session.wake(begun.elapsed());
                woken.map_err(|session::NoGreeting| SyncError::NoAnswerInTime)?;
            }
            () = tokio::time::sleep_until(until.unwrap_or(begun)), if until.is_some() => {
                return Err(SyncError::Silence);
            }
            // Wakes the loop, which checks the capacity again.
            writable = runner.outlets.wait_until_writable(blocked.unwrap_or(Lane::Any)), if blocked.is_some() => {
                if let Err(Closed(lane)) = writable {
                    let error =
                        if lane == Lane::First { connection_lost() } else { SyncError::StreamLost };
                    let ears = FrameSource { heard, frames };
                    return runner.end_after_loss(ears, error, watch).await;
                }
            }
        }
        counters.set_driver_busy(true);
        runner.take_answers(answers.drain(..))?;
    }
}

/// Measures how long a session has waited for credit.
struct Withheld {
    timeout: Option<Duration>,
    until: Option<Instant>,
}

impl Withheld {
    /// Returns the time at which waiting for credit fails. `None` if the session does not wait for credit.
    fn credit_deadline(&mut self, waits: bool) -> Option<Instant> {
        let timeout = self.timeout.filter(|_| waits);
        self.until = timeout.map(|timeout| self.until.unwrap_or_else(|| Instant::now() + timeout));
        self.until
    }
}

/// Returns the session's reader of the greeting, which passes the terms on to `agree`.
fn greeting_reader(mut greeting: Greeting, agree: Agree) -> session::Greeting<SyncError> {
    let mut agree = Some(agree);
    Box::new(move |kind, payload| {
        let Some((terms, reply)) = greeting.take_frame(kind, payload)? else { return Ok(None) };
        if let Some(agree) = agree.take() {
            agree(terms, reply);
        }
        Ok(Some(terms))
    })
}

/// A session, with the streams and threads that it runs on.
struct Runner<M: Machine, W> {
    session: Session<M, SyncError>,
    worker: Arc<W>,
    pool: PoolOf<M>,
    outlets: Outlets,
    counters: Arc<Counters>,
    monitor: Monitor,
    tap: Option<Arc<Tap>>,
    link: KnownLink,
    /// True once the connection is lost: all further frames are dropped.
    is_lost: bool,
}

impl<M: Machine, W: Worker<M>> Runner<M, W> {
    /// Takes all steps that are possible now. True once the session is over.
    fn step(&mut self, watch: Watch<'_>) -> Result<bool, SyncError> {
        let Traffic { sent, received } = self.counters.traffic();
        self.session.set_wire_bytes(sent, received);
        if let Some(figures) =
            self.counters.rate().and_then(|rate| self.link.update_if_changed(rate))
        {
            self.set_link(figures);
        }
        let is_over = loop {
            let Self { session, worker, pool, outlets, monitor, tap, is_lost, .. } = self;
            let worker = &**worker;
            match session.poll(&StepDriver {
                worker,
                pool,
                outlets,
                monitor,
                tap,
                is_lost: *is_lost,
            }) {
                Some(SessionStep::Work(id, work)) => {
                    let (cost, bytes) = (worker.cost(&work).into(), W::bytes(&work));
                    pool.accept(cost, (id, work), bytes);
                    continue;
                }
                Some(SessionStep::Send(_, batch)) if *is_lost => spare::keep(batch),
                Some(SessionStep::Send(lane, batch)) => outlets.send(lane, batch),
                Some(SessionStep::Event(notice)) => watch(with_location(worker, notice)),
                Some(SessionStep::Done) => break true,
                None => break false,
            }
            pool.start().map_err(SyncError::Thread)?;
        };
        self.pool.start().map_err(SyncError::Thread)?;
        self.counters.set_working(self.pool.has_work());
        Ok(is_over)
    }

    /// Sends all remaining frames and ends the streams. Stops sending if the other end no longer reads.
    async fn send_rest(&mut self, watch: Watch<'_>) -> Result<(), SyncError> {
        self.monitor.note_compared(self.session.counts());
        while let Some(batch) = self.next_rest_frame() {
            if !self.outlets.send_first(batch).await {
                break;
            }
        }
        self.outlets.end().await;
        for notice in self.session.finish() {
            watch(with_location(&*self.worker, notice));
        }
        Ok(())
    }

    fn take_stream_news(&mut self, news: News, watch: Watch<'_>) {
        match news {
            News::Outlet(batches) => self.outlets.add(batches),
            News::Fewer(message) => watch(missing_streams_warning(message)),
        }
    }

    /// Tells the machine and the worker the known link, if there is one. Returns this runner.
    fn with_known_link(mut self) -> Self {
        if let Some(figures) = self.link.figures {
            self.set_link(figures);
        }
        self
    }

    /// Tells the machine and the worker the present model of the link.
    fn set_link(&mut self, figures: Figures) {
        self.session.set_link(figures);
        self.worker.set_link(figures);
    }

    fn next_rest_frame(&mut self) -> Option<Vec<u8>> {
        let Self { session, worker, pool, outlets, monitor, tap, .. } = self;
        let worker = &**worker;
        session.poll_rest(&StepDriver { worker, pool, outlets, monitor, tap, is_lost: false })
    }

    fn take_answers(
        &mut self,
        bundles: impl Iterator<Item = Done<Answered<M>>>,
    ) -> Result<(), SyncError> {
        for done in bundles {
            if done.panicked {
                return Err(SyncError::Internal);
            }
            self.pool.note_results(&done);
            for (id, answer) in done.results {
                self.session.answered(id, answer);
            }
        }
        Ok(())
    }

    /// True if the session can take a frame. After the last frame, only the end of the stream follows.
    fn can_take_frame(&self) -> bool {
        self.session.takes_frames() && !self.session.is_finished()
    }

    /// Feeds frames to the session as long as the session takes frames, up to [`TURN_BYTES`]. Returns false if a
    /// further stream is lost.
    fn feed_frames(&mut self, heard: &mut TakenFrames) -> Result<bool, SyncError> {
        let mut taken = 0;
        while taken < TURN_BYTES
            && self.can_take_frame()
            && let Some(frame) = heard.next()
        {
            taken += frame.as_ref().map_or(0, payload_bytes);
            if matches!(frame, Err(ReadEnd::Lost)) {
                return Ok(false);
            }
            if let (Some(tap), Ok(frame)) = (&self.tap, &frame) {
                tap.record_frame(frame.kind, &frame.payload);
            }
            self.take(frame)?;
        }
        Ok(true)
    }

    fn take(&mut self, frame: Result<RawFrame, ReadEnd>) -> Result<(), SyncError> {
        let RawFrame { kind, payload } = frame?;
        self.session.feed(kind, &payload)
    }

    /// After the loss of the connection: completes the work that needs no further frame, and reports that work. So
    /// files whose data had all arrived are written and counted.
    async fn commit_after_loss(
        &mut self,
        results: &mut mpsc::UnboundedReceiver<Done<Answered<M>>>,
        watch: Watch<'_>,
    ) {
        self.is_lost = true;
        if !self.session.lose_connection() {
            return;
        }
        let mut answers = Vec::new();
        while let Ok(false) = self.step(watch)
            && self.pool.has_work()
        {
            results.recv_many(&mut answers, AT_ONCE).await;
            if self.take_answers(answers.drain(..)).is_err() {
                return;
            }
        }
    }

    /// Ends a session after the loss of a stream. Reads the last frames of the other end: the session may be complete,
    /// or the other end may have sent a reason. Otherwise returns `error`.
    async fn end_after_loss(
        &mut self,
        ears: FrameSource<'_>,
        error: SyncError,
        watch: Watch<'_>,
    ) -> Result<(), SyncError> {
        let heard =
            tokio::time::timeout(LAST_TIMEOUT, self.read_remaining_frames(ears, watch)).await;
        match heard {
            Ok(Some(result)) => result,
            Ok(None) | Err(_) => Err(error),
        }
    }

    /// Reads the remaining frames of the other end. Returns `None` if these frames do not end the session.
    async fn read_remaining_frames(
        &mut self,
        FrameSource { mut heard, frames }: FrameSource<'_>,
        watch: Watch<'_>,
    ) -> Option<Result<(), SyncError>> {
        while !self.session.is_finished() && self.session.takes_frames() {
            let Some(frame) = heard.next() else {
                heard = frames.recv().await?.into_iter();
                continue;
            };
            match frame {
                // The other further streams may be lost too.
                Err(ReadEnd::Lost) => continue,
                Err(ReadEnd::Closed | ReadEnd::Broken(_)) => return None,
                frame => match self.take(frame) {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
            }
            while let Some(notice) = self.session.poll_notice() {
                watch(notice);
            }
            tokio::task::yield_now().await;
        }
        self.session.is_finished().then_some(Ok(()))
    }
}

/// Frames that were taken from the queue and not processed yet.
type TakenFrames = std::vec::IntoIter<Result<RawFrame, ReadEnd>>;

/// Frames from the other end: taken ones, and the queue.
struct FrameSource<'a> {
    /// Frames to process before the queue.
    heard: TakenFrames,
    frames: &'a mut mpsc::Receiver<Reading>,
}

/// Implements [`SessionDriver`] for a step: room in streams and pool, buffers, and observation of sent frames.
struct StepDriver<'a, M: Machine, W> {
    worker: &'a W,
    pool: &'a PoolOf<M>,
    outlets: &'a Outlets,
    monitor: &'a Monitor,
    tap: &'a Option<Arc<Tap>>,
    /// True if frames are dropped instead of sent.
    is_lost: bool,
}

impl<M: Machine, W: Worker<M>> SessionDriver<M> for StepDriver<'_, M, W> {
    fn has_several_lanes(&self) -> bool {
        self.outlets.has_further()
    }

    fn can_send(&self, lane: Lane) -> bool {
        self.is_lost || self.outlets.has_room(lane)
    }

    fn can_start(&self, work: &M::Work) -> bool {
        self.pool.has_room(self.worker.cost(work).into(), W::bytes(work))
    }

    fn edit_trouble(&self, trouble: &mut Trouble) {
        self.worker.locate_there(trouble);
    }

    fn compress(&self, frame: &[u8]) -> Option<Vec<u8>> {
        self.worker.compress(frame)
    }

    fn buffer(&self) -> Vec<u8> {
        spare::buffer()
    }

    fn recycle_buffer(&self, buffer: Vec<u8>) {
        spare::keep(buffer);
    }

    fn observe_frame(&self, frame: &[u8], purpose: Purpose) {
        self.monitor.count_sent(purpose, frame.len());
        if let Some(tap) = self.tap {
            tap.record_frame(frame[0], &frame[HEADER_BYTES..]);
        }
    }
}

/// Adds facts of this end to an event: the place of a trouble, the content of a changed file.
fn with_location<M: Machine>(worker: &impl Worker<M>, mut notice: Notice) -> Notice {
    match &mut notice {
        Notice::Trouble(trouble) => worker.locate(trouble),
        Notice::Changed(change) => worker.describe(change),
        _ => {}
    }
    notice
}

/// Returns a warning about streams that did not join. The warning fails no file.
pub(crate) fn missing_streams_warning(message: String) -> Notice {
    Notice::Trouble(Trouble::new(TroubleKind::Warned, message))
}

/// Does a bundle of work on this thread, in order. Pieces of work that may be joined are done together.
fn perform_all<M: Machine, W: Worker<M>>(
    worker: &W,
    monitor: &Monitor,
    bundle: &mut dyn Iterator<Item = (WorkId, M::Work)>,
    results: &mut Vec<(WorkId, M::Answer)>,
) {
    let mut bundle = bundle.peekable();
    while let Some((id, work)) = bundle.next() {
        let stage = W::stage(&work);
        if !bundle.peek().is_some_and(|(_, next)| W::may_join(&work, next)) {
            results.push((id, monitor.charge(stage, || worker.perform(work))));
            continue;
        }
        let (mut ids, mut works) = (vec![id], vec![work]);
        while let Some((id, work)) = bundle.next_if(|(_, next)| W::may_join(&works[0], next)) {
            ids.push(id);
            works.push(work);
        }
        let answers = monitor.charge(stage, || worker.perform_together(works));
        results.extend(ids.into_iter().zip(answers));
    }
}

/// True for errors of a connection that broke, without a reason of the other end.
const fn is_connection_loss(error: &SyncError) -> bool {
    matches!(
        error,
        SyncError::Disconnected(_) | SyncError::Transport { .. } | SyncError::StreamLost
    )
}

/// Returns the length of a frame's payload in bytes, decompressed, as the frame claims.
fn payload_bytes(RawFrame { kind, payload }: &RawFrame) -> usize {
    let compressed = CompressedFrame::decode(*kind, payload).ok().flatten();
    compressed.map_or(payload.len(), |frame| frame.len as usize)
}

fn connection_lost() -> SyncError {
    SyncError::Disconnected("the other end does not read any more".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Budget, Executor};
    use deltic_protocol::frame::{HEADER_BYTES, Header};
    use deltic_protocol::hello::{Abort, AbortCause, Alive};
    use deltic_protocol::options::Options;
    use deltic_protocol::receiver::{Receiver, ReceiverAnswer, ReceiverWork, Setting};
    use deltic_worker::WorkCost;

    /// A worker for a receiver that gets no work.
    struct Idle;

    impl Worker<Receiver> for Idle {
        fn cost(&self, _: &ReceiverWork) -> WorkCost {
            WorkCost::Light
        }
        fn bytes(_: &ReceiverWork) -> usize {
            0
        }
        fn stage(_: &ReceiverWork) -> Stage {
            Stage::Decide
        }
        fn perform(&self, work: ReceiverWork) -> ReceiverAnswer {
            unreachable!("nothing asks for {work:?}")
        }
    }

    /// Runs a receiver with these frames in its queue.
    async fn end_of(readings: Vec<Reading>) -> Result<(), SyncError> {
        let (queue, frames) = mpsc::channel(readings.len());
        readings.into_iter().for_each(|frames| queue.try_send(frames).expect("room for all"));
        let (first, _said) = mpsc::channel(1);
        let (_, news) = mpsc::channel(1);
        let monitor = Monitor::default();
        let outlets = Outlets::new(first);
        let counters = Arc::default();
        let by = Drive {
            greeting: None,
            frames,
            outlets,
            news,
            share: Executor::of_process().admit(Budget::default()),
            counters,
            monitor,
            tap: None,
            link: KnownLink::default(),
            credit_timeout: None,
            user_is_here: false,
        };
        let options = Options::default();
        let machine = Receiver::new(Setting { options, ..Setting::default() });
        drop(queue);
        drive(machine, Arc::new(Idle), by, &mut |_| ()).await
    }

    fn abort(message: &str) -> Result<RawFrame, ReadEnd> {
        raw(&Abort { cause: AbortCause::Internal, message: message.into() }.encode())
    }

    fn raw(bytes: &[u8]) -> Result<RawFrame, ReadEnd> {
        let header = bytes.first_chunk::<HEADER_BYTES>().expect("a frame has a header");
        let kind = Header::decode(*header).expect("it is of a frame").kind;
        Ok(RawFrame { kind, payload: bytes[HEADER_BYTES..].to_vec().into() })
    }

    /// Any number of signs of life is accepted and has no effect. A malformed sign of life is still refused.
    #[tokio::test]
    async fn signs_of_life_are_heard_and_do_nothing() {
        let alive = (0..100_000).map(|_| raw(&Alive.encode()));
        let end = end_of(vec![alive.chain([abort("enough")]).collect()]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "enough"), "{end:?}");
        let long = Ok(RawFrame { kind: Alive.encode()[0], payload: vec![0].into() });
        let end = end_of(vec![vec![raw(&Alive.encode()), long]]).await;
        assert!(matches!(end, Err(SyncError::Protocol(_))), "{end:?}");
    }

    #[tokio::test]
    async fn no_frame_behind_a_lost_stream_is_left_out() {
        let behind: Vec<_> = (0..4).map(|no| abort(&no.to_string())).collect();
        let lost = || Err(ReadEnd::Lost);
        // Frames of the same reading come before the frames in the queue.
        let along = std::iter::once(lost()).chain(behind).collect();
        let end = end_of(vec![along, vec![abort("last")]]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "0"), "{end:?}");
        let end = end_of(vec![vec![lost()], vec![abort("next")]]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "next"), "{end:?}");
        let end = end_of(vec![vec![lost()]]).await;
        assert!(matches!(end, Err(SyncError::StreamLost)), "{end:?}");
    }
}
