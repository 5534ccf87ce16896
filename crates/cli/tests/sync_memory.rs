//! Runs under a limit of memory: the system kills those that take more.

mod common;

use std::fs;

use common::attrs::note;
use common::limited::Limited;
use common::{DELTIC, Mounted, Run, SHELL, Way, World, is_installed, skip};

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
    let run = Run::of(&mut world.command(&enter[0], words));
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
        common::tree::assert_same(&world.path("disk/src"), &world.path("disk/dst"));
        fs::remove_dir_all(world.path("disk/dst")).expect("it is ours");
    }
}
