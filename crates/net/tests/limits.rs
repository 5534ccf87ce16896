//! Frames of whole sessions within the limit that one end asks for.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::path::Path;

use common::{noise, plan, there};
use deltic_net::embed::Embedding;
use deltic_net::executor::Budget;
use deltic_protocol::frame::Header;
use deltic_protocol::limits::MIN_FRAME_BYTES;
use deltic_protocol::options::Options;

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
