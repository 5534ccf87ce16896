//! Pulls from a server over a slow line: the queue that `--bwlimit auto` leaves, and the rate that a run notes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::common::server::Server;
use crate::common::{DELTIC, Run, World, noise};

/// Bytes a second that the line carries towards the client.
const LINE_RATE: f64 = 4e6;
/// Time of a byte on the line beside its time in the queue.
const LINE_DELAY: Duration = Duration::from_millis(15);
const PIECE_BYTES: usize = 4 << 10;
/// Most pieces in the queue: a quarter of a second.
const QUEUE_PIECES: usize = 256;
/// Bytes that wait in the socket before the queue.
const SOCKET_BYTES: usize = 64 << 10;

/// Bytes that came from the server, and the time of their arrival at the queue.
type Piece = (Instant, Vec<u8>);

/// A line to a server by real TCP. Bytes from the server wait in a long queue, as in the router of a slow line. A full
/// queue holds the server back.
struct SlowLine {
    /// `http://127.0.0.1:PORT`.
    url: String,
    /// Delays of pieces by the queue.
    delays: Arc<Mutex<Vec<Duration>>>,
}

impl SlowLine {
    fn to(server: &Server<'_>) -> Self {
        let to = server.url.split("://").nth(1).expect("it has one").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let delays = Arc::<Mutex<Vec<Duration>>>::default();
        let noted = Arc::clone(&delays);
        // The thread waits for clients until the test program ends.
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let far = TcpStream::connect(&to).expect("the server listens");
                sockopt::set_socket_recv_buffer_size(&far, SOCKET_BYTES).expect("it is a socket");
                carry(near, far, Arc::clone(&noted));
            }
        });
        let line = Self { url, delays };
        let whole = server.whole.replace(&server.url, &line.url);
        let login = server.deltic(&format!("login {whole}"));
        assert_eq!(login.code, Some(0), "{login:#?}");
        line.delays.lock().expect("no thread panicked").clear();
        line
    }

    /// Returns the median delay of a byte by the queue, from the second half of the bytes.
    fn median_delay(&self) -> Duration {
        let delays = self.delays.lock().expect("no thread panicked");
        let mut settled = delays[delays.len() / 2..].to_vec();
        settled.sort();
        settled[settled.len() / 2]
    }
}

/// Carries the bytes of a connection in threads.
fn carry(near: TcpStream, far: TcpStream, delays: Arc<Mutex<Vec<Duration>>>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("there are descriptors");
    let (mut from_client, mut to_server) = (clone(&near), clone(&far));
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    let (queue, queued) = sync_channel(QUEUE_PIECES);
    thread::spawn(move || fill_queue(far, &queue));
    thread::spawn(move || empty_queue(&queued, near, &delays));
}

/// Reads from the server as long as the queue has room.
fn fill_queue(mut far: TcpStream, queue: &SyncSender<Piece>) {
    let mut bytes = vec![0; PIECE_BYTES];
    while let Ok(len @ 1..) = far.read(&mut bytes) {
        if queue.send((Instant::now(), bytes[..len].to_vec())).is_err() {
            return;
        }
    }
}

/// Writes to the client at the rate of the line.
fn empty_queue(queued: &Receiver<Piece>, mut near: TcpStream, delays: &Mutex<Vec<Duration>>) {
    let mut free = Instant::now();
    for (arrived, bytes) in queued {
        let start = free.max(arrived);
        free = start + Duration::from_secs_f64(bytes.len() as f64 / LINE_RATE);
        thread::sleep((free + LINE_DELAY).saturating_duration_since(Instant::now()));
        if near.write_all(&bytes).is_err() {
            return;
        }
        delays.lock().expect("no thread panicked").push(start - arrived);
    }
    let _ = near.shutdown(std::net::Shutdown::Both);
}

fn pull(world: &World, line: &SlowLine, words: &str, to: &str) -> Run {
    let all = format!("sync -a --explain {words} {}/photos/ {to}/", line.url);
    let run = Run::of(&mut world.command(DELTIC, all.split_whitespace()));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words} {run:#?}");
    run
}

#[test]
fn a_gentle_pull_from_a_server_leaves_the_queue_of_a_slow_line_short() {
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("photos/noise", noise(4_000_000, 1));
    let [free, gentle] = ["", "--bwlimit=auto"].map(|words| {
        let line = SlowLine::to(&server);
        let to = format!("dst{}", words.len());
        let run = pull(&world, &line, words, &to);
        world.assert_same("photos", &to);
        let is_told = run.stdout.lines().any(|line| line.starts_with("Round trip: "));
        assert!(is_told || words.is_empty(), "{words} {run:#?}");
        line.median_delay()
    });
    assert!(free > Duration::from_millis(150), "without a limit the queue is long: {free:?}");
    assert!(gentle < free / 4, "{gentle:?} beside {free:?}");
}

#[test]
fn a_pull_notes_the_rate_of_its_link_for_later_pulls_from_the_server() {
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("photos/noise", noise(16_000_000, 1));
    let line = SlowLine::to(&server);
    for to in ["one", "two"] {
        let run = pull(&world, &line, "", to);
        let rate =
            run.stdout.lines().find_map(|line| line.strip_prefix("Measured rate of the link: "));
        let mbit = rate.and_then(|rate| rate.strip_suffix(" Mbit/s")?.parse::<f64>().ok());
        assert!(mbit.is_some_and(|mbit| (20.0..50.0).contains(&mbit)), "{rate:?} {run:#?}");
        assert_eq!(world.names(".cache/deltic/links-1").len(), 1, "{run:#?}");
    }
}
