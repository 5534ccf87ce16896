//! Laws of the rolling search.

use std::sync::Arc;

use deltic_core::chunk::FixedLen;
use deltic_core::search::{SLACK_BYTES, STRONG_PER_BYTE, SearchCounts};
use deltic_core::{
    AtEnd, BlockSpec, BlockSums, Crc32c, DeltaOp, Locality, RollingKind, Searcher, Span,
    StoredSums, StrongKind, SumKey, SumKind, WeakKind, reference,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{bytes, random};

const LOCALITIES: [Locality; 2] = [Locality::Neighbour, Locality::Ignored];
const ROLLING: [RollingKind; 2] = [RollingKind::Adler, RollingKind::Crc32c];
/// The minimum block length.
const LEN: usize = 512;

fn spec(len: usize, weak: RollingKind) -> BlockSpec {
    let len = FixedLen::new(len as u32).expect("length is in range");
    BlockSpec { len, weak, strong: StrongKind::SipHash, key: None }
}

fn sums(spec: BlockSpec, old: &[u8]) -> BlockSums {
    let mut sums = BlockSums::new(spec);
    assert_eq!(sums.sum(old, AtEnd::Yes), Ok(old.len()));
    sums
}

/// Searches `new` in pieces, whose lengths repeat `pieces`.
fn search(
    sums: &BlockSums,
    locality: Locality,
    new: &[u8],
    pieces: &[usize],
) -> (Vec<DeltaOp>, SearchCounts) {
    let mut searcher = Searcher::new(Arc::new(sums.clone()), locality);
    let (mut ops, mut settled, mut end) = (Vec::new(), 0, 0);
    for piece in pieces.iter().cycle() {
        end = new.len().min(end + piece);
        let at_end = if end == new.len() { AtEnd::Yes } else { AtEnd::No };
        let before = settled;
        settled += searcher.search(&new[settled..end], at_end, |op| {
            if let DeltaOp::Literal { new } = op {
                assert!(before as u64 <= new.start && new.end() <= end as u64, "{op:?}");
            }
            ops.push(op);
        });
        assert!(end - settled <= sums.spec().len.get() as usize, "{end} - {settled}");
        if at_end == AtEnd::Yes {
            break;
        }
    }
    assert_eq!(settled, new.len());
    (ops, searcher.counts())
}

/// Searches `new` by regions, whose lengths repeat `lens`, after a first piece that is searched alone.
fn by_regions(
    sums: &BlockSums,
    new: &[u8],
    first: usize,
    lens: &[usize],
    kept: Option<&StoredSums>,
) -> (Vec<DeltaOp>, SearchCounts) {
    let mut searcher = Searcher::new(Arc::new(sums.clone()), Locality::Ignored);
    let (blocks, len) = (searcher.blocks(), new.len() as u64);
    let (mut ops, first) = (Vec::new(), first.min(new.len()));
    let is_all = if first == new.len() { AtEnd::Yes } else { AtEnd::No };
    let mut at = searcher.search_with(&new[..first], is_all, kept, |op| ops.push(op));
    let mut start = at as u64;
    for more in lens.iter().cycle() {
        if start == len {
            break;
        }
        let end = start + *more as u64;
        let range = start..if end + blocks.block_len() as u64 > len { len } else { end };
        start = range.end;
        let read = blocks.bytes_to_read(&range, len);
        let bytes = &new[read.start as usize..read.end as usize];
        let region = blocks.find(range, bytes, kept);
        let (bytes, is_end) = (&new[at.min(read.end as usize)..read.end as usize], start == len);
        let at_end = if is_end { AtEnd::Yes } else { AtEnd::No };
        at += searcher.search_region(bytes, at_end, (&region, kept), |op| ops.push(op));
    }
    assert_eq!(at, new.len());
    (ops, searcher.counts())
}

/// Joins consecutive literals.
fn joined(ops: Vec<DeltaOp>) -> Vec<DeltaOp> {
    let mut joined: Vec<DeltaOp> = Vec::new();
    for op in ops {
        match (joined.last_mut(), op) {
            (Some(DeltaOp::Literal { new: last }), DeltaOp::Literal { new })
                if last.end() == new.start =>
            {
                last.len += new.len;
            }
            _ => joined.push(op),
        }
    }
    joined
}

fn whole(sums: &BlockSums, locality: Locality, new: &[u8]) -> (Vec<DeltaOp>, SearchCounts) {
    search(sums, locality, new, &[new.len().max(1)])
}

/// The blocks that `ops` copy, with their offsets in the new version.
fn matches(ops: &[DeltaOp], len: usize) -> Vec<(usize, usize)> {
    let blocks = |op: &DeltaOp| match *op {
        DeltaOp::Literal { .. } => vec![],
        DeltaOp::Copy { old, new_start } => (0..(old.len as usize).div_ceil(len))
            .map(|n| (old.start as usize / len + n, new_start as usize + n * len))
            .collect(),
    };
    ops.iter().flat_map(blocks).collect()
}

/// Number of literal bytes.
fn literal_bytes(ops: &[DeltaOp]) -> usize {
    let bytes = |op: &DeltaOp| match op {
        DeltaOp::Literal { new } => new.len as usize,
        DeltaOp::Copy { .. } => 0,
    };
    ops.iter().map(bytes).sum()
}

/// Asserts that `ops` cover the new version in order and without gaps.
fn assert_tiles(ops: &[DeltaOp], new_len: usize) {
    let end = ops.iter().fold(0, |at, op| {
        let span = match *op {
            DeltaOp::Literal { new } => new,
            DeltaOp::Copy { old, new_start } => Span::new(new_start, old.len),
        };
        assert_eq!(span.start, at, "{op:?}");
        span.end()
    });
    assert_eq!(end, new_len as u64);
}

/// An old version, and a new version with some insertions, deletions and overwrites.
fn versions() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edit = (any::<usize>(), 0usize..1500, 0..3, any::<u64>());
    let old = prop_oneof![3 => bytes(), 1 => repeated()];
    (old, proptest::collection::vec(edit, 0..4)).prop_map(|(old, edits)| {
        let mut new = old.clone();
        for (at, len, kind, seed) in edits {
            let at = at % (new.len() + 1);
            let end = new.len().min(at + len);
            match kind {
                0 => drop(new.splice(at..at, random(seed, len))),
                1 => drop(new.drain(at..end)),
                _ => drop(new.splice(at..end, random(seed, end - at))),
            }
        }
        (old, new)
    })
}

/// Two blocks in random order, followed by the start of the first.
fn repeated() -> impl Strategy<Value = Vec<u8>> {
    let blocks = [random(1, LEN), random(2, LEN)];
    let order = proptest::collection::vec(0usize..2, 1..40);
    (order, 0..LEN).prop_map(move |(order, short)| {
        let whole: Vec<u8> = order.iter().flat_map(|n| blocks[*n].clone()).collect();
        [&whole, &blocks[0][..short]].concat()
    })
}

proptest! {
    #[test]
    fn law4_matches_equal_the_reference(
        (old, new) in versions(),
        len in select(vec![512usize, 513, 700, 1024]),
    ) {
        for weak in ROLLING {
            let sums = sums(spec(len, weak), &old);
            for locality in LOCALITIES {
                let (ops, counts) = whole(&sums, locality, &new);
                let neighbours = locality == Locality::Neighbour;
                let expected = reference::search(&old, &new, len, neighbours);
                prop_assert_eq!(counts.unproven, 0);
                prop_assert_eq!(matches(&ops, len), expected, "{:?} {:?}", weak, locality);
            }
        }
    }

    #[test]
    fn law5_copies_and_literals_rebuild_the_new_version_for_any_pieces(
        (old, new) in versions(),
        other in bytes(),
        pieces in proptest::collection::vec(1usize..3000, 1..5),
    ) {
        for weak in ROLLING {
            let sums = sums(spec(LEN, weak), &old);
            for locality in LOCALITIES {
                for new in [&new, &other] {
                    let (ops, _) = search(&sums, locality, new, &pieces);
                    assert_tiles(&ops, new.len());
                    prop_assert!(reference::apply(&ops, &old, new) == *new);
                    let (at_once, _) = whole(&sums, locality, new);
                    prop_assert_eq!(matches(&ops, LEN), matches(&at_once, LEN));
                }
            }
        }
    }

    #[test]
    fn sums_from_pieces_equal_sums_of_the_whole(
        old in bytes(),
        pieces in proptest::collection::vec(1usize..3000, 1..5),
    ) {
        let expected = sums(spec(LEN, RollingKind::Adler), &old);
        let mut found = BlockSums::new(*expected.spec());
        let (mut summed, mut end) = (0, 0);
        for piece in pieces.iter().cycle() {
            end = old.len().min(end + piece);
            let at_end = if end == old.len() { AtEnd::Yes } else { AtEnd::No };
            summed += found.sum(&old[summed..end], at_end).unwrap();
            if at_end == AtEnd::Yes {
                break;
            }
        }
        prop_assert_eq!(found.old_len(), old.len() as u64);
        prop_assert_eq!(found.count(), expected.count());
        for (n, block) in (0..).zip(old.chunks(LEN)) {
            prop_assert_eq!(found.weak(n), WeakKind::Adler.of(block));
            let strong = StrongKind::SipHash.sum_of(None, block);
            prop_assert_eq!(found.strong(n), strong.as_bytes());
            prop_assert_eq!(found.span(n), Span::new(u64::from(n) * LEN as u64, block.len() as u32));
        }
    }

    #[test]
    fn an_edit_of_256_bytes_costs_at_most_two_blocks(
        seed in any::<u64>(),
        at in any::<usize>(),
        len in select(vec![512usize, 700, 2048]),
    ) {
        let old = random(seed, 40_000);
        let at = at % (old.len() - 256);
        let edits: [(usize, usize); 3] = [(0, 256), (256, 0), (256, 256)];
        for (cut, insert) in edits {
            let mut new = old.clone();
            new.splice(at..at + cut, random(!seed, insert));
            let sums = sums(spec(len, RollingKind::Adler), &old);
            let (ops, _) = whole(&sums, Locality::Neighbour, &new);
            let literal = literal_bytes(&ops);
            // The inserted bytes, and the blocks that the edit changes: two, because a block is longer than an
            // edit.
            prop_assert!(literal <= 2 * len + insert - cut.min(insert), "{cut} {insert}: {literal}");
        }
    }
}

#[test]
fn an_unchanged_file_costs_one_strong_sum_for_each_block_and_is_one_run() {
    let old = random(1, 100 * LEN + 17);
    for weak in ROLLING {
        let (ops, counts) = whole(&sums(spec(LEN, weak), &old), Locality::Neighbour, &old);
        assert_eq!(ops, [DeltaOp::Copy { old: Span::new(0, old.len() as u32), new_start: 0 }]);
        assert_eq!((counts.strong, counts.false_alarms), (101, 0));
        assert_eq!((counts.neighbours, counts.tag_hits), (99, 1), "the first block is looked up");
        // Binary searches among 100 blocks for the first block, and one comparison for the short block at the end.
        assert!(counts.weak <= 9, "{counts:?}");
    }
}

/// The mechanism of WebR2sync+ §5.2: the same matches, and only windows behind an edit are looked up in the table.
#[test]
fn locality_bypasses_the_table_except_behind_edits() {
    let blocks = 200_usize;
    let old = random(31, blocks * LEN);
    let mut new = old.clone();
    new.splice(150 * LEN + 7..150 * LEN + 7, *b"insert");
    new[90 * LEN + 100] ^= 1;
    new.drain(20 * LEN + 3..20 * LEN + 40);
    for weak in ROLLING {
        let sums = sums(spec(LEN, weak), &old);
        let (with, local) = whole(&sums, Locality::Neighbour, &new);
        let (without, plain) = whole(&sums, Locality::Ignored, &new);
        assert_eq!(with, without, "{weak:?}");
        let matched = blocks as u64 - 3;
        let looked_up = matched - local.neighbours;
        // The first block, and one block behind each edit.
        assert_eq!((looked_up, plain.neighbours), (4, 0), "{weak:?}");
        assert!(plain.tag_hits >= matched && local.tag_hits < 40, "{local:?}, {plain:?}");
        assert!(local.weak < plain.weak / 10, "{weak:?}: {local:?}, {plain:?}");
        // A strong sum for each matched block, and one in vain at each edit.
        assert_eq!(
            (plain.strong - plain.false_alarms, local.strong - local.false_alarms),
            (197, 200)
        );
    }
}

#[test]
fn a_window_behind_a_match_costs_one_strong_sum_even_if_the_neighbour_differs() {
    let old = random(33, 64 * LEN);
    // Each block is followed by another block than in the old version.
    let new: Vec<u8> = old.chunks(LEN).rev().flatten().copied().collect();
    let (ops, counts) =
        whole(&sums(spec(LEN, RollingKind::Adler), &old), Locality::Neighbour, &new);
    assert_eq!(matches(&ops, LEN).len(), 64);
    assert_eq!((counts.strong, counts.neighbours), (64, 0));
}

/// Behind an overwrite the first of equal blocks is found, and then the blocks after it.
#[test]
fn equal_blocks_after_an_overwrite_begin_again_at_the_first() {
    let random = random(3, LEN);
    let old: Vec<u8> = (0..20).flat_map(|_| random.clone()).collect();
    let mut new = old.clone();
    new[3 * LEN + 5] ^= 1;
    let (ops, _) = whole(&sums(spec(LEN, RollingKind::Adler), &old), Locality::Neighbour, &new);
    let expected = [
        DeltaOp::Copy { old: Span::new(0, 3 * LEN as u32), new_start: 0 },
        DeltaOp::Literal { new: Span::new(3 * LEN as u64, LEN as u32) },
        DeltaOp::Copy { old: Span::new(0, 16 * LEN as u32), new_start: 4 * LEN as u64 },
    ];
    assert_eq!(ops, expected);
}

/// Runs of zeros and of one block, in one version or in both. Counts work instead of measuring time.
#[test]
fn repeated_blocks_cost_no_more_than_others() {
    let blocks = 1000;
    let zeros = vec![0; blocks * LEN];
    let block = random(2, LEN);
    let repeated: Vec<u8> = (0..blocks).flat_map(|_| block.clone()).collect();
    let shifted = [&repeated[100..], &repeated[..100]].concat();
    let period: Vec<u8> = (0..blocks * LEN).map(|n| (n % 251) as u8).collect();
    let versions = [&zeros, &repeated, &shifted, &period];
    for old in versions {
        for new in versions {
            for locality in LOCALITIES {
                for weak in ROLLING {
                    let sums = sums(spec(LEN, weak), old);
                    let (ops, counts) = whole(&sums, locality, new);
                    assert_tiles(&ops, new.len());
                    assert!(reference::apply(&ops, old, new) == **new);
                    assert!(counts.strong <= blocks as u64 + 1, "{counts:?}");
                    // Binary searches in a table of few entries, because equal blocks have one entry.
                    assert!(counts.weak <= 10 * new.len() as u64, "{counts:?}");
                    if old == new {
                        assert_eq!(literal_bytes(&ops), 0);
                        assert!(counts.weak <= 10 * blocks as u64, "{counts:?}");
                    }
                }
            }
        }
    }
}

/// Bytes whose windows all have the same Adler sum although no two windows are equal: +1, -1, -1, +1 changes
/// neither half.
fn forged(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![64u8; len];
    for (quad, dice) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(random(seed, len / 8)) {
        let step = dice % 2 * (1 + dice / 2 % 60);
        for (at, sign) in [(0, 1), (1, -1), (2, -1), (3, 1)] {
            quad[at] = quad[at].wrapping_add_signed(step as i8 * sign);
        }
    }
    bytes
}

#[test]
fn forged_weak_sums_cannot_buy_more_than_the_budget() {
    let len = 1024;
    let (old, new) = (forged(1, 512 * len), forged(2, 512 * len));
    let sums = sums(spec(len, RollingKind::Adler), &old);
    let weak: Vec<u32> = (0..sums.count()).map(|n| sums.weak(n)).collect();
    assert!(weak.iter().all(|sum| *sum == weak[0]), "the blocks are forged");
    for locality in LOCALITIES {
        let mut alarms = Vec::new();
        for pieces in [vec![new.len()], vec![700, 5000]] {
            let (ops, counts) = search(&sums, locality, &new, &pieces);
            alarms.push(counts.strong + counts.unproven);
            assert_tiles(&ops, new.len());
            assert_eq!(literal_bytes(&ops), new.len());
            let budget = STRONG_PER_BYTE * new.len() as u64 + SLACK_BYTES;
            assert!(counts.strong * len as u64 <= budget, "{counts:?}");
            assert!(counts.unproven > counts.strong, "the budget was tried: {counts:?}");
            // Binary searches among 512 blocks.
            assert!(counts.weak <= 11 * new.len() as u64, "{counts:?}");
        }
        assert_eq!(alarms[0], alarms[1], "no window is looked up twice");
    }
}

/// A match after forged bytes is found, though not at once.
#[test]
fn a_spent_budget_recovers() {
    let len = 1024;
    let good = random(5, 64 * len);
    let old = [forged(1, 64 * len), good.clone()].concat();
    let new = [forged(2, 64 * len), good].concat();
    let sums = sums(spec(len, RollingKind::Adler), &old);
    let (ops, counts) = whole(&sums, Locality::Neighbour, &new);
    assert!(counts.unproven > 0);
    assert!(reference::apply(&ops, &old, &new) == new);
    assert!(literal_bytes(&ops) <= 65 * len, "{}", literal_bytes(&ops));
}

/// All old blocks have the same weak sum, and every block is found.
#[test]
fn blocks_of_one_weak_sum_are_all_found() {
    let len = 1024;
    let old = forged(9, 300 * len);
    let new: Vec<u8> = old.chunks(len).rev().flatten().copied().collect();
    let sums = sums(spec(len, RollingKind::Adler), &old);
    let (ops, counts) = whole(&sums, Locality::Neighbour, &new);
    assert_eq!(literal_bytes(&ops), 0);
    assert!(counts.strong <= 600, "at most one for each window: {counts:?}");
}

/// Searches one byte per call: the cost of a window does not depend on the pieces.
#[test]
fn the_search_continues_at_the_end_of_a_piece() {
    let old = random(11, 30 * LEN);
    let new = [&random(12, 700)[..], &old[..10 * LEN], &random(13, 50), &old[9 * LEN..]].concat();
    let sums = sums(spec(LEN, RollingKind::Adler), &old);
    let (at_once, counts) = whole(&sums, Locality::Neighbour, &new);
    let (by_bytes, same) = search(&sums, Locality::Neighbour, &new, &[1]);
    assert_eq!(matches(&by_bytes, LEN), matches(&at_once, LEN));
    assert_eq!(same, SearchCounts { tag_hits: same.tag_hits, weak: same.weak, ..counts });
    assert!(reference::apply(&by_bytes, &old, &new) == new);
}

#[test]
fn an_empty_search_finds_nothing() {
    let some = random(1, 3 * LEN + 5);
    for (old, new) in [(&[][..], &[][..]), (&[], &some), (&some, &[]), (&some[..5], &some[..4])] {
        let sums = sums(spec(LEN, RollingKind::Adler), old);
        for pieces in [vec![1], vec![LEN], vec![5000]] {
            let (ops, counts) = search(&sums, Locality::Neighbour, new, &pieces);
            assert_tiles(&ops, new.len());
            assert_eq!((literal_bytes(&ops), counts.strong), (new.len(), 0));
        }
    }
}

/// With equal blocks, the short block could overlap a match.
#[test]
fn the_short_block_begins_after_the_last_match() {
    let old = vec![0; LEN + 100];
    let sums = sums(spec(LEN, RollingKind::Adler), &old);
    for len in LEN..=LEN + 101 {
        let new = vec![0; len];
        let (ops, _) = whole(&sums, Locality::Neighbour, &new);
        assert_tiles(&ops, len);
        let over = len - LEN;
        assert_eq!(literal_bytes(&ops), if over >= 100 { over - 100 } else { over }, "{len}");
    }
}

#[test]
fn the_short_block_is_found_at_the_end_only() {
    let old = random(21, 3 * LEN + 100);
    let short = &old[3 * LEN..];
    let inside = [short, &random(22, LEN)].concat();
    let at_end = [&random(22, LEN)[..], short].concat();
    let sums = sums(spec(LEN, RollingKind::Crc32c), &old);
    assert_eq!(literal_bytes(&whole(&sums, Locality::Neighbour, &inside).0), inside.len());
    assert_eq!(literal_bytes(&whole(&sums, Locality::Neighbour, &at_end).0), LEN);
    assert_eq!(literal_bytes(&whole(&sums, Locality::Neighbour, short).0), 0);
}

/// Blocks as a storage layer has them, with unkeyed SHA-256.
fn plain() -> BlockSpec {
    let len = FixedLen::new(4096).expect("length is in range");
    BlockSpec { len, weak: RollingKind::Crc32c, strong: StrongKind::Sha256, key: None }
}

/// The sums that a storage layer keeps of `bytes`.
fn kept(bytes: &[u8]) -> StoredSums {
    let mut kept = StoredSums::new(SumKind::Sha256, 4096, &(0..bytes.len() as u64));
    for (no, block) in (0..).zip(bytes.chunks_exact(4096)) {
        kept.put_sums(no * 4096, StrongKind::Sha256.sum_of(None, block).as_bytes());
    }
    kept
}

#[test]
fn stored_strong_sums_are_not_computed_again() {
    let old = random(1, 60 * 4096 + 5);
    // Windows are aligned to stored blocks only before the insertion.
    let new = [&old[..20 * 4096 + 70], b"an insert", &old[20 * 4096 + 70..]].concat();
    let search = |spec, kept: &StoredSums| {
        let mut searcher = Searcher::new(Arc::new(sums(spec, &old)), Locality::Ignored);
        let mut ops = Vec::new();
        searcher.search_with(&new, AtEnd::Yes, Some(kept), |op| ops.push(op));
        (ops, searcher.counts())
    };
    let (ops, counts) = search(plain(), &kept(&new));
    assert_eq!(counts.kept, 20);
    assert_eq!(counts.strong, 39 + 1, "behind the insert, and the last block");
    let nothing = StoredSums::new(SumKind::Sha256, 4096, &(0..new.len() as u64));
    assert_eq!(search(plain(), &nothing).0, ops);
    // Stored sums of other bytes match no block.
    let (_, counts) = search(plain(), &kept(&random(2, new.len())));
    assert_eq!((counts.kept, counts.false_alarms), (20, 20));
    // Stored sums are unkeyed, so a keyed search uses none.
    let keyed = BlockSpec { key: Some(SumKey::from_bytes([1; 32])), ..plain() };
    let (with_key, counts) = search(keyed, &kept(&new));
    assert_eq!((with_key, counts.kept), (ops, 0));
}

/// SkySync §3.3.1: stored CRC-32C are joined to weak sums of windows of whole stored blocks, also with a key.
#[test]
fn stored_crcs_are_joined_to_weak_sums() {
    let old = random(1, 60 * 8192 + 5);
    let new = [&old[..20 * 8192], b"an insert", &old[20 * 8192..]].concat();
    let mut kept = StoredSums::new(SumKind::Crc32c, 4096, &(0..new.len() as u64));
    for (no, block) in (0..).zip(new.chunks_exact(4096)) {
        kept.put_sums(no * 4096, &Crc32c::of(block).get().to_le_bytes());
    }
    let len = FixedLen::new(8192).expect("length is in range");
    let keyed = BlockSpec { len, key: Some(SumKey::from_bytes([1; 32])), ..plain() };
    for (spec, joins) in [(keyed, 21), (BlockSpec { weak: RollingKind::Adler, ..keyed }, 0)] {
        let sums = sums(spec, &old);
        let search = |kept: Option<&StoredSums>| {
            let mut searcher = Searcher::new(Arc::new(sums.clone()), Locality::Ignored);
            let mut ops = Vec::new();
            searcher.search_with(&new, AtEnd::Yes, kept, |op| ops.push(op));
            (ops, searcher.counts())
        };
        let ((ops, counts), (expected, none)) = (search(Some(&kept)), search(None));
        assert_eq!(ops, expected);
        // The window behind the last match before the insertion is whole stored blocks too, of other bytes.
        assert_eq!((counts.joined, counts.kept, none.joined), (joins, 0, 0));
        assert_eq!(counts.strong, none.strong);
    }
}

proptest! {
    /// Law 2 of searches: regions find the same matches as one search, as long as the budget lasts. Windows with
    /// few byte values cause false alarms of the weak sum.
    #[test]
    fn regions_find_the_matches_of_one_search(
        (old, new) in versions(),
        first in 0..3000_usize,
        lens in prop::collection::vec(1..4000_usize, 1..5),
        weak in select(ROLLING.to_vec()),
    ) {
        let sums = sums(spec(LEN, weak), &old);
        let (expected, _) = whole(&sums, Locality::Ignored, &new);
        let (found, counts) = by_regions(&sums, &new, first, &lens, None);
        assert_tiles(&found, new.len());
        if counts.unproven == 0 {
            prop_assert_eq!(joined(found), joined(expected));
        }
    }
}

#[test]
fn region_borders_may_be_anywhere_in_repeated_content() {
    let unit = random(1, 700);
    let repeated: Vec<u8> = unit.iter().copied().cycle().take(20_000).collect();
    let insert = [&repeated[..7001], b"other", &repeated[3..]].concat();
    for (old, new) in [(&repeated, &insert), (&insert, &repeated), (&repeated, &repeated)] {
        let sums = sums(spec(LEN, RollingKind::Crc32c), old);
        let expected = joined(whole(&sums, Locality::Ignored, new).0);
        for len in (LEN / 2..LEN).step_by(17).chain(LEN - 2..LEN + 3).chain([LEN * 2, 5000]) {
            for first in [0, 1, LEN - 1, LEN + 1, 3000] {
                let (found, _) = by_regions(&sums, new, first, &[len], None);
                assert_eq!(joined(found), expected, "{len} behind {first}");
            }
        }
    }
}

#[test]
fn regions_share_one_budget() {
    let new = forged(3, 200_000);
    let sums = {
        let mut sums = BlockSums::new(spec(LEN, RollingKind::Adler));
        for seed in 0..8 {
            let block = &forged(seed + 10, LEN)[..LEN];
            let weak = WeakKind::Adler.of(block);
            sums.push(LEN as u32, weak, StrongKind::SipHash.sum_of(None, block).as_bytes())
                .unwrap();
        }
        sums
    };
    let (ops, counts) = by_regions(&sums, &new, 1000, &[9000], None);
    assert_tiles(&ops, new.len());
    assert!(counts.unproven > counts.strong, "the budget was tried: {counts:?}");
    // The last windows of a region reach into the next one.
    let rolled = new.len() + 199_000_usize.div_ceil(9000) * (LEN - 1);
    let most = SLACK_BYTES + STRONG_PER_BYTE * rolled as u64;
    assert!(counts.strong * LEN as u64 <= most, "{counts:?}");
}

#[test]
fn regions_use_stored_strong_sums() {
    let old = random(1, 60 * 4096);
    let sums = sums(plain(), &old);
    let (ops, counts) = by_regions(&sums, &old, 10_000, &[50_000], Some(&kept(&old)));
    assert_eq!(matches(&ops, 4096).len(), 60);
    assert_eq!((counts.kept, counts.strong), (60, 0), "{counts:?}");
}
