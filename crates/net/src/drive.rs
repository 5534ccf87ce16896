//! One loop for either machine: frames in, work out to the executor, answers back, frames out.
//!
//! Reading never waits for writing: what a machine has to say is bounded by the protocol's credit and waits in the
//! machine. Work is started only while frames can leave and threads are free; frames are taken only while the machine's
//! backlog is small. So every queue has a bound and no two ends can block each other (docs/protocol.md, "Credit").

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use deltic_protocol::WorkId;
use deltic_protocol::hello::{Abort, Alive};
use deltic_protocol::report::{Notice, Trouble, TroubleKind};

use crate::batch::Tap;
use crate::error::SyncError;
use crate::executor::{SessionPool, Share};
use crate::greeting::{Agree, GREETING_PATIENCE, Greeting};
use crate::machine::{Machine, Worker};
use crate::monitor::{Monitor, Stage};
use crate::outlets::{Closed, Lane, Outlets};
use crate::plan::Traffic;
use crate::streams::News;
use crate::transport::{Counters, RawFrame, ReadEnd, Reading};

/// Bundles of answers that a machine takes in one go.
const AT_ONCE: usize = 64;
/// How long the other end may take to answer first before it counts as far away: longer than one takes that is near.
const FAR_AWAY: Duration = Duration::from_millis(25);

/// Time between two looks at what has left.
const SENT_EVERY: Duration = Duration::from_millis(100);

/// Bytes on the wire between two notices of them.
const WIRE_STEP: u64 = 64 << 10;

/// How long the last words of an end that reads no more may take to arrive.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Has the work of an `M` done.
type PoolOf<M> = SessionPool<(WorkId, <M as Machine>::Work), (WorkId, <M as Machine>::Answer)>;

/// What a machine is driven with, besides a worker.
pub(crate) struct Drive {
    /// What comes before the machine's own frames, where it goes to work without waiting for that.
    pub(crate) greeting: Option<(Greeting, Agree)>,
    pub(crate) frames: mpsc::Receiver<Reading>,
    pub(crate) outlets: Outlets,
    /// Streams that join, or do not.
    pub(crate) news: mpsc::Receiver<News>,
    /// Has threads do the machine's work.
    pub(crate) share: Share,
    /// Told whether calls are under way.
    pub(crate) counters: Arc<Counters>,
    pub(crate) monitor: Monitor,
    /// What is heard passes by this.
    pub(crate) tap: Option<Arc<Tap>>,
}

/// Runs `machine` to its end.
pub(crate) async fn drive<M: Machine, H: Worker<M>>(
    machine: M,
    worker: Arc<H>,
    by: Drive,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    let monitor = by.monitor.clone();
    monitor.watched(Stage::Decide, turn(machine, worker, by, watch)).await
}

/// The loop.
async fn turn<M: Machine, H: Worker<M>>(
    mut machine: M,
    worker: Arc<H>,
    Drive { mut greeting, mut frames, mut outlets, mut news, share, counters, monitor, tap }: Drive,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    let (watched, doing) = (monitor.clone(), Arc::clone(&worker));
    let perform = move |bundle: &mut dyn Iterator<Item = (WorkId, M::Work)>,
                        results: &mut Vec<_>| {
        perform_all::<M, H>(&doing, &watched, bundle, results);
    };
    let (mut pool, mut results) = SessionPool::new(share, perform);
    let tell = |trouble: &mut Trouble| worker.locate_there(trouble);
    let located = |mut notice| {
        if let Notice::Trouble(trouble) = &mut notice {
            worker.locate(trouble);
        }
        notice
    };
    let mut waiting: Option<(WorkId, M::Work)> = None;
    let mut answers = Vec::new();
    let mut first_answer = std::pin::pin!(tokio::time::sleep(FAR_AWAY));
    let mut is_unanswered = true;
    let mut greeted_late = std::pin::pin!(tokio::time::sleep(GREETING_PATIENCE));
    let (mut unsent, mut wire) = (Unsent::default(), Wire::default());
    loop {
        while let Ok(news) = news.try_recv() {
            match news {
                News::Outlet(batches) => outlets.add(batches),
                News::Fewer(message) => watch(fewer(message)),
            }
        }
        let has_room = outlets.send_ready(&mut machine, &tell);
        if has_room {
            start_work::<M, H>(&worker, &mut machine, &mut pool, &mut waiting)?;
            // Asking for work may have put frames into the machine's mouth.
            outlets.send_ready(&mut machine, &tell);
        }
        while let Some(notice) = machine.poll_notice().map(located) {
            unsent.take(notice, outlets.given(), watch);
        }
        let traffic = counters.traffic();
        unsent.tell(traffic.sent, watch);
        if let Some(notice) = wire.moved_to(traffic) {
            watch(notice);
        }
        counters.set_works(pool.is_at_work());
        if machine.is_finished() {
            monitor.note_compared(machine.counts());
            outlets.send_rest(&mut machine, &tell).await;
            unsent.tell(u64::MAX, watch);
            while let Some(notice) = machine.poll_notice().map(located) {
                watch(notice);
            }
            return Ok(());
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
            reading = frames.recv(), if !machine.is_full() => {
                let Some(reading) = reading else { return Err(ReadEnd::Closed.into()) };
                is_unanswered = false;
                let mut heard = reading.into_iter();
                while let Some(frame) = heard.next() {
                    // What follows the last frame is the stream's end.
                    if machine.is_finished() {
                        continue;
                    }
                    if matches!(frame, Err(ReadEnd::Lost)) {
                        let ears =
                            Ears { greeting: &mut greeting, heard, frames: &mut frames };
                        return last_words(&mut machine, ears, SyncError::StreamLost, watch).await;
                    }
                    if let (Some(tap), Ok(frame)) = (&tap, &frame) {
                        tap.note(frame.kind, &frame.payload);
                    }
                    take(&mut machine, &mut greeting, frame)?;
                }
            }
            // Only wakes the loop.
            () = tokio::time::sleep(SENT_EVERY), if !unsent.is_empty() => {}
            () = &mut greeted_late, if greeting.is_some() => return Err(SyncError::NoAnswerInTime),
            () = &mut first_answer, if is_unanswered => {
                is_unanswered = false;
                machine.unanswered();
            }
            // Only wakes the loop: capacity is looked at again above.
            writable = outlets.writable(), if !has_room => {
                if let Err(Closed(lane)) = writable {
                    let error = if lane == Lane::First { gone() } else { SyncError::StreamLost };
                    let ears = Ears {
                        greeting: &mut greeting,
                        heard: Vec::new().into_iter(),
                        frames: &mut frames,
                    };
                    return last_words(&mut machine, ears, error, watch).await;
                }
            }
        }
    }
}

/// Bytes that are settled once they have left: until then a limit of the rate may hold them back.
#[derive(Default)]
struct Unsent {
    /// How many, and how much this end must have sent by then.
    settled: VecDeque<(u64, u64)>,
}

impl Unsent {
    /// Tells a notice, or keeps it until so many bytes are sent, those behind which it came.
    fn take(&mut self, notice: Notice, given: u64, watch: &mut (dyn FnMut(Notice) + Send)) {
        match notice {
            Notice::Settled { bytes } => match self.settled.back_mut() {
                Some((more, last)) if *last == given => *more += bytes,
                _ => self.settled.push_back((bytes, given)),
            },
            // Nothing follows it.
            Notice::Finished(_) => {
                self.tell(u64::MAX, watch);
                watch(notice);
            }
            notice => watch(notice),
        }
    }

    /// Tells what is settled where so many bytes are sent.
    fn tell(&mut self, sent: u64, watch: &mut (dyn FnMut(Notice) + Send)) {
        while let Some((bytes, _)) = self.settled.pop_front_if(|(_, given)| *given <= sent) {
            watch(Notice::Settled { bytes });
        }
    }

    fn is_empty(&self) -> bool {
        self.settled.is_empty()
    }
}

/// Bytes on the wire that were told, both ways.
#[derive(Default)]
struct Wire(u64);

impl Wire {
    /// How many there are now, if that is many more than were told, or the other end is heard for the first time.
    fn moved_to(&mut self, Traffic { sent, received }: Traffic) -> Option<Notice> {
        let bytes = sent.saturating_add(received);
        let is_first = self.0 == 0 && received > 0;
        if bytes < self.0.saturating_add(WIRE_STEP) && !is_first {
            return None;
        }
        self.0 = bytes;
        Some(Notice::Wire { bytes })
    }
}

/// Gives a frame to the greeting until that is over, then to the machine.
fn take<M: Machine>(
    machine: &mut M,
    greeting: &mut Option<(Greeting, Agree)>,
    frame: Result<RawFrame, ReadEnd>,
) -> Result<(), SyncError> {
    let frame = frame.map_err(SyncError::from)?;
    if let Some(abort) = Abort::decode(frame.kind, &frame.payload)? {
        return Err(abort.into());
    }
    // That it came is all there is to it.
    if Alive::decode(frame.kind, &frame.payload)?.is_some() {
        return Ok(());
    }
    if let Some((waiting, _)) = greeting {
        if let Some((terms, reply)) = waiting.hear(&frame)?
            && let Some((_, agree)) = greeting.take()
        {
            machine.greeted(&terms);
            agree(terms, reply);
        }
        return Ok(());
    }
    Ok(machine.handle(frame.kind, &frame.payload)?)
}

/// Where the other end is heard.
struct Ears<'a> {
    greeting: &'a mut Option<(Greeting, Agree)>,
    /// What came out of `frames` and is not taken yet: without it, what follows would make no sense.
    heard: std::vec::IntoIter<Result<RawFrame, ReadEnd>>,
    frames: &'a mut mpsc::Receiver<Reading>,
}

/// A stream is gone. What the other end said before that decides how this ends: it may be done, or have told why not;
/// else it is `error`.
async fn last_words<M: Machine>(
    machine: &mut M,
    ears: Ears<'_>,
    error: SyncError,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Result<(), SyncError> {
    let heard = tokio::time::timeout(LAST_PATIENCE, hear_out(machine, ears, watch)).await;
    match heard {
        Ok(Some(result)) => result,
        Ok(None) | Err(_) => Err(error),
    }
}

/// How a session ends whose other end still speaks; `None` if it stops without saying that.
async fn hear_out<M: Machine>(
    machine: &mut M,
    Ears { greeting, mut heard, frames }: Ears<'_>,
    watch: &mut (dyn FnMut(Notice) + Send),
) -> Option<Result<(), SyncError>> {
    while !machine.is_finished() && !machine.is_full() {
        let Some(frame) = heard.next() else {
            heard = frames.recv().await?.into_iter();
            continue;
        };
        match frame {
            // They may all go at once.
            Err(ReadEnd::Lost) => continue,
            Err(ReadEnd::Closed | ReadEnd::Broken(_)) => return None,
            frame => match take(machine, greeting, frame) {
                Ok(()) => {}
                Err(error) => return Some(Err(error)),
            },
        }
        while let Some(notice) = machine.poll_notice() {
            watch(notice);
        }
    }
    machine.is_finished().then_some(Ok(()))
}

/// Tells of streams that did not join: no name failed for it.
pub(crate) fn fewer(message: String) -> Notice {
    Notice::Trouble(Trouble::new(TroubleKind::Warned, message))
}

/// Does what a thread was given at a time: one piece after the other, but together what may be.
fn perform_all<M: Machine, H: Worker<M>>(
    worker: &H,
    monitor: &Monitor,
    bundle: &mut dyn Iterator<Item = (WorkId, M::Work)>,
    results: &mut Vec<(WorkId, M::Answer)>,
) {
    let mut bundle = bundle.peekable();
    while let Some((id, work)) = bundle.next() {
        let stage = H::stage(&work);
        if !bundle.peek().is_some_and(|(_, next)| H::may_join(&work, next)) {
            results.push((id, monitor.work(stage, || worker.perform(work))));
            continue;
        }
        let (mut ids, mut works) = (vec![id], vec![work]);
        while let Some((id, work)) = bundle.next_if(|(_, next)| H::may_join(&works[0], next)) {
            ids.push(id);
            works.push(work);
        }
        let answers = monitor.work(stage, || worker.perform_together(works));
        results.extend(ids.into_iter().zip(answers));
    }
}

/// Starts work while there is room for it; a piece that finds none waits for the next answer.
fn start_work<M: Machine, H: Worker<M>>(
    worker: &H,
    machine: &mut M,
    pool: &mut PoolOf<M>,
    waiting: &mut Option<(WorkId, M::Work)>,
) -> Result<(), SyncError> {
    while let Some((id, work)) = waiting.take().or_else(|| machine.poll_work()) {
        let cost = worker.cost(&work);
        if !pool.has_room(cost) {
            *waiting = Some((id, work));
            break;
        }
        pool.take(cost, (id, work));
    }
    pool.start().map_err(SyncError::Thread)
}

fn gone() -> SyncError {
    SyncError::Disconnected("the other end does not read any more".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Budget, Cost, Executor};
    use deltic_protocol::frame::{HEADER_BYTES, Header};
    use deltic_protocol::hello::AbortCause;
    use deltic_protocol::options::Options;
    use deltic_protocol::receiver::{Answer, Receiver, Setting, Work};

    /// For a receiver that hears of no file.
    struct Idle;

    impl Worker<Receiver> for Idle {
        fn cost(&self, _: &Work) -> Cost {
            Cost::Light
        }
        fn stage(_: &Work) -> Stage {
            Stage::Decide
        }
        fn perform(&self, work: Work) -> Answer {
            unreachable!("nothing asks for {work:?}")
        }
    }

    /// How a receiver ends that finds all of this in its queue.
    async fn end_of(readings: Vec<Reading>) -> Result<(), SyncError> {
        let (queue, frames) = mpsc::channel(readings.len());
        readings.into_iter().for_each(|frames| queue.try_send(frames).expect("room for all"));
        let (first, _said) = mpsc::channel(1);
        let (_, news) = mpsc::channel(1);
        let monitor = Monitor::default();
        let outlets = Outlets::new(first, monitor.clone());
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

    /// However often a peer says that it is alive, it is heard and nothing comes of it. What is no such frame is
    /// refused all the same.
    #[tokio::test]
    async fn signs_of_life_are_heard_and_do_nothing() {
        let alive = (0..100_000).map(|_| raw(&Alive.encode()));
        let end = end_of(vec![alive.chain([abort("enough")]).collect()]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "enough"), "{end:?}");
        let long = Ok(RawFrame { kind: Alive.encode()[0], payload: vec![0].into() });
        let end = end_of(vec![vec![raw(&Alive.encode()), long]]).await;
        assert!(matches!(end, Err(SyncError::Protocol(_))), "{end:?}");
    }

    #[test]
    fn what_waits_to_be_sent_is_not_settled() {
        let (mut unsent, mut told) = (Unsent::default(), Vec::new());
        let mut watch = |notice| told.push(notice);
        let settled = |bytes| Notice::Settled { bytes };
        for (bytes, given) in [(1, 0), (10, 100), (20, 100), (40, 300)] {
            unsent.take(settled(bytes), given, &mut watch);
        }
        unsent.tell(99, &mut watch);
        unsent.tell(100, &mut watch);
        let warned = fewer(String::new());
        unsent.take(warned.clone(), 300, &mut watch);
        let finished = Notice::Finished(Default::default());
        unsent.take(finished.clone(), 300, &mut watch);
        assert!(unsent.is_empty());
        assert_eq!(told, [settled(1), settled(30), warned, settled(40), finished]);
    }

    #[tokio::test]
    async fn no_frame_behind_a_lost_stream_is_left_out() {
        let behind: Vec<_> = (0..4).map(|no| abort(&no.to_string())).collect();
        let lost = || Err(ReadEnd::Lost);
        // Those of the same reading come before those that are still in the queue.
        let along = std::iter::once(lost()).chain(behind).collect();
        let end = end_of(vec![along, vec![abort("last")]]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "0"), "{end:?}");
        let end = end_of(vec![vec![lost()], vec![abort("next")]]).await;
        assert!(matches!(&end, Err(SyncError::Refused(why)) if why == "next"), "{end:?}");
        let end = end_of(vec![vec![lost()]]).await;
        assert!(matches!(end, Err(SyncError::StreamLost)), "{end:?}");
    }
}
