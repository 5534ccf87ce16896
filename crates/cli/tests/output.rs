//! Output of the command: what rsync's users read, next to what rsync itself says.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, noise, rsync};

/// A tree with one thing of each kind, next to an empty destination.
fn world() -> World {
    let world = World::new();
    world.write("src/dir/below", "below");
    world.write("src/file", "content");
    world.link("file", "src/link");
    for name in ["src/file", "src/link", "src/dir/below", "src/dir", "src"] {
        world.set_time(name, 1_000_000_000);
    }
    world.mkdir("dst");
    world
}

/// `words`, said to deltic and to rsync in equal worlds; each changes its own.
fn both(make: fn() -> World, way: Way, words: &str) -> Option<(Run, Run)> {
    let (ours, theirs) = (make(), make());
    let operands = [way.from("src/"), way.to("dst/")];
    let rsh = format!("--rsh={SHELL}");
    let said: Vec<_> =
        words.split_whitespace().chain([&*rsh, &*operands[0], &*operands[1]]).collect();
    let theirs = rsync(&theirs, &said)?;
    let said: Vec<_> =
        words.split_whitespace().chain(operands.iter().map(String::as_str)).collect();
    let ours = ours.sync(&said);
    assert_eq!((ours.code, &*ours.stderr), (Some(0), ""), "{words} {ours:#?}");
    Some((ours, theirs))
}

/// Lines in order of text: rsync and Deltic walk in another order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn names_in_every_format_are_those_of_rsync() {
    for words in [
        "-ai",
        "-a --out-format=%i|%n|%L",
        "-rlpt --out-format=%o|%n|%B|%M|%U|%G|%m|%P|%h|%a|%u|%q|%%|",
        "-a --out-format=[%-12n][%12n]x -n --include=file --exclude=*",
        "-a --info=name",
        "-a --itemize-changes --info=del0",
    ] {
        for way in WAYS {
            let Some((ours, theirs)) = both(world, way, words) else { return };
            assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout), "{way:?} {words}");
        }
    }
}

/// The same tree twice, with other names of a file and of a link in it, and one name that drives terminals.
fn equal_worlds() -> World {
    let world = world();
    world.write("src/tab\there", "x");
    fs::hard_link(world.path("src/file"), world.path("src/dir/other")).expect("it is free");
    fs::hard_link(world.path("src/link"), world.path("src/dir/to")).expect("it is free");
    world.ok("-aH --no-fsync src/ dst/");
    world
}

#[test]
fn what_is_up_to_date_is_named_as_in_rsync() {
    for words in [
        "-aii",
        "-aHii",
        "-aHiin",
        "-aciv --info=flist0,stats0,name2",
        "-aHii --out-format=%i|%n|%L|%o",
        "-aii --out-format=%n",
        "-a --info=name2 --out-format=%i%n",
        "-a --info=name2",
        "-aH --info=name2",
        "-ac --info=name2 --out-format=%n",
        "-aii --exclude=dir",
    ] {
        for way in WAYS {
            let Some((ours, theirs)) = both(equal_worlds, way, words) else { return };
            assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout), "{way:?} {words}");
        }
    }
}

#[test]
fn what_is_up_to_date_in_a_large_tree_is_named_too() {
    let large = || {
        let world = World::new();
        for n in 0..1300 {
            world.write(format!("src/{}/{}/{n}", n % 7, n % 11), "");
        }
        world.mkdir("dst");
        world.ok("-a --no-fsync src/ dst/");
        world
    };
    for (way, words) in [(Way::Push, "-aii"), (Way::Pull, "-a --info=name2")] {
        let Some((ours, theirs)) = both(large, way, words) else { return };
        assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout), "{way:?} {words}");
        assert!(ours.stdout.lines().count() >= 1300);
    }
}

#[test]
fn what_is_up_to_date_is_named_beside_what_changes() {
    let changed = || {
        let world = equal_worlds();
        world.chmod("src/dir/below", 0o600);
        world.write("src/new", "new");
        world.write("src/tab\there", "longer");
        for name in ["src/tab\there", "src"] {
            world.set_time(name, 1_100_000_000);
        }
        world
    };
    for words in ["-aii", "-aHii", "-a --info=name2"] {
        for way in WAYS {
            let Some((ours, theirs)) = both(changed, way, words) else { return };
            assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout), "{way:?} {words}");
        }
    }
}

#[test]
fn what_an_alternate_has_is_named_as_in_rsync() {
    let alternate = || {
        let world = World::new();
        world.write("src/file", "content");
        world.write("src/other", "other");
        world.mkdir("dst");
        world.ok("-a --no-fsync --exclude=other src/ there/");
        world
    };
    for words in ["-aii --link-dest=../there", "-aii --compare-dest=../there"] {
        for way in WAYS {
            let Some((ours, theirs)) = both(alternate, way, words) else { return };
            let files = |run: &Run| {
                let lines = sorted(&run.stdout).into_iter().filter(|line| !line.ends_with('/'));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(files(&ours), files(&theirs), "{way:?} {words}");
        }
    }
}

#[test]
fn what_is_up_to_date_is_logged_and_told_to_programs() {
    let world = equal_worlds();
    world.ok("-aii --log-file=log src/ dst/");
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(log.contains("] .f          file\n"), "{log}");
    world.ok("-avv --log-file=words src/ dst/");
    let log = String::from_utf8(world.read("words")).unwrap();
    assert!(log.contains("] file is uptodate\n") && !log.contains("dir/ "), "{log}");
    let told = world.ok("-aii --json src/ dst/");
    assert!(
        told.stdout.contains(r#""path":"file","kind":"file","action":"unchanged""#),
        "{told:#?}"
    );
    let told = world.ok("-ai --json src/ dst/");
    assert!(!told.stdout.contains("unchanged"), "{told:#?}");
}

#[test]
fn a_log_holds_no_byte_that_drives_a_terminal() {
    let world = World::new();
    world.write(OsStr::from_bytes(b"s/csi\x9b2J"), "x");
    world.write(OsStr::from_bytes(b"s/latin\xe4 text\xc4\x9b"), "x");
    world.ok("-a --log-file=log --log-file-format=%n s/ d/");
    let log = world.read("log");
    let has = |bytes: &[u8]| log.windows(bytes.len()).any(|part| part == bytes);
    assert!(has(b"csi\\#2332J\n") && has(b"latin\xe4 text\xc4\x9b\n"), "{}", log.escape_ascii());
}

#[test]
fn owners_are_those_of_the_source_where_they_are_carried() {
    let owned = || {
        let world = world();
        if crate::common::is_root() {
            for (name, id) in [("src/file", 1234), ("src/dir", 1235), ("src/link", 1236)] {
                std::os::unix::fs::lchown(world.path(name), Some(id), Some(id + 10))
                    .expect("root may");
            }
        }
        world
    };
    for words in [
        "-a --out-format=%n|%U|%G",
        "-rl --out-format=%n|%U|%G",
        "-rlo --out-format=%n|%U|%G",
        "-rlg --out-format=%n|%5U|%-5G|",
        "-a --chown=7:8 --out-format=%n|%U|%G",
    ] {
        // What a map makes of them shows in rsync where it pulls.
        for way in WAYS.into_iter().filter(|way| *way != Way::Pull || !words.contains("chown")) {
            let Some((ours, theirs)) = both(owned, way, words) else { return };
            assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout), "{way:?} {words}");
        }
    }
}

#[test]
fn long_names_lengths_and_times_are_those_of_rsync_for_files() {
    let format = "-a --out-format=%f|%l|%'l|%14l|%L|%n|%M";
    for way in [Way::Local, Way::Push] {
        let Some((ours, theirs)) = both(world, way, format) else { return };
        // The length that a file system gives to a directory means nothing elsewhere.
        let files = |run: &Run| {
            let lines = sorted(&run.stdout).into_iter().map(str::to_owned);
            lines.filter(|line| !line.contains("/|")).collect::<Vec<_>>()
        };
        assert_eq!(files(&ours), files(&theirs), "{way:?}");
        assert!(
            files(&ours).contains(
                &"src/link|4|4|             4| -> file|link|2001/09/09-01:46:40".to_owned()
            )
        );
    }
}

#[test]
fn bytes_that_were_sent_are_counted_for_each_file() {
    for way in WAYS {
        let world = World::new();
        world.write("src/file", noise(5000, 1));
        let run = world.ok(&format!(
            "-a --no-cache --out-format=%n:%b:%p:%C: {} {}",
            way.from("src/file"),
            way.to("dst/")
        ));
        let fields: Vec<_> = run.stdout.trim_end().split(':').collect();
        assert_eq!(fields[..2], ["file", "5000"], "{way:?} {run:#?}");
        assert!(fields[2].parse::<u32>().is_ok() && fields[3].trim().is_empty());
    }
}

#[test]
fn verbose_levels_name_what_rsync_names() {
    let changed = || {
        let world = world();
        world.ok("-a --no-fsync src/ dst/");
        world.chmod("src/file", 0o600);
        world.write("src/dir/below", "longer than it was");
        world.write("dst/gone", "x");
        world
    };
    for way in WAYS {
        let Some((ours, theirs)) = both(changed, way, "-av --delete") else { return };
        let names = |run: &Run| {
            let text = run.stdout.split("\n\n").next().unwrap_or_default().to_owned();
            sorted(&text).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "{way:?}");
        assert!(!names(&ours).contains(&"file".to_owned()));
        let world = changed();
        let more = world.ok(&format!("-avv {} {}", way.from("src/"), way.to("dst/")));
        assert!(names(&more).contains(&"file".to_owned()), "{more:#?}");
    }
}

#[test]
fn deletions_are_told_as_the_format_and_the_levels_say() {
    let extra = || {
        let world = world();
        world.ok("-a --no-fsync src/ dst/");
        world.write("dst/gone", "x");
        world
    };
    for words in [
        "-a --delete --out-format=%n",
        "-a --delete --out-format=%o-%n",
        "-ai --delete",
        "-a --delete --info=del",
        "-av --delete --info=del0,stats0,flist0",
        "-a --delete",
    ] {
        let Some((ours, theirs)) = both(extra, Way::Push, words) else { return };
        // That the destination's own time changed is told by either, or by none.
        let told = |run: &Run| {
            let lines = sorted(&run.stdout).into_iter().filter(|line| line.contains("gone"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(&ours), told(&theirs), "{words}");
    }
}

#[test]
fn statistics_are_rsyncs_lines_in_rsyncs_order() {
    let more = || {
        let world = world();
        world.write("src/large", noise(1_234_567, 3));
        world
    };
    for (words, way) in [
        ("-a --stats", Way::Local),
        ("-a --stats", Way::Push),
        ("-a --stats -h", Way::Pull),
        ("-a --stats -hh -n", Way::Push),
        ("-a --info=stats2 --no-h", Way::Local),
    ] {
        let Some((ours, theirs)) = both(more, way, words) else { return };
        let is_own = |line: &&str| {
            // What a wire protocol costs, and how long it took, is each program's own.
            !["Total bytes", "sent ", "total size", "File list", "Compression", "Measured"]
                .iter()
                .any(|own| line.starts_with(own))
        };
        let counts =
            |run: &Run| run.stdout.lines().filter(is_own).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(counts(&ours), counts(&theirs), "{words} {way:?}");
        let shape = |run: &Run| {
            let shape = |line: &str| {
                line.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().to_owned()
            };
            let lines =
                run.stdout.lines().filter(|line| !line.starts_with("File list ")).map(shape);
            lines.collect::<Vec<_>>()
        };
        assert_eq!(shape(&ours), shape(&theirs), "{words} {way:?}");
    }
}

#[test]
fn a_dry_run_says_so_in_the_last_line() {
    let Some((ours, theirs)) = both(world, Way::Push, "-avn") else { return };
    for run in [ours, theirs] {
        assert!(run.stdout.ends_with(" (DRY RUN)\n"), "{run:#?}");
    }
}

#[test]
fn names_that_could_drive_a_terminal_are_escaped_as_rsync_escapes_them() {
    let odd = || {
        let world = World::new();
        for name in [&b"src/\x1b[2J\n"[..], b"src/\\#033 is no escape", b"src/tab\tstays"] {
            world.write(OsStr::from_bytes(name), "x");
        }
        world.mkdir("dst");
        world
    };
    let Some((ours, theirs)) = both(odd, Way::Push, "-r --out-format=%n") else { return };
    assert_eq!(sorted(&ours.stdout), sorted(&theirs.stdout));
    assert!(ours.stdout.contains("\\#033[2J\\#012\n") && ours.stdout.contains("\\#134#033"));
}

#[test]
fn eight_bits_pass_only_where_they_are_asked_for() {
    let world = World::new();
    world.write(OsStr::from_bytes(b"src/\xff\x1b"), "x");
    let raw = |words: &[&str]| {
        let shell = ["sync", "-r", "-n", "--out-format=%n"];
        let words = shell.iter().chain(words).chain(&["src/", "dst/"]);
        world.command(DELTIC, words).output().expect("it runs").stdout
    };
    assert_eq!(raw(&[]), b"./\n\\#377\\#033\n");
    assert_eq!(raw(&["-8"])[3..9], b"\xff\\#033"[..]);
    assert_eq!(raw(&["-8", "--no-8"])[3..13], b"\\#377\\#033"[..]);
}

#[test]
fn a_log_has_times_names_troubles_and_totals() {
    for way in WAYS {
        let world = world();
        let operands = [way.from("src/"), way.to("dst/")].join(" ");
        world.write("src/file", vec![b'x'; 1_234_567]);
        let run = world.ok(&format!("-ah --log-file=log {operands}"));
        assert_eq!(run.stdout, "");
        let text = String::from_utf8(world.read("log")).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for line in &lines {
            // 2026/11/21 12:25:04 [29136] text
            let (time, rest) = line.split_once(" [").unwrap_or_else(|| panic!("{line}"));
            assert!(time.len() == 19 && rest.split_once("] ").unwrap().0.parse::<u32>().is_ok());
        }
        let list = if way == Way::Pull { "receiving file list" } else { "building file list" };
        let arrow = if way == Way::Push { '<' } else { '>' };
        assert!(lines[0].ends_with(list), "{text}");
        assert!(text.contains(&format!("] {arrow}f+++++++++ dir/below\n")), "{text}");
        assert!(text.contains("] cL+++++++++ link -> file\n"), "{text}");
        assert!(
            lines.last().unwrap().contains("] sent ") && text.ends_with("total size 1234576\n")
                || text.ends_with("total size 1234572\n"),
            "{text}"
        );
        // A second run adds to it; its own format is taken, and -v tells the totals in rsync's two lines.
        world.write("src/file", "other");
        world.ok(&format!("-av --log-file=log --log-file-format=<%o:%n> {operands}"));
        let more = String::from_utf8(world.read("log")).unwrap();
        let more = more.strip_prefix(&text).expect("it was added to");
        let operation = if way == Way::Pull { "recv" } else { "send" };
        assert!(more.contains(&format!("] <{operation}:file>\n")), "{more}");
        assert!(more.contains(" bytes/sec\n") && more.contains("speedup is"), "{more}");
        assert!(!more.contains("file list\n\n"));
    }
}

/// What a wire protocol costs, and how long it took, is each program's own; so is the order in which files are done.
#[test]
fn a_log_says_what_that_of_rsync_says() {
    let changed = || {
        let world = world();
        world.write("dst/gone", "x");
        world.write("dst/file", "older");
        world.set_time("dst/file", 1_100_000_000);
        world
    };
    for words in [
        "-a --delete",
        "-aq --delete",
        "-av --delete --stats",
        "-a --log-file-format=%o|%n|%i|%L",
        "-a --log-file-format=",
        "-aii",
    ] {
        for way in WAYS {
            let log = |program: &dyn Fn(&World, &[&str])| {
                let world = changed();
                let operands = [way.from("src/"), way.to("dst/")];
                let words: Vec<_> = words.split(' ').chain(["--log-file=log"]).collect();
                program(&world, &[&words[..], &[&operands[0], &operands[1]]].concat());
                let text = String::from_utf8(world.read("log")).unwrap();
                let is_own = |line: &&str| {
                    let own =
                        ["sent ", "total size", "File list", "Total bytes", "Compr", "Measured"];
                    own.iter().any(|own| line.starts_with(own))
                };
                let lines = text.lines().map(|line| line.split_once("] ").expect(line).1);
                let mut lines: Vec<_> =
                    lines.filter(|line| !is_own(line)).map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            let rsh = format!("--rsh={SHELL}");
            let theirs = log(&|world, words| {
                rsync(world, &[words, &[&rsh]].concat());
            });
            let ours = log(&|world, words| assert_eq!(world.sync(words).code, Some(0)));
            assert_eq!(ours, theirs, "{way:?} {words}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_opened_does_not_stop_the_run_and_a_dry_run_names_nothing_in_it() {
    let world = world();
    let run = world.sync(&["-a", "--log-file=no/such/log", "src/", "dst/"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("cannot open no/such/log: "), "{run:#?}");
    world.assert_same("src", "dst");
    world.write("src/new", "x");
    world.ok("-an --log-file=log src/ dst/");
    assert!(!String::from_utf8(world.read("log")).unwrap().contains("new"));
    let run =
        world.sync(&["-a", "--log-file=log", "--log-file-format=", "src/", "missing", "dst/"]);
    assert_eq!(run.code, Some(23));
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(!log.contains("new") && log.contains("missing"), "{log}");
}

#[test]
fn quiet_outweighs_what_is_to_be_shown() {
    let world = world();
    let run = world.ok("-avvi --progress --out-format=%n -q src/ dst/");
    assert_eq!(run.stdout, "");
}

#[test]
fn figures_are_grouped_plain_or_have_units() {
    let world = World::new();
    world.write("src/file", noise(1_234_567, 3));
    for (words, shown) in [
        ("", "1,234,567 bytes"),
        ("--no-h", "1234567 bytes"),
        ("--no-human-readable", "1234567 bytes"),
        ("-h", "1.23M bytes"),
        ("-hh", "1.18M bytes"),
        ("--human-readable", "1.23M bytes"),
        ("--no-h -h", "1.23M bytes"),
    ] {
        let run = world.ok(&format!("-an --stats {words} src/ dst/"));
        assert!(run.stdout.contains(&format!("Total file size: {shown}\n")), "{words} {run:#?}");
    }
}

#[test]
fn messages_end_in_the_systems_words_without_their_numbers() {
    let world = world();
    for (words, code, why) in [
        (
            "sync -a --files-from=none src/ dst/",
            1,
            "--files-from: cannot read none: no such file or directory",
        ),
        (
            "sync -a --exclude-from=none src/ dst/",
            11,
            "cannot read rules none: no such file or directory",
        ),
        (
            "sync -a --log-file=none/log src/ dst/",
            0,
            "cannot open none/log: no such file or directory",
        ),
        ("sync -a -e src/file src/ h:dst/", 14, "cannot start src/file: permission denied"),
        (
            "sync -a h:src/ --files-from=:none dst/",
            3,
            "--files-from: cannot read none: no such file or directory",
        ),
        ("watch -a none/ dst/", 23, "no such file or directory"),
        ("signature none", 11, "cannot open none: no such file or directory"),
        ("signature .", 11, "cannot read .: is a directory"),
        (
            "sync -aR src/../x dst/",
            1,
            "source src/../x: '..' cannot be sent as part of a path with -R",
        ),
        ("verify none src", 23, "none: no such file or directory"),
        ("patch none none -o new", 11, "open none: no such file or directory"),
    ] {
        let mut all: Vec<_> = words.split(' ').collect();
        if words.contains("h:src") {
            all.splice(1..1, ["-e", SHELL, "--deltic-path", DELTIC]);
        }
        let run = Run::of(&mut world.command(DELTIC, all));
        assert_eq!(run.code, Some(code), "{words} {run:#?}");
        assert!(run.stderr.contains(why) && !run.stderr.contains("os error"), "{words} {run:#?}");
        assert_eq!(run.stdout, "", "{words}");
    }
}

#[test]
fn a_path_that_is_too_long_is_told_in_short() {
    let world = world();
    let long = format!("src/{}end", "a/".repeat(2500));
    for (words, code) in [
        (format!("{long} dst/"), 23),
        (format!("src/ {long}"), 11),
        (format!("src/ h:{long}"), 11),
        (format!("{} dst/", "n".repeat(3000)), 3),
    ] {
        let run = world.fails(code, &format!("-a {words}"));
        assert!(run.stderr.contains(": file name too long\n"), "{run:#?}");
        assert!(run.stderr.contains("...") && run.stderr.len() < 250, "{run:#?}");
    }
}

#[test]
fn levels_are_told_and_names_that_rsync_does_not_know_refused() {
    let world = world();
    for option in ["--info", "--debug"] {
        let run = Run::of(&mut world.command(DELTIC, ["sync", &format!("{option}=help")]));
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.stdout.contains("FLIST") && run.stdout.contains("ALL"), "{run:#?}");
        world.fails(1, &format!("-a {option}=foo src/ dst/"));
    }
    let run = world.ok("-a --debug=all4,deltasum2,none --info=stats1,name0,misc2,backup src/ dst/");
    assert!(run.stdout.starts_with("\nsent ") && run.stdout.lines().count() == 3, "{run:#?}");
}

#[test]
fn skipped_names_are_silenced_by_their_level() {
    let world = world();
    assert!(world.sync(&["-r", "src/", "dst/"]).stdout.contains("skipping non-regular file"));
    assert_eq!(world.ok("-r --info=nonreg0 src/ dst/").stdout, "");
}

#[test]
fn messages_go_where_stderr_says_and_buffers_are_accepted() {
    let world = world();
    let run = world.sync(&["-ai", "-n", "--stderr=all", "src/", "dst/"]);
    assert_eq!((run.code, &*run.stdout), (Some(0), ""));
    assert!(run.stderr.contains("+++++++++ file\n"), "{run:#?}");
    for words in
        ["--stderr=errors", "--stderr=c", "--outbuf=L", "--outbuf=none", "--outbuf=B --no-motd"]
    {
        let run = world.ok(&format!("-ain {words} src/ dst/"));
        assert!(run.stdout.contains("+++++++++ file\n"), "{words} {run:#?}");
    }
    world.fails(1, "-a --stderr=x src/ dst/");
    world.fails(1, "-a --outbuf=x src/ dst/");
}

#[test]
fn messages_go_where_those_of_rsync_go() {
    for words in [
        "-ai --stderr=all",
        "-ai --stderr=a",
        "-ai --msgs2stderr",
        "-ai --stderr=errors",
        "-ai --stderr=client",
        "-ai --outbuf=N",
        "-ai --outbuf=u",
        "-ai --outbuf=Line",
        "-ai --outbuf=b",
        "-ai --outbuf=F",
        "-ai --no-motd",
        "-aiq",
    ] {
        let (ours, theirs) = (world(), world());
        let words: Vec<_> = words.split(' ').chain(["src/", "dst/"]).collect();
        let Some(theirs) = rsync(&theirs, &words) else { return };
        let ours = ours.sync(&words);
        assert_eq!(ours.code, Some(0), "{words:?} {ours:#?}");
        let said = |run: &Run| {
            [&run.stdout, &run.stderr]
                .map(|text| sorted(text).into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(said(&ours), said(&theirs), "{words:?}");
    }
    for words in ["--stderr=x", "--outbuf=x"] {
        let world = world();
        assert_eq!(world.sync(&["-a", words, "src/", "dst/"]).code, Some(1), "{words}");
        if crate::common::is_installed("rsync") {
            let run = Run::of(&mut world.command("rsync", ["-a", words, "src/", "dst/"]));
            assert_eq!(run.code, Some(1), "{words} {run:#?}");
        }
    }
}

/// Scripts look at the first line, and programs at some keys.
#[test]
fn the_version_has_the_form_of_that_of_rsync() {
    let world = World::new();
    let ours = |words: &str| Run::of(&mut world.command(DELTIC, ["sync", words]));
    let Some(theirs) = rsync(&world, &["--version"]) else { return };
    let words = |run: &Run| {
        let line = run.stdout.lines().next().expect("it says something").to_owned();
        assert!(
            line.split_once("  version ").is_some_and(|(_, rest)| rest.contains("  protocol "))
        );
        line.split(' ').count()
    };
    assert!(words(&ours("--version")) > 3 && words(&theirs) > 3);
    let Some(theirs) = rsync(&world, &["-VV"]) else { return };
    let json = |run: &Run| serde_json::from_str::<serde_json::Value>(&run.stdout).expect("JSON");
    let (ours, theirs) = (json(&ours("-VV")), json(&theirs));
    for key in ["program", "version", "protocol"] {
        assert!(ours[key].is_string() && theirs[key].is_string(), "{key} {ours}");
    }
    for key in ["checksum_list", "compress_list"] {
        assert!(ours[key].is_array() && theirs[key].is_array(), "{key} {ours}");
    }
}

#[test]
fn the_version_is_for_people_and_for_programs() {
    let world = World::new();
    for words in [&["sync", "-V"][..], &["sync", "--version"], &["--version"]] {
        let run = Run::of(&mut world.command(DELTIC, words));
        assert_eq!(run.code, Some(0));
        assert!(run.stdout.contains(env!("CARGO_PKG_VERSION")), "{run:#?}");
    }
    let run = Run::of(&mut world.command(DELTIC, ["sync", "-VV"]));
    let version: serde_json::Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["compress_list"][0], "zstd");
}

#[test]
fn progress_names_files_and_p_is_partial_too() {
    for words in ["--progress", "-P"] {
        let world = world();
        let run = world.sync(&["-a", words, "src/", "dst/"]);
        assert_eq!(run.code, Some(0));
        assert!(run.stdout.contains("\nfile\n"), "{run:#?}");
        let run = world.ok("-a --no-progress src/ other/");
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn a_run_explains_itself_for_each_file_or_summed_up() {
    for way in WAYS {
        let world = World::new();
        world.write("src/large", [noise(400_000, 1), noise(5000, 2)].concat());
        world.write("src/new", "new");
        world.write("dst/large", noise(400_000, 1));
        let operands = [way.from("src/"), way.to("dst/")].join(" ");
        let dry = world.ok(&format!("-an --explain {operands}"));
        assert!(dry.stdout.starts_with("1 file whole, as there was no old version; "), "{dry:#?}");
        let run = world.ok(&format!("-av --explain {operands}"));
        let after = |name: &str| {
            let mut lines = run.stdout.lines().skip_while(|line| *line != name);
            lines.nth(1).unwrap_or_else(|| panic!("no {name} in {run:#?}")).to_owned()
        };
        assert_eq!(after("new"), "  whole, as there was no old version; sent 3 B of 3 B");
        let large = after("large");
        match way {
            Way::Local => assert!(large.starts_with("  whole, as both ends are here"), "{large}"),
            _ => assert!(
                large.starts_with("  as changes to the old version, in chunks of about 2.00 KiB"),
                "{large}"
            ),
        }
    }
}

#[test]
fn times_are_those_of_the_zone_that_is_named() {
    for (zone, shown) in [
        ("", "1970/01/01-00:00:00"),
        ("<-03>3", "1969/12/31-21:00:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "1970/01/01-01:00:00"),
        ("No/Such", "1970/01/01-00:00:00"),
        (":/no/such", "1970/01/01-00:00:00"),
        ("../../../etc/passwd", "1970/01/01-00:00:00"),
    ] {
        let world = world();
        world.set_time("src/file", 0);
        let words = ["sync", "-a", "--out-format=%M", "src/file", "dst/"];
        let run = Run::of(world.command(DELTIC, words).env("TZ", zone));
        assert_eq!((run.code, run.stdout.trim()), (Some(0), shown), "{zone} {run:#?}");
    }
}
