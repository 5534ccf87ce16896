//! Signature, delta and patch as commands: between two real versions, through pipes, and with inputs that do not fit.

use std::fs;

use crate::common::attrs::{SOMEBODY, own};
use crate::common::{DELTIC, Run, World, edited, noise, skip};
use rustix::process::getuid;

/// `old` and `new`, two versions of one file.
fn world() -> World {
    let world = World::new();
    let old = noise(3 << 20, 11);
    let mut new = edited(&edited(&old, 2_000_000), 700_000);
    new.truncate(3_000_000);
    new.extend_from_slice(&noise(10_000, 12));
    world.write("old", old);
    world.write("new", new);
    world
}

fn deltic(world: &World, words: &str) -> Run {
    Run::of(&mut world.command(DELTIC, words.split_whitespace()))
}

fn ok(world: &World, words: &str) {
    let run = deltic(world, words);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "deltic {words}");
}

/// Fails with `code`, names what it was about, and leaves NEW as it was.
#[track_caller]
fn fails(world: &World, code: i32, words: &str) -> String {
    world.write("result", "as it was");
    let run = deltic(world, words);
    assert_eq!(run.code, Some(code), "deltic {words}: {run:#?}");
    assert!(run.stderr.starts_with("deltic: "), "deltic {words}: {run:#?}");
    assert_eq!(world.read("result"), b"as it was", "deltic {words}");
    assert_no_litter(world);
    run.stderr
}

fn assert_no_litter(world: &World) {
    let litter = world.names("").into_iter().find(|name| name.contains("tmp"));
    assert_eq!(litter, None);
}

fn prepared() -> World {
    let world = world();
    ok(&world, "signature old -o sig");
    ok(&world, "delta sig new -o delta");
    world
}

#[test]
fn a_round_trip_makes_the_new_version_and_its_files_are_small() {
    let world = prepared();
    assert!(world.read("sig").len() < 60_000, "{}", world.read("sig").len());
    assert!(world.read("delta").len() < 100_000, "{}", world.read("delta").len());
    world.chmod("old", 0o640);
    ok(&world, "patch old delta -o result");
    assert!(world.read("result") == world.read("new"));
    assert_eq!(world.mode("result"), 0o640);
    ok(&world, "patch old delta -o old");
    assert!(world.read("old") == world.read("new"));
    assert_no_litter(&world);
}

#[test]
fn every_stream_may_be_a_pipe() {
    let world = world();
    let line = "$0 signature - <old | $0 delta - new | $0 patch old - -o result && \
                $0 signature old >sig && $0 delta sig - <new >delta && $0 patch old delta -o second";
    let run = Run::of(&mut world.command("sh", ["-ec", line, DELTIC]));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert!(world.read("result") == world.read("new") && world.read("second") == world.read("new"));
}

#[test]
fn versions_of_every_size_make_the_round_trip() {
    let world = world();
    for (old, new) in
        [(0, 0), (0, 5), (5, 0), (1, 1), (70_000, 70_001), (2_000_000, 100), (9, 2_000_000)]
    {
        world.write("old", noise(old, 1));
        world.write("new", noise(new, 1));
        ok(&world, "signature old -o sig");
        ok(&world, "delta sig new -o delta");
        ok(&world, "patch old delta -o result");
        assert!(world.read("result") == world.read("new"), "{old} to {new}");
    }
}

#[test]
fn a_wrong_old_is_told_from_a_damaged_delta() {
    let world = prepared();
    let mut other = world.read("old");
    other[1_000_000] ^= 1;
    world.write("other", &other);
    assert!(fails(&world, 3, "patch other delta -o result").contains("other content"));
    other.pop();
    world.write("other", &other);
    assert!(fails(&world, 3, "patch other delta -o result").contains("3145727 bytes, not 3145728"));
}

#[test]
fn a_flipped_byte_in_what_is_new_is_a_damaged_delta() {
    let world = prepared();
    let mut hurt = world.read("delta");
    let middle = hurt.len() / 2;
    hurt[middle] ^= 0x10;
    world.write("hurt", hurt);
    assert!(fails(&world, 12, "patch old hurt -o result").contains("the delta is damaged"));
}

#[test]
fn a_truncated_or_corrupted_file_is_damaged_wherever_it_is_hurt() {
    let world = prepared();
    for (name, words) in
        [("delta", "patch old hurt -o result"), ("sig", "delta hurt new -o result")]
    {
        let good = world.read(name);
        let len = good.len();
        for keep in [0, 1, 7, 8, 20, 60, len / 2, len - 33, len - 1] {
            world.write("hurt", &good[..keep]);
            fails(&world, 12, words);
        }
        for at in [0, 3, 8, 9, 40, len / 3, len / 2, len - 40, len - 1] {
            let mut hurt = good.clone();
            hurt[at] ^= 0x10;
            world.write("hurt", hurt);
            world.write("result", "as it was");
            let run = deltic(&world, words);
            if run.code == Some(0) {
                // The hurt was in what only explains failures; the result was checked all the same.
                assert!(name == "delta" && world.read("result") == world.read("new"), "at {at}");
                continue;
            }
            assert!(matches!(run.code, Some(3 | 12)), "{name} at {at}: {run:#?}");
            assert_eq!(world.read("result"), b"as it was", "{name} at {at}");
        }
        world.write("hurt", [&good[..], b"x"].concat());
        fails(&world, 12, words);
    }
    assert_no_litter(&world);
}

#[test]
fn files_of_another_kind_are_refused() {
    let world = prepared();
    for words in [
        "patch old sig -o result",
        "patch old new -o result",
        "delta delta new -o result",
        "delta old new -o result",
    ] {
        fails(&world, 12, words);
    }
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let world = prepared();
    for words in [
        "signature missing -o result",
        "signature src -o result",
        "delta missing new -o result",
        "delta sig missing -o result",
        "patch missing delta -o result",
        "patch old missing -o result",
    ] {
        let message = fails(&world, 11, words);
        assert!(message.contains("missing") || message.contains("src"), "{words}: {message}");
    }
    assert!(fails(&world, 11, "patch old delta -o no/such").contains("no/"));
    let message = fails(&world, 3, "patch src delta -o result");
    assert!(message.contains("not a regular file"), "{message}");
    let full = Run::of(&mut world.command("sh", ["-c", "$0 delta sig new >/dev/full", DELTIC]));
    assert_eq!(full.code, Some(11), "{full:#?}");
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let world = prepared();
    for words in ["signature", "delta sig", "patch old delta", "patch old delta -x -o result"] {
        fails(&world, 1, words);
    }
}

#[test]
fn links_of_others_are_not_followed_to_what_is_read_or_written() {
    if !getuid().is_root() {
        return skip("only root can give a link away");
    }
    let world = prepared();
    for dir in ["his", "his/out", "pages"] {
        world.mkdir(dir);
    }
    world.write("his/out/old", world.read("old"));
    for (target, link) in [("out", "his/l"), ("out/made", "his/made"), ("../pages", "his/pages")] {
        world.link(target, link);
        own(&world.path(link), SOMEBODY, SOMEBODY);
    }
    for words in [
        "signature his/l/old -o made",
        "signature old -o his/l/made",
        "signature old -o his/made",
        "delta sig new -o his/l/made",
        "patch his/l/old delta -o made",
        "patch old delta -o his/made",
        "man --dir his/pages",
    ] {
        let run = deltic(&world, words);
        assert_eq!(run.code, Some(11), "{words}: {run:#?}");
        let refusals = ["refusing to follow his/", "his/pages is a symlink of another user"];
        let is_refused = refusals.iter().any(|refusal| run.stderr.contains(refusal));
        assert!(is_refused, "{words}: {run:#?}");
        assert_eq!((world.names("his/out"), world.names("pages")), (vec!["old".into()], vec![]));
        assert!(!world.exists("made"), "{words}");
        if !words.starts_with("man") {
            ok(&world, &format!("{words} --insecure-links"));
            let _ =
                [fs::remove_file(world.path("made")), fs::remove_file(world.path("his/out/made"))];
        }
    }
}
