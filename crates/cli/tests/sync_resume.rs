//! A killed transfer of a large file goes on from what is on the disk, and does not read it again.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{DELTIC, World, noise};

const LEN: usize = 40 << 20;

/// A remote shell that tells its process's number, and what it and all below it have read.
const COUNTING: &str = r#"sh -c 'shift; exec 3<&0; "$@" <&3 & echo $! > agent; wait $!; code=$?; cat /proc/$$/io > io; exit $code' rsh"#;

/// Kills the receiving end of a push of `src/large` once a third of it is there.
fn killed() -> World {
    let world = World::new();
    world.write("src/large", noise(LEN, 5));
    world.mkdir("dst");
    let mut push = Command::new(DELTIC)
        .args(["sync", "-a", "--bwlimit", "30M", "-e", COUNTING, "--deltic-path", DELTIC])
        .args(["src/large", "h:dst/"])
        .current_dir(world.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let staged = |suffix: &str| {
        let entries = fs::read_dir(world.path("dst/.deltic")).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.to_string_lossy().ends_with(suffix))
    };
    let start = Instant::now();
    // One note for each block of 256 KiB, of about 40 bytes.
    while staged(".log").and_then(|log| fs::metadata(log).ok()).is_none_or(|log| log.len() < 2500) {
        assert!(start.elapsed() < Duration::from_secs(50), "nothing arrives");
        thread::sleep(Duration::from_millis(5));
    }
    let agent = String::from_utf8(world.read("agent")).expect("a number");
    let kill = Command::new("kill").args(["-9", agent.trim()]).status().expect("it starts");
    assert!(kill.success());
    push.wait().expect("it ends");
    assert!(staged(".tmp").is_some(), "it is left behind");
    world
}

/// Bytes that the receiving end read in a push that succeeds.
fn bytes_read(world: &World) -> usize {
    let run = Command::new(DELTIC)
        .args(["sync", "-a", "-e", COUNTING, "--deltic-path", DELTIC, "src/large", "h:dst/"])
        .current_dir(world.path(""))
        .status()
        .expect("it starts");
    assert!(run.success());
    assert!(world.read("dst/large") == world.read("src/large"));
    assert!(!world.exists("dst/.deltic"), "litter");
    let io = String::from_utf8(world.read("io")).expect("text");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.expect("Linux counts").parse().expect("a number")
}

#[test]
fn what_is_on_the_disk_is_neither_sent_nor_read_again() {
    let world = killed();
    let read = bytes_read(&world);
    assert!(read < LEN - (LEN / 4), "{read} of {LEN}");
}

#[test]
fn a_damaged_journal_is_no_harm() {
    let world = killed();
    for entry in fs::read_dir(world.path("dst/.deltic")).expect("it is there").flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(".log") {
            let mut log = fs::read(&path).expect("it is ours");
            log[40] ^= 1;
            fs::write(&path, log).expect("it is ours");
        }
    }
    assert!(bytes_read(&world) > LEN, "it was matched as an old version");
}

#[test]
fn a_source_that_changed_meanwhile_comes_through() {
    let world = killed();
    let mut bytes = world.read("src/large");
    bytes[5_000_000..5_001_000].fill(7);
    world.write("src/large", bytes);
    bytes_read(&world);
}
