//! Other file systems: full ones, nested ones, and some that share blocks. Root only.

use deltic_store::Posix;
use rustix::fs::{CWD, Mode, OFlags, openat, statvfs, syncfs};

use super::*;

/// A mounted file system, unmounted when dropped.
pub(super) struct Mounted {
    at: std::path::PathBuf,
    image: Option<TempDir>,
}

impl Mounted {
    /// Unmounts the file system in the image, and mounts it again.
    pub(super) fn mount_again(&self) {
        assert!(self.unmount());
        let image = self.image.as_ref().unwrap().path().join("image");
        assert!(succeeds(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&self.at)));
    }

    fn unmount(&self) -> bool {
        // A child that another test forks holds our descriptors until it executes its program.
        (0..50).any(|tries| {
            thread::sleep(Duration::from_millis(if tries > 0 { 20 } else { 0 }));
            succeeds(Command::new("umount").arg(&self.at))
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.unmount() {
            eprintln!("could not unmount {}", self.at.display());
        }
    }
}

pub(super) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn tmpfs(at: &Path, options: &str) -> Option<Mounted> {
    let mut mount = Command::new("mount");
    if succeeds(mount.args(["-t", "tmpfs", "-o", options, "deltic-test"]).arg(at)) {
        return Some(Mounted { at: at.to_owned(), image: None });
    }
    skip("cannot mount a tmpfs here");
    None
}

/// Mounts an image that the command `mkfs` formats.
pub(super) fn loop_mount(at: &Path, mkfs: &str) -> Option<Mounted> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
    let mut words = mkfs.split(' ');
    let program = words.next().unwrap_or_default();
    if succeeds(Command::new(program).args(words).arg("-q").arg(&image))
        && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at))
    {
        return Some(Mounted { at: at.to_owned(), image: Some(dir) });
    }
    skip(&format!("cannot make a file system with {mkfs} and mount it here"));
    None
}

#[test]
fn a_full_disk_keeps_the_old_file_and_what_fits() {
    let root = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(root.path(), "size=1m") else { return };
    let store = open_store(root.path());
    put(&store, "large", b"old").unwrap();
    for _ in 0..3 {
        let answer = put(&store, "large", &vec![1; 2 << 20]);
        assert!(matches!(answer, Err(StoreError::Full { .. })), "{answer:?}");
        assert_eq!(fs::read(root.path().join("large")).unwrap(), b"old");
        put(&store, "small", &vec![2; 256 << 10]).unwrap();
    }
    assert!(names_in(&root.path().join(".deltic")).is_empty());
    store.remove(&path("small"), RemoveOptions::default()).unwrap();
    put(&store, "large", &vec![3; 900 << 10]).unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
    assert_eq!(names_in(root.path()), ["large"]);
}

#[test]
fn a_full_table_of_inodes_is_a_full_disk() {
    let root = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(root.path(), "nr_inodes=4") else { return };
    let store = open_store(root.path());
    let answers: Vec<_> = ["a", "b", "c", "d"].map(|name| put(&store, name, b"x")).into();
    assert!(matches!(answers.last(), Some(Err(StoreError::Full { .. }))), "{answers:?}");
}

#[test]
fn a_file_on_another_mount_is_staged_there_and_swept_there() {
    let (root, store) = new_store();
    let inner = root.path().join("mount");
    fs::create_dir(&inner).unwrap();
    let Some(_mounted) = tmpfs(&inner, "size=8m") else { return };
    store.make_dir(&path("mount/dir"), None).unwrap();
    put(&store, "mount/dir/file", b"x").unwrap();
    store.make_symlink(&path("mount/dir/link"), b"x", &file_meta(), KEEP_ALL).unwrap();
    let rebuild = store.create(&path("mount/dir/file"), 1).unwrap();
    rebuild.write(0, b"y").unwrap();
    assert_eq!(names_in(&inner.join("dir")), [".deltic", "file", "link"]);
    assert!(!root.path().join(".deltic").exists());
    drop((rebuild, store));

    let next = open_store(root.path());
    assert_eq!(next.leftovers(&path("mount/dir/file")).unwrap().len(), 1);
    next.flush().unwrap();
    assert_eq!(next.sweep().unwrap(), 1);
    assert_eq!(names_in(&inner.join("dir")), ["file", "link"]);
    let removed = next.remove(&path("mount"), RemoveOptions::default()).unwrap();
    assert_eq!((removed.gone.len(), removed.stayed.len()), (3, 1), "{removed:?}");
    assert!(names_in(&inner).is_empty());
}

#[test]
fn a_mount_of_the_same_device_is_another_mount() {
    let (root, store) = new_store();
    let inner = root.path().join("mount");
    fs::create_dir(&inner).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut bind = Command::new("mount");
    if !succeeds(bind.arg("--bind").arg(elsewhere.path()).arg(&inner)) {
        return skip("cannot bind a directory here");
    }
    let _mounted = Mounted { at: inner, image: None };
    put(&store, "mount/file", b"x").unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
    assert_eq!(names_in(elsewhere.path()), ["file"]);
}

#[test]
fn a_copy_shares_blocks_where_the_file_system_can() {
    for mkfs in ["mkfs.btrfs", "mkfs.xfs"] {
        let at = tempfile::tempdir().unwrap();
        let Some(_mounted) = loop_mount(at.path(), mkfs) else { continue };
        let store = open_store(at.path());
        let old: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
        put(&store, "old", &old).unwrap();
        let before = free_bytes(at.path());
        let from = store.open(&path("old")).unwrap();
        // A head, an inserted block at an aligned offset, and a tail.
        let rebuild = store.create(&path("new"), LEN + 4096).unwrap();
        rebuild.copy(&from, 0..LEN / 3, 0).unwrap();
        rebuild.write(LEN / 3, &[7; 4096]).unwrap();
        rebuild.copy(&from, LEN / 3..LEN, LEN / 3 + 4096).unwrap();
        let replaces = Replaces::Nothing;
        rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).unwrap();
        let used = before.saturating_sub(free_bytes(at.path()));
        assert!(used < LEN / 8, "{mkfs}: {used} more bytes for a copy of {LEN}");
        let new = fs::read(at.path().join("new")).unwrap();
        let third = (LEN / 3) as usize;
        assert!(new[..third] == old[..third] && new[third + 4096..] == old[third..]);
    }
}

#[test]
fn a_btrfs_and_an_xfs_are_stores() {
    for mkfs in ["mkfs.btrfs", "mkfs.xfs"] {
        let at = tempfile::tempdir().unwrap();
        let Some(_mounted) = loop_mount(at.path(), mkfs) else { continue };
        let make = || {
            let root = tempfile::tempdir_in(at.path()).unwrap().keep();
            open_store(&root)
        };
        conformance::run(make);
    }
}

fn free_bytes(at: &Path) -> u64 {
    syncfs(openat(CWD, at, OFlags::DIRECTORY, Mode::empty()).unwrap()).unwrap();
    let stat = statvfs(at).unwrap();
    stat.f_bfree * stat.f_frsize
}

const LEN: u64 = 24 << 20;
