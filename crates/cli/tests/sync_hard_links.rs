//! `-H`: names of one file are names of one file at the destination.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::attrs::{ACCESS, acl, note, noted, set_times};
use crate::common::tree::picture;
use crate::common::{DELTIC, Run, WAYS, Way, World, edited, is_root, noise, rsync, skip};
use serde_json::Value;

fn name(world: &World, first: &str, other: &str) {
    fs::hard_link(world.path(first), world.path(other)).unwrap();
}

/// Files of several names in several directories, and one of a name outside.
fn linked() -> World {
    let world = World::new();
    world.write("src/a", noise(5000, 1));
    world.mkdir("src/d/e");
    for other in ["src/b", "src/d/c", "src/d/e/z"] {
        name(&world, "src/a", other);
    }
    world.link("nowhere", "src/l1");
    name(&world, "src/l1", "src/d/l2");
    world.write("src/alone", "x");
    world.write("src/d/half", "one of its names is elsewhere");
    name(&world, "src/d/half", "outside");
    world
}

fn words(way: Way, options: &str) -> String {
    format!("{options} {} {}", way.from("src/"), way.to("dst/"))
}

#[test]
fn an_acl_is_mapped_whichever_name_leads() {
    if !is_root() {
        return skip("only root may give files away");
    }
    for way in WAYS {
        let world = World::new();
        world.write("src/b", "x");
        note(&world.path("src/b"), ACCESS, &acl(1, 2).with_mode(0o660).to_bytes());
        // That one is here, so it leads and not the first.
        world.ok(&words(way, "-aA"));
        name(&world, "src/b", "src/a");
        world.ok(&words(way, "-aAH --chown=33:34"));
        let mapped = acl(33, 34).with_mode(0o660).to_bytes();
        for name in ["dst/a", "dst/b"] {
            assert_eq!(noted(&world.path(name), ACCESS).as_ref(), Some(&mapped), "{way:?} {name}");
        }
    }
}

/// The names of one file, for each that has several, as far as they are below `dir`.
fn groups(world: &World, dir: &str) -> Vec<Vec<PathBuf>> {
    let mut groups: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    for name in picture(&world.path(dir)).into_keys() {
        let path = Path::new(dir).join(&name);
        let inode = world.inode(path.to_str().unwrap());
        groups.entry(inode).or_default().push(name);
    }
    let mut groups: Vec<_> = groups.into_values().filter(|names| names.len() > 1).collect();
    groups.sort();
    groups
}

#[track_caller]
fn assert_linked(world: &World) {
    world.assert_same("src", "dst");
    assert_eq!(groups(world, "dst"), groups(world, "src"));
    world.assert_clean("dst");
}

#[test]
fn names_of_one_file_are_linked_and_it_is_sent_once() {
    for way in WAYS {
        let world = linked();
        let run = world.ok(&words(way, "-aH --stats"));
        assert_linked(&world);
        assert_eq!(run.stat("Literal data"), 5000 + 1 + 29, "{way:?}");
        assert_eq!(run.stat("Number of regular files transferred"), 3, "{way:?}");
        assert_eq!(world.ok(&words(way, "-aHi")).stdout, "", "nothing is left to do");
        // What rsync sees to be done is what is to be done.
        if let Some(run) = rsync(&world, &["-aHni", "--delete", "src/", "dst/"]) {
            assert_eq!(run.stdout, "");
        }
    }
}

#[test]
fn without_it_each_name_is_a_file() {
    let world = linked();
    world.ok(&words(Way::Push, "-a"));
    world.assert_same("src", "dst");
    assert_eq!(groups(&world, "dst"), Vec::<Vec<PathBuf>>::new());
}

#[test]
fn each_name_is_told_with_the_one_that_it_was_linked_to() {
    for dry in ["", " -n"] {
        for way in WAYS {
            let world = linked();
            world.mkdir("dst");
            let told = world.ok(&words(way, &format!("-aHi{dry}"))).stdout;
            for line in [
                "hf+++++++++ b => a",
                "hf+++++++++ d/c => a",
                "hf+++++++++ d/e/z => a",
                "hL+++++++++ d/l2 => l1",
            ] {
                assert!(told.lines().any(|told| told == line), "{way:?}{dry} {line}: {told}");
            }
            assert_eq!(world.names("dst").is_empty(), !dry.is_empty());
        }
    }
    let world = linked();
    world.mkdir("dst");
    let told = world.ok(&words(Way::Push, "-aH --json")).stdout;
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let event = events.iter().find(|event| event["path"] == "d/c").unwrap();
    assert_eq!((&event["action"], &event["linked_to"]), (&"created".into(), &"a".into()));
    let world = linked();
    world.mkdir("dst");
    assert!(world.ok(&words(Way::Push, "-aHv")).stdout.contains("\nd/c => a\n"));
}

/// As by rsync.
#[test]
fn a_name_that_is_linked_is_told_by_when_it_was_read_too() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a", "old");
        name(&world, "src/a", "src/b");
        world.ok(&words(way, "-aH"));
        world.write("src/a", "newer");
        note(&world.path("src/a"), "user.x", b"1");
        note(&world.path("src/a"), ACCESS, &acl(1, 1).with_mode(0o660).to_bytes());
        set_times(&world.path("src/a"), (200_000_000, 300_000_000));
        let told = world.ok(&words(way, "-aHUAXi")).stdout;
        let marks = |end: &str| {
            let line = told.lines().find(|line| line.ends_with(end));
            line.unwrap_or_else(|| panic!("{way:?}: {told}"))[1..11].to_owned()
        };
        assert_eq!([marks(" a"), marks(" b => a")], ["f.stp..uax", "f.stp..u.."], "{told}");
    }
}

#[test]
fn separate_files_become_one_and_what_is_linked_is_left_alone() {
    for way in WAYS {
        let world = linked();
        world.ok(&words(way, "-aH"));
        let (kept, content) = (world.inode("dst/d/c"), world.read("dst/b"));
        fs::remove_file(world.path("dst/b")).unwrap();
        world.write("dst/b", content);
        world.set_time("dst/b", 1_000_000_000);
        fs::remove_file(world.path("dst/d/e/z")).unwrap();
        fs::create_dir(world.path("dst/d/e/z")).unwrap();
        let told = world.ok(&words(way, "-aHi --stats")).stdout;
        assert!(told.contains("hf..t...... b => a\n"), "{way:?}: {told}");
        assert!(told.contains("hf+++++++++ d/e/z => a\n"), "{way:?}: {told}");
        assert_linked(&world);
        assert_eq!(world.inode("dst/d/c"), kept, "{way:?}");
        assert!(told.contains("Literal data: 0 bytes\n"), "{way:?}: {told}");
    }
}

#[test]
fn a_new_name_joins_the_one_that_is_here_though_it_is_listed_before_that() {
    for way in WAYS {
        for options in ["-aHb", "-aHbc"] {
            let world = World::new();
            world.write("src/m", noise(5000, 1));
            world.ok(&words(way, "-aH"));
            let kept = world.inode("dst/m");
            name(&world, "src/m", "src/a");
            name(&world, "src/m", "src/z");
            let told = world.ok(&words(way, &format!("{options}i --stats"))).stdout;
            assert!(told.contains("hf+++++++++ a => m\n"), "{way:?}: {told}");
            assert!(told.contains("Literal data: 0 bytes\n"), "{way:?}: {told}");
            assert_eq!(world.inode("dst/m"), kept, "{way:?}");
            assert_linked(&world);
        }
    }
}

#[test]
fn a_name_that_changed_leads_those_that_are_new() {
    for way in WAYS {
        let world = World::new();
        let old = noise(300_000, 1);
        world.write("dst/m", &old);
        world.write("src/m", edited(&old, 150_000));
        name(&world, "src/m", "src/a");
        let run = world.ok(&words(way, "-aHi --no-whole-file --stats"));
        assert!(run.stdout.contains("hf+++++++++ a => m\n"), "{way:?}: {run:#?}");
        assert!(run.stat("Literal data") < 100_000, "{way:?}: {run:#?}");
        assert_linked(&world);
    }
}

#[test]
fn a_file_that_sources_name_more_often_than_it_has_names_stays_one() {
    for way in WAYS {
        let world = World::new();
        world.write("src/d/a", "x");
        name(&world, "src/d/a", "src/d/b");
        let sources = ["src/d", "src/./d/b"].map(|source| way.from(source)).join(" ");
        world.ok(&format!("-aH {sources} {}", way.to("dst/")));
        let inodes = ["dst/b", "dst/d/a", "dst/d/b"].map(|name| world.inode(name));
        assert_eq!(inodes, [inodes[0]; 3], "{way:?}");
    }
}

#[test]
fn a_file_that_followed_links_show_more_often_than_it_has_names_stays_one() {
    for way in WAYS {
        let world = World::new();
        world.write("src/d/a", "x");
        name(&world, "src/d/a", "src/d/b");
        for link in ["src/x", "src/y"] {
            world.link("d", link);
        }
        world.ok(&words(way, "-rtLH"));
        let inode = world.inode("dst/d/a");
        for name in ["d/b", "x/a", "x/b", "y/a", "y/b"] {
            assert_eq!(world.inode(&format!("dst/{name}")), inode, "{way:?}: {name}");
        }
    }
}

#[test]
fn a_file_that_changed_stays_one() {
    for way in WAYS {
        let world = linked();
        world.ok(&words(way, "-aH"));
        let old = world.read("src/a");
        // All names of it change, since the bytes do.
        fs::write(world.path("src/a"), edited(&old, 1000)).unwrap();
        let run = world.ok(&words(way, "-aHi --stats --no-whole-file"));
        assert_linked(&world);
        assert!(run.stat("Literal data") < 5000, "{way:?}");
        // Its attributes alone.
        world.chmod("src/d/e/z", 0o600);
        let told = world.ok(&words(way, "-aHi")).stdout;
        assert_eq!(told, ".f...p..... a\n", "{way:?}");
        assert_linked(&world);
    }
}

#[test]
fn where_the_first_name_is_left_out_another_one_leads() {
    for way in WAYS {
        let world = linked();
        world.ok(&words(way, "-aH --exclude=/a"));
        assert!(!world.exists("dst/a"));
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/c"), "{way:?}");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/e/z"), "{way:?}");
        // Names that come later are linked to what is there.
        let run = world.ok(&words(way, "-aH --stats"));
        assert_linked(&world);
        assert!(run.stat("Number of regular files transferred") <= 1, "{way:?}");
        // What no longer takes part goes.
        world.ok(&words(way, "-aH --delete --delete-excluded --exclude=/b --exclude=z"));
        assert!(!world.exists("dst/b") && !world.exists("dst/d/e/z"));
        assert_eq!(world.inode("dst/a"), world.inode("dst/d/c"), "{way:?}");
    }
}

#[test]
fn options_that_pass_names_over_leave_the_others_together() {
    for way in WAYS {
        let world = linked();
        world.mkdir("dst/d");
        world.write("dst/d/c", "old");
        world.write("dst/b", "old");
        world.ok(&words(way, "-aH --existing"));
        assert!(!world.exists("dst/a") && !world.exists("dst/d/e"));
        assert_eq!(world.read("dst/b"), world.read("src/b"), "{way:?}");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/c"), "{way:?}");
        let world = linked();
        world.ok(&words(way, "-aH --max-size=100"));
        assert!(!world.exists("dst/a") && !world.exists("dst/b") && world.exists("dst/alone"));
        let world = linked();
        world.write("dst/a", "stays");
        world.ok(&words(way, "-aH --ignore-existing"));
        assert_eq!(world.read("dst/a"), b"stays");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/e/z"), "{way:?}");
        let world = linked();
        world.write("dst/a", noise(6000, 2));
        world.ok(&words(way, "-aH --append"));
        assert_eq!(world.read("dst/a"), noise(6000, 2), "{way:?}");
        assert_eq!(world.read("dst/b"), world.read("src/b"), "{way:?}");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/e/z"), "{way:?}");
    }
}

#[test]
fn a_first_name_that_fails_takes_no_other_with_it() {
    for way in WAYS {
        let world = linked();
        // Without a word to the contrary a full directory stays.
        world.write("dst/a/inside", "x");
        world.fails(23, &words(way, "-aH"));
        assert_eq!(world.read("dst/b"), world.read("src/b"), "{way:?}");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/c"), "{way:?}");
        assert_eq!(world.inode("dst/b"), world.inode("dst/d/e/z"), "{way:?}");
        // A directory in the way of a later one goes where others would.
        let world = linked();
        world.write("dst/b/inside", "x");
        world.ok(&words(way, "-aH --delete"));
        assert_linked(&world);
    }
}

#[test]
fn several_sources_and_whole_paths_share_files_too() {
    for way in WAYS {
        let world = World::new();
        world.write("one/a", noise(3000, 1));
        world.mkdir("two/sub");
        name(&world, "one/a", "two/sub/b");
        for options in ["-aH", "-aHR"] {
            let first = way.from("one");
            let second = if way == Way::Pull { ":two".into() } else { way.from("two") };
            world.ok(&format!("{options} {first} {second} {}", way.to("dst/")));
            assert_eq!(world.inode("dst/one/a"), world.inode("dst/two/sub/b"), "{way:?}");
            fs::remove_dir_all(world.path("dst")).unwrap();
        }
    }
}

#[test]
fn what_an_alternate_has_is_linked_once_for_all_names() {
    for way in WAYS {
        let world = linked();
        world.ok(&format!("-aH {} {}", way.from("src/"), way.to("alt/")));
        world.ok(&words(way, "-aH --link-dest=../alt"));
        assert_linked(&world);
        assert_eq!(world.inode("dst/a"), world.inode("alt/a"), "{way:?}");
        for usage in ["--copy-dest", "--compare-dest"] {
            fs::remove_dir_all(world.path("dst")).unwrap();
            world.ok(&words(way, &format!("-aH {usage}=../alt")));
            if usage == "--copy-dest" {
                assert_linked(&world);
            } else {
                assert!(!world.exists("dst/a") && !world.exists("dst/d/e/z"), "{way:?}");
            }
        }
    }
}

#[test]
fn an_alternate_that_has_any_name_has_the_file() {
    for way in WAYS {
        for kept in ["a", "b", "c"] {
            let world = World::new();
            world.write("src/a", "content");
            ["b", "c"].iter().for_each(|other| name(&world, "src/a", &format!("src/{other}")));
            world.mkdir("alt");
            fs::copy(world.path("src/a"), world.path(format!("alt/{kept}"))).unwrap();
            [format!("alt/{kept}"), "src/a".into()]
                .iter()
                .for_each(|name| world.set_time(name, 1_000_000));
            let run = |usage: &str| {
                fs::remove_dir_all(world.path("dst")).ok();
                world.ok(&words(way, &format!("-aHi --stats --{usage}-dest=../alt")))
            };
            let linked = run("link");
            assert_eq!(linked.stat("Literal data"), 0, "{way:?} {kept} {linked:#?}");
            for name in ["a", "b", "c"].map(|name| format!("dst/{name}")) {
                assert_eq!(
                    world.inode(&name),
                    world.inode(&format!("alt/{kept}")),
                    "{way:?} {kept}"
                );
            }
            let copied = run("copy");
            assert_eq!(copied.stat("Literal data"), 0, "{way:?} {kept} {copied:#?}");
            assert_eq!(groups(&world, "dst"), groups(&world, "src"), "{way:?} {kept}");
            // Those that it does not have are linked to each other.
            run("compare");
            let others: Vec<_> = ["a", "b", "c"].into_iter().filter(|name| *name != kept).collect();
            assert!(!world.exists(format!("dst/{kept}")), "{way:?} {kept}");
            assert_eq!(
                world.inode(&format!("dst/{}", others[0])),
                world.inode(&format!("dst/{}", others[1]))
            );
            // Nobody has it: the first one is sent.
            fs::write(world.path(format!("alt/{kept}")), "something else").unwrap();
            let sent = run("link");
            assert_eq!(sent.stat("Literal data"), 7, "{way:?} {kept} {sent:#?}");
            assert_eq!(groups(&world, "dst"), groups(&world, "src"), "{way:?} {kept}");
        }
    }
}

#[test]
fn backups_and_sources_that_go_know_of_all_names() {
    for way in WAYS {
        let world = linked();
        world.write("dst/b", "old");
        world.ok(&words(way, "-aH --backup --suffix=.old"));
        assert_eq!(world.read("dst/b.old"), b"old", "{way:?}");
        assert_eq!(world.inode("dst/a"), world.inode("dst/b"), "{way:?}");
        let before = groups(&world, "src");
        world.ok(&words(way, "-aH --remove-source-files"));
        fs::remove_file(world.path("dst/b.old")).unwrap();
        assert_eq!(groups(&world, "dst"), before, "{way:?}");
        assert!(!world.exists("src/a") && !world.exists("src/d/e/z") && !world.exists("src/d/l2"));
    }
}

#[test]
fn a_name_that_cannot_be_linked_is_sent_as_a_separate_file() {
    if !crate::common::is_root() || !crate::common::is_installed("mount") {
        return crate::common::skip("only root may mount something in the way of a link");
    }
    let world = linked();
    world.mkdir("dst/d");
    let (dir, tmpfs) = (world.path("dst/d"), ["-t", "tmpfs", "deltic", "dst/d"]);
    if Run::of(&mut world.command("mount", tmpfs)).code != Some(0) {
        return crate::common::skip("nothing can be mounted here");
    }
    let run = Run::of(&mut world.command(DELTIC, ["sync", "-aH", "src/", "dst/"]));
    let (content, one) = (world.read("dst/d/c"), world.inode("dst/d/c"));
    let other = world.inode("dst/d/e/z");
    Run::of(&mut world.command("umount", [dir]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stderr.contains("the name is sent as a separate file"), "{run:#?}");
    assert_eq!(content, world.read("src/a"));
    // Each by itself: the one that leads is on the other file system.
    assert_ne!(one, other);
    assert_eq!(world.inode("dst/a"), world.inode("dst/b"));
}

#[test]
fn a_name_that_comes_by_itself_brings_the_attributes_of_its_file() {
    for (words, place) in [("--ignore-existing", "a"), ("", "b")] {
        let world = World::new();
        world.write("src/a", "content");
        note(&world.path("src/a"), "user.note", b"value");
        fs::hard_link(world.path("src/a"), world.path("src/b")).unwrap();
        // One name is passed over and the other can be no name of it; or nothing can be linked there.
        match place {
            "a" => world.write("dst/a", "another"),
            _ => world.write("dst/b/full", "stays"),
        }
        let run =
            world.sync(&format!("-rtHX {words} src/ dst/").split_whitespace().collect::<Vec<_>>());
        let made = if place == "a" { "dst/b" } else { "dst/a" };
        assert_eq!(world.read(made), b"content", "{run:#?}");
        assert_eq!(
            noted(&world.path(made), "user.note").as_deref(),
            Some(&b"value"[..]),
            "{run:#?}"
        );
    }
}

#[test]
fn names_that_an_alternate_has_and_are_here_are_told_as_by_rsync() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a", "content");
        fs::hard_link(world.path("src/a"), world.path("src/b")).unwrap();
        world.ok("-aH src/ old/");
        let words = |more: &str, dir: &str| {
            let (from, to) = (way.from("src/"), way.to(dir));
            format!("-aH {more} --link-dest=../old {from} {to}")
        };
        world.ok(&words("", "dst/"));
        assert_eq!(world.inode("dst/b"), world.inode("old/a"));
        let again = world.ok(&words("-i", "dst/"));
        assert_eq!(again.stdout, "", "{way:?}");
        let again = world.ok(&words("-ii", "dst/"));
        if let Some(theirs) = rsync(&world, &["-aHii", "--link-dest=../old", "src/", "dst/"]) {
            assert_eq!(again.lines(), theirs.lines(), "{way:?}");
        }
    }
}

#[test]
fn a_name_is_replaced_though_another_one_of_its_file_got_attributes() {
    for (way, options) in WAYS.into_iter().flat_map(|way| ["-a", "-aH", "-a -W"].map(|o| (way, o)))
    {
        let world = World::new();
        let old = noise(100_000, 1);
        for n in 0..20 {
            let (here, there) = (format!("dst/{n}-a"), format!("dst/{n}-b"));
            // Both of what is looked at and replaced, and of what is opened and compared.
            let content = if n % 2 == 0 { &old[..5] } else { &old };
            world.write(&here, content);
            world.set_time(&here, 1_500_000_000);
            name(&world, &here, &there);
            world.write(format!("src/{n}-a"), content);
            world.set_time(format!("src/{n}-a"), 1_500_000_000);
            world.chmod(&format!("src/{n}-a"), 0o600);
            world.write(format!("src/{n}-b"), edited(content, 2));
        }
        world.write("dst/gone", "");
        world.ok(&words(way, &format!("{options} --delete")));
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_name_is_linked_anew_though_another_one_of_its_file_got_attributes() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("src/a");
        world.mkdir("dst/a");
        for n in 0..20 {
            world.write(format!("dst/{n}"), "e");
            world.set_time(format!("dst/{n}"), 1_500_000_000);
            name(&world, &format!("dst/{n}"), &format!("dst/a/{n}"));
            world.write(format!("src/{n}"), "e");
            world.set_time(format!("src/{n}"), 1_500_000_000);
            world.chmod(&format!("src/{n}"), 0o600);
            world.write(format!("src/r{n}"), "ra");
            name(&world, &format!("src/r{n}"), &format!("src/a/{n}"));
        }
        world.ok(&words(way, "-aH"));
        world.assert_same("src", "dst");
        assert_eq!(world.inode("dst/r7"), world.inode("dst/a/7"));
    }
}

#[test]
fn what_differs_in_time_alone_leaves_its_other_names_as_they_were() {
    for way in [Way::Push, Way::Pull] {
        let world = World::new();
        for (file, len) in [("large", 300_000), ("small", 100)] {
            world.write(format!("src/{file}"), noise(len, 3));
            world.write(format!("dst/{file}"), noise(len, 3));
            world.set_time(format!("dst/{file}"), 1_500_000_000);
            world.set_time(format!("src/{file}"), 1_600_000_000);
        }
        world.mkdir("yesterday");
        for file in ["large", "small"] {
            name(&world, &format!("dst/{file}"), &format!("yesterday/{file}"));
        }
        let inode = world.inode("dst/large");
        world.ok(&words(way, "-an"));
        assert_eq!((world.inode("dst/large"), world.time("dst/large").0), (inode, 1_500_000_000));
        world.ok(&words(way, "-a"));
        world.assert_same("src", "dst");
        for file in ["large", "small"] {
            let old = format!("yesterday/{file}");
            assert_eq!(world.time(&old).0, 1_500_000_000, "{way:?} {file}");
            assert_eq!(world.read(&old), world.read(format!("src/{file}")));
        }
        assert_ne!(world.inode("dst/large"), world.inode("yesterday/large"));
        // Of what looks equal a mode is set where it is, as by rsync.
        name(&world, "dst/large", "today");
        world.chmod("src/large", 0o600);
        world.ok(&words(way, "-a"));
        assert_eq!((world.inode("dst/large"), world.mode("today")), (world.inode("today"), 0o600));
        // Names of one file are touched as one.
        world.set_time("src/large", 1_700_000_000);
        name(&world, "dst/large", "dst/other");
        name(&world, "src/large", "src/other");
        let inode = world.inode("dst/large");
        world.ok(&words(way, "-aH"));
        world.assert_same("src", "dst");
        assert_eq!((world.inode("dst/large"), world.inode("dst/other")), (inode, inode));
    }
}

/// The other name was looked at before the first got its attributes.
#[test]
fn without_it_a_file_that_gets_attributes_is_told_once_as_by_rsync() {
    for options in ["-ai --size-only", "-aic", "-aiic", "-ain --size-only"] {
        for way in WAYS {
            let world = linked();
            world.ok("-aH src/ dst/");
            for (nth, first) in groups(&world, "dst").iter().map(|names| &names[0]).enumerate() {
                world.set_time(Path::new("dst").join(first), 1_000_000_000 + nth as i64);
            }
            // With -c either name may be compared first: by any name of a file, it is told once.
            let all = groups(&world, "dst");
            let first = |line: &str| {
                let (what, name) = line.split_at(line.len().min(12));
                let same =
                    all.iter().find(|names| names.iter().any(|other| other == Path::new(name)));
                format!(
                    "{what}{}",
                    same.map_or_else(|| Path::new(name), |names| &names[0]).display()
                )
            };
            let told = |run: Run| {
                let mut lines: Vec<_> = run.stdout.lines().map(first).collect();
                lines.sort_unstable();
                lines
            };
            let copy = Run::of(&mut world.command("cp", ["-a", "dst", "theirs"]));
            assert_eq!(copy.code, Some(0), "{copy:?}");
            let ours = told(world.ok(&words(way, options)));
            let rsync_words: Vec<_> = options.split(' ').chain(["src/", "theirs/"]).collect();
            let Some(theirs) = rsync(&world, &rsync_words) else { return };
            assert_eq!(ours, told(theirs), "{way:?} {options}");
        }
    }
}
