//! Whole sessions between two stores in memory.

use deltic_protocol::options::{Delete, Options};

use crate::ends::{SessionEnd, SessionFailed, push};

/// Files and their contents.
const FILES: [(&str, &[u8]); 4] =
    [("a", b"one"), ("dir/b", b"two and more"), ("dir/empty", b""), ("dir/deep/c", &[7; 300_000])];

/// Length of a file whose interrupted transfer is noted in a journal, in bytes.
const LARGE: usize = (32 << 20) + 100_000;

fn options() -> Options {
    let mut options = Options { recursive: true, times: true, durable: true, ..Options::default() };
    options.compare.cached = true;
    options
}

/// Returns pseudo-random bytes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), SessionFailed> {
    if holds { Ok(()) } else { Err(SessionFailed(otherwise.into())) }
}

/// Checks that the destination has the bytes of each of these files.
fn ensure_equal(end: &SessionEnd, files: &[(&str, &[u8])]) -> Result<(), SessionFailed> {
    let is_equal = |(path, bytes): &(&str, &[u8])| end.store.bytes(path).as_deref() == Some(bytes);
    ensure(files.iter().all(is_equal), "the destination has something else")
}

/// Syncs `new` to a destination that holds `old`. Not more than `most` literal bytes may be sent.
fn one_file(old: Option<&[u8]>, new: &[u8], most: u64) -> Result<(), SessionFailed> {
    let (source, destination) = (SessionEnd::default(), SessionEnd::default());
    // The time of the second version differs from the time of the old version.
    [b"first", new].iter().for_each(|bytes| source.store.put("file", bytes));
    old.iter().for_each(|old| destination.store.put("file", old));
    let totals = push(&source, &destination, &options(), usize::MAX)?;
    ensure_equal(&destination, &[("file", new)])?;
    let literal = totals.literal;
    ensure(literal <= most, &format!("{literal} literal bytes came, not {most} at most"))
}

/// Syncs files that are new, edited, moved, cut, empty. Returns the number of sessions.
fn files() -> Result<u8, SessionFailed> {
    let base = noise(3 << 20, 1);
    let mut edited = base.clone();
    [1000, 70_000, 1 << 20, 2_000_000].into_iter().for_each(|at| edited[at] ^= 1);
    let inserted = [&base[..700_000], b"some words", &base[700_000..]].concat();
    let moved = [&base[2 << 20..], &base[..2 << 20]].concat();
    let zeros = [&base[..1 << 20], &vec![0; 1 << 20], &base[1 << 20..]].concat();
    let small = noise(100, 2);
    one_file(None, &base, 3 << 20)?;
    one_file(Some(&base), &edited, 64 << 10)?;
    one_file(Some(&base), &inserted, 64 << 10)?;
    one_file(Some(&base), &moved, 256 << 10)?;
    one_file(Some(&base), &zeros, (1 << 20) + (128 << 10))?;
    one_file(Some(&base), &base[..1 << 20], 128 << 10)?;
    one_file(Some(&small), &base, 3 << 20)?;
    one_file(None, &small, 100)?;
    one_file(Some(&base), &[], 0)?;
    Ok(9)
}

/// Syncs a tree, and again: the facts of the first sessions spare all reads. A name that the source does not have is
/// deleted. Returns the number of sessions.
fn tree() -> Result<u8, SessionFailed> {
    let (source, destination) = (SessionEnd::default(), SessionEnd::default());
    FILES.iter().for_each(|(path, bytes)| source.store.put(path, bytes));
    destination.store.put("dir/gone", b"not in the source");
    let options = Options { checksum: true, delete: Delete::AtMost(10), ..options() };
    let totals = push(&source, &destination, &options, usize::MAX)?;
    ensure_equal(&destination, &FILES)?;
    ensure(totals.deleted == 1, "one name is deleted")?;
    ensure(destination.store.bytes("dir/gone").is_none(), "the deleted name is still there")?;
    // A sender takes no digest of a file that it sends by its recipe: the second session does.
    push(&source, &destination, &options, usize::MAX)?;
    let reads = || (source.reads(), destination.reads());
    let before = reads();
    let totals = push(&source, &destination, &options, usize::MAX)?;
    ensure(
        (totals.literal, reads()) == (0, before),
        "a file was read although its digest is known",
    )?;
    Ok(3)
}

/// Syncs a large file over a connection that breaks, and again. Returns the number of sessions.
fn resumed() -> Result<u8, SessionFailed> {
    let (source, destination) = (SessionEnd::default(), SessionEnd::default());
    let bytes = noise(LARGE, 7);
    source.store.put("large", &bytes);
    let broken = push(&source, &destination, &options(), 20 << 20);
    ensure(broken.is_err(), "the connection did not break")?;
    ensure(destination.store.bytes("large").is_none(), "half a file is in place")?;
    let totals = push(&source, &destination, &options(), LARGE - (4 << 20))?;
    ensure(totals.resumed > 0, "nothing was resumed")?;
    ensure_equal(&destination, &[("large", &bytes)])?;
    Ok(2)
}

/// Runs all cases. Returns the number of sessions.
///
/// # Errors
/// A message for the first case that failed.
pub(crate) fn check() -> Result<u8, String> {
    let cases = [("files", files as fn() -> _), ("tree", tree), ("resumed", resumed)];
    let mut sessions = 0;
    for (name, case) in cases {
        sessions += case().map_err(|SessionFailed(why)| format!("{name}: {why}"))?;
    }
    Ok(sessions)
}
