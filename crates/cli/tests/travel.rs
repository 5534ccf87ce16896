//! The way to the other machine: its shell, compression, limits of time, and how each of them ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peer::{agreed, checked, entry, hello, listing, sync_over};
use crate::common::terminal::Terminal;
use crate::common::{DELTIC, Run, SHELL, Way, World, at_once, noise};
use deltic_protocol::hello::{Alive, NamesFrom, Request};
use deltic_protocol::options::Options;
use deltic_tree::Kind;

fn world() -> World {
    let world = World::new();
    world.write("src/file", noise(300_000, 4));
    world
}

#[test]
fn the_remote_program_goes_by_rsyncs_name_too() {
    let world = world();
    let words = ["sync", "-a", "-e", SHELL, "--rsync-path", DELTIC, "src/", "h:dst/"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.assert_same("src", "dst");
}

/// As the manual has it for scripts: a link `rsync` to deltic, on both machines.
#[test]
fn the_far_end_may_be_called_rsync() {
    for way in crate::common::WAYS {
        let world = world();
        std::os::unix::fs::symlink(DELTIC, world.path("rsync")).unwrap();
        let near = world.path("rsync").to_str().unwrap().to_owned();
        // An option behind the program's name is one of that end.
        let far = format!("--rsync-path={near} --bwlimit=100M");
        let more = ["-M--super", "--streams=2"];
        let (src, dst) = (way.from("src/"), way.to("dst/"));
        let words = ["-a", "-e", SHELL, &far, &src, &dst];
        let run = Run::of(&mut world.command(&near, words.iter().copied().chain(more)));
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        world.assert_same("src", "dst");
        world.write("agent/file", "");
        let run = Run::of(&mut world.command(&near, ["./agent"]));
        assert!(run.code == Some(0) && run.stdout.ends_with(" agent\n"), "{run:#?}");
    }
}

#[test]
fn rsyncs_shell_in_the_environment_counts_after_our_own() {
    let world = world();
    let shell = |name: &str| format!(r#"sh -c 'echo {name} >said; shift; exec "$@"' rsh"#);
    let words = ["sync", "-an", "--deltic-path", DELTIC, "src/", "h:dst/"];
    let said = |own: Option<&str>, word: Option<&str>| {
        let mut command = world.command(DELTIC, words);
        command.env("RSYNC_RSH", shell("rsync"));
        if let Some(own) = own {
            command.env("DELTIC_RSH", shell(own));
        }
        if let Some(word) = word {
            command.args(["-e", &shell(word)]);
        }
        let run = Run::of(&mut command);
        assert_eq!(run.code, Some(0), "{run:#?}");
        String::from_utf8(world.read("said")).unwrap()
    };
    assert_eq!(said(None, None), "rsync\n");
    assert_eq!(said(Some("own"), None), "own\n");
    assert_eq!(said(Some("own"), Some("word")), "word\n");
    // A script's variable that is not set.
    for (words, counts) in
        [(["-e", ""], "own\n"), (["-ve", ""], "own\n"), (["-v", "--rsh="], "own\n")]
    {
        let mut command = world.command(DELTIC, ["sync"].iter().chain(&words));
        command.args(["-an", "--deltic-path", DELTIC, "src/", "h:dst/"]);
        let run = Run::of(command.env("RSYNC_RSH", shell("rsync")).env("DELTIC_RSH", shell("own")));
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!(String::from_utf8(world.read("said")).unwrap(), counts, "{words:?}");
    }
}

#[test]
fn options_for_the_far_end_and_versions_of_ip_are_passed_on() {
    let world = world();
    // A shell that is called ssh, and shows what it was given.
    world.write(
        "ssh",
        "#!/bin/sh\necho \"$@\" >said\nwhile [ \"$1\" != h ]; do shift; done\nshift; exec \"$@\"\n",
    );
    world.chmod("ssh", 0o755);
    let ssh = world.path("ssh").to_str().unwrap().to_owned();
    for (words, said) in [
        ("", format!("h {DELTIC} agent\n")),
        ("-4", format!("-4 h {DELTIC} agent\n")),
        ("--ipv6 -M--bwlimit=100000", format!("-6 h {DELTIC} agent --bwlimit=100000\n")),
        (
            "--bwlimit=Tue-12:30Z,off/mon-0:00Z,100KB",
            format!("h {DELTIC} agent --bwlimit=Mon-00:00Z,100000B/Tue-12:30Z,off\n"),
        ),
        (
            "-M --bwlimit=9M --remote-option=--bwlimit=8M",
            format!("h {DELTIC} agent --bwlimit=9M --bwlimit=8M\n"),
        ),
    ] {
        let all = format!("sync -an -e {ssh} --deltic-path {DELTIC} {words} src/ h:dst/");
        let run = Run::of(&mut world.command(DELTIC, all.split_whitespace()));
        assert_eq!(run.code, Some(0), "{words} {run:#?}");
        assert_eq!(String::from_utf8(world.read("said")).unwrap(), said);
    }
    let run = world.sync(&["-a", "-M--no-such", "src/", "h:dst/"]);
    assert!(run.code == Some(12) && run.stderr.contains("--no-such"), "{run:#?}");
}

/// What is shorter than the buffers on the way would else be sent at once.
#[test]
fn a_limit_holds_for_the_first_bytes_of_the_far_end_too() {
    let world = World::new();
    world.write("src/a", noise(150_000, 1));
    let start = std::time::Instant::now();
    world.ok("-a --bwlimit=100KB h:src/ dst/");
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    world.assert_same("src", "dst");
}

#[test]
fn a_gentle_rate_starts_low_in_either_direction_and_the_round_trip_is_told() {
    for words in ["src/ h:dst/", "h:src/ dst/"] {
        let world = World::new();
        world.write("src/a", noise(2_000_000, 1));
        let start = std::time::Instant::now();
        let run = world.ok(&format!("-a --bwlimit=auto --json {words}"));
        assert!(start.elapsed() >= Duration::from_millis(500), "{words} {:?}", start.elapsed());
        world.assert_same("src", "dst");
        assert!(run.stdout.contains(r#""round_trip":{"idle_us":"#), "{run:#?}");
    }
    let world = World::new();
    world.write("src/a", noise(2_000_000, 1));
    world.ok("-a --bwlimit=auto src/ dst/");
    world.assert_same("src", "dst");
}

#[test]
fn a_timetable_limits_both_ends_as_the_present_rate_does() {
    let world = World::new();
    world.write("src/a", noise(150_000, 1));
    let start = std::time::Instant::now();
    world.ok("-a --bwlimit=00:00,100KB/12:00,100000b h:src/ dst/");
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    world.assert_same("src", "dst");
    world.ok("-aI --bwlimit=00:00,off h:src/ dst/");
}

/// A remote shell that lies far away: the agent hears everything late.
const FAR_SHELL: &str = r#"sh -c '
    shift
    while dd bs=65536 count=1 of=heard 2>dd && [ -s heard ]; do sleep 0.06; cat heard; done | "$@"
' rsh"#;

#[test]
fn a_single_file_comes_over_a_long_way_however_the_ends_name_chunks() {
    let old = noise(3_000_000, 5);
    let mut new = old.clone();
    new[1_000_000..1_000_004].fill(0);
    for way in [Way::Push, Way::Pull] {
        for option in ["", "--checksum-choice=blake3", "-c"] {
            let world = World::new();
            world.write("new", &new);
            for (there, bytes) in [("changed", &old), ("equal", &new)] {
                world.write(there, bytes);
                world.set_time(there, 1_000_000_000);
            }
            for there in ["changed", "equal", "absent"] {
                let words = format!("-t --no-fsync {option} {} {}", way.from("new"), way.to(there));
                let all = ["sync", "-e", FAR_SHELL, "--deltic-path", DELTIC];
                let all = all.into_iter().chain(words.split_whitespace());
                let run = Run::of(&mut world.command(DELTIC, all));
                assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words}");
                assert!(world.read(there) == new, "{words}");
            }
        }
    }
}

#[test]
fn a_far_end_that_is_told_its_rate_keeps_to_it() {
    let world = world();
    let start = Instant::now();
    world.ok("-a -M--bwlimit=200K h:src/ dst/");
    let took = start.elapsed().as_secs_f64();
    assert!(took > 1.0, "{took} s for 300 kB at 200 KiB/s");
    world.assert_same("src", "dst");
}

#[test]
fn compression_has_a_choice_and_levels_that_count() {
    let text: String =
        (0..60_000u64).map(|n| format!("line {} of {n} {}\n", n % 977, n * n)).collect();
    let sent = |words: &str| {
        let world = World::new();
        world.write("src/log", &text);
        let run = world.ok(&format!("-a --stats {words} src/ h:dst/"));
        world.assert_same("src", "dst");
        run.stat("Total bytes sent")
    };
    let (plain, usual, best) = (sent("--zc=none"), sent("--zl=3"), sent("-z --compress-level=19"));
    assert!(plain as usize > text.len() && usual < plain / 2, "{plain} {usual}");
    assert!(best + 10_000 < usual, "{best} {usual}");
    // Answers and frames fall together in other ways from run to run, and so does the history of a frame.
    let close = |one: u64, other: u64| one.abs_diff(other) < one.max(other) / 20;
    for (words, like) in [
        ("--compress-level=99", sent("--zl=22")),
        ("-z --zl 3 --skip-compress=log/gz --zt=2", usual),
        ("-z --zc=none", plain),
        ("-z --no-compress", plain),
        ("-z --no-z", plain),
        ("--no-z", plain),
        ("--zl=0", plain),
    ] {
        let sent = sent(words);
        assert!(close(sent, like), "{words}: {sent}, not {like}");
    }
    // The measured speed of this machine chooses the level.
    let adapted = ["", "-z", "--zc=zstd", "--zc=lz4", "--zc=zlib", "--compress-choice=auto"];
    for words in adapted.into_iter().chain(["--compress-choice=zlibx", "-z --skip-compress=log/gz"])
    {
        let sent = sent(words);
        assert!(sent < plain / 2, "{words}: {sent} of {plain}");
    }
    world().fails(4, "-a --zc=foo src/ h:dst/");
}

#[test]
fn silence_ends_a_run_with_30_and_no_answer_with_35() {
    let world = world();
    // It says hello and then nothing more.
    let stuck = format!(
        r#"sh -c '"{DELTIC}" agent </dev/null | head -c 20; exec sleep 60 2>/dev/null' rsh"#
    );
    for (words, code) in [("--timeout=1", 30), ("--contimeout=1", 35)] {
        let shell = if code == 30 { &*stuck } else { "sh -c 'exec sleep 60 2>/dev/null' rsh" };
        let all = ["sync", "-a", "--no-retry", words, "-e", shell, "src/", "h:dst/"];
        let start = Instant::now();
        let run = Run::of(&mut world.command(DELTIC, all));
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(run.stderr.starts_with("deltic: timeout: "), "{run:#?}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_remote_shell_that_hangs_does_not_outlive_a_run_that_failed() {
    let greeted = format!(r#""{DELTIC}" agent </dev/null | head -c 20; "#);
    let deaf = r#"trap "" TERM; "#;
    let tries = [("--timeout=3", &*greeted), ("--contimeout=3", ""), ("--contimeout=3", deaf)];
    at_once(tries, |(words, before)| {
        let world = world();
        let shell = format!("sh -c 'echo $$ >pid; {before}exec sleep 60 2>/dev/null' rsh");
        let all = ["sync", "-a", "--no-retry", words, "-e", &shell, "src/", "h:dst/"];
        let run = Run::of(&mut world.command(DELTIC, all));
        assert_ne!(run.code, Some(0), "{run:#?}");
        assert_gone(&world, "pid");
    });
}

/// The process whose number is in this file is none any more.
fn assert_gone(world: &World, file: &str) {
    let pid = String::from_utf8(world.read(file)).expect("a number");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the remote shell is still there");
}

/// Whatever it said before, and whether it still reads or not.
#[test]
fn who_falls_silent_is_given_up_whatever_was_said_before() {
    let list = listing(vec![entry("file", Kind::File, 300_000)]);
    let (push, pull) = (["src/", "h:dst/"], ["h:src/", "dst/"]);
    thread::scope(|scope| {
        for (said, operands) in [
            (Vec::new(), push),
            (hello(), pull),
            (agreed(), push),
            (agreed()[..agreed().len() - 1].to_vec(), pull),
            (list[..list.len() - 5].to_vec(), pull),
            (list, pull),
        ] {
            // Its side stays open.
            for then in ["exec 3>&1; exec cat >/dev/null", "exec sleep 60"] {
                let said = said.clone();
                scope.spawn(move || {
                    let world = world();
                    world.write("said", checked(&said));
                    let shell = format!("sh -c 'cat said; {then} 2>/dev/null' rsh");
                    let words = [&["--timeout=1"], &operands[..]].concat();
                    let run = sync_over(&world, &shell, &words);
                    let told = run.stderr.contains("deltic: timeout: ");
                    assert!(run.code == Some(30) && told, "{said:?} {then} {run:#?}");
                });
            }
        }
    });
}

/// Neither end has anything to say while the user thinks; so it is while one of them hashes a long file.
#[test]
fn a_healthy_run_outlives_any_silence() {
    at_once(crate::common::WAYS, |way| {
        let world = world();
        (0..1100).for_each(|n| world.write(format!("dst/{n}"), ""));
        let mut command = Command::new(DELTIC);
        command.args(["sync", "-e", SHELL, "--deltic-path", DELTIC, "-a", "--no-fsync"]);
        command.args(["--timeout=3", "--delete", &way.from("src/"), &way.to("dst/")]);
        let mut terminal = Terminal::start(command.current_dir(world.path("")));
        assert!(terminal.shows("[y/N] "), "{way:?} {}", terminal.shown);
        // Several times as long as a silent end would have.
        std::thread::sleep(Duration::from_secs(9));
        terminal.types("y\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{way:?} {shown}");
        world.assert_same("src", "dst");
    });
}

#[test]
fn an_agent_that_hears_nothing_more_gives_up() {
    let world = world();
    let options = Options { silence: 1, ..Options::default() };
    let destination = b"dst/"[..].into();
    let names = NamesFrom::Nowhere;
    let request = Request::Receive { destination, single: None, names, options };
    world.write("said", checked(&[hello(), request.encode()].concat()));
    let line = r#"(cat said; exec sleep 60 2>/dev/null) | { "$0" agent >heard; echo $?; }"#;
    let mut child = Command::new("sh");
    child.args(["-c", line, DELTIC]).current_dir(world.path("")).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut code = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut code).unwrap();
    assert_eq!(code, "30\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let heard = world.read("heard");
    assert!(heard.windows(8).any(|text| text == b"timeout:"), "the reason was not told");
}

/// As in rsync, who only says that it lives is believed; and a stream that ends is no silence.
#[test]
fn a_peer_that_only_says_that_it_lives_is_heard_as_long_as_it_does() {
    let world = world();
    let start = checked(&agreed()).len();
    let all = checked(&[agreed(), Alive.encode().repeat(6)].concat());
    world.write("said", &all[..start]);
    let each = (all.len() - start) / 6;
    all[start..]
        .chunks(each)
        .zip(1..)
        .for_each(|(alive, n)| world.write(format!("alive{n}"), alive));
    let shell = "sh -c 'cat said; for n in 1 2 3 4 5 6; do cat alive$n; sleep 1.2; done' rsh";
    let run = sync_over(&world, shell, &["--timeout=3", "src/", "h:dst/"]);
    assert_eq!(run.code, Some(12), "{run:#?}");
}

#[test]
fn a_run_that_is_not_silent_is_not_given_up() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let world = world();
        let operands = [way.from("src/"), way.to("dst/")].join(" ");
        world.ok(&format!("-a --timeout=20 --contimeout=20 --bwlimit=400K {operands}"));
        world.assert_same("src", "dst");
        world.ok(&format!(
            "-a --timeout=1 --no-timeout --contimeout=1 --no-contimeout --stop-after=60 {operands}"
        ));
    }
}

#[test]
fn a_run_stops_at_a_time_with_30() {
    let world = world();
    for words in [
        "--stop-after=0",
        "--stop-at=2020-01-01",
        "--stop-at=never",
        "--stop-after=1.x",
        "--time-limit=x",
    ] {
        let run = world.fails(1, &format!("-a {words} src/ dst/"));
        assert!(run.stderr.contains("stop-a"), "{run:#?}");
    }
    world.ok("-a --stop-at=2999-12-31T23:59 src/ dst/");
    // Which may be about to come.
    let run = world.sync(&["-an", "--stop-at=:59", "src/", "dst/"]);
    assert!(matches!(run.code, Some(0 | 30)), "{run:#?}");
    // In some seconds; what is sent takes minutes.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let at = now + 6;
    let clock = format!("--stop-at={}:{:02}:{:02}", at / 3600 % 24, at / 60 % 60, at % 60);
    let words = ["sync", "-a", &clock, "--bwlimit=2K", "-e", SHELL, "--deltic-path", DELTIC];
    let run = Run::of(world.command(DELTIC, words).args(["src/", "h:dst2/"]).env("TZ", "UTC"));
    assert_eq!(run.code, Some(30), "{run:#?}");
    assert!(run.stderr.contains("stopped at the requested time"), "{run:#?}");
    // The zone counts: clocks there show another hour, so that time is hours away.
    let zone = ["sync", "-a", &clock, "src/", "dst3/"];
    let run = Run::of(world.command(DELTIC, zone).env("TZ", "EAST-5"));
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn signals_that_end_programs_end_a_run_with_20() {
    for signal in ["INT", "TERM", "HUP"] {
        let world = world();
        let child = Command::new(DELTIC)
            .args([
                "sync",
                "-a",
                "-e",
                "sh -c 'echo $$ >started; exec sleep 60 2>/dev/null' rsh",
                "src/",
                "h:dst/",
            ])
            .current_dir(world.path(""))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        while !world.exists("started") || world.read("started").is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = ["-s", signal, &child.id().to_string()];
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (Some(20), None),
            "{signal} {said}"
        );
        assert!(said.contains("interrupted"), "{said}");
        assert_gone(&world, "started");
    }
}

#[test]
fn a_shell_that_never_connects_ends_with_its_255_and_one_that_is_not_there_with_14() {
    let world = world();
    for (shell, code) in [
        ("sh -c 'exit 255' rsh", 255),
        ("sh -c 'exit 1' rsh", 12),
        ("no-such-shell", 14),
        ("sh -c 'exit 127' rsh", 127),
    ] {
        let run =
            Run::of(&mut world.command(DELTIC, ["sync", "-a", "-e", shell, "src/", "h:dst/"]));
        assert_eq!(run.code, Some(code), "{run:#?}");
    }
    assert!(!world.exists("dst"));
}
