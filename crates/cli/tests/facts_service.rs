//! Services that break off, talk nonsense, or lie. An ordinary user's sync asks one what btrfs keeps: whatever cannot
//! be an answer is none, and a service of somebody else is not asked. Root only.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::attrs::SOMEBODY;
use crate::common::limited::Limited;
use crate::common::service::as_somebody;
use crate::common::{
    DELTIC, Run, SHELL, World, at_once, btrfs_by, is_installed, noise, skip, wait_until,
};
use deltic_core::codec::Put;
use deltic_core::{StoredSums, SumKind};

/// Longer than a large file has to be; a hole, but for both ends.
const LEN: u64 = 33 << 20;
const HOT: usize = 300_000;
/// Memory of a run: facts of a million pieces take a third of it.
const MOST_BYTES: u64 = 256 << 20;
/// Time after which a run has waited for a service that does not answer.
const WAITED: Duration = Duration::from_secs(8);
/// Length of an answer at most.
const LONGEST: u32 = 2 << 20;

/// A question to a service: for extents, or for the sums of a part.
struct Question {
    len: u64,
    part: Option<Range<u64>>,
}

impl Question {
    /// The next one. Its descriptor is closed: nothing here is ever true.
    fn hear(mut stream: &UnixStream) -> io::Result<Self> {
        let mut words = [0; 9];
        stream.read_exact(&mut words)?;
        let [kind, len @ ..] = words;
        let len = u64::from_le_bytes(len);
        if kind == 1 {
            return Ok(Self { len, part: None });
        }
        let mut part = [[0; 8]; 2];
        stream.read_exact(part.as_flattened_mut())?;
        let [start, end] = part.map(u64::from_le_bytes);
        Ok(Self { len, part: Some(start..end) })
    }
}

/// Says something to a question; an error ends the conversation.
type Says = fn(&Question, &UnixStream) -> io::Result<()>;

/// Listens at `socket`. Counts the questions for extents, and those for sums.
fn listen(socket: &Path, says: Says) -> Arc<[AtomicUsize; 2]> {
    let listener = bind(socket);
    let asked = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counts = Arc::clone(&asked);
    // It ends with this process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counts = Arc::clone(&counts);
            thread::spawn(move || {
                while let Ok(question) = Question::hear(&stream) {
                    let count = &counts[usize::from(question.part.is_some())];
                    count.fetch_add(1, Ordering::Relaxed);
                    if says(&question, &stream).is_err() {
                        break;
                    }
                }
            });
        }
    });
    asked
}

fn bind(socket: &Path) -> UnixListener {
    let listener = UnixListener::bind(socket).expect("it is ours");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(socket, all).expect("it is ours");
    listener
}

/// Says so many bytes as an answer.
fn framed(mut stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&(bytes.len() as u32).to_le_bytes())?;
    stream.write_all(bytes)
}

/// Begins an answer of so many bytes, and never stops.
fn endless(mut stream: &UnixStream, len: u32, (bytes, pause): (usize, u64)) -> io::Result<()> {
    stream.write_all(&len.to_le_bytes())?;
    loop {
        stream.write_all(&vec![0; bytes])?;
        thread::sleep(Duration::from_millis(pause));
    }
}

/// Facts in the form in which a service tells them: a kind and a length for each part.
fn extents(parts: impl IntoIterator<Item = (u8, u64)>) -> Vec<u8> {
    let mut bytes = vec![1; 33];
    for (kind, len) in parts {
        bytes.put_u8(kind);
        bytes.put_varint(len);
    }
    bytes
}

const UNKNOWN: u8 = 0;
const ZERO: u8 = 1;

/// Sums of `kind` of a part, of blocks which all are known.
fn sums(kind: SumKind, block: u32, part: &Range<u64>) -> Vec<u8> {
    let mut sums = StoredSums::new(kind, block, part);
    let all = sums.range();
    sums.put_sums(
        all.start,
        &vec![7; ((all.end - all.start) / u64::from(block)) as usize * kind.bytes()],
    );
    sums.encode()
}

/// Sums of which one byte is another.
fn spoilt(part: &Range<u64>, at: usize, byte: u8) -> Vec<u8> {
    let mut told = sums(SumKind::Xxh64, 4096, part);
    told[at] = byte;
    told
}

/// Says `facts` to questions for extents, and the sums that `sums` gives of a part to the others.
fn either(
    (question, stream): (&Question, &UnixStream),
    facts: impl FnOnce(u64) -> Vec<u8>,
    sums: impl FnOnce(&Range<u64>) -> Vec<u8>,
) -> io::Result<()> {
    let told = question.part.as_ref().map_or_else(|| facts(question.len), sums);
    framed(stream, &told)
}

/// Whatever is no answer.
const NO_ANSWERS: [(&str, Says); 16] = [
    ("tells nothing", |_, stream| framed(stream, &[])),
    ("breaks off", |_, _| Err(io::ErrorKind::Other.into())),
    ("says anything", |_, mut stream| stream.write_all(&noise(100_000, 3))),
    ("says anything in the form of an answer", |_, stream| framed(stream, &noise(1000, 4))),
    ("breaks off within an answer", |_, mut stream| {
        stream.write_all(&[100, 0, 0, 0, 1, 1, 1])?;
        Err(io::ErrorKind::Other.into())
    }),
    ("never stops", |_, stream| endless(stream, LONGEST, (1 << 20, 0))),
    ("begins what is too long", |_, stream| endless(stream, u32::MAX, (1 << 20, 0))),
    ("takes an hour for an answer", |_, stream| endless(stream, LONGEST, (1, 2))),
    ("is silent", |_, _| {
        thread::sleep(Duration::from_secs(600));
        Ok(())
    }),
    ("tells of a longer file", |question, stream| {
        let part = |part: &Range<u64>| part.start..part.end + 4096;
        let sums = |told: &Range<u64>| sums(SumKind::Xxh64, 4096, &part(told));
        either((question, stream), |len| extents([(ZERO, len + 1)]), sums)
    }),
    ("tells of a shorter file", |question, stream| {
        let sums = |part: &Range<u64>| {
            let mut told = sums(SumKind::Xxh64, 4096, part);
            told.truncate(told.len() - 8);
            told
        };
        either((question, stream), |len| extents([(ZERO, len - 1)]), sums)
    }),
    ("tells of too many parts", |question, stream| {
        let parts = |len| {
            let short = (0..1_000_000).map(|no| ([ZERO, UNKNOWN][no % 2], 1));
            extents(short.chain([(ZERO, len - 1_000_000)]))
        };
        either((question, stream), parts, |part| sums(SumKind::Xxh64, 4096, &(0..part.end * 2)))
    }),
    ("tells of parts that are longer than any file", |question, stream| {
        let parts = |len| extents([(ZERO, u64::MAX), (UNKNOWN, 1 + len)]);
        either((question, stream), parts, |part| spoilt(part, 3, 0))
    }),
    ("tells of parts of no kind", |question, stream| {
        either((question, stream), |len| extents([(9, len)]), |part| spoilt(part, 6, 9))
    }),
    ("tells of parts without bytes", |question, stream| {
        let parts = |len| extents([(ZERO, len), (ZERO, 0)]);
        either((question, stream), parts, |part| sums(SumKind::Sha256, 4096, part))
    }),
    ("tells of longer blocks", |question, stream| {
        let parts = |_| extents([]);
        either((question, stream), parts, |part| sums(SumKind::Xxh64, 65_536, part))
    }),
];

/// Lets anybody write to a world and its disk.
fn open_to_all(world: &World) {
    for name in ["", "disk"] {
        world.chmod(name, 0o777);
    }
}

/// The file that is synced while a service of this number answers.
fn image(world: &World, no: usize) -> String {
    let name = format!("disk/s{no}/image");
    world.write(&name, noise(HOT, no as u64));
    let file = fs::File::options().write(true).open(world.path(&name)).expect("it is ours");
    file.set_len(LEN).expect("it is ours");
    file.write_all_at(&noise(HOT, 99), LEN - HOT as u64).expect("there is room");
    world.set_time(&name, 1_000_000_000);
    name
}

/// Runs `deltic` as somebody who asks the service of this number.
fn asks(world: &World, no: usize, words: &[&str]) -> Option<Run> {
    let limited = Limited::new("asks", MOST_BYTES)?;
    let mut enter = as_somebody(world, &format!("facts{no}"));
    enter.insert(1, format!("DELTIC_CACHE_DIR=cache{no}"));
    let group = limited.words();
    let all = group[1..].iter().chain(&enter).map(String::as_str).chain([DELTIC]);
    Some(Run::of(&mut world.command(&group[0], all.chain(words.iter().copied()))))
}

/// Syncs the file of this number to its place.
fn syncs(world: &World, no: usize) -> Option<Run> {
    let (from, to) = (format!("disk/s{no}/"), format!("h:disk/d{no}"));
    let words = ["sync", "-rtS", "--stats", "-e", SHELL, "--deltic-path", DELTIC];
    let words = [&words[..], &["--trust-sums", &from, &to]].concat();
    asks(world, no, &words)
}

/// Syncs and compares a file and what it becomes; all of it must be seen. False where no memory limit can be set.
fn ends_well(world: &World, no: usize, what: &str) -> bool {
    let name = image(world, no);
    let [from, to] = ['s', 'd'].map(|end| format!("disk/{end}{no}"));
    let begun = Instant::now();
    for time in 1..3 {
        let Some(run) = syncs(world, no) else { return false };
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{what} {run:#?}");
        assert!(world.read(&name) == world.read(format!("{to}/image")), "{what} {run:#?}");
        world.write_over(&name, &[time, LEN / 4096 - 2], 1_000_000_000 + time as i64);
        // It takes as long each time.
        if begun.elapsed() > WAITED {
            break;
        }
    }
    let compare = || asks(world, no, &["verify", "--trust-sums", &from, &to]).expect("as before");
    if begun.elapsed() < WAITED {
        let copied = fs::copy(world.path(format!("{to}/image")), world.path(&name));
        copied.expect("both are ours");
        let run = compare();
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{what} {run:#?}");
    }
    world.write_over(&name, &[LEN / 8192], 1_000_000_000);
    let run = compare();
    assert_eq!((run.code, run.lines()[0]), (Some(26), "content image"), "{what} {run:#?}");
    true
}

#[test]
fn a_malformed_answer_counts_as_none_and_ends_in_time() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    if !is_installed("setpriv") {
        return skip("setpriv is not installed");
    }
    open_to_all(&world);
    at_once(NO_ANSWERS.into_iter().enumerate(), |(no, (what, says))| {
        let asked = listen(&world.path(format!("facts{no}")), says);
        if ends_well(&world, no, what) {
            let asked = asked.each_ref().map(|count| count.load(Ordering::Relaxed));
            assert!(asked[0] > 0, "a service that {what} was asked {asked:?} questions");
            if asked[1] == 0 {
                skip("files tell their sums to everybody here");
            }
        }
    });
}

/// Both kinds of questions wait for the same service, and the second wait would be as long as the first.
#[test]
fn a_service_that_does_not_answer_is_asked_once_in_a_run() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    if !is_installed("setpriv") {
        return skip("setpriv is not installed");
    }
    open_to_all(&world);
    let asked = listen(&world.path("facts0"), |_, _| {
        thread::sleep(Duration::from_secs(600));
        Ok(())
    });
    let name = image(&world, 0);
    for copy in ["disk/d0/image", "disk/s0/second", "disk/d0/second"] {
        world.write(copy, world.read(&name));
        world.set_time(copy, 1_000_000_000);
    }
    let Some(run) = asks(&world, 0, &["verify", "--trust-sums", "disk/s0", "disk/d0"]) else {
        return;
    };
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    let asked = asked.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(asked.iter().sum::<usize>(), 1, "questions for extents, and for sums: {asked:?}");
}

/// A socket at which nobody takes the connections that wait, and no more of them may wait.
#[test]
fn a_service_that_hangs_holds_nobody_up() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    if !is_installed("setpriv") {
        return skip("setpriv is not installed");
    }
    open_to_all(&world);
    let socket = world.path("facts0");
    let listener = bind(&socket);
    rustix::net::listen(&listener, 0).expect("it listens");
    let _waits = UnixStream::connect(&socket).expect("one may wait");
    ends_well(&world, 0, "hangs");
}

/// Somebody's service, which always says that all is as it was; it prints a line for each question.
struct Liar(Child);

impl Liar {
    fn start(world: &World, socket: &str, user: u32) -> Self {
        const PROGRAM: &str = "
import os, socket, sys, threading
def varint(number):
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
server.listen()
def converse(heard):
    while question := heard.recv(9):
        print('asked', flush=True)
        answer = b''
        if question[0] == 1:
            length = varint(int.from_bytes(question[1:], 'little'))
            answer = bytes([1] * 33 + [2]) + length + bytes(4)
        else:
            heard.recv(16)
        heard.sendall(len(answer).to_bytes(4, 'little') + answer)
while True:
    threading.Thread(target=converse, args=[server.accept()[0]]).start()
";
        let log = fs::File::create(world.path(format!("{socket}.log"))).expect("it is ours");
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).arg(world.path(socket)).arg(user.to_string());
        command.stdin(Stdio::null()).stdout(log);
        let liar = Self(command.spawn().expect("it starts"));
        wait_until("it listens", || UnixStream::connect(world.path(socket)).is_ok());
        liar
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The superuser's word and one's own count as the kernel's does. Anybody else's would make a wrong file.
#[test]
fn a_service_of_somebody_else_is_not_asked() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    if !is_installed("setpriv") || !is_installed("python3") {
        return skip("setpriv or python3 is not installed");
    }
    open_to_all(&world);
    for (no, (user, counts)) in [(0, true), (SOMEBODY, true), (1234, false)].into_iter().enumerate()
    {
        let name = image(&world, no);
        let _liar = Liar::start(&world, &format!("facts{no}"), user);
        for time in 1..3 {
            let Some(run) = syncs(&world, no) else { return };
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{user} {run:#?}");
            let is_same = world.read(&name) == world.read(format!("disk/d{no}/image"));
            assert_eq!(is_same, time == 1 || !counts, "{user} {run:#?}");
            world.write_over(&name, &[time], 1_000_000_000 + time as i64);
        }
        let asked = world.read(format!("facts{no}.log"));
        assert_eq!(!asked.is_empty(), counts, "{user}");
    }
}
