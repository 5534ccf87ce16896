//! Frames of whole sessions within the limit that one end asks for.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

use std::path::Path;

use deltic_net::embed::{Embedding, serve_over, sync_over};
use deltic_net::executor::Budget;
use deltic_net::plan::{Destination, Names, Patience, Plan, Remote, Sources};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::limits::MIN_FRAME_BYTES;
use deltic_protocol::options::Options;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};

const MAGIC_BYTES: usize = 8;

fn plan(source: &Path, destination: &Path) -> Plan {
    let path = destination.into();
    Plan {
        sources: Sources::Local(vec![source.join("")]),
        names: Names::None,
        destination: Destination::Remote { host: "there".into(), path },
        options: Options { recursive: true, times: true, durable: false, ..Options::default() },
        remote: Remote { shell: Vec::new(), program: "deltic".into(), options: Vec::new() },
        bwlimit: None,
        dial: None,
        patience: Patience::default(),
        by_blake3: false,
        cache: None,
        batch: None,
    }
}

/// Passes on all that comes; the longest payload in it.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> usize {
    let mut magic = [0; MAGIC_BYTES];
    from.read_exact(&mut magic).await.unwrap();
    to.write_all(&magic).await.unwrap();
    let (mut longest, mut header) = (0, [0; HEADER_BYTES]);
    while from.read_exact(&mut header).await.is_ok() {
        let mut payload = vec![0; Header::decode(header).unwrap().len];
        from.read_exact(&mut payload).await.unwrap();
        longest = longest.max(payload.len());
        let written = to.write_all(&[&header[..], &payload].concat()).await;
        if written.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
    longest
}

/// Pushes a tree; the longest payloads to there and back.
async fn pushed(source: &Path, destination: &Path, frame_bytes: usize) -> (usize, usize) {
    let (near, from_near) = duplex(256 << 10);
    let (far, from_far) = duplex(256 << 10);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (split(from_near), split(from_far));
    let there = tokio::spawn(pass(near_reads, far_writes));
    let back = tokio::spawn(pass(far_reads, near_writes));
    let budget = Budget { frame_bytes, credit: Some(frame_bytes as u64), ..Budget::default() };
    let with = Embedding { budget, ..Embedding::default() };
    let serving = tokio::spawn(async move { serve_over(far, &with).await });
    let done = sync_over(plan(source, destination), near, &Embedding::default(), &mut |_| ()).await;
    assert_eq!(done.unwrap().totals.failed, 0);
    serving.await.unwrap().unwrap();
    (there.await.unwrap(), back.await.unwrap())
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
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
