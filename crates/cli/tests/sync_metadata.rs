//! Owners, devices, attributes, ACLs and modes, option by option. Random trees are `differential`'s.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use crate::common::attrs::{
    ACCESS, DEFAULT, SOMEBODY, acl, node, note, noted, notes, own, set_times,
};
use crate::common::{DELTIC, Run, WAYS, World, is_installed, is_root, rsync, skip};
use deltic_net::umask;
use deltic_tree::meta::Acl;
use rustix::fs::{FileType, makedev};

/// True if this test can go on: as root only, who owns and makes what he likes.
fn as_root() -> bool {
    if !is_root() {
        skip("only root may give files away and make devices");
    }
    is_root()
}

/// Runs `program` as an ordinary user, who must be able to reach the world.
fn as_somebody(world: &World, program: &str, words: &[&str]) -> Run {
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let id = SOMEBODY.to_string();
    let lower = ["--reuid", &id, "--regid", &id, "--clear-groups", program];
    Run::of(&mut world.command("setpriv", lower.iter().chain(words)))
}

/// A file with attributes at both ends; its directory too.
fn attributed() -> World {
    let world = World::new();
    for (dir, names) in
        [("src", ["user.a", "user.b", "user.c"]), ("dst", ["user.a", "user.d", "user.e"])]
    {
        world.write(format!("{dir}/file"), "x");
        for place in [format!("{dir}/file"), dir.to_owned()] {
            names.iter().for_each(|name| note(&world.path(&place), name, dir.as_bytes()));
            world.set_time(&place, 1_000_000_000);
        }
    }
    world
}

/// Names and values.
fn attributes(world: &World, name: &str) -> Vec<(String, Vec<u8>)> {
    let path = world.path(name);
    let names = notes(&path).into_iter().filter(|name| name.starts_with("user."));
    names.map(|name| (name.clone(), noted(&path, &name).unwrap())).collect()
}

#[test]
fn rules_about_attributes_decide_which_are_carried_and_removed_as_in_rsync() {
    for rules in [
        &["-x user.a"][..],
        &["-x! user.a"],
        &["+x user.b", "-x *"],
        &["-xs user.a"],
        &["-xr *"],
        &["Hx user.*"],
        &["Px user.d"],
        &["-x **a"],
        &["-x a"],
        &["-x /user.b"],
        &["- user.a"],
    ] {
        let mut words = vec!["-aXi"];
        rules.iter().for_each(|rule| words.extend(["-f", *rule]));
        let judge = attributed();
        let Some(theirs) = rsync(&judge, &[&words[..], &["src/", "dst/"]].concat()) else { return };
        for way in WAYS {
            let world = attributed();
            let (from, to) = (way.from("src/"), way.to("dst/"));
            let run = world.sync(&[&words[..], &[&*from, &*to]].concat());
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {rules:?}");
            let lines = |run: &Run| run.stdout.replace('<', ">");
            assert_eq!(lines(&run), lines(&theirs), "{way:?} {rules:?}");
            for name in ["dst", "dst/file"] {
                assert_eq!(attributes(&world, name), attributes(&judge, name), "{way:?} {rules:?}");
            }
        }
    }
}

#[test]
fn rules_about_attributes_in_a_directory_count_where_it_is_sent() {
    for way in WAYS {
        let world = attributed();
        world.write("src/.rsync-filter", "-x user.a\n");
        world.ok(&format!("-aX -F {} {}", way.from("src/"), way.to("dst/")));
        let names =
            |name| attributes(&world, name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("dst/file"), ["user.b", "user.c"], "{way:?}");
    }
}

/// In rsync they do not: it applies no rule of the sender to such a directory.
#[test]
fn rules_about_attributes_count_for_directories_on_the_way_to_a_source() {
    let made = || {
        let world = World::new();
        world.write("src/d/e/file", "x");
        for place in ["src/d", "src/d/e", "src/d/e/file"] {
            ["user.a", "user.b"].iter().for_each(|name| note(&world.path(place), name, b"src"));
        }
        world.mkdir("dst");
        world
    };
    let words = ["-aXR", "-f", "-xs user.a"];
    for way in WAYS {
        let world = made();
        let (from, to) = (way.from("src/./d/e/file"), way.to("dst/"));
        let run = world.sync(&[&words[..], &[&*from, &*to]].concat());
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?}");
        for name in ["dst/d", "dst/d/e", "dst/d/e/file"] {
            let is = attributes(&world, name);
            assert_eq!(is, [("user.b".to_owned(), b"src".to_vec())], "{way:?} {name}");
        }
    }
}

/// Where there is a file system that holds so much of a file.
#[test]
fn attributes_that_are_left_out_do_not_count_as_too_many() {
    let world = World::new();
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return skip("there is no /dev/shm") };
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir_all(src.join("d")).unwrap();
    fs::write(src.join("d/file"), "x").unwrap();
    for place in [src.clone(), src.join("d"), src.join("d/file")] {
        for no in 0..10 {
            let flags = rustix::fs::XattrFlags::empty();
            let name = format!("user.much.{no}");
            if rustix::fs::lsetxattr(&place, name, &[7; 60_000], flags).is_err() {
                return skip("/dev/shm does not take so many attributes");
            }
        }
        note(&place, "user.a", b"src");
    }
    let (src, dst) = (format!("{}/", src.display()), format!("{}/", dst.display()));
    for words in [&["-aX"][..], &["-aXL"]] {
        for rule in ["-xs user.much.*", "-x user.much.*"] {
            let run = world.sync(&[words, &["-f", rule, &src, &dst]].concat());
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{words:?} {rule}");
            for name in ["", "d", "d/file"] {
                let place = dir.path().join("dst").join(name);
                assert_eq!(notes(&place), ["user.a"], "{words:?} {rule} {name}");
            }
            fs::remove_dir_all(&dst).unwrap();
        }
    }
}

#[test]
fn an_alternate_is_compared_without_the_attributes_that_are_left_out() {
    for way in WAYS {
        let world = World::new();
        world.write("src/file", "x");
        world.ok("-a src/ there/");
        note(&world.path("there/file"), "user.a", b"there");
        let words = format!("-aX --link-dest=../there {} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("{words} -f -xr_user.a"));
        assert_eq!(world.inode("dst/file"), world.inode("there/file"), "{way:?}");
    }
}

#[test]
fn an_archive_carries_owners_and_special_files() {
    if !as_root() {
        return;
    }
    for way in WAYS {
        let world = World::new();
        world.write("src/file", "x");
        world.link("file", "src/link");
        node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
        node(&world.path("src/socket"), FileType::Socket, (0, 0));
        node(&world.path("src/char"), FileType::CharacterDevice, (1, 3));
        node(&world.path("src/block"), FileType::BlockDevice, (7, 300));
        for (n, name) in ["file", "link", "fifo", "socket", "char", "block"].iter().enumerate() {
            own(&world.path(format!("src/{name}")), 1000 + n as u32, 2000 + n as u32);
        }
        let words = ["-aAX", &way.from("src/"), &way.to("dst/")].join(" ");
        let told = world.ok(&format!("-i {words}")).stdout;
        for (code, name) in [
            ("cD", "block"),
            ("cD", "char"),
            ("cL", "link -> file"),
            ("cS", "fifo"),
            ("cS", "socket"),
        ] {
            let line = format!("{code}+++++++++ {name}");
            assert!(told.lines().any(|told| told == line), "{line}: {told}");
        }
        let stat = |name: &str| world.path(format!("dst/{name}")).symlink_metadata().unwrap();
        for (n, name) in ["file", "link", "fifo", "socket", "char", "block"].iter().enumerate() {
            let (user, group) = (stat(name).uid(), stat(name).gid());
            assert_eq!((user, group), (1000 + n as u32, 2000 + n as u32), "{way:?} {name}");
        }
        assert!(stat("fifo").file_type().is_fifo() && stat("socket").file_type().is_socket());
        assert_eq!(stat("char").rdev(), makedev(1, 3));
        assert_eq!(stat("block").rdev(), makedev(7, 300));
        assert_eq!(stat("block").mode() & 0o7777, 0o640);
        world.assert_same("src", "dst");
        world.assert_clean("dst");
        assert_eq!(world.ok(&format!("-i {words}")).stdout, "", "nothing is left to do");
    }
}

#[test]
fn what_is_left_out_by_its_kind_keeps_what_stands_in_its_place() {
    for way in WAYS {
        let world = World::new();
        world.write("src/always", "x");
        node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
        let mut names = vec!["always", "fifo"];
        if is_root() {
            node(&world.path("src/device"), FileType::CharacterDevice, (1, 3));
            names.insert(1, "device");
        }
        for name in &names[1..] {
            world.write(format!("dst/{name}"), "stays");
        }
        world.write("dst/extra", "goes");
        let words = format!("--delete {} {}", way.from("src/"), way.to("dst/"));
        world.ok(&format!("-rlptq {words}"));
        let mut left = world.names("dst");
        left.sort();
        assert_eq!(left, names, "{way:?}");
        assert_eq!(world.read("dst/fifo"), b"stays", "{way:?}");
        world.ok(&format!("-rlptD --backup --suffix=.old {words}"));
        assert!(world.path("dst/fifo").symlink_metadata().unwrap().file_type().is_fifo());
        assert_eq!(world.read("dst/fifo.old"), b"stays", "{way:?}");
        world.assert_clean("dst");
    }
}

#[test]
fn what_an_alternate_has_is_linked_only_where_owner_and_attributes_agree() {
    if !as_root() {
        return;
    }
    for way in WAYS {
        let world = World::new();
        for name in ["same", "owned", "noted"] {
            for tree in ["src", "alt"] {
                world.write(format!("{tree}/{name}"), name);
                world.set_time(format!("{tree}/{name}"), 1_000_000_000);
            }
        }
        for tree in ["src", "alt"] {
            node(&world.path(format!("{tree}/fifo")), FileType::Fifo, (0, 0));
            set_times(&world.path(format!("{tree}/fifo")), (1, 1_000_000_000));
            note(&world.path(format!("{tree}/noted")), "user.note", tree.as_bytes());
        }
        own(&world.path("src/owned"), 1000, 2000);
        let [from, to] = [way.from("src/"), way.to("dst/")];
        world.ok(&format!("-aX --link-dest=../alt {from} {to}"));
        for (name, linked) in [("same", true), ("fifo", true), ("owned", false), ("noted", false)] {
            let is_link =
                world.inode(&format!("dst/{name}")) == world.inode(&format!("alt/{name}"));
            assert_eq!(is_link, linked, "{way:?} {name}");
        }
        let stat = world.path("dst/owned").symlink_metadata().unwrap();
        assert_eq!((stat.uid(), stat.gid()), (1000, 2000), "{way:?}");
        assert_eq!(noted(&world.path("dst/noted"), "user.note").unwrap(), b"src", "{way:?}");
        assert_eq!(noted(&world.path("alt/noted"), "user.note").unwrap(), b"alt", "{way:?}");
    }
}

#[test]
fn what_is_behind_a_link_brings_its_own_attributes() {
    for way in WAYS {
        let world = World::new();
        world.write("behind", "x");
        note(&world.path("behind"), "user.note", b"behind");
        world.mkdir("src");
        world.link("../behind", "src/link");
        world.ok(&format!("-rptLX --open-noatime {} {}", way.from("src/"), way.to("dst/")));
        assert!(world.path("dst/link").symlink_metadata().unwrap().is_file());
        assert_eq!(noted(&world.path("dst/link"), "user.note").unwrap(), b"behind", "{way:?}");
    }
}

#[test]
fn what_only_differs_in_metadata_is_only_touched() {
    if !as_root() {
        return;
    }
    let world = World::new();
    world.write("src/file", "content");
    world.mkdir("src/dir");
    note(&world.path("src/file"), "user.note", b"\0any\xff");
    note(&world.path("src/file"), ACCESS, &acl(7, 8).to_bytes());
    note(&world.path("src/dir"), DEFAULT, &acl(7, 8).to_bytes());
    world.ok("-aAX src/ dst/");
    let inode = world.inode("dst/file");
    own(&world.path("dst/file"), 5, 6);
    note(&world.path("dst/file"), "user.note", b"other");
    note(&world.path("dst/file"), "user.extra", b"goes");
    note(&world.path("dst/file"), ACCESS, &acl(9, 8).to_bytes());
    note(&world.path("dst/dir"), DEFAULT, &acl(9, 8).to_bytes());
    let run = world.ok("-aAXi src/ dst/");
    assert_eq!(run.lines(), [".d.......a. dir/", ".f....og.ax file"]);
    assert_eq!(world.inode("dst/file"), inode);
    assert_eq!(noted(&world.path("dst/file"), "user.note").unwrap(), b"\0any\xff");
    assert_eq!(noted(&world.path("dst/file"), "user.extra"), None);
    assert_eq!(noted(&world.path("dst/file"), ACCESS).unwrap(), acl(7, 8).to_bytes());
    assert_eq!(noted(&world.path("dst/dir"), DEFAULT).unwrap(), acl(7, 8).to_bytes());
    own(&world.path("dst/file"), 5, 6);
    let run = world.ok("-rlptiA --json src/ dst/");
    assert!(!run.stdout.contains("\"owner\""), "{run:#?}");
    let run = world.ok("-aA --json src/ dst/");
    assert!(run.stdout.contains(r#""differs":["owner","group"]"#), "{run:#?}");
}

#[test]
fn each_part_of_an_archive_can_be_taken_out() {
    if !as_root() {
        return;
    }
    let world = World::new();
    world.write("src/file", "x");
    own(&world.path("src/file"), 5, 6);
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    node(&world.path("src/char"), FileType::CharacterDevice, (1, 3));
    let owner = |dst: &str| {
        let meta = world.path(format!("{dst}/file")).metadata().unwrap();
        (meta.uid(), meta.gid())
    };
    for (n, (words, expected)) in
        [("--no-o", (0, 6)), ("--no-group", (5, 0)), ("--no-owner --no-g", (0, 0)), ("", (5, 6))]
            .into_iter()
            .enumerate()
    {
        world.ok(&format!("-a --no-D {words} src/ dst{n}/").replace("--no-D", "-D"));
        assert_eq!(owner(&format!("dst{n}")), expected, "{words}");
    }
    for (words, there) in [
        ("--no-D", [false, false]),
        ("--no-devices", [true, false]),
        ("--no-specials", [false, true]),
        ("-D --no-devices", [true, false]),
        ("--no-specials -D", [false, true]),
        ("", [true, true]),
    ] {
        let run = world.sync(
            &format!("-a {words} --delete src/ specials/").split_whitespace().collect::<Vec<_>>(),
        );
        assert_eq!(run.code, Some(0), "{run:#?}");
        let found = ["fifo", "char"].map(|name| world.exists(format!("specials/{name}")));
        assert_eq!(found, there, "{words}");
        assert_eq!(
            run.stdout.matches("skipping non-regular file").count(),
            2 - there.iter().filter(|t| **t).count()
        );
        fs::remove_dir_all(world.path("specials")).unwrap();
    }
}

#[test]
fn numbers_become_those_that_the_maps_say() {
    if !as_root() {
        return;
    }
    let world = World::new();
    for (name, user, group) in [("a", 4_000_000, 5), ("b", 0, 0), ("c", 70, 4_000_001)] {
        world.write(format!("src/{name}"), "x");
        own(&world.path(format!("src/{name}")), user, group);
    }
    for (words, expected) in [
        ("--numeric-ids", [(4_000_000, 5), (0, 0), (70, 4_000_001)]),
        ("--usermap=0-99:44,*:55", [(55, 5), (44, 0), (44, 4_000_001)]),
        ("--usermap=:9 --groupmap=4000001:root", [(9, 5), (0, 0), (9, 0)]),
        ("--chown=root:7", [(0, 7), (0, 7), (0, 7)]),
        ("--chown=:8", [(4_000_000, 8), (0, 8), (70, 8)]),
        ("--chown=:8 --usermap=*:11", [(11, 8), (11, 8), (11, 8)]),
        ("--chown=9: --groupmap=0:11", [(9, 5), (9, 11), (9, 4_000_001)]),
        ("--no-o --no-g --chown=33", [(33, 0), (33, 0), (33, 0)]),
    ] {
        for way in WAYS {
            let dst = format!("dst{}{way:?}", words.len());
            world.ok(&format!("-a {words} {} {}", way.from("src/"), way.to(&dst)));
            let owner = |name: &str| {
                let meta = world.path(format!("{dst}/{name}")).metadata().unwrap();
                (meta.uid(), meta.gid())
            };
            assert_eq!(["a", "b", "c"].map(owner), expected, "{words} {way:?}");
        }
    }
    let run = world.fails(3, "-a --usermap=*:nobody-of-this-name src/ dst/");
    assert!(run.stderr.contains("no user 'nobody-of-this-name'"), "{run:#?}");
    world.fails(1, "-a --usermap=x src/ dst/");
    world.fails(1, "-a --chown=a:b --usermap=*:c src/ dst/");
    world.fails(1, "-a --groupmap=*:c --chown=:b src/ dst/");
}

/// A remote shell to a machine where `daemon` and its group have other numbers.
const ELSEWHERE: &str = r#"sh -c '
    shift
    exec unshare -m sh -c "mount --bind passwd /etc/passwd && mount --bind group /etc/group && exec \"\$@\"" sh "$@"
' rsh"#;

/// An ordinary user gives nothing away, so numbers are nothing to him.
#[test]
fn names_count_where_machines_have_other_numbers_unless_numbers_are_asked_for() {
    if !as_root() {
        return;
    }
    for program in [DELTIC, "rsync"] {
        let world = World::new();
        world.write("src/file", "x");
        own(&world.path("src/file"), 1, 1);
        world.write("passwd", "root:x:0:0::/:/bin/sh\ndaemon:x:77:78::/:/bin/sh\n");
        world.write("group", "root:x:0:\ndaemon:x:78:\n");
        for (option, expected) in [("--no-numeric-ids", (77, 78)), ("--numeric-ids", (1, 1))] {
            let words = match program {
                DELTIC => vec!["sync", "--deltic-path", DELTIC],
                _ if is_installed("rsync") => vec![],
                _ => return skip("rsync is not installed: nobody else judges the result"),
            };
            let mut run = world.command(program, words);
            let run = Run::of(run.args(["-a", option, "-e", ELSEWHERE, "src/", "h:dst/"]));
            if program == DELTIC && run.stderr.contains("mount") {
                return skip("no other machine can be had here");
            }
            assert_eq!(run.code, Some(0), "{run:#?}");
            let meta = world.path("dst/file").metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), expected, "{program} {option}");
        }
    }
}

#[test]
fn a_directory_whose_mode_keeps_its_owner_out_is_flushed_all_the_same() {
    if !as_root() || !is_installed("setpriv") {
        return;
    }
    let world = World::new();
    world.write("src/closed/file", "x");
    // The second run closes the destination itself too.
    for source in ["src/closed", "src/"] {
        let run = as_somebody(&world, DELTIC, &["sync", "-a", "--chmod=D311", source, "dst"]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
        assert_eq!(world.read("dst/closed/file"), b"x");
        assert_eq!(world.mode("dst/closed") & 0o777, 0o311);
    }
}

/// A new destination is a new directory like any other.
#[test]
fn a_new_root_is_no_more_open_than_its_source() {
    for way in WAYS {
        let world = World::new();
        world.write("src/key", "secret");
        world.write("other", "x");
        world.chmod("src", 0o700);
        let check = |words: &str, wanted: u32| {
            let words: Vec<_> = words.split(' ').collect();
            let to = words.last().unwrap().trim_end_matches('/');
            let (from, options) = words[..words.len() - 1].split_last().unwrap();
            let ends = [way.from(from), way.to(words.last().unwrap())];
            let words = [options, &[&*ends[0], &*ends[1]]].concat();
            let run = world.sync(&words);
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{way:?} {words:?}");
            assert_eq!(world.mode(to) & 0o777, wanted & !umask(), "{way:?} {words:?}");
        };
        check("-rlt src/ plain", 0o700);
        check("-a --no-p src/ without", 0o700);
        check("-rlt --mkpath src/ deep/er/root", 0o700);
        assert_eq!(world.mode("deep/er"), 0o777 & !umask());
        check("-rlt src named", 0o777);
        assert_eq!(world.mode("named/src"), 0o700);
        check("-a src/key one/", 0o777);
        world.chmod("src", 0o755);
        check("-rlt --chmod=o= src/ changed", 0o750);
        check("-rlt src/ open", 0o755);
        // One that was there keeps its mode.
        world.chmod("open", 0o750);
        check("-rlt src/ open", 0o750);
    }
}

#[test]
fn a_new_root_inherits_as_any_directory_does() {
    let world = World::new();
    world.write("src/sub/file", "x");
    world.chmod("src", 0o755);
    world.chmod("src/sub", 0o755);
    for dir in ["above", "like"] {
        world.mkdir(dir);
        note(&world.path(dir), DEFAULT, &Acl { owner: 7, ..acl(7, 8) }.to_bytes());
        world.chmod(dir, 0o2755);
        own(&world.path(dir), 0, if is_root() { 5 } else { rustix::process::getgid().as_raw() });
    }
    let seen = |name: &str| {
        let path = world.path(name);
        (
            world.mode(name),
            noted(&path, ACCESS),
            noted(&path, DEFAULT),
            path.metadata().unwrap().gid(),
        )
    };
    world.ok("-rlt src/ above/whole");
    world.ok("-rlt src/sub above/named");
    assert_eq!(world.mode("above/whole") & 0o7777, 0o2740);
    if rsync(&world, &["-rlt", "src/", "like/whole"]).is_some() {
        rsync(&world, &["-rlt", "src/sub", "like/named"]);
        for name in ["whole", "named", "whole/sub", "named/sub"] {
            assert_eq!(seen(&format!("above/{name}")), seen(&format!("like/{name}")), "{name}");
        }
    }
}

#[test]
fn a_root_that_is_closed_to_its_owner_is_updated() {
    if !as_root() || !is_installed("setpriv") {
        return;
    }
    for (n, (options, mode, wanted)) in [
        ("-ai", 0o555, 0o555),
        ("-ri", 0o555, 0o555),
        ("-ai --delete", 0o755, 0o755),
        ("-ai --inplace", 0o555, 0o555),
        ("-ri", 0, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let world = World::new();
        world.write("src/file", "a new version");
        world.write("src/new", "new");
        world.write("dst/file", "old");
        world.write("dst/extra", "extra");
        for name in ["src", "src/file", "src/new", "dst", "dst/file", "dst/extra"] {
            own(&world.path(name), SOMEBODY, SOMEBODY);
        }
        world.chmod("src", mode | 0o500);
        world.chmod("dst", if mode == 0 { 0 } else { 0o555 });
        let all = ["sync"].into_iter().chain(options.split(' ')).chain(["src/", "dst"]);
        let run = as_somebody(&world, DELTIC, &all.collect::<Vec<_>>());
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{n} {run:#?}");
        assert_eq!(world.mode("dst"), wanted, "{n} {run:#?}");
        assert_eq!(world.read("dst/file"), b"a new version");
        assert_eq!(world.read("dst/new"), b"new");
        assert_eq!(world.exists("dst/extra"), !options.contains("--delete"), "{n}");
    }
}

#[test]
fn an_ordinary_user_sets_what_is_his_and_skips_the_rest() {
    if !as_root() || !is_installed("setpriv") {
        return;
    }
    let world = World::new();
    world.write("src/file", "x");
    own(&world.path("src/file"), 5, 6);
    note(&world.path("src/file"), "user.note", b"his");
    note(&world.path("src/file"), "security.note", b"not his");
    node(&world.path("src/char"), FileType::CharacterDevice, (1, 3));
    node(&world.path("src/fifo"), FileType::Fifo, (0, 0));
    for name in ["src/file", "src/char", "src/fifo"] {
        world.chmod(name, 0o644);
    }
    for (n, words) in ["-aX", "-aX --no-super"].into_iter().enumerate() {
        let dst = format!("dst{n}");
        let mut all = vec!["sync"];
        all.extend(words.split(' ').chain(["src/", &dst]));
        let run = as_somebody(&world, DELTIC, &all);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(run.stdout.contains("skipping non-regular file \"char\""), "{run:#?}");
        let meta = world.path(format!("{dst}/file")).metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid()), (SOMEBODY, SOMEBODY));
        assert_eq!(noted(&world.path(format!("{dst}/file")), "user.note").unwrap(), b"his");
        assert_eq!(noted(&world.path(format!("{dst}/file")), "security.note"), None);
        assert!(world.exists(format!("{dst}/fifo")) && !world.exists(format!("{dst}/char")));
    }
    let run = as_somebody(&world, DELTIC, &["sync", "-a", "--super", "src/", "dst"]);
    assert_eq!(run.code, Some(23), "{run:#?}");
    assert!(run.stderr.contains("operation not permitted"), "{run:#?}");
    // What is closed to its owner can be noted on all the same.
    world.chmod("dst0/file", 0o444);
    world.chmod("src/file", 0o444);
    note(&world.path("dst0/file"), "user.note", b"old");
    let run = as_somebody(&world, DELTIC, &["sync", "-aXi", "src/", "dst0"]);
    assert!(run.stdout.contains(".f........x file"), "{run:#?}");
    assert_eq!(world.mode("dst0/file"), 0o444);
    let waived = World::new();
    waived.write("src/file", "x");
    own(&waived.path("src/file"), 5, 0);
    waived.ok("-a --no-super src/ dst");
    assert_eq!(waived.path("dst/file").metadata().unwrap().uid(), 0);
}

#[test]
fn modes_follow_the_options() {
    let world = World::new();
    world.write("src/program", "x");
    world.write("src/text", "y");
    world.mkdir("src/dir");
    world.chmod("src/program", 0o755);
    world.chmod("src/text", 0o644);
    world.chmod("src/dir", 0o755);
    world.ok("-a --chmod=D2750,Fgo-r,+X src/ dst");
    assert_eq!(world.mode("dst/program"), 0o711);
    assert_eq!(world.mode("dst/text"), 0o600);
    assert_eq!(world.mode("dst/dir"), 0o2751);
    assert_eq!(world.ok("-ai --chmod=D2750 --chmod=Fgo-r,+X src/ dst").stdout, "");
    world.chmod("dst/program", 0o640);
    world.chmod("dst/text", 0o755);
    let run = world.ok("-rtEi src/ dst");
    assert_eq!(run.lines(), [".f...p..... program", ".f...p..... text"]);
    assert_eq!((world.mode("dst/program"), world.mode("dst/text")), (0o750, 0o644));
    world.write("src/program", "longer");
    world.chmod("dst/program", 0o600);
    world.ok("-rtE src/ dst");
    assert_eq!(world.mode("dst/program"), 0o700);
    world.fails(1, "-a --chmod=q+x src/ dst");
}

#[test]
fn times_follow_the_options() {
    let world = World::new();
    world.write("src/dir/file", "x");
    world.link("file", "src/dir/link");
    for name in ["src/dir/file", "src/dir/link", "src/dir"] {
        set_times(&world.path(name), (1_000_000_000, 1_100_000_000));
    }
    world.ok("-rlt -O -J src/ dst");
    assert_eq!(world.time("dst/dir/file").0, 1_100_000_000);
    assert!(
        world.time("dst/dir/link").0 > 1_500_000_000 && world.time("dst/dir").0 > 1_500_000_000
    );
    assert_eq!(world.ok("-rltOJi src/ dst").stdout, "");
    let run = world.ok("-rlti src/ dst");
    assert!(run.stdout.contains(".d..t...... dir/"), "{run:#?}");
    assert!(run.stdout.contains(".L..t...... dir/link"), "{run:#?}");
    // Another run changes what neither -U nor --open-noatime protects; so both are asked for.
    set_times(&world.path("src/dir/file"), (1_000_000_000, 1_200_000_000));
    world.ok("-rltUU src/ dst");
    let accessed = |name: &str| world.path(name).metadata().unwrap().atime();
    assert_eq!(accessed("src/dir/file"), 1_000_000_000);
    assert_eq!(accessed("dst/dir/file"), 1_000_000_000);
    set_times(&world.path("dst/dir/file"), (1_300_000_000, 1_200_000_000));
    assert_eq!(world.ok("-rltUi src/ dst").lines(), [".f......u.. dir/file"]);
    assert_eq!(accessed("dst/dir/file"), 1_000_000_000);
    // What is read at the destination to be compared was read when the source was, all the same.
    world.ok("-rltUc --no-cache src/ dst");
    assert_eq!(accessed("dst/dir/file"), 1_000_000_000);
    let run = world.fails(1, "-aN src/ dst");
    assert!(run.stderr.contains("'-N' is not supported"), "{run:#?}");
}

#[test]
fn a_directory_hands_its_group_down_if_the_mode_that_it_gets_says_so() {
    if !as_root() {
        return;
    }
    let made = || {
        let world = World::new();
        for dir in ["loses", "gets", "keeps/new"] {
            world.write(format!("src/in/{dir}/file"), "x");
        }
        for (dir, mode) in [("loses", 0o755), ("gets", 0o2775), ("keeps", 0o2775)] {
            world.chmod(&format!("src/in/{dir}"), mode);
            world.mkdir(&format!("dst/in/{dir}"));
            own(&world.path(format!("dst/in/{dir}")), 0, 33);
            world.chmod(&format!("dst/in/{dir}"), if dir == "gets" { 0o775 } else { 0o2775 });
        }
        world
    };
    let check = |world: &World, by: &str| {
        let group =
            |name: &str| world.path(format!("dst/in/{name}/file")).metadata().unwrap().gid();
        assert_eq!(["loses", "gets", "keeps/new"].map(group), [0, 33, 0], "{by}");
        assert_eq!(world.mode("dst/in/loses") & 0o2000, 0, "{by}");
        assert_eq!(world.path("dst/in/keeps/new").metadata().unwrap().gid(), 33, "{by}");
    };
    for way in WAYS {
        let world = made();
        world.ok(&format!("-rlp {} {}", way.from("src/"), way.to("dst/")));
        check(&world, &format!("{way:?}"));
    }
    if is_installed("rsync") {
        let world = made();
        rsync(&world, &["-rlp", "src/", "dst/"]);
        check(&world, "rsync");
    }
}

/// Who is not in its group takes setgid away by whatever mode he sets.
#[test]
fn a_new_directory_hands_a_strangers_group_on() {
    if !as_root() || !is_installed("setpriv") {
        return;
    }
    for program in [DELTIC, "rsync"].into_iter().filter(|program| is_installed(program)) {
        let world = World::new();
        world.write("src/in/file", "x");
        world.mkdir("src/in/below");
        world.mkdir("above");
        own(&world.path("above"), 0, 33);
        world.chmod("above", 0o2777);
        let words = if program == DELTIC { &["sync", "-r"][..] } else { &["-r"] };
        let run = as_somebody(&world, program, &[words, &["src/", "above/dst"]].concat());
        assert_eq!(run.code, Some(0), "{run:#?}");
        for name in ["dst", "dst/in", "dst/in/below"] {
            let is = world.path(format!("above/{name}")).metadata().unwrap();
            assert_eq!((is.mode() & 0o7000, is.gid()), (0o2000, 33), "{program} {name}");
        }
    }
}

#[test]
fn what_is_put_into_a_directory_gets_what_that_hands_down() {
    if !as_root() {
        return;
    }
    let world = World::new();
    world.write("src/dir/file", "x");
    world.mkdir("src/dir/below");
    world.mkdir("dst/dir");
    note(&world.path("dst"), DEFAULT, &acl(1, 2).to_bytes());
    note(&world.path("dst/dir"), DEFAULT, &acl(7, 8).to_bytes());
    own(&world.path("dst/dir"), 0, 33);
    world.chmod("dst/dir", 0o2775);
    world.ok("-rt src/ dst");
    let inherited = acl(7, 8).with_mode(0o640).to_bytes();
    assert_eq!(noted(&world.path("dst/dir/file"), ACCESS), Some(inherited));
    assert_eq!(noted(&world.path("dst/dir/below"), DEFAULT), Some(acl(7, 8).to_bytes()));
    assert_eq!(world.path("dst/dir/file").metadata().unwrap().gid(), 33);
    assert_eq!(world.mode("dst/dir/below") & 0o2000, 0o2000);
    // With -A and -g it is the sender's word that counts.
    world.write("src/dir/other", "x");
    world.ok("-aA src/ dst");
    assert_eq!(noted(&world.path("dst/dir/other"), ACCESS), None);
    assert_eq!(world.path("dst/dir/other").metadata().unwrap().gid(), 0);
}

/// The default ACL that a new directory got from the sender counts at once for what is made in it.
#[test]
fn a_new_directory_whose_default_acl_shuts_its_owner_out_is_filled() {
    if !as_root() || !is_installed("setpriv") {
        return;
    }
    let world = World::new();
    world.mkdir("src/dir/below");
    world.link("nowhere", "src/dir/below/link");
    world.mkdir("dst");
    note(&world.path("src/dir"), DEFAULT, &Acl { owner: 6, ..acl(1, 2) }.to_bytes());
    own(&world.path("dst"), SOMEBODY, SOMEBODY);
    let run = as_somebody(&world, DELTIC, &["sync", "-rlpA", "src/", "dst"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(fs::read_link(world.path("dst/dir/below/link")).unwrap().as_os_str(), "nowhere");
    assert_eq!(world.mode("dst/dir/below") & 0o7777, world.mode("src/dir/below") & 0o7777);
}
