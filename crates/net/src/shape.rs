//! A simulated link of a given rate and delay in this process. It connects the ends of a rehearsal, or other programs
//! that are measured for comparison.
//!
//! ```text
//! writer ─► pipe ─► queue ─► one piece at a time, no faster than the rate ─► half a round trip later ─► pipe ─► reader
//! ```
//!
//! Without a queue, bytes wait in the pipe of their writer. Several streams, and pings beside a stream, share a line by
//! reservations: each piece reserves the line for its time, behind all earlier reservations.
//!
//! There is no loss, no congestion control and no slow start: the link runs at its rate from the first byte. A timer
//! may wake late. The link catches up on the lost time, so the rate holds up to [`LATE_AT_MOST`], and a round trip is
//! longer by the timer's resolution.

use std::sync::Arc;
use std::time::Duration;

use deltic_core::strategy::LinkModel as Figures;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

/// Most bytes in a piece.
const PIECE_BYTES: usize = 16 << 10;
/// Most bytes that have arrived and were not read, as in a socket buffer.
const ARRIVED_BYTES: u64 = 256 << 10;
/// Most time that the link makes up for after a late timer.
const LATE_AT_MOST: Duration = Duration::from_millis(2);

/// Reserves a direction of a line for a time. Returns the time from now to the end of the reservation.
pub type Reserve = Box<dyn FnMut(Duration) -> Duration + Send>;

/// Returns the end of a reservation of `time` at the moment `now`, on a line that is reserved until `reserved`. All times
/// are since any fixed moment.
#[must_use]
pub fn reservation_end(reserved: Duration, now: Duration, time: Duration) -> Duration {
    reserved.max(now.saturating_sub(LATE_AT_MOST)) + time
}

/// One direction of a simulated link.
pub(crate) struct LineDirection {
    pub(crate) figures: Figures,
    /// Time that bytes wait in front of the line at most.
    pub(crate) queue: Duration,
    pub(crate) reserve: Reserve,
}

/// A line of its own, without a queue.
impl From<Figures> for LineDirection {
    fn from(figures: Figures) -> Self {
        let (start, mut reserved) = (Instant::now(), Duration::ZERO);
        let reserve = move |time| {
            let now = start.elapsed();
            reserved = reservation_end(reserved, now, time);
            reserved.saturating_sub(now)
        };
        Self { figures, queue: Duration::ZERO, reserve: Box::new(reserve) }
    }
}

/// Carries bytes from `from` to `to`, as one direction of a link, until one of the two ends.
pub(crate) async fn simulate_direction(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    line: impl Into<LineDirection>,
) {
    let line = line.into();
    let LineDirection { figures, queue, .. } = line;
    // Space for bytes under way and for unread bytes, so that a slow reader delays the sender.
    let time_under_way = figures.round_trip / 2 + queue;
    let under_way = figures.bits_per_second as f64 / 8.0 * time_under_way.as_secs_f64();
    let room = under_way as u64 + ARRIVED_BYTES;
    let room = Arc::new(Semaphore::new((room as usize).min(Semaphore::MAX_PERMITS)));
    let (pieces, arriving) = mpsc::unbounded_channel();
    tokio::join!(
        send_pieces(from, line, pieces, Arc::clone(&room)),
        deliver_pieces(arriving, to, room),
    );
}

/// Bytes, and the time of their arrival.
struct Piece {
    arrival: Instant,
    bytes: Vec<u8>,
}

/// Reads pieces from the sender, at the rate of the link.
async fn send_pieces(
    mut from: impl AsyncRead + Unpin,
    LineDirection { figures, queue, mut reserve }: LineDirection,
    pieces: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let Ok(len @ 1..) = from.read(&mut buffer).await else { return };
        // The semaphore is closed if the reader is gone.
        let Ok(permit) = room.acquire_many(len as u32).await else { return };
        permit.forget();
        let now = Instant::now();
        let time = Duration::from_secs_f64(len as f64 * 8.0 / figures.bits_per_second as f64);
        let wait = reserve(time);
        let arrival = now + wait + figures.round_trip / 2;
        if pieces.send(Piece { arrival, bytes: buffer[..len].to_vec() }).is_err() {
            return;
        }
        sleep_until(now + wait.saturating_sub(queue)).await;
    }
}

/// Writes each piece to the reader at the time of its arrival.
async fn deliver_pieces(
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    mut to: impl AsyncWrite + Unpin,
    room: Arc<Semaphore>,
) {
    while let Some(Piece { arrival, bytes }) = pieces.recv().await {
        sleep_until(arrival).await;
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            room.close();
            return;
        }
        room.add_permits(bytes.len());
    }
    // The reader may be gone already.
    to.shutdown().await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures =
        Figures { bits_per_second: 8_000_000, round_trip: Duration::from_millis(100) };

    /// Writes pieces of `lens` bytes at once. Returns the virtual time at which each piece was read at the other end.
    async fn arrivals(lens: &[usize]) -> Vec<Duration> {
        let (mut near, link) = tokio::io::duplex(1 << 24);
        let (other, mut far) = tokio::io::duplex(1 << 24);
        tokio::spawn(simulate_direction(link, other, FIGURES));
        let start = Instant::now();
        let all: Vec<u8> = (0..lens.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
        near.write_all(&all).await.unwrap();
        let (mut times, mut at) = (Vec::new(), 0);
        for len in lens {
            let mut piece = vec![0; *len];
            far.read_exact(&mut piece).await.unwrap();
            assert_eq!(piece, all[at..at + len]);
            at += len;
            times.push(start.elapsed());
        }
        times
    }

    fn assert_near(measured: Duration, nominal: Duration) {
        let ratio = measured.as_secs_f64() / nominal.as_secs_f64();
        assert!((0.9..1.1).contains(&ratio), "{measured:?} for {nominal:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_takes_half_a_round_trip() {
        assert_near(arrivals(&[1]).await[0], FIGURES.round_trip / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_come_at_the_rate() {
        // A million bytes a second.
        let times = arrivals(&[500_000, 500_000, 1_000_000]).await;
        let late = FIGURES.round_trip / 2;
        for (time, nominal) in times.into_iter().zip([500, 1000, 2000]) {
            assert_near(time, late + Duration::from_millis(nominal));
        }
    }

    /// Two streams share a line, and a queue holds bytes of both.
    #[tokio::test(start_paused = true)]
    async fn streams_that_reserve_one_line_share_its_rate() {
        let (start, reserved) = (Instant::now(), Arc::new(std::sync::Mutex::new(Duration::ZERO)));
        let direction = || {
            let reserved = Arc::clone(&reserved);
            let reserve = move |time| {
                let (now, mut reserved) = (start.elapsed(), reserved.lock().unwrap());
                *reserved = reservation_end(*reserved, now, time);
                reserved.saturating_sub(now)
            };
            let queue = Duration::from_millis(500);
            LineDirection { figures: FIGURES, queue, reserve: Box::new(reserve) }
        };
        let arrivals = [(); 2].map(|()| {
            let (mut near, link) = tokio::io::duplex(1 << 24);
            let (other, mut far) = tokio::io::duplex(1 << 24);
            tokio::spawn(simulate_direction(link, other, direction()));
            tokio::spawn(async move {
                near.write_all(&[0; 500_000]).await.unwrap();
                far.read_exact(&mut vec![0; 500_000]).await.unwrap();
                start.elapsed()
            })
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let queued = reserved.lock().unwrap().saturating_sub(start.elapsed());
        assert!((0.45..0.55).contains(&queued.as_secs_f64()), "{queued:?}");
        let mut last = Duration::ZERO;
        for arrival in arrivals {
            last = last.max(arrival.await.unwrap());
        }
        assert_near(last, Duration::from_secs(1) + FIGURES.round_trip / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_stops_who_writes() {
        let (mut near, link) = tokio::io::duplex(1 << 10);
        let (other, far) = tokio::io::duplex(1 << 10);
        tokio::spawn(simulate_direction(link, other, FIGURES));
        let writing = near.write_all(&[0; 1 << 20]);
        assert!(tokio::time::timeout(Duration::from_secs(60), writing).await.is_err());
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_no_more_ends_the_link() {
        let (mut near, link) = tokio::io::duplex(1 << 10);
        let (other, far) = tokio::io::duplex(1 << 10);
        let carrying = tokio::spawn(simulate_direction(link, other, FIGURES));
        drop(far);
        // The link has no room for this many bytes.
        assert!(near.write_all(&[0; 1 << 22]).await.is_err());
        carrying.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_link_forwards_the_end_of_a_stream() {
        let (mut near, link) = tokio::io::duplex(1 << 10);
        let (other, mut far) = tokio::io::duplex(1 << 10);
        tokio::spawn(simulate_direction(link, other, FIGURES));
        near.write_all(b"last words").await.unwrap();
        drop(near);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"last words");
    }
}
