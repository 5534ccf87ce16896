//! Behaviour that scripts written for rsync rely on.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::attrs::{SOMEBODY, own};
use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, is_root, noise, rsync, skip};

/// A source on the way to which the destination has a symlink to `to`.
fn linked(to: &str) -> World {
    let world = World::new();
    world.write("src/path/file", "new");
    for dst in ["dst", "theirs"] {
        world.mkdir(&format!("{dst}/real"));
        world.link(to, &format!("{dst}/path"));
    }
    world
}

fn is_link(world: &World, name: &str) -> bool {
    world.path(name).symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

#[test]
fn a_link_on_the_way_is_kept_and_followed_without_implied_directories() {
    for way in WAYS {
        for words in ["-aRi --no-implied-dirs", "-aRi --no-implied-dirs --delete"] {
            let world = linked("real");
            let run = |source: &str| {
                world.ok(&format!("{words} {} {}", way.from(source), way.to("dst/")))
            };
            let told = run("src/./path/file").stdout;
            assert!(told.ends_with("f+++++++++ path/file\n"), "{way:?} {told}");
            assert!(is_link(&world, "dst/path") && world.read("dst/real/file") == b"new");
            assert_eq!(run("src/./path/file").stdout, "", "{way:?}");
            let theirs = words.split(' ').chain(["src/./path/file", "theirs/"]);
            if rsync(&world, &theirs.collect::<Vec<_>>()).is_some() {
                assert!(is_link(&world, "theirs/path") && world.exists("theirs/real/file"));
            }
            // A directory that is named is no link.
            run("src/./path");
            assert!(!is_link(&world, "dst/path") && world.exists("dst/path/file"), "{way:?}");
        }
        let world = linked("real");
        world.write("list", "path/file\n");
        let operands = format!("{} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("-a --no-implied-dirs --files-from=list {operands}"));
        assert!(is_link(&world, "dst/path") && world.exists("dst/real/file"), "{way:?}");
        world.ok(&format!("-a --files-from=list {operands}"));
        assert!(!is_link(&world, "dst/path") && world.exists("dst/path/file"), "{way:?}");
    }
}

#[test]
fn a_link_on_the_way_that_leads_out_or_is_anothers_is_not_followed() {
    for way in WAYS {
        let words =
            format!("-aR --no-implied-dirs {} {}", way.from("src/./path/file"), way.to("dst/"));
        let world = linked("../out");
        world.mkdir("out");
        world.fails(23, &words);
        assert!(is_link(&world, "dst/path") && world.names("out").is_empty(), "{way:?}");
        if !is_root() {
            skip("only root gives files away");
            continue;
        }
        let world = linked("real");
        own(&world.path("dst/path"), SOMEBODY, SOMEBODY);
        let run = world.fails(23, &words);
        assert!(run.stderr.contains("refusing to follow path"), "{run:#?}");
        assert!(is_link(&world, "dst/path") && world.names("dst/real").is_empty(), "{way:?}");
        // One of ours that leads on through it is no better.
        world.link("path", "dst/ours");
        fs::rename(world.path("src/path"), world.path("src/ours")).expect("it is ours");
        world.fails(23, &words.replace("path", "ours"));
        assert!(world.names("dst/real").is_empty(), "{way:?}");
        world.ok(&words.replace("path", "ours").replace("-aR", "-aR --insecure-links"));
        assert_eq!(world.read("dst/real/file"), b"new", "{way:?}");
    }
}

#[test]
fn what_another_program_left_of_delayed_updates_goes() {
    for words in ["-a --delete", "-a --delete --delay-updates"] {
        let world = World::new();
        world.write("src/a", "new");
        world.write("dst/.~tmp~/b", "left behind");
        world.ok(&format!("{words} src/ dst/"));
        assert_eq!(world.names("dst"), ["a"], "{words}");
    }
}

#[test]
fn zeros_that_stay_where_they_are_become_holes_in_place() {
    let zeros = vec![0; 2 << 20];
    let file = |end| [noise(1 << 20, 1), zeros.clone(), noise(1 << 20, end)].concat();
    for way in WAYS {
        for words in ["-aS --inplace --no-whole-file", "-aS --inplace -W"] {
            let world = World::new();
            world.write("src/file", file(2));
            for dst in ["dst", "theirs"] {
                world.write(format!("{dst}/file"), file(3));
                world.set_time(format!("{dst}/file"), 1_000_000_000);
            }
            let inode = world.inode("dst/file");
            world.ok(&format!("{words} {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            assert_eq!(world.inode("dst/file"), inode, "{way:?} {words}");
            let blocks = |name: &str| fs::metadata(world.path(name)).expect("it is there").blocks();
            assert!(blocks("dst/file") <= (2 << 20) / 512 + 64, "{way:?} {words}");
            let theirs = words.split(' ').chain(["src/", "theirs/"]);
            if rsync(&world, &theirs.collect::<Vec<_>>()).is_some() {
                assert!(blocks("dst/file") <= blocks("theirs/file") + 64, "{way:?} {words}");
            }
        }
    }
}

/// What a list brings, by us and by rsync.
fn brought(world: &World, words: &str) -> Vec<String> {
    let names = |dst: &str| {
        let mut names = world.names(dst);
        names.sort();
        fs::remove_dir_all(world.path(dst)).expect("it is ours");
        world.mkdir(dst);
        names
    };
    world.ok(words);
    let ours = names("dst");
    let shell = SHELL.to_owned();
    let theirs: Vec<_> = ["-e", &shell].into_iter().chain(words.split_whitespace()).collect();
    if rsync(world, &theirs).is_some() {
        assert_eq!(names("dst"), ours, "{words}");
    }
    ours
}

#[test]
fn comments_in_lists_are_where_they_are_with_rsync() {
    let world = World::new();
    for name in ["#x", ";y", "z"] {
        world.write(format!("src/{name}"), name);
    }
    world.mkdir("dst");
    world.write("lines", "#x\n;y\nz\n");
    world.write("nuls", "#x\0;y\0z\0");
    let all = ["#x", ";y", "z"];
    for list in ["--files-from=LIST", "-0 --files-from=LIST"] {
        let list = list.replace("LIST", if list.starts_with("-0") { "nuls" } else { "lines" });
        let there = list.replace("from=", "from=:");
        let bring = |list: &str, way: Way| {
            brought(&world, &format!("-a {list} {} {}", way.from("src/"), way.to("dst/")))
        };
        assert_eq!(bring(&list, Way::Local), ["z"], "{list}");
        assert_eq!(bring(&list, Way::Push), ["z"], "{list}");
        assert_eq!(bring(&list, Way::Pull), all, "{list}");
        assert_eq!(bring(&there, Way::Pull), ["z"], "{list}");
        assert_eq!(bring(&there, Way::Push), all, "{list}");
    }
}

#[test]
fn a_list_on_the_other_machine_may_be_for_sources_here() {
    let world = World::new();
    for n in 0..3000 {
        world.write(format!("src/d{}/{n}", n % 7), "x");
    }
    let listed: Vec<_> =
        (0..3000).filter(|n| n % 2 == 0).map(|n| format!("d{}/{n}\n", n % 7)).collect();
    world.write("there/list", listed.concat());
    for words in [
        "--files-from=:there/list",
        "--files-from=h:there/list --streams=2",
        "-z --files-from=:there/list",
    ] {
        // A further stream may come when all is done, which is said.
        let all = format!("-ai {words} src/ h:dst/");
        let sync = || world.sync(&all.split(' ').collect::<Vec<_>>());
        let run = sync();
        assert_eq!(run.stdout.matches("<f+++++++++ ").count(), 1500, "{words} {run:#?}");
        assert!(world.exists("dst/d2/2") && !world.exists("dst/d1/1"));
        let again = sync();
        assert_eq!((again.code, &*again.stdout), (Some(0), ""), "{words} {again:#?}");
        fs::remove_dir_all(world.path("dst")).expect("it is ours");
    }
    // Nothing above the source is sent, whatever the list says.
    world.write("secret", "x");
    world.write("there/up", "../secret\n/d0/0\n");
    let words = ["sync", "-a", "-e", SHELL, "--deltic-path", DELTIC, "--files-from=:there/up"];
    Run::of(&mut world.command(DELTIC, words.into_iter().chain(["src/", "h:dst/"])));
    assert!(!world.exists("dst/secret") && world.exists("dst/d0/0"));
    let run = world.fails(3, "-a --files-from=:none src/ h:dst/");
    assert!(run.stderr.contains("read none"), "{run:#?}");
    let run = world.fails(1, "-a --files-from=g:list src/ h:dst/");
    assert!(run.stderr.contains("differs from the host of the transfer"), "{run:#?}");
    let run = world.fails(1, "-a --files-from=:list src/ dst/");
    assert!(run.stderr.contains("when the transfer is local"), "{run:#?}");
}

#[test]
fn a_run_that_only_writes_a_batch_keeps_its_sources() {
    let world = World::new();
    world.write("src/file", "new");
    world.mkdir("dst");
    world.ok("-a --only-write-batch=B --remove-source-files src/ dst/");
    assert!(world.exists("src/file") && world.names("dst").is_empty());
    let run = Run::of(&mut world.command("sh", ["B.sh"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(world.exists("src/file") && world.exists("dst/file"));
}
