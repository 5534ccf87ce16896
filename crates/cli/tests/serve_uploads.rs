//! Uploads in several requests to a real server.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use crate::common::{World, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const FILES: &str = "/v1/volumes/photos/files";

/// Begins an upload of `len` bytes. The second value is the address of the upload.
fn begin(server: &Server<'_>, token: &str, (name, len): (&str, usize)) -> (Answer, String) {
    begin_with(server, token, (name, len), ("", b""))
}

/// Begins an upload with more headers, each of which ends in a line end, and with its first bytes.
fn begin_with(
    server: &Server<'_>,
    token: &str,
    (name, len): (&str, usize),
    (more, first): (&str, &[u8]),
) -> (Answer, String) {
    let what = format!("PUT {FILES}/{name}");
    let more = format!("Upload-Complete: ?0\r\nUpload-Length: {len}\r\n{more}");
    let begun = ask_as(server, token, (&what, &more), first);
    let place = begun.header("location").unwrap_or_default().to_owned();
    (begun, place)
}

fn append(server: &Server<'_>, place: &str, (at, more): (usize, &str), bytes: &[u8]) -> Answer {
    let more = format!("Upload-Offset: {at}\r\n{more}");
    ask(server, &format!("PATCH {place}"), &more, bytes)
}

/// Offset of the next byte of an upload.
fn offset(server: &Server<'_>, place: &str) -> Option<usize> {
    let told = ask(server, &format!("HEAD {place}"), "", b"");
    told.header("upload-offset").and_then(|at| at.parse().ok())
}

/// Bytes and names of the volume, as the server counts them.
fn used(server: &Server<'_>) -> (u64, u64) {
    let answer = ask(server, "GET /v1/volumes", "", b"");
    let shown: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    let used = |what: &str| shown["volumes"][0][what]["used"].as_u64().expect("it is counted");
    (used("bytes"), used("files"))
}

const GOES_ON: &str = "Upload-Complete: ?0\r\n";
const ENDS: &str = "Upload-Complete: ?1\r\n";

#[test]
fn an_announced_length_takes_no_space_from_others() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    let (begun, place) = begin(&server, server.token(), ("slow", 90_000));
    assert_eq!(begun.status, 201, "{begun:?}");
    let put = |name: &str| ask(&server, &format!("PUT {FILES}/{name}"), "", &[7; 60_000]).status;
    assert_eq!(put("other"), 201);
    // A length that has no room at all is refused before its first byte.
    assert_eq!(begin(&server, server.token(), ("more", 90_000)).0.status, 507);
    // Bytes that have no room are refused, and the bytes before stay.
    let add = |at: usize, more: &str, len: usize| {
        append(&server, &place, (at, more), &vec![1; len]).status
    };
    assert_eq!(add(0, GOES_ON, 30_000), 204);
    assert_eq!(add(30_000, GOES_ON, 20_000), 507);
    assert_eq!(offset(&server, &place), Some(30_000));
    let removed = ask(&server, &format!("DELETE {FILES}/other"), "If-Match: *\r\n", b"");
    assert_eq!(removed.status, 204);
    assert_eq!(add(30_000, ENDS, 60_000), 201);
    assert_eq!(world.read("photos/slow"), [1; 90_000]);
    assert_eq!(used(&server), (90_000, 1));
}

#[test]
fn an_upload_ends_with_its_token() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    let guest = server.add_token("guest");
    let (begun, _) = begin_with(&server, &guest, ("a", 90), ("", &[1; 10]));
    assert_eq!((begun.status, used(&server)), (201, (10, 1)));
    server.ok("token revoke --state state guest");
    wait_until("the upload has ended", || used(&server) == (0, 0));
}

#[test]
fn an_upload_whose_name_no_client_was_told_ends() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    let mut upload = server.connect();
    let head = format!(
        "PUT {FILES}/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nUpload-Complete: ?0\r\n\
         Upload-Length: 90\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n",
        server.token()
    );
    upload.write_all(head.as_bytes()).unwrap();
    let mut line = [0; 25];
    upload.read_exact(&mut line).unwrap();
    wait_until("the upload has begun", || used(&server).1 == 1);
    drop(upload);
    wait_until("the upload has ended", || used(&server) == (0, 0));
}

#[test]
fn a_digest_of_an_upload_in_several_requests_is_checked() {
    const RIGHT: &str = "Repr-Digest: sha-256=:vvV+x/U6bUC+tkCngKY5yDvCmsipgW8fxsXG3Nk8RyE=:\r\n";
    let world = World::new();
    let server = Server::start(&world, "");
    let begin = |more: &str| begin_with(&server, server.token(), ("a", 6), (more, b"abc"));
    assert_eq!(begin("Repr-Digest: sha-256=x\r\n").0.status, 400);
    let last = |place: &str, more: &str, bytes: &[u8]| {
        append(&server, place, (3, &format!("{ENDS}{more}")), bytes).status
    };
    // The first request or the last request has the digest.
    let (begun, place) = begin(RIGHT);
    assert_eq!((begun.status, last(&place, "", b"deg")), (201, 400));
    assert!(!world.exists("photos/a"));
    let (_, place) = begin("");
    assert_eq!(last(&place, RIGHT, b"deg"), 400);
    assert!(!world.exists("photos/a"));
    let (_, place) = begin(RIGHT);
    assert_eq!(last(&place, RIGHT, b"def"), 201);
    assert_eq!(world.read("photos/a"), b"abcdef");
}

#[test]
fn a_newer_request_ends_an_older_one_whose_connection_may_be_lost() {
    const PIECE: usize = 256 << 10;
    const LEN: usize = PIECE + 10;
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 1000000", "");
    let half_open = |place: &str, at: usize, bytes: &[u8]| {
        let mut stream = server.connect();
        let head = format!(
            "PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nUpload-Offset: {at}\r\n\
             {ENDS}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            server.token(),
            LEN - at
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 25];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let (_, place) = begin(&server, server.token(), ("a", LEN));
    let first = half_open(&place, 0, &[1; PIECE]);
    wait_until("the bytes have arrived", || used(&server).0 == PIECE as u64);
    assert_eq!(offset(&server, &place), Some(PIECE), "the bytes stay");
    let second = half_open(&place, PIECE, b"");
    let last = append(&server, &place, (PIECE, ENDS), &[1; 10]);
    assert_eq!(last.status, 201, "{last:?}");
    assert_eq!(world.read("photos/a"), [1; LEN]);
    for mut older in [first, second] {
        let mut answer = [0; 12];
        older.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 409");
    }
    // The end of an upload ends its requests too.
    let (_, place) = begin(&server, server.token(), ("b", LEN));
    let _older = half_open(&place, 0, b"");
    assert_eq!(ask(&server, &format!("DELETE {place}"), "", b"").status, 204);
    assert_eq!(offset(&server, &place), None);
    assert!(!world.exists("photos/b"));
}

#[test]
fn unfinished_uploads_of_all_tokens_of_a_chain_count_together() {
    let world = World::new();
    let limits = "[limits]\nrequests_per_second = 1000\nrequest_burst = 1000\n";
    let server = Server::set(&world, limits);
    let guest = server.add_token("guest");
    let made =
        ask_as(&server, &guest, ("POST /v1/tokens", ""), br#"{"name": "more", "write": true}"#);
    let made: Value = serde_json::from_slice(&made.body).expect("it is JSON");
    let more = made["token"].as_str().expect("it is made");
    let mut begun = (0..50).map(|nth| begin(&server, &guest, (&format!("{nth}"), 9)).0.status);
    assert!(begun.all(|status| status == 201));
    assert_eq!(begin(&server, more, ("x", 9)).0.status, 503);
    let other = server.add_token("other");
    assert_eq!(begin(&server, &other, ("x", 9)).0.status, 201);
}

#[test]
fn the_directories_of_an_upload_are_made_again_if_another_upload_took_them_away() {
    let world = World::new();
    let server = Server::start(&world, "");
    let (_, first) = begin(&server, server.token(), ("new/a", 3));
    let (_, second) = begin(&server, server.token(), ("new/b", 3));
    assert_eq!(ask(&server, &format!("DELETE {first}"), "", b"").status, 204);
    assert!(!world.exists("photos/new"));
    assert_eq!(append(&server, &second, (0, ENDS), b"new").status, 201);
    assert_eq!(world.read("photos/new/b"), b"new");
}

#[test]
fn an_upload_goes_on_after_the_server_was_killed_or_ended() {
    const RIGHT: &str = "Repr-Digest: sha-256=:vvV+x/U6bUC+tkCngKY5yDvCmsipgW8fxsXG3Nk8RyE=:\r\n";
    let world = World::new();
    let start = || Server::set_volume(&world, "quota_bytes = 1000000", "");
    let server = start();
    let guest = server.add_token("guest");
    let begin = |server: &Server<'_>, name: &str, len: usize, more: &str| {
        let (begun, place) = begin_with(server, &guest, (name, len), (more, b""));
        assert_eq!(begun.status, 201, "{begun:?}");
        place
    };
    let add = |server: &Server<'_>, place: &str, (at, more): (usize, &str), bytes: &[u8]| {
        let more = format!("Upload-Offset: {at}\r\n{more}");
        ask_as(server, &guest, (&format!("PATCH {place}"), &more), bytes).status
    };
    let offset = |server: &Server<'_>, place: &str| {
        let told = ask_as(server, &guest, (&format!("HEAD {place}"), ""), b"");
        told.header("upload-offset").and_then(|at| at.parse::<usize>().ok())
    };
    let long = begin(&server, "new/long", 600_000, "If-None-Match: *\r\n");
    let checked = begin(&server, "checked", 6, RIGHT);
    let lost = begin(&server, "lost", 6, "If-None-Match: *\r\n");
    assert_eq!(add(&server, &long, (0, GOES_ON), &[1; 300_000]), 204);
    assert_eq!(add(&server, &checked, (0, GOES_ON), b"abc"), 204);
    assert_eq!(used(&server), (300_003, 4));
    // The end of the value kills the server.
    drop(server);
    // Another program makes the file meanwhile.
    world.write("photos/lost", "other");
    let mut server = start();
    assert_eq!(offset(&server, &lost), None);
    assert_eq!(offset(&server, &long), Some(300_000));
    assert_eq!(used(&server), (300_008, 4));
    assert_eq!(add(&server, &long, (300_000, GOES_ON), &[2; 200_000]), 204);
    // A request that is under way at the end loses no bytes of earlier requests.
    let mut busy = server.connect();
    let head = format!(
        "PATCH {long} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {guest}\r\nUpload-Offset: 500000\r\n\
         {ENDS}Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n"
    );
    busy.write_all(head.as_bytes()).unwrap();
    busy.read_exact(&mut [0; 25]).unwrap();
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    server.signal(Signal::TERM);
    server.child.wait().expect("it is ours");
    let server = start();
    assert_eq!(offset(&server, &long), Some(500_000));
    assert_eq!(add(&server, &long, (500_000, ENDS), &[3; 100_000]), 201);
    let read = world.read("photos/new/long");
    assert_eq!(read, [vec![1; 300_000], vec![2; 200_000], vec![3; 100_000]].concat());
    assert_eq!(add(&server, &checked, (3, ENDS), b"def"), 201);
    assert_eq!(world.read("photos/checked"), b"abcdef");
    assert_eq!(used(&server), (600_011, 4));
    assert_eq!(world.names("state/uploads"), Vec::<String>::new());
    // A revoked token has no uploads after a start either.
    let place = begin(&server, "more", 6, "");
    server.ok("token revoke --state state guest");
    drop(server);
    let server = start();
    assert_eq!(ask(&server, &format!("HEAD {place}"), "", b"").status, 404);
    assert_eq!(world.names("state/uploads"), Vec::<String>::new());
}

#[test]
fn an_upload_that_fails_or_cannot_go_on_leaves_no_staged_file() {
    let world = World::new();
    let start = || Server::set_volume(&world, "quota_bytes = 1000000", "");
    let server = start();
    // A record of an upload is text, so an upload with such a condition has none.
    let head = format!(
        "PUT {FILES}/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nUpload-Complete: ?0\r\n\
         Upload-Length: 90\r\nConnection: close\r\nContent-Length: 10\r\nIf-None-Match: ",
        server.token()
    );
    let mut stream = server.connect();
    stream.write_all(&[head.as_bytes(), b"\"\xff\"\r\n\r\n0123456789"].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let place = answer.lines().find_map(|line| line.strip_prefix("location: ")).expect(&answer);
    assert_eq!(ask(&server, &format!("PUT {FILES}/a"), "", b"other").status, 201);
    let last = append(&server, place, (10, ENDS), &[1; 80]);
    assert!([409, 412].contains(&last.status), "{last:?}");
    assert_eq!((used(&server), world.exists("photos/.deltic")), ((5, 1), false));
    // Nor does an upload whose log is of another boot, or is lost.
    let guest = server.add_token("guest");
    let (begun, place) = begin_with(&server, &guest, ("b", 90), ("", &[1; 10]));
    assert_eq!(begun.status, 201, "{begun:?}");
    drop(server);
    let names = world.names("photos/.deltic");
    let log = names.iter().find(|name| name.ends_with(".log")).expect("the upload has a log");
    world.write(format!("photos/.deltic/{log}"), "");
    let server = start();
    assert_eq!(ask_as(&server, &guest, (&format!("HEAD {place}"), ""), b"").status, 404);
    assert_eq!((used(&server), world.exists("photos/.deltic")), ((5, 1), false));
    assert_eq!(world.names("state/uploads"), Vec::<String>::new());
}

#[test]
fn the_bytes_of_an_upload_need_no_free_space_after_a_restart() {
    let world = World::new();
    let start = |free: u64| Server::set_volume(&world, &format!("free_bytes = {free}"), "");
    let server = start(0);
    let guest = server.add_token("guest");
    let (begun, place) = begin_with(&server, &guest, ("a", 90), ("", &[1; 10]));
    assert_eq!(begun.status, 201, "{begun:?}");
    let add = |server: &Server<'_>, bytes: &[u8]| {
        let more = format!("Upload-Offset: 10\r\n{ENDS}");
        ask_as(server, &guest, (&format!("PATCH {place}"), &more), bytes)
    };
    drop(server);
    let server = start(9_000_000_000_000_000_000);
    let told = ask_as(&server, &guest, (&format!("HEAD {place}"), ""), b"");
    assert_eq!(told.header("upload-offset"), Some("10"), "{told:?}");
    assert_eq!(add(&server, &[1; 80]).status, 507);
    drop(server);
    let server = start(0);
    let added = add(&server, &[1; 80]);
    assert_eq!(added.status, 201, "{added:?}");
    assert_eq!(world.read("photos/a"), [1; 90]);
}
