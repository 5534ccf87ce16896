//! What is left out and what is removed: filters as rsync has them, and deletions that are no accident.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::attrs::{SOMEBODY, own};
use crate::common::terminal::Terminal;
use crate::common::tree::picture;
use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, is_installed, is_root, rsync, skip};

fn world(extra: usize) -> World {
    let world = World::new();
    for name in ["a", "b", "sub/c"] {
        world.write(format!("src/{name}"), "content");
    }
    world.ok("-a --no-fsync src/ dst/");
    for n in 0..extra {
        world.write(format!("dst/extra {}/{n}", n % 3), "");
    }
    world
}

fn extras(world: &World) -> usize {
    let count = |n| fs::read_dir(world.path(format!("dst/extra {n}"))).map_or(0, Iterator::count);
    (0..3).map(count).sum()
}

fn delete(way: Way, options: &str) -> String {
    format!("-a --no-fsync --delete {options} {} {}", way.from("src/"), way.to("dst/"))
}

#[test]
fn extra_names_stay_without_delete_and_go_with_it() {
    for way in WAYS {
        let world = world(15);
        world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst/")));
        assert_eq!(extras(&world), 15);
        let run = world.ok(&delete(way, "--stats"));
        world.assert_same("src", "dst");
        assert_eq!(run.stat("Number of deleted files"), 18, "{way:?}");
    }
}

#[test]
fn more_than_a_thousand_names_stay_until_a_number_is_named() {
    for way in WAYS {
        let world = world(1100);
        world.write("src/new", "still synced");
        let run = world.fails(25, &delete(way, ""));
        let told = "nothing deleted: 1103 of 1108 names would be removed (limit 1000); \
                    to delete anyway, use --max-delete 1103 or --force-delete\n";
        assert!(run.stderr.contains(told), "{run:#?}");
        assert_eq!((extras(&world), world.read("dst/new")), (1100, b"still synced".to_vec()));
        world.ok(&delete(way, "--max-delete 1103"));
        world.assert_same("src", "dst");
    }
}

/// The guard as a share, in trees that are small enough for a test.
const QUARTER: &str = "--max-delete 25%";

#[test]
fn more_names_than_the_share_that_was_named_stay() {
    for way in WAYS {
        let world = world(0);
        for n in 0..100 {
            world.write(format!("src/many/{n}"), "");
        }
        world.ok(&delete(way, ""));
        for n in 0..40 {
            world.write(format!("dst/extra 0/{n}"), "");
        }
        let run = world.fails(25, &delete(way, QUARTER));
        let told = "nothing deleted: 41 of 146 names would be removed (limit 36); \
                    to delete anyway, use --max-delete 41 or --force-delete\n";
        assert!(run.stderr.contains(told), "{way:?} {run:#?}");
        assert_eq!(extras(&world), 40, "{way:?}");
        for n in 0..20 {
            fs::remove_file(world.path(format!("dst/extra 0/{n}"))).unwrap();
        }
        world.ok(&delete(way, QUARTER));
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_quarter_of_a_large_tree_goes_though_it_is_more_than_a_thousand_names() {
    let world = world(0);
    (0..5000).for_each(|n| world.write(format!("src/many/{n}"), ""));
    world.ok(&delete(Way::Local, ""));
    (0..1200).for_each(|n| fs::remove_file(world.path(format!("src/many/{n}"))).unwrap());
    world.ok(&delete(Way::Push, ""));
    world.assert_same("src", "dst");
}

/// `src` as `dst` is, but that a directory of 30 files has another name, and one of them other content.
fn renamed() -> World {
    let world = world(0);
    // Shorter than what is looked for under other names, and longer.
    for (n, len) in [0, 10, 20_000].into_iter().cycle().enumerate().take(30) {
        world.write(format!("src/album/sub/{n}"), vec![n as u8; len + n]);
        world.set_time(format!("src/album/sub/{n}"), 1_000_000 + n as i64);
    }
    world.ok(&delete(Way::Local, ""));
    fs::rename(world.path("src/album"), world.path("src/photos")).expect("it is there");
    // Of the same length, but not of the same time.
    world.write("src/photos/sub/7", [8; 17]);
    world
}

#[test]
fn a_file_that_moved_is_no_loss_to_the_guard() {
    for way in WAYS {
        let world = renamed();
        // Two directories go besides, and the file.
        let told = ": 3 of 39 names would be removed besides 29 that moved (limit 1); \
                    to delete anyway, use --max-delete 32 or --force-delete\n";
        let nothing = "a run without -n would delete nothing";
        for (n, nothing, code) in [("-n", nothing, 0), ("", "nothing deleted", 25)] {
            let run = world.sync(&words(&delete(way, &format!("{n} --max-delete 5%"))));
            assert_eq!(run.code, Some(code), "{way:?} {run:#?}");
            assert!(run.stderr.contains(&format!("{nothing}{told}")), "{way:?} {run:#?}");
        }
        assert!(world.exists("dst/album/sub/29"), "{way:?}");
        let world = renamed();
        world.ok(&delete(way, "--max-delete 8%"));
        world.assert_same("src", "dst");
    }
}

/// As rsync does: which ones is nobody's promise.
#[test]
fn a_number_bounds_what_goes_and_the_code_says_that_more_would() {
    for way in WAYS {
        for (limit, dry_run) in [(0, ""), (10, ""), (10, "-n"), (33, "")] {
            let world = world(30);
            let words = format!("-i {dry_run} --max-delete={limit}");
            let run = world.sync(&self::words(&delete(way, &words)));
            let lines = run.stdout.lines().filter(|line| line.starts_with("*deleting")).count();
            assert_eq!(lines, limit, "{way:?} {run:#?}");
            let gone = 33
                - extras(&world)
                - (0..3).filter(|n| world.exists(format!("dst/extra {n}"))).count();
            assert_eq!(gone, if dry_run.is_empty() { limit } else { 0 }, "{way:?} {run:#?}");
            assert_eq!(run.code, Some(if limit < 33 { 25 } else { 0 }), "{way:?} {run:#?}");
            let would = if dry_run.is_empty() { "" } else { "without -n " };
            let stay = 33 - limit;
            let told = format!(
                "{would}deletions stop at --max-delete={limit}: {stay} of 33 names to be removed stay\n"
            );
            assert_eq!(run.stderr.contains(&told), limit < 33, "{way:?} {run:#?}");
        }
    }
}

/// `deltic sync` at a terminal, at the question.
fn asked(world: &World, words: &str) -> Terminal {
    let mut command = Command::new(DELTIC);
    command.args(["sync", "-e", SHELL, "--deltic-path", DELTIC]).args(words.split_whitespace());
    command.current_dir(world.path("")).env("HOME", world.path("")).env("NO_COLOR", "1");
    Terminal::start(&mut command)
}

#[test]
fn at_a_terminal_the_user_decides_what_looks_like_an_accident() {
    const EOF: &str = "\x04";
    for way in WAYS {
        for (typed, goes) in [("n\n", false), ("\n", false), (EOF, false), ("y\n", true)] {
            let world = world(30);
            world.write("src/new", "synced in any case");
            let mut terminal = asked(&world, &delete(way, QUARTER));
            assert!(terminal.shows("Remove these names? [y/N] "), "{way:?} {:?}", terminal.shown);
            assert_eq!((extras(&world), world.exists("dst/new")), (30, true), "{way:?}");
            terminal.types(typed);
            let (code, shown) = terminal.end();
            let told = "33 of 38 names at the destination would be removed:\r\n  extra 0\r\n  extra 1\r\n  extra 2\r\n  ...";
            assert!(shown.contains(told), "{way:?} {shown:?}");
            assert_eq!(
                shown.contains("nothing deleted: 33 of 38 names would be removed (limit 9)"),
                !goes,
                "{shown:?}"
            );
            assert_eq!(code, Some(if goes { 0 } else { 25 }), "{way:?} {typed:?} {shown:?}");
            assert_eq!(extras(&world), if goes { 0 } else { 30 }, "{way:?} {typed:?}");
            if goes {
                world.assert_same("src", "dst");
            }
        }
    }
}

/// Who asked in the background would be stopped by the terminal, and whose output is read elsewhere is not looked at.
#[test]
fn nobody_is_asked_in_the_background_or_with_output_elsewhere() {
    if !is_installed("setsid") {
        return skip("no setsid: nothing can be in the background of a terminal");
    }
    for script in [r#"set -m; "$@" & wait $!"#, r#""$@" >/dev/null"#] {
        let world = world(30);
        let mut command = Command::new("setsid");
        command.args(["-w", "-c", "sh", "-c", script, "sh", DELTIC, "sync"]);
        command.args(delete(Way::Local, QUARTER).split_whitespace());
        command.current_dir(world.path("")).env("HOME", world.path("")).env("NO_COLOR", "1");
        let (code, shown) = Terminal::start(&mut command).end();
        assert_eq!((code, shown.contains("[y/N]")), (Some(25), false), "{script} {shown:?}");
        assert_eq!(extras(&world), 30, "{script}");
    }
}

/// The user was told of so many names, and limits are of all that goes.
#[test]
fn what_came_in_since_names_were_counted_goes_within_the_limits_only() {
    for way in WAYS {
        let world = world(30);
        let mut terminal = asked(&world, &delete(way, QUARTER));
        assert!(terminal.shows("Remove these names? [y/N] "), "{way:?} {:?}", terminal.shown);
        for n in 0..1000 {
            world.write(format!("dst/extra 1/new {n:04}"), "");
        }
        terminal.types("y\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(25), "{way:?} {shown}");
        assert!(shown.contains("dst/extra 1: names were added after the count"), "{shown}");
        // One name went for the directory, which was counted.
        assert_eq!(extras(&world), 999, "{way:?} {shown}");
        assert!(!world.exists("dst/extra 1/8") && !world.exists("dst/extra 2"), "{way:?}");
    }
}

#[test]
fn nobody_is_asked_about_few_names_or_with_a_wish_said_aloud_or_in_a_dry_run() {
    for (extra, options, code) in [
        (1, "--max-delete 50%", 0),
        (30, "", 0),
        (30, "--force-delete", 0),
        (30, "--max-delete 5", 25),
    ]
    .into_iter()
    .chain([(30, "-n --max-delete 25%", 0), (30, "--max-delete 25% --force-delete", 0)])
    {
        let world = world(extra);
        let (ended, shown) = asked(&world, &delete(Way::Push, options)).end();
        assert_eq!((ended, shown.contains("[y/N]")), (Some(code), false), "{options} {shown}");
    }
}

#[test]
fn what_goes_counts_though_its_directory_stays() {
    for way in WAYS {
        let world = world(0);
        for name in ["x.keep", "goes", "sub/goes", "sub/too"] {
            world.write(format!("dst/old/{name}"), "");
        }
        let words = delete(way, "--stats -f P_*.keep");
        let words: Vec<_> = words.split(' ').map(|word| word.replace('_', " ")).collect();
        let run = world.sync(&words);
        assert_eq!(world.names("dst/old"), ["x.keep"], "{way:?}");
        assert_eq!(run.stat("Number of deleted files"), 4, "{way:?} {run:#?}");
    }
}

#[test]
fn an_empty_source_removes_nothing_whatever_number_is_named() {
    for way in WAYS {
        let world = world(2);
        fs::remove_dir_all(world.path("src")).unwrap();
        world.mkdir("src");
        world.fails(25, &delete(way, ""));
        assert_eq!((extras(&world), world.exists("dst/sub/c")), (2, true), "{way:?}");
        for more in ["--max-delete 100", "--max-delete 100%"] {
            let run = world.fails(25, &delete(way, more));
            let told = "nothing deleted: the source is empty, and 8 names would be removed; \
                        to delete anyway, use --force-delete\n";
            assert!(run.stderr.contains(told), "{way:?} {run:#?}");
            assert_eq!((extras(&world), world.exists("dst/sub/c")), (2, true), "{way:?}");
        }
        world.ok(&delete(way, "--force-delete"));
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_named_directory_that_is_empty_removes_nothing_either() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("src");
        world.write("dst/src/old", "kept while nothing is mounted at src");
        for option in ["", "--max-delete 100", "--max-delete 100%"] {
            let words = format!("-a --delete {option} {} {}", way.from("src"), way.to("dst/"));
            world.fails(25, &words);
            assert!(world.exists("dst/src/old"), "{way:?} {option}");
        }
        world.write("src/new", "it is mounted");
        world.ok(&format!("-a --delete {} {}", way.from("src"), way.to("dst/")));
        world.assert_same("src", "dst/src");
    }
}

#[test]
fn each_empty_source_keeps_what_stands_in_its_place_and_no_other_does() {
    type Names = &'static [&'static str];
    let cases: [(&str, Names, Names, Names); 5] = [
        ("-aR", &["mnt/photos/"], &["mnt/photos/old"], &[]),
        ("-aR", &["mnt/photos", "home"], &["mnt/photos/old"], &["home/old"]),
        ("-a", &["home", "mnt/photos"], &["photos/old", "photos/sub/old"], &["home/old"]),
        ("-a", &["mnt/photos/", "home/"], &["old", "sub/old"], &[]),
        ("-ar --files-from list", &["./"], &["mnt/photos/old"], &["home/old", "home/sub/old"]),
    ];
    for (way, (options, sources, kept, gone)) in
        WAYS.into_iter().flat_map(|way| cases.into_iter().map(move |case| (way, case)))
    {
        let world = World::new();
        world.mkdir("mnt/photos");
        world.write("home/sub/new", "new");
        world.write("list", "mnt/photos\nhome\n");
        let dst = |name: &&str| format!("dst/{name}");
        kept.iter().chain(gone).map(dst).for_each(|name| world.write(name, "old"));
        let sources: Vec<_> = sources.iter().map(|source| way.from(source)).collect();
        let words = |more| {
            let (sources, to) = (sources.join(" "), way.to("dst/"));
            format!("{options} --no-fsync --delete {more} {sources} {to}")
        };
        let told = world.sync(&self::words(&words("-n")));
        assert!(told.stderr.contains("a run without -n would delete nothing"), "{way:?} {told:#?}");
        assert_eq!(told.code, Some(0), "{way:?} {told:#?}");
        world.fails(25, &words("-n --max-delete 100"));
        let counted = |run: &Run| run.stat("Number of deleted files");
        let foretold = counted(&world.sync(&self::words(&words("-n --stats"))));
        for more in ["--stats", "--max-delete 100", "--max-delete 100%"] {
            let run = world.fails(25, &words(more));
            if more == "--stats" {
                assert_eq!(counted(&run), foretold, "{way:?} {sources:?}");
            }
            let is_told = run.stderr.contains("is empty, and ")
                && run.stderr.contains(" would be removed; to delete anyway, use --force-delete");
            assert!(is_told, "{way:?} {run:#?}");
            assert!(kept.iter().all(|name| world.exists(dst(name))), "{way:?} {sources:?} {more}");
            assert!(!gone.iter().any(|name| world.exists(dst(name))), "{way:?} {sources:?} {more}");
        }
        world.ok(&words("--force-delete"));
        assert!(!kept.iter().any(|name| world.exists(dst(name))), "{way:?} {sources:?}");
        // With nothing to lose there is nothing to tell; nor is a directory below a source one.
        world.write("mnt/photos/sub/new", "new");
        fs::remove_dir_all(world.path("home/sub")).unwrap();
        world.mkdir("home/sub");
        assert_eq!(world.ok(&words("")).stderr, "", "{way:?} {sources:?}");
    }
}

/// File systems mounted at these names of `dst`, gone with this value.
struct Mounts<'a>(&'a World, &'a [&'a str]);

impl<'a> Mounts<'a> {
    fn new(world: &'a World, names: &'a [&'a str]) -> Option<Self> {
        let mounts = Self(world, names);
        for name in names {
            world.mkdir(name);
            let mounted =
                is_root() && mounts.call("mount", &["-t", "tmpfs", "tmpfs", name]) == Some(0);
            if !mounted {
                skip("nothing can be mounted here");
                return None;
            }
        }
        Some(mounts)
    }

    fn call(&self, program: &str, words: &[&str]) -> Option<i32> {
        Run::of(&mut self.0.command(program, words)).code
    }
}

impl Drop for Mounts<'_> {
    fn drop(&mut self) {
        for name in self.1 {
            self.call("umount", &["-l", name]);
        }
    }
}

#[test]
fn what_is_mounted_at_the_destination_stays_with_x_and_is_no_error() {
    let mounted = ["dst/mnt", "dst/full/mnt", "dst/both"];
    for way in WAYS {
        let world = World::new();
        let Some(_mounts) = Mounts::new(&world, &mounted) else { return };
        mounted.iter().for_each(|name| world.write(format!("{name}/in/file"), "stays"));
        world.write("dst/both/file", "stays");
        world.write("dst/full/gone", "goes");
        world.write("dst/gone", "goes");
        world.write("src/both/new", "new");
        let dry = world.sync(&words(&delete(way, "-nxi")));
        let run = world.sync(&words(&delete(way, "-xi")));
        assert_eq!((dry.code, run.code), (Some(0), Some(0)), "{way:?} {dry:#?} {run:#?}");
        assert!(!world.exists("dst/gone") && !world.exists("dst/full/gone"), "{way:?}");
        for name in mounted {
            assert!(world.exists(format!("{name}/in/file")), "{way:?} {name}");
            assert!(!run.stderr.contains("busy"), "{way:?} {run:#?}");
        }
        assert!(world.exists("dst/both/file") && world.exists("dst/both/new"), "{way:?}");
        assert_eq!(dry.lines(), run.lines(), "{way:?}");
        rsync(&world, &["-ax", "--delete", "src/", "dst/"]);
        assert!(mounted.iter().all(|name| world.exists(format!("{name}/in/file"))), "{way:?}");
    }
}

fn words(all: &str) -> Vec<&str> {
    all.split_whitespace().collect()
}

#[test]
fn what_rules_protect_that_come_with_the_run_does_not_count_for_the_limit() {
    for way in WAYS {
        for (option, code) in [("", 0), ("--max-delete=3", 0), ("--max-delete=2", 25)] {
            let world = World::new();
            world.write("src/d/new", "new");
            world.write("src/d/.rsync-filter", "P *.log\n");
            for n in 0..40 {
                world.write(format!("dst/d/{n}.log"), "stays");
                world.write(format!("dst/d/old/{n}.log"), "stays");
            }
            for name in ["one", "two", "old/three", "gone/four.log"] {
                world.write(format!("dst/d/{name}"), "goes, if it may");
            }
            let run = world.sync(&words(&delete(way, &format!("-F {option}"))));
            assert_eq!(run.code, Some(code), "{way:?} {option} {run:#?}");
            let stay =
                ["one", "two", "old/three"].map(|name| world.exists(format!("dst/d/{name}")));
            let stay = stay.into_iter().filter(|stays| *stays).count();
            assert_eq!(stay, usize::from(code != 0), "{way:?} {option}");
            for name in ["39.log", "old/39.log", "gone/four.log"] {
                assert!(world.exists(format!("dst/d/{name}")), "{way:?} {option} {name}");
            }
            if code != 0 {
                let told = "--max-delete=2: 1 of 3 names to be removed stay";
                assert!(run.stderr.contains(told), "{way:?} {run:#?}");
            }
        }
    }
}

#[test]
fn a_dry_run_lists_what_the_guard_would_hold_back_and_says_so_once() {
    for way in WAYS {
        let world = world(30);
        let run = world.sync(&words(&delete(way, &format!("-n -i {QUARTER}"))));
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        let lines = run.stdout.lines().filter(|line| line.starts_with("*deleting")).count();
        assert_eq!(lines, 33, "{way:?} {run:#?}");
        let said =
            run.stderr.matches("a run without -n would delete nothing: 33 of 37 names").count();
        assert_eq!(said, 1, "{way:?} {run:#?}");
        assert_eq!(extras(&world), 30, "{way:?}");
    }
}

#[test]
fn a_number_below_zero_deletes_as_little_as_zero() {
    for option in ["--max-delete=-1", "--max-delete -7", "--max-delete=5 --max-delete=-1"] {
        let world = world(1);
        world.fails(25, &delete(Way::Local, option));
        assert_eq!(extras(&world), 1, "{option}");
    }
}

/// Runs `deltic sync` with these words as an ordinary user, whose the destination is.
fn as_somebody(world: &World, words: &str) -> Run {
    let mut command = Command::new(DELTIC);
    command.arg("sync").args(words.split(' ').filter(|word| !word.is_empty()));
    command.args(["-e", SHELL, "--deltic-path", DELTIC]);
    if is_root() {
        world.chmod("", 0o755);
        command.uid(SOMEBODY).gid(SOMEBODY);
        for name in ["dst", "dst/sub", "dst/sub/c", "dst/a", "dst/b", "dst/extra 0"] {
            own(&world.path(name), SOMEBODY, SOMEBODY);
        }
    }
    Run::of(&mut world.settle(command))
}

#[test]
fn names_go_from_a_directory_that_its_owner_may_not_enter_yet() {
    let closed = [("dst/sub", 0), ("dst", 0o300), ("dst", 0o200), ("dst", 0o100), ("dst", 0)];
    for (way, (dir, mode)) in WAYS.into_iter().flat_map(|way| closed.map(|closed| (way, closed))) {
        let world = world(1);
        world.write("dst/sub/extra", "");
        world.chmod(dir, mode);
        let run = as_somebody(&world, &delete(way, ""));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {dir} {mode:o} {run:#?}");
        assert_eq!(world.names("dst/sub"), ["c"], "{way:?} {dir} {mode:o}");
        assert_eq!(extras(&world), 0, "{way:?} {dir} {mode:o}");
    }
}

#[test]
fn a_dry_run_ends_as_the_run_does_where_a_full_directory_is_in_the_way() {
    for (options, code) in [
        ("", 23),
        ("--delete --max-delete=2", 23),
        ("--delete --max-delete=20", 0),
        ("--force", 0),
        ("-c --delete --copy-dest=../alt", 0),
        ("--delete --copy-dest=../alt", 0),
        ("-c --delete --link-dest=../alt", 0),
        ("--link-dest=../alt", 23),
        ("--compare-dest=../alt", 23),
    ] {
        for way in WAYS {
            let world = World::new();
            world.write("src/x", "a file");
            world.write("alt/x", "a file");
            world.write("src/y", "another");
            world.link("nowhere", "src/z");
            ["src/x", "alt/x"].iter().for_each(|name| world.set_time(name, 1_000_000));
            for name in ["x/1", "x/2", "x/sub/3", "y/1", "z/1"] {
                world.write(format!("dst/{name}"), "");
            }
            let words = format!("-ai {options} {} {}", way.from("src/"), way.to("dst/"));
            let run = |n: &str| {
                world.sync(
                    &words
                        .split(' ')
                        .chain([n])
                        .filter(|word| !word.is_empty())
                        .collect::<Vec<_>>(),
                )
            };
            let before = picture(&world.path("dst"));
            let dry = run("-n");
            assert_eq!(picture(&world.path("dst")), before, "{options} {way:?} {dry:#?}");
            let real = run("");
            assert_eq!(
                (dry.code, real.code),
                (Some(code), Some(code)),
                "{options} {way:?} {dry:#?} {real:#?}"
            );
            let gone = |run: &Run| {
                run.stdout
                    .lines()
                    .filter(|line| line.starts_with('*'))
                    .map(str::to_owned)
                    .collect::<BTreeSet<_>>()
            };
            let (dry, real) = (gone(&dry), gone(&real));
            // Within a limit, which of them goes is nobody's to say.
            let is_same =
                if options.contains("--max") { dry.len() == real.len() } else { dry == real };
            assert!(is_same, "{options} {way:?}: {dry:?}, {real:?}");
        }
    }
}

/// What is in it is not known. rsync empties it.
#[test]
fn nothing_goes_from_a_directory_whose_source_may_not_be_listed_even_with_ignore_errors() {
    for way in WAYS {
        let world = world(1);
        world.write("dst/sub/extra", "");
        world.chmod("src/sub", 0);
        let run = as_somebody(&world, &delete(way, "--ignore-errors"));
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        world.chmod("dst/sub", 0o700);
        assert!(world.exists("dst/sub/c") && world.exists("dst/sub/extra"), "{way:?}");
        assert!(!world.exists("dst/extra 0"), "{way:?}");
    }
}

#[test]
fn a_directory_that_may_not_be_listed_gives_way_if_it_is_empty() {
    for (way, options) in WAYS.into_iter().zip(["--force", "--force", "--delete"]) {
        let world = World::new();
        for name in ["empty", "full"] {
            world.write(format!("src/{name}"), "a file");
            world.mkdir(&format!("dst/{name}"));
            world.chmod(&format!("dst/{name}"), 0o200);
        }
        world.link("nowhere", "src/link");
        world.mkdir("dst/link");
        world.write("dst/full/file", "x");
        world.chmod("dst/link", 0);
        let mut command = Command::new(DELTIC);
        command.args(["sync", "-rlt", "--no-fsync", options, &way.from("src/"), &way.to("dst/")]);
        command.args(["-e", SHELL, "--deltic-path", DELTIC]);
        if is_root() {
            world.chmod("", 0o755);
            command.uid(SOMEBODY).gid(SOMEBODY);
            for name in ["dst", "dst/empty", "dst/full", "dst/link"] {
                own(&world.path(name), SOMEBODY, SOMEBODY);
            }
        }
        let run = Run::of(&mut world.settle(command));
        let host = if way.to("").is_empty() { "" } else { "h: " };
        let said =
            format!("deltic: {host}{}\n", world.told("remove", "dst/full", "permission denied"));
        assert!(run.code == Some(23) && run.stderr.starts_with(&said), "{way:?} {run:#?}");
        assert_eq!(world.read("dst/empty"), b"a file", "{way:?}");
        assert!(world.path("dst/link").is_symlink(), "{way:?}");
        world.chmod("dst/full", 0o700);
        assert!(world.exists("dst/full/file"), "{way:?}");
    }
}

#[test]
fn nothing_is_removed_where_a_source_is_missing_or_a_file_fails() {
    for way in WAYS {
        let world = world(3);
        let missing = if way == Way::Pull { ":missing" } else { "missing" };
        let words = delete(way, "").replace(" src/", &format!(" src/ {missing}"));
        let words = words.replace("h:src/", &format!("h:src/ {missing}"));
        let run = world.fails(23, &words);
        assert!(
            run.stderr.contains("missing") && run.stderr.contains("nothing deleted"),
            "{run:#?}"
        );
        assert_eq!(extras(&world), 3, "{way:?}");
    }
}

#[test]
fn nothing_is_removed_that_is_excluded_or_below_a_source_that_was_not_asked_for() {
    for way in WAYS {
        let world = world(3);
        world.write("dst/cache/precious", "x");
        world.write("dst/sub/x.keep", "x");
        world.write("dst/gone", "x");
        world.ok(&delete(way, "--exclude cache/ --exclude *.keep"));
        for (name, stays) in [("cache/precious", true), ("sub/x.keep", true), ("gone", false)] {
            assert_eq!(world.exists(format!("dst/{name}")), stays, "{way:?} {name}");
        }
        // Of a source that is a directory of a name only that directory is compared.
        world.write("dst/src/old", "x");
        let words = delete(way, "").replace("src/", "src");
        world.ok(&words);
        assert!(!world.exists("dst/src/old") && world.exists("dst/cache/precious"), "{way:?}");
        // A list of files is no list of a directory.
        let words = delete(way, "").replace("src/", "src/a");
        world.ok(&words);
        assert!(world.exists("dst/sub/c"), "{way:?}");
    }
}

#[test]
fn a_directory_with_an_excluded_name_in_it_stays_with_that_name() {
    for way in WAYS {
        let world = world(0);
        world.write("dst/old/x.keep", "x");
        world.write("dst/old/goes", "x");
        let run =
            world.sync(&delete(way, "--exclude *.keep").split_whitespace().collect::<Vec<_>>());
        assert!(
            world.exists("dst/old/x.keep") && !world.exists("dst/old/goes"),
            "{way:?} {run:#?}"
        );
        assert!(matches!(run.code, Some(0 | 23)), "{way:?} {run:#?}");
    }
}

#[test]
fn what_a_link_points_to_is_never_removed() {
    for way in WAYS {
        let world = world(0);
        world.write("outside/canary", "alive");
        world.link("../outside", "dst/link");
        world.link("../outside", "dst/sub/link");
        world.ok(&delete(way, ""));
        world.assert_same("src", "dst");
        assert_eq!(world.read("outside/canary"), b"alive", "{way:?}");
    }
}

#[test]
fn deletion_without_recursion_is_refused() {
    let world = world(3);
    for words in ["-t --delete src/ dst/", "-a --no-r --delete src/ dst/"] {
        let run = world.fails(1, words);
        assert!(run.stderr.contains("--delete removes nothing without -r"), "{run:#?}");
        assert_eq!((extras(&world), world.exists("dst/sub/c")), (3, true));
    }
}

/// As in rsync it stays, with the backups of what was in it. The message says so.
#[test]
fn a_directory_that_holds_backups_gives_way_to_nothing() {
    for way in WAYS {
        for makes_link in [false, true] {
            let world = World::new();
            if makes_link {
                world.link("there", "src/f");
            } else {
                world.write("src/f", "new");
            }
            world.write("src/g", "new");
            world.write("dst/f/sub/in", "old");
            let words = format!(
                "-a -b --delete --force-delete --stats {} {}",
                way.from("src/"),
                way.to("dst/")
            );
            let run = world.fails(23, &words);
            assert!(
                run.stderr.contains(&world.told("replace", "dst/f", "the directory holds backups")),
                "{way:?} {run:#?}"
            );
            assert_eq!(run.stat("Number of deleted files"), 1, "{way:?} {run:#?}");
            assert_eq!(world.read("dst/f/sub/in~"), b"old", "{way:?}");
            assert!(!world.exists("dst/f/sub/in") && world.exists("dst/g"), "{way:?}");
        }
    }
}

/// A tree of names that the patterns below tell apart.
fn filter_tree() -> World {
    let world = World::new();
    for dir in ["", "build/", "doc/", "doc/build/", "src/", "src/build/deep/", "a/b/c/"] {
        for name in ["x.o", "x.c", "build.txt", "README", "[odd]", "a b", "core", "*"] {
            world.write(format!("src/{dir}{name}"), "");
        }
    }
    world.write("src/other/core/file", "");
    world
}

/// The lines about names. That the root is made is rsync's to say.
fn names(run: &Run) -> BTreeSet<String> {
    let told = |line: &&str| !line.ends_with(" ./") && !line.starts_with("created directory");
    run.stdout.lines().filter(told).map(String::from).collect()
}

const PATTERNS: [&str; 36] = [
    "*.o",
    "*.c",
    "x.?",
    "x.[co]",
    "x.[!o]",
    "x.[^o]",
    "build",
    "build/",
    "/build",
    "/build/",
    "doc/build",
    "/doc/build/",
    "**/build",
    "src/**",
    "src/*",
    "/src/***",
    "a/**/c",
    "a/*/c/",
    "**.txt",
    "*",
    "*/",
    "README",
    "read*",
    "core",
    "core/",
    r"\[odd\]",
    "[[]odd]",
    r"\*",
    "a b",
    "?",
    "**",
    "b/c/*.o",
    "/a/b/c/x.o",
    "c/",
    "**/c/**",
    "[[:upper:]]*",
];

#[test]
fn filters_take_and_leave_what_those_of_rsync_do() {
    let world = filter_tree();
    let rules = |seed: usize| {
        let mut state = seed as u64 + 1;
        let mut below = move |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let mut words = Vec::new();
        for _ in 0..=below(4) {
            let option = ["--exclude", "--include"][below(2)];
            words.push(format!("{option}={}", PATTERNS[below(PATTERNS.len())]));
        }
        words
    };
    let single = PATTERNS.iter().map(|pattern| vec![format!("--exclude={pattern}")]);
    let only = PATTERNS.iter().map(|pattern| {
        vec!["--include=*/".into(), format!("--include={pattern}"), "--exclude=*".into()]
    });
    let mut wrong = Vec::new();
    for (n, rules) in single.chain(only).chain((0..40).map(rules)).enumerate() {
        let from = if n % 4 == 3 { "src" } else { "src/" };
        let words: Vec<&str> =
            ["-rin"].into_iter().chain(rules.iter().map(String::as_str)).collect();
        let words = [&words[..], &[from, "new"]].concat();
        let Some(theirs) = rsync(&world, &words) else { return };
        let ours = world.sync(&words);
        assert_eq!(ours.code, Some(0), "{words:?} {ours:#?}");
        let (ours, theirs) = (names(&ours), names(&theirs));
        if ours != theirs {
            let differ: Vec<_> = ours.symmetric_difference(&theirs).take(5).cloned().collect();
            wrong.push((words.join(" "), differ));
        }
    }
    assert!(wrong.is_empty(), "{} of the lists: {wrong:#?}", wrong.len());
}
