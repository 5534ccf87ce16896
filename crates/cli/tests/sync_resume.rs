//! A killed transfer of a large file goes on from what is on the disk, and does not read it again.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{DELTIC, WAYS, Way, World, noise, wait_until};

const LEN: usize = 40 << 20;
/// Bytes of an old version, and how many of them, the first ones, are those of the new one.
const OLD_LEN: usize = 16 << 20;
const SAME: usize = 8 << 20;
/// A note of a chunk is less than 30 bytes long, and a chunk more than 2 KiB in the mean: more literals are in place by
/// then.
const LOG_BYTES: u64 = 150_000;
const LEAST_NOTED: usize = 2 << 20;
/// A note of a block is about 40 bytes long, and the block 256 KiB, where nothing is cut: as much is in place by then.
const WHOLE_LOG_BYTES: u64 = 1500;
/// Bytes that are read besides: programs, journals, what lies around gaps.
const READ_BESIDES: usize = 8 << 20;

/// A remote shell that tells its process's number, and what it and all below it have read.
const COUNTING: &str = r#"sh -c 'shift; exec 3<&0; "$@" <&3 & echo $! > agent; wait $!; code=$?; cat /proc/$$/io > io; exit $code' rsh"#;

/// Name of what is waited for where the agent is to end.
const ENDED: &str = "the shell has told what was read";

/// The end of a push that is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    Sender,
    Receiver,
}

/// A push that is killed, and then repeated.
struct Push {
    world: World,
    words: &'static str,
}

/// Kills the receiving end of a push of `src/large` once a third of it is there.
fn killed() -> Push {
    let world = World::new();
    world.write("src/large", noise(LEN, 5));
    world.mkdir("dst");
    killed_after(LOG_BYTES, world, (Killed::Receiver, ""))
}

/// The same where an old version is there, of which some lies where it lies in the new one; so much of the log is
/// written by then that megabytes of literals are.
fn killed_with_old(end: Killed, words: &'static str) -> Push {
    let world = World::new();
    let new = noise(LEN, 5);
    let old = [&new[..SAME], &noise(OLD_LEN - SAME, 6)].concat();
    world.write("src/large", new);
    world.set_time("src/large", 1_000_000);
    world.write("dst/large", old);
    killed_after(LOG_BYTES, world, (end, words))
}

fn killed_after(log_bytes: u64, world: World, (end, words): (Killed, &'static str)) -> Push {
    let mut push = Command::new(DELTIC)
        .args([
            "sync",
            "-a",
            "--no-retry",
            "--bwlimit",
            "8M",
            "-e",
            COUNTING,
            "--deltic-path",
            DELTIC,
        ])
        .args(words.split_whitespace())
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
    wait_until("enough is noted", || {
        let log = staged(".log").and_then(|log| fs::metadata(log).ok());
        log.is_some_and(|log| log.len() >= log_bytes)
    });
    let agent = String::from_utf8(world.read("agent")).expect("a number");
    match end {
        Killed::Sender => push.kill().expect("it runs"),
        Killed::Receiver => {
            let kill = Command::new("kill").args(["-9", agent.trim()]).status();
            assert!(kill.expect("it starts").success());
        }
    }
    push.wait().expect("it ends");
    wait_until(ENDED, || bytes_read(&world).is_some());
    fs::remove_file(world.path("io")).expect("it is ours");
    assert!(staged(".tmp").is_some(), "it is left behind");
    Push { world, words }
}

/// What the agent and all below it have read, once they have ended: nobody waits for their shell.
fn bytes_read(world: &World) -> Option<usize> {
    let io = fs::read_to_string(world.path("io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

impl Push {
    /// Bytes that were sent, and that the receiving end read, in a second run, which succeeds.
    fn again(&self) -> (usize, usize) {
        let Self { world, words } = self;
        let run = Command::new(DELTIC)
            .args(["sync", "-a", "--stats", "-e", COUNTING, "--deltic-path", DELTIC])
            .args(words.split_whitespace())
            .args(["src/large", "h:dst/"])
            .current_dir(world.path(""))
            .output()
            .expect("it starts");
        assert!(run.status.success(), "{run:?}");
        assert!(world.read("dst/large") == world.read("src/large"));
        assert!(!world.exists("dst/.deltic"), "litter");
        wait_until(ENDED, || bytes_read(world).is_some());
        let read = bytes_read(world).expect("it was there");
        let stats = String::from_utf8(run.stdout).expect("text");
        let sent = stats.lines().find_map(|line| line.strip_prefix("Total bytes sent:"));
        let digits: String =
            sent.expect("asked for").chars().filter(char::is_ascii_digit).collect();
        (digits.parse().expect("a number"), read)
    }
}

/// `deltic sync` of `src/large` into `dst`.
fn copy(world: &World, way: Way, words: &[&str]) -> Command {
    let mut command = Command::new(DELTIC);
    command.args(["sync", "-a", "-e", COUNTING, "--deltic-path", DELTIC]).args(words);
    command.args([way.from("src/large"), way.to("dst/")]).current_dir(world.path(""));
    command
}

#[test]
fn a_run_that_goes_on_says_how_much_was_there() {
    for way in WAYS {
        for option in ["--no-whole-file", "--partial-dir=.part"] {
            let world = World::new();
            world.write("src/large", noise(LEN, 5));
            world.mkdir("dst");
            let is_whole = way == Way::Local && option != "--no-whole-file";
            let least = if is_whole { WHOLE_LOG_BYTES } else { LOG_BYTES };
            let mut first = copy(&world, way, &["--bwlimit", "8M", option]);
            let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            wait_until("enough is noted", || {
                let entries = fs::read_dir(world.path("dst/.deltic")).into_iter().flatten();
                let mut logs = entries.flatten().filter_map(|entry| entry.metadata().ok());
                logs.any(|log| (least..1 << 20).contains(&log.len()))
            });
            first.kill().and_then(|()| first.wait()).expect("it runs");
            if way != Way::Local {
                wait_until(ENDED, || bytes_read(&world).is_some());
            }
            let run = copy(&world, way, &["--json", option]).output().expect("it starts");
            assert!(run.status.success(), "{way:?} {run:?}");
            assert!(world.read("dst/large") == world.read("src/large"), "{way:?}");
            let events = String::from_utf8(run.stdout).expect("text");
            let last: serde_json::Value =
                serde_json::from_str(events.lines().last().expect("a summary")).expect("JSON");
            let count = |name: &str| last[name].as_u64().expect("a number") as usize;
            let resumed = count("resumed_bytes");
            assert!(resumed > 5 << 20 && resumed < LEN, "{way:?} {option} {last}");
            assert_eq!(resumed, count("matched_bytes"), "{way:?} {option} {last}");
            assert_eq!(resumed + count("literal_bytes"), LEN, "{way:?} {option} {last}");
        }
    }
}

#[test]
fn what_is_on_the_disk_is_neither_sent_nor_read_again() {
    let (sent, read) = killed().again();
    assert!(sent < LEN - LEN / 4, "{sent} of {LEN}");
    assert!(read < LEN - LEN / 4, "{read} of {LEN}");
}

/// Old is read to be matched against, and what is staged is not.
#[test]
fn beside_an_old_version_what_is_on_the_disk_is_not_read_again_either() {
    for end in [Killed::Sender, Killed::Receiver] {
        for words in ["", "--inplace"] {
            let (sent, read) = killed_with_old(end, words).again();
            assert!(sent < LEN - SAME - LEAST_NOTED, "{end:?} {words} {sent}");
            // What changes in place is written there from what is staged, in the end.
            let again = if words.is_empty() { 0 } else { LEN - SAME };
            let most = OLD_LEN + sent + again + READ_BESIDES;
            assert!(read < most, "{end:?} {words} {read} of {most}, {sent} sent");
        }
    }
}

#[test]
fn in_place_a_first_copy_goes_on_as_well() {
    let world = World::new();
    world.write("src/large", noise(LEN, 5));
    world.mkdir("dst");
    let (sent, read) = killed_after(LOG_BYTES, world, (Killed::Sender, "--inplace")).again();
    assert!(sent < LEN - LEN / 4, "{sent} of {LEN}");
    assert!(read < LEN - LEN / 4, "{read} of {LEN}");
}

#[test]
fn a_damaged_journal_is_no_harm() {
    let push = killed();
    for entry in fs::read_dir(push.world.path("dst/.deltic")).expect("it is there").flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(".log") {
            let mut log = fs::read(&path).expect("it is ours");
            log[40] ^= 1;
            fs::write(&path, log).expect("it is ours");
        }
    }
    assert!(push.again().1 > LEN, "it was matched as an old version");
}

#[test]
fn a_source_that_changed_meanwhile_comes_through() {
    let push = killed();
    let mut bytes = push.world.read("src/large");
    bytes[5_000_000..5_001_000].fill(7);
    push.world.write("src/large", bytes);
    let (sent, read) = push.again();
    assert!(sent < LEN - LEN / 4, "what arrived is matched as an old version: {sent} of {LEN}");
    assert!(read > LEN, "and read for that: {read} of {LEN}");
}

/// What was staged of the version before is not written over what lies in its place by now.
#[test]
fn a_source_that_changed_behind_its_time_comes_through_in_place() {
    let push = killed_with_old(Killed::Receiver, "--inplace");
    let (mut bytes, old) = (push.world.read("src/large"), push.world.read("dst/large"));
    let changed = SAME + 100_000..SAME + (2 << 20);
    bytes[changed.clone()].copy_from_slice(&old[changed]);
    push.world.write("src/large", bytes);
    push.world.set_time("src/large", 1_000_000);
    let (sent, _) = push.again();
    assert!(sent < LEN - SAME - LEAST_NOTED, "{sent}");
}
