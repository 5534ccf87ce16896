//! Requests of plain HTTP that are refused: every client reads why, whatever it has sent by then.

use std::process::{Command, Stdio};

use crate::common::http::{Answer, ask};
use crate::common::server::Server;
use crate::common::{World, skip};

const FILE: &str = "/v1/volumes/photos/files/a";

/// Asks by Python's client, which sends all of a body before it reads: ten times over one object, whose connection it
/// opens anew where the server has closed that. The arguments are host, port, token, method, path, length and more
/// headers.
const TEN_TIMES: &str = r#"
import http.client, sys
host, port, token, method, path, length, *more = sys.argv[1:]
body = b"x" * int(length)
headers = {"Authorization": "Bearer " + token, **dict(one.split(": ", 1) for one in more)}
connection = http.client.HTTPConnection(host, int(port), timeout=60)
for _ in range(10):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    print(answer.status, answer.headers["Content-Type"], len(answer.read()) > 20)
"#;

fn ten_times(
    server: &Server<'_>,
    token: &str,
    (method, path): (&str, &str),
    more: &[&str],
) -> String {
    let address = server.url.split("://").nth(1).expect("it has one");
    let (host, port) = address.split_once(':').expect("it has a port");
    let mut python = Command::new("python3");
    python.args(["-c", TEN_TIMES, host, port, token, method, path]).args(more);
    let run = python.output().expect("it was there");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    format!("{said}{}", String::from_utf8_lossy(&run.stderr))
}

#[track_caller]
fn assert_read(status: u16, said: &str) {
    let line = format!("{status} application/problem+json True\n");
    assert_eq!(said, line.repeat(10));
}

const LENGTHS: [&str; 3] = ["20000", "900000", "30000000"];

#[test]
fn a_client_that_sends_all_before_it_reads_hears_why_it_is_refused() {
    if Command::new("python3").stdin(Stdio::null()).output().is_err() {
        return skip("python3 is not installed: no other client is refused");
    }
    let world = World::new();
    world.write("photos/a", "here");
    world.mkdir("photos/dir");
    let settings = "[limits]\nupload_bytes = 10000\nrequests_per_second = 0\n";
    let server = Server::set_volume(&world, "quota_bytes = 15000\nfree_bytes = 0\n", settings);
    let (own, reader) = (server.token().to_owned(), server.add_token("--ro reader"));
    for length in LENGTHS {
        let put = |token: &str, path: &str, more: &[&str]| {
            ten_times(&server, token, ("PUT", path), &[&[length], more].concat())
        };
        assert_read(413, &put(&own, FILE, &[]));
        assert_read(415, &put(&own, FILE, &["Content-Encoding: gzip"]));
        assert_read(401, &put("dlt_x", FILE, &[]));
        assert_read(403, &put(&reader, FILE, &[]));
        assert_read(404, &put(&own, "/v1/volumes/none/files/a", &[]));
        assert_read(405, &ten_times(&server, &own, ("PUT", "/v1/volumes"), &[length]));
    }
    drop(server);
    let server = Server::set_volume(&world, "quota_bytes = 15000\nfree_bytes = 0\n", "");
    for length in LENGTHS {
        let put = |path: &str, more: &[&str]| {
            ten_times(&server, server.token(), ("PUT", path), &[&[length], more].concat())
        };
        assert_read(507, &put("/v1/volumes/photos/files/b", &[]));
        assert_read(412, &put(FILE, &["If-Match: \"x\""]));
        assert_read(409, &put("/v1/volumes/photos/files/dir", &[]));
    }
    assert_eq!(world.read("photos/a"), b"here");
}

#[test]
fn curl_hears_why_it_is_refused_with_and_without_being_asked_for_the_body() {
    if Command::new("curl").output().is_err() {
        return skip("curl is not installed: no other client is refused");
    }
    let world = World::new();
    let server = Server::set(&world, "[limits]\nupload_bytes = 10000\n");
    world.write("big", vec![7; 30_000_000]);
    let bearer = format!("Authorization: Bearer {}", server.token());
    for expect in ["Expect: 100-continue", "Expect:"] {
        let mut curl = world.command("curl", ["-sS", "-w", "%{http_code}\n", "-o", "/dev/null"]);
        curl.args(["-H", &bearer, "-H", expect]);
        for _ in 0..10 {
            curl.args(["-T", "big", "-o", "/dev/null", &format!("{}{FILE}", server.url)]);
        }
        let run = curl.output().expect("it is there");
        let said = String::from_utf8_lossy(&run.stdout);
        assert_eq!(said.matches("413").count(), 10, "{expect} {run:?}");
    }
}

#[test]
fn a_connection_goes_on_after_a_short_body_that_nobody_wanted() {
    use std::io::{Read, Write};
    let world = World::new();
    let server = Server::start(&world, "");
    let mut stream = server.connect();
    let (token, body) = (server.token(), "x".repeat(100_000));
    for _ in 0..10 {
        let head = format!(
            "PUT {FILE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             If-Match: \"x\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the connection goes on");
        let (mut answer, mut buf) = (String::new(), [0; 4096]);
        while !answer.ends_with('}') {
            let len = stream.read(&mut buf).expect("it answers");
            assert!(len > 0, "it ends the connection: {answer}");
            answer.push_str(&String::from_utf8_lossy(&buf[..len]));
        }
        assert!(answer.starts_with("HTTP/1.1 412"), "{answer}");
    }
}

fn put(server: &Server<'_>, more: &str, body: &[u8]) -> Answer {
    ask(server, &format!("PUT {FILE}"), more, body)
}

#[test]
fn a_body_that_is_no_whole_file_as_it_is_changes_nothing() {
    let world = World::new();
    let server = Server::start(&world, "");
    assert_eq!(put(&server, "Content-Encoding: identity\r\n", b"plain").status, 201);
    for code in ["gzip", "identity, br", "GZIP", "x", "deflate\r\nContent-Encoding: identity"] {
        let answer = put(&server, &format!("Content-Encoding: {code}\r\n"), b"coded");
        assert_eq!(answer.status, 415, "{code}");
        assert_eq!(answer.header("accept-encoding"), Some("identity"), "{answer:?}");
    }
    // A part is not the whole either.
    assert_eq!(put(&server, "Content-Range: bytes 0-4/9\r\n", b"part!").status, 400);
    let patch = format!("POST {FILE}?as=patch");
    let coded = "If-Match: *\r\nContent-Encoding: gzip\r\n";
    assert_eq!(ask(&server, &patch, coded, b"coded").status, 415);
    assert_eq!(world.read("photos/a"), b"plain");
}

#[test]
fn of_many_that_replace_one_version_one_wins_and_the_others_hear_412() {
    let world = World::new();
    let server = Server::start(&world, "--versions 1000");
    let mut tag = put(&server, "", b"first").tag().to_owned();
    for round in 0..10 {
        let one = |who: usize| {
            let body = format!("{round} {who}").repeat(20_000);
            put(&server, &format!("If-Match: {tag}\r\n"), body.as_bytes())
        };
        let answers: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let all: Vec<_> = (0..8).map(|who| scope.spawn(move || one(who))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let won: Vec<_> = answers.iter().filter(|answer| answer.status == 204).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let lost = answers.iter().filter(|answer| answer.status == 412).count();
        assert_eq!(lost, 7, "{answers:?}");
        tag = won[0].tag().to_owned();
    }
    // Of those who put a first version, too.
    let new =
        |_| ask(&server, "PUT /v1/volumes/photos/files/new", "If-None-Match: *\r\n", &[7; 90_000]);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|who| scope.spawn(move || new(who))).collect();
        all.into_iter().map(|thread| thread.join().unwrap().status).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 412).count(), 7, "{answers:?}");
}

#[test]
fn times_are_conditions_as_tags_are() {
    let world = World::new();
    world.write("photos/a", "0123456789");
    let server = Server::start(&world, "");
    let get = |more: &str| ask(&server, &format!("GET {FILE}"), more, b"");
    let now = get("");
    let (modified, tag) = (now.header("last-modified").expect("it has one"), now.tag());
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    let status = |more: &str| get(more).status;
    assert_eq!(status(&format!("If-Modified-Since: {modified}\r\n")), 304);
    assert_eq!(status(&format!("If-Modified-Since: {past}\r\n")), 200);
    assert_eq!(status(&format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n")), 200);
    assert_eq!(status(&format!("If-Unmodified-Since: {modified}\r\n")), 200);
    assert_eq!(status(&format!("If-Unmodified-Since: {past}\r\n")), 412);
    assert_eq!(status(&format!("If-Match: {tag}\r\nIf-Unmodified-Since: {past}\r\n")), 200);
    let head =
        ask(&server, &format!("HEAD {FILE}"), &format!("If-Modified-Since: {modified}\r\n"), b"");
    assert_eq!(head.status, 304);
    // A part of a version that only a time names could be one of another.
    let range = |of: &str| status(&format!("Range: bytes=2-4\r\nIf-Range: {of}\r\n"));
    assert_eq!([tag, "\"x\"", modified].map(range), [206, 200, 200]);
    assert_eq!(put(&server, &format!("If-Unmodified-Since: {past}\r\n"), b"new").status, 412);
    assert_eq!(world.read("photos/a"), b"0123456789");
    assert_eq!(put(&server, &format!("If-Unmodified-Since: {modified}\r\n"), b"new").status, 204);
    assert_eq!(put(&server, &format!("If-Modified-Since: {modified}\r\n"), b"newer").status, 204);
}
