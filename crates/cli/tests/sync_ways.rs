//! Options for which Deltic and rsync differ: Deltic's way, and rsync's under its name or with `DELTIC_RSYNC=1`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{DELTIC, Run, SHELL, WAYS, World, noise, rsync};

/// Runs the program under the name rsync, with a remote shell that stays here.
fn as_rsync(world: &World, words: &str) -> Run {
    let mut command = Command::new(DELTIC);
    command.arg0("rsync").args(["-e", SHELL, "--rsync-path", DELTIC]);
    Run::of(&mut world.settle({
        command.args(words.split_whitespace());
        command
    }))
}

/// Runs the program under its own name, with the variable that asks for rsync's ways.
fn by_variable(world: &World, value: &str, words: &str) -> Run {
    let mut command = Command::new(DELTIC);
    command.env("DELTIC_RSYNC", value).arg("sync").args(words.split_whitespace());
    Run::of(&mut world.settle(command))
}

/// Checks that the run succeeded.
#[track_caller]
fn ok(run: Run) -> Run {
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    run
}

/// A destination with files that the empty source lacks.
fn emptied() -> World {
    let world = World::new();
    world.write("dst/a/b", "b");
    world.write("dst/c", "c");
    world
}

#[test]
fn an_empty_source_empties_the_destination_in_rsyncs_way_alone() {
    for way in WAYS {
        let words = format!("-r --delete {} {}", way.from("src/"), way.to("dst/"));
        let world = emptied();
        world.fails(25, &words);
        assert!(world.exists("dst/a/b"), "{way:?}");
        ok(as_rsync(&world, &words));
        assert!(world.names("dst").is_empty(), "{way:?}");
        let world = emptied();
        world.write("src/d", "d");
        ok(as_rsync(&world, &words.replace("--delete", "--delete-excluded --exclude=*")));
        assert!(world.names("dst").is_empty(), "{way:?}");
        // A number holds in both ways.
        let world = emptied();
        let run = as_rsync(&world, &words.replace("--delete", "--delete --max-delete=9"));
        assert_eq!(run.code, Some(25), "{run:#?}");
        assert!(world.exists("dst/a/b"), "{way:?}");
    }
}

#[test]
fn the_variable_asks_for_rsyncs_ways_too() {
    let words = "-r --delete src/ dst/";
    for value in ["0", "", "yes"] {
        let world = emptied();
        assert_eq!(by_variable(&world, value, words).code, Some(25), "{value}");
        assert!(world.exists("dst/c"), "{value}");
    }
    let world = emptied();
    ok(by_variable(&world, "1", words));
    assert!(world.names("dst").is_empty());
}

#[test]
fn rsync_compares_whole_seconds() {
    for way in WAYS {
        let world = World::new();
        for (name, text) in [("src/a", "new"), ("dst/a", "old")] {
            world.write(name, text);
        }
        world.set_time("src/a", 1_000_000_000);
        let to = fs::File::options().write(true).open(world.path("dst/a")).expect("it is there");
        let secs = std::time::Duration::from_secs(1_000_000_000);
        to.set_modified(std::time::UNIX_EPOCH + secs).expect("it is ours");
        let words = format!("-a {} {}", way.from("src/"), way.to("dst/"));
        ok(as_rsync(&world, &words));
        assert_eq!(world.read("dst/a"), b"old", "{way:?}");
        if rsync(&world, &["-a", "src/", "dst/"]).is_some() {
            assert_eq!(world.read("dst/a"), b"old", "{way:?}");
        }
        ok(as_rsync(&world, &words.replace("-a", "-a -@-1")));
        assert_eq!(world.read("dst/a"), b"new", "{way:?}");
    }
}

#[test]
fn delayed_files_wait_in_rsyncs_directory_which_goes() {
    for way in WAYS {
        for stale in ["stale", "new version"] {
            let world = World::new();
            world.write("src/d/a", "new version");
            world.write("dst/d/a", "old");
            world.write("dst/d/.~tmp~/a", stale);
            let words = format!("-a --delay-updates {} {}", way.from("src/"), way.to("dst/"));
            ok(as_rsync(&world, &words));
            assert_eq!(world.read("dst/d/a"), b"new version", "{way:?}");
            assert_eq!(world.names("dst/d"), ["a"], "{way:?} {stale}");
        }
    }
}

#[test]
fn links_that_lead_out_have_no_backup_in_rsyncs_way_with_safe_links() {
    for way in WAYS {
        for (words, kept) in [("-a -b", true), ("-a -b --safe-links", false)] {
            let world = World::new();
            let words = format!("{words} {} {}", way.from("src/"), way.to("dst/"));
            for name in ["out", "in"] {
                world.write(format!("src/{name}"), "a file");
            }
            world.mkdir("dst");
            let link = |world: &World| {
                for (name, target) in [("out", "../../x"), ("in", "b")] {
                    fs::remove_file(world.path(format!("dst/{name}"))).ok();
                    world.link(target, &format!("dst/{name}"));
                }
            };
            link(&world);
            ok(as_rsync(&world, &words));
            assert!(world.exists("dst/in~"), "{way:?}");
            assert_eq!(world.exists("dst/out~"), kept, "{way:?} {words}");
            link(&world);
            world.ok(&words);
            assert!(world.exists("dst/out~"), "{way:?} {words}");
            assert_eq!(world.read("dst/out"), b"a file", "{way:?}");
        }
    }
}

#[test]
fn an_equal_dense_file_gets_holes_if_all_files_are_written_again() {
    for way in WAYS {
        for how in ["--no-whole-file", "-W"] {
            let world = World::new();
            let bytes = [noise(64 << 10, 1), vec![0; 1 << 20], noise(64 << 10, 2)].concat();
            for name in ["src/a", "dst/a"] {
                world.write(name, &bytes);
                world.set_time(name, 1_000_000_000);
            }
            let inode = world.inode("dst/a");
            world.ok(&format!("-aI --inplace -S {how} {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            let meta = fs::metadata(world.path("dst/a")).expect("it is there");
            assert!(meta.blocks() * 512 < 512 << 10 && meta.ino() == inode, "{way:?} {how}");
        }
    }
}

#[test]
fn rsync_refuses_no_memory_and_batches_from_devices() {
    let world = World::new();
    world.write("src/a", "a");
    for (size, why) in [
        ("0", "max-alloc must be greater than zero"),
        ("1", "rsync: --max-alloc=1 is too small (min: 1.00M)"),
        ("1023k", "rsync: --max-alloc=1023k is too small (min: 1.00M)"),
        ("x", "rsync: --max-alloc=x is invalid"),
        ("-1", "rsync: --max-alloc=-1 is invalid"),
        ("9999999p", "rsync: --max-alloc=9999999p is too large"),
    ] {
        let run = as_rsync(&world, &format!("-a --max-alloc={size} src/ dst/"));
        assert_eq!(run.code, Some(1), "{size} {run:#?}");
        assert!(run.stderr.contains(why), "{size} {run:#?}");
        world.ok(&format!("-a --max-alloc={size} src/ dst/"));
    }
    for size in ["1m", "1g", ""] {
        ok(as_rsync(&world, &format!("-a --max-alloc={size} src/ dst/")));
    }
    let run = as_rsync(&world, "-a --read-batch=/dev/null dst/");
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert!(run.stderr.contains("/dev/null is not a regular file"), "{run:#?}");
}

#[test]
fn the_version_for_programs_names_checksums_that_rsync_has() {
    let world = World::new();
    let list = |run: Run| {
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("it is JSON");
        json["checksum_list"].to_string()
    };
    assert!(list(as_rsync(&world, "-VV")).contains("\"xxh64\""));
    assert_eq!(list(world.ok("-VV")), "[\"blake3\"]");
    // A name in the list is accepted.
    world.write("src/a", "a");
    let run = ok(as_rsync(&world, "-a --checksum-choice=xxh64 --debug=nstr src/ dst/"));
    assert!(run.stdout.contains("checksum: xxh64 (by blake3)\n"), "{run:#?}");
}

#[test]
fn errors_of_rule_files_have_rsyncs_words() {
    let world = World::new();
    world.write("src/.rules", ". .rules\n");
    let run = as_rsync(&world, "-a -f:_.rules src/ dst/");
    assert_eq!(run.code, Some(11), "{run:#?}");
    world.fails(23, "-a -f:_.rules src/ dst/");
    assert!(run.stderr.contains("merge-file include depth limit (8) exceeded at "), "{run:#?}");
    world.write("list", "- a\nsecret\n");
    world.write("deep", ". deep\n");
    for (words, code, why) in [
        ("-f._list", 1, "rsync: Unknown filter rule: <rule from list line 2>\n"),
        ("--exclude-from=none", 11, "rsync: failed to open exclude file none: No such file"),
        ("-f._none", 11, "rsync: failed to open exclude file none: No such file"),
        ("-f._deep", 11, "rsync: merge-file include depth limit (8) exceeded at deep\n"),
        ("--files-from=none", 1, "rsync: failed to open files-from file none: No such file"),
    ] {
        let run = as_rsync(&world, &format!("-a {words} src/ dst/"));
        assert_eq!(run.code, Some(code), "{words} {run:#?}");
        assert!(run.stderr.contains(why) && !run.stderr.contains("secret"), "{words} {run:#?}");
    }
}
