//! What is known of files without reading them again, kept between runs outside of every tree: digests of whole files, and
//! [recipes](Recipes) of large ones.
//!
//! The law: an answer is what reading the file would give, or there is none. A [`Version`] is what an answer is found by, and
//! what is changed within a tick of the clock before it was read is not noted at all ([`Moment`]), as git holds it with what it
//! calls racy entries. Whatever is wrong with the cache, the file is read: no call here fails.
//!
//! Digests are in one file, a table whose buckets are found by a hash of device and inode (docs/decisions/0023):
//!
//! ```text
//! bucket = the lowest bits of the hash, as many as there are buckets      both are powers of two; the file's length says it
//! slot   = version, digest, when it was noted, check of all that           all zeros: free
//! ```
//!
//! Where in a bucket is told by other bits of the hash: the first free one of a few slots from there on, and if none is, any.
//! A slot is written by one call, alone or with its bucket, and read by one with those few, or with its bucket. Nothing is locked and nothing
//! flushed: a slot that two processes wrote at once, or that a power cut tore, does not have its check, and is free; what
//! one writes over that another noted meanwhile is not known, and no more. A table of which a bucket gets full grows to
//! twice its length, and each bucket gives half of its slots to a new one. At the greatest length its oldest slot goes.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_core::Digest;
use deltic_tree::{Name, Timestamp};
use rustix::fs::{self, OFlags};
use rustix::io;

use crate::copy::read_at;
use crate::dir::Dir;
use deltic_store::Version;

mod bases;
mod notes;
mod recent;
mod recipes;
mod run;

pub use bases::{Bases, Noted, SumsNote};
pub use recent::RecipeCache;
pub use recipes::Recipes;
pub use run::RunCache;

/// Digests of files that were read in this run or in one before, by any process of this user.
#[derive(Debug)]
pub struct Cache {
    table: OwnedFd,
    /// Most bytes of it.
    most: u64,
    /// How many buckets there were when that was looked at last.
    seen: AtomicU64,
    /// How long ago a file may have been read; `None`: however long.
    max_age: Option<Duration>,
}

/// When the reading of a file began, or a moment before.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Duration);

/// A note on a file, as it stands in the table.
type Slot = [u8; SLOT_BYTES];

/// Where in the table something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64);

impl Moment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Whether what was noted at this second is young enough. What was noted in the future has no age that we know.
    fn is_within(self, max_age: Option<Duration>, noted: u32) -> bool {
        let age = self.0.as_secs().checked_sub(noted.into()).map(Duration::from_secs);
        max_age.is_none_or(|max_age| age.is_some_and(|age| age < max_age))
    }

    /// True if a change from now on gives the file another time than it has. The file system may count in seconds:
    /// then there are no others.
    #[must_use]
    pub fn is_past(self, changed: Timestamp) -> bool {
        let tick = if changed.nanos == 0 { COARSE_TICK } else { FINE_TICK };
        let secs = u64::try_from(changed.secs).unwrap_or(0);
        Duration::new(secs, 0).saturating_add(Duration::from_nanos(changed.nanos.into()) + tick)
            <= self.0
    }
}

impl Cache {
    /// Opens the cache in the directory `dir` of the user's own, which is made if it is not there. `None` where there can be
    /// none: then nothing is known, and nothing is noted.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        Self::open_table(dir, TABLE_NAME, MAX_BYTES)
    }

    /// The same with the table of this name, of at most so many bytes.
    fn open_table(dir: &Path, name: &[u8], most: u64) -> Option<Self> {
        let dir = Dir::make_own(dir).ok()?;
        let name = Name::new(name).ok()?;
        // Where it cannot be written, what is in it is known all the same.
        let opened = dir.open_own(&name, OFlags::RDWR | OFlags::CREATE);
        let table = opened.or_else(|_| dir.open_own(&name, OFlags::RDONLY)).ok()?;
        Some(Self::of(table, most))
    }

    fn of(table: OwnedFd, most: u64) -> Self {
        let cache = Self { table, most, seen: AtomicU64::new(0), max_age: None };
        if cache.buckets().is_none() {
            // What is left there is none of ours; where it cannot grow, it stays empty.
            fs::ftruncate(&cache.table, FIRST_BUCKETS * BUCKET_BYTES as u64).ok();
        }
        cache
    }

    /// The same, believing nothing of what was read longer ago.
    #[must_use]
    pub fn no_older_than(self, max_age: Option<Duration>) -> Self {
        Self { max_age, ..self }
    }

    /// Sees whether another process made the table longer. Until then, what stands elsewhere since is not known.
    pub fn refresh(&self) {
        self.buckets();
    }

    /// The digest of this version, if it is known.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Digest> {
        let key = key_of(version);
        let mut near = [0; NEAR_SLOTS * SLOT_BYTES];
        if self.read_near(file_of(version), &mut near).is_some() {
            let found = self.find_in(&near, &key);
            // While one of these is free, it stands nowhere else.
            if found.is_some() || near.chunks_exact(SLOT_BYTES).any(is_free) {
                return found;
            }
        }
        self.find_anywhere(file_of(version), &key)
    }

    /// Reads the slots where most stand; where they begin.
    fn read_near(
        &self,
        inode: (u64, u64),
        near: &mut [u8; NEAR_SLOTS * SLOT_BYTES],
    ) -> Option<Place> {
        let buckets = Some(self.seen.load(Ordering::Relaxed)).filter(|buckets| *buckets > 0)?;
        let start = place_of(inode, buckets).0 + (first_slot(inode) * SLOT_BYTES) as u64;
        (read_at(&self.table, start, near).ok()? == near.len()).then_some(Place(start))
    }

    fn find_anywhere(&self, inode: (u64, u64), key: &[u8; KEY_BYTES]) -> Option<Digest> {
        let mut bucket = [0; BUCKET_BYTES];
        self.read(place_of(inode, self.buckets()?), &mut bucket)?;
        self.find_in(&bucket, key)
    }

    fn find_in(&self, slots: &[u8], key: &[u8; KEY_BYTES]) -> Option<Digest> {
        // Files of one device differ by their numbers: these are looked at first.
        let number = &key[8..INODE_BYTES];
        let slots = slots.chunks_exact(SLOT_BYTES);
        let mut slots =
            slots.filter(|slot| slot[8..INODE_BYTES] == *number && slot.starts_with(key));
        let slot = slots.find(|slot| is_sound(slot))?;
        let is_young = Moment::now().is_within(self.max_age, noted_at(slot));
        let digest = slot[KEY_BYTES..].first_chunk().copied().map(Digest::from_bytes);
        digest.filter(|_| is_young)
    }

    /// Notes the digest of what was put in place as this version, which began at `begun`.
    ///
    /// A change right behind that may leave it the same ctime. But who writes to it gives it another time of modification,
    /// unless that is the present too: then nothing is noted.
    pub fn note_written(&self, version: &Version, begun: Moment, digest: &Digest) {
        slot_of_written(version, begun, digest).inspect(|slot| self.put(slot));
    }

    /// Writes a slot where it will be looked for.
    fn put(&self, slot: &Slot) {
        let inode = inode_of(slot);
        let mut near = [0; NEAR_SLOTS * SLOT_BYTES];
        if let Some(place) = self.read_near(inode, &mut near)
            && let Some(at) = near.chunks_exact(SLOT_BYTES).position(is_free)
        {
            let same =
                near.chunks_exact(SLOT_BYTES).position(|old| old.starts_with(&slot[..INODE_BYTES]));
            return self.write(place, same.unwrap_or(at), slot);
        }
        let mut bucket = [0; BUCKET_BYTES];
        for _ in 0..MAX_TRIES {
            let Some(buckets) = self.buckets() else { return };
            let place = place_of(inode, buckets);
            if self.read(place, &mut bucket).is_none() {
                return;
            }
            if let Some(at) = free_slot(&bucket, slot) {
                return self.write(place, at, slot);
            }
            match self.oldest(&bucket) {
                Some(at) => return self.write(place, at, slot),
                None => self.grow(),
            }
        }
    }

    /// Writes many slots, those of a bucket together.
    fn write_all(&self, mut slots: Vec<Slot>) {
        for _ in 0..MAX_TRIES {
            let Some(buckets) = self.buckets().filter(|_| !slots.is_empty()) else { return };
            let place = |slot: &Slot| place_of(inode_of(slot), buckets);
            slots.sort_unstable_by_key(|slot| place(slot).0);
            let groups = slots.chunk_by(|one, next| place(one) == place(next));
            let left: Vec<_> =
                groups.flat_map(|group| self.put_group(place(&group[0]), group)).collect();
            if buckets * 2 * BUCKET_BYTES as u64 > self.most {
                return left.iter().for_each(|slot| self.put(slot));
            }
            if !left.is_empty() {
                self.grow();
            }
            slots = left;
        }
    }

    /// Writes slots of one bucket; those that it has no room for.
    fn put_group(&self, place: Place, group: &[Slot]) -> Vec<Slot> {
        if let [slot] = group {
            self.put(slot);
            return Vec::new();
        }
        let (mut bucket, mut left) = ([0; BUCKET_BYTES], Vec::new());
        if self.read(place, &mut bucket).is_some() {
            for slot in group {
                match free_slot(&bucket, slot) {
                    Some(at) => bucket[at * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(slot),
                    None => left.push(*slot),
                }
            }
            self.write(place, 0, &bucket);
        }
        left
    }

    /// How many buckets there are; `None` if it is no table.
    fn buckets(&self) -> Option<u64> {
        let bytes = u64::try_from(fs::fstat(&self.table).ok()?.st_size).ok()?.min(self.most);
        let buckets = bytes / BUCKET_BYTES as u64;
        let buckets = (buckets >= FIRST_BUCKETS).then(|| 1 << buckets.ilog2());
        self.seen.store(buckets.unwrap_or(0), Ordering::Relaxed);
        buckets
    }

    /// Reads a bucket; `None` where it cannot be read, or is gone.
    fn read(&self, place: Place, bucket: &mut [u8; BUCKET_BYTES]) -> Option<()> {
        let got = read_at(&self.table, place.0, bucket).ok()?;
        (got == BUCKET_BYTES).then_some(())
    }

    /// Writes a slot. A full disk keeps nobody from syncing.
    fn write(&self, place: Place, at: usize, slot: &[u8]) {
        io::pwrite(&self.table, slot, place.0 + (at * SLOT_BYTES) as u64).ok();
    }

    /// The slot that goes where none is free and the table cannot grow.
    fn oldest(&self, bucket: &[u8; BUCKET_BYTES]) -> Option<usize> {
        let full = self.buckets()? * 2 * BUCKET_BYTES as u64 > self.most;
        let slots = bucket.chunks_exact(SLOT_BYTES).enumerate();
        let oldest = slots.min_by_key(|(_, slot)| noted_at(slot));
        oldest.filter(|_| full).map(|(at, _)| at)
    }

    /// Makes the table twice as long. Two processes that do it at once may do it twice.
    fn grow(&self) {
        let Some(buckets) = self.buckets() else { return };
        if fs::ftruncate(&self.table, buckets * 2 * BUCKET_BYTES as u64).is_ok() {
            (0..buckets).for_each(|bucket| _ = self.split(bucket, buckets));
        }
    }

    /// Moves what would be noted elsewhere, since there are no more than so many buckets any more but twice as many.
    fn split(&self, bucket: u64, buckets: u64) -> Option<()> {
        let [low, high] = [bucket, bucket + buckets].map(|no| Place(no * BUCKET_BYTES as u64));
        let (mut all, mut goes) = ([0; BUCKET_BYTES], [0; BUCKET_BYTES]);
        self.read(low, &mut all)?;
        self.read(high, &mut goes)?;
        let mut stays = [0; BUCKET_BYTES];
        for slot in all.chunks_exact(SLOT_BYTES).filter(|slot| !is_free(slot)) {
            let is_high = place_of(inode_of(slot), 2 * buckets) == high;
            let to = if is_high { &mut goes } else { &mut stays };
            if let Some(at) = vacant(to, inode_of(slot)) {
                to[at * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(slot);
            }
        }
        // What is in both is in one of them too many; what is in none is lost.
        self.write(high, 0, &goes);
        self.write(low, 0, &stays);
        Some(())
    }
}

/// Where versions of a file stand, where there are so many buckets.
const fn place_of(inode: (u64, u64), buckets: u64) -> Place {
    Place((hash_of(inode) & (buckets - 1)) * BUCKET_BYTES as u64)
}

/// The first of the slots of a bucket that something is noted in, while one of them is free.
const fn first_slot(inode: (u64, u64)) -> usize {
    // Other bits than those that say which bucket.
    (hash_of(inode) >> 32) as usize % (BUCKET_BYTES / SLOT_BYTES - NEAR_SLOTS + 1)
}

/// The second at which a slot was noted.
fn noted_at(slot: &[u8]) -> u32 {
    slot[NOTED_AT..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// Where `slot` may be written: over a former version of the same file, or where it is free.
fn free_slot(bucket: &[u8; BUCKET_BYTES], slot: &[u8]) -> Option<usize> {
    let inode = &slot[..INODE_BYTES];
    let slots = || bucket.chunks_exact(SLOT_BYTES);
    let same = slots().position(|slot| slot.starts_with(inode));
    same.or_else(|| vacant(bucket, inode_of(slot)))
        .or_else(|| slots().position(|slot| !is_sound(slot)))
}

/// A free slot for this file.
fn vacant(bucket: &[u8; BUCKET_BYTES], inode: (u64, u64)) -> Option<usize> {
    let slots = || bucket.chunks_exact(SLOT_BYTES);
    let first = first_slot(inode);
    let near = slots().skip(first).take(NEAR_SLOTS).position(is_free).map(|at| first + at);
    near.or_else(|| slots().position(is_free))
}

fn is_free(slot: &[u8]) -> bool {
    slot.iter().all(|byte| *byte == 0)
}

/// The token in two words. Of a local file: device and inode.
fn file_of(version: &Version) -> (u64, u64) {
    let (words, _) = version.token.0.as_chunks();
    let word = |at: usize| u64::from_le_bytes(words[at]) ^ u64::from_le_bytes(words[at + 2]);
    (word(0), word(1))
}

/// The file, then the rest.
fn key_of(version: &Version) -> [u8; KEY_BYTES] {
    let Version { len, modified, changed, .. } = *version;
    let (device, number) = file_of(version);
    let mut key = [0; KEY_BYTES];
    let (words, nanos) = key.split_at_mut(KEY_BYTES - 8);
    let values = [device, number, len, modified.secs as u64, changed.secs as u64];
    for (word, value) in words.chunks_exact_mut(8).zip(values) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    nanos[..4].copy_from_slice(&modified.nanos.to_le_bytes());
    nanos[4..].copy_from_slice(&changed.nanos.to_le_bytes());
    key
}

fn inode_of(slot: &[u8]) -> (u64, u64) {
    let word = |at: usize| slot[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
    (word(0), word(8))
}

/// A slot as [`RunCache::note`] says, if there is to be one.
fn slot_of_read(version: &Version, begun: Moment, digest: &Digest) -> Option<Slot> {
    begun.is_past(version.changed).then(|| slot_of(version, begun, digest))
}

/// A slot as [`Cache::note_written`] says, if there is to be one.
fn slot_of_written(version: &Version, begun: Moment, digest: &Digest) -> Option<Slot> {
    begun.is_past(version.modified).then(|| slot_of(version, begun, digest))
}

fn slot_of(version: &Version, begun: Moment, digest: &Digest) -> Slot {
    let mut slot = [0; SLOT_BYTES];
    slot[..KEY_BYTES].copy_from_slice(&key_of(version));
    slot[KEY_BYTES..NOTED_AT].copy_from_slice(digest.as_bytes());
    let secs = u32::try_from(begun.0.as_secs()).unwrap_or(u32::MAX);
    slot[NOTED_AT..CHECK_AT].copy_from_slice(&secs.to_le_bytes());
    let check = check_of(&slot);
    slot[CHECK_AT..].copy_from_slice(&check);
    slot
}

fn is_sound(slot: &[u8]) -> bool {
    slot[CHECK_AT..] == check_of(slot)
}

fn check_of(slot: &[u8]) -> [u8; CHECK_BYTES] {
    let sum = blake3::hash(&slot[..CHECK_AT]);
    *sum.as_bytes().first_chunk().expect("a sum is longer than a check")
}

/// Files that were made one after the other have numbers that follow each other: they are spread (the end of SplitMix64).
const fn hash_of((device, number): (u64, u64)) -> u64 {
    let mut hash = number ^ device.rotate_left(32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Another format has another name: older programs find nothing, and spoil nothing.
const TABLE_NAME: &[u8] = b"digests-1";
/// Of a table. It has holes where nothing was noted.
const MAX_BYTES: u64 = 1 << 30;
const FIRST_BUCKETS: u64 = 64;
/// How often a bucket is looked for room in: each time the table has grown, unless others take it.
const MAX_TRIES: usize = 32;
const BUCKET_BYTES: usize = 8192;
/// Read at once, where something most likely stands.
const NEAR_SLOTS: usize = 8;
const INODE_BYTES: usize = 16;
const KEY_BYTES: usize = 48;
const NOTED_AT: usize = KEY_BYTES + 32;
const CHECK_AT: usize = NOTED_AT + 4;
const CHECK_BYTES: usize = 8;
const SLOT_BYTES: usize = CHECK_AT + CHECK_BYTES;
/// What the clocks of file systems jump by: those that count in fractions of a second, and those that do not.
const FINE_TICK: Duration = Duration::from_millis(100);
const COARSE_TICK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
