//! Every strategy brings real edited files over, with the real binary, here and through a pipe.

use std::fs;

use crate::common::{DELTIC, Run, WAYS, Way, World, btrfs, btrfs_by, edited, noise};
use deltic_core::strategy::Conversation;
use deltic_core::{AtEnd, Strategy, StrongKind, scan};

/// Long enough for runs that NetSync splits, and for more than one segment.
const LONG: usize = 5 << 20;

/// A name, its old version if there is one, and its new one.
type Versions = (&'static str, Option<Vec<u8>>, Vec<u8>);

fn versions() -> Vec<Versions> {
    let old = noise(LONG, 1);
    let cut = [&old[..100_000], &old[300_001..]].concat();
    let mut overwritten = old.clone();
    (0..LONG).step_by(700_001).for_each(|at| overwritten[at] ^= 1);
    let moved = [&old[LONG / 2 + 77..], &old[..LONG / 2 + 77]].concat();
    let repeated: Vec<u8> = noise(4096, 2).into_iter().cycle().take(LONG).collect();
    vec![
        ("insert", Some(old.clone()), edited(&old, 1_234_567)),
        ("cut", Some(old.clone()), cut),
        ("overwrite", Some(old.clone()), overwritten),
        ("move", Some(old.clone()), moved),
        ("unmodified", Some(old.clone()), old.clone()),
        ("unlike", Some(old.clone()), noise(3_000_000, 3)),
        ("emptied", Some(old.clone()), Vec::new()),
        ("filled", Some(Vec::new()), noise(100_000, 4)),
        ("new", None, noise(100_000, 5)),
        ("zeros", Some(vec![0; LONG]), vec![0; LONG + 12_345]),
        ("zeros around", Some(vec![0; LONG]), edited(&vec![0; LONG], LONG / 3)),
        ("repeated", Some(repeated.clone()), edited(&repeated, 1_000_001)),
        ("a few", Some(noise(5000, 6)), edited(&noise(5000, 6), 2500)),
    ]
}

fn world() -> World {
    let world = World::new();
    for (name, old, new) in versions() {
        world.write(format!("src/{name}"), &new);
        world.set_time(format!("src/{name}"), 2_000_000);
        if let Some(old) = old {
            world.write(format!("dst/{name}"), &old);
            world.set_time(format!("dst/{name}"), 1_000_000);
        }
    }
    world
}

fn sync(world: &World, strategy: &str, way: Way, more: &str) -> Run {
    let (from, to) = (way.from("src/"), way.to("dst/"));
    world.ok(&format!("-rt --stats --no-fsync --strategy {strategy} {more} {from} {to}"))
}

/// SkySync joins sums that btrfs keeps, and takes those that no other file system keeps: nobody sees which.
#[test]
fn sums_of_storage_are_those_of_the_bytes() {
    let world = world();
    let Some(_disk) = btrfs(&world) else { return };
    for strategy in ["skysync-f", "skysync-c"] {
        for dir in ["plain", "disk/kept"] {
            let copy = |from: &str| {
                world.mkdir(dir);
                let words = ["-a", from, dir];
                assert_eq!(Run::of(&mut world.command("cp", words)).code, Some(0));
            };
            copy("src");
            copy("dst");
        }
        let run = |from: &str, to: &str| {
            let words = "-rt --stats --no-fsync --strategy";
            let run = world.ok(&format!("{words} {strategy} {from}/src/ {to}/dst/"));
            world.assert_same("src", &format!("{to}/dst"));
            ["Literal data", "Matched data"].map(|name| run.stat(name))
        };
        let computed = run("plain", "plain");
        assert_eq!(run("disk/kept", "disk/kept"), computed, "{strategy}");
        // One end keeps sums, the other computes them.
        for dir in ["plain", "disk/kept"] {
            fs::remove_dir_all(world.path(format!("{dir}/dst"))).unwrap();
            let words = ["-a", "dst", dir];
            assert_eq!(Run::of(&mut world.command("cp", words)).code, Some(0));
        }
        assert_eq!(run("disk/kept", "plain"), computed, "{strategy}");
        assert_eq!(run("plain", "disk/kept"), computed, "{strategy}");
        fs::remove_dir_all(world.path("plain")).unwrap();
        fs::remove_dir_all(world.path("disk/kept")).unwrap();
    }
}

/// Copies `from` into the directory `dir`.
fn copy_into(world: &World, from: &str, dir: &str) {
    fs::create_dir_all(world.path(dir)).expect("a directory can be made");
    let words = ["-a", from, dir];
    assert_eq!(Run::of(&mut world.command("cp", words)).code, Some(0));
}

/// SkySync §3.3: the signature is of the strong sums that the receiver's storage keeps, else of those of the sender's,
/// and of the strategy's own where neither keeps any. Old programs have these alone.
#[test]
fn a_signature_is_of_the_strong_sums_that_storage_keeps() {
    let world = world();
    let Some(_disk) = btrfs_by(&world, "sha256") else { return };
    let copy = |from: &str, dir: &str| copy_into(&world, from, dir);
    ["plain", "disk/kept"].into_iter().for_each(|dir| copy("src", dir));
    let mut literals = Vec::new();
    for (from, to) in [("disk/kept", "disk"), ("plain", "disk"), ("disk/kept", "there")] {
        for way in [Way::Push, Way::Pull] {
            copy("dst", to);
            let (run, told) = told(&world, way, &format!("{from}/src/"), &format!("{to}/dst/"));
            assert!(holds(&told, &old_sum(&world)), "{from} to {to}, {way:?}");
            literals.push(["Literal data", "Matched data"].map(|name| run.stat(name)));
            world.assert_same("src", &format!("{to}/dst"));
            world.assert_clean(&format!("{to}/dst"));
            fs::remove_dir_all(world.path(format!("{to}/dst"))).unwrap();
        }
    }
    // It is the same signature, whoever keeps its sums and whoever computes them.
    assert!(literals.iter().all(|one| *one == literals[0]), "{literals:?}");
    copy("dst", "there");
    let (run, told) = told(&world, Way::Push, "plain/src/", "there/dst/");
    assert!(!holds(&told, &old_sum(&world)), "nobody keeps sums");
    assert!(run.stat("Literal data") > literals[0][0], "blocks of 8 KiB, and not of 4");
    world.assert_same("src", "there/dst");
}

/// `--explain` tells the sums that storage keeps and the sums that both ends agreed on, `--stats` and the JSON summary how
/// many sums came from storage.
#[test]
fn a_run_tells_the_sums_that_storage_keeps() {
    let world = world();
    let Some(_disk) = btrfs_by(&world, "sha256") else { return };
    let copy = |from: &str, dir: &str| copy_into(&world, from, dir);
    copy("src", "disk/kept");
    let kept = "SHA-256 of 4.00 KiB";
    for (way, words) in [
        (
            Way::Push,
            format!("this end keeps {kept}, the other end does not tell; compared by {kept}"),
        ),
        (
            Way::Pull,
            format!("this end keeps no sums, the other end keeps {kept}; compared by {kept}"),
        ),
    ] {
        let is_push = matches!(way, Way::Push);
        let (from, to) = (way.from("disk/kept/src/"), way.to("there/dst/"));
        let run = |more: &str| {
            fs::remove_dir_all(world.path("there")).ok();
            copy("dst", "there");
            world.ok(&format!("-rt --no-fsync --strategy skysync-f {more} {from} {to}"))
        };
        let told = run("--explain --stats");
        assert!(told.stdout.contains(&words), "{way:?}: {told:#?}");
        assert!(told.stdout.contains("\nsums of "), "{told:#?}");
        let line = told.stdout.lines().find(|line| line.starts_with("Sums from storage: "));
        let from_storage = |line: &str| !line.starts_with("Sums from storage: 0 of ");
        assert_eq!(line.map(from_storage), Some(is_push), "{told:#?}");
        let json = run("--json");
        let events: Vec<serde_json::Value> =
            json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let sums =
            events.iter().find(|event| event["event"] == "sums" && event["path"] == "insert");
        let sums = sums.expect("an event");
        let block = serde_json::json!({"sum": "SHA-256", "block_bytes": 4096});
        assert_eq!(sums["agreed"], block, "{sums}");
        assert_eq!(sums[if is_push { "here" } else { "there" }], block, "{sums}");
        assert_eq!(sums["is_there_told"], !is_push, "{sums}");
        let summary = events.iter().find(|event| event["event"] == "summary").expect("an event");
        assert_eq!(summary["sums"]["stored"].as_u64() > Some(0), is_push, "{summary}");
    }
}

/// The sum of the first block of `insert`, as storage has it.
fn old_sum(world: &World) -> Vec<u8> {
    StrongKind::Sha256.sum_of(None, &world.read("dst/insert")[..4096]).as_bytes().into()
}

/// A sync by SkySync's blocks, and all that both ends said.
fn told(world: &World, way: Way, from: &str, to: &str) -> (Run, Vec<u8>) {
    let tees = r#"sh -c 'shift; tee said.up | "$@" | tee said.down' rsh"#;
    let (from, to) = (way.from(from), way.to(to));
    let words = ["sync", "-e", tees, "--deltic-path", DELTIC, "-rt", "--stats", "--no-fsync"];
    let words = words.into_iter().chain(["--strategy", "skysync-f", &from, &to]);
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    (run, [world.read("said.up"), world.read("said.down")].concat())
}

fn holds(bytes: &[u8], sum: &[u8]) -> bool {
    bytes.windows(sum.len()).any(|window| window == sum)
}

#[test]
fn every_strategy_brings_every_edit_over_and_is_worth_it() {
    for Strategy { name: strategy, conversation, .. } in Strategy::ALL {
        // Who rolls over old jumps over what matched, and does not see that repeated content is there at other places
        // too.
        let missed = if conversation == Conversation::RecipeRolled { LONG as u64 } else { 0 };
        for way in [Way::Local, Way::Push] {
            let world = world();
            let run = sync(&world, strategy, way, "");
            world.assert_same("src", "dst");
            world.assert_clean("dst");
            let (literal, matched) = (run.stat("Literal data"), run.stat("Matched data"));
            let moved: usize = versions().iter().map(|(_, _, new)| new.len()).sum();
            let unmodified = LONG as u64;
            let total = literal + matched;
            let all = [moved as u64, moved as u64 - unmodified];
            assert!(all.contains(&total), "{strategy} {way:?}: {literal} and {matched} of {moved}");
            // What is new to the receiver is a little more than 3.2 MB, and a chunk or so around each edit.
            assert!(literal < 5_500_000 + missed, "{strategy} {way:?}: {literal} literal bytes");
        }
    }
}

#[test]
fn regions_that_threads_share_send_what_one_thread_sends() {
    for strategy in ["skysync-f", "skysync-c"] {
        let literal = ["--threads 1", "--threads 2", "--threads 8"].map(|threads| {
            let world = world();
            let run = sync(&world, strategy, Way::Push, threads);
            world.assert_same("src", "dst");
            run.stat("Literal data")
        });
        assert!(literal.iter().all(|one| *one == literal[0]), "{strategy}: {literal:?}");
    }
}

#[test]
fn literals_are_packed_and_pulled_by_every_strategy() {
    for strategy in Strategy::ALL.map(|strategy| strategy.name) {
        let world = world();
        sync(&world, strategy, Way::Pull, "-z");
        world.assert_same("src", "dst");
    }
}

/// With confirmed matches a repeated chunk is found where it first is, as in the papers, so the file is written again.
#[test]
fn an_unchanged_file_is_left_alone_unless_confirmed_matches_find_its_repeats() {
    for Strategy { name: strategy, conversation, .. } in Strategy::ALL {
        let world = World::new();
        let repeated: Vec<u8> = noise(3000, 2).into_iter().cycle().take(900_000).collect();
        for (name, bytes) in
            [("noise", noise(1_000_000, 1)), ("zeros", vec![0; 1_000_000]), ("repeated", repeated)]
        {
            world.write(format!("src/{name}"), &bytes);
            world.write(format!("dst/{name}"), &bytes);
            world.set_time(format!("src/{name}"), 2_000_000);
            world.set_time(format!("dst/{name}"), 1_000_000);
        }
        let recognised: &[&str] = match conversation {
            Conversation::RecipeConfirm => &["noise"],
            _ => &["noise", "zeros", "repeated"],
        };
        let inodes = || -> Vec<u64> {
            recognised.iter().map(|name| world.inode(&format!("dst/{name}"))).collect()
        };
        let before = inodes();
        let run = sync(&world, strategy, Way::Push, "");
        assert_eq!(run.stat("Literal data"), 0, "{strategy}");
        assert_eq!(inodes(), before, "{strategy}: nothing is rewritten");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_dry_run_changes_nothing_by_any_strategy() {
    for strategy in Strategy::ALL.map(|strategy| strategy.name) {
        let world = world();
        let before = world.read("dst/insert");
        sync(&world, strategy, Way::Push, "-nc");
        assert_eq!(world.read("dst/insert"), before, "{strategy}");
        assert!(!world.exists("dst/new"), "{strategy}");
    }
}

#[test]
fn an_unknown_strategy_is_told_which_there_are() {
    let world = World::new();
    let run = world.fails(1, "--strategy sync src dst");
    for strategy in Strategy::ALL {
        assert!(run.stderr.contains(strategy.name), "{run:#?}");
    }
    for way in WAYS {
        let run =
            world.fails(1, &format!("--strategy rsync -W {} {}", way.from("src"), way.to("dst")));
        assert!(run.stderr.contains("--whole-file"), "{run:#?}");
    }
}

/// ParaSync §3.2: the first old chunk with the weak sum of a new chunk has other bytes, and another old chunk has the same.
#[test]
fn a_chunk_behind_another_with_its_weak_sum_is_not_sent() {
    for name in ["parasync", "pdsync"] {
        let chunker = Strategy::by_name(name).unwrap().chunker(0, None).build();
        let first = noise(1_000_000, 31);
        let start: usize = scan(&chunker, &first, AtEnd::Yes).chunks[..50]
            .iter()
            .map(|chunk| chunk.len as usize)
            .sum();
        // The bits of CRC-32C's polynomial change no CRC-32C over them.
        let bits = (1 | 0x82f6_3b78_u64 << 1).to_le_bytes();
        let mut second = first.clone();
        second[start + 100..].iter_mut().zip(bits).for_each(|(byte, bits)| *byte ^= bits);
        for way in [Way::Push, Way::Pull] {
            let world = World::new();
            world.write("src/f", &second);
            world.write("dst/f", [&first[..], &second].concat());
            world.set_time("src/f", 2_000_000);
            world.set_time("dst/f", 1_000_000);
            let run = sync(&world, name, way, "");
            world.assert_same("src", "dst");
            assert_eq!(run.stat("Literal data"), 0, "{name} {way:?}");
        }
    }
}
