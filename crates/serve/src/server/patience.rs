//! Timeouts of clients. A connection is closed if the client accepts no bytes, and a request fails if its body
//! stalls. A connection whose client still sends is closed in two steps, so that the client gets its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Least speed of a request body in bytes a second, after the time allowed for a stall.
const BODY_RATE: u64 = 256;

/// Longest time for which a closed connection lingers.
const LINGER_TIME: Duration = Duration::from_secs(30);
/// Longest time without a byte for which a closed connection lingers.
const LINGER_IDLE: Duration = Duration::from_secs(5);
/// Most bytes that a closed connection reads and throws away.
const LINGER_BYTES: u64 = 1 << 30;

/// A stream that fails if the other end accepts nothing for some time. A stream that lingers closes its own direction
/// at shutdown, and then discards received bytes until the other end has closed, or for a while.
pub(super) struct Patient<S> {
    stream: S,
    stall: Duration,
    /// Timer that runs while a write is blocked.
    ends: Option<Pin<Box<Sleep>>>,
    /// True if the stream must linger when it is shut down.
    lingers: Arc<AtomicBool>,
    closing: Closing,
}

/// State of a stream that is shut down.
enum Closing {
    Open,
    Lingering { ends: Pin<Box<Sleep>>, idle: Pin<Box<Sleep>>, left: u64 },
    Done,
}

impl<S> Patient<S> {
    pub(super) const fn new(stream: S, stall: Duration, lingers: Arc<AtomicBool>) -> Self {
        Self { stream, stall, ends: None, lingers, closing: Closing::Open }
    }

    /// Starts the timer if a write is blocked, and stops the timer otherwise. Errors: `TimedOut` once the timer
    /// expires.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.ends = None;
            return written;
        }
        let stall = self.stall;
        let ends = self.ends.get_or_insert_with(|| Box::pin(sleep(stall)));
        ends.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// Discards received bytes until the stream ends, or a limit is reached.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering { ends, idle, left } = &mut self.closing else {
            return Poll::Ready(());
        };
        let mut piece = [0; 16 << 10];
        while ends.as_mut().poll(cx).is_pending() && idle.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut piece);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            let len = buf.filled().len() as u64;
            *left = left.saturating_sub(len);
            if read.is_err() || len == 0 || *left == 0 {
                break;
            }
            idle.as_mut().reset(Instant::now() + LINGER_IDLE);
        }
        self.closing = Closing::Done;
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.closing, Closing::Open) {
            let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.watched(cx, ended))?;
            self.closing = match self.lingers.load(Ordering::Relaxed) {
                false => Closing::Done,
                true => Closing::Lingering {
                    ends: Box::pin(sleep(LINGER_TIME)),
                    idle: Box::pin(sleep(LINGER_IDLE)),
                    left: LINGER_BYTES,
                },
            };
        }
        self.poll_linger(cx).map(Ok)
    }
}

/// Wraps a body. Reading fails if no byte arrives for `stall`, or if the average speed is below `BODY_RATE`.
pub(super) fn paced(body: Body, stall: Duration) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let state = (body.into_data_stream(), Instant::now(), 0_u64);
    Body::from_stream(stream::unfold(state, move |(mut body, begun, mut came)| async move {
        let slow = || Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)));
        let piece = match timeout(stall, body.next()).await {
            Err(_) => slow(),
            Ok(None) => return None,
            Ok(Some(piece)) => piece,
        };
        came += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let had = begun.elapsed();
        let least = had.saturating_sub(stall).as_secs() * BODY_RATE;
        let piece = if came < least { slow() } else { piece };
        Some((piece, (body, begun, came)))
    }))
}
