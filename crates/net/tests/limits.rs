//! Frames of whole sessions within the limit that one end asks for.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::path::Path;

use std::time::Duration;

use common::{noise, pass, plan, there};
use deltic_net::SyncError;
use deltic_net::embed::{Embedding, serve_over, sync_over};
use deltic_net::executor::Budget;
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_protocol::frame::Header;
use deltic_protocol::limits::MIN_FRAME_BYTES;
use deltic_protocol::options::Options;
use tokio::io::{duplex, split};

/// Pushes a tree; the longest payloads to there and back.
async fn pushed(source: &Path, destination: &Path, frame_bytes: usize) -> (usize, usize) {
    let options = Options { recursive: true, times: true, durable: false, ..Options::default() };
    let budget = Budget { frame_bytes, credit: Some(frame_bytes as u64), ..Budget::default() };
    let with = Embedding { budget, ..Embedding::default() };
    let (to, back) = common::pushed(plan(source.join(""), there(destination), options), with).await;
    let longest = |frames: &[_]| frames.iter().map(|frame: &Header| frame.len).max().unwrap_or(0);
    (longest(&to), longest(&back))
}

/// A directory of many names, a new file, and one that was edited: those of a first run, then of a second.
#[tokio::test]
async fn one_end_asks_for_short_frames_and_gets_no_others() {
    for frame_bytes in [MIN_FRAME_BYTES, 256 << 10] {
        let trees = tempfile::tempdir().unwrap();
        let (source, destination) = (trees.path().join("a"), trees.path().join("b"));
        std::fs::create_dir_all(source.join("many")).unwrap();
        std::fs::create_dir(&destination).unwrap();
        for no in 0..3000 {
            let name = format!("{}{no}", "n".repeat(60));
            std::fs::write(source.join("many").join(name), b"").unwrap();
        }
        let mut bytes = noise(6 << 20, 1);
        std::fs::write(source.join("file"), &bytes).unwrap();
        let (first, _) = pushed(&source, &destination, frame_bytes).await;
        (0..60).for_each(|n| bytes[40_000 + n * 100_000] ^= 1);
        bytes.drain(3_000_000..3_200_000);
        std::fs::write(source.join("file"), &bytes).unwrap();
        let (second, back) = pushed(&source, &destination, frame_bytes).await;
        assert_eq!(std::fs::read(destination.join("file")).unwrap(), bytes);
        assert!(first.max(second).max(back) <= frame_bytes, "{first} {second} {back}");
        assert!(first > frame_bytes / 3, "{first}");
    }
}

/// Frames by which a receiver gives credit.
const CREDIT: u8 = 62;

/// Pulls a file, with nothing to there from such a frame on; how it ended there.
async fn pulled_until(until: Option<u8>, patience: Option<Duration>) -> Result<(), SyncError> {
    let trees = tempfile::tempdir().unwrap();
    std::fs::create_dir(trees.path().join("a")).unwrap();
    std::fs::write(trees.path().join("a/file"), noise(2 << 20, 1)).unwrap();
    let far = format!("{}/a/", trees.path().display());
    let options = Options { recursive: true, times: true, durable: false, ..Options::default() };
    let plan = Plan {
        sources: Sources::Remote { host: "there".into(), paths: vec![far.into()] },
        ..plan("unused".into(), Destination::Local(trees.path().join("b")), options)
    };
    let (near, from_near) = duplex(256 << 10);
    let (far, from_far) = duplex(256 << 10);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (split(from_near), split(from_far));
    tokio::spawn(pass(near_reads, far_writes, until));
    tokio::spawn(pass(far_reads, near_writes, None));
    let budget = Budget { credit: Some(256 << 10), ..Budget::default() };
    let asks = Embedding { budget, ..Embedding::default() };
    let pulling = tokio::spawn(async move { sync_over(plan, near, &asks, &mut |_| ()).await });
    let budget = Budget { credit_timeout: patience, ..Budget::default() };
    let ended = serve_over(far, &Embedding { budget, ..Embedding::default() }).await;
    assert_eq!(pulling.await.unwrap().is_ok(), ended.is_ok());
    ended
}

#[tokio::test]
async fn who_gives_no_credit_is_given_up_after_a_while() {
    let patience = Some(Duration::from_millis(300));
    let ended = pulled_until(Some(CREDIT), patience).await;
    assert!(matches!(ended, Err(SyncError::Silence)), "{ended:?}");
    // Who gives it has all the time that it takes.
    let patience = Some(Duration::from_secs(60));
    assert!(pulled_until(None, patience).await.is_ok());
}
