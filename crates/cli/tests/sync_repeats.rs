//! Contents that come more than once in a run, as files or in them: the bytes travel once.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use crate::common::{Run, Way, World, noise};

const REMOTE: [Way; 2] = [Way::Push, Way::Pull];

fn sync(world: &World, way: Way, options: &str) -> Run {
    let (src, dst) = (way.from("src/"), way.to("dst/"));
    world.ok(&format!("-a --no-fsync --stats {options} {src} {dst}"))
}

#[test]
fn equal_files_of_one_run_are_sent_once() {
    for way in REMOTE {
        let world = World::new();
        let bytes = noise(20_000_000, 1);
        for (time, name) in ["src/a/one.bin", "src/b/two.bin", "src/three.bin"].iter().enumerate() {
            world.write(name, &bytes);
            world.set_time(name, 1_000_000_000 + time as i64);
        }
        let run = sync(&world, way, "--delete");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert_eq!(run.stat("Literal data"), 20_000_000, "{way:?} {run:#?}");
        assert_eq!(run.stat("Matched data"), 40_000_000, "{way:?} {run:#?}");
        assert!(run.traffic() < 20_300_000, "{way:?} {run:#?}");
    }
}

#[test]
fn a_second_file_with_edits_costs_its_edits() {
    for way in REMOTE {
        let world = World::new();
        let mut bytes = noise(3_000_000, 1);
        world.write("src/a", &bytes);
        bytes[1_000_000..1_000_100].fill(7);
        world.write("src/b", &bytes);
        let run = sync(&world, way, "");
        world.assert_same("src", "dst");
        assert!(run.traffic() < 3_060_000, "{way:?} {run:#?}");
    }
}

#[test]
fn files_that_are_as_long_and_not_equal_come_all_the_same() {
    for way in REMOTE {
        for options in ["", "--delay-updates", "--whole-file", "--inplace", "--partial-dir=.p"] {
            let world = World::new();
            for n in 0..12 {
                world.write(format!("src/{n}"), noise(400_000, n % 6));
            }
            sync(&world, way, options);
            world.assert_same("src", "dst");
            world.assert_clean("dst");
        }
    }
}

/// Two files, one that is both of them, and one that is equal to the first; what both have in bytes.
fn write_shared(world: &World) -> u64 {
    let (a, c) = (noise(2_000_000, 1), noise(2_000_000, 2));
    world.write("src/a", &a);
    world.write("src/b", &a);
    world.write("src/c", &c);
    world.write("src/d", [c, a].concat());
    4_000_000
}

#[test]
fn parts_that_files_of_different_lengths_share_are_sent_once() {
    for way in REMOTE {
        for options in ["", "-z", "--inplace", "--partial-dir=.p", "-c"] {
            let world = World::new();
            let distinct = write_shared(&world);
            let run = sync(&world, way, options);
            world.assert_same("src", "dst");
            world.assert_clean("dst");
            let literal = run.stat("Literal data");
            assert!(literal <= distinct * 11 / 10, "{way:?} {options} {literal}: {run:#?}");
            assert!(run.traffic() < distinct * 11 / 10, "{way:?} {options}: {run:#?}");
            let again = sync(&world, way, options);
            assert_eq!(again.stat("Literal data"), 0, "{way:?} {options}: {again:#?}");
        }
    }
}

/// Asserts that of the files in `src` these bytes were sent, and little more crossed the line.
fn assert_sent(world: &World, run: &Run, distinct: u64) {
    world.assert_same("src", "dst");
    world.assert_clean("dst");
    let literal = run.stat("Literal data");
    assert!(literal <= distinct * 103 / 100, "{literal}: {run:#?}");
    assert!(run.traffic() < distinct * 105 / 100, "{run:#?}");
}

#[test]
fn parts_that_a_file_has_more_than_once_are_sent_once() {
    let (part, other) = (noise(2_000_000, 1), noise(100_000, 2));
    let bytes = [&part[..], &part, &other, &part, &other].concat();
    for way in REMOTE {
        for options in ["", "--inplace", "--partial-dir=.p", "--streams=4"] {
            let world = World::new();
            world.write("src/new", &bytes);
            let run = sync(&world, way, options);
            assert_sent(&world, &run, 2_100_000);
            let again = sync(&world, way, options);
            assert_eq!(again.stat("Literal data"), 0, "{way:?} {options}: {again:#?}");
            // What is there has none of it.
            world.write("src/new", [&noise(1_000_000, 3)[..], &bytes].concat());
            world.write("dst/new", noise(1_000_000, 3));
            let run = sync(&world, way, options);
            assert_sent(&world, &run, 2_100_000);
        }
    }
}

#[test]
fn parts_that_changed_files_gained_are_sent_once() {
    let gained = noise(3_000_000, 9);
    for way in REMOTE {
        for options in ["", "--inplace"] {
            let world = World::new();
            for seed in 1..4 {
                let old = noise(4_000_000, seed);
                world.write(format!("dst/{seed}"), &old);
                let (front, behind) = old.split_at(1_000_000 * seed as usize);
                world.write(format!("src/{seed}"), [front, &gained, behind].concat());
            }
            let run = sync(&world, way, options);
            assert_sent(&world, &run, 3_000_000);
        }
    }
}

#[test]
fn parts_come_as_they_are_where_files_are_not_matched_or_not_put_in_place() {
    for options in ["--whole-file", "--delay-updates", "--write-batch=kept", "-n"] {
        let world = World::new();
        write_shared(&world);
        let run = sync(&world, Way::Push, options);
        if options == "-n" {
            assert!(!world.path("dst/a").exists());
        } else {
            world.assert_same("src", "dst");
        }
        if options.starts_with("--write-batch") {
            world.ok("-a --read-batch=kept other/");
            world.assert_same("src", "other");
        }
        drop(run);
    }
}
