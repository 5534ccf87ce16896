#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at trees from outside"
)]

mod contexts;
mod facts;
mod jail;
mod kill;
mod mounts;
mod race;
mod sources;
mod whole;
mod writing;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use deltic_tree::rule::{Action, FilterSide, Rule, Rules};
use deltic_tree::{EntryType, Follow, Kind, Meta, RelPath, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::handles::dir::{Dir, Way};
use deltic_store::conformance::KEEP_ALL;
use deltic_store::{
    Commit, Filter, Keep, Posix, Rebuild, RemoveOptions, RemoveResult, Replaces, Resumed, Snapshot,
    Store, StoreError, Tree, conformance,
};

const WAYS: [Way; 2] = [Way::Kernel, Way::Walk];

fn store_in(root: &Path, way: Way, rules: Filter) -> LocalStore {
    let named = NamedDir::new(root, Trust::Anyone);
    let dir = Dir::open_root(root, &named.context.shared).unwrap().with_resolver(way);
    LocalStore::new(dir, &named, LocalOptions { rules, ..LocalOptions::default() }).unwrap()
}

fn open_store(root: &Path) -> LocalStore {
    LocalStore::open(root, LocalOptions::default()).unwrap()
}

fn new_store() -> (TempDir, LocalStore) {
    let root = tempfile::tempdir().unwrap();
    let store = open_store(root.path());
    (root, store)
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn file_meta() -> Meta {
    let modified = Timestamp { secs: 1_000_000_000, nanos: 5 };
    Meta::without_owner(Kind::File, 0, modified, 0o644)
}

fn put(store: &impl Store, at: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let rebuild = store.create(&path(at), bytes.len() as u64)?;
    rebuild.write(0, bytes)?;
    let seen = store.look(&path(at))?;
    let replaces = Replaces::seen(seen.as_ref());
    rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).map(drop)
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mkfifo(at: &Path) {
    assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
}

/// Reports that a test cannot run here.
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[test]
fn a_local_directory_is_a_store_however_paths_are_resolved() {
    for way in WAYS {
        let roots = RefCell::new(Vec::new());
        let make = |rules| {
            let root = tempfile::tempdir().unwrap();
            let store = store_in(root.path(), way, rules);
            roots.borrow_mut().push(root);
            store
        };
        conformance::run(|| make(Filter::default()));
        conformance::run_filtered(make);
    }
}

#[test]
fn opening_a_store_changes_nothing_and_a_swept_one_leaves_nothing() {
    let (root, store) = new_store();
    assert!(names_in(root.path()).is_empty());
    put(&store, "file", b"x").unwrap();
    assert_eq!(names_in(root.path()), [".deltic", "file"]);
    store.flush().unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
    assert_eq!(names_in(root.path()), ["file"]);
    put(&store, "file", b"y").unwrap();
}

/// Holds although this store has not looked at the file before.
#[test]
fn a_file_is_no_older_backup_of_itself() {
    for inplace in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let dir = NamedDir::new(root.path(), Trust::Ours);
        let backup = BackupPlace {
            dir: Some(dir),
            suffix: Box::default(),
            below: None,
            mixed: false,
            drops_unsafe_links: false,
        };
        let writing = CommitOptions { inplace, ..CommitOptions::default() };
        let options = LocalOptions { backup: Some(backup), writing, ..LocalOptions::default() };
        let store = LocalStore::open(root.path(), options).unwrap();
        put(&store, "file", b"old").unwrap();
        assert!(put(&store, "file", b"new").is_err());
        let going = RemoveOptions::default();
        let removed = store.remove(&path("file"), going);
        assert!(removed.map_or(true, |removed| removed.gone.is_empty()), "{inplace}");
        // A hard link elsewhere may not be replaced by the backup either.
        fs::create_dir(root.path().join("sub")).unwrap();
        fs::hard_link(root.path().join("file"), root.path().join("sub/file")).unwrap();
        assert!(put(&store, "file", b"new").is_err());
        assert_eq!(fs::read(root.path().join("file")).unwrap(), b"old", "{inplace}");
    }
}

#[test]
fn the_way_to_an_old_version_leads_round_what_is_listed_and_not_there_yet() {
    let root = tempfile::tempdir().unwrap();
    let dir = NamedDir::new(root.path().join("k"), Trust::Ours);
    let (suffix, below) = (Box::default(), Some(path("k")));
    let backup = Some(BackupPlace {
        dir: Some(dir),
        suffix,
        below,
        mixed: false,
        drops_unsafe_links: false,
    });
    let options = LocalOptions { backup, ..LocalOptions::default() };
    let store = LocalStore::open(root.path(), options).unwrap();
    fs::create_dir(root.path().join("x")).unwrap();
    put(&store, "x/y", b"old").unwrap();
    store.look_all(&[path("k"), path("k/x")]);
    put(&store, "x/y", b"new").unwrap();
    assert_eq!(fs::read(root.path().join("k/k/x/y")).unwrap(), b"old");
    put(&store, "k/x", b"listed").unwrap();
}

#[test]
fn a_root_is_made_but_not_the_way_to_it() {
    let above = tempfile::tempdir().unwrap();
    let create = |path: &str| {
        let dir = NamedDir::new(above.path().join(path), Trust::Ours);
        create_root(&dir, deltic_store::Durability::Run, &[])
    };
    assert!(create("root").unwrap());
    assert_eq!(above.path().join("root").metadata().unwrap().mode() & 0o077, 0);
    assert!(!create("root").unwrap());
    let missing = create("no/root");
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
    fs::write(above.path().join("file"), b"").unwrap();
    assert!(create("file").is_err());
    let no_dir = LocalStore::open(&above.path().join("file"), LocalOptions::default());
    assert!(matches!(no_dir, Err(StoreError::NotADir { .. })));
}

#[test]
fn what_is_staged_is_its_owners_alone() {
    let (root, store) = new_store();
    let rebuild = store.create(&path("file"), 1 << 40).unwrap();
    let staging = root.path().join(".deltic");
    let staged = staging.join(&names_in(&staging)[0]);
    assert_eq!(fs::metadata(&staging).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(&staged).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(&staged).unwrap().len(), 1 << 40);
    assert_eq!(fs::metadata(&staged).unwrap().blocks(), 0);
    rebuild.discard().unwrap();
}

#[test]
fn a_special_file_is_listed_and_never_waited_for() {
    let (root, store) = new_store();
    mkfifo(&root.path().join("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let listing = store.list(&RelPath::root()).unwrap();
    assert!(listing.errors.is_empty());
    for entry in &listing.entries {
        let is_special = matches!(entry.meta.kind, Kind::Fifo | Kind::Socket);
        assert!(is_special && entry.meta.len == 0, "{entry:?}");
        let at = RelPath::root().join(&entry.name).unwrap();
        assert!(matches!(store.open(&at), Err(StoreError::NotAFile { .. })));
        let set = store.set_meta(&at, &file_meta(), KEEP_ALL);
        assert!(matches!(set, Err(StoreError::NotAFile { .. })), "{set:?}");
        put(&store, entry.name.to_string().as_str(), b"x").unwrap();
    }
    assert_eq!(listing.entries.len(), 2);
    assert_eq!(fs::read(root.path().join("fifo")).unwrap(), b"x");
}

#[test]
fn an_edit_from_outside_is_noticed_even_if_it_puts_the_time_back() {
    let (root, store) = new_store();
    let file = root.path().join("file");
    fs::write(&file, b"old").unwrap();
    let old = store.open(&path("file")).unwrap();
    let rebuild = store.create(&path("file"), 3).unwrap();
    rebuild.write(0, b"new").unwrap();
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    // Longer than the tick of the clock for file times.
    thread::sleep(Duration::from_millis(20));
    fs::write(&file, b"own").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    assert!(matches!(old.check_unchanged(), Err(StoreError::Changed { .. })));
    let replaces = Replaces::Version(&old);
    let answer = rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces });
    assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
    assert_eq!(fs::read(&file).unwrap(), b"own");
}

#[test]
fn a_version_of_a_file_is_removed_and_no_other_one() {
    let (root, store) = new_store();
    let file = root.path().join("file");
    put(&store, "file", b"old").unwrap();
    let old = store.open(&path("file")).unwrap();
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    // Another file with the same length and time.
    put(&store, "file", b"new").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    let answer = store.remove_version(&path("file"), &old);
    assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
    assert_eq!(fs::read(&file).unwrap(), b"new");
    let new = store.open(&path("file")).unwrap();
    store.remove_version(&path("file"), &new).unwrap();
    assert!(!file.exists());
    let answer = store.remove_version(&path("file"), &new);
    assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
}

#[test]
fn replacing_a_hard_link_leaves_its_other_name_alone() {
    let (root, store) = new_store();
    let outside = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
    fs::write(outside.path().join("file"), b"outside").unwrap();
    fs::hard_link(outside.path().join("file"), root.path().join("file")).unwrap();
    put(&store, "file", b"inside").unwrap();
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"outside");
}

#[test]
fn each_name_of_a_file_is_replaced_whatever_became_of_the_others() {
    let (root, store) = new_store();
    fs::write(root.path().join("a"), b"old").unwrap();
    for name in ["b", "c"] {
        fs::hard_link(root.path().join("a"), root.path().join(name)).unwrap();
    }
    let old = ["a", "b", "c"].map(|name| store.open(&path(name)).unwrap());
    for (name, old) in ["a", "b", "c"].into_iter().zip(&old) {
        // Longer than the tick of the clock for file times.
        thread::sleep(Duration::from_millis(20));
        let rebuild = store.create(&path(name), 3).unwrap();
        rebuild.write(0, name.as_bytes()).unwrap();
        rebuild.write(1, b"ew").unwrap();
        let replaces = Replaces::Version(old);
        rebuild.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces }).unwrap();
        assert_eq!(fs::read(root.path().join(name)).unwrap(), [name.as_bytes(), b"ew"].concat());
    }
}

#[test]
fn an_old_file_loses_its_privileges_unless_they_are_sent() {
    let (root, store) = new_store();
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4711)).unwrap();
    let seen = store.look(&path("file")).unwrap().unwrap();
    let rebuild = store.create(&path("file"), 0).unwrap();
    let (keep, replaces) = (Keep::default(), Replaces::Seen(&seen));
    rebuild.commit(Commit { meta: &file_meta(), keep, replaces }).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o711);
}

#[test]
fn a_directory_made_here_gets_a_mode_and_an_old_one_keeps_its_own() {
    let (root, store) = new_store();
    fs::create_dir(root.path().join("old")).unwrap();
    fs::set_permissions(root.path().join("old"), fs::Permissions::from_mode(0o711)).unwrap();
    let meta = Meta { kind: Kind::Dir, mode: 0o2777, ..file_meta() };
    for at in ["old", "new"] {
        store.make_dir(&path(at), None).unwrap();
        store.set_meta(&path(at), &meta, Keep::default()).unwrap();
    }
    let mode = |at| fs::metadata(root.path().join(at)).unwrap().mode() & 0o7777;
    assert_eq!((mode("old"), mode("new")), (0o711, 0o777 & !super::umask()));
}

#[test]
fn a_strangers_files_in_the_staging_directory_stay() {
    let (root, store) = new_store();
    let staging = root.path().join(".deltic");
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join("letter.tmp"), b"x").unwrap();
    fs::write(staging.join("0123456789abcdef0123456789abcdef.0123456789abcdef.tmp"), b"").unwrap();
    assert_eq!(store.sweep().unwrap(), 1);
    assert_eq!(names_in(&staging), ["letter.tmp"]);
}

#[test]
fn a_staging_directory_that_is_a_symlink_is_passed_over() {
    let (root, store) = new_store();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.path().join(".deltic")).unwrap();
    put(&store, "file", b"x").unwrap();
    assert!(store.leftovers(&path("file")).unwrap().is_empty());
    assert_eq!(store.sweep().unwrap(), 0);
    assert_eq!(names_in(root.path()), [".deltic", "file"]);
    assert!(names_in(outside.path()).is_empty());
}

#[test]
fn removing_a_directory_takes_the_litter_of_an_older_root_along() {
    let (root, store) = new_store();
    fs::create_dir(root.path().join("sub")).unwrap();
    let inner = open_store(&root.path().join("sub"));
    let rebuild = inner.create(&path("file"), 1).unwrap();
    rebuild.write(0, b"x").unwrap();
    let busy = store.remove(&path("sub"), RemoveOptions::default()).unwrap();
    let why: Vec<_> = busy.stayed.iter().map(ToString::to_string).collect();
    assert_eq!(why, ["cannot delete non-empty directory: sub (new entries appeared in it)"]);
    drop((rebuild, inner));
    assert_eq!(store.remove(&path("sub"), RemoveOptions::default()).unwrap().gone.len(), 1);
    assert!(names_in(root.path()).is_empty());
}

/// Names in several directories, in any order, of all types.
#[test]
fn what_is_removed_together_goes_as_it_would_alone() {
    let (root, _) = new_store();
    for name in ["a/1", "a/2", "b/d/3", "b/4", "a/keep", "5"] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    symlink("nowhere", root.path().join("a/link")).unwrap();
    let list = vec![Rule::plain(Action::Exclude, b"keep"), Rule::plain(Action::Exclude, b"b/d/")];
    let rules = Filter::new(&Rules { list, ..Rules::default() }, FilterSide::Receiver);
    let store = store_in(root.path(), Way::Kernel, rules);
    let names = ["a/1", "a/link", "b/4", "b/d", "a/2", "a/keep", "a/none", "a", "5"];
    let removed = store.remove_all(&names.map(|name| (path(name), RemoveOptions::default())));
    let told = |removed: RemoveResult| (removed.gone.len(), removed.stayed.len());
    let told: Vec<_> = removed.into_iter().map(|removed| removed.map(told).map_err(drop)).collect();
    let kept = [Ok((0, 0)), Ok((1, 0)), Ok((0, 0)), Err(()), Ok((0, 1))];
    assert_eq!(told, [&[Ok((1, 0)); 3][..], &kept, &[Ok((1, 0))]].concat());
    assert_eq!(names_in(root.path()), ["a", "b"]);
    assert_eq!(names_in(&root.path().join("a")), ["keep"]);
    assert_eq!(names_in(&root.path().join("b/d")), ["3"]);
}

#[test]
fn the_deepest_tree_that_can_be_named_can_be_removed() {
    let (root, store) = new_store();
    let mut dir = RelPath::root();
    while let Ok(deeper) = dir.join(&deltic_tree::Name::new(b"d").unwrap()) {
        store.make_dir(&deeper, None).unwrap();
        dir = deeper;
    }
    // More names than one call removes.
    for no in 0..500 {
        fs::write(root.path().join(format!("d/{no}")), "").unwrap();
    }
    let all = deltic_tree::path::MAX_DEPTH + 500;
    let mut gone = Vec::new();
    while gone.len() < all {
        let some = store.remove(&path("d"), RemoveOptions::default()).unwrap();
        assert!(!some.gone.is_empty() && some.gone.len() <= 256, "{}", some.gone.len());
        gone.extend(some.gone);
        assert_eq!(some.goes_on, gone.len() < all);
    }
    assert_eq!(gone.last(), Some(&(path("d"), EntryType::Dir)));
    assert!(names_in(root.path()).is_empty());
}

#[test]
fn commits_and_sweeps_do_not_hinder_each_other() {
    let (root, store) = new_store();
    thread::scope(|scope| {
        let writers = ["a", "b"].map(|name| {
            let store = &store;
            scope.spawn(move || {
                for round in 0..150_u8 {
                    put(store, name, &[round]).unwrap();
                    store
                        .make_symlink(&path("link"), &[b'a' + round % 26], &file_meta(), KEEP_ALL)
                        .unwrap();
                }
            })
        });
        let other = open_store(root.path());
        while writers.iter().any(|writer| !writer.is_finished()) {
            other.sweep().unwrap();
            thread::sleep(Duration::from_micros(100));
        }
    });
    assert_eq!(fs::read(root.path().join("a")).unwrap(), [149]);
    store.sweep().unwrap();
    assert_eq!(names_in(root.path()), ["a", "b", "link"]);
}

#[test]
fn every_directory_with_a_changed_name_is_flushed_once() {
    let (_root, store) = new_store();
    store.make_dir(&path("dir"), None).unwrap();
    put(&store, "dir/a", b"x").unwrap();
    put(&store, "dir/b", b"x").unwrap();
    store.make_dir(&path("gone"), None).unwrap();
    put(&store, "gone/file", b"x").unwrap();
    store.remove(&path("gone"), RemoveOptions::default()).unwrap();
    let touched = store.touched_dirs();
    assert_eq!(touched, [RelPath::root(), path(".deltic"), path("dir"), path("gone")]);
    store.flush().unwrap();
    assert!(store.touched_dirs().is_empty());
}

#[test]
fn a_directory_that_is_as_it_should_be_is_left_alone() {
    let (root, store) = new_store();
    fs::create_dir(root.path().join("dir")).unwrap();
    let is = || fs::metadata(root.path().join("dir")).unwrap();
    let changed = || (is().ctime(), is().ctime_nsec());
    let meta = store.look(&path("dir")).unwrap().unwrap();
    let before = changed();
    thread::sleep(Duration::from_millis(20));
    store.set_meta(&path("dir"), &meta, conformance::KEEP_ALL).unwrap();
    assert_eq!((changed(), store.touched_dirs()), (before, Vec::new()));
    let other = [
        Meta { mode: meta.mode ^ 0o001, ..meta.clone() },
        Meta { modified: Timestamp { secs: meta.modified.secs, nanos: 7 }, ..meta.clone() },
    ];
    for meta in other {
        store.set_meta(&path("dir"), &meta, conformance::KEEP_ALL).unwrap();
        let now = store.look(&path("dir")).unwrap().unwrap();
        assert_eq!((now.mode, now.modified), (meta.mode, meta.modified));
        assert_eq!(store.touched_dirs(), [path("dir")]);
        store.flush().unwrap();
    }
}

#[test]
fn versions_are_told_without_opening_what_has_them() {
    let (root, store) = new_store();
    fs::create_dir_all(root.path().join("dir/deep")).unwrap();
    symlink("a", root.path().join("dir/link")).unwrap();
    for name in ["dir/a", "dir/b", "dir/deep/c"] {
        fs::write(root.path().join(name), name).unwrap();
    }
    let args = || sources::packed([SourceArg::new(root.path().join("").as_os_str()).unwrap()]);
    let options = SourceOptions { recursive: true, ..SourceOptions::default() };
    let sources = SourceTree::new(args(), options.clone());
    check_versions(&store);
    check_versions(&sources);
    // With followed links, a version is only known once the file is open.
    let follow = Follow::All;
    let sources = SourceTree::new(args(), SourceOptions { follow, ..options });
    assert_eq!(sources.versions(&[path("dir/a")]), [None]);
}

fn check_versions(tree: &impl Tree) {
    let identity = |at: &str| tree.open(&path(at)).unwrap().identity();
    if identity("dir/a").is_none() {
        return skip("versions do not last on this file system");
    }
    let paths = ["dir/a", "dir/b", "dir/deep/c", "dir/link", "dir/deep", "no"].map(path);
    let versions = tree.versions(&paths);
    assert_eq!(versions[..3], ["dir/a", "dir/b", "dir/deep/c"].map(identity));
    assert_eq!(versions[3..], [None, None, None]);
    let (plain, listing) =
        (tree.list(&path("dir")).unwrap(), tree.list_versions(&path("dir")).unwrap());
    assert_eq!(listing.entries, plain.entries);
    assert_eq!(listing.versions, [identity("dir/a"), identity("dir/b"), None, None]);
    assert!(plain.versions.is_empty());
}
