//! Pushes between two ends in this process.
#![allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]

use std::path::PathBuf;

use deltic_net::embed::{Embedding, serve_over, sync_over};
use deltic_net::plan::{Destination, Plan, Sources};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::options::Options;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};

const MAGIC_BYTES: usize = 8;

/// From `source` here to a destination, with no cache and no limit.
pub fn plan(source: PathBuf, destination: Destination, options: Options) -> Plan {
    Plan::new(Sources::Local(vec![source]), destination, options)
}

/// A destination at the other end.
pub fn there(path: impl Into<PathBuf>) -> Destination {
    Destination::Remote { host: "there".into(), path: path.into().into() }
}

/// Passes on all that comes, and nothing from the first frame of the kind `until` on; the headers of its frames.
pub async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    until: Option<u8>,
) -> Vec<Header> {
    let mut magic = [0; MAGIC_BYTES];
    from.read_exact(&mut magic).await.unwrap();
    to.write_all(&magic).await.unwrap();
    let (mut seen, mut header) = (Vec::new(), [0; HEADER_BYTES]);
    while from.read_exact(&mut header).await.is_ok() {
        let decoded = Header::decode(header).unwrap();
        let mut payload = vec![0; decoded.len];
        from.read_exact(&mut payload).await.unwrap();
        seen.push(decoded);
        if until == Some(decoded.kind) {
            std::future::pending::<()>().await;
        }
        let written = to.write_all(&[&header[..], &payload].concat()).await;
        if written.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
    seen
}

/// Runs a push to an end that is served `with` this; the headers of the frames to there and back.
pub async fn pushed(plan: Plan, with: Embedding) -> (Vec<Header>, Vec<Header>) {
    let (near, from_near) = duplex(256 << 10);
    let (far, from_far) = duplex(256 << 10);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (split(from_near), split(from_far));
    let there = tokio::spawn(pass(near_reads, far_writes, None));
    let back = tokio::spawn(pass(far_reads, near_writes, None));
    let serving = tokio::spawn(async move { serve_over(far, &with).await });
    let done = sync_over(plan, near, &Embedding::default(), &mut |_| ()).await;
    assert_eq!(done.unwrap().totals.failed, 0);
    serving.await.unwrap().unwrap();
    (there.await.unwrap(), back.await.unwrap())
}

/// Bytes that nothing shortens.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}
