//! Quotas of tokens of `deltic serve`: what may be in the part of a volume that a token is for.

use std::thread;

use crate::common::World;
use crate::common::http::{Answer, ask, ask_as};
use crate::common::server::Server;
use serde_json::Value;

const FILES: &str = "/v1/volumes/photos/files";

fn put(server: &Server<'_>, token: &str, name: &str, len: usize) -> Answer {
    ask_as(server, token, (&format!("PUT {FILES}/{name}"), ""), &vec![7; len])
}

/// Bytes and names of the token's part, as the server counts them.
fn used(server: &Server<'_>, token: &str) -> (u64, u64) {
    let answer = ask_as(server, token, ("GET /v1/volumes", ""), b"");
    let shown: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    let used = |what: &str| shown["volumes"][0]["token"][what]["used"].as_u64().expect("counted");
    (used("bytes"), used("files"))
}

#[track_caller]
fn is_refused(answer: &Answer, why: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!((answer.status, body.contains(why)), (507, true), "{body}");
}

#[test]
fn a_quota_of_a_token_bounds_what_is_in_its_part() {
    let world = World::new();
    world.write("photos/guests/before", vec![1; 10_000]);
    world.write("photos/else", vec![1; 500_000]);
    let server = Server::start(&world, "");
    let guest = server.add_token("--volume photos --path guests --quota 100KB guest");
    assert_eq!(used(&server, &guest), (10_000, 1));
    assert_eq!(put(&server, &guest, "guests/one", 60_000).status, 201);
    is_refused(
        &put(&server, &guest, "guests/two", 40_000),
        "quota of the token has 30000 bytes left",
    );
    assert!(!world.path("photos/guests/two").exists());
    // The operator has no quota, and what it puts there counts at the next count.
    assert_eq!(put(&server, server.token(), "guests/three", 300_000).status, 201);
    let removed = |name: &str| {
        let what = format!("DELETE {FILES}/{name}");
        ask_as(&server, &guest, (&what, "If-Match: *\r\n"), b"").status
    };
    assert_eq!((removed("guests/one"), used(&server, &guest)), (204, (10_000, 1)));
    assert_eq!(put(&server, &guest, "guests/deep/two", 90_000).status, 201);
    assert_eq!(used(&server, &guest), (100_000, 3));
    // A file that gets another name takes no more.
    let moved = format!("POST {FILES}/guests/deep/two?as=move&to=guests/two");
    assert_eq!(ask_as(&server, &guest, (&moved, ""), b"").status, 201);
    assert_eq!(used(&server, &guest), (100_000, 3));
    let list = server.ok("token list --state state").stdout;
    assert!(list.contains("at most 100,000 bytes"), "{list}");
}

#[test]
fn what_tokens_make_counts_with_them() {
    let world = World::new();
    world.mkdir("photos/guests");
    let server = Server::start(&world, "");
    let guest = server.add_token("--path guests --quota-files 3 guest");
    let mint = |more: &str| {
        let wanted = format!("{{\"name\": \"more\", \"write\": true{more}}}");
        let made = ask_as(&server, &guest, ("POST /v1/tokens", ""), wanted.as_bytes());
        let made: Value = serde_json::from_slice(&made.body).expect("it is JSON");
        made["token"].as_str().expect("it is made").to_owned()
    };
    let (one, other) = (mint(""), mint(", \"quota_bytes\": 1000"));
    assert_eq!(put(&server, &one, "guests/a", 10).status, 201);
    is_refused(&put(&server, &other, "guests/b", 2_000), "quota of the token has 990 bytes left");
    assert_eq!(put(&server, &other, "guests/b", 20).status, 201);
    let answers: Vec<_> = thread::scope(|scope| {
        let put = |nth: usize| put(&server, &one, &format!("guests/c{nth}"), 1).status;
        let writers: Vec<_> = (0..4).map(|nth| scope.spawn(move || put(nth))).collect();
        writers.into_iter().map(|writer| writer.join().expect("it answers")).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 1, "{answers:?}");
    is_refused(&put(&server, &guest, "guests/d", 1), "is used up: 3 of 3 names");
    let dir = ask_as(&server, &guest, ("POST /v1/volumes/photos/tree/guests/dir", ""), b"");
    is_refused(&dir, "is used up");
}

#[test]
fn a_sync_names_what_a_quota_of_its_token_has_no_room_for() {
    let world = World::new();
    world.mkdir("photos/guests");
    let server = Server::start(&world, "--versions 5");
    let guest = server.add_token("--path guests --quota 200KB guest");
    world.write("token", &guest);
    world.write("a/kept", vec![1; 50_000]);
    world.write("a/long", vec![2; 120_000]);
    let sync = "sync -a --token @token a/ URL/photos/guests/";
    server.ok(sync);
    assert_eq!(used(&server, &guest), (170_000, 2));
    // A new version has no room beside the old one; files that fit come all the same.
    world.write("a/long", vec![3; 110_000]);
    world.write("a/short", "short");
    server.fails(23, sync, "quota of the token has");
    assert_eq!(world.read("photos/guests/long"), vec![2; 120_000]);
    assert_eq!(world.read("photos/guests/short"), b"short");
    // The old version that the volume keeps does not count.
    world.write("a/kept", vec![4; 20_000]);
    server.fails(23, sync, "quota of the token has");
    assert_eq!(used(&server, &guest), (140_005, 3));
    world.write("b/short", "short");
    server.ok("sync -a --delete --token @token b/ URL/photos/guests/");
    assert_eq!(used(&server, &guest), (5, 1));
    server.ok(sync);
    assert_eq!(used(&server, &guest), (130_005, 3));
    assert_eq!(ask(&server, "GET /v1/volumes", "", b"").status, 200);
}
