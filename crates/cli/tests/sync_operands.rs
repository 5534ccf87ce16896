//! Meaning of operands: a directory or its contents, a name or a place, here or over there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::attrs::{SOMEBODY, node, own};
use crate::common::look::look;
use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, is_installed, is_root, rsync, skip};
use rustix::fs::FileType;

fn world() -> World {
    let world = World::new();
    world.write("src/a", "a");
    world.write("src/sub/b", "b");
    world.write("other/c", "c");
    world.write("one", "one file");
    world
}

/// Every name below `dst`.
fn names(world: &World) -> BTreeSet<String> {
    let picture = crate::common::tree::picture(&world.path("dst"));
    picture.into_keys().map(|path| path.display().to_string()).collect()
}

fn set(words: &str) -> BTreeSet<String> {
    std::iter::once("").chain(words.split_whitespace()).map(String::from).collect()
}

/// As rsync does without --write-devices.
#[test]
fn a_file_takes_the_place_of_a_pipe_or_device_of_its_name() {
    for way in WAYS {
        let world = world();
        world.mkdir("dst");
        node(&world.path("dst/pipe"), FileType::Fifo, (0, 0));
        if is_root() {
            node(&world.path("dst/null"), FileType::CharacterDevice, (1, 3));
        }
        for name in ["dst/pipe", "dst/null"] {
            world.ok(&format!("{} {}", way.from("one"), way.to(name)));
            assert!(fs::symlink_metadata(world.path(name)).unwrap().is_file(), "{way:?} {name}");
            assert_eq!(world.read(name), b"one file", "{way:?} {name}");
        }
    }
}

#[test]
fn only_another_machine_is_named() {
    for way in WAYS {
        let world = world();
        world.write("dst", "a file");
        let run = world.fails(3, &format!("-a {} {}", way.from("src/"), way.to("dst/x")));
        assert!(run.stderr.contains("destination "), "{way:?}: {run:#?}");
        let is_named = run.stderr.starts_with("deltic: h: ");
        assert_eq!(is_named, way == Way::Push, "{way:?}: {run:#?}");
    }
}

#[test]
fn a_slash_at_the_end_of_a_source_means_its_contents() {
    for way in WAYS {
        for (from, wanted) in [
            ("src/", "a sub sub/b"),
            ("src", "src src/a src/sub src/sub/b"),
            ("src/.", "a sub sub/b"),
            ("./src", "src src/a src/sub src/sub/b"),
            ("src/sub/..", "a sub sub/b"),
            ("src//", "a sub sub/b"),
        ] {
            let world = world();
            world.ok(&format!("-a {} {}", way.from(from), way.to("dst")));
            assert_eq!(names(&world), set(wanted), "{way:?} {from}");
        }
    }
}

#[test]
fn several_sources_arrive_side_by_side_and_of_two_with_one_name_the_first_wins() {
    for way in WAYS {
        let world = world();
        world.write("twice/a", "the second a");
        let more = if way == Way::Pull { ":other :one :twice/" } else { "other one twice/" };
        world.ok(&format!("-a {} {more} {}", way.from("src/"), way.to("dst/")));
        assert_eq!(names(&world), set("a sub sub/b other other/c one"), "{way:?}");
        assert_eq!(world.read("dst/a"), b"a");
    }
}

/// More names than are looked at in one go, some of them in both.
#[test]
fn of_many_names_in_several_sources_the_first_wins_but_a_directory_before_it() {
    let world = World::new();
    for n in 0..9000 {
        world.write(format!("one/{n:05}"), "of the first");
        world.write(format!("two/{:05}", n + 8000), "of the second");
    }
    fs::remove_file(world.path("two/08500")).unwrap();
    world.write("two/08500/in", "a directory");
    world.ok(&format!("-r --no-fsync one/ two/ {}", Way::Push.to("dst/")));
    assert_eq!(world.names("dst").len(), 17_000);
    for (name, holds) in [
        ("00000", "of the first"),
        ("08499", "of the first"),
        ("08500/in", "a directory"),
        ("08999", "of the first"),
        ("09000", "of the second"),
        ("16999", "of the second"),
    ] {
        assert_eq!(world.read(format!("dst/{name}")), holds.as_bytes(), "{name}");
    }
}

#[test]
fn one_file_takes_a_new_name_or_goes_into_a_directory() {
    for way in WAYS {
        let world = world();
        world.mkdir("dst");
        world.ok(&format!("-a {} {}", way.from("one"), way.to("dst/renamed")));
        world.ok(&format!("-a {} {}", way.from("one"), way.to("dst")));
        world.ok(&format!("-a {} {}", way.from("one"), way.to("dst/new/")));
        assert_eq!(names(&world), set("renamed one new new/one"), "{way:?}");
        world.write("one", "changed content");
        world.ok(&format!("-a {} {}", way.from("one"), way.to("dst/renamed")));
        assert_eq!(world.read("dst/renamed"), b"changed content");
    }
}

#[test]
fn one_link_takes_a_new_name_too() {
    let world = world();
    world.link("a", "src/link");
    world.mkdir("dst");
    for way in WAYS {
        world.ok(&format!("-a {} {}", way.from("src/link"), way.to("dst/renamed")));
        assert_eq!(fs::read_link(world.path("dst/renamed")).unwrap().to_str(), Some("a"));
        fs::remove_file(world.path("dst/renamed")).unwrap();
    }
}

/// What is made of `new`: a file (`f`), a link (`l`) or a directory (`d`), with what is in it.
fn made(world: &World) -> String {
    let Ok(meta) = world.path("new").symlink_metadata() else { return String::new() };
    let mut names = if meta.is_dir() { world.names("new") } else { Vec::new() };
    names.sort_unstable();
    let kind = if meta.is_symlink() { "l" } else { "f" };
    [if meta.is_dir() { "d" } else { kind }]
        .into_iter()
        .map(String::from)
        .chain(names)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn what_comes_alone_takes_a_new_name_and_a_slash_makes_a_directory_whatever_comes() {
    let cases = [
        ("-r --files-from=one src/ new", 0, "f"),
        ("-r --files-from=link src/ new", 0, ""),
        ("-a --files-from=link src/ new", 0, "l"),
        ("-r --files-from=slash src/ new", 0, "f"),
        ("-r --files-from=dotted src/ new", 0, "d a"),
        ("--no-d --files-from=dotted src/ new", 0, "f"),
        ("-r --no-implied-dirs --files-from=dotted src/ new", 0, "d a"),
        ("-r --files-from=missing src/ new", 23, "f"),
        ("-r --files-from=twice src/ new", 0, "d a"),
        ("-r --files-from=two src/ new", 0, "d a c"),
        ("-r --files-from=deep src/ new", 0, "d sub"),
        ("-r --no-R --files-from=deep src/ new", 0, "f"),
        ("-a --files-from=dir src/ new", 0, "d"),
        ("-r --files-from=dir src/ new", 0, "d sub"),
        ("-r --files-from=one src/ new/", 0, "d a"),
        ("-r --files-from=empty src/ new", 0, ""),
        ("-r --files-from=empty src/ new/", 0, "d"),
        ("-r --exclude=a --files-from=one src/ new", 0, ""),
        ("-r --exclude=a src/a new", 0, ""),
        ("-r --exclude=a src/a new/", 0, "d"),
        ("-r --ignore-missing-args src/none new", 0, ""),
        ("-r --ignore-missing-args src/none new/", 0, "d"),
        ("-r --ignore-missing-args src/none src/nor new/", 0, "d"),
        ("-r --delete-missing-args src/none new/", 0, "d"),
        ("-rn --ignore-missing-args src/none new/", 0, ""),
        ("-r src/none new/", 23, "d"),
        ("-d src new", 0, "d"),
        ("-pt -d src new", 0, "d"),
        ("-dn src new", 0, ""),
        ("-d src/ new", 0, "d a c sub"),
        ("-d src new/", 0, "d src"),
        ("-d src src/a new", 0, "d a src"),
        ("-r src new", 0, "d src"),
        ("-v src new", 0, ""),
    ];
    let world = || {
        let world = world();
        world.write("src/c", "c");
        world.link("nowhere", "src/link");
        for (list, names) in [
            ("one", "a"),
            ("link", "link"),
            ("slash", "a/"),
            ("dotted", "./a"),
            ("missing", "none\na"),
            ("twice", "a\na"),
            ("two", "a\nc"),
            ("deep", "sub/b"),
            ("dir", "sub"),
            ("empty", ""),
        ] {
            world.write(list, names);
        }
        world
    };
    for (words, code, wanted) in cases {
        let words: Vec<_> = words.split(' ').collect();
        let is_source = |word: &str| word.starts_with("src");
        for way in WAYS {
            let world = world();
            let place = |word: &&str| match *word {
                word if is_source(word) => way.from(word),
                word if word.starts_with("new") => way.to(word),
                word => word.into(),
            };
            let run = world.sync(&words.iter().map(place).collect::<Vec<_>>());
            assert_eq!(
                (run.code, &*made(&world)),
                (Some(code), wanted),
                "{way:?} {words:?} {run:#?}"
            );
        }
        if is_installed("rsync") {
            let world = world();
            let run = Run::of(&mut world.command("rsync", &words));
            assert_eq!((run.code, &*made(&world)), (Some(code), wanted), "rsync {words:?}");
        }
    }
}

#[test]
fn a_directory_does_not_take_the_place_of_a_file_that_it_is_to_be_called_after() {
    for way in WAYS {
        let world = world();
        world.fails(23, &format!("-d {} {}", way.from("src"), way.to("one")));
        assert_eq!(world.read("one"), b"one file", "{way:?}");
        // A list of a single file replaces it.
        world.write("list", "a");
        world.ok(&format!("-r --files-from=list {} {}", way.from("src"), way.to("one")));
        assert_eq!(world.read("one"), b"a", "{way:?}");
    }
}

#[test]
fn here_is_a_place_on_either_side() {
    let world = world();
    world.ok("-a src/a .");
    assert_eq!(world.read("a"), b"a");
    world.ok("-a h:src/sub/ .");
    assert_eq!(world.read("b"), b"b");
    world.ok("-a src/sub h:.");
    assert_eq!(world.read("sub/b"), b"b");
    world.ok("-a src/sub h:~/home");
    assert_eq!(world.read("home/sub/b"), b"b");
}

/// The shell has seen the words of this machine: a `~` that it left is a name.
#[test]
fn a_tilde_is_a_home_directory_on_the_other_machine_alone() {
    for to in ["~", "~/in"] {
        let world = world();
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("in")).unwrap();
        fs::write(home.path().join("in/keep"), "not ours").unwrap();
        world.mkdir("~/in");
        world.write(format!("{to}/extra"), "goes");
        let words = ["sync", "-a", "--delete", "--no-cache", "src/", to];
        let run = Run::of(world.command(DELTIC, words).env("HOME", home.path()));
        assert_eq!(run.code, Some(0), "{run:#?}");
        world.assert_same("src", to);
        assert_eq!(fs::read(home.path().join("in/keep")).unwrap(), b"not ours");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
    // From there, with the path that it stands for.
    let world = world();
    world.ok("-aR h:~/src/a dst");
    assert!(world.path("dst").join(world.path("src/a").strip_prefix("/").unwrap()).exists());
    world.ok("-aR h:~/./src/a dot");
    assert_eq!(world.read("dot/src/a"), b"a");
}

/// Who has the name `~user` of a user has his home directory; of nobody, a name.
#[test]
fn a_users_home_directory_is_found_on_the_other_machine() {
    if !is_root() {
        return skip("not root: the list of users is not ours");
    }
    const CALL: &str = r#"
    mount --bind passwd /etc/passwd && exec "$@"
    "#;
    let world = world();
    world.write("homes/ann/old", "old");
    world.write("~nobody-here", "a name");
    let home = world.path("homes/ann").display().to_string();
    world.write("passwd", format!("root:x:0:0::/root:/bin/sh\nann:x:77:77::{home}:/bin/sh\n"));
    let call = |words: &[&str]| {
        let all =
            ["-m", "sh", "-c", CALL, "sh", DELTIC, "sync", "-e", SHELL, "--deltic-path", DELTIC];
        let run = Run::of(&mut world.command("unshare", all.iter().chain(words)));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words:?} {run:#?}");
    };
    call(&["-a", "src", "h:~ann"]);
    call(&["-a", "one", "h:~ann/"]);
    assert!(world.exists("homes/ann/src/a") && world.exists("homes/ann/one"));
    assert!(!world.exists("~ann"));
    call(&["-a", "h:~ann", "dst"]);
    assert_eq!(world.read("dst/ann/old"), b"old");
    call(&["-a", "h:~ann/old", "h:~nobody-here", "dst"]);
    assert_eq!(
        (world.read("dst/old"), world.read("dst/~nobody-here")),
        (b"old".into(), b"a name".into())
    );
    call(&["-a", "h:~nobody-here", "new"]);
    assert_eq!(world.read("new"), b"a name");
    call(&["-aR", "h:~ann/old", "rel"]);
    assert!(world.path("rel").join(home.trim_start_matches('/')).join("old").exists());
}

/// A destination that is not there yet, in and around a source: from where the command runs.
#[test]
fn a_new_relative_destination_may_lie_in_its_source() {
    let cases = [
        ("-a --exclude=/dist ./ dist", "src", "src/dist/a src/dist/sub/b"),
        ("-a . dist/", "src", "src/dist/a src/dist/sub/b"),
        ("-aR . dist", "src", "src/dist/a src/dist/sub/b"),
        ("-a sub/ . dist", "src", "src/dist/a src/dist/b src/dist/sub/b"),
        ("-a ../ deep", "src/sub", "src/sub/deep/a src/sub/deep/sub/b"),
        ("-a --mkpath ../../src x/y", "src/sub", "src/sub/x/y/src/a src/sub/x/y/src/sub/b"),
        ("-a --mkpath . no/../x/y", "src", "src/x/y/a src/x/y/sub/b"),
        ("-a --mkpath . sub/../../src/x", "src", "src/x/a src/x/sub/b"),
    ];
    for (words, here, wanted) in cases {
        let world = world();
        let words = words.split(' ').chain(["--no-fsync"]);
        let mut command = world.command(DELTIC, std::iter::once("sync").chain(words.clone()));
        let run = Run::of(command.current_dir(world.path(here)));
        let words = words.collect::<Vec<_>>();
        assert_eq!(run.code, Some(0), "{words:?} {run:#?}");
        for wanted in wanted.split(' ') {
            assert!(world.exists(wanted), "{words:?} {wanted} {run:#?}");
        }
        assert!(run.stderr.lines().all(|line| line.contains("it is the destination")), "{run:#?}");
    }
    let world = world();
    let words = ["sync", "-a", "--mkpath", ".", "no/.."];
    let run = Run::of(world.command(DELTIC, words).current_dir(world.path("src")));
    assert!(run.code == Some(1) && run.stderr.contains("is the source"), "{run:#?}");
    let run =
        Run::of(world.command(DELTIC, ["watch", "-a", ".", "dist"]).current_dir(world.path("src")));
    assert!(run.code == Some(1) && run.stderr.contains("lies inside the source"), "{run:#?}");
}

#[test]
fn a_source_that_is_not_there_fails_whatever_the_destination_is() {
    for way in WAYS {
        let world = World::new();
        world.write("file", "stays");
        world.mkdir("dir");
        for to in ["file", "new", "dir"] {
            let run = world.fails(23, &format!("-a {} {}", way.from("none"), way.to(to)));
            assert!(run.stderr.contains("none: no such file or directory"), "{way:?} {run:#?}");
        }
        assert_eq!(world.read("file"), b"stays");
        assert!(!world.exists("new"));
        // What is to go at the destination goes under its own name, not under another one.
        world.write("none-there", "stays");
        world
            .fails(3, &format!("-a --delete-missing-args {} {}", way.from("none"), way.to("file")));
    }
}

#[test]
fn where_nothing_comes_no_directory_is_made() {
    for way in WAYS {
        let world = world();
        world.write("list", "");
        world.mkdir("empty");
        for words in ["-a", "-a --mkpath", "-a --ignore-missing-args"] {
            let to = if words.contains("mkpath") { "made/in/vain" } else { "made" };
            world.sync(
                &[&words.split(' ').collect::<Vec<_>>()[..], &[&way.from("none"), &way.to(to)]]
                    .concat(),
            );
            assert!(!world.exists("made"), "{way:?} {words}");
        }
        world.ok(&format!("-a --files-from=list {} {}", way.from("src"), way.to("made")));
        assert!(!world.exists("made"), "{way:?}");
        // One that is empty is something.
        world.ok(&format!("-a {} {}", way.from("empty/"), way.to("made")));
        assert!(world.exists("made"), "{way:?}");
    }
}

/// Of several sources those that are there count: one file of them takes the destination's name.
#[test]
fn what_is_not_there_stands_in_the_way_of_nothing() {
    let cases = [
        ("none/ file to", 23, "new"),
        ("file none to", 23, "new"),
        ("none/x file to", 23, "new"),
        ("none/ to", 23, "old"),
        ("none/x to", 23, "old"),
        ("none file/ to", 23, "old"),
        ("--ignore-missing-args none to", 0, "old"),
        ("--ignore-missing-args file/x to", 23, "old"),
        ("--ignore-missing-args none file to", 0, "new"),
        ("--ignore-missing-args none/ to", 23, "old"),
        ("--ignore-missing-args none/ file to", 23, "new"),
        ("--ignore-missing-args none/x file to", 23, "new"),
        ("-R --ignore-missing-args none/ file to", 0, "new"),
        ("none none/ unmade", 23, "old"),
        ("--ignore-missing-args none unmade", 0, "old"),
        ("--ignore-missing-args none/ file dir", 23, "old"),
        ("--ignore-missing-args none file dir", 0, "old"),
        ("--delete-missing-args none/ file dir", 23, "old"),
    ];
    let made = || {
        let world = World::new();
        world.write("file", "new");
        world.write("to", "old");
        world.set_time("to", 1_000_000_000);
        world.mkdir("dir");
        world
    };
    let check = |world: &World, case: (&str, i32, &str), code| {
        let (words, wanted, content) = case;
        assert_eq!(code, Some(wanted), "{words}");
        assert_eq!(world.read("to"), content.as_bytes(), "{words}");
        assert!(!world.exists("unmade"), "{words}");
        assert_eq!(world.exists("dir/file"), words.ends_with("file dir"), "{words}");
    };
    for case in cases {
        let words: Vec<_> = case.0.split(' ').collect();
        let (to, from) = words.split_last().unwrap();
        let far = format!("h:{to}");
        for to in [*to, &*far] {
            let world = made();
            let run = world.sync(&[&["-a"], from, &[to]].concat());
            check(&world, case, run.code);
        }
        if is_installed("rsync") {
            let world = made();
            let run =
                crate::common::Run::of(&mut world.command("rsync", [&["-a"], &words[..]].concat()));
            check(&world, case, run.code);
        }
    }
    // What was asked for by its name is known to this end as well.
    let world = made();
    world.fails(23, "-a h:file h:none to");
    assert_eq!(world.read("to"), b"new");
}

#[test]
fn a_missing_directory_is_made_but_only_one() {
    for way in WAYS {
        let world = world();
        let run = world.fails(11, &format!("-a {} {}", way.from("src/"), way.to("no/such")));
        assert!(run.stderr.contains("no such directory"), "{way:?}: {}", run.stderr);
        assert!(!world.exists("no"), "{way:?}");
        let run = world.fails(3, &format!("-a {} {}", way.from("one"), way.to("no/such")));
        assert!(run.stderr.contains("no such directory") && !world.exists("no"), "{way:?}");
    }
}

#[test]
fn a_file_is_no_place_for_a_tree() {
    for way in WAYS {
        let world = world();
        let run = world.fails(3, &format!("-a {} {}", way.from("src/"), way.to("one")));
        assert!(run.stderr.contains("one: not a directory"), "{way:?}: {}", run.stderr);
        assert_eq!(world.read("one"), b"one file");
    }
}

#[test]
fn a_destination_may_be_reached_through_a_link() {
    for way in WAYS {
        let world = world();
        world.mkdir("dst");
        world.link("dst", "link");
        for to in ["link", "link/"] {
            world.ok(&format!("-a {} {}", way.from("src/"), way.to(to)));
            world.assert_same("src", "dst");
            assert!(world.path("link").is_symlink(), "{way:?} {to}");
            fs::remove_dir_all(world.path("dst")).unwrap();
            world.mkdir("dst");
        }
    }
}

#[test]
fn a_source_link_is_a_link_and_with_a_slash_what_it_points_to() {
    let world = world();
    world.link("src", "link");
    world.mkdir("dst");
    world.ok("-a link dst/");
    assert!(world.path("dst/link").is_symlink());
    world.ok("-a link/ contents");
    world.assert_same("src", "contents");
}

#[test]
fn a_destination_inside_its_source_is_left_out_and_the_source_itself_refused() {
    for (to, at) in [
        ("src/new", "src/new"),
        ("src/backup", "src/backup"),
        ("src/backup/", "src/backup"),
        ("src/in/it/", "src/in/it"),
        ("other/back/new", "src/new"),
    ] {
        for delete in ["", "--delete"] {
            let world = world();
            world.mkdir("src/backup");
            world.mkdir("src/in/it");
            world.write("src/in/file", "beside it");
            world.link("../src", "other/back");
            let before = world.names("src");
            for _ in 0..2 {
                let run = world
                    .sync(&format!("-a {delete} src/ {to}").split_whitespace().collect::<Vec<_>>());
                assert_eq!(run.code, Some(0), "{to} {run:#?}");
                let copied: Vec<_> =
                    before.iter().filter(|name| format!("src/{name}") != at).cloned().collect();
                assert_eq!(world.names(at), copied, "{to} {run:#?}");
                assert_eq!(world.read(format!("{at}/in/file")), b"beside it");
                assert!(!world.exists("src/in/it/in/it"), "{to} {run:#?}");
                assert!(run.stdout.matches("it is the destination").count() <= 1, "{to} {run:#?}");
            }
            let run = world.sync(&["-a", "src/", to]);
            assert!(run.stdout.contains("it is the destination"), "{to} {run:#?}");
            // Not met, not told of.
            let exclude = format!("--exclude=/{}", at.strip_prefix("src/").unwrap());
            world.ok(&format!("-a {exclude} src/ {to}"));
            world.assert_clean(at);
        }
    }
    let world = world();
    for from in ["src", "src/"] {
        let run = world.fails(1, &format!("-a {from} src"));
        assert!(run.stderr.contains("is the source"), "{from}: {}", run.stderr);
        assert!(!world.exists("src/src"));
    }
    // Beside it, or above it, is no problem.
    world.ok("-a src srcnew");
}

#[test]
fn a_name_with_a_colon_after_a_slash_is_local() {
    let world = world();
    world.ok("-a ./one ./a:b");
    assert_eq!(world.read("a:b"), b"one file");
}

#[test]
fn rsync_puts_things_in_the_same_places() {
    if !is_installed("rsync") {
        return skip("rsync is not installed");
    }
    for words in [
        "src dst",
        "src/ dst",
        "src dst/",
        "src/ dst/",
        "src/sub src/a dst",
        "src other dst/",
        "src/ other/ dst",
        "one dst",
        "one dst/",
        "one other dst",
        "src/sub/. dst",
        "src/a src/sub/ dst",
    ] {
        let (ours, theirs) = (world(), world());
        for world in [&ours, &theirs] {
            for name in ["src", "src/sub", "src/a", "src/sub/b", "other", "other/c", "one"] {
                world.set_time(name, 1_000_000_000);
            }
        }
        ours.ok(&format!("-a {words}"));
        let all: Vec<_> = ["-a"].into_iter().chain(words.split(' ')).collect();
        rsync(&theirs, &all);
        if ours.path("dst").is_file() {
            assert!(theirs.path("dst").is_file(), "{words}");
        } else {
            assert_eq!(names(&ours), names(&theirs), "{words}");
        }
    }
}

#[test]
fn directories_of_one_name_are_one_directory_whatever_sources_they_are_of() {
    for way in WAYS {
        let world = World::new();
        for (name, bytes) in [
            ("a/sub/x", "a"),
            ("a/sub/both", "a"),
            ("a/sub/deep/x", "a"),
            ("a/file/in", "a"),
            ("a/dir", "a"),
            ("b/sub/y", "b"),
            ("b/sub/both", "bb"),
            ("b/sub/deep/y", "b"),
            ("b/sub/own/y", "b"),
            ("b/file", "b"),
            ("b/dir/in", "b"),
        ] {
            world.write(name, bytes);
        }
        world.chmod("b/sub", 0o700);
        let all = ["dir/in b", "file/in a", "sub/both a", "sub/deep/x a", "sub/deep/y b"];
        let all = [&all[..], &["sub/own/y b", "sub/x a", "sub/y b"]].concat();
        let in_sub =
            ["sub/both a", "sub/deep/x a", "sub/deep/y b", "sub/own/y b", "sub/x a", "sub/y b"];
        let only = ["n/both a", "n/deep/x a", "n/deep/y b", "n/own/y b", "n/x a", "n/y b"];
        for dir in ["p", "q"] {
            world.mkdir(dir);
        }
        for (from, to) in [("a/sub", "p/n"), ("b/sub", "q/n")] {
            let words = format!("-a {from}/ {to}/");
            world.ok(&words);
        }
        for (nth, (sources, expected)) in [
            (&["a/", "b/"][..], &all[..]),
            (&["a/sub", "b/sub"], &in_sub),
            (&["-R", "p/./n", "q/./n"], &only),
            (&["-R", "p/./n", "q/./n/"], &only),
        ]
        .into_iter()
        .enumerate()
        {
            let to = format!("to-{nth}");
            // The second time, nothing is to go or to come.
            for told in [true, false] {
                let (options, sources): (Vec<&str>, Vec<&str>) =
                    sources.iter().partition(|word| word.starts_with('-'));
                let from = sources.iter().map(|source| way.from(source));
                let words: Vec<String> = ["-ai", "--delete", "--no-fsync"]
                    .iter()
                    .chain(&options)
                    .map(ToString::to_string)
                    .chain(from)
                    .chain([way.to(&format!("{to}/"))])
                    .collect();
                let run = world.sync(&words);
                assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {words:?}");
                assert_eq!(!run.stdout.is_empty(), told, "{way:?} {words:?} {}", run.stdout);
                assert_eq!(files(&world.path(&to)), expected, "{way:?} {words:?}");
            }
            // Of a directory that several have, the first one's attributes count.
            if let Ok(meta) = fs::metadata(world.path(format!("{to}/sub"))) {
                assert_ne!(meta.permissions().mode() & 0o777, 0o700);
            }
        }
    }
}

/// The files below `dir` and what is in them, in order.
/// With `-R` a source may lie in what another one brings: both come.
#[test]
fn what_lies_in_another_source_comes_beside_it() {
    let made = || {
        let world = World::new();
        for (name, bytes) in [
            ("a/sub/af", "a"),
            ("a/sub/both", "a"),
            ("a/sub/deep/ad", "a"),
            ("a/own/af", "a"),
            ("a/clash", "a"),
            ("x/sub/f", "x"),
            ("x/sub/both", "xx"),
            ("x/sub/deep/d", "x"),
            ("x/sub/deep/unasked", "x"),
            ("x/lone/z", "x"),
            ("x/lone/unasked", "x"),
            ("x/clash/in", "x"),
            ("y/sub/f", "yy"),
            ("y/sub/y", "y"),
        ] {
            world.write(name, bytes);
        }
        world.write("dst/sub/gone", "old");
        world
    };
    let told = |world: &World| files(&world.path("dst"));
    for words in [
        "a/./ x/./sub/f",
        "a/./ x/./sub/both",
        "x/./sub/both a/./",
        "a/./ x/./sub/deep/d",
        "a/./ x/./sub/deep",
        "a/./ x/./lone/z",
        "a/./ x/./clash/in",
        "a/./sub x/./sub/f",
        "x/./sub/f a/./sub",
        "x/./sub/deep/d y/./sub",
        "a/./sub x/./sub/deep/d y/./sub/y",
        "a/./ x/./sub/f y/./sub",
        "a/./ x/./sub/f y/./sub/f",
    ] {
        for more in ["", "--delete"] {
            let judge = made();
            let all = ["-aR"].into_iter().chain((!more.is_empty()).then_some(more));
            let all: Vec<_> = all.chain(words.split(' ')).chain(["dst/"]).collect();
            let theirs = rsync(&judge, &all).map(|_| told(&judge));
            for way in WAYS {
                let world = made();
                let from: Vec<_> = words.split(' ').map(|word| way.from(word)).collect();
                let words = format!("-aR {more} {} {}", from.join(" "), way.to("dst/"));
                world.ok(&words);
                let ours = told(&world);
                // Only where all of its directory was meant.
                let is_meant =
                    |line: &String| !line.contains("unasked") || words.contains("/deep ");
                assert!(ours.iter().all(is_meant), "{words}: {ours:?}");
                if let Some(theirs) = &theirs {
                    assert_eq!(&ours, theirs, "{words}");
                }
                assert_eq!(world.ok(&format!("-i {words}")).stdout, "", "{words}");
            }
        }
    }
    // What is missing below a directory that comes anyway is told once.
    let world = made();
    let run = world.fails(23, "-aR a/./ x/./sub/none dst/");
    assert_eq!(run.stderr.matches("none").count(), 1, "{run:#?}");
    assert!(world.exists("dst/sub/af"));
}

fn files(dir: &Path) -> Vec<String> {
    let (mut dirs, mut all) = (vec![dir.to_owned()], Vec::new());
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).expect("it is a directory") {
            let path = entry.expect("nobody changes it").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = fs::read_to_string(&path).expect("it is text");
                all.push(format!(
                    "{} {bytes}",
                    path.strip_prefix(dir).expect("it is below").display()
                ));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_source_that_rules_leave_out_stays_out_where_another_is_in_it() {
    let world = World::new();
    world.write("src/core/named", "content");
    world.write("src/core/other", "content");
    for sources in ["src/core/named src/core", "src/core src/core/named"] {
        world.ok(&format!("-rR --exclude=core {sources} dst/"));
        assert!(world.exists("dst/src/core/named"), "{sources}");
        assert!(!world.exists("dst/src/core/other"), "{sources}");
    }
}

#[test]
fn of_many_directories_of_one_name_all_come_and_of_equal_names_the_first() {
    let world = World::new();
    let sources: Vec<String> = (0..10).map(|no| format!("s{no}/")).collect();
    for (no, source) in sources.iter().enumerate() {
        world.write(format!("{source}own{no}"), "x");
        world.write(format!("{source}common"), source);
        world.write(format!("{source}dir/own{no}"), "x");
    }
    world.ok(&format!("-a {} dst/", sources.join(" ")));
    assert_eq!(world.read("dst/common"), b"s0/");
    let own: Vec<String> = (0..10).map(|no| format!("own{no}")).collect();
    let names = |dir| {
        let mut names = world.names(dir);
        names.sort_unstable();
        names
    };
    assert_eq!(names("dst/dir"), own);
    assert_eq!(names("dst"), [&["common".into(), "dir".into()], &own[..]].concat());
}

/// On the way to a source that was named, a link of the caller's or of the superuser's is what it leads to: as in
/// rsync.
#[test]
fn symlinks_on_the_way_to_a_source_are_directories() {
    for way in WAYS {
        for (words, files) in [
            ("-aR src/link/deep/file", &["src/link/deep/file"][..]),
            ("-aR src/./link/deep", &["link/deep/file"]),
            ("-aR src/link/", &["src/link/deep/file"]),
            ("-aR src/twice/deep/file src/other", &["src/twice/deep/file", "src/other"]),
            ("-aR src/out/file", &["src/out/file"]),
            ("-a --files-from=list src", &["link/deep/file", "other"]),
        ] {
            let world = World::new();
            world.write("src/real/deep/file", "content");
            world.write("away/file", "content");
            world.write("src/other", "content");
            world.chmod("src/real", 0o710);
            world.link("real", "src/link");
            world.link(".././src//link/deep/..", "src/twice");
            world.link(world.path("away").to_str().unwrap(), "src/out");
            world.write("list", "link\nlink/deep\nlink/deep/file\nother\n");
            let of =
                |word: &str| if word.starts_with("src") { way.from(word) } else { word.into() };
            let args: Vec<String> = words.split(' ').map(of).chain([way.to("dst/")]).collect();
            let run = world.sync(&args);
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{args:?} {run:#?}");
            for file in files {
                assert_eq!(world.read(format!("dst/{file}")), b"content", "{args:?}");
                let mut on_the_way = world.path("dst");
                for name in file.split('/') {
                    on_the_way.push(name);
                    assert!(!on_the_way.is_symlink(), "{on_the_way:?} {args:?}");
                }
            }
            if is_installed("rsync") && way == Way::Local {
                let mut all: Vec<_> = words.split(' ').collect();
                all.push("by-rsync/");
                let run = Run::of(&mut world.command("rsync", all));
                assert_eq!(run.code, Some(0), "{words} {run:#?}");
                // It leaves the times of directories on the way alone where a link is among them.
                let modes = |dir: &str| {
                    let looks = look(&world.path(dir)).into_iter();
                    let told = |(name, look): (_, crate::common::look::Look)| {
                        (name, look.mode, look.content)
                    };
                    looks.map(told).collect::<Vec<_>>()
                };
                assert_eq!(modes("by-rsync"), modes("dst"), "{words}");
            }
        }
    }
}

#[test]
fn a_symlink_of_somebody_else_on_the_way_to_a_source_is_told_in_one_way() {
    if !is_root() {
        return skip("only root can make what is somebody else's");
    }
    for way in WAYS {
        let world = World::new();
        world.write("src/real/deep/file", "content");
        world.link("real", "src/link");
        own(&world.path("src/link"), SOMEBODY, SOMEBODY);
        world.link("link", "src/by-way-of-it");
        world.link("round", "src/round");
        world.write("src/other", "content");
        world.write("list", "link/deep/file\nother\n");
        let of = |word: &str| if word.starts_with("src") { way.from(word) } else { word.into() };
        for (words, link) in [
            ("-aR src/link/deep/file", "src/link"),
            ("-aR src/link/ src/other", "src/link"),
            ("-aR src/link/nothing src/./link/deep src/other", "link"),
            ("-aR src/by-way-of-it/deep src/other", "src/by-way-of-it"),
            ("-aR src/round/file src/other", "src/round"),
            ("-a --files-from=list src", "link"),
        ] {
            let words: Vec<String> = words.split(' ').map(of).chain([way.to("dst/")]).collect();
            let run = world.sync(&words);
            assert_eq!(run.code, Some(23), "{words:?} {run:#?}");
            let why = format!(": the symlink {link} in the path is not followed");
            assert!(run.stderr.contains(&why), "{words:?} {run:#?}");
            assert!(!run.stderr.contains("too many levels"), "{words:?} {run:#?}");
        }
    }
}

/// As in rsync: the directory where a name with `./` before it starts is on the way to it.
/// It is told with its attributes, and is no source.
#[test]
fn where_a_dotted_name_starts_nothing_is_deleted() {
    for (words, before) in [
        ("-aR --delete ./sub", ""),
        ("-aR --delete --force-delete ./sub", "h:"),
        ("-ar --delete --files-from=../list .", ""),
        ("-ar --delete --force-delete --files-from=../list .", "h:"),
    ] {
        let world = World::new();
        world.write("s/sub/y", "y");
        world.write("list", "./sub\n");
        world.write("dst/other", "stays");
        world.write("dst/sub/gone", "goes");
        let to = format!("{before}{}", world.path("dst/").display());
        let all = ["sync", "-e", SHELL, "--deltic-path", DELTIC];
        let all = all.into_iter().chain(words.split(' ')).chain([&*to]);
        let run = Run::of(world.command(DELTIC, all).current_dir(world.path("s")));
        assert_eq!(run.code, Some(0), "{words} {run:#?}");
        assert!(world.exists("dst/other") && world.exists("dst/sub/y"), "{words} {run:#?}");
        assert!(!world.exists("dst/sub/gone"), "{words} {run:#?}");
    }
}

#[test]
fn a_dot_before_a_name_brings_the_attributes_of_where_it_starts() {
    for (words, brings) in [
        ("-aR ./k DST", true),
        ("-rptR ./sub/y DST", true),
        ("-dptR ./k DST", true),
        ("-a --files-from=../dotted . DST", true),
        ("-aR ././k DST", false),
        ("-aR k DST", false),
        ("-aR sub/./y DST", false),
        ("-aR ./sub/./y DST", false),
        ("-ptR ./k DST", false),
        ("-aR --no-implied-dirs ./k DST", false),
        ("-a --no-implied-dirs --files-from=../dotted . DST", false),
    ] {
        let world = World::new();
        world.write("s/k", "k");
        world.write("s/sub/y", "y");
        world.write("dotted", "sub/y\n./k\n");
        world.chmod("s", 0o700);
        world.set_time("s", 1_000_000_000);
        let run = |program: &str, before: &[&str], dst: &str| {
            let words = words.replace("DST", dst);
            let words = before.iter().copied().chain(words.split(' '));
            let mut command = world.command(program, words);
            let run = Run::of(command.current_dir(world.path("s")));
            assert_eq!(run.code, Some(0), "{command:?} {run:#?}");
        };
        for to in ["../dst/", "h:../dst-there/"] {
            run(DELTIC, &["sync", "-e", SHELL, "--deltic-path", DELTIC], to);
        }
        let pulled = words.replace(" ./", " h:./").replace(" . ", " h:. ");
        if pulled != words {
            let pulled = pulled.replace("DST", "../dst-pulled/");
            let command = ["sync", "-e", SHELL, "--deltic-path", DELTIC];
            let command = command.into_iter().chain(pulled.split(' '));
            let mut command = world.command(DELTIC, command);
            let run = Run::of(command.current_dir(world.path("s")));
            assert_eq!(run.code, Some(0), "{command:?} {run:#?}");
        }
        let look = |dir: &str| (world.mode(dir) == 0o700, world.time(dir).0 == 1_000_000_000);
        assert_eq!(
            (look("dst"), look("s/../dst-there")),
            ((brings, brings), (brings, brings)),
            "{words}"
        );
        if world.exists("dst-pulled") {
            assert_eq!(look("dst-pulled"), (brings, brings), "{words}");
        }
        if is_installed("rsync") {
            run("rsync", &[], "../by-rsync/");
            assert_eq!(look("by-rsync"), (brings, brings), "{words}");
        }
    }
}
