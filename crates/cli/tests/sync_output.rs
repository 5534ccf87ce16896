//! Output for people and for programs; rsync would itemize it the same way.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::look::look;
use crate::common::terminal::Terminal;
use crate::common::{DELTIC, Run, SHELL, WAYS, World, noise, rsync};
use serde_json::Value;

/// Two equal trees, then one change of each kind in `src`.
fn changes() -> World {
    let world = World::new();
    for name in ["size", "time", "mode", "both", "content", "gone", "gone dir/below", "dir/kept"] {
        world.write(format!("src/{name}"), "as it was");
    }
    world.link("old", "src/link");
    world.link("old", "src/link time");
    world.link("old", "src/file now");
    world.write("src/link now", "a file");
    world.mkdir("src/dir mode");
    world.mkdir("src/dir time");
    for name in [
        "size",
        "time",
        "mode",
        "both",
        "content",
        "link",
        "link time",
        "dir mode",
        "dir time",
        "dir",
        "",
    ] {
        world.set_time(format!("src/{name}"), 1_000_000_000);
    }
    world.ok("-a --no-fsync src/ dst/");
    world.write("src/size", "longer than it was");
    world.write("src/new", "new");
    world.write("src/new dir/new", "new");
    world.link("nowhere", "src/new link");
    world.write("src/content", "AS IT WAS");
    fs::remove_file(world.path("src/gone")).expect("it is there");
    fs::remove_dir_all(world.path("src/gone dir")).expect("it is there");
    for (name, target) in [("link", "new"), ("link now", "target")] {
        fs::remove_file(world.path(format!("src/{name}"))).expect("it is there");
        world.link(target, &format!("src/{name}"));
    }
    fs::remove_file(world.path("src/file now")).expect("it is there");
    world.write("src/file now", "a file");
    for name in ["mode", "both", "dir mode"] {
        world.chmod(&format!("src/{name}"), 0o700);
    }
    for name in ["time", "both", "dir time", "link time", "size", "link", "dir mode"] {
        world.set_time(format!("src/{name}"), 1_100_000_000);
    }
    for name in ["content", "mode", "dir mode"] {
        world.set_time(format!("src/{name}"), 1_000_000_000);
    }
    world.set_time("src", 1_200_000_000);
    world
}

/// rsync's lines without what Deltic leaves out on purpose, or tells elsewhere.
fn comparable(run: &Run) -> BTreeSet<String> {
    let line = |line: &str| line.split(" -> ").next().unwrap_or_default().to_owned();
    let told = |line: &String| !line.starts_with("skipping ");
    run.stdout.lines().map(line).filter(told).collect()
}

#[test]
fn itemized_changes_are_those_of_rsync() {
    for options in
        ["-ai", "-aic", "-rltic", "-rlpi", "-rli", "-rpti", "-ai --delete", "-aic --delete"]
    {
        for way in WAYS {
            let world = changes();
            let operands = [way.from("src/"), way.to("dst/")];
            let rsh = format!("--rsh={SHELL}");
            let words = options.split(' ').chain(["-n", &rsh, &operands[0], &operands[1]]);
            let Some(theirs) = rsync(&world, &words.collect::<Vec<_>>()) else { return };
            let words = options.split(' ').chain(operands.iter().map(String::as_str));
            let ours = world.sync(&words.collect::<Vec<_>>());
            let (ours, theirs) = (comparable(&ours), comparable(&theirs));
            assert!(
                ours == theirs,
                "{way:?} {options}\nonly ours:   {:#?}\nonly rsync's: {:#?}",
                ours.difference(&theirs).collect::<Vec<_>>(),
                theirs.difference(&ours).collect::<Vec<_>>()
            );
        }
    }
}

/// The first file is done last. When rsync tells deletions among the other changes depends on who is faster.
#[test]
fn a_run_tells_what_its_dry_run_told_in_the_same_order_which_is_that_of_rsync() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a large", noise(3_000_000, 1));
        for name in ["b", "sub/file", "sub/deep/f", "new/n", "new/er/n", "zz/new", ".dot"] {
            world.write(format!("src/{name}"), "x");
        }
        for name in ["sub/file", "sub/gone", "goes/below/x", "aa", "zz/gone", "sub/deep/extra"] {
            world.write(format!("dst/{name}"), "older");
        }
        // A second is the least that rsync sees.
        for (tree, time) in [("src", 1_000_000_000), ("dst", 1_100_000_000)] {
            for name in look(&world.path(tree)).into_keys() {
                world.set_time(Path::new(tree).join(name), time);
            }
        }
        let operands = [way.from("src/"), way.to("dst/")];
        let words = format!("--delete {} {}", operands[0], operands[1]);
        let lines = |run: &Run| {
            let lines = run.stdout.lines().map(str::to_owned);
            lines.partition::<Vec<_>, _>(|line| line.starts_with("*deleting"))
        };
        let rsh = format!("--rsh={SHELL}");
        let theirs = rsync(&world, &["-ain", "--delete", &rsh, &operands[0], &operands[1]]);
        let dry = world.ok(&format!("-ain {words}"));
        let [first, last] = ["", "--delete-after"].map(|when| {
            let dry = world.ok(&format!("-ain {when} {words}"));
            let is_deletion: Vec<_> =
                dry.stdout.lines().map(|line| line.starts_with("*deleting")).collect();
            is_deletion.iter().position(|it| !it).zip(is_deletion.iter().rposition(|it| !it))
        });
        assert_eq!(first, Some((7, 20)), "{dry:#?}");
        assert_eq!(last, Some((0, 13)), "{dry:#?}");
        if let Some(theirs) = theirs {
            assert_eq!(lines(&dry), lines(&theirs), "{way:?}");
        }
        let start = std::time::Instant::now();
        let real = world.ok(&format!("-ai --bwlimit=20M {words}"));
        // What takes longer is told a part at a time.
        if start.elapsed() < std::time::Duration::from_secs(1) {
            assert_eq!(real.stdout, dry.stdout, "{way:?}");
        }
        let set = |run: &Run| run.stdout.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(set(&real), set(&dry), "{way:?}");
        world.assert_same("src", "dst");
    }
}

/// Who reads a pipe sees the run go on.
#[test]
fn what_is_done_is_told_before_the_run_is_over() {
    let world = World::new();
    world.write("src/a", "x");
    world.write("src/large", noise(3_000_000, 1));
    let words = "sync -ai --no-fsync --bwlimit=100K src/ h:dst/ --deltic-path";
    let words: Vec<_> = words.split(' ').chain([DELTIC, "-e", SHELL]).collect();
    let mut command = Command::new(DELTIC);
    command.args(words);
    command.current_dir(world.path("")).env("HOME", world.path(""));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("deltic starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with(" a")));
    assert!(told.is_some() && !world.exists("dst/large"), "{told:?}");
    child.kill().expect("it is our child");
    child.wait().expect("it was killed");
}

#[test]
fn names_are_told_with_v_and_nothing_without() {
    for way in WAYS {
        let world = changes();
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        let quiet = world.ok(&format!("-an --delete {operands}"));
        assert_eq!(quiet.stdout, "");
        let told = world.ok(&format!("-avn --delete {operands}"));
        for line in [
            "new dir/",
            "new dir/new",
            "size",
            "link -> new",
            "deleting gone",
            "deleting gone dir/",
            "./",
        ] {
            assert!(told.lines().contains(&line), "{way:?}: no {line} in {told:#?}");
        }
        assert!(!told.lines().contains(&"dir/kept") && !told.lines().contains(&"mode"));
        assert!(told.stdout.contains("\n\nsent ") && told.stdout.ends_with("(DRY RUN)\n"));
        assert!(world.ok(&format!("-avvn {operands}")).lines().contains(&"mode"));
    }
}

#[test]
fn quiet_runs_say_nothing_but_errors() {
    let world = changes();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("src/fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let loud = world.sync(&["-an", "--no-D", "src/", "dst/"]);
    assert!(loud.stdout.contains("fifo") && loud.code == Some(0), "{loud:#?}");
    world.ok("-aqi --no-D --delete src/ dst/");
    let run = world.fails(23, "-aq src/ missing dst/");
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("", 1), "{run:#?}");
}

#[test]
fn statistics_say_what_happened() {
    for way in WAYS {
        let world = changes();
        let run = world.ok(&format!("-a --delete --stats {} {}", way.from("src/"), way.to("dst/")));
        for (label, count) in [
            ("Number of created files", 6),
            ("Number of deleted files", 3),
            ("Number of regular files transferred", 6),
        ] {
            assert_eq!(run.stat(label), count, "{way:?} {label} {run:#?}");
        }
        let transferred = run.stat("Total transferred file size");
        assert_eq!(run.stat("Literal data") + run.stat("Matched data"), transferred, "{way:?}");
        let names = crate::common::tree::picture(&world.path("src")).len();
        assert_eq!(run.stat("Number of files"), names as u64, "{way:?}");
    }
}

#[test]
fn counted_bytes_are_those_that_pass() {
    let world = World::new();
    world.write("src/file", noise(500_000, 2));
    let shell = r#"sh -c 'shift; tee sent | "$@" | tee received' rsh"#;
    let words = ["sync", "-a", "--stats", "-e", shell, "--deltic-path", DELTIC, "src/", "h:dst/"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(run.stat("Total bytes sent"), world.read("sent").len() as u64);
    assert_eq!(run.stat("Total bytes received"), world.read("received").len() as u64);
}

/// The events of a run, each with only keys that are documented for its kind.
fn events(world: &World, words: &str) -> (Run, Vec<Value>) {
    let words: Vec<_> = words.split_whitespace().collect();
    let run = world.sync(&words);
    let parse = |line: &str| serde_json::from_str::<Value>(line).expect("each line is an object");
    let events: Vec<_> = run.stdout.lines().map(parse).collect();
    let manual = include_str!("../../../docs/events.md");
    for event in &events {
        let name = event["event"].as_str().expect("every event has a name");
        let section = manual.split("\n## ").find(|part| part.starts_with(&format!("`{name}`")));
        let section = section.unwrap_or_else(|| panic!("{name} is not documented"));
        let section = section.split("\n## ").next().expect("one part");
        for key in event.as_object().expect("an object").keys().filter(|key| *key != "event") {
            assert!(section.contains(&format!("`{key}`")), "{key} of {name} is not documented");
        }
    }
    (run, events)
}

#[test]
fn events_are_documented_and_say_what_happened() {
    for way in WAYS {
        let world = changes();
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        let (run, events) = events(&world, &format!("-a --delete --json {operands}"));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""));
        assert_eq!((&events[0]["event"], &events[0]["schema"]), (&"start".into(), &1.into()));
        let last = events.last().expect("there is an end");
        assert_eq!((&last["event"], &last["exit_code"]), (&"summary".into(), &0.into()));
        let change = |path: &str| {
            let of = |event: &&Value| event["event"] == "change" && event["path"] == path;
            let event = events.iter().find(of).unwrap_or_else(|| panic!("no change of {path}"));
            format!("{} {} {}", event["kind"], event["action"], event["differs"]).replace('"', "")
        };
        assert_eq!(change("new dir"), "dir created []");
        assert_eq!(change("size"), "file updated [size,time]");
        assert_eq!(change("both"), "file updated [time,mode]");
        assert_eq!(change("mode"), "file touched [mode]");
        assert_eq!(change("link"), "symlink updated [content,time]");
        assert_eq!(change("gone"), "file deleted []");
        assert_eq!(change("gone dir"), "dir deleted []");
        assert_eq!(change("."), "dir touched [time]");
        assert_eq!(last["deleted"], 3);
    }
}

#[test]
fn names_that_are_no_text_are_events_nevertheless() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let name = std::ffi::OsStr::from_bytes(b"src/\xff\x1b[2J\n");
    world.write(name, "x");
    let (run, events) = events(&world, "-a --json src/ dst/");
    assert_eq!((run.code, run.stdout.contains('\x1b')), (Some(0), false));
    let named = events.iter().find(|event| event.get("path_bytes").is_some()).expect("an event");
    assert_eq!(
        (&named["path_bytes"], &named["path"]),
        (&"ff1b5b324a0a".into(), &"\u{fffd}\x1b[2J\n".into())
    );
}

#[test]
fn an_early_end_is_an_error_event_with_the_exit_code() {
    let world = World::new();
    let (run, events) = events(&world, "-a --json src/ h:no/such");
    assert_eq!(run.code, Some(11));
    let last = events.last().expect("there is an end");
    assert_eq!((&last["event"], &last["exit_code"]), (&"error".into(), &11.into()));
}

#[test]
fn progress_in_a_pipe_is_shown_on_demand_and_in_lines() {
    let world = World::new();
    world.write("src/file", noise(300_000, 4));
    let slow = "-a --bwlimit 200K src/";
    let silent = world.ok(&format!("{slow} h:one/"));
    assert_eq!(silent.stderr, "");
    let words: Vec<_> = slow.split(' ').chain(["--progress", "h:two/"]).collect();
    let run = world.sync(&words);
    let (progress, names): (Vec<_>, Vec<_>) =
        run.stdout.lines().partition(|line| line.contains('%'));
    let expected = ["sending incremental file list", "created directory two", "./", "file"];
    assert_eq!((run.code, &*run.stderr, names), (Some(0), "", expected.to_vec()), "{run:#?}");
    let last = progress.last().expect("a run has a last line");
    assert!(last.starts_with("\r        300,000 100% "), "{run:#?}");
    assert!(last.ends_with(" (xfr#1, to-chk=0/2)") && !run.stdout.contains('\x1b'), "{run:#?}");
    assert!(progress.iter().all(|line| line.rfind('\r') == Some(0)), "{run:#?}");
    // As front ends read it; also of a run that is over at once, or changes nothing.
    for (target, lines) in [("h:three/", 2..99), ("four/", 1..99), ("four/", 1..99)] {
        let words: Vec<_> = slow.split(' ').chain(["--info=progress2", target]).collect();
        let run = world.sync(&words);
        let updates: Vec<_> = run.stdout.trim_end().split('\r').skip(1).collect();
        let shares = updates.iter().map(|update| update.split_whitespace().nth(1).unwrap());
        let shares: Vec<u32> =
            shares.map(|share| share.strip_suffix('%').unwrap().parse().unwrap()).collect();
        assert!(shares.is_sorted() && lines.contains(&shares.len()), "{run:#?}");
        assert_eq!((shares.last(), run.stdout.matches('\n').count()), (Some(&100), 1), "{run:#?}");
    }
    assert_eq!(world.ok("-aPn src/ five/").stdout.matches('%').count(), 0);
    // What waits for its turn is not done.
    world.write("whole/file", noise(1_500_000, 4));
    let run = world.ok("-a --bwlimit 300K --info=progress2 whole/ h:whole-too/");
    let parts = run.stdout.split('\r').filter(|update| !update.contains("100%")).count();
    assert!(parts >= 3, "{run:#?}");
    let (run, events) = events(&world, &format!("{slow} --json h:six/"));
    let progress: Vec<_> = events.iter().filter(|event| event["event"] == "progress").collect();
    assert!((3..40).contains(&progress.len()), "{run:#?}");
    let settled: Vec<_> = progress.iter().map(|event| event["settled_bytes"].as_u64()).collect();
    assert!(settled.is_sorted() && settled.last() <= Some(&Some(300_000)), "{settled:?}");
}

#[test]
fn where_all_is_listed_first_its_names_are_counted_as_in_rsync() {
    for way in WAYS {
        for words in [
            "-a --progress --delete-after",
            "-a --progress --no-inc-recursive",
            "-a --info=flist2,name --delay-updates",
            "-an --progress --no-inc-recursive",
            "-aP --delete-before --outbuf=L",
            "-av --no-inc-recursive",
            "-dt --progress",
        ] {
            for names in [0, 1, 240] {
                let world = World::new();
                (0..names).for_each(|n| world.write(format!("src/dir/{n}"), ""));
                world.link("dir", "src/link");
                // What is said while it counts is left out: rsync says nothing of less than 100 names that come.
                let head = |run: &Run| {
                    let end = ["to consider\n", "... done\n"]
                        .iter()
                        .find_map(|end| Some(run.stdout.find(end)? + end.len()));
                    let text = run.stdout[..end.expect("it is told")].to_owned();
                    let text = (1..=names / 100)
                        .fold(text, |text, n| text.replace(&format!(" {n}00 files...\r"), ""));
                    text.replace("\n 0 files...\r", "").replace("... \n", "... ")
                };
                let run = world.ok(&format!("{words} {} {}", way.from("src/"), way.to("dst")));
                let (counted, ours) = (words != "-av --no-inc-recursive", head(&run));
                assert!(ours.contains("ing file list ... "), "{ours:?}");
                assert_eq!(run.stdout.contains(" ... \n 0 files...\r"), counted, "{ours:?}");
                let remote = ["-e", crate::common::SHELL, &way.from("src/"), &way.to("rsync")]
                    .map(String::from);
                let theirs = words.split(' ').map(String::from).chain(remote).collect::<Vec<_>>();
                let theirs = theirs.iter().map(String::as_str).collect::<Vec<_>>();
                if let Some(run) = crate::common::rsync(&world, &theirs) {
                    assert_eq!(ours, head(&run), "{way:?} {words} {names}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_told_of_a_new_destination_with_q() {
    let world = World::new();
    world.write("src/file", "content");
    assert_eq!(world.ok("-avq src/ dst/").stdout, "");
    assert_eq!(world.ok("-aiq src/ h:other/").stdout, "");
}

#[test]
fn a_terminal_gets_names_that_cannot_drive_it() {
    let world = World::new();
    world.write("src/\x1b]0;title\x07\n*deleting   all", "x");
    let run = world.ok("-ai src/ dst/");
    assert!(run.stdout.lines().count() <= 3, "{run:#?}");
    assert!(!run.stdout.contains(['\x1b', '\x07']));
    assert!(run.stdout.contains(r">f+++++++++ \#033]0;title\#007\#012*deleting   all"), "{run:#?}");
    // To which DEL is nothing: rsync shows it too.
    world.write("src/a\x7fb", "x");
    assert!(world.ok("-ai src/ dst/").stdout.contains(">f+++++++++ a\x7fb\n"));
}

/// How long it lasts is not told before there is ground for it, and no longer than there is something to send.
#[test]
fn a_terminal_shows_what_a_run_does_and_how_long_it_still_lasts() {
    let world = World::new();
    world.write("src/file", noise(6 << 20, 1));
    let words = ["sync", "-a", "-e", SHELL, "--deltic-path", DELTIC, "--bwlimit=1M"];
    let mut command = Command::new(DELTIC);
    command.args(words).args(["src/", "h:dst/"]).current_dir(world.path(""));
    command.env("HOME", world.path("")).env("NO_COLOR", "1");
    let (code, shown) = Terminal::start(&mut command).end();
    assert_eq!(code, Some(0), "{shown}");
    let lines: Vec<_> = shown.split(['\r', '\n']).filter(|line| line.contains("%, ")).collect();
    assert!(lines.iter().any(|line| line.contains("%, sending, ")), "{shown}");
    assert!(!lines[0].contains(" left"), "{shown}");
    let lasts = lines.iter().filter(|line| line.contains(" left")).count();
    assert!(lasts > 0 && !shown.contains("100%, "), "{shown}");
    assert!(shown.contains("1 of 1 file transferred: 6.00 MiB new"), "{shown}");
}

/// What turns the direction of a line would make one name look like another, in a log too.
#[test]
fn characters_that_turn_a_line_or_hide_are_escaped_wherever_names_are_shown() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a\u{202e}gpj.exe", "x");
        world.write("src/b\u{200b}c\u{feff}", "x");
        world.link("\u{2066}x", "src/link");
        world.link("nowhere", "src/d\u{202d}");
        let (from, to) = (way.from("src/"), way.to("dst/"));
        let words = ["-aivv", "-8", "--log-file=log", "--log-file-format=%i %n%L", "--explain"];
        let run = world.sync(&[&words[..], &[&from, &to]].concat());
        assert_eq!(run.code, Some(0), "{run:#?}");
        let failed = world.sync(&["-rL", "--log-file=log", &from, &to]);
        assert_eq!(failed.code, Some(23), "{failed:#?}");
        let log = String::from_utf8(world.read("log")).expect("it is text");
        for shown in [&run.stdout, &run.stderr, &failed.stdout, &failed.stderr, &log] {
            let hidden = ['\u{202e}', '\u{200b}', '\u{feff}', '\u{2066}', '\u{202d}'];
            assert!(!shown.contains(hidden), "{way:?} {shown:?}");
        }
        for name in ["a\\#342\\#200\\#256gpj.exe", "b\\#342\\#200\\#213c\\#357\\#273\\#277"] {
            assert!(run.stdout.contains(name) && log.contains(name), "{way:?} {name} {log}");
        }
    }
}
