//! Files that come more than once in a run: the bytes travel once.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

mod common;

use common::{Run, Way, World, noise};

const REMOTE: [Way; 2] = [Way::Push, Way::Pull];

/// Bytes that crossed the line, both ways.
fn traffic(run: &Run) -> u64 {
    run.stat("Total bytes sent") + run.stat("Total bytes received")
}

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
        assert!(traffic(&run) < 20_300_000, "{way:?} {run:#?}");
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
        assert!(traffic(&run) < 3_060_000, "{way:?} {run:#?}");
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
