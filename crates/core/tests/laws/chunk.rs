//! Laws of chunkers and of the scan.

use deltic_core::chunk::{PublishedForm, SsCdc};
use deltic_core::{Algorithm, AtEnd, Chunk, Chunker, ChunkerSpec, Isa, Sizes, reference, scan};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{bytes, random, sizes, specs};

fn chunks(spec: &ChunkerSpec, data: &[u8]) -> Vec<Chunk> {
    let all = scan(&spec.build(), data, AtEnd::Yes);
    assert_eq!(all.consumed, data.len());
    all.chunks
}

/// End offsets of the chunks, the first of which begins at `start`.
fn ends(start: usize, chunks: &[Chunk]) -> Vec<usize> {
    let ends = chunks.iter().scan(start, |end, chunk| {
        *end += chunk.len as usize;
        Some(*end)
    });
    ends.collect()
}

proptest! {
    #[test]
    fn law1_memoryless(spec in specs(), data in bytes(), pick: proptest::sample::Index) {
        let all = chunks(&spec, &data);
        prop_assume!(!all.is_empty());
        let restart = pick.index(all.len());
        let start = ends(0, &all)[restart];
        prop_assert_eq!(chunks(&spec, &data[start..]), &all[restart + 1..]);
    }

    #[test]
    fn law1_a_scan_by_segments_is_one_scan(spec in specs(), data in bytes(), segment in 1usize..9000) {
        let chunker = spec.build();
        let (mut pieces, mut held, mut fed) = (Vec::new(), 0, 0);
        while held < data.len() {
            fed = (fed + segment).min(data.len());
            let at_end = if fed == data.len() { AtEnd::Yes } else { AtEnd::No };
            let piece = scan(&chunker, &data[held..fed], at_end);
            held += piece.consumed;
            pieces.extend(piece.chunks);
            prop_assert!(fed - held < chunker.max_len());
        }
        prop_assert_eq!(pieces, chunks(&spec, &data));
    }

    #[test]
    fn law2_stitch(spec in specs(), data in bytes(), pick: proptest::sample::Index) {
        let middle = pick.index(data.len() + 1);
        let right = chunks(&spec, &data[middle..]);
        let right_starts: Vec<usize> = [vec![middle], ends(middle, &right)].concat();
        let mut left = Vec::new();
        let mut start = 0;
        let chunker = spec.build();
        let common = loop {
            if let Ok(common) = right_starts.binary_search(&start) {
                break common;
            }
            let len = chunker.cut(&data[start..]);
            left.push(Chunk::of(&data[start..start + len]));
            start += len;
        };
        left.extend_from_slice(&right[common..]);
        prop_assert_eq!(left, chunks(&spec, &data));
    }

    #[test]
    fn law4_equal_implementations(spec in specs(), data in bytes()) {
        let expected = reference::chunks(&spec, &data);
        for isa in Isa::available() {
            let found = scan(&spec.build_for(isa), &data, AtEnd::Yes).chunks;
            prop_assert_eq!(&found, &expected, "{:?}", isa);
        }
    }

    #[test]
    fn law4_two_stage_equals_one(
        algorithm in select(&[Algorithm::Crc, Algorithm::Gear][..]),
        sizes in sizes(),
        // Some files have more than one piece for vector lanes.
        copies in select(&[1, 1, 6][..]),
        data in bytes(),
    ) {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let data = data.repeat(copies);
        let expected: Vec<u32> = chunks(&spec, &data).iter().map(|chunk| chunk.len).collect();
        for isa in Isa::available() {
            let mut found = Vec::new();
            SsCdc::new(&spec, isa).expect("one criterion").cuts(&data, &mut found);
            prop_assert_eq!(&found, &expected, "{:?}", isa);
        }
    }

    #[test]
    fn law4_published_forms_equal_the_reference(
        algorithm in select(&[Algorithm::Ram, Algorithm::AeMax, Algorithm::AeMin][..]),
        sizes in sizes(),
        data in bytes(),
    ) {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let expected = reference::chunks(&spec, &data);
        for form in PublishedForm::all() {
            let chunker = spec.build_as_published(form).expect("a published algorithm");
            prop_assert_eq!(&scan(&chunker, &data, AtEnd::Yes).chunks, &expected, "{:?}", form);
        }
    }

    #[test]
    fn chunk_lengths_keep_their_bounds(spec in specs(), data in bytes()) {
        let all = chunks(&spec, &data);
        prop_assert!(all.iter().all(|chunk| chunk.len > 0 && chunk.len <= spec.max_len()));
        let inner = all.split_last().map_or(&[][..], |(_, inner)| inner);
        prop_assert!(inner.iter().all(|chunk| chunk.len >= spec.min_len()));
    }
}

#[test]
fn an_insert_costs_only_the_chunks_it_touches() {
    let spec = ChunkerSpec::for_len(0);
    let old = random(1, 1 << 20);
    let new = [&old[..500_000], b"inserted", &old[500_000..]].concat();
    let known = chunks(&spec, &old);
    let fresh = chunks(&spec, &new).iter().filter(|chunk| !known.contains(chunk)).count();
    assert!((1..=4).contains(&fresh), "{fresh} of {}", known.len());
}

#[test]
fn chunks_of_random_bytes_have_the_requested_average() {
    let data = random(2, 8 << 20);
    for (min, avg, max) in [(2048, 8192, 32_768), (512, 2048, 8192)] {
        let sizes = Sizes::new(min, avg, max).expect("sizes rise");
        for algorithm in Algorithm::ALL {
            let mean = data.len() / chunks(&ChunkerSpec::ByContent(algorithm, sizes), &data).len();
            let wanted = match algorithm {
                // A quarter of the rate before the average, four times the rate after it: min + 0.68 avg + 0.21
                // avg.
                Algorithm::GearNc | Algorithm::FastCdcNc | Algorithm::Sieve => avg * 114 / 100,
                _ => avg,
            } as usize;
            assert!(mean.abs_diff(wanted) * 10 < wanted, "{algorithm:?} {avg}: {mean}");
        }
    }
}
