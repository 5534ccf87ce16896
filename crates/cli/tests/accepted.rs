//! Words of scripts for rsync: those that are accepted, those that are refused with a reason, and other names for us.

use crate::common::{DELTIC, Run, SHELL, World, is_installed, rsync};

fn world() -> World {
    let world = World::new();
    world.write("src/file", "content");
    world.write("src/dir/below", "below");
    world.link("file", "src/link");
    world
}

#[test]
fn words_without_a_meaning_here_change_nothing() {
    for words in [
        "--no-inc-recursive --inc-recursive --no-i-r --i-r",
        "--protocol=31 --checksum-seed=-5 --blocking-io --no-blocking-io",
        "--old-compress --new-compress --qsort --no-crtimes --no-N --msgs2stderr --no-msgs2stderr",
        "--old-dirs --no-old-dirs --old-d --no-d --insecure-links --no-insecure-links",
        "--trust-sender --fsync --partial -P --max-alloc=1g --port=2222 --no-motd",
        "--sockopts=SO_SNDBUF=1 --address=127.0.0.1 --iconv=. --no-iconv",
        "--no-fsync --fsync --early-input=p --no-write-devices",
        "--bwlimit=100m+1 --stop-after=1.5",
        "--bwlimit=100m-1 --stop-at=2999/2/30",
    ] {
        let world = world();
        let words: Vec<_> = words.split(' ').chain(["-a", "src/", "h:dst/"]).collect();
        let run = world.sync(&words);
        assert_eq!(run.code, Some(0), "{words:?} {run:#?}");
        world.assert_same("src", "dst");
    }
}

#[test]
fn what_deltic_does_not_do_is_refused_with_4_and_a_reason_before_anything_is_touched() {
    for (words, reason) in [
        ("--iconv=utf8,latin1", "does not convert names"),
        ("--server --sender", "must be deltic too"),
        ("--sender", "must be deltic too"),
        ("--daemon", "starts itself over ssh"),
        ("--copy-as=nobody", "run deltic as the user"),
    ] {
        let world = world();
        let run = world.fails(4, &format!("-a {words} src/ dst/"));
        assert!(
            run.stderr.contains("is not supported\n  hint: ") && run.stderr.contains(reason),
            "{run:#?}"
        );
        let word = words.split([' ', '=']).next().expect("there is one");
        assert!(run.stderr.contains(&format!("'{word}'")), "{run:#?}");
        assert!(!world.exists("dst"));
    }
}

/// Words, and what they end with.
const EARLY_ENDS: &[(&str, i32)] = &[
    ("-r src/ file", 3),
    ("-l src/file src/link file", 3),
    ("src/file file/", 3),
    ("-r src/ file/below", 3),
    ("src/file none/file", 3),
    ("-r src/ none/below", 11),
    ("-r src/ nowhere", 11),
    ("-r src/ /proc/none", 11),
    ("-r --mkpath src/ file/below/it", 11),
    ("-r --exclude-from=none src/ dst", 11),
    ("-r --include-from=none src/ dst", 11),
    ("-r --files-from=none src/ dst", 1),
    ("-r --password-file=none src/ dst", 1),
    ("-r --log-file=none/log src/ dst", 0),
    ("-r none dst", 23),
    ("-r -e none/shell src/ h:dst", 14),
];

#[test]
fn what_ends_a_run_before_it_begins_has_the_code_that_it_has_with_rsync() {
    for (words, code) in EARLY_ENDS {
        let world = world();
        world.write("file", "");
        world.link("none", "nowhere");
        let all: Vec<_> = words.split(' ').collect();
        let run = Run::of(&mut world.command(DELTIC, ["sync"].iter().chain(&all)));
        assert_eq!(run.code, Some(*code), "{words} {run:#?}");
        // Where there is no shell, rsync says 14 or 12, by which of its processes is first.
        if is_installed("rsync") && *code != 14 {
            let run = Run::of(&mut world.command("rsync", &all));
            assert_eq!(run.code, Some(*code), "{words} {run:#?}");
        }
    }
}

#[test]
fn a_refusal_is_an_event_with_the_same_code() {
    let run = world().sync(&["-a", "--json", "--daemon", "src/", "dst/"]);
    let event: serde_json::Value = serde_json::from_str(run.stdout.trim()).expect("one event");
    assert_eq!((run.code, event["exit_code"].as_u64()), (Some(4), Some(4)));
}

#[test]
fn every_option_can_be_taken_back() {
    let world = world();
    for (words, created) in [
        ("-v --no-v", ""),
        ("-i --no-itemize-changes", ""),
        ("-i --no-i", ""),
        ("--stats --no-stats", ""),
        ("--progress --no-progress", ""),
        ("-n --no-dry-run -n -q --no-q -c --no-c -W --no-W --no-whole-file", ""),
        ("-h --no-h --bwlimit=1 --no-bwlimit --timeout=1 --no-timeout --delete --no-delete", ""),
        ("-8 --no-8-bit-output --no-8 -z --no-z", ""),
    ] {
        let run = world.ok(&format!("-an {words} src/ dst/"));
        assert_eq!(run.stdout, created, "{words}");
    }
    // The later word counts.
    assert!(world.ok("-an --no-i -i src/ dst/").stdout.contains("+++ file"));
}

#[test]
fn rsync_too_takes_the_opposites_that_scripts_use() {
    let world = world();
    world.mkdir("dst");
    let opposites =
        "--no-v --no-i-r --no-z --no-8 --no-h --no-W --no-timeout --no-contimeout --no-progress";
    let words: Vec<_> = opposites.split(' ').chain(["-an", "src/", "dst/"]).collect();
    rsync(&world, &words);
    assert_eq!(world.sync(&words).code, Some(0));
}

#[test]
fn short_options_are_bundled_with_values_as_popt_has_it() {
    for words in
        [vec!["-avzP", "-e", SHELL], vec!["-avze", SHELL], vec!["-aM", "--bwlimit=9M", "-e", SHELL]]
    {
        let world = world();
        let path = format!("--rsync-path={DELTIC}");
        let all =
            ["sync"].into_iter().chain(words.iter().copied()).chain([&*path, "src/", "h:dst/"]);
        let run = Run::of(&mut world.command(DELTIC, all));
        assert_eq!(run.code, Some(0), "{words:?} {run:#?}");
        world.assert_same("src", "dst");
    }
    let world = world();
    let shell = format!("-e{SHELL}");
    let run = Run::of(
        &mut world
            .command(DELTIC, ["sync", "-a", &shell, "--rsync-path", DELTIC, "src/", "h:dst/"]),
    );
    assert_eq!(run.code, Some(0), "{run:#?}");
}

/// `--link-dest="$PREVIOUS"` on the first run.
#[test]
fn options_whose_value_is_empty_are_not_given_where_rsync_takes_them_so() {
    for (words, made) in [
        ("--link-dest= --bwlimit= --timeout= --contimeout= --partial-dir= --log-file=", true),
        ("--compare-dest=", true),
        ("--copy-dest=", true),
        ("--compress-level= --zl= --compress-threads= --modify-window= --checksum-seed=", true),
        ("--block-size= --port= --min-size= --exclude-from= --include-from=", true),
        ("--delete --max-delete=", true),
        ("--max-size=", false),
    ] {
        let two: Vec<_> = words
            .split(' ')
            .flat_map(|word| {
                word.strip_suffix('=').map_or_else(|| vec![word], |name| vec![name, ""])
            })
            .collect();
        for words in [words.split(' ').collect(), two] {
            let world = world();
            world.write("dst/extra", "");
            let code = if words.contains(&"--delete") { 25 } else { 0 };
            let words: Vec<_> = ["-a", "src/", "dst/"].into_iter().chain(words).collect();
            let run = world.sync(&words);
            assert_eq!(run.code, Some(code), "{words:?} {run:#?}");
            assert_eq!(world.exists("dst/file"), made, "{words:?}");
            assert!(world.exists("dst/extra"), "{words:?}");
            let other = words.iter().map(|word| word.replace("dst", "other")).collect::<Vec<_>>();
            world.write("other/extra", "");
            let other: Vec<_> = other.iter().map(String::as_str).collect();
            // It is no success of rsync's either.
            if code == 0 && rsync(&world, &other).is_some() {
                assert_eq!(world.names("dst"), world.names("other"), "{words:?}");
            }
        }
    }
    for words in ["-b --backup-dir=", "--backup-dir= --suffix=", "--files-from="] {
        let run = world().fails(1, &format!("-a {words} src/ dst/"));
        assert!(!run.stderr.is_empty(), "{run:#?}");
    }
}

#[test]
fn options_are_not_abbreviated_just_as_in_rsync() {
    world().fails(1, "-a --recurs src/ dst/");
}

#[test]
fn aliases_of_rsync_are_not_read_and_that_is_said() {
    let world = World::new();
    world.write("src/file", "x");
    world.link(DELTIC, "rsync");
    let called = |program: &str, popt: &str, words: &[&str]| {
        world.write(".popt", popt);
        Run::of(&mut world.command(&world.path(program).display().to_string(), words))
    };
    let aliases = "# aliases\nrsync\talias --mirror -a --delete\n";
    let words = ["-a", "src/", "dst"];
    let run = called("rsync", aliases, &words);
    assert_eq!((run.code, run.stderr.lines().count()), (Some(0), 1), "{run:#?}");
    assert!(run.stderr.contains(".popt: aliases of rsync are not read"), "{run:#?}");
    let run = called("rsync", aliases, &["--mirror", "src/", "dst"]);
    assert!(run.code == Some(1) && run.stderr.contains("aliases of rsync"), "{run:#?}");
    let run = called("rsync", "other alias -x --y\n# rsync alias\n", &words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let run = called(DELTIC, aliases, &["sync", "-a", "src/", "dst"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
}

#[test]
fn called_as_rsync_it_is_sync() {
    let world = world();
    std::os::unix::fs::symlink(DELTIC, world.path("rsync")).unwrap();
    let program = world.path("rsync").to_str().unwrap().to_owned();
    let run = Run::of(&mut world.command(&program, ["-ai", "src/", "dst/"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stdout.contains(">f+++++++++ file\n"), "{run:#?}");
    world.assert_same("src", "dst");
    for words in [&["-h"][..], &["--help"]] {
        let run = Run::of(&mut world.command(&program, words));
        assert!(run.code == Some(0) && run.stdout.contains("--archive"), "{run:#?}");
    }
    let run = Run::of(&mut world.command(&program, ["--version"]));
    assert!(run.code == Some(0) && run.stdout.starts_with("rsync  version 3."), "{run:#?}");
    let own = format!("deltic  version {}", env!("CARGO_PKG_VERSION"));
    assert!(run.stdout.contains(&own) && run.stdout.contains("which this is not"), "{run:#?}");
    // Scripts read what comes before the last empty line.
    let (known, rest) = run.stdout.rsplit_once("\n\n").expect("there is one");
    let (_, known) = known.split_once("Capabilities:").expect("they are told");
    assert!(known.contains("ACLs, xattrs") && known.contains("no iconv"), "{run:#?}");
    assert!(rest.contains("NO WARRANTY"), "{run:#?}");
    let run = Run::of(&mut world.command(&program, ["-VV"]));
    let version: serde_json::Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    let can = &version["capabilities"];
    assert!(can["ACLs"] == true && can["iconv"] == false && can["file_bits"] == 64, "{run:#?}");
    let run = Run::of(&mut world.command(&program, [] as [&str; 0]));
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("\nrsync error: syntax or usage error (code 1) at "), "{run:#?}");
    let run = Run::of(&mut world.command(DELTIC, ["rsync", "-a", "src/", "other/"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.assert_same("src", "other");
}

/// Wrappers of rsync look for these lines in what it says and in its log.
#[test]
fn called_as_rsync_a_failure_ends_with_its_words() {
    let world = world();
    std::os::unix::fs::symlink(DELTIC, world.path("rsync")).unwrap();
    let program = world.path("rsync").to_str().unwrap().to_owned();
    let run = Run::of(&mut world.command(&program, ["-a", "--log-file=log", "src/", "no", "dst"]));
    let last =
        "rsync error: some files/attrs were not transferred (see previous errors) (code 23) at ";
    assert_eq!(run.code, Some(23), "{run:#?}");
    let lines: Vec<_> = run.stderr.lines().collect();
    let [first, end] = lines[..] else { panic!("two lines: {run:#?}") };
    let no = world.path("no");
    let missing = format!("rsync: [sender] link_stat {no:?} failed: No such file or directory (2)");
    assert!(first == missing && end.starts_with(last), "{run:#?}");
    let log = String::from_utf8(world.read("log")).unwrap();
    assert!(log.contains(&format!("] {first}\n")) && log.contains(&format!("] {last}")), "{log}");
    // Who calls us by our name hears it in the log.
    let run = world.fails(23, "-a --log-file=own src/ no dst");
    assert_eq!(run.stderr.lines().count(), 1, "{run:#?}");
    let log = String::from_utf8(world.read("own")).unwrap();
    assert!(log.contains("] deltic error: some files/attrs were not"), "{log}");
}

#[test]
fn called_as_rsync_it_says_of_words_what_rsync_says() {
    let world = world();
    world.link(DELTIC, "rsync");
    let program = world.path("rsync").display().to_string();
    for (word, first) in [
        ("--fileflags", "rsync: --fileflags: unknown option"),
        ("-Y", "rsync: -Y: unknown option"),
        ("--timeout=x", "rsync: invalid value 'x' for '--timeout <SECONDS>': not a whole number"),
    ] {
        let run = Run::of(&mut world.command(&program, ["-a", word, "src/", "dst"]));
        let lines: Vec<_> = run.stderr.lines().collect();
        let [said, .., end] = lines[..] else { panic!("two lines or more: {run:#?}") };
        assert_eq!((run.code, said), (Some(1), first), "{run:#?}");
        let hint = lines[1].starts_with("  hint: ");
        let helps = first.ends_with("unknown option");
        assert_eq!((hint, lines.len()), (helps, 2 + usize::from(helps)), "{run:#?}");
        assert!(end.starts_with("rsync error: syntax or usage error (code 1) at "), "{run:#?}");
    }
    let run = Run::of(&mut world.command(&program, ["-az", "--zc=lz5", "src/", "dst"]));
    assert_eq!(run.code, Some(4), "{run:#?}");
    let run = world.fails(1, "-a --fileflags src/ dst");
    assert!(run.stderr.contains("Usage: deltic sync"), "{run:#?}");
}

#[test]
fn what_is_no_option_of_deltic_is_refused_with_1_and_a_reason() {
    for (word, reason) in [
        ("--drop-D", "--no-D leaves"),
        ("--confine-root=/srv", "no other tree"),
        ("--copy-devices", "never written or read"),
        ("--write-devices", "never written or read"),
    ] {
        let world = world();
        let run = world.fails(1, &format!("-a {word} src/ dst/"));
        let name = word.split('=').next().expect("there is one");
        let told = format!("deltic: '{name}' is not supported\n  hint: ");
        assert!(run.stderr.starts_with(&told) && run.stderr.contains(reason), "{run:#?}");
        assert!(!world.exists("dst"));
    }
}

#[test]
fn values_in_words_of_their_own_may_begin_with_a_hyphen_as_in_rsync() {
    let world = world();
    world.mkdir("dst/-alt");
    for word in ["--chmod -w", "--log-file -lf", "--partial-dir -p", "--compare-dest -alt"] {
        world.ok(&format!("-ai {word} src/ dst/"));
    }
    assert!(world.exists("-lf"));
    world.write("src/file", "newer bytes");
    world.ok("-ab --suffix -old src/ dst/");
    assert!(world.exists("dst/file-old"));
    world.write("src/file", "the newest bytes");
    world.ok("-ab --backup-dir -bk src/ dst/");
    assert!(world.exists("dst/-bk/file"));
}

#[test]
fn what_is_no_number_is_told_so() {
    for option in ["timeout", "stop-after", "port"] {
        let run = world().sync(&["-a", &format!("--{option}=x"), "src/", "dst/"]);
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(run.stderr.contains("not a whole number"), "{run:#?}");
    }
}

#[test]
fn a_daemon_is_refused_without_operands_too() {
    let run = world().sync(&["--daemon"]);
    assert_eq!(run.code, Some(4), "{run:#?}");
    assert!(run.stderr.contains("starts itself over ssh"), "{run:#?}");
}

#[test]
fn a_password_is_for_daemons_as_in_rsync() {
    let world = world();
    let run = world.fails(1, "-a --password-file=p src/ dst/");
    assert!(run.stderr.contains("daemons") && !world.exists("dst"), "{run:#?}");
}
