//! Tests of sessions over a connection that damages one byte. No session may end well with a tree that differs from the
//! source.
#![expect(clippy::disallowed_methods, reason = "makes and looks at what is synced")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltic_protocol::options::{Append, Delete, Options};
use tokio::io::AsyncWriteExt;

use super::*;
use crate::config::SessionConfig;
use crate::plan::{Plan, Sources};
use crate::session::{Session, dial};

/// Longest time for a session, since a session would wait for ever for the rest of a frame with a damaged length.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Longest time for a session over an undamaged connection, enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// Distance between the damaged bytes of two tries, since trying all bytes would take minutes.
const STEP: usize = 7;

/// The end that connects, and the direction of the damaged byte.
#[derive(Clone, Copy, Debug)]
struct Way {
    pulls: bool,
    /// True if the connecting end sends the byte.
    up: bool,
}

/// Returns the files and symlinks below `root`: contents and modification times. Entries that vanish meanwhile are left
/// out, because a session that was cut off may still be working.
fn tree(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, Option<std::time::SystemTime>)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(meta) = path.symlink_metadata() else { continue };
            let name = path.strip_prefix(root).expect("it is below").to_owned();
            if meta.is_dir() {
                dirs.push(path);
            } else if meta.is_symlink() {
                let Ok(target) = std::fs::read_link(&path) else { continue };
                found.insert(name, (target.into_os_string().into_encoded_bytes(), None));
            } else {
                let Ok(bytes) = std::fs::read(&path) else { continue };
                found.insert(name, (bytes, meta.modified().ok()));
            }
        }
    }
    found
}

/// Makes a source, and a destination with an older state of it.
fn make(source: &Path, destination: &Path) {
    let log: Vec<u8> = (0..400_u32).map(|n| (n * n % 251) as u8).collect();
    for (name, bytes) in [("log", &log[..]), ("a name", b"content"), ("sub/file", b"other")] {
        std::fs::create_dir_all(source.join("sub")).expect("it can be made");
        std::fs::write(source.join(name), bytes).expect("it can be written");
    }
    std::os::unix::fs::symlink("sub/file", source.join("link")).expect("it is new");
    std::fs::create_dir(destination).expect("it is new");
    std::fs::write(destination.join("log"), &log[..100]).expect("it is new");
    std::fs::write(destination.join("stale"), "old").expect("it is new");
}

fn plan(way: Way, source: &Path, destination: &Path) -> Plan {
    let mut options = Options { recursive: true, links: true, times: true, ..Options::default() };
    options.delete = Delete::AtMost(10);
    options.writing.inplace = true;
    options.writing.append = Append::Blindly;
    let source = source.join("");
    let sources = match way.pulls {
        true => Sources::Remote { host: "there".into(), paths: vec![source.into()] },
        false => Sources::Local(vec![source]),
    };
    Plan::plain(sources, destination.to_owned(), options)
}

/// The byte to change in one direction of a stream.
#[derive(Default)]
struct ByteChange {
    /// Offset of the byte. Without one, no byte is changed.
    at: Option<usize>,
    /// Number of bytes that have passed.
    passed: Arc<AtomicUsize>,
}

/// Passes on and counts the bytes of one end, with one byte changed.
async fn relay(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    ByteChange { at, passed }: ByteChange,
) {
    let mut buffer = vec![0; 1 << 14];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        let before = passed.fetch_add(len, Ordering::Relaxed);
        if let Some(at) = at.and_then(|at| at.checked_sub(before)).filter(|at| *at < len) {
            buffer[at] ^= 1;
        }
        if to.write_all(&buffer[..len]).await.is_err() {
            return;
        }
    }
    to.shutdown().await.ok();
}

/// Holds a session. Returns true if the session ended well, and the number of bytes in the tested direction.
fn hold(way: Way, at: Option<usize>, source: &Path, destination: &Path) -> (bool, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("it starts");
    let passed = Arc::new(AtomicUsize::new(0));
    let this = ByteChange { at, passed: Arc::clone(&passed) };
    let (up, down) = match way.up {
        true => (this, ByteChange::default()),
        false => (ByteChange::default(), this),
    };
    let well = runtime.block_on(async {
        let (one, near) = tokio::io::duplex(SHAPED_PIPE_BYTES);
        let (far, other) = tokio::io::duplex(SHAPED_PIPE_BYTES);
        let (near, far) = (tokio::io::split(near), tokio::io::split(far));
        tokio::spawn(relay(near.0, far.1, up));
        tokio::spawn(relay(far.0, near.1, down));
        let (ours, theirs) = (Link::from_memory(one).into(), Link::from_memory(other).into());
        let plan = plan(way, source, destination);
        let serving =
            async { Session::new(theirs, SessionConfig::default()).serve(&mut |_| ()).await };
        let mut watch = |_| ();
        let dialling = dial(Session::new(ours, SessionConfig::default()), plan, &mut watch);
        let both = async { tokio::join!(Box::pin(dialling), Box::pin(serving)) };
        let timeout = at.map_or(LONG, |_| TIMEOUT);
        matches!(tokio::time::timeout(timeout, both).await, Ok((Ok(()), _)))
    });
    runtime.shutdown_background();
    (well, passed.load(Ordering::Relaxed))
}

#[test]
fn no_session_whose_connection_damages_a_byte_ends_well_with_another_tree() {
    let ways = [(false, true), (false, false), (true, true), (true, false)];
    std::thread::scope(|scope| {
        for (pulls, up) in ways {
            scope.spawn(move || {
                let way = Way { pulls, up };
                let dir = tempfile::tempdir().expect("a directory can be made");
                let [source, destination] = ["src", "dst"].map(|name| dir.path().join(name));
                make(&source, &destination);
                let wanted = tree(&source);
                let (well, len) = hold(way, None, &source, &destination);
                assert!(well && len > 200, "{way:?}: {len} bytes");
                assert_eq!(tree(&destination), wanted, "{way:?}");
                for at in (0..len).step_by(STEP) {
                    let dir = tempfile::tempdir().expect("a directory can be made");
                    let [source, destination] = ["src", "dst"].map(|name| dir.path().join(name));
                    make(&source, &destination);
                    let wanted = tree(&source);
                    let (well, _) = hold(way, Some(at), &source, &destination);
                    let found = tree(&destination);
                    assert!(!well || found == wanted, "{way:?} {at}: {found:?}");
                    let is_known = |name: &PathBuf| {
                        let is_staged = name
                            .components()
                            .any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
                        is_staged || name == Path::new("stale") || wanted.contains_key(name)
                    };
                    assert!(found.keys().all(is_known), "{way:?} {at}: {found:?}");
                }
            });
        }
    });
}
