//! `deltic storage` on real file systems, and on what `veritysetup` writes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::common::dice::Dice;
use crate::common::service::as_somebody;
use crate::common::{DELTIC, Mounted, Run, World, btrfs, btrfs_by, is_installed, noise, skip};
use serde_json::Value;

const LEN: usize = 5_000_001;

/// A file system that shares blocks and keeps no sums, at `disk`.
fn xfs(world: &World) -> Option<Mounted<'_>> {
    let without = "xfs cannot be made and mounted here";
    let made = File::create(world.path("image"));
    made.and_then(|image| image.set_len(400 << 20)).expect("it is sparse");
    if !is_installed("mkfs.xfs") {
        skip(without);
        return None;
    }
    Run::of(&mut world.command("mkfs.xfs", ["-q", "-m", "reflink=1", "image"]));
    Mounted::by((world, "disk"), ("mount", &["-o", "loop", "image", "disk"]), without)
}

/// A file, and a clone of it in which some places changed, all by the dice.
fn cloned(world: &World, dice: &mut Dice) {
    world.write("disk/old", noise(LEN, dice.next()));
    let clone = ["--reflink=always", "disk/old", "disk/new"];
    assert_eq!(Run::of(&mut world.command("cp", clone)).code, Some(0));
    let new = File::options().write(true).open(world.path("disk/new")).expect("it is there");
    for _ in 0..1 + dice.below(8) {
        let at = dice.below(LEN as u64);
        match dice.below(4) {
            0 => new.set_len(at.max(LEN as u64 / 2)).expect("it can be cut"),
            1 => new.set_len(LEN as u64 + dice.below(100_000)).expect("there is room"),
            _ => {
                let some = noise(1 + dice.below(20_000) as usize, dice.next());
                new.write_all_at(&some, at).expect("there is room");
            }
        }
    }
}

fn storage(world: &World, words: &str) -> Run {
    let words = ["storage"].into_iter().chain(words.split_whitespace());
    Run::of(&mut world.command(DELTIC, words))
}

/// The same, which succeeds.
fn shown(world: &World, words: &str) -> Run {
    let run = storage(world, words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    run
}

/// The last event of a run.
fn told(run: &Run) -> Value {
    serde_json::from_str(run.stdout.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {run:#?}"))
}

/// Checks that ranges that are not told to differ are equal; says how many bytes are told to.
fn check(told: &Value, new: &[u8], old: &[u8]) -> u64 {
    let (mut at, mut bytes) = (0, 0);
    // What is behind the end of the old one is no part of it.
    let old = &[old, &vec![!0; new.len().saturating_sub(old.len())]].concat();
    for range in told["differs"].as_array().expect("a list") {
        let number = |field: &str| range[field].as_u64().expect("a number");
        let (start, len) = (number("offset"), number("length"));
        assert_eq!(new[at..start as usize], old[at..start as usize], "{at}..{start}");
        at = (start + len) as usize;
        bytes += len;
    }
    assert_eq!(new[at..], old[at..new.len()], "behind {at}");
    assert_eq!(told["differing_bytes"], bytes);
    bytes
}

#[test]
fn clones_differ_where_they_were_written_and_nowhere_else() {
    let world = World::new();
    for (system, evidence) in [("btrfs", "proof"), ("FIEMAP", "hint")] {
        let disk = if system == "btrfs" { btrfs(&world) } else { xfs(&world) };
        let Some(_disk) = disk else { continue };
        let mut dice = Dice::new(7);
        for _ in 0..10 {
            cloned(&world, &mut dice);
            // Nothing waits for the disk: what was written a moment ago counts.
            let run = storage(&world, "--json disk/new disk/old");
            let event = told(&run);
            assert_eq!((&event["system"], &event["evidence"]), (&system.into(), &evidence.into()));
            let [new, old] = ["disk/new", "disk/old"].map(|name| world.read(name));
            let bytes = check(&event, &new, &old);
            let is_same = new == old;
            assert_eq!(run.code, Some(if is_same && bytes == 0 { 0 } else { 26 }), "{run:#?}");
            let padded = [&old[..], &vec![!0; new.len().saturating_sub(LEN)]].concat();
            let pairs = new.chunks(4096).zip(padded.chunks(4096));
            let changed = pairs.filter(|(new, old)| *new != &old[..new.len()]).count() as u64;
            assert!(bytes <= changed * 4096 + 65_536, "{changed} sectors changed: {event}");
            fs::remove_file(world.path("disk/new")).unwrap();
        }
        let equal = shown(&world, "disk/old disk/old");
        assert!(equal.stdout.starts_with("equal: 4.77 MiB, which is"), "{equal:#?}");
    }
}

#[test]
fn sums_that_are_shown_are_those_of_the_bytes() {
    for kind in ["crc32c", "sha256"] {
        let world = World::new();
        let Some(_disk) = btrfs_by(&world, kind) else { return };
        let bytes = noise(100_000, 3);
        world.write("disk/a", &bytes);
        let shown = shown(&world, "--sums disk/a");
        let sums: Vec<_> =
            shown.stdout.lines().filter(|line| line.split_whitespace().count() == 2).collect();
        assert_eq!(sums.len(), 24, "{shown:#?}");
        for (no, (line, block)) in sums.iter().zip(bytes.chunks(4096)).enumerate() {
            let sum = match kind {
                "crc32c" => format!("{:08x}", deltic_core::Crc32c::of(block).get()),
                _ => {
                    let kind = deltic_core::StrongKind::Sha256;
                    let sum = kind.sum_of(None, block);
                    sum.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
                }
            };
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words, [(no * 4096).to_string(), sum]);
        }
        // A hole behind the sums of one window is one.
        world.write("disk/sparse", &bytes);
        let file = File::options().write(true).open(world.path("disk/sparse")).unwrap();
        file.set_len(200 << 20).unwrap();
        let sparse = storage(&world, "disk/sparse");
        let mut lines = sparse.stdout.lines();
        assert!(lines.any(|line| line.ends_with("209612800  zeros")), "{sparse:#?}");
        // Two copies that share nothing have their sums in common, but for the end.
        world.write("disk/b", &bytes);
        let run = storage(&world, "--json disk/b disk/a");
        let event = told(&run);
        assert_eq!(check(&event, &bytes, &bytes), 100_000 - 24 * 4096);
        assert_eq!(event["evidence"], if kind == "crc32c" { "hint" } else { "proof" });
    }
}

#[test]
fn without_a_privilege_it_is_said_what_is_missing() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("disk/a", noise(100_000, 3));
    if !is_installed("setpriv") {
        return skip("setpriv is not installed");
    }
    world.chmod("", 0o777);
    let enter = as_somebody(&world, "none");
    let words = enter[1..].iter().map(String::as_str).chain([DELTIC, "storage", "disk/a"]);
    let run = Run::of(&mut world.command(&enter[0], words));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stdout.contains("CAP_SYS_ADMIN") && run.stdout.contains("FIEMAP"), "{run:#?}");
}

#[test]
fn two_hash_devices_tell_which_blocks_of_their_images_differ() {
    let world = World::new();
    if !is_installed("veritysetup") {
        return skip("veritysetup is not installed");
    }
    let mut image = noise(700 * 4096, 5);
    for name in ["old", "new"] {
        world.write(format!("{name}.img"), &image);
        let (data, hashes) = (format!("{name}.img"), format!("{name}.hash"));
        let words = ["format", "--salt", "0badcafe", &data, &hashes];
        assert_eq!(Run::of(&mut world.command("veritysetup", words)).code, Some(0));
        image[300 * 4096 + 5] ^= 1;
        image[699 * 4096] ^= 1;
    }
    let run = storage(&world, "dm-verity:new.hash dm-verity:old.hash");
    assert_eq!(run.code, Some(26), "{run:#?}");
    let lines: Vec<Vec<_>> =
        run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[..2], [["1228800", "4096"], ["2863104", "4096"]], "{run:#?}");
    let root = shown(&world, "dm-verity:new.hash");
    let file = File::options().write(true).open(world.path("new.hash")).unwrap();
    file.write_all_at(b"x", 4096 * 3 + 100).unwrap();
    assert!(root.stdout.contains("root hash"), "{root:#?}");
    let damaged = storage(&world, "dm-verity:new.hash");
    assert!(damaged.stderr.contains("damaged") && damaged.code == Some(3), "{damaged:#?}");
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let world = World::new();
    world.write("a:b", "colon");
    world.mkdir("dir");
    for (words, code, why) in [
        ("", 1, "required"),
        ("none", 11, "no such file"),
        ("dir", 3, "not a regular file"),
        ("zfs:tank:5", 1, "POOL/DATASET@SNAPSHOT:INODE"),
        ("zfs:-x@a:5", 1, "POOL/DATASET@SNAPSHOT:INODE"),
        ("mega:none", 11, "no such file"),
        ("mega:a:b", 3, "not a recipe of MeGA"),
        ("dm-verity:a:b", 3, "not a hash device"),
        ("--sums a:b a:b", 1, "cannot be used with"),
    ] {
        let run = storage(&world, words);
        assert!(run.stderr.contains(why) && run.stdout.is_empty(), "{words}: {run:#?}");
        assert_eq!(run.code, Some(code), "{words}: {run:#?}");
    }
    // Stacked file systems, and those of the kernel, tell places of devices that nobody names.
    let nothing = storage(&world, "/proc/version");
    assert!(nothing.code == Some(3) && nothing.stderr.contains("records nothing"), "{nothing:#?}");
    // Nobody waits for who writes to a pipe.
    assert_eq!(Run::of(&mut world.command("mkfifo", ["pipe"])).code, Some(0));
    assert!(storage(&world, "pipe").stderr.contains("not a regular file"));
    // A colon alone makes no kind of it.
    shown(&world, "a:b");
}
