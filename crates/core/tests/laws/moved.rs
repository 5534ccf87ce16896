//! The search for moved blocks, compared with an exhaustive search.

use deltic_core::moved::{MAX_BLOCKS, find};
use deltic_core::{KeptSums, MovedRun, StoredSums, SumKind};
use proptest::prelude::*;
use proptest::sample::select;

const BLOCK: u32 = 4096;
/// Letters for blocks: unknown, zeros; each other letter is one block content.
const UNKNOWN: u8 = 0;
const ZEROS: u8 = 1;

const KINDS: [SumKind; 3] = [SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];

fn empty(kind: SumKind, blocks: usize) -> KeptSums {
    KeptSums::new(kind, BLOCK, [7; 32], blocks as u64 * u64::from(BLOCK))
        .expect("the version is short")
}

/// The sums of these blocks, as a store sends them.
fn stored_sums(kind: SumKind, letters: &[u8]) -> StoredSums {
    let end = letters.len() as u64 * u64::from(BLOCK);
    let mut stored = StoredSums::new(kind, BLOCK, &(0..end));
    for (start, letter) in (0..end).step_by(BLOCK as usize).zip(letters) {
        match *letter {
            UNKNOWN => {}
            ZEROS => stored.put_zeros(&(start..start + u64::from(BLOCK))),
            letter => {
                let sum = blake3::hash(&[letter]);
                stored.put_sums(start, &sum.as_bytes()[..kind.bytes()]);
            }
        }
    }
    stored
}

fn kept(kind: SumKind, letters: &[u8]) -> KeptSums {
    let mut kept = empty(kind, letters.len());
    kept.take_stored(&stored_sums(kind, letters), &(0..u64::MAX));
    kept
}

fn is_same(one: Option<&u8>, other: Option<&u8>) -> bool {
    one == other && one.is_some_and(|letter| *letter != UNKNOWN)
}

/// Reference for [`find`], block by block.
fn slow(base: &[u8], new: &[u8]) -> Vec<MovedRun> {
    let (mut runs, mut at) = (Vec::<MovedRun>::new(), 0);
    while at < new.len() {
        let run = |from: usize| {
            let same = |n: &usize| is_same(new.get(at + n), base.get(from + n));
            (from, (0..new.len() - at).take_while(same).count())
        };
        let end = runs.last().map_or(0, |run| run.end() as usize);
        let shift = runs.last().map_or(0, |run| i64::from(run.from) - i64::from(run.to));
        let shifted = usize::try_from(at as i64 + shift).ok().map(run).filter(|run| run.1 > 0);
        let stays = Some(run(at)).filter(|run| run.1 > 0);
        let near = if stays.map_or(0, |run| run.1) >= shifted.map_or(0, |run| run.1) {
            stays
        } else {
            shifted
        };
        let begins = |no: &usize| base[*no] == new[at] && (*no == 0 || base[no - 1] != base[*no]);
        let far = if new[at] > ZEROS { (0..base.len()).find(begins).map(run) } else { None };
        let far = far.filter(|run| run.1 >= 2 && near.is_none_or(|near| near.1 < 2));
        let Some((from, mut blocks)) = far.or(near) else {
            at += 1;
            continue;
        };
        let before = |n: &usize| is_same(new.get(at - n), base.get(from - n));
        let back = (1..=from.min(at - end)).take_while(before).count();
        blocks += back;
        let (to, from) = (at - back, from - back);
        at = to + blocks;
        runs.push(MovedRun { to: to as u32, from: from as u32, blocks: blocks as u32 });
    }
    runs
}

/// A base, and a version with runs of it moved, repeated or removed, and with some changed blocks.
fn versions() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let base = prop::collection::vec(0..14_u8, 0..60);
    let pieces = prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, 0..14_u8), 0..8);
    (base, pieces).prop_map(|(base, pieces)| {
        let mut new = Vec::new();
        for (from, len, other) in pieces {
            let from = if base.is_empty() { 0 } else { from.index(base.len()) };
            let piece = &base[from..(from + len).min(base.len())];
            new.extend_from_slice(piece);
            // Inserts or changes a block between two runs.
            match new.len() % 3 {
                0 => new.push(other),
                1 => new.last_mut().into_iter().for_each(|last| *last = other),
                _ => {}
            }
        }
        (base, new)
    })
}

proptest! {
    #[test]
    fn moved_runs_equal_the_exhaustive_search((base, new) in versions(), kind in select(&KINDS[..])) {
        let found = find(&kept(kind, &base), &kept(kind, &new));
        prop_assert_eq!(&found, &slow(&base, &new));
    }

    #[test]
    fn moved_runs_do_not_overlap_and_have_equal_known_blocks((base, new) in versions(), kind in select(&KINDS[..])) {
        let runs = find(&kept(kind, &base), &kept(kind, &new));
        let mut covered = vec![false; new.len()];
        let mut end = 0;
        for run in runs {
            prop_assert!(u64::from(run.to) >= end && run.blocks > 0);
            end = run.end();
            for n in 0..run.blocks as usize {
                let (to, from) = (run.to as usize + n, run.from as usize + n);
                prop_assert!(new[to] != UNKNOWN && new[to] == base[from]);
                covered[to] = true;
            }
        }
        // A pair of consecutive blocks must be found if its first block occurs once in the base.
        for (at, pair) in new.windows(2).enumerate() {
            let mut places = (0..base.len()).filter(|no| base[*no] == pair[0]);
            let (first, other) = (places.next(), places.next());
            let is_found = first.is_some_and(|no| base.get(no + 1) == Some(&pair[1]));
            if is_found && other.is_none() && pair[0] > ZEROS && pair[1] != UNKNOWN {
                prop_assert!(covered[at], "block {at}");
            }
        }
    }

    #[test]
    fn encoded_sums_decode_and_parts_combine((letters, _) in versions(), kind in select(&KINDS[..]), cut in 0..300_000_u64) {
        let mut all = kept(kind, &letters);
        let bytes = all.encode();
        let decoded = KeptSums::decode(&bytes);
        prop_assert_eq!(decoded.as_ref(), Some(&all));
        prop_assert!(bytes.len() <= 40 + letters.len() * 16);
        // Stores the sums in parts, over earlier sums.
        let mut parts = empty(kind, letters.len());
        parts.take_stored(&stored_sums(kind, &vec![9; letters.len()]), &(0..u64::MAX));
        let at = cut - cut % u64::from(BLOCK);
        parts.take_stored(&stored_sums(kind, &letters), &(at..u64::MAX / 2));
        parts.take_stored(&stored_sums(kind, &letters), &(0..at));
        prop_assert_eq!(&parts, &all);
        // Parts of blocks change nothing.
        parts.take_stored(&stored_sums(kind, &vec![9; letters.len()]), &(1..u64::from(BLOCK) * 2 - 1));
        prop_assert_eq!(&parts, &all);
        // `forget` removes every block that overlaps the range.
        let last = cut + 5000;
        all.forget_range(&(cut..last));
        let mut known = letters.clone();
        let range = known.len().min((cut / 4096) as usize)..known.len().min((last.div_ceil(4096)) as usize);
        known[range].fill(UNKNOWN);
        prop_assert_eq!(&all, &kept(kind, &known));
        all.truncate(cut);
        known.truncate((cut / 4096) as usize);
        prop_assert_eq!(&all, &kept(kind, &known));
    }
}

#[test]
fn weak_kinds_are_refused_and_other_kinds_or_keys_never_match() {
    let len = 4 * u64::from(BLOCK);
    assert_eq!(KeptSums::new(SumKind::Crc32c, BLOCK, [0; 32], len), None);
    assert_eq!(KeptSums::new(SumKind::Sha256, 0, [0; 32], len), None);
    let most = MAX_BLOCKS as u64 * u64::from(BLOCK);
    assert!(KeptSums::new(SumKind::Xxh64, BLOCK, [0; 32], most).is_some());
    assert_eq!(KeptSums::new(SumKind::Xxh64, BLOCK, [0; 32], most + u64::from(BLOCK)), None);
    let letters = [5, 6, 7, 8];
    let mut other = empty(SumKind::Sha256, 4);
    other.take_stored(&stored_sums(SumKind::Blake2b, &letters), &(0..len));
    assert_eq!(other, empty(SumKind::Sha256, 4), "another kind");
    let mut keyed = KeptSums::new(SumKind::Sha256, BLOCK, [8; 32], len).unwrap();
    keyed.take_stored(&stored_sums(SumKind::Sha256, &letters), &(0..len));
    assert_eq!(find(&kept(SumKind::Sha256, &letters), &keyed), []);
    assert_eq!(find(&keyed, &keyed).len(), 1);
    for bytes in
        [&b""[..], &[3; 60], &[0; 20], &[0; 45], &kept(SumKind::Sha256, &letters).encode()[..80]]
    {
        assert_eq!(KeptSums::decode(bytes), None, "{bytes:?}");
    }
}

/// A sum that looks like the mark of a zero block or an unknown block is stored as unknown.
#[test]
fn no_sum_is_mistaken_for_zeros_or_an_unknown_block() {
    let block = u64::from(BLOCK);
    let zeros = kept(SumKind::Xxh64, &[ZEROS; 4]);
    for byte in [0, 0xff] {
        let mut stored = StoredSums::new(SumKind::Xxh64, BLOCK, &(0..4 * block));
        stored.put_sums(0, &[byte; 32]);
        let mut sums = empty(SumKind::Xxh64, 4);
        sums.take_stored(&stored, &(0..4 * block));
        assert_eq!(find(&zeros, &sums), [], "{byte}");
        assert_eq!(find(&sums, &sums), [], "{byte}");
    }
    // Blocks of zeros match at their own offset, but start no search elsewhere.
    assert_eq!(find(&zeros, &zeros).len(), 1);
    assert_eq!(find(&kept(SumKind::Xxh64, &[9, 10, ZEROS, ZEROS]), &zeros).len(), 1);
}

/// Runs of few blocks are found in a long version too, where not every block is a seed.
#[test]
fn runs_of_a_long_version_are_found() {
    let count = (3 << 20) + 5;
    let mut base = empty(SumKind::Xxh64, count);
    let mut stored = StoredSums::new(SumKind::Xxh64, BLOCK, &base_range(count));
    let mut hasher = blake3::Hasher::new().finalize_xof();
    let mut sums = vec![0; count * 8];
    hasher.fill(&mut sums);
    stored.put_sums(0, &sums);
    base.take_stored(&stored, &base_range(count));
    // The whole base after 40 other blocks, with every hundredth block changed.
    let mut moved = vec![1; 40 * 8];
    moved.extend_from_slice(&sums);
    for no in (0..count).step_by(100) {
        moved[no * 8] ^= 1;
    }
    let mut stored = StoredSums::new(SumKind::Xxh64, BLOCK, &base_range(count + 40));
    stored.put_sums(0, &moved);
    let mut new = empty(SumKind::Xxh64, count + 40);
    new.take_stored(&stored, &base_range(count + 40));
    let runs = find(&base, &new);
    let found: usize = runs.iter().map(|run| run.blocks as usize).sum();
    assert_eq!(found, count - (count - 1) / 100);
    assert!(runs.iter().all(|run| run.from + 40 == run.to));
}

fn base_range(blocks: usize) -> std::ops::Range<u64> {
    0..blocks as u64 * u64::from(BLOCK)
}
