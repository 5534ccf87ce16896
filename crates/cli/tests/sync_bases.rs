//! A sender whose storage tells what changed since the last run reads and sends that alone. Root only: the storage is
//! btrfs, on a file of its own.

use std::fs;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use crate::common::attrs::{SOMEBODY, own};
use crate::common::service::{Service, as_somebody};
use crate::common::{DELTIC, Run, SECTOR, SHELL, World, btrfs, btrfs_by, noise};
use rustix::fs::OFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Longer than a large file has to be.
const LEN: usize = 40 << 20;

#[test]
fn only_what_changed_since_the_last_run_is_read_and_sent() {
    for way in crate::common::WAYS {
        let world = World::new();
        let Some(_disk) = btrfs(&world) else { return };
        world.write("disk/s/image", noise(LEN, 1));
        world.set_time("disk/s/image", 1_000_000_000);
        let words = format!("-a --stats {} {}", way.from("disk/s/"), way.to("disk/d"));
        let check = |changed: u64| {
            let run = world.ok(&words);
            world.assert_same("disk/s", "disk/d");
            assert_eq!(run.stat("Literal data"), changed, "{way:?}");
            assert!(run.traffic() < changed + changed / 8 + 3000, "{way:?} {run:#?}");
        };
        world.ok(&words);
        world.write_over("disk/s/image", &[0, 7, 8, 5000], 1_000_000_001);
        check(4 * SECTOR);
        // What came so is a base again.
        world.write_over("disk/s/image", &[7, 10_239], 1_000_000_002);
        check(2 * SECTOR);
        // Its time alone is another.
        world.set_time("disk/s/image", 1_000_000_003);
        check(0);
        world.write_over("disk/s/image", &[1], 1_000_000_004);
        check(SECTOR);
        // It is a copy that shares blocks; it has become longer, and shorter.
        let words = ["cp", "-p", "--reflink=always", "disk/s/image", "disk/s/other"];
        assert_eq!(Run::of(&mut world.command(words[0], &words[1..])).code, Some(0));
        fs::rename(world.path("disk/s/other"), world.path("disk/s/image")).unwrap();
        world.write_over("disk/s/image", &[10_240, 10_241], 1_000_000_005);
        check(2 * SECTOR);
        let file = fs::File::options().write(true).open(world.path("disk/s/image")).unwrap();
        file.set_len(9000 * SECTOR).unwrap();
        drop(file);
        world.set_time("disk/s/image", 1_000_000_006);
        check(0);
    }
}

/// In a pull the sender is the far end.
#[test]
fn the_reason_why_a_file_is_read_is_told_whichever_end_sends() {
    for way in crate::common::WAYS {
        let world = World::new();
        let Some(_disk) = btrfs(&world) else { return };
        world.write("disk/s/image", noise(LEN, 1));
        world.set_time("disk/s/image", 1_000_000_000);
        let words = format!("-a --explain {} {}", way.from("disk/s/"), way.to("disk/d"));
        let mut changed = 0;
        let mut tells = |why: &str| {
            let run = world.ok(&words);
            let told: Vec<_> =
                run.stdout.lines().filter_map(|line| line.strip_prefix("image: ")).collect();
            assert!(matches!(told[..], [line] if line.contains(why)), "{way:?} {why} {run:#?}");
            changed += 1;
            world.write_over("disk/s/image", &[changed], 1_000_000_000 + changed as i64);
        };
        tells("read, as no earlier sync left a version to compare with");
        tells("of 40.00 MiB, read the 4.00 KiB that changed since the last sync");
        fs::remove_dir_all(world.path(".cache/deltic/extents-1")).unwrap();
        tells("read, as no facts are stored about the version at the destination");
    }
}

/// A sender whose storage tells nothing says so, and sends nothing about that unless it is asked.
#[test]
fn storage_that_tells_no_changes_is_named_in_a_pull() {
    let world = World::new();
    world.write("src/image", noise(LEN, 1));
    let pull = |words: &str| world.ok(&format!("-a {words} h:src/ dst")).stdout;
    let told = pull("--explain");
    assert!(told.contains("image: read, as storage does not tell what changed: "), "{told}");
    world.write_over("src/image", &[1], 1_000_000_001);
    assert!(!pull("-v").contains("storage"));
}

/// Nobody read the blocks of such a file, so a later run without trust compares all of them.
#[test]
fn a_file_taken_by_trusted_sums_is_no_base() {
    let world = World::new();
    let Some(_disk) = btrfs_by(&world, "sha256") else { return };
    for dir in ["s", "d"] {
        world.write(format!("disk/{dir}/image"), noise(LEN, 1));
        world.set_time(format!("disk/{dir}/image"), 1_000_000_000);
    }
    world.write_over("disk/s/image", &[1], 1_000_000_001);
    let run = world.ok("-ac --trust-sums --stats disk/s/ h:disk/d");
    assert!(run.stat("Literal data") <= SECTOR, "{run:#?}");
    let mut changed = 1;
    let mut told = || {
        changed += 1;
        world.write_over("disk/s/image", &[changed], 1_000_000_000 + changed as i64);
        world.ok("-a --explain disk/s/ h:disk/d").stdout
    };
    let first = told();
    assert!(first.contains("image: read, as no earlier sync left a version"), "{first}");
    let second = told();
    assert!(second.contains("read the 4.00 KiB that changed since the last sync"), "{second}");
    world.assert_same("disk/s", "disk/d");
}

#[test]
fn a_lost_or_spoilt_base_ends_in_the_ordinary_way() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("disk/s/image", noise(LEN, 1));
    world.set_time("disk/s/image", 1_000_000_000);
    let words = "-a --stats --explain disk/s/ h:disk/d";
    world.ok(words);
    let round = |n: i64, spoil: &dyn Fn()| {
        world.write_over("disk/s/image", &[n as u64], 1_000_000_000 + n);
        spoil();
        let run = world.ok(words);
        world.assert_same("disk/s", "disk/d");
        assert!(run.stat("Literal data") < LEN as u64 / 8, "{run:#?}");
        eprintln!("{run:#?}");
        // A recipe of so long a file has more bytes than all else.
        run.traffic() < SECTOR + 3000
    };
    assert!(round(1, &|| ()));
    // Somebody wrote to it, and gave it its time back.
    let behind = || world.write_over("disk/d/image", &[3000], 1_000_000_001);
    assert!(!round(2, &behind));
    // The caches are gone: at the sender, at the receiver.
    for lost in ["extents-1", "bases-1"] {
        assert!(round(3, &|| ()), "{lost}");
        let gone = || {
            let path = world.path(".cache/deltic").join(lost);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        };
        assert!(!round(4, &gone), "{lost}");
    }
    // All of it was written anew.
    let anew = || {
        let bytes = world.read("disk/s/image");
        fs::remove_file(world.path("disk/s/image")).unwrap();
        world.write("disk/s/image", bytes);
        world.set_time("disk/s/image", 1_000_000_005);
    };
    assert!(!round(5, &anew), "it is matched all the same");
    // What changes in place is no base.
    let words = format!("{words} --inplace");
    world.write_over("disk/s/image", &[6], 1_000_000_006);
    world.ok(&words);
    world.assert_same("disk/s", "disk/d");
    assert!(!round(7, &|| ()));
    // Nothing is believed.
    world.write_over("disk/s/image", &[8], 1_000_000_008);
    let run = world.ok("-a --stats --no-cache disk/s/ h:disk/d");
    world.assert_same("disk/s", "disk/d");
    assert!(run.traffic() > SECTOR + 3000, "{run:#?}");
}

/// A sender that has heard nothing for a while offers a file before it is asked for.
#[test]
fn from_far_away_nothing_is_read_ahead_that_storage_may_tell() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("disk/s/image", noise(LEN, 1));
    world.write("rsh", "sleep 0.3\nshift\nexec \"$@\"\n");
    for round in 1..4 {
        world.write_over("disk/s/image", &[round], 1_000_000_000 + round as i64);
        let fixed = ["sync", "-a", "--stats", "--explain", "-e", "sh rsh", "--deltic-path", DELTIC];
        let words = fixed.iter().chain(&["disk/s/", "h:disk/d"]);
        let run = Run::of(&mut world.command(DELTIC, words));
        world.assert_same("disk/s", "disk/d");
        assert!(round == 1 || run.traffic() < SECTOR + 3000, "{run:#?}");
        let reasons = run.stdout.lines().filter(|line| line.starts_with("image: ")).count();
        assert_eq!((run.code, reasons), (Some(0), 1), "{run:#?}");
    }
}

#[test]
fn an_ordinary_user_asks_the_service_what_changed_and_is_told_why_nobody_tells() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    if !crate::common::is_installed("setpriv") {
        return;
    }
    world.write("disk/s/image", noise(LEN, 1));
    world.set_time("disk/s/image", 1_000_000_000);
    for name in ["", "disk", "disk/s"] {
        world.chmod(name, 0o777);
    }
    for name in ["disk/s", "disk/s/image"] {
        own(&world.path(name), SOMEBODY, SOMEBODY);
    }
    let enter = as_somebody(&world, "facts");
    let sync = |words: &str| {
        let first =
            [DELTIC, "sync", "-a", "--stats", "--explain", "-e", SHELL, "--deltic-path", DELTIC];
        let enters = enter[1..].iter().map(String::as_str);
        let words = enters.chain(first).chain(words.split(' '));
        let run = Run::of(&mut world.command(&enter[0], words));
        assert_eq!(run.code, Some(0), "{run:#?}");
        world.assert_same("disk/s", "disk/d");
        run
    };
    let run = sync("disk/s/ h:disk/d");
    assert!(run.stdout.contains("image: read, as storage does not tell"), "{run:#?}");
    assert!(run.stdout.contains("CAP_SYS_ADMIN"), "{run:#?}");
    let _service = Service::at(&world, "facts");
    world.write_over("disk/s/image", &[5], 1_000_000_001);
    sync("disk/s/ h:disk/d");
    world.write_over("disk/s/image", &[7, 8], 1_000_000_002);
    let run = sync("disk/s/ h:disk/d");
    assert_eq!(run.stat("Literal data"), 2 * SECTOR, "{run:#?}");
    assert!(run.traffic() < 3 * SECTOR, "{run:#?}");
    assert!(run.stdout.contains("of 40.00 MiB, read the 8.00 KiB that changed"), "{run:#?}");
}

/// Descriptors that are not open to read, and those of no file, get no answer.
#[test]
fn the_service_answers_for_files_that_are_open_to_read_alone() {
    let world = World::new();
    let Some(_disk) = btrfs(&world) else { return };
    world.write("disk/s/image", noise(1 << 20, 1));
    let _service = Service::at(&world, "facts");
    let ask = |file: &dyn AsFd, question: &[u8]| {
        let stream = UnixStream::connect(world.path("facts")).unwrap();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut along, files) = (SendAncillaryBuffer::new(&mut room), [file.as_fd()]);
        along.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&stream, &[IoSlice::new(question)], &mut along, SendFlags::empty()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        (&stream).read_to_end(&mut answer).ok();
        answer
    };
    let extents = [1, 0, 0, 16, 0, 0, 0, 0, 0];
    let sums = |part: [u64; 2]| {
        [&[2][..], &extents[1..], part.map(u64::to_le_bytes).as_flattened()].concat()
    };
    let image = world.path("disk/s/image");
    let readable = fs::File::open(&image).unwrap();
    assert!(ask(&readable, &extents).len() > 40);
    assert!(ask(&readable, &sums([0, 1 << 20])).len() > 256 * 4);
    assert_eq!(ask(&readable, &sums([0, 1 << 20])[..20]), b"", "a short question");
    assert_eq!(ask(&readable, &sums([1 << 20, 0])), b"", "no part");
    assert_eq!(ask(&readable, &sums([0, u64::MAX])), b"", "a long part");
    let nothing = [0; 4];
    assert_eq!(ask(&readable, &sums([1 << 63, (1 << 63) + 4096])), nothing, "behind the end");
    let shorter = [&[2, 1][..], &[0; 15], &4096_u64.to_le_bytes()].concat();
    assert_eq!(ask(&readable, &shorter), nothing, "another length");
    assert_eq!(ask(&readable, &extents[..5]), b"", "a short question");
    assert_eq!(ask(&readable, &[9; 9]), b"", "another question");
    let only_written = fs::File::options().write(true).open(&image).unwrap();
    assert_eq!(ask(&only_written, &extents), b"");
    assert_eq!(ask(&only_written, &sums([0, 1 << 20])), b"");
    let path = fs::File::options()
        .read(true)
        .custom_flags(OFlags::PATH.bits() as i32)
        .open(&image)
        .unwrap();
    assert_eq!(ask(&path, &extents), b"");
    assert_eq!(ask(&fs::File::open(world.path("disk/s")).unwrap(), &extents), b"");
}
