//! A transfer over a simulated link in virtual time, without bytes: the cost model of compression, the meter of the rate
//! and a link, with costs of the data that were measured apart.
//!
//! ```text
//! frame   made      after the frame before, at most AHEAD frames ahead of the writer: work of the sender, compression
//!         written   in pieces, each as soon as the buffer has room; the meter measures how long the writer waits
//!         carried   one piece after another at the rate of the link, as far as the window of the connection allows
//!         taken     half a round trip later, after the frame before: decompression, work of the receiver
//! echo    every ECHO_SECONDS, behind the written pieces
//! ```
//!
//! The window is that of a new TCP connection in slow start: ten segments, and one more byte for each byte that was
//! acknowledged, a round trip after the byte was carried. Bytes other than literals were acknowledged in the round
//! trips of the conversation, so the window starts wider by these bytes. The model has neither loss nor a history of
//! frames, and no receiver holds bytes back. All times are seconds since the start.

use std::collections::VecDeque;
use std::time::Duration;

use deltic_core::strategy::{AdaptiveCodec, CodecModel, LinkModel};

use crate::drive::KnownLink;
use crate::transport::{Arrival, LinkRate, RateMeter};

/// Length of a frame of literals, and of a write, in bytes.
const FRAME_BYTES: f64 = (256 << 10) as f64;
const WRITTEN_BYTES: f64 = (64 << 10) as f64;
/// Bytes that a new TCP connection sends before the first acknowledgement: ten full packets (RFC 6928).
const FIRST_WINDOW: f64 = (10 * 1448) as f64;
/// Most frames that the sender makes ahead of the writer.
const AHEAD: usize = 4;
/// Time between two echoes.
const ECHO_SECONDS: f64 = 0.25;
/// Ratio from which a sample shows that compression does not pay.
const INCOMPRESSIBLE: f64 = 0.97;

/// New data of a transfer, with costs that were measured apart.
#[derive(Clone, Debug, Default)]
pub struct VirtualData {
    /// Bytes of literals before compression.
    pub literal_bytes: u64,
    /// All other bytes in the direction of the literals.
    pub other_bytes: u64,
    /// Processor time of the sender and of the receiver, without compression and decompression.
    pub work: [Duration; 2],
    /// Ratio and speeds of the levels of zstd.
    pub levels: Vec<(i32, CodecModel)>,
    /// Threads of each end.
    pub threads: u32,
    /// Round trips of the conversation.
    pub round_trips: u32,
}

/// A simulated link.
#[derive(Clone, Copy, Debug)]
pub struct VirtualLink {
    /// Rate and round trip.
    pub figures: LinkModel,
    /// Bytes that buffers in front of the link hold.
    pub buffer_bytes: u64,
    /// Time after which the link has another rate, in bits a second.
    pub change: Option<(Duration, u64)>,
}

/// Choice of the compression of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualChoice {
    /// The default in a first run: adapted to the link as the run measures it.
    Adapted,
    /// The default after a run over the same link, whose rate was noted.
    Noted,
    /// This level for all frames; `None` for no compression.
    Fixed(Option<i32>),
}

/// Returns the time of a transfer.
#[must_use]
pub fn transfer_time(data: &VirtualData, link: &VirtualLink, choice: VirtualChoice) -> Duration {
    let mut transfer = Transfer::new(data, link, choice);
    let mut left = data.literal_bytes as f64;
    // A transfer without literals still has its other bytes and its work.
    loop {
        transfer.send_frame(left.min(FRAME_BYTES));
        left -= FRAME_BYTES;
        if left <= 0.0 {
            let trips = link.figures.round_trip * data.round_trips;
            return trips + Duration::from_secs_f64(transfer.taken);
        }
    }
}

struct Transfer<'a> {
    data: &'a VirtualData,
    link: &'a VirtualLink,
    choice: VirtualChoice,
    codec: AdaptiveCodec,
    meter: RateMeter,
    known: KnownLink,
    /// Times at which the last frame was made, written, carried and taken.
    made: f64,
    written: f64,
    carried: f64,
    taken: f64,
    /// Times at which the last frames were written.
    frames: VecDeque<f64>,
    buffer: Buffer,
    /// Pieces on the link that are not acknowledged.
    under_way: Buffer,
    echoes: VirtualEchoes,
    /// Measured rates, with the times of the measurements, that the sender has not looked at.
    rates: VecDeque<(f64, LinkRate)>,
}

/// Pieces that take room, each with its bytes and the time at which the piece leaves.
#[derive(Default)]
struct Buffer {
    pieces: VecDeque<(f64, f64)>,
    bytes: f64,
    /// Bytes of the pieces that have left.
    left: f64,
}

impl Buffer {
    /// Returns the time at which the buffer has room for `bytes`, not before `now`. `most` returns the bytes that fit,
    /// once this number of bytes has left.
    fn time_of_room(&mut self, bytes: f64, most: impl Fn(f64) -> f64, now: f64) -> f64 {
        let mut time = now;
        while let Some(&(leaves, len)) = self.pieces.front()
            && (leaves <= now || self.bytes + bytes > most(self.left))
        {
            self.pieces.pop_front();
            self.bytes -= len;
            self.left += len;
            time = time.max(leaves);
        }
        time
    }

    fn push(&mut self, leaves: f64, bytes: f64) {
        self.pieces.push_back((leaves, bytes));
        self.bytes += bytes;
    }
}

/// Echoes of a transfer.
#[derive(Default)]
struct VirtualEchoes {
    /// Time of the next question.
    next: f64,
    /// Times of answers under way, and the bytes that had arrived.
    answers: VecDeque<(f64, f64)>,
    /// Time and bytes of the last answer.
    last: (f64, f64),
    /// Bytes written so far.
    written: f64,
}

impl<'a> Transfer<'a> {
    fn new(data: &'a VirtualData, link: &'a VirtualLink, choice: VirtualChoice) -> Self {
        let known = if choice == VirtualChoice::Noted { link.figures } else { LinkModel::PRIOR };
        Self {
            data,
            link,
            choice,
            codec: AdaptiveCodec::default(),
            meter: RateMeter::default(),
            known: KnownLink { figures: Some(known), limit: None },
            made: 0.0,
            written: 0.0,
            carried: 0.0,
            taken: 0.0,
            frames: VecDeque::new(),
            buffer: Buffer::default(),
            under_way: Buffer { left: data.other_bytes as f64, ..Buffer::default() },
            echoes: VirtualEchoes::default(),
            rates: VecDeque::new(),
        }
    }

    /// Sends a frame with `bytes` of literals.
    fn send_frame(&mut self, bytes: f64) {
        let threads = f64::from(self.data.threads.max(1));
        let all = self.data.literal_bytes as f64;
        let share = if all > 0.0 { bytes / all } else { 1.0 };
        let [sender, receiver] = self.data.work.map(|work| work.as_secs_f64() * share / threads);
        let ahead = if self.frames.len() == AHEAD { self.frames.pop_front() } else { None };
        let start = self.made.max(ahead.unwrap_or(0.0));
        let codec = self.choose(start);
        self.made = start + sender + bytes / codec.compressed_per_second / threads;
        let mut left = bytes * codec.ratio + self.data.other_bytes as f64 * share;
        while left > 0.0 {
            self.write(left.min(WRITTEN_BYTES));
            left -= WRITTEN_BYTES;
        }
        self.frames.push_back(self.written);
        let arrived = self.carried + self.link.figures.round_trip.as_secs_f64() / 2.0;
        let decompression = bytes / codec.decompressed_per_second / threads;
        self.taken = self.taken.max(arrived) + receiver + decompression;
    }

    /// Chooses the compression of the next frame at the time `now`, and measures the compression.
    fn choose(&mut self, now: f64) -> CodecModel {
        while let Some((time, rate)) = self.rates.front().copied()
            && time <= now
        {
            self.rates.pop_front();
            if rate.assumed > 0 {
                self.known.update_if_changed(rate.assumed);
            }
        }
        let link = self.known.figures.unwrap_or(LinkModel::PRIOR);
        let level = match self.choice {
            VirtualChoice::Adapted | VirtualChoice::Noted => {
                self.codec.choose(&link, self.data.threads).level
            }
            VirtualChoice::Fixed(level) => level,
        };
        let found = self.data.levels.iter().find(|(of, _)| Some(*of) == level);
        let Some((level, codec)) = found.filter(|(_, codec)| codec.ratio < INCOMPRESSIBLE) else {
            return CodecModel::NONE;
        };
        let compressed = (FRAME_BYTES * codec.ratio) as usize;
        let seconds = FRAME_BYTES / codec.compressed_per_second;
        self.codec.record_measurement(*level, FRAME_BYTES as usize, Some(compressed), seconds);
        *codec
    }

    /// Writes a piece as soon as it is made and the buffer has room.
    fn write(&mut self, bytes: f64) {
        let ready = self.written.max(self.made);
        let most = (self.link.buffer_bytes as f64).max(WRITTEN_BYTES);
        self.written = self.buffer.time_of_room(bytes, |_| most, ready);
        self.carry(bytes);
        self.buffer.push(self.carried, bytes);
        self.hear_answers();
        self.echoes.written += bytes;
        let blocked = Duration::from_secs_f64(self.written - ready);
        let now = Duration::from_secs_f64(self.written);
        let rate = self.meter.take_write(bytes as usize, blocked, now);
        self.rates.extend(rate.map(|rate| (self.written, rate)));
        if self.written >= self.echoes.next {
            self.echoes.next = self.written + ECHO_SECONDS;
            let answered = self.carried + self.link.figures.round_trip.as_secs_f64();
            self.echoes.answers.push_back((answered, self.echoes.written));
        }
    }

    /// Carries a written piece, in parts that fit the first window.
    fn carry(&mut self, bytes: f64) {
        let round_trip = self.link.figures.round_trip.as_secs_f64();
        let mut left = bytes;
        while left > 0.0 {
            let part = left.min(FIRST_WINDOW);
            let free = self.carried.max(self.written);
            let start = self.under_way.time_of_room(part, |acked| FIRST_WINDOW + acked, free);
            self.carried = self.time_carried(start, part);
            self.under_way.push(self.carried + round_trip, part);
            left -= part;
        }
    }

    /// Takes the answers that have arrived.
    fn hear_answers(&mut self) {
        while let Some((time, received)) = self.echoes.answers.front().copied()
            && time <= self.written
        {
            self.echoes.answers.pop_front();
            let (before, received_before) =
                std::mem::replace(&mut self.echoes.last, (time, received));
            if received_before > 0.0 && time > before {
                let rate = (received - received_before) / (time - before);
                let rate = self.meter.take_arrival(Arrival { rate, is_held: false });
                self.rates.push_back((time, rate));
            }
        }
    }

    /// Returns the time at which the link has carried `bytes` from `start` on.
    fn time_carried(&self, start: f64, bytes: f64) -> f64 {
        let per_second = |bits: u64| bits as f64 / 8.0;
        let rate = per_second(self.link.figures.bits_per_second);
        let Some((change, later)) = self.link.change else { return start + bytes / rate };
        let change = change.as_secs_f64();
        let before = ((change - start).max(0.0) * rate).min(bytes);
        let start = if before < bytes { start.max(change) } else { start + before / rate };
        start + (bytes - before) / per_second(later)
    }
}
