//! Reports of trouble: at which end, with which path, for which reason, and what to do about it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::attrs::SOMEBODY;
use crate::common::{DELTIC, Run, SHELL, World};
use serde_json::{Value, json};

/// A file that cannot come to where a directory is with something in it.
fn world() -> World {
    let world = World::new();
    world.write("src/name", "file");
    world.write("dst/name/below", "dir");
    world
}

fn sync(world: &World, words: &[&str]) -> Run {
    let command = ["sync", "-a", "-e", SHELL, "--deltic-path", DELTIC];
    Run::of(&mut world.command(DELTIC, command.iter().chain(words)))
}

/// The `trouble` events of a run.
fn troubles(run: &Run) -> Vec<Value> {
    let events = run.stdout.lines().map(|line| serde_json::from_str(line).expect("an event"));
    events.filter(|event: &Value| event["event"] == "trouble").collect()
}

#[test]
fn a_trouble_names_its_side_and_the_whole_path() {
    for (from, to, host) in
        [("src/", "dst/", ""), ("src/", "h:dst/", "h: "), ("h:src/", "dst/", "")]
    {
        let world = world();
        let path = world.path("dst/name").display().to_string();
        let run = sync(&world, &["--json", from, to]);
        let told = format!("cannot write {path}: directory not empty");
        assert!(run.stderr.starts_with(&format!("deltic: {host}{told}\n")), "{run:#?}");
        let event = json!({"event": "trouble", "kind": "failed", "message": told, "path": path, "side": "receiver", "errno": 39});
        assert_eq!((run.code, troubles(&run)), (Some(23), vec![event]), "{run:#?}");
        assert!(run.stderr.contains("hint: a directory is in the way: --force "), "{run:#?}");
        let run = sync(&world, &["--force", from, to]);
        assert_eq!((run.code, world.read("dst/name")), (Some(0), b"file".into()), "{run:#?}");
    }
}

#[test]
fn a_file_of_a_name_that_deltic_keeps_for_itself_is_named() {
    let world = World::new();
    world.write("src/sub/.deltic", "a user's");
    world.write("src/.deltic-7/file", "a staging directory's");
    let run = sync(&world, &["src/", "dst/"]);
    let told = "sub/.deltic: skipped, since Deltic keeps that name for itself";
    assert!(run.stderr.contains(told) && !run.stderr.contains(".deltic-7"), "{run:#?}");
    assert_eq!((run.code, world.names("dst")), (Some(0), vec!["sub".into()]), "{run:#?}");
}

#[test]
fn a_root_that_cannot_be_made_is_named() {
    let world = World::new();
    world.write("src/file", "x");
    let run = sync(&world, &["src/", "/proc/none/"]);
    assert!(run.stderr.contains("cannot make directory /proc/none/: "), "{run:#?}");
    assert_eq!(run.code, Some(11), "{run:#?}");
}

#[test]
fn a_source_that_is_missing_is_told_with_its_path_and_errno() {
    for (from, host) in [("", ""), ("h:", "h: ")] {
        let world = world();
        let path = world.path("none").display().to_string();
        let run = sync(&world, &["--json", &format!("{from}none"), "new/"]);
        let told = format!("cannot read {path}: no such file or directory");
        assert!(run.stderr.starts_with(&format!("deltic: {host}{told}\n")), "{run:#?}");
        let event = json!({"event": "trouble", "kind": "failed", "message": told, "path": path, "side": "sender", "errno": 2});
        assert_eq!(troubles(&run), [event], "{run:#?}");
    }
}

#[test]
fn an_end_that_cannot_begin_is_named() {
    let world = world();
    let run = sync(&world, &["src/", "h:no/such/dir"]);
    let told = "deltic: h: destination no/such/dir: no/such: no such directory; only the last one is created";
    assert!(run.stderr.starts_with(told), "{run:#?}");
    let run = sync(&world, &["src/name", "no/such"]);
    let told = "deltic: destination no/such: no: no such directory (--mkpath creates it)\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(3), told));
}

#[test]
fn a_destination_that_may_not_be_written_to_is_told_once() {
    let world = World::new();
    (0..20).for_each(|n| world.write(format!("src/{n}"), "file"));
    world.mkdir("dst");
    world.chmod("dst", 0o555);
    let mut command = Command::new(DELTIC);
    command.args(["sync", "-r", "--no-times", "src/", "dst/"]);
    if crate::common::is_root() {
        command.uid(SOMEBODY).gid(SOMEBODY);
    }
    let run = Run::of(&mut world.settle(command));
    let told: Vec<_> = run.stderr.lines().collect();
    assert_eq!((run.code, told.len()), (Some(23), 3), "{run:#?}");
    assert_eq!(told[1], "deltic: 20 names failed: permission denied");
    assert!(told[2].starts_with("  hint: you may not write"), "{run:#?}");
    world.chmod("dst", 0o755);
}

#[test]
fn a_user_whom_nobody_knows_is_told_by_the_option_that_was_typed() {
    let world = world();
    for option in ["--chown=nobody-has-it", "--chown=:nobody-has-it", "--usermap=a:nobody-has-it"] {
        let run = sync(&world, &[option, "src/", "dst/"]);
        let name = option.split('=').next().unwrap();
        assert!(run.stderr.starts_with(&format!("deltic: {name}: no ")), "{run:#?}");
    }
}

#[test]
fn hints_have_the_words_that_were_typed() {
    let world = world();
    let shell = "sh -c 'exit 255' rsh -p 1";
    let run = sync(&world, &["-e", shell, "src/", "root@backup:dst/"]);
    let hint = "try `sh -c 'exit 255' rsh -p 1 -l root backup true`\n";
    assert!(run.stderr.ends_with(hint), "{run:#?}");
    world.write("co:lon", "a file");
    let run = sync(&world, &["-e", shell, "co:lon", "dst/"]);
    assert!(
        run.stderr.contains("hint: 'co:lon' is a file here; write './co:lon' for the file"),
        "{run:#?}"
    );
}

#[test]
fn words_that_were_meant_otherwise_are_named() {
    let world = world();
    let port = "hint: -p keeps permissions: -e 'ssh -p PORT' names the port\n";
    let quoted =
        "hint: the shell leaves a quoted ~ as it is; write ~ without quotes, or \"$HOME\"\n";
    let silent = "sh -c 'exit 255' rsh";
    for (words, told) in [
        (&["-p", "2222", "src/", "h:dst/"][..], port),
        (&["~/none", "dst/"], quoted),
        (&["src/", "~/none"], "~: no such directory; the shell leaves a quoted ~ as it is\n"),
        (
            &["-e", silent, "-p", "2222", "src/", "x:dst/"],
            "hint: -p keeps permissions: -e 'ssh -p 2222'",
        ),
        (
            &["-e", silent, "--port=2222", "src/", "x:dst/"],
            "hint: --port is for daemons: -e 'ssh -p 2222'",
        ),
        (
            &["-e", silent, "src/", "x:2222:/y"],
            "hint: -e 'ssh -p 2222' names the port and 'x:/y' the place",
        ),
        (
            &["-e", silent, "src/", "C:/y"],
            "hint: 'C' is taken for a host: in WSL that drive is /mnt/c",
        ),
    ] {
        let run = sync(&world, words);
        assert!(run.code != Some(0) && run.stderr.contains(told), "{words:?}: {run:#?}");
    }
    world.write("2222", "a file");
    let run = sync(&world, &["-p", "2222", "src/", "h:dst/"]);
    assert!(!run.stderr.contains("hint: -p"), "{run:#?}");
}

#[test]
fn help_is_named_where_it_helps() {
    let world = world();
    world.write("rules", "foo a\n");
    for (words, helps) in [
        (&["src/", "s3://bucket/x"][..], false),
        (&["h:src/", "g:dst/"], false),
        (&["src/", "src/"], false),
        (&["--link-dest=x", "--write-batch=b", "--read-batch=c", "dst/"], false),
        (&["--max-delete=x", "src/", "dst/"], false),
        (&["--bwlimit=abc", "src/", "dst/"], false),
        (&["--timeout=5m", "src/", "dst/"], false),
        (&["--chmod=xyz", "src/", "dst/"], false),
        (&["--stop-at=25:00", "src/", "dst/"], false),
        (&["-f", "foo a", "src/", "dst/"], false),
        (&["--exclude-from=rules", "-f", ". rules", "src/", "dst/"], false),
        (&["--no-r", "--delete", "src/", "dst/"], false),
        (&["-b", "--backup-dir=.", "src/", "dst/"], false),
        (&["--info=foo", "src/", "dst/"], false),
        (&[], true),
        (&["--fooo", "src/", "dst/"], true),
        (&["src/", "dst/", "--max-delete"], true),
    ] {
        let run = sync(&world, words);
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert_eq!(run.stderr.contains("--help"), helps, "{run:#?}");
    }
}
