//! Law 5 for merged runs, for any collisions.

use std::collections::VecDeque;

use deltic_core::index::CuckooIndex;
use deltic_core::merge::RESEND_BELOW_BYTES;
use deltic_core::{ChunkMatch, ChunkNo, MatchRun, RefutedStep, RunMerger, WriteCover};
use proptest::prelude::*;

/// A new chunk: its length, the old chunk with the same weak sum, if any, and whether the two are equal.
#[derive(Clone, Copy, Debug)]
struct Found {
    len: u32,
    old: Option<(usize, bool)>,
}

/// Rows of chunks with consecutive matches, single matches, and gaps.
fn found() -> impl Strategy<Value = Vec<Found>> {
    let row = (0usize..50, 0usize..40, any::<u64>(), 1u32..120_000, 0u32..4);
    proptest::collection::vec(row, 0..12).prop_map(|rows| {
        let chunks = rows.iter().flat_map(|(first, count, dice, len, false_matches)| {
            (0..*count).map(move |n| {
                // Many runs without a false match, some with one or two, some with false matches only.
                let bits = [0, 1 << (dice % 40), *dice & dice.rotate_left(9), u64::MAX];
                let is_same = bits[*false_matches as usize] >> n & 1 == 0;
                let old = (dice.rotate_right(n as u32) % 17 != 0).then_some((first + n, is_same));
                Found { len: len + n as u32, old }
            })
        });
        chunks.collect()
    })
}

fn olds() -> Vec<ChunkNo> {
    let mut index = CuckooIndex::new(100);
    (0..100).for_each(|_| index.push(0u32));
    index.candidates(0, &mut 100).collect()
}

/// Simulates both ends: merge, confirm, split, confirm. Returns for each chunk whether it is copied, and how
/// often its strong sum was requested.
fn settle(chunks: &[Found], max_bytes: u64) -> Vec<(bool, u32)> {
    let olds = olds();
    let mut runs = RunMerger::new(max_bytes);
    let matches = (0..).zip(chunks).filter_map(|(new, chunk)| {
        chunk.old.map(|(old, _)| ChunkMatch { new, old: olds[old], len: chunk.len })
    });
    let mut to_ask: VecDeque<MatchRun> = matches.filter_map(|next| runs.push(next)).collect();
    to_ask.extend(runs.finish());
    let mut settled = vec![(false, 0); chunks.len()];
    while let Some(run) = to_ask.pop_front() {
        let range = run.new as usize..(run.new + run.chunks) as usize;
        assert!(run.chunks == 1 || run.len <= max_bytes);
        settled[range.clone()].iter_mut().for_each(|(_, asked)| *asked += 1);
        let is_same = chunks[range.clone()].iter().all(|chunk| chunk.old.is_some_and(|old| old.1));
        if is_same {
            settled[range].iter_mut().for_each(|(copied, _)| *copied = true);
        } else if run.next_step_if_refuted() == RefutedStep::Split {
            to_ask.extend(run.split(|new| chunks[new as usize].len));
        }
    }
    settled
}

proptest! {
    #[test]
    fn law5_merged_runs_tile_the_matched_chunks(chunks in found(), max_bytes in 1u64..4_000_000) {
        let olds = olds();
        let mut runs = RunMerger::new(max_bytes);
        let mut cover = WriteCover::new(chunks.len() as u64);
        let mut add = |run: MatchRun| {
            let chunks = &chunks[run.new as usize..][..run.chunks as usize];
            for (n, chunk) in chunks.iter().enumerate() {
                prop_assert_eq!(chunk.old.map(|(old, _)| old), Some(run.old.as_index() + n));
            }
            prop_assert_eq!(run.len, chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>());
            prop_assert!(cover.add(run.new.into(), run.chunks.into()).is_ok());
            let parts: Vec<MatchRun> = run.split(|new| chunks[(new - run.new) as usize].len).collect();
            prop_assert_eq!(parts.len(), chunks.len());
            for (n, part) in (0..).zip(parts) {
                let expected = (run.new + n, run.old.as_index() + n as usize, 1, chunks[n as usize].len);
                let found = (part.new, part.old.as_index(), part.chunks, part.len as u32);
                prop_assert_eq!(found, expected);
            }
            Ok(())
        };
        for (new, chunk) in (0..).zip(&chunks) {
            if let Some((old, _)) = chunk.old
                && let Some(run) = runs.push(ChunkMatch { new, old: olds[old], len: chunk.len })
            {
                add(run)?;
            }
        }
        runs.finish().map_or(Ok(()), add)?;
        let unmatched = chunks.iter().filter(|chunk| chunk.old.is_none()).count() as u64;
        prop_assert_eq!(cover.missing(), unmatched);
    }

    #[test]
    fn law9_only_equal_chunks_are_copied_for_any_collisions(chunks in found(), max in 1u64..4_000_000) {
        for (chunk, (copied, asked)) in chunks.iter().zip(settle(&chunks, max)) {
            let Some((_, is_same)) = chunk.old else {
                prop_assert_eq!((copied, asked), (false, 0));
                continue;
            };
            prop_assert!(is_same || !copied, "a false match was copied");
            prop_assert!((1..=2).contains(&asked));
            let was_alone = u64::from(chunk.len) >= max;
            prop_assert!(!is_same || copied || !was_alone, "an equal chunk in a run of one was sent");
        }
    }
}

#[test]
fn a_false_match_in_a_long_run_costs_its_own_chunk_only() {
    let count = (RESEND_BELOW_BYTES / 8192) as usize;
    let false_match = count / 2;
    let chunks: Vec<Found> =
        (0..count).map(|n| Found { len: 8192, old: Some((n, n != false_match)) }).collect();
    let settled = settle(&chunks, u64::MAX);
    let sent: Vec<usize> = (0..count).filter(|n| !settled[*n].0).collect();
    assert_eq!(sent, [false_match]);
    let settled = settle(&chunks[1..], u64::MAX);
    assert!(settled.iter().all(|(copied, asked)| !copied && *asked == 1));
}
