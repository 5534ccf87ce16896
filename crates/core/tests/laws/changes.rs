//! The map of a change, compared with definitions byte by byte.

use std::collections::HashSet;
use std::ops::Range;

use deltic_core::changes::{CHANGE_MAP_BYTES, bucket_range};
use deltic_core::{
    BUCKETS, Change, ChangeMap, ChangeSums, ChangedSpan, Chunk, Fingerprint, Origins,
};
use proptest::prelude::*;

/// A chunk for a letter. Each letter has a length of its own.
fn chunk(letter: u8) -> Chunk {
    let len = u32::from(letter % 5) * 3 + 1;
    Chunk { len, fingerprint: Fingerprint::from_bytes([letter; 32]) }
}

fn chunks(letters: &[u8]) -> Vec<Chunk> {
    letters.iter().copied().map(chunk).collect()
}

/// Returns each byte of a file of these chunks as the letter of its chunk and the offset in the chunk.
fn bytes(letters: &[u8]) -> Vec<(u8, u32)> {
    let of = |letter: &u8| (0..chunk(*letter).len).map(|at| (*letter, at)).collect::<Vec<_>>();
    letters.iter().flat_map(of).collect()
}

/// The most bytes in runs that are in the order of the old version, of all choices of runs.
fn most_kept(runs: &[(Range<u64>, u64)]) -> u64 {
    let choices = (0..1_u32 << runs.len()).filter_map(|choice| {
        let (mut end, mut sum) = (0, 0);
        for (number, (span, old)) in runs.iter().enumerate() {
            if choice >> number & 1 == 1 {
                if *old < end {
                    return None;
                }
                end = old + (span.end - span.start);
                sum += span.end - span.start;
            }
        }
        Some(sum)
    });
    choices.max().unwrap_or(0)
}

/// Folds spans byte by byte.
fn slow_map(len: u64, spans: &[ChangedSpan]) -> (ChangeSums, [ChangeSums; BUCKETS]) {
    let (mut sums, mut buckets) = (ChangeSums::default(), [ChangeSums::default(); BUCKETS]);
    for at in 0..len {
        let span = spans.iter().find(|span| span.span.contains(&at));
        let span = span.expect("spans cover the file");
        let number = (0..BUCKETS).find(|number| bucket_range(len, *number).contains(&at));
        let number = number.expect("parts cover the file");
        for sums in [&mut sums, &mut buckets[number]] {
            *match span.change {
                Change::Kept => &mut sums.kept,
                Change::Moved => &mut sums.moved,
                Change::New => &mut sums.new,
            } += 1;
        }
    }
    (sums, buckets)
}

proptest! {
    #[test]
    fn each_byte_is_old_exactly_if_its_chunk_is_in_the_old_version(
        old in prop::collection::vec(0_u8..20, 0..30), new in prop::collection::vec(0_u8..20, 0..30),
    ) {
        let has: HashSet<_> = old.iter().copied().collect();
        let (old_bytes, new_bytes) = (bytes(&old), bytes(&new));
        let len = new_bytes.len() as u64;
        let spans = Origins::of_chunks(&chunks(&old), &chunks(&new)).spans(len).unwrap();
        let mut end = 0;
        for ChangedSpan { span, change, old } in &spans {
            prop_assert_eq!(span.start, end);
            end = span.end;
            prop_assert_eq!(old.is_none(), *change == Change::New);
            for at in span.clone() {
                let byte = new_bytes[at as usize];
                prop_assert_eq!(old.is_some(), has.contains(&byte.0));
                if let Some(old) = old {
                    prop_assert_eq!(old_bytes[(old + at - span.start) as usize], byte);
                }
            }
        }
        prop_assert_eq!(end, len);
    }

    #[test]
    fn the_kept_runs_are_in_the_old_order_and_no_choice_keeps_more(
        runs in prop::collection::vec((1_u64..9, prop::option::weighted(0.8, 0_u64..60)), 0..11),
    ) {
        let (mut origins, mut at) = (Origins::default(), 0);
        let mut placed = Vec::new();
        for (len, old) in runs {
            placed.push((at..at + len, old));
            at += len;
        }
        // Runs arrive in any order.
        for (span, old) in placed.iter().rev() {
            origins.add(span.clone(), *old);
        }
        let spans = origins.spans(at).unwrap();
        let (mut end, mut kept) = (0, 0);
        for ChangedSpan { span, change, old } in &spans {
            if *change == Change::Kept {
                prop_assert!(old.unwrap() >= end);
                kept += span.end - span.start;
                end = old.unwrap() + (span.end - span.start);
            }
        }
        let runs = spans.iter().filter_map(|span| Some((span.span.clone(), span.old?)));
        prop_assert_eq!(kept, most_kept(&runs.collect::<Vec<_>>()));
    }

    #[test]
    fn a_map_counts_each_byte_once_and_its_code_is_exact_to_a_255th(
        lens in prop::collection::vec((0_u64..40, 0_u8..3), 0..12), scale in prop::sample::select(vec![1_u64, 7, 100]),
    ) {
        let (mut spans, mut at) = (Vec::new(), 0);
        for (len, change) in lens {
            let change = [Change::Kept, Change::Moved, Change::New][usize::from(change)];
            let old = (change != Change::New).then_some(0);
            spans.push(ChangedSpan { span: at..at + len * scale, change, old });
            at += len * scale;
        }
        spans.retain(|span| !span.span.is_empty());
        let map = ChangeMap::of(at, &spans);
        prop_assert_eq!((map.sums, map.buckets), slow_map(at, &spans));
        let told = ChangeMap::from_bytes(&map.to_bytes()).unwrap();
        prop_assert_eq!(told.sums, map.sums);
        for (number, (told, exact)) in told.buckets.iter().zip(&map.buckets).enumerate() {
            let range = bucket_range(at, number);
            let most = (range.end - range.start) / 255 + 1;
            prop_assert_eq!(told.total(), exact.total());
            for (told, exact) in [(told.moved, exact.moved), (told.new, exact.new)] {
                prop_assert!(told.abs_diff(exact) <= most, "{} {} in {:?}", told, exact, range);
                prop_assert_eq!(told == 0, exact == 0);
            }
        }
    }

    #[test]
    fn short_files_keep_what_both_begin_and_end_with(
        first in prop::collection::vec(0_u8..3, 0..9), old in prop::collection::vec(0_u8..3, 0..9),
        new in prop::collection::vec(0_u8..3, 0..9), last in prop::collection::vec(0_u8..3, 0..9),
    ) {
        let whole = |middle: &[u8]| [&first[..], middle, &last].concat();
        let (old, new) = (whole(&old), whole(&new));
        let spans = Origins::of_bytes(&old, &new).spans(new.len() as u64).unwrap();
        let sums = ChangeMap::of(new.len() as u64, &spans).sums;
        prop_assert!(sums.kept >= (first.len() + last.len()) as u64);
        prop_assert_eq!(sums.moved, 0);
        for ChangedSpan { span, old: from, .. } in spans {
            if let Some(from) = from {
                let len = (span.end - span.start) as usize;
                prop_assert_eq!(&old[from as usize..][..len], &new[span.start as usize..][..len]);
            }
        }
    }

    #[test]
    fn any_code_is_a_map_or_nothing(code in prop::array::uniform32(any::<u8>()), high in any::<u64>()) {
        let mut bytes = [0; CHANGE_MAP_BYTES];
        for (place, byte) in bytes.iter_mut().zip(code.iter().cycle()) {
            *place = *byte;
        }
        bytes[..8].copy_from_slice(&high.to_le_bytes());
        if let Some(map) = ChangeMap::from_bytes(&bytes) {
            let all = map.buckets.iter().map(|bucket| u128::from(bucket.total().unwrap()));
            prop_assert_eq!(all.sum::<u128>(), u128::from(map.sums.total().unwrap()));
        }
    }
}

#[test]
fn an_insertion_keeps_all_that_was_there() {
    let (old, new) = (chunks(b"abcdefgh"), chunks(b"abcdXefgh"));
    let len = bytes(b"abcdXefgh").len() as u64;
    let map = ChangeMap::of(len, &Origins::of_chunks(&old, &new).spans(len).unwrap());
    assert_eq!(map.sums.moved, 0);
    assert_eq!(map.sums.new, u64::from(chunk(b'X').len));
}

#[test]
fn bytes_of_unknown_origin_or_told_twice_leave_no_map() {
    let mut origins = Origins::default();
    origins.add(0..10, Some(5));
    assert!(origins.spans(10).is_some());
    assert_eq!(origins.spans(11), None);
    origins.add(9..12, None);
    assert_eq!(origins.spans(12), None);
    assert_eq!(Origins::default().spans(0), Some(Vec::new()));
    assert_eq!(ChangeMap::of(0, &[]).sums, ChangeSums::default());
}

/// Servers keep encoded maps with files, so the bytes are a format.
#[test]
fn the_code_of_a_map_stays() {
    let spans = [
        ChangedSpan { span: 0..1000, change: Change::Kept, old: Some(0) },
        ChangedSpan { span: 1000..1100, change: Change::Moved, old: Some(2000) },
        ChangedSpan { span: 1100..3200, change: Change::New, old: None },
    ];
    let code = ChangeMap::of(3200, &spans).to_bytes();
    let mut expected = [0; CHANGE_MAP_BYTES];
    (expected[0], expected[1], expected[8]) = (0xe8, 3, 100);
    (expected[16], expected[17]) = (0x34, 8);
    expected[24 + 2 * 10] = 255;
    (11..BUCKETS).for_each(|number| expected[24 + 2 * number + 1] = 255);
    assert_eq!(code, expected);
}
