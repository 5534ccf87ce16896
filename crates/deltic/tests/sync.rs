//! Syncs in an embedding program: with and without a runtime, over streams, cancelled.
#![expect(clippy::unwrap_used, reason = "makes and looks at trees")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use deltic::report::Action;
use deltic::{Cancel, Embedding, Event, Sync, SyncError, SyncPath, serve};
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
    let outcome = Sync::new(&from, &to).archive().run(|event| events.push(event)).unwrap();
    assert_equal(&from, &to);
    assert_eq!((outcome.totals.failed, created(&events)), (0, 6), "{events:?}");

    std::fs::remove_file(from.join("a")).unwrap();
    let dry = Sync::new(&from, &to).archive().delete().dry_run();
    dry.run(|_| ()).unwrap();
    assert!(to.join("a").exists());
    Sync::new(&from, &to).archive().delete().run(|_| ()).unwrap();
    assert!(!to.join("a").exists());
}

#[tokio::test]
async fn inside_a_runtime_run_is_refused_and_start_works() {
    let (_dir, from, to) = tree();
    let refused = Sync::new(&from, &to).archive().run(|_| ());
    assert!(matches!(refused, Err(SyncError::Usage(_))), "{refused:?}");
    Sync::new(&from, &to).archive().start(&mut |_| ()).await.unwrap();
    assert_equal(&from, &to);
}

#[tokio::test]
async fn a_stream_carries_a_push_a_change_and_a_pull() {
    let (dir, from, to) = tree();
    let back = dir.path().join("back");
    let push = || Sync::new(&from, SyncPath::over_stream(&to)).archive();
    over_a_stream(push()).await;
    assert_equal(&from, &to);
    std::fs::write(from.join("sub/b"), noise(99_000)).unwrap();
    over_a_stream(push()).await;
    assert_equal(&from, &to);
    over_a_stream(Sync::new(SyncPath::over_stream(to.join("")), &back).archive()).await;
    assert_equal(&to, &back);
}

async fn over_a_stream(sync: Sync) {
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
    let sync = Sync::new(&from, SyncPath::over_stream("to")).archive().cancel(&cancel);
    let run = tokio::spawn(async move { sync.start_over(here, &mut |_| ()).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    cancel.cancel();
    assert!(matches!(run.await.unwrap(), Err(SyncError::Interrupted)));
}

#[test]
fn two_remote_places_are_refused() {
    let refused = Sync::new(SyncPath::host("a", "x"), SyncPath::host("b", "y")).run(|_| ());
    assert!(matches!(refused, Err(SyncError::Usage(_))), "{refused:?}");
}
