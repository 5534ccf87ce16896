//! Changes of a volume as they happen: `GET /v1/volumes/V/events`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::common::World;
use crate::common::http::ask;
use crate::common::server::{Server, Socket};
use serde_json::{Value, json};

/// A client who follows.
struct Follower {
    lines: BufReader<TcpStream>,
    /// Name of the last event.
    id: String,
}

impl Follower {
    fn new(server: &Server<'_>, token: &str, more: &str) -> Self {
        let mut stream = server.connect();
        let head = format!(
            "GET /v1/volumes/photos/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it listens");
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).expect("it answers");
        assert!(first.starts_with("HTTP/1.1 200"), "{first}");
        Self { lines, id: String::new() }
    }

    /// The next event and its data; none at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut event, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.lines.read_line(&mut line).expect("it answers") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut self.id),
                Some(("event", what)) => what.clone_into(&mut event),
                Some(("data", data)) => {
                    return Some((event, serde_json::from_str(data).expect("it is JSON")));
                }
                _ => {}
            }
        }
    }

    /// Hears that these changed, and nothing else.
    #[track_caller]
    fn hears(&mut self, wanted: &[(&str, &str)]) {
        for (what, path) in wanted {
            let (event, data) = self.next().expect("it goes on");
            assert_eq!((event.as_str(), data["path"].as_str()), (*what, Some(*path)));
        }
    }

    #[track_caller]
    fn is_ready(&mut self) {
        assert_eq!(self.next().expect("it goes on").0, "ready");
    }
}

#[test]
fn all_that_changes_is_told_whoever_changes_it() {
    let world = World::new();
    let server = Server::start(&world, "");
    let mut follower = Follower::new(&server, server.token(), "");
    follower.is_ready();
    let ask = |what: &str, body: &[u8]| {
        let answer = ask(&server, what, "If-Match: *\r\n", body);
        assert!((200..300).contains(&answer.status), "{what}: {answer:?}");
    };
    let put = |name: &str| {
        let what = format!("PUT /v1/volumes/photos/files/{name}");
        let answer = crate::common::http::ask(&server, &what, "", b"new");
        assert!((200..300).contains(&answer.status), "{answer:?}");
    };
    put("dir/one");
    follower.hears(&[("put", "dir"), ("put", "dir/one")]);
    put("dir/one");
    ask("POST /v1/volumes/photos/files/dir/one?as=move&to=two", b"");
    ask("DELETE /v1/volumes/photos/files/two", b"");
    ask("POST /v1/volumes/photos/tree/made", b"");
    follower.hears(&[("put", "dir/one"), ("gone", "dir/one"), ("put", "two"), ("gone", "two")]);
    follower.hears(&[("put", "made")]);
    // A sync, of what is new, changed, linked and gone.
    world.write("a/small", "small");
    world.write("a/long", vec![1; 300_000]);
    world.link("small", "a/link");
    server.ok("sync -a a/ URL/photos/made/");
    let mut heard: Vec<_> = (0..3).map(|_| follower.next().expect("it goes on")).collect();
    heard.sort_by_key(|(_, data)| data["path"].to_string());
    let heard: Vec<_> = heard
        .iter()
        .map(|(event, data)| (event.as_str(), data["path"].as_str().expect("it has one")))
        .collect();
    assert_eq!(heard, [("put", "made/link"), ("put", "made/long"), ("put", "made/small")]);
    world.write("a/long", [vec![1; 100_000], vec![2; 200_000]].concat());
    server.ok("sync -a --inplace a/ URL/photos/made/");
    follower.hears(&[("put", "made/long")]);
    std::fs::remove_file(world.path("a/long")).expect("it is there");
    server.ok("sync -a --delete -n a/ URL/photos/made/");
    server.ok("sync -a --delete a/ URL/photos/made/");
    follower.hears(&[("gone", "made/long")]);
    // What changes nothing is not told.
    server.ok("sync -a a/ URL/photos/made/");
    put("last");
    follower.hears(&[("put", "last")]);
}

#[test]
fn a_token_hears_of_its_part_alone_and_until_it_is_revoked() {
    let world = World::new();
    world.mkdir("photos/june");
    world.mkdir("photos/july");
    let server = Server::start(&world, "");
    let june = server.add_token("--path june june");
    // A volume of an earlier server.
    world.mkdir("state/bases/music");
    let stranger = server.add_token("--volume music stranger");
    let writer = server.add_token("--wo writer");
    let status = |token: &str| {
        let answer = server.answer(token, "/v1/volumes/photos/events", "");
        answer.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!(status(&stranger).as_deref(), Some("404"));
    assert_eq!(status(&writer).as_deref(), Some("403"));
    let mut follower = Follower::new(&server, &june, "");
    follower.is_ready();
    assert_eq!(follower.id, "", "where others are is nobody's business");
    world.write("a/file", "x");
    server.ok("sync -a a/ URL/photos/july/");
    server.ok("sync -a a/ URL/photos/june/");
    world.write("token", &june);
    world.write("b/own", "x");
    server.ok("sync -a --token @token b/ URL/photos/june/");
    follower.hears(&[("put", "june/file"), ("put", "june/own")]);
    server.ok("token revoke --state state june");
    assert_eq!(follower.next(), None);
}

#[test]
fn a_follower_hears_only_what_its_token_may_read_by_now() {
    let world = World::new();
    world.mkdir("photos/june/own");
    let server = Server::start(&world, "");
    let token = server.add_token("--path june june");
    let mut follower = Follower::new(&server, &token, "");
    follower.is_ready();
    let put = |name: &str| {
        let what = format!("PUT /v1/volumes/photos/files/june/{name}");
        assert_eq!(ask(&server, &what, "", b"new").status, 201, "{name}");
    };
    put("before");
    follower.hears(&[("put", "june/before")]);
    let narrow = |from: &str, to: &str| {
        let text = String::from_utf8(world.read("state/tokens.json")).expect("it is text");
        world.write("state/tokens.json", text.replace(from, to));
    };
    narrow("\"june\",\n    \"read\"", "\"june/own\",\n    \"read\"");
    put("other");
    put("own/file");
    follower.hears(&[("put", "june/own/file")]);
    narrow("\"read\": true", "\"read\": false");
    put("own/last");
    assert_eq!(follower.next(), None);
}

#[test]
fn a_client_that_was_cut_goes_on_where_it_was_or_hears_that_it_missed_some() {
    let world = World::new();
    let server = Server::start(&world, "");
    let mut follower = Follower::new(&server, server.token(), "");
    follower.is_ready();
    let put = |name: &str| {
        let what = format!("PUT /v1/volumes/photos/files/{name}");
        assert_eq!(ask(&server, &what, "", b"x").status, 201);
    };
    let ready = follower.id.clone();
    put("one");
    follower.hears(&[("put", "one")]);
    let id = follower.id.clone();
    drop(follower);
    put("two");
    let again =
        |id: &str| Follower::new(&server, server.token(), &format!("Last-Event-ID: {id}\r\n"));
    let mut follower = again(&id);
    follower.is_ready();
    follower.hears(&[("put", "two")]);
    let mut follower = again(&ready);
    follower.is_ready();
    follower.hears(&[("put", "one"), ("put", "two")]);
    for unknown in ["0000000000000000", "none"] {
        let mut follower = again(unknown);
        let (event, data) = follower.next().expect("it says so");
        assert_eq!(event, "missed");
        assert!(data["why"].as_str().expect("it is text").contains("list the volume"));
        assert_eq!(follower.next(), None);
    }
}

#[test]
fn a_server_that_is_told_to_end_does_not_wait_for_followers() {
    let world = World::new();
    let mut server = Server::start(&world, "");
    let mut follower = Follower::new(&server, server.token(), "");
    follower.is_ready();
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(follower.next(), None);
    assert!(server.child.wait().expect("it ends").success());
}

/// A watch of a WebSocket is told of its directory alone, until it is closed.
#[test]
fn a_watch_over_a_websocket_is_told_what_changes_below_its_directory() {
    let world = World::new();
    let server = Server::start(&world, "");
    let put = |name: &str| {
        let what = format!("PUT /v1/volumes/photos/files/{name}");
        let answer = crate::common::http::ask(&server, &what, "", b"new");
        assert!((200..300).contains(&answer.status), "{answer:?}");
    };
    put("dir/old");
    let mut socket = server.socket(server.token());
    let hear = |socket: &mut Socket| -> Value {
        serde_json::from_str(&socket.hear()).expect("it is JSON")
    };
    assert_eq!(hear(&mut socket)["welcome"]["can"], json!(["watch", "replaces", "versions"]));
    let watch = |number: u32, volume: &str, path: &str| {
        json!({ "watch": { "channel": number, "volume": volume, "path": path } }).to_string()
    };
    for (number, volume, path) in [(1, "other", ""), (2, "photos", "../x"), (0, "photos", "")] {
        socket.send(0, &watch(number, volume, path));
        assert_eq!(hear(&mut socket)["refused"]["channel"], number);
    }
    socket.send(0, &watch(3, "photos", "dir"));
    let changed =
        |seq: u64, paths: Value| json!({ "changed": { "channel": 3, "seq": seq, "paths": paths } });
    assert_eq!(hear(&mut socket), changed(0, json!([])));
    socket.send(0, &watch(3, "photos", "dir"));
    assert_eq!(hear(&mut socket)["refused"]["why"], "the channel is open already");
    put("elsewhere");
    put("dir/new");
    assert_eq!(hear(&mut socket), changed(1, json!([{ "path": "dir/new", "became": "put" }])));
    let gone = ask(&server, "DELETE /v1/volumes/photos/files/dir/new", "If-Match: *\r\n", b"");
    assert_eq!(gone.status, 204);
    assert_eq!(hear(&mut socket), changed(2, json!([{ "path": "dir/new", "became": "gone" }])));
    socket.send(0, r#"{"close":{"channel":3}}"#);
    // Its number is free again once it has ended.
    loop {
        socket.send(0, &watch(3, "photos", "dir"));
        let heard = hear(&mut socket);
        if heard == changed(0, json!([])) {
            break;
        }
        assert_eq!(heard["refused"]["why"], "the channel is open already");
        sleep(Duration::from_millis(50));
    }
}
