//! `--fake-super`: what only the superuser may set is noted, in rsync's form, and read back by either program.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::common::{DELTIC, Run, WAYS, Way, World, is_installed, is_root, skip};
use deltic_tree::meta::{Acl, AclEntry, IdKind};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Uid, XattrFlags, chownat, lgetxattr, lsetxattr, makedev,
    mknodat,
};

/// An ordinary user.
const SOMEBODY: u32 = 65534;
const STAT: &str = "user.rsync.%stat";

fn noted(path: &Path, name: &str) -> Option<String> {
    let mut value = vec![0; 4096];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn note(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn own(path: &Path, user: u32, group: u32) {
    let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
    chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn node(path: &Path, kind: FileType, device: (u32, u32)) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), makedev(device.0, device.1)).unwrap();
}

/// A tree that only root could make.
fn tree() -> World {
    let world = World::new();
    world.write("src/plain", "of nobody in particular");
    world.write("src/setuid", "with a special bit");
    world.write("src/d/closed", "that its owner may not read");
    world.link("to somewhere", "src/link");
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    node(&world.path("src/socket"), FileType::Socket, (0, 0));
    node(&world.path("src/char"), FileType::CharacterDevice, (1, 3));
    node(&world.path("src/d/block"), FileType::BlockDevice, (7, 300));
    for (n, name) in NAMES.iter().enumerate() {
        own(&world.path(format!("src/{name}")), 1000 + n as u32, 2000 + n as u32);
    }
    world.chmod("src/setuid", 0o4711);
    world.chmod("src/d/closed", 0o044);
    world.chmod("src/d", 0o1750);
    let named = vec![AclEntry { who: IdKind::User, id: 5, perms: 6 }];
    let acl = Acl { owner: 6, group: 4, mask: Some(6), other: 0, named };
    note(&world.path("src/plain"), "system.posix_acl_access", &acl.to_bytes());
    note(&world.path("src/d"), "system.posix_acl_default", &Acl { owner: 7, ..acl }.to_bytes());
    note(&world.path("src/plain"), "user.own", b"1");
    note(&world.path("src/plain"), "trusted.foreign", b"2");
    own(&world.path("src"), 3000, 3000);
    for name in NAMES {
        world.set_time(format!("src/{name}"), 1_000_000_000);
    }
    world.set_time("src", 1_000_000_000);
    world
}

const NAMES: [&str; 9] =
    ["plain", "setuid", "d/closed", "link", "fifo", "socket", "char", "d/block", "d"];

/// As root only, with a user to be and attributes to note in.
fn can_try() -> bool {
    if !is_root() || !is_installed("setpriv") {
        skip("only root may give files away and be another user");
        return false;
    }
    let world = World::new();
    let file = world.path("src");
    if lsetxattr(&file, "trusted.x", b"1", XattrFlags::empty()).is_err() {
        skip("no trusted attributes can be set here");
        return false;
    }
    true
}

/// Runs a program as an ordinary user.
fn as_somebody(world: &World, program: &str, words: &[&str]) -> Run {
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let id = SOMEBODY.to_string();
    let lower = ["--reuid", &id, "--regid", &id, "--clear-groups", program];
    let run = Run::of(&mut world.command("setpriv", lower.iter().chain(words)));
    assert_eq!(run.code, Some(0), "{words:?}: {run:#?}");
    run
}

/// True if `dst` shows what `tree` made, as root sees it.
#[track_caller]
fn assert_restored(world: &World, dst: &str) {
    let meta = |name: &str| world.path(format!("{dst}/{name}")).symlink_metadata().unwrap();
    for (n, name) in NAMES.iter().enumerate() {
        let owner = (meta(name).uid(), meta(name).gid());
        assert_eq!(owner, (1000 + n as u32, 2000 + n as u32), "{name}");
    }
    assert_eq!(meta("setuid").mode() & 0o7777, 0o4711);
    assert_eq!(meta("d/closed").mode() & 0o7777, 0o044);
    assert_eq!(meta("d").mode() & 0o7777, 0o1750);
    assert!(meta("fifo").file_type().is_fifo() && meta("socket").file_type().is_socket());
    assert_eq!((meta("char").rdev(), meta("d/block").rdev()), (makedev(1, 3), makedev(7, 300)));
    assert_eq!(noted(&world.path(format!("{dst}/plain")), STAT), None);
    let attribute = |name| noted(&world.path(format!("{dst}/plain")), name);
    assert_eq!(attribute("user.own").as_deref(), Some("1"));
    assert_eq!(attribute("trusted.foreign").as_deref(), Some("2"));
    world.assert_same("src", dst);
    if let Some(run) = crate::common::rsync(world, &["-aAXni", "src/", &format!("{dst}/")]) {
        assert_eq!(run.stdout, "");
    }
}

/// Which program keeps the backup, and which one restores it.
const PAIRS: [(&str, &str); 4] =
    [("deltic", "deltic"), ("deltic", "rsync"), ("rsync", "deltic"), ("rsync", "rsync")];

/// `program` with the words of a sync.
fn words<'a>(program: &str, words: &[&'a str]) -> (String, Vec<&'a str>) {
    let (program, first) = match program {
        "rsync" => ("rsync".to_owned(), None),
        _ => (DELTIC.to_owned(), Some("sync")),
    };
    (program, first.into_iter().chain(words.iter().copied()).collect())
}

#[test]
fn a_backup_that_an_ordinary_user_keeps_restores_as_it_was() {
    if !can_try() {
        return;
    }
    for (keeper, restorer) in PAIRS {
        if [keeper, restorer].contains(&"rsync") && !is_installed("rsync") {
            skip("rsync is not installed: nothing to compare with");
            continue;
        }
        for user in [0, SOMEBODY] {
            let world = tree();
            world.mkdir("kept");
            own(&world.path("kept"), user, user);
            // Root reads, an ordinary user writes: the far end is another user's.
            let shell = format!(
                "sh -c 'shift; exec setpriv --reuid {user} --regid {user} --clear-groups \"$@\"' rsh"
            );
            fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).unwrap();
            let (program, mut all) = words(
                keeper,
                &["-aAX", "--numeric-ids", "-M--fake-super", "-e", &shell, "src/", "h:kept/"],
            );
            if keeper == "deltic" {
                all.extend(["--deltic-path", DELTIC]);
            }
            let run = Run::of(&mut world.command(&program, &all));
            assert_eq!(run.code, Some(0), "{keeper}: {run:#?}");
            let kept = |name: &str| world.path(format!("kept/{name}"));
            assert!(kept("char").symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read(kept("link")).unwrap(), b"to somewhere");
            assert_eq!(noted(&kept("char"), STAT).as_deref(), Some("20640 1,3 1006:2006"));
            assert_eq!(noted(&kept("setuid"), STAT).as_deref(), Some("104711 0,0 1001:2001"));
            assert_eq!(noted(&kept("link"), STAT).as_deref(), Some("120777 0,0 1003:2003"));
            assert_eq!(
                noted(&kept("plain"), "user.rsync.trusted.foreign").as_deref(),
                Some("2"),
                "{keeper}"
            );
            assert_eq!(kept("plain").symlink_metadata().unwrap().uid(), user);
            // Again: either program sees that nothing is left to do.
            for other in [keeper, restorer] {
                let (program, mut all) = words(
                    other,
                    &["-aAXi", "--numeric-ids", "-M--fake-super", "-e", &shell, "src/", "h:kept/"],
                );
                if other == "deltic" {
                    all.extend(["--deltic-path", DELTIC]);
                }
                let run = Run::of(&mut world.command(&program, &all));
                assert_eq!(
                    (run.code, &*run.stdout),
                    (Some(0), ""),
                    "{other} of {keeper}: {run:#?}"
                );
            }
            let (program, mut all) = words(
                restorer,
                &["-aAX", "--numeric-ids", "-M--fake-super", "-e", &shell, "h:kept/", "back/"],
            );
            if restorer == "deltic" {
                all.extend(["--deltic-path", DELTIC]);
            }
            let run = Run::of(&mut world.command(&program, &all));
            assert_eq!(run.code, Some(0), "{restorer} of {keeper}: {run:#?}");
            assert_restored(&world, "back");
        }
    }
}

#[test]
fn an_ordinary_user_carries_what_is_noted_from_tree_to_tree() {
    if !can_try() {
        return;
    }
    let world = tree();
    world.mkdir("one");
    world.mkdir("two");
    world.ok(&format!("-aAXq --numeric-ids -M--fake-super src/ {}", Way::Local.to("one/")));
    for dir in ["one", "two"] {
        give(&world.path(dir));
    }
    let (program, all) =
        words("deltic", &["-aAX", "--numeric-ids", "--fake-super", "one/", "two/"]);
    as_somebody(&world, &program, &all);
    assert_eq!(noted(&world.path("two/d/block"), STAT).as_deref(), Some("60640 7,300 1007:2007"));
    let (program, all) =
        words("deltic", &["-aAXi", "--numeric-ids", "--fake-super", "one/", "two/"]);
    assert_eq!(as_somebody(&world, &program, &all).stdout, "");
    world.ok("-aAXq --numeric-ids --fake-super -M--super two/ back/");
    assert_restored(&world, "back");
}

/// Gives all that is below `path` to the ordinary user.
fn give(path: &Path) {
    own(path, SOMEBODY, SOMEBODY);
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

#[test]
fn notes_follow_what_changes_and_other_programs_attributes_stay() {
    for way in WAYS {
        let world = World::new();
        world.write("src/a", "one");
        world.link("there", "src/l");
        node(&world.path("src/p"), FileType::Fifo, (0, 0));
        world.chmod("src/a", 0o4700);
        // On one machine the option is for both ends: the near one would read notes of its own.
        let near = if way == Way::Pull { "--fake-super" } else { "-M--fake-super" };
        let sync = |more: &str| {
            world.ok(&format!("-a {near} {more} {} {}", way.from("src/"), way.to("dst/")))
        };
        sync("");
        let stat = |name: &str| noted(&world.path(format!("dst/{name}")), STAT);
        assert!(stat("a").is_some_and(|note| note.starts_with("104700 ")), "{way:?}");
        assert!(stat("p").is_some_and(|note| note.starts_with("10640 ")), "{way:?}");
        assert_eq!(world.mode("dst/a"), 0o700);
        assert_eq!(sync("-i").stdout, "", "{way:?}");
        // A mode that anybody may set needs no note.
        world.chmod("src/a", 0o640);
        assert_eq!(sync("-i").stdout, ".f...p..... a\n", "{way:?}");
        assert_eq!((stat("a"), world.mode("dst/a")), (None, 0o640), "{way:?}");
        world.chmod("src/a", 0o400);
        sync("");
        assert_eq!(world.mode("dst/a"), 0o600, "{way:?}: its owner may go on with it");
        assert!(stat("a").is_some_and(|note| note.starts_with("100400 ")), "{way:?}");
        // Other targets, other kinds; a true link gives way to one that is noted.
        fs::remove_file(world.path("src/l")).unwrap();
        world.link("elsewhere", "src/l");
        sync("");
        assert_eq!(world.read("dst/l"), b"elsewhere", "{way:?}");
        fs::remove_file(world.path("dst/l")).unwrap();
        world.link("elsewhere", "dst/l");
        sync("");
        assert!(!world.path("dst/l").is_symlink(), "{way:?}");
        fs::remove_file(world.path("src/p")).unwrap();
        world.write("src/p", "a file by now");
        sync("");
        assert_eq!(world.read("dst/p"), b"a file by now", "{way:?}");
        // Without the word it is what it looks like, and of the notes nothing is carried over.
        world.ok(&format!("-aXq {} {}", Way::Local.from("dst/"), Way::Local.to("plain/")));
        assert_eq!(world.read("plain/l"), b"elsewhere", "{way:?}");
        assert_eq!(noted(&world.path("plain/l"), STAT), None, "{way:?}");
    }
}

#[test]
fn a_note_that_makes_no_sense_is_none() {
    let world = World::new();
    world.write("src/a", "one");
    world.write("src/l", "\0");
    note(&world.path("src/a"), STAT, b"nonsense");
    // A link whose target is none stays a file.
    note(&world.path("src/l"), STAT, b"120777 0,0 0:0");
    world.ok("-rlptq --fake-super -M--super src/ dst/");
    assert_eq!((world.read("dst/a"), world.read("dst/l")), (b"one".to_vec(), b"\0".to_vec()));
    let run = world.fails(1, "-aXX --fake-super src/ dst/");
    assert!(run.stderr.contains("-XX"), "{run:#?}");
}

/// As in rsync.
#[test]
fn the_last_word_of_these_counts() {
    if !is_root() {
        return skip("only root gives files away");
    }
    for (words, owner) in [
        ("--super --fake-super", 0),
        ("--no-super --fake-super", 0),
        ("--fake-super --super", 77),
        ("--fake-super --no-super", 0),
    ] {
        let world = World::new();
        world.write("src/a", "one");
        own(&world.path("src/a"), 77, 78);
        world.ok(&format!("-aq --numeric-ids {words} src/ dst/"));
        assert_eq!(world.path("dst/a").metadata().unwrap().uid(), owner, "{words}");
        let is_noted = words.ends_with("--fake-super");
        assert_eq!(noted(&world.path("dst/a"), STAT).is_some(), is_noted, "{words}");
    }
}

#[test]
fn a_file_takes_the_place_of_a_true_symlink() {
    for way in WAYS {
        let world = World::new();
        world.write("src/short", "new");
        world.write("src/long", vec![7; 300_000]);
        world.mkdir("dst");
        world.link("foo", "dst/short");
        world.link("foo", "dst/long");
        world.ok(&format!(
            "-a -M--fake-super --fake-super {} {}",
            way.from("src/"),
            way.to("dst/")
        ));
        assert_eq!(world.read("dst/short"), b"new");
        assert_eq!(world.read("dst/long"), world.read("src/long"));
    }
}

/// A tree that root made himself has the attributes that are noted elsewhere.
#[test]
fn roots_own_attributes_are_noted_unless_a_note_stands_for_them() {
    if !is_root() {
        return skip("only root sets capabilities");
    }
    let world = World::new();
    let capability = |bits: u8| [&[1, 0, 0, 2, 0, bits, 0, 0][..], &[0; 12]].concat();
    for (name, bits) in [("real", 0x20), ("both", 0x20)] {
        world.write(format!("src/{name}"), "x");
        note(&world.path(format!("src/{name}")), "security.capability", &capability(bits));
    }
    note(&world.path("src/both"), "user.rsync.security.capability", &capability(0x10));
    world.ok("-aX --fake-super src/ dst/");
    for (name, bits) in [("real", 0x20), ("both", 0x10)] {
        let told = String::from_utf8(capability(bits)).unwrap();
        let path = world.path(format!("dst/{name}"));
        assert_eq!(noted(&path, "user.rsync.security.capability"), Some(told), "{name}");
        assert_eq!(noted(&path, "security.capability"), None, "{name}");
    }
    assert_eq!(world.ok("-aXi --fake-super src/ dst/").stdout, "");
}

/// Its named user reads what rsync puts there.
#[test]
fn what_is_noted_gets_what_its_directory_hands_down_all_the_same() {
    let world = World::new();
    world.write("src/small", "x");
    world.write("src/large", vec![7; 300_000]);
    world.link("small", "src/link");
    world.mkdir("dst");
    let named = vec![AclEntry { who: IdKind::User, id: SOMEBODY, perms: 6 }];
    let acl = Acl { owner: 7, group: 5, mask: Some(7), other: 0, named };
    note(&world.path("dst"), "system.posix_acl_default", &acl.to_bytes());
    world.chmod("src/small", 0o664);
    world.chmod("src/large", 0o4640);
    world.ok("-a --fake-super src/ dst/");
    for (name, mode) in [("small", 0o664), ("large", 0o640), ("link", 0o777)] {
        let mut bytes = vec![0; 4096];
        let path = world.path(format!("dst/{name}"));
        let len = lgetxattr(&path, "system.posix_acl_access", &mut bytes[..]).expect(name);
        assert_eq!(Acl::parse(&bytes[..len]), Some(acl.clone().with_mode(mode)), "{name}");
    }
}

/// rsync notes 0 as well, but for a file that it replaced, of which the number may be any.
#[test]
fn an_owner_that_is_not_carried_is_noted_as_the_superuser() {
    if !can_try() {
        return;
    }
    let world = World::new();
    world.write("src/plain", "new, as all could make it");
    world.write("src/d/replaced", "another version");
    world.write("src/d/again", "the same but for its mode");
    world.link("somewhere", "src/link");
    for name in ["plain", "d/replaced", "d/again"] {
        world.chmod(&format!("src/{name}"), 0o644);
        world.set_time(format!("src/{name}"), 1_000_000_000);
    }
    world.chmod("src/d/again", 0o600);
    world.chmod("src/d", 0o755);
    world.write("dst/d/replaced", "one version");
    world.write("dst/d/again", "the same but for its mode");
    world.chmod("dst/d/again", 0o644);
    world.set_time("dst/d/again", 1_000_000_000);
    note(&world.path("dst/d/replaced"), STAT, b"100644 0,0 1001:2001");
    note(&world.path("dst/d/again"), STAT, b"100644 0,0 1001:2001");
    give(&world.path("src"));
    give(&world.path("dst"));
    let (command, all) = words("deltic", &["-rlpt", "--fake-super", "src/", "dst/"]);
    as_somebody(&world, &command, &all);
    let stat = |name: &str| noted(&world.path(format!("dst/{name}")), STAT);
    for (name, is) in [
        ("plain", "100644 0,0 0:0"),
        ("d", "40755 0,0 0:0"),
        ("d/replaced", "100644 0,0 0:0"),
        ("link", "120777 0,0 0:0"),
    ] {
        assert_eq!(stat(name).as_deref(), Some(is), "{name}");
    }
    // What only gets another mode keeps its owner.
    assert_eq!(stat("d/again").as_deref(), Some("100600 0,0 1001:2001"));
    let (command, all) = words("deltic", &["-rlt", "-pgi", "--fake-super", "src/", "dst/"]);
    let run = as_somebody(&world, &command, &all);
    assert!(run.stdout.contains(".f.....g... plain"), "{run:#?}");
    let group = format!("100644 0,0 0:{SOMEBODY}");
    assert_eq!(stat("plain"), Some(group), "one of the two is carried");
}
