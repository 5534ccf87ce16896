//! Counters and limits that all streams of a session share.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use deltic_engine::greeting::Role;
use deltic_protocol::check::{CHECK, Checksum};
use deltic_protocol::echo::{Echo, Echoed, MeasuredLink};
use deltic_protocol::hello::Alive;
use deltic_protocol::limits::{Limits, MAX_FRAME_BYTES};
use deltic_protocol::{PeerError, Terms};
use deltic_worker::lock::lock;

use crate::config::SessionConfig;
use crate::monitor::{Busy, Monitor, processor_wait, time_since_start};
use crate::plan::{RoundTrip, Traffic};
use crate::rates::RateTable;

use super::Heard;
use super::echoes::Echoes;
use super::gentle::GentleRate;
use super::rate::{LinkRate, RateMeter};

/// Signs of life for each silence that the other end tolerates.
const BEATS: u32 = 3;
/// Pieces that are written in a second at the gentle rate.
const GENTLE_PIECES: u64 = 250;
/// Time by which a timer may be late without loss of rate.
const LATE: Duration = Duration::from_millis(2);

/// Counters of a session over all its streams, shared with observers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent: AtomicU64,
    /// Of the sent bytes: answers to echoes, with their checks.
    answered: AtomicU64,
    received: AtomicU64,
    /// Streams whose read bytes wait for the driver, or for the limit of the rate.
    waiting: AtomicUsize,
    /// Time in which the driver worked, or read bytes of any stream waited for the driver.
    held: Busy,
    /// Number of arrivals of bytes, without signs of life, echoes and checks.
    told: AtomicU64,
    /// True while this end has work under way.
    works: AtomicBool,
    /// Assumed rate of the link for the data, in bits a second; 0 if unknown. A receiver has the figures that the sender
    /// told.
    rate: AtomicU64,
    /// The last rate that was the limit of the link; 0 if unknown.
    limit: AtomicU64,
    round_trip: Mutex<Option<RoundTrip>>,
}

impl Counters {
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn heard(&self) -> Heard {
        if self.traffic().received == 0 { Heard::Nothing } else { Heard::Hello }
    }

    /// True if read frames wait for the driver. A pause is then not the other end's silence.
    pub(crate) fn has_unread_frames(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// True if this end is working or has frames to process, and so does not wait for the other end.
    pub(crate) fn is_busy(&self) -> bool {
        self.works.load(Ordering::Relaxed) || self.has_unread_frames()
    }

    /// Counts the driver as busy, or as waiting for news.
    pub(crate) fn set_driver_busy(&self, is_busy: bool) {
        self.held.change(if is_busy { 1 } else { -1 });
    }

    pub(crate) fn set_working(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }

    /// Returns a count that changes whenever bytes other than signs of life, echoes and checks arrive.
    pub(crate) fn progress_count(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Returns the number of sent bytes, without answers to echoes.
    pub(crate) fn sent_unasked(&self) -> u64 {
        self.traffic().sent.saturating_sub(self.answered.load(Ordering::Relaxed))
    }

    /// Returns the rate of the link for the data, in bits a second: measured by the sender, or a guess until the link
    /// limits the rate.
    pub(crate) fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Returns the last measured rate at which the link, or the reader behind it, took bytes, in bits a second.
    pub(crate) fn bandwidth_limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Returns the round trip between the ends, if the sender sent enough to measure it.
    pub(crate) fn round_trip(&self) -> Option<RoundTrip> {
        *lock(&self.round_trip)
    }

    /// Returns the link as this end measured it, for the other end.
    fn measured_link(&self) -> MeasuredLink {
        let trip = self.round_trip().unwrap_or_default();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        MeasuredLink {
            assumed_rate: self.rate.load(Ordering::Relaxed),
            limit: self.limit.load(Ordering::Relaxed),
            idle_micros: micros(trip.idle),
            current_micros: micros(trip.current),
            samples: trip.samples,
        }
    }

    /// Takes the link as the other end measured it.
    fn set_measured_link(&self, link: MeasuredLink) {
        let MeasuredLink { assumed_rate: assumed, limit, idle_micros, current_micros, samples } =
            link;
        self.set_rate(LinkRate { assumed, limit });
        let [idle, current] = [idle_micros, current_micros].map(Duration::from_micros);
        let trip = RoundTrip { idle, current, samples };
        *lock(&self.round_trip) = Some(trip).filter(|trip| trip.samples > 0);
    }

    fn set_rate(&self, LinkRate { assumed, limit }: LinkRate) {
        self.rate.store(assumed, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Counts the arrival of bytes of a frame of type `kind`.
    pub(super) fn count_arrival(&self, kind: u8) {
        if ![Alive::KIND, CHECK, Echo::KIND, Echoed::KIND].contains(&kind) {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Counters and limits that all streams of a session share.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) counters: Arc<Counters>,
    pub(crate) monitor: Monitor,
    /// Longest accepted payload of a frame, in bytes.
    longest: Arc<AtomicUsize>,
    reading: Arc<Limit>,
    writing: Arc<Limit>,
    /// Longest pause between frames on the first stream.
    pause: Arc<watch::Sender<Option<Duration>>>,
    /// Measures the rate of the link over all streams; `None` if the other end measures and tells the rate.
    meter: Arc<Mutex<Option<RateMeter>>>,
    /// Echoes on the first stream.
    echoes: Arc<Mutex<Echoes>>,
    /// Wakes the writer of the first stream if an answer to an echo is owed.
    owed: Arc<Notify>,
    /// Start of the session, from which times of echoes count.
    start: Instant,
    /// Wait for a processor before the session.
    waited_before: Duration,
}

impl Flow {
    /// Limits the rate in each direction to the rate of `config`.
    pub(crate) fn new(config: &SessionConfig) -> Self {
        let SessionConfig { counters, limits, monitor, .. } = config.clone();
        let limit = || Arc::new(Limit::new(limits.table.clone()));
        let pause = Arc::new(watch::Sender::new(None));
        let longest = Arc::new(AtomicUsize::new(MAX_FRAME_BYTES));
        Self {
            counters,
            monitor,
            longest,
            reading: limit(),
            writing: limit(),
            pause,
            meter: Arc::new(Mutex::new(Some(RateMeter::default()))),
            echoes: Arc::default(),
            owed: Arc::default(),
            start: Instant::now(),
            waited_before: processor_wait(),
        }
    }

    /// From now on, this end answers echoes.
    pub(crate) fn answer_echoes(&self) {
        lock(&self.echoes).announced = true;
    }

    /// Takes the terms of the session: refuses longer frames from now on. A sender asks for echoes, and keeps the
    /// gentle rate, if the ends agreed on that.
    pub(crate) fn agree(&self, terms: &Terms, role: Role) {
        self.longest.store(terms.limits.frame_bytes, Ordering::Relaxed);
        let tells = terms.link.earlier_rate.is_some();
        if tells && role == Role::Receives {
            *lock(&self.meter) = None;
        }
        if terms.link.echoes && role == Role::Sends {
            let mut echoes = lock(&self.echoes);
            echoes.start_asking(terms.link.gentle, self.start.elapsed());
            echoes.tells = tells;
            if terms.link.gentle {
                self.follow_gentle_rate(&GentleRate::default());
            }
        }
    }

    fn follow_gentle_rate(&self, gentle: &GentleRate) {
        self.writing.gentle.store(gentle.limit(self.start.elapsed()) as u64, Ordering::Relaxed);
        let bits = (gentle.rate() * 8.0) as u64;
        self.counters.rate.store(bits, Ordering::Relaxed);
        if gentle.knows_capacity() {
            self.counters.limit.store(bits, Ordering::Relaxed);
        }
    }

    /// True if the rate of this end follows the round trip.
    pub(super) fn is_gentle(&self) -> bool {
        self.writing.is_gentle()
    }

    /// Returns a question for an echo if one is due. The caller sends the question at once.
    pub(super) fn question(&self) -> Option<Vec<u8>> {
        let sent = self.counters.traffic().sent;
        let mut echoes = lock(&self.echoes);
        echoes.ask(sent, self.start.elapsed()).then(|| {
            let measured = echoes.tells.then(|| self.counters.measured_link());
            Echo { measured }.encode()
        })
    }

    /// Returns an answer to an echo if one is owed.
    pub(super) fn owed_answer(&self) -> Option<Vec<u8>> {
        let Counters { received, held, .. } = &*self.counters;
        lock(&self.echoes).take_due_answer().then(|| {
            let received = received.load(Ordering::Relaxed);
            let waited = processor_wait().saturating_sub(self.waited_before);
            let held = held.total() + waited;
            let held = u64::try_from(held.as_micros()).unwrap_or(u64::MAX);
            let answer = Echoed { received, held }.encode();
            let bytes = answer.len() + Checksum::NOTHING.check_frame().len();
            self.counters.answered.fetch_add(bytes as u64, Ordering::Relaxed);
            answer
        })
    }

    /// Waits until an answer to an echo may be owed.
    pub(super) async fn wait_until_owed(&self) {
        self.owed.notified().await;
    }

    /// Takes a frame of the first stream if the frame belongs to echoes. Returns false for other frames.
    ///
    /// # Errors
    /// [`PeerError`] if the other end breaks the rules of echoes.
    pub(super) fn take_echo(&self, kind: u8, payload: &[u8]) -> Result<bool, PeerError> {
        match kind {
            Echo::KIND => {
                let Echo { measured } = Echo::decode(kind, payload)?;
                lock(&self.echoes).take_question()?;
                measured.into_iter().for_each(|link| self.counters.set_measured_link(link));
                self.owed.notify_one();
            }
            Echoed::KIND => {
                let answer = Echoed::decode(kind, payload)?;
                let state = lock(&self.echoes).take_answer(answer, self.start.elapsed())?;
                *lock(&self.counters.round_trip) = state.round_trip;
                if let Some(gentle) = &state.gentle {
                    self.follow_gentle_rate(gentle);
                } else if let Some(arrival) = state.arrival
                    && let Some(meter) = &mut *lock(&self.meter)
                {
                    self.counters.set_rate(meter.take_arrival(arrival));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the limits of received frames.
    pub(super) fn limits(&self) -> Limits {
        Limits { frame_bytes: self.longest.load(Ordering::Relaxed), credit: None }
    }

    /// From now on, sends signs of life often enough for an end that tolerates `silence`.
    pub(crate) fn send_life_signs_within(&self, silence: Option<Duration>) {
        self.pause.send_replace(silence.map(|silence| silence / BEATS));
    }

    /// Returns the number of bytes at the start of a batch to write in one call.
    pub(super) fn piece_bytes_of(&self, batch: &[u8]) -> usize {
        if self.is_gentle() {
            let limit = lock(&self.echoes).gentle_limit(self.start.elapsed());
            limit.inspect(|limit| self.writing.gentle.store(*limit as u64, Ordering::Relaxed));
        }
        self.writing.piece_bytes().clamp(1, batch.len().max(1))
    }

    /// Counts bytes that arrived, and delays further reading to keep the rate.
    pub(super) async fn wait_and_count_received(&self, bytes: usize) {
        self.counters.count_received(bytes);
        if self.reading.bytes_per_second().is_some() {
            self.while_not_reading(self.reading.wait_for(bytes)).await;
        }
    }

    /// Waits until the rate allows `bytes` to be sent, and counts the bytes.
    pub(super) async fn wait_and_count_sent(&self, bytes: usize) {
        self.writing.wait_for(bytes).await;
        self.counters.count_sent(bytes);
    }

    /// Runs `writing`, which writes `bytes`, and measures the rate of the link. The gentle rate has its own measure.
    pub(super) async fn measure_rate<T>(
        &self,
        bytes: usize,
        writing: impl Future<Output = T>,
    ) -> T {
        if self.is_gentle() {
            return writing.await;
        }
        let (mut writing, mut blocked_since) = (pin!(writing), None);
        let written = std::future::poll_fn(|context| {
            let polled = writing.as_mut().poll(context);
            if polled.is_pending() {
                blocked_since.get_or_insert_with(time_since_start);
            }
            polled
        })
        .await;
        let now = time_since_start();
        let blocked = blocked_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let rate =
            lock(&self.meter).as_mut().and_then(|meter| meter.take_write(bytes, blocked, now));
        rate.into_iter().for_each(|rate| self.counters.set_rate(rate));
        written
    }

    /// Returns a receiver of the longest pause, and of changes of the longest pause.
    pub(super) fn longest_pause_receiver(&self) -> watch::Receiver<Option<Duration>> {
        self.pause.subscribe()
    }

    /// Runs `taking`, which waits until the driver takes read frames. This time does not count as silence of the other
    /// end, and counts as `held` in answers to echoes.
    pub(super) async fn while_waiting_for_driver<T>(&self, taking: impl Future<Output = T>) -> T {
        self.counters.held.change(1);
        let taken = self.while_not_reading(taking).await;
        self.counters.held.change(-1);
        taken
    }

    /// Runs `waiting`, which delays further reading. This time does not count as silence of the other end.
    async fn while_not_reading<T>(&self, waiting: impl Future<Output = T>) -> T {
        self.counters.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = waiting.await;
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        waited
    }
}

/// Spreads bytes evenly over time, for all streams together.
struct Limit {
    table: Option<RateTable>,
    /// The gentle rate in bytes a second; 0 for none.
    gentle: AtomicU64,
    next: Mutex<Instant>,
}

impl Limit {
    fn new(table: Option<RateTable>) -> Self {
        Self { table, gentle: AtomicU64::new(0), next: Mutex::new(Instant::now()) }
    }

    fn is_gentle(&self) -> bool {
        self.gentle.load(Ordering::Relaxed) > 0
    }

    /// Returns the present limit, if there is one.
    fn bytes_per_second(&self) -> Option<u64> {
        let gentle = Some(self.gentle.load(Ordering::Relaxed)).filter(|rate| *rate > 0);
        gentle.into_iter().chain(self.table.as_ref().and_then(RateTable::now)).min()
    }

    /// Returns the bytes to write in one call: about a tenth of the bytes that the limit allows in a second. Pieces at
    /// the gentle rate are shorter, since a piece is a queue on the way.
    fn piece_bytes(&self) -> usize {
        let pieces_per_second = if self.is_gentle() { GENTLE_PIECES } else { 10 };
        let Some(bytes) = self.bytes_per_second() else { return usize::MAX };
        (bytes / pieces_per_second).clamp(512, 1 << 20) as usize
    }

    async fn wait_for(&self, bytes: usize) {
        if let Some(limit) = self.bytes_per_second() {
            tokio::time::sleep_until(self.next_allowed(bytes, limit)).await;
        }
    }

    /// Returns the time at which the rate `limit` allows `bytes` to be sent or read.
    fn next_allowed(&self, bytes: usize, limit: u64) -> Instant {
        let pause = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let turn = (*next).max(now.checked_sub(LATE).unwrap_or(now));
        *next = turn + pause;
        turn
    }
}

#[cfg(test)]
mod tests {
    use deltic_protocol::frame::HEADER_BYTES;

    use super::*;
    use crate::rates::RateLimits;

    /// Returns the held time, which an answer to an echo tells together with waits for a processor.
    fn told_held(flow: &Flow) -> Duration {
        assert!(flow.take_echo(Echo::KIND, &[]).expect("it may be asked"));
        let answer = flow.owed_answer().expect("an answer is owed");
        let answer = Echoed::decode(Echoed::KIND, &answer[HEADER_BYTES..]).expect("it is valid");
        let held = flow.counters.held.total();
        assert!(Duration::from_micros(answer.held + 1000) >= held, "{answer:?} {held:?}");
        held
    }

    #[tokio::test]
    async fn time_of_a_busy_driver_and_of_waiting_streams_counts_once() {
        let flow = Flow::new(&SessionConfig::default());
        flow.answer_echoes();
        let wait = Duration::from_millis(200);
        let stream = || flow.while_waiting_for_driver(tokio::time::sleep(wait));
        flow.counters.set_driver_busy(true);
        tokio::join!(stream(), stream(), stream(), stream());
        flow.counters.set_driver_busy(false);
        let held = told_held(&flow);
        assert!(held >= wait && held < 3 * wait, "{held:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_limit_of_the_rate_is_no_wait_for_the_driver() {
        let table = Some(RateTable::constant(1000));
        let limits = RateLimits { table, gentle: false };
        let flow = Flow::new(&SessionConfig { limits, ..SessionConfig::default() });
        flow.answer_echoes();
        let start = Instant::now();
        for _ in 0..3 {
            flow.wait_and_count_received(1000).await;
        }
        assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(told_held(&flow), Duration::ZERO);
    }

    /// The sender tells its measurements only to a receiver that asked for them.
    #[tokio::test(start_paused = true)]
    async fn a_receiver_knows_what_the_sender_measured() {
        let [sender, receiver] = [(); 2].map(|()| Flow::new(&SessionConfig::default()));
        receiver.answer_echoes();
        let measured = LinkRate { assumed: 10_000_000, limit: 9_000_000 };
        sender.counters.set_rate(measured);
        for tells in [false, true] {
            lock(&sender.echoes).start_asking(false, Duration::ZERO);
            lock(&sender.echoes).tells = tells;
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.counters.count_sent(1 << 20);
            let question = sender.question().expect("a question is due");
            assert!(
                receiver.take_echo(Echo::KIND, &question[HEADER_BYTES..]).expect("it is valid")
            );
            assert_eq!(receiver.counters.rate(), tells.then_some(measured.assumed));
            assert_eq!(receiver.counters.bandwidth_limit(), tells.then_some(measured.limit));
            let answer = receiver.owed_answer().expect("an answer is owed");
            assert!(sender.take_echo(Echoed::KIND, &answer[HEADER_BYTES..]).expect("it was asked"));
        }
        let samples = receiver.counters.round_trip().map(|trip| trip.samples);
        assert_eq!(samples, Some(1), "the second question tells the first round trip");
    }
}
