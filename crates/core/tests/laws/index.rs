//! Law of the index: look-ups equal a linear search.

use std::ops::Range;

use deltic_core::{Chunk, ChunkNo, Fingerprint, Index, PrefixLen, reference};
use proptest::prelude::*;

/// Distance of the chunks in the old version, so that an offset identifies a chunk.
const STRIDE: u64 = 10_000;

fn chunk(name: u8) -> Chunk {
    Chunk { len: 1000 + u32::from(name), fingerprint: Fingerprint::of(&[name]) }
}

fn number(index: &Index, no: ChunkNo) -> usize {
    (index.chunk(no).0.start / STRIDE) as usize
}

/// An index of several parts with few different chunks, the list of these chunks, and their numbers.
fn index(parts: &[Vec<u8>]) -> (Index, Vec<Chunk>, Vec<ChunkNo>) {
    let known: Vec<Chunk> = parts.iter().flatten().map(|name| chunk(*name)).collect();
    let mut placed = (0..).step_by(STRIDE as usize).zip(known.iter().copied());
    let first_part = placed.by_ref().take(parts.first().map_or(0, Vec::len));
    let mut index = Index::from_chunks(first_part.collect(), known.len());
    index.end_part();
    for part in parts.iter().skip(1) {
        index.reserve(part.len() / 2);
        placed.by_ref().take(part.len()).for_each(|(start, chunk)| index.push(start, chunk));
        index.end_part();
    }
    let first = parts.iter().flatten().next().map(|name| {
        let brief = chunk(*name).fingerprint.chunk_prefix(PrefixLen::MIN);
        index.find_chunk(brief, chunk(*name).len, None).expect("the first chunk is known")
    });
    let numbers = std::iter::successors(first, |no| Some(no.next())).take(known.len()).collect();
    (index, known, numbers)
}

/// The groups of each part, with the numbers of their chunks.
fn groups(parts: &[Vec<u8>]) -> Vec<(Range<usize>, deltic_core::Group)> {
    let mut first = 0;
    let mut all = Vec::new();
    for part in parts {
        let chunks: Vec<Chunk> = part.iter().map(|name| chunk(*name)).collect();
        for group in reference::groups(&chunks) {
            let after = first + group.chunks as usize;
            all.push((first..after, group));
            first = after;
        }
    }
    all
}

fn parts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(0u8..30, 0..100), 0..5)
}

proptest! {
    #[test]
    fn find_chunk_equals_linear_search(
        parts in parts(), name in 0u8..32, longer in 0u32..2, bytes in 4u8..=8
    ) {
        let (index, known, numbers) = index(&parts);
        let brief = chunk(name).fingerprint.chunk_prefix(PrefixLen::new(bytes).unwrap());
        let len = chunk(name).len + longer;
        let none = reference::find_chunk(&known, brief, len, None);
        prop_assert_eq!(index.find_chunk(brief, len, None).map(|no| number(&index, no)), none);
        for (after, no) in numbers.iter().enumerate() {
            let found = index.find_chunk(brief, len, Some(*no)).map(|no| number(&index, no));
            prop_assert_eq!(found, reference::find_chunk(&known, brief, len, Some(after)));
        }
    }

    #[test]
    fn find_group_equals_linear_search(parts in parts(), pick: proptest::sample::Index) {
        let (index, _, numbers) = index(&parts);
        let groups = groups(&parts);
        prop_assume!(!groups.is_empty());
        let (_, wanted) = &groups[pick.index(groups.len())];
        let find = |after: Option<usize>| {
            let short = wanted.fingerprint.group_prefix();
            let after = after.map(|n| numbers[n]);
            index.find_group(short, wanted.len, wanted.chunks, after)
        };
        let plain = |found: Range<ChunkNo>| {
            let first = number(&index, found.start);
            first..first + index.chunks().range(found).count()
        };
        let first = groups.iter().find(|(_, group)| group == wanted).map(|(range, _)| range.clone());
        prop_assert_eq!(find(None).map(plain), first.clone());
        for after in 0..numbers.len() {
            let next = groups.iter().find(|(range, group)| range.start == after + 1 && group == wanted);
            let expected = next.map(|(range, _)| range.clone()).or_else(|| first.clone());
            prop_assert_eq!(find(Some(after)).map(plain), expected);
        }
    }
}

#[test]
fn look_ups_among_millions_of_equal_chunks_are_fast() {
    let zeros = chunk(0);
    let mut index = Index::new(1 << 21);
    for n in 0..1 << 21 {
        index.push(n * STRIDE, zeros);
    }
    index.end_part();
    let mut after = None;
    for n in 0..1 << 21 {
        let found =
            index.find_chunk(zeros.fingerprint.chunk_prefix(PrefixLen::MIN), zeros.len, after);
        let found = found.expect("zeros are known");
        assert_eq!(number(&index, found), n);
        after = Some(found);
    }
}
