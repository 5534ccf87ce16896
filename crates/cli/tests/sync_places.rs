//! Destinations in which a rename does not reach every directory, or the names of one file have inode numbers of their
//! own: quotas of projects, encrypted directories, unions of directories, SFTP.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use crate::common::attrs::{SOMEBODY, own};
use crate::common::http::ask;
use crate::common::server::Server;
use crate::common::{
    DELTIC, Mounted, Run, WAYS, Way, World, is_installed, is_root, noise, skip, wait_until,
};
use rustix::fs::{FlockOperation, flock};

/// Mounts at `dst` what has a directory `sub` to which nothing can be renamed from `dst`.
type Mount = for<'a> fn(&'a World) -> Option<Mounted<'a>>;

/// Mounts an image of 400 MB in which `mkfs`, a command, made a file system.
fn image<'a>(world: &'a World, mkfs: &str) -> Option<Mounted<'a>> {
    let without = format!("{mkfs} makes nothing here that can be mounted");
    let words: Vec<_> = mkfs.split(' ').chain(["image"]).collect();
    fs::File::create(world.path("image")).unwrap().set_len(400 << 20).unwrap();
    if !is_installed(words[0]) || Run::of(&mut world.command(words[0], &words[1..])).code != Some(0)
    {
        skip(&without);
        return None;
    }
    Mounted::by((world, "dst"), ("mount", &["-o", "loop", "image", "dst"]), &without)
}

/// Runs `line` by a shell; says that the test is skipped `without` that it succeeds.
fn prepared<'a>(mounted: Mounted<'a>, line: &str, without: &str) -> Option<Mounted<'a>> {
    if Run::of(&mut mounted.0.command("sh", ["-c", line])).code == Some(0) {
        return Some(mounted);
    }
    skip(without);
    None
}

fn project(world: &World) -> Option<Mounted<'_>> {
    let line = "mkdir dst/sub && xfs_io -c 'chproj 42' -c 'chattr +P' dst/sub";
    prepared(image(world, "mkfs.xfs -q")?, line, "no project can be given to a directory here")
}

fn encrypted(world: &World) -> Option<Mounted<'_>> {
    let line = "mkdir dst/sub && echo words | e4crypt add_key -S s:aabb dst/sub";
    prepared(image(world, "mkfs.ext4 -q -O encrypt")?, line, "nothing can be encrypted here")
}

/// Of a union: new files of the root are on one branch, those of `sub` on the other one. Nothing tells that but the
/// kernel's refusal of a rename.
fn branch(world: &World) -> Option<Mounted<'_>> {
    world.mkdir("one");
    world.mkdir("two/sub");
    union(world, "category.create=epff")
}

fn union<'a>(world: &'a World, options: &str) -> Option<Mounted<'a>> {
    world.mkdir("one");
    world.mkdir("two");
    let words = ["-o", options, "one:two", "dst"];
    Mounted::by((world, "dst"), ("mergerfs", &words), "no union can be mounted here")
}

/// SFTP without a network.
fn sftp(world: &World) -> Option<Mounted<'_>> {
    world.mkdir("far");
    world.write("rsh", "#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n");
    fs::set_permissions(world.path("rsh"), fs::Permissions::from_mode(0o755)).unwrap();
    let shell = format!("ssh_command={}", world.path("rsh").display());
    let far = format!("h:{}", world.path("far").display());
    let words = ["-o", &shell, &far, "dst"];
    Mounted::by((world, "dst"), ("sshfs", &words), "no directory can be mounted over SFTP here")
}

const REALMS: [Mount; 3] = [project, encrypted, branch];
/// Where the names of one file have numbers of their own.
const NUMBERS: [Mount; 2] = [|world| union(world, "category.create=ff,inodecalc=path-hash"), sftp];

/// Small and large files, and what is none, in directories of all depths; all of version `no`.
fn fill(world: &World, no: u64) {
    for dir in ["", "sub/", "sub/deep/", "beside/"] {
        world.write(format!("src/{dir}small"), format!("version {no} in {dir}"));
        world.write(format!("src/{dir}large"), noise(3_000_000, no));
        world.chmod(&format!("src/{dir}small"), 0o640);
        let link = world.path(format!("src/{dir}link"));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(format!("target {no}"), link).unwrap();
    }
}

/// Asserts that `dst` is `src`, and that nothing is left behind.
#[track_caller]
fn assert_arrived(world: &World) {
    for dir in ["", "sub/", "sub/deep/", "beside/"] {
        for name in ["small", "large"] {
            let (is, was) = (world.read(format!("dst/{dir}{name}")), format!("src/{dir}{name}"));
            assert!(is == world.read(&was), "{was}");
            let meta = |at: &str| fs::metadata(world.path(format!("{at}/{dir}{name}"))).unwrap();
            let told = |at: &str| (meta(at).mode(), meta(at).mtime());
            assert_eq!(told("dst"), told("src"), "{was}");
        }
        let link = |at: &str| fs::read_link(world.path(format!("{at}/{dir}link"))).unwrap();
        assert_eq!(link("dst"), link("src"), "{dir}");
        assert!(!world.exists(format!("dst/{dir}.deltic")), "{dir}");
    }
}

/// True if no process has locked what it staged at `path`.
fn is_nobodys(path: &Path) -> bool {
    let file = fs::File::open(path);
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[test]
fn a_directory_that_no_rename_reaches_is_brought_up_to_date_as_any_other() {
    for mount in REALMS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        let all = ["", "--no-fsync", "--delay-updates", "--inplace", "--partial-dir=.part", "-b"];
        for (no, words) in all.into_iter().enumerate() {
            fill(&world, no as u64);
            world.write("src/sub/gone", "soon");
            let way = WAYS[no % WAYS.len()];
            let (from, to) = (way.from("src/"), way.to("dst/"));
            world.ok(&format!("-a --delete --force-delete {words} {from} {to}"));
            assert_arrived(&world);
            assert_eq!(world.ok(&format!("-ai {from} {to}")).stdout, "", "{words}");
            fs::remove_file(world.path("src/sub/gone")).unwrap();
            world.ok(&format!("-a --delete --force-delete {from} {to}"));
            assert!(!world.exists("dst/sub/gone"), "{words}");
            // What is new there comes by other ways than what was there.
            fs::remove_dir_all(world.path("dst/sub/deep")).unwrap();
        }
    }
}

/// A staged file has its mode before the rename is refused, and is copied then.
#[test]
fn a_file_that_its_owner_may_not_read_reaches_such_a_directory() {
    if !is_root() || !is_installed("setpriv") {
        return skip("this needs root and setpriv");
    }
    let user = SOMEBODY.to_string();
    let setpriv = ["--reuid", &user, "--regid", &user, "--clear-groups", "--", DELTIC, "sync"];
    for option in ["", "--delay-updates", "--no-fsync", "-b"] {
        let world = World::new();
        world.mkdir("two/sub");
        let Some(_mounted) = union(&world, "category.create=epff,allow_other") else { return };
        ["one", "two", "two/sub"].iter().for_each(|dir| own(&world.path(dir), SOMEBODY, SOMEBODY));
        world.chmod("", 0o755);
        for no in 1..=2 {
            world.write("src/sub/small", format!("version {no}"));
            world.write("src/sub/large", noise(3_000_000, no));
            let more = option.split_whitespace().chain(["src/", "dst/"]);
            let words = setpriv.into_iter().chain(["-rtp", "--chmod=F0200"]).chain(more);
            let run = Run::of(&mut world.command("setpriv", words));
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{option} {run:#?}");
            for name in ["sub/small", "sub/large"] {
                let [is, was] = ["dst", "src"].map(|at| world.read(format!("{at}/{name}")));
                assert!(is == was, "{option} {name}");
                let mode = fs::metadata(world.path(format!("dst/{name}"))).unwrap().mode();
                assert_eq!(mode & 0o7777, 0o200, "{option} {name}");
            }
        }
    }
}

#[test]
fn old_versions_of_a_directory_that_no_rename_reaches_are_kept() {
    for mount in REALMS {
        for words in ["-b", "-b --suffix=.old", "--backup --backup-dir=old"] {
            let world = World::new();
            let Some(_mounted) = mount(&world) else { continue };
            fill(&world, 1);
            world.ok("-a src/ dst/");
            fill(&world, 2);
            world.ok(&format!("-a {words} src/ dst/"));
            assert_arrived(&world);
            for dir in ["", "sub/", "sub/deep/"] {
                let old = match words {
                    "-b" => format!("dst/{dir}small~"),
                    "-b --suffix=.old" => format!("dst/{dir}small.old"),
                    _ => format!("dst/old/{dir}small"),
                };
                assert_eq!(world.read(old), format!("version 1 in {dir}").as_bytes(), "{words}");
            }
        }
    }
}

#[test]
fn names_that_no_link_can_join_come_by_themselves() {
    for mount in REALMS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        world.write("src/a", "of four names");
        for name in ["b", "sub/c", "sub/d"] {
            world.mkdir("src/sub");
            fs::hard_link(world.path("src/a"), world.path(format!("src/{name}"))).unwrap();
        }
        let run = world.sync(&["-aH", "src/", "dst/"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        for name in ["a", "b", "sub/c", "sub/d"] {
            assert_eq!(world.read(format!("dst/{name}")), b"of four names", "{name}");
        }
        world.mkdir("dst/next");
        let run = world.sync(&["-a", "--link-dest=../sub", "src/sub/", "dst/next/"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert_eq!(world.read("dst/next/c"), b"of four names");
    }
}

#[test]
fn a_killed_transfer_into_such_a_directory_goes_on() {
    const LEN: usize = 24 << 20;
    for mount in REALMS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        // The first one tells where all else is to be staged.
        world.write("src/sub/first", noise(300_000, 3));
        world.ok("-a src/ dst/");
        world.write("src/sub/first", noise(300_000, 4));
        world.write("src/sub/large", noise(LEN, 5));
        let words = ["-a", "--bwlimit=8M", "src/", "h:dst/"];
        let fixed = ["sync", "-e", crate::common::SHELL, "--deltic-path", DELTIC];
        let mut push = std::process::Command::new(DELTIC)
            .args(fixed.iter().chain(&words))
            .current_dir(world.path(""))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let entries = || {
            let dirs = ["dst/.deltic", "dst/sub/.deltic"].map(|dir| fs::read_dir(world.path(dir)));
            dirs.into_iter().flatten().flatten().flatten()
        };
        let written =
            || entries().map(|entry| 4096 * world.written_blocks(entry.path())).sum::<usize>();
        wait_until("half of it is there", || written() > LEN / 2);
        push.kill().unwrap();
        push.wait().unwrap();
        wait_until("its receiving end is gone", || {
            entries().all(|entry| is_nobodys(&entry.path()))
        });
        let run = world.ok("-a --stats src/ h:dst/");
        assert_eq!(world.read("dst/sub/large"), world.read("src/sub/large"));
        let sent = run.stdout.lines().find_map(|line| line.strip_prefix("Total bytes sent: "));
        let sent: usize = sent.unwrap().replace(',', "").parse().unwrap();
        assert!(sent < LEN * 3 / 4, "{sent} of {LEN} bytes were sent");
        assert!(!world.exists("dst/.deltic") && !world.exists("dst/sub/.deltic"));
    }
}

#[test]
fn old_versions_are_kept_where_each_name_has_a_number_of_its_own() {
    for mount in NUMBERS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        for (no, words) in ["-b", "-b --backup-dir=old", "-b --delay-updates"].iter().enumerate() {
            let way = [Way::Local, Way::Push][no % 2];
            let (from, to) = (way.from("src/"), way.to(&format!("dst/{no}/")));
            // Times are whole seconds over SFTP: only the length tells.
            let version = |version: usize| format!("version {version}{}", "!".repeat(version));
            for one in [1, 2] {
                world.write("src/a", version(one));
                world.write("src/gone", "soon");
                world.ok(&format!("-rtq {words} {from} {to}"));
            }
            fs::remove_file(world.path("src/gone")).unwrap();
            world.ok(&format!("-rtq --delete --force-delete {words} {from} {to}"));
            let old = |name: &str| match no {
                1 => format!("dst/{no}/old/{name}"),
                _ => format!("dst/{no}/{name}~"),
            };
            assert_eq!(world.read(format!("dst/{no}/a")), version(2).as_bytes(), "{words}");
            assert_eq!(world.read(old("a")), version(1).as_bytes(), "{words}");
            assert_eq!(world.read(old("gone")), b"soon", "{words}");
        }
    }
}

#[test]
fn a_server_keeps_versions_where_each_name_has_a_number_of_its_own() {
    const FILE: &str = "/v1/volumes/photos/files/a";
    for mount in NUMBERS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        world.link("dst", "photos");
        let server = Server::set_volume(&world, "versions = 10", "");
        let put = |body: &[u8]| ask(&server, &format!("PUT {FILE}"), "", body).status;
        assert_eq!([put(b"one"), put(b"two"), put(b"three")], [201, 204, 204]);
        let told = ask(&server, &format!("GET {FILE}?as=versions"), "", b"");
        let text = String::from_utf8(told.body).unwrap();
        assert_eq!((told.status, text.matches("\"version\"").count()), (200, 2), "{text}");
    }
}

#[test]
fn names_and_alternates_are_linked_where_each_name_has_a_number_of_its_own() {
    for mount in NUMBERS {
        let world = World::new();
        let Some(_mounted) = mount(&world) else { continue };
        world.write("src/a", "one file");
        fs::hard_link(world.path("src/a"), world.path("src/b")).unwrap();
        for _ in 0..2 {
            world.ok("-rtH src/ dst/one/");
            world.ok("-rt --link-dest=../one src/ dst/two/");
        }
        for name in ["one/a", "one/b", "two/a", "two/b"] {
            assert_eq!(world.read(format!("dst/{name}")), b"one file", "{name}");
        }
    }
}
