//! Runs under a limit of memory: the system kills those that take more.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::attrs::{note, noted};
use crate::common::dice::Dice;
use crate::common::limited::Limited;
use crate::common::{DELTIC, Mounted, Run, SHELL, Way, World, is_installed, skip};

const MIB: u64 = 1 << 20;

/// A file system whose files may have long attributes, at `disk`.
fn xfs(world: &World) -> Option<Mounted<'_>> {
    let without = "a file system of xfs cannot be made and mounted here";
    if !is_installed("mkfs.xfs") {
        skip(without);
        return None;
    }
    let image = fs::File::create(world.path("image"));
    image.and_then(|file| file.set_len(2048 * MIB)).expect("it is sparse");
    Run::of(&mut world.command("mkfs.xfs", ["-q", "image"]));
    Mounted::by((world, "disk"), ("mount", &["-o", "loop", "image", "disk"]), without)
}

/// Runs a sync with both ends in groups of their own that may have as many bytes; it must succeed.
#[track_caller]
fn sync_limited(world: &World, way: Way, bytes: u64, words: &[&str]) {
    let Some(near) = Limited::new("near", bytes) else { return };
    let Some(far) = Limited::new("far", bytes) else { return };
    let shell = if way == Way::Local { SHELL.to_owned() } else { far.shell() };
    let enter = near.words();
    let sync = [DELTIC, "sync", "-e", &shell, "--deltic-path", DELTIC];
    let words = enter[1..].iter().map(String::as_str).chain(sync).chain(words.iter().copied());
    // Next to the limit everything is slow.
    let run = Run::of(world.command(&enter[0], words).timeout(Duration::from_secs(300)));
    assert_eq!(
        (run.code, &*run.stderr),
        (Some(0), ""),
        "{way:?} {words:?}\n{run:#?}",
        words = sync
    );
}

#[test]
fn long_attributes_of_directories_are_not_kept_until_the_end() {
    let world = World::new();
    let Some(_disk) = xfs(&world) else { return };
    const DIRS: usize = 2500;
    for n in 0..DIRS {
        let dir = format!("disk/src/{}/{n}", n / 25);
        world.mkdir(&dir);
        note(&world.path(&dir), "user.long", &vec![n as u8; 60_000]);
    }
    for way in [Way::Push, Way::Pull] {
        let (from, to) = (way.from("disk/src/"), way.to("disk/dst/"));
        // New, then changed, then equal.
        for round in 0..3 {
            if round == 1 {
                for n in 0..DIRS {
                    let dst = world.path(format!("disk/dst/{}/{n}", n / 25));
                    note(&dst, "user.long", &vec![!n as u8; 60_000]);
                }
            }
            sync_limited(&world, way, 96 * MIB, &["-aX", &from, &to]);
        }
        crate::common::tree::assert_same(&world.path("disk/src"), &world.path("disk/dst"));
        fs::remove_dir_all(world.path("disk/dst")).expect("it is ours");
    }
}

/// Directories that are on the way only bring nothing of theirs.
#[test]
fn long_attributes_of_directories_on_the_way_are_not_kept() {
    let world = World::new();
    let Some(_disk) = xfs(&world) else { return };
    const DIRS: usize = 2500;
    let mut list = String::new();
    for n in 0..DIRS {
        let dir = format!("{}/{n}", n / 25);
        world.write(format!("disk/src/{dir}/file"), "content");
        note(&world.path(format!("disk/src/{dir}")), "user.long", &vec![n as u8; 60_000]);
        list += &format!("{dir}/file\n");
    }
    world.write("list", list);
    for way in [Way::Push, Way::Pull] {
        let (from, to) = (way.from("disk/src/"), way.to("disk/dst/"));
        for (implied, comes) in [("--no-implied-dirs", false), ("--implied-dirs", true)] {
            sync_limited(&world, way, 96 * MIB, &["-aX", implied, "--files-from=list", &from, &to]);
            for dir in ["0/0", "99/2499"] {
                let path = |at: &str| world.path(format!("disk/{at}/{dir}"));
                let is = noted(&path("dst"), "user.long");
                assert_eq!(is, noted(&path("src"), "user.long").filter(|_| comes), "{implied}");
                assert!(path("dst").join("file").exists());
            }
        }
        fs::remove_dir_all(world.path("disk/dst")).expect("it is ours");
    }
}

/// Length of a large file, in MiB: `make end-to-end` asks for a longer one.
fn large_mib() -> u64 {
    let asked = std::env::var("DELTIC_LARGE_MIB").ok();
    asked.map_or(256, |mib| mib.parse().expect("DELTIC_LARGE_MIB is a number"))
}

/// Random bytes that nothing shortens.
fn write_random(path: &Path, mib: u64) {
    let mut dice = Dice::new(mib);
    let mut file = BufWriter::new(File::create(path).expect("it can be made"));
    for _ in 0..mib * MIB / 8 {
        file.write_all(&dice.next().to_le_bytes()).expect("it can be written");
    }
    file.flush().expect("it can be written");
}

/// Changes some bytes in each 256 KiB of a file.
fn edit(path: &Path, mib: u64, round: u64) {
    let file = File::options().write(true).open(path).expect("it is there");
    let mut dice = Dice::new(round);
    for start in (0..mib * MIB).step_by(256 << 10) {
        let at = start + dice.below((256 << 10) - 8);
        file.write_all_at(&dice.next().to_le_bytes(), at).expect("it can be written");
    }
    // Of what is as old as the present no recipe is kept.
    let modified = UNIX_EPOCH + Duration::new(round, 1);
    file.set_modified(modified).expect("it is ours");
}

/// Chunks grow with the file, so that 1 GiB has twice as many as 256 MiB.
#[test]
fn a_large_file_takes_little_memory() {
    let (world, mib) = (World::new(), large_mib());
    let limit = 32 * MIB;
    world.mkdir("src");
    let big = world.path("src/big");
    write_random(&big, mib);
    for way in [Way::Push, Way::Pull] {
        let (from, to) = (way.from("src/"), way.to("dst/"));
        let is_same = || {
            let cmp = Run::of(&mut world.command("cmp", ["src/big", "dst/big"]));
            assert_eq!(cmp.code, Some(0), "{way:?}: {cmp:?}");
        };
        // New, then changed, then changed where the recipe of old is known.
        for round in 0..3 {
            if round > 0 {
                edit(&big, mib, round);
            }
            sync_limited(&world, way, limit, &["-a", "--threads=2", &from, &to]);
            is_same();
        }
        fs::remove_dir_all(world.path("dst")).expect("it is ours");
    }
}
