//! What goes wrong with files: each name that fails is told, the others arrive, nothing is torn, nothing leaves the
//! root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::attrs::note;
use crate::common::{
    DELTIC, Mounted, Run, SHELL, WAYS, Way, World, edited, is_installed, is_root, noise, skip,
};

#[test]
fn a_missing_source_is_named_and_the_others_arrive() {
    for way in WAYS {
        let world = World::new();
        world.write("one", "1");
        world.write("two", "2");
        let more = if way == Way::Pull { ":missing :two" } else { "missing two" };
        let run = world.fails(23, &format!("-a {} {more} {}", way.from("one"), way.to("dst/")));
        assert!(run.stderr.contains("missing: no such file or directory"), "{way:?} {run:#?}");
        assert_eq!((world.read("dst/one"), world.read("dst/two")), (b"1".to_vec(), b"2".to_vec()));
        let run = world.fails(23, &format!("-a {} {}", way.from("missing/"), way.to("dst/")));
        assert!(run.stderr.contains("missing"), "{way:?} {run:#?}");
        assert!(world.exists("dst/one"));
    }
}

/// Syncs as somebody who may not do everything; loudly nothing where that cannot be.
fn sync_as_nobody(world: &World, words: &str) -> Option<Run> {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let me: &[&str] = if is_root() { &nobody } else { &[] };
    if is_root() {
        let tried = is_installed("setpriv")
            && Run::of(world.command("setpriv", nobody).args([DELTIC, "--version"])).code
                == Some(0);
        if !tried {
            skip("root may read everything, and the program cannot be run as somebody else");
            return None;
        }
        for name in ["", "src", "dst"] {
            std::os::unix::fs::chown(world.path(name), Some(65534), Some(65534)).expect("root may");
        }
    }
    let words = words.split_whitespace();
    let mut command = match is_root() {
        true => world.command("setpriv", me.iter().chain(&[DELTIC, "sync", "-e", SHELL])),
        false => world.command(DELTIC, ["sync", "-e", SHELL]),
    };
    Some(Run::of(command.args(["--deltic-path", DELTIC]).args(words)))
}

#[test]
fn an_unreadable_file_or_directory_is_named_and_the_others_arrive_and_nothing_is_deleted() {
    for way in WAYS {
        let world = World::new();
        for name in ["src/good", "src/secret", "src/locked/below", "src/z", "dst/extra"] {
            world.write(name, "content");
        }
        world.chmod("src/secret", 0o000);
        world.chmod("src/locked", 0o000);
        let words = format!("-a --delete {} {}", way.from("src/"), way.to("dst/"));
        let Some(run) = sync_as_nobody(&world, &words) else { return };
        world.chmod("src/locked", 0o755);
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        let host = if way.from("").is_empty() { "" } else { "h: " };
        for (tried, name, slash) in [("read", "src/secret", ""), ("list", "src/locked", "/")] {
            let path = world.path(name).display().to_string();
            let told = format!("deltic: {host}cannot {tried} {path}{slash}: permission denied\n");
            assert!(run.stderr.contains(&told), "{way:?} no {told} in {run:#?}");
        }
        assert!(world.exists("dst/good") && world.exists("dst/z") && !world.exists("dst/secret"));
        assert!(world.exists("dst/extra"), "{way:?} {run:#?}");
        world.assert_clean("dst");
    }
}

#[test]
fn a_destination_that_cannot_be_written_is_named_and_keeps_what_it_holds() {
    for way in WAYS {
        let world = World::new();
        for name in ["src/locked/new", "src/locked/old", "src/open"] {
            world.write(name, "new content");
        }
        world.write("dst/locked/old", "old");
        world.chmod("dst/locked", 0o555);
        let words = format!("-rt {} {}", way.from("src/"), way.to("dst/"));
        let Some(run) = sync_as_nobody(&world, &words) else { return };
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        assert!(run.stderr.contains("locked/new: permission denied"), "{way:?} {run:#?}");
        assert_eq!(
            (world.read("dst/locked/old"), world.exists("dst/open")),
            (b"old".to_vec(), true)
        );
        world.assert_clean("dst");
    }
}

#[test]
fn a_read_only_directory_of_ours_is_updated_as_rsync_does() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("dst");
        for text in ["as it was", "and as it is now"] {
            world.write("src/locked/below/file", text);
            for name in ["src/locked/below", "src/locked"] {
                world.chmod(name, 0o555);
            }
            let words = format!("-a {} {}", way.from("src/"), way.to("dst/"));
            let Some(run) = sync_as_nobody(&world, &words) else { return };
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {text}");
            assert_eq!(world.read("dst/locked/below/file"), text.as_bytes(), "{way:?}");
            assert_eq!(world.mode("dst/locked/below"), 0o555, "{way:?}");
            for name in ["src/locked", "src/locked/below"] {
                world.chmod(name, 0o755);
            }
        }
    }
}

#[test]
fn a_link_below_the_destination_is_replaced_and_never_followed() {
    for way in WAYS {
        let world = World::new();
        world.write("outside/canary", "alive");
        world.write("outside/sub/file", "alive");
        let before = crate::common::tree::picture(&world.path("outside"));
        world.write("src/sub/file", "new");
        world.write("src/deep/er/file", "new");
        world.write("src/canary", "new");
        world.mkdir("dst/deep");
        for (target, name) in [
            ("../outside/sub", "sub"),
            ("../outside/canary", "canary"),
            ("../../outside", "deep/er"),
        ] {
            world.link(target, &format!("dst/{name}"));
        }
        world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst/")));
        assert_eq!(crate::common::tree::picture(&world.path("outside")), before, "{way:?}");
        world.assert_same("src", "dst");
    }
}

#[test]
fn a_link_in_place_of_the_staging_directory_is_not_followed() {
    for way in WAYS {
        let world = World::new();
        world.write("src/file", noise(5000, 1));
        world.mkdir("outside");
        world.mkdir("dst");
        world.link("../outside", "dst/.deltic");
        let run = world.sync(&["-rlpt".into(), way.from("src/"), way.to("dst/")]);
        assert!(world.names("outside").is_empty(), "{way:?} {run:#?}");
        assert!(run.code == Some(0) || !run.stderr.is_empty(), "{way:?} {run:#?}");
    }
}

#[test]
fn a_file_that_vanishes_is_named_and_the_others_arrive() {
    thread::scope(|scope| {
        for way in [Way::Push, Way::Pull] {
            scope.spawn(move || some_vanish_under_way(way));
        }
    });
}

/// Removes the last ten of many files once the first has arrived. Several hundred may be under way then, and the others
/// take seconds: no load of the machine has the last opened before.
fn some_vanish_under_way(way: Way) {
    let world = World::new();
    for n in 0..1200 {
        world.write(format!("src/{n:04}"), noise(1500, n));
    }
    world.write("dst/extra", "");
    let run = thread::scope(|scope| {
        let (from, to) = (way.from("src/"), way.to("dst/"));
        let words = format!("-a --delete --no-fsync --bwlimit 300K {from} {to}");
        let words: Vec<_> = words.split_whitespace().map(String::from).collect();
        let world = &world;
        let syncing = scope.spawn(move || world.sync(&words));
        // Once something is there, everything was listed.
        while !world.exists("dst/0000") && !syncing.is_finished() {
            thread::sleep(Duration::from_millis(2));
        }
        for n in 1190..1200 {
            fs::remove_file(world.path(format!("src/{n}"))).expect("it is there");
        }
        syncing.join().expect("the run ends")
    });
    assert_eq!(run.code, Some(24), "{way:?} {run:#?}");
    assert!(!world.exists("dst/extra"), "what vanished holds no deletion back");
    for n in 1190..1200 {
        let path = world.path(format!("src/{n}"));
        let told = format!("file has vanished: \"{}\"\n", path.display());
        assert_eq!(run.stderr.matches(&told).count(), 1, "{way:?} {n} {run:#?}");
    }
    world.ok("-a --no-fsync src/ dst/");
    world.assert_same("src", "dst");
}

#[test]
fn below_a_directory_that_vanishes_nothing_is_deleted_and_elsewhere_all_goes_on() {
    if !is_installed("strace") {
        return skip("strace is not installed, which has a directory vanish");
    }
    let world = World::new();
    for dir in ["a", "gone-in-the-midst", "z"] {
        world.write(format!("src/{dir}/file"), "new");
        world.write(format!("dst/{dir}/extra"), "old");
    }
    world.write("dst/extra", "old");
    // Of the two ends this is the sender.
    let shell = "sh -c 'shift; exec strace -qq -f -o trace -P gone-in-the-midst \
                 -e inject=openat2:error=ENOENT \"$@\"' rsh";
    let words = ["sync", "-a", "--delete", "-e", shell, "--deltic-path", DELTIC, "h:src/", "dst/"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!(run.code, Some(24), "{run:#?}");
    let path = world.path("src/gone-in-the-midst").display().to_string();
    let told = format!("directory has vanished: \"{path}\"");
    assert_eq!(run.stderr, format!("deltic: h: {told}\n"), "{run:#?}");
    assert!(world.exists("dst/gone-in-the-midst/extra"), "{run:#?}");
    for name in ["dst/extra", "dst/a/extra", "dst/z/extra"] {
        assert!(!world.exists(name), "{name} {run:#?}");
    }
    assert!(world.exists("dst/a/file") && world.exists("dst/z/file"), "{run:#?}");
    // Who calls us rsync filters lines that begin so.
    world.link(DELTIC, "rsync");
    let program = world.path("rsync").display().to_string();
    let run = Run::of(&mut world.command(&program, [&words[1..], &["--log-file=log"]].concat()));
    let [said, end] = run.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{run:#?}") };
    assert_eq!(said, told, "{run:#?}");
    assert!(end.starts_with("rsync warning: some files vanished before they "), "{run:#?}");
    let log = String::from_utf8(world.read("log")).expect("it is text");
    assert!(log.contains("] directory has vanished: \""), "{log}");
}

/// The value of each block of `bytes`; each must be of one value.
fn blocks(bytes: &[u8]) -> Vec<u8> {
    let block = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]), "a block is of two versions");
        block[0]
    };
    bytes.chunks(64 << 10).map(block).collect()
}

#[test]
fn a_file_that_changes_while_it_is_read_is_never_a_mixture() {
    const BLOCKS: u64 = 48;
    for (way, option) in
        [(Way::Local, ""), (Way::Local, "--no-whole-file"), (Way::Push, "-z"), (Way::Pull, "-W")]
    {
        let world = World::new();
        world.write("src/busy", vec![0; (BLOCKS as usize) << 16]);
        world.write("src/calm", "calm");
        world.ok("-a src/ dst/");
        world.write("src/calm", "still calm");
        let (busy, stop) = (world.path("src/busy"), AtomicBool::new(false));
        let run = thread::scope(|scope| {
            scope.spawn(|| {
                let file = fs::File::options().write(true).open(&busy).unwrap();
                for version in (1..=250_u8).cycle() {
                    for block in 0..BLOCKS {
                        file.write_all_at(&[version; 64 << 10], block << 16).unwrap();
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let words = format!("-a --no-fsync {option} {} {}", way.from("src/"), way.to("dst/"));
            let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
            stop.store(true, Ordering::Relaxed);
            run
        });
        let got = blocks(&world.read("dst/busy"));
        // At any instant the file is some blocks of one version and then those of the one before.
        let steps: Vec<_> = got.windows(2).filter(|pair| pair[0] != pair[1]).collect();
        let one_instant = match &steps[..] {
            [] => true,
            [step] => step[0] == step[1].wrapping_add(1) || (step[0], step[1]) == (1, 250),
            _ => false,
        };
        assert!(one_instant, "{way:?} {option}: {got:?} {run:#?}");
        match run.code {
            Some(24) if run.stderr.contains("busy was open for writing while") => {}
            Some(24) => {
                let why =
                    ["busy: it changed while it was read", "busy: a program is writing to it"];
                assert!(why.iter().any(|why| run.stderr.contains(why)), "{run:#?}");
                assert_eq!(got[0], 0, "{way:?} {option}: it was said to have failed");
            }
            code => assert_eq!(code, Some(0), "{way:?} {option} {run:#?}"),
        }
        assert_eq!(world.read("dst/calm"), b"still calm");
        world.ok("-a src/ dst/");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

/// Runs with `words` while `names` below `src` are added to, from before it begins until it is over.
fn sync_while_they_grow(world: &World, names: &[&str], words: &str) -> Run {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in names {
            let path = world.path(format!("src/{name}"));
            let len = fs::metadata(&path).expect("it is there").len();
            let (stop, log) = (&stop, path.clone());
            scope.spawn(move || {
                let mut file = fs::File::options().append(true).open(log).expect("it is there");
                while !stop.load(Ordering::Relaxed) {
                    file.write_all(b"one more line\n").expect("it is there");
                    thread::sleep(Duration::from_millis(1));
                }
            });
            while fs::metadata(&path).expect("it is there").len() == len {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
        stop.store(true, Ordering::Relaxed);
        run
    })
}

#[test]
fn what_changed_while_it_was_read_costs_the_next_run_what_its_old_version_lacks() {
    for way in WAYS {
        let world = World::new();
        let old = noise(4 << 20, 1);
        world.write("dst/large", &old);
        world.write("src/large", edited(&old, 1 << 20));
        world.write("src/other", noise(1 << 20, 2));
        let words = format!("-a --stats --no-whole-file {} {}", way.from("src/"), way.to("dst/"));
        let stop = AtomicBool::new(false);
        let run = thread::scope(|scope| {
            scope.spawn(|| {
                let file = fs::File::options().write(true).open(world.path("src/large"));
                let file = file.expect("it is there");
                for byte in (0..=u8::MAX).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    file.write_all_at(&[byte; 1000], 3 << 20).expect("there is room");
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
            stop.store(true, Ordering::Relaxed);
            run
        });
        match run.code {
            Some(24) if run.stderr.contains("large was open for writing while") => {}
            Some(24) => assert!(world.read("dst/large") == old, "{way:?} {run:#?}"),
            code => assert_eq!(code, Some(0), "{way:?} {run:#?}"),
        }
        let run = world.ok(&words);
        assert!(run.stat("Literal data") < 300_000, "{way:?} {run:#?}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

#[test]
fn a_file_that_is_added_to_arrives_as_far_as_it_was_there_and_is_never_called_synced() {
    let old = noise(3_000_000, 1);
    for way in WAYS {
        for option in ["", "--no-whole-file", "--inplace", "--append", "-z", "--strategy rsync"] {
            let world = World::new();
            world.write("src/log", &old);
            world.write("src/new", &old[..1_000_000]);
            world.write("src/short", "a line\n");
            world.write("dst/log", &old[..2_000_000]);
            world.write("dst/extra", "goes: everything arrived");
            world.set_time("dst/log", 1_000_000_000);
            let words =
                format!("-a --delete --no-fsync {option} {} {}", way.from("src/"), way.to("dst/"));
            let run = sync_while_they_grow(&world, &["log", "new", "short"], &words);
            assert!(matches!(run.code, Some(0 | 24)), "{way:?} {option} {run:#?}");
            assert_eq!(run.code == Some(24), !run.stderr.is_empty(), "{way:?} {option} {run:#?}");
            for (name, least) in [("log", 3_000_000), ("new", 1_000_000), ("short", 7)] {
                let (is, was) =
                    (world.read(format!("src/{name}")), world.read(format!("dst/{name}")));
                assert!(was.len() > least && is.starts_with(&was), "{way:?} {option} {name}");
            }
            // Each may have been at rest for as long as it was read, where its writer had to wait.
            let is_told = run.stderr.contains(" was open for writing while it was read");
            assert_eq!(run.code == Some(24), is_told, "{way:?} {option} {run:#?}");
            assert!(!world.exists("dst/extra"), "{way:?} {option} {run:#?}");
            world.ok(&format!("-a {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            world.assert_clean("dst");
        }
    }
}

/// Blocks of what is written over from its first to its last, again and again, each of them full of one number.
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 256;

/// True if this is what stood there at one instant: up to some block the one round of writing has come, and the rest is
/// of the round before.
fn is_of_one_instant(bytes: &[u8]) -> bool {
    let mut blocks = bytes[..BLOCKS * BLOCK_BYTES].chunks(BLOCK_BYTES).map(|block| {
        let rounds: Vec<_> = block
            .chunks(8)
            .map(|it| u64::from_le_bytes(it.try_into().expect("eight bytes")))
            .collect();
        // One block may be in the midst.
        (rounds[0], rounds[rounds.len() - 1], rounds.is_sorted_by(|one, next| one >= next))
    });
    let (first, mut last, mut is_sorted) = blocks.next().expect("there are some");
    for (begin, end, is_sorted_within) in blocks {
        is_sorted &= is_sorted_within && begin <= last;
        last = end;
    }
    is_sorted && first - last <= 1
}

#[test]
fn what_is_written_over_and_grows_besides_is_never_mixed() {
    for way in [Way::Local, Way::Push] {
        for option in ["", "--no-whole-file", "--strategy rsync"] {
            let world = World::new();
            world.write("src/db", vec![0; BLOCKS * BLOCK_BYTES]);
            world.write("dst/db", "old");
            world.set_time("dst/db", 1_000_000_000);
            let stop = AtomicBool::new(false);
            let run = thread::scope(|scope| {
                let path = world.path("src/db");
                let db = fs::File::options().write(true).open(path).unwrap();
                scope.spawn(|| {
                    let db = db;
                    for round in 1u64.. {
                        for block in 0..BLOCKS {
                            let bytes = round.to_le_bytes().repeat(BLOCK_BYTES / 8);
                            db.write_all_at(&bytes, (block * BLOCK_BYTES) as u64).unwrap();
                        }
                        let end = (BLOCKS * BLOCK_BYTES) as u64 + round * 8;
                        db.write_all_at(&round.to_le_bytes(), end).unwrap();
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
                let words = format!("-a --no-fsync {option} src/ {}", way.to("dst/"));
                let run = world.sync(&words.split_whitespace().collect::<Vec<_>>());
                stop.store(true, Ordering::Relaxed);
                run
            });
            let there = world.read("dst/db");
            assert!(there == b"old" || is_of_one_instant(&there), "{way:?} {option} {run:#?}");
            assert!(matches!(run.code, Some(0 | 24)), "{way:?} {option} {run:#?}");
            world.assert_clean("dst");
        }
    }
}

#[test]
fn a_source_that_changed_while_it_was_read_is_not_removed() {
    for way in WAYS {
        let world = World::new();
        world.write("src/log", noise(3_000_000, 1));
        world.write("src/calm", "goes");
        let words = format!("-a --remove-source-files {} {}", way.from("src/"), way.to("dst/"));
        let run = sync_while_they_grow(&world, &["log"], &words);
        assert!(!world.exists("src/calm"), "{way:?} {run:#?}");
        match run.code {
            Some(24) => {
                let (is, was) = (world.read("src/log"), world.read("dst/log"));
                assert!(was.len() > 3_000_000 && is.starts_with(&was), "{way:?} {run:#?}");
            }
            code => assert_eq!(code, Some(0), "{way:?} {run:#?}"),
        }
    }
}

#[test]
fn a_changed_destination_is_not_overwritten_unseen() {
    // Somebody writes to the destination while its new version is on the way.
    let world = World::new();
    world.write("src/file", noise(400_000, 1));
    world.write("dst/file", "old");
    let (run, in_time) = thread::scope(|scope| {
        let syncing = scope.spawn(|| world.sync(&["-a", "--bwlimit", "300K", "src/", "h:dst/"]));
        while !world.exists("dst/.deltic") && !syncing.is_finished() {
            thread::sleep(Duration::from_millis(2));
        }
        let was = world.read("dst/file");
        world.write("dst/file", "somebody else's");
        (syncing.join().unwrap(), was == b"old")
    });
    let kept = world.read("dst/file") == b"somebody else's";
    // On a busy machine the new version may have been there before.
    assert!(!in_time || kept == (run.code == Some(23)), "{run:#?}");
    world.ok("-a src/ dst/");
    world.assert_same("src", "dst");
}

#[test]
fn what_another_run_brings_meanwhile_is_no_conflict() {
    // Meanwhile is when so many names are staged: of those that wait, all small ones.
    let both = |way| [(way, "-aH", 1), (way, "-a --delay-updates", 4)];
    for (way, options, staged) in WAYS.into_iter().flat_map(both) {
        let world = World::new();
        for n in 0..4 {
            world.write(format!("src/vast-{n}"), noise(300_000, n));
            world.write(format!("src/small-{n}"), noise(100, n));
        }
        world.link("small-0", "src/link");
        if options == "-aH" {
            fs::hard_link(world.path("src/vast-0"), world.path("src/linked")).unwrap();
        }
        world.write("dst/vast-0", "old");
        let words =
            |more: &str| format!("{options} {more} {} {}", way.from("src/"), way.to("dst/"));
        let slow = words("--bwlimit=500K");
        let slow: Vec<_> = slow.split_whitespace().collect();
        let run = thread::scope(|scope| {
            let syncing = scope.spawn(|| world.sync(&slow));
            let names = || fs::read_dir(world.path("dst/.deltic")).map_or(0, Iterator::count);
            while names() < staged && !syncing.is_finished() {
                thread::sleep(Duration::from_millis(2));
            }
            world.ok(&words(""));
            syncing.join().unwrap()
        });
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {run:#?}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

/// A small file system at `dst`.
struct Disk<'a>(Mounted<'a>);

impl<'a> Disk<'a> {
    fn mount(world: &'a World, size: &str) -> Option<Self> {
        let words = ["-t", "tmpfs", "-o", size, "tmpfs", "dst"];
        let without = "a small file system cannot be mounted here";
        Mounted::by((world, "dst"), ("mount", &words), without).map(Self)
    }

    fn remount(&self, size: &str) {
        let words = ["-o", &format!("remount,{size}"), "dst"];
        assert_eq!(Run::of(&mut self.0.0.command("mount", words)).code, Some(0));
    }
}

#[test]
fn a_full_disk_is_told_once_with_a_count_and_what_to_do() {
    for way in WAYS {
        let world = World::new();
        let Some(_disk) = Disk::mount(&world, "size=200K") else { return };
        (0..60).for_each(|n| world.write(format!("src/{n}"), noise(10_000, n)));
        let words = format!("-a --json {} {}", way.from("src/"), way.to("dst/"));
        let run = world.fails(23, &words);
        let named = run.stdout.lines().filter(|line| line.contains("\"errno\":28")).count();
        let told: Vec<_> = run.stderr.lines().collect();
        assert!(named > 30 && told.len() == 3, "{way:?} {run:#?}");
        assert!(told[0].contains("cannot write ") && told[0].ends_with("no space left on device"));
        assert_eq!(told[1], format!("deltic: {named} names failed: no space left on device"));
        assert!(told[2].starts_with("  hint: make room "), "{way:?} {run:#?}");
    }
}

#[test]
fn what_finds_no_room_on_a_full_disk_comes_once_old_names_are_deleted() {
    for way in WAYS {
        let world = World::new();
        let Some(_disk) = Disk::mount(&world, "size=8M") else { return };
        for n in 0..40 {
            world.write(format!("src/{n}"), "stays");
            world.write(format!("dst/{n}"), "stays");
        }
        world.write("dst/old", noise(6 << 20, 1));
        world.write("src/new", noise(3 << 20, 2));
        world.write("src/too big", noise(20 << 20, 3));
        world.write("src/zz new", noise(3 << 20, 4));
        let run = world.fails(
            23,
            &format!("-a --delete --max-delete 1 {} {}", way.from("src/"), way.to("dst/")),
        );
        assert!(run.stderr.contains("too big: no space left on device"), "{way:?} {run:#?}");
        assert!(!run.stderr.contains("nothing deleted"), "{way:?} {run:#?}");
        assert!(!world.exists("dst/old") && !world.exists("dst/too big"), "{way:?}");
        for name in ["new", "zz new", "39"] {
            assert!(
                world.read(format!("dst/{name}")) == world.read(format!("src/{name}")),
                "{way:?} {name}"
            );
        }
        // What failed for another reason holds them back as ever.
        world.write("dst/old", "another");
        let words =
            format!("-a --delete {} {} {}", way.from("src/"), way.from("nowhere"), way.to("dst/"));
        world.fails(23, &words);
        assert!(world.exists("dst/old"), "{way:?}");
    }
}

#[test]
fn on_a_full_disk_what_fits_arrives_and_what_does_not_stays_as_it_was() {
    for way in WAYS {
        for limit in ["size=2M", "size=20M,nr_inodes=12"] {
            let world = World::new();
            let Some(disk) = Disk::mount(&world, limit) else { return };
            world.write("dst/z big", "old content");
            for n in 0..8 {
                world.write(format!("src/small {n}"), noise(3000, n));
            }
            let inodes = limit.contains("inodes");
            for n in 0..if inodes { 20 } else { 0 } {
                world.write(format!("src/t{n}"), "many");
            }
            world.write("src/z big", noise(if inodes { 3000 } else { 4 << 20 }, 1));
            let words = format!("-a --log-file=log {} {}", way.from("src/"), way.to("dst/"));
            let run = world.fails(23, &words);
            assert!(run.stderr.contains("no space left on device"), "{way:?} {limit} {run:#?}");
            let log = String::from_utf8(world.read("log")).expect("it is text");
            if !inodes {
                for n in 0..8 {
                    let name = format!("small {n}");
                    let told = world.told("write", &format!("dst/{name}"), "no space left");
                    let named = log.contains(&told);
                    assert!(
                        named != world.exists(format!("dst/{name}")),
                        "{way:?} {name} {run:#?}"
                    );
                }
                assert_eq!(world.read("dst/z big"), b"old content", "{way:?}");
            }
            for name in
                world.names("dst").iter().filter(|name| !["z big", ".deltic"].contains(&&***name))
            {
                let (got, sent) = (format!("dst/{name}"), format!("src/{name}"));
                assert!(world.read(got) == world.read(sent), "{way:?} {limit} {name}");
            }
            disk.remount("size=20M,nr_inodes=1000");
            world.ok(&words);
            world.assert_same("src", "dst");
            world.assert_clean("dst");
        }
    }
}

/// Files that grow side by side do not take the room from each other, or from small ones.
#[test]
fn on_a_nearly_full_disk_files_do_not_all_fail_together() {
    for way in WAYS {
        for (option, lens, arrive) in [
            ("", [50, 60, 0], 1),
            ("--whole-file", [50, 60, 0], 1),
            ("--no-whole-file", [50, 60, 0], 1),
            ("--delay-updates", [30, 40, 500], 2),
            ("-W", [70, 75, 500], 1),
        ] {
            let world = World::new();
            let Some(_disk) = Disk::mount(&world, "size=8M") else { return };
            for (n, len) in (0..).zip(lens) {
                world.write(format!("src/large {n}"), noise(len * 100_000, n));
            }
            for n in 0..10 {
                world.write(format!("src/small {n}"), noise(1000, n));
            }
            let (from, to) = (way.from("src/"), way.to("dst/"));
            let words = format!("-a {option} --log-file=log {from} {to}");
            let run = world.fails(23, &words);
            let log = String::from_utf8(world.read("log")).expect("it is text");
            let names = world.names("dst");
            let came = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
            let expected = arrive + usize::from(lens[2] == 0);
            assert_eq!((came("large"), came("small")), (expected, 10), "{way:?} {option} {run:#?}");
            for n in 0..3 {
                let name = format!("large {n}");
                let told = log.matches(&format!("{name}: no space left")).count();
                let is_here = world.exists(format!("dst/{name}"));
                assert_eq!(told, usize::from(!is_here), "{way:?} {option} {name} {run:#?}");
                assert!(
                    !is_here
                        || world.read(format!("dst/{name}")) == world.read(format!("src/{name}"))
                );
            }
        }
    }
}

/// What had no room leaves none of it: it is sent again, but for what its old version has.
#[test]
fn after_a_full_disk_the_next_run_sends_what_had_no_room_alone() {
    for way in WAYS {
        let world = World::new();
        let Some(disk) = Disk::mount(&world, "size=9M") else { return };
        for n in 0..6 {
            world.write(format!("src/{n}"), noise(1 << 20, n));
        }
        let large = noise(12 << 20, 9);
        world.write("src/large", &large);
        world.write("dst/large", &large[..2 << 20]);
        let words = format!("-a --stats --no-whole-file {} {}", way.from("src/"), way.to("dst/"));
        let run = world.fails(23, &words);
        assert!(run.stderr.contains("large: no space left on device"), "{way:?} {run:#?}");
        assert_eq!(run.stat("Literal data"), 6 << 20, "{way:?} {run:#?}");
        disk.remount("size=40M");
        let run = world.ok(&words);
        assert_eq!(run.stat("Number of regular files transferred"), 1, "{way:?} {run:#?}");
        assert!(run.stat("Literal data") < 11 << 20, "{way:?} {run:#?}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

#[test]
fn special_files_are_skipped_by_name() {
    let world = World::new();
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, world.path("src/fifo"), kind, mode, 0).unwrap();
    world.write("src/file", "x");
    for way in WAYS {
        let run = world.sync(&["-rlpt".into(), way.from("src/"), way.to("dst/")]);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        let said = ("skipping non-regular file \"fifo\"\n", "");
        assert_eq!((&*run.stdout, &*run.stderr), said, "{way:?}");
        assert!(world.exists("dst/file") && !world.exists("dst/fifo"));
    }
    // Where one stands in a file's place it is replaced, not written to.
    world.write("src/other", "x");
    rustix::fs::mknodat(rustix::fs::CWD, world.path("dst/other"), kind, mode, 0).unwrap();
    let run = world.sync(&["-a", "src/other", "dst/"]);
    assert_eq!((run.code, world.read("dst/other")), (Some(0), b"x".to_vec()), "{run:#?}");
}

#[test]
fn a_file_that_cannot_grow_in_place_is_said_to_be_torn_and_the_next_run_repairs_it() {
    for way in WAYS {
        let world = World::new();
        let Some(disk) = Disk::mount(&world, "size=3M") else { return };
        world.mkdir("aside");
        world.write("dst/file", noise(2 << 20, 1));
        world.write("src/file", noise(6 << 20, 2));
        let inode = world.inode("dst/file");
        let words = format!("-a --inplace -T ../aside {} {}", way.from("src/"), way.to("dst/"));
        // It would have all of its blocks first, and stays as it was.
        world.set_time("dst/file", 1_000_000_000);
        let time = world.time("dst/file");
        let run = world.fails(23, &words);
        assert!(
            run.stderr.contains(&world.told("write", "dst/file", "no space left")),
            "{way:?} {run:#?}"
        );
        assert!(world.read("dst/file") == noise(2 << 20, 1), "{way:?}");
        assert_eq!(world.time("dst/file"), time, "{way:?}");
        // Where there may be holes nobody knows what it will take.
        let run = world.fails(23, &format!("{words} -S"));
        assert!(run.stderr.contains("is half changed"), "{way:?} {run:#?}");
        assert!(run.stderr.contains("no space left on device"), "{way:?} {run:#?}");
        // Not even --update takes it for newer.
        assert_eq!(world.time("dst/file"), (0, 1), "{way:?}");
        disk.remount("size=20M");
        let run = world.ok(&format!("{words} -u --no-whole-file --stats"));
        assert!(run.stat("Literal data") <= 3 << 20, "what was written is used: {run:#?}");
        assert_eq!(world.inode("dst/file"), inode, "{way:?}");
        world.assert_same("src", "dst");
        assert!(world.names("aside").is_empty(), "{way:?}");
    }
}

#[test]
fn a_log_that_has_no_room_for_its_tail_stays_as_it_was_and_gets_all_of_it_later() {
    for way in WAYS {
        let world = World::new();
        let Some(disk) = Disk::mount(&world, "size=30M") else { return };
        let log = noise(20_000_000, 1);
        world.write("src/log", &log);
        world.write("dst/log", &log[..1_000_001]);
        let words = format!("-a --append {} {}", way.from("src/"), way.to("dst/"));
        world.fails(23, &words);
        assert!(world.read("dst/log") == log[..1_000_001], "{way:?}");
        disk.remount("size=100M");
        world.ok(&words);
        assert!(world.read("dst/log") == log, "{way:?}");
    }
}

/// The old version is kept before anything of it changes, and no later run has a mixture in its place.
#[test]
fn a_torn_file_is_no_old_version_to_keep() {
    let backups = [("-b", "dst/file~"), ("-b --backup-dir=kept", "dst/kept/file")];
    for (words, kept) in backups.into_iter().chain([("-b --backup-dir=../kept", "kept/file")]) {
        for later in ["--inplace", "--no-inplace", "--delete"] {
            let world = World::new();
            let Some(disk) = Disk::mount(&world, "size=9M") else { return };
            world.mkdir("aside");
            let old = noise(2 << 20, 1);
            world.write("src/file", noise(6 << 20, 2));
            world.write("dst/file", &old);
            world.set_time("dst/file", 1_000_000_000);
            world.write("dst/more", noise(4 << 20, 3));
            let words = format!("-a {words} -T ../aside src/ dst/");
            let run = world.fails(23, &format!("--inplace -S {words}"));
            assert!(run.stderr.contains("is half changed"), "{words} {run:#?}");
            assert!(world.read(kept) == old, "{words}");
            disk.remount("size=50M");
            if later == "--delete" {
                fs::remove_file(world.path("src/file")).unwrap();
                world.write("src/more", "");
            }
            world.ok(&format!("{later} {words}"));
            assert!(world.read(kept) == old, "{words} {later}");
            assert_eq!(world.exists("dst/file"), later != "--delete", "{words}");
            if world.exists("src/file") {
                assert!(world.read("src/file") == world.read("dst/file"), "{words} {later}");
                // What replaces a whole version keeps that one.
                let whole = world.read("dst/file");
                world.write("src/file", "newer");
                world.ok(&format!("--inplace {words}"));
                assert!(world.read(kept) == whole, "{words} {later}");
            }
        }
    }
}

#[test]
fn attributes_that_are_not_ours_to_read_are_told_as_such() {
    for way in WAYS {
        let world = World::new();
        world.mkdir("dst");
        world.write("src/secret", "content");
        note(&world.path("src/secret"), "user.a", b"b");
        world.chmod("src/secret", 0o000);
        let words = format!("-rX -n {} {}", way.from("src/"), way.to("dst/"));
        let Some(run) = sync_as_nobody(&world, &words) else { return };
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        let told = world.told("read attributes of", "src/secret", "permission denied\n");
        assert!(run.stderr.contains(&told), "{way:?} {run:#?}");
    }
}

/// One name keeps the directories above it and nothing else.
#[test]
fn each_name_that_could_not_be_deleted_is_told_once_with_its_reason() {
    if !is_root() {
        return skip("only root has directories of several users");
    }
    for way in WAYS {
        let world = World::new();
        world.write("src/new", "content");
        for name in ["a/goes", "a/b/goes", "a/b/c/1", "a/b/c/2", "a/b/d/e/3", "f/goes", "z"] {
            world.write(format!("dst/{name}"), "content");
        }
        // These are somebody else's.
        Run::of(&mut world.command("chown", ["-R", "65534:65534", "dst"]));
        Run::of(&mut world.command("chown", ["0:0", "dst/a/b/c", "dst/a/b/d/e"]));
        let words = format!("-r --delete --stats {} {}", way.from("src/"), way.to("dst/"));
        let Some(run) = sync_as_nobody(&world, &words) else { return };
        assert_eq!(run.code, Some(23), "{way:?} {run:#?}");
        let mut told: Vec<_> = run.stderr.lines().filter(|line| line.contains("remove")).collect();
        told.sort_unstable();
        let stayed = ["a/b/c/1", "a/b/c/2", "a/b/d/e/3"];
        let host = if way.to("").is_empty() { "" } else { "h: " };
        let told_of = |name| world.told("remove", &format!("dst/{name}"), "permission denied");
        let expected = stayed.map(|name| format!("deltic: {host}{}", told_of(name)));
        assert_eq!(told, expected, "{way:?} {run:#?}");
        assert_eq!(run.stat("Number of deleted files"), 5, "{way:?} {run:#?}");
        let mut names = world.names("dst");
        names.sort_unstable();
        assert_eq!(names, ["a", "new"], "{way:?}");
        assert_eq!(world.names("dst/a"), ["b"], "{way:?}");
        assert!(stayed.iter().all(|name| world.exists(format!("dst/{name}"))), "{way:?}");
    }
}

#[test]
fn where_few_threads_may_start_few_do_it_all() {
    if !is_installed("strace") {
        return skip("strace is not installed, which has threads fail");
    }
    let world = World::new();
    for n in 0..40 {
        world.write(format!("src/{n}/file"), noise(100, n));
    }
    // Of each thread's own that one and all after it do not start.
    for first in ["9", "5"] {
        let few = format!("inject=clone3:error=EAGAIN:when={first}+");
        let words = ["-D", "-f", "-o", "/dev/null", "-e", &few, DELTIC, "sync", "-a", "src/"];
        let run = Run::of(world.command("strace", words).arg(format!("dst-{first}/")));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{first}: {run:#?}");
        world.assert_same("src", &format!("dst-{first}"));
    }
    let words = ["-D", "-f", "-o", "/dev/null", "-e", "inject=clone3:error=EAGAIN:when=FIRST+"];
    let words = [&words[..], &[DELTIC, "sync", "-a", "src/", "other/"]].concat();
    for first in ["1", "2"] {
        let words = words.iter().map(|word| word.replace("FIRST", first));
        let run = Run::of(&mut world.command("strace", words));
        assert_eq!(run.code, Some(14), "{run:#?}");
        assert_eq!(run.stderr, "deltic: cannot start a thread: resource temporarily unavailable\n");
    }
}

/// As file systems of FAT, of networks and in user space do.
#[test]
fn where_owners_and_modes_are_made_up_files_arrive_with_their_times() {
    for made_up in ["--force-user=65534", "--perms=a=rwX"] {
        let world = World::new();
        let Some(_mounted) = bound(&world, made_up) else { return };
        for way in WAYS {
            let dst = format!("mounted/{way:?}");
            world.mkdir(&dst);
            for (n, words) in ["", "-b", "--inplace", "--delay-updates"].iter().enumerate() {
                for (name, len) in [("small", 10), ("sub/large", 400_000)] {
                    world.write(format!("src/{name}"), noise(len + n, n as u64));
                    world.set_time(format!("src/{name}"), 1_000_000_000 + n as i64);
                }
                let ends = format!("{} {}/", way.from("src/"), way.to(&dst));
                world.ok(&format!("-rt {words} {ends}"));
                assert_eq!(world.ok(&format!("-rti {ends}")).stdout, "", "{way:?} {words}");
                for name in ["small", "sub/large"] {
                    let is = world.read(format!("{dst}/{name}"));
                    assert_eq!(is, world.read(format!("src/{name}")), "{way:?} {words}");
                }
            }
            assert_eq!(world.read(format!("{dst}/small~")), noise(10, 0), "{way:?}");
            world.assert_clean(&dst);
        }
    }
}

/// `behind`, mounted at `mounted` with another owner or mode.
fn bound<'a>(world: &'a World, made_up: &str) -> Option<Mounted<'a>> {
    world.mkdir("behind");
    let words = [made_up, "behind", "mounted"];
    let without = "bindfs cannot be mounted, which makes up owners and modes";
    Mounted::by((world, "mounted"), ("bindfs", &words), without)
}
