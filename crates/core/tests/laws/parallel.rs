//! Laws of segments that are cut independently.

use std::ops::Range;

use deltic_core::chunk::{Run, Segment, Segments, Stitch};
use deltic_core::{AnyChunker, AtEnd, Chunk, ChunkerSpec, scan};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{bytes, random, specs};

fn chunks(spec: &ChunkerSpec, data: &[u8]) -> Vec<Chunk> {
    scan(&spec.build(), data, AtEnd::Yes).chunks
}

fn cut(chunker: &AnyChunker, data: &[u8], segment: &Segment) -> Run<Chunk> {
    let bytes = &data[segment.own.start as usize..segment.read_end as usize];
    segment.cut(chunker, bytes, Chunk::of)
}

/// All chunks, and how many bytes were cut for seams.
fn stitched(
    chunker: &AnyChunker,
    data: &[u8],
    segments: Segments,
    parts: impl Iterator<Item = Segment>,
) -> (Vec<Chunk>, u64) {
    let (mut stitch, mut chunks, mut mended) = (Stitch::new(segments), Vec::new(), 0);
    for part in parts {
        chunks.extend(stitch.push(cut(chunker, data, &part)));
        while let Some(seam) = stitch.seam() {
            let run = cut(chunker, data, &seam);
            assert!(run.end() > run.start(), "a seam makes progress");
            mended += run.end() - run.start();
            chunks.extend(stitch.mend(run));
        }
    }
    assert_eq!(stitch.certain(), data.len() as u64);
    (chunks, mended)
}

/// Parts that end at `ends`, some of them read `overlap` bytes further.
fn parts(len: u64, ends: &[u64], overlap: u64) -> Vec<Segment> {
    let mut ends: Vec<u64> = ends.iter().map(|end| end % (len + 1)).collect();
    ends.push(len);
    ends.sort_unstable();
    let starts = [0].into_iter().chain(ends.iter().copied());
    let part = |own: Range<u64>| {
        let read_end = len.min(own.end + overlap);
        let at_end = if read_end == len { AtEnd::Yes } else { AtEnd::No };
        Segment { own, read_end, at_end }
    };
    starts.zip(&ends).map(|(start, end)| part(start..*end)).collect()
}

proptest! {
    #[test]
    fn law2_stitch_equals_one_pass(
        spec in specs(),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..40),
        overlap in select(&[0, 1, 600, 5000, 20_000][..]),
    ) {
        let len = data.len() as u64;
        let segments = Segments::new(&spec, len, 1);
        let parts = parts(len, &ends, overlap);
        let (found, _) = stitched(&spec.build(), &data, segments, parts.into_iter());
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    #[test]
    fn law2_segments_equal_one_pass(spec in specs(), data in bytes(), segment_len in 0u64..9000) {
        let segments = Segments::new(&spec, data.len() as u64, segment_len);
        let (found, _) = stitched(&spec.build(), &data, segments, segments.iter());
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    /// As threads hand runs in while a seam is read: whatever is late, order and chunks are the same.
    #[test]
    fn law2_runs_may_wait_for_a_seam(
        spec in specs(),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..10),
        order in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let (chunker, len) = (spec.build(), data.len() as u64);
        let mut stitch = Stitch::new(Segments::new(&spec, len, 1));
        let mut parts = parts(len, &ends, 0).into_iter().peekable();
        let (mut found, mut dice) = (Vec::new(), order.into_iter().cycle());
        while parts.peek().is_some() || stitch.seam().is_some() {
            match stitch.seam().filter(|_| dice.next() == Some(true) || parts.peek().is_none()) {
                Some(seam) => found.extend(stitch.mend(cut(&chunker, &data, &seam))),
                None => found.extend(parts.next().map(|part| stitch.push(cut(&chunker, &data, &part))).unwrap_or_default()),
            }
        }
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    #[test]
    fn segments_tile_the_file(spec in specs(), len in 0u64..100_000, segment_len in 0u64..9000) {
        let segments = Segments::new(&spec, len, segment_len);
        let mut at = 0;
        for segment in segments.iter() {
            prop_assert_eq!(segment.own.start, at);
            prop_assert!(segment.own.end <= segment.read_end && segment.read_end <= len);
            prop_assert!(segment.read_end - at <= segments.most_read());
            prop_assert_eq!(segment.at_end == AtEnd::Yes, segment.read_end == len);
            at = segment.own.end;
        }
        prop_assert_eq!(at, len);
    }
}

#[test]
fn random_bytes_need_no_seam() {
    let data = random(4, 8 << 20);
    let spec = ChunkerSpec::for_len(0);
    let segments = Segments::new(&spec, data.len() as u64, 256 << 10);
    let (found, mended) = stitched(&spec.build(), &data, segments, segments.iter());
    assert_eq!(found, chunks(&spec, &data));
    assert_eq!(mended, 0);
}

#[test]
fn fixed_chunks_and_holes_need_no_seam() {
    let fixed = ChunkerSpec::Fixed(deltic_core::chunk::FixedLen::new(700).expect("in range"));
    for spec in [fixed, ChunkerSpec::for_len(0)] {
        let data = vec![0; 1_000_003];
        let segments = Segments::new(&spec, data.len() as u64, 100_000);
        let (found, mended) = stitched(&spec.build(), &data, segments, segments.iter());
        assert_eq!(found, chunks(&spec, &data));
        assert_eq!(mended, 0, "{spec:?}");
    }
}

/// Boundaries of a run of one byte never meet where segments do not fit it: then everything is a seam.
#[test]
fn low_entropy_is_slower_and_right() {
    let spec = ChunkerSpec::for_len(0);
    let chunker = spec.build();
    let data = [&random(5, 777)[..], &vec![9; 1_000_000]].concat();
    let len = data.len() as u64;
    let segments = Segments::new(&spec, len, 64 << 10);
    let (found, mended) = stitched(&chunker, &data, segments, segments.iter());
    assert_eq!(found, chunks(&spec, &data));
    let parts = parts(len, &[300_001, 600_007], 0);
    let (found, mended_too) = stitched(&chunker, &data, segments, parts.into_iter());
    assert_eq!(found, chunks(&spec, &data));
    assert!(mended == 0 && mended_too > 0, "{mended} {mended_too}");
}
