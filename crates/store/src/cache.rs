//! What is known of files without reading them again: digests of whole files, kept between runs outside of every tree.
//!
//! The law: an answer is what reading the file would give, or there is none. A [`Version`] is what an answer is found by, and
//! what is changed within a tick of the clock before it was read is not noted at all ([`Moment`]), as git holds it with what it
//! calls racy entries. Whatever is wrong with the cache, the file is read: no call here fails.
//!
//! It is one file, a table whose buckets are found by a hash of device and inode (docs/decisions/0023):
//!
//! ```text
//! bucket = the lowest bits of the hash, as many as there are buckets      both are powers of two; the file's length says it
//! slot   = version, digest, when it was noted, check of all that           all zeros: free
//! ```
//!
//! A slot is written by one call and read with its bucket by one. Nothing is locked and nothing flushed: a slot that two
//! processes wrote at once, or that a power cut tore, does not have its check, and is free. A table of which a bucket gets
//! full grows to twice its length, by which no slot moves: what is not in the bucket of the larger table is looked for in
//! those of the smaller ones that it was. From a full bucket they move then to where they would be noted now. At the greatest
//! length its oldest slot goes.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltic_core::{Digest, Name, Timestamp};
use rustix::fs::{self, OFlags};
use rustix::io;

use crate::dir::Dir;
use crate::local::{Version, read_at};

/// Digests of files that were read in this run or in one before, by any process of this user.
#[derive(Debug)]
pub struct Cache {
    table: OwnedFd,
    /// Most bytes of it.
    most: u64,
}

/// When the reading of a file began, or a moment before.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Duration);

/// Where in the table something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64);

impl Moment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Whether a change from now on gives the file another time than it has. The file system may count in seconds: then
    /// there are no others.
    fn is_past(self, changed: Timestamp) -> bool {
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
        let dir = Dir::make_own(dir).ok()?;
        let name = Name::new(TABLE_NAME).ok()?;
        // Where it cannot be written, what is in it is known all the same.
        let opened = dir.open_own(&name, OFlags::RDWR | OFlags::CREATE);
        let table = opened.or_else(|_| dir.open_own(&name, OFlags::RDONLY)).ok()?;
        Some(Self::of(table, MAX_BYTES))
    }

    fn of(table: OwnedFd, most: u64) -> Self {
        let cache = Self { table, most };
        if cache.buckets().is_none() {
            // What is left there is none of ours; where it cannot grow, it stays empty.
            fs::ftruncate(&cache.table, FIRST_BUCKETS * BUCKET_BYTES as u64).ok();
        }
        cache
    }

    /// The digest of this version, if it is known.
    #[must_use]
    pub fn find(&self, version: &Version) -> Option<Digest> {
        let key = key_of(version);
        let mut bucket = [0; BUCKET_BYTES];
        for place in self.places(version.inode) {
            self.read(place, &mut bucket)?;
            let mut slots = bucket.chunks_exact(SLOT_BYTES).filter(|slot| slot.starts_with(&key));
            if let Some(slot) = slots.find(|slot| is_sound(slot)) {
                return slot[KEY_BYTES..].first_chunk().copied().map(Digest::from_bytes);
            }
        }
        None
    }

    /// Notes the digest of this version, which was read from `begun` on and did not change meanwhile; unless it changed so
    /// shortly before that another change could look the same.
    pub fn note(&self, version: &Version, begun: Moment, digest: &Digest) {
        if !begun.is_past(version.changed) {
            return;
        }
        let slot = slot_of(version, begun, digest);
        let mut bucket = [0; BUCKET_BYTES];
        for _ in 0..MAX_TRIES {
            let Some(place) = self.places(version.inode).next() else { return };
            if self.read(place, &mut bucket).is_none() {
                return;
            }
            if let Some(at) = free_slot(&bucket, &slot) {
                return self.write(place, at, &slot);
            }
            if self.spread(place, &bucket) {
                continue;
            }
            match self.oldest(&bucket) {
                Some(at) => return self.write(place, at, &slot),
                None => self.grow(),
            }
        }
    }

    /// How many buckets there are; `None` if it is no table.
    fn buckets(&self) -> Option<u64> {
        let bytes = u64::try_from(fs::fstat(&self.table).ok()?.st_size).ok()?.min(self.most);
        let buckets = bytes / BUCKET_BYTES as u64;
        (buckets >= FIRST_BUCKETS).then(|| 1 << buckets.ilog2())
    }

    /// Where versions of a file may stand, that of the present length first.
    fn places(&self, inode: (u64, u64)) -> impl Iterator<Item = Place> + use<> {
        let hash = hash_of(inode);
        let halves = |buckets: &u64| Some(buckets / 2).filter(|half| *half >= FIRST_BUCKETS);
        let mut last = None;
        std::iter::successors(self.buckets(), halves).filter_map(move |buckets| {
            let place = Place((hash & (buckets - 1)) * BUCKET_BYTES as u64);
            (last.replace(place) != Some(place)).then_some(place)
        })
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

    /// Moves what would be noted elsewhere since the table grew; whether there is room now.
    fn spread(&self, place: Place, bucket: &[u8; BUCKET_BYTES]) -> bool {
        let mut other = [0; BUCKET_BYTES];
        let mut has_room = false;
        for (at, slot) in bucket.chunks_exact(SLOT_BYTES).enumerate() {
            let to = self.places(inode_of(slot)).next().filter(|to| *to != place);
            if let Some(to) = to
                && self.read(to, &mut other).is_some()
                && let Some(free) = free_slot(&other, slot)
            {
                self.write(to, free, slot);
                self.write(place, at, &[0; SLOT_BYTES]);
                has_room = true;
            }
        }
        has_room
    }

    /// The slot that goes where none is free and the table cannot grow.
    fn oldest(&self, bucket: &[u8; BUCKET_BYTES]) -> Option<usize> {
        let full = self.buckets()? * 2 * BUCKET_BYTES as u64 > self.most;
        let noted = |slot: &[u8]| slot[NOTED_AT..].first_chunk().copied().map(u32::from_le_bytes);
        let slots = bucket.chunks_exact(SLOT_BYTES).enumerate();
        let oldest = slots.min_by_key(|(_, slot)| noted(slot));
        oldest.filter(|_| full).map(|(at, _)| at)
    }

    /// Makes the table twice as long. Two processes that do it at once may do it twice.
    fn grow(&self) {
        let Some(buckets) = self.buckets() else { return };
        fs::ftruncate(&self.table, buckets * 2 * BUCKET_BYTES as u64).ok();
    }
}

/// Where `slot` may be written: over a former version of the same file, or where it is free.
fn free_slot(bucket: &[u8; BUCKET_BYTES], slot: &[u8]) -> Option<usize> {
    let inode = &slot[..INODE_BYTES];
    let slots = || bucket.chunks_exact(SLOT_BYTES);
    let same = slots().position(|slot| slot.starts_with(inode));
    let free = || slots().position(|slot| slot.iter().all(|byte| *byte == 0));
    same.or_else(free).or_else(|| slots().position(|slot| !is_sound(slot)))
}

/// Device and inode, then the rest.
fn key_of(version: &Version) -> [u8; KEY_BYTES] {
    let Version { inode: (device, number), len, modified, changed, .. } = *version;
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

fn slot_of(version: &Version, begun: Moment, digest: &Digest) -> [u8; SLOT_BYTES] {
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
