//! Limits of `deltic serve` that protect its other clients, tried by sockets that do what clients should not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::server::Server;
use crate::common::{PATIENCE, World, noise, skip, wait_until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// The status of an answer.
fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// True if the server closes a connection within a moment.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let short = Some(Duration::from_millis(200));
    let read = stream.set_read_timeout(short).and_then(|()| stream.read_to_end(&mut rest));
    read.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

/// Sends a byte now and then until the server has had enough.
#[track_caller]
fn trickle(mut stream: TcpStream, bytes: &[u8]) {
    let begun = Instant::now();
    for byte in bytes.iter().cycle() {
        assert!(begun.elapsed() < PATIENCE, "it is still heard");
        if stream.write_all(&[*byte]).is_err() || is_closed(&mut stream) {
            return;
        }
    }
}

#[test]
fn a_token_does_not_have_all_sessions() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nsessions = 4\nsessions_per_token = 2\n");
    let (first, second) = (server.add_token("first"), server.add_token("second"));
    let mut socket = server.socket(&first);
    assert!(socket.hear().contains("welcome"));
    for channel in 1..=3 {
        socket.open(channel);
    }
    let refused = socket.hear();
    assert!(refused.contains(r#""channel":3"#) && refused.contains("retry_secs\":5"), "{refused}");
    assert!(refused.contains("this token"), "{refused}");
    let mut other = server.socket(&second);
    assert!(other.hear().contains("welcome"));
    for channel in 1..=2 {
        other.open(channel);
    }
    other.open(0);
    assert!(other.hear().contains(r#""channel":0"#), "its own were not refused");
    // One that ends makes room.
    socket.send(0, r#"{"close":{"channel":1}}"#);
    let begun = Instant::now();
    loop {
        socket.open(4);
        socket.open(0);
        if socket.hear().contains(r#""channel":0"#) {
            break;
        }
        socket.hear();
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_watch_takes_no_room_of_sessions_and_has_a_bound_of_its_own() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nsessions = 1\nsessions_per_token = 1\n");
    let token = server.add_token("it");
    let mut socket = server.socket(&token);
    assert!(socket.hear().contains("welcome"));
    let watch =
        |channel: u8| format!(r#"{{"watch":{{"channel":{channel},"volume":"photos","path":""}}}}"#);
    socket.send(0, &watch(1));
    assert!(socket.hear().contains(r#""seq":0"#));
    socket.send(0, &watch(2));
    let refused = socket.hear();
    assert!(refused.contains("this token has reached its limit of watches"), "{refused}");
    assert_eq!(server.answer(&token, "/v1/volumes/photos/events", "")[..12], *"HTTP/1.1 429");
    // A session has room beside the watch; a second one has none.
    socket.open(3);
    socket.open(4);
    let refused = socket.hear();
    assert!(refused.contains(r#""channel":4"#) && refused.contains("sessions"), "{refused}");
}

#[test]
fn control_messages_that_come_all_at_once_are_all_answered() {
    let world = World::new();
    let server = Server::start(&world, "");
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    for channel in 1..=60 {
        let volume = r#""volume":"nosuch""#;
        socket.send(0, &format!(r#"{{"open":{{"channel":{channel},{volume}}}}}"#));
    }
    for channel in 1..=60 {
        let refused = socket.hear();
        assert!(refused.contains(&format!(r#""channel":{channel},"#)), "{channel}: {refused}");
    }
}

#[test]
fn where_all_sessions_are_taken_a_client_hears_when_to_come_again() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nsessions = 1\n");
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    socket.open(1);
    socket.open(2);
    let refused = socket.hear();
    assert!(refused.contains("reached its limit of sessions"), "{refused}");
    assert!(refused.contains(r#""retry_secs":5"#), "{refused}");
}

#[test]
fn an_address_has_so_many_connections_with_a_token_at_once() {
    let world = World::new();
    let settings = "[limits]\nconnections_per_address = 3\ncount_loopback = true\n";
    let server = Server::set(&world, settings);
    let mut sockets: Vec<_> = Vec::new();
    // The connection of the login may count for a moment yet.
    wait_until("three are let in", || {
        sockets
            .push(server.upgrade(&format!("Authorization: Bearer {}\r\n", server.add_token("x"))));
        sockets.retain(|(head, _)| head.starts_with("HTTP/1.1 101"));
        sockets.len() == 3
    });
    let token = server.add_token("fourth");
    let answer = server.answer(&token, "/v1/volumes", "");
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: "), "{answer}");
    assert!(answer.contains("this address has reached its limit of connections"), "{answer}");
    sockets.pop();
    wait_until("there is room again", || {
        server.answer(&token, "/v1/volumes", "").starts_with("HTTP/1.1 200")
    });
}

#[test]
fn of_strangers_the_oldest_gives_way_and_whoever_has_a_token_comes_in() {
    let world = World::new();
    let settings = "[limits]\nconnections_per_address = 20\ncount_loopback = true\n";
    let server = Server::set(&world, settings);
    let mut socket = server.socket(server.token());
    assert!(socket.hear().contains("welcome"));
    // A WebSocket whose client has not said who it is, is a stranger too.
    let mut nobody = server.upgrade("").1;
    let mut strangers: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..20 {
        assert_eq!(server.status("GET", "/v1/volumes", ""), 200);
        strangers.push(server.connect());
    }
    assert!(is_closed(&mut nobody.0));
    let away = strangers.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count();
    assert!((150..=210).contains(&away), "{away}");
    socket.open(1);
    socket.open(0);
    assert!(socket.hear().contains(r#""channel":0"#), "it was put out");
}

#[test]
fn where_no_connection_is_left_a_stranger_gives_way() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nconnections = 10\n");
    let strangers: Vec<_> = (0..30).map(|_| server.connect()).collect();
    assert_eq!(server.status("GET", "/v1/volumes", ""), 200);
    drop(strangers);
}

/// Begins TLS with a server as fast as one process can, and keeps the last thousand connections: host and port are
/// given, and for how many seconds. It says how many there were.
const FLOOD: &str = r#"
import collections, socket, ssl, sys, time
host, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
out = ssl.MemoryBIO()
try:
    context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
except ssl.SSLWantReadError:
    pass
hello, held, count, ends = out.read(), collections.deque(maxlen=1000), 0, time.time() + seconds
while time.time() < ends:
    try:
        stream = socket.create_connection((host, port), timeout=5)
        stream.sendall(hello)
        held.append(stream)
        count += 1
    except OSError:
        pass
print(count)
"#;

#[test]
fn strangers_by_the_thousand_lock_out_no_token_of_their_address() {
    let flood = |address: &str| {
        let (host, port) = address.split_once(':').expect("it has a port");
        let mut python = std::process::Command::new("python3");
        python.args(["-c", FLOOD, host, port, "600"]).stdout(std::process::Stdio::piped());
        python.spawn()
    };
    let world = World::new();
    let server = Server::set(&world, "tls = \"self-signed\"\n[limits]\ncount_loopback = true\n");
    world.write("src/a", "a");
    let address = server.url.split("://").nth(1).expect("it has one").to_owned();
    let Ok(flooding) = flood(&address) else {
        return skip("python3 is not installed: nobody floods the server");
    };
    let flooding = Ending(flooding);
    sleep(Duration::from_secs(2));
    for round in 0..20 {
        world.write("src/a", format!("round {round}"));
        let run = server.deltic("sync -a --timeout=30 src/ URL/photos/");
        assert_eq!(run.code, Some(0), "round {round}: {run:#?}");
    }
    drop(flooding);
    assert_eq!(world.read("photos/a"), b"round 19");
}

/// A process that ends with this value.
struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wrong_tokens_are_put_off_and_the_right_one_is_not() {
    let world = World::new();
    let settings = "[limits]\ncount_loopback = true\nwrong_tokens_per_minute = 2\n";
    let server = Server::set(&world, settings);
    let answers: Vec<_> = (0..3).map(|_| server.answer("dlt_x", "/v1/volumes", "")).collect();
    let codes: Vec<_> = answers.iter().map(|answer| status(answer)).collect();
    assert_eq!(codes, ["401", "401", "429"], "{answers:?}");
    assert!(answers[2].contains("retry-after: "), "{answers:?}");
    assert_eq!(server.status("GET", "/v1/volumes", ""), 200);
}

/// Wrong tokens of a run; `DELTIC_WRONG_TOKENS` says another number.
const WRONG_TOKENS: u32 = 20_000;

/// The memory of a server itself, in KiB: pages of its program are shared with the page cache.
fn memory(server: &Server<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it has some");
    line.trim_end_matches("kB").trim().parse().expect("it is a number")
}

/// Times that threads of a process have had the processor.
fn wakes(server: &Server<'_>) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id()));
    let status = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("status")).ok()
    };
    let count = |status: String| {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>()
    };
    threads.expect("it runs").filter_map(status).map(count).sum()
}

#[test]
fn a_server_with_nothing_to_do_takes_little_memory_and_never_wakes() {
    let world = World::new();
    let server = Server::start(&world, "");
    // Threads of its start end by then.
    sleep(Duration::from_secs(2));
    let woke = || {
        let before = wakes(&server);
        sleep(Duration::from_secs(5));
        wakes(&server).saturating_sub(before)
    };
    // A thread of its start may end late.
    let times: Vec<_> = (0..5).map(|_| woke()).take_while(|times| *times > 0).collect();
    assert!(times.len() < 5, "it woke {times:?} times");
    let memory = memory(&server);
    assert!(memory <= 4 << 10, "{memory} KiB");
}

/// Each comes from an address of its own, as a proxy says, so none is put off.
#[test]
fn wrong_tokens_by_the_thousand_let_nobody_in_and_fill_no_memory() {
    let all = std::env::var("DELTIC_WRONG_TOKENS").ok().and_then(|text| text.parse().ok());
    let world = World::new();
    let server = Server::set(&world, "proxies = [\"127.0.0.1\"]\n");
    let before = memory(&server);
    let mut stream = server.connect();
    let mut sent = 0;
    while sent < all.unwrap_or(WRONG_TOKENS) {
        let batch = (sent..sent + 100).map(|number| {
            let from = std::net::Ipv4Addr::from(0x0b00_0000 + number);
            let token = deltic_serve::token::new_token().reveal();
            format!(
                "GET /v1/volumes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nX-Forwarded-For: {from}\r\n\r\n"
            )
        });
        stream.write_all(batch.collect::<String>().as_bytes()).expect("it listens");
        let (mut answers, mut buf) = (String::new(), [0; 16 << 10]);
        while answers.matches("HTTP/1.1 ").count() < 100 || !answers.ends_with('}') {
            let len = stream.read(&mut buf).expect("it answers");
            assert!(len > 0, "it ends the connection: {answers}");
            answers.push_str(&String::from_utf8_lossy(&buf[..len]));
        }
        // Where there are more addresses than are counted, new ones are put off.
        let (wrong, off) = (answers.matches("HTTP/1.1 401"), answers.matches("HTTP/1.1 429"));
        assert_eq!(wrong.count() + off.count(), 100, "{answers}");
        sent += 100;
    }
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for {sent} wrong tokens");
    assert_eq!(server.status("GET", "/v1/volumes", ""), 200);
}

#[test]
fn behind_a_proxy_the_client_that_it_names_is_put_off() {
    let world = World::new();
    let settings = "proxies = [\"127.0.0.1\"]\n[limits]\nwrong_tokens_per_minute = 1\n";
    let server = Server::set(&world, settings);
    let from = |address: &str| {
        let more = format!("X-Forwarded-For: 6.6.6.6, {address}\r\n");
        let answer = server.answer("dlt_x", "/v1/volumes", &more);
        status(&answer).to_owned()
    };
    assert_eq!((&*from("192.0.2.1"), &*from("192.0.2.1")), ("401", "429"));
    assert_eq!((&*from("192.0.2.2"), &*from("2001:db8::1")), ("401", "401"));
    assert_eq!(from("2001:db8::2"), "429", "it is the same net");
}

#[test]
fn a_token_has_so_many_requests_in_a_second() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nrequests_per_second = 1\nrequest_burst = 3\n");
    let (first, second) = (server.add_token("first"), server.add_token("second"));
    let codes: Vec<_> = (0..40).map(|_| server.answer(&first, "/v1/volumes", "")).collect();
    assert!(codes[..3].iter().all(|answer| status(answer) == "200"), "{codes:?}");
    let put_off = codes.iter().find(|answer| status(answer) == "429").expect("one is put off");
    assert!(put_off.contains("retry-after: ") && put_off.contains("problem+json"), "{put_off}");
    assert_eq!(status(&server.answer(&second, "/v1/volumes", "")), "200");
}

const SHORT: &str = "[limits]\nhead_seconds = 2\nstall_seconds = 1\n";

#[test]
fn a_head_that_does_not_end_is_cut_off() {
    let world = World::new();
    let server = Server::set(&world, SHORT);
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").unwrap();
    trickle(stream, b"X: y\r\n");
    let mut silent = server.connect();
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).expect("it is closed");
}

#[test]
fn a_body_that_comes_byte_by_byte_is_cut_off_and_changes_nothing() {
    let world = World::new();
    world.write("photos/a", "old");
    let server = Server::set(&world, SHORT);
    let mut stream = server.connect();
    let token = server.token();
    let head = format!(
        "PUT /v1/volumes/photos/files/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 99999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    trickle(stream, b"new");
    assert_eq!(world.read("photos/a"), b"old");
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_cut_off() {
    let world = World::new();
    let server = Server::set(&world, SHORT);
    let mut socket = server.socket(server.token());
    socket.0.write_all(&[0x82, 0xfe, 0xff, 0xff, 0, 0, 0, 0]).unwrap();
    trickle(socket.0, b"\x01");
}

#[test]
fn who_never_reads_is_cut_off() {
    let world = World::new();
    world.mkdir("photos");
    let file = std::fs::File::create(world.path("photos/big")).unwrap();
    file.set_len(1 << 30).unwrap();
    let server = Server::set(&world, SHORT);
    let before = server.sockets();
    let mut stream = server.connect();
    let token = server.token();
    let head = format!(
        "GET /v1/volumes/photos/files/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    server.wait_for_sockets(before);
    drop(stream);
}

#[test]
fn half_handshakes_hold_nobody_up_and_are_cut_off() {
    let world = World::new();
    world.write("src/a", "a");
    let server = Server::start(&world, "--lan");
    let before = server.sockets();
    let half: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(&[0x16, 3, 1, 2, 0]).unwrap();
            stream
        })
        .collect();
    server.ok("sync -a src/ URL/photos/");
    world.assert_same("src", "photos");
    server.wait_for_sockets(before);
    drop(half);
}

#[test]
fn a_full_table_of_descriptors_turns_clients_away_and_burns_no_time() {
    let world = World::new();
    let server = Server::set(&world, "[limits]\nhead_seconds = 600\n");
    let pid = Pid::from_raw(server.child.id() as i32);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(48), maximum }).unwrap();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let held: Vec<_> = (0..48).map(|_| server.connect()).collect();
    let turned_away = || {
        let mut rest = Vec::new();
        let closed = server.connect().read_to_end(&mut rest);
        closed.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
    };
    assert!(turned_away());
    let burnt = ticks();
    // Who comes hears that there is no room, and does not wait for ever.
    for _ in 0..20 {
        assert!(turned_away());
    }
    // A hundredth of a second each; a loop would take all there are.
    assert!(ticks() - burnt < 50, "{} ticks", ticks() - burnt);
    prlimit(pid, Resource::Nofile, before).unwrap();
    drop(held);
    assert_eq!(server.status("GET", "/healthz", ""), 200);
}

#[test]
fn a_large_upload_gives_way_and_a_small_one_does_not() {
    let world = World::new();
    let server = Server::start(&world, "");
    world.write("small", noise(1 << 20, 1));
    server.ok("sync small URL/photos/small");
    assert_eq!(server.threads_giving_way(), 0);
    world.write("large", noise(64 << 20, 2));
    server.ok("sync large URL/photos/large");
    assert!(server.threads_giving_way() > 0);
    assert!(world.read("photos/large") == world.read("large"));
}
