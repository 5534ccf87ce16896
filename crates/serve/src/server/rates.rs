//! Rate limits, each in a table of bounded length.
//!
//! For each key, the table stores one instant: the time at which all earlier events are paid for (generic cell rate
//! algorithm). A key whose instant has passed is the same as an unknown key, and is removed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock;

/// Least number of keys at which idle keys are removed: keys that have their full burst again.
const SWEEP: usize = 1 << 10;
/// Most keys. New keys have to wait while the table is full.
const MAX_KEYS: usize = 1 << 16;
/// Least pause between two sweeps of a full table.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Most events in a period, after a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Time that an event costs; zero for no limit.
    every: Duration,
    /// Most time that may be owed.
    credit: Duration,
}

impl Rate {
    /// Allows `events` in each `period`, after a burst of `burst`. Zero events stand for no limit.
    pub(crate) fn new(events: u32, period: Duration, burst: u32) -> Self {
        let every = period.checked_div(events).unwrap_or_default();
        Self { every, credit: every.saturating_mul(burst.max(1) - 1) }
    }
}

/// Counts events by key.
#[derive(Debug)]
pub(crate) struct Meter<K> {
    rate: Mutex<Rate>,
    table: Mutex<Table<K>>,
}

#[derive(Debug)]
struct Table<K> {
    /// For each key, the time at which all its events are paid for.
    paid: HashMap<K, Instant>,
    /// Number of keys at which the next sweep happens.
    sweep_at: usize,
    /// Time of the last sweep that left the table full.
    swept: Option<Instant>,
}

impl<K: Eq + Hash> Meter<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        let table = Table { paid: HashMap::new(), sweep_at: SWEEP, swept: None };
        Self { rate: Mutex::new(rate), table: Mutex::new(table) }
    }

    /// Changes the rate for later events.
    pub(crate) fn set(&self, rate: Rate) {
        *lock(&self.rate) = rate;
    }

    /// Counts an event. Errors: the time to wait, if the rate is exceeded.
    pub(crate) fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let Rate { every, credit } = *lock(&self.rate);
        if every.is_zero() {
            return Ok(());
        }
        let mut table = lock(&self.table);
        table.sweep(now);
        let paid = table.paid.get(&key).copied().unwrap_or(now).max(now);
        let owed = paid - now;
        if owed > credit {
            return Err(owed - credit);
        }
        if table.paid.len() >= MAX_KEYS && !table.paid.contains_key(&key) {
            return Err(every);
        }
        table.paid.insert(key, paid + every);
        Ok(())
    }
}

impl<K: Eq + Hash> Table<K> {
    /// Removes keys without debt, if there are many keys.
    fn sweep(&mut self, now: Instant) {
        let is_soon = |swept: Instant| now.saturating_duration_since(swept) < SWEEP_EVERY;
        if self.paid.len() < self.sweep_at || self.swept.is_some_and(is_soon) {
            return;
        }
        self.paid.retain(|_, paid| *paid > now);
        // Amortized: each added key pays for one look at a key.
        self.sweep_at = (self.paid.len() * 2).clamp(SWEEP, MAX_KEYS);
        self.swept = (self.paid.len() >= MAX_KEYS).then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let meter = Meter::new(Rate::new(2, SECOND, 3));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for _ in 0..3 {
            assert_eq!(meter.take("a", start), Ok(()));
        }
        assert_eq!(meter.take("a", start), Err(Duration::from_millis(500)));
        assert_eq!(meter.take("b", start), Ok(()), "another one's rate is its own");
        assert_eq!(meter.take("a", at(499)), Err(Duration::from_millis(1)));
        assert_eq!(meter.take("a", at(500)), Ok(()));
        assert!(meter.take("a", at(500)).is_err());
        // A long rest is worth no more than the burst.
        for _ in 0..3 {
            assert_eq!(meter.take("a", at(100_000)), Ok(()));
        }
        assert!(meter.take("a", at(100_000)).is_err());
    }

    #[test]
    fn a_time_before_the_last_one_is_no_harm() {
        let meter = Meter::new(Rate::new(1, SECOND, 2));
        let start = Instant::now();
        assert_eq!(meter.take("a", start + 10 * SECOND), Ok(()));
        // Threads may read the clock in one order and arrive here in another order.
        assert_eq!(meter.take("a", start + 9 * SECOND), Err(SECOND));
        assert_eq!(meter.take("a", start + 10 * SECOND), Ok(()));
        assert_eq!(meter.take("a", start + 10 * SECOND), Err(SECOND));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let meter = Meter::new(Rate::new(0, SECOND, 0));
        let now = Instant::now();
        assert!((0..1_000).all(|_| meter.take("a", now).is_ok()));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_owes_nothing() {
        let meter = Meter::new(Rate::new(1, SECOND, 1));
        let now = Instant::now();
        let taken = (0..200_000_u32).filter(|key| meter.take(*key, now).is_ok()).count();
        assert_eq!(taken, MAX_KEYS);
        assert_eq!(meter.take(u32::MAX, now + 2 * SECOND), Ok(()));
    }
}
