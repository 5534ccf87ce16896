//! What is known of files from an earlier run: `-c` reads them once, and never believes what is not so any more.

mod common;

use std::time::Duration;

use common::{DELTIC, Run, SHELL, WAYS, World, noise};

const BIG: usize = 8 << 20;

/// A source and an equal destination that were not changed for longer than a tick.
fn world() -> World {
    let world = World::new();
    world.write("src/big", noise(BIG, 1));
    world.write("src/d/small", "small");
    for name in ["src/big", "src/d/small"] {
        world.set_time(name, 1_000_000_000);
    }
    world.ok("-a src/ dst");
    rest();
    world
}

/// Lets a tick of the file system's clock pass.
fn rest() {
    std::thread::sleep(Duration::from_millis(150));
}

/// Bytes that `deltic` and what it waits for read; `None` where the system does not count.
fn bytes_read(world: &World, words: &str) -> Option<u64> {
    let line = format!("\"$0\" {words} && cat /proc/$$/io");
    let run = Run::of(&mut world.command("sh", ["-c", &line, DELTIC]));
    if !run.stderr.is_empty() && run.stderr.contains("/proc") {
        common::skip("the system does not count what is read");
        return None;
    }
    assert_eq!(run.code, Some(0), "{run:#?}");
    let count = run.stdout.lines().find_map(|line| line.strip_prefix("rchar: "));
    Some(count.expect("a count").parse().expect("a number"))
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
    // Verifying is reading, unless it is said otherwise.
    assert!(bytes_read(&world, "verify src dst").unwrap() >= both);
    assert!(bytes_read(&world, "verify --cached src dst").unwrap() < BIG as u64 / 2);
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
    for n in 0..1600 {
        let name = format!("src/{}/{n}", n / 40);
        world.write(&name, noise(10 + n, n as u64));
        world.set_time(&name, 1_000_000_000);
    }
    world.ok("-a src/ dst");
    rest();
    let sync = "-aci --stats src/ h:dst";
    let sent = |run: &Run| run.stat("Total bytes sent");
    let first = world.ok(sync);
    let second = world.ok(sync);
    // Those of the beginning are listed all the same.
    assert!(sent(&second) < sent(&first) * 3 / 4, "{} of {}", sent(&second), sent(&first));
    for edited in ["dst/39/1599", "src/30/1200", "dst/0/3"] {
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
