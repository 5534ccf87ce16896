//! `--partial-dir`: no file that is in place keeps the name under which it was shown, whatever becomes of a run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{DELTIC, Run, World, is_installed, noise, skip};

/// Files of `dst` that have another name, but in the staging directory.
fn linked(world: &World) -> Vec<String> {
    let names = world.names("dst").into_iter().filter(|name| !name.starts_with('.'));
    let has_two = |name: &String| {
        fs::symlink_metadata(world.path(format!("dst/{name}"))).is_ok_and(|meta| meta.nlink() > 1)
    };
    names.filter(has_two).collect()
}

fn write_files(world: &World) {
    for n in 0..40 {
        world.write(format!("src/{n}"), noise(3000, n));
    }
}

/// A run in which strace does something to system calls.
fn disturbed(world: &World, how: &str) -> Run {
    let words = ["-f", "-qq", "-o", "/dev/null", "-e", how, DELTIC];
    let sync = ["sync", "-a", "--partial-dir=.part", "src/", "dst/"];
    Run::of(&mut world.command("strace", words.into_iter().chain(sync)))
}

#[test]
fn a_kill_leaves_no_second_name_of_a_file_that_is_in_place() {
    if !is_installed("strace") {
        return skip("strace is not installed, which kills at a system call");
    }
    for call in ["unlinkat", "renameat", "linkat"] {
        for nth in [1, 2, 3, 5] {
            let world = World::new();
            write_files(&world);
            world.mkdir("dst");
            disturbed(&world, &format!("inject={call}:signal=KILL:when={nth}"));
            assert_eq!(linked(&world), [""; 0], "{call} {nth}");
            world.ok("-a --partial-dir=.part src/ dst/");
            world.assert_same("src", "dst");
            world.assert_clean("dst");
        }
    }
}

#[test]
fn a_call_that_fails_leaves_no_second_name_and_is_said() {
    if !is_installed("strace") {
        return skip("strace is not installed, which has a call fail");
    }
    let mut failed = 0;
    // Calls are counted in each thread.
    for nth in [2, 3, 5, 7, 9, 12, 14] {
        let world = World::new();
        write_files(&world);
        world.mkdir("dst");
        let run = disturbed(&world, &format!("inject=openat2:error=EMFILE:when={nth}"));
        assert_eq!(linked(&world), [""; 0], "{nth} {run:#?}");
        let missing = (0..40).filter(|n| !world.exists(format!("dst/{n}"))).count();
        let told = !run.stderr.is_empty();
        assert_eq!(run.code != Some(0), told, "{nth} {run:#?}");
        assert!(told || missing == 0, "{nth} {run:#?}");
        failed += usize::from(told);
        world.ok("-a --partial-dir=.part src/ dst/");
        world.assert_same("src", "dst");
        world.assert_clean("dst");
    }
    assert!(failed > 0, "no call failed that mattered");
}

#[test]
fn a_run_without_the_option_leaves_what_is_shown_to_itself() {
    let world = World::new();
    world.write("src/file", noise(4 << 20, 1));
    world.mkdir("dst");
    let words = ["sync", "-a", "--bwlimit=1m", "--partial-dir=.part", "src/", "dst/"];
    let mut run = std::process::Command::new(DELTIC);
    run.args(words);
    world.place(&mut run);
    let mut run = run.spawn().expect("it can be started");
    while world.written_blocks("dst/.part/file") < 300 {
        assert!(run.try_wait().expect("it is ours").is_none(), "it ended too early");
        thread::sleep(Duration::from_millis(10));
    }
    run.kill().and_then(|()| run.wait()).expect("it is ours");
    let sent = world.ok("-a --no-whole-file --stats src/ dst/").stat("Literal data");
    assert!(sent < 7 << 19, "{sent} bytes of what was there were sent again");
    assert_eq!(linked(&world), [""; 0]);
    assert!(Path::exists(&world.path("dst/.part/file")));
}
