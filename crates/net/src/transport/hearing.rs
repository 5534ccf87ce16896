//! Reads frames from a stream. Takes all frames that have arrived at once, without copying.

use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::Arc;

use tokio::sync::mpsc;

use deltic_engine::stream::IncomingFrames;
use deltic_protocol::PeerError;
use deltic_protocol::streams::{Aside, OVER};

use crate::error::ReadEnd;
use crate::greeting::receive_magic;
use crate::monitor::Stage;
use crate::task::Task;

use super::spare::{self, Used};
use super::{Flow, Heard, Reader};

/// Most readings between the reader and the driver. Readings of literals in usual frames then take a few MiB.
const READINGS: usize = 4;

/// A frame as it arrived, not decoded.
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) payload: Piece,
}

/// A part of the bytes that one read from a stream returned.
pub(crate) struct Piece {
    of: Arc<Used>,
    range: Range<usize>,
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.of[self.range.clone()]
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Self { range: 0..bytes.len(), of: Arc::new(Used(bytes)) }
    }
}

/// Frames that one read from a stream returned together.
pub(crate) type Reading = Vec<Result<RawFrame, ReadEnd>>;

/// Queue of the frames of all streams to the driver.
pub(crate) type Frames = mpsc::Sender<Reading>;

/// Kind of a stream of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    First,
    /// A further stream, which carries only frames that may arrive before earlier frames of the first stream.
    Further,
}

/// Reads frames of the first stream into a bounded queue, which the readers of further streams may share. Reads the
/// magic before the first frame, unless the magic was `heard` before.
pub(crate) fn start_reader(
    mut arrivals: Arrivals,
    flow: &Flow,
    heard: Heard,
) -> (Frames, mpsc::Receiver<Reading>, Task<()>) {
    let (frames, taken) = mpsc::channel(READINGS);
    let (flow, into) = (flow.clone(), frames.clone());
    let task = Task::spawn(async move {
        if heard == Heard::Nothing
            && let Err(end) = receive_magic(&mut arrivals, &flow.counters).await
        {
            into.send(vec![Err(end)]).await.ok();
            return;
        }
        let reading = read_frames(arrivals, &into, &flow, Stream::First);
        flow.monitor.clone().charge_future(Stage::Wire, reading).await;
    });
    (frames, taken, task)
}

/// Reads frames of a stream until its end, or until the driver takes no more. The bounded queue slows down the other
/// end, because the connection buffers only so much.
pub(crate) async fn read_frames(
    mut arrivals: Arrivals,
    frames: &Frames,
    flow: &Flow,
    stream: Stream,
) {
    loop {
        let (mut reading, mut last) = (Reading::new(), false);
        for frame in arrivals.next_reading(flow).await {
            let Some(frame) = without_echo(stream, frame, flow) else { continue };
            let heard = as_arrived_on(stream, frame);
            last = !matches!(heard, Some(Ok(_)));
            reading.extend(heard);
            if last {
                break;
            }
        }
        if reading.is_empty() && !last {
            continue;
        }
        let unheard = flow.while_waiting_for_driver(frames.send(reading)).await.is_err();
        // Frames of an abandoned attempt may arrive after the end of the session. A further stream is read to its end,
        // so that the stream closes in order.
        if last || unheard && stream == Stream::First {
            return;
        }
    }
}

/// Bytes and frames of a stream that the driver has not taken yet.
pub(crate) struct Arrivals {
    reader: Reader,
    bytes: Vec<u8>,
    incoming: IncomingFrames,
    /// Frames that the driver may take.
    ready: VecDeque<RawFrame>,
}

impl From<Reader> for Arrivals {
    fn from(reader: Reader) -> Self {
        let incoming = match reader {
            Reader::Stream(_) => IncomingFrames::checked(),
            Reader::Memory(_) => IncomingFrames::default(),
        };
        let (bytes, ready) = (Vec::new(), VecDeque::new());
        Self { reader, bytes, incoming, ready }
    }
}

impl Arrivals {
    /// Returns the bytes that arrived and were not taken yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Waits for more bytes, without counting. Returns their number, 0 at the end of the stream.
    pub(crate) async fn read_uncounted(&mut self) -> std::io::Result<usize> {
        self.reader.read_more(&mut self.bytes).await
    }

    /// Removes the first `len` bytes, which are not part of a frame.
    pub(crate) fn skip(&mut self, len: usize) {
        self.bytes.drain(..len);
    }

    /// Waits for a frame.
    pub(crate) async fn next_frame(&mut self, flow: &Flow) -> Result<RawFrame, ReadEnd> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(frame);
            }
            self.fill_reading(flow).await?;
        }
    }

    /// Returns all frames that may be taken, at least one, or the reason why the stream ended. So small frames reach
    /// the driver together, and wake the driver once.
    async fn next_reading(&mut self, flow: &Flow) -> Reading {
        while self.ready.is_empty() {
            if let Err(end) = self.fill_reading(flow).await {
                return vec![Err(end)];
            }
        }
        self.ready.drain(..).map(Ok).collect()
    }

    /// Reads until frames may be taken, and takes these frames.
    async fn fill_reading(&mut self, flow: &Flow) -> Result<(), ReadEnd> {
        loop {
            // Memory grows with the bytes that arrive, not with the length that a header claims.
            let inspected = self.incoming.inspect(&self.bytes, &flow.limits());
            if self.incoming.is_ready() {
                self.take_ready(flow);
                return Ok(());
            }
            inspected.map_err(ReadEnd::Bad)?;
            match self.read_uncounted().await {
                Ok(0) if self.bytes.is_empty() => return Err(ReadEnd::Closed),
                Ok(0) => return Err(ReadEnd::Broken(std::io::ErrorKind::UnexpectedEof.into())),
                // Bytes are counted as they arrive, so a slow line that carries a long frame does not count as silent.
                Ok(bytes) => {
                    self.bytes.first().inspect(|kind| flow.counters.count_arrival(**kind));
                    flow.wait_and_count_received(bytes).await;
                }
                Err(error) => return Err(ReadEnd::Broken(error)),
            }
        }
    }

    /// Takes complete frames without copying their bytes. The bytes after the frames, mostly few, are copied to another
    /// buffer.
    fn take_ready(&mut self, flow: &Flow) {
        let len = self.incoming.take();
        let mut rest = Vec::new();
        if self.bytes.len() > len {
            rest = spare::buffer();
            rest.extend_from_slice(&self.bytes[len..]);
            self.bytes.truncate(len);
        }
        let of = Arc::new(Used(std::mem::replace(&mut self.bytes, rest)));
        for (kind, range) in self.incoming.frames(&of) {
            flow.counters.count_arrival(kind);
            let payload = Piece { of: Arc::clone(&of), range };
            self.ready.push_back(RawFrame { kind, payload });
        }
    }
}

/// Takes frames of echoes off the first stream. Returns all other frames, and an error for an echo against the rules.
fn without_echo(
    stream: Stream,
    frame: Result<RawFrame, ReadEnd>,
    flow: &Flow,
) -> Option<Result<RawFrame, ReadEnd>> {
    match (frame, stream) {
        (Ok(frame), Stream::First) => match flow.take_echo(frame.kind, &frame.payload) {
            Ok(true) => None,
            Ok(false) => Some(Ok(frame)),
            Err(error) => Some(Err(ReadEnd::Bad(error))),
        },
        (frame, _) => Some(frame),
    }
}

/// Returns the frame or error that the driver gets. `None` if a further stream was closed in order.
fn as_arrived_on(
    stream: Stream,
    frame: Result<RawFrame, ReadEnd>,
) -> Option<Result<RawFrame, ReadEnd>> {
    match (frame, stream) {
        (Ok(RawFrame { kind: OVER, .. }), Stream::Further) => None,
        (Ok(frame), Stream::Further) if frame.kind != Aside::KIND => {
            Some(Err(ReadEnd::Bad(PeerError::UnknownFrame(frame.kind))))
        }
        (Err(ReadEnd::Closed | ReadEnd::Broken(_)), Stream::Further) => Some(Err(ReadEnd::Lost)),
        (frame, _) => Some(frame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SessionConfig;
    use deltic_protocol::frame::HEADER_BYTES;
    use deltic_protocol::hello::Alive;

    /// Lets the other tasks run as far as they can.
    async fn rest() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// The other end is not silent while its frames wait to be taken.
    #[tokio::test]
    async fn who_does_not_take_what_has_come_is_behind() {
        let flow = Flow::new(&SessionConfig::default());
        let (to, from) = mpsc::channel(READINGS + 1);
        let reader = Reader::Memory(from);
        let (_frames, mut taken, _reading) = start_reader(reader.into(), &flow, Heard::Hello);
        for count in 0..=READINGS {
            assert!(!flow.counters.has_unread_frames(), "{count} readings have room");
            to.send(Alive.encode()).await.expect("the reader reads");
            rest().await;
        }
        assert!(flow.counters.has_unread_frames());
        assert_eq!(taken.recv().await.map(|reading| reading.len()), Some(1));
        rest().await;
        assert!(!flow.counters.has_unread_frames());
    }

    /// Returns the frames of a stream that arrives in these pieces, and the reason for its end.
    async fn heard(pieces: Vec<Vec<u8>>) -> (Vec<(u8, Vec<u8>)>, ReadEnd) {
        let (to, from) = mpsc::channel(pieces.len().max(1));
        pieces.into_iter().for_each(|piece| to.try_send(piece).expect("room for all"));
        drop(to);
        let mut arrivals = Arrivals::from(Reader::Memory(from));
        let (mut frames, flow) = (Vec::new(), Flow::new(&SessionConfig::default()));
        loop {
            for frame in arrivals.next_reading(&flow).await {
                match frame {
                    Ok(RawFrame { kind, payload }) => frames.push((kind, payload.to_vec())),
                    Err(end) => return (frames, end),
                }
            }
        }
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_le_bytes();
        [&[kind], &len[..3], payload].concat()
    }

    #[tokio::test]
    async fn frames_are_the_same_wherever_a_stream_is_cut() {
        let payloads = [&b""[..], b"a", b"bcd", b"", &[7; 300]];
        let frames = (1..).zip(payloads).map(|(kind, payload)| (kind, payload.to_vec()));
        let frames: Vec<(u8, Vec<u8>)> = frames.collect();
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, p)| frame(*kind, p)).collect();
        for cut in 1..bytes.len() {
            let (one, other) = bytes.split_at(cut);
            let (got, end) = heard(vec![one.to_vec(), other.to_vec()]).await;
            assert_eq!(got, frames, "{cut}");
            assert!(matches!(end, ReadEnd::Closed), "{end:?}");
            // Complete frames are returned before the error for an incomplete frame.
            let (got, end) = heard(vec![one.to_vec()]).await;
            assert!(frames.starts_with(&got), "{cut}");
            let is_between = frames.iter().scan(0, |at, (_, p)| {
                *at += HEADER_BYTES + p.len();
                Some(*at)
            });
            let is_between = is_between.into_iter().any(|at| at == cut);
            assert_eq!(matches!(end, ReadEnd::Closed), is_between, "{cut} {end:?}");
        }
        let (got, _) = heard(bytes.chunks(1).map(<[u8]>::to_vec).collect()).await;
        assert_eq!(got, frames);
    }

    #[tokio::test]
    async fn what_came_before_a_claim_of_too_much_is_heard() {
        let claim = vec![1, 0xff, 0xff, 0xff];
        let (got, end) = heard(vec![[frame(9, b"x"), claim].concat()]).await;
        assert_eq!(got, [(9, b"x".to_vec())]);
        assert!(matches!(end, ReadEnd::Bad(_)), "{end:?}");
    }
}
