//! Channels of a WebSocket, as byte streams for tokio. [`deltic_carrier::channels`] assigns messages to channels;
//! this module adds the socket, the clock, and the queues between the connection's task and the readers of channels.
//!
//! A stream that is not read blocks the whole connection, so a client with several channels must read all of them.

mod exit;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deltic_carrier::channels::{self, Event};
use deltic_carrier::message::{MAX_MESSAGE_BYTES, MAX_NUMBER_BYTES, Outgoing};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::PollSender;
use tokio_websockets::{Limits, Message, WebSocketStream};

use self::exit::{Exit, SendsNow};
use crate::lock;

/// Most messages queued from a connection to a channel, and from all channels to a connection.
const WAITING: usize = 4;
/// While messages of the other end wait for a channel's reader, the other end counts as alive: `alive` is called after
/// each such time.
const ALIVE_EVERY: Duration = Duration::from_millis(200);

/// Returns the limits for the messages of a connection.
#[must_use]
pub fn limits() -> Limits {
    Limits::default().max_payload_len(Some(MAX_MESSAGE_BYTES + MAX_NUMBER_BYTES))
}

/// The byte stream of a channel.
#[derive(Debug)]
pub struct Channel {
    arriving: mpsc::Receiver<io::Result<Bytes>>,
    /// Received bytes that were not read yet.
    at_hand: Bytes,
    outgoing: Outgoing,
    leaving: PollSender<Bytes>,
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at_hand.is_empty() {
            match ready!(self.arriving.poll_recv(cx)) {
                Some(Ok(bytes)) => self.at_hand = bytes,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = self.at_hand.len().min(buf.remaining());
        buf.put_slice(&self.at_hand.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.leaving.poll_reserve(cx)).map_err(|_| gone())?;
        let Some((message, len)) = self.outgoing.message(bytes) else { return Poll::Ready(Ok(0)) };
        self.leaving.send_item(message).map_err(|_| gone())?;
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection's task flushes whenever its queue is empty.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(end) = self.outgoing.end() {
            ready!(self.leaving.poll_reserve(cx)).map_err(|_| gone())?;
            self.leaving.send_item(end).map_err(|_| gone())?;
            self.outgoing.sent_end();
        }
        Poll::Ready(Ok(()))
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection has ended")
}

/// Dropping a channel ends the stream in our direction.
impl Drop for Channel {
    fn drop(&mut self) {
        if let (Some(leaving), Some(end)) = (self.leaving.get_ref(), self.outgoing.end())
            && let Err(mpsc::error::TrySendError::Full(end)) = leaving.try_send(end)
        {
            let leaving = leaving.clone();
            tokio::spawn(async move { leaving.send(end).await.ok() });
        }
    }
}

/// Queue to the reader of a channel's stream.
type Reader = mpsc::Sender<io::Result<Bytes>>;
/// Receives the bytes of a stream that is handled as a whole.
type Then = Box<dyn FnOnce(Vec<u8>) + Send>;

/// The open channels of a connection. Clones share the channels.
#[derive(Clone, Debug)]
pub struct Channels {
    open: Arc<Mutex<channels::Channels<Reader, Then>>>,
    begun: Instant,
}

/// The channels of a connection, and the queue of its outgoing messages. Clones share both.
#[derive(Clone, Debug)]
pub struct Mux {
    channels: Channels,
    leaving: mpsc::Sender<Bytes>,
    exit: Weak<dyn SendsNow>,
}

impl Mux {
    /// Opens channel `number`. `None` if the channel is open already.
    #[must_use]
    pub fn open(&self, number: u32) -> Option<Channel> {
        let (sender, arriving) = mpsc::channel(WAITING);
        self.channels.all().open(number, sender)?;
        let leaving = PollSender::new(self.leaving.clone());
        Some(Channel { arriving, at_hand: Bytes::new(), outgoing: Outgoing::new(number), leaving })
    }

    /// Opens channel `number` for a stream that is handled as a whole: once the stream has ended, or is longer than
    /// `most` bytes, `then` receives its bytes, on the connection's task. `None` if the channel is open already.
    #[must_use]
    pub fn open_whole(
        &self,
        number: u32,
        most: usize,
        then: impl FnOnce(Vec<u8>) + Send + 'static,
    ) -> Option<()> {
        let now = self.channels.now();
        self.channels.all().open_whole(number, most, now, Box::new(then))
    }

    /// Returns the open channels.
    #[must_use]
    pub const fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Queues a control message once there is room.
    ///
    /// # Errors
    /// `BrokenPipe` if the connection has ended.
    pub async fn say(&self, message: Bytes) -> io::Result<()> {
        self.leaving.send(message).await.map_err(|_| gone())
    }

    /// Queues a control message once there is room. The message is discarded if the connection has ended.
    pub async fn tell(&self, message: Bytes) {
        self.say(message).await.ok();
    }

    /// Sends `bytes` and the end of our direction on a channel with no bytes sent before, at once and on this thread:
    /// waking the connection's task costs more. Returns the messages that could not be sent at once, for
    /// [`send`](Self::send).
    #[must_use]
    pub fn end_with(&self, number: u32, bytes: &[u8]) -> Vec<Bytes> {
        let outgoing = Outgoing::new(number);
        let (answer, end) = (outgoing.message(bytes), outgoing.end());
        let mut messages: Vec<_> =
            answer.map(|(answer, _)| answer).into_iter().chain(end).collect();
        if let Some(exit) = self.exit.upgrade()
            && !exit.send_now(&mut messages)
        {
            // Buffered messages are flushed with the next message.
            self.ping();
        }
        messages
    }

    /// Queues messages once there is room. The messages are discarded if the connection has ended.
    pub async fn send(&self, messages: Vec<Bytes>) {
        for message in messages {
            self.leaving.send(message).await.ok();
        }
    }

    /// Queues a ping. With a full queue no ping is needed, because other messages are on their way.
    pub fn ping(&self) {
        self.leaving.try_send(Bytes::new()).ok();
    }
}

impl Channels {
    /// Returns the number of open channels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all().count()
    }

    /// Closes channel `number`. Its reader gets the error `why`, or else the end of the stream.
    pub async fn close(&self, number: u32, why: Option<io::Error>) {
        let reader = self.all().close(number);
        if let (Some(reader), Some(why)) = (reader, why) {
            reader.send(Err(why)).await.ok();
        }
    }

    /// Closes channel `number`, if its stream is handled as a [whole](Mux::open_whole) and is not complete yet.
    pub fn give_up(&self, number: u32) {
        // Dropped without the lock, because the handler's drop may use the channels.
        let given_up = self.all().give_up(number);
        drop(given_up);
    }

    /// Closes channels whose [whole](Mux::open_whole) streams are still incomplete after the time `after`. Returns
    /// their numbers.
    pub fn close_late(&self, after: Duration) -> Vec<u32> {
        let late = self.all().close_late(self.now(), after);
        late.into_iter().map(|(number, _)| number).collect()
    }

    fn all(&self) -> MutexGuard<'_, channels::Channels<Reader, Then>> {
        lock(&self.open)
    }

    /// Returns the time since the connection began.
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Closes all channels at the end of their connection. Readers get the error `ended`, or `UnexpectedEof`.
    pub fn end(&self, ended: &io::Result<()>) {
        let readers = self.all().end();
        for reader in readers {
            let why = match ended {
                Ok(()) => io::Error::from(io::ErrorKind::UnexpectedEof),
                Err(error) => io::Error::new(error.kind(), error.to_string()),
            };
            reader.try_send(Err(why)).ok();
        }
    }

    /// Handles a message. Returns the message if it is a control message.
    async fn receive(&self, message: Bytes) -> io::Result<Option<Bytes>> {
        let event = self.all().receive(message).map_err(invalid)?;
        match event {
            Some(Event::Control(message)) => return Ok(Some(message)),
            Some(Event::Bytes { channel, reader, bytes }) => {
                if reader.send(Ok(bytes)).await.is_err() {
                    self.close(channel, None).await;
                }
            }
            Some(Event::Whole(then, bytes)) => then(bytes),
            // The reader's sender is dropped, so the reader gets the end of the stream.
            Some(Event::End(_)) | None => {}
        }
        Ok(None)
    }
}

/// A WebSocket connection with channels.
pub struct Connection<T> {
    stream: SplitStream<WebSocketStream<T>>,
    exit: Arc<Exit<T>>,
    channels: Channels,
    leaving: mpsc::Receiver<Bytes>,
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<T> {
    /// Creates a connection over a WebSocket, and the [`Mux`] that opens its channels.
    #[must_use]
    pub fn new(socket: WebSocketStream<T>) -> (Self, Mux) {
        let (sender, leaving) = mpsc::channel(WAITING);
        let channels = Channels { open: Arc::default(), begun: Instant::now() };
        let (sink, stream) = socket.split();
        let exit = Arc::new(Exit::new(sink));
        let weak: Weak<dyn SendsNow> = Arc::downgrade(&exit) as _;
        let mux = Mux { channels: channels.clone(), leaving: sender, exit: weak };
        (Self { stream, exit, channels, leaving }, mux)
    }

    /// Carries messages until one end closes the connection, `ended` completes, or all channels and `Mux`es are
    /// dropped; queued messages are sent first. Control messages go to `hear`, and `alive` is called for each message,
    /// and while a message waits for the reader of its channel. While the future of `hear` runs, messages are sent and
    /// no message is read.
    ///
    /// # Errors
    /// The error that ended the connection. All channels are closed with it.
    pub async fn carry<F: Future<Output = io::Result<()>>>(
        self,
        mut hear: impl FnMut(Bytes) -> F,
        mut alive: impl FnMut(),
        ended: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let Self { mut stream, exit, channels, mut leaving } = self;
        let hearing = async {
            while let Some(message) = stream.next().await {
                let message = message.map_err(io::Error::other)?;
                alive();
                if message.is_close() {
                    break;
                }
                if !message.is_binary() {
                    let now = channels.now();
                    channels.all().receive_ping(now).map_err(invalid)?;
                    continue;
                }
                // While a channel's reader is busy, no message is read, but the other end has been heard.
                let received = channels.receive(message.into_payload().into());
                if let Some(message) = until_ready(received, &mut alive).await? {
                    hear(message).await?;
                }
            }
            Ok(())
        };
        let saying = async {
            tokio::pin!(ended);
            loop {
                let message = tokio::select! {
                    biased;
                    message = leaving.recv() => message,
                    () = &mut ended => None,
                };
                let Some(message) = message else { return Ok(()) };
                let (mut next, mut sink) = (Some(message), exit.lock().await);
                while let Some(message) = next {
                    // An empty message stands for a ping.
                    let message = match message.is_empty() {
                        true => Message::ping(Bytes::new()),
                        false => Message::binary(message),
                    };
                    sink.feed(message).await.map_err(io::Error::other)?;
                    next = leaving.try_recv().ok();
                }
                sink.flush().await.map_err(io::Error::other)?;
            }
        };
        let ended: io::Result<()> = tokio::select! {
            ended = hearing => ended,
            ended = saying => ended,
        };
        // Dropped first, so that no new channel can wait for ever after all channels are closed.
        drop(leaving);
        channels.end(&ended);
        ended
    }
}

/// Calls `alive` from time to time until `ready` completes.
async fn until_ready<T>(ready: impl Future<Output = T>, alive: &mut impl FnMut()) -> T {
    tokio::pin!(ready);
    loop {
        match timeout(ALIVE_EVERY, &mut ready).await {
            Ok(done) => return done,
            Err(_) => alive(),
        }
    }
}

/// Error for a violation of the protocol.
pub(crate) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_connection_ends_with_its_last_channel() {
        let (here, there) = tokio::io::duplex(4096);
        let here = tokio_websockets::ClientBuilder::new().take_over(here);
        let there = tokio_websockets::ServerBuilder::new().serve(there);
        let ((here, mux), (there, _others)) = (Connection::new(here), Connection::new(there));
        let carry = |connection: Connection<_>| {
            tokio::spawn(connection.carry(|_| ready(Ok(())), || {}, std::future::pending()))
        };
        let (here, there) = (carry(here), carry(there));
        let channel = mux.open(1).expect("it is the first");
        drop(mux);
        tokio::task::yield_now().await;
        assert!(!here.is_finished());
        drop(channel);
        here.await.expect("it does not panic").expect("nothing went wrong");
        there.await.expect("it does not panic").ok();
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_whose_messages_wait_for_a_reader_counts_as_heard() {
        let (here, there) = tokio::io::duplex(1 << 20);
        let here = tokio_websockets::ClientBuilder::new().take_over(here);
        let there = tokio_websockets::ServerBuilder::new().serve(there);
        let ((here, ours), (there, theirs)) = (Connection::new(here), Connection::new(there));
        let (heard, times) = (Arc::new(Mutex::new(0)), |heard: &Mutex<u32>| *lock(heard));
        let again = Arc::clone(&heard);
        tokio::spawn(here.carry(|_| ready(Ok(())), || {}, std::future::pending()));
        let alive = move || *lock(&again) += 1;
        tokio::spawn(there.carry(|_| ready(Ok(())), alive, std::future::pending()));
        let (mut busy, mut sender) = (theirs.open(1).unwrap(), ours.open(1).unwrap());
        for _ in 0..=WAITING {
            sender.write_all(b"x").await.unwrap();
        }
        tokio::time::sleep(ALIVE_EVERY * 100).await;
        let before = times(&heard);
        assert!(before > 90, "{before}");
        // Nothing waits any more, and the other end is silent.
        busy.read_exact(&mut [0; WAITING + 1]).await.unwrap();
        let before = times(&heard);
        tokio::time::sleep(ALIVE_EVERY * 100).await;
        assert_eq!(times(&heard), before);
    }

    /// Connects two ends with `room` bytes of buffer between them, and carries both.
    fn connected(room: usize) -> (Mux, Mux) {
        let (here, there) = tokio::io::duplex(room);
        let here = tokio_websockets::ClientBuilder::new().take_over(here);
        let there = tokio_websockets::ServerBuilder::new().serve(there);
        let ((here, ours), (there, theirs)) = (Connection::new(here), Connection::new(there));
        for connection in [here, there] {
            tokio::spawn(connection.carry(|_| ready(Ok(())), || {}, std::future::pending()));
        }
        (ours, theirs)
    }

    /// Opens a channel whose other end answers with the number of received bytes, once the stream has ended.
    fn counted(ours: &Mux, theirs: &Mux, number: u32) -> Channel {
        let again = theirs.clone();
        let answer = move |bytes: Vec<u8>| {
            tokio::task::spawn_blocking(move || {
                let left = again.end_with(number, &[u8::try_from(bytes.len()).unwrap()]);
                tokio::spawn(async move { again.send(left).await });
            });
        };
        theirs.open_whole(number, 100, answer).expect("it is not open");
        ours.open(number).expect("it is not open")
    }

    #[tokio::test]
    async fn whole_streams_are_answered_at_once() {
        for room in [16, 4096] {
            let (ours, theirs) = connected(room);
            for (number, len) in (1..).zip([0, 1, 99, 100]) {
                let mut channel = counted(&ours, &theirs, number);
                channel.write_all(&vec![7; len]).await.unwrap();
                channel.shutdown().await.unwrap();
                let mut answer = Vec::new();
                channel.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, [len as u8], "{room}");
            }
            let mut channel = counted(&ours, &theirs, 9);
            channel.write_all(&[7; 101]).await.unwrap();
            assert_eq!(channel.read_u8().await.unwrap(), 101, "nobody waits for more");
        }
    }

    #[tokio::test]
    async fn whole_streams_are_answered_once_there_is_room() {
        let (ours, theirs) = connected(100);
        let (mut bulk, mut sink) = (theirs.open(50).unwrap(), ours.open(50).unwrap());
        let sending = tokio::spawn(async move { bulk.write_all(&vec![7; 1 << 20]).await });
        let mut channels: Vec<_> = (1..9).map(|no| counted(&ours, &theirs, no)).collect();
        for channel in &mut channels {
            channel.write_all(b"some").await.unwrap();
            channel.shutdown().await.unwrap();
        }
        let read = tokio::spawn(async move { sink.read_exact(&mut vec![0; 1 << 20]).await });
        for mut channel in channels {
            let mut answer = Vec::new();
            channel.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, [4]);
        }
        sending.await.unwrap().unwrap();
        read.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_whole_stream_that_does_not_come_is_closed_when_it_is_late() {
        let (_ours, theirs) = connected(100);
        let told = Arc::new(());
        let held = Arc::clone(&told);
        theirs.open_whole(3, 100, move |_| drop(held)).expect("it is not open");
        assert!(theirs.open(3).is_none());
        let _stream = theirs.open(4);
        theirs.channels().give_up(4);
        assert!(theirs.channels().close_late(Duration::from_secs(60)).is_empty());
        assert_eq!(theirs.channels().close_late(Duration::ZERO), [3]);
        assert_eq!((Arc::strong_count(&told), theirs.channels().count()), (1, 1));
        let held = Arc::clone(&told);
        theirs.open_whole(3, 100, move |_| drop(held)).expect("it is not open");
        theirs.channels().give_up(3);
        assert_eq!((Arc::strong_count(&told), theirs.channels().count()), (1, 1));
    }
}
