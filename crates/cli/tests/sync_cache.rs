//! What is known of files from an earlier run: `-c` reads them once, what is matched against is cut once, and nothing
//! is believed that is not so any more.

use std::fs;
use std::time::Duration;

use crate::common::{DELTIC, Run, SHELL, WAYS, World, bytes_read, edited, noise};

const BIG: usize = 8 << 20;

/// A source and an equal destination that were not changed for longer than a tick.
fn world() -> World {
    let world = World::new();
    world.write("src/big", noise(BIG, 1));
    world.write("src/d/small", "small");
    for name in ["src/big", "src/d/small"] {
        world.set_time(name, 1_000_000_000);
    }
    world.ok("-a --no-cache src/ dst");
    rest();
    world
}

/// Lets a tick of the file system's clock pass.
fn rest() {
    std::thread::sleep(Duration::from_millis(150));
}

#[test]
fn contents_are_read_once_and_then_known() {
    let world = world();
    let both = 2 * BIG as u64;
    let Some(first) = bytes_read(&world, "sync -ac src/ dst") else { return };
    assert!(first >= both, "{first}");
    let second = bytes_read(&world, "sync -ac src/ dst").unwrap();
    assert!(second < BIG as u64 / 2, "{second}");
    let no_cache = bytes_read(&world, "sync -ac --no-cache src/ dst").unwrap();
    assert!(no_cache >= both, "{no_cache}");
    let taken_back = bytes_read(&world, "sync -ac --no-cache --cache src/ dst").unwrap();
    assert!(taken_back < BIG as u64 / 2, "{taken_back}");
    // Verifying is reading.
    assert!(bytes_read(&world, "verify src dst").unwrap() >= both);
}

#[test]
fn what_was_read_longer_ago_than_it_may_be_is_read_again() {
    let world = world();
    let read = |words: &str| bytes_read(&world, &format!("sync -ac {words} src/ dst"));
    let (little, both) = (BIG as u64 / 2, 2 * BIG as u64);
    if read("").is_none() {
        return;
    }
    assert!(read("").unwrap() < little);
    assert!(read("--checksum-max-age=1h").unwrap() < little);
    assert!(read("--checksum-max-age=forever").unwrap() < little);
    assert!(read("--checksum-max-age=0").unwrap() >= both);
    // When a file was noted stands behind its version and its digest.
    let table = world.path(".cache/deltic/digests-1");
    let mut slots = fs::read(&table).expect("it was made");
    for bucket in slots.chunks_mut(8192) {
        let (slots, _) = bucket.as_chunks_mut::<92>();
        for slot in slots.iter_mut().filter(|slot| **slot != [0; 92]) {
            let noted = u32::from_le_bytes(slot[80..84].try_into().unwrap()) - 31 * 86_400;
            slot[80..84].copy_from_slice(&noted.to_le_bytes());
            let check = deltic_core::Fingerprint::of(&slot[..84]);
            slot[84..].copy_from_slice(&check.as_bytes()[..8]);
        }
    }
    fs::write(&table, slots).expect("it is ours");
    assert!(read("--checksum-max-age=5w").unwrap() < little);
    assert!(read("").unwrap() >= both, "a month is long enough");
    assert!(read("").unwrap() < little);
}

#[test]
fn what_a_run_with_checksums_wrote_is_not_read_again_at_the_destination() {
    // Whole files of one block, and of several; one that is made of its old version.
    for (files, len, old) in [(40, BIG / 40, false), (1, BIG, false), (1, BIG, true)] {
        let world = World::new();
        world.mkdir("dst");
        for n in 0..files {
            let new = noise(len, n);
            world.write(format!("src/{n}"), &new);
            world.set_time(format!("src/{n}"), 1_000_000_000);
            if old {
                world.write(format!("dst/{n}"), edited(&new, len / 2));
            }
        }
        world.ok("-ac --no-whole-file src/ h:dst");
        // The source has another ctime, so it is read once.
        (0..files).for_each(|n| world.set_time(format!("src/{n}"), 1_000_000_000));
        let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
        let once = BIG as u64 * 9 / 10..BIG as u64 * 3 / 2;
        assert!(once.contains(&read), "{files} {old}: {read}");
        let mut bytes = world.read("dst/0");
        bytes[len / 2] ^= 1;
        world.write("dst/0", bytes);
        world.set_time("dst/0", 1_000_000_000);
        assert!(world.ok("-aci src/ dst").stdout.contains(" 0\n"), "{files} {old}");
        world.assert_same("src", "dst");
    }
}

/// Short ones are hashed when they are written: whole ones, and those that are made of their old version.
#[test]
fn short_files_that_any_run_wrote_are_not_read_again_at_the_destination() {
    const FILES: usize = BIG / (32 << 10);
    let names = || (0..FILES).map(|n| format!("{}/{n}", n % 7));
    for (ends, old) in [("src/ dst", false), ("src/ h:dst", false), ("src/ h:dst", true)] {
        let world = World::new();
        for (n, name) in names().enumerate() {
            let new = noise(32 << 10, n as u64);
            world.write(format!("src/{name}"), &new);
            if old {
                world.write(format!("dst/{name}"), edited(&new, 9000));
            }
        }
        let rewind = |at: &str| {
            names().for_each(|name| world.set_time(format!("{at}/{name}"), 1_000_000_000));
        };
        rewind("src");
        world.ok(&format!("-a --no-whole-file {ends}"));
        let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
        let once = BIG as u64 * 9 / 10..BIG as u64 * 3 / 2;
        assert!(once.contains(&read), "{ends} {old}: {read}");
        // What changed since and hides it is found.
        let mut bytes = world.read("dst/3/3");
        bytes[9000] ^= 1;
        world.write("dst/3/3", bytes);
        world.set_time("dst/3/3", 1_000_000_000);
        assert!(world.ok("-aci src/ dst").stdout.contains(" 3/3\n"), "{ends} {old}");
        world.assert_same("src", "dst");
    }
}

/// New files are hashed while they are written, whatever their length and the way; what was made of an old version is
/// not, and is read once.
#[test]
fn new_files_that_any_run_wrote_are_not_read_again_at_the_destination() {
    let zeros = [noise(BIG / 4, 8), vec![0; BIG / 2 + 77], noise(BIG / 4, 9)].concat();
    let blocks = (0..BIG as u64 / (40 << 10)).map(|n| noise(40 << 10, n));
    for (what, files) in [
        ("of a block", blocks.collect()),
        ("of several", vec![noise(5 << 20, 1), noise((5 << 20) + 11, 2)]),
        ("with zeros", vec![zeros]),
    ] {
        for way in WAYS {
            let world = World::new();
            let len: usize = files.iter().map(Vec::len).sum();
            for (n, content) in files.iter().enumerate() {
                world.write(format!("src/{n}"), content);
                world.set_time(format!("src/{n}"), 1_000_000_000);
            }
            world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst")));
            let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
            let once = len as u64 * 9 / 10..len as u64 * 3 / 2;
            assert!(once.contains(&read), "{what} {way:?}: {read} of {len}");
            let read = bytes_read(&world, "sync -ac --no-cache src/ dst").unwrap();
            assert!(read >= 2 * len as u64, "{what} {way:?}: {read} of {len}");
            // What changed since and hides it is found.
            let mut bytes = world.read("dst/0");
            bytes[9000] ^= 1;
            world.write("dst/0", bytes);
            world.set_time("dst/0", 1_000_000_000);
            assert!(world.ok("-aci src/ dst").stdout.contains(" 0\n"), "{what} {way:?}");
            world.assert_same("src", "dst");
        }
    }
    let world = World::new();
    let new = noise(BIG, 1);
    world.write("src/file", &new);
    world.write("dst/file", edited(&new, BIG / 2));
    world.set_time("src/file", 1_000_000_000);
    world.ok("-a src/ h:dst");
    let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
    assert!(read >= 2 * BIG as u64, "{read}");
}

#[test]
fn files_sent_with_checksums_are_not_read_again_at_either_end() {
    for to in ["dst", "h:dst"] {
        // Files of one block, and one of several.
        for (files, len) in [(40, BIG / 40), (1, BIG)] {
            let world = World::new();
            for n in 0..files {
                world.write(format!("src/{n}"), noise(len, n));
                world.set_time(format!("src/{n}"), 1_000_000_000);
            }
            rest();
            world.ok(&format!("-ac src/ {to}"));
            let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
            assert!(read < BIG as u64 / 2, "{to} {files}: {read}");
            world.assert_same("src", "dst");
            let mut bytes = world.read("src/0");
            bytes[len / 2] ^= 1;
            world.write("src/0", bytes);
            world.set_time("src/0", 1_000_000_000);
            assert!(world.ok("-aci src/ dst").stdout.contains(" 0\n"), "{to} {files}");
            world.assert_same("src", "dst");
        }
    }
}

/// Its proof is the digest of all bytes, which either end has taken.
#[test]
fn digests_that_prove_a_file_are_kept_without_checksums() {
    let world = World::new();
    let new = noise(BIG, 1);
    world.write("src/file", &new);
    world.write("dst/file", edited(&new, BIG / 2));
    world.set_time("src/file", 1_000_000_000);
    rest();
    world.ok("-a --no-whole-file --strategy rsync src/ h:dst");
    let Some(read) = bytes_read(&world, "sync -ac src/ dst") else { return };
    assert!(read < BIG as u64 / 2, "{read}");
}

/// Without its time a file has the present one, and a change at once may show in nothing.
#[test]
fn what_was_written_without_its_time_is_read() {
    let world = World::new();
    world.write("src/file", noise(BIG, 1));
    world.mkdir("dst");
    world.ok("-rc src/ dst");
    // The source has another ctime, so it is read too.
    world.set_time("src/file", 1_000_000_000);
    rest();
    let Some(read) = bytes_read(&world, "sync -rc src/ dst") else { return };
    assert!(read >= 2 * BIG as u64, "{read}");
}

#[test]
fn a_change_that_hides_behind_its_time_is_found_though_digests_are_known() {
    for way in WAYS {
        let world = world();
        let sync = format!("-aci {} {}", way.from("src/"), way.to("dst"));
        assert_eq!(world.ok(&sync).stdout, "");
        for edited in ["src/big", "dst/big", "src/d/small", "dst/d/small"] {
            let mut bytes = world.read(edited);
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            world.write(edited, bytes);
            world.set_time(edited, 1_000_000_000);
            let told = world.ok(&sync).stdout;
            assert_eq!(told.lines().count(), 1, "{way:?}: {edited}: {told}");
            world.assert_same("src", "dst");
            rest();
            assert_eq!(world.ok(&sync).stdout, "", "{way:?}: {edited}");
        }
    }
}

#[test]
fn nothing_is_kept_where_that_is_not_wanted() {
    for way in WAYS {
        let world = world();
        let run = |more: &str| {
            world.ok(&format!("-ac {more} {} {}", way.from("src/"), way.to("dst")));
        };
        run("--no-cache");
        world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst")));
        world.ok(&format!("-a --no-cache {} {}", way.from("src/"), way.to("other")));
        assert!(!world.exists(".cache"), "{way:?}");
        run("");
        assert!(world.exists(".cache/deltic/digests-1"), "{way:?}");
    }
}

/// `deltic sync -ac` with this in its environment; nothing but the cache may differ.
fn runs_with(world: &World, variables: &[(&str, Option<&str>)]) {
    let words = ["sync", "-aci", "-e", SHELL, "--deltic-path", DELTIC, "src/", "h:dst"];
    let mut command = world.command(DELTIC, words);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let run = Run::of(&mut command);
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "", ""), "{variables:?}");
}

#[test]
fn whatever_is_wrong_with_the_cache_the_run_goes_on() {
    let world = world();
    runs_with(&world, &[("HOME", None)]);
    runs_with(&world, &[("HOME", Some(""))]);
    runs_with(&world, &[("HOME", Some("/proc/nobody"))]);
    runs_with(&world, &[("DELTIC_CACHE_DIR", Some("/dev/full/cache"))]);
    runs_with(&world, &[("XDG_CACHE_HOME", Some("/proc"))]);
    world.write("file", "");
    let file = world.path("file");
    runs_with(&world, &[("DELTIC_CACHE_DIR", file.to_str())]);
    assert!(!world.exists(".cache"));
    let own = world.path("own");
    let table = || [("DELTIC_CACHE_DIR", own.to_str())];
    runs_with(&world, &table());
    for len in [0, 1, 5000, 512 << 10, 600_000] {
        world.write("own/digests-1", noise(len, 7));
        runs_with(&world, &table());
        runs_with(&world, &table());
    }
}

#[test]
fn runs_at_once_share_it() {
    let world = world();
    for n in 0..4 {
        world.ok(&format!("-a src/ dst{n}"));
    }
    rest();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for n in 0..4 {
                let world = &world;
                scope.spawn(move || {
                    let run = world.ok(&format!("-aci src/ h:dst{n}"));
                    assert_eq!(run.stdout, "");
                });
            }
        });
    }
    assert_eq!(world.names(".cache/deltic"), ["digests-1"]);
}

/// So many that most directories are told by their tallies.
#[test]
fn where_contents_are_known_directories_are_told_in_a_few_bytes_and_each_change_is_found() {
    let world = World::new();
    for n in 0..2800 {
        let name = format!("src/{}/{n}", n / 40);
        world.write(&name, noise(10 + n % 1000, n as u64));
        world.set_time(&name, 1_000_000_000);
    }
    world.ok("-a src/ dst");
    rest();
    let sync = "-aci --stats src/ h:dst";
    let sent = |run: &Run| run.stat("Total bytes sent");
    let listed = world.ok(&format!("{sync} --no-cache"));
    world.ok(sync);
    let told = world.ok(sync);
    // The first directories are listed before the receiver answers: how many, depends on the load of the machine.
    assert!(sent(&told) < sent(&listed) * 3 / 4, "{} of {}", sent(&told), sent(&listed));
    for edited in ["dst/69/2799", "src/30/1200", "dst/0/3"] {
        let mut bytes = world.read(edited);
        bytes[0] ^= 1;
        world.write(edited, bytes);
        world.set_time(edited, 1_000_000_000);
        let told = world.ok(sync).stdout;
        let (_, name) = edited.split_once('/').unwrap();
        assert_eq!(told.matches(name).count(), 1, "{edited}: {told}");
        assert_eq!(world.read(format!("src/{name}")), world.read(format!("dst/{name}")));
        rest();
    }
}

/// Long enough that its recipe is kept.
const LARGE: usize = 40 << 20;

/// A large file whose destination is matched against, and is cut for the first time when it has [changed](change).
fn image() -> World {
    let world = World::new();
    world.write("src/image", noise(LARGE, 3));
    world.set_time("src/image", 1_000_000_000);
    world.ok("-a src/ dst");
    world
}

/// Some bytes here and there; the file of each `n` has a time of its own.
fn change(world: &World, n: usize) {
    let mut bytes = world.read("src/image");
    for at in (0..10).map(|part| part * LARGE / 10 + n * 1000) {
        bytes[at] ^= 1;
    }
    world.write("src/image", bytes);
    world.set_time("src/image", 1_000_000_000 + n as i64);
}

fn recipes(world: &World) -> Vec<std::path::PathBuf> {
    let Ok(all) = world.path(".cache/deltic/recipes-1").read_dir() else { return Vec::new() };
    all.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn what_is_matched_against_is_cut_once_and_its_recipe_is_known_then() {
    let world = image();
    let read = |n, more: &str| {
        change(&world, n);
        let read = bytes_read(&world, &format!("sync -a --no-whole-file {more} src/ dst"));
        world.assert_same("src", "dst");
        read
    };
    // Old is cut, and most of it is copied, which takes no reading where blocks are shared.
    let Some(cut) = read(1, "") else { return };
    assert!(cut >= 2 * LARGE as u64, "{cut}");
    for (n, more, was_known) in [
        (2, "", true),
        (3, "--no-cache", false),
        // Nothing is known of what came without it.
        (4, "", false),
        // Another mean length of chunks may be asked for: what is known is of no use.
        (5, "--block-size=65536", false),
        (6, "", false),
        // Nor of what is not flushed,
        (7, "--no-fsync", true),
        (8, "", false),
        // or may have been changed by others while it was changed where it is.
        (9, "--inplace", true),
        (10, "", false),
        (11, "", true),
    ] {
        let read = read(n, more).unwrap();
        let is_known = read < cut - LARGE as u64 * 3 / 4;
        assert_eq!(is_known, was_known, "{n}: {read} of {cut}");
    }
}

#[test]
fn one_recipe_is_kept_of_a_file_and_none_of_what_has_the_present_for_its_time() {
    for way in WAYS {
        let world = image();
        let run = |n, more: &str| {
            change(&world, n);
            let ends = format!("{} {}", way.from("src/"), way.to("dst"));
            world.ok(&format!("--no-whole-file {more} {ends}"));
            assert_eq!(world.read("src/image"), world.read("dst/image"), "{way:?}");
            recipes(&world).len()
        };
        assert_eq!(run(1, "-r --no-times"), 0, "{way:?}");
        assert_eq!((run(2, "-a"), run(3, "-a")), (1, 1), "{way:?}");
        // It waits for its name, or changes where it is; the one before is known no more.
        assert_eq!(run(4, "-a --delay-updates"), 0, "{way:?}");
        assert_eq!((run(5, "-a"), run(6, "-a --inplace")), (1, 0), "{way:?}");
    }
}

#[test]
fn a_change_that_hides_behind_its_time_is_found_though_a_recipe_is_known() {
    for way in WAYS {
        let world = image();
        let run = |n| {
            change(&world, n);
            let ends = format!("{} {}", way.from("src/"), way.to("dst"));
            world.ok(&format!("-a --no-whole-file {ends}"));
            world.assert_same("src", "dst");
        };
        run(1);
        run(2);
        assert_eq!(recipes(&world).len(), 1);
        let mut bytes = world.read("dst/image");
        bytes[LARGE / 3] ^= 1;
        let time = 1_000_000_002;
        world.write("dst/image", bytes);
        world.set_time("dst/image", time);
        run(3);
        run(4);
    }
}

#[test]
fn recipes_that_are_damaged_or_of_another_file_are_not_believed() {
    let world = image();
    let run = |n| {
        change(&world, n);
        world.ok("-a --no-whole-file src/ dst");
        world.assert_same("src", "dst");
        let [recipe] = &recipes(&world)[..] else { panic!("one recipe") };
        recipe.clone()
    };
    let recipe = run(1);
    let other = std::fs::read(&recipe).unwrap();
    let whole = other.len();
    for n in 2..8 {
        let recipe = run(n);
        let mut bytes = std::fs::read(&recipe).unwrap();
        match n {
            2 => bytes.clone_from(&other),
            3 => bytes.truncate(whole / 2),
            4 => bytes.clear(),
            _ => bytes[[10, 70, whole / 2][n - 5]] ^= 1,
        }
        std::fs::write(recipe, bytes).unwrap();
    }
    run(8);
}

/// `%C` is the digest where this end knows it, and as many blanks where it does not.
#[test]
fn digests_of_what_came_are_shown_where_they_are_known() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("dst");
        let contents = [
            ("big", noise(BIG, 1)),
            ("blocks", noise(900_000, 2)),
            ("empty", Vec::new()),
            ("small", b"small".to_vec()),
        ];
        for (name, content) in &contents {
            world.write(format!("src/{name}"), content);
            world.set_time(format!("src/{name}"), 1_000_000_000);
        }
        rest();
        let run = |words: &str| {
            let words =
                format!("{words} --out-format=%i|%n|%C {} {}", way.from("src/"), way.to("dst/"));
            let told = world.ok(&words).stdout;
            let line = |line: &str| {
                let fields: Vec<_> = line.split('|').map(str::to_owned).collect();
                (fields[1].clone(), fields[2].clone())
            };
            told.lines().map(line).filter(|(name, _)| name != "./").collect::<Vec<_>>()
        };
        let (blanks, digest) = (" ".repeat(64), |bytes: &[u8]| {
            let mut digest = deltic_core::recipe::FileDigest::new();
            digest.push(bytes);
            digest.finish().to_string()
        });
        let known = contents.each_ref().map(|(name, bytes)| ((*name).to_owned(), digest(bytes)));
        let mut first = known.clone();
        if matches!(way, crate::common::Way::Push) {
            // It may have parts more than once, so it goes by recipe, without a digest of its bytes.
            first[0].1.clone_from(&blanks);
        }
        assert_eq!(run("-a"), first, "{way:?}");
        for (name, _) in &contents {
            world.chmod(&format!("src/{name}"), 0o600);
        }
        let told = run("-ac");
        assert_eq!(told, known, "{way:?}");
        world.write("src/small", "SMALL");
        world.set_time("src/small", 1_000_000_000);
        assert_eq!(
            run("-acn"),
            [(
                "small".into(),
                if matches!(way, crate::common::Way::Pull) { blanks } else { digest(b"SMALL") }
            )],
            "{way:?}"
        );
        assert_eq!(run("-ac"), [("small".into(), digest(b"SMALL"))], "{way:?}");
        // Under another name, beside a file that has the one of the source.
        world.write("one/small", "other");
        let ends = format!("{} {}", way.from("src/small"), way.to("one/new"));
        let told = world.ok(&format!("-ac --out-format=%C {ends}")).stdout;
        let is_known = !matches!(way, crate::common::Way::Pull);
        let sum = if is_known { digest(b"SMALL") } else { " ".repeat(64) };
        assert_eq!(told.trim_end_matches('\n'), sum, "{way:?}");
    }
}
