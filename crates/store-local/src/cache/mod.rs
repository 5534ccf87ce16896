//! Facts about files that are kept between runs outside of every tree: digests of whole files, recipes of large files,
//! and [bases](Bases); and notes on [other machines](HostNotes).
//!
//! [`LocalFacts`] combines all of these in a [`FactStore`](deltic_store::FactStore). Each answer equals the result of
//! reading the file, as that trait demands; otherwise there is no answer. A damaged or missing cache has no facts; no
//! call fails.
//!
//! Digests are in one file, a hash table of buckets. The hash is of device and inode (docs/decisions/0023):
//!
//! ```text
//! bucket = the lowest bits of the hash    the number of buckets is a power of two and follows from the file's length
//! slot   = version, digest, time of the note, checksum of the slot    a free slot is all zeros
//! ```
//!
//! Other bits of the hash choose the first slot within the bucket. A note goes to the first free slot of the next
//! `NEAR_SLOTS`, or to any free slot of the bucket. One call reads or writes these slots, or the bucket.
//!
//! The table is neither locked nor flushed. A slot that two processes wrote at once, or that a power cut tore, has a
//! wrong checksum and counts as free. A note that another process overwrites is lost. When a bucket is full, the
//! table grows to twice its length, and half of the slots of each bucket move to a new bucket. At the greatest
//! length, the oldest slot of a full bucket is overwritten.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_core::Digest;
use deltic_store::{Moment, SettledVersion, Version};
use deltic_tree::Name;
use deltic_tree::meta::Inode;
use rustix::fs::{self, OFlags};
use rustix::io;

use crate::handles::dir::Dir;
use crate::kernel::read_write::read_at;

mod bases;
mod facts;
mod hosts;
mod notes;
mod recent;
mod recipes;
mod run;

pub use bases::Bases;
pub use facts::{LONGEST_UNKEPT_BYTES, LocalFacts};
pub use hosts::HostNotes;
pub use recent::RecipeCache;

/// Digests of files that any process of this user read, in this run or before.
#[derive(Debug)]
pub struct Cache {
    table: OwnedFd,
    /// Greatest length of the table in bytes.
    most: u64,
    /// Number of buckets at the last look at the file's length.
    seen: AtomicU64,
}

/// Key of a version, and the greatest age of its note.
type SlotKey<'a> = (&'a [u8; KEY_BYTES], Option<Duration>);

/// A note about a file, as stored in the table.
type Slot = [u8; SLOT_BYTES];

/// Offset in the table, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotPlace(u64);

/// The present time.
#[must_use]
pub fn now() -> Moment {
    Moment::since_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Cache {
    /// Opens the cache in the user's own directory `dir`, which is created if missing. `None` if the directory cannot
    /// keep a cache.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        Self::open_table(dir, TABLE_NAME, MAX_BYTES)
    }

    /// Opens the table `name` in `dir`, of at most `most` bytes.
    fn open_table(dir: &Path, name: &[u8], most: u64) -> Option<Self> {
        let dir = Dir::make_own_dir(dir).ok()?;
        let name = Name::new(name).ok()?;
        // A table that can only be opened for reading still serves lookups.
        let opened = dir.open_own(&name, OFlags::RDWR | OFlags::CREATE);
        let table = opened.or_else(|_| dir.open_own(&name, OFlags::RDONLY)).ok()?;
        Some(Self::of(table, most))
    }

    fn of(table: OwnedFd, most: u64) -> Self {
        let cache = Self { table, most, seen: AtomicU64::new(0) };
        if cache.buckets().is_none() {
            // Other bytes are not a table of this program. If the file cannot grow, the table stays empty.
            fs::ftruncate(&cache.table, FIRST_BUCKETS * BUCKET_BYTES as u64).ok();
        }
        cache
    }

    /// Reads the length of the table again: another process may have enlarged the table and so moved slots.
    pub fn refresh_length(&self) {
        self.buckets();
    }

    /// Returns the digest of this version, if known.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Digest> {
        self.find_within(version, None)
    }

    /// Returns the digest of this version, if the digest was noted less than `max_age` ago.
    fn find_within(&self, version: &Version, max_age: Option<Duration>) -> Option<Digest> {
        let key = (&key_of(version), max_age);
        let mut near = [0; NEAR_SLOTS * SLOT_BYTES];
        if self.read_near(file_of(version), &mut near).is_some() {
            let found = find_in(&near, key);
            // Notes go to near slots first, so with a free near slot no other slot has the note.
            if found.is_some() || near.chunks_exact(SLOT_BYTES).any(is_free) {
                return found;
            }
        }
        self.find_anywhere(file_of(version), key)
    }

    /// Reads the near slots of a file, and returns their place.
    fn read_near(
        &self,
        inode: Inode,
        near: &mut [u8; NEAR_SLOTS * SLOT_BYTES],
    ) -> Option<SlotPlace> {
        let buckets = Some(self.seen.load(Ordering::Relaxed)).filter(|buckets| *buckets > 0)?;
        let start = bucket_of(inode, buckets).0 + (first_slot(inode) * SLOT_BYTES) as u64;
        (read_at(&self.table, start, near).ok()? == near.len()).then_some(SlotPlace(start))
    }

    fn find_anywhere(&self, inode: Inode, key: SlotKey<'_>) -> Option<Digest> {
        let mut bucket = [0; BUCKET_BYTES];
        self.read_bucket(bucket_of(inode, self.buckets()?), &mut bucket)?;
        find_in(&bucket, key)
    }

    /// Notes the digest of a version.
    pub fn note_digest(&self, version: &SettledVersion, digest: &Digest) {
        self.write_slot_for(&slot_of(version, digest));
    }

    /// Writes a slot to a place where [`find`](Self::find) will look.
    fn write_slot_for(&self, slot: &Slot) {
        let inode = inode_of(slot);
        let mut near = [0; NEAR_SLOTS * SLOT_BYTES];
        if let Some(place) = self.read_near(inode, &mut near)
            && let Some(at) = near.chunks_exact(SLOT_BYTES).position(is_free)
        {
            let same =
                near.chunks_exact(SLOT_BYTES).position(|old| old.starts_with(&slot[..INODE_BYTES]));
            return self.write_slot(place, same.unwrap_or(at), slot);
        }
        let mut bucket = [0; BUCKET_BYTES];
        for _ in 0..MAX_TRIES {
            let Some(buckets) = self.buckets() else { return };
            let place = bucket_of(inode, buckets);
            if self.read_bucket(place, &mut bucket).is_none() {
                return;
            }
            if let Some(at) = free_slot(&bucket, slot) {
                return self.write_slot(place, at, slot);
            }
            match self.slot_to_overwrite(&bucket) {
                Some(at) => return self.write_slot(place, at, slot),
                None => self.grow(),
            }
        }
    }

    /// Writes many slots, grouped by bucket.
    fn write_all(&self, mut slots: Vec<Slot>) {
        for _ in 0..MAX_TRIES {
            let Some(buckets) = self.buckets().filter(|_| !slots.is_empty()) else { return };
            let place = |slot: &Slot| bucket_of(inode_of(slot), buckets);
            slots.sort_unstable_by_key(|slot| place(slot).0);
            let groups = slots.chunk_by(|one, next| place(one) == place(next));
            let left: Vec<_> =
                groups.flat_map(|group| self.put_group(place(&group[0]), group)).collect();
            if buckets * 2 * BUCKET_BYTES as u64 > self.most {
                return left.iter().for_each(|slot| self.write_slot_for(slot));
            }
            if !left.is_empty() {
                self.grow();
            }
            slots = left;
        }
    }

    /// Writes slots of one bucket. Returns the slots that the bucket has no room for.
    fn put_group(&self, place: SlotPlace, group: &[Slot]) -> Vec<Slot> {
        if let [slot] = group {
            self.write_slot_for(slot);
            return Vec::new();
        }
        let (mut bucket, mut left) = ([0; BUCKET_BYTES], Vec::new());
        if self.read_bucket(place, &mut bucket).is_some() {
            for slot in group {
                match free_slot(&bucket, slot) {
                    Some(at) => bucket[at * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(slot),
                    None => left.push(*slot),
                }
            }
            self.write_slot(place, 0, &bucket);
        }
        left
    }

    /// Returns the number of buckets; `None` if the file is not a table.
    fn buckets(&self) -> Option<u64> {
        let bytes = u64::try_from(fs::fstat(&self.table).ok()?.st_size).ok()?.min(self.most);
        let buckets = bytes / BUCKET_BYTES as u64;
        let buckets = (buckets >= FIRST_BUCKETS).then(|| 1 << buckets.ilog2());
        self.seen.store(buckets.unwrap_or(0), Ordering::Relaxed);
        buckets
    }

    /// Reads a bucket. `None` if the bucket cannot be read, or is not in the file.
    fn read_bucket(&self, place: SlotPlace, bucket: &mut [u8; BUCKET_BYTES]) -> Option<()> {
        let got = read_at(&self.table, place.0, bucket).ok()?;
        (got == BUCKET_BYTES).then_some(())
    }

    /// Writes a slot. If the disk is full, the note is lost.
    fn write_slot(&self, place: SlotPlace, at: usize, slot: &[u8]) {
        io::pwrite(&self.table, slot, place.0 + (at * SLOT_BYTES) as u64).ok();
    }

    /// Returns the slot to overwrite in a full bucket; `None` while the table can grow.
    fn slot_to_overwrite(&self, bucket: &[u8; BUCKET_BYTES]) -> Option<usize> {
        let full = self.buckets()? * 2 * BUCKET_BYTES as u64 > self.most;
        let slots = bucket.chunks_exact(SLOT_BYTES).enumerate();
        let oldest = slots.min_by_key(|(_, slot)| noted_at(slot));
        oldest.filter(|_| full).map(|(at, _)| at)
    }

    /// Doubles the table. Two processes that do so at once may make the table four times as long.
    fn grow(&self) {
        let Some(buckets) = self.buckets() else { return };
        if fs::ftruncate(&self.table, buckets * 2 * BUCKET_BYTES as u64).is_ok() {
            (0..buckets).for_each(|bucket| _ = self.move_slots(bucket, buckets));
        }
    }

    /// Moves slots to the new bucket that they belong to, after the number of `buckets` was doubled.
    fn move_slots(&self, bucket: u64, buckets: u64) -> Option<()> {
        let [low, high] = [bucket, bucket + buckets].map(|no| SlotPlace(no * BUCKET_BYTES as u64));
        let (mut all, mut goes) = ([0; BUCKET_BYTES], [0; BUCKET_BYTES]);
        self.read_bucket(low, &mut all)?;
        self.read_bucket(high, &mut goes)?;
        let mut stays = [0; BUCKET_BYTES];
        for slot in all.chunks_exact(SLOT_BYTES).filter(|slot| !is_free(slot)) {
            let is_high = bucket_of(inode_of(slot), 2 * buckets) == high;
            let to = if is_high { &mut goes } else { &mut stays };
            if let Some(at) = free_slot_for(to, inode_of(slot)) {
                to[at * SLOT_BYTES..][..SLOT_BYTES].copy_from_slice(slot);
            }
        }
        // A crash between the two writes leaves some slots in both buckets, which does no harm.
        self.write_slot(high, 0, &goes);
        self.write_slot(low, 0, &stays);
        Some(())
    }
}

/// The digest in the first of these slots that has the key and is sound and young enough.
fn find_in(slots: &[u8], (key, max_age): SlotKey<'_>) -> Option<Digest> {
    // The inode numbers are compared first, since device numbers differ less often.
    let number = &key[8..INODE_BYTES];
    let slots = slots.chunks_exact(SLOT_BYTES);
    let mut slots = slots.filter(|slot| slot[8..INODE_BYTES] == *number && slot.starts_with(key));
    let slot = slots.find(|slot| has_valid_checksum(slot))?;
    let is_young = max_age.is_none() || now().is_within(max_age, noted_at(slot).into());
    let digest = slot[KEY_BYTES..].first_chunk().copied().map(Digest::from_bytes);
    digest.filter(|_| is_young)
}

/// Returns the place of a file's bucket, in a table of so many buckets.
const fn bucket_of(inode: Inode, buckets: u64) -> SlotPlace {
    SlotPlace((hash_of(inode) & (buckets - 1)) * BUCKET_BYTES as u64)
}

/// Returns the index, in its bucket, of the first of the [`NEAR_SLOTS`] slots to try for a file.
const fn first_slot(inode: Inode) -> usize {
    // The slot depends on other bits of the hash than the bucket.
    (hash_of(inode) >> 32) as usize % (BUCKET_BYTES / SLOT_BYTES - NEAR_SLOTS + 1)
}

/// Returns the second at which a slot was noted.
fn noted_at(slot: &[u8]) -> u32 {
    slot[NOTED_AT..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// Returns the index of a slot that `slot` may overwrite: a note of the same file, or a free slot.
fn free_slot(bucket: &[u8; BUCKET_BYTES], slot: &[u8]) -> Option<usize> {
    let inode = &slot[..INODE_BYTES];
    let slots = || bucket.chunks_exact(SLOT_BYTES);
    let same = slots().position(|slot| slot.starts_with(inode));
    same.or_else(|| free_slot_for(bucket, inode_of(slot)))
        .or_else(|| slots().position(|slot| !has_valid_checksum(slot)))
}

/// Returns a free slot for this file.
fn free_slot_for(bucket: &[u8; BUCKET_BYTES], inode: Inode) -> Option<usize> {
    let slots = || bucket.chunks_exact(SLOT_BYTES);
    let first = first_slot(inode);
    let near = slots().skip(first).take(NEAR_SLOTS).position(is_free).map(|at| first + at);
    near.or_else(|| slots().position(is_free))
}

fn is_free(slot: &[u8]) -> bool {
    slot.iter().all(|byte| *byte == 0)
}

/// Returns device and inode of a local file, from the version's token.
fn file_of(version: &Version) -> Inode {
    let (words, _) = version.token.0.as_chunks();
    let word = |at: usize| u64::from_le_bytes(words[at]) ^ u64::from_le_bytes(words[at + 2]);
    Inode { device: word(0), number: word(1) }
}

/// Returns the bytes of a version, starting with device and inode.
fn key_of(version: &Version) -> [u8; KEY_BYTES] {
    let Version { len, modified, changed, .. } = *version;
    let Inode { device, number } = file_of(version);
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

fn inode_of(slot: &[u8]) -> Inode {
    let word = |at: usize| slot[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
    Inode { device: word(0), number: word(8) }
}

/// Returns the slot with a note.
fn slot_of(version: &SettledVersion, digest: &Digest) -> Slot {
    let mut slot = [0; SLOT_BYTES];
    slot[..KEY_BYTES].copy_from_slice(&key_of(version.version()));
    slot[KEY_BYTES..NOTED_AT].copy_from_slice(digest.as_bytes());
    let secs = u32::try_from(version.begun().elapsed().as_secs()).unwrap_or(u32::MAX);
    slot[NOTED_AT..CHECK_AT].copy_from_slice(&secs.to_le_bytes());
    let check = checksum_of(&slot);
    slot[CHECK_AT..].copy_from_slice(&check);
    slot
}

fn has_valid_checksum(slot: &[u8]) -> bool {
    slot[CHECK_AT..] == checksum_of(slot)
}

fn checksum_of(slot: &[u8]) -> [u8; CHECK_BYTES] {
    let sum = blake3::hash(&slot[..CHECK_AT]);
    *sum.as_bytes().first_chunk().expect("a sum is longer than a check")
}

/// Spreads files over buckets, although files that are created together have consecutive inode numbers. This is the
/// last step of SplitMix64.
const fn hash_of(Inode { device, number }: Inode) -> u64 {
    let mut hash = number ^ device.rotate_left(32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Name of the table. Another format gets another name, so older programs neither read nor damage the table.
const TABLE_NAME: &[u8] = b"digests-1";
/// Greatest length of a table in bytes. Buckets without notes are holes.
const MAX_BYTES: u64 = 1 << 30;
const FIRST_BUCKETS: u64 = 64;
/// Most attempts to find room in a bucket. The table grows before each further attempt, but other processes may take
/// the new room.
const MAX_TRIES: usize = 32;
const BUCKET_BYTES: usize = 8192;
/// Slots that one call reads first, since a note is most likely there.
const NEAR_SLOTS: usize = 8;
const INODE_BYTES: usize = 16;
const KEY_BYTES: usize = 48;
const NOTED_AT: usize = KEY_BYTES + 32;
const CHECK_AT: usize = NOTED_AT + 4;
const CHECK_BYTES: usize = 8;
const SLOT_BYTES: usize = CHECK_AT + CHECK_BYTES;

#[cfg(test)]
mod tests;
