//! Files that moved: found under other names at the destination, and copied.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use crate::common::{DELTIC, Run, SHELL, WAYS, Way, World, edited, noise};

const MOVED: &str = "Number of files matched under other names";

/// `deltic sync` of a whole tree, through a transport.
fn sync(world: &World, way: Way, options: &str) -> Run {
    let (src, dst) = (way.from("src/"), way.to("dst/"));
    world.ok(&format!("-a --no-fsync --stats --no-whole-file {options} {src} {dst}"))
}

/// `src` holds what `dst` held before it was tidied up.
fn tidied() -> World {
    let world = World::new();
    world.write("dst/images/disk.img", noise(8_000_000, 1));
    world.write("src/archive/2026/disk.img", noise(8_000_000, 1));
    for n in 0..40 {
        let bytes = noise(100_000, 10 + n);
        world.write(format!("dst/photos/sub/{n}.jpg"), &bytes);
        world.write(format!("src/pictures/sub/{n}.jpg"), &bytes);
        // Without its time: its name tells.
        if n % 2 == 0 {
            for name in [format!("dst/photos/sub/{n}.jpg"), format!("src/pictures/sub/{n}.jpg")] {
                world.set_time(name, 1_000_000_000);
            }
        }
    }
    world.write("dst/a.log", noise(300_000, 90));
    world.write("src/b.log", noise(300_000, 90));
    for name in ["dst/images/disk.img", "src/archive/2026/disk.img", "dst/a.log", "src/b.log"] {
        world.set_time(name, 1_100_000_000);
    }
    world
}

#[test]
fn what_moved_costs_its_name() {
    for way in WAYS {
        let world = tidied();
        let run = sync(&world, way, "--delete --force-delete");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert_eq!(run.stat("Literal data"), 0, "{way:?} {run:#?}");
        assert_eq!(run.stat("Matched data"), 12_300_000, "{way:?} {run:#?}");
        assert_eq!(run.stat(MOVED), 42, "{way:?}");
        assert!(run.traffic() < 123_000, "{way:?} {run:#?}");
    }
}

#[test]
fn what_was_edited_when_it_moved_costs_its_edits() {
    for way in WAYS {
        let world = World::new();
        let old = noise(6_000_000, 3);
        world.write("dst/here/data.bin", &old);
        world.write("dst/other/data.bin", noise(5_000_000, 4));
        world.write("src/there/here/data.bin", edited(&edited(&old, 5_000_000), 1_000_000));
        world.write("src/other/data.bin", noise(5_000_000, 4));
        for name in ["dst/other/data.bin", "src/other/data.bin"] {
            world.set_time(name, 1_000_000_000);
        }
        let run = sync(&world, way, "--delete");
        world.assert_same("src", "dst");
        assert!(run.traffic() < 40_000, "{way:?} {run:#?}");
    }
}

#[test]
fn a_file_that_comes_alone_is_looked_for_as_well() {
    let world = World::new();
    world.write("src/report", noise(2_000_000, 5));
    world.write("dst/a/b/c/draft", noise(2_000_000, 5));
    let run = world.ok("-t --stats src/report h:dst/final");
    assert_eq!(world.read("dst/final"), world.read("src/report"));
    // Nothing but its length speaks for it.
    assert_eq!((run.stat("Literal data"), run.stat(MOVED)), (0, 1), "{run:#?}");
}

#[test]
fn a_name_that_gets_new_content_lends_its_old_one_first() {
    let world = World::new();
    world.write("dst/log", noise(3_000_000, 6));
    world.write("src/log.1", noise(3_000_000, 6));
    world.write("src/log", noise(3_000_000, 7));
    for (name, secs) in [("dst/log", 5), ("src/log.1", 5), ("src/log", 6)] {
        world.set_time(name, 1_000_000_000 + secs);
    }
    let run = sync(&world, Way::Push, "");
    world.assert_same("src", "dst");
    assert!(run.stat("Literal data") <= 6_000_000, "{run:#?}");
}

#[test]
fn the_user_is_told_where_it_was() {
    let world = tidied();
    let told = world.ok("-aivn --explain src/ h:dst/");
    assert!(!told.stdout.contains("another name"), "a dry run looks for nothing: {told:#?}");
    let told = world.ok("-av --explain src/ h:dst/");
    let line =
        "as changes to a file of another name, in chunks of about 2.00 KiB (a.log); sent 0 B";
    assert!(told.stdout.contains(line), "{told:#?}");
    let world = tidied();
    let events = world.ok("-a --json h:src/ dst/");
    let line = events.stdout.lines().find(|line| line.contains("\"b.log\"")).unwrap();
    assert!(line.contains("\"from\":\"a.log\""), "{line}");
}

/// Nothing is read that rules hide, that is behind a link, or that lies outside.
#[test]
fn what_is_not_the_destinations_own_is_not_looked_at() {
    for (hidden, options) in [
        ("dst/secret/key", "--exclude=secret"),
        ("dst/secret/key", "--filter=P_secret/***"),
        ("elsewhere/key", ""),
    ] {
        let world = World::new();
        let bytes = noise(200_000, 8);
        world.write(hidden, &bytes);
        world.mkdir("dst");
        world.link("../elsewhere", "dst/link");
        world.write("src/guess/key", &bytes);
        for name in [hidden, "src/guess/key"] {
            world.set_time(name, 1_000_000_000);
        }
        let run = sync(&world, Way::Push, options);
        assert_eq!(run.stat("Literal data"), 200_000, "{hidden} {options} {run:#?}");
        assert_eq!(world.read("dst/guess/key"), bytes);
    }
}

#[test]
fn whole_files_and_other_strategies_look_for_nothing() {
    for options in ["-W", "--strategy=rsync"] {
        let world = tidied();
        let run = sync(&world, Way::Push, options);
        assert_eq!(run.stat("Literal data"), 12_300_000, "{options} {run:#?}");
    }
}

/// Somebody removes and changes what is matched against, all the time.
#[test]
fn whatever_becomes_of_the_old_name_the_new_one_is_right() {
    for round in 0..6 {
        let world = World::new();
        let bytes = noise(6_000_000, 20 + round);
        world.write("dst/old/big", &bytes);
        world.write("src/new/big", &bytes);
        for name in ["dst/old/big", "src/new/big"] {
            world.set_time(name, 1_000_000_000);
        }
        let words = ["sync", "-a", "-e", SHELL, "--deltic-path", DELTIC, "src/", "h:dst/"];
        let mut run = std::process::Command::new(DELTIC)
            .args(words)
            .current_dir(world.path(""))
            .spawn()
            .unwrap();
        let mut turn = 0u64;
        let status = loop {
            if let Some(status) = run.try_wait().unwrap() {
                break status;
            }
            turn += 1;
            let path = world.path("dst/old/big");
            match (turn + round) % 3 {
                0 => drop(std::fs::remove_file(path)),
                1 => drop(std::fs::write(path, noise(6_000_000, turn))),
                _ => drop(std::fs::write(path, &bytes[..4_000_000])),
            }
        };
        assert!(status.success(), "{status}");
        assert_eq!(world.read("dst/new/big"), bytes);
        world.assert_clean("dst");
    }
}
