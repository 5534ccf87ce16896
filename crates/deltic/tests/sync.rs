//! Syncs in an embedding program: with and without a runtime, over streams, cancelled.
#![expect(clippy::unwrap_used, reason = "makes and looks at trees")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use deltic::report::Action;
use deltic::{Cancel, Embedding, Event, SyncError, SyncPath, TreeSync, serve};
use tempfile::TempDir;

/// Makes a tree with a few files. Returns its path and a path that does not exist yet.
fn tree() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir_all(from.join("sub/deep")).unwrap();
    for (name, len) in [("a", 10), ("sub/b", 100_000), ("sub/deep/c", 0)] {
        std::fs::write(from.join(name), noise(len)).unwrap();
    }
    (dir, from.join(""), to)
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn assert_equal(from: &Path, to: &Path) {
    for name in ["a", "sub/b", "sub/deep/c"] {
        assert_eq!(std::fs::read(from.join(name)).unwrap(), std::fs::read(to.join(name)).unwrap());
    }
}

fn created(events: &[Event]) -> usize {
    let is_new = |event: &&Event| matches!(event, Event::Changed(change) if change.action == Action::Created);
    events.iter().filter(is_new).count()
}

#[test]
fn a_program_without_a_runtime_syncs_a_tree_and_gets_events() {
    let (_dir, from, to) = tree();
    let mut events = Vec::new();
    let outcome = TreeSync::new(&from, &to).archive().run(|event| events.push(event)).unwrap();
    assert_equal(&from, &to);
    assert_eq!((outcome.totals.failed, created(&events)), (0, 6), "{events:?}");

    std::fs::remove_file(from.join("a")).unwrap();
    let dry = TreeSync::new(&from, &to).archive().delete().dry_run();
    dry.run(|_| ()).unwrap();
    assert!(to.join("a").exists());
    TreeSync::new(&from, &to).archive().delete().run(|_| ()).unwrap();
    assert!(!to.join("a").exists());
}

#[tokio::test]
async fn inside_a_runtime_run_is_refused_and_start_works() {
    let (_dir, from, to) = tree();
    let refused = TreeSync::new(&from, &to).archive().run(|_| ());
    assert!(matches!(refused, Err(SyncError::Usage(_))), "{refused:?}");
    TreeSync::new(&from, &to).archive().start(&mut |_| ()).await.unwrap();
    assert_equal(&from, &to);
}

#[tokio::test]
async fn a_stream_carries_a_push_a_change_and_a_pull() {
    let (dir, from, to) = tree();
    let back = dir.path().join("back");
    let push = || TreeSync::new(&from, SyncPath::over_stream(&to)).archive();
    over_a_stream(push()).await;
    assert_equal(&from, &to);
    std::fs::write(from.join("sub/b"), noise(99_000)).unwrap();
    over_a_stream(push()).await;
    assert_equal(&from, &to);
    over_a_stream(TreeSync::new(SyncPath::over_stream(to.join("")), &back).archive()).await;
    assert_equal(&to, &back);
}

async fn over_a_stream(sync: TreeSync) {
    let (here, there) = tokio::io::duplex(64 << 10);
    let server = tokio::spawn(async { serve(there, &Embedding::default()).await });
    let outcome = sync.start_over(here, &mut |_| ()).await.unwrap();
    assert_eq!(outcome.totals.failed, 0);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_sync_that_waits_for_its_other_end_is_cancelled() {
    let (_dir, from, _) = tree();
    let (here, _silent) = tokio::io::duplex(64 << 10);
    let cancel = Cancel::default();
    let sync = TreeSync::new(&from, SyncPath::over_stream("to")).archive().cancel(&cancel);
    let run = tokio::spawn(async move { sync.start_over(here, &mut |_| ()).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    cancel.cancel();
    assert!(matches!(run.await.unwrap(), Err(SyncError::Interrupted)));
}

#[test]
fn two_remote_places_are_refused() {
    let refused = TreeSync::new(SyncPath::host("a", "x"), SyncPath::host("b", "y")).run(|_| ());
    assert!(matches!(refused, Err(SyncError::Usage(_))), "{refused:?}");
}

#[test]
fn a_missing_source_is_an_error_and_deletes_nothing() {
    let (_dir, from, to) = tree();
    TreeSync::new(&from, &to).archive().run(|_| ()).unwrap();
    for missing in [from.join("none"), from.join("none/")] {
        let ended = TreeSync::new(&missing, &to).archive().delete().run(|_| ());
        let Err(SyncError::NoSource(why)) = ended else { panic!("{ended:?}") };
        assert!(why.contains("none"), "{why}");
    }
    assert_equal(&from, &to);
}

#[test]
fn excluded_names_stay_away() {
    let (_dir, from, to) = tree();
    let sync = TreeSync::new(&from, &to).archive().include("/sub/b").unwrap();
    sync.exclude("/sub/*").unwrap().run(|_| ()).unwrap();
    assert!(to.join("a").exists() && to.join("sub/b").exists() && !to.join("sub/deep").exists());
    assert!(TreeSync::new(&from, &to).exclude("").is_err());
}

#[test]
fn verify_counts_differences_and_changes_nothing() {
    let (_dir, from, to) = tree();
    TreeSync::new(&from, &to).archive().run(|_| ()).unwrap();
    assert!(TreeSync::new(&from, &to).verify(|_| ()).unwrap().is_equal());
    std::fs::write(to.join("sub/b"), noise(100_001)).unwrap();
    std::fs::write(to.join("extra"), "1").unwrap();
    std::fs::remove_file(to.join("a")).unwrap();
    let mut names = Vec::new();
    let verified = TreeSync::new(&from, &to).verify(|event| {
        if let Event::Changed(change) = event {
            names.push(String::from_utf8_lossy(change.path.as_bytes()).into_owned());
        }
    });
    names.sort();
    assert_eq!(names, ["a", "extra", "sub/b"]);
    let verified = verified.unwrap();
    assert_eq!((verified.differences, verified.is_equal()), (3, false));
    assert!(to.join("extra").exists() && !to.join("a").exists());
}

#[test]
fn a_list_names_what_the_source_has() {
    let (_dir, from, _) = tree();
    let list = |sync: TreeSync| {
        let mut names = Vec::new();
        sync.list(|event| {
            if let Event::Entry { path, meta } = event {
                names.push((String::from_utf8_lossy(path.as_bytes()).into_owned(), meta.len));
            }
        })
        .unwrap();
        names.sort();
        names.into_iter().filter(|(_, len)| *len > 0).collect::<Vec<_>>()
    };
    let sync = || TreeSync::new(&from, "nowhere");
    assert_eq!(list(sync()), [("a".to_owned(), 10)]);
    assert_eq!(list(sync().archive()), [("a".to_owned(), 10), ("sub/b".to_owned(), 100_000)]);
}

#[test]
fn a_watch_copies_changes_until_it_is_cancelled() {
    let (_dir, from, to) = tree();
    let cancel = Cancel::default();
    let watch = TreeSync::new(&from, &to).archive().cancel(&cancel);
    let mut rounds = Vec::new();
    let ended = watch.watch(
        |_| (),
        |round| {
            rounds.push((round.number, round.result.is_ok()));
            if to.join("later").exists() {
                cancel.cancel();
            } else {
                std::fs::write(from.join("later"), "later").unwrap();
            }
        },
    );
    ended.unwrap();
    assert_eq!(rounds, [(1, true), (2, true)]);
    assert_equal(&from, &to);
    let missing = TreeSync::new(from.join("none"), &to).archive().watch(|_| (), |_| ());
    assert!(matches!(missing, Err(SyncError::NoSource(_))), "{missing:?}");
}

#[test]
fn places_that_are_no_urls_are_refused() {
    for url in ["https://host", "nas:8420/photos", "http://example.org/photos"] {
        let refused = SyncPath::server(url, "dlt_x", None);
        assert!(matches!(refused, Err(SyncError::Usage(_))), "{url}: {refused:?}");
    }
    assert!(matches!(SyncPath::store("ftp://bucket/x"), Err(SyncError::Usage(_))));
    let store = SyncPath::store("s3://bucket/x").unwrap();
    let refused = TreeSync::new("src", store).run(|_| ());
    assert!(matches!(refused, Err(SyncError::Usage(_))), "{refused:?}");
}
