//! The [`Cache`] as one run uses it: what it notes waits, and is written together.
//!
//! A first copy notes each of its files. Written one by one, each would read and write the table, in between the
//! flushes of those files; thousands at once share the calls of their bucket. What waits when a process is killed is
//! not known later, and no more: it is as little as is quickly read again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use deltic_core::Digest;
use deltic_store::Version;

use super::{Cache, Moment, Slot, file_of, key_of, slot_of_read, slot_of_written};
use crate::lock;

/// Most notes that wait; each takes some hundred bytes of memory.
const MAX_WAITING: usize = 4096;
/// Most bytes of the files that they are of.
const MAX_WAITING_BYTES: u64 = 256 << 20;

/// Digests of files that were read in this run or in one before.
#[derive(Debug)]
pub struct RunCache {
    cache: Cache,
    waiting: Mutex<Waiting>,
}

/// Notes that are not in the table yet.
#[derive(Debug, Default)]
struct Waiting {
    /// By file.
    slots: HashMap<(u64, u64), Slot>,
    /// Bytes of their files.
    bytes: u64,
}

impl RunCache {
    /// Opens the cache in `dir`, as [`Cache::open`] does; what was read longer ago than `max_age` is not believed.
    #[must_use]
    pub fn open(dir: &Path, max_age: Option<Duration>) -> Option<Self> {
        Some(Self::of(Cache::open(dir)?.no_older_than(max_age)))
    }

    fn of(cache: Cache) -> Self {
        Self { cache, waiting: Mutex::default() }
    }

    /// The same as [`Cache::refresh`].
    pub fn refresh(&self) {
        self.cache.refresh();
    }

    /// The digest of this version, if it is known.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Digest> {
        let waiting = lock(&self.waiting).slots.get(&file_of(version)).copied();
        let found = waiting.and_then(|slot| self.cache.find_in(&slot, &key_of(version)));
        found.or_else(|| self.cache.find(version))
    }

    /// Notes the digest of this version, which was read from `begun` on and did not change meanwhile; unless it changed
    /// so shortly before that another change could look the same.
    pub fn note(&self, version: &Version, begun: Moment, digest: &Digest) {
        slot_of_read(version, begun, digest).inspect(|slot| self.keep(version, *slot));
    }

    /// The same as [`Cache::note_written`].
    pub fn note_written(&self, version: &Version, begun: Moment, digest: &Digest) {
        slot_of_written(version, begun, digest).inspect(|slot| self.keep(version, *slot));
    }

    fn keep(&self, version: &Version, slot: Slot) {
        let mut waiting = lock(&self.waiting);
        waiting.slots.insert(file_of(version), slot);
        waiting.bytes = waiting.bytes.saturating_add(version.len);
        if waiting.slots.len() >= MAX_WAITING || waiting.bytes >= MAX_WAITING_BYTES {
            self.write_all(&mut waiting);
        }
    }

    /// Writes what waits.
    pub fn write(&self) {
        self.write_all(&mut lock(&self.waiting));
    }

    fn write_all(&self, waiting: &mut Waiting) {
        let slots = std::mem::take(waiting).slots;
        self.cache.write_all(slots.into_values().collect());
    }
}

/// A run that is cancelled ends so.
impl Drop for RunCache {
    fn drop(&mut self) {
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{digest, others, small, version};
    use super::super::{FIRST_BUCKETS, MAX_BYTES, slot_of};
    use super::*;

    #[test]
    fn what_waits_is_known_and_what_a_run_noted_is_in_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let open = || RunCache::open(dir.path(), None).unwrap();
        // More than wait, more than the first table has room for, and one twice.
        let many = MAX_WAITING as u64 * 2 + 5;
        let long = Version { len: MAX_WAITING_BYTES, ..version(many) };
        let run = open();
        for n in (0..many).chain([7]) {
            run.note(&version(n), Moment::now(), &digest(n));
            assert_eq!(run.find(&version(n)), Some(digest(n)));
        }
        assert!(others(version(7)).iter().all(|other| run.find(other).is_none()));
        assert_eq!(open().find(&version(many - 1)), None, "it waits");
        run.note(&long, Moment::now(), &digest(0));
        assert_eq!(open().find(&long), Some(digest(0)), "too much to read again");
        run.note(&version(many), Moment::now(), &digest(many));
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
            run.note(&version, Moment::now(), &digest(version.len));
        }
        assert_eq!([version(7), later].map(|version| run.find(&version).is_some()), [false, true]);
    }

    #[test]
    fn a_full_table_takes_the_newest() {
        let most = 2 * FIRST_BUCKETS * super::super::BUCKET_BYTES as u64;
        let cache = small(most);
        let room = most / super::super::SLOT_BYTES as u64;
        let begun = |n| Moment(Duration::from_secs(1_000_000 + n));
        for n in (0..3 * room).step_by(100) {
            let slots = (n..n + 100).map(|n| slot_of(&version(n), begun(n), &digest(n)));
            cache.write_all(slots.collect());
        }
        let kept = |range: std::ops::Range<u64>| {
            range.filter(|n| cache.find(&version(*n)) == Some(digest(*n))).count() as u64
        };
        assert!(kept(5 * room / 2..3 * room) > room * 2 / 5);
        assert!(kept(0..room) < room / 20);
    }
}
