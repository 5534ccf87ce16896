//! Old versions of an age while the clock is wrong (`deltic serve --versions 30d`), by `faketime`.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::http::ask;
use crate::common::server::Server;
use crate::common::{World, skip, wait_until};
use rustix::process::Signal;

const FILE: &str = "/v1/volumes/photos/files/a";
const KEPT: &str = "photos/.deltic-versions/a";
/// Where an hour is some seconds, a client that takes long is none to be cut off.
const SETTINGS: &str = "[limits]\nhead_seconds = 36000\nstall_seconds = 36000\n";

/// The library by which a program sees another time; nothing, and a line, where `faketime` is missing.
fn library() -> Option<String> {
    let shown =
        Command::new("faketime").args(["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]).output();
    let shown = shown.ok().filter(|shown| shown.status.success());
    let Some(shown) = shown else {
        skip("faketime is not installed: no server sees a wrong clock");
        return None;
    };
    // The server has threads.
    Some(
        String::from_utf8_lossy(&shown.stdout).trim().replace("libfaketime.so", "libfaketimeMT.so"),
    )
}

/// A server that sees a time, as `faketime -f` writes times.
fn server_at<'a>(world: &'a World, library: &str, time: &str) -> Server<'a> {
    let env = [("LD_PRELOAD", library), ("FAKETIME", time)];
    Server::set_in(world, "versions = \"30d\"\n", SETTINGS, &env)
}

fn put(server: &Server<'_>, body: &str) {
    let answer = ask(server, &format!("PUT {FILE}"), "", body.as_bytes());
    assert!([201, 204].contains(&answer.status), "{answer:?}");
}

/// Ends a server as its owner does.
fn end(mut server: Server<'_>) {
    server.signal(Signal::TERM);
    server.child.wait().expect("it runs");
}

#[test]
fn a_clock_that_is_ahead_deletes_no_old_version_whatever_is_done() {
    let Some(library) = library() else { return };
    let world = World::new();
    let server = server_at(&world, &library, "+0");
    ["1", "2", "3", "4", "5", "6"].iter().for_each(|body| put(&server, body));
    assert_eq!(world.names(KEPT).len(), 5);
    end(server);
    // The look of a start, a whole file, a session, a restore, and a deletion.
    let server = server_at(&world, &library, "+400d");
    sleep(Duration::from_secs(2));
    assert_eq!(world.names(KEPT).len(), 5, "the start");
    put(&server, "7");
    assert_eq!(world.names(KEPT).len(), 6, "PUT");
    world.write("src/a", "eighth");
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(world.names(KEPT).len(), 7, "a session");
    let oldest = world.names(KEPT).into_iter().min().expect("some are kept");
    let id = oldest.strip_prefix(".deltic-").expect("it is a version");
    let restored = ask(&server, &format!("POST {FILE}?as=restore&version={id}"), "", b"");
    assert_eq!(restored.status, 204, "{restored:?}");
    assert_eq!(world.names(KEPT).len(), 8, "a restore");
    assert_eq!(ask(&server, &format!("DELETE {FILE}"), "If-Match: *\r\n", b"").status, 204);
    assert_eq!(world.names(KEPT).len(), 9, "a deletion");
    end(server);
    // The clock is right again: nothing has gone, and a clock that is behind takes nothing either.
    for days in [0, 400] {
        let server = server_at(&world, &library, &format!("{:+}d", 0 - days));
        sleep(Duration::from_secs(1));
        put(&server, &days.to_string());
        end(server);
    }
    assert_eq!(world.names(KEPT).len(), 10);
}

/// The file holds the last changes of the disks before a server under a wrong clock changes the disks.
#[test]
fn a_clock_that_is_ahead_at_the_first_start_is_told_at_every_start() {
    let Some(library) = library() else { return };
    let world = World::new();
    let real = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let before = real();
    for start in ["first", "second"] {
        let server = server_at(&world, &library, "+400d");
        let kept = String::from_utf8(world.read("state/clock")).expect("it is text");
        let kept = kept.trim().parse::<u64>().expect("it is a number");
        assert!((before - 60..=real()).contains(&kept), "{start}: {kept}");
        put(&server, start);
        drop(server);
    }
}

/// An hour is six seconds for this server. A few minutes are no jump, and take what is old alone.
#[test]
fn a_clock_that_is_some_minutes_ahead_deletes_no_version_that_is_not_old() {
    let Some(library) = library() else { return };
    let world = World::new();
    let server = server_at(&world, &library, "+0");
    ["1", "2", "3"].iter().for_each(|body| put(&server, body));
    end(server);
    world.write(format!("{KEPT}/.deltic-1000000000"), "of 1970");
    let server = server_at(&world, &library, "+5m x600");
    assert_eq!(world.names(KEPT).len(), 3, "not at once");
    wait_until("the one of 1970 goes", || world.names(KEPT).len() == 2);
    put(&server, "4");
    assert_eq!(world.names(KEPT).len(), 3);
    end(server);
}

/// An hour is six seconds for this server.
#[test]
fn versions_of_an_age_go_an_hour_after_a_start() {
    let Some(library) = library() else { return };
    let world = World::new();
    let server = server_at(&world, &library, "+0");
    ["1", "2", "3"].iter().for_each(|body| put(&server, body));
    end(server);
    world.write(format!("{KEPT}/.deltic-1000000000"), "of 1970");
    world.write("photos/.deltic-versions/gone/x/.deltic-7", "of 1970");
    let server = server_at(&world, &library, "+0 x600");
    assert_eq!(world.names(KEPT).len(), 3, "not at once");
    wait_until("those of 1970 go", || {
        !world.exists("photos/.deltic-versions/gone") && world.names(KEPT).len() == 2
    });
    wait_until("the time is kept", || world.exists("state/clock"));
    end(server);
}
