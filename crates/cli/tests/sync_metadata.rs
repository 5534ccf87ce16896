//! Owners, devices, attributes, ACLs and modes, option by option; and random trees, which rsync judges.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::{DELTIC, Run, WAYS, World, is_installed, is_root, skip};
use deltic_core::meta::{Acl, Named, Who};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chownat,
    lgetxattr, llistxattr, lsetxattr, makedev, mknodat, utimensat,
};

/// Nobody in particular: an owner, a group, and a user to be.
const SOMEBODY: u32 = 65534;
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

fn node(path: &Path, kind: FileType, device: (u32, u32)) {
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, path, kind, mode, makedev(device.0, device.1)).unwrap();
}

fn own(path: &Path, user: u32, group: u32) {
    let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
    chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn note(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn noted(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// An ACL that names `user` and `group`.
fn acl(user: u32, group: u32) -> Acl {
    let named = vec![
        Named { who: Who::User, id: user, perms: 6 },
        Named { who: Who::Group, id: group, perms: 4 },
    ];
    Acl { owner: 6, group: 4, mask: Some(6), other: 0, named }
}

fn set_times(path: &Path, (accessed, modified): (i64, i64)) {
    let spec = |secs| Timespec { tv_sec: secs, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Whether this test can go on: as root only, who owns and makes what he likes.
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
        ("", [true, true]),
    ] {
        let run = world.sync(
            &format!("-a {words} --delete src/ specials/").split_whitespace().collect::<Vec<_>>(),
        );
        assert_eq!(run.code, Some(0), "{run:#?}");
        let found = ["fifo", "char"].map(|name| world.exists(format!("specials/{name}")));
        assert_eq!(found, there, "{words}");
        assert_eq!(
            run.stderr.matches("skip special file").count(),
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
        assert!(run.stderr.contains("skip device char"), "{run:#?}");
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
    let run = world.fails(1, "-aN src/ dst");
    assert!(run.stderr.contains("'-N' is not supported"), "{run:#?}");
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

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

/// A tree of every kind of entry with random metadata; `foreign` whoever may own and make what he likes made it.
fn random_tree(root: &Path, dice: &mut Dice, foreign: bool) {
    fs::create_dir_all(root).unwrap();
    let mut dirs = vec![root.to_path_buf()];
    let mut all = Vec::new();
    for n in 0..dice.next() % 14 {
        let path = dirs[dice.next() as usize % dirs.len()].join(format!("n{}", dice.next() % 9));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match dice.next() % 12 {
            0..3 => {
                fs::create_dir(&path).unwrap();
                dirs.push(path.clone());
            }
            3 => symlink(dice.pick(&["n1", "../n2", "/nowhere"]), &path).unwrap(),
            4 => node(&path, FileType::Fifo, (0, 0)),
            5 => node(&path, FileType::Socket, (0, 0)),
            6 if foreign => node(&path, FileType::CharacterDevice, (1, dice.pick(&[3, 5]))),
            7 if foreign => node(&path, FileType::BlockDevice, (7, dice.pick(&[1, 300]))),
            _ => fs::write(&path, dice.pick(&["x", "y", "some content"])).unwrap(),
        }
        all.push((path, n));
    }
    // From the leaves up, so that a directory's time stays.
    for (path, n) in all.iter().rev() {
        let kind = path.symlink_metadata().unwrap().file_type();
        let ids = [0, 1, 33, 1000, SOMEBODY, 3_000_000];
        if foreign {
            own(path, dice.pick(&ids), dice.pick(&ids));
        }
        if !kind.is_symlink() {
            let modes = [0o644, 0o755, 0o600, 0o4755, 0o2755, 0o1777, 0o640, 0o444];
            let dir_modes = [0o755, 0o700, 0o2775, 0o1777];
            let mode = if kind.is_dir() { dice.pick(&dir_modes) } else { dice.pick(&modes) };
            if dice.percent(25) {
                let ids = [dice.pick(&ids), dice.pick(&ids)];
                note(path, ACCESS, &acl(ids[0], ids[1]).with_mode(mode).to_bytes());
            }
            if kind.is_dir() && dice.percent(25) {
                note(path, DEFAULT, &acl(33, dice.pick(&ids)).to_bytes());
            }
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        if (kind.is_file() || kind.is_dir()) && dice.percent(30) {
            note(path, dice.pick(&["user.a", "user.b"]), dice.pick(&[b"", &b"v"[..], b"\0\xff"]));
        }
        if foreign && dice.percent(20) {
            note(path, dice.pick(&["trusted.t", "security.s"]), b"value");
        }
        set_times(path, (1_000_000_000, 1_200_000_000 + (*n % 3) as i64));
    }
    set_times(root, (1_000_000_000, 1_200_000_000));
}

/// All that is carried of all entries. What was not asked for, or changes by itself, is left out.
fn picture(root: &Path, words: &str) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut paths = vec![root.to_path_buf()];
    while let Some(path) = paths.pop() {
        let meta = path.symlink_metadata().unwrap();
        let kind = meta.file_type();
        // Without -p rsync gives new directories with attributes the sender's mode, and what takes the place of another
        // kind of entry that one's; docs/options.md says what we do.
        let keeps = ["-a", "-rlptgoD", "-rlpt", "-A"]
            .iter()
            .any(|word| words.split(' ').any(|w| w == *word));
        let bits = if keeps || kind.is_symlink() { 0o7777 } else { 0 };
        let mode = meta.mode() & (0o170_000 | bits);
        let mut says = format!("{mode:o} {}:{} rdev {}", meta.uid(), meta.gid(), meta.rdev());
        let timed =
            !(words.contains("-O") && kind.is_dir() || words.contains("-J") && kind.is_symlink());
        if timed && words.contains('t') {
            says += &format!(" {}.{}", meta.mtime(), meta.mtime_nsec());
        }
        if words.contains("U") && kind.is_file() {
            says += &format!(" read {}", meta.atime());
        }
        if kind.is_file() {
            says += &format!(" {:?}", fs::read(&path).unwrap());
            let last_access = Timespec { tv_sec: meta.atime(), tv_nsec: meta.atime_nsec() };
            let last_modification = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let times = Timestamps { last_access, last_modification };
            utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        }
        if kind.is_symlink() {
            says += &format!(" {:?}", fs::read_link(&path).unwrap());
        }
        let mut list = vec![0; 4096];
        let len = llistxattr(&path, &mut list[..]).unwrap_or(0);
        let mut names: Vec<_> = list[..len].split(|b| *b == 0).filter(|n| !n.is_empty()).collect();
        names.sort_unstable();
        for name in names {
            let name = OsStr::from_bytes(name).to_str().unwrap();
            if !keeps && name.starts_with("system.") {
                continue;
            }
            says += &format!(" {name}={:?}", noted(&path, name).unwrap());
        }
        if kind.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.insert(path.strip_prefix(root).unwrap().to_path_buf(), says);
    }
    all
}

fn random_words(dice: &mut Dice) -> String {
    let mut words = dice.pick(&["-a", "-a", "-rlpt", "-rltD", "-rlptgoD", "-rt"]).to_owned();
    for (chance, word) in [
        (50, "-A"),
        (50, "-X"),
        (15, "--no-o"),
        (15, "--no-g"),
        (15, "--no-D"),
        (10, "-O"),
        (10, "-J"),
        (15, "-UU"),
        (15, "-E"),
        (30, "--numeric-ids"),
        (15, "--chmod=D2755,Fgo-w,+X"),
        (10, "--chmod=go=u,a+r"),
        (10, "--usermap=1:33,*:1000"),
        (10, "--groupmap=0-40:65534"),
        (10, "--no-super"),
    ] {
        // With both rsync maps owners and leaves ACLs.
        let halved = word.contains("map=") && words.contains("--numeric-ids");
        if dice.percent(chance) && !halved {
            words = format!("{words} {word}");
        }
    }
    words
}

/// Syncs random trees over random older ones by both programs, and compares all there is.
fn differs_from_rsync_nowhere(seeds: std::ops::Range<u64>, foreign: bool) {
    for seed in seeds {
        let mut dice = Dice(seed);
        let world = World::new();
        random_tree(&world.path("src"), &mut dice, foreign);
        let older = dice.percent(60);
        let copy = dice.0;
        for dst in ["ours", "theirs"] {
            dice.0 = copy;
            if older {
                random_tree(&world.path(dst), &mut dice, foreign);
            } else {
                world.mkdir(dst);
            }
        }
        let mut words = random_words(&mut dice);
        // What the sender leaves out by its kind rsync does not delete either; we do.
        if ["-a ", "-rltD", "-rlptgoD"].iter().any(|all| words.starts_with(all))
            && !words.contains("--no-D")
        {
            words += " --delete --max-delete=1000";
        }
        let run = |program: &str, dst: &str| {
            let mut all: Vec<_> = words.split(' ').chain(["src/", dst]).collect();
            if program == DELTIC {
                all.insert(0, "sync");
            }
            match foreign {
                true => Run::of(&mut world.command(program, all)),
                false => as_somebody(&world, program, &all),
            }
        };
        if !foreign {
            for name in ["src", "ours", "theirs"] {
                let chown = ["-R", &format!("{SOMEBODY}:{SOMEBODY}"), name];
                assert_eq!(Run::of(&mut world.command("chown", chown)).code, Some(0));
            }
        }
        let [new, old] = ["src", "ours"].map(|name| picture(&world.path(name), &words));
        // The first to read changes when a file was read.
        let theirs = run("rsync", "theirs/");
        let ours = run(DELTIC, "ours/");
        let about = format!("seed {seed} foreign {foreign}: {words}\n{ours:#?}\n{theirs:#?}");
        assert_eq!(ours.code, theirs.code, "{about}");
        let [ours, theirs] = ["ours", "theirs"].map(|dst| picture(&world.path(dst), &words));
        let names = ours.keys().chain(theirs.keys());
        let mut differ: Vec<_> =
            names.filter(|name| ours.get(*name) != theirs.get(*name)).collect();
        differ.dedup();
        let all = [("new", &new), ("old", &old), ("ours", &ours), ("rsync's", &theirs)];
        let shown: String = (differ.iter())
            .flat_map(|name| all.map(|(what, tree)| (name, what, tree.get(*name))))
            .map(|(name, what, says)| format!("\n{} {what}: {says:?}", name.display()))
            .collect();
        assert!(differ.is_empty(), "{about}{shown}");
    }
}

#[test]
fn rsync_makes_the_same_of_random_trees() {
    if !as_root() || !is_installed("rsync") {
        return skip("rsync is to compare with");
    }
    differs_from_rsync_nowhere(0..40, true);
}

#[test]
fn rsync_makes_the_same_of_an_ordinary_users_trees() {
    if !as_root() || !is_installed("rsync") || !is_installed("setpriv") {
        return skip("rsync is to compare with, as an ordinary user");
    }
    differs_from_rsync_nowhere(1000..1040, false);
}
