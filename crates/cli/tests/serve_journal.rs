//! The audit log and the metrics of `deltic serve`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::server::Server;
use crate::common::{PATIENCE, World, wait_until};

/// Waits until the log has a line with all of these.
#[track_caller]
fn wait_for_line(world: &World, wanted: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let log = String::from_utf8(world.read("audit.jsonl")).expect("it is text");
        let line = log.lines().find(|line| wanted.iter().all(|part| line.contains(part)));
        if let Some(line) = line {
            return line.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "no line has {wanted:?}:\n{log}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_audit_log_has_who_did_what_and_no_token() {
    let world = World::new();
    world.write("src/a", "some text");
    let settings = format!("audit = \"{}\"\n", world.path("audit.jsonl").display());
    let server = Server::set(&world, &settings);
    server.ok("sync -a src/ URL/photos/");
    let line = wait_for_line(&world, &["\"event\":\"session\"", "\"outcome\":\"done\""]);
    for part in
        ["\"volume\":\"photos\"", "\"transferred\":1", "\"literal_bytes\":9", "\"token\":\""]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    wait_for_line(&world, &["\"event\":\"login\"", "\"from\":\"127.0.0.1\""]);
    wait_for_line(&world, &["\"event\":\"open\"", "\"volume\":\"photos\""]);
    let file = "/v1/volumes/photos/files/a";
    assert_eq!(server.status("PUT", file, "Content-Length: 3\r\n\r\nnew"), 204);
    assert_eq!(server.status("DELETE", file, "If-Match: *\r\n"), 204);
    wait_for_line(&world, &["\"method\":\"PUT\"", file, "\"status\":204", "\"bytes\":\"3\""]);
    wait_for_line(&world, &["\"method\":\"DELETE\"", file, "\"status\":204"]);
    let token = server.add_token("tv");
    server.answer(&token, "/v1/volumes", "");
    wait_for_line(&world, &["\"event\":\"token_made\"", "\"name\":\"tv\""]);
    server.ok("token revoke --state state tv");
    server.answer(&token, "/v1/volumes", "");
    wait_for_line(&world, &["\"event\":\"token_revoked\"", "\"name\":\"tv\""]);
    wait_for_line(&world, &["\"event\":\"wrong_token\"", "\"from\":\"127.0.0.1\""]);
    let log = String::from_utf8(world.read("audit.jsonl")).unwrap();
    for secret in [&token, server.token()] {
        assert!(!log.contains(&secret[4..20]), "{log}");
    }
    assert_eq!(world.mode("audit.jsonl") & 0o777, 0o600);
    // Each line names the one before it.
    let mut before = String::new();
    for line in log.lines() {
        let hash = blake3::hash(before.as_bytes()).to_hex();
        assert!(line.contains(&format!("\"before\":\"{hash}\"")), "{line}");
        before = line.to_owned();
    }
}

#[test]
fn metrics_are_shown_on_their_own_address_and_nowhere_else() {
    let world = World::new();
    world.write("src/a", "some text");
    // Nobody else takes a port of this address before the server does.
    let free = TcpListener::bind("127.0.0.73:0").unwrap().local_addr().unwrap();
    let server = Server::set(&world, &format!("metrics = \"{free}\"\n"));
    server.ok("sync -a src/ URL/photos/");
    server.answer("dlt_x", "/v1/volumes", "");
    assert_eq!(server.status("GET", "/metrics", ""), 404);
    let metrics = || {
        let mut stream = TcpStream::connect(free).unwrap();
        let head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(head).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let done = "deltic_sessions_total{volume=\"photos\",outcome=\"done\"} 1\n";
    wait_until("the session is counted", || metrics().contains(done));
    let shown = metrics();
    for line in [
        "deltic_literal_bytes_total{volume=\"photos\",outcome=\"done\"} 9\n",
        "deltic_wrong_tokens_total 1\n",
        "deltic_answers_total{outcome=\"4xx\"} 2\n",
        "# TYPE deltic_sessions gauge\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}
