//! Counters and limits that all streams of a session share.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use deltic_protocol::check::CHECK;
use deltic_protocol::hello::Alive;
use deltic_protocol::limits::{Limits, MAX_FRAME_BYTES};
use deltic_worker::lock::lock;

use crate::config::SessionConfig;
use crate::monitor::{Monitor, time_since_start};
use crate::plan::Traffic;
use crate::rates::RateTable;

use super::Heard;
use super::rate::RateMeter;

/// Signs of life for each silence that the other end tolerates.
const BEATS: u32 = 3;

/// Counters of a session over all its streams, shared with observers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    /// Batches of frames that were read and wait for the driver.
    waiting: AtomicUsize,
    /// Number of arrivals of bytes, without signs of life and checks.
    told: AtomicU64,
    /// True while this end has work under way.
    works: AtomicBool,
    /// Assumed rate of the link for sent bytes, in bits a second; 0 if unknown.
    rate: AtomicU64,
    /// The last rate that was the limit of the link; 0 if unknown.
    limit: AtomicU64,
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

    pub(crate) fn set_working(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }

    /// Returns a count that changes whenever bytes other than signs of life and checks arrive.
    pub(crate) fn progress_count(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Returns the rate of the link for sent bytes, in bits a second: measured, or a guess until the link limits the
    /// rate.
    pub(crate) fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Returns the last measured rate at which the link, or the reader behind it, took bytes, in bits a second.
    pub(crate) fn bandwidth_limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Counts the arrival of bytes of a frame of type `kind`.
    pub(super) fn count_arrival(&self, kind: u8) {
        if kind != Alive::KIND && kind != CHECK {
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
    reading: Option<Arc<Limit>>,
    writing: Option<Arc<Limit>>,
    /// Longest pause between frames on the first stream.
    pause: Arc<watch::Sender<Option<Duration>>>,
    /// Measures the rate of the link over all streams.
    meter: Arc<Mutex<RateMeter>>,
}

impl Flow {
    /// Limits the rate in each direction to the rate of `config`.
    pub(crate) fn new(config: &SessionConfig) -> Self {
        let SessionConfig { counters, bwlimit, monitor, .. } = config.clone();
        let limit = || bwlimit.clone().map(|table| Arc::new(Limit::new(table)));
        let pause = Arc::new(watch::Sender::new(None));
        let longest = Arc::new(AtomicUsize::new(MAX_FRAME_BYTES));
        let meter = Arc::default();
        Self { counters, monitor, longest, reading: limit(), writing: limit(), pause, meter }
    }

    /// Refuses frames longer than `limits` from now on.
    pub(crate) fn limit_frames(&self, limits: &Limits) {
        self.longest.store(limits.frame_bytes, Ordering::Relaxed);
    }

    /// Returns the limits of received frames.
    pub(super) fn limits(&self) -> Limits {
        Limits { frame_bytes: self.longest.load(Ordering::Relaxed), credit: None }
    }

    /// From now on, sends signs of life often enough for an end that tolerates `silence`.
    pub(crate) fn send_life_signs_within(&self, silence: Option<Duration>) {
        self.pause.send_replace(silence.map(|silence| silence / BEATS));
    }

    /// Returns the number of bytes of a batch to write in one call.
    pub(super) fn piece_bytes_of(&self, batch: &[u8]) -> usize {
        self.writing
            .as_ref()
            .map_or(batch.len(), |limit| limit.piece_bytes())
            .clamp(1, batch.len().max(1))
    }

    /// Counts bytes that arrived, and delays further reading to keep the rate. This delay does not count as silence
    /// of the other end.
    pub(super) async fn wait_and_count_received(&self, bytes: usize) {
        self.counters.count_received(bytes);
        if let Some(limit) = &self.reading {
            self.while_waiting_for_driver(limit.wait_for(bytes)).await;
        }
    }

    /// Waits until the rate allows `bytes` to be sent, and counts the bytes.
    pub(super) async fn wait_and_count_sent(&self, bytes: usize) {
        if let Some(limit) = &self.writing {
            limit.wait_for(bytes).await;
        }
        self.counters.count_sent(bytes);
    }

    /// Runs `writing`, which writes `bytes`, and measures the rate of the link.
    pub(super) async fn measure_rate<T>(
        &self,
        bytes: usize,
        writing: impl Future<Output = T>,
    ) -> T {
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
        if let Some(rate) = lock(&self.meter).take_write(bytes, blocked, now) {
            self.counters.rate.store(rate.assumed, Ordering::Relaxed);
            if rate.is_limit {
                self.counters.limit.store(rate.assumed, Ordering::Relaxed);
            }
        }
        written
    }

    /// Returns a receiver of the longest pause, and of changes of the longest pause.
    pub(super) fn longest_pause_receiver(&self) -> watch::Receiver<Option<Duration>> {
        self.pause.subscribe()
    }

    /// Runs `taking`, which waits until the driver takes read frames. This time does not count as silence of the other
    /// end.
    pub(super) async fn while_waiting_for_driver<T>(&self, taking: impl Future<Output = T>) -> T {
        self.counters.waiting.fetch_add(1, Ordering::Relaxed);
        let taken = taking.await;
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        taken
    }
}

/// Spreads bytes evenly over time, for all streams together.
struct Limit {
    table: RateTable,
    next: Mutex<Instant>,
}

impl Limit {
    fn new(table: RateTable) -> Self {
        Self { table, next: Mutex::new(Instant::now()) }
    }

    /// Returns the bytes to write in one call: about a tenth of the bytes that the limit allows in a second.
    fn piece_bytes(&self) -> usize {
        self.table.now().map_or(1 << 20, |bytes| (bytes / 10).clamp(512, 1 << 20) as usize)
    }

    async fn wait_for(&self, bytes: usize) {
        tokio::time::sleep_until(self.next_allowed(bytes)).await;
    }

    /// Returns the time at which the rate allows `bytes` to be sent or read.
    fn next_allowed(&self, bytes: usize) -> Instant {
        let pause = match self.table.now() {
            Some(limit) => Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64),
            None => Duration::ZERO,
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = Instant::now().max(*next);
        *next = turn + pause;
        turn
    }
}
