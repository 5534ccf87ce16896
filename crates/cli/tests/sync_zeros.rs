//! Zeros: holes and runs of zeros are not sent, and arrive as they were asked for.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::common::{DELTIC, Run, WAYS, Way, World, noise};

/// A file of `len` bytes with `data` in some places, and holes between.
fn sparse(world: &World, name: &str, len: u64, data: &[(u64, &[u8])]) {
    world.write(name, "");
    let file = OpenOptions::new().write(true).open(world.path(name)).unwrap();
    file.set_len(len).unwrap();
    data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
}

fn blocks(world: &World, name: &str) -> u64 {
    File::open(world.path(name)).unwrap().metadata().unwrap().blocks()
}

fn first_copy(world: &World, way: Way, options: &str) -> Run {
    let (src, dst) = (way.from("src/"), way.to("dst/"));
    world.ok(&format!("-a --no-fsync --stats --no-whole-file {options} {src} {dst}"))
}

#[test]
fn a_first_copy_of_an_image_costs_its_data() {
    for way in WAYS {
        let world = World::new();
        let (one, other) = (noise(3_000_000, 1), noise(1_000_001, 2));
        sparse(&world, "src/disk.img", 60_000_000, &[(4096, &one), (50_000_123, &other)]);
        // A single file is offered where the answer takes long, which costs a recipe in vain here.
        world.write("src/name", "an image");
        let run = first_copy(&world, way, "-S");
        world.assert_same("src", "dst");
        let sent = run.traffic();
        assert!((4_000_001..4_100_000).contains(&sent), "{way:?} {sent}");
        assert_eq!(run.stat("Literal data"), 60_000_008, "{way:?}");
        let (here, there) = (blocks(&world, "src/disk.img"), blocks(&world, "dst/disk.img"));
        assert!(there <= here + 64, "{way:?}: {there} blocks of {here}");
    }
}

#[test]
fn zeros_are_written_where_no_holes_are_asked_for() {
    for way in WAYS {
        let world = World::new();
        sparse(&world, "src/disk.img", 5_000_000, &[(1_000_000, &noise(10_000, 1))]);
        let run = first_copy(&world, way, "");
        world.assert_same("src", "dst");
        assert!(run.traffic() < 30_000, "{way:?} {run:#?}");
        assert!(blocks(&world, "dst/disk.img") >= 5_000_000 / 512, "{way:?}");
    }
}

#[test]
fn zeros_within_data_are_not_sent_however_long_the_file_is() {
    for (way, options) in WAYS.into_iter().flat_map(|way| ["", "-z"].map(|with| (way, with))) {
        let world = World::new();
        let page = |n| [noise(1000, n), vec![0; 7000]].concat();
        let pages = |from, count| (from..from + count).flat_map(page).collect::<Vec<_>>();
        world.write("src/one.db", pages(0, 1));
        world.write("src/some.db", pages(1, 10));
        world.write("src/many.db", pages(11, 400));
        let run = first_copy(&world, way, options);
        world.assert_same("src", "dst");
        let sent = run.traffic();
        assert!((411_000..430_000).contains(&sent), "{way:?} {options} {sent}");
    }
}

#[test]
fn zeros_that_come_into_a_file_cost_nothing() {
    for way in WAYS {
        let world = World::new();
        let old = noise(4_000_000, 1);
        world.write("dst/file", &old);
        world.set_time("dst/file", 1_000_000_000);
        let zeros = vec![0; 3_000_000];
        world.write("src/file", [&old[..2_500_000], &zeros, &old[2_500_000..]].concat());
        let run = first_copy(&world, way, "");
        world.assert_same("src", "dst");
        assert!(run.traffic() < 120_000, "{way:?} {run:#?}");
    }
}

#[test]
fn a_patch_keeps_holes() {
    let world = World::new();
    let (one, other) = (noise(100_000, 1), noise(90_000, 2));
    sparse(&world, "old", 60_000_000, &[(8192, &one)]);
    sparse(&world, "new", 60_000_000, &[(8192, &one), (40_000_000, &other)]);
    let deltic = |words: &str| {
        let run = Run::of(&mut world.command(DELTIC, words.split(' ')));
        assert_eq!(run.code, Some(0), "deltic {words}\n{run:#?}");
    };
    deltic("signature old -o sig");
    deltic("delta sig new -o delta");
    deltic("patch old delta -o made");
    assert!(world.read("made") == world.read("new"));
    let (here, there) = (blocks(&world, "new"), blocks(&world, "made"));
    assert!(there <= here + 64, "{there} blocks of {here}");
    // A file that ends in zeros is as long as it is.
    sparse(&world, "short", 9_000_000, &[(1, b"x")]);
    deltic("delta sig short -o delta");
    deltic("patch old delta -o made");
    assert!(world.read("made") == world.read("short"));
}
