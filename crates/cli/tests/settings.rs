//! Options in configuration files, in profiles and in the environment.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;

use crate::common::{DELTIC, Run, SHELL, World, is_root, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const CONFIG: &str = ".config/deltic/config.toml";

/// `deltic` with these words, divided by spaces, and these variables.
fn deltic(world: &World, variables: &[(&str, &str)], words: &str) -> Run {
    let mut command = world.command(DELTIC, words.split_whitespace());
    Run::of(command.envs(variables.iter().copied()))
}

/// The same, called as rsync.
fn as_rsync(world: &World, words: &str) -> Run {
    let mut command = std::process::Command::new(DELTIC);
    command.arg0("rsync").args(words.split_whitespace());
    Run::of(&mut world.settle(command))
}

/// A world in which 1001 of 1002 names are to go: more than the guard lets go.
fn guarded() -> World {
    let world = World::new();
    // No move of one of the others: it has another length.
    world.write("src/keep", "kept");
    (0..1001).for_each(|n| world.write(format!("dst/{n}"), "x"));
    world
}

#[test]
fn the_nearest_place_counts() {
    let sync = "sync -r --delete src/ dst";
    let profile = |most: u32| {
        format!(
            "max-delete = 1\n[profiles.p]\nsource = 'src/'\ndestination = 'dst'\n\
             recursive = true\ndelete = true\nmax-delete = {most}\n"
        )
    };
    let few = [("DELTIC_MAX_DELETE", "1")];
    let many = [("DELTIC_MAX_DELETE", "9000")];
    let file = "max-delete = 9000\n";
    for (config, variables, words, all_go) in [
        ("", &[][..], sync, false),
        (file, &[], sync, true),
        (file, &[("DELTIC_MAX_DELETE", "")], sync, true),
        (file, &[("DELTIC_CONFIG", "none")], sync, false),
        (file, &[], "sync --no-config -r --delete src/ dst", false),
        (file, &few, sync, false),
        ("", &many, "sync --no-config -r --delete src/ dst", true),
        (&profile(9000), &[], "sync @p", true),
        (&profile(9000), &few, "sync @p", false),
        (&profile(1), &many, "sync @p", true),
        (&profile(9000), &many, "sync @p --max-delete 1", false),
        (&profile(1), &few, "sync --max-delete=9000 @p", true),
        (&profile(1), &[], "sync -r --delete src/ dst", false),
        ("", &[("DELTIC_MAX_DELETE", "100%")], sync, true),
        ("max-delete = '50%'", &[], sync, false),
        ("max-delete = 1", &[], "sync -r --delete --force-delete src/ dst", true),
    ] {
        let world = guarded();
        world.write(CONFIG, config);
        let run = deltic(&world, variables, words);
        let went = (world.names("dst") == ["keep"], run.code);
        let wanted = if all_go { (true, Some(0)) } else { (false, Some(25)) };
        if variables == few && !all_go {
            let blamed = "  hint: `max-delete` is set in DELTIC_MAX_DELETE in the environment\n";
            assert!(run.stderr.ends_with(blamed), "{run:#?}");
        }
        assert_eq!(went, wanted, "{config:?} {variables:?} {words}\n{run:#?}");
    }
}

#[test]
fn what_a_command_or_a_run_has_no_use_for_is_left_alone() {
    let world = World::new();
    world.write("src/a", "a");
    world.write(
        CONFIG,
        "max-delete = 5\nforce-delete = true\ndelay = 0.5\nfsync = false\nverbose = 1",
    );
    for words in ["sync -r src/ dst", "verify src dst", "sync --version"] {
        let run = deltic(&world, &[], words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words}\n{run:#?}");
    }
}

#[test]
fn both_usual_places_and_a_named_file_are_read() {
    let world = guarded();
    world.write("other/deltic/config.toml", "force-delete = true");
    let xdg = world.path("other").display().to_string();
    let run = deltic(&world, &[("XDG_CONFIG_HOME", &xdg)], "sync -r --delete src/ dst");
    assert_eq!((run.code, world.names("dst").len()), (Some(0), 1), "{run:#?}");

    let world = guarded();
    world.write("mine.toml", "force-delete = true");
    let run = deltic(&world, &[("DELTIC_CONFIG", "mine.toml")], "sync -r --delete src/ dst");
    assert_eq!((run.code, world.names("dst").len()), (Some(0), 1), "{run:#?}");
    let run = deltic(&world, &[("DELTIC_CONFIG", "none.toml")], "sync -r src/ dst");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("read none.toml: no such file or directory"), "{run:#?}");
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    for (config, why) in [
        ("\nmax-delte = 3", "line 2: 'max-delte' is not an option"),
        ("\n\ndelete = true", "line 3: 'delete' cannot be set for all runs"),
        ("remote-option = '--super'", "line 1: 'remote-option' cannot be set for all runs"),
        ("compress = 'perhaps'", "line 1: 'compress' is true or false"),
        ("bwlimit = true", "line 1: 'bwlimit' takes a value"),
        ("bwlimit = ['1', '2']", "line 1: 'bwlimit' takes one value"),
        ("verbose = 10", "line 1: 'verbose' is a number up to 9"),
        ("version = 1", "line 1: 'version' is not an option"),
        ("a = [1]", "line 1: a list must contain strings"),
        ("# x\nbwlimit = ", "line 2: "),
        ("bwlimit = '1x'", "`bwlimit` is set in "),
        ("streams = 4\nstrategy = 'rsync'", "`strategy` is set in "),
        ("[settings]\nverbose = true", "line 1: tables are [profiles.NAME] only"),
    ] {
        let world = World::new();
        world.write(CONFIG, config);
        let run = deltic(&world, &[], "sync -r src/ dst");
        assert_eq!(run.code, Some(1), "{config}\n{run:#?}");
        assert!(run.stderr.contains(why) && run.stderr.contains(CONFIG), "{config}\n{run:#?}");
        assert!(!world.exists("dst"), "{config}");
    }
    let world = World::new();
    let run = deltic(&world, &[("DELTIC_BWLIMIT", "1x")], "sync -r src/ dst");
    assert!(
        run.stderr.contains("`bwlimit` is set in DELTIC_BWLIMIT in the environment"),
        "{run:#?}"
    );
    let run = deltic(&world, &[("DELTIC_DELETE", "1")], "sync -r src/ dst");
    assert!(
        run.stderr.contains("DELTIC_DELETE in the environment: 'delete' cannot be set"),
        "{run:#?}"
    );
    // Variables of others, and those with another use, are left alone.
    let others = [("DELTIC_HOME", "/x"), ("DELTIC_VERSION", "1")];
    assert_eq!(deltic(&world, &others, "sync -r src/ dst").code, Some(0));
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    for mode in [0o666, 0o664] {
        let world = World::new();
        world.write(CONFIG, "compress = true");
        world.chmod(CONFIG, mode);
        let run = deltic(&world, &[], "sync -r src/ dst");
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(run.stderr.contains("other users can write the file"), "{run:#?}");
        assert_eq!(run.stderr.matches("--no-config").count(), 1, "{run:#?}");
        assert!(run.stderr.ends_with('\n'), "{run:#?}");
        assert_eq!(deltic(&world, &[], "sync --no-config -r src/ dst").code, Some(0));
    }
}

/// A program that another user names would run as root.
#[test]
fn another_users_file_is_refused_whatever_it_is() {
    if !is_root() {
        return skip("another user's files need root");
    }
    for kind in [FileType::RegularFile, FileType::Fifo] {
        let world = World::new();
        world.mkdir(".config/deltic");
        let path = world.path(CONFIG);
        mknodat(CWD, &path, kind, Mode::from(0o644), 0).unwrap();
        chown(&path, Some(65534), None).unwrap();
        // Opened for both, a pipe needs nobody at its other end.
        let mut writer = File::options().read(true).write(true).open(&path).unwrap();
        writer.write_all(b"rsh = 'sh -c \"touch ran\"'\n").unwrap();
        for variables in [&[][..], &[("DELTIC_CONFIG", path.to_str().unwrap())]] {
            let run = deltic(&world, variables, "sync -r src/ h:dst");
            assert_eq!(run.code, Some(1), "{kind:?} {run:#?}");
            assert!(run.stderr.contains("another user owns the file"), "{kind:?} {run:#?}");
            assert!(!world.exists("ran"));
        }
    }
}

/// A script that calls rsync cannot mend it.
#[test]
fn a_file_that_cannot_be_read_ends_no_run_of_rsync() {
    let world = World::new();
    world.write("src/a", "a");
    world.write(CONFIG, "compress = true");
    world.chmod(CONFIG, 0o666);
    let run = as_rsync(&world, "-r src/ dst");
    assert_eq!((run.code, &*run.stdout), (Some(0), ""), "{run:#?}");
    assert!(run.stderr.starts_with("rsync: no settings: cannot read "), "{run:#?}");
    assert!(run.stderr.contains("other users can write the file"), "{run:#?}");
    assert!(world.exists("dst/a"));
    if is_root() {
        world.chmod(CONFIG, 0o600);
        chown(world.path(CONFIG), Some(65534), None).unwrap();
        let run = as_rsync(&world, "-r src/ dst");
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.stderr.contains("another user owns the file"), "{run:#?}");
    }
    // One that makes no sense does.
    chown(world.path(CONFIG), Some(rustix::process::geteuid().as_raw()), None).unwrap();
    world.chmod(CONFIG, 0o600);
    world.write(CONFIG, "no-such-setting = true");
    assert_eq!(as_rsync(&world, "-r src/ dst").code, Some(1));
}

#[test]
fn a_pipe_is_read_where_it_is_named_and_elsewhere_holds_nothing_up() {
    let world = World::new();
    world.mkdir(".config/deltic");
    let path = world.path(CONFIG);
    mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let run = deltic(&world, &[], "sync -r src/ dst");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("not a regular file"), "{run:#?}");
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, "no-such-setting = true")
    });
    let named = [("DELTIC_CONFIG", path.to_str().unwrap())];
    let run = deltic(&world, &named, "sync -r src/ dst");
    assert!(run.stderr.contains("no-such-setting"), "{run:#?}");
    writer.join().unwrap().unwrap();
}

#[test]
fn a_file_that_is_too_long_is_refused_and_not_cut() {
    let world = World::new();
    world.write(CONFIG, "#".repeat(1 << 20) + "\nno-such-setting = true");
    let run = deltic(&world, &[], "sync -r src/ dst");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("longer than 1 MiB"), "{run:#?}");
}

#[test]
fn a_profile_has_operands_and_options_and_the_command_line_adds_to_them() {
    let world = World::new();
    for name in ["a.txt", "a.tmp", "a.log", "keep.tmp"] {
        world.write(format!("src/{name}"), name);
    }
    world.write(
        CONFIG,
        "itemize-changes = true\n\
         [profiles.plain]\narchive = true\ntimes = false\n\
         [profiles.full]\nsource = ['src/']\ndestination = 'dst'\narchive = true\nexclude = ['*.tmp', '*.log']\n\
         delay = 0.2\n[profiles.dirs]\nsource = '~/src'\n",
    );
    let run = deltic(&world, &[], "sync @full --include=keep.tmp");
    assert_eq!(run.code, Some(0), "{run:#?}");
    let named = [">f+++++++++ a.txt", ">f+++++++++ keep.tmp", "cd+++++++++ ./"];
    assert_eq!(run.lines()[..3], named, "{run:#?}");
    // `verify` heeds what it knows of it: names that the rules leave out are not missed.
    let run = deltic(&world, &[], "verify @full");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.stdout.starts_with("equal: "), "{run:#?}");
    let run = deltic(&world, &[], "verify @dirs dst");
    assert_eq!(run.code, Some(26), "{run:#?}");

    let run = deltic(&world, &[], "sync @plain src/ two");
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_ne!(world.time("two/a.txt"), world.time("src/a.txt"));
    assert_eq!(deltic(&world, &[], "sync -r @dirs three").code, Some(0));
    assert!(world.exists("three/src/a.log"));

    for (words, why) in [
        ("sync @full other", "'@full' has a source and a destination"),
        ("sync @none", "'@none': no such profile (@dirs, @full, @plain); write './@none'"),
        ("verify @dirs", "`source` must be one path that ends in a slash"),
    ] {
        let run = deltic(&world, &[], words);
        assert_eq!(run.code, Some(1), "{words}\n{run:#?}");
        assert!(run.stderr.contains(why), "{words}\n{run:#?}");
    }
}

#[test]
fn who_calls_it_rsync_gets_the_guard_and_the_way_but_no_other_output() {
    let world = guarded();
    world.write("@p", "a file");
    world.write(
        CONFIG,
        "force-delete = true\nverbose = 2\nstats = true\n[profiles.p]\ndelete = true",
    );
    let run = as_rsync(&world, "-r --delete src/ dst");
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (Some(0), "", ""), "{run:#?}");
    assert_eq!(world.names("dst"), ["keep"]);
    assert_eq!(as_rsync(&world, "-r @p dst").code, Some(0));
    assert!(world.exists("dst/@p"));
}

#[test]
fn the_way_to_the_other_machine_can_be_set() {
    let world = World::new();
    world.write("src/a", "a");
    world.write(CONFIG, format!("rsh = '''{SHELL}'''\ndeltic-path = '{DELTIC}'"));
    assert_eq!(deltic(&world, &[], "sync -r src/ h:dst").code, Some(0));
    assert_eq!(deltic(&world, &[], "verify src h:dst").code, Some(0));
    for name in ["DELTIC_RSH", "RSYNC_RSH"] {
        let run = deltic(&world, &[(name, "no-such-shell")], "sync -r src/ h:dst");
        assert_eq!(run.code, Some(14), "{name} {run:#?}");
    }
}
