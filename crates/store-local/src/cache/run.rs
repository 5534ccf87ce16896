//! The [`Cache`] of one run. Notes wait in memory, and many notes are written together.
//!
//! A first copy notes each of its files. A note that is written alone reads and writes the table between the flushes of
//! the files. Thousands of notes that are written together share the system calls of their bucket. Waiting notes are
//! lost when a process is killed. Their files are few and short enough to be read again quickly.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use deltic_core::Digest;
use deltic_store::{DigestQuery, SettledVersion};
use deltic_tree::meta::Inode;

use super::{Cache, Slot, file_of, find_in, inode_of, key_of, slot_of};
use crate::kernel::lock;

/// Most waiting notes. Each takes a few hundred bytes of memory.
const MAX_WAITING: usize = 4096;
/// Most bytes of all files with waiting notes.
const MAX_WAITING_BYTES: u64 = 256 << 20;

/// Digests of files that were read in this run or an earlier run.
#[derive(Debug)]
pub(super) struct RunCache {
    cache: Cache,
    waiting: Mutex<Waiting>,
}

/// Notes that are not yet written to the table.
#[derive(Debug, Default)]
struct Waiting {
    /// Slots by device and inode number.
    slots: HashMap<Inode, Slot>,
    /// Total bytes of the files with waiting notes.
    bytes: u64,
}

impl RunCache {
    /// Opens the cache in `dir`, as [`Cache::open`] does.
    #[must_use]
    pub(super) fn open(dir: &Path) -> Option<Self> {
        Some(Self::of(Cache::open(dir)?))
    }

    fn of(cache: Cache) -> Self {
        Self { cache, waiting: Mutex::default() }
    }

    /// Checks whether another process has grown the table.
    pub(super) fn refresh(&self) {
        self.cache.refresh_length();
    }

    /// Answers a query for digests.
    pub(super) fn find_all(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        self.find_waiting(query, found);
        for (version, found) in query.versions.iter().zip(found) {
            *found = found.or_else(|| self.cache.find_within(version, query.max_age));
            if found.is_none() && query.needs_all {
                return;
            }
        }
    }

    /// Answers a query from the waiting notes.
    fn find_waiting(&self, query: &DigestQuery<'_>, found: &mut [Option<Digest>]) {
        let waiting = lock(&self.waiting);
        if waiting.slots.is_empty() {
            return;
        }
        for (version, found) in query.versions.iter().zip(found) {
            let slot = waiting.slots.get(&file_of(version));
            *found = slot.and_then(|slot| find_in(slot, (&key_of(version), query.max_age)));
        }
    }

    /// Notes digests.
    pub(super) fn note_all(&self, notes: &[(SettledVersion, Digest)]) {
        let mut waiting = lock(&self.waiting);
        for (version, digest) in notes {
            let slot = slot_of(version, digest);
            waiting.slots.insert(inode_of(&slot), slot);
            waiting.bytes = waiting.bytes.saturating_add(version.version().len);
            if waiting.slots.len() >= MAX_WAITING || waiting.bytes >= MAX_WAITING_BYTES {
                self.write_waiting(&mut waiting);
            }
        }
    }

    /// Writes the waiting notes.
    pub(super) fn write(&self) {
        self.write_waiting(&mut lock(&self.waiting));
    }

    fn write_waiting(&self, waiting: &mut Waiting) {
        let slots = std::mem::take(waiting).slots;
        self.cache.write_all(slots.into_values().collect());
    }
}

/// Writes the waiting notes, since a cancelled run ends by dropping its cache.
impl Drop for RunCache {
    fn drop(&mut self) {
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deltic_store::{Moment, Version};

    use super::super::tests::{digest, others, small, version};
    use super::super::{FIRST_BUCKETS, MAX_BYTES, now};
    use super::*;

    impl RunCache {
        fn find(&self, version: &Version) -> Option<Digest> {
            let mut found = [None];
            let versions = std::slice::from_ref(version);
            let query = DigestQuery { versions, max_age: None, needs_all: false };
            self.find_all(&query, &mut found);
            found[0]
        }

        fn note(&self, version: &Version, digest: &Digest) {
            self.note_all(&[(settled(version, now()), *digest)]);
        }
    }

    fn settled(version: &Version, begun: Moment) -> SettledVersion {
        SettledVersion::after_read(*version, begun).unwrap()
    }

    #[test]
    fn what_waits_is_known_and_what_a_run_noted_is_in_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let open = || RunCache::open(dir.path()).unwrap();
        // Exceeds the limit of waiting notes and the first table, and notes a version twice.
        let many = MAX_WAITING as u64 * 2 + 5;
        let long = Version { len: MAX_WAITING_BYTES, ..version(many) };
        let run = open();
        for n in (0..many).chain([7]) {
            run.note(&version(n), &digest(n));
            assert_eq!(run.find(&version(n)), Some(digest(n)));
        }
        assert!(others(version(7)).iter().all(|other| run.find(other).is_none()));
        assert_eq!(open().find(&version(many - 1)), None, "it waits");
        run.note(&long, &digest(0));
        assert_eq!(open().find(&long), Some(digest(0)), "too much to read again");
        run.note(&version(many), &digest(many));
        run.write();
        assert_eq!(open().find(&version(many)), Some(digest(many)));
        let lost: Vec<_> =
            (0..many).filter(|n| open().find(&version(*n)) != Some(digest(*n))).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }

    #[test]
    fn a_later_version_is_written_over_a_former_one() {
        let run = RunCache::of(small(MAX_BYTES));
        let later = Version { len: 100_000, ..version(7) };
        for version in [version(7), later] {
            run.note(&version, &digest(version.len));
        }
        assert_eq!([version(7), later].map(|version| run.find(&version).is_some()), [false, true]);
    }

    #[test]
    fn a_full_table_takes_the_newest() {
        let most = 2 * FIRST_BUCKETS * super::super::BUCKET_BYTES as u64;
        let cache = small(most);
        let room = most / super::super::SLOT_BYTES as u64;
        let begun = |n| Moment::since_1970(Duration::from_secs(1_000_000 + n));
        for n in (0..3 * room).step_by(100) {
            let slots = (n..n + 100).map(|n| slot_of(&settled(&version(n), begun(n)), &digest(n)));
            cache.write_all(slots.collect());
        }
        let kept = |range: std::ops::Range<u64>| {
            range.filter(|n| cache.find(&version(*n)) == Some(digest(*n))).count() as u64
        };
        assert!(kept(5 * room / 2..3 * room) > room * 2 / 5);
        assert!(kept(0..room) < room / 20);
    }
}
