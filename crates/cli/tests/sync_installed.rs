//! A far end that `deltic install` put into the home directory, where no `PATH` leads.

use std::process::Command;

use crate::common::terminal::Terminal;
use crate::common::{DELTIC, Run, SHELL, World, skip};

#[test]
fn a_program_that_install_put_into_the_home_directory_is_found_without_a_path() {
    let world = World::new();
    world.write("src/a", "a");
    if has_program() {
        return;
    }
    let missing = sync(&world, &[]);
    assert_eq!(missing.code, Some(127), "{missing:#?}");
    assert!(missing.stderr.contains("`deltic install host` or --install"), "{missing:#?}");
    world.mkdir(".local/bin");
    world.link(DELTIC, ".local/bin/deltic");
    let run = sync(&world, &[]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(world.read("dst/a"), b"a");
    assert!(run.stderr.contains("not found"), "the shell looks in the path first: {run:#?}");
    world.write("src/b", "b");
    let run = sync(&world, &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "the next run knows the place");
    assert_eq!(world.read("dst/b"), b"b");
    std::fs::rename(world.path(".local/bin/deltic"), world.path("deltic")).unwrap();
    let path = format!("{}:/usr/bin:/bin", world.path("").display());
    let run = Run::of(world.command(DELTIC, words(&[])).env("PATH", path));
    assert_eq!(run.code, Some(0), "a program in the path is found again: {run:#?}");
}

/// True if this machine has a deltic where any shell looks for one.
fn has_program() -> bool {
    let has = std::path::Path::new("/usr/bin/deltic").exists();
    if has {
        skip("this machine has a deltic in /usr/bin");
    }
    has
}

/// The words of a sync to a machine whose shell finds no deltic.
fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["sync", "-a", "-e", SHELL], more, &["src/", "host:dst"]].concat()
}

fn sync(world: &World, more: &[&str]) -> Run {
    Run::of(world.command(DELTIC, words(more)).env("PATH", "/usr/bin:/bin"))
}

#[test]
fn a_missing_program_is_installed_where_the_user_says_so() {
    if has_program() {
        return;
    }
    let world = World::new();
    world.write("src/a", "a");
    let run = sync(&world, &["--install"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.stderr.contains("installed host:") && world.exists(".local/bin/deltic"),
        "{run:#?}"
    );
    assert_eq!(world.read("dst/a"), b"a");
    // Now the program is there: nothing is said of it, and doctor finds the program too.
    let run = sync(&world, &["--install"]);
    assert!(run.code == Some(0) && !run.stderr.contains("installed"), "{run:#?}");
    let mut doctor = world.command(DELTIC, ["doctor", "-e", SHELL, "host:dst"]);
    let run = Run::of(doctor.env("PATH", "/usr/bin:/bin"));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stdout.contains("ok       deltic there: "), "{run:#?}");
    let run = sync(&world, &["--install", "--deltic-path", "x"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
}

#[test]
fn a_program_that_cannot_be_installed_is_told_and_the_run_ends() {
    if has_program() {
        return;
    }
    let world = World::new();
    world.write("src/a", "a");
    world.write(".local", "in the way");
    let run = sync(&world, &["--install"]);
    assert_eq!(run.code, Some(127), "{run:#?}");
    assert!(run.stderr.contains("host: cannot make "), "{run:#?}");
}

#[test]
fn a_user_at_a_terminal_is_asked_before_a_program_is_installed() {
    if has_program() {
        return;
    }
    for (typed, installs) in [("\n", true), ("y\n", true), ("n\n", false), ("\x04", false)] {
        let world = World::new();
        world.write("src/a", "a");
        let mut command = Command::new(DELTIC);
        command.args(words(&[])).current_dir(world.path("")).env("HOME", world.path(""));
        let mut terminal = Terminal::start(command.env("PATH", "/usr/bin:/bin"));
        let question = "deltic is not installed on host; install it to ~/.local/bin? [Y/n] ";
        assert!(terminal.shows(question), "{}", terminal.shown);
        terminal.types(typed);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(if installs { 0 } else { 127 }), "{typed:?} {shown}");
        assert_eq!(world.exists("dst/a"), installs, "{typed:?} {shown}");
    }
}
