//! Facts about files on btrfs: each case, and random changes of files of all kinds. Root only.

mod changes;
mod fuzz;
mod sums;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;

use deltic_store::facts::{ExtentContent, Extents};
use rustix::fs::{FallocateFlags, fallocate, syncfs};

use super::mounts::{Mounted, loop_mount, succeeds};
use super::*;

/// Mounts a btrfs at `at`; `None` if the extents of its files cannot be read.
fn btrfs(at: &Path) -> Option<Mounted> {
    let mounted = loop_mount(at, "mkfs.btrfs")?;
    fs::write(at.join("probe"), [1; 4096]).unwrap();
    if extents(&open_store(at), "probe").is_none() {
        skip("extents need CAP_SYS_ADMIN and Linux 6.8");
        return None;
    }
    Some(mounted)
}

fn extents(store: &LocalStore, at: &str) -> Option<Extents> {
    store.open(&path(at)).unwrap().extents().unwrap()
}

fn kinds(extents: &Extents) -> String {
    let kind = |(range, is): (std::ops::Range<u64>, ExtentContent)| match is {
        ExtentContent::Id { .. } => format!("{}i", range.end - range.start),
        ExtentContent::Zero => format!("{}z", range.end - range.start),
        ExtentContent::Unknown => format!("{}u", range.end - range.start),
    };
    extents.parts().map(kind).collect::<Vec<_>>().join(" ")
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = changes::Dice(seed);
    (0..len).map(|_| dice.below(256) as u8).collect()
}

const BLOCK: u64 = 4096;
const LARGE: u64 = 16 << 20;

#[test]
fn other_file_systems_have_no_facts() {
    let (_root, store) = new_store();
    put(&store, "file", &[1; 8192]).unwrap();
    assert_eq!(extents(&store, "file").filter(|_| !is_btrfs(_root.path())), None);
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = loop_mount(at.path(), "mkfs.xfs") else { return };
    fs::write(at.path().join("file"), [1; 8192]).unwrap();
    assert_eq!(extents(&open_store(at.path()), "file"), None);
}

fn is_btrfs(at: &Path) -> bool {
    rustix::fs::statfs(at).unwrap().f_type == 0x9123_683e
}

#[test]
fn few_overwritten_blocks_are_all_that_changed() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    let file = File::create(at.path().join("file")).unwrap();
    file.write_all_at(&noise(1, LARGE as usize), 0).unwrap();
    let old = extents(&store, "file").unwrap();
    assert_eq!((old.len(), extents(&store, "file").as_ref()), (LARGE, Some(&old)));
    assert_eq!(old.changed_since(&old), Some(vec![]));
    let changed = [3 * BLOCK, 700 * BLOCK, 701 * BLOCK, LARGE - BLOCK];
    for start in changed {
        file.write_all_at(b"other", start + 9).unwrap();
    }
    // Nothing was flushed explicitly.
    let new = extents(&store, "file").unwrap();
    let ranges = new.changed_since(&old).unwrap();
    let expected = [3 * BLOCK..4 * BLOCK, 700 * BLOCK..702 * BLOCK, LARGE - BLOCK..LARGE];
    assert_eq!(ranges, expected);
    // A commit of the transaction that allocated the extents changes nothing.
    syncfs(&file).unwrap();
    assert_eq!(extents(&store, "file").unwrap(), new);
    file.set_len(LARGE - 3 * BLOCK + 5).unwrap();
    let shorter = extents(&store, "file").unwrap();
    assert_eq!(shorter.changed_since(&new), Some(vec![]));
    file.set_len(LARGE).unwrap();
    let longer = extents(&store, "file").unwrap();
    let ranges = longer.changed_since(&shorter).unwrap();
    assert!(ranges.iter().all(|range| range.start >= LARGE - 3 * BLOCK), "{ranges:?}");
}

#[test]
fn copies_that_share_blocks_and_snapshots_are_unchanged() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    fs::write(at.path().join("old"), noise(2, LARGE as usize + 77)).unwrap();
    let old = extents(&store, "old").unwrap();
    let (from, to) = (at.path().join("old"), at.path().join("new"));
    assert!(succeeds(Command::new("cp").arg("--reflink=always").args([&from, &to])));
    assert_eq!(extents(&store, "new").unwrap(), old);
    let mut snapshot = Command::new("btrfs");
    if succeeds(snapshot.args(["subvolume", "snapshot"]).args([at.path(), &at.path().join("sub")]))
    {
        assert_eq!(extents(&store, "sub/old").unwrap(), old);
        assert!(succeeds(Command::new("sync").arg("-f").arg(at.path())));
        assert_eq!(extents(&store, "sub/old").unwrap(), old);
    }
}

#[test]
fn holes_and_reserved_room_are_zeros_and_some_parts_are_unknown() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let store = open_store(at.path());
    let create = |name: &str| File::create(at.path().join(name)).unwrap();
    create("hole").set_len(BLOCK * 9 + 1).unwrap();
    let room = create("room");
    fallocate(&room, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    fallocate(&room, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20).unwrap();
    create("empty");
    create("short").write_all_at(b"short", 0).unwrap();
    assert!(succeeds(Command::new("mkdir").arg(at.path().join("nocow"))));
    let has_nocow = succeeds(Command::new("chattr").arg("+C").arg(at.path().join("nocow")));
    create("nocow/file").write_all_at(&[1; 8192], 2 * BLOCK).unwrap();
    // The file's inode item is not written before the next transaction.
    let late = create("late");
    assert!(!has_nocow || succeeds(Command::new("chattr").arg("+C").arg(at.path().join("late"))));
    late.write_all_at(&[1; 8192], 0).unwrap();
    for _ in 0..2 {
        let kinds = |name| kinds(&extents(&store, name).unwrap());
        assert_eq!(kinds("hole"), "36865z");
        assert_eq!(kinds("room"), "1048576z");
        assert_eq!(kinds("empty"), "");
        assert_eq!(kinds("short"), "5u");
        assert!(!has_nocow || kinds("nocow/file") == "8192z 8192u");
        assert!(!has_nocow || kinds("late") == "8192u", "{}", kinds("late"));
        syncfs(&room).unwrap();
    }
    let old = extents(&store, "room").unwrap();
    room.write_all_at(&[1; 8192], 5 * BLOCK).unwrap();
    let new = extents(&store, "room").unwrap();
    assert_eq!(kinds(&new), "20480z 8192i 1019904z");
    let changed = new.changed_since(&old).unwrap();
    assert!(changed.iter().eq([&(5 * BLOCK..7 * BLOCK)]), "{changed:?}");
}

#[test]
fn compressed_files_have_identities() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let mut compress = Command::new("mount");
    compress.args(["-o", "remount,compress-force=zstd"]).arg(at.path());
    if !succeeds(&mut compress) {
        return skip("cannot mount a btrfs that compresses");
    }
    let store = open_store(at.path());
    let lines: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
    fs::write(at.path().join("file"), &lines).unwrap();
    let old = extents(&store, "file").unwrap();
    let is_compressed = |(_, is)| matches!(is, ExtentContent::Id { id, .. } if id[2] > 0);
    assert!(old.parts().all(is_compressed), "{old:?}");
    let file = File::options().write(true).open(at.path().join("file")).unwrap();
    file.write_all_at(b"x", 1_000_000).unwrap();
    let changed = extents(&store, "file").unwrap().changed_since(&old).unwrap();
    assert!(changed.iter().eq([&(999_424..1_003_520)]), "{changed:?}");
}

#[test]
fn another_mount_is_another_history() {
    let at = tempfile::tempdir().unwrap();
    let Some(mounted) = btrfs(at.path()) else { return };
    let old = extents(&open_store(at.path()), "probe").unwrap();
    assert_eq!(kinds(&old), "4096i");
    mounted.mount_again();
    let new = extents(&open_store(at.path()), "probe").unwrap();
    assert_eq!((kinds(&new), new.changed_since(&old)), ("4096i".into(), None));
}

#[test]
fn those_who_may_not_ask_are_told_nothing_and_ask_once() {
    let at = tempfile::tempdir().unwrap();
    let Some(_mounted) = btrfs(at.path()) else { return };
    let strace = ["-f", "-qq", "-e", "trace=ioctl"];
    let mut nobody = Command::new("strace");
    nobody.args(strace).arg(std::env::current_exe().unwrap());
    nobody.args(["--ignored", "--exact", "tests::facts::nobody"]).env(AT, at.path());
    let Ok(output) = nobody.uid(65534).gid(65534).output() else {
        return skip("strace is not installed");
    };
    if !output.status.success() {
        return skip("nobody cannot run this test");
    }
    let calls = String::from_utf8_lossy(&output.stderr);
    let refused = calls.lines().filter(|line| line.contains("EPERM")).count();
    assert_eq!(refused, 1, "{calls}");
}

/// Queries facts as a user without the privilege.
#[test]
#[ignore = "another test runs it"]
fn nobody() {
    let Some(at) = std::env::var_os(AT) else { return };
    let store = open_store(Path::new(&at));
    for _ in 0..3 {
        assert_eq!(extents(&store, "probe"), None);
    }
}

const AT: &str = "DELTIC_FACTS_AT";
