//! Laws of gaps: deltas rebuild the new gap, the search equals the reference, and no input makes a reader
//! panic.

use std::collections::BTreeSet;

use deltic_core::gap::{BlockLen, MAX_GAP_BYTES, SHORT_SUM_BYTES, SUM_BYTES, apply};
use deltic_core::{BadDelta, CodecError, DeltaOp, GapDelta, GapSums, Put, Reader, reference};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{bytes, random};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Insert,
    Cut,
    Overwrite,
    /// Moves the bytes to the end.
    Move,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Insert), Just(Kind::Cut), Just(Kind::Overwrite), Just(Kind::Move)]
}

/// `old` with an edit of at most `len` bytes.
fn edited(old: &[u8], kind: Kind, at: Index, len: usize) -> Vec<u8> {
    let at = at.index(old.len() + 1);
    let end = (at + len).min(old.len());
    let fresh = random(old.len() as u64 ^ 0x5eed << 20, len);
    let (before, gone, behind) = (&old[..at], &old[at..end], &old[end..]);
    match kind {
        Kind::Insert => [before, &fresh, gone, behind].concat(),
        Kind::Cut => [before, behind].concat(),
        Kind::Overwrite => [before, &fresh[..end - at], behind].concat(),
        Kind::Move => [before, behind, gone].concat(),
    }
}

/// An old gap and a new gap, related by some edits or unrelated.
fn gaps() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edits = proptest::collection::vec((kind(), any::<Index>(), 0usize..4000), 0..6);
    let related = (bytes(), edits).prop_map(|(old, edits)| {
        let new = edits.into_iter().fold(old.clone(), |new, (kind, at, len)| {
            edited(&new, kind, at, if len < 2000 { len / 4 } else { len })
        });
        (old, new)
    });
    prop_oneof![9 => related, 1 => (bytes(), bytes())]
}

fn block_lens() -> impl Strategy<Value = BlockLen> {
    let some = [128, 192, 256, 320, 640, 4096].map(block_len);
    prop_oneof![3 => Just(some[0]), 2 => proptest::sample::select(some.to_vec())]
}

/// All block lengths. The sums of the shortest blocks match by chance more often.
fn all_block_lens() -> impl Strategy<Value = BlockLen> {
    prop_oneof![1 => Just(block_len(BlockLen::MIN)), 2 => block_lens()]
}

/// Several seeds. A sum may match by chance for one seed, but not for all.
fn seeds(seed: u64) -> [u64; 4] {
    [seed, !seed, seed.rotate_left(17) ^ 1, seed.rotate_left(41) ^ 2]
}

fn block_len(len: u32) -> BlockLen {
    BlockLen::new(len).expect("length is of a block")
}

fn encoded_sums(sums: &GapSums) -> Vec<u8> {
    let mut bytes = Vec::new();
    sums.encode(&mut bytes);
    bytes
}

fn encoded(delta: &GapDelta<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    delta.encode(&mut bytes);
    bytes
}

/// The new gap from the receiver's view: all messages are encoded and decoded.
fn made(old: &[u8], new: &[u8], len: BlockLen, seed: u64) -> Vec<u8> {
    let sums = GapSums::sums_of(old, len, seed);
    let bytes = encoded_sums(&sums);
    let lens = bytes.len() - old.len().div_ceil(len.get() as usize) * len.sum_bytes();
    assert!(lens <= 5, "two short numbers before the sums");
    let mut reader = Reader::new(&bytes);
    assert_eq!(GapSums::decode(&mut reader).as_ref(), Ok(&sums));
    assert_eq!(reader.finish(), Ok(()));
    let delta = GapDelta::of(new, &sums, seed);
    let bytes = encoded(&delta);
    let mut reader = Reader::new(&bytes);
    let received = GapDelta::decode(&mut reader).expect("an encoded delta decodes");
    assert_eq!(reader.finish(), Ok(()));
    assert_eq!(received, delta);
    let mut out = Vec::new();
    apply(old, &received, new.len(), &mut out).expect("the delta is of this gap");
    out
}

/// For each byte of the new gap, the old byte from which it is copied.
fn sources(delta: &GapDelta<'_>) -> Vec<Option<usize>> {
    let mut sources = Vec::new();
    for op in delta.ops() {
        match op {
            DeltaOp::Copy { old, new_start } => {
                assert_eq!(new_start, sources.len() as u64);
                sources.extend((old.start..old.end()).map(|at| Some(at as usize)));
            }
            DeltaOp::Literal { new } => {
                assert_eq!(new.start, sources.len() as u64);
                sources.extend((0..new.len).map(|_| None));
            }
        }
    }
    sources
}

proptest! {
    #[test]
    fn a_delta_rebuilds_the_new_gap(
        (old, new) in gaps(),
        len in all_block_lens(),
        seed: u64,
        before: Vec<u8>,
    ) {
        let made = seeds(seed).map(|seed| made(&old, &new, len, seed));
        for made in &made {
            prop_assert_eq!(made.len(), new.len());
        }
        prop_assert!(made.contains(&new));
        let sums = GapSums::sums_of(&old, len, seed);
        let mut out = before.clone();
        prop_assert_eq!(apply(&old, &GapDelta::of(&new, &sums, seed), new.len(), &mut out), Ok(()));
        prop_assert!(out == [&before[..], &made[0]].concat());
    }

    #[test]
    fn law4_the_gap_search_equals_the_reference(
        (old, new) in gaps(),
        len in all_block_lens(),
        seed: u64,
        cut: Index,
    ) {
        let delta = GapDelta::of(&new, &GapSums::sums_of(&old, len, seed), seed);
        let expected = reference::gap_sources(&old, &new, len.get() as usize, seed);
        prop_assert!(sources(&delta) == expected);
        let literals = |sources: &[Option<usize>]| sources.iter().filter(|source| source.is_none()).count();
        prop_assert_eq!(delta.literal_len(), literals(&expected));
        let (one, other) = expected.split_at(cut.index(expected.len() + 1));
        let lens: Vec<u64> = delta.literal_lens([one.len(), 0, other.len()].into_iter()).collect();
        prop_assert_eq!(lens, [literals(one) as u64, 0, literals(other) as u64]);
    }

    #[test]
    fn law4_sums_of_gaps_equal_the_reference(old in bytes(), len in all_block_lens(), seed: u64) {
        let bytes = encoded_sums(&GapSums::sums_of(&old, len, seed));
        let blocks = old.chunks(len.get() as usize);
        let sums: Vec<u8> = blocks
            .flat_map(|block| {
                let sum = reference::gap_sum(block, seed).to_le_bytes();
                sum[SUM_BYTES - len.sum_bytes()..SUM_BYTES].to_vec()
            })
            .collect();
        prop_assert!(bytes.ends_with(&sums));
    }

    #[test]
    fn one_edit_costs_two_blocks_at_most(
        seed: u64,
        len in 2000usize..40_000,
        block in block_lens(),
        kind in prop_oneof![Just(Kind::Insert), Just(Kind::Cut), Just(Kind::Overwrite)],
        at: Index,
    ) {
        let old = random(seed, len);
        let new = edited(&old, kind, at, 256);
        let literal_len = GapDelta::of(&new, &GapSums::sums_of(&old, block, seed), seed).literal_len();
        prop_assert!(literal_len <= 256 + 2 * block.get() as usize, "{} bytes", literal_len);
    }

    #[test]
    fn distant_edits_cost_two_blocks_each(
        seed: u64,
        kinds in proptest::collection::vec(kind().prop_filter("in place", |kind| !matches!(kind, Kind::Move)), 1..6),
        at in 0usize..4000,
    ) {
        let old = random(seed, 60_000);
        let new = kinds.iter().enumerate().rev().fold(old.clone(), |new, (n, kind)| {
            let (before, behind) = new.split_at(10_000 * n + at);
            let mut behind = behind.to_vec();
            let fresh = random(seed ^ n as u64, 256);
            match kind {
                Kind::Insert => drop(behind.splice(..0, fresh)),
                Kind::Cut => drop(behind.drain(..256)),
                Kind::Overwrite | Kind::Move => drop(behind.splice(..256, fresh)),
            }
            [before, &behind].concat()
        });
        let block = BlockLen::for_gap(60_000, 2);
        let literal_len = GapDelta::of(&new, &GapSums::sums_of(&old, block, seed), seed).literal_len();
        let bound = kinds.len() * (256 + 2 * block.get() as usize);
        prop_assert!(literal_len <= bound, "{} of {} bytes", literal_len, bound);
    }

    #[test]
    fn an_equal_gap_has_no_literal(old in bytes(), len in block_lens(), seed: u64) {
        let delta = GapDelta::of(&old, &GapSums::sums_of(&old, len, seed), seed);
        prop_assert_eq!(delta.literal_len(), 0);
        prop_assert_eq!(delta.ops().count(), usize::from(!old.is_empty()));
    }

    #[test]
    fn a_gap_with_nothing_in_common_is_one_literal(
        seed: u64,
        lens in (0usize..30_000, 1usize..30_000),
        len in all_block_lens(),
    ) {
        let (old, new) = (random(seed, lens.0), random(!seed, lens.1));
        // The last block may be a single byte that is equal by chance.
        let last = &old[old.len() - old.len() % len.get() as usize..];
        prop_assume!(last.is_empty() || !new.ends_with(last));
        let is_literal = seeds(seed).map(|seed| {
            let delta = GapDelta::of(&new, &GapSums::sums_of(&old, len, seed), seed);
            delta.literal_len() == new.len() && delta.ops().count() == 1
        });
        prop_assert!(is_literal.contains(&true));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_delta(
        raw: Vec<u8>,
        steps in proptest::collection::vec(0u8..200, 0..60),
        old_len in 0usize..300,
    ) {
        for bytes in [raw, steps] {
            let mut reader = Reader::new(&bytes);
            let Ok(delta) = GapDelta::decode(&mut reader) else { continue };
            prop_assert_eq!(&encoded(&delta)[..], &bytes[..bytes.len() - reader.rest().len()]);
            let mut out = Vec::new();
            let applied = apply(&vec![7; old_len], &delta, delta.new_len(), &mut out);
            prop_assert_eq!(out.len(), if applied.is_ok() { delta.new_len() } else { 0 });
        }
    }

    #[test]
    fn a_damaged_delta_gives_the_right_length_or_an_error(
        (old, new) in gaps(),
        pick: Index,
        value: u8,
        seed: u64,
    ) {
        let mut bytes = encoded(&GapDelta::of(&new, &GapSums::sums_of(&old, block_len(128), seed), seed));
        // Damage near the front, because most bytes are literals.
        let at = pick.index(bytes.len().min(20));
        bytes[at] = value;
        if let Ok(delta) = GapDelta::decode(&mut Reader::new(&bytes)) {
            let mut out = Vec::new();
            let applied = apply(&old, &delta, new.len(), &mut out);
            prop_assert_eq!(out.len(), if applied.is_ok() { new.len() } else { 0 });
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_sums(raw: Vec<u8>, lens in (0u64..2000, 1u32..4), seed: u64, new in bytes()) {
        let mut framed = Vec::new();
        framed.put_varint(lens.0);
        framed.put_varint((lens.1 * BlockLen::MIN).into());
        framed.extend(&raw);
        for bytes in [raw, framed] {
            let mut reader = Reader::new(&bytes);
            let Ok(sums) = GapSums::decode(&mut reader) else { continue };
            prop_assert_eq!(&encoded_sums(&sums)[..], &bytes[..bytes.len() - reader.rest().len()]);
            prop_assert_eq!(GapDelta::of(&new, &sums, seed).new_len(), new.len());
        }
    }
}

#[test]
fn sums_are_right_for_lengths_around_words_strips_and_blocks() {
    for len in (0..=20).chain(55..=73).chain(119..=137).chain(4080..=4100) {
        let old: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        let bytes = encoded_sums(&GapSums::sums_of(&old, block_len(4096), 1));
        let sums = old.chunks(4096).map(|block| reference::gap_sum(block, 1).to_le_bytes());
        let expected: Vec<u8> = sums.flat_map(|sum| sum.into_iter().take(SUM_BYTES)).collect();
        assert!(bytes.ends_with(&expected), "{len}");
    }
}

#[test]
fn a_change_in_any_byte_changes_the_sum() {
    let mut block = random(1, 4096);
    let before = encoded_sums(&GapSums::sums_of(&block, block_len(4096), 2));
    for at in 0..block.len() {
        block[at] ^= 1 << (at % 8);
        assert_ne!(encoded_sums(&GapSums::sums_of(&block, block_len(4096), 2)), before, "{at}");
        block[at] ^= 1 << (at % 8);
    }
}

/// Makes block number n of one kind.
type Block<'a> = &'a dyn Fn(usize) -> Vec<u8>;

/// Similar blocks: counting numbers, digits, swapped words and compensating changes. Of about 2000 blocks of
/// one kind, one pair may have equal sums in every eighth run.
#[test]
fn blocks_that_differ_little_have_different_sums() {
    let zeros = vec![0; 256];
    let numbers =
        |n: usize, bytes: fn(u64) -> [u8; 8]| (0..32).flat_map(move |m| bytes((n + m) as u64));
    let base = random(1, 256);
    let digits = |n: usize| format!("{n:0>8}{:0>248}", n * 7).into_bytes();
    let set = |block: &[u8], changes: &[(usize, u8)]| {
        let mut block = block.to_vec();
        changes.iter().for_each(|(at, by)| block[*at] = block[*at].wrapping_add(*by));
        block
    };
    let swapped = |n: usize| {
        let mut words: Vec<&[u8]> = base.chunks(8).collect();
        words.swap(n % 32, n / 32 % 32);
        words.swap(0, n / 1024 * 17);
        words.concat()
    };
    let kinds: [(&str, Block<'_>); 8] = [
        ("big-endian numbers", &|n| numbers(n, u64::to_be_bytes).collect()),
        ("little-endian numbers", &|n| numbers(n, u64::to_le_bytes).collect()),
        ("digits", &digits),
        ("one byte", &|n| set(&zeros, &[(n % 256, 1 + (n / 256) as u8)])),
        ("one byte of noise", &|n| set(&base, &[(n % 256, 1 + (n / 256) as u8)])),
        ("highest bytes", &|n| {
            set(&zeros, &[(7 + n % 16 * 8, 1), (135 + n / 16 % 16 * 8, 1 + (n / 256) as u8)])
        }),
        ("up and down", &|n| {
            set(
                &base,
                &[
                    (n % 120, 1 + (n / 1024) as u8),
                    (128 + n % 120, 255 - (n / 1024) as u8),
                    (n % 8 * 8 + 7, n as u8 / 8),
                ],
            )
        }),
        ("swapped words", &swapped),
    ];
    let mut equal = 0;
    for (kind, block) in kinds {
        let blocks: BTreeSet<Vec<u8>> = (0..2048).map(block).collect();
        assert!(blocks.len() > 900, "{kind}: {} blocks", blocks.len());
        for seed in 0..4 {
            let sums = blocks
                .iter()
                .map(|block| encoded_sums(&GapSums::sums_of(block, block_len(256), seed)));
            let sums: BTreeSet<Vec<u8>> = sums.collect();
            equal += blocks.len() - sums.len();
        }
    }
    assert!(equal <= 12, "{equal} pairs of blocks have equal sums");
}

#[test]
fn sums_depend_on_the_seed() {
    let old = random(1, 128);
    let sums = |seed| GapSums::sums_of(&old, block_len(128), seed);
    assert_eq!(sums(1), sums(1));
    assert_ne!(encoded_sums(&sums(1)), encoded_sums(&sums(2)));
}

#[test]
fn block_lengths_grow_as_the_root_of_the_gap() {
    let lens =
        [0, 8 << 10, 64 << 10, 256 << 10, 1 << 20, u64::MAX].map(|len| BlockLen::for_gap(len, 2));
    assert_eq!(lens.map(BlockLen::get), [32, 128, 320, 640, 1280, 4096]);
    for len in [0, 16, 31, 33, 63, 96, 127, 129, 130, 160, 4097, 4160, u32::MAX] {
        assert_eq!(BlockLen::new(len), None, "{len}");
    }
}

#[test]
fn many_edits_make_blocks_and_sums_short() {
    let lens = [(2047, 8), (2304, 9), (2352, 3), (48 << 10, 64), (48 << 10, 63)];
    let lens = lens.map(|(old, edits)| BlockLen::for_gap(old, edits));
    assert_eq!(lens.map(BlockLen::get), [32, 32, 64, 64, 64]);
    let bytes = lens.map(BlockLen::sum_bytes);
    assert_eq!(bytes, [SHORT_SUM_BYTES, SHORT_SUM_BYTES, SUM_BYTES, SUM_BYTES, SUM_BYTES]);
}

/// Four bytes of every 50 change in place: blocks of 64 bytes save nothing, blocks of 32 bytes save a quarter.
#[test]
fn the_shortest_blocks_match_between_changed_addresses() {
    let old = random(1, 50_000);
    let mut new = old.clone();
    for address in new.chunks_mut(50) {
        address[0] ^= 1;
        address[3] ^= 2;
    }
    let literal =
        |len| GapDelta::of(&new, &GapSums::sums_of(&old, block_len(len), 5), 5).literal_len();
    assert!(literal(64) > new.len() - 64, "{} bytes", literal(64));
    assert!(literal(32) < 40_000, "{} bytes", literal(32));
}

/// The old gap has a block of zeros, the new gap a long run of zeros. The block is removed from the table at
/// the first position where its successor does not follow; otherwise the search would try it at every position.
/// The blocks after the run are found independently.
#[test]
fn a_block_that_matches_everywhere_is_tried_once() {
    let (zeros, behind) = (vec![0; 200], random(2, 3000));
    let old = [&random(1, 1000)[..], &zeros, &behind].concat();
    let new = [&random(3, 700)[..], &vec![0; 9000], &behind, &[1]].concat();
    let delta = GapDelta::of(&new, &GapSums::sums_of(&old, block_len(128), 3), 3);
    let found = sources(&delta);
    assert!(found == reference::gap_sources(&old, &new, 128, 3));
    let first = found.iter().position(Option::is_some);
    assert_eq!(first, Some(9700 - 48), "the block after the zeros begins with 48 zeros");
}

#[test]
fn a_delta_of_another_gap_is_an_error() {
    let (old, new) = (random(1, 1000), random(1, 2000));
    let sums = GapSums::sums_of(&old, block_len(128), 1);
    let delta = GapDelta::of(&new, &sums, 1);
    let mut out = vec![1, 2, 3];
    let short = apply(&old[..999], &delta, 2000, &mut out);
    assert_eq!(short, Err(BadDelta::BeyondOld));
    let len = apply(&old, &delta, 1999, &mut out);
    assert_eq!(len, Err(BadDelta::Len { made: 2000, expected: 1999 }));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn an_invalid_delta_is_refused() {
    let sums = |old_len: u64, len: u64| {
        let mut bytes = Vec::new();
        bytes.put_varint(old_len);
        bytes.put_varint(len);
        GapSums::decode(&mut Reader::new(&bytes)).map(|_| ())
    };
    let max = MAX_GAP_BYTES as u64;
    assert_eq!(sums(0, 128), Ok(()));
    assert_eq!(sums(max, 128), Err(CodecError::Truncated));
    assert_eq!(sums(max + 1, 128), Err(CodecError::OutOfRange));
    assert_eq!(sums(u64::MAX, 128), Err(CodecError::OutOfRange));
    for len in [0, 16, 96, 130, 4160, 1 << 40] {
        assert_eq!(sums(0, len), Err(CodecError::OutOfRange), "{len}");
    }
    let delta = |steps: &[(u64, u64, i64)], last: u64| {
        let mut bytes = Vec::new();
        for (literal_len, len, skip) in steps {
            bytes.put_varint(*literal_len);
            bytes.put_varint(*len);
            bytes.put_signed(*skip);
        }
        bytes.put_varint(last);
        bytes.put_varint(0);
        GapDelta::decode(&mut Reader::new(&bytes)).map(|delta| delta.new_len())
    };
    assert_eq!(delta(&[], 0), Ok(0));
    assert_eq!(delta(&[(0, 5, 7), (0, 5, -12)], 0), Ok(10));
    assert_eq!(delta(&[(0, 5, 7), (0, 5, 0)], 0), Err(CodecError::NotCanonical));
    assert_eq!(delta(&[(0, 5, 7), (0, 5, -13)], 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&[(0, 5, i64::MIN)], 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&[(0, 5, i64::MAX), (0, 1, 1)], 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&[(0, max, 0)], 0), Ok(MAX_GAP_BYTES));
    assert_eq!(delta(&[(0, max, 0), (0, 1, -1)], 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&[(0, max + 1, 0)], 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&[], max), Err(CodecError::Truncated));
    assert_eq!(delta(&[], max + 1), Err(CodecError::OutOfRange));
    let many = vec![(0, 1, 1); MAX_GAP_BYTES / BlockLen::MIN as usize + 2];
    assert_eq!(delta(&many, 0), Err(CodecError::OutOfRange));
    assert_eq!(delta(&many[1..], 0), Ok(many.len() - 1));
}
