//! Small files that are committed whole, with and without a staged name; and checks before the commit.

use super::*;
use deltic_store::{Durability, Whole};

/// Opens a store that flushes nothing, so that files need no staged name; with `needs_names`, files get one all the
/// same.
fn quick_store(root: &Path, needs_names: bool) -> LocalStore {
    let options = LocalOptions { durability: Durability::None, ..LocalOptions::default() };
    let store = LocalStore::open(root, options).unwrap();
    if needs_names {
        store.require_names();
    }
    store
}

fn put_whole(store: &LocalStore, at: &str, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
    let meta = Meta { mode, len: bytes.len() as u64, ..file_meta() };
    let file = Whole { path: &path(at), bytes, meta: &meta, seen: None };
    store.replace_all(&[file], KEEP_ALL).pop().unwrap().map(drop)
}

#[test]
fn a_store_that_flushes_nothing_keeps_every_law_whether_files_have_names_or_not() {
    for needs_names in [false, true] {
        let roots = RefCell::new(Vec::new());
        conformance::run(|| {
            let root = tempfile::tempdir().unwrap();
            let store = quick_store(root.path(), needs_names);
            roots.borrow_mut().push(root);
            store
        });
    }
}

/// Modes that an open call can set, that a umask would clear bits of, and that an open call cannot set; each with a
/// file length.
const MODES: [(&str, u32, usize); 5] = [
    ("a", 0o644, 5000),
    ("b", 0o600, 0),
    ("c", 0o777, 1),
    ("d", 0o4711, 4096),
    ("e", 0o444, 70_000),
];

#[test]
fn a_file_is_the_same_whether_it_had_a_name_before_or_not() {
    let made = [false, true].map(|needs_names| {
        let root = tempfile::tempdir().unwrap();
        let store = quick_store(root.path(), needs_names);
        store.make_dir(&path("dir"), None).unwrap();
        let of = |(name, mode, len): (&str, u32, usize)| {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            put_whole(&store, &format!("dir/{name}"), &bytes, mode).unwrap();
            let at = root.path().join("dir").join(name);
            let is = fs::metadata(&at).unwrap();
            assert_eq!(fs::read(&at).unwrap(), bytes);
            assert_eq!((is.mode() & 0o7777, is.nlink()), (mode, 1), "{name}");
            (is.mode(), is.gid(), is.mtime(), is.mtime_nsec(), is.len())
        };
        let made = MODES.map(of);
        assert!(names_in(&root.path().join(".deltic")).is_empty());
        made
    });
    assert_eq!(made[0], made[1]);
}

#[test]
fn what_came_meanwhile_is_not_written_over_whether_the_new_file_has_a_name_or_not() {
    for needs_names in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let store = quick_store(root.path(), needs_names);
        fs::write(root.path().join("file"), b"theirs").unwrap();
        fs::create_dir(root.path().join("dir")).unwrap();
        for at in ["file", "dir"] {
            let answer = put_whole(&store, at, b"ours", 0o644);
            assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
        }
        assert_eq!(fs::read(root.path().join("file")).unwrap(), b"theirs");
        // The conflict does not affect other files.
        put_whole(&store, "other", b"ours", 0o644).unwrap();
        let gone = put_whole(&store, "gone/file", b"ours", 0o644);
        assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
        assert!(names_in(&root.path().join(".deltic")).is_empty());
    }
}

#[test]
fn what_came_into_a_directory_that_was_made_here_is_seen() {
    let (root, store) = new_store();
    store.make_dir(&path("dir"), None).unwrap();
    let all = ["dir/a", "dir/b", "dir/c", "dir/d", "dir/e"].map(path);
    let there = |paths: &[RelPath]| -> Vec<bool> {
        store.look_all(paths).into_iter().map(|found| found.unwrap().is_some()).collect()
    };
    assert_eq!(there(&all), [false; 5]);
    let mixed = [all[0].clone(), path("dir"), path("a"), path("dir/a/b"), path("dir/b")];
    assert_eq!(there(&mixed), [false, true, false, false, false]);
    fs::write(root.path().join("dir/b"), b"theirs").unwrap();
    assert_eq!(there(&all), [false, true, false, false, false]);
    fs::remove_file(root.path().join("dir/b")).unwrap();
    let ours = path("dir/.deltic");
    let answer = store.look_all(&[&all[..], &[ours]].concat()).pop().unwrap();
    assert!(matches!(answer, Err(StoreError::BadName { .. })), "{answer:?}");
}
