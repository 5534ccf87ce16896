//! Ways to write files: with holes, in place, only their tails, at the end of the run, from elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::attrs::{SOMEBODY, own, set_times};
use crate::common::look::{Kind, look};
use crate::common::{
    DELTIC, Run, SHELL, WAYS, Way, World, edited, is_root, noise, rsync, skip, wait_until,
};
use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};

/// Blocks of 512 bytes that a name takes.
fn blocks(world: &World, name: &str) -> u64 {
    fs::metadata(world.path(name)).expect("it is there").blocks()
}

/// Files of data and zeros, whose borders do not lie where blocks do.
fn write_zeros(world: &World) {
    let file = |parts: &[(usize, usize)]| {
        let part = |(n, (data, zeros)): (usize, &(usize, usize))| {
            [noise(*data, n as u64 + 1), vec![0; *zeros]].concat()
        };
        parts.iter().enumerate().flat_map(part).collect::<Vec<_>>()
    };
    world.write("src/ends in zeros", file(&[(5000, 1 << 20)]));
    world.write("src/zeros", file(&[(0, 3 << 20)]));
    world.write("src/mixed", file(&[(5000, 1 << 20), (4096, 300_000), (1, 8191), (70_000, 0)]));
    world.write("src/small", file(&[(0, 9000), (1, 0)]));
    world.write("src/large", file(&[(7 << 20, 15 << 20), (14 << 20, 10)]));
    world.write("src/data", noise(300_000, 9));
}

#[test]
fn zeros_become_holes_where_they_do_with_rsync() {
    for words in ["-W", "--no-whole-file", "--no-whole-file --preallocate", "-zW --inplace"] {
        for way in WAYS {
            let world = World::new();
            write_zeros(&world);
            // Old versions of what holes take the place of, and are copied from.
            for dir in ["dst", "theirs"] {
                world.write(format!("{dir}/large"), edited(&world.read("src/large"), 9 << 20));
                world.write(format!("{dir}/mixed"), noise(1 << 20, 3));
                world.write(format!("{dir}/zeros"), noise(1 << 20, 4));
            }
            world.ok(&format!("-a -S {words} {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            world.assert_clean("dst");
            if rsync(&world, &["-aS", "-W", "src/", "theirs/"]).is_none() {
                return;
            }
            for name in ["ends in zeros", "zeros", "mixed", "small", "large", "data"] {
                let ours = blocks(&world, &format!("dst/{name}"));
                let theirs = blocks(&world, &format!("theirs/{name}"));
                // Blocks that were reserved stay where zeros do not fill them.
                assert!(ours <= theirs + 64, "{way:?} {words} {name}: {ours}, {theirs}");
            }
        }
    }
}

#[test]
fn what_is_reserved_is_reserved_for_all_of_a_file() {
    let world = World::new();
    world.write("src/zeros", vec![0; 1 << 20]);
    world.write("src/short", "short");
    world.write("src/empty", "");
    for way in WAYS {
        world.ok(&format!("-a --preallocate {} {}", way.from("src/"), way.to("dst/")));
        world.assert_same("src", "dst");
        assert!(blocks(&world, "dst/zeros") >= 2048, "{way:?}");
        fs::remove_dir_all(world.path("dst")).expect("it is ours");
    }
}

/// Old versions, each with a second name, and their inodes.
fn write_old(world: &World) -> Vec<(&'static str, u64)> {
    let large = noise(3 << 20, 1);
    let moved = [&large[1 << 20..], &large[..1 << 20], b"and more"].concat();
    world.write("src/moved", &moved);
    world.write("dst/moved", &large);
    world.write("src/longer", [&large[..], &noise(500_000, 2)].concat());
    world.write("dst/longer", &large);
    world.write("src/shorter", &large[..1_500_000]);
    world.write("dst/shorter", &large);
    world.write("src/edited", edited(&large, 2_000_000));
    world.write("dst/edited", &large);
    world.write("src/small", "newer");
    world.write("dst/small", "old");
    world.write("src/empty", "");
    world.write("dst/empty", "old");
    let names = ["moved", "longer", "shorter", "edited", "small", "empty"];
    names.map(|name| (name, world.inode(&format!("dst/{name}")))).to_vec()
}

#[test]
fn files_change_in_place_and_keep_their_other_names_and_their_readers() {
    let ways = ["-W", "--no-whole-file", "-S --no-whole-file", "--strategy rsync", "--no-fsync"];
    for words in ways.into_iter().chain(["--strategy parasync", "--strategy webr2sync+"]) {
        for way in WAYS {
            let world = World::new();
            let old = write_old(&world);
            world.write("src/new", "new");
            let reader = fs::File::open(world.path("dst/moved")).expect("it is there");
            for (name, _) in &old {
                let link = world.path(format!("{name}.link"));
                fs::hard_link(world.path(format!("dst/{name}")), link).expect("it can be linked");
            }
            let words = format!("-a --inplace {words} {} {}", way.from("src/"), way.to("dst/"));
            world.ok(&words);
            world.assert_same("src", "dst");
            world.assert_clean("dst");
            for (name, inode) in old {
                assert_eq!(world.inode(&format!("dst/{name}")), inode, "{way:?} {words} {name}");
                let link = world.read(format!("{name}.link"));
                assert!(link == world.read(format!("src/{name}")), "{way:?} {words} {name}");
            }
            let mut seen = vec![0; 1000];
            reader.read_exact_at(&mut seen, 0).expect("it is open");
            assert!(seen == world.read("src/moved")[..1000], "{way:?} {words}");
        }
    }
}

#[test]
fn what_moved_is_not_sent_again_though_it_is_written_over() {
    let world = World::new();
    write_old(&world);
    let run = world.ok("-a --inplace --stats src/moved h:dst/");
    assert!(run.stat("Literal data") < 100_000, "{run:#?}");
    assert!(world.read("src/moved") == world.read("dst/moved"));
}

#[test]
fn a_backup_of_what_changes_in_place_is_what_it_was() {
    for words in ["-b", "-b --backup-dir=kept", "-b --backup-dir=../kept --suffix=.old"] {
        let world = World::new();
        let old = write_old(&world);
        world.set_time("dst/small", 1_000_000_000);
        world.chmod("dst/small", 0o640);
        let before = world.time("dst/small");
        world.ok(&format!("-a --inplace {words} src/ h:dst/"));
        assert_eq!(world.read("dst/small"), b"newer", "{words}");
        let kept = match words {
            "-b" => "dst/small~",
            "-b --backup-dir=kept" => "dst/kept/small",
            _ => "kept/small.old",
        };
        assert_eq!(world.read(kept), b"old", "{words}");
        assert_eq!((world.time(kept), world.mode(kept)), (before, 0o640), "{words}");
        assert!(old.iter().all(|(name, inode)| world.inode(&format!("dst/{name}")) == *inode));
    }
}

#[test]
fn names_of_one_file_that_change_in_place_all_keep_its_old_version() {
    for words in ["-b", "-b --backup-dir=kept", "-b --backup-dir=../kept --suffix=.old"] {
        for way in WAYS {
            let world = World::new();
            world.write("dst/a", "the old version");
            for name in ["b", "sub/c"] {
                world.mkdir("dst/sub");
                fs::hard_link(world.path("dst/a"), world.path(format!("dst/{name}"))).unwrap();
            }
            for name in ["a", "b", "sub/c"] {
                world.write(format!("src/{name}"), format!("new of {name}"));
            }
            world.ok(&format!("-a --inplace {words} {} {}", way.from("src/"), way.to("dst/")));
            for name in ["a", "b", "sub/c"] {
                let kept = match words {
                    "-b" => format!("dst/{name}~"),
                    "-b --backup-dir=kept" => format!("dst/kept/{name}"),
                    _ => format!("kept/{name}.old"),
                };
                assert_eq!(world.read(&kept), b"the old version", "{way:?} {words} {name}");
            }
        }
    }
}

#[test]
fn the_place_of_what_is_not_complete_is_neither_the_destination_nor_a_source() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a", "new");
        world.write("dst/a", "older");
        world.link("dst", "way");
        let (from, to) = (way.from("src/"), way.to("dst/"));
        for dir in ["dst", "way", "src"] {
            let run = format!("-a --partial-dir={} {from} {to}", world.path(dir).display());
            match (dir, way) {
                ("src", Way::Push | Way::Pull) => continue,
                (_, Way::Push) => world.fails(3, &run),
                _ => world.fails(1, &run),
            };
            assert_eq!(world.read("dst/a"), b"older", "{way:?} {dir}");
            assert_eq!(world.read("src/a"), b"new", "{way:?} {dir}");
        }
    }
}

#[test]
fn files_of_the_tree_are_not_taken_for_parts() {
    for way in WAYS {
        let world = World::new();
        for dir in ["src", "dst"] {
            world.write(format!("{dir}/a"), if dir == "src" { "new" } else { "older" });
            world.write(format!("{dir}/sub/a"), "of the tree");
            world.set_time(format!("{dir}/sub/a"), 1_000_000_000);
            world.write(format!("{dir}/sub/b"), format!("b of {dir}"));
            world.set_time(format!("{dir}/sub/b"), dir.len() as i64 + i64::from(dir == "src"));
        }
        world.write("src/sub/new", "new");
        let part = world.path("dst/sub").display().to_string();
        let (from, to) = (way.from("src/"), way.to("dst/"));
        world.ok(&format!("-a --partial-dir={part} {from} {to}"));
        assert_eq!(world.read("dst/sub/a"), b"of the tree", "{way:?}");
        world.assert_same("src", "dst");
        // One that is not complete does not take its place either.
        world.write("src/a", noise(16 << 20, 1));
        let grows = || world.exists("dst/.deltic") && !world.names("dst/.deltic").is_empty();
        kill_when(slow(&world, &format!("--partial-dir={part} src/ dst/")), grows);
        assert_eq!(world.read("dst/sub/a"), b"of the tree", "{way:?}");
        world.ok(&format!("-a --partial-dir={part} {from} {to}"));
        assert_eq!(world.read("dst/sub/a"), b"of the tree", "{way:?}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

#[test]
fn names_of_one_file_that_all_change_in_place_end_with_one_of_their_contents() {
    for (size, words) in [(10, ""), (200_000, ""), (200_000, "--no-whole-file"), (3 << 20, "")] {
        for way in WAYS {
            let world = World::new();
            let old = noise(size, 1);
            world.write("dst/a", &old);
            for name in ["a", "b", "c"] {
                if name != "a" {
                    fs::hard_link(world.path("dst/a"), world.path(format!("dst/{name}"))).unwrap();
                }
                let path = format!("src/{name}");
                world.write(&path, [&edited(&old, size / 2)[..], name.as_bytes()].concat());
            }
            // In the second round one of them has its content already.
            for time in [1_000_000_000, 1_100_000_000] {
                ["a", "b", "c"].iter().for_each(|name| world.set_time(format!("src/{name}"), time));
                let ends = format!("{} {}", way.from("src/"), way.to("dst/"));
                world.ok(&format!("-a --inplace {words} {ends}"));
                let is = world.read("dst/a");
                let has = |name: &&str| world.read(format!("src/{name}")) == is;
                assert!(["a", "b", "c"].iter().any(has), "{way:?} {size} {words}");
            }
            assert_eq!(world.inode("dst/a"), world.inode("dst/c"));
            world.assert_clean("dst");
        }
    }
}

/// Here they are names of one file, there they are not: with `-H` each gets what is its own, also where one had it
/// already.
#[test]
fn names_of_one_file_that_are_told_apart_have_their_own_contents_after_one_run() {
    for size in [10, 200_000, 3 << 20] {
        for (way, words) in
            [(Way::Local, ""), (Way::Local, "--no-whole-file"), (Way::Push, ""), (Way::Pull, "")]
        {
            let world = World::new();
            let old = noise(size, 1);
            world.write("dst/a", &old);
            world.write("dst/alone", &old);
            let alone = world.inode("dst/alone");
            for name in ["b", "c", "d"] {
                fs::hard_link(world.path("dst/a"), world.path(format!("dst/{name}"))).unwrap();
            }
            for name in ["a", "b", "alone"] {
                let new = [&edited(&old, size / 2)[..], name.as_bytes()].concat();
                world.write(format!("src/{name}"), new);
            }
            world.write("src/c", &old);
            fs::hard_link(world.path("src/b"), world.path("src/d")).unwrap();
            for name in ["src/a", "src/b", "src/c", "src/alone", "dst/a"] {
                world.set_time(name, if name == "src/b" { 1_100_000_000 } else { 1_000_000_000 });
            }
            let words = format!("-aH --inplace {words} {} {}", way.from("src/"), way.to("dst/"));
            world.ok(&words);
            world.assert_same("src", "dst");
            assert_eq!(world.inode("dst/alone"), alone, "{way:?} {size}");
            assert_eq!(world.inode("dst/b"), world.inode("dst/d"), "{way:?} {size}");
            assert_eq!(world.ok(&format!("-i {words}")).stdout, "", "{way:?} {size}");
            world.assert_clean("dst");
        }
    }
}

#[test]
fn sources_go_only_if_no_other_name_has_their_content_written_over() {
    for way in WAYS {
        let world = World::new();
        world.write("dst/a", "old");
        fs::hard_link(world.path("dst/a"), world.path("dst/b")).unwrap();
        for (name, text) in [("a", "first"), ("b", "second one")] {
            world.write(format!("src/{name}"), text);
        }
        let ends = format!("{} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("-a --inplace --remove-source-files {ends}"));
        assert_eq!(world.read("dst/a"), b"first", "{way:?}");
        assert_eq!(world.read("dst/b"), b"second one", "{way:?}");
        assert!(world.names("src").is_empty(), "{way:?}");
    }
}

#[test]
fn a_file_that_cannot_be_changed_in_place_is_named_and_stays() {
    let world = World::new();
    world.write("src/file", noise(200_000, 1));
    world.write("dst/file", "old");
    // By a program of its own: a file that this process writes is busy while another test forks.
    let copied = Command::new("cp").arg(DELTIC).arg(world.path("dst/program")).status();
    assert!(copied.expect("cp runs").success());
    world.write("src/program", "another");
    // A program that runs cannot be written to.
    let mut running = Command::new(world.path("dst/program"))
        .args(["agent"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let run = world.fails(23, "-a --inplace src/ dst/");
    running.kill().expect("it is ours");
    running.wait().expect("it ends");
    assert!(run.stderr.contains(&world.told("write", "dst/program", "")), "{run:#?}");
    assert_eq!(world.read("dst/file"), world.read("src/file"));
    world.ok("-a --inplace src/ dst/");
    world.assert_same("src", "dst");
}

#[test]
fn an_owner_changes_in_place_what_its_mode_keeps_him_from() {
    let world = World::new();
    let old = noise(300_000, 1);
    let modes = [("large", 0o444), ("small", 0o444), ("shut", 0o040)];
    let names = modes.map(|(name, _)| name);
    for ((name, mode), content) in modes.iter().zip([&old[..], b"old", b"old"]) {
        world.write(format!("dst/{name}"), content);
        world.write(format!("src/{name}"), edited(content, content.len() / 2));
        world.chmod(&format!("src/{name}"), 0o644);
        world.chmod(&format!("dst/{name}"), *mode);
    }
    let inodes = names.map(|name| world.inode(&format!("dst/{name}")));
    let mut command = Command::new(DELTIC);
    command.args(["sync", "-rt", "--inplace", "--no-whole-file", "src/", "dst/"]);
    if is_root() {
        command.uid(SOMEBODY).gid(SOMEBODY);
        world.chmod("", 0o755);
        for dir in ["src", "dst"] {
            own(&world.path(dir), SOMEBODY, SOMEBODY);
            for name in names {
                own(&world.path(format!("{dir}/{name}")), SOMEBODY, SOMEBODY);
            }
        }
    }
    let run = Run::of(&mut world.settle(command));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    for ((name, mode), inode) in modes.iter().zip(inodes) {
        let (new, place) = (format!("src/{name}"), format!("dst/{name}"));
        assert_eq!((world.inode(&place), world.mode(&place)), (inode, *mode), "{name}");
        world.chmod(&place, 0o644);
        assert_eq!(world.read(&place), world.read(&new), "{name}");
    }
}

/// A remote shell that says when the other end has ended, and holds nothing any more.
const TELLING_SHELL: &str = r#"sh -c 'shift; "$@"; : >ended' rsh"#;

/// Starts a push that is slow and does not flush, in a world of its own.
fn slow(world: &World, words: &str) -> std::process::Child {
    Command::new(DELTIC)
        .args(["sync", "-a", "--no-fsync", "--bwlimit", "4M"])
        .args(["-e", TELLING_SHELL, "--deltic-path", DELTIC])
        .args(words.split_whitespace())
        .current_dir(world.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Waits until `is_so`, and kills the run without a word to it.
fn kill_when(mut run: std::process::Child, is_so: impl Fn() -> bool) {
    wait_until("there is something to be left behind", is_so);
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
}

/// True if a file with at least 1 MiB of noise is staged in `dir`. Blocks may be reserved before bytes are written.
fn is_staged(world: &World, dir: &str) -> bool {
    let Ok(entries) = fs::read_dir(world.path(format!("{dir}/.deltic"))) else { return false };
    let has_noise = |path: &Path| {
        let mut end = [0; 4096];
        let read = fs::File::open(path).and_then(|file| file.read_exact_at(&mut end, 1 << 20));
        read.is_ok() && end != [0; 4096]
    };
    entries.flatten().any(|entry| has_noise(&entry.path()))
}

/// The next one would take what it finds for what the user wants.
#[test]
fn a_killed_run_leaves_no_new_root_closed_nor_does_one_that_never_began() {
    let world = World::new();
    world.write("src/dir/in/file", noise(16 << 20, 1));
    let dirs = [("", 0o711), ("/dir", 0o755), ("/dir/in", 0o555)];
    dirs.iter().for_each(|(dir, mode)| world.chmod(&format!("src{dir}"), *mode));
    world.mkdir("like");
    // Directories that are only on the way keep no mode with -p either.
    for (words, root, below) in [
        ("--no-p src/ dst/", "dst", "dst"),
        ("-R --no-implied-dirs src/dir/in/file to/", "to", "to/src"),
    ] {
        kill_when(slow(&world, words), || is_staged(&world, root));
        for (dir, mode) in dirs {
            // Its owner works in it until the end.
            let mode = (mode | 0o700) & world.mode("like");
            assert_eq!(world.mode(&format!("{below}{dir}")) & 0o777, mode, "{words} {dir}");
        }
    }
    world.fails(3, "-r --mkpath -T /missing src/ deep/new/");
    assert!(!world.exists("deep"));
}

/// What is new in it must not be seen by those whom the source keeps out, nor what is old by those whom the destination
/// did.
#[test]
fn what_goes_into_a_directory_is_shown_to_nobody_whom_its_old_or_new_mode_keeps_out() {
    let world = World::new();
    world.write("src/opens/closes/moves/file", noise(16 << 20, 1));
    world.mkdir("dst/opens/closes/moves");
    let moves = "/opens/closes/moves";
    if is_root() {
        own(&world.path(format!("src{moves}")), 0, SOMEBODY);
    }
    let of_moved = if is_root() { 0o1755 } else { 0o1775 };
    let dirs = [
        ("", 0o711, 0o755, 0o711),
        ("/opens", 0o755, 0o700, 0o700),
        ("/opens/closes", 0o700, 0o777, 0o700),
        (moves, 0o1775, 0o775, of_moved),
    ];
    for (dir, new, old, _) in dirs {
        world.chmod(&format!("src{dir}"), new);
        world.chmod(&format!("dst{dir}"), old);
    }
    kill_when(slow(&world, "src/ dst/"), || is_staged(&world, "dst"));
    let modes = |at: &str| dirs.map(|(dir, ..)| world.mode(&format!("{at}{dir}")));
    assert_eq!(modes("dst"), dirs.map(|(.., between)| between));
    let group =
        |at: &str| fs::metadata(world.path(format!("{at}{moves}"))).expect("it is there").gid();
    assert_eq!(group("dst"), group("src"));
    world.ok("-a src/ dst/");
    assert_eq!(modes("dst"), modes("src"));
}

/// Else those of the group that the user is in see what is meant for another one.
#[test]
fn a_new_directory_is_not_shown_before_it_has_its_group() {
    if !is_root() {
        return skip("only root has any group to give");
    }
    let world = World::new();
    world.write("src/dir/file", noise(16 << 20, 1));
    for dir in ["src", "src/dir"] {
        own(&world.path(dir), 0, SOMEBODY);
        world.chmod(dir, 0o750);
    }
    kill_when(slow(&world, "--no-p src/ dst/"), || is_staged(&world, "dst"));
    for dir in ["dst", "dst/dir"] {
        let group = fs::metadata(world.path(dir)).expect("it is there").gid();
        assert_eq!((world.mode(dir), group), (0o750, SOMEBODY), "{dir}");
    }
}

#[test]
fn a_killed_run_in_place_leaves_old_or_is_repaired_by_the_next() {
    for words in ["-W", ""] {
        let world = World::new();
        let (old, new) = (noise(12 << 20, 1), noise(16 << 20, 2));
        world.write("dst/file", &old);
        world.write("src/file", &new);
        let inode = world.inode("dst/file");
        kill_when(slow(&world, &format!("--inplace {words} src/ dst/")), || {
            is_staged(&world, "dst")
        });
        // Nothing of it changes before all is proven.
        assert!(world.read("dst/file") == old, "{words}");
        // And as if it had been killed a moment later.
        let file = fs::File::options().write(true).open(world.path("dst/file")).expect("ours");
        file.write_all_at(&new[..5 << 20], 0).expect("ours");
        drop(file);
        let run = world.ok("-a --inplace --stats --no-whole-file src/ dst/");
        assert!(run.stat("Literal data") < 13 << 20, "{run:#?}");
        assert_eq!(world.inode("dst/file"), inode);
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

/// Makes a world in which a large file is changed where it is, starts `run` and waits until it is being written to.
fn in_the_midst(run: impl FnOnce(&World) -> std::process::Child) -> (World, std::process::Child) {
    let world = World::new();
    world.write("src/file", noise(128 << 20, 2));
    world.write("dst/file", noise(4 << 20, 1));
    let child = run(&world);
    let start = Instant::now();
    while world.path("dst/file").metadata().expect("it is there").len() == 4 << 20 {
        assert!(start.elapsed() < Duration::from_secs(300), "nothing changes");
    }
    (world, child)
}

fn in_place(world: &World, program: &[&str], to: &str) -> std::process::Child {
    starting(world, program, &["-aW", "--inplace", "src/", to])
}

fn starting(world: &World, program: &[&str], words: &[&str]) -> std::process::Child {
    Command::new(program[0])
        .args(&program[1..])
        .args(["sync", "--no-fsync", "-e", SHELL, "--deltic-path", DELTIC])
        .args(words)
        .current_dir(world.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn signal(child: &std::process::Child, name: &str) {
    let kill = ["-s", name, &child.id().to_string()];
    assert!(Command::new("kill").args(kill).status().expect("it starts").success());
}

#[test]
fn an_interrupted_run_in_place_changes_the_file_to_its_end() {
    for name in ["INT", "TERM"] {
        let (world, child) = in_the_midst(|world| in_place(world, &[DELTIC], "dst/"));
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(world.read("dst/file") == world.read("src/file"), "{name} {said}");
        assert_eq!(world.time("dst/file"), world.time("src/file"), "{name} {said}");
        // Who was quicker than the signal has nothing to say.
        if output.status.code() == Some(20) {
            assert!(said.contains("file is being changed in place"), "{said}");
        } else {
            assert_eq!(output.status.code(), Some(0), "{said}");
        }
    }
}

#[test]
fn the_other_end_changes_a_file_in_place_to_its_end_whatever_becomes_of_us() {
    let (world, mut child) = in_the_midst(|world| in_place(world, &[DELTIC], "h:dst/"));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    wait_until("it is new", || world.time("dst/file") == world.time("src/file"));
    assert!(world.read("dst/file") == world.read("src/file"));
}

#[test]
fn a_second_signal_ends_a_run_in_place_at_once_and_names_the_file() {
    if !crate::common::is_installed("strace") {
        return crate::common::skip("strace is not installed: nothing takes long enough");
    }
    let slowly = ["strace", "-D", "-f", "-o", "/dev/null"];
    let slowly = [&slowly[..], &["-e", "inject=copy_file_range:delay_exit=3000000", DELTIC]];
    let (world, mut child) = in_the_midst(|world| in_place(world, &slowly.concat(), "dst/"));
    signal(&child, "INT");
    let (mut told, mut said) =
        (BufReader::new(child.stderr.take().expect("it is ours")), String::new());
    told.read_line(&mut said).expect("it is text");
    assert!(said.contains("file is being changed in place"), "{said}");
    signal(&child, "INT");
    told.read_to_string(&mut said).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(20), "{said}");
    assert!(said.contains("while file was changing in place"), "{said}");
    let run = world.ok("-a --inplace --no-whole-file --stats src/ dst/");
    assert!(run.stat("Literal data") < 1 << 20, "{run:#?}");
    world.assert_same("src", "dst");
}

/// What makes a run slow to go on behind each copy that the kernel makes.
fn slowed() -> Option<[&'static str; 8]> {
    if !crate::common::is_installed("strace") {
        crate::common::skip("strace is not installed: nothing takes long enough");
        return None;
    }
    let slow = "inject=copy_file_range:delay_exit=1000000";
    Some(["strace", "-D", "-f", "-o", "/dev/null", "-e", slow, DELTIC])
}

#[test]
fn a_tail_grows_from_front_to_back_whenever_its_run_is_killed() {
    let Some(slowed) = slowed() else { return };
    for (option, len) in [("--append", 3_000_001), ("--append-verify", 732 * 4096)] {
        let world = World::new();
        let log = noise(len, 1);
        world.write("src/log", &log);
        world.write("dst/log", &log[..700_001]);
        kill_when(starting(&world, &slowed, &["-a", option, "src/", "dst/"]), || {
            world.path("dst/log").metadata().expect("it is there").len() != 700_001
        });
        let now = world.read("dst/log");
        assert!(now == log[..now.len()], "{option} {}", now.len());
        world.ok(&format!("-a {option} src/ dst/"));
        assert!(world.read("dst/log") == log, "{option}");
    }
}

/// Where all is zeros, each chunk equals each: which of them comes from where does not count.
#[test]
fn what_equals_what_lies_there_is_not_written_in_place() {
    const LEN: u64 = 48 << 20;
    for way in WAYS {
        for (at, len) in [(0, 4096), (LEN / 2 + 1000, 12_000), (LEN - 10, 10)] {
            for words in ["--no-whole-file", "--no-whole-file -S", "-W"] {
                let world = World::new();
                world.mkdir("dst");
                for name in ["src/image", "dst/image"] {
                    fs::File::create(world.path(name)).unwrap().set_len(LEN).unwrap();
                    world.set_time(name, 1_000_000_000);
                }
                let source = fs::OpenOptions::new().write(true).open(world.path("src/image"));
                source.unwrap().write_all_at(&noise(len, 1), at).unwrap();
                let ends = format!("{} {}", way.from("src/"), way.to("dst/"));
                world.ok(&format!("-a --inplace --no-fsync {words} {ends}"));
                assert_eq!(world.read("src/image"), world.read("dst/image"), "{way:?} {words}");
                let most = (len as u64 + 2 * 4096) / 512;
                assert!(blocks(&world, "dst/image") <= most, "{way:?} {words} {at}");
            }
        }
    }
}

#[test]
fn only_tails_are_added_and_what_is_not_shorter_stays() {
    for option in ["--append", "--append-verify"] {
        for way in WAYS {
            let world = World::new();
            let log = noise(3_000_000, 1);
            for dir in ["dst", "theirs"] {
                world.write(format!("{dir}/log"), &log[..700_001]);
                world.write(format!("{dir}/other"), noise(100, 2));
                world.write(format!("{dir}/same length"), noise(300, 3));
                world.write(format!("{dir}/longer"), noise(400, 4));
                world.write(format!("{dir}/empty"), "");
                world.set_time(format!("{dir}/longer"), 1_000_000_000);
                world.set_time(format!("{dir}/same length"), 1_000_000_000);
            }
            world.write("src/log", &log);
            for (name, len) in [("other", 300), ("same length", 300), ("longer", 300)] {
                world.write(format!("src/{name}"), noise(len, 9));
            }
            world.write("src/empty", noise(300, 5));
            world.write("src/new", noise(300_000, 6));
            let inode = world.inode("dst/log");
            let words = format!("-a {option} --stats {} {}", way.from("src/"), way.to("dst/"));
            let run = world.ok(&words);
            assert!(run.stat("Literal data") < 2_700_000, "{way:?} {run:#?}");
            assert_eq!(world.inode("dst/log"), inode);
            assert!(world.read("dst/log") == log);
            world.assert_clean("dst");
            // Without a look at it, what was there is taken for right.
            let other = world.read("dst/other");
            assert_eq!(other[100..], world.read("src/other")[100..]);
            assert_eq!(other[..100] == noise(100, 2), option == "--append", "{way:?}");
            if rsync(&world, &["-a", option, "src/", "theirs/"]).is_some() {
                for name in world.names("theirs") {
                    let (ours, theirs) = (format!("dst/{name}"), format!("theirs/{name}"));
                    assert!(world.read(&*ours) == world.read(&*theirs), "{way:?} {option} {name}");
                    assert_eq!(world.time(&ours), world.time(&theirs), "{way:?} {option} {name}");
                }
            }
            assert_eq!(world.ok(&format!("-ai {option} src/ dst/")).stdout, "");
        }
    }
}

#[test]
fn a_tail_of_a_file_that_shrinks_meanwhile_fails_and_nothing_is_lost() {
    let world = World::new();
    for n in 0..300 {
        world.write(format!("src/{n:03}"), noise(3000, n));
    }
    world.write("src/log", noise(200_000, 1));
    world.write("dst/log", noise(100_000, 1));
    let run = thread::scope(|scope| {
        let world = &world;
        let words = ["-a", "--append", "--no-fsync", "--bwlimit", "300K", "src/", "h:dst/"];
        let syncing = scope.spawn(move || world.sync(&words));
        while !world.exists("dst/000") && !syncing.is_finished() {
            thread::sleep(Duration::from_millis(2));
        }
        world.write("src/log", noise(50_000, 1));
        syncing.join().expect("it does not panic")
    });
    let log = world.read("dst/log");
    // It may have been quick enough, or see the shorter one whole in its last try.
    let fine =
        [100_000, 200_000, 50_000].contains(&log.len()) && log[..] == noise(log.len(), 1)[..];
    assert!(fine, "{} {run:#?}", log.len());
}

#[test]
fn all_names_change_at_the_end() {
    for way in WAYS {
        for words in ["", "-b", "--delete --remove-source-files", "-T ../aside", "-S -T ../aside"] {
            let world = World::new();
            write_old(&world);
            world.mkdir("aside");
            world.write("src/sub/new", "new");
            world.write("dst/extra", "goes");
            let all = format!("-a --delay-updates {words} {} {}", way.from("src/"), way.to("dst/"));
            let expected = World::new();
            let (from, to) = (world.path("src"), expected.path(""));
            let copied = Command::new("cp").arg("-a").args([from, to]).status();
            assert!(copied.expect("it starts").success());
            world.ok(&all);
            for name in ["moved", "longer", "edited", "small", "empty", "sub/new"] {
                let (new, sent) = (format!("dst/{name}"), format!("src/{name}"));
                assert!(world.read(new) == expected.read(&*sent), "{way:?} {words} {name}");
                assert_eq!(world.exists(&*sent), !words.contains("--remove"), "{words} {name}");
            }
            assert_eq!(world.exists("dst/extra"), !words.contains("--delete"), "{words}");
            assert_eq!(world.exists("dst/small~"), words.contains("-b"), "{words}");
            world.assert_clean("dst");
            assert!(world.names("aside").is_empty(), "{words}");
        }
    }
}

#[test]
fn names_of_one_file_are_names_of_the_new_version_when_updates_are_delayed() {
    let world = World::new();
    for (n, size) in [1000, 300_000].into_iter().enumerate() {
        world.write(format!("src/a{n}"), noise(size, 1));
        fs::hard_link(world.path(format!("src/a{n}")), world.path(format!("src/b{n}"))).unwrap();
    }
    world.ok("-aH src/ h:dst/");
    for n in 0..2 {
        world.write(format!("src/a{n}"), noise(200_000, 2));
        world.write(format!("dst/b{n}.new"), "another");
        fs::rename(world.path(format!("dst/b{n}.new")), world.path(format!("dst/b{n}"))).unwrap();
    }
    world.ok("-aH --delay-updates src/ h:dst/");
    world.assert_same("src", "dst");
    for n in 0..2 {
        let inode = |name: &str| world.path(format!("dst/{name}{n}")).metadata().unwrap().ino();
        assert_eq!(inode("a"), inode("b"));
    }
}

#[test]
fn a_copy_that_is_kept_was_last_read_when_its_file_was() {
    let world = World::new();
    world.write("src/file", "content");
    world.write("dst/file", "another");
    set_times(&world.path("dst/file"), (900_000_000, 1_000_000_000));
    world.ok("-rtUb --inplace src/ dst/");
    assert_eq!(world.read("dst/file"), b"content");
    assert_eq!(world.path("dst/file~").metadata().unwrap().atime(), 900_000_000);
}

#[test]
fn what_a_full_directory_is_in_the_way_of_has_not_arrived_when_updates_are_delayed() {
    let world = World::new();
    world.write("src/a", "content");
    fs::hard_link(world.path("src/a"), world.path("src/b")).unwrap();
    world.write("src/barred", "content");
    for name in ["b", "barred"] {
        world.write(format!("dst/{name}/full"), "stays");
    }
    let run = world.fails(23, "-rtiH --delay-updates src/ dst/");
    let told: Vec<&str> =
        run.lines().into_iter().filter(|line| line.starts_with(['>', 'h'])).collect();
    assert_eq!(told, [">f+++++++++ a"], "{run:#?}");
    for name in ["b", "barred"] {
        assert!(
            run.stderr.contains(&world.told(
                "write",
                &format!("dst/{name}"),
                "directory not empty"
            )),
            "{run:#?}"
        );
        assert_eq!(world.read(format!("dst/{name}/full")), b"stays");
    }
}

#[test]
fn a_killed_run_of_delayed_updates_leaves_the_old_tree_and_nothing_is_sent_twice() {
    for words in ["", "--partial-dir=.part", "-H"] {
        let world = World::new();
        for n in 0..40 {
            world.write(format!("src/{n}"), noise(300_000, n));
            world.write(format!("dst/{n}"), noise(1000, n + 100));
            if words == "-H" {
                let other = world.path(format!("src/{n}-too"));
                fs::hard_link(world.path(format!("src/{n}")), other).unwrap();
                world.write(format!("dst/{n}-too"), noise(1000, n + 200));
            }
        }
        let before = crate::common::tree::picture(&world.path("dst"));
        let staged = || world.exists("dst/.deltic") && world.names("dst/.deltic").len() > 20;
        kill_when(slow(&world, &format!("-W --delay-updates {words} src/ h:dst/")), staged);
        // The far end goes on until it hears of it.
        wait_until("the far end has ended", || world.exists("ended"));
        for n in 0..40 {
            assert!(world.read(format!("dst/{n}")) == noise(1000, n + 100), "{words} {n}");
            if words == "-H" {
                assert!(world.read(format!("dst/{n}-too")) == noise(1000, n + 200), "{n}");
            }
        }
        assert!(!before.is_empty());
        assert_eq!(world.exists("dst/.part"), words.starts_with("--partial"));
        let again = format!("-a --delay-updates --stats {words} src/ h:dst/");
        let run = world.ok(&again);
        assert!(run.stat("Literal data") < 30 * 300_000, "{run:#?}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
}

/// A first copy of files that go whole in one block.
#[test]
fn short_files_that_waited_for_their_names_are_not_sent_again() {
    let world = World::new();
    world.mkdir("dst");
    for n in 0..60 {
        world.write(format!("src/{n}"), noise(200_000, n));
    }
    let staged = || world.exists("dst/.deltic") && world.names("dst/.deltic").len() > 30;
    kill_when(slow(&world, "--delay-updates src/ h:dst/"), staged);
    // The far end goes on until it hears of it; what it stages then is complete too.
    wait_until("the far end has ended", || world.exists("ended"));
    let run = world.ok("-a --delay-updates --stats src/ h:dst/");
    assert!(run.stat("Literal data") < 35 * 200_000, "{run:#?}");
    world.assert_same("src", "dst");
    world.assert_clean("dst");
}

#[test]
fn what_is_not_complete_is_shown_and_used_and_gone_with_success() {
    for (words, shown) in
        [("--partial-dir=.part", "dst/.part/file"), ("--partial-dir", "kept/file")]
    {
        let world = World::new();
        world.mkdir("kept");
        let absolute = world.path("kept").display().to_string();
        let words = match words {
            "--partial-dir" => format!("--partial-dir={absolute}"),
            words => words.to_owned(),
        };
        world.write("src/file", noise(16 << 20, 1));
        world.mkdir("dst");
        let is_shown = || world.written_blocks(shown) > 600;
        kill_when(slow(&world, &format!("{words} src/ dst/")), is_shown);
        assert!(world.exists(shown));
        // Though what was staged is gone, as after a complete run of others.
        fs::remove_dir_all(world.path("dst/.deltic")).expect("it is ours");
        let run = world.ok(&format!("-a --no-whole-file --delete --stats {words} src/ dst/"));
        assert!(run.stat("Literal data") < 15 << 20, "{run:#?}");
        assert!(!world.exists(shown) && !world.exists("dst/.part"), "{words}");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert!(world.exists("kept"));
    }
}

#[test]
fn partial_files_are_neither_sent_nor_deleted() {
    let world = World::new();
    world.write("src/.part/file", "of another run");
    world.write("src/file", "new");
    world.write("dst/.part/other", "of another run");
    world.ok("-a --delete --partial-dir=.part src/ dst/");
    assert!(world.exists("dst/.part/other") && !world.exists("dst/.part/file"));
    let mut run = world.command(DELTIC, ["sync", "-aP", "--delete", "src/", "dst/"]);
    assert_eq!(crate::common::Run::of(run.env("RSYNC_PARTIAL_DIR", ".part")).code, Some(0));
    assert!(world.exists("dst/.part/other") && !world.exists("dst/.part/file"));
}

#[test]
fn where_files_grow_is_no_difference_to_rsync() {
    for words in ["-ai -T ASIDE", "-ai -T ASIDE --inplace", "-aiObW -T . --delete"] {
        for way in WAYS {
            let world = World::new();
            world.mkdir("aside");
            // rsync takes none with `..` in it.
            let words = words.replace("ASIDE", &world.path("aside").display().to_string());
            world.write("src/sub/new", "new");
            world.write("src/file", noise(300_000, 1));
            for dir in ["dst", "theirs"] {
                world.write(format!("{dir}/file"), noise(200_000, 1));
                world.write(format!("{dir}/extra"), "x");
            }
            // A second is the least that rsync sees.
            for (dir, time) in
                [("src", 1_000_000_000), ("dst", 1_100_000_000), ("theirs", 1_100_000_000)]
            {
                for name in look(&world.path(dir)).into_keys() {
                    world.set_time(Path::new(dir).join(name), time);
                }
            }
            let run = |program: &dyn Fn(&[&str]) -> Option<Run>, dir: &str| {
                let operands = [way.from("src/"), way.to(dir)];
                let words: Vec<_> =
                    words.split(' ').chain(operands.iter().map(String::as_str)).collect();
                let run = program(&words)?;
                let lines = run.stdout.lines().map(str::to_owned).collect::<BTreeSet<_>>();
                assert_eq!(world.names("aside"), [""; 0], "{way:?} {words:?}");
                let seen = look(&world.path(dir)).into_iter().map(|(path, look)| {
                    let time = (look.kind == Kind::File).then_some(look.modified);
                    (path, look.content, look.mode, time)
                });
                Some((run.code, lines, seen.collect::<Vec<_>>()))
            };
            let rsh = format!("--rsh={SHELL}");
            let theirs = run(&|words| rsync(&world, &[words, &[&rsh]].concat()), "theirs/");
            let ours = run(&|words| Some(world.sync(words)), "dst/");
            let Some(theirs) = theirs else { return };
            assert_eq!(ours, Some(theirs), "{way:?} {words}");
        }
    }
    // Where it is missing both end before anything is touched, if with codes of their own.
    let world = World::new();
    world.write("src/file", "new");
    let run = world.fails(3, "-a -T ../missing src/ dst/");
    assert!(run.stderr.contains("cannot use --temp-dir "), "{run:#?}");
    if crate::common::is_installed("rsync") {
        let words = ["-a", "-T", "../missing", "src/", "theirs/"];
        assert_ne!(Run::of(&mut world.command("rsync", words)).code, Some(0));
        assert!(!world.exists("theirs/file") && !world.exists("dst/file"));
    }
}

#[test]
fn files_grow_where_it_is_said_and_land_on_another_file_system_too() {
    let memory = tempfile::TempDir::new_in("/dev/shm");
    let Ok(memory) = memory else { return skip("there is no other file system") };
    let away = memory.path().display().to_string();
    for way in WAYS {
        for words in ["", "-S", "--delay-updates", "--inplace", "--preallocate --no-fsync"] {
            for dir in ["../aside", &away] {
                let world = World::new();
                write_old(&world);
                world.mkdir("aside");
                world.write("src/sub/new", "new");
                let words = format!("-a -T {dir} {words} {} {}", way.from("src/"), way.to("dst/"));
                world.ok(&words);
                world.assert_same("src", "dst");
                world.assert_clean("dst");
                assert!(world.names("aside").is_empty(), "{words}");
                assert_eq!(fs::read_dir(&*away).expect("it is there").count(), 0, "{words}");
            }
        }
    }
    let world = World::new();
    world.write("src/file", "new");
    let run = world.fails(3, "-a -T ../missing src/ dst/");
    assert!(run.stderr.contains("missing: no such file or directory"), "{run:#?}");
    assert!(!world.exists("dst/file"));
}

#[test]
fn what_was_staged_elsewhere_by_a_killed_run_is_used() {
    let world = World::new();
    world.mkdir("aside");
    world.mkdir("dst");
    world.write("src/file", noise(16 << 20, 1));
    kill_when(slow(&world, "-T ../aside src/ dst/"), || is_staged(&world, "aside"));
    assert!(!world.exists("dst/.deltic"));
    let run = world.ok("-a --no-whole-file --stats -T ../aside src/ dst/");
    assert!(run.stat("Literal data") < 16 << 20, "{run:#?}");
    world.assert_same("src", "dst");
    assert!(world.names("aside").is_empty());
}

#[test]
fn blocks_have_the_length_that_was_asked_for() {
    for (words, block) in [("", 0), ("-B 700", 700), ("-B 128K", 128 << 10), ("-B0", 0)] {
        for strategy in ["deltic", "rsync", "parasync", "webr2sync"] {
            let world = World::new();
            let old = noise(4 << 20, 1);
            let mut new = old.clone();
            // Two bytes far apart: what is sent is about a block of each, or what the strategy makes of it.
            (new[1_000_000], new[3_000_000]) = (new[1_000_000] ^ 1, new[3_000_000] ^ 1);
            world.write("src/file", new);
            world.write("dst/file", old);
            world.set_time("dst/file", 1_000_000_000);
            let all = format!("-a --stats {words} --strategy {strategy} src/ h:dst/");
            let run = world.ok(&all);
            world.assert_same("src", "dst");
            if strategy == "rsync" {
                let block = if block == 0 { 8192 } else { block };
                assert_eq!(run.stat("Literal data"), 2 * block, "{all}");
            }
        }
    }
}

#[test]
fn sums_may_be_chosen_as_far_as_there_are_any() {
    let world = World::new();
    world.write("src/file", noise(100_000, 1));
    world.write("dst/file", edited(&noise(100_000, 1), 50_000));
    for words in [
        "--checksum-choice=auto",
        "--cc=blake3",
        "--cc=auto,none",
        "--cc=none",
        "-c --cc=none,blake3",
        "-c --cc=md5",
        "--cc=md4",
        "--cc=xxh64",
        "--cc=xxh3,xxh128",
        "--cc=blake3,sha1",
    ] {
        for way in WAYS {
            let run =
                format!("-a {words} --checksum-seed=7 {} {}", way.from("src/"), way.to("dst/"));
            world.write("dst/file", edited(&noise(100_000, 1), 50_000));
            world.ok(&run);
            world.assert_same("src", "dst");
        }
    }
    let sent = |words: &str| {
        world.write("dst/file", edited(&noise(100_000, 1), 50_000));
        world.ok(&format!("-a --stats {words} src/ h:dst/")).stat("Literal data")
    };
    assert_eq!(sent("--cc=none"), 100_000);
    assert!(sent("--cc=blake3") < 50_000);
    for (words, what) in [
        ("--cc=foo", "'checksum foo'"),
        ("--cc=md5,foo", "'checksum foo'"),
        ("-c --cc=none", "'checksum none with --checksum'"),
        ("--cc=auto,auto,auto", "'checksum auto,auto'"),
    ] {
        let run = world.fails(4, &format!("-a {words} src/ dst/"));
        assert!(run.stderr.contains(what), "{run:#?}");
    }
    assert_eq!(sent("--cc=none,md5"), 100_000);
    assert!(sent("--cc=md5") < 50_000);
}

#[test]
fn words_that_contradict_each_other_are_refused_as_rsync_does() {
    let world = World::new();
    world.write("src/file", "new");
    for words in [
        "--inplace --partial-dir=x",
        "--inplace --delay-updates",
        "--append --delay-updates",
        "--append-verify --partial-dir=x",
        "--append -W",
        "-B 200000",
        "-B x",
    ] {
        world.fails(1, &format!("-a {words} src/ dst/"));
        assert!(!world.exists("dst"), "{words}");
    }
    world.fails(3, "-a --partial-dir=../x src/ dst/");
    for words in
        ["--append --no-append -W", "--inplace --no-inplace --delay-updates", "-P --no-partial"]
    {
        world.ok(&format!("-a {words} --no-progress src/ dst/"));
    }
}

#[test]
fn directories_of_options_are_not_reached_through_links_of_others() {
    if !is_root() {
        return skip("only root writes where others may");
    }
    for way in WAYS {
        let world = World::new();
        world.write("src/f", "new");
        world.write("dst/f", "payload");
        world.mkdir("etc");
        world.link("../etc", "dst/bk");
        own(&world.path("dst"), SOMEBODY, SOMEBODY);
        own(&world.path("dst/bk"), SOMEBODY, SOMEBODY);
        let absolute = world.path("dst/bk/deeper").display().to_string();
        let run = |words: &str| format!("-a {words} {} {}", way.from("src/"), way.to("dst/"));
        for words in ["-b --backup-dir=bk", "-b --backup-dir=bk/deeper", "-T bk"] {
            let refused = world.fails(3, &run(words));
            let why = "dst/bk, a symlink of another user";
            assert!(refused.stderr.contains(why), "{way:?} {words} {refused:#?}");
            assert!(refused.stderr.contains("cannot use --"), "{refused:#?}");
            assert!(!refused.stderr.contains("destination"), "{refused:#?}");
        }
        let refused = world.fails(3, &run(&format!("--partial-dir={absolute}")));
        assert!(refused.stderr.contains("cannot use --partial-dir"), "{refused:#?}");
        assert_eq!(world.read("dst/f"), b"payload");
        assert!(world.names("etc").is_empty(), "{way:?}");
        world.ok(&run("-b --backup-dir=bk/deeper --insecure-links"));
        assert_eq!(world.read("etc/deeper/f"), b"payload");

        // An alternate there is done without.
        world.write("etc/f", "new");
        fs::remove_file(world.path("dst/f")).expect("it is there");
        let time = world.time("src/f").0;
        world.set_time("etc/f", time);
        world.set_time("src/f", time);
        for word in ["--link-dest=bk", "--copy-dest=bk", "--compare-dest=bk"] {
            let told = world.sync(&run(word).split(' ').collect::<Vec<_>>());
            assert_eq!(told.code, Some(0), "{told:#?}");
            assert!(told.stderr.contains("goes on without it"), "{told:#?}");
            assert_ne!(world.inode("dst/f"), world.inode("etc/f"));
            fs::remove_file(world.path("dst/f")).expect("it came all the same");
        }
        world.ok(&run("--link-dest=bk --insecure-links"));
        assert_eq!(world.inode("dst/f"), world.inode("etc/f"));

        // Our own links are ours to follow, over each other too.
        world.mkdir("kept/here");
        world.link("kept/up", "way");
        world.link("../kept/./here/", "kept/up");
        world.write("src/f", "newer");
        world.ok(&run("-b --backup-dir=../way/sub/../deep"));
        assert_eq!(world.read("kept/here/deep/f"), b"new");
    }
}

/// A run of `user`, who is not root.
fn run_as(world: &World, user: u32, words: &str) -> Run {
    let mut command = Command::new(DELTIC);
    command.arg("sync").args(words.split(' ')).uid(user).gid(SOMEBODY);
    Run::of(&mut world.settle(command))
}

#[test]
fn what_is_below_a_root_that_nobody_may_write_to_is_written() {
    if !is_root() {
        return skip("only root becomes somebody else");
    }
    let world = World::new();
    world.write("src/html/new", "new");
    world.write("src/html/deep/large", noise(300_000, 1));
    world.write("src/html/changed", "changed");
    world.link("new", "src/html/link");
    world.write("dst/html/changed", "old");
    world.write("dst/html/gone", "");
    world.chmod("", 0o755);
    own(&world.path("dst/html"), SOMEBODY, SOMEBODY);
    own(&world.path("dst/html/changed"), SOMEBODY, SOMEBODY);
    for no_fsync in ["", " --no-fsync"] {
        let run = run_as(&world, SOMEBODY, &format!("-rltO --delete{no_fsync} src/ dst/"));
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        for name in ["new", "changed", "deep/large", "link"] {
            let (new, here) = (format!("src/html/{name}"), format!("dst/html/{name}"));
            assert_eq!(world.read(&here), world.read(&new), "{name}");
        }
        assert_eq!(world.names("dst/html").len(), 4);
        for dir in ["dst", "dst/html", "dst/html/deep"] {
            world.assert_clean(dir);
        }
        fs::remove_file(world.path("dst/html/new")).expect("it is there");
    }
}

#[test]
fn staging_directories_of_other_users_are_in_nobodys_way() {
    if !is_root() {
        return skip("only root becomes somebody else");
    }
    for (mode, owner) in [(0o1777, 1000), (0o2775, 1000), (0o1777, 0)] {
        let world = World::new();
        world.write("src/a", "new");
        world.write("src/b", noise(300_000, 1));
        world.link("a", "src/link");
        world.mkdir("dst/.deltic");
        world.write("dst/.deltic/theirs", "not ours");
        world.chmod("dst/.deltic", 0o700);
        world.chmod("", 0o755);
        for name in [".deltic", ".deltic/theirs"] {
            own(&world.path(format!("dst/{name}")), owner, owner);
        }
        own(&world.path("dst"), owner, SOMEBODY);
        world.chmod("dst", mode);
        let run = run_as(&world, SOMEBODY, "-rlt --omit-dir-times --delete src/ dst/");
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        assert_eq!(world.read("dst/a"), b"new");
        assert_eq!(world.read("dst/b"), world.read("src/b"));
        assert_eq!(world.read("dst/.deltic/theirs"), b"not ours");
        assert!(!world.exists(format!("dst/.deltic-{SOMEBODY}")), "it goes with what was in it");

        // What a killed run left in one of its own is used, and not seen by anybody else.
        let own_dir = format!("dst/.deltic-{SOMEBODY}");
        world.write(format!("{own_dir}/more"), "");
        world.chmod(&own_dir, 0o700);
        own(&world.path(&own_dir), SOMEBODY, SOMEBODY);
        world.ok("-a --delete dst/ copy/");
        assert!(!world.exists(format!("copy/.deltic-{SOMEBODY}")) && !world.exists("copy/.deltic"));
        world.ok("-a --delete src/ dst/");
        assert!(world.exists(format!("{own_dir}/more")) && world.exists("dst/.deltic/theirs"));
    }
}

/// In a directory that all may write to, anybody can have anything of these names.
#[test]
fn whatever_others_have_in_the_place_of_a_staging_directory_is_in_nobodys_way() {
    if !is_root() {
        return skip("only root becomes somebody else");
    }
    for what in ["link", "file"] {
        let put = |world: &World, name: &str| {
            match what {
                "link" => world.link("/nowhere", name),
                _ => world.write(name, "theirs"),
            }
            let (user, group) = (Some(Uid::from_raw(SOMEBODY)), Some(Gid::from_raw(SOMEBODY)));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chownat(CWD, world.path(name), user, group, flags).expect("we are root");
        };
        let world = World::new();
        world.write("src/a", "new");
        world.write("src/dir/b", noise(300_000, 1));
        world.mkdir("dst");
        put(&world, "dst/.deltic");
        world.chmod("dst", 0o1777);
        for words in ["-rt", "-rt --no-fsync", "-rt --inplace --delete"] {
            world.ok(&format!("{words} src/ dst/"));
            assert_eq!(world.read("dst/a"), world.read("src/a"), "{what} {words}");
            assert_eq!(world.read("dst/dir/b"), world.read("src/dir/b"), "{what} {words}");
            assert!(world.path("dst/.deltic").symlink_metadata().is_ok(), "{what} {words}");
            assert_eq!(world.names("dst").len(), 3, "{what} {words}");
            world.write("src/a", format!("for {words}"));
            world.write("src/dir/b", noise(300_000, words.len() as u64));
        }
        // Where both names are taken, what to do is said.
        put(&world, "dst/.deltic-0");
        let run = world.fails(23, "-rt src/ dst/");
        assert!(
            run.stderr.contains("is no directory: remove one, or use -T DIR) to write "),
            "{run:#?}"
        );
        world.mkdir("aside");
        world.ok("-rt -T ../aside src/ dst/");
        assert_eq!(world.read("dst/a"), world.read("src/a"), "{what}");
    }
}

#[test]
fn where_nothing_can_be_staged_beside_a_file_that_changes_in_place_the_error_says_what_helps() {
    if !is_root() {
        return skip("only root becomes somebody else");
    }
    let world = World::new();
    world.write("src/a", "new");
    world.write("dst/a", "older");
    world.chmod("", 0o755);
    own(&world.path("dst/a"), SOMEBODY, SOMEBODY);
    let run = run_as(&world, SOMEBODY, "-rtO --inplace src/ dst/");
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains("-T DIR"), "{run:#?}");
    world.mkdir("aside");
    own(&world.path("aside"), SOMEBODY, SOMEBODY);
    let run = run_as(&world, SOMEBODY, "-rtO --inplace -T ../aside src/ dst/");
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    assert_eq!(world.read("dst/a"), b"new");
}

#[test]
fn old_versions_are_copied_where_they_are_kept_on_another_file_system() {
    let memory = tempfile::TempDir::new_in("/dev/shm");
    let Ok(memory) = memory else { return skip("there is no other file system") };
    for (n, way) in WAYS.into_iter().enumerate() {
        for (m, words) in ["", "--no-fsync", "--inplace"].into_iter().enumerate() {
            let world = World::new();
            for dir in ["src", "old"] {
                world.write(
                    format!("{dir}/sub/large"),
                    noise(300_000, if dir == "src" { 1 } else { 2 }),
                );
                world.write(format!("{dir}/small"), dir);
                world.link(dir, &format!("{dir}/link"));
                world.set_time(format!("{dir}/small"), 1_500_000_000 + i64::from(dir == "src"));
                world.set_time(format!("{dir}/sub/large"), 1_500_000_000 + i64::from(dir == "src"));
            }
            world.write("old/gone", "gone");
            world.chmod("old/gone", 0o640);
            world.chmod("old/small", 0o604);
            world.set_time("old/gone", 1_400_000_000);
            world.link("nowhere", "old/gone-link");
            world.ok("-a old/ dst/");
            let kept = memory.path().join(format!("{n}{m}"));
            let kept = kept.display();
            let run = format!("-ab --delete --backup-dir={kept} {words}");
            world.ok(&format!("{run} {} {}", way.from("src/"), way.to("dst/")));
            world.assert_same("src", "dst");
            // All of it, with what it had; of directories only what they are for.
            let run = world.sync(&["-aniO", &format!("{kept}/"), "old/"]);
            assert_eq!(
                (run.code, &*run.stdout, &*run.stderr),
                (Some(0), "", ""),
                "{way:?} {words}"
            );
            for name in ["sub/large", "small", "gone", "link", "gone-link"] {
                let path = format!("{kept}/{name}");
                assert!(Path::new(&path).symlink_metadata().is_ok(), "{name}");
            }
        }
    }
}
