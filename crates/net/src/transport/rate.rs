//! Rate of the link to the other end, measured on the bytes that a session writes anyway.
//!
//! ```text
//! window   writes of at least WINDOW, or of WINDOW_BYTES in at least SHORT_WINDOW: bytes ÷ time
//! limited  the writer was blocked for half of the window: the link, or the reader behind it, sets the rate
//! free     the writer was hardly ever blocked: the link carries more than the rate of the window
//! rate     the highest of the last WINDOWS windows; a free window counts as GROWTH times the rate, within GROWN
//! ```
//!
//! The first bytes fill buffers on the way: a pipe, buffers of ssh, a socket, whose buffer grows with the bytes that
//! arrived. So a free window counts only after [`BUFFERED_BYTES`] were written. A free window raises the rate because the
//! true limit may be this end's own compression: a higher rate leads to lighter compression, until the writer is blocked
//! or nothing is compressed. Once a window was limited, the limit is known, and the next [`BOUND_WINDOWS`] free windows
//! count with their own rate alone. A limited window far below the rate forgets the windows before: the link changed.
//!
//! A receiver that creates many files, or has a slow disk, blocks the writer too. Answers to echoes say for which share of
//! the time bytes waited inside the receiver. The link carried the bytes in the rest of the time: in a limited window, the
//! rate is bytes ÷ (time × (1 − share)).

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
/// Growth of the rate by a free window, if no limit is known.
const GROWTH: f64 = 1.5;
/// Bounds of the grown rate, as factors of the rate of the free window.
const GROWN: RangeInclusive<f64> = 2.0..=32.0;
/// Free windows after which a limit counts as unknown again.
const BOUND_WINDOWS: u32 = 100;
/// Largest share of the time that a receiver is believed to be the reason of a wait.
const MAX_RECEIVER_SHARE: f64 = 15.0 / 16.0;

/// Measures the rate of a link. Times are since any fixed moment.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    /// Bytes written in all.
    written: u64,
    /// Start of the present window; `None` before the first write.
    start: Option<Duration>,
    /// Bytes of the present window.
    bytes: u64,
    /// Time of the present window in which the writer was blocked.
    blocked: Duration,
    /// Rates of the last windows, in bytes a second.
    rates: VecDeque<f64>,
    /// Windows that follow the last limited one; `None` if no window was limited.
    since_limited: Option<u32>,
    /// Share of the time in which bytes waited inside the receiver.
    receiver_share: f64,
}

/// Rates of a link in bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkRate {
    /// Rate for choices: measured, or a guess while the writer is never blocked.
    pub(super) assumed: u64,
    /// True if the writer was blocked, so that the rate is the link's.
    pub(super) is_limit: bool,
}

impl RateMeter {
    /// Notes for which share of the time bytes waited inside the receiver, as its answers to echoes say.
    pub(super) const fn note_receiver_share(&mut self, share: f64) {
        self.receiver_share = share.clamp(0.0, MAX_RECEIVER_SHARE);
    }

    /// Takes a write of `bytes`, which ended at `now` and was blocked for `blocked`. Returns the rate if a window
    /// ended and the rate is known.
    pub(super) fn take_write(
        &mut self,
        bytes: usize,
        blocked: Duration,
        now: Duration,
    ) -> Option<LinkRate> {
        self.written += bytes as u64;
        let start = *self.start.get_or_insert_with(|| now.saturating_sub(blocked));
        self.bytes += bytes as u64;
        self.blocked += blocked;
        let time = now.saturating_sub(start);
        let is_short = self.bytes < WINDOW_BYTES || time < SHORT_WINDOW;
        if time < WINDOW && is_short {
            return None;
        }
        let rate = self.bytes as f64 / time.as_secs_f64();
        let is_limited = self.blocked * 2 >= time;
        let is_free = self.blocked * 10 <= time;
        (self.start, self.bytes, self.blocked) = (Some(now), 0, Duration::ZERO);
        if is_limited {
            let rate = rate / (1.0 - self.receiver_share);
            if rate < self.highest_rate() * FALL {
                self.rates.clear();
            }
            self.add_rate(rate);
            self.since_limited = Some(0);
        } else if self.written > BUFFERED_BYTES {
            self.since_limited = self.since_limited.map(|windows| windows + 1);
            let is_bound = self.since_limited.is_some_and(|windows| windows <= BOUND_WINDOWS);
            let highest = self.highest_rate();
            let rate = match is_free && !is_bound {
                true => (highest * GROWTH).clamp(rate * GROWN.start(), rate * GROWN.end()),
                false => rate,
            };
            if rate > highest {
                self.add_rate(rate);
            }
        }
        let assumed = (self.highest_rate() * 8.0).max(1.0) as u64;
        let is_limit = self.since_limited.is_some_and(|windows| windows <= BOUND_WINDOWS);
        (!self.rates.is_empty()).then_some(LinkRate { assumed, is_limit })
    }

    fn highest_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn add_rate(&mut self, rate: f64) {
        if self.rates.len() == WINDOWS {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 64 << 10;

    /// A link of a given rate behind a buffer, and a writer that makes bytes at another rate.
    struct Rig {
        meter: RateMeter,
        now: f64,
        /// Bytes in the buffer.
        held: f64,
        room: f64,
        rate: Option<LinkRate>,
    }

    impl Rig {
        fn new(room: f64) -> Self {
            Self { meter: RateMeter::default(), now: 0.0, held: 0.0, room, rate: None }
        }

        /// Writes pieces for `seconds`: the link carries `link`, the writer makes `made` bytes a second. Returns the
        /// rate in Mbit/s.
        fn run(&mut self, seconds: f64, link: f64, made: f64) -> Option<u64> {
            let end = self.now + seconds;
            while self.now < end {
                let making = PIECE as f64 / made;
                self.now += making;
                self.held = (self.held - making * link).max(0.0) + PIECE as f64;
                let blocked = ((self.held - self.room) / link).max(0.0);
                self.now += blocked;
                self.held -= blocked * link;
                let [blocked, now] = [blocked, self.now].map(Duration::from_secs_f64);
                self.rate = self.meter.take_write(PIECE, blocked, now).or(self.rate);
            }
            self.rate.map(|rate| rate.assumed / 1_000_000)
        }
    }

    const MBIT: f64 = 125_000.0;

    #[test]
    fn a_blocked_writer_shows_the_rate_of_the_link() {
        let mut rig = Rig::new(256e3);
        let rate = rig.run(2.0, 10.0 * MBIT, 1e9);
        assert!(matches!(rate, Some(9..=13)), "{rate:?}");
        assert!(rig.rate.is_some_and(|rate| rate.is_limit));
    }

    #[test]
    fn bytes_that_only_fill_buffers_show_nothing() {
        let mut rig = Rig::new(900e3);
        assert_eq!(rig.run(0.4, 10.0 * MBIT, 2e6), None);
    }

    #[test]
    fn a_writer_that_is_never_blocked_shows_that_the_link_carries_more() {
        let mut rig = Rig::new(256e3);
        let rate = rig.run(1.0, 10_000.0 * MBIT, 100e6);
        assert!(rate > Some(20_000) && rig.rate.is_some_and(|rate| !rate.is_limit), "{rate:?}");
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
    fn a_busy_receiver_is_no_slow_link() {
        for (share, wanted) in [(0.0, 500), (0.5, 1000), (0.75, 2000), (1.0, 8000), (7.0, 8000)] {
            let mut rig = Rig::new(256e3);
            rig.meter.note_receiver_share(share);
            let rate = rig.run(1.0, 500.0 * MBIT, 1e9).expect("the link is limited");
            assert!(rate.abs_diff(wanted) <= wanted / 20, "{share}: {rate}");
            rig.meter.note_receiver_share(0.0);
            let rate = rig.run(2.0, 500.0 * MBIT, 1e9);
            assert!(matches!(rate, Some(475..=525)), "{rate:?}");
        }
    }
}
