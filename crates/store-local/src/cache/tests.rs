#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests edit files, and the cache, from outside"
)]

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::thread::sleep;

use proptest::prelude::*;
use rustix::fs::{Timespec, Timestamps};
use tempfile::TempDir;

use super::*;
use crate::handles::stat::Stamp;
use deltic_store::VersionToken;
use deltic_tree::Timestamp;

/// Returns the `n`th version, each of a file of its own, changed long ago.
pub(super) fn version(n: u64) -> Version {
    let at = |secs| Timestamp { secs, nanos: 1 };
    Version { token: token(1, n), len: n, modified: at(5), changed: at(6) }
}

fn token(device: u64, number: u64) -> VersionToken {
    let mut token = [0; 32];
    token[..8].copy_from_slice(&device.to_le_bytes());
    token[8..16].copy_from_slice(&number.to_le_bytes());
    VersionToken(token)
}

/// Returns versions that differ from `is` in one field each.
pub(super) fn others(is: Version) -> [Version; 5] {
    let file = file_of(&is);
    let later = |time: Timestamp| Timestamp { nanos: time.nanos + 1, ..time };
    [
        Version { token: token(file.device + 1, file.number), ..is },
        Version { token: token(file.device, file.number + 1), ..is },
        Version { len: is.len + 1, ..is },
        Version { modified: later(is.modified), ..is },
        Version { changed: later(is.changed), ..is },
    ]
}

pub(super) fn digest(n: u64) -> Digest {
    Digest::from_bytes(blake3::hash(&n.to_le_bytes()).into())
}

impl Cache {
    /// Notes the digest of a version that was read from `begun` on, if the version is settled.
    fn note_read(&self, version: &Version, begun: Moment, digest: &Digest) {
        SettledVersion::after_read(*version, begun)
            .inspect(|version| self.note_digest(version, digest));
    }
}

fn note(cache: &Cache, n: u64) {
    cache.note_read(&version(n), now(), &digest(n));
}

/// True if the cache has a digest for `n`. Panics if the digest is wrong.
fn knows(cache: &Cache, n: u64) -> bool {
    let found = cache.find(&version(n));
    assert!(found.is_none_or(|found| found == digest(n)), "{n}");
    found.is_some()
}

fn table(dir: &TempDir) -> fs::File {
    let path = dir.path().join("digests-1");
    fs::File::options().read(true).write(true).open(path).unwrap()
}

pub(super) fn small(most: u64) -> Cache {
    let cache = Cache::of(tempfile::tempfile().unwrap().into(), most);
    assert!(cache.buckets().is_some());
    cache
}

#[test]
fn what_was_noted_is_found_and_no_other_version_is() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert!(!knows(&cache, 7));
    note(&cache, 7);
    assert!(knows(&cache, 7) && !knows(&cache, 8));
    for other in others(version(7)) {
        assert_eq!(cache.find(&other), None, "{other:?}");
    }
    let again = Cache::open(dir.path()).unwrap();
    assert!(knows(&again, 7));
}

#[test]
fn a_later_version_takes_the_place_of_a_former_one() {
    let cache = small(MAX_BYTES);
    for secs in 0..1000 {
        let changed = Timestamp { secs, nanos: 1 };
        cache.note_read(&Version { changed, ..version(7) }, now(), &digest(7));
    }
    let mut bucket = [0; BUCKET_BYTES];
    cache
        .read_bucket(
            bucket_of(Inode { device: 1, number: 7 }, cache.buckets().unwrap()),
            &mut bucket,
        )
        .unwrap();
    let used = |slot: &&[u8]| slot.iter().any(|byte| *byte != 0);
    assert_eq!(bucket.chunks_exact(SLOT_BYTES).filter(used).count(), 1);
}

#[test]
fn a_table_grows_and_forgets_nothing() {
    let cache = small(MAX_BYTES);
    let first = cache.buckets().unwrap();
    let many = 3 * first * (BUCKET_BYTES / SLOT_BYTES) as u64;
    (0..many).for_each(|n| note(&cache, n));
    let buckets = cache.buckets().unwrap();
    assert!(buckets > 2 * first && buckets <= 16 * first, "{buckets}");
    let lost: Vec<_> = (0..many).filter(|n| !knows(&cache, *n)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn what_stands_where_it_is_not_looked_for_is_not_known_until_it_is_noted_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    (0..2000).for_each(|n| note(&cache, n));
    assert!((0..2000).all(|n| knows(&cache, n)));
    let file = table(&dir);
    let buckets = file.metadata().unwrap().len() / BUCKET_BYTES as u64;
    let mut bucket = [0; BUCKET_BYTES];
    for at in (0..buckets).map(|no| no * BUCKET_BYTES as u64) {
        file.read_exact_at(&mut bucket, at).unwrap();
        let slots = BUCKET_BYTES / SLOT_BYTES;
        bucket[..slots * SLOT_BYTES].rotate_left(slots / 2 * SLOT_BYTES);
        file.write_all_at(&bucket, at).unwrap();
    }
    let found = |n| cache.find(&version(n));
    assert!((0..2000).filter(|n| found(*n).is_some()).count() < 500);
    assert!((0..2000).all(|n| found(n).is_none_or(|found| found == digest(n))));
    (0..2000).for_each(|n| note(&cache, n));
    assert!((0..2000).all(|n| knows(&cache, n)));
}

#[test]
fn a_table_of_the_greatest_length_forgets_the_oldest() {
    let most = 2 * FIRST_BUCKETS * BUCKET_BYTES as u64;
    let cache = small(most);
    let room = most / SLOT_BYTES as u64;
    let begun = |n| Moment::since_1970(Duration::from_secs(1_000_000 + n));
    for n in 0..3 * room {
        cache.note_read(&version(n), begun(n), &digest(n));
        assert!(knows(&cache, n));
    }
    assert_eq!(fs::File::from(cache.table.try_clone().unwrap()).metadata().unwrap().len(), most);
    let kept = |range: std::ops::Range<u64>| range.filter(|n| knows(&cache, *n)).count() as u64;
    // Entries in crowded buckets are evicted a little earlier.
    assert!(kept(5 * room / 2..3 * room) > room * 2 / 5);
    assert!(kept(0..room) < room / 20);
}

#[test]
fn damaged_tables_answer_right_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    (0..2000).for_each(|n| note(&cache, n));
    let file = table(&dir);
    let len = file.metadata().unwrap().len();
    let mut known = (0..2000).filter(|n| knows(&cache, *n)).count();
    assert_eq!(known, 2000);
    for step in 1..40_u64 {
        let at = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (len - 4096);
        file.write_all_at(&[step as u8; 4096][..(step * 100) as usize], at).unwrap();
        let now = (0..2000).filter(|n| knows(&cache, *n)).count();
        assert!(now <= known);
        known = now;
    }
    assert!(known < 2000);
    (0..2000).for_each(|n| note(&cache, n));
    assert!((0..2000).all(|n| knows(&cache, n)), "what is garbled is free");
}

#[test]
fn tables_cut_short_answer_right_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    let file = table(&dir);
    let len = file.metadata().unwrap().len();
    for cut in [0, 1, 100, BUCKET_BYTES as u64, len / 2 + 5, len - 1, len + 7, 3 * len] {
        (0..1000).for_each(|n| note(&cache, n));
        file.set_len(cut).unwrap();
        (0..1000).for_each(|n| _ = knows(&cache, n));
        // The next process finds a table, or creates one.
        let next = Cache::open(dir.path()).unwrap();
        note(&next, 5);
        assert!(knows(&next, 5), "{cut}");
    }
}

#[test]
fn a_table_of_garbage_is_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut hasher = blake3::Hasher::new().finalize_xof();
    let mut garbage = vec![0; 2 << 20];
    hasher.fill(&mut garbage);
    fs::write(dir.path().join("digests-1"), garbage).unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert!((0..1000).all(|n| !knows(&cache, n)));
    note(&cache, 5);
    assert!(knows(&cache, 5));
}

#[test]
fn several_runs_at_once_know_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for from in 0..4 {
            let cache = Cache::open(dir.path()).unwrap();
            scope.spawn(move || {
                for n in (from * 1000..from * 1000 + 3000).chain(0..6000) {
                    note(&cache, n);
                    knows(&cache, (n * 7) % 6000);
                }
            });
        }
    });
    let cache = Cache::open(dir.path()).unwrap();
    let lost = (0..6000).filter(|n| !knows(&cache, *n)).count();
    // Two writers that take the same slot at once lose one entry.
    assert!(lost < 600, "{lost}");
}

#[test]
fn a_cache_may_go_while_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(&dir.path().join("a/b")).unwrap();
    note(&cache, 1);
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    note(&cache, 2);
    assert!(knows(&cache, 1) && knows(&cache, 2));
    let next = Cache::open(&dir.path().join("a/b")).unwrap();
    assert!(!knows(&next, 1));
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
    assert_eq!((mode("a") & 0o777, mode("a/b/digests-1") & 0o777), (0o700, 0o600));
}

#[test]
fn where_there_can_be_no_cache_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(Cache::open(&dir.path().join("file/cache")).is_none());
    assert!(Cache::open(Path::new("/proc/deltic/cache")).is_none());
    // A symlink that another user could have put there.
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink("../file", other.join("digests-1")).unwrap();
    assert!(Cache::open(&other).is_none());
    // A directory that other users may write to.
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Cache::open(&open).is_none());
}

#[test]
fn a_cache_that_cannot_be_written_still_answers() {
    let dir = tempfile::tempdir().unwrap();
    note(&Cache::open(dir.path()).unwrap(), 1);
    let cache = Cache::of(fs::File::open(dir.path().join("digests-1")).unwrap().into(), MAX_BYTES);
    note(&cache, 2);
    assert!(knows(&cache, 1) && !knows(&cache, 2));
}

/// An event in the life of a file.
#[derive(Clone, Debug)]
enum Event {
    /// The file is overwritten with as many bytes, and gets its old mtime back.
    Edit(u8),
    /// The file is replaced by a new file of the same length and mtime.
    Replace(u8),
    /// Enough time passes that the present version may be noted.
    Wait,
    /// The file is read, and its digest noted.
    Note,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => any::<u8>().prop_map(Event::Edit),
        1 => any::<u8>().prop_map(Event::Replace),
        1 => Just(Event::Wait),
        5 => Just(Event::Note),
    ];
    prop::collection::vec(event, 1..40)
}

fn put_back_time(file: &fs::File) {
    let time = Timespec { tv_sec: 1_000_000, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(file.as_fd(), &times).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The law of the cache, against changes that restore the file's mtime.
    #[test]
    fn a_changed_file_is_never_answered_for(events in events()) {
        let dir = tempfile::tempdir().unwrap();
        let cache = small(MAX_BYTES);
        let path = dir.path().join("file");
        let write = |byte: u8, to: &Path| {
            let file = fs::File::options().write(true).create(true).truncate(false).open(to).unwrap();
            file.write_all_at(&[byte; 300], 0).unwrap();
            put_back_time(&file);
        };
        write(0, &path);
        for event in events.into_iter().chain([Event::Wait, Event::Note]) {
            let is = |path: &Path| Stamp::of(&rustix::fs::fstat(fs::File::open(path).unwrap()).unwrap()).version();
            let sum = || Digest::from_bytes(blake3::hash(&fs::read(&path).unwrap()).into());
            match event {
                Event::Edit(byte) => write(byte, &path),
                Event::Replace(byte) => {
                    write(byte, &dir.path().join("new"));
                    fs::rename(dir.path().join("new"), &path).unwrap();
                }
                Event::Wait => sleep(Duration::from_millis(115)),
                Event::Note => {
                    let version = is(&path);
                    cache.note_read(&version, now(), &sum());
                }
            }
            let found = cache.find(&is(&path));
            prop_assert!(found.is_none_or(|found| found == sum()));
        }
        let is = Stamp::of(&rustix::fs::fstat(fs::File::open(&path).unwrap()).unwrap()).version();
        prop_assert!(cache.find(&is).is_some() || is.changed.nanos == 0);
    }
}
