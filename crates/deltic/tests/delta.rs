//! Properties of deltas between buffers.

use deltic::{Delta, DeltaError, DeltaOp, FormatError, apply, delta};
use proptest::prelude::*;

/// Returns pseudo-random bytes for a seed.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Applies edits: a position in thousandths of the length, the number of bytes to cut, and the bytes to insert.
fn edited(old: &[u8], edits: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut new = old.to_vec();
    for (place, cut, put) in edits {
        let at = new.len() * place / 1000;
        let end = new.len().min(at + cut);
        new.splice(at..end, put.iter().copied());
    }
    new
}

proptest! {
    #[test]
    fn a_delta_makes_the_new_version(
        len in 0_usize..200_000,
        seed in 1_u64..,
        edits in prop::collection::vec((0_usize..=1000, 0_usize..5000, prop::collection::vec(any::<u8>(), 0..300)), 0..6),
    ) {
        let old = noise(len, seed);
        let new = edited(&old, &edits);
        let made = delta(&old, &new);
        prop_assert_eq!(made.new_len(), new.len() as u64);
        prop_assert_eq!(apply(&old, &made), Ok(new.clone()));
        prop_assert_eq!(made.ops().iter().map(DeltaOp::len).sum::<usize>(), new.len());
        prop_assert!(made.ops().iter().all(|op| !op.is_empty()));
        let decoded = Delta::decode(&made.encode()).unwrap();
        prop_assert_eq!(decoded.apply(&old), Ok(new));
    }

    #[test]
    fn invalid_bytes_are_an_error(bytes: Vec<u8>) {
        prop_assert!(Delta::decode(&bytes).is_err());
    }

    #[test]
    fn a_damaged_delta_fails_or_makes_the_same(at in 0_usize..10_000, flip in 1_u8..) {
        let old = noise(50_000, 7);
        let new = edited(&old, &[(300, 10, noise(900, 9))]);
        let mut bytes = delta(&old, &new).encode();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if let Ok(made) = Delta::decode(&bytes).and_then(|delta| delta.apply(&old)) {
            prop_assert_eq!(made, new);
        }
    }
}

#[test]
fn a_small_edit_costs_about_its_bytes() {
    for len in [10_000, 100_000, 3_000_000] {
        let old = noise(len, 3);
        let new = edited(&old, &[(250, 0, noise(100, 5)), (750, 60, Vec::new())]);
        let literal = delta(&old, &new).literal_bytes();
        assert!((100..1500).contains(&literal), "{literal} literal bytes of {len}");
    }
}

#[test]
fn equal_versions_are_one_copy_and_repeats_are_copies() {
    let old = noise(100_000, 11);
    assert_eq!(delta(&old, &old).ops(), [DeltaOp::Copy(0..old.len())]);
    let twice = [&old[..], &old].concat();
    assert!(delta(&old, &twice).literal_bytes() < 5_000);
    assert!(delta(&[], &[]).ops().is_empty());
}

#[test]
fn another_old_version_is_refused() {
    let (old, new) = (noise(60_000, 1), noise(60_000, 2));
    let made = delta(&old, &new);
    assert_eq!(made.apply(&old[1..]), Err(DeltaError::OtherOld));
    let copies = delta(&old, &edited(&old, &[(500, 1, vec![])]));
    assert_eq!(copies.apply(&new), Err(DeltaError::OtherOld));
    assert_eq!(Delta::decode(b"DELTICD\x01"), Err(DeltaError::Format(FormatError::Truncated)));
}
