//! Byte streams between two ends: in memory, on this process's own standard streams, or those of a child.

use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{self, FileType, Mode, OFlags};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use deltic_core::strategy::Link as Figures;
use deltic_protocol::PeerError;
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::hello::Alive;
use deltic_protocol::streams::{Aside, OVER};

use crate::error::SyncError;
use crate::greeting::hear_magic;
use crate::monitor::{Monitor, Stage};
use crate::plan::{Remote, Traffic};
use crate::session::Conduct;
use crate::shape::carry;

/// Bytes that a pipe beside a shaped link holds: what waits to be sent, as in the buffer of a socket.
const SHAPED_PIPE_BYTES: usize = 256 << 10;
/// Batches of frames between the driver and the writer.
const BATCHES: usize = 4;
/// Readings between the reader and the driver: with fills of their usual length a few MiB.
const READINGS: usize = 8;
/// Bytes that a stream is asked for at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Signs of life in the longest silence that the other end bears.
const BEATS: u32 = 3;
/// How long a child may take to exit once its streams are closed.
const CHILD_PATIENCE: Duration = Duration::from_secs(10);

/// Both directions to the other end, over streams of bytes.
pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) child: Option<Child>,
}

impl Link {
    fn within(stream: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: Box::new(reader), writer: Box::new(writer), child: None }
    }
}

/// Where bytes of the other end come from.
pub(crate) enum Reader {
    Stream(Box<dyn AsyncRead + Send + Unpin>),
    /// An end in this process: what it sent as one, and what is not taken yet of the last.
    Memory(mpsc::Receiver<Vec<u8>>, Vec<u8>),
}

/// Where bytes for the other end go.
pub(crate) enum Writer {
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
    /// An end in this process: what is sent as one arrives as it is, and is not copied.
    Memory(mpsc::Sender<Vec<u8>>),
}

/// Where a connection begins and ends here.
pub(crate) struct Ends {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) child: Option<Child>,
}

impl From<Link> for Ends {
    fn from(Link { reader, writer, child }: Link) -> Self {
        Self { reader: Reader::Stream(reader), writer: Writer::Stream(writer), child }
    }
}

impl Reader {
    /// Waits for bytes and adds them to `bytes`; how many, none at the end.
    async fn read_more(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        match self {
            Self::Stream(reader) => {
                bytes.reserve(BUFFER_BYTES);
                reader.read_buf(bytes).await
            }
            Self::Memory(batches, rest) => {
                let batch = match std::mem::take(rest) {
                    rest if rest.is_empty() => batches.recv().await.unwrap_or_default(),
                    rest => rest,
                };
                let len = batch.len();
                if bytes.is_empty() {
                    *bytes = batch;
                } else {
                    bytes.extend_from_slice(&batch);
                }
                Ok(len)
            }
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let (batches, rest) = match self.get_mut() {
            Self::Stream(reader) => return Pin::new(reader).poll_read(context, room),
            Self::Memory(batches, rest) => (batches, rest),
        };
        if rest.is_empty() {
            *rest = ready!(batches.poll_recv(context)).unwrap_or_default();
        }
        let len = rest.len().min(room.remaining());
        room.put_slice(&rest[..len]);
        rest.drain(..len);
        Poll::Ready(Ok(()))
    }
}

/// Two ends of one connection inside this process.
pub(crate) fn memory() -> (Ends, Ends) {
    let [(to_one, from_other), (to_other, from_one)] = [(); 2].map(|()| mpsc::channel(BATCHES));
    let ends = |from, to| Ends {
        reader: Reader::Memory(from, Vec::new()),
        writer: Writer::Memory(to),
        child: None,
    };
    (ends(from_other, to_other), ends(from_one, to_one))
}

/// The same, with a link of these figures between them.
pub(crate) fn shaped(figures: Figures) -> (Ends, Ends) {
    let (one, near) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (far, other) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (near, far) = (tokio::io::split(near), tokio::io::split(far));
    tokio::spawn(carry(near.0, far.1, figures));
    tokio::spawn(carry(far.0, near.1, figures));
    (Link::within(one).into(), Link::within(other).into())
}

/// This process's standard input and output.
pub(crate) fn stdio() -> Ends {
    Link { reader: standard_input(), writer: standard_output(), child: None }.into()
}

/// This process's standard input. The runtime waits for a pipe itself; for anything else it lets a thread wait, which
/// costs several switches for each reading.
pub(crate) fn standard_input() -> Box<dyn AsyncRead + Send + Unpin> {
    let pipe = opened_again(std::io::stdin(), OFlags::RDONLY);
    match pipe.and_then(|pipe| ChildStdout::from_std(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// This process's standard output, in the same way.
pub(crate) fn standard_output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe = opened_again(std::io::stdout(), OFlags::WRONLY);
    match pipe.and_then(|pipe| ChildStdin::from_std(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

/// Another handle of a pipe: others may share the one that we were given, and do not expect it not to block.
fn opened_again(pipe: impl AsFd, how: OFlags) -> std::io::Result<OwnedFd> {
    let kind = FileType::from_raw_mode(fs::fstat(&pipe)?.st_mode);
    if kind != FileType::Fifo {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    Ok(fs::openat(fs::CWD, path, how | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
}

/// What a remote shell is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The session, and its first stream.
    First,
    /// One more stream of it; nothing is lost where it is stopped.
    Further,
}

/// Starts `shell… host program agent options…`. The words go to the shell as they are: no command line is ever put together.
pub(crate) fn spawn(remote: &Remote, host: &str, part: Part) -> Result<Link, SyncError> {
    let (shell, args) = (remote.shell.split_first())
        .ok_or_else(|| SyncError::Usage("the remote shell (-e) is empty".into()))?;
    let mut command = Command::new(shell);
    command.args(args).arg(host).arg(&remote.program).arg("agent").args(&remote.options);
    if part == Part::Further {
        command.arg("--join").kill_on_drop(true);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed =
        |source| SyncError::Start { program: shell.to_string_lossy().into_owned(), source };
    let mut child = command.spawn().map_err(failed)?;
    let (reader, writer) = (child.stdout.take(), child.stdin.take());
    let reader = Box::new(reader.expect("standard output is piped"));
    let writer = Box::new(writer.expect("standard input is piped"));
    Ok(Link { reader, writer, child: Some(child) })
}

/// Whether the other end ever said that it is a Deltic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Hello,
}

/// Waits for the child to exit; what its end means, if it did not end well.
pub(crate) async fn farewell(child: Option<Child>, heard: Heard) -> Option<SyncError> {
    let mut child = child?;
    let Ok(status) = tokio::time::timeout(CHILD_PATIENCE, child.wait()).await else {
        // It was told to end by its closed streams; it is ours to stop.
        child.kill().await.ok();
        return Some(SyncError::Disconnected(
            "the remote shell did not end and was stopped".into(),
        ));
    };
    match status {
        Ok(status) if status.success() => None,
        Ok(status) if status.code() == Some(127) => Some(SyncError::NoRemoteProgram),
        Ok(status) if heard == Heard::Nothing => Some(SyncError::NoAnswer(status)),
        Ok(status) => {
            Some(SyncError::Disconnected(format!("the remote shell ended with {status}")))
        }
        Err(source) => Some(SyncError::Transport { action: "wait for the remote shell", source }),
    }
}

/// Counts of one session over all its streams, shared with whoever watches it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    /// Readings of streams that wait to be taken.
    waiting: AtomicUsize,
    /// Times that something came which is no sign of life.
    told: AtomicU64,
    /// Whether this end has calls of its own under way.
    works: AtomicBool,
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

    /// Whether what has come is not taken: then it is not the other end that is silent.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether this end is at work, or behind: then it is not the other end that is waited for.
    pub(crate) fn is_busy(&self) -> bool {
        self.works.load(Ordering::Relaxed) || self.is_behind()
    }

    pub(crate) fn set_works(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }

    /// Changes whenever something came that is no sign of life.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Notes that bytes of a frame of this type came.
    fn note(&self, kind: u8) {
        if kind != Alive::KIND {
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

/// A frame as it came.
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) payload: Piece,
}

/// Some of what one reading of a stream brought.
pub(crate) struct Piece {
    of: Arc<Vec<u8>>,
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
        Self { range: 0..bytes.len(), of: Arc::new(bytes) }
    }
}

/// Why no more frames come.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The other end closed its side between two frames.
    Closed,
    /// It closed, or the stream broke, inside one.
    Broken(std::io::Error),
    /// It did not begin in time.
    Silent,
    /// It sent what is no frame.
    Bad(PeerError),
    /// A stream beside the first ended.
    Lost,
}

/// What one reading of a stream brought: a frame, and those behind it that came along.
pub(crate) type Reading = Vec<Result<RawFrame, ReadEnd>>;

/// Frames of all streams on their way to the driver.
pub(crate) type Frames = mpsc::Sender<Reading>;

/// Which stream of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    First,
    /// Carries asides alone.
    Further,
}

/// What all streams of a session are counted, watched and held back by.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) counters: Arc<Counters>,
    pub(crate) monitor: Monitor,
    reading: Option<Arc<Limit>>,
    writing: Option<Arc<Limit>>,
    /// The longest that the first stream may say nothing.
    pause: Arc<watch::Sender<Option<Duration>>>,
}

impl Flow {
    /// All at most as fast, in either direction, as `conduct` has it.
    pub(crate) fn new(conduct: &Conduct) -> Self {
        let Conduct { counters, bwlimit, monitor, .. } = conduct.clone();
        let limit = || bwlimit.map(|bytes| Arc::new(Limit::new(bytes)));
        let pause = Arc::new(watch::Sender::new(None));
        Self { counters, monitor, reading: limit(), writing: limit(), pause }
    }

    /// Lets the other end hear a sign of life often enough for it to be as patient as this.
    pub(crate) fn beats(&self, silence: Option<Duration>) {
        self.pause.send_replace(silence.map(|silence| silence / BEATS));
    }

    /// How much of a batch is written at once.
    fn piece_of(&self, batch: &[u8]) -> usize {
        self.writing
            .as_ref()
            .map_or(batch.len(), |limit| limit.piece())
            .clamp(1, batch.len().max(1))
    }

    /// Counts bytes that came, and holds the next back until it is their turn, which is no silence of the other end.
    async fn count_in(&self, bytes: usize) {
        self.counters.count_received(bytes);
        if let Some(limit) = &self.reading {
            self.counters.waiting.fetch_add(1, Ordering::Relaxed);
            limit.wait_for(bytes).await;
            self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts bytes that leave, when it is their turn.
    async fn count_out(&self, bytes: usize) {
        if let Some(limit) = &self.writing {
            limit.wait_for(bytes).await;
        }
        self.counters.count_sent(bytes);
    }
}

/// Reads one frame.
pub(crate) async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    counters: &Counters,
) -> Result<RawFrame, ReadEnd> {
    let mut header = [0; HEADER_BYTES];
    let mut got = 0;
    while got < HEADER_BYTES {
        match reader.read(&mut header[got..]).await {
            Ok(0) if got == 0 => return Err(ReadEnd::Closed),
            Ok(0) => return Err(ReadEnd::Broken(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => got += n,
            Err(error) => return Err(ReadEnd::Broken(error)),
        }
    }
    let Header { kind, len } = Header::decode(header).map_err(ReadEnd::Bad)?;
    counters.count_received(HEADER_BYTES);
    counters.note(kind);
    // Memory follows the bytes that arrive, not the length that was claimed.
    let mut payload = Vec::new();
    let mut rest = (&mut *reader).take(len as u64);
    while payload.len() < len {
        match rest.read_buf(&mut payload).await {
            Ok(0) => return Err(ReadEnd::Broken(std::io::ErrorKind::UnexpectedEof.into())),
            // Counted as they come: a long frame on a slow line is no silence.
            Ok(n) => {
                counters.count_received(n);
                counters.note(kind);
            }
            Err(error) => return Err(ReadEnd::Broken(error)),
        }
    }
    Ok(RawFrame { kind, payload: payload.into() })
}

/// Reads frames of the first stream into a bounded queue, which those of others may share; before the first, what every
/// Deltic begins with, unless it was `heard`.
pub(crate) fn start_reader(
    mut reader: Reader,
    flow: &Flow,
    heard: Heard,
) -> (Frames, mpsc::Receiver<Reading>) {
    let (frames, taken) = mpsc::channel(READINGS);
    let (flow, into) = (flow.clone(), frames.clone());
    tokio::spawn(async move {
        if heard == Heard::Nothing
            && let Err(end) = hear_magic(&mut reader, &flow.counters).await
        {
            into.send(vec![Err(end)]).await.ok();
            return;
        }
        let reading = read_frames(reader, &into, &flow, Stream::First);
        flow.monitor.clone().watched(Stage::Wire, reading).await;
    });
    (frames, taken)
}

/// Reads frames of one stream until there are no more, or nobody takes them. The other end feels the limit because the
/// connection between holds only so much.
pub(crate) async fn read_frames(reader: Reader, frames: &Frames, flow: &Flow, stream: Stream) {
    let mut arrivals = Arrivals { reader, bytes: Vec::new() };
    loop {
        let (mut reading, mut last) = (Reading::new(), false);
        for frame in arrivals.next(flow).await {
            let heard = heard_on(stream, frame);
            last = !matches!(heard, Some(Ok(_)));
            reading.extend(heard);
            if last {
                break;
            }
        }
        flow.counters.waiting.fetch_add(1, Ordering::Relaxed);
        let unheard = frames.send(reading).await.is_err();
        flow.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        // What is left of an attempt that is over may arrive behind the session's end: it is read, so that the stream can
        // end as streams do.
        if last || unheard && stream == Stream::First {
            return;
        }
    }
}

/// What a stream has brought that is not taken yet.
struct Arrivals {
    reader: Reader,
    bytes: Vec<u8>,
}

impl Arrivals {
    /// All frames that are there, at least one; or why no more come. Small frames reach the driver together, which wakes it
    /// once, and none is copied.
    async fn next(&mut self, flow: &Flow) -> Reading {
        if let Err(end) = self.hear_one(flow).await {
            return vec![Err(end)];
        }
        let (mut ends, mut end) = (Vec::new(), 0);
        while let Ok(Some(Header { kind, len })) = header_of(&self.bytes[end..])
            && let start = end + HEADER_BYTES
            && start + len <= self.bytes.len()
        {
            end = start + len;
            flow.counters.note(kind);
            ends.push((kind, start..end));
        }
        let rest = self.bytes.split_off(end);
        let of = Arc::new(std::mem::replace(&mut self.bytes, rest));
        let frame =
            |(kind, range)| Ok(RawFrame { kind, payload: Piece { of: Arc::clone(&of), range } });
        ends.into_iter().map(frame).collect()
    }

    /// Reads until there is a whole frame. Memory follows the bytes that arrive, not the length that was claimed.
    async fn hear_one(&mut self, flow: &Flow) -> Result<(), ReadEnd> {
        loop {
            let header = header_of(&self.bytes).map_err(ReadEnd::Bad)?;
            if header.is_some_and(|header| HEADER_BYTES + header.len <= self.bytes.len()) {
                return Ok(());
            }
            match self.reader.read_more(&mut self.bytes).await {
                Ok(0) if self.bytes.is_empty() => return Err(ReadEnd::Closed),
                Ok(0) => return Err(ReadEnd::Broken(std::io::ErrorKind::UnexpectedEof.into())),
                // Counted as they come: a long frame on a slow line is no silence.
                Ok(bytes) => {
                    self.bytes.first().inspect(|kind| flow.counters.note(**kind));
                    flow.count_in(bytes).await;
                }
                Err(error) => return Err(ReadEnd::Broken(error)),
            }
        }
    }
}

/// What `bytes` begin with, if all of it is there.
fn header_of(bytes: &[u8]) -> Result<Option<Header>, PeerError> {
    bytes.first_chunk().map(|header| Header::decode(*header)).transpose()
}

/// What the driver hears of what such a stream brought; nothing, if it said that it is over.
fn heard_on(stream: Stream, frame: Result<RawFrame, ReadEnd>) -> Option<Result<RawFrame, ReadEnd>> {
    match (frame, stream) {
        (Ok(RawFrame { kind: OVER, .. }), Stream::Further) => None,
        (Ok(frame), Stream::Further) if frame.kind != Aside::KIND => {
            Some(Err(ReadEnd::Bad(PeerError::UnknownFrame(frame.kind))))
        }
        (Err(ReadEnd::Closed | ReadEnd::Broken(_)), Stream::Further) => Some(Err(ReadEnd::Lost)),
        (frame, _) => Some(frame),
    }
}

/// Writes batches of frames from a bounded queue until the queue is closed.
pub(crate) fn start_writer(
    writer: Writer,
    flow: &Flow,
    stream: Stream,
) -> (mpsc::Sender<Vec<u8>>, JoinHandle<std::io::Result<()>>) {
    let (batches, taken) = mpsc::channel::<Vec<u8>>(BATCHES);
    let (flow, monitor) = (flow.clone(), flow.monitor.clone());
    let pause = (stream == Stream::First).then(|| flow.pause.subscribe());
    let counters = Arc::clone(&flow.counters);
    let said = Said { taken, pause, counters, owed: 0 };
    let task = tokio::spawn(monitor.watched(Stage::Wire, async move {
        match writer {
            Writer::Stream(writer) => write_all(writer, said, &flow).await,
            Writer::Memory(to) => pass_on(to, said, &flow).await,
        }
    }));
    (batches, task)
}

/// What is to be written.
struct Said {
    taken: mpsc::Receiver<Vec<u8>>,
    /// The longest silence, on the stream that breaks it.
    pause: Option<watch::Receiver<Option<Duration>>>,
    counters: Arc<Counters>,
    /// What the other end had told when this one last said something.
    owed: u64,
}

impl Said {
    /// What comes next: a sign of life, where nothing else has for as long as a pause may be, and there is reason for one.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.batch_or_sign().await;
        self.owed = self.counters.told();
        next
    }

    async fn batch_or_sign(&mut self) -> Option<Vec<u8>> {
        let Some(pause) = &mut self.pause else { return self.taken.recv().await };
        loop {
            let longest = *pause.borrow_and_update();
            let silence = async {
                match longest {
                    Some(longest) => tokio::time::sleep(longest).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                batch = self.taken.recv() => return batch,
                () = silence => {}
                Ok(()) = pause.changed() => continue,
            }
            // Two ends that only wait for each other have no reason, and fall silent.
            if self.counters.is_busy() || self.counters.told() != self.owed {
                return Some(Alive.encode());
            }
        }
    }
}

async fn write_all(
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut said: Said,
    flow: &Flow,
) -> std::io::Result<()> {
    while let Some(mut batch) = said.next().await {
        while batch.len() < BUFFER_BYTES
            && let Ok(more) = said.taken.try_recv()
        {
            batch.extend_from_slice(&more);
        }
        for piece in batch.chunks(flow.piece_of(&batch)) {
            flow.count_out(piece.len()).await;
            writer.write_all(piece).await?;
        }
        if said.taken.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await?;
    writer.shutdown().await
}

async fn pass_on(to: mpsc::Sender<Vec<u8>>, mut said: Said, flow: &Flow) -> std::io::Result<()> {
    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    while let Some(batch) = said.next().await {
        let piece = flow.piece_of(&batch);
        if piece == batch.len() {
            flow.count_out(piece).await;
            to.send(batch).await.map_err(gone)?;
            continue;
        }
        for piece in batch.chunks(piece) {
            flow.count_out(piece.len()).await;
            to.send(piece.to_vec()).await.map_err(gone)?;
        }
    }
    Ok(())
}

/// Spreads bytes evenly over time, whichever streams they are of.
struct Limit {
    bytes_per_second: u64,
    next: Mutex<Instant>,
}

impl Limit {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), next: Mutex::new(Instant::now()) }
    }

    /// Bytes to write at once: about a tenth of a second's.
    fn piece(&self) -> usize {
        (self.bytes_per_second / 10).clamp(512, 1 << 20) as usize
    }

    async fn wait_for(&self, bytes: usize) {
        tokio::time::sleep_until(self.turn_of(bytes)).await;
    }

    /// When it is the turn of so many bytes.
    fn turn_of(&self, bytes: usize) -> Instant {
        let pause = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = Instant::now().max(*next);
        *next = turn + pause;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the other tasks go as far as they can.
    async fn rest() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// It is not the other end that is silent then.
    #[tokio::test]
    async fn who_does_not_take_what_has_come_is_behind() {
        let flow = Flow::new(&Conduct::default());
        let (to, from) = mpsc::channel(READINGS + 1);
        let reader = Reader::Memory(from, Vec::new());
        let (_frames, mut taken) = start_reader(reader, &flow, Heard::Hello);
        for count in 0..=READINGS {
            assert!(!flow.counters.is_behind(), "{count} readings have room");
            to.send(Alive.encode()).await.expect("the reader reads");
            rest().await;
        }
        assert!(flow.counters.is_behind());
        assert_eq!(taken.recv().await.map(|reading| reading.len()), Some(1));
        rest().await;
        assert!(!flow.counters.is_behind());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_says_that_it_lives_while_it_works_and_for_what_it_hears() {
        let flow = Flow::new(&Conduct::default());
        flow.beats(Some(Duration::from_secs(3)));
        let (to, mut said) = mpsc::channel(1);
        let (_batches, _) = start_writer(Writer::Memory(to), &flow, Stream::First);
        let mut signs = async || {
            let mut signs = 0;
            while let Ok(sign) = tokio::time::timeout(Duration::from_secs(5), said.recv()).await {
                assert_eq!(sign, Some(Alive.encode()));
                signs += 1;
                if signs == 100 {
                    break;
                }
            }
            signs
        };
        assert_eq!(signs().await, 0, "it waits for the other end");
        flow.counters.set_works(true);
        assert_eq!(signs().await, 100);
        flow.counters.set_works(false);
        assert!(signs().await <= 1, "one may have been on its way");
        // Something came: that is said once.
        flow.counters.note(9);
        assert_eq!(signs().await, 1);
        flow.counters.note(Alive::KIND);
        assert_eq!(signs().await, 0, "two ends that live have nothing to say to each other");
    }

    /// The frames of a stream that arrives in these pieces, up to why no more come.
    async fn heard(pieces: Vec<Vec<u8>>) -> (Vec<(u8, Vec<u8>)>, ReadEnd) {
        let (to, from) = mpsc::channel(pieces.len().max(1));
        pieces.into_iter().for_each(|piece| to.try_send(piece).expect("room for all"));
        drop(to);
        let mut arrivals = Arrivals { reader: Reader::Memory(from, Vec::new()), bytes: Vec::new() };
        let (mut frames, flow) = (Vec::new(), Flow::new(&Conduct::default()));
        loop {
            for frame in arrivals.next(&flow).await {
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
            // What is whole is heard before the end of what is not.
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
