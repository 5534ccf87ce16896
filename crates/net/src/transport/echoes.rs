//! Echoes of a session: which to ask for, which to answer, and what answers show (docs/protocol.md, "Echoes").
//!
//! ```text
//! sender    while it sends bulk data: Echo, every EVERY or FULL_BYTES; the first after FIRST or FIRST_BYTES
//! receiver  Echoed with the bytes that it has read, before all frames that wait to be sent
//! idle      shortest round trip of the last one or two WINDOWs; a route may change while a session lasts
//! current   smoothed; a delay that is the receiver's for half of it, as for a slow disk, does not count
//! ```
//!
//! Times are since any fixed moment; this module knows no clock.

use std::collections::VecDeque;
use std::time::Duration;

use deltic_protocol::PeerError;
use deltic_protocol::echo::Echoed;
use deltic_protocol::limits::MAX_ECHOES;

use crate::plan::RoundTrip;

use super::gentle::{GentleRate, RoundTripSample};
use super::rate::Arrival;

/// Start of a session without echoes: a small sync pays nothing.
const FIRST: Duration = Duration::from_millis(100);
/// Sent bytes that end the start of a session before its time: beside so many, an echo costs nothing.
const FIRST_BYTES: u64 = 1 << 20;
/// Usual time between two echoes, and between two of a gentle sender.
const EVERY: Duration = Duration::from_millis(250);
const GENTLE_EVERY: Duration = Duration::from_millis(50);
/// Bytes that must be sent between two echoes.
const BULK_BYTES: u64 = 16 << 10;
/// Sent bytes that make an echo due before its time, and the shortest time between two such echoes.
const FULL_BYTES: u64 = 4 << 20;
const SHORT_EVERY: Duration = Duration::from_millis(20);
/// Time after which a shortest round trip is forgotten, at the latest after twice this time.
const WINDOW: Duration = Duration::from_secs(300);
/// Time over which the rate of arrival is measured.
const ARRIVAL_WINDOW: Duration = Duration::from_millis(100);
/// Arrived bytes that end such a window before its time, and the shortest time of such a window.
const ARRIVAL_BYTES: u64 = 2 << 20;
const SHORT_ARRIVAL_WINDOW: Duration = Duration::from_millis(10);
/// Delays up to this time count in any case.
const NOISE: Duration = Duration::from_millis(5);
/// Share of a new round trip in the smoothed one.
const SMOOTHING: u32 = 4;

/// Echoes of one end.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// True if this end announced that it answers.
    pub(super) announced: bool,
    /// True if each question has the measured link, because the other end asked for measurements.
    pub(super) tells: bool,
    /// State of a sender that may ask.
    asker: Option<Asker>,
    /// Number of answers that are not sent yet.
    owed: usize,
}

impl Echoes {
    /// Starts to send questions: this end sends bulk data.
    pub(super) fn start_asking(&mut self, gentle: bool, now: Duration) {
        self.asker.get_or_insert_with(|| Asker::new(gentle, now));
    }

    /// Takes the question of the other end.
    ///
    /// # Errors
    /// [`PeerError`] if this end asks itself or did not announce answers, or if too many questions wait.
    pub(super) fn take_question(&mut self) -> Result<(), PeerError> {
        if !self.announced || self.asker.is_some() {
            return Err(PeerError::Unexpected("an Echo to an end that does not answer"));
        }
        if self.owed == MAX_ECHOES {
            return Err(PeerError::Limit("echoes without an answer"));
        }
        self.owed += 1;
        Ok(())
    }

    /// Counts an answer as sent. False if no answer was due.
    pub(super) const fn take_due_answer(&mut self) -> bool {
        let is_owed = self.owed > 0;
        self.owed = self.owed.saturating_sub(1);
        is_owed
    }

    /// True if a question is due, which the caller sends at once. `sent` counts all bytes sent so far.
    pub(super) fn ask(&mut self, sent: u64, now: Duration) -> bool {
        self.asker.as_mut().is_some_and(|asker| asker.ask(sent, now))
    }

    /// Returns the present gentle limit in bytes a second, if this end keeps one.
    pub(super) fn gentle_limit(&mut self, now: Duration) -> Option<f64> {
        let Asker { gentle, asked, idle, .. } = self.asker.as_mut()?;
        let gentle = gentle.as_mut()?;
        if let Some((asked, idle)) = asked.front().zip(idle.get()) {
            gentle.take_silence(now.saturating_sub(*asked), idle, now);
        }
        Some(gentle.limit(now))
    }

    /// Takes an answer. Returns the round trip and the gentle rate so far, and what arrived lately.
    ///
    /// # Errors
    /// [`PeerError`] for an answer without a question.
    pub(super) fn take_answer(
        &mut self,
        answer: Echoed,
        now: Duration,
    ) -> Result<LinkState, PeerError> {
        let asker = self.asker.as_mut().filter(|asker| !asker.asked.is_empty());
        let asker = asker.ok_or(PeerError::Unexpected("an Echoed without an Echo"))?;
        let arrival = asker.take_answer(answer, now);
        Ok(LinkState { round_trip: asker.round_trip(), gentle: asker.gentle.clone(), arrival })
    }
}

/// Round trip, gentle rate and arrival of bytes, as measured by echoes.
#[derive(Clone, Debug)]
pub(super) struct LinkState {
    pub(super) round_trip: Option<RoundTrip>,
    pub(super) gentle: Option<GentleRate>,
    /// What arrived in a window that this answer ended.
    pub(super) arrival: Option<Arrival>,
}

/// State of a sender that asks.
#[derive(Debug)]
struct Asker {
    start: Duration,
    /// Times of questions without an answer.
    asked: VecDeque<Duration>,
    last_question: Option<Duration>,
    /// Bytes sent before the last question.
    sent: u64,
    idle: ShortestTime,
    current: Option<Duration>,
    samples: u32,
    /// The last answer.
    heard: Option<Echoed>,
    arrivals: ArrivalWindows,
    gentle: Option<GentleRate>,
}

impl Asker {
    fn new(gentle: bool, now: Duration) -> Self {
        Self {
            start: now,
            asked: VecDeque::new(),
            last_question: None,
            sent: 0,
            idle: ShortestTime::default(),
            current: None,
            samples: 0,
            heard: None,
            arrivals: ArrivalWindows::default(),
            gentle: gentle.then(GentleRate::default),
        }
    }

    fn ask(&mut self, sent: u64, now: Duration) -> bool {
        let every = if self.gentle.is_some() { GENTLE_EVERY } else { EVERY };
        let since = |time: Duration| now.saturating_sub(time);
        let bytes = sent.saturating_sub(self.sent);
        let is_due = match self.last_question.map(since) {
            None => since(self.start) >= FIRST && bytes >= BULK_BYTES || bytes >= FIRST_BYTES,
            Some(time) => {
                time >= every && bytes >= BULK_BYTES || time >= SHORT_EVERY && bytes >= FULL_BYTES
            }
        } && self.asked.len() < MAX_ECHOES;
        if is_due {
            self.asked.push_back(now);
            (self.last_question, self.sent) = (Some(now), sent);
        }
        is_due
    }

    /// Takes an answer. Returns what arrived in a window that the answer ended.
    fn take_answer(&mut self, answer: Echoed, now: Duration) -> Option<Arrival> {
        let asked = self.asked.pop_front()?;
        let round_trip = now.saturating_sub(asked);
        let before = self.heard.replace(answer).unwrap_or_default();
        let held = held_between(before, answer);
        let arrival = self.arrivals.take_answer(answer, now);
        self.idle.take(round_trip, now);
        let idle = self.idle.get().unwrap_or(round_trip);
        let delay = round_trip.saturating_sub(idle);
        if delay > NOISE && held * 2 >= delay {
            self.gentle.iter_mut().for_each(GentleRate::end_silence);
            return arrival;
        }
        self.samples = self.samples.saturating_add(1);
        let smoothed = |current| (current * (SMOOTHING - 1) + round_trip) / SMOOTHING;
        self.current = Some(self.current.map_or(round_trip, smoothed));
        if let Some(gentle) = &mut self.gentle {
            let arrived = self.arrivals.rate;
            gentle.take_sample(RoundTripSample { now, round_trip, idle, arrived });
        }
        arrival
    }

    fn round_trip(&self) -> Option<RoundTrip> {
        let (idle, current) = self.idle.get().zip(self.current)?;
        Some(RoundTrip { idle, current, samples: self.samples })
    }
}

/// The shortest time of the last one or two windows.
#[derive(Debug, Default)]
struct ShortestTime {
    /// Start of the present window.
    start: Option<Duration>,
    present: Option<Duration>,
    before: Option<Duration>,
}

impl ShortestTime {
    fn take(&mut self, time: Duration, now: Duration) {
        let start = *self.start.get_or_insert(now);
        if now.saturating_sub(start) >= WINDOW {
            (self.start, self.before) = (Some(now), self.present.take());
        }
        self.present = Some(self.present.map_or(time, |shortest| shortest.min(time)));
    }

    fn get(&self) -> Option<Duration> {
        self.present.into_iter().chain(self.before).min()
    }
}

/// Windows of arrival at the other end.
#[derive(Debug, Default)]
struct ArrivalWindows {
    /// Time and answer at the start of the present window.
    since: Option<(Duration, Echoed)>,
    /// Bytes a second in the last window.
    rate: Option<f64>,
}

impl ArrivalWindows {
    /// Takes an answer. Returns what arrived in the window that the answer ended, if the window was long enough.
    fn take_answer(&mut self, answer: Echoed, now: Duration) -> Option<Arrival> {
        let (start, before) = *self.since.get_or_insert((now, answer));
        let time = now.saturating_sub(start);
        let arrived = answer.received.saturating_sub(before.received);
        let is_short = arrived < ARRIVAL_BYTES || time < SHORT_ARRIVAL_WINDOW;
        if time < ARRIVAL_WINDOW && is_short {
            return None;
        }
        self.since = Some((now, answer));
        let rate = arrived as f64 / time.as_secs_f64();
        self.rate = Some(rate);
        Some(Arrival { rate, is_held: held_between(before, answer) * 2 >= time })
    }
}

/// Returns the time between two answers in which read bytes waited for the receiver.
fn held_between(before: Echoed, answer: Echoed) -> Duration {
    Duration::from_micros(answer.held.saturating_sub(before.held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the echoes of a sender that began at 0.
    fn asking(gentle: bool) -> Echoes {
        let mut echoes = Echoes { announced: true, ..Echoes::default() };
        echoes.start_asking(gentle, Duration::ZERO);
        echoes
    }

    #[test]
    fn a_sender_asks_seldom_and_only_while_it_sends_bulk_data() {
        for (gentle, every) in [(false, 250), (true, 50)] {
            let mut echoes = asking(gentle);
            assert!(!echoes.ask(FIRST_BYTES - 1, millis(99)), "a short session has no echoes");
            assert!(echoes.ask(FIRST_BYTES - 1, millis(100)));
            assert!(!echoes.ask(2 << 20, millis(99 + every)));
            let bytes = FIRST_BYTES - 1 + BULK_BYTES;
            assert!(!echoes.ask(bytes - 1, millis(100 + every)), "hardly any data");
            assert!(echoes.ask(bytes, millis(100 + every)));
        }
        assert!(!Echoes::default().ask(1 << 30, millis(1 << 20)), "the ends did not agree");
    }

    #[test]
    fn a_fast_link_is_measured_sooner() {
        let mut echoes = asking(false);
        assert!(echoes.ask(FIRST_BYTES, millis(3)));
        assert!(!echoes.ask(FIRST_BYTES + FULL_BYTES, millis(22)));
        assert!(!echoes.ask(FIRST_BYTES + FULL_BYTES - 1, millis(23)));
        assert!(echoes.ask(FIRST_BYTES + FULL_BYTES, millis(23)));
        let mut windows = ArrivalWindows::default();
        let mut take = |at, received| {
            let answer = Echoed { received, held: 0 };
            windows.take_answer(answer, millis(at)).map(|arrival| arrival.rate.round() as u64)
        };
        let taken = [(4, 0), (24, ARRIVAL_BYTES - 1), (28, 3_000_000)].map(|(at, n)| take(at, n));
        assert_eq!(taken, [None, None, Some(125_000_000)]);
    }

    #[test]
    fn no_more_questions_wait_than_allowed_at_either_end() {
        let mut echoes = asking(false);
        let asked = (1..20).filter(|n| echoes.ask(n << 20, millis(1000 * n))).count();
        assert_eq!(asked, MAX_ECHOES);
        let mut answering = Echoes { announced: true, ..Echoes::default() };
        assert!((0..MAX_ECHOES).all(|_| answering.take_question().is_ok()));
        assert!(matches!(answering.take_question(), Err(PeerError::Limit(_))));
        assert_eq!((0..9).filter(|_| answering.take_due_answer()).count(), MAX_ECHOES);
    }

    #[test]
    fn an_answer_nobody_asked_for_and_a_question_to_a_sender_are_refused() {
        let refused =
            |result: Result<_, PeerError>| matches!(result, Err(PeerError::Unexpected(_)));
        let answer = Echoed::default();
        assert!(refused(Echoes::default().take_answer(answer, millis(1)).map(drop)));
        let mut echoes = asking(false);
        assert!(refused(echoes.take_answer(answer, millis(1)).map(drop)));
        assert!(
            echoes.ask(1 << 20, millis(100)) && echoes.take_answer(answer, millis(130)).is_ok()
        );
        assert!(refused(echoes.take_answer(answer, millis(130)).map(drop)));
        assert!(refused(echoes.take_question()));
        assert!(refused(Echoes::default().take_question()), "not announced");
    }

    #[test]
    fn the_idle_round_trip_is_the_shortest_and_the_present_one_is_smoothed() {
        let mut echoes = asking(false);
        let mut state = None;
        for (n, trip) in [(1, 40), (2, 30), (3, 130)] {
            assert!(echoes.ask(n << 20, millis(n * 1000)));
            let heard = echoes.take_answer(Echoed::default(), millis(n * 1000 + trip));
            state = heard.unwrap().round_trip;
        }
        let current = Duration::from_micros(60_625);
        assert_eq!(state, Some(RoundTrip { idle: millis(30), current, samples: 3 }));
    }

    #[test]
    fn the_idle_round_trip_follows_a_route_that_changes() {
        let mut shortest = ShortestTime::default();
        let mut seen = |time, seconds| {
            shortest.take(millis(time), Duration::from_secs(seconds));
            shortest.get().unwrap()
        };
        assert_eq!([seen(30, 0), seen(60, 1), seen(60, 299)], [millis(30); 3]);
        assert_eq!([seen(60, 300), seen(60, 599)], [millis(30); 2]);
        assert_eq!(seen(60, 600), millis(60));
    }

    #[test]
    fn a_receiver_that_holds_bytes_back_does_not_count_as_a_full_link() {
        let mut echoes = asking(true);
        let mut limit = 0.0;
        let mut answer = Echoed::default();
        for n in 1..100_u64 {
            assert!(echoes.ask(n << 20, millis(n * 1000)));
            answer.received += 1 << 20;
            let trip = if n < 5 { 30 } else { 800 };
            answer.held += if n < 5 { 0 } else { 700_000 };
            let state = echoes.take_answer(answer, millis(n * 1000 + trip)).unwrap();
            let now = state.gentle.unwrap().limit(millis(n * 1000 + trip));
            assert!(now >= limit, "{n}: {now}");
            limit = now;
            assert!(state.round_trip.unwrap().current <= millis(30));
        }
    }

    #[test]
    fn a_window_of_arrival_is_held_if_bytes_waited_for_half_of_it() {
        let mut windows = ArrivalWindows::default();
        let mut take = |at, received, held| {
            let arrival = windows.take_answer(Echoed { received, held }, millis(at));
            arrival.map(|arrival| (arrival.rate.round() as u64, arrival.is_held))
        };
        // Time in milliseconds, bytes and held microseconds so far: bytes a second, and whether the receiver held them.
        for (at, received, held, wanted) in [
            (0, 1000, 900_000, None),
            (99, 2000, 900_000, None),
            (100, 11_000, 949_000, Some((100_000, false))),
            (350, 36_000, 1_074_000, Some((100_000, true))),
            (600, 36_000, 1_074_000, Some((0, false))),
            (850, 0, 0, Some((0, false))),
            (1100, u64::MAX, u64::MAX, Some((u64::MAX, true))),
        ] {
            assert_eq!(take(at, received, held), wanted, "{at}");
        }
    }

    #[test]
    fn silence_slows_a_gentle_sender_until_the_answer() {
        for (held, is_slow) in [(0, true), (900_000, false)] {
            let mut echoes = asking(true);
            let limit = |echoes: &mut Echoes, at| echoes.gentle_limit(millis(at)).unwrap();
            assert!(echoes.ask(1 << 20, millis(1000)));
            let first = limit(&mut echoes, 1900);
            assert!(first > 100_000.0, "no round trip is known");
            let answer = Echoed { received: 1 << 20, held: 0 };
            echoes.take_answer(answer, millis(1030)).unwrap();
            assert!(echoes.ask(2 << 20, millis(2000)));
            let before = limit(&mut echoes, 2040);
            assert!(limit(&mut echoes, 2900) < before / 10.0);
            let answer = Echoed { received: 2 << 20, held };
            echoes.take_answer(answer, millis(2930)).unwrap();
            assert_eq!(limit(&mut echoes, 2930) < before / 10.0, is_slow, "held {held}");
            assert!(limit(&mut echoes, 4000) > before / 2.0, "the queue has drained");
        }
    }

    #[test]
    fn counts_that_fall_or_are_too_high_change_no_round_trip() {
        let mut echoes = asking(true);
        for n in 1..50_u64 {
            let count = if n % 2 == 0 { u64::MAX } else { 0 };
            assert!(echoes.ask(n << 20, millis(n * 1000)));
            let answer = Echoed { received: count, held: 0 };
            let state = echoes.take_answer(answer, millis(n * 1000 + 30)).unwrap();
            assert_eq!(state.round_trip.map(|trip| trip.idle), Some(millis(30)));
        }
    }
}
