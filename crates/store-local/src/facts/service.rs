//! A service that queries a file system on behalf of other processes. The service holds the capability that clients
//! lack, and answers for files that a client has open for reading.
//!
//! A request is nine bytes, sent with a file descriptor: the kind of fact (one byte) and the length of the file. In a
//! request for checksums, sixteen bytes follow: start and end of the range. An answer is a length of four bytes, then
//! so many bytes. The length is 0 if the fact cannot be told.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use std::{env, thread as threads};

use deltic_core::StoredSums;
use deltic_store::Extents;
use rustix::fs::{self, FileType, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    sockopt,
};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use super::search::By;
use super::{btrfs, ioctl, sums};
use crate::kernel::lock;
use crate::kernel::system::{BTRFS, kind_of};

/// Returns the path at which the service listens: that in `DELTIC_FACTS_SOCKET`, or a default path.
#[must_use]
pub fn socket() -> PathBuf {
    env::var_os("DELTIC_FACTS_SOCKET").map_or_else(|| SOCKET.into(), PathBuf::from)
}

const SOCKET: &str = "/run/deltic/facts.sock";

/// Connections of stores to the service, which are opened at the first question.
#[derive(Debug, Default)]
pub(crate) struct FactsClient {
    /// One connection for extents and one for checksums: a service of an older version closes the connection at a
    /// question for checksums.
    connections: Mutex<[Connection; 2]>,
    has_answered: AtomicBool,
}

impl FactsClient {
    /// Returns the client of this process. All stores share the client, so a service that does not answer costs a run
    /// only one wait.
    pub(crate) fn of_process() -> Arc<Self> {
        static CLIENT: LazyLock<Arc<FactsClient>> = LazyLock::new(Arc::default);
        Arc::clone(&CLIENT)
    }

    /// Asks the service for the extents of a file that is open for reading. `None` if there is no service, or the
    /// service does not know.
    pub(super) fn ask_extents(&self, file: BorrowedFd<'_>, len: u64) -> Option<Extents> {
        // This process writes its dirty pages itself, so that a hanging disk blocks no other client.
        ioctl::flush(file).ok()?;
        let answer = self.ask(&Question { len, fact: Fact::Extents }, file)?;
        Extents::decode(&answer).filter(|extents| extents.len() == len)
    }

    /// Asks the service for the checksums of a range of a file that is open for reading. `None` if there is no service,
    /// or the service does not know.
    pub(super) fn ask_sums(
        &self,
        file: BorrowedFd<'_>,
        part: &Range<u64>,
        len: u64,
    ) -> Option<StoredSums> {
        ioctl::flush(file).ok()?;
        let (mut at, end) = (part.start, part.end.min(len));
        let mut told: Option<StoredSums> = None;
        while at < end {
            let next = (at / SUMS_OF_BYTES + 1).saturating_mul(SUMS_OF_BYTES).min(end);
            let question = Question { len, fact: Fact::Sums(at..next) };
            let answer = self.ask(&question, file)?;
            let sums = StoredSums::decode(&answer, &(at..next))?;
            told = Some(match told {
                Some(before) => before.followed_by(&sums)?,
                None => sums,
            });
            at = next;
        }
        told
    }

    /// True if the service answered a question.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    fn ask(&self, question: &Question, file: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let mut connections = lock(&self.connections);
        let kind = usize::from(matches!(question.fact, Fact::Sums(_)));
        let error = loop {
            let (stream, was_open) = match &connections[kind] {
                Connection::Lost(since) if since.elapsed() < AWAY_FOR => return None,
                Connection::Silent(socket) if *socket == ListeningSocket::of_present_socket() => {
                    return None;
                }
                Connection::Open(stream) => (stream.try_clone(), true),
                _ => (connect(&socket()), false),
            };
            let told = stream.and_then(|stream| {
                question.send_question(&stream, file)?;
                Ok((receive_answer(&stream)?, stream))
            });
            match told {
                Ok((bytes, stream)) => {
                    connections[kind] = Connection::Open(stream);
                    self.has_answered.store(true, Ordering::Relaxed);
                    return Some(bytes);
                }
                // The service closes a connection after a long idle time.
                Err(error) if was_open && !is_timeout(&error) => {
                    connections[kind] = Connection::New;
                }
                Err(error) => break error,
            }
        };
        match is_timeout(&error) {
            // Each further question would wait again.
            true => {
                *connections =
                    [(); 2].map(|()| Connection::Silent(ListeningSocket::of_present_socket()))
            }
            false => connections[kind] = Connection::Lost(Instant::now()),
        }
        None
    }
}

#[derive(Debug, Default)]
enum Connection {
    #[default]
    New,
    Open(UnixStream),
    /// No service was there, or the service closed the connection, at this instant.
    Lost(Instant),
    /// The service at this socket did not answer in time, and gets no further requests.
    Silent(Option<ListeningSocket>),
}

/// Identity of a socket in the file system. A restarted service has another socket.
#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket {
    inode: (u64, u64),
    changed: (i64, u64),
}

impl ListeningSocket {
    /// Returns the identity of the present socket.
    #[expect(clippy::disallowed_methods, reason = "the path of the service is below no root")]
    fn of_present_socket() -> Option<Self> {
        let stat = fs::stat(socket()).ok()?;
        let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as u64);
        Some(Self { inode: (stat.st_dev, stat.st_ino), changed })
    }
}

/// True for timeouts.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Connects to the service. Fails with `EPERM` unless the service runs as the superuser or as this user, since answers
/// of other users cannot be trusted.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A service that accepts no connections would keep a client waiting too.
    sockopt::set_socket_timeout(&stream, Timeout::Send, Some(ANSWERS_WITHIN))?;
    net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(stream);
    let owner = sockopt::socket_peercred(&stream)?.uid;
    if !owner.is_root() && owner != rustix::process::geteuid() {
        return Err(Errno::PERM.into());
    }
    Ok(stream)
}

/// A question about a file of `len` bytes.
struct Question {
    len: u64,
    fact: Fact,
}

enum Fact {
    Extents,
    /// Checksums of a range, which is not longer than [`SUMS_OF_BYTES`].
    Sums(Range<u64>),
}

impl Question {
    fn send_question(&self, mut stream: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
        let (kind, part) = match &self.fact {
            Fact::Extents => (EXTENTS, vec![]),
            Fact::Sums(part) => (SUMS, [part.start, part.end].map(u64::to_le_bytes).concat()),
        };
        let mut words = [kind; QUESTION_BYTES];
        words[1..].copy_from_slice(&self.len.to_le_bytes());
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut along, files) = (SendAncillaryBuffer::new(&mut room), [file]);
        along.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(stream, &[IoSlice::new(&words)], &mut along, SendFlags::NOSIGNAL)?;
        if sent < words.len() {
            return Err(Errno::MSGSIZE.into());
        }
        stream.write_all(&part)
    }

    /// Receives the next question with its file; `None` at the end of the stream.
    fn receive_question(mut stream: &UnixStream) -> io::Result<Option<(Self, OwnedFd)>> {
        let mut words = [0; QUESTION_BYTES];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let heard = recvmsg(stream, &mut [IoSliceMut::new(&mut words)], &mut along, flags)?;
        let mut files = along.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file = match (heard.bytes, files.next().and_then(|mut files| files.next())) {
            (0, None) => return Ok(None),
            (QUESTION_BYTES, Some(file)) => file,
            _ => return Err(Errno::BADMSG.into()),
        };
        let [kind, len @ ..] = words;
        let fact = match kind {
            EXTENTS => Fact::Extents,
            SUMS => {
                let mut part = [[0; 8]; 2];
                stream.read_exact(part.as_flattened_mut())?;
                let [start, end] = part.map(u64::from_le_bytes);
                let is_short = end.checked_sub(start).is_some_and(|len| len <= SUMS_OF_BYTES);
                Fact::Sums(is_short.then_some(start..end).ok_or(Errno::BADMSG)?)
            }
            _ => return Err(Errno::NOSYS.into()),
        };
        Ok(Some((Self { len: u64::from_le_bytes(len), fact }, file)))
    }

    /// Returns the bytes of the answer; `None` if the fact is unknown.
    fn answer_bytes(&self, file: BorrowedFd<'_>, by: By) -> Option<Vec<u8>> {
        // The checksum of the last sector also covers bytes behind the end, which the client may not read.
        let is_len = u64::try_from(fs::fstat(file).ok()?.st_size) == Ok(self.len);
        let is_within = match &self.fact {
            Fact::Extents => true,
            Fact::Sums(part) => part.end <= self.len,
        };
        (is_len && is_within).then_some(())?;
        let bytes = match &self.fact {
            Fact::Extents => btrfs::extents(file, self.len, by).ok().flatten()?.encode(),
            Fact::Sums(part) => sums::file_sums(file, part, self.len, by).ok().flatten()?.encode(),
        };
        (bytes.len() <= MAX_ANSWER_BYTES).then_some(bytes)
    }
}

fn receive_answer(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let (mut len, end) = ([0; 4], Instant::now() + ANSWERS_WITHIN);
    read_until(stream, &mut len, end)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_ANSWER_BYTES {
        return Err(Errno::MSGSIZE.into());
    }
    let mut bytes = vec![0; len];
    read_until(stream, &mut bytes, end)?;
    Ok(bytes)
}

/// Fills `room` by the time `end`, however slowly bytes arrive.
fn read_until(mut stream: &UnixStream, mut room: &mut [u8], end: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Errno::TIMEDOUT.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(heard) => room = &mut room[heard..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Drops all capabilities of this process except `CAP_SYS_ADMIN`, which answers need.
///
/// # Errors
/// If the process lacks that capability.
pub fn keep_one_right() -> io::Result<()> {
    let (only, none) = (CapabilitySet::SYS_ADMIN, CapabilitySet::empty());
    let sets = CapabilitySets { effective: only, permitted: only, inheritable: none };
    thread::set_no_new_privs(true)?;
    Ok(thread::set_capabilities(None, sets)?)
}

/// Answers each client that connects, until the process ends.
///
/// # Errors
/// If no more connections can be accepted.
pub fn serve(listener: &UnixListener) -> io::Result<Infallible> {
    let users: Arc<Mutex<HashMap<u32, usize>>> = Arc::default();
    let turns: Arc<Mutex<()>> = Arc::default();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The descriptor is not a listening socket.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            // Too many descriptors are open, or the client closed the connection.
            Err(_) => {
                threads::sleep(TURN_PAUSE);
                continue;
            }
        };
        let Ok(peer) = sockopt::socket_peercred(&stream) else { continue };
        let Some(seat) = ClientConnection::count_client(&users, peer.uid.as_raw()) else {
            continue;
        };
        let turns = Arc::clone(&turns);
        let begun = threads::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let _seat = seat;
            // The connection of a client that breaks off or sends an invalid question is closed.
            let _ = serve_client(&stream, &turns);
        });
        drop(begun);
    }
}

/// A connection of a client, which counts for the client's user.
struct ClientConnection {
    users: Arc<Mutex<HashMap<u32, usize>>>,
    user: u32,
}

impl ClientConnection {
    fn count_client(users: &Arc<Mutex<HashMap<u32, usize>>>, user: u32) -> Option<Self> {
        let mut taken = lock(users);
        let all: usize = taken.values().sum();
        let own = taken.entry(user).or_default();
        if all >= MAX_CONNECTIONS || *own >= MAX_OF_USER {
            return None;
        }
        *own += 1;
        Some(Self { users: Arc::clone(users), user })
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let mut taken = lock(&self.users);
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

fn serve_client(stream: &UnixStream, turns: &Mutex<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_FOR))?;
    stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
    while let Some((question, file)) = Question::receive_question(stream)? {
        check_readable(&file)?;
        // Checked before the turn, so that a slow disk, or a FUSE file system of the client, blocks no other client.
        if kind_of(&file)? != BTRFS {
            return Err(Errno::OPNOTSUPP.into());
        }
        ioctl::flush(file.as_fd())?;
        let told = wait_for_turn(turns).and_then(|_turn| {
            let by = By::Service(Instant::now() + TURN_FOR);
            question.answer_bytes(file.as_fd(), by)
        });
        drop(file);
        send_answer(stream, &told.unwrap_or_default())?;
    }
    Ok(())
}

/// Waits for the turn to query a file system. `None` if other clients take too long. Only one client has the turn at a
/// time, since the facts of a file in a million pieces take memory.
fn wait_for_turn(turns: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    let begun = Instant::now();
    while begun.elapsed() < TURN_WITHIN {
        match turns.try_lock() {
            Ok(turn) => return Some(turn),
            Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => threads::sleep(TURN_PAUSE),
        }
    }
    None
}

/// Sends an answer. Fails if the client does not read the answer in time.
fn send_answer(mut stream: &UnixStream, answer: &[u8]) -> io::Result<()> {
    let begun = Instant::now();
    stream.write_all(&(answer.len() as u32).to_le_bytes())?;
    for piece in answer.chunks(64 << 10) {
        if begun.elapsed() > ANSWERS_WITHIN {
            return Err(Errno::TIMEDOUT.into());
        }
        stream.write_all(piece)?;
    }
    Ok(())
}

/// Refuses a file that the client could not read: `O_PATH` descriptors, files that are open only for writing, and files
/// of other types.
fn check_readable(file: &OwnedFd) -> io::Result<()> {
    let flags = fs::fcntl_getfl(file)?;
    let is_readable = !flags.intersects(OFlags::PATH) && flags & OFlags::RWMODE != OFlags::WRONLY;
    let is_file = FileType::from_raw_mode(fs::fstat(file)?.st_mode) == FileType::RegularFile;
    if is_readable && is_file { Ok(()) } else { Err(Errno::ACCESS.into()) }
}

/// Kind of a question for extents.
const EXTENTS: u8 = 1;
/// Kind of a question for checksums.
const SUMS: u8 = 2;
/// Longest range in bytes of a question for checksums. The longest kind of checksums takes half a megabyte for such a
/// range.
const SUMS_OF_BYTES: u64 = 64 << 20;
const QUESTION_BYTES: usize = 9;
/// Longest answer in bytes: room for facts in some hundred thousand pieces.
const MAX_ANSWER_BYTES: usize = 2 << 20;
/// Time after which a service that was missing is tried again.
const AWAY_FOR: Duration = Duration::from_secs(60);
/// Longest duration of a turn. The last call of the turn may take longer.
const TURN_FOR: Duration = Duration::from_secs(1);
const TURN_WITHIN: Duration = Duration::from_secs(3);
const TURN_PAUSE: Duration = Duration::from_millis(5);
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const IDLE_FOR: Duration = Duration::from_secs(60);
const MAX_CONNECTIONS: usize = 64;
/// Most connections of a user. A context of stores has at most two connections.
const MAX_OF_USER: usize = 16;
const STACK_BYTES: usize = 256 << 10;
