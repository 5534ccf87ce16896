//! Races with another process that swaps a directory for a symlink, or replaces a file that this process replaces.

use deltic_store::Posix;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use deltic_tree::Name;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::*;

/// Shortest duration of a race.
const PERIOD: Duration = Duration::from_millis(500);
/// Longest duration, on a busy machine with hardly any races.
const PATIENCE: Duration = Duration::from_secs(60);
/// Successes, and refusals, that a race must exceed.
const ENOUGH: usize = 20;

#[test]
fn nothing_outside_is_touched_while_a_directory_turns_into_a_symlink_and_back() {
    for way in WAYS {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        for (dir, secret) in [(outside.path(), "secret"), (&root.path().join("flip"), "own")] {
            fs::create_dir_all(dir.join("sub")).unwrap();
            fs::write(dir.join("file"), secret).unwrap();
            fs::write(dir.join(secret), secret).unwrap();
        }
        symlink(outside.path(), root.path().join("link")).unwrap();
        let before = look_of(outside.path());
        let store = store_in(root.path(), way, Filter::default());
        let (done, refused) = flipping(root.path(), || act(&store));
        assert!(
            done > ENOUGH && refused > ENOUGH,
            "no race: {done} done, {refused} refused by {way:?}"
        );
        assert_eq!(look_of(outside.path()), before, "{way:?}");
    }
}

#[test]
fn of_many_who_replace_one_version_one_does() {
    const WRITERS: usize = 6;
    let root = tempfile::tempdir().unwrap();
    let write = |at: &RelPath, no: usize, begin: &Barrier| {
        let store = open_store(root.path());
        let old = store.look(at).unwrap().map(|_| store.open(at).unwrap());
        let new = store.create(at, 1).unwrap();
        new.write(0, &[no as u8]).unwrap();
        let replaces = old.as_ref().map_or(Replaces::Nothing, Replaces::Version);
        begin.wait();
        new.commit(Commit { meta: &file_meta(), keep: KEEP_ALL, replaces })
    };
    for round in 0..60 {
        let at = path(&format!("file{}", round / 2));
        let begin = Barrier::new(WRITERS);
        let done: Vec<_> = thread::scope(|scope| {
            let (at, begin, write) = (&at, &begin, &write);
            let writers: Vec<_> =
                (0..WRITERS).map(|no| scope.spawn(move || write(at, no, begin))).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let first = done.iter().position(Result::is_ok).unwrap();
        for (no, done) in done.iter().enumerate() {
            let is_right = done.is_ok() == (no == first);
            let is_refused = matches!(done, Ok(_) | Err(StoreError::Conflict { .. }));
            assert!(is_right && is_refused, "round {round}, {no}, first {first}: {done:?}");
        }
        let there = fs::read(root.path().join(format!("file{}", round / 2))).unwrap();
        assert_eq!(there, [first as u8], "round {round}");
    }
}

/// Runs `act` repeatedly while `flip` and `link` of `root` are exchanged. Returns the number of successes and of
/// refusals.
fn flipping(root: &Path, mut act: impl FnMut() -> (usize, usize)) -> (usize, usize) {
    let stop = &AtomicBool::new(false);
    let (flip, link) = (root.join("flip"), root.join("link"));
    thread::scope(|scope| {
        let start = Instant::now();
        scope.spawn(move || {
            // The loop also ends if `act` panics.
            while !stop.load(Ordering::Relaxed) && start.elapsed() < PATIENCE {
                renameat_with(CWD, &flip, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut sum = (0, 0);
        let is_race = |sum: (usize, usize)| sum.0.min(sum.1) > ENOUGH;
        while start.elapsed() < PERIOD || !is_race(sum) && start.elapsed() < PATIENCE {
            let (done, refused) = act();
            sum = (sum.0 + done, sum.1 + refused);
        }
        stop.store(true, Ordering::Relaxed);
        sum
    })
}

fn act(store: &LocalStore) -> (usize, usize) {
    let at = |name: &str| path(&format!("flip/{name}"));
    let dir = Meta { kind: Kind::Dir, mode: 0o777, ..file_meta() };
    let listed = store.list(&path("flip")).inspect(|listing| {
        assert!(listing.entries.iter().all(|entry| entry.name.as_bytes() != b"secret"));
    });
    let opened = store.open(&at("file")).inspect(|file| {
        let mut bytes = [0; 6];
        let len = file.read_at(0, &mut bytes).unwrap();
        assert_ne!(&bytes[..len], b"secret");
    });
    let answers = [
        listed.map(drop),
        opened.map(drop),
        store.look(&at("file")).map(drop),
        put(store, "flip/file", b"ours"),
        put(store, "flip/new", b"ours"),
        store.leftovers(&at("new")).map(drop),
        store.make_dir(&at("made"), None),
        store.make_dir(&at("file"), None),
        store.make_symlink(&at("made"), b"x", &file_meta(), KEEP_ALL),
        store.make_symlink(&at("file"), b"x", &file_meta(), KEEP_ALL),
        store.set_meta(&path("flip"), &dir, KEEP_ALL),
        store.set_meta(&at("sub"), &dir, KEEP_ALL),
        store.set_meta(&at("new"), &file_meta(), KEEP_ALL),
        store.remove(&at("new"), RemoveOptions::default()).map(drop),
        store.remove(&at("sub"), RemoveOptions::default()).map(drop),
        store.flush(),
        store.sweep().map(drop),
    ];
    let is_refused = |answer: &&Result<_, _>| matches!(answer, Err(StoreError::OutsideRoot { .. }));
    let refused = answers.iter().filter(is_refused).count();
    (answers.iter().filter(|answer| answer.is_ok()).count(), refused)
}

/// Returns names, contents and metadata of a tree of two levels.
fn look_of(dir: &Path) -> BTreeSet<String> {
    let entries = names_in(dir).into_iter().map(|name| dir.join(name));
    let describe = |at: &Path| {
        let meta = fs::symlink_metadata(at).unwrap();
        let (mode, time, ctime) = (meta.mode(), meta.mtime_nsec(), meta.ctime_nsec());
        format!("{at:?} {mode:o} {time} {ctime} {:?}", fs::read(at).ok())
    };
    entries.chain([dir.to_owned(), dir.join("sub")]).map(|at| describe(&at)).collect()
}

#[test]
fn a_file_moves_only_as_the_version_that_was_meant() {
    let (root, store) = new_store();
    put(&store, "a", b"first").unwrap();
    let first = store.open(&path("a")).unwrap();
    put(&store, "a", b"second").unwrap();
    let moved = store.rename(&path("a"), &path("b"), Some(&first));
    assert!(matches!(moved, Err(StoreError::Conflict { path }) if path.as_bytes() == b"a"));
    let second = store.open(&path("a")).unwrap();
    store.rename(&path("a"), &path("b"), Some(&second)).unwrap();
    put(&store, "a", b"third").unwrap();
    store.rename(&path("a"), &path("c"), None).unwrap();
    let names = names_in(root.path());
    let listed: Vec<_> = names.iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(listed, ["b", "c"]);
    assert_eq!(fs::read(root.path().join("b")).unwrap(), b"second");
}

#[test]
fn a_move_by_a_hard_link_replaces_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = Dir::open_root(root.path(), &Arc::default()).unwrap();
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    let text = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    fs::write(root.path().join("a"), "first").unwrap();
    fs::write(root.path().join("b"), "second").unwrap();
    let moved = dir.link_then_remove(&name("a"), &dir, &name("b"));
    assert_eq!(moved, Err(Errno::EXIST));
    assert_eq!([text("a"), text("b")], ["first", "second"]);
    dir.link_then_remove(&name("a"), &dir, &name("c")).unwrap();
    assert_eq!([text("b"), text("c")], ["second", "first"]);
    assert!(!root.path().join("a").exists());
    fs::create_dir(root.path().join("d")).unwrap();
    let moved = dir.link_then_remove(&name("d"), &dir, &name("e"));
    assert_eq!(moved, Err(Errno::OPNOTSUPP));
}
