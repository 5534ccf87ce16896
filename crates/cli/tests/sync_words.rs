//! Words, lists, rules and names that mean harm: each run ends soon, says why, and touches nothing outside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::common::attrs::{SOMEBODY, node};
use crate::common::{DELTIC, Run, WAYS, Way, World, is_installed, is_root, rsync};
use rustix::fs::FileType;

fn world() -> World {
    let world = World::new();
    world.write("src/a/file", "x");
    world.write("src/top", "x");
    world.write("outside", "secret");
    world.mkdir("dst");
    world
}

/// True if nothing called `outside` arrived, and nothing beside the destination was made.
#[track_caller]
fn nothing_got_out(world: &World, before: &[String]) {
    assert_eq!(beside(world), before);
    let arrived = crate::common::look::look(&world.path("dst"));
    let leak = arrived.keys().find(|path| path.ends_with("outside") || path.ends_with("passwd"));
    assert_eq!(leak, None);
}

/// Names beside the trees, but for what is kept between runs.
fn beside(world: &World) -> Vec<String> {
    let mut names = world.names("");
    names.retain(|name| name != ".cache");
    names.sort();
    names
}

#[test]
fn rules_that_cannot_be_read_end_nothing_but_their_directory() {
    for way in WAYS {
        for kind in ["fifo", "socket", "loop", "deep", "huge", "many"] {
            let world = world();
            let file = "src/a/.rsync-filter";
            match kind {
                "fifo" => node(&world.path(file), FileType::Fifo, (0, 0)),
                "socket" => node(&world.path(file), FileType::Socket, (0, 0)),
                "loop" => world.write(file, ". .rsync-filter\n"),
                "deep" => {
                    for n in 0..20 {
                        world.write(format!("src/a/{n}"), format!(". {}\n", n + 1));
                    }
                    world.write(file, ". 0\n");
                }
                "huge" => world.write(file, "- x\n".repeat(300_000)),
                _ => world.write(file, "- x\n".repeat(5_000)),
            }
            world.write("dst/extra", "x");
            let run = world.sync(&["-aF", "--delete", &way.from("src/"), &way.to("dst/")]);
            assert_eq!(run.code, Some(23), "{kind} {way:?} {run:#?}");
            assert!(run.stderr.contains("a/"), "{kind} {way:?} {run:#?}");
            assert!(world.exists("dst/top") && world.exists("dst/extra"), "{kind} {way:?}");
            assert!(!world.exists("dst/a/file"), "{kind} {way:?}");
        }
    }
}

#[test]
fn lists_of_names_stay_below_their_directory() {
    for way in WAYS {
        for (list, code) in [
            (&b"../outside\0"[..], 23),
            (b"a/../../outside\0", 23),
            (b"a/..\0", 0),
            (b"/../outside\0", 23),
            (b"/etc/passwd\0", 23),
            (b"\0\0\0top\0\0", 0),
            (b".\0", 0),
            (b"a/./file\0", 0),
            (b"top\nname\0", 23),
        ] {
            let world = world();
            world.write("list", list);
            let before = beside(&world);
            let words = ["-a0", "--files-from=list", &way.from("src/"), &way.to("dst/")];
            let run = world.sync(&words);
            assert_eq!(run.code, Some(code), "{} {way:?} {run:#?}", list.escape_ascii());
            nothing_got_out(&world, &before);
        }
    }
}

#[test]
fn paths_that_are_kept_do_not_lead_up() {
    for way in WAYS {
        for source in ["src/./../outside", "src/./a/../../outside", "src/a/./.."] {
            let world = world();
            let before = beside(&world);
            let run = world.sync(&["-aR", &way.from(source), &way.to("dst/")]);
            let code = if way == Way::Pull { 3 } else { 1 };
            assert_eq!(run.code, Some(code), "{source} {way:?} {run:#?}");
            nothing_got_out(&world, &before);
        }
    }
}

#[test]
fn changes_of_modes_are_understood_or_refused_as_by_rsync() {
    for rules in [
        "", ",", "u+", "u", "999", "0", "7777", "77777", "u=rwz", "D", "F", "+", "=", "u=,g=",
        "a+rwx,", "u+x-", "u+x-w", "Du+x", "FDu+x", "u+xD", "g=u", "g=ug", "u+7", "-x", "o-s",
        "o+t", "D7", "+X=", " u+x", "u+x ", "\u{fc}+x",
    ] {
        let world = world();
        let word = format!("--chmod={rules}");
        let run = world.sync(&["-rpn", &word, "src/", "dst/"]);
        assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
        if is_installed("rsync") {
            let theirs = Run::of(&mut world.command("rsync", ["-rpn", &word, "src/", "dst/"]));
            assert_eq!(run.code, theirs.code, "{word} {run:#?} {theirs:#?}");
        }
    }
    let long = format!("--chmod={}u+x", "u+x,".repeat(10_000));
    assert_eq!(world().sync(&["-rp", &long, "src/", "dst/"]).code, Some(1));
}

#[test]
fn no_pattern_takes_for_ever() {
    let world = world();
    let name = "a".repeat(250);
    let deep = format!("src/{}", format!("{}/", "a".repeat(200)).repeat(15));
    world.write(format!("src/{name}"), "x");
    world.write(format!("{deep}/{name}"), "x");
    for stars in ["*a", "***a", "**/*a", "[a-z]*", "?*a*"] {
        let pattern = format!("--exclude={}b", stars.repeat(60));
        let run = world.sync(&["-a", "--delete", &pattern, "src/", "dst/"]);
        assert_eq!(run.code, Some(0), "{pattern} {run:#?}");
        assert!(world.exists(format!("dst/{name}")));
    }
    world.write("src/.rsync-filter", format!("- {}b\n", "**a*".repeat(60)).repeat(1000));
    assert_eq!(world.sync(&["-aF", "src/", "dst/"]).code, Some(0));
}

#[test]
fn a_name_is_one_line_wherever_it_is_told() {
    let name = OsStr::from_bytes(b"src/a\n2030 [1] >f+++++++++ forged\r\x1b[2J");
    for words in ["-ai", "-av", "-a --out-format=%n|%f", "-a --out-format=%n -8", "-avv --progress"]
    {
        for way in WAYS {
            let world = world();
            fs::write(world.path(name), "x").unwrap();
            let ends = [way.from("src/"), way.to("dst/")];
            let words = words.split(' ').chain(["--log-file=log", &ends[0], &ends[1]]);
            let run = world.sync(&words.collect::<Vec<_>>());
            assert_eq!(run.code, Some(0), "{run:#?}");
            let log = String::from_utf8(world.read("log")).unwrap();
            for text in [&run.stdout, &log] {
                assert!(!text.contains('\x1b'), "{text}");
                assert!(!text.lines().any(|line| line.starts_with("2030")), "{text}");
                let mut lines = text.lines().filter(|line| line.contains("forged"));
                assert!(lines.all(|line| line.contains("\\#012")), "{text}");
            }
        }
    }
}

#[test]
fn numbers_of_nobody_are_refused() {
    let world = world();
    // The highest number means "leave it" to the system.
    for words in [
        "--chown=4294967295",
        "--chown=:4294967295",
        "--usermap=*:4294967295",
        "--groupmap=*:4294967296",
        "--usermap=*:-1",
        "--usermap=4294967296:0",
        "--usermap=5-:0",
    ] {
        let run = world.sync(&["-a", words, "src/", "dst/"]);
        assert!(matches!(run.code, Some(1 | 3 | 23)), "{words} {run:#?}");
    }
}

#[test]
fn an_alternate_may_be_behind_a_link_as_with_rsync() {
    for way in WAYS {
        let world = world();
        world.write("alt/top", "x");
        for name in ["src/top", "alt/top"] {
            world.set_time(name, 1_000_000_000);
        }
        world.link("alt", "link");
        let ends = [way.from("src/"), way.to("dst/")];
        let words = ["-a", "--link-dest=../link", &ends[0], &ends[1]];
        let run = world.sync(&words);
        assert_eq!(run.code, Some(0), "{way:?} {run:#?}");
        assert_eq!(world.inode("dst/top"), world.inode("alt/top"), "{way:?}");
    }
    let world = world();
    world.write("alt/top", "x");
    world.link("alt", "link");
    for name in ["src/top", "alt/top"] {
        world.set_time(name, 1_000_000_000);
    }
    if rsync(&world, &["-a", "--link-dest=../link", "src/", "dst/"]).is_some() {
        assert_eq!(world.inode("dst/top"), world.inode("alt/top"));
    }
}

#[test]
fn what_only_root_reads_stays_unread_and_stops_nobody() {
    if !is_root() || !is_installed("setpriv") {
        return;
    }
    let world = world();
    for file in ["src/a/.rsync-filter", "rules"] {
        world.write(file, "- x\n");
        world.chmod(file, 0o000);
    }
    world.chmod("", 0o777);
    world.chmod("dst", 0o777);
    let id = SOMEBODY.to_string();
    let run = |words: &[&str]| {
        let lower = ["--reuid", &id, "--regid", &id, "--clear-groups", DELTIC, "sync"];
        Run::of(&mut world.command("setpriv", lower.iter().chain(words)))
    };
    let told = run(&["-rF", "src/", "dst/"]);
    assert_eq!(told.code, Some(23), "{told:#?}");
    assert!(world.exists("dst/top") && !world.exists("dst/a/file"));
    let told = run(&["-r", "--exclude-from=rules", "src/", "dst/"]);
    assert_eq!(told.code, Some(11), "{told:#?}");
}

#[test]
fn a_mode_that_does_not_differ_is_nobodys_to_set() {
    if !is_root() || !is_installed("setpriv") {
        return;
    }
    let world = World::new();
    world.write("src/file", "new and longer");
    world.write("dst/file", "old");
    for name in ["", "dst", "src", "dst/file", "src/file"] {
        world.chmod(name, 0o777);
    }
    world.set_time("src", 1_000_000_000);
    let id = SOMEBODY.to_string();
    let words = ["--reuid", &id, "--regid", &id, "--clear-groups", DELTIC, "sync"];
    let words = words.into_iter().chain(["-rlpt", "--inplace", "src/", "dst/"]);
    let run = Run::of(&mut world.command("setpriv", words));
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains(&world.told("set metadata of", "dst", "times: ")), "{run:#?}");
    assert!(run.stderr.contains(&world.told("set metadata of", "dst/file", "times: ")), "{run:#?}");
    assert!(!run.stderr.contains("mode"), "{run:#?}");
    assert_eq!(world.read("dst/file"), b"new and longer");
}
