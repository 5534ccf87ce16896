//! Further streams of a session: remote shells whose agents connect to the first agent (docs/protocol.md, "Several
//! streams").
//!
//! The serving end opens a [`JoinSocket`], a socket that programs of other users cannot reach, and names the socket in its
//! reply. The connecting end starts `deltic agent --join` more times over the remote shell. Each of these agents
//! [relays](relay) between its standard streams and the socket. Streams are attached while the session goes on.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, copy_buf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use deltic_protocol::Terms;
use deltic_protocol::streams::{JOIN_MAGIC, JOINED, Join, TOKEN_BYTES, Token};

use crate::error::{ReadEnd, SyncError};
use crate::greeting::Role;
use crate::monitor::Stage;
use crate::plan::Remote;
use crate::transport::{
    Flow, Frames, Heard, Link, Part, Reader, Stream, Writer, exit_error, read_frames, spawn,
    standard_input, standard_output, start_writer,
};

/// Longest time for streams to join. The session goes on without streams that join later.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before the session hears of streams that did not join. A session that ends within this time admits no streams,
/// and needs no message.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time for a connection to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Most connections that are checked at once.
const MAX_KNOCKING: usize = 16;
/// Time between two checks for new connections. (An event would need another dependency.)
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes that a relay moves at once.
const RELAY_BYTES: usize = 256 << 10;
/// Longest time for a remote shell to exit after its stream has ended.
const SHELL_TIMEOUT: Duration = Duration::from_secs(2);

/// A change of the streams, for the running session.
pub(crate) enum News {
    /// A further stream to send frames on.
    Outlet(mpsc::Sender<Vec<u8>>),
    /// Some streams did not join, for the given reason.
    Fewer(String),
}

/// Ways in which further streams join a session.
pub(crate) enum Joining {
    /// No further streams.
    Nobody,
    /// The other end opens the streams through this door.
    Answer(JoinSocket),
    /// This end opens `more` streams, once the other end has named the socket.
    Dial { remote: Remote, host: String, told: oneshot::Receiver<(Terms, Option<Join>)>, more: u32 },
}

impl Joining {
    /// Lets streams join until all streams have joined, or the time is over.
    pub(crate) async fn let_streams_join(self, joined: Joined) {
        match self {
            Self::Nobody => {}
            Self::Answer(door) => door.admit_connections(&joined).await,
            Self::Dial { remote, host, told, more } => {
                let join = match told.await {
                    Ok((_, Some(join))) => join,
                    Ok((terms, None)) => {
                        return joined.send_news(News::Fewer(no_socket_reason(terms)));
                    }
                    // The session has ended.
                    Err(_) => return,
                };
                let mut dials = JoinSet::new();
                for _ in 0..more {
                    let (remote, host, flow) = (remote.clone(), host.clone(), joined.flow.clone());
                    dials.spawn(dial_stream(remote, host, join.encode(), flow));
                }
                if let Some((failed, why)) = attach_all(&mut dials, &joined).await {
                    let message = format!(
                        "{failed} of {more} further streams did not start ({why}); the run continues with the others"
                    );
                    sleep(END_TIMEOUT).await;
                    joined.send_news(News::Fewer(message));
                }
            }
        }
    }
}

/// Returns the reason why the other end opened no socket.
fn no_socket_reason(terms: Terms) -> String {
    if terms.link.streams {
        "the other end cannot create a socket: only one stream is used".into()
    } else {
        "the other end supports only one stream".into()
    }
}

/// Runs `session` to its end, and `aside` at the same time.
pub(crate) async fn run_with_aside<T>(
    session: impl Future<Output = T>,
    aside: impl Future<Output = ()>,
) -> T {
    tokio::pin!(session);
    tokio::select! {
        biased;
        result = &mut session => return result,
        () = aside => {}
    }
    session.await
}

/// Attaches the streams that join. If any failed, returns the number of failed streams and the reason of the last
/// failure.
async fn attach_all(
    dials: &mut JoinSet<Result<Link, String>>,
    joined: &Joined,
) -> Option<(usize, String)> {
    let (deadline, mut failed) = (Instant::now() + JOIN_TIMEOUT, None);
    loop {
        let left = dials.len();
        let why = match timeout_at(deadline, dials.join_next()).await {
            Ok(None) => return failed,
            Ok(Some(Ok(Ok(link)))) => {
                joined.attach_stream(link, b"");
                continue;
            }
            Ok(Some(Ok(Err(why)))) => why,
            Ok(Some(Err(error))) => error.to_string(),
            Err(_) => {
                let before = failed.map_or(0, |(failed, _)| failed);
                let why = format!("no answer within {} s", JOIN_TIMEOUT.as_secs());
                return Some((before + left, why));
            }
        };
        failed = Some((failed.map_or(1, |(failed, _)| failed + 1), why));
    }
}

/// Starts another remote shell, and joins the session through it.
async fn dial_stream(
    remote: Remote,
    host: String,
    ticket: Vec<u8>,
    flow: Flow,
) -> Result<Link, String> {
    let mut link = spawn(&remote, &host, Part::Further).map_err(|error| error.to_string())?;
    let mut heard = [0; JOINED.len()];
    // A refused stream ends. The exit status of the shell explains more than the failed write.
    let said = link.writer.write_all(&ticket).await;
    let flushed = if said.is_ok() { link.writer.flush().await } else { said };
    let read = link.reader.read_exact(&mut heard).await;
    match read {
        Ok(_) if heard == JOINED && flushed.is_ok() => {
            flow.counters.count_sent(ticket.len());
            flow.counters.count_received(heard.len());
            Ok(link)
        }
        Ok(_) => Err("the started program is not deltic".into()),
        Err(_) => {
            // The remote program may wait for input.
            drop(link.writer);
            let error = exit_error(&link.child.into(), Heard::Nothing).await;
            Err(error.map_or_else(
                || "the other end refused the stream".into(),
                |error| error.to_string(),
            ))
        }
    }
}

/// State that the streams of a session share.
#[derive(Clone)]
pub(crate) struct Joined {
    pub(crate) role: Role,
    pub(crate) frames: Frames,
    pub(crate) news: mpsc::Sender<News>,
    pub(crate) flow: Flow,
    /// Closed when all streams are closed.
    pub(crate) open: mpsc::Sender<()>,
}

impl Joined {
    fn send_news(&self, news: News) {
        // The receiver is gone if the session has ended.
        self.news.try_send(news).ok();
    }

    /// Makes a stream a part of the session. Sends `opening` first.
    fn attach_stream(&self, link: Link, opening: &'static [u8]) {
        let Link { reader, writer, child } = link;
        let writer = Writer::Stream(writer);
        let (batches, writing) = start_writer(writer, &self.flow, Stream::Further, opening);
        // A receiver sends nothing on a further stream, but holds the stream open until the other end closes.
        let kept = match self.role {
            Role::Sends => {
                self.send_news(News::Outlet(batches));
                None
            }
            Role::Receives => Some(batches),
        };
        let Self { frames, flow, open, .. } = self.clone();
        tokio::spawn(async move {
            let heard = async {
                let reading =
                    read_frames(Reader::Stream(reader).into(), &frames, &flow, Stream::Further);
                flow.monitor.clone().charge_future(Stage::Wire, reading).await;
                drop(kept);
            };
            let said = async {
                if let Ok(Err(_)) = writing.await {
                    frames.send(vec![Err(ReadEnd::Lost)]).await.ok();
                }
            };
            tokio::join!(heard, said);
            drop(frames);
            if let Some(mut child) = child {
                timeout(SHELL_TIMEOUT, child.wait()).await.ok();
            }
            drop(open);
        });
    }
}

/// A socket for further streams of a session. Dropping the value closes and removes the socket.
pub(crate) struct JoinSocket {
    listener: UnixListener,
    join: Join,
    more: usize,
    /// Dropped last, to remove the socket.
    _place: Place,
}

impl JoinSocket {
    /// Opens a door for `more` further streams, in the first of `dirs` in which a socket can be made.
    pub(crate) fn open(dirs: &[PathBuf], more: u32) -> Option<Self> {
        let (listener, place) = dirs.iter().find_map(|dir| Place::listen(dir).ok())?;
        let mut token = [0; TOKEN_BYTES];
        getrandom::fill(&mut token).ok()?;
        let socket = place.socket().as_os_str().as_bytes().into();
        let join = Join::new(Token::from_bytes(token), socket)?;
        Some(Self { listener, join, more: more as usize, _place: place })
    }

    /// Returns the ticket with which the other end joins.
    pub(crate) const fn join(&self) -> &Join {
        &self.join
    }

    /// Admits connections that send the token, up to the agreed number.
    async fn admit_connections(self, joined: &Joined) {
        let (deadline, mut admitted) = (Instant::now() + JOIN_TIMEOUT, 0);
        let mut knocking = JoinSet::new();
        while admitted < self.more && Instant::now() < deadline {
            while knocking.len() < MAX_KNOCKING
                && let Ok((socket, _)) = self.listener.accept()
            {
                let checked = timeout(TOKEN_TIMEOUT, check_token(socket, self.join.token));
                knocking.spawn(checked);
            }
            while admitted < self.more
                && let Some(checked) = knocking.try_join_next()
            {
                if let Ok(Ok(Some(link))) = checked {
                    joined.attach_stream(link, &JOINED);
                    admitted += 1;
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Checks the token of a connection. Returns the connection if the token is right.
async fn check_token(socket: UnixStream, token: Token) -> Option<Link> {
    let mut link = split_socket(socket).ok()?;
    let mut said = [0; JOIN_MAGIC.len() + TOKEN_BYTES];
    link.reader.read_exact(&mut said).await.ok()?;
    let (magic, theirs) = said.split_last_chunk::<TOKEN_BYTES>()?;
    (magic == JOIN_MAGIC && Token::from_bytes(*theirs) == token).then_some(link)
}

/// A private directory with a socket. Both are removed when the value is dropped.
struct Place(PathBuf);

impl Place {
    fn listen(dir: &Path) -> io::Result<(UnixListener, Self)> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let name = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let dir = dir.join(format!("deltic-{name}"));
        #[expect(
            clippy::disallowed_methods,
            clippy::disallowed_types,
            reason = "a socket is in no tree"
        )]
        std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let place = Self(dir);
        let listener = UnixListener::bind(place.socket())?;
        listener.set_nonblocking(true)?;
        Ok((listener, place))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("join")
    }
}

impl Drop for Place {
    #[expect(clippy::disallowed_methods, reason = "a socket is in no tree")]
    fn drop(&mut self) {
        // A socket that cannot be removed is private, and harms nobody.
        std::fs::remove_file(self.socket()).ok();
        std::fs::remove_dir(&self.0).ok();
    }
}

/// Connects this process's standard streams to a session on this machine, which the ticket of the connecting end names.
pub(crate) async fn relay() -> Result<(), SyncError> {
    let refused = || SyncError::Refused("no session on this machine waits for this stream".into());
    let mut input = BufReader::with_capacity(RELAY_BYTES, standard_input());
    let ticket = timeout(JOIN_TIMEOUT, receive_ticket(&mut input)).await;
    let join = ticket.ok().and_then(Result::ok).flatten().ok_or_else(refused)?;
    let socket = UnixStream::connect(OsStr::from_bytes(&join.socket)).map_err(|_| refused())?;
    let failed = |source| SyncError::Transport { action: "relay a stream", source };
    let Link { reader, mut writer, .. } = split_socket(socket).map_err(failed)?;
    writer.write_all(&join.join_bytes()).await.map_err(|_| refused())?;
    // This task ends with the process, after the session has sent its last byte.
    tokio::spawn(async move {
        copy_buf(&mut input, &mut writer).await.ok();
        writer.shutdown().await.ok();
    });
    let mut output = standard_output();
    let mut reader = BufReader::with_capacity(RELAY_BYTES, reader);
    let relayed = copy_buf(&mut reader, &mut output).await.map_err(failed)?;
    if relayed == 0 { Err(refused()) } else { Ok(()) }
}

/// Reads the ticket of a connecting end. Returns `None` for other bytes.
async fn receive_ticket(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Join>> {
    let (mut magic, mut token) = ([0; JOIN_MAGIC.len()], [0; TOKEN_BYTES]);
    input.read_exact(&mut magic).await?;
    if magic != JOIN_MAGIC {
        return Ok(None);
    }
    input.read_exact(&mut token).await?;
    let mut socket = vec![0; input.read_u8().await?.into()];
    input.read_exact(&mut socket).await?;
    Ok(Join::new(Token::from_bytes(token), socket.into()))
}

/// Returns both directions of a connected socket. Without another dependency, the runtime can wait only for pipes of
/// child processes; a socket can be handled like such a pipe.
fn split_socket(socket: UnixStream) -> io::Result<Link> {
    let from = std::process::ChildStdout::from(OwnedFd::from(socket.try_clone()?));
    let to = std::process::ChildStdin::from(OwnedFd::from(socket.try_clone()?));
    let writer = SocketWriter { pipe: ChildStdin::from_std(to)?, socket };
    Ok(Link {
        reader: Box::new(ChildStdout::from_std(from)?),
        writer: Box::new(writer),
        child: None,
    })
}

/// The writing side of a socket. Dropping the pipe does not close the socket, because the reading side may still be
/// open.
struct SocketWriter {
    pipe: ChildStdin,
    socket: UnixStream,
}

impl AsyncWrite for SocketWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(std::net::Shutdown::Write))
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        // Fails if the other end has closed the socket, which is then shut down already.
        self.socket.shutdown(std::net::Shutdown::Write).ok();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the socket's own directory is looked at")]
mod tests {
    use super::*;
    use crate::config::SessionConfig;
    use crate::task::Task;
    use crate::transport::{Reading, start_reader};
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;

    /// A session's shared state, and the receivers of its news.
    struct Attached {
        joined: Joined,
        _frames: mpsc::Receiver<Reading>,
        _reading: Task<()>,
        news: mpsc::Receiver<News>,
        closed: mpsc::Receiver<()>,
    }

    fn attached() -> Attached {
        let flow = Flow::new(&SessionConfig::default());
        let (frames, taken, reading) =
            start_reader(Reader::Stream(Box::new(tokio::io::empty())).into(), &flow, Heard::Hello);
        let ((tell, news), (open, closed)) = (mpsc::channel(16), mpsc::channel(1));
        let joined = Joined { role: Role::Sends, frames, news: tell, flow, open };
        Attached { joined, _frames: taken, _reading: reading, news, closed }
    }

    fn door(more: u32) -> (tempfile::TempDir, JoinSocket) {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let door = JoinSocket::open(&[missing, dir.path().into()], more).unwrap();
        (dir, door)
    }

    /// Sends `said` to the door. Returns the bytes received until the door answers or closes.
    fn send_to_socket(join: &Join, said: Vec<u8>) -> std::thread::JoinHandle<Vec<u8>> {
        let socket = UnixStream::connect(OsStr::from_bytes(&join.socket)).unwrap();
        std::thread::spawn(move || {
            (&socket).write_all(&said).unwrap();
            let mut heard = Vec::new();
            // The door may reset a connection that is closed with unread bytes.
            (&socket).take(JOINED.len() as u64).read_to_end(&mut heard).ok();
            heard
        })
    }

    #[tokio::test]
    async fn a_door_is_private_and_leaves_nothing_behind() {
        let (dir, door) = door(1);
        let place = Path::new(OsStr::from_bytes(&door.join.socket)).parent().unwrap().to_owned();
        assert_eq!(std::fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
        drop(door);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn only_the_token_opens_and_only_as_often_as_was_agreed() {
        let (dir, door) = door(2);
        let join = door.join().clone();
        let mut wrong = join.join_bytes();
        wrong[JOIN_MAGIC.len() + TOKEN_BYTES - 1] ^= 1;
        let mut other = join.join_bytes();
        other[0] ^= 1;
        let refused = [send_to_socket(&join, wrong), send_to_socket(&join, other)];
        let mut session = attached();
        let joined = session.joined.clone();
        let admitting = tokio::spawn(async move { door.admit_connections(&joined).await });
        for refused in refused {
            let heard = tokio::task::spawn_blocking(|| refused.join().unwrap()).await.unwrap();
            assert_eq!(heard, b"");
        }
        let known: Vec<_> = (0..3).map(|_| send_to_socket(&join, join.join_bytes())).collect();
        admitting.await.unwrap();
        let mut admitted = 0;
        for knocked in known {
            let heard = tokio::task::spawn_blocking(|| knocked.join().unwrap()).await.unwrap();
            admitted += usize::from(heard == JOINED);
        }
        assert_eq!(admitted, 2);
        let mut outlets = 0;
        while let Ok(News::Outlet(_)) = session.news.try_recv() {
            outlets += 1;
        }
        assert_eq!(outlets, 2);
        assert!(UnixStream::connect(OsStr::from_bytes(&join.socket)).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        drop(session.joined);
        // Every joined stream has ended by now.
        assert_eq!(session.closed.recv().await, None);
    }

    #[tokio::test]
    async fn a_ticket_is_heard_as_it_was_written() {
        let token = Token::from_bytes([9; TOKEN_BYTES]);
        let join = Join::new(token, b"/run/deltic/join"[..].into()).unwrap();
        let hear = async |bytes: &[u8]| receive_ticket(&mut &*bytes).await.ok().flatten();
        assert_eq!(hear(&join.encode()).await, Some(join.clone()));
        assert_eq!(hear(b"deltic/1 and something else").await, None);
        assert_eq!(hear(&join.encode()[..56]).await, None);
        let nowhere = [&join.join_bytes()[..], &[0]].concat();
        assert_eq!(hear(&nowhere).await, None);
    }
}
