//! Stores with other ways of writing than the default.

use deltic_store::{Posix, Resumable, Whole};
use std::ops::Range;

use super::*;

fn store_with(root: &Path, writing: CommitOptions) -> LocalStore {
    LocalStore::open(root, LocalOptions { writing, ..LocalOptions::default() }).unwrap()
}

/// Runs the conformance tests on stores with this `writing`, which get a directory of their own in `aside`.
fn keep_every_law(aside: &str, writing: impl Fn(&Path) -> CommitOptions) {
    let dirs = RefCell::new(Vec::new());
    conformance::run(|| {
        let root = tempfile::tempdir().unwrap();
        let aside = TempDir::new_in(aside).unwrap();
        let store = store_with(root.path(), writing(aside.path()));
        dirs.borrow_mut().extend([root, aside]);
        store
    });
}

#[test]
fn stores_that_write_otherwise_keep_every_law() {
    for (sparse, preallocate) in [(true, false), (false, true), (true, true)] {
        keep_every_law("/tmp", |_| CommitOptions {
            sparse,
            preallocate,
            ..CommitOptions::default()
        });
    }
    // `/dev/shm` is most likely another file system.
    for aside in ["/tmp", "/dev/shm"].into_iter().filter(|aside| Path::new(aside).exists()) {
        keep_every_law(aside, |aside| CommitOptions {
            temp_dir: Some(NamedDir::new(aside, Trust::Ours)),
            ..CommitOptions::default()
        });
    }
}

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns ranges that tile `len` bytes, in random order. Some have an offset in the `old_len` old bytes to copy
/// from.
fn tiles(dice: &mut Dice, len: u64, old_len: u64) -> Vec<(Range<u64>, Option<u64>)> {
    let (mut tiles, mut start) = (Vec::new(), 0);
    while start < len {
        let end = len.min(start + 1 + dice.below(300_000));
        let span = end - start;
        let from = match dice.below(3) {
            0 if end <= old_len => Some(start),
            1 if span <= old_len => Some(dice.below(old_len - span + 1)),
            _ => None,
        };
        tiles.push((start..end, from));
        start = end;
    }
    for at in (1..tiles.len()).rev() {
        tiles.swap(at, dice.below(at as u64 + 1) as usize);
    }
    tiles
}

/// Writes these tiles of a new version.
fn fill(
    rebuild: &LocalRebuild,
    (snapshot, old): (&LocalSnapshot, &[u8]),
    tiles: &[(Range<u64>, Option<u64>)],
    (new, dice): (&mut [u8], &mut Dice),
) {
    for (span, from) in tiles {
        let room = &mut new[span.start as usize..span.end as usize];
        match *from {
            Some(from) => {
                room.copy_from_slice(&old[from as usize..][..room.len()]);
                let range = from..from + room.len() as u64;
                rebuild.copy(snapshot, range, span.start).unwrap();
            }
            None => {
                room.fill(dice.below(3) as u8);
                rebuild.write(span.start, room).unwrap();
            }
        }
    }
}

/// Returns bytes that repeat here and there.
fn old_version(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at / 5000 % 3 * at % 251) as u8).collect()
}

/// The resumed run may be of another version. Then no staged bytes of the first run appear at offsets where the old
/// version has the right bytes.
#[test]
fn a_change_in_place_that_was_interrupted_goes_on() {
    let mut resumed_runs = 0;
    for seed in 0..40 {
        let dice = &mut Dice(seed);
        let root = tempfile::tempdir().unwrap();
        let store =
            || store_with(root.path(), CommitOptions { inplace: true, ..CommitOptions::default() });
        let (old_len, len) = (1 + dice.below(1 << 20), 1 + dice.below(1 << 20));
        let old = old_version(old_len);
        fs::write(root.path().join("file"), &old).unwrap();
        let (mut first, mut staged) = (vec![0; len as usize], Vec::new());
        {
            let store = store();
            let rebuild = store.create(&path("file"), len).unwrap();
            let snapshot = store.open(&path("file")).unwrap();
            let mut tiles = tiles(dice, len, old_len);
            tiles.truncate(tiles.len() / 2 + 1);
            fill(&rebuild, (&snapshot, &old), &tiles, (&mut first, dice));
            for (span, from) in tiles {
                let is_staged = rebuild.has_staged(&span);
                match from {
                    None => assert!(is_staged, "seed {seed}"),
                    Some(from) if from == span.start => assert!(!is_staged, "seed {seed}"),
                    // The bytes may equal those already at that offset.
                    Some(_) => {}
                }
                staged.extend(is_staged.then_some(span));
            }
            rebuild.note(b"something").unwrap();
        }
        let store = store();
        // If no data was sent, nothing is left to resume.
        let Some(Resumed { rebuild, .. }) = store.resume(&path("file"), len).unwrap() else {
            continue;
        };
        resumed_runs += 1;
        staged.iter().for_each(|span| rebuild.mark_staged(span.clone()));
        let snapshot = store.open(&path("file")).unwrap();
        let mut new = first.clone();
        let mut tiles = tiles(dice, len, old_len);
        let is_staged = |span: &Range<u64>| {
            staged.iter().any(|staged| staged.start <= span.start && span.end <= staged.end)
        };
        tiles.retain(|(span, _)| !is_staged(span) || dice.below(2) == 0);
        fill(&rebuild, (&snapshot, &old), &tiles, (&mut new, dice));
        let mut read = vec![9; len as usize];
        assert_eq!(rebuild.read_at(0, &mut read).unwrap() as u64, len, "seed {seed}");
        assert!(read == new, "seed {seed}");
        let replaces = Replaces::Version(&snapshot);
        rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).unwrap();
        assert!(fs::read(root.path().join("file")).unwrap() == new, "seed {seed}");
        store.sweep().unwrap();
        assert_eq!(names_in(root.path()), ["file"]);
    }
    assert!(resumed_runs > 20, "{resumed_runs}");
}

#[test]
fn whatever_moves_in_place_comes_from_the_old_version() {
    for seed in 0..40 {
        let dice = &mut Dice(seed);
        let root = tempfile::tempdir().unwrap();
        let sparse = dice.below(2) == 0;
        let writing = CommitOptions { sparse, inplace: true, ..CommitOptions::default() };
        let store = store_with(root.path(), writing);
        let (old_len, len) = (1 + dice.below(1 << 20), dice.below(1 << 20));
        let old = old_version(old_len);
        let file = root.path().join("file");
        fs::write(&file, &old).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let rebuild = store.create(&path("file"), len).unwrap();
        let snapshot = store.open(&path("file")).unwrap();
        let mut new = vec![0; len as usize];
        let tiles = tiles(dice, len, old_len);
        fill(&rebuild, (&snapshot, &old), &tiles, (&mut new, dice));
        let mut read = vec![9; len as usize];
        assert_eq!(rebuild.read_at(0, &mut read).unwrap() as u64, len, "seed {seed}");
        assert!(read == new, "seed {seed}");
        assert!(fs::read(&file).unwrap() == old, "seed {seed}: it changed before the commit");
        let replaces = Replaces::Version(&snapshot);
        rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).unwrap();
        assert!(fs::read(&file).unwrap() == new, "seed {seed}");
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
        assert_eq!(store.look(&path("file")).unwrap().unwrap().modified, file_meta().modified);
        store.sweep().unwrap();
        assert_eq!(names_in(root.path()), ["file"]);
    }
}

#[test]
fn what_changed_meanwhile_is_not_written_over_in_place() {
    let root = tempfile::tempdir().unwrap();
    let store =
        store_with(root.path(), CommitOptions { inplace: true, ..CommitOptions::default() });
    fs::write(root.path().join("file"), "old").unwrap();
    let seen = store.look(&path("file")).unwrap().unwrap();
    let rebuild = store.create(&path("file"), 3).unwrap();
    rebuild.write(0, b"new").unwrap();
    fs::write(root.path().join("file"), "theirs").unwrap();
    let replaces = Replaces::Seen(&seen);
    let done = rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces });
    assert!(matches!(done, Err(StoreError::Conflict { .. })), "{done:?}");
    assert_eq!(fs::read(root.path().join("file")).unwrap(), b"theirs");
}

#[test]
fn what_waits_gets_its_name_when_it_is_told_to_and_not_over_what_came_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let store = store_with(root.path(), CommitOptions { delay: true, ..CommitOptions::default() });
    fs::write(root.path().join("one"), "old").unwrap();
    for name in ["one", "two", "three"] {
        put(&store, name, b"new").unwrap();
    }
    assert_eq!(names_in(root.path()), [".deltic", "one"]);
    assert_eq!(fs::read(root.path().join("one")).unwrap(), b"old");
    fs::write(root.path().join("two"), "theirs").unwrap();
    let failed = store.land(&|_, _| false);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(matches!(&failed[0], (at, StoreError::Conflict { .. }) if *at == path("two")));
    let content = |name: &str| fs::read(root.path().join(name)).unwrap();
    assert_eq!(
        [content("one"), content("two"), content("three")],
        [&b"new"[..], b"theirs", b"new"]
    );
    assert!(store.land(&|_, _| false).is_empty());
    store.sweep().unwrap();
    assert_eq!(names_in(root.path()), ["one", "three", "two"]);
}

#[test]
fn what_is_not_complete_is_shown_until_it_is() {
    for beside in [true, false] {
        let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let partial = match beside {
            true => PartialDir::Beside(path(".part")),
            false => PartialDir::Outside(NamedDir::new(kept.path().join("made"), Trust::Ours)),
        };
        let writing = CommitOptions { partial_dir: Some(partial), ..CommitOptions::default() };
        let store = store_with(root.path(), writing);
        fs::create_dir(root.path().join("dir")).unwrap();
        let dir = match beside {
            true => root.path().join("dir/.part"),
            false => kept.path().join("made"),
        };
        let rebuild = store.create(&path("dir/file"), 6).unwrap();
        assert!(!dir.exists(), "there is nothing to be seen of it");
        rebuild.write(0, b"abc").unwrap();
        assert_eq!(fs::read(dir.join("file")).unwrap(), b"abc\0\0\0");
        drop(rebuild);
        assert_eq!(fs::read(dir.join("file")).unwrap(), b"abc\0\0\0");
        // The file is found as a leftover, and only once.
        let left = store.leftovers(&path("dir/file")).unwrap();
        assert_eq!(left.len(), 1);
        store.sweep().unwrap();
        assert_eq!(store.leftovers(&path("dir/file")).unwrap().len(), 1);
        put(&store, "dir/file", b"abcdef").unwrap();
        assert_eq!(dir.exists(), !beside);
        assert!(!dir.join("file").exists());
        store.sweep().unwrap();
        assert_eq!(names_in(&root.path().join("dir")), ["file"]);
    }
}

#[test]
fn a_store_that_may_replace_no_version_only_creates_files() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("old"), "old").unwrap();
    let replaceable = Replaceable::only(|present| present.is_none());
    let store =
        LocalStore::open(root.path(), LocalOptions { replaceable, ..LocalOptions::default() })
            .unwrap();
    let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
    let is_conflict = |error: StoreError| matches!(error, StoreError::Conflict { .. });
    assert!(is_conflict(store.create(&path("old"), 3).unwrap_err()));
    assert!(is_conflict(store.create_sparse(&path("old"), 3, 3).unwrap_err()));
    assert!(is_conflict(store.resume(&path("old"), 3).unwrap_err()));
    assert!(store.create(&path("new"), 3).is_ok());
    assert!(store.resume(&path("new"), 3).unwrap().is_none());
    let meta = Meta::without_owner(Kind::File, 3, Timestamp::default(), 0o644);
    let paths = [path("old"), path("new")];
    let files = paths.each_ref().map(|path| Whole { path, bytes: b"new", meta: &meta, seen: None });
    let [old, new] = <[_; 2]>::try_from(store.replace_all(&files, Keep::default())).unwrap();
    assert!(is_conflict(old.unwrap_err()) && new.is_ok());
    let read = |name: &str| std::fs::read_to_string(root.path().join(name)).unwrap();
    assert_eq!((read("old"), read("new")), ("old".into(), "new".into()));
}

#[test]
fn a_condition_on_the_replaced_version_holds_until_the_commit() {
    let root = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let file = std::fs::File::create(root.path().join(name)).unwrap();
        std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(7)).unwrap();
    };
    put("file", "AAAA");
    put("other", "BBBB");
    let path = RelPath::parse(b"file").unwrap();
    let wanted = LocalStore::open(root.path(), LocalOptions::default()).unwrap();
    let wanted = wanted.open(&path).unwrap().stamp();
    let replaceable = Replaceable::only(move |is| is.is_some_and(|is| is.stamp() == wanted));
    let store =
        LocalStore::open(root.path(), LocalOptions { replaceable, ..LocalOptions::default() })
            .unwrap();
    let seen = store.look(&path).unwrap().unwrap();
    let rebuild = store.create(&path, 4).unwrap();
    rebuild.write(0, b"CCCC").unwrap();
    std::fs::rename(root.path().join("other"), root.path().join("file")).unwrap();
    assert_eq!(store.look(&path).unwrap().unwrap().modified, seen.modified);
    let commit = Commit { meta: &file_meta(), keep: KEEP_ALL, replaces: Replaces::Seen(&seen) };
    assert!(matches!(rebuild.commit(commit), Err(StoreError::Conflict { .. })));
    assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"BBBB");
}
