//! Rate of the link to the other end, measured on the bytes that a session writes anyway.
//!
//! ```text
//! window   writes of at least WINDOW, or of WINDOW_BYTES in at least SHORT_WINDOW: bytes ÷ time
//! limited  the writer was blocked for half of the window: the link, or the reader behind it, sets the rate
//! free     the writer was hardly ever blocked: the link carries more than the rate of the window
//! rate     the highest of the last WINDOWS windows; a free window counts as GROWTH times the rate, within GROWN
//! answer   what arrived since the last answer to an echo replaces limited windows; windows of a slow receiver are undone
//! ```
//!
//! The first bytes fill buffers on the way: a pipe, buffers of ssh, a socket, whose buffer grows with the bytes that
//! arrived. So a free window counts only after [`BUFFERED_BYTES`] were written. A free window raises the rate because the
//! true limit may be this end's own compression: a higher rate leads to lighter compression, until the writer is blocked
//! or nothing is compressed. A rate that is too high costs one window of uncompressed bytes, so the rate grows fast. Once
//! a window was limited, the limit is known, and the next [`BOUND_WINDOWS`] free windows count with their own rate alone.
//! A limited window far below the rate forgets the windows before: the link changed. As long as the rate of limited
//! windows grows, no limit is known: a connection in slow start blocks the writer too, at a rate that grows with each
//! round trip.
//!
//! The writer cannot tell a slow link from a receiver with a slow disk: both block. The receiver's answers tell. If the
//! receiver was busy for half of the time, limited windows since the last answer are forgotten, and the next windows
//! count as free: the link carries more. If not, the bytes that arrived are the rate of the link, without the bytes in
//! buffers.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Shortest time of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows that count.
const WINDOWS: usize = 10;
/// Bytes that end a window before its time.
const WINDOW_BYTES: u64 = 1 << 20;
/// Shortest time of a window of so many bytes.
const SHORT_WINDOW: Duration = Duration::from_millis(10);
/// Bytes that buffers between the ends may hold while few bytes have arrived: a pipe, ssh and a socket.
const BUFFERED_BYTES: u64 = 1 << 20;
/// A limited window with this part of the rate, or less, shows a change of the link.
const FALL: f64 = 1.0 / 3.0;
/// The rate of limited windows grows if a window has more than this part of the rate before. BBR leaves its startup
/// phase by the same factor.
const SLOW_START_GROWTH: f64 = 1.25;
/// Time without such growth after which a limited window shows the limit. Connections in slow start grow once a round
/// trip, and most round trips are shorter.
const SLOW_START_END: Duration = Duration::from_millis(250);
/// Growth of the rate by a free window, if no limit is known.
const GROWTH: f64 = 3.0;
/// Bounds of the grown rate, as factors of the rate of the free window.
const GROWN: RangeInclusive<f64> = 2.0..=32.0;
/// Free windows after which a limit counts as unknown again.
const BOUND_WINDOWS: u32 = 100;

/// Measures the rate of a link. Times are since any fixed moment.
#[derive(Debug, Default)]
pub(crate) struct RateMeter {
    /// Bytes written in all.
    written: u64,
    /// Start of the present window; `None` before the first write.
    start: Option<Duration>,
    /// Bytes of the present window.
    bytes: u64,
    /// Time of the present window in which the writer was blocked.
    blocked: Duration,
    found: FoundRates,
    /// Time of the last write.
    last_write: Duration,
    /// Rates up to the last answer of the receiver.
    confirmed: FoundRates,
    /// True if all windows since the last answer were limited; `None` without such windows.
    only_limited: Option<bool>,
    /// True if the receiver held bytes back before the last answer.
    is_held: bool,
}

/// Rates of a link in bits a second; 0 for an unknown rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRate {
    /// Rate for choices: measured, or a guess while the writer is never blocked.
    pub(crate) assumed: u64,
    /// The last rate that the link limited.
    pub(crate) limit: u64,
}

/// What arrived at the other end between two answers to echoes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Bytes a second.
    pub(crate) rate: f64,
    /// True if the receiver itself was busy for half of the time.
    pub(crate) is_held: bool,
}

impl RateMeter {
    /// Takes a write of `bytes`, which ended at `now` and was blocked for `blocked`. Returns the rate if a window
    /// ended.
    pub(crate) fn take_write(
        &mut self,
        bytes: usize,
        blocked: Duration,
        now: Duration,
    ) -> Option<LinkRate> {
        self.written += bytes as u64;
        let start = *self.start.get_or_insert_with(|| now.saturating_sub(blocked));
        self.bytes += bytes as u64;
        self.blocked += blocked;
        self.last_write = now;
        let time = now.saturating_sub(start);
        let is_short = self.bytes < WINDOW_BYTES || time < SHORT_WINDOW;
        if time < WINDOW && is_short {
            return None;
        }
        let rate = self.bytes as f64 / time.as_secs_f64();
        let is_limited = !self.is_held && self.blocked * 2 >= time;
        let is_free = self.is_held || self.blocked * 10 <= time;
        (self.start, self.bytes, self.blocked) = (Some(now), 0, Duration::ZERO);
        self.only_limited = Some(is_limited && self.only_limited.unwrap_or(true));
        if is_limited {
            self.found.add_limited(rate, now);
        } else if self.written > BUFFERED_BYTES {
            self.found.add_unlimited(rate, is_free);
        }
        Some(self.found.link_rate())
    }

    /// Takes an answer of the receiver about the time since the last answer. Returns the rate.
    pub(crate) fn take_arrival(&mut self, arrival: Arrival) -> LinkRate {
        let was_held = std::mem::replace(&mut self.is_held, arrival.is_held);
        let was_limited = self.only_limited.take() == Some(true);
        if arrival.is_held && !was_held {
            self.found = self.confirmed.clone();
        } else if !arrival.is_held && was_limited {
            self.found = self.confirmed.clone();
            self.found.add_limited(arrival.rate, self.last_write);
        }
        self.confirmed = self.found.clone();
        self.found.link_rate()
    }
}

/// Rates that windows showed, in bytes a second.
#[derive(Clone, Debug, Default)]
struct FoundRates {
    /// Rates of the last windows.
    rates: VecDeque<f64>,
    /// Windows that follow the last limited one; `None` if no window was limited, or if the rate still grew then.
    since_limited: Option<u32>,
    /// Highest rate when the link was last known to be the limit; 0 if never.
    limit: f64,
    /// The limited window that last showed a growth.
    grown: Growth,
}

/// A limited window in which the rate grew.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// Bytes a second.
    rate: f64,
    time: Duration,
}

impl FoundRates {
    /// Adds a window in which the link was the limit.
    fn add_limited(&mut self, rate: f64, now: Duration) {
        if rate < self.highest() * FALL {
            self.rates.clear();
        }
        self.add(rate);
        if rate > self.grown.rate * SLOW_START_GROWTH {
            self.grown = Growth { rate, time: now };
        } else if rate < self.grown.rate * FALL {
            self.grown.rate = rate;
        }
        let is_limit = now.saturating_sub(self.grown.time) >= SLOW_START_END;
        self.since_limited = is_limit.then_some(0);
        if is_limit {
            self.limit = self.highest();
        }
    }

    /// Adds a window in which the link was not the limit, or not always.
    fn add_unlimited(&mut self, rate: f64, is_free: bool) {
        self.since_limited = self.since_limited.map(|windows| windows + 1);
        let is_bound = self.since_limited.is_some_and(|windows| windows <= BOUND_WINDOWS);
        let highest = self.highest();
        let rate = match is_free && !is_bound {
            true => (highest * GROWTH).clamp(rate * GROWN.start(), rate * GROWN.end()),
            false => rate,
        };
        if rate > highest {
            self.add(rate);
        }
        if is_bound {
            self.limit = self.highest();
        }
    }

    fn add(&mut self, rate: f64) {
        if self.rates.len() == WINDOWS {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    fn highest(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn link_rate(&self) -> LinkRate {
        let bits = |bytes: f64, least| (bytes * 8.0).max(least) as u64;
        // A link that carries nothing still has a known rate.
        let least = if self.rates.is_empty() { 0.0 } else { 1.0 };
        LinkRate { assumed: bits(self.highest(), least), limit: bits(self.limit, 0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 64 << 10;

    /// A link of a given rate behind a buffer, a writer that makes bytes at another rate, and a receiver.
    struct Rig {
        meter: RateMeter,
        now: f64,
        written: f64,
        /// Bytes in the buffer.
        held: f64,
        room: f64,
        /// Most bytes a second that the receiver takes.
        taken: f64,
        /// Seconds in which read bytes waited for the receiver.
        waited: f64,
        /// Time, arrived bytes and waited seconds at the last answer; `None` if the receiver answers nothing.
        answered: Option<[f64; 3]>,
        rate: Option<LinkRate>,
    }

    impl Rig {
        fn new(room: f64) -> Self {
            Self {
                meter: RateMeter::default(),
                now: 0.0,
                written: 0.0,
                held: 0.0,
                room,
                taken: f64::INFINITY,
                waited: 0.0,
                answered: None,
                rate: None,
            }
        }

        fn with_answers(room: f64) -> Self {
            Self { answered: Some([0.0; 3]), ..Self::new(room) }
        }

        /// Writes pieces for `seconds`: the link carries `link`, the writer makes `made` bytes a second. Returns the
        /// rate in Mbit/s.
        fn run(&mut self, seconds: f64, link: f64, made: f64) -> Option<u64> {
            let end = self.now + seconds;
            while self.now < end {
                let start = self.now;
                let carried = link.min(self.taken);
                let making = PIECE as f64 / made;
                self.now += making;
                self.held = (self.held - making * carried).max(0.0) + PIECE as f64;
                let blocked = ((self.held - self.room) / carried).max(0.0);
                self.now += blocked;
                self.held -= blocked * carried;
                self.written += PIECE as f64;
                self.waited += (self.now - start) * (1.0 - carried / link);
                let [blocked, now] = [blocked, self.now].map(Duration::from_secs_f64);
                self.rate = self.meter.take_write(PIECE, blocked, now).or(self.rate);
                self.answer();
            }
            self.rate.map(|rate| rate.assumed / 1_000_000)
        }

        /// Answers an echo if an answer is due.
        fn answer(&mut self) {
            let Some([time, arrived, waited]) = self.answered else { return };
            let since = self.now - time;
            if since < 0.25 {
                return;
            }
            let present = self.written - self.held;
            let is_held = (self.waited - waited) * 2.0 >= since;
            let arrival = Arrival { rate: (present - arrived) / since, is_held };
            self.rate = Some(self.meter.take_arrival(arrival));
            self.answered = Some([self.now, present, self.waited]);
        }

        fn limit_mbit(&self) -> Option<u64> {
            self.rate.map(|rate| rate.limit / 1_000_000)
        }
    }

    const MBIT: f64 = 125_000.0;

    #[test]
    fn a_blocked_writer_shows_the_rate_of_the_link() {
        let mut rig = Rig::new(256e3);
        let rate = rig.run(2.0, 10.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(9..=13)), "{rate:?}");
        assert!(matches!(rig.limit_mbit(), Some(9..=13)));
    }

    #[test]
    fn a_rate_that_still_grows_is_no_limit() {
        let mut rig = Rig::with_answers(256e3);
        // Slow start: each tenth of a second, the connection carries twice as much.
        for doublings in 0..7 {
            rig.run(0.1, 8.0 * MBIT * f64::from(1 << doublings), 1e9);
            assert_eq!(rig.limit_mbit().unwrap_or_default(), 0, "{doublings} doublings");
        }
        // Compression is slower than the link by then.
        let rate = rig.run(0.5, 500.0 * MBIT, 10e6);
        assert!(rate > Some(500), "{rate:?}");
    }

    #[test]
    fn bytes_that_only_fill_buffers_show_nothing() {
        let mut rig = Rig::new(900e3);
        assert_eq!(rig.run(0.4, 10.0 * MBIT, 2e6), Some(0));
    }

    #[test]
    fn a_writer_that_is_never_blocked_shows_that_the_link_carries_more() {
        let mut rig = Rig::new(256e3);
        let rate = rig.run(1.0, 10_000.0 * MBIT, 100e6);
        assert!(rate > Some(20_000) && rig.limit_mbit() == Some(0), "{rate:?}");
        let later = rig.run(1.0, 10_000.0 * MBIT, 10e6);
        assert_eq!(later, rate, "slow bytes show nothing");
    }

    #[test]
    fn a_guess_ends_at_the_first_limit_and_does_not_come_back_at_once() {
        let mut rig = Rig::new(256e3);
        let rate = rig.run(0.5, 1000.0 * MBIT, 100e6);
        assert!(rate > Some(10_000), "{rate:?}");
        let rate = rig.run(1.0, 1000.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(950..=1050)), "{rate:?}");
        let rate = rig.run(0.5, 1000.0 * MBIT, 60e6);
        assert!(matches!(rate, Some(950..=1050)), "{rate:?}");
    }

    #[test]
    fn a_link_that_becomes_slower_or_faster_is_followed() {
        let mut rig = Rig::new(256e3);
        rig.run(2.0, 100.0 * MBIT, 1e9);
        let rate = rig.run(2.0, 5.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(4..=6)), "{rate:?}");
        let rate = rig.run(1.0, 100.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(95..=105)), "{rate:?}");
        let rate = rig.run(3.0, 50.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(47..=53)), "{rate:?}");
    }

    #[test]
    fn a_link_that_is_faster_than_every_compressor_is_known_within_a_few_windows() {
        // Bytes as one thread compresses them at level 3. Without compression the link would be the limit.
        let mut rig = Rig::new(256e3);
        let rate = rig.run(0.1, 10_000.0 * MBIT, 52e6);
        assert!(rate > Some(5_000), "{rate:?}");
    }

    #[test]
    fn bytes_in_long_buffers_do_not_count_once_answers_tell_what_arrived() {
        for room in [64e3, 256e3, 2e6, 4e6] {
            for mbit in [1, 10, 100] {
                let link = mbit as f64 * MBIT;
                let mut rig = Rig::with_answers(room);
                // Until the buffers are full, and a second of full windows.
                let rate = rig.run(room / link + 2.0, link, 1e9).map(|rate| rate.max(1));
                let near = mbit * 9 / 10..=mbit * 11 / 10;
                assert!(rate.is_some_and(|rate| near.contains(&rate)), "{room} {mbit}: {rate:?}");
                assert_eq!(rig.limit_mbit(), rig.rate.map(|rate| rate.assumed / 1_000_000));
            }
        }
    }

    #[test]
    fn a_slow_receiver_is_no_slow_link() {
        // Mbit/s of the link and of the receiver.
        for (mbit, taken) in [(1000.0, 80.0), (1000.0, 400.0), (100.0, 8.0), (100.0, 40.0)] {
            let case = format!("{mbit} Mbit/s, {taken} taken");
            let mut rig = Rig::with_answers(256e3);
            rig.taken = taken * MBIT;
            let rate = rig.run(3.0, mbit * MBIT, 1e9);
            assert!(rate > Some(2 * taken as u64), "{case}: {rate:?}");
            assert_eq!(rig.limit_mbit(), Some(0), "{case}");
            // The disk is fast again.
            rig.taken = f64::INFINITY;
            let rate = rig.run(3.0, mbit * MBIT, 1e9).unwrap_or_default() as f64;
            assert!((0.95..1.05).contains(&(rate / mbit)), "{case}: {rate}");
        }
    }

    #[test]
    fn a_receiver_that_becomes_slow_leaves_the_known_limit() {
        let mut rig = Rig::with_answers(256e3);
        rig.run(2.0, 100.0 * MBIT, 1e9);
        rig.taken = 10.0 * MBIT;
        let rate = rig.run(2.0, 100.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(90..=110)), "{rate:?}");
        assert!(matches!(rig.limit_mbit(), Some(90..=110)), "{:?}", rig.limit_mbit());
    }

    #[test]
    fn false_answers_give_a_rate_all_the_same() {
        let mut meter = RateMeter::default();
        for n in 1..100_u64 {
            let [blocked, now] = [90, 100 * n].map(Duration::from_millis);
            meter.take_write(1 << 20, blocked, now);
            let rate = [0.0, f64::MAX, 1e6][n as usize % 3];
            let found = meter.take_arrival(Arrival { rate, is_held: n % 7 == 0 });
            assert!(found.assumed > 0, "{n}: {found:?}");
        }
    }
}
