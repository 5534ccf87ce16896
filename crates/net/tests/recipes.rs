//! Recipes that the sessions of a process keep for each other.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "makes and looks at trees"
)]

use std::path::Path;
use std::time::{Duration, SystemTime};

use deltic_net::embed::{Embedding, RecipeCache, serve_over, sync_over};
use deltic_net::plan::{Destination, Names, Patience, Plan, Remote, Sources};
use deltic_protocol::frame::{HEADER_BYTES, Header};
use deltic_protocol::options::Options;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};

const MAGIC_BYTES: usize = 8;
/// Kind of `Resume` (docs/protocol.md).
const RESUME: u8 = 41;

/// Passes on all that comes; true if a file was wanted by a recipe of an earlier session.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> bool {
    let mut magic = [0; MAGIC_BYTES];
    from.read_exact(&mut magic).await.unwrap();
    to.write_all(&magic).await.unwrap();
    let (mut resumes, mut header) = (false, [0; HEADER_BYTES]);
    while from.read_exact(&mut header).await.is_ok() {
        let decoded = Header::decode(header).unwrap();
        resumes |= decoded.kind == RESUME;
        let mut payload = vec![0; decoded.len];
        from.read_exact(&mut payload).await.unwrap();
        if to.write_all(&[&header[..], &payload].concat()).await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
    resumes
}

/// Pushes a file; true if the receiver knew the old version.
async fn pushed(source: &Path, destination: &Path, recipes: &RecipeCache, cached: bool) -> bool {
    let mut options = Options { times: true, durable: true, ..Options::default() };
    options.compare.cached = cached;
    let plan = Plan {
        sources: Sources::Local(vec![source.into()]),
        names: Names::None,
        destination: Destination::Remote { host: "there".into(), path: destination.into() },
        options,
        remote: Remote { shell: Vec::new(), program: "deltic".into(), options: Vec::new() },
        bwlimit: None,
        dial: None,
        patience: Patience::default(),
        by_blake3: false,
        cache: None,
        batch: None,
    };
    let (near, from_near) = duplex(256 << 10);
    let (far, from_far) = duplex(256 << 10);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (split(from_near), split(from_far));
    let there = tokio::spawn(pass(near_reads, far_writes));
    let back = tokio::spawn(pass(far_reads, near_writes));
    let with = Embedding { recipes: Some(recipes.clone()), ..Embedding::default() };
    let serving = tokio::spawn(async move { serve_over(far, &with).await });
    let done = sync_over(plan, near, &Embedding::default(), &mut |_| ()).await;
    assert_eq!(done.unwrap().totals.failed, 0);
    serving.await.unwrap().unwrap();
    there.await.unwrap();
    assert_eq!(std::fs::read(destination).unwrap(), std::fs::read(source).unwrap());
    back.await.unwrap()
}

/// Writes a version of a file, `age` seconds old.
fn write(path: &Path, bytes: &[u8], age: u64) {
    std::fs::write(path, bytes).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

#[tokio::test]
async fn the_next_version_of_a_file_that_came_is_received_without_cutting_the_old_one() {
    let trees = tempfile::tempdir().unwrap();
    let (source, destination) = (trees.path().join("a"), trees.path().join("b"));
    let recipes = RecipeCache::new(1 << 20);
    let mut bytes = noise(900_000);
    let mut known = Vec::new();
    for round in 0..6_u64 {
        write(&source, &bytes, 100 - round);
        known.push(pushed(&source, &destination, &recipes, round != 4).await);
        let at = 100_000 + 90_000 * round as usize;
        bytes.splice(at..at + 10, *b"an edit of another length");
    }
    // Who asks for no cache gets none, and leaves none.
    assert_eq!(known, [false, true, true, true, false, false]);
}

#[tokio::test]
async fn a_version_that_somebody_else_wrote_is_none_that_came() {
    let trees = tempfile::tempdir().unwrap();
    let (source, destination) = (trees.path().join("a"), trees.path().join("b"));
    let recipes = RecipeCache::new(1 << 20);
    let mut bytes = noise(300_000);
    for round in 0..3_u64 {
        write(&source, &bytes, 100 - round);
        let known = pushed(&source, &destination, &recipes, true).await;
        assert_eq!(known, round > 0);
        bytes[50_000 * (1 + round as usize)] ^= 1;
    }
    // Of the same length and time, by another hand.
    let meta = std::fs::metadata(&destination).unwrap();
    std::fs::write(&destination, noise(300_000)).unwrap();
    let file = std::fs::File::options().write(true).open(&destination).unwrap();
    file.set_modified(meta.modified().unwrap()).unwrap();
    write(&source, &bytes, 50);
    assert!(!pushed(&source, &destination, &recipes, true).await);
}

#[tokio::test]
async fn recipes_that_were_of_no_use_for_longest_make_room() {
    for (room, is_enough) in [(3_000, false), (1 << 20, true)] {
        let trees = tempfile::tempdir().unwrap();
        let recipes = RecipeCache::new(room);
        let mut bytes = noise(200_000);
        for round in 0..3_u64 {
            for name in ["a", "b", "c", "d"] {
                let (source, to) = (trees.path().join(name), trees.path().join(name.repeat(2)));
                write(&source, &bytes, 100 - round);
                let known = pushed(&source, &to, &recipes, true).await;
                assert_eq!(known, is_enough && round > 0, "{room} {round}");
            }
            bytes[50_000] ^= 1 + round as u8;
        }
    }
}
