//! Signatures, deltas and patches over streams.
#![expect(clippy::unwrap_used, reason = "makes streams in memory")]

use std::io::{self, Cursor, Read};

use deltic::streams::{StreamError, delta, patch, signature};

fn noise(len: usize) -> Vec<u8> {
    let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8;
    (0..len as u64).map(|n| byte(n * n)).collect()
}

/// Returns the signature of `old`, and the delta from `old` to `new`.
fn made(old: &[u8], new: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut sums, mut steps) = (Vec::new(), Vec::new());
    signature(old, Some(old.len() as u64), &mut sums).unwrap();
    delta(&sums[..], new, &mut steps).unwrap();
    (sums, steps)
}

/// Two versions of a megabyte, and of nothing.
fn versions() -> [(Vec<u8>, Vec<u8>); 3] {
    let old = noise(1_000_000);
    let mut new = old.clone();
    new.splice(500_000..500_100, *b"not the same");
    [(old, new.clone()), (Vec::new(), new.clone()), (new, Vec::new())]
}

#[test]
fn the_three_calls_make_the_new_version_from_the_old() {
    for (old, new) in versions() {
        let (sums, steps) = made(&old, &new);
        let mut patched = Vec::new();
        patch(Cursor::new(&old), &steps[..], &mut patched).unwrap();
        assert!(patched == new);
        assert!(old.is_empty() || sums.len() < old.len() / 20 + 200);
        // A delta file for `Delta` too.
        assert!(deltic::Delta::decode(&steps).unwrap().apply(&old).unwrap() == new);
    }
    let (old, new) = &versions()[0];
    assert!(made(old, new).1.len() < 50_000);
}

/// A reader that gives a byte at a time, and is interrupted before each.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = to.len().min(1);
        self.0.read(&mut to[..len])
    }
}

#[test]
fn short_and_interrupted_reads_change_nothing() {
    let (old, new) = (noise(30_000), noise(29_000));
    let (mut sums, mut steps, mut patched) = (Vec::new(), Vec::new(), Vec::new());
    signature(Trickle(&old, false), None, &mut sums).unwrap();
    delta(Trickle(&sums, false), Trickle(&new, false), &mut steps).unwrap();
    patch(Cursor::new(&old), Trickle(&steps, false), &mut patched).unwrap();
    assert!(patched == new);
}

#[test]
fn another_old_version_and_damaged_files_are_errors() {
    let [(old, new), ..] = versions();
    let (sums, steps) = made(&old, &new);
    let mut other = old.clone();
    other[10] ^= 1;
    for other in [other, old[1..].to_vec()] {
        let ended = patch(Cursor::new(&other), &steps[..], io::sink());
        assert!(matches!(ended, Err(StreamError::OtherOld)), "{ended:?}");
    }
    for at in [0, 9, steps.len() / 2, steps.len() - 1] {
        let mut bad = steps.clone();
        bad[at] ^= 1;
        let ended = patch(Cursor::new(&old), &bad[..], io::sink());
        assert!(ended.is_err(), "{at}");
        assert!(patch(Cursor::new(&old), &steps[..at], io::sink()).is_err(), "{at}");
    }
    let ended = delta(&sums[..sums.len() - 1], &new[..], io::sink());
    assert!(matches!(ended, Err(StreamError::Format(_))), "{ended:?}");
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let ended = patch(Cursor::new(&old), &steps[..], Full);
    assert!(matches!(ended, Err(StreamError::Io(_))), "{ended:?}");
}
