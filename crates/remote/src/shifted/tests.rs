//! The search against random edits: everything found is equal, and an edit costs few units.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use deltic_store::StoreError;
use deltic_tree::{Kind, Meta};

use super::*;
use crate::session::tests::bytes;
use crate::sums::{ContentSum, SumAlgorithm};
use crate::tree::UNTIMED;

const UNIT: usize = 64 << 10;

/// A file in memory, which counts the bytes read.
pub(crate) struct BytesFile {
    bytes: Vec<u8>,
    meta: Meta,
    read: AtomicU64,
}

impl BytesFile {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let meta = Meta::without_owner(Kind::File, bytes.len() as u64, UNTIMED, 0o666);
        Self { bytes, meta, read: AtomicU64::new(0) }
    }
}

impl Snapshot for BytesFile {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn read_at(&self, start: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let rest = self.bytes.get(start as usize..).unwrap_or_default();
        let some = rest.len().min(buf.len());
        self.read.fetch_add(some as u64, Ordering::Relaxed);
        buf[..some].copy_from_slice(&rest[..some]);
        Ok(some)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The checksums of `new` in units of `each` bytes.
fn sums(new: &[u8], algorithm: SumAlgorithm, each: usize) -> ObjectSums {
    let unit = |bytes: &[u8]| {
        let mut summer = algorithm.summer().unwrap();
        summer.push(bytes);
        SummedUnit::new(bytes.len() as u64, ContentSum::new(algorithm, &summer.finish()).ok())
    };
    ObjectSums { units: new.chunks(each).map(unit).collect(), whole: None }
}

/// The units that `old` does not have at their own offsets, as ranges.
fn differing(old: &[u8], new: &[u8], each: usize) -> Vec<Range<u64>> {
    let mut ranges = Vec::<Range<u64>>::new();
    for (start, unit) in (0..).step_by(each).zip(new.chunks(each)) {
        let end = start + unit.len();
        match ranges.last_mut() {
            _ if old.get(start..end) == Some(unit) => {}
            Some(last) if last.end == start as u64 => last.end = end as u64,
            _ => ranges.push(start as u64..end as u64),
        }
    }
    ranges
}

/// Result of a search, checked byte by byte.
#[derive(Debug)]
struct Costs {
    /// Units that must be fetched.
    units: u64,
    fetches: usize,
    fetched_bytes: u64,
}

fn costs(old: &[u8], new: &[u8], (algorithm, each): (SumAlgorithm, usize)) -> Costs {
    let (sums, ranges) = (sums(new, algorithm, each), differing(old, new, each));
    let (file, fetched) = (BytesFile::new(old.to_vec()), RefCell::new(Vec::new()));
    let mut fetch = |range: Range<u64>, buf: &mut [u8]| {
        buf.copy_from_slice(&new[range.start as usize..range.end as usize]);
        fetched.borrow_mut().push(range);
        Ok(())
    };
    let found = find(&sums, &ranges, &file, &mut fetch);
    let mut end = 0;
    for ShiftedRun { new: run, old: from } in &found.runs {
        assert!(run.start >= end && run.start < run.end, "{found:?}");
        let len = (run.end - run.start) as usize;
        assert!(old[*from as usize..][..len] == new[run.start as usize..][..len]);
        assert!(ranges.iter().any(|range| range.start <= run.start && run.end <= range.end));
        end = run.end;
    }
    let differ: u64 =
        ranges.iter().map(|range| (range.end - range.start).div_ceil(each as u64)).sum();
    let fetched = fetched.into_inner();
    Costs {
        units: differ - found.units,
        fetches: fetched.len(),
        fetched_bytes: fetched.iter().map(|range| range.end - range.start).sum(),
    }
}

/// Small random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Makes one random edit of at most `most` bytes: an insertion, a removal, or new bytes in place of others.
fn edit(bytes_of: &mut Vec<u8>, most: usize, numbers: &mut Numbers) {
    let at = numbers.below(bytes_of.len());
    let len = 1 + numbers.below(most);
    let new = bytes(len, numbers.below(1 << 30) as u64);
    let old_end = (at + len).min(bytes_of.len());
    match numbers.below(3) {
        0 => drop(bytes_of.splice(at..at, new)),
        1 => drop(bytes_of.drain(at..old_end)),
        _ => drop(bytes_of.splice(at..old_end, new)),
    }
}

#[test]
fn one_inserted_byte_costs_at_most_two_units_with_any_kind_of_checksum() {
    use SumAlgorithm::{Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Xxh64};
    let old = bytes(100 * UNIT + 777, 1);
    for algorithm in [Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Xxh64] {
        for at in [0, 5, UNIT - 1, UNIT, UNIT + 1, 50 * UNIT - 600, 90 * UNIT + 5] {
            let mut new = old.clone();
            new.insert(at, b'x');
            let Costs { units, fetches, fetched_bytes } = costs(&old, &new, (algorithm, UNIT));
            assert!(units <= 2 && fetches <= 2, "{algorithm:?} at {at}: {units} and {fetches}");
            assert!(fetched_bytes <= 3 << 10, "{fetched_bytes}");
        }
    }
}

#[test]
fn many_random_edits_cost_at_most_four_units_each() {
    for seed in 0..120 {
        let mut numbers = Numbers(seed);
        let each = [1 << 12, UNIT, 300_000][numbers.below(3)];
        let old = bytes(each * (20 + numbers.below(150)) + numbers.below(each), seed);
        let (mut new, edits) = (old.clone(), 1 + numbers.below(6));
        (0..edits).for_each(|_| edit(&mut new, each, &mut numbers));
        let costs = costs(&old, &new, (SumAlgorithm::Xxh64, each));
        // An edit of up to a unit in length touches up to two units, and spoils the bytes behind a unit.
        assert!(costs.units <= 4 * edits as u64, "seed {seed}: {edits} edits, {costs:?}");
        assert!(costs.fetches <= 4 * edits, "seed {seed}: {edits} edits, {costs:?}");
    }
}

#[test]
fn long_new_parts_cost_few_fetches_and_all_units_behind_are_found() {
    let old = bytes(200 * UNIT, 3);
    for inserted in [10, 60, 70, 130] {
        for at in [0, 3 * UNIT + 5, 190 * UNIT + 5] {
            let mut new = old.clone();
            new.splice(at..at, bytes(inserted * UNIT + 11, 4));
            let costs = costs(&old, &new, (SumAlgorithm::Md5, UNIT));
            assert!(costs.units <= inserted as u64 + 3, "{inserted} at {at}: {costs:?}");
            assert!(costs.fetches <= 12, "{inserted} at {at}: {costs:?}");
        }
    }
}

#[test]
fn a_removed_part_of_any_length_is_found() {
    let old = bytes(100 * UNIT, 5);
    for (at, len) in [(0, 1), (0, 30 * UNIT + 3), (UNIT + 9, 40 * UNIT), (7, UNIT - 1)] {
        let mut new = old.clone();
        new.drain(at..at + len);
        let costs = costs(&old, &new, (SumAlgorithm::Crc32c, UNIT));
        assert!(costs.units <= 2, "{at} {len}: {costs:?}");
    }
}

#[test]
fn repeated_content_is_found_at_the_nearest_offset() {
    let line: Vec<u8> = bytes(1 << 15, 6).repeat(200);
    let mut zeros = bytes(20 * UNIT, 7);
    zeros[5 * UNIT..15 * UNIT].fill(0);
    for old in [line, vec![0; 60 * UNIT + 5], zeros] {
        for inserted in [&b"x"[..], &[0; 100]] {
            let mut new = old.clone();
            new.splice(1000..1000, inserted.iter().copied());
            let costs = costs(&old, &new, (SumAlgorithm::Crc32c, UNIT));
            assert!(costs.units <= 4, "{costs:?}");
        }
    }
}

#[test]
fn another_content_costs_few_fetches() {
    let (old, new) = (bytes(500 * UNIT, 8), bytes(500 * UNIT, 9));
    let costs = costs(&old, &new, (SumAlgorithm::Xxh64, UNIT));
    assert!(costs.units == 500 && costs.fetches <= 11, "{costs:?}");
}

#[test]
fn short_runs_are_fetched_without_a_search() {
    let old = bytes(50 * UNIT, 10);
    let mut new = old.clone();
    new[7 * UNIT - 5..9 * UNIT].fill(1);
    let found = costs(&old, &new, (SumAlgorithm::Sha256, UNIT));
    assert_eq!((found.units, found.fetches), (3, 0));
    // A part written anew in place costs two fetches, an appended part none.
    new[20 * UNIT..40 * UNIT].fill(2);
    let found = costs(&old, &new, (SumAlgorithm::Sha256, UNIT));
    assert_eq!((found.units, found.fetches), (23, 2));
    let found = costs(&old, &[&old[..], &new].concat(), (SumAlgorithm::Sha256, UNIT));
    assert_eq!((found.units, found.fetches), (50, 0));
}

#[test]
fn a_shift_that_a_later_edit_takes_back_is_found() {
    let old = bytes(100 * UNIT, 13);
    let mut new = old.clone();
    new.splice(20 * UNIT + 5..20 * UNIT + 5, bytes(300, 14));
    new.drain(80 * UNIT + 9..80 * UNIT + 309);
    let found = costs(&old, &new, (SumAlgorithm::Sha1, UNIT));
    assert!(found.units <= 3 && found.fetches <= 4, "{found:?}");
}

#[test]
fn units_without_a_checksum_and_an_empty_old_version_are_not_found() {
    let old = bytes(20 * UNIT, 11);
    let mut new = old.clone();
    new.insert(3, 1);
    let mut sums = sums(&new, SumAlgorithm::Xxh64, UNIT);
    sums.units.iter_mut().for_each(|unit| unit.sum = None);
    let all = 0..new.len() as u64;
    let mut fetch = |range: Range<u64>, buf: &mut [u8]| {
        buf.copy_from_slice(&new[range.start as usize..range.end as usize]);
        Ok(())
    };
    for old in [old, Vec::new(), vec![1; 100]] {
        let found = find(&sums, std::slice::from_ref(&all), &BytesFile::new(old), &mut fetch);
        assert_eq!(found, ShiftedUnits::default());
    }
}

#[test]
fn an_error_ends_the_search_with_the_units_found_so_far() {
    let old = bytes(40 * UNIT, 12);
    let mut new = old.clone();
    new.insert(30 * UNIT, 1);
    new.insert(3, 1);
    let (sums, ranges) = (sums(&new, SumAlgorithm::Xxh64, UNIT), differing(&old, &new, UNIT));
    let mut left = 1;
    let mut fetch = |range: Range<u64>, buf: &mut [u8]| {
        left -= 1;
        buf.copy_from_slice(&new[range.start as usize..range.end as usize]);
        if left < 0 { Err(RemoteError::Changed) } else { Ok(()) }
    };
    let found = find(&sums, &ranges, &BytesFile::new(old), &mut fetch);
    assert_eq!(found.units, 29);
}

/// Bytes of `old` that a search in vain reads.
fn bytes_read(old: Vec<u8>, new: &[u8]) -> u64 {
    let (sums, ranges) = (sums(new, SumAlgorithm::Xxh64, UNIT), differing(&old, new, UNIT));
    let mut fetch = |range: Range<u64>, buf: &mut [u8]| {
        buf.copy_from_slice(&new[range.start as usize..range.end as usize]);
        Ok(())
    };
    let file = BytesFile::new(old);
    assert_eq!(find(&sums, &ranges, &file, &mut fetch).units, 0);
    file.read.into_inner()
}

#[test]
fn many_changed_runs_of_a_longer_object_read_a_bounded_number_of_bytes() {
    let old = bytes(128 * UNIT, 20);
    let mut new = [&old[..], &bytes(128 * UNIT, 21)].concat();
    for run in 0..25 {
        let start = run * 5 * UNIT;
        new[start..start + 4 * UNIT].copy_from_slice(&bytes(4 * UNIT, 30 + run as u64));
    }
    let most = SPARE_FACTOR * old.len() as u64 + LEAST_SPARE_BYTES;
    let read = bytes_read(old, &new);
    assert!(read < most + (1 << 20), "{read} bytes, {most} allowed");
}

#[test]
fn zeros_propose_no_shifts() {
    let mut old = vec![0; 32 * UNIT];
    old[20 * UNIT..].copy_from_slice(&bytes(12 * UNIT, 40));
    let mut new = old.clone();
    for unit in 2..10 {
        new[unit * UNIT..][..UNIT / 2].copy_from_slice(&bytes(UNIT / 2, 41 + unit as u64));
        new[(unit + 1) * UNIT - 100..][..100].copy_from_slice(&bytes(100, 60 + unit as u64));
    }
    let (len, read) = (old.len() as u64, bytes_read(old, &new));
    assert!(read < len + (64 << 10), "{read} bytes of {len}");
}
