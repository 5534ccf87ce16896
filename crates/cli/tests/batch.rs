//! Runs that are kept in a file and made again elsewhere: `--write-batch`, `--only-write-batch`, `--read-batch`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::dice::Dice;
use crate::common::maker::{Taste, Tree};
use crate::common::tree::picture;
use crate::common::{DELTIC, Mounted, Run, SHELL, WAYS, World, edited, is_root, noise, rsync};
use deltic_protocol::ToReceiver;
use deltic_protocol::batch::{MAGIC, encode_request};
use deltic_protocol::message::Extent;
use deltic_protocol::options::Options;
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};
use rustix::fs::fstatvfs;

/// Sources, and directories `a` and `b` with an older version of them.
fn world() -> World {
    let world = World::new();
    world.write("src/big", noise(600_000, 1));
    world.write("src/dir/file", "old");
    world.write("src/same", "same");
    world.write("src/gone", "gone");
    world.link("same", "src/link");
    for to in ["a", "b"] {
        world.ok(&format!("-a src/ {to}/"));
    }
    world.write("src/big", edited(&noise(600_000, 1), 300_000));
    world.write("src/dir/file", "a new one");
    world.write("src/new", "new");
    for name in ["src/gone", "src/link"] {
        fs::remove_file(world.path(name)).expect("it is there");
    }
    world.link("new", "src/link");
    world
}

fn len(world: &World, name: &str) -> u64 {
    world.path(name).metadata().expect("it is there").len()
}

#[test]
fn what_a_batch_was_written_for_another_destination_becomes_as_well() {
    for way in WAYS {
        let world = world();
        world.ok(&format!("-a --delete --write-batch=B {} {}", way.from("src/"), way.to("a/")));
        world.assert_same("src", "a");
        world.ok("-a --delete --read-batch=B b/");
        world.assert_same("src", "b");
        world.assert_clean("b");
        // Of a file of two versions here, only what is new.
        let room = if way == crate::common::Way::Local { 20_000 } else { 650_000 };
        assert!(len(&world, "B") < room, "{way:?}: {} bytes", len(&world, "B"));
        assert_eq!(world.mode("B"), 0o600, "it holds what others may not read");
        // Once more, and nothing is to be done.
        assert_eq!(world.ok("-ai --delete --read-batch=B b/").stdout, "");
    }
}

/// What belongs in an empty source is most likely not mounted: nothing goes in its place, whichever way it is told of.
#[test]
fn nothing_goes_in_the_place_of_a_source_that_was_empty() {
    for (words, sources, at) in [
        ("--write-batch=B", "s/a s/b", "a"),
        ("--write-batch=B -R", "s/a s/b", "s/a"),
        ("--write-batch=B -r --files-from=list", ".", "s/a"),
        ("--write-batch=B", "s/a/ s/b/", "."),
        ("--only-write-batch=B", "s/a s/b", "a"),
    ] {
        let world = World::new();
        world.mkdir("s/a");
        world.write("s/b/f", "1");
        world.write("list", "s/a\ns/b\n");
        for to in ["d1", "d2"] {
            world.write(format!("{to}/{at}/x"), "stays");
        }
        let all = format!("-a --delete {words} {sources} d1/");
        let written = world.sync(&all.split(' ').collect::<Vec<_>>());
        // What deletes nothing but tells is a dry run.
        let code = if words.starts_with("--only") { 0 } else { 25 };
        assert_eq!(written.code, Some(code), "{written:#?}");
        let run = world.fails(25, "-a --delete --read-batch=B d2/");
        assert!(run.stderr.contains("empty"), "{words} {run:#?}");
        for to in ["d1", "d2"] {
            assert!(world.exists(format!("{to}/{at}/x")), "{words} {sources} {to}");
        }
    }
}

#[test]
fn a_batch_may_lie_in_its_source_and_in_its_destination() {
    for way in WAYS {
        let world = world();
        let ends = format!("{} {}", way.from("src/"), way.to("a/"));
        world.ok(&format!("-a --delete --write-batch=a/B {ends}"));
        assert!(world.exists("a/B") && world.exists("a/B.sh"), "{way:?}");
        world.ok("-a --delete --read-batch=a/B b/");
        world.assert_same("src", "b");
        let world = self::world();
        let names = world.names("src");
        world.ok(&format!("-a --delete --write-batch=src/B {ends}"));
        assert_eq!(world.names("a"), names, "{way:?}");
        world.ok("-a --delete --read-batch=src/B b/");
        assert_eq!(world.names("b"), names, "{way:?}");
        assert_eq!(world.names("src").len(), names.len() + 2, "{way:?}");
    }
}

#[test]
fn a_batch_has_what_came_behind_a_link_that_is_kept() {
    for way in WAYS {
        let world = World::new();
        for (name, seed) in [("src/in/big", 1), ("src/in/deep/small", 2), ("src/top", 3)] {
            world.write(name, edited(&noise(300_000, seed), 200_000));
        }
        for to in ["a", "b"] {
            world.write(format!("{to}/real/big"), noise(300_000, 1));
            world.mkdir(&format!("{to}/real/further"));
            world.link("real", &format!("{to}/in"));
            world.link("further", &format!("{to}/real/deep"));
        }
        world.ok(&format!("-aK --write-batch=B {} {}", way.from("src/"), way.to("a/")));
        world.ok("-aK --read-batch=B b/");
        for to in ["a", "b"] {
            for name in ["in/big", "in/deep/small", "top"] {
                let (new, old) = (world.read(format!("{to}/{name}")), format!("src/{name}"));
                assert!(new == world.read(old), "{way:?} {to} {name}");
            }
            assert!(world.path(format!("{to}/in")).is_symlink(), "{way:?}");
        }
    }
}

#[test]
fn a_batch_gets_the_name_that_ones_own_link_leads_to() {
    let world = World::new();
    world.write("s/a", "a");
    world.mkdir("out");
    world.mkdir("links");
    world.link("../out/B", "links/B");
    for to in ["first/", "second/"] {
        world.ok(&format!("-a --write-batch=links/B s/ {to}"));
        assert!(world.path("links/B").is_symlink() && !world.path("out/B").is_symlink());
    }
    world.ok("-a --read-batch=out/B e/");
    assert_eq!((world.read("e/a"), world.names("out")), (b"a".to_vec(), vec!["B".to_string()]));
}

#[test]
fn only_a_batch_is_written_where_that_is_asked_for() {
    for way in ["a/", "h:a/"] {
        let world = world();
        let before = picture(&world.path("a"));
        let told = world.ok(&format!("-ai --delete --only-write-batch=B src/ {way}")).stdout;
        assert_eq!(picture(&world.path("a")), before);
        assert!(told.contains(".f.st...... big") || told.contains("f.st...... big"), "{told}");
        assert!(told.contains("*deleting   gone"), "{told}");
        world.ok("-a --delete --read-batch=B a/");
        world.assert_same("src", "a");
    }
    let world = world();
    let run = world.fails(1, "-a --only-write-batch=B h:src/ a/");
    assert!(run.stderr.contains("on the other machine") && !world.exists("B"), "{run:#?}");
}

#[test]
fn the_script_beside_a_batch_reads_it_with_the_same_words() {
    let world = world();
    world.write("src/left out", "x");
    world.write("rules", "left*\n");
    world.mkdir("dir with it's name");
    world.ok("-a src/big src/same dir");
    let to = "dir with it's name/";
    let words = ["-a", "--delete", "--exclude-from=rules", "--write-batch=B", "src/", to];
    assert_eq!(world.sync(&words).code, Some(0));
    fs::remove_file(world.path("rules")).unwrap();
    // What is left out is not removed.
    world.write("b/left here", "x");
    let shell = |words: &[&str]| Run::of(&mut world.command("sh", words));
    assert_eq!(shell(&["./B.sh", "b/"]).code, Some(0));
    assert!(world.exists("b/left here") && !world.exists("b/left out") && !world.exists("b/gone"));
    assert_eq!(world.read("b/big"), world.read("src/big"));
    fs::remove_dir_all(world.path(to)).unwrap();
    assert_eq!(shell(&["./B.sh"]).code, Some(0));
    assert_eq!(world.read(format!("{to}new")), b"new");
    assert_eq!(world.mode("B.sh"), 0o700);
}

#[test]
fn a_batch_comes_from_standard_input_too() {
    for piped in [false, true] {
        let world = world();
        world.ok("-a --delete --write-batch=B src/ a/");
        let mut command = std::process::Command::new(DELTIC);
        command.args(["sync", "-a", "--delete", "--read-batch=-", "b/"]);
        command.current_dir(world.path(""));
        let status = if piped {
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), &world.read("B")).unwrap();
            child.wait().unwrap()
        } else {
            command.stdin(fs::File::open(world.path("B")).unwrap()).status().unwrap()
        };
        assert!(status.success());
        world.assert_same("src", "b");
    }
}

/// A device has no end: it is read as far as a batch goes, and the copy in TMPDIR is no longer.
#[test]
fn a_pipe_or_a_device_is_read_only_as_far_as_it_is_a_batch() {
    let world = world();
    world.ok("-a --delete --write-batch=B src/ a/");
    for device in ["/dev/zero", "/dev/urandom"] {
        let run = world.fails(12, &format!("-a --read-batch={device} b/"));
        let told = format!("--read-batch={device}: not a batch of deltic");
        assert!(run.stderr.contains(&told), "{device} {run:#?}");
    }
    world.fails(12, "-a --read-batch=/dev/null b/");
    let run = world.fails(12, "-a --read-batch=src b/");
    assert!(run.stderr.contains("is a directory"), "{run:#?}");
    // What stands behind is read no further than what it claims is checked.
    for (cut, behind, why) in [
        (8, "/dev/zero", "damaged"),
        (100, "/dev/zero", "damaged"),
        (100, "/dev/null", "cut short"),
    ] {
        world.write("part", &world.read("B")[..cut]);
        let words = format!("cat part {behind} | {DELTIC} sync -a --read-batch=- b/");
        let run = Run::of(&mut world.command("sh", ["-c", &words]));
        assert_eq!(run.code, Some(12), "{words} {run:#?}");
        assert!(run.stderr.contains(why), "{words} {run:#?}");
    }
    let words = format!("mkfifo F; cat B >F & {DELTIC} sync -a --delete --read-batch=F b/");
    let run = Run::of(&mut world.command("sh", ["-c", &words]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.assert_same("src", "b");
}

/// Nothing in a list tells where the list ends.
#[test]
fn a_list_without_end_leaves_room_where_it_is_copied_to() {
    let world = world();
    let words = ["-t", "tmpfs", "-o", "size=40m", "tmpfs", "tmp"];
    let Some(_tmp) = Mounted::by((&world, "tmp"), ("mount", &words), "no tmpfs can be mounted")
    else {
        return;
    };
    let free = || fs::File::open(world.path("tmp")).map(fstatvfs).expect("it is there");
    let free = || free().map(|disk| disk.f_bavail * disk.f_frsize).expect("it is a directory");
    let mut command = Command::new(DELTIC);
    command.args(["sync", "-a", "--read-batch=-", "b/"]).current_dir(world.path(""));
    command.env("TMPDIR", world.path("tmp")).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut to = child.stdin.take().expect("it is piped");
    let mut frame = [MAGIC.to_vec(), encode_request(None, Options::default())].concat();
    let (mut no, mut least) = (0_u64, free());
    while to.write_all(&frame).is_ok() {
        let meta = Meta::without_owner(Kind::File, 1, Timestamp { secs: 1, nanos: 0 }, 0o644);
        let name = |no| Name::new(format!("{no:0200}").as_bytes()).expect("digits are a name");
        let entries = (no..no + 1000).map(|no| Entry { name: name(no), meta: meta.clone() });
        let (dir, entries) = (RelPath::root(), entries.collect());
        frame = ToReceiver::Listing { dir, own: None, entries, extent: Extent::More }.encode();
        (no, least) = (no + 1000, least.min(free()));
    }
    let run = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(12), "{told}");
    let copied_to = format!("cannot copy the batch to TMPDIR ({})", world.path("tmp").display());
    assert!(told.contains(&copied_to), "{told}");
    assert!(told.contains("set TMPDIR to a larger directory"), "{told}");
    assert!(least > 1 << 19 && least < 4 << 20, "{least} bytes were free");
    // A batch that ends has room there.
    world.ok("-a --delete --write-batch=B src/ a/");
    let words = format!("cat B | TMPDIR=$PWD/tmp {DELTIC} sync -a --delete --read-batch=- b/");
    let run = Run::of(&mut world.command("sh", ["-c", &words]));
    assert_eq!(run.code, Some(0), "{run:#?}");
    world.assert_same("src", "b");
}

#[test]
fn what_does_not_fit_is_named_and_stays_as_it_was() {
    let world = world();
    world.ok("-a --delete --write-batch=B src/ a/");
    world.write("b/big", noise(600_000, 2));
    world.write("b/same", "another");
    let run = world.fails(23, "-a --delete --read-batch=B b/");
    for line in [
        "read big: the file at the destination is not the old version that the batch starts from\n",
        "read same: the batch has no content for the file",
        "nothing deleted",
    ] {
        assert!(run.stderr.contains(line), "{line} {run:#?}");
    }
    assert_eq!((world.read("b/big"), world.read("b/same")), (noise(600_000, 2), b"another".into()));
    // What does fit has come.
    assert_eq!(world.read("b/dir/file"), b"a new one");
    assert!(world.exists("b/gone"), "nothing is deleted after an error");
    fs::remove_file(world.path("b/big")).unwrap();
    let run = world.fails(23, "-a --read-batch=B b/");
    assert!(run.stderr.contains("read big: ") && !world.exists("b/big"), "{run:#?}");
}

#[test]
fn hard_links_special_files_and_attributes_come_out_of_a_batch() {
    if !is_root() {
        return crate::common::skip("only root makes devices");
    }
    let world = world();
    fs::hard_link(world.path("src/big"), world.path("src/dir/big too")).unwrap();
    fs::hard_link(world.path("src/new"), world.path("src/dir/a new one")).unwrap();
    for (name, words) in [("fifo", &["p"][..]), ("null", &["c", "1", "3"])] {
        let path = format!("src/{name}");
        let run = Run::of(&mut world.command("mknod", [&[&*path][..], words].concat()));
        assert_eq!(run.code, Some(0));
    }
    world.chmod("src/dir/file", 0o4750);
    std::os::unix::fs::chown(world.path("src/dir/file"), Some(12345), Some(54321)).unwrap();
    for (write, read) in [("src/ a/", "b/"), ("src/ h:c/", "d/"), ("h:src/ e/", "f/")] {
        world.ok(&format!("-aH --delete --write-batch=B {write}"));
        world.ok(&format!("-aH --delete --read-batch=B {read}"));
        world.assert_same("src", read.trim_end_matches('/'));
        for (one, other) in [("big", "dir/big too"), ("new", "dir/a new one")] {
            let inode = |name: &str| world.inode(&format!("{read}{name}"));
            assert_eq!(inode(one), inode(other), "{read}{one}");
        }
        if let Some(run) = rsync(&world, &["-aHnci", "--delete", "src/", read]) {
            assert_eq!(run.stdout, "", "{read}");
        }
    }
}

#[test]
fn a_file_keeps_the_name_that_it_is_given() {
    let world = world();
    world.ok("-a --write-batch=B src/big a/big");
    world.ok("-a --read-batch=B b/big");
    assert_eq!(world.read("b/big"), world.read("src/big"));
    for (write, read) in [("src/new x1", "x2"), ("h:src/new x3", "x4"), ("src/new h:x5", "x6")] {
        world.ok(&format!("-a --write-batch=B {write}"));
        world.ok(&format!("-a --read-batch=B {read}"));
        assert_eq!(world.read(read), b"new", "{write}");
    }
}

#[test]
fn a_batch_that_is_none_or_not_whole_changes_nothing() {
    let world = world();
    world.ok("-a --delete --write-batch=B src/ a/");
    let (good, before) = (world.read("B"), picture(&world.path("b")));
    let refused = |bytes: &[u8], why: &str| {
        world.write("bad", bytes);
        let run = world.fails(12, "-a --delete --read-batch=bad b/");
        assert!(run.stderr.contains(why), "{why} {run:#?}");
        assert_eq!(picture(&world.path("b")), before, "{why}");
    };
    for at in [8, 9, 11, 100, good.len() / 2, good.len() - 38, good.len() - 1] {
        refused(&good[..at], "the batch file is cut short; nothing was changed");
    }
    for at in (8..good.len()).step_by(97).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        refused(&bad, "the batch file is ");
    }
    refused(&[&good[..], b"\0"].concat(), "cut short");
    refused(&[&good[..], b"\x11\x01\0\0\x01"].concat(), "damaged");
    refused(b"", "not a batch of deltic");
    refused(b"root:x:0:0:root", "not a batch of deltic");
    refused(b"DELTICB\x02", "has version 2");
    // Flags, and the version of its protocol.
    refused(b"\x9f\0\0\0\x20\0\0\0\x81\xff\x10", "is rsync's");
    if rsync(&world, &["-a", "--only-write-batch=R", "src/", "c/"]).is_some() {
        refused(&world.read("R"), "is rsync's");
    }
    let run = world.fails(11, "-a --read-batch=none b/");
    assert!(run.stderr.contains("cannot open none: "), "{run:#?}");
}

#[test]
fn words_that_make_no_sense_with_a_batch_are_refused() {
    for (words, why) in [
        ("--write-batch=B --read-batch=B src/ a/", "one batch file"),
        ("--read-batch=B src/ a/", "no source"),
        ("--read-batch=B h:a/", "on another machine"),
        ("-c --write-batch=B src/ a/", "-I takes all files"),
        ("--remove-source-files --write-batch=B src/ a/", "--remove-source-files"),
    ] {
        let world = world();
        world.ok("-a --only-write-batch=B src/ c/");
        let run = world.fails(1, &format!("-a {words}"));
        assert!(run.stderr.contains(why), "{words} {run:#?}");
    }
    let world = world();
    world.ok("-an --write-batch=B src/ a/");
    assert!(!world.exists("B") && !world.exists("B.sh"), "a dry run keeps nothing");
    let words = ["watch", "-a", "--write-batch=B", "src/", "a/"];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert!(run.code == Some(1) && run.stderr.contains("holds one run"), "{run:#?}");
    // A batch that cannot be written leaves everything alone.
    world.fails(3, "-a --write-batch=none/B src/ c/");
    assert!(!world.exists("c"));
}

#[test]
fn a_batch_of_files_that_could_not_be_read_deletes_nothing() {
    let world = world();
    let run = world.fails(23, "-a --delete --write-batch=B src/ none a/");
    assert!(run.stderr.contains("none"), "{run:#?}");
    let run = world.fails(23, "-a --delete --read-batch=B b/");
    assert!(run.stderr.contains("could not be read when the batch was written"), "{run:#?}");
    assert!(world.exists("b/gone"));
    assert_eq!(world.read("b/big"), world.read("src/big"));
}

/// A batch is what the format says it is: one that was written long ago can be read.
#[test]
fn an_old_batch_can_be_read() {
    let world = World::new();
    world.write("src/file", "content");
    world.write("src/dir/empty", "");
    for (name, mode) in
        [("src", 0o755), ("src/dir", 0o750), ("src/file", 0o640), ("src/dir/empty", 0o600)]
    {
        world.chmod(name, mode);
    }
    for name in ["src/file", "src/dir/empty", "src/dir", "src"] {
        world.set_time(name, 1_600_000_000);
    }
    world.ok("-rpt --only-write-batch=B src/ a/");
    let bytes = world.read("B");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/batch.hex");
    if std::env::var("DELTIC_UPDATE_GOLDEN").is_ok_and(|value| value == "1") {
        fs::write(golden, format!("{hex}\n")).unwrap();
        return;
    }
    assert_eq!(hex, fs::read_to_string(golden).unwrap().trim_end());
    world.ok("--read-batch=B b/");
    world.assert_same("src", "b");
}

/// What a picture says of a name, without a time of today: that says when it was written.
fn timeless(line: &str) -> String {
    let (time, rest) = line.split_once(' ').expect("a time comes first");
    let secs = time.split_once('.').and_then(|(secs, _)| secs.parse::<i64>().ok());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs() as i64);
    let is_new = secs.is_some_and(|secs| (now - 3600..=now).contains(&secs));
    if is_new { rest.into() } else { line.into() }
}

/// Whatever the trees and the words: a destination like the first comes to be like the first.
#[test]
fn a_batch_does_to_any_equal_tree_what_the_run_did() {
    const WORDS: &[&str] = &[
        "-a",
        "-aH",
        "-rt",
        "-rlpt",
        "-aAX",
        "-aHAX",
        "-a --delete",
        "-aH --delete",
        "-a -I",
        "-rl",
        "-a --backup",
        "-a --existing",
        "-a --inplace",
        "-a --size-only",
        "-a --no-whole-file",
        "-aR",
        "-aL",
        "-a --delete --exclude=a*",
        "-am",
        "-d",
        "-au",
        "-ay",
        "-a --ignore-existing --delete",
    ];
    let cases = std::env::var("DELTIC_BATCH_CASES").ok().and_then(|cases| cases.parse().ok());
    for seed in 0..cases.unwrap_or(40) {
        let mut dice = Dice::new(seed);
        let (words, way) = (*dice.pick(WORDS), *dice.pick(&WAYS));
        let taste = Taste {
            entries: 24,
            kinds: true,
            foreign: is_root(),
            notes: words.contains('A'),
            ..Taste::default()
        };
        let old = Tree::random(&mut dice, taste);
        let new = old.edited(&mut dice, taste, 12, words.contains("delete"));
        let world = World::new();
        new.write(&world.path("src"), None);
        let under = if words == "-aR" { "/src" } else { "" };
        for to in ["a", "b"] {
            world.mkdir(&format!("{to}{under}"));
            old.write(&world.path(format!("{to}{under}")), None);
        }
        let shown = format!("seed {seed}: {words} {way:?}");
        let (from, to) = (way.from("src/"), way.to("a/"));
        let all = ["--no-fsync", "--force-delete", "-e", SHELL, "--deltic-path", DELTIC];
        let run = |more: &[&str]| {
            let words = words.split(' ').chain(all).chain(more.iter().copied());
            Run::of(&mut world.command(DELTIC, ["sync"].into_iter().chain(words)))
        };
        let written = run(&["--write-batch=B", &from, &to]);
        let read = run(&["--read-batch=B", "b/"]);
        assert_eq!(read.code, written.code, "{shown} {written:#?} {read:#?}");
        let pictures = ["a", "b"].map(|dir| {
            let mut picture = picture(&world.path(dir));
            if words == "-aR" {
                // The root takes no part.
                picture.remove(Path::new(""));
            }
            picture.values_mut().for_each(|line| *line = timeless(line));
            picture
        });
        assert_eq!(pictures[0], pictures[1], "{shown}");
    }
}
