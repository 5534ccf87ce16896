//! The conformance suite of remote systems. Each system runs it on a [`TestPlace`] where tests put objects.

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use deltic_protocol::options::Options;
use deltic_store::{Snapshot as _, Tree as _};
use deltic_tree::RelPath;

use super::fake::PART;
use crate::RemoteError;
use crate::session::RemoteSystem;
use crate::session::tests::{TestSync, age, bytes};
use crate::sums::{ContentSum, ObjectSums, SumAlgorithm, pad};
use crate::system::{ObjectVersion, StorageSystem, SystemEntry};
use crate::tree::TreeOptions;

/// A system under test, with a way to put objects.
pub(crate) trait TestPlace {
    type System: StorageSystem;

    fn system(&self) -> Arc<Self::System>;

    /// Puts an object, replacing any earlier version.
    fn put(&self, path: &str, bytes: &[u8]);

    /// Puts an object once a read of its earlier version has begun. False if the place cannot do that.
    fn put_during_read(&self, path: &str, bytes: &[u8]) -> bool;

    /// Path of the object with this name.
    fn at(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// Choice between right and wrong checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SumHonesty {
    Truth,
    Lies,
}

/// Runs all tests on the places that `make` returns. The places must return checksums of the algorithms `sums` and of
/// no others.
pub(crate) fn run<P: TestPlace>(sums: &[SumAlgorithm], make: impl Fn(SumHonesty) -> P) {
    run_honest(sums, || make(SumHonesty::Truth));
    a_wrong_checksum_replaces_nothing(&make(SumHonesty::Lies));
}

/// Runs the tests for places that have no checksums, or that cannot return wrong checksums.
pub(crate) fn run_honest<P: TestPlace>(sums: &[SumAlgorithm], make: impl Fn() -> P) {
    assert_eq!(checksums_match_the_bytes_read(&make()), sums);
    reads_end_at_the_end_of_the_object(&make());
    a_replaced_version_is_noticed(&make());
    a_sync_copies_the_object(&make());
    units_behind_an_insertion_come_from_the_old_version(&make());
    a_change_during_a_sync_leaves_one_whole_version(&make());
}

/// Object lengths around the lengths of units and parts.
const LENS: [usize; 8] = [0, 1, 1000, 65_536, 65_537, PART, PART + 1, 2 * PART + 65_539];

fn object<P: TestPlace>(place: &P, path: &str) -> ObjectVersion {
    let Some(SystemEntry::Object(object)) = place.system().look(path).unwrap() else {
        panic!("{path} is no object")
    };
    object
}

fn read<P: TestPlace>(
    place: &P,
    path: &str,
    object: &ObjectVersion,
    range: Range<u64>,
) -> Result<Vec<u8>, RemoteError> {
    let mut buf = vec![0; (range.end - range.start) as usize];
    place.system().read(path, object, range, &mut buf).map(|()| buf)
}

/// Checks lengths, content, checksums and lists. Returns the algorithms seen.
fn checksums_match_the_bytes_read<P: TestPlace>(place: &P) -> Vec<SumAlgorithm> {
    let img = |len: usize| (place.at(&format!("img{len}")), bytes(len, len as u64));
    // A system may list its objects only once.
    LENS.map(img).iter().for_each(|(path, bytes)| place.put(path, bytes));
    let mut kinds = Vec::new();
    for len in LENS {
        let (path, new) = img(len);
        let object = object(place, &path);
        assert_eq!(object.len, len as u64);
        let sums = place.system().sums(&path, &object).unwrap().check(object.len).unwrap();
        if len > 0 {
            assert!(read(place, &path, &object, 0..object.len).unwrap() == new, "{len}");
            check_units(&sums, &new);
        }
        let whole = sums.whole.iter().map(|sum| (sum, &new[..], 0));
        whole.for_each(|(sum, bytes, zeros)| check(sum, bytes, zeros));
        kinds.extend(sums.units.iter().filter_map(crate::sums::SummedUnit::algorithm));
        kinds.extend(sums.whole.iter().map(|sum| sum.algorithm));
        place.system().check(&path, &object).unwrap();
        is_listed(place, &path, &object);
    }
    kinds.sort();
    kinds.dedup();
    kinds
}

fn check_units(sums: &ObjectSums, bytes: &[u8]) {
    let mut at = 0;
    for unit in &sums.units {
        let end = at + unit.len as usize;
        unit.sum.iter().for_each(|sum| check(sum, &bytes[at..end], unit.padded - unit.len));
        at = end;
    }
}

fn check(sum: &ContentSum, bytes: &[u8], zeros: u64) {
    let Some(mut summer) = sum.algorithm.summer() else { return };
    summer.push(bytes);
    pad(&mut summer, zeros);
    assert_eq!(summer.finish(), sum.bytes, "{:?} of {} bytes", sum.algorithm, bytes.len());
}

/// A list must describe an object as a look-up does.
fn is_listed<P: TestPlace>(place: &P, path: &str, object: &ObjectVersion) {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut found = Vec::new();
    let each = &mut |is: String, what| found.extend((is == name).then_some(what));
    place.system().list(dir, each).unwrap();
    assert_eq!(found, [SystemEntry::Object(object.clone())], "{path}");
}

fn reads_end_at_the_end_of_the_object<P: TestPlace>(place: &P) {
    for len in [0, 1, 70_000_u64] {
        let (name, new) = (format!("img{len}"), bytes(len as usize, 1));
        let path = place.at(&name);
        place.put(&path, &new);
        let object = object(place, &path);
        for range in [len..len + 1, len + 7..len + 9, len.saturating_sub(1)..len + 1] {
            assert!(read(place, &path, &object, range.clone()).is_err(), "{range:?} of {len}");
        }
        let tree =
            RemoteSystem { system: place.system() }.tree(&[path.into()], TreeOptions::default());
        let snapshot = tree.unwrap().open(&RelPath::parse(name.as_bytes()).unwrap()).unwrap();
        let mut buf = [7; 10];
        for start in [len, len + 1, len + (1 << 30)] {
            assert_eq!(snapshot.read_at(start, &mut buf).unwrap(), 0, "{start} of {len}");
        }
        assert_eq!(snapshot.read_at(len.saturating_sub(3), &mut buf).unwrap() as u64, len.min(3));
        assert!(new.ends_with(&buf[..len.min(3) as usize]));
        let extents = snapshot.extents().unwrap();
        assert!(extents.is_none_or(|extents| extents.len() == len));
    }
}

/// A read or checksum request for a replaced version must fail, or the check afterwards.
fn a_replaced_version_is_noticed<P: TestPlace>(place: &P) {
    let first = bytes(70_000, 1);
    let others = [bytes(70_000, 2), first[..9].to_vec(), bytes(90_000, 3), Vec::new()];
    for (no, other) in others.iter().enumerate() {
        let path = place.at(&format!("img{no}"));
        place.put(&path, &first);
        let old = object(place, &path);
        place.put(&path, other);
        let read = read(place, &path, &old, 69_999..70_000).map(drop);
        let sums = place.system().sums(&path, &old).map(drop);
        let checked = place.system().check(&path, &old);
        let is_seen = matches!(checked, Err(RemoteError::Changed));
        for refused in [read, sums] {
            assert!(matches!(refused, Err(RemoteError::Changed)) || is_seen, "{no}: {refused:?}");
        }
        assert_ne!(object(place, &path), old);
    }
}

fn sync<P: TestPlace>(place: &P, path: &str, old: Option<&[u8]>) -> (Option<Vec<u8>>, Vec<String>) {
    let world = TestSync::of(place.system());
    if let Some(old) = old {
        fs::write(world.out(), old).unwrap();
        age(&world.out());
    }
    let (_, troubles, _) = world.sync_as(&[path], Options::default());
    let told = troubles.into_iter().map(|trouble| trouble.message).collect();
    (fs::read(world.out()).ok(), told)
}

fn a_sync_copies_the_object<P: TestPlace>(place: &P) {
    for len in LENS {
        let (path, new) = (place.at(&format!("img{len}")), bytes(len, 3));
        place.put(&path, &new);
        let mut other = new.clone();
        other.iter_mut().take(1).for_each(|byte| *byte ^= 1);
        for old in [None, Some(&other[..]), Some(b"old"), Some(&[])] {
            let (came, told) = sync(place, &path, old);
            assert!(came.as_ref() == Some(&new) && told.is_empty(), "{len}: {told:?}");
        }
    }
}

fn units_behind_an_insertion_come_from_the_old_version<P: TestPlace>(place: &P) {
    let (path, new) = (place.at("img"), bytes(9 * PART + 70_001, 8));
    place.put(&path, &new);
    let object = object(place, &path);
    let units = place.system().sums(&path, &object).unwrap().units;
    let world = TestSync::of(place.system());
    fs::write(world.out(), &new[1..]).unwrap();
    age(&world.out());
    let (ended, troubles, _) = world.sync_as(&[&path], Options::default());
    let found = ended.unwrap().store.shifted_units;
    assert!(fs::read(world.out()).unwrap() == new && troubles.is_empty(), "{troubles:?}");
    let is_summed =
        units.iter().all(|unit| unit.algorithm().is_some_and(|by| by.summer().is_some()));
    let least = if is_summed && units.len() > 4 { units.len() as u64 - 2 } else { 0 };
    assert!(found >= least, "{found} of {} units", units.len());
}

fn a_change_during_a_sync_leaves_one_whole_version<P: TestPlace>(place: &P) {
    for (no, len) in [1000, 5 * PART + 1].into_iter().enumerate() {
        let (first, same_len, shorter) = (bytes(len, 5), bytes(len, 6), bytes(len / 2, 7));
        for (other_no, last) in [same_len, shorter].into_iter().enumerate() {
            let path = place.at(&format!("img{no}{other_no}"));
            place.put(&path, &first);
            if !place.put_during_read(&path, &last) {
                return;
            }
            let (came, told) = sync(place, &path, Some(b"old"));
            let came = came.unwrap();
            let is_one = came == first || came == last;
            assert!(is_one || came == b"old" && !told.is_empty(), "{len}: {told:?}");
        }
    }
}

fn a_wrong_checksum_replaces_nothing<P: TestPlace>(place: &P) {
    for len in LENS.into_iter().filter(|len| *len > 0) {
        let path = place.at(&format!("img{len}"));
        place.put(&path, &bytes(len, 4));
        let (came, told) = sync(place, &path, Some(b"old"));
        assert!(came.unwrap() == b"old", "{len}");
        assert!(told[0].contains("checksum mismatch in bytes"), "{len}: {told:?}");
    }
}
