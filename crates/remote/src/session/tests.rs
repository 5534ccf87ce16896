//! Whole sessions from a remote system in memory to a local directory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use deltic_net::plan::{Destination, Sources};
use deltic_net::{Outcome, Plan, SyncError, User};
use deltic_protocol::options::{Compare, Delete, Options};
use deltic_protocol::report::{Notice, Trouble, TroubleKind};

use deltic_store::{Snapshot as _, Tree as _};
use deltic_tree::{Name, RelPath};

use super::RemoteSystem;
use crate::evidence::{ComparedBy, ComparedContents, Evidence, FileCount};
use crate::sums::SumAlgorithm;
use crate::system::StorageSystem;
use crate::testing::MemorySystem;
use crate::testing::conformance::{self, SumHonesty};
use crate::tree::TreeOptions;

/// A remote system, a destination and a cache directory.
pub(crate) struct TestSync<S = MemorySystem> {
    shelf: Arc<S>,
    dir: tempfile::TempDir,
}

impl TestSync {
    fn new(shelf: MemorySystem) -> Self {
        Self::of(Arc::new(shelf))
    }
}

impl<S: StorageSystem> TestSync<S> {
    pub(crate) fn of(shelf: Arc<S>) -> Self {
        Self { shelf, dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn out(&self) -> std::path::PathBuf {
        self.dir.path().join("out")
    }

    /// Syncs everything. Returns the outcome, the errors reported, and the bytes read of objects.
    fn sync(&self) -> (Result<Outcome, SyncError>, Vec<Trouble>, u64) {
        self.sync_as(&["./"], Options::default())
    }

    pub(crate) fn sync_as(
        &self,
        paths: &[&str],
        options: Options,
    ) -> (Result<Outcome, SyncError>, Vec<Trouble>, u64) {
        self.sync_with(paths, Options { recursive: true, ..options })
    }

    fn sync_with(
        &self,
        paths: &[&str],
        options: Options,
    ) -> (Result<Outcome, SyncError>, Vec<Trouble>, u64) {
        let (mut troubles, before) = (Vec::new(), self.shelf.received());
        let (plan, _) = self.plan(paths, options);
        let ended = deltic_net::run(plan, &User::default(), &mut |notice| {
            if let Notice::Trouble(trouble) = notice {
                troubles.push(trouble);
            }
        });
        (ended, troubles, self.shelf.received() - before)
    }

    /// Compares all contents. Returns the names that differ, the comparison counts, and the bytes read of objects.
    fn compare(&self) -> (Vec<String>, ComparedContents, u64) {
        let (mut differ, before) = (Vec::new(), self.shelf.received());
        let options =
            Options { recursive: true, checksum: true, dry_run: true, ..Options::default() };
        let (plan, evidence) = self.plan(&["./"], options);
        let ended = deltic_net::run(plan, &User::default(), &mut |notice| match notice {
            Notice::Changed(change) if change.differs.content => {
                differ.push(String::from_utf8_lossy(change.path.as_bytes()).into_owned());
            }
            Notice::Trouble(trouble) => panic!("{trouble:?}"),
            _ => {}
        });
        ended.unwrap();
        differ.sort();
        (differ, evidence.compared(), self.shelf.received() - before)
    }

    fn plan(&self, paths: &[&str], options: Options) -> (Plan, Evidence) {
        let compare = Compare { cached: true, ..Compare::default() };
        let options = Options { times: true, whole_file: true, compare, ..options };
        let cache = self.dir.path().join("cache");
        let remote = RemoteSystem { system: self.shelf.clone() };
        let (dial, evidence) = remote.dial(Some(cache.clone()));
        let sources = Sources::Remote {
            host: "shelf://".into(),
            paths: paths.iter().map(Into::into).collect(),
        };
        let plan = Plan::new(sources, Destination::Local(self.out()), options);
        (Plan { dial: Some(dial), cache: Some(cache), ..plan }, evidence)
    }

    fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        fs::read(self.out().join(name)).unwrap() == bytes
    }
}

pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) fn age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
}

const UNIT: u64 = 64 << 10;

#[test]
fn the_system_in_memory_passes_the_conformance_suite() {
    for (unit, whole) in [(UNIT, false), (0, true)] {
        conformance::run(&[SumAlgorithm::Crc32c], |says| {
            Arc::new(MemorySystem {
                unit,
                whole,
                lies: says == SumHonesty::Lies,
                ..MemorySystem::default()
            })
        });
    }
    conformance::run_honest(&[], || Arc::new(MemorySystem::default()));
}

#[test]
fn a_first_sync_over_an_old_version_reads_only_the_units_that_differ() {
    for len in [UNIT as usize * 40, UNIT as usize * 40 + 1000, 300_000] {
        let new = bytes(len, 1);
        let world = TestSync::new(
            MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("a/img", &new),
        );
        let mut old = new.clone();
        old[UNIT as usize * 3 + 5] ^= 1;
        fs::create_dir_all(world.out().join("a")).unwrap();
        fs::write(world.out().join("a/img"), &old).unwrap();
        age(&world.out().join("a/img"));
        let (ended, troubles, read) = world.sync();
        ended.unwrap();
        assert!(troubles.is_empty() && world.holds("a/img", &new), "{troubles:?}");
        assert_eq!(read, UNIT, "{len}");
    }
}

#[test]
fn a_longer_a_shorter_or_an_equal_old_version_is_used_as_a_base() {
    let new = bytes(UNIT as usize * 20 + 777, 2);
    for (old, most) in [
        ([&new[..], b"more"].concat(), 0),
        (new[..UNIT as usize * 10 + 1].to_vec(), UNIT * 10 + 777),
        (new.clone(), 0),
    ] {
        let world =
            TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("img", &new));
        fs::create_dir_all(world.out()).unwrap();
        fs::write(world.out().join("img"), &old).unwrap();
        age(&world.out().join("img"));
        let (ended, _, read) = world.sync();
        ended.unwrap();
        assert!(world.holds("img", &new));
        assert!(read <= most, "{read} bytes of {most}");
    }
}

#[test]
fn a_first_copy_reads_each_byte_once_and_the_next_sync_only_changed_units() {
    let mut new = bytes(40 << 20, 3);
    let world =
        TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("img", &new));
    let (ended, _, read) = world.sync();
    ended.unwrap();
    assert_eq!(read, 40 << 20);
    new[7_000_000] ^= 1;
    new.push(0);
    world.shelf.put("img", &new);
    let (ended, _, read) = world.sync();
    ended.unwrap();
    assert!(world.holds("img", &new));
    assert_eq!(read, UNIT + 1);
    let (_, _, read) = world.sync();
    assert_eq!(read, 0);
}

#[test]
fn an_insertion_into_an_unknown_old_version_fetches_two_units() {
    for (old_len, at) in [(UNIT as usize * 40 + 1000, 0), (3 << 20, 70_000), (12 << 20, 5 << 20)] {
        let old = bytes(old_len, 15);
        let mut new = old.clone();
        new.insert(at, b'x');
        let system = MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("a/img", &new);
        let world = TestSync::new(system);
        fs::create_dir_all(world.out().join("a")).unwrap();
        fs::write(world.out().join("a/img"), &old).unwrap();
        age(&world.out().join("a/img"));
        let (ended, troubles, read) = world.sync();
        let store = ended.unwrap().store;
        assert!(troubles.is_empty() && world.holds("a/img", &new), "{troubles:?}");
        assert!(read <= 2 * UNIT + 4096, "{at} of {old_len}: {read}");
        let behind = (new.len() - at) as u64;
        assert!(store.shifted_units >= behind / UNIT - 1, "{at} of {old_len}: {store:?}");
        assert!(store.shifted_bytes + 2 * UNIT >= behind, "{at} of {old_len}: {store:?}");
    }
}

#[test]
fn insertions_and_removals_since_the_last_sync_fetch_few_units() {
    let mut new = bytes(40 << 20, 16);
    let world =
        TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("img", &new));
    world.sync().0.unwrap();
    for edits in 1..4 {
        (0..edits).for_each(|edit| new.insert((edit * 11 + 3) << 20, 7));
        new.drain(35 << 20..(35 << 20) + 100_000);
        world.shelf.put("img", &new);
        let (ended, troubles, read) = world.sync();
        let store = ended.unwrap().store;
        assert!(troubles.is_empty() && world.holds("img", &new), "{troubles:?}");
        assert!(read <= 3 * UNIT * (edits as u64 + 1), "{edits}: {read}");
        assert!(store.shifted_units > 100, "{edits}: {store:?}");
    }
}

#[test]
fn an_object_and_its_checksums_are_requested_once() {
    let new = bytes(UNIT as usize * 40, 12);
    let world =
        TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("a/img", &new));
    let asked = || world.shelf.asked.swap(0, std::sync::atomic::Ordering::Relaxed);
    fs::create_dir_all(world.out().join("a")).unwrap();
    fs::write(world.out().join("a/img"), &new[1..]).unwrap();
    age(&world.out().join("a/img"));
    world.sync().0.unwrap();
    assert_eq!(asked(), 1, "a first sync over an old version");
    world.compare();
    assert_eq!(asked(), 1, "both ends need the checksums");
}

#[test]
fn an_object_replaced_during_a_read_arrives_in_its_new_version() {
    let (first, last) = (bytes(UNIT as usize * 40, 13), bytes(UNIT as usize * 41, 14));
    let world =
        TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("img", &first));
    *world.shelf.next.lock().unwrap() = Some(("img".into(), last.clone()));
    let (ended, troubles, _) = world.sync();
    ended.unwrap();
    assert!(troubles.is_empty() && world.holds("img", &last), "{troubles:?}");
}

#[test]
fn bytes_that_do_not_match_their_checksum_replace_nothing() {
    let lens = [1000, UNIT as usize * 40, 5 << 20, 40 << 20];
    for (len, whole) in lens.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let new = bytes(len, 4);
        let shelf = MemorySystem { unit: UNIT, lies: true, whole, ..MemorySystem::default() };
        let world = TestSync::new(shelf.with("img", &new));
        fs::create_dir_all(world.out()).unwrap();
        fs::write(world.out().join("img"), b"old").unwrap();
        let (_, troubles, _) = world.sync();
        assert!(world.holds("img", b"old"));
        let told = troubles.first().expect("the mismatch is reported").message.clone();
        assert!(told.contains("checksum mismatch in bytes"), "{told}");
    }
}

#[test]
fn after_a_checksum_mismatch_every_later_read_and_the_final_check_fail() {
    let shelf = MemorySystem { lies: true, whole: true, ..MemorySystem::default() };
    let remote = RemoteSystem { system: Arc::new(shelf.with("img", &bytes(9 << 20, 8))) };
    let tree = remote.tree(&[b"img".to_vec()], TreeOptions::default()).unwrap();
    let snapshot = tree.open(&RelPath::root().join(&Name::new(b"img").unwrap()).unwrap()).unwrap();
    // Reads the last window first, as parallel readers may. The first window, where the mismatch is, comes last.
    let mut buffer = vec![0; 1 << 20];
    for at in (0..9_u64).rev() {
        snapshot.read_at(at << 20, &mut buffer).ok();
    }
    for told in [snapshot.read_at(0, &mut buffer).map(drop), snapshot.check_unchanged()] {
        let told = told.unwrap_err().to_string();
        assert!(told.contains("checksum mismatch in bytes 0–9437184"), "{told}");
    }
}

#[test]
fn a_path_that_is_too_long_is_reported() {
    let deep = vec!["d".repeat(250); 40].join("/");
    let world =
        TestSync::new(MemorySystem::default().with(&format!("{deep}/img"), b"1").with("ok", b"2"));
    let (_, troubles, _) = world.sync();
    assert!(world.holds("ok", b"2"));
    let told: Vec<_> = troubles.iter().map(|trouble| trouble.message.as_str()).collect();
    assert!(told.iter().any(|told| told.contains("file name too long")), "{told:?}");
}

#[test]
fn without_checksums_every_byte_is_read_once() {
    let shelf = MemorySystem::default().with("img", &bytes(9 << 20, 5)).with("d/e/small", b"small");
    let world = TestSync::new(shelf.with("d/empty", b""));
    let (ended, troubles, read) = world.sync();
    ended.unwrap();
    assert!(troubles.is_empty(), "{troubles:?}");
    assert!(world.holds("img", &bytes(9 << 20, 5)) && world.holds("d/e/small", b"small"));
    assert!(world.holds("d/empty", b""));
    assert_eq!(read, (9 << 20) + 5);
}

#[test]
fn invalid_names_are_reported_and_the_other_objects_arrive() {
    let shelf = MemorySystem::default().with("a/../b", b"1").with("a//b", b"2").with("ok", b"3");
    let world = TestSync::new(shelf.with("both", b"4").with("both/below", b"5"));
    let (_, troubles, _) = world.sync();
    assert!(world.holds("ok", b"3") && world.holds("both/below", b"5"));
    let told: Vec<_> = troubles.iter().map(|trouble| trouble.message.clone()).collect();
    for name in ["shelf://a/..", "shelf://a/:", "shelf://both: an object with"] {
        assert!(told.iter().any(|told| told.contains(name)), "{name}: {told:?}");
    }
}

#[test]
fn a_single_object_may_be_renamed_by_the_destination() {
    let new = bytes(3 << 20, 6);
    let world =
        TestSync::new(MemorySystem { unit: UNIT, ..MemorySystem::default() }.with("a/img", &new));
    let mut old = new.clone();
    old[0] ^= 1;
    fs::write(world.out(), &old).unwrap();
    age(&world.out());
    let (ended, _, read) = world.sync_as(&["a/img"], Options::default());
    ended.unwrap();
    assert!(fs::read(world.out()).unwrap() == new);
    assert_eq!(read, UNIT);
}

#[test]
fn contents_are_compared_by_checksum_without_reading_objects() {
    let (len, big) = (UNIT as usize * 9 + 100, bytes(UNIT as usize * 9 + 100, 9));
    let mut other = big.clone();
    other[len - 1] ^= 1;
    for shelf in [
        MemorySystem { unit: UNIT, ..MemorySystem::default() },
        MemorySystem { whole: true, ..MemorySystem::default() },
    ] {
        let shelf = shelf.with("a/same", &big).with("other", &big).with("longer", &big);
        let world = TestSync::new(shelf.with("empty", b""));
        fs::create_dir_all(world.out().join("a")).unwrap();
        let files =
            [("a/same", &big[..]), ("other", &other), ("longer", &big[1..]), ("empty", b"")];
        for (name, bytes) in files {
            fs::write(world.out().join(name), bytes).unwrap();
        }
        let (differ, ComparedContents { by, read }, received) = world.compare();
        assert_eq!(differ, ["longer", "other"]);
        assert_eq!(received, 0);
        // Temporary directories are not on Btrfs.
        let counted = FileCount { files: 2, bytes: len as u64 * 2 };
        assert_eq!(
            by.into_iter().collect::<Vec<_>>(),
            [(ComparedBy::Summed(SumAlgorithm::Crc32c), counted)]
        );
        assert_eq!(read, len as u64 * 2);
    }
}

#[test]
fn contents_without_sums_are_read_at_both_ends() {
    let big = bytes(5 << 20, 10);
    let world = TestSync::new(MemorySystem::default().with("same", &big).with("other", &big));
    let mut other = big.clone();
    other[0] ^= 1;
    fs::create_dir_all(world.out()).unwrap();
    fs::write(world.out().join("same"), &big).unwrap();
    fs::write(world.out().join("other"), &other).unwrap();
    let (differ, ComparedContents { by, read }, received) = world.compare();
    assert_eq!(differ, ["other"]);
    assert_eq!((read, received), (10 << 20, 10 << 20));
    let counted = FileCount { files: 2, bytes: 10 << 20 };
    assert_eq!(by.into_iter().collect::<Vec<_>>(), [(ComparedBy::Bytes, counted)]);
}

#[test]
fn wrong_checksums_make_no_file_equal() {
    let big = bytes(UNIT as usize * 2, 11);
    let shelf = MemorySystem { unit: UNIT, lies: true, ..MemorySystem::default() };
    let world = TestSync::new(shelf.with("same", &big));
    fs::create_dir_all(world.out()).unwrap();
    fs::write(world.out().join("same"), &big).unwrap();
    assert_eq!(world.compare().0, ["same"]);
}

#[test]
fn delete_removes_names_that_the_system_does_not_have() {
    let world = TestSync::new(MemorySystem::default().with("a/b", b"1").with("c", b"2"));
    for name in ["a", "d/e"] {
        fs::create_dir_all(world.out().join(name)).unwrap();
    }
    for name in ["a/old", "d/e/old", "old"] {
        fs::write(world.out().join(name), b"old").unwrap();
    }
    let options = Options { delete: Delete::AtMost(9), ..Options::default() };
    let (ended, troubles, _) = world.sync_as(&["./"], options);
    ended.unwrap();
    assert!(troubles.is_empty(), "{troubles:?}");
    let mut names: Vec<_> =
        fs::read_dir(world.out()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "c"]);
    assert!(!world.out().join("a/old").exists() && world.holds("a/b", b"1"));
}

#[test]
fn an_entry_that_is_not_an_object_is_refused_and_nothing_is_removed() {
    let world = TestSync::new(MemorySystem::default().with("a", b"1").with("link@", b""));
    fs::create_dir_all(world.out()).unwrap();
    for name in ["link@", "old"] {
        fs::write(world.out().join(name), b"kept").unwrap();
    }
    let options = Options { delete: Delete::AtMost(9), ..Options::default() };
    let (ended, troubles, _) = world.sync_as(&["./"], options);
    ended.unwrap();
    let told = "shelf://link@: neither a file nor a directory";
    assert!(troubles.iter().any(|trouble| trouble.message.contains(told)), "{troubles:?}");
    assert!(world.holds("a", b"1") && world.holds("link@", b"kept") && world.holds("old", b"kept"));
}

#[test]
fn nothing_is_removed_if_one_source_is_empty() {
    let world =
        TestSync::new(MemorySystem::default().with("full/a", b"1").with("gone/.deltic/x", b"2"));
    fs::create_dir_all(world.out()).unwrap();
    fs::write(world.out().join("old"), b"kept").unwrap();
    let options = Options { delete: Delete::AtMost(9), ..Options::default() };
    let (ended, troubles, _) = world.sync_as(&["full/", "gone/"], options);
    ended.unwrap();
    assert!(world.holds("a", b"1") && world.holds("old", b"kept"), "{troubles:?}");
}

#[test]
fn without_recursion_only_the_content_of_a_source_with_a_slash_is_listed() {
    let dirs = |dirs| Options {
        recursive: false,
        select: deltic_protocol::options::Select { dirs, ..Default::default() },
        ..Options::default()
    };
    for (source, has_dirs, arrive) in [
        ("a/", true, &["b", "img"][..]),
        ("a", true, &["a"]),
        ("a/", false, &[]),
        ("a", false, &[]),
        ("a/img", false, &["img"]),
    ] {
        let world = TestSync::new(MemorySystem::default().with("a/img", b"1").with("a/b/c", b"2"));
        fs::create_dir_all(world.out()).unwrap();
        let (ended, troubles, _) = world.sync_with(&[source], dirs(has_dirs));
        ended.unwrap();
        let is_trouble = |trouble: &Trouble| trouble.kind == TroubleKind::Failed;
        assert!(!troubles.iter().any(is_trouble), "{source}: {troubles:?}");
        let mut names: Vec<_> =
            fs::read_dir(world.out()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, arrive, "{source}, -d {has_dirs}");
        assert!(!world.out().join("b/c").exists() && !world.out().join("a/b").exists());
    }
}

#[test]
fn wildcards_match_names_of_objects_and_directories() {
    for (source, arrive) in [
        ("*.csv", &["a.csv"][..]),
        ("d*/", &["b.csv", "sub", "x"]),
        ("*/*.csv", &["b.csv"]),
        ("d[0-9]/x", &["x"]),
        ("lit*", &["lit*"]),
        ("d?", &["d1", "d2"]),
    ] {
        let system = MemorySystem::default().with("a.csv", b"1").with("d1/b.csv", b"2");
        let system = system.with("d2/x", b"3").with("d2/sub/c", b"4").with("lit*", b"5");
        let world = TestSync::new(system.with("other", b"6"));
        fs::create_dir_all(world.out()).unwrap();
        let (ended, troubles, _) = world.sync_as(&[source], Options::default());
        ended.unwrap();
        assert!(troubles.is_empty(), "{source}: {troubles:?}");
        let mut names: Vec<_> =
            fs::read_dir(world.out()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, arrive, "{source}");
    }
    let world = TestSync::new(MemorySystem::default().with("a.csv", b"1"));
    let (_, troubles, _) = world.sync_as(&["*.txt"], Options::default());
    assert!(troubles.iter().any(|trouble| trouble.message.contains("*.txt")), "{troubles:?}");
}
