//! The gentle rate (`--bwlimit auto`): as much as the link carries while round trips stay short.
//!
//! A queue on the way delays all traffic of a network. The delay shows in the round trip long before packets are lost.
//! So a round trip shows how full the link is, and the bytes that arrived meanwhile show what the link carries:
//!
//! ```text
//! queue   round trip − idle round trip; or the age of an echo without an answer − idle round trip
//! room    half of the idle round trip, at least half of FLOOR; the promise is twice as much
//! noise   how much round trips vary to and fro, as those of a radio link or of a busy machine do
//! full    MIN of the last 2 to MOST_DELAYS queues (the more noise, the more) beyond the room and half of the noise; or two
//!         queues beyond the bound of `pause`. If the last is no shorter than the one before: rate = BACK × the rate of
//!         arrival, which is the known capacity
//! free    rate grows by SLOW a second up to TRUST × the known capacity, and by FAST a round trip beyond
//! limit   rate ÷ (1 + (queue − noise) ÷ (DRAIN × room)): the longer the queue, the faster it drains
//! pause   after a queue beyond twice the room and NOISES × the noise, LEAST for as long as the queue takes to drain
//! ```
//!
//! Two falls in a row do not add up, since the rate of arrival is the link's while there is a queue. Beside traffic
//! that fills the queue, the share of arrived bytes falls with each step, and this end gives way. An end that has less
//! to send than the rate does not grow. Twice the idle round trip is also the aim of the page's gentle uploads
//! (`web/src/transfer/gentle.ts`), which measure requests and do not learn what arrived.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// First, least and greatest rate in bytes a second.
const FIRST: f64 = 250_000.0;
const LEAST: f64 = 16_000.0;
const MOST: f64 = 4e9;
/// Delays below vary by chance, as by the load of a machine.
const FLOOR: Duration = Duration::from_millis(10);
/// Part of the rate of arrival that is left after a queue was noticed.
const BACK: f64 = 0.85;
/// Least part of the rate that one step leaves.
const LEAST_STEP: f64 = 0.5;
/// Growth of the rate in a second, below the known capacity.
const SLOW: f64 = 0.1;
/// Growth of the rate in a round trip, far from a known capacity.
const FAST: f64 = 0.12;
/// Most round trips by which the rate grows in one step.
const FAST_STEPS: f64 = 2.0;
/// Multiple of the known capacity from which the link counts as faster than known.
const TRUST: f64 = 1.5;
/// Shortest round trip of fast growth.
const SHORT: Duration = Duration::from_millis(50);
/// Multiple of the room by which a queue halves the limit.
const DRAIN: f64 = 4.0;
/// Longest pause after a round trip.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause that an overdue answer prolongs.
const SILENCE: Duration = Duration::from_millis(50);
/// Time after a pause until bytes arrive at the rate again.
const AFTER_PAUSE: Duration = Duration::from_millis(100);
/// Most delays in a row that must be long for the link to count as full.
const MOST_DELAYS: usize = 6;
/// Multiple of the noise that a delay must exceed to count at once.
const NOISES: u32 = 3;
/// Share of a new change of the delay in the smoothed changes.
const SMOOTHING: u32 = 8;
/// Part of the rate that must arrive for the rate to grow: an end with fewer bytes to send learns nothing about the
/// link.
const USED: f64 = 0.5;

/// A round trip, and what arrived in the meantime.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTripSample {
    /// Time of the answer, since any fixed moment.
    pub(super) now: Duration,
    pub(super) round_trip: Duration,
    /// The round trip over an empty link.
    pub(super) idle: Duration,
    /// Bytes a second that arrived lately, if known.
    pub(super) arrived: Option<f64>,
}

/// Finds the gentle rate.
#[derive(Clone, Debug)]
pub(super) struct GentleRate {
    /// Bytes a second over an empty queue.
    rate: f64,
    /// Rate of arrival at the last queue.
    capacity: Option<f64>,
    last: Option<RoundTripSample>,
    delays: RecentDelays,
    limit: f64,
    pause: Range<Duration>,
}

/// Delays of the last round trips beyond the idle round trip, and how much delays vary.
#[derive(Clone, Debug, Default)]
struct RecentDelays {
    /// The latest first.
    delays: VecDeque<Duration>,
    /// Smoothed growth and fall from one delay to the next. A queue that grows has no fall; a queue that drains has no
    /// growth.
    growth: Duration,
    fall: Duration,
}

impl RecentDelays {
    fn add(&mut self, delay: Duration) {
        let before = self.delays.front().copied().unwrap_or(delay);
        let smoothed = |all: Duration, new| (all * (SMOOTHING - 1) + new) / SMOOTHING;
        self.growth = smoothed(self.growth, delay.saturating_sub(before));
        self.fall = smoothed(self.fall, before.saturating_sub(delay));
        self.delays.push_front(delay);
        self.delays.truncate(MOST_DELAYS);
    }

    /// Forgets how delays have varied, since a queue caused the last delays.
    const fn forget_noise(&mut self) {
        (self.growth, self.fall) = (Duration::ZERO, Duration::ZERO);
    }

    /// Returns how much delays vary without a queue.
    fn noise(&self) -> Duration {
        2 * self.growth.min(self.fall)
    }

    /// Returns the shortest of the last `count` delays, 0 if there are fewer.
    fn shortest(&self, count: usize) -> Duration {
        let last = self.delays.iter().take(count).copied().min();
        last.filter(|_| self.delays.len() >= count).unwrap_or_default()
    }

    /// Returns the number of delays in a row that must be long, if the link has this room.
    fn count_to_be_full(&self, room: Duration) -> usize {
        let more = f64::from(NOISES) * self.noise().as_secs_f64() / room.as_secs_f64();
        (2.0 + more).min(MOST_DELAYS as f64) as usize
    }
}

impl Default for GentleRate {
    fn default() -> Self {
        Self {
            rate: FIRST,
            capacity: None,
            last: None,
            delays: RecentDelays::default(),
            limit: FIRST,
            pause: Duration::ZERO..Duration::ZERO,
        }
    }
}

impl GentleRate {
    /// Returns the most bytes a second to send now.
    pub(super) fn limit(&self, now: Duration) -> f64 {
        if now < self.pause.end { LEAST } else { self.limit }
    }

    /// Returns the rate of the link for this end, in bytes a second.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// True once a queue has shown the rate of the link.
    pub(super) const fn knows_capacity(&self) -> bool {
        self.capacity.is_some()
    }

    /// Adapts the rate to a round trip.
    pub(super) fn take_sample(&mut self, sample: RoundTripSample) {
        let RoundTripSample { now, round_trip, idle, arrived } = sample;
        let last = self.last.replace(sample).unwrap_or(sample);
        let queue = round_trip.saturating_sub(idle);
        let room = room(idle);
        self.delays.add(queue);
        let noise = self.delays.noise();
        let longest = 2 * room + NOISES * noise;
        let is_long = self.delays.shortest(2) > longest;
        if is_long {
            self.delays.forget_noise();
        }
        let standing = self.delays.shortest(self.delays.count_to_be_full(room));
        if is_long || standing > room + noise / 2 {
            if round_trip >= last.round_trip && !self.has_paused_before(now, round_trip) {
                let arrived = arrived.unwrap_or(self.rate);
                self.rate = (arrived * BACK).clamp(self.rate * LEAST_STEP, self.rate);
                self.capacity = Some(self.rate / BACK);
            }
        } else if arrived.is_none_or(|it| it >= self.rate * USED) {
            let time = now.saturating_sub(last.now).as_secs_f64();
            self.rate *= match self.capacity {
                Some(capacity) if self.rate <= capacity * TRUST => 1.0 + SLOW * time.min(1.0),
                _ if queue > room / 2 => 1.0,
                _ => {
                    let trips = time / round_trip.max(SHORT).as_secs_f64();
                    1.0 + FAST * trips.min(FAST_STEPS)
                }
            };
        }
        self.rate = self.rate.clamp(LEAST, MOST);
        self.limit_by(queue.saturating_sub(noise), room);
        if queue > longest {
            self.pause(now, queue.min(LONGEST_PAUSE));
        }
    }

    /// Ends the effect of silence: the answer was late for another reason than a queue.
    pub(super) const fn end_silence(&mut self) {
        (self.limit, self.pause.end) = (self.rate, Duration::ZERO);
    }

    /// Adapts the limit to an echo that has no answer after `age`.
    pub(super) fn take_silence(&mut self, age: Duration, idle: Duration, now: Duration) {
        let (delay, room) = (age.saturating_sub(idle), room(idle));
        let queue = delay.saturating_sub(NOISES * self.delays.noise());
        if queue > 2 * room {
            self.pause(now, SILENCE);
        } else if queue > room {
            self.limit_by(queue, room);
        }
    }

    fn pause(&mut self, now: Duration, time: Duration) {
        let start = if now < self.pause.end { self.pause.start } else { now };
        self.pause = start..now + time;
    }

    /// True if the rate of arrival that came with this answer is that of a pause.
    fn has_paused_before(&self, now: Duration, round_trip: Duration) -> bool {
        let asked = now.saturating_sub(round_trip);
        asked > self.pause.start && asked < self.pause.end + AFTER_PAUSE
    }

    fn limit_by(&mut self, queue: Duration, room: Duration) {
        let slower = 1.0 + queue.min(2 * room).as_secs_f64() / (DRAIN * room.as_secs_f64());
        self.limit = (self.rate / slower).max(LEAST);
    }
}

/// Returns the delay from which the link counts as full.
fn room(idle: Duration) -> Duration {
    idle.max(FLOOR) / 2
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MBIT: f64 = 125_000.0;
    /// Time between two echoes, and of one step of the simulation.
    const EVERY: f64 = 0.05;
    const STEP: f64 = 0.001;
    /// Time over which the rate of arrival is measured.
    const WINDOW: f64 = 0.1;

    /// A link with a queue that other traffic shares, and an end that sends at the gentle rate. Times in seconds.
    struct Rig {
        gentle: GentleRate,
        now: f64,
        capacity: f64,
        /// Round trip over the empty link.
        trip: f64,
        /// Bytes a second of other traffic, and of this end's supply.
        others: f64,
        supply: f64,
        /// Bytes in the queue, and those that this end put there.
        queue: f64,
        own: f64,
        arrived: f64,
        /// Answers under way: time of arrival, round trip, bytes arrived by then.
        answers: VecDeque<(f64, f64, f64)>,
        next_echo: f64,
        /// Number of echoes, and the interval of those that a busy machine answers late.
        echoes: u32,
        late_every: Option<u32>,
        /// Mean of a further delay of each answer, which varies by chance.
        noise: f64,
        chance: u64,
        idle: f64,
        /// Bytes arrived at the start of the window, and its time.
        since: (f64, f64),
        rate_of_arrival: Option<f64>,
    }

    /// Rate and delays during some seconds of the simulation.
    #[derive(Debug)]
    struct Stretch {
        /// Bytes a second that arrived.
        rate: f64,
        /// The longest and the mean delay of the queue.
        longest: f64,
        mean: f64,
    }

    impl Rig {
        fn new(mbit: f64, trip_millis: f64) -> Self {
            Self {
                gentle: GentleRate::default(),
                now: 0.0,
                capacity: mbit * MBIT,
                trip: trip_millis / 1e3,
                others: 0.0,
                supply: f64::INFINITY,
                queue: 0.0,
                own: 0.0,
                arrived: 0.0,
                answers: VecDeque::new(),
                next_echo: 0.1,
                echoes: 0,
                late_every: None,
                noise: 0.0,
                chance: 1,
                idle: f64::INFINITY,
                since: (0.0, 0.0),
                rate_of_arrival: None,
            }
        }

        fn run(&mut self, seconds: f64) -> Stretch {
            let (end, before) = (self.now + seconds, self.arrived);
            let (mut longest, mut sum) = (0.0_f64, 0.0);
            while self.now < end {
                self.step();
                let delay = self.queue / self.capacity;
                longest = longest.max(delay);
                sum += delay * STEP;
            }
            Stretch { rate: (self.arrived - before) / seconds, longest, mean: sum / seconds }
        }

        fn step(&mut self) {
            if let Some((arrival, trip, _)) = self.answers.front()
                && self.idle < f64::INFINITY
            {
                let age = Duration::from_secs_f64((self.now - (arrival - trip)).max(0.0));
                let now = Duration::from_secs_f64(self.now);
                self.gentle.take_silence(age, Duration::from_secs_f64(self.idle), now);
            }
            let limit = self.gentle.limit(Duration::from_secs_f64(self.now));
            let own = limit.min(self.supply) * STEP;
            let all = self.queue + own + self.others * STEP;
            let gone = all.min(self.capacity * STEP);
            // Bytes leave the queue in the mixture in which they are there.
            let mine = (self.own + own) * gone / all.max(1.0);
            self.own = self.own + own - mine;
            self.queue = all - gone;
            self.arrived += mine;
            self.now += STEP;
            if self.now >= self.next_echo {
                self.echoes += 1;
                let is_late =
                    self.late_every.is_some_and(|every| self.echoes.is_multiple_of(every));
                let late = if is_late { 0.15 } else { self.noisy_delay() };
                // Answers keep their order.
                let before = self.answers.back().map_or(0.0, |(arrival, ..)| arrival - self.now);
                let round_trip = (self.trip + self.queue / self.capacity + late).max(before);
                self.answers.push_back((self.now + round_trip, round_trip, 0.0));
                self.next_echo = self.now + EVERY.max(self.trip / 4.0);
            }
            // An echo carries the count of the moment in which it is answered.
            for answer in &mut self.answers {
                if answer.2 == 0.0 && self.now >= answer.0 - self.trip / 2.0 {
                    answer.2 = self.arrived;
                }
            }
            while let Some(&(time, round_trip, arrived)) = self.answers.front()
                && time <= self.now
            {
                self.answers.pop_front();
                self.hear(round_trip, arrived);
            }
        }

        /// Returns a delay by chance, mostly short and seldom long.
        fn noisy_delay(&mut self) -> f64 {
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
            let part = (self.chance >> 40) as f64 / (1 << 24) as f64;
            -self.noise * (1.0 - part).ln()
        }

        fn hear(&mut self, round_trip: f64, arrived: f64) {
            self.idle = self.idle.min(round_trip);
            if self.now - self.since.0 >= WINDOW {
                self.rate_of_arrival = Some((arrived - self.since.1) / (self.now - self.since.0));
                self.since = (self.now, arrived);
            }
            self.gentle.take_sample(RoundTripSample {
                now: Duration::from_secs_f64(self.now),
                round_trip: Duration::from_secs_f64(round_trip),
                idle: Duration::from_secs_f64(self.idle),
                arrived: self.rate_of_arrival,
            });
        }

        /// The promise: the queue delays by no more than the idle round trip, or by the floor.
        fn promised(&self) -> f64 {
            self.trip.max(FLOOR.as_secs_f64())
        }
    }

    #[test]
    fn the_rate_settles_near_the_capacity_and_the_queue_stays_below_the_idle_round_trip() {
        for mbit in [1.0, 5.0, 10.0, 50.0, 100.0, 1000.0] {
            for trip in [0.5, 5.0, 30.0, 100.0, 200.0] {
                let mut rig = Rig::new(mbit, trip);
                rig.run(20.0);
                let Stretch { rate, longest, mean } = rig.run(60.0);
                let used = rate / rig.capacity;
                assert!((0.85..=1.001).contains(&used), "{mbit} Mbit/s {trip} ms: {used}");
                let promised = rig.promised();
                assert!(longest <= promised, "{mbit} Mbit/s {trip} ms: {longest} s");
                assert!(mean <= promised / 2.0, "{mbit} Mbit/s {trip} ms: mean {mean} s");
            }
        }
    }

    #[test]
    fn a_link_that_falls_is_followed_within_three_seconds_and_one_that_grows_within_ten() {
        let mut rig = Rig::new(50.0, 30.0);
        rig.run(5.0);
        rig.capacity = 5.0 * MBIT;
        rig.run(3.0);
        let Stretch { rate, longest, .. } = rig.run(10.0);
        assert!(rate >= 0.8 * rig.capacity && longest <= rig.promised(), "{rate} {longest}");
        rig.capacity = 100.0 * MBIT;
        rig.run(10.0);
        let Stretch { rate, longest, .. } = rig.run(10.0);
        assert!(rate >= 0.8 * rig.capacity && longest <= rig.promised(), "{rate} {longest}");
    }

    #[test]
    fn other_traffic_has_the_way() {
        let mut rig = Rig::new(20.0, 30.0);
        rig.run(5.0);
        rig.others = 0.7 * rig.capacity;
        rig.run(3.0);
        let Stretch { rate, longest, .. } = rig.run(20.0);
        assert!(longest <= rig.promised(), "{longest}");
        assert!((0.2..=0.3).contains(&(rate / rig.capacity)), "{rate}");
        // Traffic that fills the link keeps a queue: this end falls to a small rest.
        rig.others = 1.01 * rig.capacity;
        rig.run(5.0);
        assert!(rig.run(5.0).rate <= 0.05 * rig.capacity);
        rig.others = 0.0;
        rig.run(10.0);
        assert!(rig.run(5.0).rate >= 0.8 * rig.capacity);
    }

    #[test]
    fn late_answers_without_a_queue_cost_little() {
        let mut rig = Rig::new(50.0, 30.0);
        rig.late_every = Some(30);
        rig.run(5.0);
        assert!(rig.run(60.0).rate >= 0.8 * rig.capacity);
    }

    #[test]
    fn round_trips_that_vary_by_chance_cost_little() {
        for (mbit, trip) in [(32.0, 15.0), (10.0, 30.0), (50.0, 30.0), (100.0, 5.0), (10.0, 100.0)]
        {
            for (noise, least) in [(0.002, 0.9), (0.005, 0.85), (0.010, 0.55)] {
                let case = format!("{mbit} Mbit/s {trip} ms, {noise} s");
                let mut rig = Rig::new(mbit, trip);
                rig.noise = noise;
                rig.run(10.0);
                let Stretch { rate, longest, mean } = rig.run(30.0);
                assert!(rate >= least * rig.capacity, "{case}: {}", rate / rig.capacity);
                assert!(mean <= rig.promised() / 2.0, "{case}: mean {mean} s");
                assert!(longest <= rig.promised() + 8.0 * noise, "{case}: {longest} s");
            }
        }
    }

    #[test]
    fn an_end_with_little_to_send_learns_nothing_about_the_link() {
        let mut rig = Rig::new(100.0, 30.0);
        rig.supply = MBIT;
        rig.run(30.0);
        assert!(rig.gentle.rate() <= 3.0 * MBIT, "{}", rig.gentle.rate());
        rig.supply = f64::INFINITY;
        let Stretch { longest, .. } = rig.run(10.0);
        assert!(longest <= rig.promised(), "{longest}");
    }

    /// Whatever an end answers, the rate stays within its bounds, and a number.
    #[test]
    fn false_answers_keep_the_rate_within_its_bounds() {
        for arrived in [Some(0.0), Some(f64::MAX), None] {
            for (round_trip, idle) in [(0, 0), (0, 9000), (9000, 0), (30, 30)] {
                let mut gentle = GentleRate::default();
                for now in [0, 1, 1, 0, 100_000, 100_001] {
                    let [now, round_trip, idle] =
                        [now, round_trip, idle].map(Duration::from_millis);
                    gentle.take_sample(RoundTripSample { now, round_trip, idle, arrived });
                    assert!((LEAST..=MOST).contains(&gentle.limit(now)), "{gentle:?}");
                }
            }
        }
    }
}
