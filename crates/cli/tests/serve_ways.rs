//! Ways to a server that cut WebSockets, or connections: a sync gets there all the same.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use common::server::Server;
use common::{World, edited, noise};

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
    /// Changes one byte of the first connection, behind so many, on the way up (0) or down (1).
    Changes(u64, usize),
}

/// Something on the way, and what went over it.
struct Proxy {
    url: String,
    passed: Arc<AtomicU64>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    fn to(server: &Server<'_>, cuts: Cuts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let to = server.url.split("://").nth(1).expect("it has one").to_owned();
        let (passed, connections) = (Arc::<AtomicU64>::default(), Arc::<AtomicUsize>::default());
        let proxy =
            Self { url, passed: Arc::clone(&passed), connections: Arc::clone(&connections) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let (to, passed) = (to.clone(), Arc::clone(&passed));
                thread::spawn(move || converse(client, &to, (cuts, number), &passed));
            }
        });
        proxy
    }
}

fn converse(
    mut client: TcpStream,
    to: &str,
    (cuts, number): (Cuts, usize),
    passed: &Arc<AtomicU64>,
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
    let ways = [(&client, &server), (&server, &client)];
    let mut way = 0;
    let copies = ways.map(|(from, to)| {
        let changed = match cuts {
            Cuts::Changes(at, of) if number == 0 && of == way => at,
            _ => u64::MAX,
        };
        way += 1;
        let (mut from, mut to) =
            (from.try_clone().expect("it is open"), to.try_clone().expect("it is open"));
        let (left, passed) = (Arc::clone(&left), Arc::clone(passed));
        thread::spawn(move || {
            let mut buf = vec![0; 16 << 10];
            let mut come = 0;
            while let Ok(len @ 1..) = from.read(&mut buf) {
                if let Some(byte) =
                    changed.checked_sub(come).and_then(|at| buf[..len].get_mut(at as usize))
                {
                    *byte ^= 1 << (changed % 8);
                }
                come += len as u64;
                let before = left.load(Ordering::Relaxed);
                left.store(before.saturating_sub(len as u64), Ordering::Relaxed);
                passed.fetch_add(len as u64, Ordering::Relaxed);
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
    server.fails(3, &reader, "only be read from");
    server.ok("token revoke --state state reader");
    assert_eq!(server.deltic(&reader).code, Some(11));
    world.assert_clean("photos");
}

/// Pushes a new file of 6 MB by a way that cuts connections.
fn pushes_by(cuts: Cuts) -> (common::Run, Proxy) {
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
    let passed = proxy.passed.load(Ordering::Relaxed);
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

/// Number of sessions of which a byte is changed; `DELTIC_MUTATIONS` says another one.
const MUTATIONS: u64 = 40;

#[test]
fn a_session_of_which_a_byte_is_changed_leaves_the_old_file_or_the_new_one() {
    let rounds = std::env::var("DELTIC_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("token", server.token());
    let (old, new) = (noise(200_000, 3), edited(&noise(200_000, 3), 70_000));
    for round in 0..rounds.unwrap_or(MUTATIONS) {
        // Up go some thousand bytes, down a few hundred less.
        let way = (round % 2) as usize;
        let at = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % [6_000, 3_000][way];
        world.write("photos/file", &old);
        world.write("src/file", &new);
        world.set_time("photos/file", 1_000_000_000);
        let proxy = Proxy::to(&server, Cuts::Changes(at, way));
        let run = server
            .deltic(&format!("sync -a --timeout 5 --token @token src/ {}/photos/", proxy.url));
        let is = world.read("photos/file");
        assert!(is == new || is == old, "byte {at} of way {way}: the file is neither\n{run:#?}");
        assert!(
            run.code != Some(0) || is == new,
            "byte {at} of way {way}: not all is there\n{run:#?}"
        );
        assert!(!run.stderr.contains("panicked"), "byte {at} of way {way}\n{run:#?}");
        assert_eq!(server.status("GET", "/healthz", ""), 200, "byte {at} of way {way}");
    }
}
