//! Laws of parallel chunking.

use std::ops::Range;

use deltic_core::chunk::{
    FileSegments, FixedLen, JudgeScope, MergeRequest, MergedChunk, Segment, SegmentChunks,
    SegmentStitcher, SsCdc, SubChunks, TwoStage, cut_all,
};
use deltic_core::{
    Algorithm, AnyChunker, AtEnd, Chunk, ChunkerSpec, Crc32c, Fingerprint, Isa, Sizes, scan,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{bytes, random, sizes, specs};

fn chunks(spec: &ChunkerSpec, data: &[u8]) -> Vec<Chunk> {
    scan(&spec.build(), data, AtEnd::Yes).chunks
}

fn cut(chunker: &AnyChunker, data: &[u8], segment: &Segment) -> SegmentChunks<Chunk> {
    let bytes = &data[segment.own.start as usize..segment.read_end as usize];
    segment.cut(chunker, bytes, Chunk::of)
}

/// All chunks, and the number of bytes that were cut for seams.
fn stitched(
    chunker: &AnyChunker,
    data: &[u8],
    segments: FileSegments,
    parts: impl Iterator<Item = Segment>,
) -> (Vec<Chunk>, u64) {
    let (mut stitch, mut chunks, mut mended) = (SegmentStitcher::new(segments), Vec::new(), 0);
    for part in parts {
        chunks.extend(stitch.push(cut(chunker, data, &part)));
        while let Some(seam) = stitch.seam() {
            let run = cut(chunker, data, &seam);
            assert!(run.end() > run.start(), "a seam makes progress");
            mended += run.end() - run.start();
            chunks.extend(stitch.fill_seam(run));
        }
    }
    assert_eq!(stitch.final_end(), data.len() as u64);
    (chunks, mended)
}

/// Chunkers with a two-stage form.
fn two_stage_specs() -> impl Strategy<Value = ChunkerSpec> {
    (select(&[Algorithm::Crc, Algorithm::Gear][..]), sizes())
        .prop_map(|(algorithm, sizes)| ChunkerSpec::ByContent(algorithm, sizes))
}

/// Length and CRC-32C of a chunk.
type Summed = (u32, Crc32c);

fn sums(spec: &ChunkerSpec, data: &[u8]) -> Vec<Summed> {
    let mut sums = Vec::new();
    cut_all(&spec.build(), data, AtEnd::Yes, |chunk| {
        sums.push((chunk.len() as u32, Crc32c::of(chunk)));
    });
    sums
}

fn bytes_of<'a>(data: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    &data[range.start as usize..range.end as usize]
}

/// Result of a merge.
#[derive(Default)]
struct MergedAll {
    chunks: Vec<Summed>,
    /// Number of bytes summed again.
    again: usize,
    /// Number of bytes judged again.
    judged: u64,
    /// Number of bytes in chunks without a fingerprint from the first stage.
    unnamed: u64,
}

impl MergedAll {
    fn take(&mut self, data: &[u8], merged: impl IntoIterator<Item = MergedChunk<Fingerprint>>) {
        for MergedChunk { len, sum, whole } in merged {
            let start: usize = self.chunks.iter().map(|(len, _)| *len as usize).sum();
            match whole {
                Some(name) => assert_eq!(name, Fingerprint::of(&data[start..][..len as usize])),
                None => self.unnamed += u64::from(len),
            }
            self.chunks.push((len, sum));
        }
    }
}

fn sub_chunks(
    stages: &TwoStage,
    data: &[u8],
    own: &Range<u64>,
    judge: JudgeScope,
) -> SubChunks<Fingerprint> {
    let name = |chunk: &[u8]| Some(Fingerprint::of(chunk));
    stages.sub_chunks(own, bytes_of(data, &TwoStage::read(own)), judge, (Crc32c::of, name))
}

/// All chunks of `data`, merged from the sub-chunks of segments.
fn merged(stages: &TwoStage, data: &[u8], parts: &[Segment], judge: JudgeScope) -> MergedAll {
    let (mut merge, mut all) = (stages.merge(), MergedAll::default());
    for Segment { own, .. } in parts {
        all.take(data, merge.push(sub_chunks(stages, data, own, judge)));
        while let Some(ask) = merge.request() {
            let chunks = match ask {
                MergeRequest::Sum(front) => {
                    all.again += (front.end - front.start) as usize;
                    merge.split(Crc32c::of(bytes_of(data, &front)))
                }
                MergeRequest::Judge(rest) => {
                    all.judged += rest.end - rest.start;
                    merge.judge(sub_chunks(stages, data, &rest, JudgeScope::Every))
                }
            };
            all.take(data, chunks);
        }
    }
    all.take(data, merge.finish());
    all
}

/// Segments that end at `ends` and at `len`; each reads `overlap` bytes further.
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
        let segments = FileSegments::new(&spec, len, 1);
        let parts = parts(len, &ends, overlap);
        let (found, _) = stitched(&spec.build(), &data, segments, parts.into_iter());
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    #[test]
    fn law2_segments_equal_one_pass(spec in specs(), data in bytes(), segment_len in 0u64..9000) {
        let segments = FileSegments::new(&spec, data.len() as u64, segment_len);
        let (found, _) = stitched(&spec.build(), &data, segments, segments.iter());
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    /// Pushes runs while a seam is open, as threads do. The order and the chunks do not change.
    #[test]
    fn law2_runs_may_wait_for_a_seam(
        spec in specs(),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..10),
        order in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let (chunker, len) = (spec.build(), data.len() as u64);
        let mut stitch = SegmentStitcher::new(FileSegments::new(&spec, len, 1));
        let mut parts = parts(len, &ends, 0).into_iter().peekable();
        let (mut found, mut dice) = (Vec::new(), order.into_iter().cycle());
        while parts.peek().is_some() || stitch.seam().is_some() {
            match stitch.seam().filter(|_| dice.next() == Some(true) || parts.peek().is_none()) {
                Some(seam) => found.extend(stitch.fill_seam(cut(&chunker, &data, &seam))),
                None => found.extend(parts.next().map(|part| stitch.push(cut(&chunker, &data, &part))).unwrap_or_default()),
            }
        }
        prop_assert_eq!(found, chunks(&spec, &data));
    }

    #[test]
    fn law3_sub_chunks_merge_to_chunks_and_their_sums(
        spec in two_stage_specs(),
        judge in select(&[JudgeScope::Every, JudgeScope::AsCut, JudgeScope::AsCut][..]),
        copies in select(&[1, 1, 1, 6][..]),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let data = data.repeat(copies);
        let parts = parts(data.len() as u64, &ends, 0);
        let stages = TwoStage::new(&spec).expect("one criterion");
        prop_assert_eq!(merged(&stages, &data, &parts, judge).chunks, sums(&spec, &data));
    }

    /// Pushes segments while a request is open, as threads do. Chunks, sums and their order do not change.
    #[test]
    fn law2_sub_chunks_may_wait_for_an_answer(
        spec in two_stage_specs(),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..20),
        order in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let data = data.repeat(4);
        let parts = parts(data.len() as u64, &ends, 0);
        let stages = TwoStage::new(&spec).expect("one criterion");
        let (mut merge, mut all) = (stages.merge(), MergedAll::default());
        let (mut parts, mut dice) = (parts.into_iter().peekable(), order.into_iter().cycle());
        while parts.peek().is_some() || merge.request().is_some() {
            let ask = merge.request().filter(|_| dice.next() == Some(true) || parts.peek().is_none());
            let chunks = match (ask, parts.peek()) {
                (Some(MergeRequest::Sum(front)), _) => merge.split(Crc32c::of(bytes_of(&data, &front))),
                (Some(MergeRequest::Judge(rest)), _) => {
                    merge.judge(sub_chunks(&stages, &data, &rest, JudgeScope::Every))
                }
                (None, Some(Segment { own, .. })) => {
                    let found = sub_chunks(&stages, &data, own, JudgeScope::AsCut);
                    parts.next();
                    merge.push(found)
                }
                (None, None) => Vec::new(),
            };
            all.take(&data, chunks);
        }
        all.take(&data, merge.finish());
        prop_assert_eq!(all.chunks, sums(&spec, &data));
    }

    #[test]
    fn law2_bits_of_segments_give_the_chunks_of_one_pass(
        spec in two_stage_specs(),
        isa in select(Isa::available()),
        copies in select(&[1, 1, 1, 6][..]),
        data in bytes(),
        ends in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let data = data.repeat(copies);
        let len = data.len() as u64;
        let stages = SsCdc::new(&spec, isa).expect("one criterion");
        let (mut walk, mut lens, mut possible) = (stages.walk(), Vec::new(), Vec::new());
        for Segment { own, .. } in parts(len, &ends, 0) {
            let bits = stages.boundaries(&own, bytes_of(&data, &TwoStage::read(&own)));
            possible.extend(bits.ends());
            walk.take(&bits, &mut lens);
        }
        lens.extend(walk.finish());
        let whole: Vec<u64> = stages.boundaries(&(0..len), &data).ends().collect();
        prop_assert_eq!(possible, whole);
        let expected: Vec<u32> = sums(&spec, &data).iter().map(|(len, _)| *len).collect();
        prop_assert_eq!(lens, expected);
    }

    #[test]
    fn segments_tile_the_file(spec in specs(), len in 0u64..100_000, segment_len in 0u64..9000) {
        let segments = FileSegments::new(&spec, len, segment_len);
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

/// The data are shorter than the segment, as if the file had shrunk.
#[test]
fn a_shrunken_file_gives_fewer_chunks() {
    let data = random(3, 100_000);
    let spec = ChunkerSpec::for_len(0);
    for at_end in [AtEnd::Yes, AtEnd::No] {
        let segment = Segment { own: 0..100_000, read_end: 120_000, at_end };
        for len in [0, 1, 8191, 8192, 50_000, 99_999] {
            let run = segment.cut(&spec.build(), &data[..len], Chunk::of);
            let whole = if at_end == AtEnd::Yes { len } else { run.end() as usize };
            assert!(run.end() as usize == whole && len - whole < 8192, "{len}: {}", run.end());
        }
    }
}

#[test]
fn random_bytes_need_no_seam() {
    let data = random(4, 8 << 20);
    let spec = ChunkerSpec::for_len(0);
    let segments = FileSegments::new(&spec, data.len() as u64, 256 << 10);
    let (found, mended) = stitched(&spec.build(), &data, segments, segments.iter());
    assert_eq!(found, chunks(&spec, &data));
    assert_eq!(mended, 0);
}

#[test]
fn fixed_chunks_and_holes_need_no_seam() {
    let fixed = ChunkerSpec::Fixed(FixedLen::new(700).expect("length is in range"));
    for spec in [fixed, ChunkerSpec::for_len(0)] {
        let data = vec![0; 1_000_003];
        let segments = FileSegments::new(&spec, data.len() as u64, 100_000);
        let (found, mended) = stitched(&spec.build(), &data, segments, segments.iter());
        assert_eq!(found, chunks(&spec, &data));
        assert_eq!(mended, 0, "{spec:?}");
    }
}

/// In a run of one byte value, boundaries of unaligned segments never realign, so everything is a seam.
#[test]
fn low_entropy_data_are_cut_right_by_seams() {
    let spec = ChunkerSpec::for_len(0);
    let chunker = spec.build();
    let data = vec![9; 1_000_000];
    let segments = FileSegments::new(&spec, data.len() as u64, 64 << 10);
    let parts = parts(data.len() as u64, &[300_001, 600_007], 0);
    let (found, mended) = stitched(&chunker, &data, segments, parts.into_iter());
    assert_eq!(found, chunks(&spec, &data));
    assert!(mended > 600_000, "{mended}");
}

#[test]
fn maxima_sum_few_bytes_again() {
    let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).expect("sizes rise");
    let spec = ChunkerSpec::ByContent(Algorithm::Crc, sizes);
    let stages = TwoStage::new(&spec).expect("one criterion");
    let ends: Vec<u64> = (1..16).map(|n| n * 261_001).collect();
    let hole = vec![0; 4 << 20];
    // In a hole, each chunk ends inside a sub-chunk of two KiB.
    for (data, one_of) in [(random(6, 4 << 20), 512), (hole, 6)] {
        let parts = parts(data.len() as u64, &ends, 0);
        let MergedAll { chunks, again, .. } = merged(&stages, &data, &parts, JudgeScope::Every);
        assert_eq!(chunks, sums(&spec, &data));
        assert!((1..data.len() / one_of).contains(&again), "{again} bytes of {}", data.len());
    }
}

/// Nearly all chunks get their fingerprint in the first stage, and almost no byte is judged twice.
#[test]
fn segment_boundaries_realign_early_in_random_bytes() {
    let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).expect("sizes rise");
    let spec = ChunkerSpec::ByContent(Algorithm::Crc, sizes);
    let stages = TwoStage::new(&spec).expect("one criterion");
    let data = random(6, 16 << 20);
    let ends: Vec<u64> = (1..16).map(|n| n << 20).collect();
    let all = merged(&stages, &data, &parts(data.len() as u64, &ends, 0), JudgeScope::AsCut);
    assert_eq!(all.chunks, sums(&spec, &data));
    assert!(all.unnamed < 16 * (64 << 10), "{} bytes", all.unnamed);
    assert!(all.judged <= 1 << 20, "{} bytes", all.judged);
}

/// If candidates are closer than the minimum, two passes may never share a boundary. Then the rest of the
/// segment is judged again.
#[test]
fn a_failed_assumption_is_judged_again() {
    let sizes = Sizes::new(4 << 10, 8 << 10, 12 << 10).expect("sizes rise");
    let spec = ChunkerSpec::ByContent(Algorithm::Crc, sizes);
    let stages = TwoStage::new(&spec).expect("one criterion");
    // A candidate every 1,024 bytes, so that all chunks have the minimum length, and their phase depends on the
    // start of the segment.
    let all_repeat = |seed| random(seed, 1 << 10).repeat(2 << 10);
    let data = (0..).map(all_repeat).find(|data| sums(&spec, data)[1].0 == sizes.min());
    let (data, mut judged) = (data.expect("one in four blocks has a candidate"), 0);
    for shift in 0..8 {
        let ends: Vec<u64> = (1..4).map(|n| n * 500_000 + shift * 700).collect();
        let all = merged(&stages, &data, &parts(data.len() as u64, &ends, 0), JudgeScope::AsCut);
        assert_eq!(all.chunks, sums(&spec, &data));
        judged += all.judged;
    }
    assert!(judged > 100_000, "{judged} bytes");
}
