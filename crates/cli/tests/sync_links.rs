//! Symbolic links that are followed, left out or made to lead nowhere.

use std::fs;
use std::os::unix::fs::lchown;

use crate::common::{WAYS, Way, World, edited, is_root, noise, skip};

/// Links within the tree and out of it, to files and to directories, and one to nowhere.
fn world() -> World {
    let world = World::new();
    world.write("src/dir/file", "inside");
    world.write("outside/file", "outside");
    for (target, name) in [
        ("dir/file", "to file"),
        ("dir", "to dir"),
        ("../outside", "out to dir"),
        ("../outside/file", "out to file"),
    ] {
        world.link(target, &format!("src/{name}"));
    }
    world
}

fn sync(world: &World, way: Way, options: &str) {
    world.ok(&format!("-a --no-fsync {options} {} {}", way.from("src/"), way.to("dst/")));
}

/// Which of the links are links at the destination, by the order above.
fn links(world: &World) -> [bool; 4] {
    ["to file", "to dir", "out to dir", "out to file"]
        .map(|name| world.path(format!("dst/{name}")).is_symlink())
}

#[test]
fn links_are_followed_as_the_words_say() {
    for way in WAYS {
        for (options, are_links) in [
            ("", [true, true, true, true]),
            ("-L", [false, false, false, false]),
            ("-k", [true, false, false, true]),
            ("--copy-unsafe-links", [true, true, false, false]),
            ("-k --copy-unsafe-links", [true, false, false, false]),
        ] {
            let world = world();
            sync(&world, way, options);
            assert_eq!(links(&world), are_links, "{way:?} {options}");
            let behind = ["to file", "to dir/file", "out to dir/file", "out to file"];
            let behind = behind.map(|name| (format!("dst/{name}"), name.contains("out")));
            for ((name, is_out), is_link) in behind.into_iter().zip(are_links) {
                if !is_link {
                    let bytes: &[u8] = if is_out { b"outside" } else { b"inside" };
                    assert_eq!(world.read(name), bytes, "{way:?} {options}");
                }
            }
        }
    }
}

/// Each of several such links multiplies what the others show: three of them made 200,000 names in a minute.
#[test]
fn a_link_to_a_directory_that_it_is_in_is_told_and_passed_over() {
    for way in WAYS {
        for (option, passed_over) in [
            ("-L", &["a/b/home", "a/b/self", "a/up", "out"][..]),
            ("-k", &["a/b/home", "a/b/self", "a/up", "out"]),
            ("--copy-unsafe-links", &["out"]),
            ("-L --exclude=out --exclude=up", &["a/b/home", "a/b/self"]),
        ] {
            let world = World::new();
            world.write("src/a/b/file", "1");
            world.write("src/beside/file", "2");
            for (target, name) in [
                ("..", "src/a/up"),
                ("../..", "src/a/b/home"),
                (".", "src/a/b/self"),
                // A directory above the source leads back into the source.
                ("../..", "src/out"),
                // No directory on the way to these two.
                ("../beside", "src/a/one"),
                ("../beside", "src/a/two"),
            ] {
                world.link(target, name);
            }
            let words = format!("-a {option} {} {}", way.from("src/"), way.to("dst/"));
            let run = world.fails(23, &words);
            for name in passed_over {
                let told = world.told("follow", &format!("src/{name}"), LEADS_BACK);
                assert!(run.stderr.contains(&told), "{way:?} {option}: {told}\n{run:#?}");
                assert!(!world.exists(format!("dst/{name}")), "{way:?} {option}: {name}");
            }
            let told = run.stderr.matches(LEADS_BACK).count();
            assert_eq!(told, passed_over.len(), "{way:?} {option} {run:#?}");
            assert_eq!(world.read("dst/a/b/file"), b"1", "{way:?} {option}");
            for name in ["one/file", "two/file"] {
                assert_eq!(world.read(format!("dst/a/{name}")), b"2", "{way:?} {option}");
            }
        }
    }
}

const LEADS_BACK: &str = "the symlink leads to a directory that contains the symlink";

#[test]
fn a_link_to_nowhere_fails_where_links_are_followed() {
    for way in WAYS {
        let world = world();
        world.link("nowhere", "src/dangling");
        let run = world.fails(23, &format!("-aL {} {}", way.from("src/"), way.to("dst/")));
        assert!(run.stderr.contains("dangling: the symlink has no referent"), "{run:#?}");
        assert_eq!(world.read("dst/to file"), b"inside");
    }
}

/// As a source that is not there; but where only unsafe links are followed it is there for `--ignore-missing-args`.
#[test]
fn a_source_that_is_a_link_to_nowhere_brings_no_directories() {
    for (words, code, made) in [
        ("-L", 23, false),
        ("-L --ignore-missing-args", 0, false),
        ("-L --no-implied-dirs", 23, false),
        ("--copy-unsafe-links", 23, true),
        ("--copy-unsafe-links --ignore-missing-args", 23, true),
        ("--copy-unsafe-links --no-implied-dirs", 23, false),
    ] {
        for way in WAYS {
            let world = World::new();
            world.mkdir("src");
            world.mkdir("dst");
            world.link("../../nowhere", "src/link");
            let words = format!("-rlR {words}");
            let line = format!("{words} {} {}", way.from("src/link"), way.to("dst/"));
            assert_eq!(world.sync(&line.split(' ').collect::<Vec<_>>()).code, Some(code), "{line}");
            assert_eq!(world.exists("dst/src"), made, "{line}");
            if crate::common::is_installed("rsync") {
                let line = format!("{words} src/link other/");
                let mut rsync = world.command("rsync", line.split(' '));
                assert_eq!(crate::common::Run::of(&mut rsync).code, Some(code), "{line}");
                assert_eq!(world.exists("other/src"), made, "{line}");
                let _ = std::fs::remove_dir_all(world.path("other"));
            }
        }
    }
}

#[test]
fn unsafe_links_are_left_out_and_nothing_goes_for_them() {
    for way in WAYS {
        let world = world();
        world.write("dst/out to file", "stays");
        let words = format!("-a --delete --safe-links {} {}", way.from("src/"), way.to("dst/"));
        let run = world.sync(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!((&*run.stdout, &*run.stderr), ("", ""), "{way:?}");
        assert!(world.exists("dst/to dir") && !world.exists("dst/out to dir"), "{way:?}");
        assert_eq!(world.read("dst/out to file"), b"stays", "{way:?}");
    }
}

#[test]
fn unsafe_links_are_named_where_names_are_as_in_rsync() {
    for way in WAYS {
        for (words, is_named) in [
            ("-a", false),
            ("-ai", false),
            ("-av", true),
            ("-a --info=name", true),
            ("-a --info=symsafe", false),
            ("-av --info=symsafe0", true),
            ("-aqv", false),
        ] {
            let world = world();
            let named = |run: &crate::common::Run| {
                let log = String::from_utf8(world.read("log")).expect("it is text");
                std::fs::remove_file(world.path("log")).expect("it is ours");
                [&run.stdout, &log]
                    .map(|text| text.contains("ignoring unsafe symlink \"out to dir\" ->"))
            };
            let words = format!("{words} --safe-links --log-file=log");
            let run = world.ok(&format!("{words} {} {}", way.from("src/"), way.to("dst")));
            assert_eq!(named(&run), [is_named; 2], "{way:?} {words} {run:#?}");
            let words = words.split(' ').chain(["src/", "rsync"]).collect::<Vec<_>>();
            if let Some(run) = crate::common::rsync(&world, &words) {
                assert_eq!(named(&run), [is_named; 2], "{words:?} {run:#?}");
            }
        }
    }
}

#[test]
fn munged_links_lead_nowhere_and_come_back() {
    for way in WAYS {
        let world = world();
        world.link("dir", "src/link");
        let target = |name: &str| std::fs::read_link(world.path(name)).unwrap();
        // The word is for this end: on one machine that is the sources.
        let (munge, unmunge) = match way {
            Way::Pull => ("--munge-links", "-M--munge-links"),
            Way::Local | Way::Push => ("-M--munge-links", "--munge-links"),
        };
        sync(&world, way, munge);
        assert_eq!(target("dst/to dir").to_str(), Some("/rsyncd-munged/dir"), "{way:?}");
        let words = format!("-ai {munge} {} {}", way.from("src/"), way.to("dst/"));
        assert_eq!(world.ok(&words).stdout, "", "they are what they should be");
        let words = |options: &str, to| format!("-a {options} {} {}", way.from("dst/"), way.to(to));
        world.ok(&words(unmunge, "plain/"));
        world.assert_same("src", "plain");
        world.ok(&words(&format!("{unmunge} {munge}"), "again/"));
        world.assert_same("dst", "again");
        world.ok(&words(munge, "twice/"));
        let twice = "/rsyncd-munged//rsyncd-munged/dir";
        assert_eq!(target("twice/to dir").to_str(), Some(twice), "{way:?}");
        world.ok(&format!("-a {unmunge} {} {}", way.from("dst/link"), way.to("alone/")));
        assert_eq!(target("alone/link").to_str(), Some("dir"), "a source by its name, {way:?}");
        world.ok(&words(&format!("{unmunge} --remove-source-files"), "moved/"));
        assert_eq!(target("moved/link").to_str(), Some("dir"), "{way:?}");
        assert!(!world.exists("dst/link"), "it is what was sent, {way:?}");
    }
}

#[test]
fn what_is_left_out_need_not_lead_anywhere() {
    let world = World::new();
    world.link("nowhere", "src/link");
    world.write("src/file", "x");
    world.ok("-rL --exclude=link src/ dst/");
    // It may have led to a directory.
    world.ok("-rL --exclude=link/ src/ dst/");
    world.fails(23, "-rL --exclude=file src/ dst/");
    // A source as well, unless all links are followed: then it is not there.
    world.link("/nowhere", "src/away");
    for (words, code) in [
        ("--copy-unsafe-links --exclude=away", 0),
        ("--copy-unsafe-links --exclude=away/", 23),
        ("--copy-unsafe-links --exclude=file", 23),
        ("-L --exclude=away", 23),
    ] {
        let line = format!("-rl {words} src/away src/file dst/");
        assert_eq!(world.sync(&line.split(' ').collect::<Vec<_>>()).code, Some(code), "{line}");
        if crate::common::is_installed("rsync") {
            let mut rsync = world.command("rsync", line.split(' '));
            assert_eq!(crate::common::Run::of(&mut rsync).code, Some(code), "rsync {line}");
        }
    }
}

#[test]
fn a_source_that_is_a_link_to_around_the_destination_is_copied_as_a_link() {
    let world = World::new();
    world.link("..", "src/up");
    world.mkdir("dst");
    world.ok("-a src/up dst/");
    assert_eq!(std::fs::read_link(world.path("dst/up")).unwrap(), std::path::Path::new(".."));
    let run = world.sync(&["-a", "src/up/", "dst/"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(run.stdout, "skipping directory dst: it is the destination\n");
    assert_eq!(std::fs::read_link(world.path("dst/src/up")).unwrap(), std::path::Path::new(".."));
    // Followed, it leads into itself, as far as the system lets it.
    let run = world.fails(23, "-aL src/up dst/");
    assert!(run.stdout.contains("up/dst: it is the destination"), "{run:#?}");
}

#[test]
fn a_dry_run_and_a_comparison_see_past_a_link_in_the_place_of_a_directory() {
    for way in WAYS {
        let world = World::new();
        world.write("src/dir/file", "new");
        world.write("outside/file", "outside");
        world.write("dst/gone", "old");
        world.link("../outside", "dst/dir");
        let words = format!("-ai --delete {} {}", way.from("src/"), way.to("dst/"));
        let lines = |run: crate::common::Run| {
            let mut lines: Vec<_> = run.stdout.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let planned = lines(world.ok(&format!("-n {words}")));
        assert!(
            planned.iter().any(|line| line.ends_with("f+++++++++ dir/file")),
            "{way:?} {planned:?}"
        );
        assert_eq!(lines(world.ok(&words)), planned, "{way:?}");
        world.assert_same("src", "dst");
        assert_eq!(world.read("outside/file"), b"outside");
    }
    let world = World::new();
    world.write("src/dir/file", "new");
    world.mkdir("dst");
    world.link("../src/dir", "dst/dir");
    let run =
        crate::common::Run::of(&mut world.command(crate::common::DELTIC, ["verify", "src", "dst"]));
    assert_eq!((run.code, &*run.stderr), (Some(26), ""), "{run:#?}");
}

/// Sources, a destination and files in `out`, and a directory of another user with links of his to them.
fn world_of_another() -> World {
    let world = World::new();
    world.write("src/a", "a");
    world.write("src/b", "b");
    world.write("src/sub/c", "c");
    world.write("out/list", "a\n");
    world.mkdir("dst");
    world.mkdir("his");
    for (target, name) in [("../out", "out"), ("../src", "src"), ("../out/log", "log")] {
        world.link(target, &format!("his/{name}"));
        lchown(world.path(format!("his/{name}")), Some(12345), None).expect("we are root");
    }
    lchown(world.path("his"), Some(12345), None).expect("we are root");
    world
}

const OF_ANOTHER: &str = "a symlink of another user (--insecure-links follows it)";

#[test]
fn a_destination_behind_a_link_of_another_user_is_refused() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    for way in WAYS {
        for (options, from, to) in [
            ("-r", "src/", "his/out"),
            ("-r", "src/", "his/out/"),
            ("-rn", "src/", "his/out/"),
            ("-r", "src/", "his/out/new"),
            ("-r --mkpath", "src/", "his/out/x/y"),
            ("", "src/a", "his/out/file"),
            ("--mkpath", "src/a", "his/out/x/file"),
        ] {
            let world = world_of_another();
            let words = format!("{options} {} {}", way.from(from), way.to(to));
            let run = world.fails(3, &words);
            assert!(run.stderr.contains(OF_ANOTHER), "{words} {run:#?}");
            assert_eq!(world.names("out"), ["list"], "{words}");
            world.ok(&format!("--insecure-links {words}"));
            assert_eq!(world.names("out").len() > 1, options != "-rn", "{words}");
        }
        // In its own place it is replaced, whatever it leads to; one's own is followed.
        let world = world_of_another();
        world.ok(&format!("{} {}", way.from("src/a"), way.to("his/log")));
        assert!(!world.path("his/log").is_symlink() && !world.exists("out/log"));
        world.link("out", "mine");
        world.ok(&format!("-r {} {}", way.from("src/"), way.to("mine/")));
        assert_eq!(world.read("out/sub/c"), b"c");
    }
}

#[test]
fn a_source_behind_a_link_of_another_user_is_not_read() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    for way in WAYS {
        for from in ["his/src/", "his/src/sub", "his/src/a"] {
            for options in ["-r", "-rL", "-rR"] {
                let world = world_of_another();
                let words = format!("{options} {} {}", way.from(from), way.to("dst/"));
                let run = world.fails(23, &words);
                let came = ["a", "sub", "his/src/a", "his/src/sub"];
                assert!(came.iter().all(|name| !world.exists(format!("dst/{name}"))), "{words}");
                assert!(run.stderr.contains("symlink"), "{words} {run:#?}");
                world.ok(&format!("--insecure-links {words}"));
                assert!(!world.names("dst").is_empty(), "{words}");
            }
        }
        // As such it is copied.
        let world = world_of_another();
        world.ok(&format!("-rl {} {}", way.from("his/src"), way.to("dst/")));
        assert!(world.path("dst/src").is_symlink());
    }
}

#[test]
fn files_of_options_are_not_reached_through_links_of_others() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    for (option, code) in [
        ("--files-from=", 1),
        ("--exclude-from=", 11),
        ("--include-from=", 11),
        ("--filter=._", 11),
        ("--write-batch=", 3),
        ("--only-write-batch=", 3),
    ] {
        let world = world_of_another();
        let words = format!("-r {option}his/out/list src/ dst/");
        let run = world.fails(code, &words);
        assert!(run.stderr.contains(OF_ANOTHER), "{words} {run:#?}");
        assert!(world.names("dst").is_empty() && world.read("out/list") == b"a\n", "{words}");
        if !option.contains("filter") {
            world.ok(&format!("--insecure-links {words}"));
            assert_eq!(world.names("dst").is_empty(), option.starts_with("--only"), "{words}");
        }
    }
    // A link in the place of the batch itself, and not on the way to it.
    let world = world_of_another();
    let run = world.fails(11, "-r --write-batch=his/log src/ dst/");
    assert!(run.stderr.contains(OF_ANOTHER) && world.names("dst").is_empty(), "{run:#?}");
    // A log is done without, as in rsync.
    let world = world_of_another();
    let run = world.sync(&["-r", "--log-file=his/log", "src/", "dst/"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stderr.contains(OF_ANOTHER) && !world.exists("out/log"), "{run:#?}");
    world.ok("-r --insecure-links --log-file=his/log src/ dst/");
    assert!(world.exists("out/log"));
    world.ok("-r --write-batch=batch src/ dst/");
    fs::rename(world.path("batch"), world.path("out/batch")).expect("it was made");
    let run = world.fails(11, "--read-batch=his/out/batch dst/");
    assert!(run.stderr.contains(OF_ANOTHER), "{run:#?}");
    world.ok("-r --insecure-links --read-batch=his/out/batch dst/");
}

#[test]
fn a_list_on_the_other_side_is_not_reached_through_links_of_others() {
    if !is_root() {
        return skip("only root can make links of others");
    }
    let world = world_of_another();
    let list = world.path("his/out/list").display().to_string();
    let words = format!("--files-from=:{list} {} dst/", Way::Pull.from("src/"));
    let run = world.fails(3, &words);
    assert!(run.stderr.contains(OF_ANOTHER) && world.names("dst").is_empty(), "{run:#?}");
    world.ok(&format!("--insecure-links {words}"));
    assert_eq!(world.names("dst"), ["a"]);
}

#[test]
fn what_only_the_kernel_can_follow_is_followed() {
    let world = world();
    for option in ["--files-from", "--exclude-from"] {
        let run = std::process::Command::new("bash")
            .args(["-c", "exec \"$0\" sync -r \"$1\"=<(echo dir/file) src/ dst/"])
            .args([crate::common::DELTIC, option])
            .current_dir(world.path(""))
            .output();
        let Ok(run) = run else { return skip("bash is not installed") };
        assert!(run.status.success(), "{option} {run:?}");
    }
    world.ok("-r --log-file=/dev/null src/ dst/");
    assert_eq!(world.read("dst/dir/file"), b"inside");
}

/// The layout of backups that rsync 3.4 and 3.5 broke: every way to a root leads through links of one's own, relative
/// ones and absolute ones.
fn world_behind_own_links() -> World {
    let world = World::new();
    world.write("src/dir/big", edited(&noise(300_000, 1), 200_000));
    world.write("src/same", "same");
    world.mkdir("disk/backups/old");
    for from in ["now", "before"] {
        world.write(format!("disk/backups/{from}/dir/big"), noise(300_000, 1));
        world.write(format!("disk/backups/{from}/gone"), "gone");
        world.write(format!("disk/backups/{from}/same"), "same");
        for (name, time) in [("same", 5), ("gone", 5), ("dir/big", 5)] {
            world.set_time(format!("disk/backups/{from}/{name}"), time);
        }
    }
    world.set_time("src/same", 5);
    let disk = world.path("disk").display().to_string();
    for (target, name) in
        [(&*disk, "run"), ("run/backups", "mnt"), ("now", "disk/backups/latest"), ("src", "from")]
    {
        world.link(target, name);
    }
    world.link(&world.path("src").display().to_string(), "absolute");
    world
}

#[test]
fn roots_and_backup_directories_behind_links_of_ones_own_are_reached() {
    for way in WAYS {
        for (options, to) in [
            ("-b --backup-dir=../old/today", "mnt/now/"),
            ("-b --backup-dir=../old/today", "mnt/latest/"),
            ("-b --backup-dir=ABS/mnt/old/today", "mnt/now"),
            ("--partial-dir=ABS/mnt/old/parts", "mnt/now/"),
            ("--temp-dir=../old", "mnt/now/"),
            ("--no-whole-file --inplace", "mnt/latest/"),
        ] {
            for from in ["src/", "from/", "absolute/"] {
                let world = world_behind_own_links();
                let options = options.replace("ABS", &world.path("").display().to_string());
                world.ok(&format!("-a --delete {options} {} {}", way.from(from), way.to(to)));
                world.assert_same("src", "disk/backups/now");
                let backups = ["dir/big", "gone"].map(|name| format!("mnt/old/today/{name}"));
                let are_kept = backups.iter().all(|name| world.exists(name));
                assert_eq!(are_kept, options.contains("backup-dir"), "{way:?} {options} {to}");
            }
        }
        // The directory that is compared with is a sibling, or a link to one.
        for compared in ["../before", "../latest", "ABS/mnt/latest"] {
            let world = world_behind_own_links();
            let compared = compared.replace("ABS", &world.path("").display().to_string());
            let to = way.to("mnt/new/");
            world.ok(&format!("-a --link-dest={compared} {} {to}", way.from("from/")));
            world.assert_same("src", "disk/backups/new");
            let from = if compared.contains("before") { "before" } else { "now" };
            let inode = |dir: &str| world.inode(&format!("disk/backups/{dir}/same"));
            assert_eq!(inode("new"), inode(from), "{way:?} {compared}");
        }
    }
}

#[test]
fn names_behind_links_of_ones_own_are_read_and_written() {
    for way in WAYS {
        // A list of names leads through a link in the source.
        let world = world_behind_own_links();
        world.write("list", "from/dir/big\nabsolute/same\n");
        world.ok(&format!("-rt --files-from=list {} {}", way.from("."), way.to("mnt/named/")));
        assert_eq!(world.read("mnt/named/from/dir/big"), world.read("src/dir/big"), "{way:?}");
        assert_eq!(world.read("mnt/named/absolute/same"), b"same", "{way:?}");
        // A directory of the destination is a link, and what is behind it is the old version.
        for option in ["", "--inplace", "--partial-dir=.parts", "-b", "--delay-updates"] {
            let world = world_behind_own_links();
            fs::rename(world.path("mnt/now/dir"), world.path("mnt/now/real")).expect("it is there");
            world.link("real", "mnt/now/dir");
            let ends = format!("{} {}", way.from("from/"), way.to("mnt/now/"));
            world.ok(&format!("-aK --no-whole-file {option} {ends}"));
            assert!(world.path("mnt/now/dir").is_symlink(), "{way:?} {option}");
            assert_eq!(
                world.read("mnt/now/real/big"),
                world.read("src/dir/big"),
                "{way:?} {option}"
            );
        }
    }
}
