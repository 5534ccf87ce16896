//! Contents are compared by the sums that btrfs keeps, where the user trusts both ends (`--trust-sums`).

use std::fs;
use std::os::unix::fs::FileExt;

use crate::common::service::{Service, as_somebody};
use crate::common::{
    DELTIC, Run, SECTOR, SHELL, WAYS, Way, World, btrfs_by, bytes_read, bytes_read_by, edited,
    is_installed, noise, skip,
};

const BIG: usize = 24 << 20;
const TIME: i64 = 1_000_000_000;
/// Words of a push that trusts sums.
const TRUSTING: &str = "-ac --trust-sums --stats";

/// Two directories of the same files, which share no storage.
fn equal(world: &World, dirs: [&str; 2]) {
    let sparse = [vec![0; 1 << 20], noise(70_000, 2), vec![0; 3 << 20], noise(5, 3)].concat();
    for dir in dirs {
        for (name, bytes) in [
            ("big", noise(BIG, 1)),
            ("sparse", sparse.clone()),
            ("short", b"short".into()),
            ("empty", Vec::new()),
        ] {
            world.write(format!("{dir}/{name}"), &bytes);
        }
        let packed = [b"the same again and again ".repeat(40_000), noise(9000, 4)].concat();
        world.write(format!("{dir}/packed"), &packed);
    }
    // The one has holes where the other has zeros.
    let file = fs::File::create(world.path(format!("{}/sparse", dirs[1]))).expect("it is ours");
    file.write_all_at(&sparse[1 << 20..(1 << 20) + 70_000], 1 << 20).expect("it is ours");
    file.write_all_at(&noise(5, 3), sparse.len() as u64 - 5).expect("it is ours");
    for dir in dirs {
        for name in ["big", "sparse", "short", "empty", "packed"] {
            world.set_time(format!("{dir}/{name}"), TIME);
        }
    }
}

/// Changes a byte that shows in no time.
fn damage(world: &World, name: &str, at: u64) {
    let file =
        fs::File::options().read(true).write(true).open(world.path(name)).expect("it is ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is ours");
    file.write_all_at(&[byte[0] ^ 1], at).expect("it is ours");
    drop(file);
    world.set_time(name, TIME);
}

#[test]
fn what_the_file_system_keeps_is_not_read() {
    for sums in ["xxhash", "sha256", "blake2"] {
        let world = World::new();
        let Some(_disk) = btrfs_by(&world, sums) else { return };
        equal(&world, ["disk/s", "disk/d"]);
        let words = "sync -ac --trust-sums disk/s/ disk/d";
        let Some(read) = bytes_read(&world, words) else { return };
        assert!(read < BIG as u64 / 2, "{sums}: {read}");
        assert!(bytes_read(&world, "verify --trust-sums disk/s disk/d").unwrap() < BIG as u64 / 2);
        for at in [0, 4095, 5 << 20, BIG as u64 - 1] {
            damage(&world, "disk/d/big", at);
            let run =
                Run::of(&mut world.command(DELTIC, ["verify", "--trust-sums", "disk/s", "disk/d"]));
            assert!(run.stdout.starts_with("content big\n"), "{sums} {at}: {run:#?}");
            world.ok("-ac --trust-sums disk/s/ disk/d");
            world.assert_same("disk/s", "disk/d");
        }
        for (name, at) in [("sparse", 9), ("sparse", (1 << 20) + 5), ("short", 4), ("packed", 77)] {
            damage(&world, &format!("disk/s/{name}"), at);
            world.ok("-ac --trust-sums disk/s/ disk/d");
            world.assert_same("disk/s", "disk/d");
        }
    }
}

/// Both ends learn from stored sums which blocks differ. The other blocks are shared at the destination.
#[test]
fn only_blocks_that_differ_are_read() {
    for sums in ["sha256", "blake2"] {
        let world = World::new();
        let Some(_disk) = btrfs_by(&world, sums) else { return };
        world.write("rsh", b"shift; exec \"$@\"");
        for way in [Way::Push, Way::Pull] {
            equal(&world, ["disk/s", "disk/d"]);
            damage(&world, "disk/d/big", 5 << 20);
            damage(&world, "disk/s/big", BIG as u64 - 1);
            let (from, to) = (way.from("disk/s/"), way.to("disk/d"));
            let words =
                format!("sync -ac --trust-sums -e 'sh rsh' --deltic-path {DELTIC} {from} {to}");
            let Some(read) = bytes_read(&world, &words) else { return };
            // The kernel counts shared blocks as read, once.
            assert!(read < BIG as u64 * 3 / 2, "{sums} {way:?}: {read}");
            world.assert_same("disk/s", "disk/d");
        }
        damage(&world, "disk/d/big", 9 << 20);
        let run = world.ok(&format!("{TRUSTING} disk/s/ h:disk/d"));
        assert!(run.stat("Literal data") <= SECTOR, "{run:#?}");
        assert!(run.stdout.contains("Sums from storage"), "{run:#?}");
        world.assert_same("disk/s", "disk/d");
    }
}

/// Blocks behind inserted bytes differ from all blocks of the old version. The file is then cut by content.
#[test]
fn inserted_bytes_are_all_that_is_sent() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "sha256") else { return };
    equal(&world, ["disk/s", "disk/d"]);
    for at in [BIG / 3, BIG - 300_000] {
        let old = world.read("disk/s/big");
        world.write("disk/s/big", edited(&old, at));
        let run = world.ok(&format!("{TRUSTING} disk/s/ h:disk/d"));
        assert!(run.stat("Literal data") < 100_000, "{at}: {run:#?}");
        world.assert_same("disk/s", "disk/d");
    }
}

#[test]
fn an_ordinary_user_asks_the_service_for_sums() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    if !is_installed("setpriv") {
        return skip("setpriv is not installed");
    }
    equal(&world, ["disk/s", "disk/d"]);
    world.chmod("", 0o777);
    let (enter, words) = (as_somebody(&world, "facts"), "verify --trust-sums disk/s disk/d");
    let Some(read) = bytes_read_by(&world, &enter, words) else { return };
    if read < 2 * BIG as u64 {
        return skip("files tell their sums to everybody here");
    }
    let _service = Service::at(&world, "facts");
    let read = bytes_read_by(&world, &enter, words).expect("it was counted before");
    assert!(read < BIG as u64 / 2, "{read}");
    damage(&world, "disk/d/big", 20 << 20);
    let words = enter[1..].iter().map(String::as_str).chain([DELTIC]).chain(words.split(' '));
    let run = Run::of(&mut world.command(&enter[0], words));
    assert_eq!((run.lines()[0], run.code), ("content big", Some(26)), "{run:#?}");
}

#[test]
fn an_end_without_sums_takes_them() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    equal(&world, ["disk/s", "d"]);
    for way in WAYS {
        for (a, b) in [("disk/s", "d"), ("d", "disk/s")] {
            // It is the end here that keeps them.
            if way != Way::Pull && a == "d" || way == Way::Pull && b == "d" {
                continue;
            }
            let words = ["verify", "-e", SHELL, "--deltic-path", DELTIC, "--trust-sums"];
            let (a, b) = (way.from(a), way.to(b));
            let words = words.into_iter().chain([&*a, &*b]);
            let run = Run::of(&mut world.command(DELTIC, words));
            assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        }
    }
    damage(&world, "d/big", 9_000_000);
    let run = Run::of(&mut world.command(DELTIC, ["verify", "--trust-sums", "disk/s", "d"]));
    assert_eq!((run.lines()[0], run.code), ("content big", Some(26)), "{run:#?}");
}

#[test]
fn packed_blocks_are_read() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "xxhash") else { return };
    world.mkdir("disk/d");
    let words = ["property", "set", "disk/d", "compression", "zstd"];
    if Run::of(&mut world.command("btrfs", words)).code != Some(0) {
        return skip("nothing is compressed here");
    }
    equal(&world, ["disk/s", "disk/d"]);
    let run = Run::of(&mut world.command(DELTIC, ["verify", "--trust-sums", "disk/s", "disk/d"]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    damage(&world, "disk/d/packed", 500_000);
    let run = Run::of(&mut world.command(DELTIC, ["verify", "--trust-sums", "disk/s", "disk/d"]));
    assert_eq!((run.lines()[0], run.code), ("content packed", Some(26)), "{run:#?}");
}

#[test]
fn sums_that_prove_nothing_are_refused() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "crc32c") else { return };
    equal(&world, ["disk/s", "d"]);
    for (words, why) in [
        ("sync -ac --trust-sums disk/s/ d", "32-bit checksums, which prove nothing"),
        ("verify --trust-sums disk/s d", "32-bit checksums, which prove nothing"),
        ("verify --trust-sums /proc/sys d", "keeps no checksums"),
    ] {
        let run = Run::of(&mut world.command(DELTIC, words.split(' ')));
        assert!(run.code != Some(0) && run.stderr.contains(why), "{words}: {run:#?}");
    }
}
