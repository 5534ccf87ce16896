//! Files with large holes (`--sparse`): a transfer costs the data of a file, and not the length of a file.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::dice::Dice;
use crate::common::server::Server;
use crate::common::{
    DELTIC, Mounted, SHELL, WAYS, Way, World, is_installed, noise, skip, wait_until,
};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Time that is enough for a megabyte of data on a busy machine, and not for terabytes of zeros.
const ENOUGH: Duration = Duration::from_secs(30);

fn open(world: &World, name: &str) -> File {
    OpenOptions::new().read(true).write(true).open(world.path(name)).unwrap()
}

/// Makes a file of `len` bytes with data in some places; false where the file system has no files so long.
fn make(world: &World, name: &str, len: u64, data: &[(u64, &[u8])]) -> bool {
    world.write(name, "");
    let file = open(world, name);
    if file.set_len(len).is_err() {
        skip("the file system has no files so long");
        return false;
    }
    data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
    true
}

fn punch(world: &World, name: &str, hole: Range<u64>) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(open(world, name), flags, hole.start, hole.end - hole.start).unwrap();
}

/// The runs of a file that hold data.
fn runs(file: &File) -> Vec<Range<u64>> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(data)).unwrap();
        runs.push(data..at);
    }
    runs
}

/// Checks that two files are equal, and reads no hole that both have.
#[track_caller]
fn assert_equal(world: &World, one: &str, other: &str) {
    let files = [open(world, one), open(world, other)];
    let len = |file: &File| file.metadata().unwrap().len();
    assert_eq!(len(&files[0]), len(&files[1]));
    for run in files.iter().flat_map(runs) {
        for at in run.clone().step_by(MIB as usize) {
            let read = |file: &File| {
                let mut bytes = vec![0; (run.end - at).min(MIB) as usize];
                file.read_exact_at(&mut bytes, at).unwrap();
                bytes
            };
            assert!(read(&files[0]) == read(&files[1]), "{one} and {other} differ behind {at}");
        }
    }
}

/// Bytes on the disk.
fn taken(world: &World, name: &str) -> u64 {
    fs::metadata(world.path(name)).unwrap().blocks() * 512
}

/// An xfs at `disk`.
fn xfs(world: &World) -> Option<Mounted<'_>> {
    let without = "xfs cannot be made and mounted here";
    File::create(world.path("holes-image")).unwrap().set_len(512 * MIB).unwrap();
    if !is_installed("mkfs.xfs") {
        skip(without);
        return None;
    }
    crate::common::Run::of(
        &mut world.command("mkfs.xfs", ["-q", "-m", "reflink=1", "holes-image"]),
    );
    Mounted::by((world, "disk"), ("mount", &["-o", "loop", "holes-image", "disk"]), without)
}

/// Runs a first copy and updates of a file of terabytes; each `sync` runs one of them, with these options more.
fn copy_and_update(world: &World, (src, dst): (&str, &str), sync: impl Fn(&str)) {
    let (one, other) = (noise(MIB as usize, 1), noise(300_000, 2));
    let len = 8 * TIB;
    if !make(world, src, len, &[(3 * TIB, &one), (len - 300_000, &other)]) {
        return;
    }
    let begun = Instant::now();
    let settled = |what: &str| {
        assert_equal(world, src, dst);
        assert!(begun.elapsed() < ENOUGH, "{what}: {:?}", begun.elapsed());
        let (here, there) = (taken(world, src), taken(world, dst));
        assert!(there <= here + MIB, "{what}: {there} bytes of {here}");
    };
    sync("");
    settled("a first copy");
    let time = |secs: i64| world.set_time(src, secs);
    for (no, options) in ["", "--inplace"].into_iter().enumerate() {
        let inode = world.inode(dst);
        time(1_000_000 + 10 * no as i64);
        sync(options);
        settled("its time alone");
        assert_eq!(world.inode(dst), inode, "a file that is the same is not written anew");
        open(world, src).write_all_at(&noise(5000, 3 + no as u64), 3 * TIB + 70_001).unwrap();
        time(1_000_001 + 10 * no as i64);
        sync(options);
        settled("data over data");
        open(world, src).write_all_at(&noise(200_000, 5 + no as u64), TIB).unwrap();
        time(1_000_002 + 10 * no as i64);
        sync(options);
        settled("data in a hole");
        punch(world, src, 3 * TIB..3 * TIB + MIB / 2);
        time(1_000_003 + 10 * no as i64);
        sync(options);
        settled("a hole over data");
        open(world, src).set_len(len - TIB + no as u64).unwrap();
        time(1_000_004 + 10 * no as i64);
        sync(options);
        settled("another length");
        assert!(world.inode(dst) == inode || options.is_empty());
    }
}

#[test]
fn a_file_of_terabytes_costs_its_data() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("src");
        world.mkdir("dst");
        copy_and_update(&world, ("src/vm", "dst/vm"), |options| {
            let (src, dst) = (way.from("src/"), way.to("dst/"));
            world.ok(&format!("-aS --no-whole-file {options} {src} {dst}"));
        });
    }
}

#[test]
fn a_file_of_terabytes_costs_its_data_on_xfs() {
    let world = World::new();
    let Some(_disk) = xfs(&world) else { return };
    world.mkdir("disk/src");
    world.mkdir("disk/dst");
    copy_and_update(&world, ("disk/src/vm", "disk/dst/vm"), |options| {
        world.ok(&format!("-aS --no-whole-file {options} disk/src/ disk/dst/"));
    });
}

#[test]
fn a_server_takes_and_gives_a_file_of_terabytes_for_its_data() {
    let world = World::new();
    world.mkdir("src");
    let server = Server::start(&world, "");
    copy_and_update(&world, ("src/vm", "photos/vm"), |options| {
        server.ok(&format!("sync -aS {options} src/ URL/photos/"));
    });
    let begun = Instant::now();
    server.ok("sync -aS URL/photos/ back/");
    assert_equal(&world, "photos/vm", "back/vm");
    assert!(begun.elapsed() < ENOUGH, "{:?}", begun.elapsed());
}

/// Holes as short as a map has them: in a file that counts as small as many as fit, in a large one more.
#[test]
fn files_of_as_many_holes_as_fit_arrive() {
    const BLOCK: u64 = 4 << 10;
    const HOLE: u64 = 64 << 10;
    for way in WAYS {
        let world = World::new();
        for (name, len) in [("src/small", 32 * MIB), ("src/large", 64 * MIB)] {
            let starts = (0..len - BLOCK).step_by((BLOCK + HOLE) as usize);
            let runs: Vec<_> = starts.map(|at| (at, vec![at as u8 | 1; BLOCK as usize])).collect();
            let runs: Vec<_> = runs.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            make(&world, name, len, &runs);
        }
        world.mkdir("dst");
        world.ok(&format!("-aS {} {}", way.from("src/"), way.to("dst/")));
        world.assert_same("src", "dst");
        assert!(taken(&world, "dst/small") < 4 * MIB && taken(&world, "dst/large") < 8 * MIB);
    }
}

/// Makes a file of at most some megabytes with data in random places.
fn random(world: &World, name: &str, dice: &mut Dice) {
    let len = dice.below(6 * MIB) + 1;
    make(world, name, len, &[]);
    change(world, name, dice);
}

/// Changes random places of a file.
fn change(world: &World, name: &str, dice: &mut Dice) {
    let file = open(world, name);
    for _ in 0..dice.below(6) {
        let len = file.metadata().unwrap().len();
        let (at, some) = (dice.below(len), dice.below(300_000) + 1);
        let at = if dice.percent(50) { at & !0xffff } else { at };
        match dice.below(5) {
            0 => punch(world, name, at..at + some),
            1 => file.write_all_at(&vec![0; some.min(len - at) as usize], at).unwrap(),
            2 if dice.percent(30) => file.set_len((len / 2 + at).max(1)).unwrap(),
            _ => file.write_all_at(&noise(some.min(len - at) as usize, dice.next()), at).unwrap(),
        }
    }
}

#[test]
fn holes_and_data_arrive_wherever_they_lie() {
    let all = ["", "-W", "--no-whole-file", "--inplace", "-z", "--delay-updates", "--no-fsync"];
    for seed in 0..24 {
        let mut dice = Dice::new(seed);
        let (way, options) = (*dice.pick(&WAYS), *dice.pick(&all));
        let world = World::new();
        for name in ["src/a", "src/b"] {
            random(&world, name, &mut dice);
        }
        world.mkdir("dst");
        let sync = || {
            world.ok(&format!("-aS {options} {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
        };
        sync();
        for round in 0..3 {
            change(&world, "src/a", &mut dice);
            if dice.percent(30) {
                // The destination has data where the source has a hole.
                change(&world, "dst/b", &mut dice);
                world.set_time("src/b", 2_000_000 + round);
            }
            world.set_time("src/a", 1_000_000 + round);
            sync();
        }
        world.assert_clean("dst");
    }
}

#[test]
fn a_file_with_holes_that_was_killed_goes_on() {
    let world = World::new();
    let data = noise(24 << 20, 7);
    world.mkdir("dst");
    if !make(&world, "src/vm", TIB, &[(5, &data[..8 << 20]), (TIB / 2, &data[8 << 20..])]) {
        return;
    }
    let words = ["sync", "-aS", "-e", SHELL, "--deltic-path", DELTIC];
    let mut push = Command::new(DELTIC)
        .args(words)
        .args(["--bwlimit", "8M", "--stats", "src/vm", "h:dst/"])
        .current_dir(world.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let log = || {
        let entries = fs::read_dir(world.path("dst/.deltic")).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.to_string_lossy().ends_with(".log"))
    };
    // A note of a block of 256 KiB is about 40 bytes long.
    wait_until("enough is noted", || {
        log().and_then(|log| fs::metadata(log).ok()).is_some_and(|log| log.len() > 1500)
    });
    push.kill().unwrap();
    push.wait().unwrap();
    let run = crate::common::Run::of(world.command(DELTIC, words).args([
        "--stats",
        "src/vm",
        &Way::Push.to("dst/"),
    ]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_equal(&world, "src/vm", "dst/vm");
    assert!(run.traffic() < (22 << 20), "{run:#?}");
    assert!(taken(&world, "dst/vm") < (25 << 20));
    world.assert_clean("dst");
}
