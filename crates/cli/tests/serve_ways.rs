//! Ways to a server that cut WebSockets, or connections: a sync gets there all the same.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::common::dice::Dice;
use crate::common::server::Server;
use crate::common::{Run, World, at_once, edited, noise};

/// Harm that something on the way does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    /// Answers a request for a WebSocket itself.
    Answers(&'static str),
    /// Lets it through, and ends the connection behind it.
    Closes,
    /// Ends the connection without an answer.
    Hangs,
    /// Ends each connection, of the first ones, after so many bytes that went up or down.
    After(u64, usize),
    /// The same, and ends those of WebSockets without an answer.
    All(u64, usize),
    /// Changes bytes of the first connection.
    Changes(Harm),
}

/// Bytes that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Harm {
    /// Direction: up (0) or down (1).
    way: usize,
    /// Number of bytes before each of them, and the bits that are flipped.
    flips: [(u64, u8); 2],
}

impl Harm {
    /// Changes those of these bytes, before which so many have come.
    fn change(&self, come: u64, bytes: &mut [u8]) {
        for (at, bits) in self.flips {
            let at = at.checked_sub(come).and_then(|at| usize::try_from(at).ok());
            if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                *byte ^= bits;
            }
        }
    }
}

/// Something on the way, and what went over it.
struct Proxy {
    url: String,
    /// Bytes that went up and down, behind the heads of requests.
    passed: Arc<[AtomicU64; 2]>,
    connections: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
}

impl Proxy {
    fn to(server: &Server<'_>, cuts: Cuts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let to = server.url.split("://").nth(1).expect("it has one").to_owned();
        let proxy = Self {
            url,
            passed: Arc::default(),
            connections: Arc::default(),
            has_ended: Arc::default(),
        };
        let (passed, connections) = (Arc::clone(&proxy.passed), Arc::clone(&proxy.connections));
        let has_ended = Arc::clone(&proxy.has_ended);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let (to, passed) = (to.clone(), Arc::clone(&passed));
                thread::spawn(move || converse(client, &to, (cuts, number), &passed));
            }
        });
        proxy
    }

    /// Bytes that went up and down.
    fn passed(&self) -> [u64; 2] {
        [0, 1].map(|way| self.passed[way].load(Ordering::Relaxed))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Its thread looks when somebody comes.
        TcpStream::connect(self.url.trim_start_matches("http://")).ok();
    }
}

fn converse(
    mut client: TcpStream,
    to: &str,
    (cuts, number): (Cuts, usize),
    passed: &Arc<[AtomicU64; 2]>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(client.read(&mut byte), Ok(1)) {
            return;
        }
        head.push(byte[0]);
    }
    let is_upgrade = head.to_ascii_lowercase().windows(8).any(|word| word == b"upgrade:");
    match cuts {
        Cuts::Answers(answer) if is_upgrade => {
            let text = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
            return client.write_all(text.as_bytes()).unwrap_or_default();
        }
        Cuts::Hangs | Cuts::All(..) if is_upgrade => return,
        _ => {}
    }
    let Ok(mut server) = TcpStream::connect(to) else { return };
    server.write_all(&head).ok();
    let most = match cuts {
        Cuts::Closes if is_upgrade => 60,
        Cuts::After(bytes, first) | Cuts::All(bytes, first) if number < first => bytes,
        _ => u64::MAX,
    };
    let left = Arc::new(AtomicU64::new(most));
    let ways = [(0, &client, &server), (1, &server, &client)];
    let copies = ways.map(|(way, from, to)| {
        let harm = match cuts {
            Cuts::Changes(harm) if number == 0 && harm.way == way => Some(harm),
            _ => None,
        };
        let (mut from, mut to) =
            (from.try_clone().expect("it is open"), to.try_clone().expect("it is open"));
        let (left, passed) = (Arc::clone(&left), Arc::clone(passed));
        thread::spawn(move || {
            let mut buf = vec![0; 16 << 10];
            let mut come = 0;
            while let Ok(len @ 1..) = from.read(&mut buf) {
                harm.inspect(|harm| harm.change(come, &mut buf[..len]));
                come += len as u64;
                let before = left.load(Ordering::Relaxed);
                left.store(before.saturating_sub(len as u64), Ordering::Relaxed);
                passed[way].fetch_add(len as u64, Ordering::Relaxed);
                if before < len as u64 {
                    from.shutdown(Shutdown::Both).ok();
                    break;
                }
                if to.write_all(&buf[..len]).is_err() {
                    break;
                }
            }
            to.shutdown(Shutdown::Both).ok();
        })
    });
    for copy in copies {
        copy.join().ok();
    }
}

#[test]
fn where_websockets_are_cut_a_sync_goes_by_plain_http() {
    let world = World::new();
    let old = noise(3_000_000, 1);
    world.write("src/dir/small", "x");
    let server = Server::start(&world, "");
    world.write("token", server.token());
    let ways = [
        Cuts::Answers("403 Forbidden"),
        Cuts::Answers("400 Bad Request"),
        Cuts::Answers("502 Bad Gateway"),
        Cuts::Answers("200 OK"),
        Cuts::Hangs,
        Cuts::Closes,
    ];
    world.mkdir("back");
    for (at, cuts) in ways.into_iter().enumerate() {
        let proxy = Proxy::to(&server, cuts);
        let url = format!("{}/photos/{at}", proxy.url);
        world.write("src/big", &old);
        let run = server.deltic(&format!("sync -a --token @token src/ {url}/"));
        assert_eq!(run.code, Some(0), "{cuts:?}: {run:#?}");
        world.assert_same("src", &format!("photos/{at}"));
        world.write("src/big", edited(&old, 1_000_000));
        let run = server.deltic(&format!("sync -a --stats --token @token src/ {url}/"));
        assert!(run.stat("Total bytes sent") < 100_000, "{cuts:?}: {run:#?}");
        world.assert_same("src", &format!("photos/{at}"));
        let run = server.deltic(&format!("sync -a --token @token {url}/ back/{at}/"));
        assert_eq!(run.code, Some(0), "{cuts:?}: {run:#?}");
        world.assert_same("src", &format!("back/{at}"));
    }
    // What the server says itself is not taken for something on the way.
    let proxy = Proxy::to(&server, Cuts::Hangs);
    let url = &proxy.url;
    server.fails(3, &format!("sync -a --token @token src/ {url}/music/"), "no such volume");
    world.write("wrong", server.add_token("--ro reader"));
    let reader = format!("sync -a --token @wrong src/ {url}/photos/");
    server.fails(3, &reader, "only reading is permitted");
    server.ok("token revoke --state state reader");
    assert_eq!(server.deltic(&reader).code, Some(10));
    world.assert_clean("photos");
}

/// Pushes a new file of 6 MB by a way that cuts connections.
fn pushes_by(cuts: Cuts) -> (Run, Proxy) {
    let world = World::new();
    world.write("src/big", noise(6_000_000, 2));
    let server = Server::start(&world, "");
    world.write("token", server.token());
    let proxy = Proxy::to(&server, cuts);
    let run = server.deltic(&format!("sync -a --token @token src/ {}/photos/", proxy.url));
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.assert_same("src", "photos");
    // A session that was cut off may end a moment later.
    server.wait_for_no_staging();
    let passed: u64 = proxy.passed().iter().sum();
    assert!(passed < 14_000_000, "{passed} bytes for a file of 6,000,000");
    (run, proxy)
}

#[test]
fn a_sync_whose_websocket_breaks_goes_on_with_what_has_arrived() {
    let (run, proxy) = pushes_by(Cuts::After(2_500_000, 2));
    assert!(run.stderr.contains("trying again"), "{run:#?}");
    assert_eq!(proxy.connections.load(Ordering::Relaxed), 3);
}

#[test]
fn a_session_over_plain_http_outlives_its_connections() {
    let (run, proxy) = pushes_by(Cuts::All(900_000, 6));
    // It is one session, and nobody notices.
    assert_eq!(run.stderr, "");
    assert!(proxy.connections.load(Ordering::Relaxed) > 6, "nothing was cut");
}

#[test]
fn a_session_over_plain_http_waits_where_its_token_asked_too_often() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::set(&world, "[limits]\nrequests_per_second = 1\nrequest_burst = 3\n");
    let token = server.add_token("me");
    world.write("token", &token);
    let proxy = Proxy::to(&server, Cuts::Answers("403 Forbidden"));
    while !server.answer(&token, "/v1/volumes", "").starts_with("HTTP/1.1 429") {}
    let run = server.deltic(&format!("sync -a --token @token src/ {}/photos/", proxy.url));
    assert_eq!(run.code, Some(0), "{run:#?}");
    let why = format!("deltic: {}/photos: too many requests with this token", proxy.url);
    assert!(run.stderr.contains(&why) && run.stderr.contains("trying again in"), "{run:#?}");
    world.assert_same("src", "photos");
}

#[test]
fn presets_of_the_papers_go_by_plain_http_where_websockets_are_cut() {
    let world = World::new();
    let old = noise(600_000, 7);
    world.write("new", edited(&old, 300_000));
    let server = Server::start(&world, "");
    world.write("token", server.token());
    for (at, preset) in ["skysync-f", "skysync-c", "rsync", "webr2sync+"].into_iter().enumerate() {
        let cuts = [Cuts::Answers("403 Forbidden"), Cuts::Closes][at % 2];
        let proxy = Proxy::to(&server, cuts);
        let (url, words) =
            (&proxy.url, format!("sync -I --stats --token @token --strategy {preset}"));
        world.write("photos/a", &old);
        let run = server.ok(&format!("{words} new {url}/photos/a"));
        assert_eq!(world.read("photos/a"), world.read("new"), "{preset}");
        assert!(run.stat("Total bytes sent") < 60_000, "{preset}: {run:#?}");
        let whole: u64 = proxy.passed().iter().sum();
        assert!((1..200_000).contains(&whole), "{preset}: {whole} bytes");
        world.write("got", &old);
        server.ok(&format!("{words} {url}/photos/a got"));
        assert_eq!(world.read("got"), world.read("new"), "{preset}");
    }
}

/// Number of sessions of which bytes are changed, and the seed of where; `DELTIC_MUTATIONS` and `DELTIC_MUTATIONS_SEED`
/// say others.
const MUTATIONS: (u64, u64) = (40, 0);
/// Servers that have them at once: many wait for what does not come.
const SERVERS: u64 = 4;

/// A server, and a file with two versions, for sessions of which bytes are changed.
struct Mutated<'a> {
    world: &'a World,
    server: Server<'a>,
    /// Versions of a file.
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<'a> Mutated<'a> {
    fn new(world: &'a World) -> Self {
        let server = Server::start(world, "");
        world.write("token", server.token());
        let old = noise(200_000, 3);
        let (mut new, more) = (edited(&old, 70_000), noise(30_000, 4));
        new.splice(120_000..121_000, more);
        Self { world, server, old, new }
    }

    /// Syncs the new version over the old one, up or down, by something on the way; what is there then.
    fn sync(&self, pulls: bool, cuts: Cuts) -> (Run, Vec<u8>, Proxy) {
        let Self { world, server, old, new } = self;
        let (from, to) = if pulls { ("photos", "got") } else { ("src", "photos") };
        let to_file = format!("{to}/file");
        world.write(format!("{from}/file"), new);
        world.write(&to_file, old);
        world.set_time(&to_file, 1_000_000_000);
        let proxy = Proxy::to(server, cuts);
        let at = |dir: &str| match dir {
            "photos" => format!("{}/photos/", proxy.url),
            dir => format!("{dir}/"),
        };
        let words = format!("sync -a --timeout 3 --token @token {} {}", at(from), at(to));
        (server.deltic(&words), world.read(&to_file), proxy)
    }

    /// Tries one of which bytes are changed: mostly one bit in the beginning, or several anywhere.
    fn try_one(&self, number: u64, lens: [[u64; 2]; 2]) {
        let mut dice = Dice::new(number);
        let (pulls, way, kind) = (number % 2 == 1, (number / 2 % 2) as usize, number / 4 % 4);
        let len = lens[usize::from(pulls)][way].max(1);
        let near = if kind < 2 { len.min(3_000) } else { len };
        let mut flip = |within: u64| {
            (
                dice.below(within),
                match kind {
                    0 | 2 => 1 << dice.below(8),
                    _ => dice.below(255) as u8 + 1,
                },
            )
        };
        let first = flip(near);
        let second = if kind == 3 { flip(len) } else { (u64::MAX, 0) };
        let harm = Harm { way, flips: [first, second] };
        let (run, is, _) = self.sync(pulls, Cuts::Changes(harm));
        let what = format!("session {number}, pulls: {pulls}, {harm:?}\n{run:#?}");
        assert!(is == self.new || is == self.old, "the file is neither: {what}");
        assert!(run.code != Some(0) || is == self.new, "not all is there: {what}");
        assert!(!run.stderr.contains("panicked"), "{what}");
        assert_eq!(self.server.status("GET", "/healthz", ""), 200, "{what}");
    }
}

#[test]
fn a_session_of_which_bytes_are_changed_leaves_the_old_file_or_the_new_one() {
    let from_env = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds = from_env("DELTIC_MUTATIONS").unwrap_or(MUTATIONS.0);
    let first = from_env("DELTIC_MUTATIONS_SEED").unwrap_or(MUTATIONS.1);
    let next = AtomicU64::new(0);
    at_once(0..SERVERS, |_| {
        let world = World::new();
        let mutated = Mutated::new(&world);
        let lens = [false, true].map(|pulls| {
            let (run, is, proxy) = mutated.sync(pulls, Cuts::After(u64::MAX, 0));
            assert!(run.code == Some(0) && is == mutated.new, "{run:#?}");
            proxy.passed()
        });
        assert!(lens[0][0] > 25_000 && lens[1][1] > 25_000, "{lens:?}");
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds {
                break;
            }
            mutated.try_one(first.wrapping_add(round), lens);
        }
    });
}
