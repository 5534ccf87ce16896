//! Attributes that cannot be set keep nothing else away: the content arrives, all others are set, each that is not is
//! told.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::attrs::{ACCESS, SOMEBODY, acl, node, note, own};
use crate::common::{
    DELTIC, Mounted, Run, SHELL, WAYS, World, edited, is_installed, is_root, noise, skip,
};
use rustix::fs::FileType;

/// `deltic sync` without the right to give files away; loudly nothing where that cannot be taken.
fn sync_without_chown(world: &World, words: &str) -> Option<Run> {
    let lower = ["--bounding-set", "-chown", "--inh-caps", "-chown", DELTIC];
    let tried = is_root()
        && is_installed("setpriv")
        && Run::of(world.command("setpriv", lower).arg("--version")).code == Some(0);
    if !tried {
        skip("only root can be kept from giving files away");
        return None;
    }
    let sync = lower.into_iter().chain(["sync", "-e", SHELL, "--deltic-path", DELTIC]);
    Some(Run::of(world.command("setpriv", sync).args(words.split_whitespace())))
}

/// Everything of somebody else, and some of it with an old version at `dst`.
fn somebodys(world: &World) {
    let large = noise(3 << 20, 1);
    for (name, bytes) in [("small", &b"new"[..]), ("large", &large), ("dir/fresh", b"new")] {
        world.write(format!("src/{name}"), bytes);
    }
    world.write("src/lent", "a program");
    world.link("small", "src/link");
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    world.write("dst/small", "old content");
    world.write("dst/large", edited(&large, 1 << 20));
    world.write("dst/extra", "x");
    for name in ["small", "large", "dir/fresh", "lent", "link", "fifo", "dir"] {
        own(&world.path(format!("src/{name}")), SOMEBODY, SOMEBODY);
        world.set_time(format!("src/{name}"), 1_000_000_000);
    }
    world.chmod("src/lent", 0o6755);
    world.chmod("src/small", 0o640);
}

#[test]
fn what_cannot_be_given_away_arrives_with_all_else_and_lends_itself_to_nobody() {
    for way in WAYS {
        for more in ["", "--inplace --no-whole-file", "--no-whole-file", "--delay-updates"] {
            let world = World::new();
            somebodys(&world);
            let words = format!("-a --delete {more} {} {}", way.from("src/"), way.to("dst/"));
            let Some(run) = sync_without_chown(&world, &words) else { return };
            let at = format!("{way:?} {more} {run:#?}");
            assert_eq!(run.code, Some(23), "{at}");
            for name in ["small", "large", "lent", "link", "fifo", "dir", "dir/fresh"] {
                let why = "group: operation not permitted, owner:";
                let told = world.told("set metadata of", &format!("dst/{name}"), why);
                assert!(run.stderr.contains(&told), "{name} {at}");
                let (is, was) = (world.path(format!("dst/{name}")), format!("dst/{name}"));
                assert_eq!(is.symlink_metadata().unwrap().uid(), 0, "{name} {at}");
                assert_eq!(world.time(&was), (1_000_000_000, 123_456_789), "{name} {at}");
            }
            for name in ["small", "large", "lent", "dir/fresh"] {
                let same = world.read(format!("dst/{name}")) == world.read(format!("src/{name}"));
                assert!(same, "{name} {at}");
            }
            assert_eq!((world.mode("dst/lent"), world.mode("dst/small")), (0o755, 0o640), "{at}");
            assert!(!world.exists("dst/extra"), "what is not in the list goes: {at}");
            world.assert_clean("dst");
        }
    }
}

#[test]
fn a_source_stays_whose_attributes_are_nowhere_else() {
    let world = World::new();
    for name in ["theirs", "ours"] {
        world.write(format!("src/{name}"), "x");
    }
    if is_root() {
        own(&world.path("src/theirs"), SOMEBODY, SOMEBODY);
    }
    let words = "-a --remove-source-files src/ dst/";
    let Some(run) = sync_without_chown(&world, words) else { return };
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(world.exists("dst/theirs") && world.exists("dst/ours"), "{run:#?}");
    assert!(world.exists("src/theirs") && !world.exists("src/ours"), "{run:#?}");
}

#[test]
fn what_comes_from_a_tree_beside_arrives_as_well() {
    for usage in ["--copy-dest", "--link-dest"] {
        let world = World::new();
        for name in ["src/file", "alt/file"] {
            world.write(name, "content");
            world.set_time(name, 1_000_000_000);
        }
        if is_root() {
            own(&world.path("src/file"), SOMEBODY, SOMEBODY);
        }
        let words = format!("-a {usage}=../alt src/ dst/");
        let Some(run) = sync_without_chown(&world, &words) else { return };
        assert_eq!(run.code, Some(23), "{run:#?}");
        assert!(
            run.stderr.contains(&world.told("set metadata of", "dst/file", "group: operation not")),
            "{run:#?}"
        );
        assert_eq!(world.read("dst/file"), b"content");
        assert_eq!(world.time("dst/file"), (1_000_000_000, 123_456_789));
    }
}

/// A file system at `dst` that has neither extended attributes nor ACLs.
fn plain(world: &World) -> Option<Mounted<'_>> {
    let without = "a file system without extended attributes cannot be mounted here";
    Mounted::by((world, "dst"), ("mount", &["-t", "ramfs", "ramfs", "dst"]), without)
}

#[test]
fn where_there_are_no_extended_attributes_and_no_acls_the_rest_arrives_and_is_no_more_open() {
    for way in WAYS {
        let world = World::new();
        let Some(_plain) = plain(&world) else { return };
        world.write("src/marked", "new");
        world.write("src/shared", "new");
        world.write("dst/marked", "old content");
        world.set_time("src/marked", 1_000_000_000);
        note(&world.path("src/marked"), "user.color", b"blue");
        // The mode says 0660 for it, where a file without an ACL would let the group write.
        note(&world.path("src/shared"), ACCESS, &acl(SOMEBODY, SOMEBODY).to_bytes());
        assert_eq!(world.mode("src/shared"), 0o660);
        for more in ["", "--inplace"] {
            let run =
                world.fails(23, &format!("-aAX {more} {} {}", way.from("src/"), way.to("dst/")));
            for (name, why) in [("marked", "xattr user.color"), ("shared", "ACL")] {
                let why = format!("{why}: operation not supported");
                let told = world.told("set metadata of", &format!("dst/{name}"), &why);
                assert!(run.stderr.contains(&told), "{way:?} {run:#?}");
            }
            for name in ["dst/marked", "dst/shared"] {
                assert_eq!(world.read(name), b"new", "{way:?} {run:#?}");
            }
            assert_eq!(world.time("dst/marked"), (1_000_000_000, 123_456_789), "{way:?}");
            assert_eq!(world.mode("dst/shared"), 0o640, "{way:?}");
            world.write("src/marked", "new");
            world.write("dst/marked", "old content");
            world.set_time("src/marked", 1_000_000_000);
        }
    }
}

#[test]
fn where_nothing_can_be_noted_files_arrive_and_what_only_a_note_would_make_does_not() {
    let world = World::new();
    let Some(_plain) = plain(&world) else { return };
    world.write("src/file", "content");
    own(&world.path("src/file"), SOMEBODY, SOMEBODY);
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    let run = world.fails(23, "-a -M--fake-super --fake-super src/ dst/");
    assert!(
        run.stderr.contains(&world.told("set metadata of", "dst/file", "note of its kind")),
        "{run:#?}"
    );
    assert!(
        run.stderr.contains(&world.told(
            "make special file",
            "dst/fifo",
            "operation not supported"
        )),
        "{run:#?}"
    );
    assert_eq!(world.read("dst/file"), b"content");
    assert!(!world.exists("dst/fifo"));
}

/// True if it can be run as somebody else.
fn can_be_somebody() -> bool {
    let can = is_root() && is_installed("setpriv");
    if !can {
        skip("only root can run it as somebody else");
    }
    can
}

/// Runs it as an ordinary user.
fn somebody(world: &World, words: &[&str]) -> Run {
    let id = SOMEBODY.to_string();
    let lower = ["--reuid", &id, "--regid", &id, "--clear-groups", DELTIC];
    Run::of(&mut world.command("setpriv", lower.iter().chain(words)))
}

#[test]
fn who_may_not_choose_the_group_gets_the_content() {
    if !can_be_somebody() {
        return;
    }
    let world = World::new();
    world.write("src/file", "content");
    world.mkdir("dst");
    own(&world.path("src/file"), 0, 0);
    world.chmod("", 0o755);
    world.chmod("dst", 0o777);
    let run = somebody(&world, &["sync", "-rt", "-og", "--super", "src/", "dst/"]);
    assert_eq!(run.code, Some(23), "{run:#?}");
    let why = "group: operation not permitted, owner: operation not permitted";
    let told = world.told("set metadata of", "dst/file", why);
    assert!(run.stderr.contains(&told), "{run:#?}");
    assert_eq!(world.read("dst/file"), b"content");
}

#[test]
fn a_file_that_ends_before_its_size_does_is_never_padded() {
    let made_up = "/sys/kernel/mm/transparent_hugepage/enabled";
    let content = fs::read(made_up).unwrap_or_default();
    let size = fs::metadata(made_up).map_or(0, |meta| meta.len());
    if content.is_empty() || size <= content.len() as u64 {
        return skip("no file here is shorter than its size");
    }
    for way in WAYS {
        for more in ["", "--no-whole-file --inplace", "-S", "-c"] {
            let world = World::new();
            world.write("dst/enabled", "old content");
            let run =
                world.fails(23, &format!("-rt {more} {} {}", way.from(made_up), way.to("dst/")));
            let told = format!("the file ends before its size of {size} bytes");
            assert!(run.stderr.contains(&told), "{way:?} {more} {run:#?}");
            assert_eq!(world.read("dst/enabled"), b"old content", "{way:?} {more}");
            world.fails(23, &format!("-rt {more} {} {}", way.from(made_up), way.to("new/")));
            assert!(!world.exists("new/enabled"), "{way:?} {more}");
        }
    }
}

#[test]
fn a_file_whose_size_is_zero_is_empty_whatever_it_would_say() {
    if fs::read("/proc/version").unwrap_or_default().is_empty() {
        return skip("there is no /proc");
    }
    let world = World::new();
    let run = world.sync(&["-rt", "/proc/version", "dst/"]);
    assert_eq!((run.code, world.read("dst/version")), (Some(0), Vec::new()), "{run:#?}");
}

#[test]
fn a_directory_that_is_closed_at_either_end_closes_no_other() {
    if !can_be_somebody() {
        return;
    }
    let world = World::new();
    world.chmod("", 0o777);
    for dir in ["src/sub", "dst/sub/extra"] {
        world.mkdir(dir);
    }
    let theirs = ["src", "src/sub", "dst", "dst/sub", "dst/sub/extra"];
    theirs.into_iter().for_each(|dir| own(&world.path(dir), SOMEBODY, SOMEBODY));
    // Nothing comes of a source that nobody may read, nor does its mode.
    world.chmod("src", 0);
    let run = somebody(&world, &["sync", "-a", "src/", "dst/"]);
    assert_eq!((run.code, world.mode("dst")), (Some(23), 0o755), "{run:#?}");
    // What may be listed and not looked at is opened first, as what may not be listed is.
    world.chmod("src", 0o755);
    for mode in [0o600, 0o200, 0] {
        world.mkdir("dst/sub/extra");
        world.chmod("dst/sub", mode);
        let run = somebody(&world, &["sync", "-a", "--delete", "src/", "dst/"]);
        assert_eq!((run.code, world.mode("dst/sub")), (Some(0), 0o755), "{run:#?}");
        assert!(!world.exists("dst/sub/extra"), "{mode:o}");
        own(&world.path("dst/sub"), SOMEBODY, SOMEBODY);
    }
}

#[test]
fn what_an_ordinary_user_keeps_in_closed_directories_goes_too() {
    if !can_be_somebody() {
        return;
    }
    let world = World::new();
    world.chmod("", 0o777);
    world.write("src/file", "x");
    world.write("dst/closed/below/extra", "x");
    for dir in ["src", "dst", "dst/closed", "dst/closed/below", "src/file"] {
        own(&world.path(dir), SOMEBODY, SOMEBODY);
    }
    ["dst/closed/below", "dst/closed"].into_iter().for_each(|dir| world.chmod(dir, 0o500));
    let run = somebody(&world, &["sync", "-a", "--delete", "src/", "dst/"]);
    assert_eq!((run.code, world.exists("dst/closed")), (Some(0), false), "{run:#?}");
}
