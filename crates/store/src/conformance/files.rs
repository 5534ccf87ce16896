//! Laws of snapshots and rebuilds.

use std::thread;

use deltic_tree::{Meta, Timestamp};

use super::given::{
    KEEP_ALL, WHEN, all_of, bytes, dir_meta, file_meta, meta, names, path, pattern, put,
};
use crate::{Commit, Keep, Rebuild, RemoveOptions, Replaces, Snapshot, Store, StoreError, Whole};

pub(super) fn run<S: Store>(make: &impl Fn() -> S) {
    a_commit_shows_what_was_written(&make());
    the_order_of_writes_is_irrelevant(&make());
    old_is_safe(&make());
    spans_are_copied_from_and_to_any_offset(&make());
    a_span_beyond_the_end_is_an_error(&make());
    a_held_version_outlives_its_name(&make());
    a_commit_over_another_version_is_a_conflict(&make());
    modes_and_times_are_kept_as_asked(&make());
    whole_files_are_put_in_place_each_by_itself(&make());
    a_whole_file_is_what_its_commit_would_have_made(&make);
    a_directory_cannot_be_opened(&make());
    facts_are_of_the_bytes(&make());
    a_commit_takes_the_place_of_a_directory_that_is_empty(&make());
}

pub(super) fn run_with_links<S: Store>(make: &impl Fn() -> S) {
    a_commit_takes_the_place_of_a_symlink(&make());
    a_symlink_cannot_be_opened(&make());
}

fn a_commit_shows_what_was_written(store: &impl Store) {
    for content in [&b""[..], b"x", &pattern(100_000)] {
        put(store, "file", content);
        assert_eq!(bytes(store, "file"), content);
        assert_eq!(meta(store, "file").len, content.len() as u64);
    }
    let snapshot = store.open(&path("file")).expect("open");
    let mut buf = [0; 10];
    assert_eq!(snapshot.read_at(99_995, &mut buf).expect("read"), 5);
    assert_eq!(buf[..5], pattern(100_000)[99_995..]);
    assert_eq!(snapshot.read_at(u64::from(u32::MAX), &mut buf).expect("read"), 0);
    snapshot.check_unchanged().expect("nobody changed it");
    store.flush().expect("flush");
}

#[expect(clippy::disallowed_methods, reason = "spans arrive from any thread")]
fn the_order_of_writes_is_irrelevant(store: &impl Store) {
    let new = pattern(64 << 10);
    let rebuild = store.create(&path("file"), new.len() as u64).expect("create");
    thread::scope(|scope| {
        for worker in 0..4 {
            let (rebuild, new) = (&rebuild, &new);
            let own = (0..new.len()).step_by(1000).rev().filter(move |at| at / 1000 % 4 == worker);
            scope.spawn(move || {
                for at in own {
                    let end = new.len().min(at + 1000);
                    rebuild.write(at as u64, &new[at..end]).expect("write");
                }
            });
        }
    });
    rebuild.commit(nothing(&file_meta())).expect("commit");
    assert_eq!(bytes(store, "file"), new);
}

/// Checks for any two versions of any two files: parts with equal extents have equal bytes.
fn facts_are_of_the_bytes(store: &impl Store) {
    let mut seen = Vec::new();
    let mut new = pattern(100_000);
    for round in 0..6 {
        new[round * 17_000] += 1;
        new.truncate(100_000 - round * 3000);
        new.extend(pattern(round % 2 * 5000));
        put(store, ["file", "other"][round % 2], &new);
        let snapshot = store.open(&path(["file", "other"][round % 2])).expect("open");
        let Some(facts) = snapshot.extents().expect("nobody changes it") else { return };
        assert_eq!(facts.len(), new.len() as u64);
        for (old_facts, old) in &seen {
            let mut at = 0;
            let old: &Vec<u8> = old;
            let changed = facts.changed_since(old_facts).expect("one store, one history");
            for range in changed.into_iter().chain(std::iter::once(facts.len()..facts.len())) {
                let same = at..range.start as usize;
                assert!(same.is_empty() || old.get(same.clone()) == Some(&new[same]), "{round}");
                at = range.end as usize;
            }
        }
        seen.push((facts, all_of(&snapshot)));
    }
}

/// Checks law 6, "Old is safe" (docs/laws.md).
fn old_is_safe(store: &impl Store) {
    put(store, "file", b"old");
    let before = meta(store, "file");
    let rebuild = store.create(&path("file"), 5).expect("create");
    rebuild.write(0, b"newer").expect("write");
    assert_eq!(bytes(store, "file"), b"old");
    assert_eq!(names(store, &path("")), [b"file"]);
    drop(rebuild);
    assert_eq!(bytes(store, "file"), b"old");
    assert_eq!(meta(store, "file"), before);
    let rebuild = store.create(&path("file"), 5).expect("create");
    rebuild.write(0, b"newer").expect("write");
    rebuild.discard().expect("discard");
    assert_eq!(bytes(store, "file"), b"old");
}

fn spans_are_copied_from_and_to_any_offset(store: &impl Store) {
    let old = pattern(1 << 20);
    put(store, "old", &old);
    let from = store.open(&path("old")).expect("open");
    for (start, len, new_start) in SPANS {
        let (range, at) = (start as usize..(start + len) as usize, new_start as usize);
        let rebuild = store.create(&path("new"), new_start + len + 3).expect("create");
        rebuild.write(new_start + len, b"end").expect("write");
        rebuild.copy(&from, start..start + len, new_start).expect("copy");
        let seen = store.look(&path("new")).expect("look");
        let replaces = Replaces::seen(seen.as_ref());
        let commit = Commit { meta: &file_meta(), keep: Keep::default(), replaces };
        rebuild.commit(commit).expect("commit");
        let new = bytes(store, "new");
        assert!(new[..at].iter().all(|byte| *byte == 0), "{start} {len} {new_start}");
        assert_eq!(new[at..at + range.len()], old[range], "{start} {len} {new_start}");
        assert_eq!(&new[new.len() - 3..], b"end");
    }
}

fn a_span_beyond_the_end_is_an_error(store: &impl Store) {
    put(store, "old", &pattern(1000));
    let from = store.open(&path("old")).expect("open");
    let rebuild = store.create(&path("new"), 100).expect("create");
    rebuild.write(90, &[1; 11]).expect_err("past the end of new");
    rebuild.write(u64::MAX, &[1]).expect_err("past the end of numbers");
    rebuild.copy(&from, 0..101, 0).expect_err("past the end of new");
    rebuild.copy(&from, 950..1001, 0).expect_err("past the end of old");
    rebuild.copy(&from, u64::MAX - 1..u64::MAX, 0).expect_err("past the end of numbers");
    #[expect(clippy::reversed_empty_ranges, reason = "a span may come from a peer")]
    rebuild.copy(&from, 20..10, 0).expect_err("the wrong way round");
    assert!(store.look(&path("new")).expect("look").is_none());
}

fn a_held_version_outlives_its_name(store: &impl Store) {
    put(store, "file", b"old");
    let old = store.open(&path("file")).expect("open");
    put(store, "file", b"new one");
    assert_eq!(all_of(&old), b"old");
    assert!(matches!(old.check_unchanged(), Err(StoreError::Changed { .. })));
    let rebuild = store.create(&path("other"), 3).expect("create");
    let copied = rebuild.copy(&old, 0..3, 0);
    assert!(matches!(copied, Err(StoreError::Changed { .. })), "{copied:?}");
    let new = store.open(&path("file")).expect("open");
    store.remove(&path("file"), RemoveOptions::default()).expect("remove");
    assert_eq!(all_of(&new), b"new one");
    assert!(matches!(new.check_unchanged(), Err(StoreError::Changed { .. })));
}

fn a_commit_over_another_version_is_a_conflict(store: &impl Store) {
    let attempt = |replaces: Replaces<'_, _>| attempt(store, "file", replaces);
    put(store, "file", b"theirs");
    let version = store.open(&path("file")).expect("open");
    let seen = meta(store, "file");
    put(store, "file", b"also theirs");
    for replaces in [Replaces::Nothing, Replaces::Version(&version), Replaces::Seen(&seen)] {
        let answer = attempt(replaces);
        assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
        assert_eq!(bytes(store, "file"), b"also theirs");
    }
    let version = store.open(&path("file")).expect("open");
    store.remove(&path("file"), RemoveOptions::default()).expect("remove");
    let answer = attempt(Replaces::Version(&version));
    assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
    assert!(store.look(&path("file")).expect("look").is_none());
}

/// Writes a file and commits it at `at`, with the expectation `replaces`.
fn attempt<S: Store>(
    store: &S,
    at: &str,
    replaces: Replaces<'_, S::Snapshot>,
) -> Result<(), StoreError> {
    let rebuild = store.create(&path(at), 4).expect("create");
    rebuild.write(0, b"mine").expect("write");
    rebuild.commit(Commit { meta: &file_meta(), keep: Keep::default(), replaces }).map(drop)
}

fn a_commit_takes_the_place_of_a_symlink(store: &impl Store) {
    put(store, "file", b"old");
    store.make_symlink(&path("link"), b"file", &file_meta(), KEEP_ALL).expect("symlink");
    attempt(store, "link", Replaces::Seen(&meta(store, "link"))).expect("replace a symlink");
    assert_eq!((&*bytes(store, "file"), &*bytes(store, "link")), (&b"old"[..], &b"mine"[..]));
}

fn a_commit_takes_the_place_of_a_directory_that_is_empty(store: &impl Store) {
    put(store, "file", b"old");
    let version = store.open(&path("file")).expect("open");
    attempt(store, "file", Replaces::Version(&version)).expect("replace a version");
    store.make_dir(&path("dir"), None).expect("make a directory");
    put(store, "dir/in the way", b"");
    let full = attempt(store, "dir", Replaces::Seen(&dir_meta()));
    assert!(matches!(full, Err(StoreError::NotEmpty { .. })), "{full:?}");
    store.remove(&path("dir/in the way"), RemoveOptions::default()).expect("remove");
    attempt(store, "dir", Replaces::Seen(&dir_meta())).expect("replace an empty directory");
    for at in ["file", "dir"] {
        assert_eq!(bytes(store, at), b"mine");
    }
}

fn modes_and_times_are_kept_as_asked(store: &impl Store) {
    let commit = |mode: u32, keep: Keep| {
        let rebuild = store.create(&path("file"), 0).expect("create");
        let seen = store.look(&path("file")).expect("look");
        let replaces = Replaces::seen(seen.as_ref());
        let sent = Meta { mode, ..file_meta() };
        rebuild.commit(Commit { meta: &sent, keep, replaces }).expect("commit");
        meta(store, "file")
    };
    let now = commit(0o4700, Keep::default());
    assert_eq!((now.mode, now.modified == WHEN), (0o700, false), "a new file is not privileged");
    let now = commit(0o644, Keep { modes: true, ..Keep::default() });
    assert_eq!((now.mode, now.modified == WHEN), (0o644, false));
    let now = commit(0o600, Keep { times: true, ..Keep::default() });
    assert_eq!((now.mode, now.modified), (0o644, WHEN), "an old file keeps its mode");
    let now = commit(0o4751, KEEP_ALL);
    assert_eq!((now.mode, now.modified), (0o4751, WHEN));
    for secs in [-1, 0, 1 << 31] {
        let meta = Meta { modified: Timestamp { secs, nanos: 999_999_999 }, ..file_meta() };
        store.set_meta(&path("file"), &meta, KEEP_ALL).expect("set");
        assert_eq!(store.look(&path("file")).expect("look"), Some(meta));
    }
}

fn whole_files_are_put_in_place_each_by_itself(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    put(store, "dir/old", b"old");
    put(store, "dir/theirs", b"seen");
    let (old, theirs) = (meta(store, "dir/old"), meta(store, "dir/theirs"));
    put(store, "dir/theirs", b"changed since");
    put(store, "dir/unseen", b"unseen");
    let long = pattern(100_000);
    let files: [(&str, &[u8], Option<&Meta>, bool); 8] = [
        ("dir/new", b"new", None, true),
        ("dir/old", b"newer", Some(&old), true),
        ("dir/theirs", b"mine", Some(&theirs), false),
        ("dir/unseen", b"mine", None, false),
        ("dir/gone", b"mine", Some(&old), false),
        ("missing/file", b"mine", None, false),
        ("dir/empty", b"", None, true),
        ("long", &long, None, true),
    ];
    let paths = files.map(|(at, ..)| path(at));
    let sent = file_meta();
    let whole = |((_, bytes, seen, _), path)| Whole { path, bytes, meta: &sent, seen };
    let whole: Vec<_> = files.into_iter().zip(&paths).map(whole).collect();
    let done = store.replace_all(&whole, KEEP_ALL);
    for ((at, content, _, works), done) in files.into_iter().zip(done) {
        assert_eq!(done.is_ok(), works, "{at}: {done:?}");
        if works {
            assert_eq!(bytes(store, at), content, "{at}");
            assert_eq!(meta(store, at).modified, WHEN, "{at}");
        }
    }
    assert_eq!(bytes(store, "dir/theirs"), b"changed since");
    assert_eq!(bytes(store, "dir/unseen"), b"unseen");
    assert!(store.look(&path("dir/gone")).expect("look").is_none());
}

fn a_whole_file_is_what_its_commit_would_have_made<S: Store>(make: &impl Fn() -> S) {
    let times = Keep { times: true, ..Keep::default() };
    for keep in [Keep::default(), times, KEEP_ALL] {
        for mode in [0o644, 0o755, 0o600, 0o666, 0o400, 0o4755, 0o2750, 0o1777, 0] {
            for old in [None, Some(0o640), Some(0o4711)] {
                let (one, other) = (make(), make());
                let sent = Meta { mode, len: 4, ..file_meta() };
                let begin = |store: &S| {
                    let mode = old?;
                    put(store, "file", b"old");
                    let was = Meta { mode, ..file_meta() };
                    store.set_meta(&path("file"), &was, KEEP_ALL).expect("set");
                    Some(meta(store, "file"))
                };
                let seen = begin(&one);
                let (at, bytes) = (path("file"), &b"mine"[..]);
                let whole = Whole { path: &at, bytes, meta: &sent, seen: seen.as_ref() };
                let done = one.replace_all(&[whole], keep);
                assert!(matches!(done[..], [Ok(_)]), "{done:?}");
                let seen = begin(&other);
                let rebuild = other.create(&at, 4).expect("create");
                rebuild.write(0, bytes).expect("write");
                rebuild
                    .commit(Whole { seen: seen.as_ref(), ..whole }.commit(keep))
                    .expect("commit");
                let [mut one, mut other] = [meta(&one, "file"), meta(&other, "file")];
                if !keep.times {
                    (one.modified, other.modified) = (WHEN, WHEN);
                }
                assert_eq!(one, other, "{mode:o} over {old:?} with {keep:?}");
            }
        }
    }
}

fn a_symlink_cannot_be_opened(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    store.make_symlink(&path("link"), b"dir", &file_meta(), KEEP_ALL).expect("symlink");
    let opened = store.open(&path("link")).map(drop);
    assert!(matches!(opened, Err(StoreError::OutsideRoot { .. })), "{opened:?}");
}

fn a_directory_cannot_be_opened(store: &impl Store) {
    store.make_dir(&path("dir"), None).expect("make a directory");
    let open = |at| store.open(&path(at)).map(drop);
    assert!(matches!(open("dir"), Err(StoreError::NotAFile { .. })));
    assert!(matches!(open("missing"), Err(StoreError::NotFound { .. })));
    assert!(matches!(open("missing/file"), Err(StoreError::NotFound { .. })));
}

fn nothing<S>(meta: &Meta) -> Commit<'_, S> {
    Commit { meta, keep: Keep::default(), replaces: Replaces::Nothing }
}

/// Old start, length and new start of copies: short and long, aligned on both sides, on one side, with the same or a
/// different remainder, and up to the end of the file.
const SPANS: [(u64, u64, u64); 10] = [
    (0, 0, 0),
    (0, 1, 0),
    (1, 4096, 4095),
    (0, 1 << 20, 0),
    (4096, 300_000, 8192),
    (1, 300_000, 1),
    (4095, 300_002, 8191),
    (17, 300_000, 4096),
    ((1 << 20) - 300_001, 300_001, 5),
    ((1 << 20) - 1, 1, 0),
];
