//! Quotas of volumes of `deltic serve`, and room that stays on their disks.

use std::io::{Read, Write};
use std::thread;
use std::time::Instant;

use crate::common::disks::exfat_of;
use crate::common::http::{Answer, ask};
use crate::common::server::Server;
use crate::common::{PATIENCE, World, noise, wait_until};
use serde_json::Value;

const FILES: &str = "/v1/volumes/photos/files";

fn put(server: &Server<'_>, name: &str, len: usize) -> Answer {
    ask(server, &format!("PUT {FILES}/{name}"), "", &vec![7; len])
}

/// Bytes and names of the volume, as the server counts them.
fn used(server: &Server<'_>) -> (u64, u64) {
    let answer = ask(server, "GET /v1/volumes", "", b"");
    let shown: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    let used = |what: &str| shown["volumes"][0][what]["used"].as_u64().expect("it is counted");
    (used("bytes"), used("files"))
}

/// Waits until the server counts this much: a request that is cut is given up a moment later.
#[track_caller]
fn wait_for(server: &Server<'_>, wanted: (u64, u64)) {
    let begun = Instant::now();
    while used(server) != wanted {
        assert!(begun.elapsed() < PATIENCE, "{:?} are counted, not {wanted:?}", used(server));
        thread::yield_now();
    }
}

#[track_caller]
fn is_refused(answer: &Answer, why: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!((answer.status, body.contains(why)), (507, true), "{body}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
}

#[test]
fn a_quota_refuses_what_would_exceed_it_and_leaves_all_else_as_it_was() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    assert_eq!(put(&server, "one", 60_000).status, 201);
    is_refused(&put(&server, "two", 60_000), "40000 bytes left, 60000 are needed");
    // The new version and the old one are there at the same time.
    is_refused(&put(&server, "one", 50_000), "40000 bytes left");
    assert_eq!(world.read("photos/one").len(), 60_000);
    assert!(!world.path("photos/two").exists());
    assert_eq!(used(&server), (60_000, 1));
    assert_eq!(put(&server, "one", 30_000).status, 204);
    assert_eq!(put(&server, "two", 70_000).status, 201);
    assert_eq!(used(&server), (100_000, 2));
    let removed = ask(&server, &format!("DELETE {FILES}/two"), "If-Match: *\r\n", b"");
    assert_eq!((removed.status, used(&server)), (204, (30_000, 1)));
    assert_eq!(put(&server, "deep/below/two", 70_000).status, 201);
    assert_eq!(used(&server), (100_000, 4));
}

#[test]
fn writers_at_the_edge_get_all_of_their_room_or_none() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    let put = |nth: usize| put(&server, &format!("file-{nth}"), 30_000).status;
    let answers: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|nth| scope.spawn(move || put(nth))).collect();
        writers.into_iter().map(|writer| writer.join().expect("it answers")).collect()
    });
    let count = |status| answers.iter().filter(|is| **is == status).count();
    assert_eq!((count(201), count(507)), (3, 5), "{answers:?}");
    assert_eq!(used(&server), (90_000, 3));
    for (nth, status) in answers.iter().enumerate() {
        let path = world.path(format!("photos/file-{nth}"));
        let len = path.metadata().map_or(0, |meta| meta.len());
        assert_eq!(len, if *status == 201 { 30_000 } else { 0 }, "{nth}");
    }
}

#[test]
fn replacing_one_file_at_once_counts_it_once() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 1000000", "");
    thread::scope(|scope| {
        for nth in 1..=8 {
            let server = &server;
            scope.spawn(move || (0..5).for_each(|_| drop(put(server, "file", 1_000 * nth))));
        }
    });
    assert_eq!(used(&server), (world.read("photos/file").len() as u64, 1));
    server.wait_for_no_staging();
}

#[test]
fn an_upload_that_is_cut_gives_its_room_back() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 100000", "");
    let stream = server.upload(server.token(), ("cut", 90_000), &[1; 10_000]);
    wait_for(&server, (90_000, 1));
    is_refused(&put(&server, "other", 20_000), "10000 bytes left");
    drop(stream);
    wait_for(&server, (0, 0));
    server.wait_for_no_staging();
    assert_eq!(put(&server, "other", 100_000).status, 201);
}

#[test]
fn a_sync_reports_a_full_quota_and_goes_on_once_there_is_room() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 200000", "");
    world.write("a/kept", vec![1; 50_000]);
    world.write("a/sub/long", vec![2; 120_000]);
    server.ok("sync -a a/ URL/photos/");
    assert_eq!(used(&server), (170_000, 3));
    // The new version of the long file has no room beside the old one.
    world.write("a/sub/long", vec![3; 110_000]);
    world.write("a/short", "short");
    server.fails(23, "sync -a a/ URL/photos/", "quota of the volume has");
    assert_eq!(world.read("photos/sub/long"), vec![2; 120_000]);
    assert_eq!(world.read("photos/short"), b"short");
    std::fs::remove_file(world.path("a/kept")).expect("it is there");
    std::fs::remove_file(world.path("photos/sub/long")).expect("it is there");
    drop(server);
    let server = Server::set_volume(&world, "quota_bytes = 200000", "");
    server.ok("sync -a --delete a/ URL/photos/");
    assert_eq!(world.read("photos/sub/long"), vec![3; 110_000]);
    assert_eq!(used(&server), (110_005, 3));
}

#[test]
fn a_server_that_starts_again_counts_what_is_there() {
    let world = World::new();
    world.write("photos/old/file", vec![1; 1_000]);
    std::os::unix::fs::symlink("file", world.path("photos/old/link")).expect("it is made");
    std::fs::hard_link(world.path("photos/old/file"), world.path("photos/same")).expect("it is");
    let keys = "quota_bytes = 100000\nquota_files = 6\nversions = 5";
    let server = Server::set_volume(&world, keys, "");
    assert_eq!(used(&server), (1_000, 4));
    assert_eq!(put(&server, "new", 2_000).status, 201);
    // What is replaced is kept, and counts.
    assert_eq!(put(&server, "new", 3_000).status, 204);
    assert_eq!(used(&server), (6_000, 6));
    is_refused(&put(&server, "more", 1), "6 of 6 names");
    is_refused(&ask(&server, "POST /v1/volumes/photos/tree/dir", "", b""), "6 of 6 names");
    drop(server);
    let server = Server::set_volume(&world, keys, "");
    assert_eq!(used(&server), (6_000, 6));
}

#[test]
fn a_volume_full_of_names_takes_new_versions_of_its_files() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_files = 2", "");
    assert_eq!(put(&server, "a", 1_000).status, 201);
    assert_eq!(put(&server, "b", 1_000).status, 201);
    is_refused(&put(&server, "c", 1), "2 of 2 names");
    assert_eq!(put(&server, "a", 2_000).status, 204);
    assert_eq!(used(&server), (3_000, 2));
    world.write("s/a", vec![7; 300_000]);
    server.ok("sync -a s/ URL/photos/");
    world.write("s/a", vec![8; 300_001]);
    server.ok("sync -a --inplace s/ URL/photos/");
    assert_eq!(world.read("photos/a"), vec![8; 300_001]);
    assert_eq!(used(&server), (301_001, 2));
    // The name of a file that goes meanwhile is not free for its new version.
    let mut stream = server.upload(server.token(), ("a", 10), b"12345");
    let removed = ask(&server, &format!("DELETE {FILES}/a"), "If-Match: *\r\n", b"");
    assert_eq!(removed.status, 204);
    assert_eq!(put(&server, "c", 1).status, 201);
    let mut answer = String::new();
    stream.write_all(b"67890").and_then(|()| stream.read_to_string(&mut answer)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    wait_for(&server, (1_001, 2));
}

#[test]
fn what_is_refused_leaves_no_directories() {
    let world = World::new();
    let server = Server::set_volume(&world, "quota_bytes = 1000\nquota_files = 3", "");
    is_refused(&put(&server, "a/b/long", 2_000), "1000 bytes left");
    is_refused(&put(&server, "a/b/c/d", 1), "3 of 3 names");
    let wrong = "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n";
    let answer = ask(&server, &format!("PUT {FILES}/a/b/file"), wrong, b"bytes");
    assert_eq!(answer.status, 400);
    let stream = server.upload(server.token(), ("a/b/cut", 900), b"some");
    drop(stream);
    wait_until("the directories are gone", || !world.exists("photos/a"));
    wait_for(&server, (0, 0));
    // What others put there meanwhile stays.
    let stream = server.upload(server.token(), ("a/cut", 900), b"some");
    world.write("photos/a/other", "other");
    drop(stream);
    server.wait_for_no_staging();
    assert_eq!(world.read("photos/a/other"), b"other");
}

#[test]
fn directories_that_a_sync_is_for_count_as_well() {
    let world = World::new();
    world.mkdir("empty");
    world.write("a/file", "file");
    world.write("a/other", "other");
    let server = Server::set_volume(&world, "quota_files = 5", "");
    server.ok("sync -a empty/ URL/photos/one/");
    server.ok("sync -a --mkpath empty/ URL/photos/two/three/four/");
    assert_eq!(used(&server), (0, 4));
    // Those in which nothing is to be go again.
    server.ok("sync -a --mkpath --exclude=* a/file a/other URL/photos/five");
    wait_until("it is gone", || !world.exists("photos/five"));
    wait_for(&server, (0, 4));
    server.fails(11, "sync -a --mkpath empty/ URL/photos/x/y/", "is used up: 5 of 5 names");
    wait_until("it is gone", || !world.exists("photos/x"));
    wait_for(&server, (0, 4));
    server.fails(23, "sync -a a/ URL/photos/five/", "quota of the volume is used up: 5 of 5 names");
    assert_eq!(used(&server), (0, 5));
    server.fails(11, "sync -a empty/ URL/photos/six/", "quota of the volume is used up: 5 of 5");
    assert!(!world.exists("photos/six"));
    let guest = server.add_token("--quota-files 5 guest");
    world.write("token", guest);
    std::fs::remove_dir(world.path("photos/five")).expect("it is empty");
    drop(server);
    let server = Server::set_volume(&world, "", "");
    server.ok("sync -a --token @token empty/ URL/photos/six/");
    let seven = "sync -a --token @token empty/ URL/photos/seven/";
    server.fails(11, seven, "quota of the token is used up: 5 of 5 names");
}

#[test]
fn a_disk_keeps_its_last_bytes() {
    let world = World::new();
    world.write("photos/there", "there");
    let server = Server::set_volume(&world, "free_bytes = 9000000000000000000", "");
    is_refused(&put(&server, "new", 1), "less than 9000000000000000000 bytes would stay free");
    world.write("a/new", "new");
    server.fails(
        23,
        "sync -a a/ URL/photos/",
        "less than 9000000000000000000 bytes would stay free",
    );
    assert_eq!(ask(&server, &format!("GET {FILES}/there"), "", b"").body, b"there");
    let removed = ask(&server, &format!("DELETE {FILES}/there"), "If-Match: *\r\n", b"");
    assert_eq!(removed.status, 204);
}

/// Makes a file of `len` bytes that is a hole but for its first megabyte.
fn make_sparse(world: &World, name: &str, len: u64) {
    world.write(name, noise(1 << 20, len));
    let file = std::fs::File::options().write(true).open(world.path(name));
    file.and_then(|file| file.set_len(len)).expect("it gets its length");
}

/// Holes take room where the file system has none.
#[test]
fn a_disk_without_holes_keeps_its_free_space_from_files_of_holes() {
    let world = World::new();
    let Some(_disk) = exfat_of(&world, "photos", 64 << 20) else { return };
    let server = Server::set_volume(&world, &format!("free_bytes = {}", 32 << 20), "");
    make_sparse(&world, "a/vm", 40 << 20);
    server.fails(23, "sync -aS a/ URL/photos/", "bytes would stay free on the disk of the volume");
    assert!(!world.exists("photos/vm"));
    // Each of these has room for its length once, and the length is taken when the file is made.
    for name in ["a/vm", "a/other"] {
        make_sparse(&world, name, 10 << 20);
    }
    server.ok("sync -rtS a/ URL/photos/");
    for name in ["vm", "other"] {
        assert!(world.read(format!("a/{name}")) == world.read(format!("photos/{name}")), "{name}");
    }
    server.fails(
        23,
        "sync -rt a/vm URL/photos/more",
        "bytes would stay free on the disk of the volume",
    );
    for name in ["b/one", "b/two"] {
        world.write(name, noise(4 << 20, 1));
    }
    server.ok("sync -rt b/ URL/photos/");
    server.wait_for_no_staging();
}
