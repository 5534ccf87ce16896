//! Connections between ends that do not fit, that damage what they carry, and ends that break down.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::common::peer::{sync_over, sync_with};
use crate::common::{DELTIC, Run, SHELL, World, is_installed, noise, skip};
use deltic_core::Key;
use deltic_protocol::Hello;
use deltic_protocol::hello::MAGIC;

const PUSH: [&str; 2] = ["src/", "backup:dst/"];
const PULL: [&str; 2] = ["backup:src/", "dst/"];
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Replaces each `from` by `to`, which is as long.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut found = 0;
    for at in 0..=bytes.len() - from.len() {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + from.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert!(found > 0, "the program says {from:?}");
}

/// A copy of the program that holds another conversation.
fn other(world: &World) -> String {
    let mut bytes = fs::read(DELTIC).expect("it is there");
    replace(&mut bytes, b"recipe:keyed-8", b"recipe:keyed-9");
    world.write("other", bytes);
    let path = world.path("other");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.display().to_string()
}

#[test]
fn a_far_end_that_does_not_fit_ends_no_sooner_than_its_greeting_is_heard() {
    let world = World::new();
    world.write("src/file", "content");
    let other = other(&world);
    let told = format!("deltic: incompatible versions: {OURS} here, {OURS} on backup\n");
    for operands in [PUSH, PULL, PUSH, PULL] {
        for (here, there) in [(DELTIC, &*other), (&*other, DELTIC)] {
            let words = ["sync", "-a", "-e", SHELL, "--deltic-path", there];
            let run = Run::of(&mut world.command(here, words.iter().chain(&operands)));
            assert_eq!(run.code, Some(2), "{run:#?}");
            assert!(run.stderr.starts_with(&told), "{run:#?}");
            assert!(!world.exists("dst"), "nothing was begun");
        }
    }
}

#[test]
fn of_two_versions_that_do_not_fit_the_older_one_is_named() {
    let greeting = |version: &str| {
        let mut hello = Hello::of_this_version(Key::from_bytes([7; 32]));
        hello.program = format!("deltic {version}");
        assert!(hello.capabilities.remove("recipe:keyed-8"));
        [&MAGIC[..], &hello.encode()].concat()
    };
    for operands in [PUSH, PULL] {
        for (version, older) in [("99.0.1", "here"), ("0.0.9", "there")] {
            let world = World::new();
            world.write("src/file", "content");
            let run = sync_with(&world, &greeting(version), &operands);
            assert_eq!(run.code, Some(2), "{run:#?}");
            let told = format!("deltic: incompatible versions: {OURS} here, {version} on backup\n");
            let hint = format!("  hint: deltic {older} is older; update deltic {older}");
            assert!(run.stderr.starts_with(&(told + &hint)), "{run:#?}");
        }
    }
}

/// A remote shell whose connection to the far end changes the byte `at`.
fn damaging(at: usize) -> String {
    format!(
        r#"sh -c 'shift; {{ dd bs=1 count={at} 2>/dev/null; dd bs=1 count=1 2>/dev/null | tr "\000-\377" "\001-\377\000"; exec cat; }} | "$@"' rsh"#
    )
}

#[test]
fn a_byte_that_changes_on_the_way_is_found_where_no_digest_would() {
    let (name, log) = ("n".repeat(60), noise(600, 1));
    // A name, and a tail: the byte in the midst of it.
    for (part, words) in [(name.as_bytes(), "-a"), (&log[400..], "--append")] {
        let make = || {
            let world = World::new();
            world.write(format!("src/{name}"), "content");
            world.write("src/log", &log);
            world.write("dst/log", &log[..300]);
            world
        };
        let words = [words, "src/", "backup:dst/"];
        let world = make();
        let run = sync_over(&world, r#"sh -c 'shift; tee sent | "$@"' rsh"#, &words);
        assert_eq!(run.code, Some(0), "{run:#?}");
        let sent = world.read("sent");
        let at = sent.windows(part.len()).position(|bytes| bytes == part).expect("it was sent");

        let world = make();
        let run = sync_over(&world, &damaging(at + part.len() / 2), &words);
        assert_eq!(run.code, Some(12), "{run:#?}");
        assert!(run.stderr.contains("the connection damaged data"), "{run:#?}");
        assert!(
            world
                .names("dst")
                .iter()
                .all(|found| *found == name || found == "log" || found.starts_with(".deltic")),
            "{run:#?}"
        );
        let found = world.read("dst/log");
        assert!(log.starts_with(&found), "what is wrong is in place");
    }
}

#[test]
fn a_panic_ends_the_run_whichever_end_it_is_of() {
    if !is_installed("strace") {
        return skip("strace is not installed, which has a call fail that never does");
    }
    let traced = "-o /dev/null -e inject=epoll_wait,epoll_pwait,epoll_pwait2:error=EIO:when=2";
    for operands in [PUSH, PULL] {
        let world = World::new();
        world.write("src/file", "content");
        let words = [DELTIC, "sync", "-a", "-e", SHELL, "--deltic-path", DELTIC];
        let words = traced.split(' ').chain(words).chain(operands);
        let run = Run::of(world.command("strace", words).timeout(Duration::from_secs(60)));
        assert_eq!(run.code, Some(11), "{run:#?}");
        assert!(run.stderr.contains("panicked at"), "{run:#?}");
        assert!(run.stderr.contains("deltic: an internal error ended the run\n"), "{run:#?}");

        let shell = format!(r#"sh -c 'shift; exec strace {traced} "$@"' rsh"#);
        let run = sync_over(&world, &shell, &operands);
        assert_eq!(run.code, Some(12), "{run:#?}");
        assert!(run.stderr.contains("panicked at"), "{run:#?}");
    }
}

/// ssh may send its environment to the other machine, and shows it to the commands of its settings.
#[test]
fn a_remote_shell_does_not_inherit_the_token_for_a_server() {
    let world = World::new();
    world.write("src/a", "a");
    let shell = r#"sh -c 'env >>env; shift; exec "$@"' rsh"#;
    for words in [
        vec!["sync", "-a", "-e", shell, "--deltic-path", DELTIC, "src/", "h:dst/"],
        vec!["sync", "-a", "-e", shell, "--deltic-path", DELTIC, "--streams=3", "h:src/", "got/"],
    ] {
        let mut command = world.command(DELTIC, &words);
        Run::of(command.env("DELTIC_TOKEN", "dlt_secret").env("DELTIC_CACHE_DIR", "cache"));
        let inherited = String::from_utf8_lossy(&world.read("env")).into_owned();
        assert!(inherited.contains("DELTIC_CACHE_DIR=cache"), "{words:?}: {inherited}");
        assert!(!inherited.contains("dlt_secret"), "{words:?}");
        fs::remove_file(world.path("env")).expect("it was made");
    }
    assert_eq!(world.read("got/a"), b"a");
}
