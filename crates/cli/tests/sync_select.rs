//! Names that take part: directories, paths that are kept, lists of names, and missing names.

use crate::common::attrs::{SOMEBODY, own};
use crate::common::{DELTIC, Mounted, Run, SHELL, WAYS, Way, World, rsync};

fn world() -> World {
    let world = World::new();
    for name in ["src/a/b/file", "src/a/other", "src/c/file", "src/top"] {
        world.write(name, name);
    }
    world.mkdir("src/empty/deep");
    world.mkdir("dst");
    world
}

fn all(world: &World, dir: &str) -> Vec<String> {
    let mut paths: Vec<_> = crate::common::tree::picture(&world.path(dir))
        .into_keys()
        .map(|path| path.to_string_lossy().into_owned())
        .filter(|path| !path.is_empty())
        .collect();
    paths.sort();
    paths
}

fn sync(world: &World, way: Way, options: &str, sources: &[&str]) -> Run {
    let sources: Vec<_> = sources.iter().map(|source| way.from(source)).collect();
    world.ok(&format!("--no-fsync {options} {} {}", sources.join(" "), way.to("dst/")))
}

#[test]
fn dirs_takes_directories_and_not_what_is_in_them() {
    for way in WAYS {
        let world = world();
        sync(&world, way, "-dt", &["src/a", "src/top"]);
        assert_eq!(all(&world, "dst"), ["a", "top"], "{way:?}");
        world.write("dst/a/extra", "x");
        sync(&world, way, "-d --delete", &["src/"]);
        assert_eq!(all(&world, "dst"), ["a", "a/extra", "c", "empty", "top"], "{way:?}");
        world.write("dst/gone", "x");
        sync(&world, way, "-d --delete", &["src/"]);
        assert!(!world.exists("dst/gone") && world.exists("dst/a/extra"), "{way:?}");
    }
}

#[test]
fn without_r_or_d_directories_are_skipped_by_name() {
    let world = world();
    let run =
        Run::of(&mut world.command(crate::common::DELTIC, ["sync", "src/a", "src/top", "dst/"]));
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("skipping directory a"), "{run:#?}");
    assert_eq!(all(&world, "dst"), ["top"]);
}

#[test]
fn relative_keeps_the_path_and_a_dot_says_where_it_starts() {
    for way in WAYS {
        let world = world();
        world.chmod("src/a", 0o750);
        sync(&world, way, "-Rrtp", &["src/a/b", "src/./c/file"]);
        assert_eq!(all(&world, "dst"), ["c", "c/file", "src", "src/a", "src/a/b", "src/a/b/file"]);
        assert_eq!(world.mode("dst/src/a"), 0o750, "{way:?}");
        // Names beside those on the way are nobody's to remove.
        world.write("dst/src/a/extra", "x");
        world.write("dst/src/a/b/extra", "x");
        sync(&world, way, "-Rrt --delete", &["src/a/b"]);
        assert!(world.exists("dst/src/a/extra") && !world.exists("dst/src/a/b/extra"), "{way:?}");
    }
}

#[test]
fn implied_directories_keep_their_attributes_where_that_is_asked_for() {
    for way in WAYS {
        let world = world();
        world.chmod("src/a", 0o700);
        world.mkdir("dst/src/a");
        world.chmod("dst/src/a", 0o755);
        world.set_time("src/a", 1_000_000_000);
        sync(&world, way, "-Rrtp --no-implied-dirs", &["src/a/b", "src/c/file"]);
        assert_eq!(world.mode("dst/src/a"), 0o755, "{way:?}");
        assert_ne!(world.time("dst/src/a").0, 1_000_000_000, "{way:?}");
        assert_eq!(world.mode("dst/src/c"), 0o755, "made with a mode of its own");
        world.set_time("src/empty", 1_000_000_000);
        sync(&world, way, "-dRtp --no-implied-dirs", &["src/"]);
        assert_eq!(world.time("dst/src/empty").0, 1_000_000_000, "it is named, and not entered");
        sync(&world, way, "-Rrtp", &["src/a/b"]);
        assert_eq!((world.mode("dst/src/a"), world.time("dst/src/a").0), (0o700, 1_000_000_000));
        sync(&world, way, "-Rrp --no-implied-dirs --chmod=Dg+s", &["src/a/b"]);
        assert_eq!([world.mode("dst/src/a"), world.mode("dst/src/a/b")], [0o700, 0o2755]);
    }
}

fn mounted<'a>(world: &'a World, name: &'a str) -> Option<Mounted<'a>> {
    let words = ["-t", "tmpfs", "-o", "mode=755,size=1M", "tmpfs", name];
    Mounted::by((world, name), ("mount", &words), "nothing can be mounted here")
}

#[test]
fn other_file_systems_are_not_entered_where_that_is_asked_for() {
    for way in WAYS {
        let world = world();
        let Some(_mounted) = mounted(&world, "src/a/mounted") else { return };
        world.write("src/a/mounted/inside", "x");
        world.chmod("", 0o755);
        own(&world.path("dst"), SOMEBODY, SOMEBODY);
        let operands = [way.from("src/"), way.to("dst/")];
        for (option, here) in
            [("-x", &["a/mounted"][..]), ("-xx", &[]), ("-rt", &["a/mounted", "a/mounted/inside"])]
        {
            for user in [0, SOMEBODY].map(|user| user.to_string()) {
                let words = ["--reuid", &user, "--regid", &user, "--clear-groups", DELTIC, "sync"];
                let mut run = world.command("setpriv", words);
                run.args(["-rt", "--delete", option, "-e", SHELL, "--deltic-path", DELTIC]);
                let run = Run::of(run.args(&operands));
                assert_eq!(run.code, Some(0), "{way:?} {option} {user} {run:#?}");
                let mut all = all(&world, "dst");
                all.retain(|name| name.contains("mounted"));
                assert_eq!(all, here, "{way:?} {option} {user}");
                let rsh = format!("--rsh={SHELL}");
                let same = ["-rtni", "--delete", option, &rsh, &operands[0], &operands[1]];
                if let Some(run) = rsync(&world, &same) {
                    assert_eq!(run.stdout, "", "{way:?} {option} {user}");
                }
                Run::of(&mut world.command("find", ["dst", "-mindepth", "1", "-delete"]));
            }
        }
    }
}

#[test]
fn directories_without_files_are_pruned() {
    for way in WAYS {
        let world = world();
        world.write("src/only/excluded", "x");
        world.mkdir("dst/empty");
        sync(&world, way, "-rm --delete --exclude excluded", &["src/"]);
        assert!(!world.exists("dst/empty") && !world.exists("dst/only"), "{way:?}");
        assert!(world.exists("dst/a/b/file"), "{way:?}");
    }
}

#[test]
fn a_name_that_is_not_there_keeps_no_directory_that_is_pruned() {
    for way in WAYS {
        for (sources, wanted) in [
            (["d", "d/none"], &[][..]),
            (["d/e", "d/e/none"], &[]),
            (["d/none", "full/none"], &[]),
            (["full", "d/none"], &["full", "full/f"]),
            (["d", "full/f"], &["full", "full/f"]),
        ] {
            let world = World::new();
            world.mkdir("d/e");
            world.write("full/f", "f");
            let from = sources.map(|source| way.from(source));
            let run = world.sync(
                &[&["-rmR"], &from.each_ref().map(|from| &**from)[..], &[&way.to("dst/")]].concat(),
            );
            // Each is told once.
            let missing = sources.iter().filter(|source| source.ends_with("none")).count();
            let told =
                run.stderr.lines().filter(|line| line.contains("none: no such file")).count();
            assert_eq!(told, missing, "{way:?} {sources:?} {run:#?}");
            assert_eq!(run.code, Some(if missing > 0 { 23 } else { 0 }), "{way:?} {sources:?}");
            assert_eq!(all(&world, "dst"), wanted, "{way:?} {sources:?}");
        }
    }
}

#[test]
fn a_name_that_rules_leave_out_brings_no_directories_and_no_rule_is_asked_about_those() {
    for way in WAYS {
        let world = world();
        sync(&world, way, "-rR --exclude=b --exclude=c", &["src/./a/b", "src/./c/file"]);
        assert_eq!(all(&world, "dst"), ["c", "c/file"], "{way:?}");
    }
}

#[test]
fn a_directory_that_is_named_with_and_without_a_slash_brings_what_is_in_it() {
    for way in WAYS {
        for list in ["c\nc/\n", "c/\nc\n", "./c\n/c/\n"] {
            let world = world();
            world.write("list", list);
            sync(&world, way, "-a --files-from=list", &["src/"]);
            assert_eq!(all(&world, "dst"), ["c", "c/file"], "{way:?} {list}");
        }
        // Of two of one name the one without the slash brings nothing that is in it.
        let world = world();
        world.write("other/c/second", "x");
        sync(&world, way, "-lptdR", &["src/./c", "other/./c/"]);
        assert_eq!(all(&world, "dst"), ["c", "c/second"], "{way:?}");
    }
}

#[test]
fn mkpath_makes_every_directory_on_the_way() {
    for way in WAYS {
        let world = world();
        let to = way.to("new/deep/er/");
        let fails = format!("-r {} {to}", way.from("src/"));
        world.fails(11, &fails);
        world.ok(&format!("-n --mkpath {fails}"));
        assert!(!world.exists("new"));
        world.ok(&format!("--mkpath {fails}"));
        assert!(world.exists("new/deep/er/a/b/file"), "{way:?}");
        let to = way.to("one/file.name");
        world.ok(&format!("--mkpath {} {to}", way.from("src/top")));
        assert_eq!(world.read("one/file.name"), b"src/top", "{way:?}");
    }
}

#[test]
fn a_list_of_names_says_what_is_taken() {
    for way in WAYS {
        for (list, zero) in [("a/b\n\n/c/file\r\n../top\n", ""), ("a/b\0c/file\0top\0", "-0")] {
            let world = world();
            let comment = if way == Way::Pull || zero == "-0" { "" } else { "# no\n" };
            world.write("list", format!("{comment}{list}"));
            sync(&world, way, &format!("-t {zero} --files-from=list"), &["src"]);
            let names = ["a", "a/b", "c", "c/file", "top"];
            assert_eq!(all(&world, "dst"), names, "{way:?}: directories come empty without -r");
            sync(&world, way, &format!("-rt {zero} --files-from list"), &["src/"]);
            assert!(world.exists("dst/a/b/file") && !world.exists("dst/a/other"), "{way:?}");
        }
        let world = world();
        world.write("list", "a/b/\nc/file\n");
        sync(&world, way, "-a --files-from=list", &["src/"]);
        assert!(world.exists("dst/a/b/file"), "a slash asks for what is in it");
        world.write("list", "c/file\n");
        sync(&world, way, "-a --no-relative --files-from=list", &["src/"]);
        assert_eq!(world.read("dst/file"), b"src/c/file", "{way:?}");
    }
}

#[test]
fn a_list_may_be_standard_input_or_a_file_of_the_remote_side() {
    let world = world();
    world.write("list", "c/file\n");
    for list in [":list", "h:list"] {
        sync(&world, Way::Pull, &format!("--files-from={list}"), &["src"]);
        assert_eq!(all(&world, "dst"), ["c", "c/file"]);
    }
    let words = ["sync", "--files-from=-", "src", "dst/"];
    let run = Run::of(world.command(crate::common::DELTIC, words).write_stdin("top\n"));
    assert_eq!((run.code, world.exists("dst/top")), (Some(0), true), "{run:#?}");
    world.fails(1, "--files-from=other:list h:src dst/");
    world.fails(1, "--files-from=list src c dst/");
}

#[test]
fn a_listed_path_starts_behind_its_dot() {
    for way in WAYS {
        for (line, there) in [
            ("a/./b/file", "b/file"),
            ("./a/./b/./file", "b/file"),
            ("a/b/../././b/file", "b/file"),
            ("a/./../b/file", "b/file"),
            ("a/b/./", "file"),
            ("a/b/.", "a/b/file"),
            // A slash behind a file says nothing.
            ("a/b/file/", "a/b/file"),
        ] {
            let world = World::new();
            world.write("src/a/b/file", "x");
            world.write("list", line);
            sync(&world, way, "-a --files-from=list", &["src/"]);
            assert_eq!(
                all(&world, "dst").last().map(String::as_str),
                Some(there),
                "{way:?} {line}"
            );
        }
    }
}

#[test]
fn a_line_that_is_too_long_fails_alone() {
    for way in WAYS {
        for line in ["x".repeat(300), "x".repeat(70_000), "deep/".repeat(2000)] {
            for relative in ["", "--no-relative"] {
                let world = World::new();
                world.write("src/a", "first");
                world.write("src/b", "behind it");
                world.write("dst/c", "stays after an error");
                world.write("list", format!("a\n{line}\nb\n"));
                let words = format!("-a --delete --files-from=list {relative}");
                let run =
                    world.fails(23, &format!("{words} {} {}", way.from("src"), way.to("dst")));
                assert!(run.stderr.contains("file name too long"), "{way:?} {run:#?}");
                assert!(run.stderr.len() < 1000, "{way:?} {run:#?}");
                for name in ["a", "b", "c"] {
                    assert!(world.exists(format!("dst/{name}")), "{way:?} {name} {run:#?}");
                }
            }
        }
    }
}

#[test]
fn a_list_below_nothing_ends_before_it_begins() {
    for way in WAYS {
        let world = world();
        world.write("list", "a\nb/c\n");
        let run = world
            .fails(3, &format!("-a --files-from=list {} {}", way.from("none/"), way.to("new/")));
        assert!(run.stderr.contains("none/: no such directory"), "{way:?} {run:#?}");
        assert!(!world.exists("new"), "{way:?}");
    }
}

#[test]
fn no_directory_is_made_on_the_way_to_nothing() {
    for way in WAYS {
        let world = world();
        world.write("list", "a/missing\na/b/missing\nc/file\nc/missing\n");
        let run = world.sync(&["-a", "--files-from=list", &way.from("src/"), &way.to("dst/")]);
        assert_eq!(run.code, Some(23), "{run:#?}");
        for name in ["a/missing", "a/b/missing", "c/missing"] {
            assert_eq!(run.stderr.matches(&format!("/{name}: ")).count(), 1, "{way:?} {run:#?}");
        }
        assert_eq!(all(&world, "dst"), ["c", "c/file"], "{way:?}");
    }
}

#[test]
fn what_a_list_names_below_a_file_is_not_there_whatever_stands_beside_it() {
    for way in WAYS {
        for list in ["top\ntop/no\n", "top\ntop.x\ntop/no\n"] {
            let world = world();
            world.write("src/top.x", "x");
            world.write("list", list);
            let run = world.sync(&["-a", "--files-from=list", &way.from("src/"), &way.to("dst/")]);
            assert_eq!((run.code, world.exists("dst/top")), (Some(23), true), "{way:?} {run:#?}");
            let told = run.stderr.matches("/top/no: not a directory").count();
            assert_eq!(told, 1, "{way:?} {run:#?}");
        }
    }
}

/// Each as a value of its own, they take two hundred megabytes.
#[test]
fn a_list_of_many_names_takes_few_bytes_of_each() {
    let world = world();
    let names: Vec<_> = (0..400_000).map(|n| format!("some-directory/name-{n:07}")).collect();
    world.write("list", names.join("\n"));
    let script = "ulimit -d 100000 && exec \"$0\" \"$@\"";
    let words = "sync --threads 2 -n -a --ignore-missing-args --files-from=list src/ dst/";
    let words = ["-c", script, crate::common::DELTIC].into_iter().chain(words.split(' '));
    let run = Run::of(&mut world.command("sh", words));
    assert_eq!(run.code, Some(0), "{run:#?}");
}

/// Each line with its whole path, what is told of them takes a hundred megabytes.
#[test]
fn what_is_told_of_many_names_takes_few_bytes_of_each() {
    let world = World::new();
    let dir = format!("{0}/{0}/{0}/{0}/{0}/{0}/{0}/{0}/", "d".repeat(250));
    for n in 0..15_000 {
        world.write(format!("src/{dir}{n:05}"), "");
    }
    world.mkdir("dst");
    let script = "ulimit -d 80000 && exec \"$0\" sync --threads 2 \"$@\" | tail -n 1";
    for (words, last) in [
        ("-a --list-only src/", format!(" {dir}14999\n")),
        ("-ain --delete-after --force-delete dst/ src/", format!(" {}/\n", "d".repeat(250))),
    ] {
        let words = ["-c", script, crate::common::DELTIC].into_iter().chain(words.split(' '));
        let run = Run::of(&mut world.command("sh", words));
        assert!(run.stdout.ends_with(&last) && run.stderr.is_empty(), "{run:#?}");
    }
}

#[test]
fn a_long_list_travels_in_many_frames() {
    let world = World::new();
    let names: Vec<_> = (0..5000).map(|n| format!("{:0>40}/{n}", n % 7)).collect();
    for name in names.iter().step_by(2) {
        world.write(format!("src/{name}"), "x");
    }
    world.write("list", names.join("\n"));
    world.mkdir("dst");
    sync(&world, Way::Pull, "--ignore-missing-args --files-from=list", &["src"]);
    assert_eq!(all(&world, "dst").len(), 7 + 2500);
}

/// The far end then says hello before it hears what it is asked for.
#[test]
fn a_list_of_names_travels_over_a_link_that_is_slow_to_deliver_the_request() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.write(format!("src/{name}"), name);
    }
    world.write("list", "a\nb\n");
    world.write("slow", "shift\n(sleep 0.5; exec cat) | \"$@\"\n");
    let words = [
        "sync",
        "-r",
        "-e",
        "sh slow",
        "--deltic-path",
        DELTIC,
        "--files-from=list",
        "h:src",
        "dst/",
    ];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");
    assert_eq!(all(&world, "dst"), ["a", "b"]);
}

#[test]
fn what_is_not_there_fails_is_ignored_or_goes() {
    for way in WAYS {
        let world = world();
        world.write("dst/gone", "x");
        world.write("dst/full/of", "x");
        world.mkdir("dst/hollow");
        let sources = ["src/top", "src/gone", "src/full", "src/hollow"]
            .map(|source| way.from(source))
            .join(" ");
        let words = format!("{sources} {}", way.to("dst/"));
        world.fails(23, &words);
        world.ok(&format!("--ignore-missing-args {words}"));
        assert!(world.exists("dst/gone"), "{way:?}");
        let run = world.fails(23, &format!("--delete-missing-args {words}"));
        assert!(run.stderr.contains("full: directory not empty"), "{run:#?}");
        assert!(!world.exists("dst/gone") && !world.exists("dst/hollow"), "{way:?}");
        assert!(world.exists("dst/full/of"), "{way:?}");
        world.ok(&format!("-d --delete --delete-missing-args {words}"));
        assert!(!world.exists("dst/full"), "{way:?}");
    }
}

#[test]
fn patterns_of_remote_sources_are_expanded_there() {
    let world = world();
    for name in ["x.c", "y.c", ".z.c", "x.h"] {
        world.write(format!("src/{name}"), name);
    }
    world.ok("h:src/*.c dst/");
    assert_eq!(all(&world, "dst"), ["x.c", "y.c"]);
    world.ok("-R h:src/[ac]*/*r :src/?.h dst/");
    assert!(world.exists("dst/src/a/other") && world.exists("dst/src/x.h"));
    world.fails(23, "h:src/*.zip dst/");
    world.write("src/with space", "x");
    world.ok("-s h:src/with* dst/");
    assert!(world.exists("dst/with space"));
}

/// As with rsync, which sends a list of this machine on as it is; but for comments in lists that end in NULs.
#[test]
fn a_comment_in_a_list_is_a_name_where_the_list_goes_to_the_sources() {
    for way in WAYS {
        let world = World::new();
        for name in ["src/#a", "src/;b", "src/c"] {
            world.write(name, name);
        }
        world.write("list", "#a\n;b\nc\n");
        world.write("list0", "#a\0;b\0c\0");
        let names = |words: &str| {
            let to = format!("dst{}/", words.len());
            world.ok(&format!("-a {words} {} {}", way.from("src"), way.to(&to)));
            let mut names = world.names(&to);
            names.sort();
            names
        };
        let all = ["#a", ";b", "c"];
        let lines = if way == Way::Pull { &all[..] } else { &["c"] };
        assert_eq!(names("--files-from=list"), lines, "{way:?}");
        assert_eq!(names("-0 --files-from=list0"), lines, "{way:?}");
        if way == Way::Pull {
            assert_eq!(names("--files-from=:list"), ["c"]);
            assert_eq!(names("-0 --files-from=:list0"), ["c"]);
        }
    }
}

/// As a shell would have them over there.
#[test]
fn old_words_are_split_for_the_other_machine() {
    let made = || {
        let world = World::new();
        for name in ["docs/a", "media/b", "my dir/c", "x*/d", "docs media/e"] {
            world.write(name, name);
        }
        world
    };
    let run = |world: &World, told: Option<&str>, words: &[&str]| {
        let all = ["sync", "-a", "-e", SHELL, "--deltic-path", DELTIC];
        let mut command = world.command(DELTIC, all.iter().chain(words));
        if let Some(told) = told {
            command.env("RSYNC_OLD_ARGS", told);
        }
        Run::of(&mut command)
    };
    for (told, words, wanted) in [
        (None, &["--old-args", "h:docs media", "dst"][..], "docs media"),
        (Some("1"), &["h:do*s med*", "dst"], "docs media"),
        (Some("1"), &["--no-old-args", "h:docs media", "dst"], "docs media/e"),
        (Some("1"), &["-s", "h:docs media", "dst"], "docs media/e"),
        (Some("0"), &["h:docs media", "dst"], "docs media/e"),
        (None, &["--old-args", "--no-old-args", "h:docs media", "dst"], "docs media/e"),
        (None, &["--old-args", r"h:my\ dir 'x*'", ":docs", "dst"], "my dir|x*|docs"),
        (None, &["--old-args", "docs", r"h:dst/\ new"], ""),
    ] {
        let world = made();
        world.mkdir("dst");
        let run = run(&world, told, words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words:?} {run:#?}");
        let mut wanted: Vec<_> = match wanted {
            "docs media" => vec!["docs", "media"],
            "docs media/e" => vec!["docs media"],
            "" => vec![" new"],
            names => names.split('|').collect(),
        };
        let mut names = world.names("dst");
        names.sort();
        wanted.sort_unstable();
        assert_eq!(names, wanted, "{words:?}");
    }
    let world = made();
    for words in [["h:$HOME/docs", "dst"], ["h:`ls`", "dst"], ["docs", "h:d*"]] {
        let run = run(&world, Some("1"), &words);
        assert_eq!(run.code, Some(4), "{words:?} {run:#?}");
        assert!(run.stderr.contains("no shell is run on paths"), "{run:#?}");
    }
    for words in [&["docs", "h:one two"][..], &["-s", "--old-args", "docs", "h:x"]] {
        let run = run(&world, (words.len() == 2).then_some("1"), words);
        assert_eq!(run.code, Some(1), "{words:?} {run:#?}");
    }
    assert!(!world.exists("dst") && !world.exists("one"));
}

#[test]
fn a_list_looks_like_that_of_rsync() {
    let world = world();
    world.link("a/other", "src/link");
    world.write("src/long", vec![0; 12_345]);
    for name in ["src/a/b/file", "src/a/other", "src/c/file", "src/top", "src/long", "src/link"] {
        world.set_time(name, 1_600_000_000);
    }
    for words in [
        "-r --list-only src/ dst/",
        "src/",
        "-r src",
        "h:src/",
        "-r --list-only src/a src/top dst/",
        "-r -h src/",
        "-r -hh src/",
        "-r --no-h src/",
    ] {
        let run = world.ok(words);
        let files = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with('d')).map(String::from).collect()
        };
        let names = |text: &str| -> Vec<String> {
            text.lines()
                .filter_map(|line| line.split_whitespace().nth(4))
                .map(String::from)
                .collect()
        };
        let theirs = words.replace("h:", "");
        let theirs: Vec<_> = theirs.split_whitespace().collect();
        if let Some(theirs) = rsync_in_utc(&world, &theirs) {
            assert_eq!(files(&run.stdout), files(&theirs.stdout), "{words}");
            assert_eq!(names(&run.stdout), names(&theirs.stdout), "{words}");
        }
    }
    assert!(all(&world, "dst").is_empty());
}

fn rsync_in_utc(world: &World, words: &[&str]) -> Option<Run> {
    rsync(world, &["--version"])?;
    Some(Run::of(world.command("rsync", words).env("TZ", "UTC")))
}
