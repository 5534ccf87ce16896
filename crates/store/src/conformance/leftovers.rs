//! Laws of leftovers of unfinished rebuilds.

use super::given::{all_of, bytes, file_meta, names, path, put};
use crate::{
    Commit, Content, Keep, Rebuild, Replaces, Resumable, STAGING_NAME, Snapshot, Store, StoreError,
};

pub(super) fn run<S: Store>(make: &impl Fn() -> S) {
    what_was_written_is_found_by_the_next_attempt(&make());
    an_unwritten_rebuild_leaves_no_leftover(&make());
    what_was_sent_between_old_bytes_is_left(&make());
    leftovers_come_newest_first_and_few(&make());
    a_leftover_is_taken_once(&make());
    a_commit_clears_its_leftovers(&make());
    a_sweep_spares_what_is_held(&make());
    what_was_noted_goes_on(&make());
    what_was_not_noted_does_not_go_on(&make());
    a_rebuild_resumes_only_once(&make());
    notes_go_with_their_rebuild(&make());
    nothing_is_left_in_the_staging_directory(&make());
}

fn nothing_is_left_in_the_staging_directory(store: &impl Store) {
    let staging = path(STAGING_NAME);
    for answer in [store.leftovers(&staging).map(drop), store.resume(&staging, 1).map(drop)] {
        assert!(matches!(answer, Err(StoreError::BadName { .. })), "{answer:?}");
    }
}

fn what_was_written_is_found_by_the_next_attempt(store: &impl Store) {
    assert!(store.leftovers(&path("file")).expect("leftovers").is_empty());
    leave(store, "file", b"half of it");
    assert!(store.leftovers(&path("other")).expect("leftovers").is_empty());
    assert!(names(store, &path("")).is_empty());
    let found = store.leftovers(&path("file")).expect("leftovers");
    assert_eq!(found.iter().map(all_of).collect::<Vec<_>>(), [b"half of it"]);
    let rebuild = store.create(&path("file"), 4).expect("create");
    rebuild.copy(&found[0], 0..4, 0).expect("copy");
    found[0].check_unchanged().expect("nobody changed it");
    commit(rebuild);
    assert_eq!(bytes(store, "file"), b"half");
}

fn an_unwritten_rebuild_leaves_no_leftover(store: &impl Store) {
    put(store, "old", b"old");
    drop(store.create(&path("file"), 10).expect("create"));
    let copied = store.create(&path("file"), 3).expect("create");
    copied.copy(&store.open(&path("old")).expect("open"), 0..3, 0).expect("copy");
    drop(copied);
    let joined = store.create(&path("file"), 3).expect("create");
    joined.write_old(0, b"old", Content::Old).expect("write");
    drop(joined);
    let rebuild = store.create(&path("file"), 1).expect("create");
    rebuild.write(0, b"x").expect("write");
    rebuild.discard().expect("discard");
    assert!(store.leftovers(&path("file")).expect("leftovers").is_empty());
    assert_eq!(store.sweep().expect("sweep"), 0);
}

fn what_was_sent_between_old_bytes_is_left(store: &impl Store) {
    let joined = store.create(&path("file"), 6).expect("create");
    joined.write_old(3, b"new", Content::OldAndSent).expect("write");
    joined.write_old(0, b"old", Content::Old).expect("write");
    joined.write_old(4, b"new", Content::Old).expect_err("past the end of new");
    drop(joined);
    let found = store.leftovers(&path("file")).expect("leftovers");
    assert_eq!(found.iter().map(all_of).collect::<Vec<_>>(), [b"oldnew"]);
    drop(found);
    assert_eq!(store.sweep().expect("sweep"), 1);
}

fn leftovers_come_newest_first_and_few(store: &impl Store) {
    for attempt in 0..6 {
        leave(store, "file", &[attempt]);
    }
    let found = store.leftovers(&path("file")).expect("leftovers");
    let times: Vec<_> = found.iter().map(|leftover| leftover.meta().modified).collect();
    assert_eq!(found.len(), 4);
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    drop(found);
    assert_eq!(store.sweep().expect("sweep"), 6);
}

fn a_leftover_is_taken_once(store: &impl Store) {
    leave(store, "file", b"x");
    let held = store.leftovers(&path("file")).expect("leftovers");
    assert_eq!(held.len(), 1);
    assert!(store.leftovers(&path("file")).expect("leftovers").is_empty());
    drop(held);
    assert_eq!(store.leftovers(&path("file")).expect("leftovers").len(), 1);
}

fn a_commit_clears_its_leftovers(store: &impl Store) {
    leave(store, "file", b"one");
    leave(store, "file", b"two");
    leave(store, "other", b"stays");
    let held = store.leftovers(&path("file")).expect("leftovers");
    let rebuild = store.create(&path("file"), 0).expect("create");
    commit(rebuild);
    assert_eq!(all_of(&held[0]).len(), 3);
    drop(held);
    assert!(store.leftovers(&path("file")).expect("leftovers").is_empty());
    assert_eq!(store.sweep().expect("sweep"), 1);
}

fn a_sweep_spares_what_is_held(store: &impl Store) {
    leave(store, "left", b"x");
    let rebuild = store.create(&path("file"), 1).expect("create");
    rebuild.write(0, b"x").expect("write");
    let held = store.leftovers(&path("left")).expect("leftovers");
    assert_eq!(store.sweep().expect("sweep"), 0);
    drop(held);
    assert_eq!(store.sweep().expect("sweep"), 1);
    commit(rebuild);
    assert_eq!(bytes(store, "file"), b"x");
    assert_eq!(store.sweep().expect("sweep"), 0);
}

fn what_was_noted_goes_on(store: &impl Store) {
    let at = path("file");
    leave_staged_file_with_notes(store, "file", &[b"half", b"", b"of it"]);
    let resumed = store.resume(&at, 9).expect("resume").expect("it was noted");
    assert_eq!(resumed.notes, [&b"half"[..], b"", b"of it"]);
    resumed.rebuild.write(4, b" two").expect("write");
    resumed.rebuild.note(b"more").expect("note");
    drop(resumed.rebuild);
    let resumed = store.resume(&at, 9).expect("resume").expect("it was noted");
    assert_eq!(resumed.notes.last().expect("more was noted"), b"more");
    assert_eq!(resumed.notes.len(), 4);
    resumed.rebuild.write(8, b"!").expect("write");
    commit(resumed.rebuild);
    assert_eq!(bytes(store, "file"), b"half two!");
    assert!(store.resume(&at, 9).expect("resume").is_none());
    assert_eq!(store.sweep().expect("sweep"), 0);
}

fn what_was_not_noted_does_not_go_on(store: &impl Store) {
    let at = path("file");
    assert!(store.resume(&at, 4).expect("resume").is_none());
    leave(store, "file", b"half");
    assert!(store.resume(&at, 4).expect("resume").is_none());
    leave_staged_file_with_notes(store, "file", &[b"noted"]);
    for (other, len) in [("file", 8), ("file", 10), ("other", 9)] {
        assert!(store.resume(&path(other), len).expect("resume").is_none());
    }
    // The staged file is listed as a leftover too.
    assert_eq!(store.leftovers(&at).expect("leftovers").len(), 2);
    assert_eq!(store.sweep().expect("sweep"), 2);
}

fn a_rebuild_resumes_only_once(store: &impl Store) {
    let at = path("file");
    leave_staged_file_with_notes(store, "file", &[b"one"]);
    let resumed = store.resume(&at, 9).expect("resume").expect("it was noted");
    assert!(store.resume(&at, 9).expect("resume").is_none());
    assert!(store.leftovers(&at).expect("leftovers").is_empty());
    assert_eq!(store.sweep().expect("sweep"), 0);
    drop(resumed);
    let held = store.leftovers(&at).expect("leftovers");
    assert_eq!(held.len(), 1);
    assert!(store.resume(&at, 9).expect("resume").is_none());
    drop(held);
    assert!(store.resume(&at, 9).expect("resume").is_some());
}

fn notes_go_with_their_rebuild(store: &impl Store) {
    let at = path("file");
    leave_staged_file_with_notes(store, "file", &[b"one"]);
    let resumed = store.resume(&at, 9).expect("resume").expect("it was noted");
    resumed.rebuild.discard().expect("discard");
    assert!(store.resume(&at, 9).expect("resume").is_none());
    leave_staged_file_with_notes(store, "file", &[b"two"]);
    commit(store.create(&at, 0).expect("create"));
    assert!(store.resume(&at, 9).expect("resume").is_none());
    leave_staged_file_with_notes(store, "other", &[b"three"]);
    assert_eq!(store.sweep().expect("sweep"), 1);
    assert!(store.resume(&path("other"), 9).expect("resume").is_none());
}

/// Drops an unfinished file of nine bytes with these notes, so the staged file stays as a leftover.
fn leave_staged_file_with_notes(store: &impl Store, at: &str, notes: &[&[u8]]) {
    let rebuild = store.create(&path(at), 9).expect("create");
    rebuild.write(0, b"half").expect("write");
    notes.iter().for_each(|note| rebuild.note(note).expect("note"));
}

fn leave(store: &impl Store, at: &str, content: &[u8]) {
    let rebuild = store.create(&path(at), content.len() as u64).expect("create");
    rebuild.write(0, content).expect("write");
}

fn commit<R: Rebuild>(rebuild: R) {
    let (meta, keep) = (&file_meta(), Keep::default());
    rebuild.commit(Commit { meta, keep, replaces: Replaces::Nothing }).expect("commit");
}
