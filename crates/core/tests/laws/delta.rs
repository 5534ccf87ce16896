//! Laws of covers, copy runs and the files that they make.

use deltic_core::{
    Algorithm, AtEnd, Chunk, ChunkerSpec, CopyRuns, DeltaOp, Index, PrefixLen, Sizes, Span,
    WriteCover, reference, scan,
};
use proptest::prelude::*;

use crate::random;

proptest! {
    #[test]
    fn law5_cover_equals_a_map_of_bytes(
        len in 0usize..200,
        runs in proptest::collection::vec((0usize..220, 0usize..30), 0..60),
    ) {
        let (mut cover, mut map) = (WriteCover::new(len as u64), reference::CoverMap::new(len));
        for (start, run) in runs {
            prop_assert_eq!(cover.add(start as u64, run as u64).is_ok(), map.add(start, run));
            prop_assert_eq!(cover.missing(), map.missing());
            prop_assert_eq!(cover.is_complete(), map.missing() == 0);
        }
    }

    #[test]
    fn law5_tiles_cover_in_any_order(
        tiles in proptest::collection::vec(1u64..50, 1..40).prop_flat_map(|lens| {
            let starts = lens.iter().scan(0, |end, len| {
                *end += len;
                Some((*end - len, *len))
            });
            Just(starts.collect::<Vec<_>>()).prop_shuffle()
        }),
    ) {
        let len = tiles.iter().map(|(_, len)| len).sum();
        let mut cover = WriteCover::new(len);
        for (start, len) in &tiles {
            prop_assert!(!cover.is_complete());
            prop_assert!(cover.add(*start, *len).is_ok());
        }
        prop_assert!(cover.is_complete());
        prop_assert!(tiles.iter().all(|(start, len)| cover.add(*start, *len).is_err()));
    }

    #[test]
    fn copies_that_the_index_finds_rebuild_the_new_version(
        seed: u64,
        len in 1usize..60_000,
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0usize..300, 0usize..300), 0..6),
    ) {
        let old = random(seed, len);
        let mut new = old.clone();
        for (at, removed, added) in edits {
            let start = at.index(new.len() + 1);
            let end = (start + removed).min(new.len());
            new.splice(start..end, random(seed + 1, added));
        }
        let ops = delta(&old, &new);
        prop_assert_eq!(reference::apply(&ops, &old, &new), &new[..]);
        let mut cover = WriteCover::new(new.len() as u64);
        for op in &ops {
            let (start, len) = match op {
                DeltaOp::Copy { old, new_start } => (*new_start, old.len),
                DeltaOp::Literal { new } => (new.start, new.len),
            };
            prop_assert!(cover.add(start, len.into()).is_ok());
        }
        prop_assert!(cover.is_complete());
    }
}

/// The copies and literals from `old` to `new`, chunk by chunk.
fn delta(old: &[u8], new: &[u8]) -> Vec<DeltaOp> {
    let spec =
        ChunkerSpec::ByContent(Algorithm::GearNc, Sizes::new(512, 512, 2048).expect("sizes rise"));
    let chunks = |data| scan(&spec.build(), data, AtEnd::Yes).chunks;
    let mut index = Index::new(usize::MAX);
    for (start, chunk) in placed(chunks(old)) {
        index.push(start, chunk);
    }
    let (mut ops, mut runs, mut after) = (Vec::new(), CopyRuns::new(), None);
    for (new_start, chunk) in placed(chunks(new)) {
        match index.find_chunk(chunk.fingerprint.chunk_prefix(PrefixLen::MAX), chunk.len, after) {
            Some(no) => {
                ops.extend(runs.push(index.chunk(no).0, new_start));
                after = Some(no);
            }
            None => ops.push(DeltaOp::Literal { new: Span::new(new_start, chunk.len) }),
        }
    }
    ops.extend(runs.finish());
    ops
}

fn placed(chunks: Vec<Chunk>) -> impl Iterator<Item = (u64, Chunk)> {
    chunks.into_iter().scan(0, |end, chunk| {
        *end += u64::from(chunk.len);
        Some((*end - u64::from(chunk.len), chunk))
    })
}
