//! Whole trees, in every direction: what was synced is what is there, and a second run finds nothing to do.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::tree::{ODD_NAMES, everything, set_time};
use crate::common::{WAYS, Way, World, edited, noise, rsync};

/// A world whose `src` holds something of everything.
fn world() -> World {
    let world = World::new();
    everything(&world.path("src"));
    world
}

fn sync(world: &World, way: Way, options: &str) -> crate::common::Run {
    world.ok(&format!("-a {options} {} {}", way.from("src/"), way.to("dst/")))
}

#[test]
fn a_tree_of_everything_arrives_complete_and_a_second_run_sends_nothing() {
    for way in WAYS {
        let world = world();
        let run = sync(&world, way, "--stats --no-fsync");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert_eq!(run.stat("Number of created files"), run.stat("Number of files"), "{way:?}");
        let again = sync(&world, way, "-i --stats --no-fsync");
        assert!(again.stdout.starts_with("\nNumber of files: "), "{way:?}: {}", again.stdout);
        for label in [
            "Number of created files",
            "Number of regular files transferred",
            "Literal data",
            "Matched data",
        ] {
            assert_eq!(again.stat(label), 0, "{way:?} {label}");
        }
        let sent = again.traffic();
        // What the ends tell of themselves comes besides.
        let most = 1000 + 50 * again.stat("Number of files");
        assert!(sent < most, "{way:?}: {sent} bytes for nothing");
    }
}

#[test]
fn what_changed_in_the_source_changes_in_the_copy_and_nothing_else_is_rewritten() {
    for way in WAYS {
        let world = world();
        sync(&world, way, "--no-fsync");
        let kept = world.inode("dst/wide/7");
        world.write("src/wide/8", "new content");
        world.write("src/new dir/new", "new");
        fs::remove_file(world.path("src/wide/9")).unwrap();
        fs::remove_dir_all(world.path("src/deep")).unwrap();
        fs::remove_file(world.path("src/links/dangling")).unwrap();
        world.link("elsewhere", "src/links/dangling");
        world.chmod("src/wide/10", 0o600);
        world.set_time("src/wide/11", 5);
        world.set_time("src/links/absolute", 6);
        world.chmod("src/empty dir", 0o700);
        sync(&world, way, "--no-fsync --delete");
        world.assert_same("src", "dst");
        assert_eq!(world.inode("dst/wide/7"), kept, "{way:?}");
    }
}

#[test]
fn kinds_change_places() {
    for way in WAYS {
        let world = World::new();
        for name in ["file to dir/x", "file to link", "link to dir/x", "link to file"] {
            world.write(format!("src/{name}"), name);
        }
        world.link("target", "src/dir to link");
        world.write("src/dir to file", "file");
        sync(&world, way, "--no-fsync");
        fs::remove_dir_all(world.path("dst")).unwrap();
        world.write("dst/file to dir", "was a file");
        world.write("dst/dir to link/below", "was a dir");
        world.write("dst/dir to file/below/that", "was a dir");
        world.link("/nowhere", "dst/link to dir");
        world.link("/nowhere", "dst/link to file");
        world.link("/nowhere", "dst/file to link");
        sync(&world, way, "--no-fsync --delete");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_directory_with_something_in_it_gives_way_only_to_delete() {
    let world = World::new();
    world.write("src/name", "a file now");
    world.write("dst/name/precious", "keep me");
    let run = world.fails(23, "-a src/ dst/");
    assert!(run.stderr.contains("name: "), "{}", run.stderr);
    assert_eq!(world.read("dst/name/precious"), b"keep me");
    world.ok("-a --delete src/ dst/");
    world.assert_same("src", "dst");
}

#[test]
fn every_odd_name_can_be_an_operand() {
    for (n, name) in ODD_NAMES.iter().enumerate() {
        let name = OsStr::from_bytes(name);
        let world = World::new();
        world.write(name, b"content");
        let way = WAYS[n % 3];
        // A colon before any slash would be a host.
        let mut from = OsString::from(way.from("./"));
        from.push(name);
        let words = ["-t".into(), "--".into(), from, way.to("dst/").into()];
        let run = world.sync(&words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{name:?} {way:?}");
        assert_eq!(world.read(Path::new("dst").join(name)), b"content", "{name:?}");
    }
}

#[test]
fn a_read_only_directory_is_filled_and_then_read_only_again() {
    for way in WAYS {
        let world = World::new();
        world.write("src/locked/below/file", "one");
        world.chmod("src/locked/below", 0o555);
        world.chmod("src/locked", 0o555);
        world.chmod("src", 0o555);
        sync(&world, way, "");
        world.assert_same("src", "dst");
        world.chmod("src/locked/below", 0o755);
        world.write("src/locked/below/file", "another");
        world.write("src/locked/below/more", "more");
        world.chmod("src/locked/below", 0o555);
        sync(&world, way, "");
        world.assert_same("src", "dst");
        // For the temporary directory to go away.
        for name in
            ["src", "src/locked", "src/locked/below", "dst", "dst/locked", "dst/locked/below"]
        {
            world.chmod(name, 0o755);
        }
    }
}

#[test]
fn thousands_of_small_files_arrive_in_every_direction() {
    let world = World::new();
    for n in 0..1500 {
        world.write(format!("src/{}/{n}", n % 40), noise(n % 700, n as u64));
    }
    for way in WAYS {
        let run = sync(&world, way, "--no-fsync --stats");
        assert_eq!(run.stat("Number of regular files transferred"), 1500);
        world.assert_same("src", "dst");
        fs::remove_dir_all(world.path("dst")).unwrap();
    }
}

#[test]
fn a_large_file_arrives_and_an_edit_of_it_costs_little() {
    let old = noise(30 << 20, 7);
    for way in [Way::Push, Way::Pull] {
        let world = World::new();
        world.write("src/large", &old);
        let first = sync(&world, way, "--stats");
        assert_eq!(first.stat("Literal data"), 30 << 20);
        world.assert_same("src", "dst");
        world.write("src/large", edited(&old, 11 << 20));
        let second = sync(&world, way, "--stats");
        world.assert_same("src", "dst");
        let (literal, matched) = (second.stat("Literal data"), second.stat("Matched data"));
        assert_eq!(literal + matched, (30 << 20) + 15);
        assert!(literal < 200 << 10, "{way:?}: {literal} bytes for an insertion of 15");
        let wire = second.traffic();
        assert!(wire < 400 << 10, "{way:?}: {wire} bytes on the wire");
    }
}

#[test]
fn sizes_around_every_boundary_arrive_and_grow_and_shrink() {
    let sizes = [
        0,
        1,
        2047,
        2048,
        2049,
        65_535,
        (256 << 10) - 1,
        256 << 10,
        (256 << 10) + 1,
        (4 << 20) + 1,
    ];
    let world = World::new();
    for way in WAYS {
        for shift in 0..2 {
            for (n, _) in sizes.iter().enumerate() {
                let size = sizes[(n + shift) % sizes.len()];
                world.write(format!("src/{n}"), noise(size, n as u64));
            }
            sync(&world, way, "--no-fsync");
            world.assert_same("src", "dst");
        }
    }
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let world = World::new();
    world.write("src/file", "same size");
    set_time(&world.path("src/file"), (1_000_000_000, 1));
    sync(&world, Way::Push, "");
    world.assert_same("src", "dst");
    world.write("src/file", "size same");
    set_time(&world.path("src/file"), (1_000_000_000, 2));
    sync(&world, Way::Push, "");
    assert_eq!(world.read("dst/file"), b"size same");
}

#[test]
fn a_copy_that_rsync_made_needs_nothing() {
    let world = world();
    if rsync(&world, &["-a", "src/", "dst/"]).is_some() {
        let run = sync(&world, Way::Push, "-i");
        // rsync leaves the time of a directory or link alone that is right to the second.
        let by_nanoseconds = |line: &&str| line.starts_with(".d..t") || line.starts_with(".L..t");
        let changes = run.lines().into_iter().filter(|line| !by_nanoseconds(line));
        assert_eq!(changes.collect::<Vec<_>>(), [""; 0]);
        world.assert_same("src", "dst");
    }
}
