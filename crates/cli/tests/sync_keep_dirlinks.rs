//! `-K`: links at the destination are the directories that they lead to, where the sources have directories.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::tree::picture;
use crate::common::{Run, WAYS, Way, World, noise, rsync};

fn words(way: Way, options: &str) -> String {
    format!("{options} {} {}", way.from("src/"), way.to("dst/"))
}

/// A destination in which directories lie elsewhere.
fn linked() -> World {
    let world = World::new();
    for name in ["in/a", "out/b", "out/deep/c", "plain/d"] {
        world.write(format!("src/{name}"), name);
    }
    world.link("points", "src/link");
    world.write("dst/real/old", "stays unless it is deleted");
    world.mkdir("dst/elsewhere/again");
    world.mkdir("dst/further");
    world.link("real", "dst/in");
    world.link("elsewhere", "dst/out");
    world.link("../further", "dst/elsewhere/deep");
    world.write("dst/target", "x");
    world.link("target", "dst/link");
    world
}

#[test]
fn links_to_directories_stay_and_what_comes_lies_behind_them() {
    for way in WAYS {
        let world = linked();
        let told = world.ok(&words(way, "-aKi")).stdout;
        assert!(world.path("dst/in").is_symlink() && world.path("dst/out").is_symlink());
        assert_eq!(world.read("dst/real/a"), b"in/a", "{way:?}");
        assert_eq!(world.read("dst/elsewhere/b"), b"out/b", "{way:?}");
        assert_eq!(world.read("dst/further/c"), b"out/deep/c", "{way:?}");
        assert!(!told.contains("cd+++++++++ in/"), "{way:?}: {told}");
        // A link stays a link where the source has one.
        assert_eq!(fs::read_link(world.path("dst/link")).unwrap().to_str(), Some("points"));
        for dir in ["dst", "dst/elsewhere", "dst/further", "dst/real"] {
            world.assert_clean(dir);
        }
        assert_eq!(world.ok(&words(way, "-aKi")).stdout, "", "{way:?}");
        if let Some(run) = rsync(&world, &["-aKni", "src/", "dst/"]) {
            assert_eq!(run.stdout, "", "{way:?}");
        }
    }
}

#[test]
fn what_came_through_a_link_is_not_deleted_under_another_name() {
    for way in WAYS {
        let world = World::new();
        world.write("src/d/f", "new");
        world.write("src/d/sub/g", "new");
        world.write("src/e/h", "new");
        world.write("dst/real/old", "goes: the source has a directory d without it");
        world.write("dst/above/below/h", "of another length");
        world.write("dst/gone/x", "goes");
        world.link("real", "dst/d");
        world.link("above/below", "dst/e");
        let sync = |options| world.sync(&[options, "--delete", &way.from("src/"), &way.to("dst/")]);
        let dry = sync("-aKin");
        for round in 0..2 {
            let run = sync("-aKi");
            assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
            if round == 0 {
                let deleted = |run: &Run| {
                    let told = run.stdout.lines().filter(|line| line.starts_with("*deleting"));
                    told.map(str::to_owned).collect::<BTreeSet<_>>()
                };
                assert_eq!(deleted(&dry), deleted(&run), "{way:?} {run:#?}");
            }
            assert_eq!(world.read("dst/real/f"), b"new", "{way:?}");
            assert_eq!(world.read("dst/real/sub/g"), b"new", "{way:?}");
            assert_eq!(world.read("dst/above/below/h"), b"new", "{way:?}");
            assert!(!world.exists("dst/real/old") && !world.exists("dst/gone"), "{way:?}");
        }
        // Without the links they are names like others.
        world.ok(&format!("-a --delete {} {}", way.from("src/"), way.to("dst/")));
        world.assert_same("src", "dst");
    }
}

/// What came by either name stays, and so does what came by neither: nobody can tell whose it was.
#[test]
fn what_came_under_one_of_two_names_of_a_directory_is_not_deleted_under_the_other() {
    for way in WAYS {
        for (links, listed) in [
            (&[("real", "dst/d")][..], ["d/f", "real/z", "d/sub/g", "real/sub/y"]),
            (&[(".", "dst/d")], ["d/f", "real/z", "d/sub/g", "y"]),
            (&[("real", "dst/d"), ("real", "dst/e")], ["d/f", "e/z", "d/sub/g", "e/sub/y"]),
            (&[("real/below", "dst/d")], ["d/f", "real/below/z", "real/y", "d/sub/g"]),
        ] {
            let world = World::new();
            for name in listed {
                world.write(format!("src/{name}"), name);
            }
            world.mkdir("dst/real/below");
            world.write("dst/gone/x", "goes");
            links.iter().for_each(|(target, name)| world.link(target, name));
            for round in 0..4 {
                let run = world.sync(&["-aK", "--delete", &way.from("src/"), &way.to("dst/")]);
                assert_eq!(run.code, Some(0), "{way:?} {links:?} {run:#?}");
                for name in listed {
                    let is = world.exists(format!("dst/{name}"));
                    assert!(is, "{way:?} {links:?} {name}, round {round}");
                }
                assert!(world.path(links[0].1).is_symlink(), "{way:?} {links:?}");
                // Of the root itself anything may have come under the other name.
                assert_eq!(world.exists("dst/gone"), links[0].0 == ".", "{way:?} {links:?}");
            }
        }
    }
}

#[test]
fn without_it_links_give_way_and_nothing_behind_them_is_touched() {
    for way in WAYS {
        let world = linked();
        let before = [picture(&world.path("dst/elsewhere")), picture(&world.path("dst/real"))];
        world.ok(&words(way, "-a"));
        assert!(!world.path("dst/in").is_symlink() && !world.path("dst/out").is_symlink());
        let after = [picture(&world.path("dst/elsewhere")), picture(&world.path("dst/real"))];
        assert_eq!(after, before, "{way:?}");
        world.assert_same("src/out", "dst/out");
    }
}

#[test]
fn a_dry_run_looks_behind_them_and_a_deletion_removes_there() {
    for way in WAYS {
        let world = linked();
        let before = [picture(&world.path("dst/elsewhere")), picture(&world.path("dst"))];
        let told = world.ok(&words(way, "-aKin --delete")).stdout;
        assert!(told.contains("*deleting   in/old\n"), "{way:?}: {told}");
        assert!(told.contains("*deleting   out/again/\n"), "{way:?}: {told}");
        assert_eq!([picture(&world.path("dst/elsewhere")), picture(&world.path("dst"))], before);
        world.ok(&words(way, "-aK --delete --exclude=/real --exclude=/target --exclude=/elsewhere --exclude=/further"));
        assert!(!world.exists("dst/elsewhere/again") && !world.exists("dst/real/old"), "{way:?}");
        assert!(world.path("dst/in").is_symlink());
        // The link alone goes where the source has nothing of its name.
        fs::remove_dir_all(world.path("src/out")).unwrap();
        world.ok(&words(way, "-aK --delete --exclude=/real --exclude=/target --exclude=/elsewhere --exclude=/further"));
        assert!(!world.exists("dst/out") && world.exists("dst/elsewhere/b"), "{way:?}");
    }
}

#[test]
fn links_that_lead_out_are_neither_followed_nor_replaced() {
    for target in ["../outside", "/", "in/../../outside"] {
        let world = linked();
        world.mkdir("outside");
        fs::remove_file(world.path("dst/out")).unwrap();
        world.link(target, "dst/out");
        let run = world.fails(23, "-aK --delete src/ dst/");
        assert!(
            run.stderr.contains(&world.told("read", "dst/out", "a symlink is in the way")),
            "{run:#?}"
        );
        assert_eq!(fs::read_link(world.path("dst/out")).unwrap().to_str(), Some(target));
        assert!(world.names("outside").is_empty());
        // The rest came.
        assert_eq!(world.read("dst/real/a"), b"in/a");
    }
}

#[test]
fn links_that_lead_nowhere_or_to_files_give_way() {
    let world = World::new();
    for name in ["file/a", "gone/b", "round/c", "munged/d"] {
        world.write(format!("src/{name}"), name);
    }
    world.write("dst/target", "x");
    world.mkdir("dst/there");
    world.link("target", "dst/file");
    world.link("nowhere", "dst/gone");
    world.link("round", "dst/round");
    world.link("/rsyncd-munged/there", "dst/munged");
    world.ok("-aK src/ dst/");
    world.assert_same("src/file", "dst/file");
    for name in ["file", "gone", "round", "munged"] {
        assert!(world.path(format!("dst/{name}")).is_dir());
        assert!(!world.path(format!("dst/{name}")).is_symlink(), "{name}");
    }
}

/// What a link led to when it was looked at is what is written to.
#[test]
fn a_link_that_changes_meanwhile_leads_nobody_elsewhere() {
    for round in 0..3 {
        let world = World::new();
        for n in 0..200 {
            world.write(format!("src/d/sub/{n}"), noise(3000, n));
        }
        world.mkdir("dst/one");
        world.mkdir("dst/two");
        world.link("one", "dst/d");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (link, next) = (world.path("dst/d"), world.path("next"));
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let target = if n % 2 == 0 { "two" } else { "one" };
                    std::os::unix::fs::symlink(target, &next).unwrap();
                    fs::rename(&next, &link).unwrap();
                }
            });
            let run = world.sync(&["-rK", "--no-fsync", "src/", "dst/"]);
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(run.code, Some(0), "{round}: {run:#?}");
        });
        // All of it is in one of the two.
        let count = |dir: &str| {
            let dir = world.path(format!("dst/{dir}/sub"));
            dir.is_dir().then(|| fs::read_dir(dir).unwrap().count())
        };
        let mut counts = [count("one"), count("two")];
        counts.sort_unstable();
        assert_eq!(counts, [None, Some(200)], "{round}");
    }
}
