//! `deltic doctor` and `deltic install`, over a remote shell that stays here.

use crate::common::disks::exfat;
use crate::common::{DELTIC, Mounted, Run, SHELL, World};

fn doctor(world: &World, words: &[&str]) -> Run {
    let all = ["doctor", "-e", SHELL, "--deltic-path", DELTIC].iter().chain(words);
    Run::of(&mut world.command(DELTIC, all))
}

fn install(world: &World, shell: &str, words: &[&str]) -> Run {
    Run::of(&mut world.command(DELTIC, ["install", "-e", shell].iter().chain(words)))
}

/// A remote shell whose machine is another, as far as `uname` says.
fn with_machine(world: &World, machine: &str) -> String {
    world.write("far/uname", format!("#!/bin/sh\necho Linux {machine}\n"));
    world.chmod("far/uname", 0o755);
    let dir = world.path("far").display().to_string();
    format!(r#"sh -c 'shift; PATH={dir}:$PATH exec "$@"' rsh"#)
}

#[test]
fn all_is_well_where_it_is() {
    let world = World::new();
    world.write("place/a", "a");
    let run = doctor(&world, &["h:place"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    for name in ["this machine", "remote shell", "deltic there", "clock", "place", "transfer"] {
        assert!(run.stdout.contains(&format!("ok       {name}: ")), "{name} {run:#?}");
    }
    assert_eq!(world.names("place"), ["a"], "nothing of it stays");
    // A host alone means the home directory; a path of this machine is looked at here.
    assert_eq!(doctor(&world, &["h"]).code, Some(0));
    let run = doctor(&world, &["./place"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stdout.contains("symbolic links, hard links"), "{run:#?}");
}

#[test]
fn the_link_is_measured_for_the_next_run() {
    let world = World::new();
    let run = doctor(&world, &["--link", "h:src"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let line =
        run.stdout.lines().find(|line| line.starts_with("ok       link: a round trip takes "));
    let line = line.expect("the link is measured");
    assert_eq!(line.matches(" Mbit/s").count(), 2, "{line}");
    assert_eq!(world.names(".cache/deltic/links-1").len(), 2, "one for each direction: {run:#?}");
    // The owner of a key limits the rate of an agent: a probe would take the whole link.
    world.write("slow", format!("#!/bin/sh\nexec {DELTIC} \"$@\" --bwlimit 1M\n"));
    world.chmod("slow", 0o755);
    let slow = world.path("slow").display().to_string();
    let run = doctor(&world, &["--link", "--deltic-path", &slow, "h:src"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.stdout.contains("does not measure the link"), "{run:#?}");
    for place in ["./src", "https://localhost/photos"] {
        let run = doctor(&world, &["--link", place]);
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(run.stdout.contains("--link measures the link of a remote shell"), "{run:#?}");
    }
}

#[test]
fn programs_read_a_line_for_each_check() {
    let world = World::new();
    let run = doctor(&world, &["--json", "h:src"]);
    let events: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let named = |name: &str| events.iter().find(|event| event["event"] == name);
    assert_eq!(named("diagnosis").expect("it ends")["exit_code"], 0, "{run:#?}");
    assert_eq!(named("abilities").expect("they are told")["abilities"]["symlinks"], true);
    let states = events.iter().filter(|event| event["event"] == "check");
    assert!(states.clone().count() >= 6 && states.clone().all(|check| check["state"] != "failed"));
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    for (words, code, what, mend) in [
        (&["h:missing"][..], 3, "missing: no such file or directory", "name a directory"),
        (&["--deltic-path", "/no/such", "h"], 127, "`/no/such` is not found", "deltic install -e "),
        (&["--deltic-path", "true", "h"], 2, "`true` does not answer", "may be too old"),
        (&["--deltic-path", "echo", "h"], 2, "the remote shell printed 'agent", "start-up files"),
        (&["-e", "sh -c 'exit 255'", "h"], 255, "cannot connect", "' h true` shows more"),
        (&["-e", "no-such-shell", "h"], 14, "no-such-shell", "-e names another"),
        (&["h::module"], 1, "daemons", "--help"),
        (&[":/tmp"], 1, "a host is missing", "--help"),
    ] {
        let world = World::new();
        let run = doctor(&world, words);
        assert_eq!(run.code, Some(code), "{words:?} {run:#?}");
        let failed = run.stdout.lines().skip_while(|line| !line.starts_with("failed "));
        let failed = failed.collect::<Vec<_>>().join("\n");
        assert!(failed.contains(what) && failed.contains(mend), "{words:?} {run:#?}");
    }
}

#[test]
fn it_is_installed_whole_and_says_where() {
    let world = World::new();
    let run = install(&world, SHELL, &["h"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let path = world.path(".local/bin/deltic").display().to_string();
    assert!(run.stdout.starts_with(&format!("h:{path}: deltic ")), "{run:#?}");
    assert!(run.stdout.ends_with("`deltic sync` finds the program there\n"), "{run:#?}");
    assert!(world.read(".local/bin/deltic") == std::fs::read(DELTIC).unwrap());
    assert_eq!(world.mode(".local/bin/deltic"), 0o755);
    assert_eq!(world.names(".local/bin"), ["deltic"]);

    // Another path, a directory that is there, and one that has a quote in it.
    for (to, path) in [
        ("my bin/d'l", "my bin/d'l"),
        ("src", "src/deltic"),
        ("src/", "src/deltic"),
        ("~/home bin/", "home bin/deltic"),
        ("no/such/", "no/such/deltic"),
        ("~", "deltic"),
    ] {
        let run = install(&world, SHELL, &["--to", to, "h:"]);
        assert_eq!(run.code, Some(0), "{to} {run:#?}");
        assert!(world.exists(path), "{to} {run:#?}");
    }
    let run = doctor(&world, &["--deltic-path", ".local/bin/deltic", "h"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn one_that_the_shell_there_does_not_look_for_is_found() {
    let world = World::new();
    assert_eq!(install(&world, SHELL, &["h"]).code, Some(0));
    let run = doctor(&world, &["--deltic-path", "no-deltic", "h"]);
    assert_eq!(run.code, Some(127), "{run:#?}");
    assert!(run.stdout.contains("mend: say `--deltic-path .local/bin/deltic`"), "{run:#?}");
}

#[test]
fn commands_to_type_have_the_words_that_were_typed() {
    let world = World::new();
    world.write("ssh", "#!/bin/sh\nexit 255\n");
    world.chmod("ssh", 0o755);
    let ssh = world.path("ssh").display().to_string();
    let run = doctor(&world, &["-e", &format!("{ssh} -p 22"), "me@h"]);
    assert_eq!(run.code, Some(255), "{run:#?}");
    assert!(run.stdout.contains(&format!("`{ssh} -v -p 22 -l me h true`")), "{run:#?}");
    let run = doctor(&world, &["-e", "sh -c 'exit 127' rsh", "h"]);
    assert!(run.stdout.contains(r#"`deltic install -e "sh -c 'exit 127' rsh" h`"#), "{run:#?}");
}

/// A key with a command of its own runs no `true`, and connects all the same.
#[test]
fn a_key_that_runs_one_command_asks_for_no_password() {
    for (code, found) in
        [(4, "ok       keys: ssh connects without a question"), (255, "warning  keys: ")]
    {
        let world = World::new();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *BatchMode*) exit {code};; esac\nshift\nexec \"$@\"\n"
        );
        world.write("ssh", script);
        world.chmod("ssh", 0o755);
        let ssh = world.path("ssh").display().to_string();
        let run = doctor(&world, &["-e", &ssh, "h:src"]);
        assert!(run.code == Some(0) && run.stdout.contains(found), "{code} {run:#?}");
    }
}

/// The second session, which fetches it, fails; the third removes it.
#[test]
fn a_file_that_cannot_be_fetched_is_removed() {
    let world = World::new();
    world.mkdir("place");
    world.write(
        "shell",
        "#!/bin/sh\nshift\ncase \"$*\" in *--examine) exec \"$@\";; esac\n\
         echo >>sessions\n[ $(wc -l <sessions) = 2 ] && exit 9\nexec \"$@\"\n",
    );
    world.chmod("shell", 0o755);
    let shell = world.path("shell").display().to_string();
    let run = doctor(&world, &["-e", &shell, "h:place"]);
    assert!(run.code == Some(12) && run.stdout.contains("failed   transfer: "), "{run:#?}");
    assert_eq!(world.names("place"), [""; 0], "{run:#?}");
}

#[test]
fn a_full_file_system_is_not_well() {
    let world = World::new();
    let mount = ["-t", "tmpfs", "-o", "size=512K", "tmpfs", "dst"];
    let without = "a small file system cannot be mounted here";
    let Some(_disk) = Mounted::by((&world, "dst"), ("mount", &mount), without) else { return };
    let run = doctor(&world, &["h:dst"]);
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert!(run.stdout.contains("failed   dst: the file system is full: 5"), "{run:#?}");
    assert!(run.stdout.contains("mend: make room there"), "{run:#?}");
}

/// Another user may know the name of the new file beforehand.
#[test]
fn a_file_system_that_takes_two_cases_for_one_name_is_told() {
    let world = World::new();
    world.mkdir("plain");
    let Some(_disk) = exfat(&world, "dst") else { return };
    for (dir, folds) in [("./dst", true), ("./plain", false)] {
        let run = doctor(&world, &[dir]);
        let told = run.stdout.contains("names that differ only in case are equal");
        assert_eq!(told, folds, "{run:#?}");
    }
    assert_eq!(world.names("dst"), [""; 0]);
}

#[test]
fn nothing_is_written_through_a_link_that_is_there_already() {
    let world = World::new();
    world.write("victim", "kept");
    let shell = r#"sh -c 'ln -s "$PWD/victim" "bin/.deltic.new.$$"; shift; exec "$@"' rsh"#;
    world.mkdir("bin");
    let run = install(&world, shell, &["--to", "bin/deltic", "h"]);
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert!(run.stderr.contains("h: cannot write to bin"), "{run:#?}");
    assert_eq!(world.read("victim"), b"kept");
    assert!(!world.exists("bin/deltic"));
}

/// A name that a directory has is not put in its place.
#[test]
fn what_cannot_take_its_name_is_told() {
    let world = World::new();
    world.write("bin/deltic/full", "in the way");
    let run = install(&world, SHELL, &["--to", "bin", "h"]);
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert!(run.stderr.contains("h: cannot put it at bin/deltic, a directory"), "{run:#?}");
    assert_eq!(world.names("bin"), ["deltic"]);
}

#[test]
fn what_the_far_end_says_drives_no_terminal() {
    let world = World::new();
    let escape = "\x1b]0;x\x07";
    let shell = format!("sh -c 'echo \"failed {escape}\"' rsh");
    let run = install(&world, &shell, &["h"]);
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert!(run.stderr.contains(r"\u{1b}]0;x\u{7}"), "{run:#?}");
    // And as JSON writes it.
    world.write(
        "far",
        "#!/bin/sh\n\"$REAL\" agent --examine | sed -u 's/\"program\":\"/&\\\\u001b]0;x/'\n",
    );
    world.chmod("far", 0o755);
    let far = world.path("far").display().to_string();
    let words = ["doctor", "-e", SHELL, "--deltic-path", &far, "h:src"];
    let run = Run::of(world.command(DELTIC, words).env("REAL", DELTIC));
    assert!(run.stdout.contains(r"deltic there: \u{1b}]0;x/"), "{run:#?}");
    assert!(!run.stdout.contains('\x1b'), "{run:#?}");
}

#[test]
fn what_does_not_run_there_is_not_installed() {
    let world = World::new();
    world.write(".local/bin/deltic", "the old one");
    let here = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let run = install(&world, &with_machine(&world, here), &["h"]);
    assert_eq!(run.code, Some(4), "{run:#?}");
    assert!(run.stderr.contains(&format!("h is Linux {here}, and the program is for")), "{run:#?}");
    assert!(run.stderr.contains("`make static`"), "{run:#?}");

    // Of the right machine by its header, and broken.
    let mut broken = std::fs::read(DELTIC).unwrap();
    broken.truncate(4096);
    world.write("broken", broken);
    let run = install(&world, SHELL, &["--binary", "broken", "h"]);
    assert_eq!(run.code, Some(4), "{run:#?}");
    assert!(run.stderr.contains("the copied program does not run on h: "), "{run:#?}");

    // One that runs there, and is another program.
    let run = install(&world, SHELL, &["--binary", "/bin/true", "h"]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(
        run.stderr.contains("the copied program is not deltic: its `--version` prints "),
        "{run:#?}"
    );

    world.write("text", "#!/bin/sh\n");
    assert_eq!(install(&world, SHELL, &["--binary", "text", "h"]).code, Some(3));
    let run = install(&world, SHELL, &["--to", "/proc/no/deltic", "h"]);
    assert_eq!(run.code, Some(11), "{run:#?}");
    assert_eq!(install(&world, "sh -c 'exit 255'", &["h"]).code, Some(255));
    let run = install(&world, SHELL, &["h:bin/"]);
    assert!(run.code == Some(1) && run.stderr.contains("use --to"), "{run:#?}");
    assert_eq!(install(&world, "sh -c 'exit 9'", &["me@::1"]).code, Some(12), "an address");
    let refused = install(&world, "sh -c 'exit 4'", &["h"]);
    assert!(!refused.stderr.contains("does it connect"), "{refused:#?}");
    assert_eq!(world.read(".local/bin/deltic"), b"the old one");
    assert_eq!(world.names(".local/bin"), ["deltic"]);
}

#[test]
fn the_version_tells_the_build_where_more_is_asked_for() {
    let world = World::new();
    let version = |words: &[&str]| Run::of(&mut world.command(DELTIC, words)).stdout;
    for words in [&["--version", "-v"][..], &["-v", "-V"], &["sync", "--version", "-v"]] {
        let told = version(words);
        assert!(told.contains("\nBuild:\n    commit ") && told.contains("\n    target "), "{told}");
    }
    assert!(!version(&["sync", "--version"]).contains("Build:"));
    assert_eq!(version(&["--version"]).lines().count(), 1);
    let json: serde_json::Value = serde_json::from_str(&version(&["sync", "-VV"])).unwrap();
    assert!(json["target"].as_str().is_some_and(|target| target.contains("linux")), "{json}");
}
