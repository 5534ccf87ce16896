//! Byte streams between two ends: in memory, on this process's own standard streams, or those of a child.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio::process::{Child, Command};
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

/// Bytes that a pipe in memory holds.
const MEMORY_PIPE_BYTES: usize = 1 << 20;
/// The same beside a shaped link: what waits to be sent, as in the buffer of a socket.
const SHAPED_PIPE_BYTES: usize = 256 << 10;
/// Batches of frames between the driver and the writer.
const BATCHES: usize = 4;
/// Frames between the reader and the driver: with fills of their usual length a few MiB.
const FRAMES: usize = 8;
/// Bytes that are asked of the stream at once where frames are small.
const BUFFER_BYTES: usize = 64 << 10;
/// Signs of life in the longest silence that the other end bears.
const BEATS: u32 = 3;
/// How long a child may take to exit once its streams are closed.
const CHILD_PATIENCE: Duration = Duration::from_secs(10);

/// Both directions to the other end.
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

/// Two ends of one connection inside this process.
pub(crate) fn memory() -> (Link, Link) {
    let (one, other) = tokio::io::duplex(MEMORY_PIPE_BYTES);
    (Link::within(one), Link::within(other))
}

/// The same, with a link of these figures between them.
pub(crate) fn shaped(figures: Figures) -> (Link, Link) {
    let (one, near) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (far, other) = tokio::io::duplex(SHAPED_PIPE_BYTES);
    let (near, far) = (tokio::io::split(near), tokio::io::split(far));
    tokio::spawn(carry(near.0, far.1, figures));
    tokio::spawn(carry(far.0, near.1, figures));
    (Link::within(one), Link::within(other))
}

/// This process's standard input and output.
pub(crate) fn stdio() -> Link {
    let (reader, writer) = (tokio::io::stdin(), tokio::io::stdout());
    Link { reader: Box::new(reader), writer: Box::new(writer), child: None }
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
    /// Frames that have come and wait to be taken.
    waiting: AtomicUsize,
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
    pub(crate) payload: Vec<u8>,
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

/// Frames of all streams on their way to the driver.
pub(crate) type Frames = mpsc::Sender<Result<RawFrame, ReadEnd>>;

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
    // Memory follows the bytes that arrive, not the length that was claimed.
    let mut payload = Vec::new();
    let mut rest = (&mut *reader).take(len as u64);
    while payload.len() < len {
        match rest.read_buf(&mut payload).await {
            Ok(0) => return Err(ReadEnd::Broken(std::io::ErrorKind::UnexpectedEof.into())),
            // Counted as they come: a long frame on a slow line is no silence.
            Ok(n) => counters.count_received(n),
            Err(error) => return Err(ReadEnd::Broken(error)),
        }
    }
    Ok(RawFrame { kind, payload })
}

/// Reads frames of the first stream into a bounded queue, which those of others may share; before the first, what every
/// Deltic begins with, unless it was `heard`.
pub(crate) fn start_reader(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    flow: &Flow,
    heard: Heard,
) -> (Frames, mpsc::Receiver<Result<RawFrame, ReadEnd>>) {
    let (frames, taken) = mpsc::channel(FRAMES);
    let (flow, into) = (flow.clone(), frames.clone());
    tokio::spawn(async move {
        if heard == Heard::Nothing
            && let Err(end) = hear_magic(&mut reader, &flow.counters).await
        {
            into.send(Err(end)).await.ok();
            return;
        }
        let reading = read_frames(reader, &into, &flow, Stream::First);
        flow.monitor.clone().watched(Stage::Wire, reading).await;
    });
    (frames, taken)
}

/// Reads frames of one stream until there are no more, or nobody takes them. The other end feels the limit because the
/// connection between holds only so much.
pub(crate) async fn read_frames(
    reader: Box<dyn AsyncRead + Send + Unpin>,
    frames: &Frames,
    flow: &Flow,
    stream: Stream,
) {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    loop {
        let frame = match (read_frame(&mut reader, &flow.counters).await, stream) {
            (Ok(RawFrame { kind: OVER, .. }), Stream::Further) => return,
            (Ok(frame), Stream::Further) if frame.kind != Aside::KIND => {
                Err(ReadEnd::Bad(PeerError::UnknownFrame(frame.kind)))
            }
            (Err(ReadEnd::Closed | ReadEnd::Broken(_)), Stream::Further) => Err(ReadEnd::Lost),
            (frame, _) => frame,
        };
        let last = frame.is_err();
        flow.counters.waiting.fetch_add(1, Ordering::Relaxed);
        if let (Some(limit), Ok(frame)) = (&flow.reading, &frame) {
            limit.wait_for(HEADER_BYTES + frame.payload.len()).await;
        }
        let unheard = frames.send(frame).await.is_err();
        flow.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        // What is left of an attempt that is over may arrive behind the session's end: it is read, so that the stream can
        // end as streams do.
        if last || unheard && stream == Stream::First {
            return;
        }
    }
}

/// Writes batches of frames from a bounded queue until the queue is closed.
pub(crate) fn start_writer(
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    flow: &Flow,
    stream: Stream,
) -> (mpsc::Sender<Vec<u8>>, JoinHandle<std::io::Result<()>>) {
    let (batches, mut taken) = mpsc::channel::<Vec<u8>>(BATCHES);
    let mut pause = (stream == Stream::First).then(|| flow.pause.subscribe());
    let Flow { counters, writing: limit, monitor, .. } = flow.clone();
    let task = tokio::spawn(monitor.watched(Stage::Wire, async move {
        while let Some(mut batch) = next_batch(&mut taken, &mut pause).await {
            while batch.len() < BUFFER_BYTES
                && let Ok(more) = taken.try_recv()
            {
                batch.extend_from_slice(&more);
            }
            let piece = limit.as_ref().map_or(batch.len(), |limit| limit.piece()).max(1);
            for piece in batch.chunks(piece) {
                if let Some(limit) = &limit {
                    limit.wait_for(piece.len()).await;
                }
                writer.write_all(piece).await?;
                counters.count_sent(piece.len());
            }
            if taken.is_empty() {
                writer.flush().await?;
            }
        }
        writer.flush().await?;
        writer.shutdown().await
    }));
    (batches, task)
}

/// What is to be written next: a sign of life, where nothing else has come for as long as a pause may be.
async fn next_batch(
    taken: &mut mpsc::Receiver<Vec<u8>>,
    pause: &mut Option<watch::Receiver<Option<Duration>>>,
) -> Option<Vec<u8>> {
    let Some(pause) = pause else { return taken.recv().await };
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
            batch = taken.recv() => return batch,
            () = silence => return Some(Alive.encode()),
            Ok(()) = pause.changed() => {}
        }
    }
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
